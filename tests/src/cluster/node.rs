//! Node with its writer and reader of the store.

use super::id_of;
use super::link::{Identity, NodeLayers, Secrets};
use super::reader::{Delivery, Reader, latency};
use super::shell::{RealServer, Shell};
use super::store::{Heartbeat, Store, StoreState, Stored};
use crate::world::{LIMITS, REALM, default_config, password};
use ringway_location::{NodeName, Update};
use ringway_sansio::{Event, Instant, ListenerId, LocatedServers, Rng, Seed, Transport};
use ringway_server::{
    Action, Aor, Cluster, Config, Hold, LinkedNode, Links, Listener, Neighbour, NeighbourConnection,
    NodeState, Server, Trunk, shard_of_aor,
};
use ringway_sim::{Effects, HostId, Hosted, Reading, Sim, SimNode, shard_key};
use ringway_test_support::host::TestHost;
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Node, which may be killed at present.
pub(super) struct ClusterNode {
    pub(super) name: NodeName,
    pub(super) host: Option<HostId>,
    /// Host of its process.
    pub(super) services: Arc<TestHost>,
    pub(super) reaches_store: bool,
    pub(super) is_draining: bool,
    /// Version of the records that it writes; it reads those of earlier versions too.
    pub(super) version: u8,
    index: usize,
    seed: u64,
    pub(super) hold: Hold,
    users: Vec<String>,
    identity: Rc<RefCell<Identity>>,
    /// States of the others by their heartbeats.
    states: BTreeMap<NodeName, NodeState>,
    /// Last heartbeats of the others, and the time of that look.
    heartbeats: BTreeMap<NodeName, Heartbeat>,
    looked_at: Option<Instant>,
    started: Instant,
    trunks: Vec<Trunk>,
    /// Lookups that were not sent.
    locates: Rc<RefCell<Vec<(u64, Aor)>>>,
    incarnation: u64,
    shards: u16,
    /// Newest update of each user that was not sent, and the time at which it was made.
    waiting: BTreeMap<Vec<u8>, (Vec<u8>, Instant)>,
    /// Updates on their way.
    sent: VecDeque<Sent>,
    reader: Reader,
    /// Reads of all that have begun, and the time at which what the last one did not confirm ends.
    walks: u32,
    sweeps_at: Option<Instant>,
    /// It has read all records since its start, and missed none since.
    has_walked: bool,
    again: Option<Again>,
}

/// Position among the own bindings while they are written again.
#[derive(Clone, Copy)]
struct Again {
    begun: Instant,
    shard: u16,
    from: u32,
}

/// Update on its way.
struct Sent {
    /// Time of its arrival.
    at: Instant,
    aor: Vec<u8>,
    update: Vec<u8>,
    made: Instant,
}

/// Address of a node.
pub(super) fn ip(index: usize) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1 + index as u8))
}

/// Address of a node's listener of links.
pub(super) fn link_address(index: usize) -> SocketAddr {
    SocketAddr::new(ip(index), 5070)
}

/// Name of a node.
pub(super) fn name_of(index: usize) -> NodeName {
    NodeName::read(format!("node{index}").as_bytes()).expect("a valid name")
}

impl ClusterNode {
    pub(super) fn new(sim: &mut Sim, seed: u64, index: usize, (hold, secrets): (Hold, Secrets)) -> Self {
        let name = name_of(index);
        let mut node = Self {
            name,
            host: None,
            services: Arc::new(services(seed, index, sim.now())),
            reaches_store: true,
            is_draining: false,
            version: 1,
            index,
            seed,
            hold,
            users: Vec::new(),
            identity: Rc::new(RefCell::new(Identity { name, secrets, nodes: Vec::new() })),
            states: BTreeMap::new(),
            heartbeats: BTreeMap::new(),
            looked_at: None,
            started: sim.now(),
            trunks: Vec::new(),
            locates: Rc::default(),
            incarnation: 0,
            shards: 1 + ((seed + index as u64) % 3) as u16,
            waiting: BTreeMap::new(),
            sent: VecDeque::new(),
            reader: Reader::new(hold),
            walks: 0,
            sweeps_at: None,
            has_walked: false,
            again: None,
        };
        node.start(sim, Duration::from_secs(15 * index as u64));
        node
    }

