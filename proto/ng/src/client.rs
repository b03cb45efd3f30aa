//! Client of several relays: choice, retransmission, time limit, health, failover. Counters of the client.

use crate::calls::{Admission, Calls, Deletion, Indices, streams_of};
use crate::command::{Answer, Command, Cookie, read_answer};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::hash::Hasher;
use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use hashbrown::HashMap;
use ringway_sansio::{
    Defence, Entropy, Instant, RelayCall, RelayId, RelayKind, RelayRequest, RelayResult, Seed, TableSize,
    TimerKey, Wheel,
};
use siphasher::sip::SipHasher13;

/// Client of the relays of a server, without I/O: takes requests, datagrams and the current time; returns datagrams and
/// results. `T` identifies a request to its sender.
///
/// A call goes to the relay that has it already; a new one goes to the relay that is first in the order of a hash of call
/// and relay, and that answers. Relays are pinged, so that one that ended is noticed before a call waits for it.
pub struct Client<T> {
    relays: Vec<Relay>,
    time_limit: Duration,
    cookies: Entropy,
    pending: HashMap<u64, Pending<T>, core::hash::BuildHasherDefault<SipHasher13>>,
    /// Bytes of their SDP.
    pending_bytes: usize,
    calls: Calls,
    /// Calls to delete, with the index of the relay.
    deletions: Vec<(RelayCall, usize)>,
    timers: Wheel<Timer>,
    sends: VecDeque<Datagram>,
    done: VecDeque<Done<T>>,
    /// Relays that came up or went down since the last [`Client::poll_change`].
    changes: VecDeque<RelayChange>,
    counters: Counters,
}

/// Change of a relay; at the start all count as up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RelayChange {
    /// Its address.
    pub address: SocketAddr,
    /// New state.
    pub state: RelayState,
}

/// State of a relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RelayState {
    /// It answers, after it was down.
    Up,
    /// It did not answer, and gets no new calls.
    Down,
}

/// Datagram to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// Address of the relay.
    pub to: SocketAddr,
    /// Bytes of the datagram.
    pub bytes: Vec<u8>,
    /// Use of the answer.
    pub answer: AnswerUse,
}

/// Use of the answer to a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerUse {
    /// A request or the health of a relay waits for it.
    Awaited,
    /// It only ends the retransmission: it may be given to the client as late as before the next [`Client::on_timeout`].
    EndsRetransmission,
}

/// End of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done<T> {
    /// The sender's value.
    pub of: T,
    /// `None`: no relay answered in time, or one refused.
    pub result: Option<RelayResult>,
}

#[derive(Debug)]
struct Relay {
    address: SocketAddr,
    id: RelayId,
    is_up: bool,
    /// Time of its last answer.
    last_answer: Instant,
}

#[derive(Debug)]
struct Pending<T> {
    job: Job<T>,
    /// Index of the relay.
    relay: usize,
    /// Relays that were tried, a bit each.
    tried: Indices,
    /// Number of datagrams to this relay.
    sent: u8,
    /// Time of the first one.
    since: Instant,
    give_up: Instant,
    timer: TimerKey,
}

#[derive(Debug)]
enum Job<T> {
    Ping,
    Delete(RelayCall),
    /// An offer or answer.
    Ask(T, RelayRequest),
}

#[derive(Clone, Copy, Debug)]
enum Timer {
    Cookie(u64),
    Ping(usize),
    Call(RelayCall),
    Deletions,
}

impl<T> Client<T> {
    /// Memory of the requests that wait for relays, and of the calls that have streams at them.
    pub const fn size() -> TableSize {
        let pending = 2 * PENDING_MAX + RELAYS_MAX;
        TableSize::of_bytes("requests to media relays", PENDING_MAX, PENDING_BYTES_MAX)
            .with_map(pending, size_of::<(u64, Pending<T>)>())
            .with_bytes(Calls::bytes_max())
            .with_bytes(Wheel::<Timer>::bytes_of(2 * pending + Calls::CALLS_MAX))
    }

