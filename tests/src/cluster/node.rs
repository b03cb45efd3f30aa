//! Node with its writer and reader of the store.

use super::id_of;
use super::shell::{RealServer, Shell};
use super::store::{Store, StoreState, Stored};
use crate::world::{LIMITS, REALM, default_config};
use ringway_location::{NodeName, Update};
use ringway_sansio::{Event, Instant, LocatedServers, Rng, Seed, Transport};
use ringway_server::{Action, Aor, Cluster, Config, Hold, NodeState, Server, shard_of_user};
use ringway_sim::{Effects, HostId, Hosted, Sim, SimNode, shard_key};
use ringway_test_support::services::TestServices;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Node, which may be killed at present.
pub(super) struct ClusterNode {
    pub(super) name: NodeName,
    pub(super) host: Option<HostId>,
    pub(super) services: Arc<TestServices>,
    pub(super) reaches_store: bool,
    index: usize,
    pub(super) hold: Hold,
    /// Lookups that were not sent.
    locates: Rc<RefCell<Vec<(u64, Aor)>>>,
    incarnation: u64,
    shards: u16,
    /// Newest update of each user that was not sent, and the time at which it was made.
    waiting: BTreeMap<Vec<u8>, (Vec<u8>, Instant)>,
    /// Updates on their way, with the time of their arrival.
    sent: VecDeque<(Instant, Vec<u8>, Vec<u8>)>,
    /// Position in the stream; `None`: all must be read.
    position: Option<usize>,
    generation: u32,
    /// Records on their way, with the time of their arrival, and the lookup that they answer.
    records: VecDeque<OnItsWay>,
    /// Begin of its silence.
    silent_since: Option<Instant>,
}

/// Time of arrival, user and record, and the lookup that it answers.
type OnItsWay = (Instant, Vec<u8>, Vec<u8>, Option<u64>);

/// Address of a node.
pub(super) fn ip(index: usize) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1 + index as u8))
}

impl ClusterNode {
    pub(super) fn new(sim: &mut Sim, seed: u64, index: usize, hold: Hold) -> Self {
        let services = TestServices::new(LIMITS, &Seed::from_number(seed).part(index as u64), sim.now());
        let mut node = Self {
            name: NodeName::read(format!("node{index}").as_bytes()).expect("a valid name"),
            host: None,
            services: Arc::new(services),
            reaches_store: true,
            index,
            hold,
            locates: Rc::default(),
            incarnation: 0,
            shards: 1 + ((seed + index as u64) % 3) as u16,
            waiting: BTreeMap::new(),
            sent: VecDeque::new(),
            position: None,
            generation: 0,
            records: VecDeque::new(),
            silent_since: None,
        };
        node.start(sim, seed);
        node
    }

    pub(super) fn start(&mut self, sim: &mut Sim, seed: u64) {
        self.incarnation += 1;
        self.services.forget_reservations();
        self.services.stop_calls(sim.now());
        self.services.forget_lamps();
        self.services.shared.lock().expect("nothing panicked").clear();
        (self.position, self.silent_since) = (None, None);
        // Clocks of nodes differ by up to 30 s.
        let ahead = Duration::from_secs(15 * self.index as u64);
        let config = Arc::new(self.config());
        let shards = (0..self.shards).map(|shard| {
            let seed = Seed::from_number(seed).part(1000 * self.incarnation + self.index as u64);
            let (config, services) = (Arc::clone(&config), Arc::clone(&self.services));
            Server::new(config, services, shard, seed, sim.now() + ahead)
        });
        let locates = Rc::clone(&self.locates);
        locates.borrow_mut().clear();
        let hosted = Hosted::new(shards.collect(), move |_, action, effects: &mut Effects| match action {
            Action::Locate { query, aor } => locates.borrow_mut().push((query, aor)),
            action => execute(action, effects),
        });
        let address = SocketAddr::new(ip(self.index), 5060);
        let listeners = [(Transport::Udp, address), (Transport::Tcp, address)];
        let shell = Box::new(Shell::new(hosted, ahead));
        self.host = Some(sim.add(self.name.as_str(), &listeners, shell).expect("the address is free"));
    }

    pub(super) fn kill(&mut self, sim: &mut Sim) {
        if let Some(host) = self.host.take() {
            sim.remove(host);
        }
        self.waiting.clear();
        self.records.clear();
    }

    pub(super) fn pause(&mut self, sim: &mut Sim) {
        self.call(sim, 0, |shell, _, _| shell.pause());
    }

    pub(super) fn resume(&mut self, sim: &mut Sim) {
        for shard in 0..self.shards {
            self.call(sim, shard, |shell, now, effects| {
                if shell.is_paused() {
                    shell.resume(now, shard, effects);
                }
            });
        }
    }

    pub(super) fn runs(&self, sim: &Sim) -> bool {
        self.shell(sim).is_some_and(|shell| !shell.is_paused())
    }

