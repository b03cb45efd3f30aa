//! Requests of a node to services of the program, and their results: lookup of the servers of a host name (RFC 3263), media
//! relays.

use crate::Transport;
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::net::{IpAddr, SocketAddr};

/// Number of a host name whose address was looked up; [`HostNameId::NONE`]: an address that was given as one.
///
/// A connection that is dialled with TLS is accepted only if the certificate is one of this host (RFC 5922 §4). The
/// program that looks names up gives the numbers, in [`Event::Resolved`](crate::Event::Resolved).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostNameId(pub u32);

impl HostNameId {
    /// No host name.
    pub const NONE: Self = Self(0);
}

/// Host whose servers are looked up, with what its URI says of the way to it (RFC 3263 §4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Host name, or an address as text; an IPv6 address may have brackets.
    pub host: Box<str>,
    /// Port of the URI. With a port only addresses are looked up.
    pub port: Option<u16>,
    /// Transport of the URI. Without one, the domain's NAPTR and SRV records choose it.
    pub transport: Option<Transport>,
    /// True for a `sips:` URI: all transports are secure ones.
    pub is_sips: bool,
    /// Random number for the choice between servers of the same priority (RFC 2782); equal numbers choose equally.
    pub draw: u64,
    /// Source of the request that the lookup is for, which has a limited share of all lookups; `None`: no peer caused it.
    pub source: Option<IpAddr>,
}

impl Target {
    /// Target whose addresses alone are looked up.
    pub fn of_address(host: &str, port: u16, transport: Transport) -> Self {
        let (port, transport) = (Some(port), Some(transport));
        Self { host: host.into(), port, transport, is_sips: false, draw: 0, source: None }
    }

    /// Transport of a server that was found by its address records only (RFC 3263 §4.1).
    pub fn transport_or_default(&self) -> Transport {
        match self.transport {
            Some(transport) => transport,
            None if self.is_sips => Transport::Tls,
            None => Transport::DEFAULT,
        }
    }

    /// Server at an address of the host itself: at the port of the URI, or at the transport's default port (RFC 3263 §4.2).
    pub fn server_at(&self, ip: IpAddr, host: HostNameId) -> LocatedServer {
        let transport = self.transport_or_default();
        let port = self.port.unwrap_or(transport.default_port());
        LocatedServer::new(transport, SocketAddr::new(ip, port), host)
    }
}

/// Telephone number whose URIs are looked up (ENUM, RFC 6116).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NumberTarget {
    /// Digits of the E.164 number, without the `+`.
    pub digits: Box<str>,
    /// Domains under which the numbers are, in the order of trial.
    pub zones: Arc<[Box<str>]>,
    /// Source of the request that the lookup is for, as [`Target::source`].
    pub source: Option<IpAddr>,
}

impl NumberTarget {
    /// Maximum number of zones.
    pub const ZONES_MAX: usize = 4;
    /// Maximum length of a zone's name, so that a number under it has a name in DNS.
    pub const ZONE_BYTES_MAX: usize = 200;
    /// Maximum number of digits (E.164).
    pub const DIGITS_MAX: usize = 15;
}

/// Server that a lookup found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocatedServer {
    /// Transport to use.
    pub transport: Transport,
    /// Address and port.
    pub address: SocketAddr,
    /// Number of the name that was looked up, which the certificate of the server must have (RFC 5922 §4); none for
    /// UDP, whose flow is the address alone.
    pub host: HostNameId,
}

impl LocatedServer {
    /// Server at an address of the host `host`.
    pub const fn new(transport: Transport, address: SocketAddr, host: HostNameId) -> Self {
        let host = if transport.has_connections() { host } else { HostNameId::NONE };
        Self { transport, address, host }
    }
}

/// Servers of a host in the order in which they are tried, at most [`LocatedServers::MAX`]; empty if none was found, or
/// the lookup took too long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LocatedServers {
    list: [Option<LocatedServer>; Self::MAX],
}

