//! Registrations of trunks at their carriers (RFC 3261 §10.2, decision 0057): the first shard keeps them.
//!
//! ```text
//! waiting ── due ──► locating ──► sent ── 2xx ──► waiting, to refresh
//!    ▲                  │          │ 401, 407: sent again with credentials
//!    └───── back-off ◄──┴──────────┘
//! ```

use super::line::contact_of;
use super::owners::{Changes, Owners};
use super::rate::RequestRate;
use super::registration::{ATTEMPT_MASK, EXPIRES_S_MAX, Phase, Registration};
use super::sending::Sending;
use super::{Asker, CSEQ_MAX};
use crate::base::{Env, Owner, RegistrationId, Response, Transactions};
use crate::config::Advertised;
use crate::dialog::route::{NextHop, hop_of, hop_to};
use crate::tables::{CallRequest, FailedServers, PAUSE_MAX, ServiceRoute};
use crate::{Action, Config, LogEvent, TrunkEvent};
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;
use ringway_auth::Covered;
use ringway_sansio::{ConnectionId, Flow, Instant, LocatedServer, LocatedServers, Rng, Seed};
use ringway_sip::grammar::number_u32;
use ringway_sip::{HeaderName, Message, Method, Uri, hex16};
use ringway_transaction::{ClientId, Notice, Outgoing};

/// Registrations of the first shard.
pub(crate) struct Registrations {
    list: Vec<Registration>,
    /// Positions of those that wait for a time, by that time.
    due: BTreeSet<(Instant, usize)>,
    /// Positions of those whose attempt has a next request, in order.
    ready: VecDeque<usize>,
    /// Connections over which carriers registered this server, with the positions.
    connections: BTreeSet<(ConnectionId, usize)>,
    /// Rate of all requests, and that of attempts, each of which may look up a host name.
    requests: RequestRate,
    attempts: RequestRate,
    requests_per_s: u32,
    has_new: bool,
    /// The nodes that share the trunks, in a cluster.
    owners: Option<Owners>,
    /// Until then another node may register what is this one's, because each learns of the other at another time.
    contested_until: Instant,
    rng: Rng,
    is_keeper: bool,
    /// Requests of registrations that a reload replaced or removed.
    ended: Vec<ClientId>,
    /// Trunks with a service route whose registrations these were, and their URIs.
    without_route: Vec<(String, String)>,
    /// Addresses that contacts have: other ones are registered at once.
    advertised: Vec<Advertised>,
}

impl Registrations {
    pub(crate) fn new(config: &Config, seed: &Seed, shard: u16) -> Self {
        let mut registrations = Self {
            list: Vec::new(),
            due: BTreeSet::new(),
            ready: VecDeque::new(),
            connections: BTreeSet::new(),
            requests: RequestRate::new(config.registrations_per_s),
            attempts: RequestRate::new(config.registrations_per_s),
            requests_per_s: config.registrations_per_s,
            has_new: false,
            owners: None,
            contested_until: Instant::default(),
            rng: Rng::new(&seed.part(REGISTRATION_KEY)),
            is_keeper: shard == 0,
            ended: Vec::new(),
            without_route: Vec::new(),
            advertised: Vec::new(),
        };
        registrations.reconfigure(config);
        registrations
    }

    /// Applies a configuration: a trunk that is the same keeps its registration.
    pub(crate) fn reconfigure(&mut self, config: &Config) {
        if !self.is_keeper || !cfg!(feature = "operator") {
            return;
        }
        if self.requests_per_s != config.registrations_per_s {
            self.requests_per_s = config.registrations_per_s;
            self.requests = RequestRate::new(config.registrations_per_s);
            self.attempts = self.requests;
        }
        let own_node = config.cluster.as_ref().map(|cluster| cluster.node);
        let before = self.owners.take();
        self.owners = own_node.map(|own| Owners::of(own, &config.trunking, before));
        let is_moved = self.advertised != config.advertised;
        self.advertised.clone_from(&config.advertised);
        let before = core::mem::take(&mut self.list);
        let mut used: BTreeSet<u16> = before.iter().map(|present| present.number).collect();
        let mut before: BTreeMap<String, Registration> =
            before.into_iter().map(|present| (present.of.name.clone(), present)).collect();
        let mut free = 0..=u16::MAX;
        for (index, trunk) in config.trunking.registering() {
            let is_same = before.get(&trunk.name).is_some_and(|present| present.is_of(trunk));
            match if is_same { before.remove(&trunk.name) } else { None } {
                Some(present) => {
                    let phase = match present.phase {
                        Phase::Waiting(_) if is_moved => Phase::Waiting(Instant::default()),
                        phase => phase,
                    };
                    self.list.push(Registration { trunk: index, of: trunk.clone(), phase, ..present });
                }
                None => {
                    // A number of one that was replaced stays unused: answers to it may be on their way.
                    let Some(number) = free.find(|number| !used.contains(number)) else { break };
                    used.insert(number);
                    let mut new = Registration::new(number, index, trunk, &mut self.rng);
                    if self.owners.is_some() {
                        new.phase = Phase::OfOtherNode;
                    }
                    self.list.push(new);
                }
            }
        }
        for gone in before.into_values() {
            self.ended.extend(gone.client);
            self.without_route.extend(gone.has_route.then_some((gone.of.name, gone.of.uri)));
        }
        self.sort();
    }