    /// Creates a client of the relays at these addresses, at most [`RELAYS_MAX`]. A request ends within `time_limit`.
    pub fn new(addresses: &[SocketAddr], time_limit: Duration, seed: &Seed, now: Instant) -> Self {
        let relay =
            |&address: &SocketAddr| Relay { address, id: id_of(address), is_up: true, last_answer: now };
        let mut timers = Wheel::new(now);
        let relays: Vec<Relay> = addresses.iter().take(RELAYS_MAX).map(relay).collect();
        for index in 0..relays.len() {
            timers.arm(now, Timer::Ping(index));
        }
        Self {
            relays,
            time_limit,
            cookies: Entropy::new(seed),
            pending: HashMap::default(),
            pending_bytes: 0,
            calls: Calls::default(),
            deletions: Vec::new(),
            timers,
            sends: VecDeque::new(),
            done: VecDeque::new(),
            changes: VecDeque::new(),
            counters: Counters::default(),
        }
    }

    /// Sends a request. A [`RelayKind::Delete`] has no result.
    pub fn request(&mut self, now: Instant, of: T, request: RelayRequest) {
        if request.kind == RelayKind::Delete {
            return self.delete(now, &request);
        }
        if self.pending.len() >= PENDING_MAX || self.pending_bytes + request.sdp.len() > PENDING_BYTES_MAX {
            self.counters.relay_overflow += 1;
            return self.fail(of);
        }
        let Some(relay) = self.choose(&request, 0) else {
            self.counters.relay_timeouts += 1;
            return self.fail(of);
        };
        if !self.admit(now, &request) {
            self.counters.relay_limited += 1;
            return self.fail(of);
        }
        self.counters.relay_requests += 1;
        if self.calls.begin(request.call) {
            let timer = self.timers.arm(now + COUNTED, Timer::Call(request.call));
            self.calls.set_timer(request.call, timer);
        }
        let give_up = now + self.time_limit;
        self.start(now, Job::Ask(of, request), relay, 1 << relay, give_up);
    }

    /// Handles a datagram. One that comes from another address than the relay's is ignored.
    pub fn on_datagram(&mut self, now: Instant, from: SocketAddr, bytes: &[u8]) {
        // The datagram of a stranger is not worth reading.
        let is_from = |address: SocketAddr| address == from || !Defence::RelaySource.is_on();
        let is_of_relay = self.relays.iter().any(|relay| is_from(relay.address));
        let answer = if is_of_relay { read_answer(bytes).ok() } else { None };
        let Some((Cookie(cookie), answer)) = answer else {
            self.counters.relay_rejected += 1;
            return;
        };
        let of_relay = self.pending.get(&cookie).map(|pending| pending.relay);
        let relay = of_relay.and_then(|index| self.relays.get_mut(index));
        let Some(relay) = relay.filter(|relay| is_from(relay.address)) else {
            self.counters.relay_rejected += 1;
            return;
        };
        let was_up = core::mem::replace(&mut relay.is_up, true);
        relay.last_answer = now;
        let id = relay.id;
        if !was_up {
            self.changes.push_back(RelayChange { address: from, state: RelayState::Up });
        }
        let Some(pending) = self.take(cookie) else { return };
        self.timers.cancel(pending.timer);
        let Job::Ask(of, request) = pending.job else { return };
        let result = match answer {
            Answer::Done(Some(sdp)) => Some(RelayResult { relay: id, sdp: sdp.into() }),
            Answer::Done(None) | Answer::Refused => {
                self.counters.relay_refusals += 1;
                // It may have no free port.
                let next = self.choose(&request, pending.tried);
                if let Some(relay) = next.filter(|_| request.kind == RelayKind::Offer) {
                    self.counters.relay_failovers += 1;
                    let tried = pending.tried | (1 << relay);
                    return self.start(now, Job::Ask(of, request), relay, tried, pending.give_up);
                }
                None
            }
        };
        self.settle(now, &request, result.as_ref().map(|_| pending.relay));
        self.done.push_back(Done { of, result });
    }

