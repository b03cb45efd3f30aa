//! This server among the nodes that share their registrations: the store, the other nodes. The registrations that this
//! node shares with others. One order for what the journal and the store of registrations confirm.

mod sweep;
mod view;

use crate::failure::Failure;
use crate::serve::lock;
use ringway_location::NodeName;
use ringway_redis::{LocationStore, LocationUrl, NodeInfo, Settings, Sink, Status};
use ringway_server::{LinkedNode, NEIGHBOURS_MAX, NodeState, StoreFailed};
use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
pub(super) use sweep::{Again, Sweep};

/// The registrations that this node shares with others.
pub(in crate::serve) struct SharedLocation {
    store: LocationStore,
    peers: Arc<Peers>,
    node: NodeName,
    link: SocketAddr,
    url: Mutex<LocationUrl>,
    is_strict: bool,
    tickets: Mutex<Tickets>,
    is_draining: AtomicBool,
    started: Instant,
    /// Hash of this node's trunks, and the time since which it has them.
    trunks: Mutex<(u64, Instant)>,
    /// REGISTERs that got 503 after their change.
    refusals: AtomicU64,
}

impl SharedLocation {
    /// Starts the threads of the store; `sink` gets what they read, and notes in `peers` what the other nodes do.
    pub(in crate::serve) fn open(
        settings: Settings,
        peers: Arc<Peers>,
        sink: Arc<dyn Sink>,
    ) -> Result<Self, Failure> {
        let (node, link, is_strict) = (settings.node, settings.link, settings.is_strict);
        let url = Mutex::new(settings.url.clone());
        let store = LocationStore::start(settings, sink)
            .map_err(|error| Failure::failed(format!("cannot start the threads for [location]: {error}")))?;
        let (tickets, is_draining) = (Mutex::default(), AtomicBool::new(false));
        let refusals = AtomicU64::new(0);
        let started = Instant::now();
        let trunks = Mutex::new((0, started));
        Ok(Self { store, peers, node, link, url, is_strict, tickets, is_draining, started, trunks, refusals })
    }

    /// Passes an update to the writer; returns its number.
    pub(in crate::serve) fn append(&self, aor: &[u8], update: &[u8]) -> u64 {
        self.store.append(aor, update)
    }

    /// Error if a REGISTER must not get a 200 at present.
    pub(in crate::serve) fn check(&self) -> Result<(), StoreFailed> {
        match self.is_strict && self.store.failed() {
            true => Err(StoreFailed),
            false => Ok(()),
        }
    }

    /// True if an update is not in the store, and its REGISTER must get 503.
    pub(in crate::serve) fn refuses(&self, update: u64) -> bool {
        self.store.refuses(update)
    }

    /// Counts a 200 that became a 503.
    pub(in crate::serve) fn note_refusal(&self) {
        self.refusals.fetch_add(1, Ordering::Relaxed);
    }

    /// True once no other process can have the name of this node.
    pub(in crate::serve) fn has_name(&self) -> bool {
        self.store.has_name()
    }

    /// True while another process has the name of this node.
    pub(in crate::serve) fn is_name_taken(&self) -> bool {
        self.store.is_name_taken()
    }

    /// True while the store cannot be written.
    pub(in crate::serve) fn has_failed(&self) -> bool {
        self.store.failed()
    }

    /// Number that [`SharedLocation::durable`] reaches when everything that was stored is durable: updates, and records of the journal
    /// up to `journal`.
    pub(in crate::serve) fn ticket(&self, journal: u64, update: u64) -> u64 {
        lock(&self.tickets).issue(journal, update)
    }

    /// Number up to which everything is durable.
    pub(in crate::serve) fn durable(&self, journal: u64) -> u64 {
        lock(&self.tickets).durable(journal, self.store.durable())
    }

    /// Begins to read the bindings of a user for a query of a shard; false: it cannot.
    pub(in crate::serve) fn look_up(&self, shard: u16, query: u64, aor: &[u8]) -> bool {
        let number = self.peers.begin_lookup(shard, query);
        let has_begun = self.store.look_up(number, aor);
        if !has_begun {
            self.peers.end_lookup(number);
        }
        has_begun
    }

    /// True once the registrations of all nodes were read.
    pub(in crate::serve) fn is_warm(&self) -> bool {
        self.peers.is_warm()
    }

    /// State of another node by its heartbeats, and the address of its link.
    pub(in crate::serve) fn state_of(&self, node: &NodeName) -> (NodeState, Option<SocketAddr>) {
        self.peers.state_of(node)
    }

    /// The other nodes.
    pub(in crate::serve) fn nodes(&self) -> Vec<NodeInfo> {
        self.peers.read().clone()
    }