    /// Fills the lists of positions.
    fn sort(&mut self) {
        let list = &self.list;
        let positions = || list.iter().enumerate();
        self.due = positions().filter_map(|(index, of)| Some((of.phase.due()?, index))).collect();
        self.ready = positions().filter(|(_, of)| of.phase == Phase::Ready).map(|(index, _)| index).collect();
        self.connections = positions().filter_map(|(index, of)| Some((of.registered_by?.0, index))).collect();
        self.has_new = positions().any(|(_, of)| matches!(of.phase, Phase::New(_)));
    }

    /// Sends nothing any more, because the server stops.
    pub(crate) fn stop(&mut self) {
        self.is_keeper = false;
        self.ended.extend(self.list.drain(..).filter_map(|registration| registration.client));
        self.sort();
    }

    pub(crate) fn next_due(&self) -> Option<Instant> {
        if !self.ended.is_empty() || !self.without_route.is_empty() || self.has_new {
            return Some(Instant::default());
        }
        let next = self.requests.next_at();
        let first = self.due.first().map(|&(at, index)| match self.phase(index) {
            Some(Phase::Waiting(_)) => at.max(next).max(self.attempts.next_at()),
            _ => at,
        });
        let ready = (!self.ready.is_empty()).then_some(next);
        let look = self.owners.as_ref().and_then(|owners| owners.next_look(self.list.is_empty()));
        first.into_iter().chain(ready).chain(look).min()
    }

    /// Begins the attempts that are due.
    pub(crate) fn on_timeout(&mut self, env: &mut Env<'_>, transactions: &mut Transactions) {
        if !cfg!(feature = "operator") {
            return;
        }
        self.ended.drain(..).for_each(|client| transactions.drop_client(client));
        for (name, uri) in self.without_route.drain(..) {
            env.tables.set_service_route(&name, &uri, &ServiceRoute::default());
        }
        if core::mem::take(&mut self.has_new) {
            for index in 0..self.list.len() {
                if let Some(Phase::New(spread)) = self.phase(index) {
                    self.set_phase(index, Phase::Waiting(env.cx.now + spread));
                }
            }
        }
        if let Some(changes) = self.owners.as_mut().and_then(|owners| owners.look(env)) {
            self.divide(env, transactions, changes);
        }
        self.proceed(env, transactions);
    }

    /// Begins the registrations that are this node's now, repeats those that it keeps, and gives up those of others.
    fn divide(&mut self, env: &mut Env<'_>, transactions: &mut Transactions, changes: Changes) {
        if changes.has_joined {
            self.contested_until = env.cx.now + CONTESTED_TIME;
        }
        for index in 0..self.list.len() {
            let Some(registration) = self.list.get(index) else { return };
            let is_own = self.owners.as_ref().is_none_or(|owners| owners.has(&registration.of.name));
            match (registration.phase, is_own) {
                (Phase::OfOtherNode, true) => self.set_phase(index, Phase::Waiting(env.cx.now)),
                (Phase::OfOtherNode, false) => {
                    env.host.note_trunk(env.cx.now, registration.trunk, TrunkEvent::OfOtherNode);
                }
                (Phase::Waiting(_), true) if registration.is_registered => {
                    if let Some(at) = self.repeated_at(env.cx.now, changes) {
                        self.set_phase(index, Phase::Waiting(at));
                    }
                }
                (_, true) => {}
                (_, false) => self.give_up(env, transactions, index),
            }
        }
    }

