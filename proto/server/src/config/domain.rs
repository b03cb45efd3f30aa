//! Recognition of this server's own domains and addresses.

use crate::config::is_private;
use crate::{Aor, Config, Number};
use core::net::{IpAddr, SocketAddr};
use ringway_sansio::Flow;
use ringway_sip::{Host, Scheme, Uri};
use ringway_transaction::DEFAULT_PORT;

impl Config {
    /// Domain of `domains` that `uri` is in; `None` for any other URI.
    ///
    /// A domain name counts without a port or with a port of a listener, and with a dot at its end; an address counts if it is an address
    /// of a listener. The contact of a phone on the same machine is therefore not taken for the server.
    pub(crate) fn domain_of(&self, uri: &Uri<'_>) -> Option<&str> {
        self.domain_or_address(uri, || uri.host().ip())
    }

    /// The same; `ip` is the address of the host of `uri`, for callers that need it too.
    pub(crate) fn domain_or_address(
        &self,
        uri: &Uri<'_>,
        ip: impl FnOnce() -> Option<IpAddr>,
    ) -> Option<&str> {
        if !uri.is_sip() {
            return None;
        }
        let host = uri.host();
        // Neither a name nor an address counts with another port: most contacts have one.
        if let Some(port) = uri.port()
            && !self
                .listeners
                .iter()
                .any(|listener| listener.bound.port() == port || listener.advertised.port() == port)
        {
            return None;
        }
        let named = |host: Host<'_>| self.domains.iter().find(|domain| host.equals(domain.as_bytes()));
        if let Some(domain) = named(host) {
            return Some(domain);
        }
        if host.as_bytes().ends_with(b".") {
            return named(host.without_root_dot()).map(|domain| domain.as_str());
        }
        let address = SocketAddr::new(ip()?, uri.port().unwrap_or(DEFAULT_PORT));
        if self.is_own_address(address) { self.domains.first().map(|domain| domain.as_str()) } else { None }
    }

    /// Domain of `domains` that a request for `uri` is for: that of a SIP URI, and the first one for a `tel:` URI if there are
    /// routes.
    pub(crate) fn target_domain(&self, uri: &Uri<'_>) -> Option<&str> {
        match uri.scheme() {
            Scheme::Tel if self.trunking.is_on() => self.domains.first().map(|domain| domain.as_str()),
            Scheme::Sip | Scheme::Sips | Scheme::Tel | Scheme::Other => self.domain_of(uri),
        }
    }

    /// True if a From with `uri` shows a domain of `domains` to its reader: a different port or a dot at the end looks
    /// the same. Without a port it is the same.
    pub(crate) fn is_claimed_by(&self, uri: &Uri<'_>) -> bool {
        self.domain_of(uri).is_some() || (uri.port().is_some() && self.is_name_of_domain(uri))
    }

    fn is_name_of_domain(&self, uri: &Uri<'_>) -> bool {
        let host = uri.host().without_root_dot();
        uri.is_sip()
            && self.domains.iter().any(|domain| host.equals(domain.as_bytes()))
            && uri.host().ip().is_none()
    }

    /// True if a NAT may forward a public address to a listener: one has a private address that is not loopback.
    pub(crate) fn may_be_behind_translator(&self) -> bool {
        let mut addresses = self.listeners_in_use().map(|(_, listener)| listener.advertised.ip());
        addresses.any(|ip| is_private(ip) && !ip.is_loopback() && !ip.is_unspecified())
    }

    /// True for an address of a listener.
    pub(crate) fn is_own_address(&self, address: SocketAddr) -> bool {
        let address = Flow::canonical(address);
        self.listeners.iter().any(|listener| listener.is_at(address))
    }

    /// True if the sender at `source` is reachable at `contact`: the addresses are equal, or both are of this machine.
    pub(crate) fn is_same_host(&self, contact: IpAddr, source: IpAddr) -> bool {
        let contact = contact.to_canonical();
        contact == source
            || (self.machine_addresses.contains(&contact)
                && (source.is_loopback() || self.machine_addresses.contains(&source)))
    }

    /// Fills `aor` with the address-of-record of `uri`; false if that is not in `domains`.
    pub(crate) fn read_aor(&self, uri: &Uri<'_>, aor: &mut Aor) -> bool {
        let (Some(domain), Some(_)) = (self.domain_of(uri), uri.user()) else { return false };
        aor.set(|out| uri.unescaped_user_into(out), domain.as_bytes());
        true
    }

    /// The same for the target of a request, which may be a `tel:` URI.
    pub(crate) fn read_target(&self, uri: &Uri<'_>, aor: &mut Aor) -> bool {
        if uri.scheme() != Scheme::Tel {
            return self.read_aor(uri, aor);
        }
        let (Some(domain), Some((number, _))) = (self.target_domain(uri), Number::of_uri(uri)) else {
            return false;
        };
        aor.set(|out| out.extend_from_slice(number.as_bytes()), domain.as_bytes());
        true
    }
}
