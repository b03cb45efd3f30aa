//! Emergency calls: their numbers and services (RFC 5031), trunks, and the sites of callers.

use crate::config::network::Network;
use crate::{Config, Number};
use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;
use ringway_sip::{Scheme, Uri};

/// Emergency calls; without trunks there are none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Emergency {
    /// Numbers, at most 20; the first one is that of `urn:service:sos`.
    pub numbers: Vec<EmergencyNumber>,
    /// Numbers of services below it, such as `sos.police`, in lower case; at most 20.
    pub services: Vec<(String, String)>,
    /// Indices of the trunks, in the order of trial.
    pub trunks: Vec<usize>,
    /// Networks whose phones need no password for an emergency call.
    pub strangers: Vec<Network>,
    /// Sites of callers, at most 1,000; the first one that fits counts.
    pub sites: Vec<EmergencySite>,
}

/// Number of an emergency call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmergencyNumber {
    /// As it is dialled.
    pub dialled: String,
    /// As the trunk gets it.
    pub sent: String,
}

/// Site of callers, as emergency services see it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EmergencySite {
    /// Name in the log.
    pub name: String,
    /// Networks of its phones.
    pub networks: Vec<Network>,
    /// Users that are there, as `user@domain`, wherever they call from. Sorted.
    pub users: Vec<String>,
    /// Caller's number for calls from there; `None`: that of any call.
    pub caller: Option<String>,
    /// URI of the location, for Geolocation (RFC 6442).
    pub location: Option<String>,
}

impl Emergency {
    /// True if there are trunks for emergency calls.
    pub const fn is_on(&self) -> bool {
        cfg!(feature = "operator") && !self.trunks.is_empty()
    }

    /// True for `urn:service:sos` and the services below it.
    pub(crate) fn is_service(uri: &Uri<'_>) -> bool {
        uri.scheme() == Scheme::Other && service_of(uri).is_some()
    }

    /// Number that a trunk gets for a service (RFC 5031 §4.2): of one without a number that of the service above it.
    fn number_of_service(&self, service: &[u8]) -> Option<&str> {
        let mut name = service.to_ascii_lowercase();
        loop {
            if let Some((_, number)) = self.services.iter().find(|(other, _)| other.as_bytes() == name) {
                return Some(number);
            }
            match memchr::memrchr(b'.', &name) {
                Some(at) => name.truncate(at),
                None => return self.numbers.first().map(|number| number.sent.as_str()),
            }
        }
    }

    fn number_of_dialled(&self, dialled: &Number) -> Option<&str> {
        let is_it = |number: &&EmergencyNumber| number.dialled.as_bytes() == dialled.as_bytes();
        self.numbers.iter().find(is_it).map(|number| number.sent.as_str())
    }

    /// Site of a caller: by the user, or else by the address.
    pub(crate) fn site_of(&self, user: Option<&[u8]>, client: IpAddr) -> Option<&EmergencySite> {
        let has_user = |site: &&EmergencySite| {
            user.is_some_and(|user| site.users.binary_search_by(|own| own.as_bytes().cmp(user)).is_ok())
        };
        let has_address =
            |site: &&EmergencySite| site.networks.iter().any(|network| network.contains(client));
        let mut sites = self.sites.iter();
        sites.clone().find(has_user).or_else(|| sites.find(has_address))
    }

    /// True for an address whose phones need no password.
    pub(crate) fn lets_in(&self, client: IpAddr) -> bool {
        self.strangers.iter().any(|network| network.contains(client))
    }
}

impl Emergency {
    /// Number that a trunk gets for an emergency call to this URI; `None`: it is none.
    pub(crate) fn number_of(config: &Config, uri: &Uri<'_>) -> Option<Number> {
        let emergency = &config.trunking.emergency;
        let sent = match uri.scheme() {
            Scheme::Other => emergency.number_of_service(service_of(uri)?)?,
            Scheme::Sip | Scheme::Sips | Scheme::Tel => {
                let (number, context) = Number::of_uri(uri)?;
                // A phone may add the country or the area where it is to each number that it dials.
                let local = || emergency.number_of_dialled(&Number::without_context(uri)?);
                let sent = emergency.number_of_dialled(&number).or_else(local)?;
                let is_ours = |domain: &[u8]| {
                    config.domains.iter().any(|own| own.as_bytes().eq_ignore_ascii_case(domain))
                };
                if config.target_domain(uri).is_none() || context.is_some_and(|domain| !is_ours(domain)) {
                    return None;
                }
                sent
            }
        };
        Number::parse(sent.as_bytes())
    }
}