    /// Time at which a registration that this node keeps is repeated: the carrier may have the contact of another node alone, which
    /// leads nowhere if that node is lost. What the lost node had comes first.
    fn repeated_at(&mut self, now: Instant, changes: Changes) -> Option<Instant> {
        match changes {
            Changes { has_lost: true, .. } => Some(now + Duration::from_millis(1)),
            Changes { has_joined: true, .. } => Some(self.uncontested(now)),
            Changes { has_lost: false, has_joined: false } => None,
        }
    }

    /// Time at which no other node registers what is this one's any more.
    fn uncontested(&mut self, now: Instant) -> Instant {
        self.contested_until.max(now) + Duration::from_millis(self.rng.below(CONTESTED_SPREAD_MS))
    }

    /// Ends a registration here: another node has it now, and removes the contact of this one.
    fn give_up(&mut self, env: &mut Env<'_>, transactions: &mut Transactions, index: usize) {
        self.set_phase(index, Phase::OfOtherNode);
        self.set_connection(index, None);
        let Some(registration) = self.list.get_mut(index) else { return };
        registration.client.take().into_iter().for_each(|client| transactions.drop_client(client));
        registration.attempt = registration.attempt.wrapping_add(1) & ATTEMPT_MASK;
        (registration.failures, registration.is_registered) = (0, false);
        registration.removed = Vec::new();
        if core::mem::take(&mut registration.has_route) {
            let of = &registration.of;
            env.tables.set_service_route(&of.name, &of.uri, &ServiceRoute::default());
        }
        env.host.note_trunk(env.cx.now, registration.trunk, TrunkEvent::OfOtherNode);
    }

    /// Sends what is due, as far as the rate permits: first the next requests of attempts that have begun, since a nonce has a short life.
    fn proceed(&mut self, env: &mut Env<'_>, transactions: &mut Transactions) {
        let now = env.cx.now;
        loop {
            let may_send = self.requests.next_at() <= now;
            if may_send && let Some(index) = self.ready.pop_front() {
                if self.phase(index) == Some(Phase::Ready) {
                    self.send(env, transactions, index);
                }
                continue;
            }
            let Some(&(at, index)) = self.due.first().filter(|(at, _)| *at <= now) else { return };
            match self.phase(index) {
                Some(Phase::Locating(_)) => self.fail(env, index, 0, Duration::ZERO),
                Some(Phase::Waiting(_)) if may_send && self.attempts.next_at() <= now => {
                    env.counters.trunk_registrations_delayed +=
                        u64::from(at > Instant::default() && now.since(at) > DELAY_MIN);
                    self.attempts.take(now);
                    self.begin(env, transactions, index);
                }
                _ => return,
            }
        }
    }

    /// Registers again after the loss of a connection that the carrier may call by, at most once in [`RECONNECT_MIN`].
    pub(crate) fn on_closed(&mut self, now: Instant, connection: ConnectionId) {
        if !cfg!(feature = "operator") {
            return;
        }
        while let Some(&(by, index)) = self.connections.range((connection, 0)..).next() {
            if by != connection {
                return;
            }
            self.connections.remove(&(by, index));
            let Some(registration) = self.list.get_mut(index) else { continue };
            let (lost, phase) = (registration.registered_by.take(), registration.phase);
            let (Some((_, since)), Phase::Waiting(at)) = (lost, phase) else { continue };
            if registration.failures == 0 {
                let soon = now + Duration::from_millis(500 + self.rng.below(1500));
                self.set_phase(index, Phase::Waiting(at.min(soon.max(since + RECONNECT_MIN))));
            }
        }
    }

    fn index_of(&self, number: u16) -> Option<usize> {
        self.list.iter().position(|registration| registration.number == number)
    }

    fn phase(&self, index: usize) -> Option<Phase> {
        self.list.get(index).map(|registration| registration.phase)
    }

    fn set_phase(&mut self, index: usize, phase: Phase) {
        let Some(registration) = self.list.get_mut(index) else { return };
        if let Some(at) = core::mem::replace(&mut registration.phase, phase).due() {
            self.due.remove(&(at, index));
        }
        if let Some(at) = phase.due() {
            self.due.insert((at, index));
        }
        if phase == Phase::Ready {
            self.ready.push_back(index);
        }
    }