    /// Starts the process, whose clock is `ahead` of that of the simulation.
    pub(super) fn start(&mut self, sim: &mut Sim, ahead: Duration) {
        self.incarnation += 1;
        self.services = Arc::new(services(self.seed + self.incarnation, self.index, sim.now()));
        self.services.is_cold.store(true, Ordering::Relaxed);
        for user in &self.users {
            self.services.subscribe(user, REALM, REALM, &password(user));
        }
        self.reader = Reader::new(self.hold);
        (self.walks, self.sweeps_at, self.again, self.has_walked) = (0, None, None, false);
        self.is_draining = false;
        self.identity.borrow_mut().nodes.clear();
        self.states.clear();
        self.heartbeats.clear();
        (self.looked_at, self.started) = (None, sim.now());
        let config = Arc::new(self.config());
        let shards = (0..self.shards).map(|shard| {
            let seed = Seed::from_number(self.seed).part(1000 * self.incarnation + self.index as u64);
            let (host, tables) = (Arc::clone(&self.services) as _, self.services.tables());
            Server::new(Arc::clone(&config), host, tables, shard, seed, sim.now() + ahead)
        });
        let locates = Rc::clone(&self.locates);
        locates.borrow_mut().clear();
        let hosted = Hosted::new(shards.collect(), move |_, action, effects: &mut Effects| match action {
            Action::Locate { query, aor } => locates.borrow_mut().push((query, aor)),
            action => execute(action, effects),
        });
        let listeners: Vec<_> =
            config.listeners.iter().map(|listener| (listener.transport, listener.bound)).collect();
        let shell = Box::new(Shell::new(hosted, ahead));
        let host = sim.add(self.name.as_str(), &listeners, shell).expect("the address is free");
        sim.set_layers(host, NodeLayers(Rc::clone(&self.identity)));
        self.host = Some(host);
    }

    pub(super) fn kill(&mut self, sim: &mut Sim) {
        if let Some(host) = self.host.take() {
            sim.remove(host);
        }
        self.waiting.clear();
    }

    pub(super) fn pause(&mut self, sim: &mut Sim) {
        self.call(sim, 0, |shell, _, _| shell.pause());
        if let Some(host) = self.host {
            sim.set_reading(host, Reading::Paused);
        }
    }

    pub(super) fn resume(&mut self, sim: &mut Sim) {
        for shard in 0..self.shards {
            self.call(sim, shard, |shell, now, effects| {
                if shell.is_paused() {
                    shell.resume(now, shard, effects);
                }
            });
        }
        if let Some(host) = self.host {
            sim.set_reading(host, Reading::AtOnce);
        }
    }

    pub(super) fn runs(&self, sim: &Sim) -> bool {
        self.shell(sim).is_some_and(|shell| !shell.is_paused())
    }

    pub(super) fn is_cold(&self) -> bool {
        self.services.is_cold.load(Ordering::Relaxed)
    }

    pub(super) fn subscribe(&mut self, user: &str) {
        self.services.subscribe(user, REALM, REALM, &password(user));
        self.users.push(user.to_owned());
    }

    pub(super) fn drain(&mut self, sim: &mut Sim, over: Option<Duration>) {
        self.is_draining = over.is_some();
        self.each_shard(sim, |server, now| match over {
            Some(over) => server.drain(now, over),
            None => server.end_drain(),
        });
    }

    /// Uses other secrets as a reload does: its links are opened again.
    pub(super) fn set_secrets(&mut self, sim: &mut Sim, secrets: Secrets) {
        self.identity.borrow_mut().secrets = secrets;
        self.reconfigure(sim);
        self.close_links(sim);
    }

