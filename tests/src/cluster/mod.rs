//! Three nodes that share their registrations, their store, and phones.

mod front;
mod node;
mod shell;
mod store;

pub use store::{Store, StoreState};

use crate::story::number;
use crate::world::{BEGIN, password};
use crate::{Account, Behaviour, Phone, PhoneEvent, REALM, Story};
use front::Front;
use node::ClusterNode;
use ringway_location::EntryId;
use ringway_sansio::{HostNameId, Instant, Rng, Seed, Transport};
use ringway_server::{Hold, NodeState};
use ringway_sim::{Effects, Faults, HostId, Sim};
use ringway_sip::{HeaderName, Limits, Message};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;

/// Three nodes at 10.0.0.1 to 10.0.0.3, their store, and phones from 10.0.1.1 on. The links between the nodes are UDP.
pub struct Cluster {
    /// Simulated network.
    pub sim: Sim,
    /// Store of the registrations.
    pub store: Store,
    /// Randomness of the story.
    pub rng: Rng,
    nodes: Vec<ClusterNode>,
    front: Option<Front>,
    phones: Vec<HostId>,
    seed: u64,
    /// Maximum difference of the ends of a binding by the clocks.
    clock_moved: Duration,
}

impl Cluster {
    /// Number of nodes.
    pub const NODES: usize = 3;
    /// Number of the front, where a method takes that of a node.
    pub const FRONT: usize = 8;

    /// Runs a story once for each seed, as [`Story::run`] does. Afterwards the cluster settles and is checked.
    pub fn run(name: &'static str, tell: impl Fn(&mut Self)) {
        Self::run_holding(name, Hold::All, tell);
    }

    /// The same with nodes that hold these users.
    pub fn run_holding(name: &'static str, hold: Hold, tell: impl Fn(&mut Self)) {
        let first = number("RINGWAY_SEED").unwrap_or(1);
        let count = number("RINGWAY_SEEDS").unwrap_or(Story::SEEDS / 4);
        for seed in first..first.saturating_add(count) {
            let mut cluster = Self::new(seed, hold);
            let result = catch_unwind(AssertUnwindSafe(|| {
                tell(&mut cluster);
                cluster.settle();
            }));
            if let Err(panic) = result {
                eprintln!("story '{name}' fails with RINGWAY_SEED={seed} RINGWAY_SEEDS=1");
                eprintln!("{}", cluster.report());
                resume_unwind(panic);
            }
        }
    }

    fn new(seed: u64, hold: Hold) -> Self {
        let root = Seed::from_number(seed);
        let mut sim = Sim::new(&root.part(2), BEGIN);
        let nodes = (0..Self::NODES).map(|index| ClusterNode::new(&mut sim, seed, index, hold)).collect();
        let (rng, phones) = (Rng::new(&root.part(60)), Vec::new());
        let clock_moved = Duration::from_secs(1);
        Self { sim, store: Store::new(), rng, nodes, front: None, phones, seed, clock_moved }
    }

    /// Starts a front before all nodes, and waits until it has found them.
    pub fn add_front(&mut self) {
        self.front = Some(Front::start(&mut self.sim, self.seed, Self::NODES));
        self.wait(5);
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
        (0..Self::NODES).find(|node| self.is_stored(phone, *node))
    }