    /// Performs what is due.
    pub fn on_timeout(&mut self, now: Instant) {
        while let Some(timer) = self.timers.expire(now) {
            match timer {
                Timer::Cookie(cookie) => self.on_silence(now, cookie),
                Timer::Ping(relay) => {
                    self.start(now, Job::Ping, relay, 0, now + PING_TIME);
                    let is_up = self.relays.get(relay).is_some_and(|relay| relay.is_up);
                    let interval = if is_up { PING_INTERVAL } else { PING_INTERVAL_DOWN };
                    self.timers.arm(now + interval, Timer::Ping(relay));
                }
                Timer::Call(call) => {
                    if let Some(until) = self.calls.expire(now, call) {
                        let timer = self.timers.arm(until, Timer::Call(call));
                        self.calls.set_timer(call, timer);
                    }
                }
                Timer::Deletions => self.send_deletions(now),
            }
        }
    }

    /// Time of the next necessary call of [`Client::on_timeout`].
    pub fn next_due(&self) -> Option<Instant> {
        self.timers.next_due()
    }

    /// Next datagram to send.
    pub fn poll_send(&mut self) -> Option<Datagram> {
        self.sends.pop_front()
    }

    /// Next request that ended.
    pub fn poll_done(&mut self) -> Option<Done<T>> {
        self.done.pop_front()
    }

    /// Next relay that came up or went down.
    pub fn poll_change(&mut self) -> Option<RelayChange> {
        self.changes.pop_front()
    }

    /// Counters since the start.
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Number of relays that answer.
    pub fn up_len(&self) -> usize {
        self.relays.iter().filter(|relay| relay.is_up).count()
    }

    /// Address of each relay, whether it answers, and the time of its last answer.
    pub fn relays(&self) -> impl Iterator<Item = (SocketAddr, RelayState, Instant)> {
        self.relays.iter().map(|relay| {
            let state = if relay.is_up { RelayState::Up } else { RelayState::Down };
            (relay.address, state, relay.last_answer)
        })
    }

    /// Number of pending requests and pings.
    pub fn pending_len(&self) -> usize {
        self.pending.len()
    }

    /// Number of calls that count for their holders.
    pub fn calls_len(&self) -> usize {
        self.calls.len()
    }

    /// Relay for a request among those that were not `tried`: one that answers, preferably the one that has the call. An
    /// answer is for the relay that has the offer only.
    fn choose(&self, request: &RelayRequest, tried: Indices) -> Option<usize> {
        let is_left = |index: &usize| tried & (1 << index) == 0;
        let known = request.relay.and_then(|id| self.relays.iter().position(|relay| relay.id == id));
        let indices = (0..self.relays.len()).filter(is_left);
        if request.kind == RelayKind::Answer {
            return known.filter(is_left);
        }
        let up = |index: &usize| self.relays.get(*index).is_some_and(|relay| relay.is_up);
        known.filter(is_left).filter(up).or_else(|| {
            indices
                .filter(up)
                .max_by_key(|index| self.relays.get(*index).map(|relay| weight(request.call, relay.id)))
        })
    }

    /// Counts an offer; false if it, or its holder, is beyond a limit.
    fn admit(&mut self, now: Instant, request: &RelayRequest) -> bool {
        let streams = streams_of(&request.sdp);
        let is_small = streams <= STREAMS_MAX;
        let RelayRequest { call, holder, relay, .. } = *request;
        let offer = Admission { call, holder, streams, begins: relay.is_none(), until: now + COUNTED };
        match request.kind {
            RelayKind::Offer => is_small && self.calls.admit(offer),
            RelayKind::Answer | RelayKind::Delete => is_small,
        }
    }

    fn delete(&mut self, now: Instant, request: &RelayRequest) {
        match self.calls.delete(request.call) {
            Deletion::Now(relays, timer) => {
                self.timers.cancel(timer);
                self.delete_at(now, request.call, relays);
            }
            Deletion::Later => {}
            Deletion::Unknown => {
                let relay = request.relay.and_then(|_| self.choose(request, 0));
                self.delete_at(now, request.call, relay.map_or(0, |relay| 1 << relay));
            }
        }
    }

