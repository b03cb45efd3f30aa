//! Which of this machine's addresses a peer sees.

use crate::failure::Failure;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs, UdpSocket};

/// A host, by address or name, and maybe a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HostPort {
    pub(crate) host: String,
    pub(crate) port: Option<u16>,
}

impl HostPort {
    /// `HOST`, `HOST:PORT`, `[ADDRESS]:PORT`.
    pub(crate) fn parse(text: &str) -> Result<Self, Failure> {
        let wrong = || {
            Failure::usage(format!(
                "{text:?} is no host: write HOST or HOST:PORT, like 192.0.2.7:5060 or [::1]:5060"
            ))
        };
        let is_address = text.parse::<std::net::Ipv6Addr>().is_ok();
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) if !is_address && !host.is_empty() && !port.contains(']') => {
                (host, Some(port.parse().ok().filter(|&port| port != 0).ok_or_else(wrong)?))
            }
            Some(_) | None => (text, None),
        };
        let host = if is_address { format!("[{host}]") } else { host.to_owned() };
        let parsed = ringway_sip::Host::parse(host.as_bytes());
        if host.is_empty() || parsed.is_err() { Err(wrong()) } else { Ok(Self { host, port }) }
    }

    /// Somebody outside, whoever it is. The address is one for documentation.
    pub(crate) fn outside() -> Self {
        Self { host: Ipv4Addr::new(192, 0, 2, 1).to_string(), port: None }
    }

    /// Its address, IPv4 where it has both.
    pub(crate) fn resolve(&self) -> Result<SocketAddr, Failure> {
        let bare = self.host.trim_start_matches('[').trim_end_matches(']');
        let failed = |why: String| Failure::failed(format!("{}: {why}; check the name", self.host));
        let found: Vec<SocketAddr> = (bare, self.port.unwrap_or(ANY_PORT))
            .to_socket_addrs()
            .map_err(|error| failed(format!("no address is known for it: {error}")))?
            .collect();
        let first = found.iter().find(|address| address.is_ipv4()).or(found.first());
        first.copied().ok_or_else(|| failed("it has no address".to_owned()))
    }
}

/// This machine's address on the way to a peer.
pub(crate) fn facing(peer: &HostPort) -> Result<IpAddr, Failure> {
    let peer = peer.resolve()?;
    let any = if peer.is_ipv4() { IpAddr::from([0, 0, 0, 0]) } else { IpAddr::from([0_u16; 8]) };
    // Connecting a datagram socket sends nothing; the system only chooses the way.
    UdpSocket::bind((any, 0))
        .and_then(|socket| socket.connect(peer).and_then(|()| socket.local_addr()))
        .map(|address| address.ip())
        .map_err(|error| {
            Failure::failed(format!(
                "there is no way to {}: {error}; check the network, or give --bind",
                peer.ip()
            ))
        })
}

/// Where nothing but the way matters.
const ANY_PORT: u16 = 9;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_read_in_every_spelling() {
        let of = |text: &str| HostPort::parse(text).map(|host| (host.host, host.port)).ok();
        assert_eq!(of("example.org"), Some(("example.org".into(), None)));
        assert_eq!(of("127.0.0.1:5070"), Some(("127.0.0.1".into(), Some(5070))));
        assert_eq!(of("[::1]:5070"), Some(("[::1]".into(), Some(5070))));
        assert_eq!(of("[::1]"), Some(("[::1]".into(), None)));
        assert_eq!(of("::1"), Some(("[::1]".into(), None)));
        for wrong in ["", ":5060", "a b", "host:", "host:0", "host:70000", "host:x", "[::1"] {
            assert_eq!(of(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn the_way_to_loopback_is_loopback() {
        let peer = HostPort::parse("127.0.0.1").unwrap();
        assert_eq!(facing(&peer).unwrap(), IpAddr::V4(Ipv4Addr::LOCALHOST));
    }
}
