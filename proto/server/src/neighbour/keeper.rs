//! The neighbours of the first shard, with their probes.

use super::link::{Link, Step};
use super::probe::write_options;
use super::schedule::{Due, Schedule};
use super::{Asker, CSEQ_MAX};
use crate::base::{Env, Owner, ProbeId, Response, Transactions};
use crate::dialog::route::{NextHop, hop_of, hop_to};
use crate::tables::PAUSE_MAX;
use crate::{Action, Config, FailedServers, Links, LogEvent, NeighbourDown, NeighbourKind};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;
use ringway_sansio::{ConnectionId, Flow, Instant, LocatedServer, LocatedServers, PeerNames, Rng, Seed};
use ringway_sip::{Message, Uri};
use ringway_transaction::{ClientId, Notice, Outgoing};

/// Keeps the connections to neighbours. Only the first shard has any.
pub(crate) struct Neighbours {
    list: Vec<Neighbour>,
    /// Positions in the list by number.
    positions: BTreeMap<u16, usize>,
    schedule: Schedule,
    /// Neighbours of the connections that worked, until these are closed.
    connections: BTreeMap<ConnectionId, u16>,
    rng: Rng,
    is_keeper: bool,
    is_stopping: bool,
    /// Servers of neighbours that failed. Those of all requests are another list, which others can fill.
    failed: FailedServers,
    /// Probes of neighbours that a reload replaced or removed.
    ended: Vec<ClientId>,
    /// Position of each neighbour before a reload, until the table has them.
    moved: Option<Vec<Option<u16>>>,
}

struct Neighbour {
    /// Its number in probes and lookups, which a reload does not change.
    number: u16,
    settings: crate::Neighbour,
    link: Link,
    /// Its time in the schedule.
    scheduled: Option<Due>,
    /// True while its host name is being looked up.
    is_resolving: bool,
    /// Server of its host name, if that was looked up.
    server: Option<LocatedServer>,
    /// The host name has other servers.
    has_others: bool,
    /// Flow of the last probe.
    flow: Option<Flow>,
    /// Transaction of the last probe.
    probe: Option<ClientId>,
    /// Number of the Call-ID, and of the last probe in it.
    call: u64,
    cseq: u32,
    /// The neighbour opened the connection of the last attempt.
    is_alias: bool,
    is_reported_down: bool,
}

impl Neighbours {
    pub(crate) fn new(config: &Config, seed: &Seed, shard: u16) -> Self {
        let mut neighbours = Self {
            list: Vec::new(),
            positions: BTreeMap::new(),
            schedule: Schedule::default(),
            connections: BTreeMap::new(),
            rng: Rng::new(&seed.part(NEIGHBOUR_KEY)),
            is_keeper: shard == 0,
            is_stopping: false,
            failed: FailedServers::default(),
            ended: Vec::new(),
            moved: None,
        };
        neighbours.reconfigure(config);
        neighbours
    }

