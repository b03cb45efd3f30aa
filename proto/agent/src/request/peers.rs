//! Connections to peers.

use alloc::vec::Vec;
use core::net::SocketAddr;
use ringway_sansio::{ConnectionId, Flow};

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