    /// Notes the connection over which a carrier registered this server.
    fn set_connection(&mut self, index: usize, by: Option<(ConnectionId, Instant)>) {
        let Some(registration) = self.list.get_mut(index) else { return };
        if let Some((before, _)) = core::mem::replace(&mut registration.registered_by, by) {
            self.connections.remove(&(before, index));
        }
        if let Some((connection, _)) = by {
            self.connections.insert((connection, index));
        }
    }

    fn begin(&mut self, env: &mut Env<'_>, transactions: &mut Transactions, index: usize) {
        let Some(registration) = self.list.get_mut(index) else { return };
        registration.attempt = registration.attempt.wrapping_add(1) & ATTEMPT_MASK;
        (registration.logins, registration.is_raised, registration.client) = (0, false, None);
        registration.servers.begin();
        (registration.has_removed, registration.begun_at) = (!registration.removed.is_empty(), env.cx.now);
        let query = Asker::Registration.query(registration.number, registration.attempt);
        let uri = Uri::parse(registration.of.uri.as_bytes());
        match uri.map_or(NextHop::Unreachable, |uri| hop_of(env.config, &uri)) {
            NextHop::Flow(flow) => {
                registration.flow = Some(flow);
                self.send(env, transactions, index);
            }
            NextHop::Name(host) => {
                let target = host.target(registration.call, None);
                self.set_phase(index, Phase::Locating(env.cx.now + LOCATING_MAX));
                env.cx.actions.push(Action::Resolve { query, target });
            }
            NextHop::Unreachable => self.fail(env, index, 0, Duration::ZERO),
        }
    }

    /// Handles the result of a lookup; false if it is none of a registration.
    pub(crate) fn on_resolved(
        &mut self,
        env: &mut Env<'_>,
        transactions: &mut Transactions,
        query: u64,
        servers: &LocatedServers,
    ) -> bool {
        if !cfg!(feature = "operator") {
            return false;
        }
        let Some((number, attempt)) = Asker::Registration.read(query) else { return false };
        let Some(index) = self.index_of(number) else { return true };
        let Some(registration) = self.list.get_mut(index) else { return true };
        if registration.attempt != attempt || !matches!(registration.phase, Phase::Locating(_)) {
            return true;
        }
        let flow_to = |server: LocatedServer| match hop_to(env.config, server.address, server.transport) {
            NextHop::Flow(flow) => Some(Flow { host: server.host, ..flow }),
            NextHop::Name(_) | NextHop::Unreachable => None,
        };
        let reachable = servers.iter().filter(|server| flow_to(*server).is_some()).collect();
        let failed_until = |server: &LocatedServer| env.tables.failed_until(env.cx.now, server);
        registration.flow = registration.servers.choose(reachable, failed_until).and_then(flow_to);
        match registration.flow {
            Some(_) => self.go_on(env, transactions, index),
            None => self.fail(env, index, 0, Duration::ZERO),
        }
        true
    }

    /// Sends the next request of an attempt when the rate permits.
    fn go_on(&mut self, env: &mut Env<'_>, transactions: &mut Transactions, index: usize) {
        self.set_phase(index, Phase::Ready);
        self.proceed(env, transactions);
    }

    fn send(&mut self, env: &mut Env<'_>, transactions: &mut Transactions, index: usize) {
        self.requests.take(env.cx.now);
        self.set_phase(index, Phase::Sent);
        let Some(registration) = self.list.get_mut(index) else { return };
        let Some(flow) = registration.flow else { return };
        registration.cseq = registration.cseq % CSEQ_MAX + 1;
        let call_id = hex16(registration.call);
        let Ok(Sending { flow, .. }) = env.sending_flow_of(flow, &call_id, CallRequest::Pending) else {
            return self.fail(env, index, 0, Duration::ZERO);
        };
        let (trunking, trunk) = (&env.config.trunking, registration.trunk);
        let covered = Covered { method: Method::Register, uri: registration.of.uri.as_bytes(), body: b"" };
        let credentials =
            env.tables.change_trunk_logins(None, |logins| logins.credentials(trunking, trunk, covered));
        let id = RegistrationId { registration: registration.number, attempt: registration.attempt };
        let outgoing = Outgoing { flow, is_invite: false, owner: Owner::Registration(id) };
        let (config, lines) = (env.config, &env.keys.lines);
        let host = config.sent_by(flow.listener, flow.remote.ip());
        registration.contact = contact_of(lines, &registration.of, host, flow.transport);
        let sent = transactions.start_client(&mut env.cx, outgoing, |out, branch| {
            registration.write(&flow, host, credentials.as_ref(), branch, out);
        });
        registration.client = sent;
        if sent.is_none() {
            env.counters.overflow += 1;
            self.fail(env, index, 0, Duration::ZERO);
        }
    }