    /// Applies a configuration: a neighbour that is the same keeps its connection, also at another position; others begin anew.
    /// The connections of those that are gone stay open for their pending requests, and are of no other use.
    ///
    /// The certificates of connections that neighbours opened are checked again, since the rules for them may be others.
    pub(crate) fn reconfigure(&mut self, config: &Config) {
        if !self.is_keeper {
            return;
        }
        let wanted = &config.neighbours;
        if self.list.len() == wanted.len() && self.list.iter().zip(wanted).all(|(is, of)| is.is_of(of)) {
            for (index, wanted) in wanted.iter().enumerate() {
                self.keep(index, wanted);
            }
            return;
        }
        // Two reloads may come before the table has the first.
        let earlier = self.moved.take();
        let mut before: Vec<Option<Neighbour>> =
            core::mem::take(&mut self.list).into_iter().map(Some).collect();
        let mut names: BTreeMap<String, usize> = BTreeMap::new();
        for (index, neighbour) in before.iter().enumerate() {
            names.extend(neighbour.iter().map(|neighbour| (neighbour.settings.name.clone(), index)));
        }
        let used: BTreeSet<u16> = self.positions.keys().copied().collect();
        let mut free = (0..=u16::MAX).filter(|number| !used.contains(number));
        let mut moved = Vec::with_capacity(wanted.len());
        for (index, wanted) in wanted.iter().enumerate() {
            let is_there = before.get(index).and_then(Option::as_ref).is_some_and(|is| is.is_of(wanted));
            let at = if is_there { Some(index) } else { names.get(&wanted.name).copied() };
            let place = at.and_then(|at| before.get_mut(at));
            let same = place.and_then(|place| place.take_if(|present| present.is_of(wanted)));
            let position = at.filter(|_| same.is_some()).and_then(|at| match &earlier {
                None => u16::try_from(at).ok(),
                Some(earlier) => earlier.get(at).copied().flatten(),
            });
            moved.push(position);
            self.list.push(match same {
                Some(same) => same,
                None => Neighbour::new(free.next().unwrap_or_default(), wanted, &mut self.rng),
            });
        }
        self.moved = Some(moved);
        for gone in before.into_iter().flatten() {
            self.schedule.set(gone.number, gone.scheduled, None);
            self.ended.extend(gone.probe);
        }
        self.positions = self.list.iter().enumerate().map(|(at, neighbour)| (neighbour.number, at)).collect();
        for (index, wanted) in wanted.iter().enumerate() {
            self.keep(index, wanted);
        }
    }

    /// Applies the settings of a neighbour that is the same.
    fn keep(&mut self, index: usize, wanted: &crate::Neighbour) {
        let Some(present) = self.list.get_mut(index) else { return };
        if present.settings != *wanted {
            present.settings = wanted.clone();
        }
        if present.is_alias {
            present.link.check();
        }
        self.reschedule(index);
    }

    /// Puts the next time of a neighbour into the schedule.
    fn reschedule(&mut self, index: usize) {
        let Some(neighbour) = self.list.get_mut(index) else { return };
        let next = Some(neighbour.link.next());
        if neighbour.scheduled != next {
            let before = core::mem::replace(&mut neighbour.scheduled, next);
            self.schedule.set(neighbour.number, before, next);
        }
    }

    fn index_of(&self, number: u16) -> Option<usize> {
        self.positions.get(&number).copied().filter(|_| cfg!(feature = "operator"))
    }

    /// Dials the nodes without a link at once.
    pub(crate) fn retry_links(&mut self, config: &Config) {
        let nodes = config.servers().map(|(index, _)| index);
        for index in nodes.filter(|index| kind_of(config, *index) == NeighbourKind::Node) {
            self.list.get_mut(index).into_iter().for_each(|neighbour| neighbour.link.retry());
            self.reschedule(index);
        }
    }

    /// Publishes the neighbours of a new configuration, and ends the probes of the earlier ones.
    fn publish(&mut self, env: &Env<'_>, transactions: &mut Transactions) {
        let Some(moved) = self.moved.take() else { return };
        self.ended.drain(..).for_each(|probe| transactions.drop_client(probe));
        let mut names: Vec<String> =
            self.list.iter().map(|neighbour| neighbour.settings.name.clone()).collect();
        env.tables.change_neighbours((), |table| table.set_neighbours(core::mem::take(&mut names), &moved));
    }

    pub(crate) fn next_due(&self) -> Option<Instant> {
        if !cfg!(feature = "operator") {
            return None;
        }
        match self.is_stopping || self.moved.is_some() {
            true => Some(Instant::default()),
            false => self.schedule.next_due(),
        }
    }

    /// Ends all work at the next [`Neighbours::on_timeout`], which is due at once: no probe is awaited or sent.
    pub(crate) fn stop(&mut self) {
        self.is_stopping = !self.list.is_empty();
        self.is_keeper = false;
    }