    /// Closes the connections of links.
    pub(super) fn close_links(&self, sim: &mut Sim) {
        for connection in self.host.map(|host| sim.connections(host)).unwrap_or_default() {
            if sim.flow(connection).is_some_and(|flow| flow.listener == LINKS) {
                sim.close(connection);
            }
        }
    }

    /// True if the link to a node answers.
    pub(super) fn is_linked(&self, node: &NodeName) -> bool {
        let nodes = &self.identity.borrow().nodes;
        let at = nodes.iter().position(|linked| linked.name == *node);
        at.is_some_and(|at| self.services.tables().is_neighbour_up(at))
    }

    /// Sends its heartbeat, and takes those of the others.
    pub(super) fn exchange_heartbeats(&mut self, sim: &mut Sim, store: &mut Store) {
        let now = sim.now();
        if !self.runs(sim) {
            return;
        }
        let others = (0..super::Cluster::NODES).filter(|index| *index != self.index);
        if self.reaches_store && store.is_up() {
            let trunks = self.services.own_trunks.load(Ordering::Relaxed);
            let own = Heartbeat { at: now, is_draining: self.is_draining, trunks };
            store.heartbeats.insert(self.name, own);
            self.looked_at = Some(now);
            let earlier = std::mem::take(&mut self.states);
            for index in others {
                let (name, address) = (name_of(index), link_address(index));
                let Some(heartbeat) = store.heartbeats.get(&name) else { continue };
                self.heartbeats.insert(name, *heartbeat);
                self.states.insert(
                    name,
                    match heartbeat {
                        heartbeat if heartbeat.at + HEARTBEATS_MISSED <= now => NodeState::Gone,
                        heartbeat if heartbeat.is_draining => NodeState::Draining,
                        _ => NodeState::Up,
                    },
                );
                let is_listed = self.identity.borrow().nodes.iter().any(|node| node.name == name);
                if !is_listed {
                    self.identity.borrow_mut().nodes.push(LinkedNode { name, address });
                    self.reconfigure(sim);
                }
            }
            if self.states != earlier {
                self.each_shard(sim, |server, _| server.retry_links());
            }
        }
    }

    /// States of the others as its server has them: a node without a heartbeat whose link answers is not gone.
    pub(super) fn note_states(&self) {
        let mut states = self.services.nodes.lock().expect("nothing panicked");
        for name in (0..super::Cluster::NODES).map(name_of) {
            let state = match self.states.get(&name) {
                None => NodeState::Gone,
                Some(NodeState::Gone) if self.is_linked(&name) => NodeState::Up,
                Some(state) => *state,
            };
            states.insert(name, state);
        }
    }

    /// Gives it trunks, as a reload does.
    pub(super) fn set_trunks(&mut self, sim: &mut Sim, trunks: Vec<Trunk>) {
        self.trunks = trunks;
        self.reconfigure(sim);
    }

    /// Nodes that can register its trunks, by its links and the heartbeats of the others.
    pub(super) fn note_trunk_nodes(&self, now: Instant, store: &Store) {
        let is_known = self.looked_at.is_some() || now >= self.started + LISTED_TIME_MAX;
        let has_store = self.reaches_store && store.is_up();
        let own = self.services.own_trunks.load(Ordering::Relaxed);
        let others = self.heartbeats.iter().filter(|(_, heartbeat)| heartbeat.trunks == own);
        let can = |(name, heartbeat): &(&NodeName, &Heartbeat)| {
            let is_silent = self.looked_at.is_some_and(|at| heartbeat.at + SILENT_TIME < at);
            self.is_linked(name) || (has_store && !is_silent)
        };
        let others = others.filter(can).map(|(name, heartbeat)| (*name, heartbeat.is_draining));
        let mut nodes: Vec<_> = others.chain([(self.name, self.is_draining)]).collect();
        if nodes.iter().any(|(_, is_draining)| !is_draining) {
            nodes.retain(|(_, is_draining)| !is_draining);
        }
        nodes.sort_unstable();
        let names = nodes.into_iter().map(|(name, _)| name).collect();
        *self.services.trunk_nodes.lock().expect("nothing panicked") = is_known.then_some(names);
    }

