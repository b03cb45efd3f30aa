//! The connections that requests go by, and the requests that end with them.

use crate::Action;
use crate::UserAgent;
use crate::request::Request;
use alloc::vec::Vec;
use core::net::SocketAddr;
use ringway_sansio::{ConnectionId, Context, Flow};
use ringway_transaction::SlabKey;

/// The connections that responses to us came by, by the peer's address: the driver sends by them what is for that address.
#[derive(Debug, Default)]
pub(crate) struct Peers {
    known: Vec<(SocketAddr, ConnectionId)>,
}

impl Peers {
    /// Remembers a connection; true if the oldest one is forgotten for it.
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
        if !flow.transport.is_stream() {
            return None;
        }
        let known = self.known.iter().find(|(remote, _)| *remote == flow.remote);
        flow.connection.or(known.map(|(_, connection)| *connection))
    }
}

impl UserAgent {
    /// The flow of a request to `to`; over a stream the connection that the other side of its dialog uses, if that is its address.
    pub(crate) fn flow_to(&self, key: SlabKey, to: SocketAddr) -> Option<Flow> {
        let transport = self.requests.get(key)?.draft.way.transport;
        let listener = self.config.listener_for(transport, to.ip())?;
        let peer = self.requests.get(key)?.draft.peer.filter(|_| transport.is_stream());
        let peer = peer.filter(|peer| peer.transport == transport && peer.remote == to);
        Some(peer.unwrap_or(Flow { transport, listener, remote: to, connection: None }))
    }

    /// A connection is gone: requests that went by it fail at once (RFC 3261 §8.1.3.1). A request by a connection that no
    /// response has come by fails with [`Event::Unreachable`](ringway_sansio::Event::Unreachable).
    pub(crate) fn on_connection_lost(&mut self, cx: &mut Context<'_, Action>, connection: ConnectionId) {
        self.peers.forget(connection);
        let is_lost = |request: &Request| request.connection == Some(connection) && request.acks.is_empty();
        let lost: Vec<SlabKey> =
            self.requests.iter().filter(|(_, request)| is_lost(request)).map(|(key, _)| key).collect();
        for key in lost {
            let client = self.requests.get_mut(key).and_then(|request| request.client.take());
            if let Some(client) = client {
                self.transactions.drop_client(client);
                self.fail(cx, key, 503, "the connection ended before the answer");
            }
        }
    }
}

/// More connections than a phone has servers and calls.
const PEERS_MAX: usize = 32;
