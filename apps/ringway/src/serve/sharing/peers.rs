//! The other nodes and the store's clock, as the threads of the store report them.

use crate::serve::lock;
use ringway_location::NodeName;
use ringway_redis::NodeInfo;
use ringway_server::NodeState;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError, RwLock};
use std::time::{SystemTime, UNIX_EPOCH};

/// The other nodes, as the store has them.
#[derive(Default)]
pub(in crate::serve) struct Peers {
    nodes: RwLock<Vec<NodeInfo>>,
    is_warm: AtomicBool,
    /// Clock of the store, minus that of this machine, in milliseconds.
    store_ahead_ms: AtomicI64,
    /// Milliseconds that the last change of another node took.
    news_lag_ms: AtomicU64,
    lookups: Mutex<Lookups>,
}

/// Queries of shards, by the number of their lookup. The store bounds the number of lookups, and ends each one.
#[derive(Default)]
struct Lookups {
    last: u64,
    open: HashMap<u64, (u16, u64)>,
}

impl Lookups {
    fn begin(&mut self, shard: u16, query: u64) -> u64 {
        self.last += 1;
        self.open.insert(self.last, (shard, query));
        self.last
    }

    /// Shard and query of a lookup.
    fn end(&mut self, number: u64) -> Option<(u16, u64)> {
        self.open.remove(&number)
    }
}

impl Peers {
    /// Notes whether the registrations of all nodes were read.
    pub(in crate::serve) fn set_warm(&self, is_warm: bool) {
        self.is_warm.store(is_warm, Ordering::Relaxed);
    }

    pub(super) fn is_warm(&self) -> bool {
        self.is_warm.load(Ordering::Relaxed)
    }

    /// Begins a lookup for a query of a shard; returns its number.
    pub(super) fn begin_lookup(&self, shard: u16, query: u64) -> u64 {
        lock(&self.lookups).begin(shard, query)
    }

    /// Ends a lookup; returns its shard and query.
    pub(in crate::serve) fn end_lookup(&self, number: u64) -> Option<(u16, u64)> {
        lock(&self.lookups).end(number)
    }

    pub(super) fn read(&self) -> std::sync::RwLockReadGuard<'_, Vec<NodeInfo>> {
        self.nodes.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the list of nodes. True: names, addresses or states changed.
    pub(in crate::serve) fn set(&self, nodes: &[NodeInfo]) -> bool {
        let lasting = |node: &NodeInfo| NodeInfo { last_seen_ms: 0, writes_again: false, ..*node };
        let mut known = self.nodes.write().unwrap_or_else(PoisonError::into_inner);
        let is_changed = !known.iter().map(lasting).eq(nodes.iter().map(lasting));
        *known = nodes.to_vec();
        is_changed
    }

    /// True while a node that runs writes its registrations again.
    pub(super) fn is_one_writing_again(&self) -> bool {
        self.read().iter().any(|node| node.writes_again && node.state != ringway_redis::NodeState::Gone)
    }

    /// State of a node by its heartbeats, and the address of its link; one that the store does not have is gone.
    pub(super) fn state_of(&self, node: &NodeName) -> (NodeState, Option<SocketAddr>) {
        let nodes = self.read();
        let Some(known) = nodes.iter().find(|known| known.name == *node) else {
            return (NodeState::Gone, None);
        };
        let state = match known.state {
            ringway_redis::NodeState::Up => NodeState::Up,
            ringway_redis::NodeState::Draining => NodeState::Draining,
            ringway_redis::NodeState::Gone => NodeState::Gone,
        };
        (state, Some(known.link))
    }

    pub(in crate::serve) fn note_store_clock(&self, store_now_ms: u64, own_now_ms: u64) {
        let ahead = i64::try_from(i128::from(store_now_ms) - i128::from(own_now_ms)).unwrap_or_default();
        self.store_ahead_ms.store(ahead, Ordering::Relaxed);
    }

    /// Time of the store's clock.
    pub(super) fn store_now_ms(&self) -> u64 {
        wall_ms().saturating_add_signed(self.store_ahead_ms.load(Ordering::Relaxed))
    }

    pub(in crate::serve) fn note_lag(&self, lag_ms: u64) {
        self.news_lag_ms.store(lag_ms, Ordering::Relaxed);
    }

    pub(super) fn news_lag_ms(&self) -> u64 {
        self.news_lag_ms.load(Ordering::Relaxed)
    }
}

/// Time of this machine's clock, in milliseconds since the epoch.
pub(in crate::serve) fn wall_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

/// Version of the protocol between nodes.
pub(in crate::serve) const LINK_VERSION: u16 = 1;