    /// Its bindings; `None` if it does not run.
    pub(super) fn bindings(&self, sim: &Sim) -> Option<Vec<Stored>> {
        let shell = self.shell(sim).filter(|shell| !shell.is_paused())?;
        let all = shell.hosted.shards().iter().flat_map(|shard| shard.location().iter());
        let now = sim.now() + shell.ahead;
        let known = all.filter(|found| found.expires() > now).map(|found| {
            let owner = found.node().copied().unwrap_or(self.name);
            ((found.aor().to_vec(), id_of(found.contact()), owner), found.expires().since(now))
        });
        Some(known.collect())
    }

    /// Contexts, server and client transactions.
    pub(super) fn pending(&self, sim: &Sim) -> (usize, usize, usize) {
        let shards = self.shell(sim).map(|shell| shell.hosted.shards()).unwrap_or_default();
        shards.iter().fold((0, 0, 0), |sum, shard| {
            let (servers, clients) = shard.transactions_len();
            (sum.0 + shard.contexts_len(), sum.1 + servers, sum.2 + clients)
        })
    }

    /// True if it has nothing to write.
    pub(super) fn has_written(&self) -> bool {
        self.waiting.is_empty() && self.sent.is_empty()
    }

    /// True if it has read all records that it missed, and ended the bindings that are not among them.
    pub(super) fn has_read(&self) -> bool {
        self.has_walked && self.sweeps_at.is_none()
    }

    /// True if nothing is on its way to the store or back, or may have to be within milliseconds.
    pub(super) fn is_quiet(&self, store: &Store) -> bool {
        let can_write = self.reaches_store && store.is_up();
        let has_written = self.has_written() || !can_write;
        has_written
            && self.reader.is_quiet()
            && self.sweeps_at.is_none()
            && self.again.is_none()
            && !self.is_cold()
            && self.hold == Hold::All
    }

    /// Writes and reads what is due.
    pub(super) fn exchange(&mut self, sim: &mut Sim, store: &mut Store, rng: &mut Rng) {
        let now = sim.now();
        if self.runs(sim) {
            self.share_again(sim, now);
            self.take_shared(now);
        }
        self.write(now, store, rng, self.runs(sim));
        if !self.runs(sim) {
            return;
        }
        if self.reaches_store && store.state == StoreState::Up {
            self.read(sim, store, rng);
        } else if self.reaches_store && store.state == StoreState::Paused {
            // Its questions are answered later, as far as anybody waits for the answers.
        } else {
            self.reader.disconnected();
            // The server waits for 50 ms.
            self.locates.take();
        }
        while let Some(delivery) = self.reader.take(now) {
            self.on_delivery(sim, delivery, store.now_ms(now));
        }
        self.sweep(sim);
    }

    fn on_delivery(&mut self, sim: &mut Sim, delivery: Delivery, store_now_ms: u64) {
        match delivery {
            Delivery::Record { aor, mut record } => {
                let is_readable = record[0] <= self.version;
                if is_readable {
                    record[0] = 1;
                }
                let shard = self.shard_of(&aor);
                self.at_shard(sim, shard, |server, now| {
                    let result = server.on_record(now, &aor, &record, store_now_ms);
                    assert_eq!(result.is_ok(), is_readable, "the record cannot be read");
                });
            }
            Delivery::Located { aor, query } => {
                let shard = self.shard_of(&aor);
                self.call(sim, shard, |shell, now, effects| {
                    shell.on_event(shard, now, Event::Located { query }, effects);
                });
            }
            Delivery::Walk => {
                self.has_walked = false;
                self.services.is_cold.store(true, Ordering::Relaxed);
                self.walks += 1;
                let walk = self.walks;
                self.each_shard(sim, |server, _| server.begin_walk(walk));
            }
            Delivery::Walked { is_loss } => {
                self.has_walked = true;
                self.services.is_cold.store(self.hold != Hold::All, Ordering::Relaxed);
                let at = if is_loss { sim.now() + WRITTEN_AGAIN_TIME } else { sim.now() };
                self.sweeps_at = Some(self.sweeps_at.map_or(at, |before| before.max(at)));
            }
        }
    }

