//! This server among the nodes that share their registrations: the store, the other nodes.

mod again;
mod sink;
mod tickets;
mod view;

use super::lock::lock;
use crate::failure::Failure;
use ringway_location::NodeName;
use ringway_redis::{LocationStore, LocationUrl, NodeInfo, Settings, Status};
use ringway_server::{LinkedNode, NodeState, StoreFailed};
use sink::Reader;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use tickets::Tickets;

pub(super) use again::Again;
pub(super) use sink::{ClusterEvents, start};
pub(super) use view::wall_ms;

/// The registrations that this node shares with others.
pub(super) struct SharedLocation {
    store: LocationStore,
    peers: Arc<Peers>,
    node: NodeName,
    link: SocketAddr,
    url: Mutex<LocationUrl>,
    is_strict: bool,
    tickets: Mutex<Tickets>,
    is_draining: AtomicBool,
}

/// The other nodes, as the store has them.
#[derive(Default)]
pub(super) struct Peers {
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

impl SharedLocation {
    /// Passes an update to the writer; returns its number.
    pub(super) fn append(&self, aor: &[u8], update: &[u8]) -> u64 {
        self.store.append(aor, update)
    }

    /// Error if a REGISTER must not get a 200 at present.
    pub(super) fn check(&self) -> Result<(), StoreFailed> {
        match self.is_strict && self.store.failed() {
            true => Err(StoreFailed),
            false => Ok(()),
        }
    }

    /// Number of updates that can be appended before the oldest are dropped.
    fn room(&self) -> usize {
        self.store.room()
    }

    /// True while the store cannot be written.
    pub(super) fn has_failed(&self) -> bool {
        self.store.failed()
    }

    /// Number that [`SharedLocation::durable`] reaches when everything that was stored is durable: updates, and records of the journal
    /// up to `journal`.
    pub(super) fn ticket(&self, journal: u64, update: u64) -> u64 {
        lock(&self.tickets).issue(journal, update)
    }

    /// Number up to which everything is durable.
    pub(super) fn durable(&self, journal: u64) -> u64 {
        lock(&self.tickets).durable(journal, self.store.durable())
    }

    /// Begins to read the bindings of a user for a query of a shard; false: it cannot.
    pub(super) fn look_up(&self, shard: u16, query: u64, aor: &[u8]) -> bool {
        let number = lock(&self.peers.lookups).begin(shard, query);
        let has_begun = self.store.look_up(number, aor);
        if !has_begun {
            lock(&self.peers.lookups).end(number);
        }
        has_begun
    }

    /// True once the registrations of all nodes were read.
    pub(super) fn is_warm(&self) -> bool {
        self.peers.is_warm.load(Ordering::Relaxed)
    }

    /// State of another node.
    pub(super) fn state_of(&self, node: &NodeName) -> NodeState {
        self.peers.state_of(node)
    }

    /// The other nodes.
    pub(super) fn nodes(&self) -> Vec<NodeInfo> {
        self.peers.read().clone()
    }

    /// The other nodes that run, for links to them.
    pub(super) fn linked_nodes(&self) -> Vec<LinkedNode> {
        let runs = |node: &&NodeInfo| node.state != ringway_redis::NodeState::Gone;
        let linked = |node: &NodeInfo| LinkedNode { name: node.name, address: node.link };
        self.peers.read().iter().filter(runs).map(linked).collect()
    }

    /// Uses another URL from the next connection on.
    pub(super) fn set_url(&self, url: &LocationUrl) {
        lock(&self.url).clone_from(url);
        self.store.set_url(url.clone());
    }

    /// Sets the state that other nodes see.
    pub(super) fn set_draining(&self, is_draining: bool) {
        self.is_draining.store(is_draining, Ordering::Relaxed);
        self.store.set_draining(is_draining);
    }

    /// Writes what waits, and ends the threads.
    pub(super) fn stop(&self) {
        self.store.stop();
    }

    fn status(&self) -> Status {
        self.store.status()
    }
}

impl Peers {
    fn read(&self) -> std::sync::RwLockReadGuard<'_, Vec<NodeInfo>> {
        self.nodes.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, nodes: &[NodeInfo]) {
        *self.nodes.write().unwrap_or_else(PoisonError::into_inner) = nodes.to_vec();
    }

    /// State of a node; one that the store does not have is gone.
    fn state_of(&self, node: &NodeName) -> NodeState {
        let nodes = self.read();
        let found = nodes.iter().find(|known| known.name == *node);
        found.map_or(NodeState::Gone, |known| match known.state {
            ringway_redis::NodeState::Up => NodeState::Up,
            ringway_redis::NodeState::Draining => NodeState::Draining,
            ringway_redis::NodeState::Gone => NodeState::Gone,
        })
    }
}

impl Peers {
    fn note_store_clock(&self, store_now_ms: u64, own_now_ms: u64) {
        let ahead = i64::try_from(i128::from(store_now_ms) - i128::from(own_now_ms)).unwrap_or_default();
        self.store_ahead_ms.store(ahead, Ordering::Relaxed);
    }

    /// Time of the store's clock.
    fn store_now_ms(&self) -> u64 {
        view::wall_ms().saturating_add_signed(self.store_ahead_ms.load(Ordering::Relaxed))
    }

    fn note_lag(&self, lag_ms: u64) {
        self.news_lag_ms.store(lag_ms, Ordering::Relaxed);
    }

    fn news_lag_ms(&self) -> u64 {
        self.news_lag_ms.load(Ordering::Relaxed)
    }
}

/// Starts the threads of the store; `reader` gets what they read.
fn open(settings: Settings, peers: Arc<Peers>, reader: Arc<Reader>) -> Result<SharedLocation, Failure> {
    let (node, link, is_strict) = (settings.node, settings.link, settings.is_strict);
    let url = Mutex::new(settings.url.clone());
    let store = LocationStore::start(settings, reader)
        .map_err(|error| Failure::failed(format!("cannot start the threads for [location]: {error}")))?;
    let (tickets, is_draining) = (Mutex::default(), AtomicBool::new(false));
    Ok(SharedLocation { store, peers, node, link, url, is_strict, tickets, is_draining })
}