    fn end(&mut self, env: &mut Env<'_>, transactions: &mut Transactions) {
        self.is_stopping = false;
        self.schedule.clear();
        self.positions.clear();
        for neighbour in self.list.drain(..) {
            neighbour.probe.into_iter().for_each(|probe| transactions.drop_client(probe));
            if let Some(flow) = neighbour.own_connection().filter(|_| !neighbour.link.is_up()) {
                // Its bytes would be awaited: the connection may never be established.
                env.cx.out.disconnect(flow);
            }
        }
    }

    /// Opens and probes connections that are due.
    pub(crate) fn on_timeout(&mut self, env: &mut Env<'_>, transactions: &mut Transactions) {
        if !cfg!(feature = "operator") {
            return;
        }
        self.publish(env, transactions);
        if self.is_stopping {
            return self.end(env, transactions);
        }
        while let Some(turn) = self.schedule.next(env.cx.now) {
            let Some(index) = self.index_of(turn.number) else { continue };
            env.counters.health_checks_delayed += u64::from(turn.is_delayed);
            self.list.get_mut(index).into_iter().for_each(|neighbour| neighbour.scheduled = None);
            self.step(env, transactions, index);
            self.reschedule(index);
        }
    }

    fn step(&mut self, env: &mut Env<'_>, transactions: &mut Transactions, index: usize) {
        let Some(neighbour) = self.list.get_mut(index) else { return };
        match neighbour.link.on_time(env.cx.now) {
            Step::None => {}
            Step::Begin => self.begin(env, transactions, index),
            Step::Probe(connection) => {
                let flow = neighbour.flow.map(|flow| Flow { connection, ..flow });
                if let Some(flow) = flow {
                    self.probe(env, transactions, index, flow);
                }
            }
            Step::Fail => {
                let attempt = neighbour.link.attempt();
                self.fail(env, index, attempt, NeighbourDown::NoAddress);
            }
            Step::Silent => {
                let attempt = neighbour.link.attempt();
                self.fail(env, index, attempt, NeighbourDown::NoAnswer);
            }
        }
    }

    /// Handles the result of a lookup; false if it is none of a neighbour.
    pub(crate) fn on_resolved(
        &mut self,
        env: &mut Env<'_>,
        transactions: &mut Transactions,
        query: u64,
        servers: LocatedServers,
    ) -> bool {
        if !cfg!(feature = "operator") {
            return false;
        }
        let Some((number, attempt)) = Asker::Neighbour.read(query) else { return false };
        if let Some(index) = self.index_of(number) {
            self.on_servers(env, transactions, index, attempt, servers);
            self.reschedule(index);
        }
        true
    }

    fn on_servers(
        &mut self,
        env: &mut Env<'_>,
        transactions: &mut Transactions,
        index: usize,
        attempt: u32,
        servers: LocatedServers,
    ) {
        let Some(neighbour) = self.list.get_mut(index) else { return };
        if !neighbour.is_resolving || neighbour.link.attempt() != attempt {
            return;
        }
        if servers.is_empty() {
            return self.fail(env, index, attempt, NeighbourDown::NoAddress);
        }
        let servers = self.failed.last_of(env.cx.now, servers);
        let found =
            servers.iter().find_map(|server| match hop_to(env.config, server.address, server.transport) {
                NextHop::Flow(flow) => Some((server, Flow { host: server.host, ..flow })),
                NextHop::Name(_) | NextHop::Unreachable => None,
            });
        neighbour.server = found.map(|(server, _)| server);
        neighbour.has_others = servers.iter().nth(1).is_some();
        match found.map(|(_, flow)| flow) {
            Some(flow) => self.open(env, transactions, index, flow),
            None => self.fail(env, index, attempt, NeighbourDown::NoListener),
        }
    }