    /// Ends the bindings of other nodes that the last read of all did not confirm, if their time has come.
    fn sweep(&mut self, sim: &mut Sim) {
        if self.sweeps_at.is_some_and(|at| at <= sim.now()) {
            self.sweeps_at = None;
            let walk = self.walks;
            self.each_shard(sim, |server, now| {
                let mut next = Some(0);
                while let Some(from) = next {
                    next = server.sweep(now, from, 2, |_, last| last >= walk);
                }
            });
        }
    }

    /// Takes the updates of the server; a newer one replaces an older one.
    fn take_shared(&mut self, now: Instant) {
        let shared = std::mem::take(&mut *self.services.shared.lock().expect("nothing panicked"));
        for (aor, mut update) in shared {
            if let Some((older, made)) = self.waiting.remove(&aor) {
                let by_ms = now.since(made).as_millis() as u32;
                Update::merge_removals(&mut update, &older, by_ms).expect("both are valid");
            }
            self.waiting.insert(aor, (update, now));
        }
    }

    fn write(&mut self, now: Instant, store: &mut Store, rng: &mut Rng, runs: bool) {
        let is_away = !self.reaches_store || store.state == StoreState::Away;
        if is_away {
            // The store may have got the first ones: all are sent again.
            let got = if store.state == StoreState::Away { 0 } else { rng.below(self.sent.len() as u64 + 1) };
            for sent in self.sent.iter().take(got as usize) {
                store.apply(now, &sent.aor, &sent.update, self.version);
            }
            let sent = std::mem::take(&mut self.sent);
            // The newest first: the others add their removals only.
            for Sent { aor, update, made, .. } in sent.into_iter().rev().filter(|_| self.host.is_some()) {
                match self.waiting.get_mut(&aor) {
                    Some((newer, newer_made)) => {
                        let by_ms = newer_made.since(made).as_millis() as u32;
                        Update::merge_removals(newer, &update, by_ms).expect("both are valid");
                    }
                    None => _ = self.waiting.insert(aor, (update, made)),
                }
            }
            return;
        }
        if runs {
            for (aor, (mut update, made)) in std::mem::take(&mut self.waiting) {
                Update::set_waited(&mut update, now.since(made).as_millis() as u32);
                self.sent.push_back(Sent { at: now + latency(rng), aor, update, made });
            }
        }
        while store.is_up() && self.sent.front().is_some_and(|sent| sent.at <= now) {
            if let Some(sent) = self.sent.pop_front() {
                store.apply(now, &sent.aor, &sent.update, self.version);
            }
        }
    }

    fn read(&mut self, sim: &mut Sim, store: &Store, rng: &mut Rng) {
        let (now, node) = (sim.now(), (self.name, self.incarnation));
        if self.reader.read(store, (now, rng), node) {
            self.again = Some(Again { begun: now, shard: 0, from: 0 });
        }
        for (query, aor) in self.locates.take() {
            self.reader.look_up(store, (now, rng), node, (query, &aor));
        }
    }

    /// Writes the next own bindings again, after the store may have lost some, or have answered unread.
    fn share_again(&mut self, sim: &mut Sim, now: Instant) {
        let Some(Again { begun, shard, from }) = self.again else { return };
        let mut next = None;
        self.at_shard(sim, shard, |server, at| {
            // The clock of the node is ahead.
            let begun = Instant::from_nanos(at.as_nanos() - now.since(begun).as_nanos() as u64);
            next = server.share_from(at, begun, from, 2);
        });
        self.again = match next {
            Some(from) => Some(Again { begun, shard, from }),
            None if shard + 1 < self.shards => Some(Again { begun, shard: shard + 1, from: 0 }),
            None => None,
        };
    }

