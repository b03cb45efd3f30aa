//! Peers of requests: connections to them, the cache of resolved host names, addresses that large requests could not be sent
//! to by TCP.

use crate::next_hop::NextHop;
use alloc::vec::Vec;
use core::net::SocketAddr;
use core::time::Duration;
use ringway_sansio::{ConnectionId, Flow, Instant, LocatedServer};

/// Connections that responses were received on, by the peer's address: the driver reuses them for requests to that address.
#[derive(Debug, Default)]
pub(crate) struct Peers {
    known: Vec<(SocketAddr, ConnectionId)>,
}

impl Peers {
    /// Adds a connection. True if the oldest entry was removed for it.
    pub(crate) fn note(&mut self, remote: SocketAddr, connection: ConnectionId) -> bool {
        if self.known.contains(&(remote, connection)) {
            return false;
        }
        self.known.retain(|(known, _)| *known != remote);
        let is_full = self.known.len() >= PEERS_MAX;
        if is_full {
            self.known.remove(0);
        }
        self.known.push((remote, connection));
        is_full
    }

    pub(crate) fn forget(&mut self, connection: ConnectionId) {
        self.known.retain(|(_, known)| *known != connection);
    }

    /// `None` for datagrams, and for a peer whose connection is not known.
    pub(crate) fn connection_to(&self, flow: Flow) -> Option<ConnectionId> {
        if !flow.transport.has_connections() {
            return None;
        }
        let known = self.known.iter().find(|(remote, _)| *remote == flow.remote);
        flow.connection.or(known.map(|(_, connection)| *connection))
    }
}

/// More connections than a phone has servers and calls.
const PEERS_MAX: usize = 32;

/// Cache of resolved names, so that an ACK and a BYE are sent without another lookup.
#[derive(Debug, Default)]
pub(crate) struct ResolvedNames {
    known: Vec<(NextHop, LocatedServer, Instant)>,
}

impl ResolvedNames {
    pub(crate) fn find(&self, now: Instant, hop: &NextHop) -> Option<LocatedServer> {
        let found = self.known.iter().find(|(known, _, until)| *until > now && known == hop);
        found.map(|(_, server, _)| *server)
    }

    /// Adds a server. True if the oldest entry was removed for it.
    pub(crate) fn remember(&mut self, now: Instant, hop: NextHop, server: LocatedServer) -> bool {
        self.known.retain(|(known, _, until)| *until > now && *known != hop);
        let is_full = self.known.len() >= NAMES_MAX;
        if is_full {
            self.known.remove(0);
        }
        self.known.push((hop, server, now + NAME_LIFETIME));
        is_full
    }
}

const NAMES_MAX: usize = 16;
const NAME_LIFETIME: Duration = Duration::from_secs(60);

/// Addresses to which a large request was sent by UDP after TCP had failed (RFC 3261 §18.1.1). Where TCP is filtered each attempt
/// costs the time limit of a connection, so the next large requests are sent by UDP at once.
#[derive(Debug, Default)]
pub(crate) struct TcpFailures {
    known: Vec<(SocketAddr, Instant)>,
}

impl TcpFailures {
    pub(crate) fn contains(&self, now: Instant, address: SocketAddr) -> bool {
        self.known.iter().any(|(known, until)| *known == address && *until > now)
    }

    /// Adds an address. True if the oldest entry was removed for it.
    pub(crate) fn note(&mut self, now: Instant, address: SocketAddr) -> bool {
        self.known.retain(|(known, until)| *until > now && *known != address);
        let is_full = self.known.len() >= ADDRESSES_MAX;
        if is_full {
            self.known.remove(0);
        }
        self.known.push((address, now + LIFETIME));
        is_full
    }

    pub(crate) fn forget(&mut self, address: SocketAddr) {
        self.known.retain(|(known, _)| *known != address);
    }
}

/// More addresses than a phone has servers and calls.
const ADDRESSES_MAX: usize = 16;
/// A filter stays for long, but a phone moves to other networks.
const LIFETIME: Duration = Duration::from_secs(3600);

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::IpAddr;
    use ringway_sansio::{HostNameId, Transport};

    #[test]
    fn names_are_forgotten_in_time_and_number() {
        let mut names = ResolvedNames::default();
        let now = Instant::from_secs(1);
        let hop = |number: u8| NextHop {
            host: alloc::format!("host{number}"),
            port: None,
            transport: Transport::Udp,
        };
        let server = |number: u8| {
            let ip = IpAddr::from([192, 0, 2, number]);
            hop(number).target(0).server_at(ip, HostNameId::NONE)
        };
        for number in 0..40 {
            let is_displaced = names.remember(now, hop(number), server(number));
            assert_eq!(is_displaced, usize::from(number) >= NAMES_MAX, "{number}");
        }
        assert_eq!(names.known.len(), NAMES_MAX);
        assert_eq!(names.find(now, &hop(39)), Some(server(39)));
        assert_eq!(names.find(now, &NextHop { port: Some(5070), ..hop(39) }), None, "another server");
        assert_eq!(names.find(now + NAME_LIFETIME, &hop(39)), None);
    }
}