    /// Handles a response to a probe: any final status shows that the neighbour works, except for the one of a node that takes no
    /// requests over the link, and 503, which refuses new work.
    pub(crate) fn on_response(
        &mut self,
        env: &mut Env<'_>,
        probe: ProbeId,
        response: &Response<'_, '_>,
        peer: Option<&PeerNames>,
    ) {
        if let Some(index) = self.index_of(probe.neighbour) {
            self.on_answer(env, index, probe.attempt, response, peer);
            self.reschedule(index);
        }
    }

    fn on_answer(
        &mut self,
        env: &mut Env<'_>,
        index: usize,
        attempt: u32,
        response: &Response<'_, '_>,
        peer: Option<&PeerNames>,
    ) {
        let Response { message, status, flow, .. } = *response;
        let now = env.cx.now;
        let Some(neighbour) = self.list.get_mut(index) else { return };
        let connection = flow.connection;
        if status < 200 || connection.is_some() != flow.transport.has_connections() {
            return;
        }
        let of = env.config.neighbours.get(index);
        if neighbour.is_alias && !of.is_some_and(|of| of.is_identified(peer, now)) {
            return self.fail(env, index, attempt, NeighbourDown::NotIdentified);
        }
        if status == NOT_A_NODE && kind_of(env.config, index) == NeighbourKind::Node {
            return self.fail(env, index, attempt, NeighbourDown::Refused);
        }
        if status == 503 && self.refuse(env, index, attempt, message, flow) {
            return;
        }
        let Some(neighbour) = self.list.get_mut(index) else { return };
        let is_new = neighbour.link.on_answer(now, attempt, connection);
        if neighbour.link.is_up() {
            env.cx.out.keep(flow, neighbour.kept_until(now));
            self.connections.extend(connection.map(|connection| (connection, neighbour.number)));
        }
        if is_new {
            env.counters.neighbour_aliases += u64::from(neighbour.is_alias);
            neighbour.is_reported_down = false;
            env.tables.change_neighbours((), |table| table.set_up(index, connection));
            let (kind, name) = (kind_of(env.config, index), name_of(env.config, index));
            env.observe(&LogEvent::NeighbourUp { kind, name, address: flow.remote });
        }
    }

    /// Handles a 503: the next server of the host name is probed, or the trunk gets no new calls. False: the response shows that the
    /// neighbour works.
    fn refuse(
        &mut self,
        env: &mut Env<'_>,
        index: usize,
        attempt: u32,
        message: &Message<'_>,
        flow: &Flow,
    ) -> bool {
        let now = env.cx.now;
        let kind = kind_of(env.config, index);
        let Some(neighbour) = self.list.get_mut(index) else { return true };
        let is_chosen = matches!(kind, NeighbourKind::Trunk | NeighbourKind::Neighbour);
        let pause = message.retry_after().map(|pause| pause.min(PAUSE_MAX));
        if is_chosen && neighbour.has_others && !neighbour.is_alias {
            let server = neighbour.server;
            self.fail(env, index, attempt, NeighbourDown::Unavailable);
            if let (Some(server), Some(pause)) = (server, pause) {
                self.failed.note(now, &server, now + pause);
                env.tables.note_failed(now, &server, now + pause);
            }
            return true;
        }
        if kind != NeighbourKind::Trunk {
            return false;
        }
        let pause = pause.unwrap_or_default();
        if neighbour.link.on_refusal(now, attempt, flow.connection, pause, &mut self.rng) {
            env.cx.out.keep(flow, neighbour.kept_until(now));
            self.connections.extend(flow.connection.map(|connection| (connection, neighbour.number)));
            neighbour.report_down(env, index, NeighbourDown::Unavailable);
            env.tables.change_neighbours((), |table| table.set_refusing(index, flow.connection));
        }
        true
    }

