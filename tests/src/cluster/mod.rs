//! Three nodes that share their registrations, their store, and phones.
//!
//! Tested: registrations at any node and calls over any node, phones behind NAT and with connections at different nodes, both sides of
//! dialogs; the store away, paused, failing over with the last second lost, emptied; a node killed, paused, cut off from the store,
//! from another node in one direction or both; links that break; cold nodes that read all records or look users up; drain; a
//! secret that changes in three steps; a node of the next version, whose records others cannot read; clocks of nodes that differ by up to
//! 30 s; nonces of one node at another; nodes that hold all users or those that they serve.
//!
//! Checked: after each step that a call crosses one link at most, and that a node which reads the store has what it has; at the end of a
//! story that no transaction, context or memory is left, and that all nodes agree; by stories with random faults that an
//! acknowledged binding which the store had is reached over each node that can know it, and a removed one over none.
//!
//! Not tested: TLS itself (a model of its rule: certificates by two secrets), the threads and scripts of `services/redis` (its tests
//! have real servers), strict durability (`apps/ringway`: tickets; here a binding counts as confirmed once the store has it), lost packets
//! between phones and nodes, subscriptions and kept messages of several nodes, which are not shared, clocks that jump while a node runs,
//! half-open connections of a lost machine, dials that nothing answers, limits of the writer (`services/redis`), another version of the
//! links, more than three nodes. That a removed binding stays away is checked only if all nodes had read everything meanwhile.

mod carrier;
mod check;
mod faults;
mod front;
mod link;
mod node;
mod reader;
mod shell;
mod store;

pub use store::{Store, StoreState};

use crate::world::{BEGIN, password};
use crate::{Account, Behaviour, Phone, PhoneEvent, REALM, Story, Violation, seeds};
use carrier::Carrier;
use front::Front;
use link::Secrets;
use node::ClusterNode;
use ringway_location::EntryId;
use ringway_sansio::{HostNameId, Instant, Rng, Seed, Transport};
use ringway_server::{ClusterSecret, Hold};
use ringway_sim::{Effects, HostId, Sim};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;
use store::Stored;

/// Three nodes at 10.0.0.1 to 10.0.0.3, their store, and phones from 10.0.1.1 on.
pub struct Cluster {
    /// Simulated network.
    pub sim: Sim,
    /// Store of the registrations.
    pub store: Store,
    /// Randomness of the story.
    pub rng: Rng,
    nodes: Vec<ClusterNode>,
    front: Option<Front>,
    carrier: Option<Carrier>,
    phones: Vec<HostId>,
    seed: u64,
    /// Maximum difference of the ends of a binding by the clocks.
    clock_moved: Duration,
    /// Nodes from and to which nothing arrives.
    cut: BTreeSet<(usize, usize)>,
    /// Steps of a change of the secret that each node took.
    rotated: [usize; Self::NODES],
    /// Time since which each node runs and reaches a store that is up.
    connected: [Option<Instant>; Self::NODES],
    /// Time of the last change of the store, or of its failover.
    changed: (usize, Instant),
    /// Faults so far, for the report.
    faults: Vec<String>,
    /// Time of the next exchange of heartbeats, and of the next comparison of the nodes with the store.
    heartbeats_at: Instant,
    compared_at: Instant,
    /// Number of packets of the trace that were checked.
    checked: usize,
    /// Nodes that a call came to over a link, by its Call-ID and CSeq.
    crossed: BTreeMap<(Vec<u8>, u32), Vec<usize>>,
}

impl Cluster {
    /// Number of nodes.
    pub const NODES: usize = 3;
    /// Number of the front, where a method takes that of a node.
    pub const FRONT: usize = 8;
    /// The same of the carrier.
    pub const CARRIER: usize = 9;

    /// Runs a story once for each seed, as [`Story::run`] does. Afterwards the cluster settles and is checked.
    pub fn run(name: &'static str, notify: impl Fn(&mut Self)) {
        Self::run_holding(name, Hold::All, notify);
    }

    /// The same with nodes that hold these users.
    pub fn run_holding(name: &'static str, hold: Hold, notify: impl Fn(&mut Self)) {
        seeds::run(name, Story::SEEDS / 8, |seed| Self::play(seed, hold, &notify));
    }

    /// Runs a story for one seed.
    pub(crate) fn play(seed: u64, hold: Hold, notify: impl Fn(&mut Self)) -> Result<(), Violation> {
        let story = |cluster: &mut Self| {
            // The nodes have read all, and have links.
            cluster.wait(2);
            notify(cluster);
            cluster.settle();
        };
        seeds::play(seed, || Self::new(seed, hold), story, Self::report)
    }