    /// Handles a response to a REGISTER.
    pub(crate) fn on_response(
        &mut self,
        env: &mut Env<'_>,
        transactions: &mut Transactions,
        id: RegistrationId,
        response: &Response<'_, '_>,
    ) {
        if !cfg!(feature = "operator") {
            return;
        }
        let Response { message, status, .. } = *response;
        let Some(index) = self.index_of(id.registration) else { return };
        let Some(registration) = self.list.get_mut(index) else { return };
        if registration.attempt != id.attempt || registration.phase != Phase::Sent || status < 200 {
            return;
        }
        registration.client = None;
        match status {
            200..=299 => self.on_success(env, transactions, index, response),
            401 | 407 => {
                let (trunking, trunk) = (&env.config.trunking, registration.trunk);
                let learnt = env
                    .tables
                    .change_trunk_logins(None, |logins| logins.learn(trunking, trunk, message, status));
                registration.logins += 1;
                match learnt.is_some() && registration.logins <= LOGINS_MAX {
                    true => self.go_on(env, transactions, index),
                    false => {
                        env.host.note_trunk(env.cx.now, trunk, TrunkEvent::LoginRefused);
                        self.fail(env, index, status, REFUSED_PAUSE);
                    }
                }
            }
            423 if !registration.is_raised => {
                let least = message.first(HeaderName::MinExpires).and_then(number_u32).unwrap_or_default();
                registration.is_raised = true;
                registration.expires_s = least.clamp(registration.expires_s, EXPIRES_S_MAX);
                self.go_on(env, transactions, index);
            }
            403 | 404 | 420 => self.fail(env, index, status, REFUSED_PAUSE),
            503 => {
                let pause = message.retry_after().unwrap_or_default().min(PAUSE_MAX);
                let failed_until = |server: &LocatedServer| env.tables.failed_until(env.cx.now, server);
                let wait = registration.servers.pause(env.cx.now, pause, failed_until);
                note_failed(env, registration, pause);
                self.fail(env, index, status, wait);
            }
            _ => {
                if status == 408 {
                    note_failed(env, registration, Duration::ZERO);
                }
                self.fail(env, index, status, Duration::ZERO);
            }
        }
    }

    fn on_success(
        &mut self,
        env: &mut Env<'_>,
        transactions: &mut Transactions,
        index: usize,
        response: &Response<'_, '_>,
    ) {
        let Response { message, status, flow, .. } = *response;
        let Some(registration) = self.list.get_mut(index) else { return };
        let granted_s = registration.granted_s(&env.keys.lines, message);
        let had_removed = core::mem::replace(&mut registration.has_removed, true);
        let former = || registration.former_contacts(&env.keys.lines, message);
        registration.removed = if had_removed { Vec::new() } else { former() };
        let has_former = !registration.removed.is_empty();
        self.set_connection(index, flow.connection.map(|connection| (connection, env.cx.now)));
        if granted_s == 0 {
            return self.fail(env, index, status, Duration::ZERO);
        }
        self.set_route(env, index, message);
        self.succeed(env, index, granted_s);
        if has_former {
            // After the trunks that are not registered.
            self.set_phase(index, Phase::Waiting(env.cx.now));
            self.proceed(env, transactions);
        }
    }

    /// Uses the service route of a 2xx from now on.
    fn set_route(&mut self, env: &mut Env<'_>, index: usize, message: &Message<'_>) {
        let Some(registration) = self.list.get_mut(index) else { return };
        let route = Registration::service_route(env.config, message).unwrap_or_else(|| {
            env.counters.trunk_service_routes_refused += 1;
            ServiceRoute::default()
        });
        let had_route = core::mem::replace(&mut registration.has_route, !route.is_empty());
        if had_route || !route.is_empty() {
            let of = &registration.of;
            env.tables.set_service_route(&of.name, &of.uri, &route);
        }
    }