    /// Takes the notices of failed probes out of the list.
    pub(crate) fn take_notices(&mut self, env: &mut Env<'_>, notices: &mut Vec<Notice<Owner>>) {
        if !cfg!(feature = "operator") {
            return;
        }
        notices.retain(|notice| {
            let (owner, is_silent) = match *notice {
                Notice::ClientTimedOut { owner, .. } => (owner, true),
                Notice::ClientUnreachable { owner, .. } => (owner, false),
            };
            let Owner::Probe(probe) = owner else { return true };
            let Some(index) = self.index_of(probe.neighbour) else { return false };
            let flow = self.list.get(index).and_then(|neighbour| neighbour.flow);
            let why = match (is_silent, flow) {
                (true, _) => NeighbourDown::NoAnswer,
                (false, Some(flow)) if !flow.transport.has_connections() => NeighbourDown::NotDelivered,
                (false, Some(_) | None) => NeighbourDown::NotConnected,
            };
            self.fail(env, index, probe.attempt, why);
            self.reschedule(index);
            false
        });
    }

    /// Handles the end of a connection.
    pub(crate) fn on_closed(&mut self, env: &mut Env<'_>, connection: ConnectionId) {
        if !self.list.is_empty() && env.config.servers().any(|(_, server)| server.certificate.is_some()) {
            env.tables.change_neighbours((), |table| table.remove_offer(connection));
        }
        let Some(number) = self.connections.remove(&connection) else { return };
        let Some(index) = self.index_of(number) else { return };
        let Some(neighbour) = self.list.get_mut(index) else { return };
        if neighbour.link.on_closed(env.cx.now, connection, &mut self.rng) {
            neighbour.report_down(env, index, NeighbourDown::Closed);
        }
        self.reschedule(index);
    }

    fn begin(&mut self, env: &mut Env<'_>, transactions: &mut Transactions, index: usize) {
        let Some(neighbour) = self.list.get_mut(index) else { return };
        let attempt = neighbour.link.attempt();
        let hop = uri_of(env.config, index).map_or(NextHop::Unreachable, |uri| hop_of(env.config, &uri));
        match hop {
            NextHop::Flow(flow) => self.open(env, transactions, index, flow),
            NextHop::Name(host) => {
                neighbour.is_resolving = true;
                let target = host.target(neighbour.call, None);
                env.cx.actions.push(Action::Resolve {
                    query: Asker::Neighbour.query(neighbour.number, attempt),
                    target,
                });
            }
            NextHop::Unreachable => self.fail(env, index, attempt, NeighbourDown::NoListener),
        }
    }

    /// Sends the first probe of an attempt, which dials, or over a connection that the neighbour offers. After a failure of
    /// that one it is dialled.
    fn open(&mut self, env: &mut Env<'_>, transactions: &mut Transactions, index: usize, flow: Flow) {
        let Some(neighbour) = self.list.get_mut(index) else { return };
        let mut offer = None;
        env.tables.change_neighbours((), |table| {
            table.set_target(index, flow);
            offer = table.take_offer(index);
        });
        let offer = offer.filter(|_| !neighbour.is_alias);
        let flow = offer.unwrap_or(flow);
        neighbour.is_resolving = false;
        neighbour.is_alias = offer.is_some();
        neighbour.flow = Some(flow);
        if neighbour.link.on_sent(env.cx.now, neighbour.link.attempt()) {
            self.probe(env, transactions, index, flow);
        }
    }

    fn probe(&mut self, env: &mut Env<'_>, transactions: &mut Transactions, index: usize, flow: Flow) {
        let Some(neighbour) = self.list.get_mut(index) else { return };
        neighbour.cseq = neighbour.cseq % CSEQ_MAX + 1;
        let (attempt, call, cseq) = (neighbour.link.attempt(), neighbour.call, neighbour.cseq);
        let probe = ProbeId { neighbour: neighbour.number, attempt };
        let outgoing = Outgoing { flow, is_invite: false, owner: Owner::Probe(probe) };
        let config = env.config;
        let sent = transactions.start_client(&mut env.cx, outgoing, |out, branch| {
            write_options(config, index, &flow, call, cseq, branch, out);
        });
        neighbour.probe = sent;
        if sent.is_none() {
            env.counters.overflow += 1;
            self.fail(env, index, attempt, NeighbourDown::NoTransaction);
        }
    }