    fn new(seed: u64, hold: Hold) -> Self {
        let root = Seed::from_number(seed);
        let mut sim = Sim::new(&root.part(2), BEGIN);
        let node = |index| ClusterNode::new(&mut sim, seed, index, (hold, secrets(0)));
        let nodes = (0..Self::NODES).map(node).collect();
        Self {
            sim,
            store: Store::new(),
            rng: Rng::new(&root.part(60)),
            nodes,
            front: None,
            carrier: None,
            phones: Vec::new(),
            seed,
            clock_moved: Duration::from_secs(1),
            cut: BTreeSet::new(),
            rotated: [0; Self::NODES],
            connected: [None; Self::NODES],
            changed: (0, BEGIN),
            faults: Vec::new(),
            heartbeats_at: BEGIN,
            compared_at: BEGIN,
            checked: 0,
            crossed: BTreeMap::new(),
        }
    }

    /// Starts a front before all nodes, and waits until it has found them.
    pub fn add_front(&mut self) {
        self.front = Some(Front::start(&mut self.sim, self.seed, Self::NODES));
        self.wait(5);
    }

    /// Kills the front and starts it again, and waits until it has found the nodes.
    pub fn restart_front(&mut self) {
        if let Some(front) = self.front.take() {
            front.kill(&mut self.sim);
        }
        self.wait(1);
        self.add_front();
    }

    /// Starts a carrier, and gives all nodes trunks that register there.
    pub fn add_trunks(&mut self, count: usize) {
        self.carrier = Some(Carrier::start(&mut self.sim, self.seed, count));
        for node in &mut self.nodes {
            node.set_trunks(&mut self.sim, carrier::trunks(count));
        }
    }

    /// Contacts that the carrier has, with their accounts.
    pub fn contacts(&self) -> Vec<(String, String)> {
        self.carrier.as_ref().map(|carrier| carrier.contacts(&self.sim)).unwrap_or_default()
    }

    /// Accounts with a contact that leads to a node.
    pub fn accounts_of(&self, node: usize) -> BTreeSet<String> {
        let host = format!("@{}:", node::ip(node));
        let of_node = self.contacts().into_iter().filter(|(_, contact)| contact.contains(&host));
        of_node.map(|(account, _)| account).collect()
    }

    /// Number of REGISTERs that the carrier got.
    pub fn registers_len(&self) -> usize {
        (0..Self::NODES).map(|node| self.registers_of(node).len()).sum()
    }

    /// Times of those of a node.
    pub fn registers_of(&self, node: usize) -> Vec<Instant> {
        Carrier::registers(&self.sim, node::ip(node))
    }

    /// Maximum number of them in a second.
    pub fn registers_per_s_max(&self, node: usize) -> usize {
        let times = self.registers_of(node);
        let second = Duration::from_secs(1);
        let in_second =
            |from: &Instant| times.iter().filter(|at| *at >= from && at.since(*from) < second).count();
        times.iter().map(in_second).max().unwrap_or_default()
    }

    /// A counter of the front.
    pub fn front_counts(&self, of: fn(&ringway_server::Counters) -> u64) -> u64 {
        self.front.as_ref().map_or(0, |front| front.counted(&self.sim, of))
    }

    /// Number of INVITEs that went from a node to a node.
    pub fn calls_between_nodes(&self) -> usize {
        let is_node = |address: SocketAddr| (0..Self::NODES).any(|node| node::ip(node) == address.ip());
        let packets = self.sim.trace().packets();
        packets
            .filter(|seen| is_node(seen.from) && is_node(seen.to) && seen.from != seen.to)
            .filter(|seen| seen.bytes.starts_with(b"INVITE "))
            .count()
    }

    /// Number of calls of a phone.
    pub fn calls_len(&self, phone: HostId) -> usize {
        self.node_of(phone).calls_len()
    }

    /// Node that has the registration of a phone in the store.
    pub fn stored_at(&self, phone: HostId) -> Option<usize> {
        let stored = self.store.all(self.sim.now());
        (0..Self::NODES).find(|node| self.is_in(&stored, phone, Some(*node)))
    }