    /// Nodes that can register the trunks with this hash, and passes it to the others. `is_linked`: true for an address with a link that
    /// works. `None`: the list of nodes was not read yet, or other nodes may have the same trunks in a moment, and there is still time for
    /// that.
    pub(in crate::serve) fn nodes_with_trunks(
        &self,
        trunks: u64,
        is_linked: impl Fn(&SocketAddr) -> bool,
    ) -> Option<Vec<NodeName>> {
        let since = {
            let mut own = lock(&self.trunks);
            if own.0 != trunks {
                *own = (trunks, Instant::now());
                self.store.set_trunks(trunks);
            }
            own.1
        };
        let is_known = self.peers.is_listed.load(Ordering::Acquire) && self.has_name();
        if !is_known && self.started.elapsed() < LISTED_TIME_MAX {
            return None;
        }
        let own = Candidate {
            name: self.node,
            can: !self.is_name_taken(),
            is_draining: self.is_draining.load(Ordering::Relaxed),
        };
        let nodes = self.nodes();
        // They start, or are reloaded, together.
        let is_other =
            |node: &NodeInfo| node.trunks != trunks && node.state != ringway_redis::NodeState::Gone;
        if since.elapsed() < LISTED_TIME_MAX && nodes.iter().any(is_other) {
            return None;
        }
        let others = nodes.iter().filter(|node| node.trunks == trunks).map(|node| Candidate {
            name: node.name,
            // While the store is away, heartbeats say nothing.
            can: is_linked(&node.link)
                || (!self.has_failed() && !node.is_silent && node.state != ringway_redis::NodeState::Gone),
            is_draining: node.state == ringway_redis::NodeState::Draining,
        });
        Some(registering(others.chain([own]).collect()))
    }

    /// The other nodes, for links to them. Those without heartbeats may be cut off from the store only, and come last: they have a link
    /// while there is room.
    pub(in crate::serve) fn linked_nodes(&self) -> Vec<LinkedNode> {
        let mut nodes = self.nodes();
        nodes.sort_by_key(|node| node.state == ringway_redis::NodeState::Gone);
        let linked = |node: &NodeInfo| LinkedNode { name: node.name, address: node.link };
        nodes.iter().take(NEIGHBOURS_MAX).map(linked).collect()
    }

    /// Uses another URL from the next connection on.
    pub(in crate::serve) fn set_url(&self, url: &LocationUrl) {
        lock(&self.url).clone_from(url);
        self.store.set_url(url.clone());
    }

    /// Sets the state that other nodes see.
    pub(in crate::serve) fn set_draining(&self, is_draining: bool) {
        self.is_draining.store(is_draining, Ordering::Relaxed);
        self.store.set_draining(is_draining);
    }

    /// Notes that the registrations of this node are written again, or that the last of them waits to be.
    pub(in crate::serve) fn set_appending_again(&self, is_under_way: bool) {
        self.store.set_appending_again(is_under_way);
    }

    /// True while another node writes its registrations again.
    pub(in crate::serve) fn is_one_writing_again(&self) -> bool {
        self.peers.is_one_writing_again()
    }

    /// Writes what waits, and ends the threads.
    pub(in crate::serve) fn stop(&self) {
        self.store.stop();
    }

    fn status(&self) -> Status {
        self.store.status()
    }
}

/// Node that has the same trunks.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    name: NodeName,
    /// It can register.
    can: bool,
    /// It refuses new calls, and is the last choice.
    is_draining: bool,
}

/// Names of the nodes that register.
fn registering(mut nodes: Vec<Candidate>) -> Vec<NodeName> {
    nodes.retain(|node| node.can);
    if nodes.iter().any(|node| !node.is_draining) {
        nodes.retain(|node| !node.is_draining);
    }
    nodes.sort_unstable_by_key(|node| node.name);
    nodes.into_iter().map(|node| node.name).collect()
}

/// Tickets for data of the journal and of the store. A ticket is durable when both are.
#[derive(Debug, Default)]
struct Tickets {
    /// Those that are not durable, oldest first.
    open: VecDeque<Ticket>,
    last: Ticket,
    durable: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Ticket {
    number: u64,
    journal: u64,
    update: u64,
}

impl Tickets {
    /// Ticket for records of the journal and updates up to these numbers.
    fn issue(&mut self, journal: u64, update: u64) -> u64 {
        let (journal, update) = (self.last.journal.max(journal), self.last.update.max(update));
        if (journal, update) == (self.last.journal, self.last.update) {
            return self.last.number;
        }
        let is_full = self.open.len() >= OPEN_MAX;
        match self.open.back_mut().filter(|_| is_full) {
            // The newest ticket covers more: who has it waits a little longer.
            Some(last) => {
                (last.journal, last.update) = (journal, update);
                self.last = *last;
            }
            None => {
                self.last = Ticket { number: self.last.number + 1, journal, update };
                self.open.push_back(self.last);
            }
        }
        self.last.number
    }

