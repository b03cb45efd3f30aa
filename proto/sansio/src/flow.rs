//! Origin and destination of messages: listeners, connections, flows; names in the certificate of a connection's peer.

use crate::{
    HostNameId, Instant, LocatedServers, NoSigner, Queue, RelayResult, SignerCertificate, Transport, Waited,
    source_of,
};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use core::time::Duration;

/// Index of a listener in the configuration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ListenerId(pub u8);

impl ListenerId {
    /// The listener for packets to `to`: one with the transport and the address family. A listener on loopback reaches
    /// nothing else, so it is the last choice for other addresses. `None` instead of a listener: it was removed.
    pub fn for_peer(
        listeners: impl Iterator<Item = Option<(Transport, SocketAddr)>> + Clone,
        transport: Transport,
        to: IpAddr,
    ) -> Option<Self> {
        let fits = |listener: Option<(Transport, SocketAddr)>| {
            listener.filter(|(of, address)| *of == transport && address.is_ipv4() == to.is_ipv4())
        };
        let reaches = |address: SocketAddr| !address.ip().is_loopback() || to.is_loopback();
        let mut reaching = listeners.clone();
        let place = reaching.position(|listener| fits(listener).is_some_and(|(_, address)| reaches(address)));
        let place = place.or_else(|| listeners.clone().position(|listener| fits(listener).is_some()));
        place.and_then(|place| u8::try_from(place).ok()).map(Self)
    }
}

/// Number of a stream connection or a DTLS association of the driver; never used twice while the program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u64);

/// Number that distinguishes the connections that are dialled to one destination; [`DialledId::SHARED`]: the one of all
/// messages without a number.
///
/// The protocol machine gives the numbers. The driver uses a connection again for the same number, and dials another one
/// for another number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DialledId(pub u16);

impl DialledId {
    /// The shared connection.
    pub const SHARED: Self = Self(0);
}

/// Path between this program and a peer.
///
/// A datagram flow is the receiving listener and the peer's address. A stream flow also has its connection, a flow of DTLS
/// its association; without one the driver uses an existing one to `remote` or dials a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Flow {
    /// Transport of the packets.
    pub transport: Transport,
    /// Listener that received the packet, or whose address and address family are used for sending.
    pub listener: ListenerId,
    /// Address of the peer, in [canonical](Flow::canonical) form: never an IPv4-mapped IPv6 address.
    pub remote: SocketAddr,
    /// Stream connection or DTLS association; `None` for datagrams without one, and for one that is not chosen yet.
    pub connection: Option<ConnectionId>,
    /// Host that the peer must be, for a stream that is not chosen yet.
    pub host: HostNameId,
    /// Connection among those to the destination, for a stream that is not chosen yet.
    pub dialled: DialledId,
}

impl Flow {
    /// Creates a datagram flow.
    pub const fn udp(listener: ListenerId, remote: SocketAddr) -> Self {
        Self::new(Transport::Udp, listener, remote)
    }

    /// Creates a TCP flow to `remote` over any connection to it; the driver dials one if there is none.
    pub const fn dial(listener: ListenerId, remote: SocketAddr) -> Self {
        Self::new(Transport::Tcp, listener, remote)
    }

    /// Creates a flow without a connection; of a stream, the shared connection that is dialled to `remote`.
    pub const fn new(transport: Transport, listener: ListenerId, remote: SocketAddr) -> Self {
        let (host, dialled) = (HostNameId::NONE, DialledId::SHARED);
        Self { transport, listener, remote, connection: None, host, dialled }
    }

    /// Converts an IPv4-mapped IPv6 address to the IPv4 address, so that an address list cannot be bypassed with the
    /// other spelling.
    pub fn canonical(address: SocketAddr) -> SocketAddr {
        match address {
            SocketAddr::V6(v6) => match v6.ip().to_ipv4_mapped() {
                Some(v4) => SocketAddr::new(IpAddr::V4(v4), v6.port()),
                None => address,
            },
            SocketAddr::V4(_) => address,
        }
    }
}

/// IPv6 network around a source whose hosts limits count together too: a home has all sources of a network of 56 bits, a site
/// those of 48 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WideNetwork {
    first: u128,
    bits: u8,
}

impl WideNetwork {
    /// The networks around an IPv6 address, the narrower one first; none around an IPv4 address.
    pub fn around(address: IpAddr) -> impl Iterator<Item = Self> + Clone {
        let v6 = match address.to_canonical() {
            IpAddr::V6(v6) => Some(v6.to_bits()),
            IpAddr::V4(_) => None,
        };
        v6.into_iter().flat_map(|v6| {
            [56, 48].map(|bits| Self { first: v6 >> (128 - bits) << (128 - bits), bits: bits as u8 })
        })
    }

    /// Number of sources whose limits it has: 4 with 56 bits, 16 with 48.
    pub const fn sources(self) -> u32 {
        if self.bits >= 56 { 4 } else { 16 }
    }

    /// True if the network contains `address`.
    pub fn contains(self, address: IpAddr) -> bool {
        Self::around(address).any(|other| other == self)
    }
}

