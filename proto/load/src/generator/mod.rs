//! The generator: starts attempts, passes messages to them, and ends them.

mod action;
mod callee;
mod counters;
mod scripting;
mod sending;

pub use self::action::Action;
pub use self::counters::Counters;
use self::sending::Sent;
use crate::attempt::{Attempt, Invite, LocalText, Times, constant};
use crate::authentication::Challenge;
use crate::scenario::{Received as Expected, Step};
use crate::template::{Keyword, Kind};
use crate::{Arrivals, Config, ConnectionUse, Outcome, Report, Scenario};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;
use hashbrown::HashTable;
use ringway_sansio::{
    ConnectionId, Context, Deadline, Event, Flow, IcmpError, Instant, ListenerId, Node, Received, Rng, Seed,
    ShardKey, TimerKey, Token, Wheel,
};
use ringway_sip::{Limits, Message, Method, Start};
use ringway_transaction::{Answer, BranchKey, ClientId, Notice, SipFramer, Slab, SlabKey, Transactions};

/// Load of one thread: the callers or the callees of a scenario. A [`Node`]; its actions are reports.
///
/// A caller starts attempts at the planned times of [`Config::arrivals`], a callee at each first request. Addresses that
/// requests go to are [`Config::remote`] and, inside a dialog without routes and outbound proxy, the peer's Contact: the driver
/// refuses addresses that it must not send to.
#[derive(Debug)]
pub struct Generator {
    /// Its scenario has the values of the keywords that do not change.
    config: Config,
    /// Texts of the local addresses.
    locals: Vec<LocalText>,
    transactions: Transactions<Owner, Owner>,
    attempts: Slab<Attempt>,
    /// Attempts of a callee with the keyed hash of their Call-ID.
    by_call_id: HashTable<(u64, SlabKey)>,
    wheel: Wheel<(SlabKey, Timer)>,
    /// State of each user of a caller.
    users: Vec<UserState>,
    /// Index of the next user.
    next_user: u32,
    /// True if the scenario has a Call-ID for each user, so that a user has one attempt at a time.
    is_one_each: bool,
    rng: Rng,
    /// Number in all Call-IDs of this generator.
    run: u64,
    hash_key: [u8; 16],
    /// Seed of the SRTP keys.
    media_seed: Seed,
    counters: Counters,
    notices: Vec<Notice<Owner>>,
    /// Closed connections whose attempts have not been ended yet, and the time of the first of them.
    closed: Vec<ConnectionId>,
    closed_at: Option<Instant>,
}

/// State of a user.
#[derive(Clone, Copy, Debug, Default)]
struct UserState {
    /// Number of requests that are counted for the user, such as REGISTER.
    cseq: u32,
    /// True while an attempt is open.
    is_busy: bool,
    /// Time until which the user begins nothing.
    waits_until: Instant,
}

/// Attempt that a transaction belongs to. It can have ended.
type Owner = SlabKey;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Timer {
    /// End of a pause.
    Pause,
    /// End of a wait.
    Silence,
    /// Retransmission of a 2xx.
    Success,
}

impl Generator {
    /// Creates a generator. Generators of one run need different seeds, or their Call-IDs are equal.
    pub fn new(mut config: Config, seed: &Seed, now: Instant) -> Self {
        let mut rng = Rng::new(&seed.part(0));
        let run = rng.next_u64();
        let key = |part: u64| {
            let mut key = [0; 16];
            key.copy_from_slice(seed.part(part).bytes().split_at(16).0);
            key
        };
        let limits = ringway_transaction::Limits { servers_max: SERVERS_MAX, clients_max: usize::MAX };
        let transactions = Transactions::new(0, config.timers, limits, key(1), BranchKey::new(key(2)), now);
        let users = if config.scenario.is_caller() { config.users.count() as usize } else { 0 };
        config.scenario = prepared(&config.scenario, &config, run);
        let is_one_each = config.scenario.has(|word| *word == Keyword::UserCallId);
        Self {
            locals: config.locals.iter().copied().map(LocalText::new).collect(),
            config,
            transactions,
            attempts: Slab::default(),
            by_call_id: HashTable::new(),
            wheel: Wheel::new(now),
            users: vec![UserState::default(); users],
            next_user: 0,
            is_one_each,
            rng,
            run,
            hash_key: key(3),
            media_seed: seed.part(4),
            counters: Counters::default(),
            notices: Vec::new(),
            closed: Vec::new(),
            closed_at: None,
        }
    }