    /// Handles the end of an offer or answer: relays that have the call in vain delete it.
    fn settle(&mut self, now: Instant, request: &RelayRequest, has: Option<usize>) {
        let is_change = request.relay.is_some();
        let (relays, timer) = self.calls.settle(request.call, has, is_change);
        self.timers.cancel(timer);
        self.delete_at(now, request.call, relays);
    }

    /// Deletes a call at relays, soon: what wakes a relay, and then the answer, costs more than the command.
    fn delete_at(&mut self, now: Instant, call: RelayCall, relays: Indices) {
        for relay in (0..self.relays.len()).filter(|index| relays & (1 << index) != 0) {
            if self.deletions.is_empty() {
                self.timers.arm(now + DELETION_DELAY, Timer::Deletions);
            }
            self.deletions.push((call, relay));
        }
        if self.deletions.len() >= DELETIONS_MAX {
            self.send_deletions(now);
        }
    }

    fn send_deletions(&mut self, now: Instant) {
        for (call, relay) in core::mem::take(&mut self.deletions) {
            if self.pending.len() >= 2 * PENDING_MAX {
                self.counters.relay_overflow += 1;
                continue;
            }
            self.counters.relay_requests += 1;
            self.start(now, Job::Delete(call), relay, 0, now + self.time_limit);
        }
    }

    fn start(&mut self, now: Instant, job: Job<T>, relay: usize, tried: Indices, give_up: Instant) {
        let cookie = u64::from_le_bytes(self.cookies.bytes());
        if let Job::Ask(_, request) = &job {
            self.calls.add_relay(request.call, relay);
            // The relay has the call again.
            self.deletions.retain(|deletion| *deletion != (request.call, relay));
        }
        let pending = Pending { job, relay, tried, sent: 0, since: now, give_up, timer: TimerKey::NONE };
        self.pending_bytes += sdp_len(&pending);
        self.pending.insert(cookie, pending);
        self.send(now, cookie);
    }

    fn send(&mut self, now: Instant, cookie: u64) {
        let Some(pending) = self.pending.get_mut(&cookie) else { return };
        let Some(relay) = self.relays.get(pending.relay) else { return };
        pending.sent += 1;
        let next = (now + RETRANSMISSION).min(pending.give_up);
        pending.timer = self.timers.arm(next, Timer::Cookie(cookie));
        let (command, answer) = match &pending.job {
            Job::Ping => (Command::Ping, AnswerUse::Awaited),
            Job::Delete(call) => (Command::Delete(*call), AnswerUse::EndsRetransmission),
            Job::Ask(_, request) => (Command::Call(request), AnswerUse::Awaited),
        };
        let mut bytes = Vec::with_capacity(COMMAND_BYTES + sdp_len(pending));
        command.write(Cookie(cookie), &mut bytes);
        self.sends.push_back(Datagram { to: relay.address, bytes, answer });
    }

    /// Handles the absence of an answer: retransmits, tries another relay, or gives up.
    fn on_silence(&mut self, now: Instant, cookie: u64) {
        let Some(pending) = self.pending.get(&cookie) else { return };
        let is_over = now >= pending.give_up;
        if !is_over && pending.sent < SENDS_MAX {
            return self.send(now, cookie);
        }
        let Some(pending) = self.take(cookie) else { return };
        // Answers to deletions are read late: their absence says nothing.
        if !matches!(pending.job, Job::Delete(_))
            && let Some(relay) = self.relays.get_mut(pending.relay)
            && relay.is_up
            && relay.last_answer <= pending.since
        {
            relay.is_up = false;
            self.changes.push_back(RelayChange { address: relay.address, state: RelayState::Down });
            self.counters.relay_failures += 1;
        }
        let Job::Ask(of, request) = pending.job else { return };
        let next = self.choose(&request, pending.tried);
        match next.filter(|_| request.kind == RelayKind::Offer && !is_over) {
            Some(relay) => {
                self.counters.relay_failovers += 1;
                let tried = pending.tried | (1 << relay);
                self.start(now, Job::Ask(of, request), relay, tried, pending.give_up);
            }
            None => {
                self.counters.relay_timeouts += 1;
                self.settle(now, &request, None);
                self.fail(of);
            }
        }
    }