/// Source, or network around it, that a limit counts together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LimitHolder {
    /// See [`source_of`].
    Source(IpAddr),
    /// It has the limits of several sources.
    Network(WideNetwork),
}

impl LimitHolder {
    /// The source of an address, and the networks around it.
    pub fn of(address: IpAddr) -> impl Iterator<Item = Self> + Clone {
        let source = source_of(address);
        core::iter::once(Self::Source(source)).chain(WideNetwork::around(source).map(Self::Network))
    }

    /// Number of sources whose limits it has.
    pub const fn sources(self) -> u32 {
        match self {
            Self::Source(_) => 1,
            Self::Network(network) => network.sources(),
        }
    }
}

/// Number that a machine gives a packet to get a report if it could not be sent; 0: no report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Token(pub u64);

impl Token {
    /// No report requested.
    pub const NONE: Self = Self(0);
}

/// Received message: a datagram, or one frame of a stream.
#[derive(Clone, Copy, Debug)]
pub struct Received<'a> {
    /// Flow of the message; a response goes out on it.
    pub flow: Flow,
    /// Bytes of the message, unchanged.
    pub bytes: &'a [u8],
    /// Names in the verified certificate of the peer of the connection that the message came over, if it presented one.
    pub peer: Option<&'a PeerNames>,
    /// Time for which it waited in this machine; `None` where that is not measured.
    pub waited: Option<Waited<'a>>,
}

impl<'a> Received<'a> {
    /// Message of a peer without a certificate, whose waiting time is not measured.
    pub const fn new(flow: Flow, bytes: &'a [u8]) -> Self {
        Self { flow, bytes, peer: None, waited: None }
    }

    /// The same message, after this time in a queue.
    #[must_use]
    pub const fn after(self, time: Duration, queue: &'a Queue) -> Self {
        Self { waited: Some(Waited { time, queue }), ..self }
    }
}

/// ICMP error that a network reported for a datagram: nobody listens at its port, or no path leads there.
///
/// Anybody can forge one. So a machine acts only if `quoted` contains a secret of the datagram, and never on the addresses
/// alone.
#[derive(Clone, Copy, Debug)]
pub struct IcmpError<'a> {
    /// Flow that the datagram was sent on.
    pub flow: Flow,
    /// First bytes of the datagram, as many as the error quotes: usually 520, from some systems none.
    pub quoted: &'a [u8],
}

/// Event of a transport other than received bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A connection is closed. Every shard gets this event once.
    Closed(ConnectionId),
    /// The packet with this token could not be sent: no connection was established, or it ended before the peer sent a
    /// message over it. Only the sending shard gets this event. A connection over which the peer sent a message is only
    /// reported as closed.
    Unreachable(Token),
    /// Result of the lookup that an action requested.
    Resolved {
        /// Number from the action.
        query: u64,
        /// The servers; empty: there are none, or there was no answer in time.
        servers: LocatedServers,
    },
    /// Result of the lookup of a telephone number that an action requested.
    NumberResolved {
        /// Number from the action.
        query: u64,
        /// URIs of the number, the preferred one first; empty: there are none, or there was no answer in time.
        uris: Box<[Box<str>]>,
    },
    /// The bindings of a user were looked up, as an action requested; what was found was passed to the machine before.
    Located {
        /// Number from the action.
        query: u64,
    },
    /// Another shard changed state that this shard shows; requested by an action.
    StateChanged {
        /// Name of whose state it is, from the action.
        name: Box<[u8]>,
    },
    /// Certificate that an action requested.
    SignerFound {
        /// Number from the action.
        query: u64,
        /// The certificate, which an authority of the configuration has signed.
        result: Result<Arc<SignerCertificate>, NoSigner>,
    },
    /// Result of the request to a media relay that an action requested.
    Relayed {
        /// Number from the action.
        query: u64,
        /// `None`: no relay answered in time, or one refused.
        result: Option<RelayResult>,
    },
}

/// Names in the verified certificate of the peer of a connection (RFC 5922 §7.1).
///
/// They belong to the connection that presented the certificate: a driver passes them with each message of that
/// connection, and with no other ([`Received::peer`](crate::Received::peer)).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerNames {
    domains: Vec<Box<str>>,
    users: Vec<Box<str>>,
    expires: Instant,
}

impl PeerNames {
    /// Maximum number of names.
    pub const NAMES_MAX: usize = 16;
    /// Maximum length of a name in bytes.
    pub const NAME_BYTES_MAX: usize = 255;

    /// Names of a certificate that is valid until `expires`: domains, and `sip:` URIs with a user. `None`: there is no name,
    /// or there are more or longer names than the limits.
    pub fn new(domains: Vec<Box<str>>, users: Vec<Box<str>>, expires: Instant) -> Option<Self> {
        let count = domains.len() + users.len();
        let mut lengths = domains.iter().chain(&users).map(|name| name.len());
        let fits = count <= Self::NAMES_MAX && lengths.all(|bytes| bytes <= Self::NAME_BYTES_MAX);
        (count > 0 && fits).then_some(Self { domains, users, expires })
    }