    /// Plans attempts of the same users with another scenario, from the user after the last one on. Call-IDs and CSeqs of the
    /// users continue, so that a REGISTER refreshes the binding of an earlier one.
    pub fn continue_with(&mut self, scenario: &Scenario, arrivals: Arrivals) {
        self.config.scenario = prepared(scenario, &self.config, self.run);
        self.is_one_each = scenario.has(|word| *word == Keyword::UserCallId);
        self.config.arrivals = Some(arrivals);
    }

    /// Number of open attempts.
    pub fn open(&self) -> usize {
        self.attempts.len()
    }

    /// True if no attempt is open or planned.
    pub fn is_done(&self) -> bool {
        self.attempts.is_empty() && self.next_arrival().is_none()
    }

    /// Number of server and of client transactions. They end some time after their attempts (RFC 3261 §17, timers I to K).
    pub fn transactions_len(&self) -> (usize, usize) {
        self.transactions.len()
    }

    /// Counters since the start.
    pub fn counters(&self) -> Counters {
        let transactions = self.transactions.counters();
        Counters {
            retransmissions: self.counters.retransmissions + transactions.requests_retransmitted,
            stray: self.counters.stray + transactions.stray_responses,
            ..self.counters
        }
    }

    /// Plans no further attempts; open ones go on.
    pub fn stop(&mut self) {
        if let Some(arrivals) = &mut self.config.arrivals {
            arrivals.stop();
        }
    }

    /// Ends all open attempts; pending INVITEs are cancelled.
    pub fn abort(&mut self, cx: &mut Context<'_, Action>) {
        self.stop();
        let keys: Vec<SlabKey> = self.attempts.iter().map(|(key, _)| key).collect();
        for key in keys {
            if let Some(client) = self.attempts.get(key).and_then(|attempt| attempt.client) {
                self.transactions.cancel(cx, client);
            }
            self.end(cx, key, Outcome::Stopped);
        }
    }

    fn next_arrival(&self) -> Option<Instant> {
        self.config.arrivals.as_ref().filter(|_| self.config.scenario.is_caller())?.next()
    }

    fn start_due(&mut self, cx: &mut Context<'_, Action>) {
        if !self.config.scenario.is_caller() {
            return;
        }
        for _ in 0..STARTS_MAX {
            let Some(arrivals) = &mut self.config.arrivals else { return };
            let Some(planned) = arrivals.take_due(cx.now, &mut self.rng) else { return };
            let turn = arrivals.taken() - 1;
            let is_room = self.attempts.len() < self.config.attempts_max && !self.config.locals.is_empty();
            if !is_room {
                self.counters.dropped += 1;
                self.note_end(cx.now);
                continue;
            }
            let user = match self.take_user(cx.now) {
                Ok(user) => user,
                Err(outcome) => {
                    self.counters.started += 1;
                    self.note_end(cx.now);
                    cx.emit(Action::Ended(Report::of_nothing(planned, cx.now, outcome)));
                    continue;
                }
            };
            let flow = self.flow_of(user, turn);
            self.counters.started += 1;
            let times = Times::new(planned, cx.now);
            let key = self.attempts.insert(Attempt::new(self.counters.started, user, flow, times));
            self.advance(cx, key);
        }
    }

    /// Makes room in a window of attempts.
    fn note_end(&mut self, now: Instant) {
        if let Some(arrivals) = &mut self.config.arrivals {
            arrivals.attempt_ended(now);
        }
    }

    /// Next user who may begin an attempt. RFC 3261 §10.2: a user sends no REGISTER while another one is pending.
    fn take_user(&mut self, now: Instant) -> Result<u32, Outcome> {
        for _ in 0..USERS_TRIED_MAX {
            let count = self.config.users.count();
            let user = match self.config.users.is_random() {
                true => self.rng.below(u64::from(count)) as u32,
                false => self.next_user,
            };
            self.next_user = (user + 1) % count;
            let Some(state) = self.users.get_mut(user as usize) else { break };
            if now < state.waits_until {
                return Err(Outcome::Withheld);
            }
            if !(self.is_one_each && state.is_busy) {
                state.is_busy = true;
                return Ok(user);
            }
        }
        Err(Outcome::UserBusy)
    }

    /// Flow of a user's requests to the server.
    fn flow_of(&self, user: u32, turn: u64) -> Flow {
        let listener = user as usize % self.config.locals.len().clamp(1, 256);
        let flow = Flow::udp(ListenerId(listener as u8), self.config.remote);
        let connection = match self.config.connections {
            ConnectionUse::Shared => listener as u64,
            ConnectionUse::PerUser => u64::from(user),
            ConnectionUse::PerAttempt => turn,
        };
        let connection = self.config.transport.is_stream().then_some(ConnectionId(connection));
        Flow { transport: self.config.transport, connection, ..flow }
    }

