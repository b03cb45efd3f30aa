//! Destination of a response (RFC 3261 §18.2.2, RFC 3581 §4).

use crate::address::{DEFAULT_PORT, may_send_to};
use core::net::{IpAddr, SocketAddr};
use ringway_sansio::Flow;
use ringway_sip::{Host, Via};

/// Flow of the responses to a request with this top Via that was received on `source`.
///
/// A response on a stream or over DTLS uses the connection of its request. A response by datagram goes to the source address of the
/// request: to the source port if the client requested it (`rport`), else to the port of sent-by. `maddr` is ignored,
/// because a sender could direct responses at a third party with it.
pub fn reply_flow(via: &Via<'_>, source: Flow) -> Flow {
    if source.transport.has_connections() || via.has_rport() {
        return source;
    }
    let port = via.port.unwrap_or(source.transport.default_port());
    Flow { remote: SocketAddr::new(source.remote.ip(), port), ..source }
}

/// Address that [`reply_address`] reads from this top Via after it was stamped with `source`.
pub fn stamped_address(via: &Via<'_>, source: SocketAddr) -> SocketAddr {
    if via.wants_rport() {
        return source;
    }
    SocketAddr::new(source.ip(), via.port.unwrap_or(DEFAULT_PORT))
}

/// Destination of a response, from a Via with our stamp: `received` and `rport` if present, else sent-by. `None` for a
/// host name, port 0, and an address that no message is sent to (see [`may_send_to`]).
pub fn reply_address(via: &Via<'_>) -> Option<SocketAddr> {
    let ip = match via.received() {
        Some(text) => received_ip(text)?,
        None => via.host.ip()?,
    };
    let port = via.rport().or(via.port).unwrap_or(DEFAULT_PORT);
    if !may_send_to(ip) || port == 0 { None } else { Some(Flow::canonical(SocketAddr::new(ip, port))) }
}

/// Address in `received`: an IPv6 address has brackets or not.
fn received_ip(text: &[u8]) -> Option<IpAddr> {
    if let Ok(host) = Host::parse(text)
        && let Some(ip) = host.ip()
    {
        return Some(ip);
    }
    core::str::from_utf8(text).ok()?.trim_matches(['[', ']']).parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringway_sansio::ListenerId;

    fn reply(via: &str, source: &str) -> SocketAddr {
        let via = Via::parse(via.as_bytes()).unwrap();
        reply_flow(&via, Flow::udp(ListenerId(0), source.parse().unwrap())).remote
    }

    #[test]
    fn rport_selects_the_source_port_and_sent_by_its_own() {
        let source = "192.0.2.1:40000";
        assert_eq!(reply("SIP/2.0/UDP 10.0.0.1:5070;rport", source), source.parse().unwrap());
        assert_eq!(reply("SIP/2.0/UDP 10.0.0.1:5070", source), "192.0.2.1:5070".parse().unwrap());
        assert_eq!(reply("SIP/2.0/UDP host;maddr=203.0.113.9", source), "192.0.2.1:5060".parse().unwrap());
    }

    #[test]
    fn no_response_goes_to_a_broadcast_or_multicast_address() {
        for via in ["SIP/2.0/UDP 255.255.255.255", "SIP/2.0/UDP x;received=224.0.0.1", "SIP/2.0/UDP 0.0.0.0"]
        {
            assert_eq!(reply_address(&Via::parse(via.as_bytes()).unwrap()), None, "{via}");
        }
        let via = Via::parse(b"SIP/2.0/UDP h:7;received=2001:db8::1;rport=9").unwrap();
        assert_eq!(reply_address(&via), Some("[2001:db8::1]:9".parse().unwrap()));
    }
}