    fn fail(&mut self, env: &mut Env<'_>, index: usize, attempt: u32, why: NeighbourDown) {
        let Self { list, rng, failed, .. } = self;
        let Some(neighbour) = list.get_mut(index) else { return };
        if !neighbour.link.on_failure(env.cx.now, attempt, rng) {
            return;
        }
        if let Some(server) = neighbour.server.filter(|_| !neighbour.is_alias) {
            let until = env.cx.now + FailedServers::FAILED_TIME;
            failed.note(env.cx.now, &server, until);
            env.tables.note_failed(env.cx.now, &server, until);
        }
        if let Some(flow) = neighbour.own_connection() {
            // A connection that does not answer is of no use for others either.
            env.cx.out.disconnect(flow);
        }
        neighbour.report_down(env, index, why);
    }
}

impl Neighbour {
    /// A neighbour whose first attempt begins at once.
    fn new(number: u16, settings: &crate::Neighbour, rng: &mut Rng) -> Self {
        let call = rng.next_u64();
        Self {
            number,
            settings: settings.clone(),
            scheduled: None,
            link: Link::new(settings.interval, Instant::default(), rng.next_u64() as u32),
            is_resolving: false,
            server: None,
            has_others: false,
            flow: None,
            probe: None,
            call,
            cseq: 0,
            is_alias: false,
            is_reported_down: false,
        }
    }

    /// Flow of the connection that was dialled for the last probe.
    fn own_connection(&self) -> Option<Flow> {
        self.flow.filter(|flow| !self.is_alias && flow.transport.has_connections())
    }

    /// True if these settings are of the same connection.
    fn is_of(&self, other: &crate::Neighbour) -> bool {
        let crate::Neighbour { name, uri, interval, connection, .. } = &self.settings;
        (name, uri, interval, connection) == (&other.name, &other.uri, &other.interval, &other.connection)
    }

    /// Time until which a connection is kept after an answer: longer than to the next one.
    fn kept_until(&self, now: Instant) -> Instant {
        self.link.due().unwrap_or(now) + KEPT_AFTER
    }

    /// Publishes and reports that the neighbour is down; the report is repeated only after it was up.
    fn report_down(&mut self, env: &Env<'_>, index: usize, reason: NeighbourDown) {
        env.tables.change_neighbours((), |table| table.set_down(index));
        if !core::mem::replace(&mut self.is_reported_down, true) {
            let (kind, name) = (kind_of(env.config, index), name_of(env.config, index));
            env.observe(&LogEvent::NeighbourDown { kind, name, reason });
        }
    }
}

fn name_of(config: &Config, index: usize) -> &str {
    config.neighbours.get(index).map_or("", |neighbour| neighbour.name.as_str())
}

fn kind_of(config: &Config, index: usize) -> NeighbourKind {
    let uri = config.neighbours.get(index).map(|neighbour| &neighbour.uri);
    let is_node = |links: &Links| links.nodes.iter().any(|node| Some(&node.uri()) == uri);
    if let Some(trunk) = config.trunking.trunks.of_neighbour(index) {
        if trunk.is_node { NeighbourKind::NodeBehind } else { NeighbourKind::Trunk }
    } else if config.links.as_ref().is_some_and(is_node) {
        NeighbourKind::Node
    } else {
        NeighbourKind::Neighbour
    }
}

fn uri_of(config: &Config, index: usize) -> Option<Uri<'_>> {
    Uri::parse(config.neighbours.get(index)?.uri.as_bytes()).ok()
}

/// Part of a shard's seed for the back-off and the Call-IDs.
const NEIGHBOUR_KEY: u64 = 7;
/// Status by which a node refuses requests over a link.
const NOT_A_NODE: u16 = 403;
/// A probe takes 32 s at most.
const KEPT_AFTER: Duration = Duration::from_secs(60);