    fn succeed(&mut self, env: &mut Env<'_>, index: usize, granted_s: u32) {
        let now = env.cx.now;
        // 50 to 90 % of the time, so that many trunks do not refresh together.
        let share = 500 + self.rng.below(400);
        let refresh = Duration::from_millis(u64::from(granted_s) * share).max(REFRESH_MIN);
        let is_contested = self.list.get(index).is_some_and(|of| of.begun_at < self.contested_until);
        let next = if is_contested { self.uncontested(now) } else { now + refresh };
        let Some(registration) = self.list.get_mut(index) else { return };
        registration.failures = 0;
        registration.servers.on_success();
        env.counters.trunk_registrations += 1;
        env.host.note_trunk(env.cx.now, registration.trunk, TrunkEvent::Registered(granted_s));
        if !core::mem::replace(&mut registration.is_registered, true) {
            env.observe(&LogEvent::TrunkRegistered { name: &registration.of.name });
        }
        self.set_phase(index, Phase::Waiting(next));
    }

    /// Plans the next attempt, `pause` later at least.
    fn fail(&mut self, env: &mut Env<'_>, index: usize, status: u16, pause: Duration) {
        let Self { list, rng, .. } = self;
        let Some(registration) = list.get_mut(index) else { return };
        registration.failures = registration.failures.saturating_add(1);
        registration.servers.on_failure();
        registration.client = None;
        let back_off = BACK_OFF_MIN * 2_u32.pow(registration.failures.min(BACK_OFF_EXPONENT_MAX) - 1);
        let back_off = back_off.min(BACK_OFF_MAX);
        let half = back_off / 2;
        let wait = half + Duration::from_millis(rng.below(1 + half.as_millis() as u64));
        env.counters.trunk_registration_failures += 1;
        env.host.note_trunk(env.cx.now, registration.trunk, TrunkEvent::NotRegistered(status));
        // The first failure is reported, and the next success again.
        let was_registered = core::mem::take(&mut registration.is_registered);
        if registration.failures == 1 || was_registered {
            env.observe(&LogEvent::TrunkNotRegistered { name: &registration.of.name, status });
        }
        self.set_phase(index, Phase::Waiting(env.cx.now + wait.max(pause)));
    }

    /// Takes the notices of failed requests out of the list.
    pub(crate) fn take_notices(&mut self, env: &mut Env<'_>, notices: &mut Vec<Notice<Owner>>) {
        if !cfg!(feature = "operator") {
            return;
        }
        notices.retain(|notice| {
            let (Notice::ClientTimedOut { owner, .. } | Notice::ClientUnreachable { owner, .. }) = *notice;
            let Owner::Registration(id) = owner else { return true };
            let index = self.index_of(id.registration);
            let is_it = |of: &Registration| of.attempt == id.attempt && of.phase == Phase::Sent;
            if let Some(index) = index.filter(|index| self.list.get(*index).is_some_and(is_it)) {
                self.list.get(index).into_iter().for_each(|of| note_failed(env, of, Duration::ZERO));
                self.fail(env, index, 408, Duration::ZERO);
            }
            false
        });
    }
}

/// Notes that the server of an attempt failed, so that calls and other registrations try it last for a minute at least.
fn note_failed(env: &Env<'_>, registration: &Registration, pause: Duration) {
    let Some(server) = registration.servers.current() else { return };
    let until = env.cx.now + pause.max(FailedServers::FAILED_TIME);
    env.tables.note_failed(env.cx.now, &server, until);
}

/// Part of a shard's seed for times and Call-IDs.
const REGISTRATION_KEY: u64 = 9;
/// Shortest time between a registration and the next one because its connection was lost.
const RECONNECT_MIN: Duration = Duration::from_secs(60);
/// Shortest time between two refreshes, whatever is granted.
const REFRESH_MIN: Duration = Duration::from_secs(10);
/// Challenges that are answered in an attempt: the second one is that of an old nonce.
const LOGINS_MAX: u8 = 2;
const BACK_OFF_MIN: Duration = Duration::from_secs(2);
const BACK_OFF_MAX: Duration = Duration::from_secs(300);
const BACK_OFF_EXPONENT_MAX: u32 = 10;
/// Least pause after a refusal that another attempt will hardly change.
const REFUSED_PAUSE: Duration = Duration::from_secs(300);
/// Time limit of a lookup.
const LOCATING_MAX: Duration = Duration::from_secs(30);
/// Time for which another node may register what is this one's: it reads this node's next heartbeat, looks, and its last request arrives.
const CONTESTED_TIME: Duration = Duration::from_secs(4);
/// The next requests after that time are spread over so many milliseconds.
const CONTESTED_SPREAD_MS: u64 = 1000;
/// Least delay of an attempt, by the rate of requests, that is counted.
const DELAY_MIN: Duration = Duration::from_secs(1);