    /// State as the others see it: a node is gone after some seconds without a heartbeat.
    pub(super) fn state(&mut self, sim: &Sim) -> NodeState {
        if self.runs(sim) {
            self.silent_since = None;
            return NodeState::Up;
        }
        let since = *self.silent_since.get_or_insert(sim.now());
        if since + HEARTBEATS_MISSED <= sim.now() { NodeState::Gone } else { NodeState::Up }
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

    /// Writes and reads what is due.
    pub(super) fn exchange(&mut self, sim: &mut Sim, store: &mut Store, rng: &mut Rng) {
        let now = sim.now();
        if self.runs(sim) {
            self.take_shared(now);
        }
        self.write(now, store, rng, self.runs(sim));
        if !self.runs(sim) {
            return;
        }
        if self.reaches_store && store.state == StoreState::Up {
            self.read(sim, store, rng);
        }
        while self.records.front().is_some_and(|(at, ..)| *at <= now) {
            if let Some((_, aor, record, query)) = self.records.pop_front() {
                let store_now_ms = store.now_ms(now);
                self.at_user(sim, &aor, |server, now| {
                    server.on_record(now, &aor, &record, store_now_ms).expect("the store has valid records");
                });
                if let Some(query) = query {
                    let shard = self.shard_of(&aor);
                    self.call(sim, shard, |shell, now, effects| {
                        shell.on_event(shard, now, Event::Located { query }, effects);
                    });
                }
            }
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
            // The store may have got them or not: they are sent again.
            for (_, aor, mut update) in std::mem::take(&mut self.sent) {
                if store.state != StoreState::Away && rng.chance(500) {
                    store.apply(now, &aor, &update);
                }
                if !runs {
                    continue;
                }
                if let Some((newer, made)) = self.waiting.get_mut(&aor) {
                    Update::merge_removals(newer, &update, now.since(*made).as_millis() as u32)
                        .expect("both are valid");
                    continue;
                }
                let waited_ms = Update::read(&update).expect("it is valid").waited_ms;
                Update::set_waited(&mut update, 0);
                let made = Instant::from_nanos(now.as_nanos() - u64::from(waited_ms) * 1_000_000);
                self.waiting.insert(aor, (update, made));
            }
            return;
        }
        if runs {
            for (aor, (mut update, made)) in std::mem::take(&mut self.waiting) {
                Update::set_waited(&mut update, now.since(made).as_millis() as u32);
                self.sent.push_back((now + latency(rng), aor, update));
            }
        }
        while store.state == StoreState::Up && self.sent.front().is_some_and(|(at, ..)| *at <= now) {
            if let Some((_, aor, update)) = self.sent.pop_front() {
                store.apply(now, &aor, &update);
            }
        }
    }

    fn read(&mut self, sim: &mut Sim, store: &Store, rng: &mut Rng) {
        let now = sim.now();
        let position = match self.position {
            Some(position) if self.generation == store.generation => position,
            _ => {
                // The records of own updates before the position are not read: these updates are written once more.
                self.share_again(sim, now);
                self.generation = store.generation;
                let position = store.stream_len();
                let mut aors = BTreeSet::new();
                if self.hold == Hold::All {
                    aors.extend(store.aors().cloned());
                }
                aors.extend(self.bindings(sim).into_iter().flatten().map(|((aor, ..), _)| aor));
                for aor in aors {
                    let record = store.look_up(now, &aor, (&self.name, self.incarnation));
                    self.records.push_back((now + latency(rng), aor, record, None));
                }
                position
            }
        };
        for (aor, record) in store.stream_from(position) {
            self.records.push_back((now + latency(rng), aor.clone(), record.clone(), None));
        }
        for (query, aor) in self.locates.take() {
            let record = store.look_up(now, aor.as_bytes(), (&self.name, self.incarnation));
            self.records.push_back((now + latency(rng), aor.as_bytes().to_vec(), record, Some(query)));
        }
        self.position = Some(store.stream_len());
    }

    /// Writes all own bindings again: the store may have lost some, or have answered unread.
    fn share_again(&mut self, sim: &mut Sim, now: Instant) {
        for shard in 0..self.shards {
            self.call(sim, shard, |shell, now, effects| {
                let now = now + shell.ahead;
                shell.hosted.call(shard, now, effects, |server: &mut RealServer, _| {
                    let mut next = Some(0);
                    while let Some(from) = next {
                        next = server.share_from(now, from, 100);
                    }
                });
            });
        }
        self.take_shared(now);
    }

    fn at_user(&self, sim: &mut Sim, aor: &[u8], run: impl FnOnce(&mut RealServer, Instant)) {
        let shard = self.shard_of(aor);
        self.call(sim, shard, |shell, now, effects| {
            let now = now + shell.ahead;
            shell.hosted.call(shard, now, effects, |server: &mut RealServer, _| run(server, now));
        });
    }

    fn shard_of(&self, aor: &[u8]) -> u16 {
        let user = aor.split(|&byte| byte == b'@').next().unwrap_or_default();
        shard_of_user(&shard_key(), user, self.shards)
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
        let link = SocketAddr::new(ip(self.index), 5060);
        for listener in &mut config.listeners {
            (listener.bound, listener.advertised) = (link, link);
        }
        config.secret = [self.index as u8; 32];
        config.auth.fronts = vec![super::front::network_of(super::Cluster::FRONT)];
        let (node, incarnation) = (self.name, self.incarnation);
        config.cluster =
            Some(Cluster { node, incarnation, transport: Transport::Udp, link, hold: self.hold });
        assert_eq!(config.domains, [REALM]);
        config
    }
}

/// No host name is known, and every node counts as warm.
fn execute(action: Action, effects: &mut Effects) {
    if let Action::Resolve { query, .. } = action {
        let servers = LocatedServers::NONE;
        effects.events.push((Duration::from_millis(20), Event::Resolved { query, servers }));
    }
}

fn latency(rng: &mut Rng) -> Duration {
    Duration::from_millis(1 + rng.below(20))
}

/// Silence after which a node is gone.
const HEARTBEATS_MISSED: Duration = Duration::from_secs(5);
