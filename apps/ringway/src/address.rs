//! Addresses of peers, and of this machine as a peer sees it.

use crate::failure::Failure;
use ringway_settings::HostPort;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs, UdpSocket};

/// Reads `HOST[:PORT]` as somebody wrote it.
pub(crate) fn parse(text: &str) -> Result<HostPort, Failure> {
    text.parse().map_err(|why| Failure::usage(format!("{text:?} is no host: {why}")))
}

/// An address outside of the local networks; it is reserved for documentation.
pub(crate) fn outside() -> HostPort {
    HostPort { host: Ipv4Addr::new(192, 0, 2, 1).to_string(), port: None }
}

/// Its address, IPv4 where it has both.
pub(crate) fn resolve(peer: &HostPort) -> Result<SocketAddr, Failure> {
    let failed =
        |why: String| Failure::failed(format!("{}: {why}; check the name and the network", peer.host));
    let found =
        lookup(peer, ANY_PORT).map_err(|error| failed(format!("the name cannot be resolved: {error}")))?;
    found.ok_or_else(|| failed("it has no address".to_owned()))
}

/// Its address, IPv4 where it has both, with `port` if it has none; `None`: its name has no address.
pub(crate) fn lookup(peer: &HostPort, port: u16) -> io::Result<Option<SocketAddr>> {
    let bare = peer.host.trim_matches(['[', ']']);
    let found: Vec<SocketAddr> = (bare, peer.port.unwrap_or(port)).to_socket_addrs()?.collect();
    Ok(found.iter().find(|address| address.is_ipv4()).or(found.first()).copied())
}

/// This machine's address on the way to a peer.
pub(crate) fn facing(peer: &HostPort) -> Result<IpAddr, Failure> {
    let peer = resolve(peer)?;
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

/// Local address of a phone that has no server: towards the peer, else towards any network. The first failure is about what
/// the user typed.
pub(crate) fn facing_or(
    towards: Result<IpAddr, Failure>,
    any_network: impl FnOnce() -> Result<IpAddr, Failure>,
) -> Result<IpAddr, Failure> {
    towards.or_else(|failure| any_network().map_err(|_| failure))
}

/// Port of a destination of which only the route matters.
const ANY_PORT: u16 = 9;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_to_loopback_is_loopback() {
        let peer = parse("127.0.0.1").unwrap();
        assert_eq!(facing(&peer).unwrap(), IpAddr::V4(Ipv4Addr::LOCALHOST));
    }

    #[test]
    fn without_a_network_the_failure_names_what_was_typed() {
        let offline = || Err(Failure::failed("there is no way to 192.0.2.1"));
        let failure = facing_or(Err(Failure::failed("nosuch.invalid")), offline).unwrap_err();
        assert_eq!(failure.lines(), ["nosuch.invalid"]);
        let online = || Ok(IpAddr::V4(Ipv4Addr::LOCALHOST));
        assert!(facing_or(Err(Failure::failed("nosuch.invalid")), online).is_ok());
        let nobody = HostPort { host: "a..b".to_owned(), port: None };
        let unresolved = resolve(&nobody).unwrap_err();
        assert!(unresolved.lines()[0].starts_with("a..b: the name cannot be resolved"), "{unresolved:?}");
    }
}
