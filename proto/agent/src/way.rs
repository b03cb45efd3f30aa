//! Where a request goes: the first hop of a URI, and names that were looked up.

use crate::{Account, ServerAddress};
use alloc::string::String;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use ringway_sansio::{Flow, Instant, Transport};
use ringway_sip::{Host, Scheme, Uri};
use ringway_transaction::may_send_to;

/// The next hop of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Way {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) transport: Transport,
}

/// Why nothing can be sent to a URI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoWay {
    /// It is no URI, or one with headers.
    Malformed,
    /// It is no `sip:` URI.
    Scheme,
    /// It needs TLS, which is not there yet.
    Tls,
    /// It names a transport that is not there.
    Transport,
    /// It names an address that no message may go to: unspecified, broadcast, multicast, port 0.
    Address,
}

impl core::fmt::Display for NoWay {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Malformed => "this is not a SIP URI like sip:bob@example.org",
            Self::Scheme => "only sip: URIs can be called",
            Self::Tls => "sips: and transport=tls need TLS, which is not supported yet; use sip:",
            Self::Transport => "the URI's transport is not supported; use udp or tcp",
            Self::Address => "no message can be sent to this address",
        })
    }
}

impl core::error::Error for NoWay {}

impl Way {
    /// The hop that a Request-URI or a Route names (RFC 3263 §4 as far as it goes without NAPTR and SRV: UDP and port
    /// 5060 where nothing else is said).
    pub(crate) fn of_uri(uri: &Uri<'_>) -> Result<Self, NoWay> {
        match uri.scheme() {
            Scheme::Sip => {}
            Scheme::Sips => return Err(NoWay::Tls),
            Scheme::Tel | Scheme::Other => return Err(NoWay::Scheme),
        }
        let transport = match uri.params().value(b"transport") {
            None => Transport::DEFAULT,
            Some(name) if name.eq_ignore_ascii_case(b"tls") => return Err(NoWay::Tls),
            Some(name) => Transport::from_token(name).ok_or(NoWay::Transport)?,
        };
        let port = uri.port().unwrap_or(transport.default_port());
        let host = core::str::from_utf8(uri.host().as_bytes()).map_err(|_| NoWay::Malformed)?;
        Self { host: host.into(), port, transport }.checked()
    }

    /// The hop to a configured server.
    pub(crate) fn of_server(server: &ServerAddress) -> Result<Self, NoWay> {
        let port = server.port.unwrap_or(server.transport.default_port());
        let text = server.host.as_str();
        // An IPv6 address may be configured without the brackets it has in a URI.
        let host = if text.contains(':') && !text.starts_with('[') {
            alloc::format!("[{text}]")
        } else {
            text.into()
        };
        Self { host, port, transport: server.transport }.checked()
    }

    /// The address, when the host is one and no name.
    pub(crate) fn ip(&self) -> Option<IpAddr> {
        Host::parse(self.host.as_bytes()).ok()?.ip().map(|ip| ip.to_canonical())
    }

    fn checked(self) -> Result<Self, NoWay> {
        Host::parse(self.host.as_bytes()).map_err(|_| NoWay::Malformed)?;
        match self.ip() {
            Some(ip) if !may_send_to(ip) => Err(NoWay::Address),
            _ if self.port == 0 => Err(NoWay::Address),
            _ => Ok(self),
        }
    }
}

impl Account {
    /// Where requests outside dialogs go that the account sends to `uri`.
    pub(crate) fn way_to(&self, uri: &Uri<'_>) -> Result<Way, NoWay> {
        let direct = Way::of_uri(uri);
        match &self.server {
            // The URI is the server's to understand, but what needs TLS on every hop must not go without.
            Some(server) if direct != Err(NoWay::Tls) => Way::of_server(server),
            Some(_) | None => direct,
        }
    }
}

/// Names that were looked up a short while ago, so that an ACK and a BYE need not wait.
#[derive(Debug, Default)]
pub(crate) struct Names {
    known: Vec<(String, IpAddr, Instant)>,
}

impl Names {
    pub(crate) fn find(&self, now: Instant, host: &str) -> Option<IpAddr> {
        let found =
            self.known.iter().find(|(name, _, until)| *until > now && name.eq_ignore_ascii_case(host));
        found.map(|(_, ip, _)| *ip)
    }

    /// Remembers an address; true if the oldest one is forgotten for it.
    pub(crate) fn remember(&mut self, now: Instant, host: &str, ip: IpAddr) -> bool {
        self.known.retain(|(name, _, until)| *until > now && !name.eq_ignore_ascii_case(host));
        let is_full = self.known.len() >= NAMES_MAX;
        if is_full {
            self.known.remove(0);
        }
        self.known.push((host.into(), Flow::canonical(SocketAddr::new(ip, 0)).ip(), now + NAME_LIFETIME));
        is_full
    }
}

const NAMES_MAX: usize = 16;
const NAME_LIFETIME: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    fn of(uri: &str) -> Result<(String, u16, Transport), NoWay> {
        Way::of_uri(&Uri::parse(uri.as_bytes()).unwrap()).map(|way| (way.host, way.port, way.transport))
    }

    #[test]
    fn the_hop_of_a_uri() {
        assert_eq!(of("sip:b@example.org"), Ok(("example.org".into(), 5060, Transport::Udp)));
        assert_eq!(of("sip:[::1]:5070;transport=TCP"), Ok(("[::1]".into(), 5070, Transport::Tcp)));
        assert_eq!(of("sips:b@example.org"), Err(NoWay::Tls));
        assert_eq!(of("sip:b@example.org;transport=tls"), Err(NoWay::Tls));
        assert_eq!(of("sip:b@example.org;transport=sctp"), Err(NoWay::Transport));
        assert_eq!(of("tel:+1"), Err(NoWay::Scheme));
        for address in
            ["sip:b@0.0.0.0", "sip:b@255.255.255.255", "sip:b@224.0.0.1", "sip:b@192.0.2.1:0", "sip:[::]"]
        {
            assert_eq!(of(address), Err(NoWay::Address), "{address}");
        }
    }

    #[test]
    fn names_are_forgotten_in_time_and_number() {
        let mut names = Names::default();
        let now = Instant::from_secs(1);
        for number in 0..40_u8 {
            let host = alloc::format!("host{number}");
            let is_displaced = names.remember(now, &host, IpAddr::from([192, 0, 2, number]));
            assert_eq!(is_displaced, usize::from(number) >= NAMES_MAX, "{number}");
        }
        assert_eq!(names.known.len(), NAMES_MAX);
        assert_eq!(names.find(now, "HOST39"), Some(IpAddr::from([192, 0, 2, 39])));
        assert_eq!(names.find(now + NAME_LIFETIME, "host39"), None);
    }
}