    /// Does the steps of an attempt up to the next wait.
    fn advance(&mut self, cx: &mut Context<'_, Action>, key: SlabKey) {
        let scenario = Arc::clone(&self.config.scenario);
        for _ in 0..STEPS_IN_A_ROW_MAX {
            let Some(attempt) = self.attempts.get_mut(key) else { return };
            let step = attempt.step;
            if !self.is_wanted(key, step) {
                self.follow(key, step, false);
                continue;
            }
            let Some(attempt) = self.attempts.get_mut(key) else { return };
            match scenario.steps().get(step) {
                None => return self.end(cx, key, Outcome::Success),
                Some(Step::Nop) => {
                    if let Err(outcome) = self.pass(cx, key, step, None, false) {
                        return self.end(cx, key, outcome);
                    }
                }
                Some(Step::Pause(length)) => {
                    // A loop of jumps must not take all of the processor.
                    let least = if scenario.has_jumps() { PAUSE_MIN } else { Duration::ZERO };
                    let until = cx.now + length.draw(&mut self.rng).max(least);
                    self.wheel.cancel(attempt.timer);
                    attempt.timer = self.wheel.arm(until, (key, Timer::Pause));
                    attempt.times.pause = Some(cx.now);
                    return;
                }
                Some(Step::Receive(receive)) => {
                    let is_bounded = match receive.message {
                        Expected::Request(_) => true,
                        // Without a client transaction no timer of RFC 3261 ends the wait.
                        Expected::Response(_) => {
                            attempt.invite == Invite::Pending || attempt.client.is_none()
                        }
                    };
                    if is_bounded {
                        self.wheel.cancel(attempt.timer);
                        let until = cx.now + self.config.silence_max;
                        attempt.timer = self.wheel.arm(until, (key, Timer::Silence));
                    }
                    return;
                }
                Some(Step::Send(send)) => {
                    attempt.step += 1;
                    let sent = match send.template.kind {
                        Kind::Request(ref method) => {
                            attempt.request_step = step;
                            self.send_request(cx, key, method, &send.template)
                        }
                        Kind::Response(status) => self.send_response(cx, key, status, &send.template),
                    };
                    if let Sent::Failed(outcome) = sent {
                        return self.end(cx, key, outcome);
                    }
                    if let Err(outcome) = self.pass(cx, key, step, None, false) {
                        return self.end(cx, key, outcome);
                    }
                }
            }
        }
        self.end(cx, key, Outcome::EndlessLoop);
    }

    fn on_response(
        &mut self,
        cx: &mut Context<'_, Action>,
        key: SlabKey,
        client: ClientId,
        status: u16,
        message: &Message<'_>,
    ) {
        let Some(attempt) = self.attempts.get_mut(key) else { return };
        if attempt.client != Some(client) {
            // RFC 3261 §13.2.2.4: the ACK is sent again for each retransmitted 2xx.
            if message.method() == Method::Invite && status / 100 == 2 && !attempt.ack.is_empty() {
                cx.out.send(attempt.dialog_flow(&self.config), Token::NONE, &attempt.ack);
            }
            return;
        }
        if status > 100 && attempt.times.first_response.is_none() {
            attempt.times.first_response = Some(cx.now.since(attempt.times.started));
        }
        self.counters.challenges += u64::from(matches!(status, 401 | 407));
        attempt.note_ringing(cx.now, status);
        let scenario = Arc::clone(&self.config.scenario);
        let is_expected = |expected: &Expected| *expected == Expected::Response(status);
        let Some((place, is_optional)) = find(scenario.steps(), attempt.step, is_expected) else {
            if matches!(status, 401 | 407) && attempt.answers_challenges(&scenario) {
                return self.retry(cx, key, message);
            }
            if status >= 200 {
                attempt.note_final(cx.now, message.method());
                if status == 503 && self.config.honours_retry_after && scenario.is_caller() {
                    let user = attempt.user as usize;
                    if let (Some(wait), Some(state)) = (message.retry_after(), self.users.get_mut(user)) {
                        state.waits_until = cx.now + wait.min(RETRY_AFTER_MAX);
                    }
                }
                self.end(cx, key, Outcome::Status(status));
            }
            return;
        };
        if status >= 200 {
            attempt.is_challenged =
                matches!(scenario.steps().get(place), Some(Step::Receive(receive)) if receive.is_challenge);
            if !attempt.is_challenged {
                attempt.note_final(cx.now, message.method());
            }
            if message.method() == Method::Invite {
                attempt.note_invite_final(status);
                if status / 100 == 2 {
                    Self::note_session(attempt, &self.config, message);
                }
            }
            // Further responses, such as retransmitted 2xx, are not for a step.
            attempt.client = None;
        }
        if attempt.is_challenged {
            attempt.challenge = Challenge::of(message).map(Box::new);
        }
        if !attempt.keep(&scenario, place, message) {
            return self.end(cx, key, Outcome::Malformed);
        }
        match self.pass(cx, key, place, Some(message.as_bytes()), is_optional) {
            Ok(true) => {
                self.start_media(cx, key, true);
                self.advance(cx, key);
            }
            Ok(false) => {}
            Err(outcome) => self.end(cx, key, outcome),
        }
    }