    /// Adds a phone of a subscriber with a password. One behind NAT has a Contact that nobody reaches.
    pub fn phone(&mut self, user: &str, transport: Transport, is_behind_nat: bool) -> HostId {
        self.nodes.iter_mut().for_each(|node| node.subscribe(user));
        let number = u8::try_from(self.phones.len() + 1).expect("a story has few phones");
        let address = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 1, number)), 5060);
        let private = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 168, 0, number)), 5060);
        let account = Account { user: user.into(), domain: REALM.into(), password: password(user) };
        let seed = Seed::from_number(self.seed).part(100 + u64::from(number));
        let (contact, server) = (is_behind_nat.then_some(private), (node::ip(0), HostNameId::NONE));
        let mut phone = Phone::new(account, address, transport, contact, server, &seed, self.sim.now());
        phone.behave(Behaviour::Answer { ring_ms: 50, answer_ms: 100 });
        let name = format!("{user}{number}");
        let listeners = [(Transport::Udp, address), (Transport::Tcp, address)];
        let host = self.sim.add(&name, &listeners, Box::new(phone)).expect("the address is free");
        self.phones.push(host);
        host
    }

    /// Adds a caller and three phones: one that every node reaches, one behind NAT, and one behind NAT with a connection.
    pub fn people(&mut self) -> (HostId, [HostId; 3]) {
        let caller = self.phone("alice", Transport::Udp, false);
        let kinds =
            [("bob", Transport::Udp, false), ("carol", Transport::Udp, true), ("dave", Transport::Tcp, true)];
        (caller, kinds.map(|(user, transport, is_behind_nat)| self.phone(user, transport, is_behind_nat)))
    }

    /// Sends a REGISTER of a phone to a node; 0 seconds remove its contact.
    pub fn register(&mut self, phone: HostId, node: usize, seconds: u32) {
        self.phone_do(phone, |phone, now, effects| {
            phone.set_server(node::ip(node));
            phone.register(now, seconds, effects);
        });
    }

    /// The same, and waits for a 200.
    pub fn registers(&mut self, phone: HostId, node: usize, seconds: u32) {
        let before = self.registrations(phone);
        self.register(phone, node, seconds);
        for _ in 0..4000 {
            if self.registrations(phone) > before {
                return;
            }
            self.step();
        }
        panic!("the phone does not get registered at node {node}");
    }

    /// Number of 200s to a phone's REGISTERs.
    pub fn registrations(&self, phone: HostId) -> usize {
        let is_registered = |event: &&PhoneEvent| matches!(event, PhoneEvent::Registered { .. });
        self.events(phone).iter().filter(is_registered).count()
    }

    /// Sends a REGISTER of a phone to a node, and its credentials to another one.
    pub fn register_across(&mut self, phone: HostId, (first, second): (usize, usize), seconds: u32) {
        self.register(phone, first, seconds);
        self.phone_do(phone, |phone, _, _| phone.set_server(node::ip(second)));
    }

    /// Starts a call of a phone to a user over a node.
    pub fn call(&mut self, caller: HostId, node: usize, user: &str) {
        self.phone_do(caller, |phone, now, effects| {
            phone.set_server(node::ip(node));
            phone.call(now, &format!("sip:{user}@{REALM}"), effects);
        });
    }

    /// Ends the last call of a phone.
    pub fn hang_up(&mut self, phone: HostId) {
        self.phone_do(phone, |phone, now, effects| phone.hang_up(now, effects));
    }

    /// Calls `callee` from `caller` over a node; true if it is called within two seconds. The call is ended.
    pub fn reaches(&mut self, caller: HostId, node: usize, callee: HostId) -> bool {
        let called = |cluster: &Self| {
            cluster.events(callee).iter().filter(|event| **event == PhoneEvent::Called).count()
        };
        let before = called(self);
        let user = self.node_of(callee).user().to_owned();
        self.call(caller, node, &user);
        self.wait_ms(2000);
        self.hang_up(caller);
        self.wait_ms(200);
        called(self) == before + 1
    }

    /// True if the store has a binding of a phone at a node that lasts until `ends`, nearly. One that lasts longer is that of an earlier
    /// registration.
    pub fn is_stored(&self, phone: HostId, node: usize, ends: Instant) -> bool {
        let now = self.sim.now();
        let second = Duration::from_secs(1);
        let mut stored = self.store.all(now);
        stored.retain(|(_, left)| {
            now + *left + second >= ends && now + *left <= ends + self.clock_moved + second
        });
        self.is_in(&stored, phone, Some(node))
    }

    /// True if neither the store nor a node that runs has a binding of a phone.
    pub fn is_nowhere(&self, phone: HostId) -> bool {
        let is_stored = self.is_in(&self.store.all(self.sim.now()), phone, None);
        !is_stored && (0..Self::NODES).all(|node| !self.has(node, phone))
    }

    /// True if a node that runs has a binding of a phone, its own or that of another node.
    pub fn has(&self, node: usize, phone: HostId) -> bool {
        let bindings = self.nodes[node].bindings(&self.sim);
        bindings.is_some_and(|bindings| self.is_in(&bindings, phone, None))
    }

    fn is_in(&self, bindings: &[Stored], phone: HostId, node: Option<usize>) -> bool {
        let phone = self.node_of(phone);
        let id = id_of(phone.contact_uri().as_bytes());
        let aor = format!("{}@{REALM}", phone.user()).into_bytes();
        let is_at = |name| node.is_none_or(|node| self.nodes[node].name == name);
        bindings.iter().any(|(of_one, _)| (&of_one.0, of_one.1) == (&aor, id) && is_at(of_one.2))
    }

    /// True until the final response to a REGISTER of a phone.
    pub fn is_registering(&self, phone: HostId) -> bool {
        self.node_of(phone).is_registering()
    }

    /// Number of bindings in the store.
    pub fn stored_len(&self) -> usize {
        self.store.all(self.sim.now()).len()
    }

    /// Number of bindings at a node that runs.
    pub fn bindings_len(&self, node: usize) -> usize {
        self.nodes[node].bindings(&self.sim).map_or(0, |bindings| bindings.len())
    }

    /// Advances the clock by seconds.
    pub fn wait(&mut self, seconds: u64) {
        self.wait_ms(1000 * seconds);
    }

    /// Advances the clock by milliseconds.
    pub fn wait_ms(&mut self, milliseconds: u64) {
        let end = self.sim.now() + Duration::from_millis(milliseconds);
        while self.sim.now() < end {
            self.step_until(end);
        }
    }

    /// Calls a phone.
    pub fn phone_do<R>(
        &mut self,
        phone: HostId,
        run: impl FnOnce(&mut Phone, Instant, &mut Effects) -> R,
    ) -> R {
        self.sim.call::<Phone, R>(phone, 0, run).expect("the host is a phone")
    }

    /// All events of a phone, in order.
    pub fn events(&self, phone: HostId) -> Vec<PhoneEvent> {
        self.node_of(phone).events()
    }

    fn node_of(&self, phone: HostId) -> &Phone {
        self.sim.node::<Phone>(phone).expect("the host is a phone")
    }

    fn step(&mut self) {
        self.step_until(self.sim.now() + STEP);
    }

    /// Advances the clock to `end` at most.
    fn step_until(&mut self, end: Instant) {
        let is_quiet = self.nodes.iter().all(|node| node.is_quiet(&self.store));
        let step = if is_quiet { QUIET_STEP } else { STEP };
        self.sim.run_until(end.min(self.sim.now() + step));
        let now = self.sim.now();
        self.store.note(now);
        for node in &mut self.nodes {
            node.exchange(&mut self.sim, &mut self.store, &mut self.rng);
        }
        if self.heartbeats_at <= now {
            self.heartbeats_at = now + HEARTBEATS_INTERVAL;
            for node in &mut self.nodes {
                node.exchange_heartbeats(&mut self.sim, &mut self.store);
            }
        }
        for node in &self.nodes {
            node.note_states();
            node.note_trunk_nodes(now, &self.store);
        }
        self.check_step();
    }

    /// Notes a fault for the report of a story that fails.
    pub fn note(&mut self, fault: &str) {
        let at = self.sim.now().since(BEGIN).as_secs_f64();
        self.faults.push(format!("{at:>9.3} s  {fault}"));
    }

    fn shown(&self, bindings: &[Stored]) -> String {
        let shown = bindings.iter().map(|((aor, id, node), left)| {
            let phone = self
                .phones
                .iter()
                .position(|phone| id_of(self.node_of(*phone).contact_uri().as_bytes()) == *id);
            let user = String::from_utf8_lossy(aor);
            format!("{user} phone {phone:?} at {node} for {:.1} s", left.as_secs_f64())
        });
        shown.collect::<Vec<_>>().join("; ")
    }

    fn report(&self) -> String {
        let mut text = format!("{}\n{}\n", self.sim.trace(), self.faults.join("\n"));
        text.push_str(&format!("store: {}\n", self.shown(&self.store.all(self.sim.now()))));
        for node in &self.nodes {
            let bindings = node.bindings(&self.sim).unwrap_or_default();
            text.push_str(&format!("{}: {}\n", node.name, self.shown(&bindings)));
        }
        for &host in &self.phones {
            let phone = self.node_of(host);
            text.push_str(&format!("{}: events {:?}\n", phone.user(), phone.events()));
        }
        text
    }
}

/// Secrets of a node after a number of steps of their change.
fn secrets(steps: usize) -> Secrets {
    let [old, new] = [1, 2].map(|byte| ClusterSecret::new(&[byte; 32]));
    match steps {
        0 => (old, None),
        1 => (old, Some(new)),
        2 => (new, Some(old)),
        _ => (new, None),
    }
}

/// Identity of a contact in the store.
fn id_of(contact: &[u8]) -> [u8; 16] {
    EntryId::of_contact(contact).0
}

/// Time between two exchanges of heartbeats.
const HEARTBEATS_INTERVAL: Duration = Duration::from_millis(500);
/// Time between two exchanges of the nodes with the store.
const STEP: Duration = Duration::from_millis(10);
/// The same while nothing is on its way.
const QUIET_STEP: Duration = Duration::from_millis(50);