    fn take(&mut self, cookie: u64) -> Option<Pending<T>> {
        let pending = self.pending.remove(&cookie)?;
        self.pending_bytes -= sdp_len(&pending);
        Some(pending)
    }

    fn fail(&mut self, of: T) {
        self.done.push_back(Done { of, result: None });
    }
}

impl<T> core::fmt::Debug for Client<T> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Client").field("relays", &self.relays).finish_non_exhaustive()
    }
}

fn sdp_len<T>(pending: &Pending<T>) -> usize {
    match &pending.job {
        Job::Ask(_, request) => request.sdp.len(),
        Job::Ping | Job::Delete(_) => 0,
    }
}

/// Identifier of the relay at an address: the same after a restart, with other relays in the list.
fn id_of(address: SocketAddr) -> RelayId {
    let mut hash = SipHasher13::new();
    match address.ip() {
        IpAddr::V4(v4) => hash.write(&v4.octets()),
        IpAddr::V6(v6) => hash.write(&v6.octets()),
    }
    hash.write_u16(address.port());
    RelayId(hash.finish() as u32)
}

/// Rank of a relay for a call: each call has its own order, and a relay that ends changes the order of no others.
fn weight(call: RelayCall, relay: RelayId) -> u64 {
    let mut hash = SipHasher13::new();
    hash.write_u64(call.0);
    hash.write_u32(relay.0);
    hash.finish()
}

/// Maximum number of relays.
pub const RELAYS_MAX: usize = 8;
/// Maximum number of media streams of an SDP: each takes four ports of a relay.
pub const STREAMS_MAX: usize = 8;
/// Time for which a call counts after its last offer: longer than timer C, at most which it rings.
const COUNTED: Duration = Duration::from_secs(240);
/// Maximum number of pending offers and answers; twice as many with the requests that delete calls.
const PENDING_MAX: usize = 4096;
/// Maximum number of bytes of the SDP in pending offers and answers.
const PENDING_BYTES_MAX: usize = 8 << 20;
/// Time for which deletions wait for others.
const DELETION_DELAY: Duration = Duration::from_millis(20);
/// Number of deletions that are sent at once.
const DELETIONS_MAX: usize = 32;
/// Length of most commands without their SDP.
const COMMAND_BYTES: usize = 480;
/// Datagrams of a request to one relay.
const SENDS_MAX: u8 = 2;
/// Interval of retransmissions.
const RETRANSMISSION: Duration = Duration::from_millis(500);
/// Time limit of a ping.
const PING_TIME: Duration = Duration::from_secs(1);
/// Interval of pings to a relay that answers, and to one that does not.
const PING_INTERVAL: Duration = Duration::from_secs(5);
const PING_INTERVAL_DOWN: Duration = Duration::from_secs(2);

ringway_sansio::counters! {
    /// Counters of a [`Client`](crate::Client); values only increase.
    pub struct Counters {
        /// Requests to media relays, retransmissions and pings excluded.
        relay_requests,
        /// Requests to media relays that were not sent because too many were pending.
        relay_overflow,
        /// Offers and answers that were not sent because of the limits on media streams: those of an SDP, of a source or of
        /// all sources without a password, of a user.
        relay_limited,
        /// Requests that no media relay answered in time.
        relay_timeouts,
        /// Requests that a media relay refused.
        relay_refusals,
        /// Requests sent to another media relay because the first one did not answer.
        relay_failovers,
        /// Media relays that stopped answering.
        relay_failures,
        /// Datagrams of media relays that could not be read, or answer nothing that is pending.
        relay_rejected,
    }
}
