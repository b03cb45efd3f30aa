//! Where bytes come from and go to.

use crate::Transport;
use core::net::{IpAddr, Ipv6Addr, SocketAddr};

/// A listener of the configuration, by its place in the list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ListenerId(pub u8);

impl ListenerId {
    /// The listener for packets to `to`: one with the transport and the address family. A listener on loopback reaches
    /// nothing else, so it is the last choice for other addresses.
    pub fn for_peer(
        listeners: impl Iterator<Item = (Transport, SocketAddr)> + Clone,
        transport: Transport,
        to: IpAddr,
    ) -> Option<Self> {
        let fits =
            |(of, address): (Transport, SocketAddr)| of == transport && address.is_ipv4() == to.is_ipv4();
        let reaches = |address: SocketAddr| !address.ip().is_loopback() || to.is_loopback();
        let place = listeners.clone().position(|listener| fits(listener) && reaches(listener.1));
        let place = place.or_else(|| listeners.clone().position(fits));
        place.and_then(|place| u8::try_from(place).ok()).map(Self)
    }
}

/// A stream connection of the driver; a number is never used twice while the program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u64);

/// One way to and from a peer.
///
/// A datagram's flow is the listener it came in by and the peer's address. A stream's flow also names its connection;
/// without one it asks the driver for a connection to `remote`: one it has dialled before, or a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Flow {
    /// How the bytes travel.
    pub transport: Transport,
    /// The listener that received, or whose address and family is to be used for sending.
    pub listener: ListenerId,
    /// The peer. IPv4 addresses mapped into IPv6 never appear here: see [`Flow::canonical`].
    pub remote: SocketAddr,
    /// The stream connection, if it is one and it is known.
    pub connection: Option<ConnectionId>,
}

impl Flow {
    /// A datagram flow.
    pub const fn udp(listener: ListenerId, remote: SocketAddr) -> Self {
        Self { transport: Transport::Udp, listener, remote, connection: None }
    }

    /// A stream flow to `remote` by whichever connection leads there, dialled if there is none.
    pub const fn dial(listener: ListenerId, remote: SocketAddr) -> Self {
        Self { transport: Transport::Tcp, listener, remote, connection: None }
    }

    /// `address` with an IPv4-mapped IPv6 address written as the IPv4 address it is, so that no list of addresses can
    /// be passed by in the other spelling.
    pub fn canonical(address: SocketAddr) -> SocketAddr {
        match address.ip() {
            IpAddr::V6(v6) => match v6.to_ipv4_mapped() {
                Some(v4) => SocketAddr::new(IpAddr::V4(v4), address.port()),
                None => address,
            },
            IpAddr::V4(_) => address,
        }
    }
}

/// The source that limits count an address as: an IPv4 address alone, an IPv6 address as its /64 network, because who has one
/// of these has all 2^64.
pub fn source_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64)),
        v4 => v4,
    }
}

/// Number that a machine gives a packet to get a report if it could not be sent; 0: no report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Token(pub u64);

impl Token {
    /// No report requested.
    pub const NONE: Self = Self(0);
}

/// One message as it arrived: a datagram, or one frame of a stream.
#[derive(Clone, Copy, Debug)]
pub struct Received<'a> {
    /// Where it came from, and so where an answer goes.
    pub flow: Flow,
    /// The bytes, as they were.
    pub bytes: &'a [u8],
}

/// What a transport reports, other than bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A connection is gone. Every shard is told, once.
    Closed(ConnectionId),
    /// The packet with this token could not be sent: no connection could be made, or it ended before a message came back by
    /// it. Only the shard that sent it is told. A connection by which a message has come is reported as closed only.
    Unreachable(Token),
    /// A name asked for by an action was looked up. `None`: it has no address, or nobody answered in time.
    Resolved {
        /// The number the action carried.
        query: u64,
        /// The first usable address.
        address: Option<IpAddr>,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapped_address_is_told_apart_from_nothing() {
        let mapped: SocketAddr = "[::ffff:192.0.2.1]:5060".parse().unwrap();
        assert_eq!(Flow::canonical(mapped), "192.0.2.1:5060".parse().unwrap());
        let v6: SocketAddr = "[2001:db8::1]:5060".parse().unwrap();
        assert_eq!(Flow::canonical(v6), v6);
    }

    #[test]
    fn an_ipv6_network_is_one_source() {
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        for (address, source) in [
            ("2001:db8:0:7:1:2:3:4", "2001:db8:0:7::"),
            ("2001:db8:0:8::1", "2001:db8:0:8::"),
            ("192.0.2.1", "192.0.2.1"),
            ("::ffff:192.0.2.1", "192.0.2.1"),
        ] {
            assert_eq!(source_of(ip(address)), ip(source), "{address}");
        }
    }
}