impl LocatedServers {
    /// Maximum number of servers.
    pub const MAX: usize = 4;

    /// No server.
    pub const NONE: Self = Self { list: [None; Self::MAX] };

    /// True if there is no server.
    pub fn is_empty(&self) -> bool {
        self.first().is_none()
    }

    /// The server that is tried first.
    pub fn first(&self) -> Option<LocatedServer> {
        self.iter().next()
    }

    /// The servers in their order.
    pub fn iter(&self) -> impl Iterator<Item = LocatedServer> + '_ {
        self.list.iter().flatten().copied()
    }

    /// Takes the first server out of the list.
    pub fn take_first(&mut self) -> Option<LocatedServer> {
        self.list.iter_mut().find_map(Option::take)
    }
}

impl FromIterator<LocatedServer> for LocatedServers {
    /// Takes the first [`LocatedServers::MAX`] servers.
    fn from_iter<I: IntoIterator<Item = LocatedServer>>(servers: I) -> Self {
        let mut list = [None; Self::MAX];
        for (slot, server) in list.iter_mut().zip(servers) {
            *slot = Some(server);
        }
        Self { list }
    }
}

impl From<LocatedServer> for LocatedServers {
    fn from(server: LocatedServer) -> Self {
        Self::from_iter([server])
    }
}

/// Certificate of who signs the identities of callers (RFC 8226): its key, and the numbers that it may sign for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignerCertificate {
    /// Uncompressed point of P-256.
    pub public_key: Box<[u8]>,
    /// Numbers, without `+`; empty: those of a provider, which the certificate does not list.
    pub numbers: Box<[SignerNumbers]>,
}

/// Numbers of a certificate that follow each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignerNumbers {
    /// The first one.
    pub first: Box<str>,
    /// Number of them.
    pub count: u64,
}

/// Reason why there is no certificate of a signer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoSigner {
    /// It cannot be fetched: the server does not answer as it should, or at an address that is not permitted.
    Unreachable,
    /// It is not valid, is of another authority, or has no key or no numbers that count.
    Unsupported,
}

impl SignerCertificate {
    /// True if it may sign for a number, which has no `+`.
    pub fn covers(&self, number: &str) -> bool {
        self.numbers.is_empty() || self.numbers.iter().any(|numbers| numbers.contain(number))
    }
}

impl SignerNumbers {
    fn contain(&self, number: &str) -> bool {
        if self.first.len() != number.len() {
            return false;
        }
        let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        match (self.first.parse::<u64>(), number.parse::<u64>()) {
            (Ok(first), Ok(number_of)) if is_digits(&self.first) && is_digits(number) => {
                number_of.checked_sub(first).is_some_and(|behind| behind < self.count)
            }
            (_, _) => *self.first == *number,
        }
    }
}

/// Request to a media relay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelayRequest {
    /// Kind of the request.
    pub kind: RelayKind,
    /// Call at the relay, chosen by the machine that asks.
    pub call: RelayCall,
    /// Relay that has the call already.
    pub relay: Option<RelayId>,
    /// Side that made the offer.
    pub offerer: RelaySide,
    /// SDP; empty for [`RelayKind::Delete`].
    pub sdp: Box<[u8]>,
    /// Media of the side that gets the SDP.
    pub to: RelayMedia,
    /// Peer that the call counts for.
    pub holder: RelayHolder,
    /// Address that the SDP came from, if the relay sends media there and not to the addresses in the SDP.
    pub source: Option<IpAddr>,
    /// Interfaces of the relay for the side whose SDP it is, and for the other one; `None`: the relay has one for all.
    pub interfaces: Option<RelayInterfaces>,
}

/// Names of a relay's interfaces for the two sides of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelayInterfaces {
    /// Interface for the side whose SDP it is.
    pub from: Arc<str>,
    /// Interface for the side that gets the SDP.
    pub to: Arc<str>,
}