    fn on_timer(&mut self, cx: &mut Context<'_, Action>, key: SlabKey, timer: Timer) {
        let Some(attempt) = self.attempts.get_mut(key) else { return };
        match timer {
            Timer::Pause => {
                attempt.timer = TimerKey::NONE;
                attempt.end_pause(cx.now);
                let step = attempt.step;
                match self.pass(cx, key, step, None, false) {
                    Ok(_) => self.advance(cx, key),
                    Err(outcome) => self.end(cx, key, outcome),
                }
            }
            Timer::Silence => {
                attempt.timer = TimerKey::NONE;
                if let Some(client) = attempt.client {
                    self.transactions.cancel(cx, client);
                }
                self.end(cx, key, Outcome::Silence);
            }
            Timer::Success => {
                let Some(sent) = &mut attempt.unacknowledged else { return };
                if cx.now >= sent.until {
                    return self.end(cx, key, Outcome::Silence);
                }
                cx.out.send(sent.flow, Token::NONE, &sent.bytes);
                self.counters.retransmissions += 1;
                sent.interval = (sent.interval * 2).min(self.config.timers.t2);
                let next = (cx.now + sent.interval).min(sent.until);
                sent.timer = self.wheel.arm(next, (key, Timer::Success));
            }
        }
    }

    fn end(&mut self, cx: &mut Context<'_, Action>, key: SlabKey, outcome: Outcome) {
        let Some(mut attempt) = self.attempts.remove(key) else { return };
        Self::end_media(cx, &mut attempt);
        self.wheel.cancel(attempt.timer);
        if let Some(sent) = &attempt.unacknowledged {
            self.wheel.cancel(sent.timer);
        }
        if let Some(user) = self.users.get_mut(attempt.user as usize) {
            user.is_busy = false;
        }
        if let Some(hash) = attempt.call_id_hash
            && let Ok(entry) = self.by_call_id.find_entry(hash, |entry| entry.1 == key)
        {
            entry.remove();
        }
        if let Some(server) = attempt.server.filter(|&server| !self.transactions.is_answered(server)) {
            self.transactions.drop_server(server);
        }
        self.note_end(cx.now);
        cx.emit(Action::Ended(attempt.report(cx.now, outcome)));
        if let Some(connection) = attempt.flow.connection
            && self.config.connections == ConnectionUse::PerAttempt
            && self.config.scenario.is_caller()
        {
            cx.emit(Action::Release(connection));
        }
    }

    /// Ends the attempts that wait for a response on a closed connection. One pass is for all connections that were closed
    /// together.
    fn end_closed(&mut self, cx: &mut Context<'_, Action>) {
        if self.closed_at.take().is_none() {
            return;
        }
        self.closed.sort_unstable();
        let is_closed = |attempt: &Attempt| {
            attempt.client.is_some()
                && attempt.flow.connection.is_some_and(|id| self.closed.binary_search(&id).is_ok())
        };
        let ended: Vec<SlabKey> =
            self.attempts.iter().filter(|(_, attempt)| is_closed(attempt)).map(|(key, _)| key).collect();
        self.closed.clear();
        for key in ended {
            if let Some(client) = self.attempts.get(key).and_then(|attempt| attempt.client) {
                self.transactions.drop_client(client);
            }
            self.end(cx, key, Outcome::Unreachable);
        }
    }

    fn handle_notices(&mut self, cx: &mut Context<'_, Action>) {
        while let Some(notice) = self.notices.pop() {
            let (client, owner, outcome) = match notice {
                Notice::ClientTimedOut { client, owner } => (client, owner, Outcome::TimedOut),
                Notice::ClientUnreachable { client, owner } => (client, owner, Outcome::Unreachable),
            };
            if self.attempts.get(owner).is_some_and(|attempt| attempt.client == Some(client)) {
                self.end(cx, owner, outcome);
            }
        }
        while self.transactions.take_gone().is_some() {}
    }
}