    /// Adds a phone of a subscriber with a password. One behind NAT has a Contact that nobody reaches.
    pub fn phone(&mut self, user: &str, transport: Transport, is_behind_nat: bool) -> HostId {
        for node in &self.nodes {
            node.services.subscribe(user, REALM, REALM, &password(user));
        }
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

    /// Calls `callee` from `caller` over a node; true if it is called within two seconds. The call is ended.
    pub fn reaches(&mut self, caller: HostId, node: usize, callee: HostId) -> bool {
        let called = |cluster: &Self| {
            cluster.events(callee).iter().filter(|event| **event == PhoneEvent::Called).count()
        };
        let before = called(self);
        let user = self.node_of(callee).user().to_owned();
        self.phone_do(caller, |phone, now, effects| {
            phone.set_server(node::ip(node));
            phone.call(now, &format!("sip:{user}@{REALM}"), effects);
        });
        self.wait_ms(2000);
        self.phone_do(caller, |phone, now, effects| phone.hang_up(now, effects));
        self.wait_ms(200);
        called(self) == before + 1
    }

    /// Asserts that `callee` is reached over every node that runs.
    #[track_caller]
    pub fn is_reached(&mut self, caller: HostId, callee: HostId) {
        for node in 0..Self::NODES {
            if self.nodes[node].runs(&self.sim) {
                assert!(self.reaches(caller, node, callee), "not reached over node {node}");
            }
        }
    }

    /// Asserts that nobody reaches `callee`.
    #[track_caller]
    pub fn is_not_reached(&mut self, caller: HostId, callee: HostId) {
        for node in 0..Self::NODES {
            assert!(!self.reaches(caller, node, callee), "reached over node {node}");
        }
    }

    /// Asserts that each running node has the bindings of the store, but for those that end soon by one of the clocks.
    #[track_caller]
    pub fn agrees(&self) {
        let stored = self.store.all(self.sim.now());
        for (index, node) in self.nodes.iter().enumerate() {
            let Some(known) = node.bindings(&self.sim) else { continue };
            for (of_one, left, others) in known
                .iter()
                .map(|(of_one, left)| (of_one, left, &stored))
                .chain(stored.iter().map(|(of_one, left)| (of_one, left, &known)))
            {
                // A binding that a node cannot take back after a restart is not its own.
                let is_lost = others == &known && of_one.2 == node.name;
                // A user that is not served here.
                let is_lost = is_lost
                    || node.hold == Hold::Served
                        && others == &known
                        && !known.iter().any(|(other, _)| other.0 == of_one.0);
                let is_there = others.iter().any(|(other, _)| other == of_one);
                assert!(
                    is_there || is_lost || *left <= self.clock_moved,
                    "node {index}: {stored:?} {known:?}"
                );
            }
        }
    }

    /// True if the store has a binding of a phone at a node.
    pub fn is_stored(&self, phone: HostId, node: usize) -> bool {
        let phone = self.node_of(phone);
        let id = id_of(phone.contact_uri().as_bytes());
        let aor = format!("{}@{REALM}", phone.user()).into_bytes();
        self.store
            .all(self.sim.now())
            .iter()
            .any(|(of_one, _)| *of_one == (aor.clone(), id, self.nodes[node].name))
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

    /// Kills a node: its connections are closed.
    pub fn kill(&mut self, node: usize) {
        self.nodes[node].kill(&mut self.sim);
    }

    /// Starts a node that was killed.
    pub fn restart(&mut self, node: usize) {
        self.nodes[node].start(&mut self.sim, self.seed);
    }

    /// Pauses the process of a node.
    pub fn pause(&mut self, node: usize) {
        self.nodes[node].pause(&mut self.sim);
    }

    /// Lets the process of a node go on.
    pub fn resume(&mut self, node: usize) {
        self.nodes[node].resume(&mut self.sim);
    }

    /// True if the node is neither killed nor paused.
    pub fn runs(&self, node: usize) -> bool {
        self.nodes[node].runs(&self.sim)
    }

    /// True if the node has a process, which may be paused.
    pub fn is_started(&self, node: usize) -> bool {
        self.nodes[node].host.is_some()
    }

    /// Cuts or restores the way between a node and the store.
    pub fn set_reaches_store(&mut self, node: usize, reaches: bool) {
        self.nodes[node].reaches_store = reaches;
    }

    /// A replica of the store takes over, which lost the last second; `ahead`: its clock.
    pub fn fail_over(&mut self, ahead: Duration) {
        self.clock_moved += self.store.fail_over(self.sim.now(), ahead);
    }

    /// Advances the clock by seconds.
    pub fn wait(&mut self, seconds: u64) {
        self.wait_ms(1000 * seconds);
    }

    /// Advances the clock by milliseconds.
    pub fn wait_ms(&mut self, milliseconds: u64) {
        (0..milliseconds.div_ceil(STEP_MS)).for_each(|_| self.step());
    }

    /// Calls a phone.
    pub fn phone_do<R>(
        &mut self,
        phone: HostId,
        run: impl FnOnce(&mut Phone, Instant, &mut Effects) -> R,
    ) -> R {
        self.sim.call::<Phone, R>(phone, 0, run).expect("the host is a phone")
    }

    fn events(&self, phone: HostId) -> Vec<PhoneEvent> {
        self.node_of(phone).events()
    }

    fn node_of(&self, phone: HostId) -> &Phone {
        self.sim.node::<Phone>(phone).expect("the host is a phone")
    }

    fn step(&mut self) {
        self.sim.run_for(Duration::from_millis(STEP_MS));
        let now = self.sim.now();
        self.store.note(now);
        for node in &mut self.nodes {
            node.exchange(&mut self.sim, &mut self.store, &mut self.rng);
        }
        let states: Vec<_> = self.nodes.iter_mut().map(|node| (node.name, node.state(&self.sim))).collect();
        for node in &self.nodes {
            let mut known = node.services.nodes.lock().expect("nothing panicked");
            known.clear();
            known.extend(states.iter().filter(|(_, state)| *state != NodeState::Up).copied());
        }
    }

    /// Ends all faults.
    pub fn heal(&mut self) {
        self.sim.set_faults(Faults::default());
        self.store.state = StoreState::Up;
        for node in 0..Self::NODES {
            self.set_reaches_store(node, true);
            if !self.is_started(node) {
                self.restart(node);
            } else if !self.runs(node) {
                self.resume(node);
            }
        }
    }

    /// Ends all faults, advances the clock past every timer, and checks what must hold at the end of any story.
    fn settle(&mut self) {
        self.heal();
        self.wait(100);
        self.agrees();
        for node in &self.nodes {
            assert_eq!(node.pending(&self.sim), (0, 0, 0), "{} has contexts or transactions", node.name);
            assert_eq!(node.services.reserved_bytes(), 0, "{} reserves memory", node.name);
        }
        for &phone in &self.phones {
            let phone = self.node_of(phone);
            assert_eq!(phone.transactions_len(), (0, 0), "{} has transactions left", phone.user());
            assert!(!phone.events().contains(&PhoneEvent::Unreadable), "{}", phone.user());
        }
        self.check_links();
        if let Some(front) = &self.front {
            front.keeps_nothing(&self.sim);
        }
    }

    /// No request crosses two links.
    fn check_links(&self) {
        assert_eq!(self.sim.trace().forgotten(), 0, "the story is too long to be checked");
        let node_at = |address: SocketAddr| (0..Self::NODES).find(|&node| node::ip(node) == address.ip());
        // Nodes that a call came to over a link, by its Call-ID and CSeq.
        let mut came: BTreeMap<(Vec<u8>, u32), Vec<usize>> = BTreeMap::new();
        for seen in self.sim.trace().packets() {
            let (Some(from), Some(to)) = (node_at(seen.from), node_at(seen.to)) else { continue };
            if from == to || !seen.bytes.starts_with(b"INVITE ") {
                continue;
            }
            let message = Message::parse(&seen.bytes, &Limits::default()).expect("nodes send valid messages");
            assert!(message.has(HeaderName::Route), "a request over a link names its flow");
            let call = (message.call_id().to_vec(), message.cseq().number);
            let before = came.entry(call).or_default();
            assert!(!before.contains(&from), "a call crosses two links");
            before.push(to);
        }
    }

    fn report(&self) -> String {
        let mut text = self.sim.trace().to_string();
        for &host in &self.phones {
            let phone = self.node_of(host);
            text.push_str(&format!("{}: events {:?}\n", phone.user(), phone.events()));
        }
        text
    }
}

/// Identity of a contact in the store.
fn id_of(contact: &[u8]) -> [u8; 16] {
    EntryId::of_contact(contact).0
}

/// Time between two exchanges of the nodes with the store.
const STEP_MS: u64 = 10;