impl RelayInterfaces {
    /// The interfaces for an SDP in the other direction.
    pub fn reversed(&self) -> Self {
        Self { from: Arc::clone(&self.to), to: Arc::clone(&self.from) }
    }
}

/// Peer that a call at a relay counts for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RelayHolder {
    /// One whose calls are not limited.
    Trusted,
    /// User with a password, by a keyed hash of its address-of-record.
    User(u64),
    /// Source that has proved no password.
    Stranger(IpAddr),
}

/// Result of a [`RelayRequest`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelayResult {
    /// Relay that answered.
    pub relay: RelayId,
    /// SDP in place of the given one, as the relay wrote it: not verified.
    pub sdp: Box<[u8]>,
}

/// Kind of a [`RelayRequest`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RelayKind {
    /// SDP offer. It may create the call.
    Offer,
    /// SDP answer.
    Answer,
    /// End of the call. It has no result.
    Delete,
}

/// Name of a call at the relay: random, so that no peer can name the call of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RelayCall(pub u64);

/// Relay, by a hash of its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RelayId(pub u32);

/// Side of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RelaySide {
    /// Sender of the first INVITE.
    Caller,
    /// The other side.
    Callee,
}

/// Media protocol of one side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RelayMedia {
    /// The protocol that the other side offers, without ICE.
    Same,
    /// RTP without encryption (`RTP/AVP`), without ICE.
    Plain,
    /// SRTP with keys in the SDP (`RTP/SAVP`), without ICE.
    Srtp,
    /// DTLS-SRTP (`UDP/TLS/RTP/SAVPF`) with ICE: a browser.
    Browser,
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::Ipv4Addr;

    fn target(port: Option<u16>, transport: Option<Transport>, is_sips: bool) -> Target {
        Target { host: "example.org".into(), port, transport, is_sips, draw: 0, source: None }
    }

    #[test]
    fn an_address_gets_the_default_transport_and_port() {
        let ip = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
        let at = |target: Target| {
            let server = target.server_at(ip, HostNameId::NONE);
            (server.transport, server.address.port())
        };
        assert_eq!(at(target(None, None, false)), (Transport::Udp, 5060));
        assert_eq!(at(target(None, None, true)), (Transport::Tls, 5061));
        assert_eq!(at(target(Some(5070), None, false)), (Transport::Udp, 5070));
        assert_eq!(at(target(None, Some(Transport::Tls), false)), (Transport::Tls, 5061));
    }

    #[test]
    fn a_certificate_covers_its_numbers() {
        let numbers = |first: &str, count| SignerNumbers { first: first.into(), count };
        let of = |numbers: &[SignerNumbers]| SignerCertificate {
            public_key: Box::default(),
            numbers: numbers.into(),
        };
        assert!(of(&[]).covers("49301") && of(&[]).covers("*21#"));
        let listed = of(&[numbers("4930100", 100), numbers("116117", 1), numbers("*21#", 1)]);
        for (number, is_covered) in [
            ("4930100", true),
            ("4930199", true),
            ("4930200", false),
            ("4930099", false),
            ("49301001", false),
            ("04930100", false),
            ("+930150", false),
            ("116117", true),
            ("*21#", true),
            ("*22#", false),
            ("", false),
        ] {
            assert_eq!(listed.covers(number), is_covered, "{number}");
        }
    }

    #[test]
    fn servers_are_taken_in_order_and_limited() {
        let numbered = |port| {
            target(Some(port), None, false).server_at(IpAddr::V4(Ipv4Addr::LOCALHOST), HostNameId::NONE)
        };
        let mut servers: LocatedServers = (1..=9).map(numbered).collect();
        assert_eq!(servers.iter().count(), LocatedServers::MAX);
        for port in 1..=4 {
            assert_eq!(servers.take_first(), Some(numbered(port)));
        }
        assert!(servers.is_empty() && servers.take_first().is_none());
    }
}