/// `sos`, or a service below it, of `urn:service:` (RFC 5031 §3); any case.
fn service_of<'u>(uri: &Uri<'u>) -> Option<&'u [u8]> {
    let (start, service) = uri.as_bytes().split_at_checked(URN.len())?;
    let (sos, below) = service.split_at_checked(SOS.len())?;
    let is_label = |label: &[u8]| {
        !label.is_empty() && label.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-')
    };
    let is_below = match below.split_first() {
        None => true,
        Some((b'.', labels)) => labels.split(|byte| *byte == b'.').all(is_label),
        Some(_) => false,
    };
    let is_it = start.eq_ignore_ascii_case(URN) && sos.eq_ignore_ascii_case(SOS) && is_below;
    is_it.then_some(service)
}

const URN: &[u8] = b"urn:service:";
const SOS: &[u8] = b"sos";

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn config() -> Config {
        let mut config = Config::for_domains(vec!["example.org".into()]);
        let number =
            |dialled: &str, sent: &str| EmergencyNumber { dialled: dialled.into(), sent: sent.into() };
        config.trunking.emergency = Emergency {
            numbers: vec![number("112", "112"), number("0112", "112"), number("911", "112")],
            services: vec![("sos.police".into(), "110".into())],
            trunks: vec![0],
            ..Emergency::default()
        };
        config
    }

    fn number(uri: &str) -> Option<Vec<u8>> {
        let uri = Uri::parse(uri.as_bytes()).unwrap();
        Emergency::number_of(&config(), &uri).map(|number| number.as_bytes().to_vec())
    }

    #[test]
    fn numbers_and_services_lead_to_the_number_of_the_trunk() {
        for (uri, expected) in [
            ("sip:112@example.org", Some("112")),
            ("sip:0112@example.org", Some("112")),
            ("sip:911@EXAMPLE.org;user=phone", Some("112")),
            ("tel:112;phone-context=example.org", Some("112")),
            ("tel:1-1-2;phone-context=example.org", Some("112")),
            ("urn:service:sos", Some("112")),
            ("URN:Service:SOS", Some("112")),
            ("urn:service:sos.police", Some("110")),
            ("urn:service:sos.POLICE.municipal", Some("110")),
            ("urn:service:sos.fire", Some("112")),
            ("urn:service:sosfire", None),
            ("urn:service:sos.", None),
            ("urn:service:sos..police", None),
            ("urn:service:counseling", None),
            ("urn:service:sos%2epolice", None),
            ("sip:112@other.example", None),
            ("sip:+112@example.org", None),
            ("sip:1121@example.org", None),
            ("tel:112;phone-context=other.example", None),
            ("tel:112;phone-context=+49", Some("112")),
            ("tel:1-1-2;phone-context=+49-30", Some("112")),
            ("sip:911;phone-context=+1@example.org;user=phone", Some("112")),
            ("sip:112;phone-context=+49@other.example;user=phone", None),
            ("sip:112;phone-context=+49@example.org", None),
            ("tel:+112;phone-context=+49", None),
            ("tel:113;phone-context=+49", None),
        ] {
            assert_eq!(number(uri).as_deref(), expected.map(str::as_bytes), "{uri}");
        }
    }

    #[test]
    fn a_user_has_its_site_wherever_it_calls_from() {
        let site = |name: &str, network: &str, user: &str| EmergencySite {
            name: name.into(),
            networks: vec![network.parse().unwrap()],
            users: vec![user.into()],
            ..EmergencySite::default()
        };
        let sites =
            vec![site("a", "192.0.2.0/25", "x@example.org"), site("b", "192.0.2.0/24", "y@example.org")];
        let emergency = Emergency { sites, ..Emergency::default() };
        for (user, client, expected) in [
            (Some("y@example.org"), "192.0.2.1", Some("b")),
            (Some("z@example.org"), "192.0.2.1", Some("a")),
            (None, "192.0.2.200", Some("b")),
            (None, "192.0.3.1", None),
        ] {
            let found = emergency.site_of(user.map(str::as_bytes), client.parse().unwrap());
            assert_eq!(found.map(|site| site.name.as_str()), expected);
        }
    }
}