    fn reconfigure(&self, sim: &mut Sim) {
        let config = Arc::new(self.config());
        self.each_shard(sim, |server, _| server.reconfigure(Arc::clone(&config)));
    }

    fn each_shard(&self, sim: &mut Sim, mut run: impl FnMut(&mut RealServer, Instant)) {
        (0..self.shards).for_each(|shard| self.at_shard(sim, shard, &mut run));
    }

    /// Calls a shard with the time of the node's clock.
    fn at_shard(&self, sim: &mut Sim, shard: u16, run: impl FnOnce(&mut RealServer, Instant)) {
        self.call(sim, shard, |shell, now, effects| {
            let now = now + shell.ahead;
            shell.hosted.call(shard, now, effects, |server: &mut RealServer, _| run(server, now));
        });
    }

    fn shard_of(&self, aor: &[u8]) -> u16 {
        shard_of_aor(&shard_key(), aor, self.shards)
    }

    fn call(&self, sim: &mut Sim, shard: u16, run: impl FnOnce(&mut Shell, Instant, &mut Effects)) {
        if let Some(host) = self.host {
            sim.call::<Shell, ()>(host, shard, run).expect("the host is a node");
        }
    }

    fn shell<'a>(&self, sim: &'a Sim) -> Option<&'a Shell> {
        sim.node::<Shell>(self.host?)
    }

    fn config(&self) -> Config {
        let mut config = default_config();
        let (address, link) = (SocketAddr::new(ip(self.index), 5060), link_address(self.index));
        for listener in &mut config.listeners {
            (listener.bound, listener.advertised) = (address, address);
        }
        config.listeners.push(Listener { transport: Transport::Tls, bound: link, advertised: link });
        config.secret = [self.index as u8; 32];
        config.auth.fronts = vec![super::front::network_of(super::Cluster::FRONT)];
        let (node, incarnation, hold) = (self.name, self.incarnation, self.hold);
        config.cluster = Some(Cluster { node, incarnation, transport: Transport::Tls, link, hold });
        let Identity { secrets: (secret, accepted_secret), ref nodes, .. } = *self.identity.borrow();
        config.neighbours = nodes.iter().map(neighbour).collect();
        config.trunking.trunks = self.trunks.clone().into();
        config.links = Some(Links { node, listener: LINKS, secret, accepted_secret, nodes: nodes.clone() });
        assert_eq!(config.domains, [REALM]);
        config
    }
}

fn services(seed: u64, index: usize, now: Instant) -> TestHost {
    TestHost::new(LIMITS, &Seed::from_number(seed).part(index as u64), now)
}

fn neighbour(node: &LinkedNode) -> Neighbour {
    Neighbour {
        name: node.name.to_string(),
        uri: node.uri(),
        interval: Duration::from_secs(10),
        connection: NeighbourConnection::Kept,
        certificate: None,
        offers_alias: false,
    }
}

/// No host name is known.
fn execute(action: Action, effects: &mut Effects) {
    if let Action::Resolve { query, .. } = action {
        let servers = LocatedServers::NONE;
        effects.events.push((Duration::from_millis(20), Event::Resolved { query, servers }));
    }
}

/// Time for the other nodes to write their bindings again.
const WRITTEN_AGAIN_TIME: Duration = Duration::from_secs(2);
/// Listener of links.
const LINKS: ListenerId = ListenerId(2);
/// Silence after which the link of a node decides whether it has its trunks, and time for which a new one awaits the others.
const SILENT_TIME: Duration = Duration::from_secs(3);
const LISTED_TIME_MAX: Duration = Duration::from_secs(10);
/// Silence after which a node is gone.
const HEARTBEATS_MISSED: Duration = Duration::from_secs(5);