    /// True if the peer is `domain` at `now`: names are compared as a whole and without regard to case, and a wildcard matches
    /// nothing (RFC 5922 §7.2).
    pub fn is_domain(&self, domain: &str, now: Instant) -> bool {
        let plain = |name: &str| name.strip_suffix('.').unwrap_or(name).len();
        let is_same = |name: &str| {
            let (one, other) = (name.get(..plain(name)), domain.get(..plain(domain)));
            !name.contains('*') && one.zip(other).is_some_and(|(one, other)| one.eq_ignore_ascii_case(other))
        };
        now < self.expires && self.domains.iter().any(|name| is_same(name))
    }

    /// True if the peer is a domain directly below `parent` at `now`.
    pub fn is_below(&self, parent: &str, now: Instant) -> bool {
        let is_below = |name: &str| {
            let label = name.split_once('.').filter(|(label, _)| !label.is_empty() && *label != "*");
            label.is_some_and(|(_, rest)| rest.eq_ignore_ascii_case(parent))
        };
        now < self.expires && self.domains.iter().any(|name| is_below(name))
    }

    /// The `sip:` URIs of users, as they are written in the certificate; none once it has expired.
    pub fn users(&self, now: Instant) -> impl Iterator<Item = &str> {
        let users = if now < self.expires { self.users.as_slice() } else { &[] };
        users.iter().map(|user| &**user)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn a_mapped_address_becomes_an_ipv4_address() {
        let mapped: SocketAddr = "[::ffff:192.0.2.1]:5060".parse().unwrap();
        assert_eq!(Flow::canonical(mapped), "192.0.2.1:5060".parse().unwrap());
        let v6: SocketAddr = "[2001:db8::1]:5060".parse().unwrap();
        assert_eq!(Flow::canonical(v6), v6);
    }

    #[test]
    fn an_ipv6_address_is_in_two_wide_networks() {
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        let around = |text: &str| WideNetwork::around(ip(text)).collect::<alloc::vec::Vec<_>>();
        let [home, site] = around("2001:db8:1:2ff::1")[..] else { panic!("two networks") };
        assert_eq!((home.sources(), site.sources()), (4, 16));
        for (address, is_home, is_site) in [
            ("2001:db8:1:200::9", true, true),
            ("2001:db8:1:300::9", false, true),
            ("2001:db8:2:200::9", false, false),
            ("192.0.2.1", false, false),
        ] {
            assert_eq!(
                (home.contains(ip(address)), site.contains(ip(address))),
                (is_home, is_site),
                "{address}"
            );
        }
        assert!(around("192.0.2.1").is_empty() && around("::ffff:192.0.2.1").is_empty());
        assert_ne!(around("2001:db8::1")[0], around("2001:db8::1")[1], "with the same first address");
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

    const NOW: Instant = Instant::from_secs(1000);

    fn names(domains: &[&str], users: &[&str]) -> Option<PeerNames> {
        let boxed = |names: &[&str]| names.iter().map(|name| Box::from(*name)).collect();
        PeerNames::new(boxed(domains), boxed(users), Instant::from_secs(2000))
    }

    #[test]
    fn a_domain_is_compared_as_a_whole() {
        let peer = names(&["Trunk.Example.net", "*.example.com"], &[]).unwrap();
        for (domain, expected) in [
            ("trunk.example.net", true),
            ("trunk.example.net.", true),
            ("example.net", false),
            ("a.trunk.example.net", false),
            ("a.example.com", false),
            ("*.example.com", false),
            ("", false),
        ] {
            assert_eq!(peer.is_domain(domain, NOW), expected, "{domain}");
        }
        assert!(!peer.is_domain("trunk.example.net", Instant::from_secs(2000)), "it has expired");
    }

    #[test]
    fn a_parent_is_that_of_a_whole_label() {
        for (name, expected) in [
            ("a.Node.internal", true),
            ("node.internal", false),
            (".node.internal", false),
            ("*.node.internal", false),
            ("b.a.node.internal", false),
            ("a.node.internal.example", false),
            ("anode.internal", false),
        ] {
            let peer = names(&[name], &[]).unwrap();
            assert_eq!(peer.is_below("node.internal", NOW), expected, "{name}");
            assert!(!peer.is_below("node.internal", Instant::from_secs(2000)), "it has expired");
        }
    }

    #[test]
    fn an_expired_certificate_has_no_users() {
        let peer = names(&[], &["sip:alice@example.org"]).unwrap();
        assert_eq!(peer.users(NOW).collect::<Vec<_>>(), ["sip:alice@example.org"]);
        assert_eq!(peer.users(Instant::from_secs(2000)).count(), 0);
    }

    #[test]
    fn names_over_the_limits_are_none() {
        assert_eq!(names(&[], &[]), None);
        assert_eq!(names(&vec!["a"; PeerNames::NAMES_MAX + 1], &[]), None);
        assert!(names(&vec!["a"; PeerNames::NAMES_MAX], &[]).is_some());
        let long = "a".repeat(PeerNames::NAME_BYTES_MAX + 1);
        assert_eq!(names(&[&long], &[]), None);
    }
}
