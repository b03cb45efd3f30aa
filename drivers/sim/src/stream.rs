//! Stream connections: two ends, each with a number of its own.

use crate::host::SimFramer;
use crate::sim::HostId;
use ringway_sansio::{ConnectionId, Instant, ListenerId, Token};
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// One end of a connection.
pub(crate) struct End {
    pub(crate) host: HostId,
    pub(crate) listener: ListenerId,
    pub(crate) local: SocketAddr,
    pub(crate) remote: SocketAddr,
    /// The other end.
    pub(crate) peer: ConnectionId,
    pub(crate) framer: Box<dyn SimFramer>,
    /// When the last bytes that are on their way to this end arrive.
    pub(crate) last_arrival: Instant,
    /// Shards and tokens of the messages that were written while none had come; `None` once one has.
    pub(crate) unanswered: Option<Vec<(u16, Token)>>,
}

/// All connections. A number is never used twice.
#[derive(Default)]
pub(crate) struct Connections {
    ends: BTreeMap<ConnectionId, End>,
    /// Which connection a host dialled to an address.
    dialled: BTreeMap<(HostId, SocketAddr), ConnectionId>,
    next_id: u64,
    next_port: u16,
}

impl Connections {
    pub(crate) fn next_id(&mut self) -> ConnectionId {
        self.next_id += 1;
        ConnectionId(self.next_id)
    }

    /// A port nobody listens at.
    pub(crate) fn ephemeral_port(&mut self) -> u16 {
        self.next_port = self.next_port.wrapping_add(1) % (u16::MAX - EPHEMERAL_FIRST);
        EPHEMERAL_FIRST + self.next_port
    }

    pub(crate) fn insert_dialled(&mut self, id: ConnectionId, end: End) {
        self.dialled.insert((end.host, end.remote), id);
        self.ends.insert(id, end);
    }

    pub(crate) fn insert_accepted(&mut self, id: ConnectionId, end: End) {
        self.ends.insert(id, end);
    }

    pub(crate) fn dialled(&self, host: HostId, remote: SocketAddr) -> Option<ConnectionId> {
        self.dialled.get(&(host, remote)).copied()
    }

    pub(crate) fn end(&self, id: ConnectionId) -> Option<&End> {
        self.ends.get(&id)
    }

    pub(crate) fn end_mut(&mut self, id: ConnectionId) -> Option<&mut End> {
        self.ends.get_mut(&id)
    }

    pub(crate) fn remove(&mut self, id: ConnectionId) -> Option<End> {
        let end = self.ends.remove(&id)?;
        if self.dialled(end.host, end.remote) == Some(id) {
            self.dialled.remove(&(end.host, end.remote));
        }
        Some(end)
    }

    /// The ends of a host.
    pub(crate) fn of_host(&self, host: HostId) -> Vec<ConnectionId> {
        self.ends.iter().filter(|(_, end)| end.host == host).map(|(&id, _)| id).collect()
    }
}

const EPHEMERAL_FIRST: u16 = 49_152;