/// The scenario with the values of the keywords that do not change.
fn prepared(scenario: &Scenario, config: &Config, run: u64) -> Arc<Scenario> {
    Arc::new(scenario.with_constants(&|keyword| constant(config, run, keyword)))
}

/// Maximum number of server transactions: what strangers' requests can make a generator keep for 32 s.
const SERVERS_MAX: usize = 2_000_000;

impl Node for Generator {
    type Action = Action;
    type Framer = SipFramer;

    fn shard_of(_key: &ShardKey, _bytes: &[u8], _shards: u16) -> u16 {
        0
    }

    fn on_message(&mut self, cx: &mut Context<'_, Action>, received: Received<'_>) {
        let Ok(message) = Message::parse(received.bytes, &Limits::default()) else {
            self.counters.malformed += 1;
            return;
        };
        match *message.start() {
            Start::Response { status, .. } => {
                let from = received.flow.remote;
                match self.transactions.receive_response(cx, &message, status, |flow| flow.remote == from) {
                    Answer::Pass { client, owner } => self.on_response(cx, owner, client, status, &message),
                    Answer::Absorbed | Answer::Stray => {}
                    Answer::Stateless { .. } | Answer::Elsewhere => self.counters.stray += 1,
                }
            }
            Start::Request { .. } => self.on_request(cx, received.flow, &message),
        }
        self.handle_notices(cx);
    }

    fn on_event(&mut self, cx: &mut Context<'_, Action>, event: Event) {
        match event {
            Event::Unreachable(token) => self.transactions.unreachable(cx, token, &mut self.notices),
            Event::Closed(connection) => {
                self.closed.push(connection);
                self.closed_at.get_or_insert(cx.now);
            }
            Event::Resolved { .. }
            | Event::NumberResolved { .. }
            | Event::SignerFound { .. }
            | Event::Located { .. }
            | Event::StateChanged { .. }
            | Event::Relayed { .. } => {}
        }
        self.handle_notices(cx);
    }

    fn shard_of_quoted(quoted: &[u8], _shards: u16) -> Option<u16> {
        ringway_transaction::shard_of_quoted(quoted).map(|_| 0)
    }

    fn on_icmp_error(&mut self, cx: &mut Context<'_, Action>, error: IcmpError<'_>) {
        self.transactions.icmp_error(cx, error, &mut self.notices);
        self.handle_notices(cx);
    }

    fn on_timeout(&mut self, cx: &mut Context<'_, Action>) {
        // Starts first, so that the other work does not delay them.
        self.start_due(cx);
        self.end_closed(cx);
        self.transactions.on_timeout(cx, &mut self.notices);
        self.handle_notices(cx);
        while let Some((key, timer)) = self.wheel.expire(cx.now) {
            self.on_timer(cx, key, timer);
        }
        self.handle_notices(cx);
    }

    fn next_deadline(&self) -> Option<Deadline> {
        let timer = self.wheel.next_due().map(|at| Deadline { at, reason: "a timer of an attempt" });
        let arrival = self.next_arrival().map(|at| Deadline { at, reason: "a planned attempt" });
        let transaction = self.transactions.next_deadline();
        let closed = self.closed_at.map(|at| Deadline { at, reason: "closed connections" });
        [timer, arrival, transaction, closed].into_iter().flatten().min_by_key(|deadline| deadline.at)
    }
}

/// Step, from `from` on, whose message fulfils `is_expected`, and true if it is optional. Optional steps before it are
/// passed over.
fn find(steps: &[Step], from: usize, is_expected: impl Fn(&Expected) -> bool) -> Option<(usize, bool)> {
    for (index, step) in steps.iter().enumerate().skip(from) {
        let Step::Receive(receive) = step else { return None };
        if is_expected(&receive.message) {
            return Some((index, receive.is_optional));
        }
        if !receive.is_optional {
            return None;
        }
    }
    None
}

/// Maximum number of steps of an attempt without a wait.
const STEPS_IN_A_ROW_MAX: usize = 1_000;
/// Least pause of a scenario with jumps.
const PAUSE_MIN: Duration = Duration::from_millis(1);
/// Number of users in a row that are tried for one that has no attempt pending.
const USERS_TRIED_MAX: usize = 64;
/// Longest time that a response can let a user wait.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(3600);
/// Maximum number of attempts that one call starts.
const STARTS_MAX: usize = 64;
