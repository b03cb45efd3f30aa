//! Connections and associations: their numbers, and the list of the open ones for other threads. Workers update the list when
//! a connection is opened or closed, not for each message.
//!
//! A [`ConnectionId`] consists of the owner's number (8 bits), the kind (1 bit), the slot (19 bits) and the slot's generation
//! (36 bits), which begins at a random number: see [`Common::first_use`](crate::shared::Common::first_use).

use crate::inbox::Inboxes;
use ringway_sansio::{ConnectionId, DialledId, Flow, Instant, ListenerId, Transport};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::{Arc, Mutex, PoisonError};

/// An open stream connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenConnection {
    /// Number of the connection.
    pub id: ConnectionId,
    /// Transport of the connection.
    pub transport: Transport,
    /// Listener that accepted it, or for which it was dialled.
    pub listener: ListenerId,
    /// Local address.
    pub local: SocketAddr,
    /// Remote address.
    pub remote: SocketAddr,
    /// Number of a dialled connection.
    pub dialled: DialledId,
    /// Time at which it was opened.
    pub since: Instant,
}

/// Open connections of a runtime, for any thread.
#[derive(Clone)]
pub struct Connections {
    workers: Arc<[WorkerList]>,
    inboxes: Inboxes,
}

impl Connections {
    pub(crate) fn new(inboxes: Inboxes) -> Self {
        Self { workers: (0..inboxes.workers()).map(|_| WorkerList::default()).collect(), inboxes }
    }

    /// Requests the end of a connection from its worker. `None`: there is no such connection, or the worker's inbox is full.
    pub fn close(&self, id: ConnectionId) -> Option<OpenConnection> {
        let worker = owner_of(id);
        let open =
            *self.workers.get(worker)?.open.lock().unwrap_or_else(PoisonError::into_inner).get(&id.0)?;
        let flow =
            Flow { connection: Some(id), transport: open.transport, ..Flow::udp(ListenerId(0), open.remote) };
        self.inboxes.of(worker)?.push_disconnect(flow).then_some(open)
    }

    /// Requests the end of all connections of a listener, accepted and dialled.
    pub fn close_all_of(&self, listener: ListenerId) {
        for worker in self.workers.iter() {
            let open = worker.open.lock().unwrap_or_else(PoisonError::into_inner);
            let of: Vec<_> =
                open.values().filter(|open| open.listener == listener).map(|open| open.id).collect();
            drop(open);
            for id in of {
                self.close(id);
            }
        }
    }

    /// Returns up to `limit` connections in the order of their numbers, beginning after `after`.
    pub fn page(&self, after: Option<ConnectionId>, limit: usize) -> Vec<OpenConnection> {
        let from = after.map_or(Unbounded, |id| Excluded(id.0));
        let mut page = Vec::new();
        // The worker's number is in the upper bits of a connection's number, so the lists of the workers are in order.
        for worker in self.workers.iter() {
            let open = worker.open.lock().unwrap_or_else(PoisonError::into_inner);
            page.extend(
                open.range((from, Unbounded)).take(limit - page.len()).map(|(_, connection)| *connection),
            );
        }
        page
    }

    pub(crate) fn opened(&self, worker: usize, connection: OpenConnection) {
        if let Some(worker) = self.workers.get(worker) {
            worker.open.lock().unwrap_or_else(PoisonError::into_inner).insert(connection.id.0, connection);
        }
    }

    pub(crate) fn closed(&self, worker: usize, id: ConnectionId) {
        if let Some(worker) = self.workers.get(worker) {
            worker.open.lock().unwrap_or_else(PoisonError::into_inner).remove(&id.0);
        }
    }
}

#[derive(Default)]
#[repr(align(128))]
struct WorkerList {
    open: Mutex<BTreeMap<u64, OpenConnection>>,
}

/// Kind of a numbered connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Stream connection.
    Stream,
    /// DTLS association.
    Association,
}

/// Worker that owns a connection.
pub(crate) fn owner_of(connection: ConnectionId) -> usize {
    (connection.0 >> OWNER_SHIFT) as usize
}

pub(crate) const fn kind_of(connection: ConnectionId) -> Kind {
    match connection.0 >> KIND_SHIFT & 1 {
        0 => Kind::Stream,
        _ => Kind::Association,
    }
}

pub(crate) fn id_of(worker: usize, kind: Kind, index: u32, uses: u64) -> ConnectionId {
    let owner = (worker as u64) << OWNER_SHIFT | (kind as u64) << KIND_SHIFT;
    ConnectionId(owner | u64::from(index) << SLOT_SHIFT | uses)
}

/// Slot and generation.
pub(crate) fn parts_of(id: ConnectionId) -> (u32, u64) {
    ((id.0 >> SLOT_SHIFT) as u32 & (SLOTS_MAX as u32 - 1), id.0 & USES_MAX)
}

/// Maximum number of slots of a kind.
pub(crate) const SLOTS_MAX: usize = 1 << (KIND_SHIFT - SLOT_SHIFT);

/// Last generation of a slot.
pub(crate) const USES_MAX: u64 = (1 << SLOT_SHIFT) - 1;

const OWNER_SHIFT: u32 = 56;
const KIND_SHIFT: u32 = 55;
const SLOT_SHIFT: u32 = 36;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_follow_each_other_across_workers() {
        let list = Connections::new(Inboxes::new(2).unwrap());
        let address = "127.0.0.1:5060".parse().unwrap();
        let ids = [1, 2, 3, 1 << 56 | 1, 1 << 56 | 2];
        for id in ids.map(ConnectionId) {
            let since = Instant::from_secs(1);
            let dialled = DialledId::SHARED;
            let connection = OpenConnection {
                id,
                transport: Transport::Tcp,
                listener: ListenerId(0),
                local: address,
                remote: address,
                dialled,
                since,
            };
            list.opened((id.0 >> 56) as usize, connection);
        }
        list.closed(0, ConnectionId(2));
        let page = |after: Option<u64>| {
            let page = list.page(after.map(ConnectionId), 2);
            page.iter().map(|connection| connection.id.0).collect::<Vec<_>>()
        };
        assert_eq!(page(None), [1, 3]);
        assert_eq!(page(Some(3)), [1 << 56 | 1, 1 << 56 | 2]);
        assert_eq!(page(Some(2)), [3, 1 << 56 | 1]);
        assert!(page(Some(u64::MAX)).is_empty());
        assert_eq!(list.close(ConnectionId(2)), None, "it is closed already");
        assert_eq!(list.close(ConnectionId(u64::MAX)), None, "no worker has it");
        assert_eq!(list.close(ConnectionId(3)).map(|open| open.id), Some(ConnectionId(3)));
    }

    #[test]
    fn an_id_consists_of_owner_kind_slot_and_generation() {
        for (worker, index, uses) in [(0, 0, 1), (254, SLOTS_MAX as u32 - 1, USES_MAX), (3, 77, 12)] {
            for kind in [Kind::Stream, Kind::Association] {
                let id = id_of(worker, kind, index, uses);
                assert_eq!((owner_of(id), kind_of(id), parts_of(id)), (worker, kind, (index, uses)));
            }
        }
    }
}