    /// Newest ticket that is durable with all before it.
    fn durable(&mut self, journal: u64, update: u64) -> u64 {
        while let Some(ticket) =
            self.open.front().filter(|ticket| ticket.journal <= journal && ticket.update <= update)
        {
            self.durable = ticket.number;
            self.open.pop_front();
        }
        self.durable
    }
}

/// The other nodes, as the store has them.
#[derive(Default)]
pub(in crate::serve) struct Peers {
    nodes: RwLock<Vec<NodeInfo>>,
    /// True once the list was read.
    is_listed: AtomicBool,
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

    fn is_warm(&self) -> bool {
        self.is_warm.load(Ordering::Relaxed)
    }

    /// Begins a lookup for a query of a shard; returns its number.
    fn begin_lookup(&self, shard: u16, query: u64) -> u64 {
        lock(&self.lookups).begin(shard, query)
    }

    /// Ends a lookup; returns its shard and query.
    pub(in crate::serve) fn end_lookup(&self, number: u64) -> Option<(u16, u64)> {
        lock(&self.lookups).end(number)
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, Vec<NodeInfo>> {
        self.nodes.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the list of nodes. True: names, addresses or states changed.
    pub(in crate::serve) fn set(&self, nodes: &[NodeInfo]) -> bool {
        let lasting = |node: &NodeInfo| NodeInfo {
            last_seen_ms: 0,
            writes_again: false,
            trunks: 0,
            is_silent: false,
            ..*node
        };
        self.is_listed.store(true, Ordering::Release);
        let mut known = self.nodes.write().unwrap_or_else(PoisonError::into_inner);
        let is_changed = !known.iter().map(lasting).eq(nodes.iter().map(lasting));
        *known = nodes.to_vec();
        is_changed
    }

    /// True while a node that runs writes its registrations again.
    fn is_one_writing_again(&self) -> bool {
        self.read().iter().any(|node| node.writes_again && node.state != ringway_redis::NodeState::Gone)
    }

    /// State of a node by its heartbeats, and the address of its link; one that the store does not have is gone.
    fn state_of(&self, node: &NodeName) -> (NodeState, Option<SocketAddr>) {
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
    fn store_now_ms(&self) -> u64 {
        wall_ms().saturating_add_signed(self.store_ahead_ms.load(Ordering::Relaxed))
    }

    pub(in crate::serve) fn note_lag(&self, lag_ms: u64) {
        self.news_lag_ms.store(lag_ms, Ordering::Relaxed);
    }

    fn news_lag_ms(&self) -> u64 {
        self.news_lag_ms.load(Ordering::Relaxed)
    }
}

/// Time of this machine's clock, in milliseconds since the epoch.
pub(in crate::serve) fn wall_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

/// Time for which the list of nodes, and nodes with other trunks, are awaited before this node registers all of its own.
const LISTED_TIME_MAX: Duration = Duration::from_secs(10);
/// Maximum number of open tickets.
const OPEN_MAX: usize = 65_536;
/// Version of the protocol between nodes.
pub(in crate::serve) const LINK_VERSION: u16 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_draining_node_registers_trunks_only_if_no_other_can() {
        let names = |nodes: &[(&str, bool, bool)]| {
            let candidate = |&(name, can, is_draining): &(&str, bool, bool)| Candidate {
                name: NodeName::read(name.as_bytes()).unwrap(),
                can,
                is_draining,
            };
            let nodes = registering(nodes.iter().map(candidate).collect());
            nodes.iter().map(NodeName::as_str).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(names(&[("c", true, false), ("a", true, false), ("b", false, false)]), "a c");
        assert_eq!(names(&[("a", true, true), ("b", true, false)]), "b");
        assert_eq!(names(&[("a", true, true), ("b", false, false)]), "a");
        assert_eq!(names(&[("b", true, true), ("a", true, true)]), "a b");
        assert_eq!(names(&[("a", false, false)]), "");
    }

    #[test]
    fn a_ticket_is_durable_when_journal_and_store_are() {
        let mut tickets = Tickets::default();
        assert_eq!((tickets.issue(0, 0), tickets.durable(0, 0)), (0, 0), "nothing was stored");
        let first = tickets.issue(0, 1);
        let second = tickets.issue(5, 1);
        assert_eq!((first, second, tickets.issue(5, 1)), (1, 2, 2));
        assert_eq!(tickets.durable(4, 0), 0);
        assert_eq!(tickets.durable(4, 1), 1);
        assert_eq!(tickets.durable(5, 1), 2);
    }

    #[test]
    fn open_tickets_are_bounded() {
        let mut tickets = Tickets::default();
        let last = (1..=OPEN_MAX as u64 + 10).map(|number| tickets.issue(0, number)).last();
        assert_eq!((last, tickets.open.len()), (Some(OPEN_MAX as u64), OPEN_MAX));
        assert_eq!(tickets.durable(0, OPEN_MAX as u64 + 9), OPEN_MAX as u64 - 1);
        assert_eq!(tickets.durable(0, OPEN_MAX as u64 + 10), OPEN_MAX as u64);
        assert_eq!(tickets.issue(1, 0), OPEN_MAX as u64 + 1);
    }
}
