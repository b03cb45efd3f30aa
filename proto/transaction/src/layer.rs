//! All transactions of one shard.

use crate::branch::{Branch, BranchKey};
use crate::client::{self, Cancel, Client, ClientId, Outgoing, write_ack, write_cancel};
use crate::config::{Limits, Timers};
use crate::matching::{MatchKey, Matcher};
use crate::server::{self, Server, ServerId};
use crate::slab::{Slab, SlabKey};
use crate::state::{Class, Effect, Timer, invite_server, non_invite_client, non_invite_server};
use alloc::vec::Vec;
use core::hash::BuildHasherDefault;
use core::net::SocketAddr;
use core::time::Duration;
use hashbrown::HashMap;
use ringway_sansio::{Deadline, Flow, Instant, Outbox, TimerKey, Token, Wheel};
use ringway_sip::{Message, Method};

/// The transactions of one shard: matches, repeats, times out.
#[derive(Debug)]
pub struct Transactions {
    timers: Timers,
    limits: Limits,
    shard: u16,
    matcher: Matcher,
    branch_key: BranchKey,
    servers: Slab<Server>,
    clients: Slab<Client>,
    /// Keys come from peers, but only through a keyed 128-bit hash.
    index: HashMap<MatchKey, SlabKey, BuildHasherDefault<AlreadyHashed>>,
    wheel: Wheel<Due>,
    /// Buffers of transactions that are over.
    spare: Vec<Vec<u8>>,
    branch: Vec<u8>,
    /// Owners of server transactions that ended since the user asked last.
    gone: Vec<u64>,
    counters: Counters,
}

/// What a request is to the transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Incoming {
    /// It belongs to none; the key is for [`Transactions::start_server`].
    New(MatchKey),
    /// It was a repetition, or an ACK that ended what it acknowledged: all is done.
    Absorbed,
    /// An ACK with the branch of an INVITE that was accepted: the user decides (RFC 6026 §7.1).
    AckOfSuccess(u64),
}

/// What a response is to the transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// For the user of this client transaction.
    Pass {
        /// Which.
        client: ClientId,
        /// The user's number for it.
        owner: u64,
    },
    /// A repetition, or the answer to a CANCEL.
    Absorbed,
    /// To a request that was forwarded without state, which came by this connection (0: by datagram).
    Stateless {
        /// The connection's number.
        connection: u64,
    },
    /// To nothing we sent.
    Stray,
}

/// What the user must know without a message having come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// No final answer came in time.
    ClientTimedOut {
        /// Which.
        client: ClientId,
        /// The user's number for it.
        owner: u64,
    },
    /// The request could not be delivered.
    ClientUnreachable {
        /// Which.
        client: ClientId,
        /// The user's number for it.
        owner: u64,
    },
}

/// What was counted; only grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Requests that were sent again.
    pub requests_retransmitted: u64,
    /// Responses that were sent again by a timer or for a repeated request.
    pub responses_retransmitted: u64,
    /// Requests that were recognised as repetitions.
    pub requests_absorbed: u64,
    /// Client transactions without an answer in time.
    pub client_timeouts: u64,
    /// Failed INVITEs whose ACK never came.
    pub acks_missed: u64,
    /// Responses to nothing we sent.
    pub stray_responses: u64,
    /// Requests for which there was no room for a transaction.
    pub refused_full: u64,
}

#[derive(Clone, Copy, Debug)]
struct Due {
    of: Side,
    key: SlabKey,
    timer: Timer,
}

#[derive(Clone, Copy, Debug)]
enum Side {
    Server,
    Client,
    CancelOfClient,
}

impl Transactions {
    /// No transactions yet. `key` is secret; all shards of a server that shall read each other's branches share
    /// `branch_key`.
    pub fn new(
        shard: u16,
        timers: Timers,
        limits: Limits,
        key: [u8; 16],
        branch_key: BranchKey,
        now: Instant,
    ) -> Self {
        Self {
            timers,
            limits,
            shard,
            matcher: Matcher::new(key),
            branch_key,
            servers: Slab::default(),
            clients: Slab::default(),
            index: HashMap::default(),
            wheel: Wheel::new(now),
            spare: Vec::new(),
            branch: Vec::new(),
            gone: Vec::new(),
            counters: Counters::default(),
        }
    }

    /// Looks a request up. A repetition is answered with the last response again, an ACK goes to its INVITE.
    pub fn receive_request(&mut self, now: Instant, message: &Message<'_>, out: &mut Outbox) -> Incoming {
        let key = self.matcher.key(message);
        let Some(&place) = self.index.get(&key) else { return Incoming::New(key) };
        let Some(server) = self.servers.get_mut(place) else { return Incoming::New(key) };
        let event = match message.method() {
            Method::Ack => server::Event { invite: invite_server::Event::Ack, non_invite: None },
            _ => {
                self.counters.requests_absorbed += 1;
                server::Event {
                    invite: invite_server::Event::Request,
                    non_invite: Some(non_invite_server::Event::Request),
                }
            }
        };
        let owner = server.owner;
        let effects = self.step_server(now, place, event, out);
        if effects.contains(&Effect::PassUp) { Incoming::AckOfSuccess(owner) } else { Incoming::Absorbed }
    }

    /// The key of the transaction that a request makes or belongs to.
    pub fn key_of(&self, message: &Message<'_>) -> MatchKey {
        self.matcher.key(message)
    }

    /// Begins a server transaction for a request that was [`Incoming::New`]. `None`: there is no room.
    pub fn start_server(
        &mut self,
        key: MatchKey,
        is_invite: bool,
        reply: Flow,
        sent_by_port: u16,
        owner: u64,
    ) -> Option<ServerId> {
        if self.servers.len() >= self.limits.servers_max {
            self.counters.refused_full += 1;
            return None;
        }
        let fallback = reply.connection.map(|_| SocketAddr::new(reply.remote.ip(), sent_by_port));
        let place = self.servers.insert(Server {
            machine: server::Machine::new(is_invite),
            reply,
            fallback,
            owner,
            key,
            last: self.spare.pop().unwrap_or_default(),
            retransmit: TimerKey::NONE,
            wait: TimerKey::NONE,
            interval: Duration::ZERO,
        });
        self.index.insert(key, place);
        Some(ServerId(place))
    }

    /// Sends a response, written by `write`. After a final response nothing more is sent, except further 2xx to an
    /// INVITE. Returns whether it was sent.
    pub fn respond(
        &mut self,
        now: Instant,
        id: ServerId,
        status: u16,
        out: &mut Outbox,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> bool {
        let Some(server) = self.servers.get_mut(id.0) else { return false };
        let class = Class::of(status);
        let event = server::Event {
            invite: invite_server::Event::Respond(class),
            non_invite: Some(non_invite_server::Event::Respond(class)),
        };
        if !server.machine.on(event, server.reply.transport.is_reliable()).effects.contains(&Effect::Send) {
            return false;
        }
        let before = out.len();
        out.send_with(server.reply, server_token(self.shard, id.0), write);
        if out.len() == before {
            return false;
        }
        server.last.clear();
        let is_accepted = class == Class::Success && matches!(server.machine, server::Machine::Invite(_));
        if !is_accepted || server.reply.connection.is_some() {
            server.last.extend_from_slice(out.last_bytes());
        }
        self.step_server_after_send(now, id.0, event);
        true
    }

    /// True when a final response was sent.
    pub fn is_answered(&self, id: ServerId) -> bool {
        self.servers.get(id.0).is_none_or(|server| server.machine.is_answered())
    }

    /// Where the responses of a server transaction go.
    pub fn reply_flow_of(&self, id: ServerId) -> Option<Flow> {
        self.servers.get(id.0).map(|server| server.reply)
    }

    /// Forgets a server transaction that will not be answered (RFC 4320 §4.2: no 408 to a non-INVITE).
    pub fn drop_server(&mut self, id: ServerId) {
        self.remove_server(id.0);
    }

    /// The user's number of the INVITE that this CANCEL is for, with the INVITE's flow (RFC 3261 §9.2).
    pub fn cancelled_by(&self, cancel: &Message<'_>) -> Option<(ServerId, u64, Flow)> {
        let place = *self.index.get(&self.matcher.key_of_cancelled(cancel))?;
        self.servers.get(place).map(|server| (ServerId(place), server.owner, server.reply))
    }

    /// Sends a request in a client transaction of its own. `write` is given the branch for its Via; writing nothing
    /// starts nothing. `None`: there is no room, or nothing was written.
    pub fn start_client(
        &mut self,
        now: Instant,
        outgoing: Outgoing,
        out: &mut Outbox,
        write: impl FnOnce(&mut Vec<u8>, &[u8]),
    ) -> Option<ClientId> {
        if self.clients.len() >= self.limits.clients_max {
            self.counters.refused_full += 1;
            return None;
        }
        let place = self.clients.next_key();
        self.branch.clear();
        self.branch_key.write_transaction(self.shard, place, &mut self.branch);
        let before = out.len();
        let branch = &self.branch;
        out.send_with(outgoing.flow, client_token(self.shard, place), |arena| write(arena, branch));
        if out.len() == before {
            return None;
        }
        let mut request = self.spare.pop().unwrap_or_default();
        request.extend_from_slice(out.last_bytes());
        let step = client::Machine::start(outgoing.is_invite, outgoing.flow.transport.is_reliable());
        let place = self.clients.insert(Client {
            machine: step.state,
            flow: outgoing.flow,
            owner: outgoing.owner,
            request,
            retransmit: TimerKey::NONE,
            wait: TimerKey::NONE,
            interval: Duration::ZERO,
            cancel: Cancel::NotWanted,
        });
        for &effect in step.effects {
            match effect {
                Effect::Start(timer) => self.start_client_timer(now, place, timer),
                Effect::Send
                | Effect::SendAck
                | Effect::PassUp
                | Effect::ReportTimeout
                | Effect::ReportTransportError
                | Effect::Repeat(_)
                | Effect::StopRetransmitting
                | Effect::StopWaiting => {}
            }
        }
        Some(ClientId(place))
    }

    /// Looks a response up and runs its transaction. The ACK of a failed INVITE is sent here.
    pub fn receive_response(
        &mut self,
        now: Instant,
        message: &Message<'_>,
        status: u16,
        out: &mut Outbox,
    ) -> Answer {
        let place = match self.branch_key.read(message) {
            Some(Branch::Transaction { shard, key }) if shard == self.shard => key,
            Some(Branch::Stateless { connection }) => return Answer::Stateless { connection },
            Some(Branch::Transaction { .. }) | None => {
                self.counters.stray_responses += 1;
                return Answer::Stray;
            }
        };
        let Some(client) = self.clients.get_mut(place) else {
            self.counters.stray_responses += 1;
            return Answer::Stray;
        };
        let is_invite = matches!(client.machine, client::Machine::Invite(_));
        let class = Class::of(status);
        if is_invite && message.method() == Method::Cancel {
            self.step_cancel(now, place, client::Event::Response(class), out);
            return Answer::Absorbed;
        }
        if is_invite != (message.method() == Method::Invite) {
            self.counters.stray_responses += 1;
            return Answer::Stray;
        }
        let owner = client.owner;
        let step = client.machine.on(client::Event::Response(class), client.flow.transport.is_reliable());
        let mut passed = false;
        for &effect in step.effects {
            match effect {
                Effect::PassUp => passed = true,
                Effect::SendAck => self.send_ack(place, message, out),
                Effect::Start(timer) => self.start_client_timer(now, place, timer),
                Effect::StopRetransmitting => self.stop_client_timer(place, true),
                Effect::StopWaiting => self.stop_client_timer(place, false),
                Effect::Send | Effect::Repeat(_) | Effect::ReportTimeout | Effect::ReportTransportError => {}
            }
        }
        self.settle_client(place, step.state);
        if class == Class::Provisional {
            self.send_wanted_cancel(now, place, out);
        }
        if passed { Answer::Pass { client: ClientId(place), owner } } else { Answer::Absorbed }
    }

    /// Cancels an INVITE: at once when a provisional response has come, else when it comes (RFC 3261 §9.1).
    pub fn cancel(&mut self, now: Instant, id: ClientId, out: &mut Outbox) {
        let Some(client) = self.clients.get_mut(id.0) else { return };
        let client::Machine::Invite(state) = client.machine else { return };
        if client.cancel != Cancel::NotWanted {
            return;
        }
        use crate::state::invite_client::State;
        match state {
            State::Calling => client.cancel = Cancel::Wanted,
            State::Proceeding => {
                client.cancel = Cancel::Wanted;
                self.send_wanted_cancel(now, id.0, out);
            }
            State::Completed | State::Accepted | State::Terminated => {}
        }
    }

    /// The packet with `token` could not be sent.
    pub fn unreachable(&mut self, now: Instant, token: Token, out: &mut Outbox, notices: &mut Vec<Notice>) {
        let (place, is_server) = read_token(token);
        if is_server {
            let Some(server) = self.servers.get_mut(place) else { return };
            if let Some(fallback) = server.fallback.take()
                && !server.last.is_empty()
            {
                server.reply = Flow { connection: None, remote: fallback, ..server.reply };
                out.send(server.reply, server_token(self.shard, place), &server.last);
            }
            return;
        }
        self.step_client_alone(now, place, client::Event::TransportError, out, notices);
    }

    /// Does what is due.
    pub fn on_timeout(&mut self, now: Instant, out: &mut Outbox, notices: &mut Vec<Notice>) {
        while let Some(due) = self.wheel.expire(now) {
            match due.of {
                Side::Server => {
                    let event = server::Event {
                        invite: invite_server::Event::Timer(due.timer),
                        non_invite: Some(non_invite_server::Event::Timer(due.timer)),
                    };
                    self.step_server(now, due.key, event, out);
                }
                Side::Client => {
                    self.step_client_alone(now, due.key, client::Event::Timer(due.timer), out, notices);
                }
                Side::CancelOfClient => {
                    self.step_cancel(now, due.key, client::Event::Timer(due.timer), out);
                }
            }
        }
    }

    /// The user's number of a server transaction that is over and forgotten; ask after each call until `None`.
    pub fn take_gone(&mut self) -> Option<u64> {
        self.gone.pop()
    }

    /// When [`Transactions::on_timeout`] is wanted.
    pub fn next_deadline(&self) -> Option<Deadline> {
        self.wheel.next_due().map(|at| Deadline { at, reason: "a transaction timer" })
    }

    /// How many server and client transactions there are.
    pub fn len(&self) -> (usize, usize) {
        (self.servers.len(), self.clients.len())
    }

    /// True when nothing is under way: all that is left waits for repetitions of what is answered.
    pub fn is_idle(&self) -> bool {
        self.servers.iter().all(|(_, server)| server.machine.is_answered())
    }

    /// What was counted.
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The key that our branches are written with.
    pub const fn branch_key(&self) -> &BranchKey {
        &self.branch_key
    }

    fn step_server(
        &mut self,
        now: Instant,
        place: SlabKey,
        event: server::Event,
        out: &mut Outbox,
    ) -> &'static [Effect] {
        let Some(server) = self.servers.get_mut(place) else { return &[] };
        let step = server.machine.on(event, server.reply.transport.is_reliable());
        if step.effects.contains(&Effect::Send) && !server.last.is_empty() {
            self.counters.responses_retransmitted += 1;
            out.send(server.reply, server_token(self.shard, place), &server.last);
        }
        self.step_server_after_send(now, place, event)
    }

    /// Everything of a step but the sending.
    fn step_server_after_send(
        &mut self,
        now: Instant,
        place: SlabKey,
        event: server::Event,
    ) -> &'static [Effect] {
        let Some(server) = self.servers.get_mut(place) else { return &[] };
        let step = server.machine.on(event, server.reply.transport.is_reliable());
        server.machine = step.state;
        for &effect in step.effects {
            match effect {
                Effect::Start(timer) => {
                    let length = self.timers.length(timer);
                    let key = self.wheel.arm(now + length, Due { of: Side::Server, key: place, timer });
                    if timer.is_retransmission() {
                        server.interval = length;
                        server.retransmit = key;
                    } else {
                        self.wheel.cancel(server.wait);
                        server.wait = key;
                    }
                }
                Effect::Repeat(timer) => {
                    server.interval = self.timers.next_interval(timer, server.interval);
                    let due = Due { of: Side::Server, key: place, timer };
                    server.retransmit = self.wheel.arm(now + server.interval, due);
                }
                Effect::StopRetransmitting => {
                    self.wheel.cancel(server.retransmit);
                }
                Effect::StopWaiting => {
                    self.wheel.cancel(server.wait);
                }
                Effect::ReportTimeout => self.counters.acks_missed += 1,
                Effect::Send | Effect::SendAck | Effect::PassUp | Effect::ReportTransportError => {}
            }
        }
        if step.state.is_over() {
            self.remove_server(place);
        }
        step.effects
    }

    fn remove_server(&mut self, place: SlabKey) {
        if let Some(server) = self.servers.remove(place) {
            self.wheel.cancel(server.retransmit);
            self.wheel.cancel(server.wait);
            if self.index.get(&server.key) == Some(&place) {
                self.index.remove(&server.key);
            }
            recycle(&mut self.spare, server.last);
            self.gone.push(server.owner);
        }
    }

    /// A step of a client transaction that no message caused.
    fn step_client_alone(
        &mut self,
        now: Instant,
        place: SlabKey,
        event: client::Event,
        out: &mut Outbox,
        notices: &mut Vec<Notice>,
    ) {
        let Some(client) = self.clients.get_mut(place) else { return };
        let (id, owner) = (ClientId(place), client.owner);
        // RFC 3261 §9.1: 64·T1 after the CANCEL nobody waits for the INVITE's answer any more.
        let is_cancelled = matches!(client.cancel, Cancel::Sent { .. });
        if is_cancelled && event == client::Event::Timer(Timer::B) {
            self.counters.client_timeouts += 1;
            notices.push(Notice::ClientTimedOut { client: id, owner });
            self.remove_client(place);
            return;
        }
        let step = client.machine.on(event, client.flow.transport.is_reliable());
        for &effect in step.effects {
            match effect {
                Effect::Send => {
                    if let Some(client) = self.clients.get(place) {
                        self.counters.requests_retransmitted += 1;
                        out.send(client.flow, client_token(self.shard, place), &client.request);
                    }
                }
                Effect::Repeat(timer) => {
                    if let Some(client) = self.clients.get_mut(place) {
                        client.interval = match step.state {
                            client::Machine::Invite(_) => self.timers.next_interval(timer, client.interval),
                            client::Machine::NonInvite(state) => {
                                self.timers.interval_after(timer, client.interval, state)
                            }
                        };
                        let due = Due { of: Side::Client, key: place, timer };
                        client.retransmit = self.wheel.arm(now + client.interval, due);
                    }
                }
                Effect::ReportTimeout => {
                    self.counters.client_timeouts += 1;
                    notices.push(Notice::ClientTimedOut { client: id, owner });
                }
                Effect::ReportTransportError => notices.push(Notice::ClientUnreachable { client: id, owner }),
                Effect::Start(timer) => self.start_client_timer(now, place, timer),
                Effect::SendAck | Effect::PassUp | Effect::StopRetransmitting | Effect::StopWaiting => {}
            }
        }
        self.settle_client(place, step.state);
    }

    fn settle_client(&mut self, place: SlabKey, state: client::Machine) {
        let Some(client) = self.clients.get_mut(place) else { return };
        client.machine = state;
        if state.is_over() {
            self.remove_client(place);
            return;
        }
        if state.is_answered() {
            // RFC 3261 §9.1: there is nothing left to cancel.
            end_cancel(&mut self.wheel, client);
        }
        if state.is_done_with_request() {
            let request = core::mem::take(&mut client.request);
            recycle(&mut self.spare, request);
        }
    }

    fn remove_client(&mut self, place: SlabKey) {
        if let Some(mut client) = self.clients.remove(place) {
            self.wheel.cancel(client.retransmit);
            self.wheel.cancel(client.wait);
            end_cancel(&mut self.wheel, &mut client);
            recycle(&mut self.spare, client.request);
        }
    }

    fn start_client_timer(&mut self, now: Instant, place: SlabKey, timer: Timer) {
        let length = self.timers.length(timer);
        let Some(client) = self.clients.get_mut(place) else { return };
        let key = self.wheel.arm(now + length, Due { of: Side::Client, key: place, timer });
        if timer.is_retransmission() {
            client.interval = length;
            client.retransmit = key;
        } else {
            self.wheel.cancel(client.wait);
            client.wait = key;
        }
    }

    fn stop_client_timer(&mut self, place: SlabKey, retransmission: bool) {
        if let Some(client) = self.clients.get(place) {
            self.wheel.cancel(if retransmission { client.retransmit } else { client.wait });
        }
    }

    fn send_ack(&mut self, place: SlabKey, response: &Message<'_>, out: &mut Outbox) {
        if let Some(client) = self.clients.get(place) {
            out.send_with(client.flow, Token::NONE, |arena| write_ack(&client.request, response, arena));
        }
    }

    fn send_wanted_cancel(&mut self, now: Instant, place: SlabKey, out: &mut Outbox) {
        let Some(client) = self.clients.get_mut(place) else { return };
        if client.cancel != Cancel::Wanted {
            return;
        }
        out.send_with(client.flow, Token::NONE, |arena| write_cancel(&client.request, arena));
        let reliable = client.flow.transport.is_reliable();
        let due = |timer| Due { of: Side::CancelOfClient, key: place, timer };
        let interval = self.timers.length(Timer::E);
        let retransmit =
            if reliable { TimerKey::NONE } else { self.wheel.arm(now + interval, due(Timer::E)) };
        let wait = self.wheel.arm(now + self.timers.length(Timer::F), due(Timer::F));
        client.cancel = Cancel::Sent { state: non_invite_client::State::Trying, retransmit, wait, interval };
        self.start_client_timer(now, place, Timer::B);
    }

    fn step_cancel(&mut self, now: Instant, place: SlabKey, event: client::Event, out: &mut Outbox) {
        let Some(client) = self.clients.get_mut(place) else { return };
        let Cancel::Sent { state, retransmit, wait, interval } = &mut client.cancel else { return };
        let step = non_invite_client::on(*state, event, client.flow.transport.is_reliable());
        *state = step.state;
        for &effect in step.effects {
            match effect {
                Effect::Send => {
                    self.counters.requests_retransmitted += 1;
                    out.send_with(client.flow, Token::NONE, |arena| write_cancel(&client.request, arena));
                }
                Effect::Repeat(timer) => {
                    *interval = self.timers.interval_after(timer, *interval, step.state);
                    let due = Due { of: Side::CancelOfClient, key: place, timer };
                    *retransmit = self.wheel.arm(now + *interval, due);
                }
                Effect::StopRetransmitting => {
                    self.wheel.cancel(*retransmit);
                    self.wheel.cancel(*wait);
                }
                // What is left of it needs no timer of its own: it ends with its INVITE.
                Effect::Start(_)
                | Effect::SendAck
                | Effect::PassUp
                | Effect::ReportTimeout
                | Effect::ReportTransportError
                | Effect::StopWaiting => {}
            }
        }
    }
}

/// The top 16 bits name the shard, so that a driver knows whom to tell; one bit tells servers from clients.
fn client_token(shard: u16, place: SlabKey) -> Token {
    Token(
        (u64::from(shard) << 48) | (u64::from(place.generation) << 32) | u64::from(place.index & !SERVER_BIT),
    )
}

fn server_token(shard: u16, place: SlabKey) -> Token {
    Token(client_token(shard, place).0 | u64::from(SERVER_BIT))
}

fn read_token(token: Token) -> (SlabKey, bool) {
    let low = token.0 as u32;
    let generation = ((token.0 >> 32) & 0xffff) as u32;
    (SlabKey { index: low & !SERVER_BIT, generation }, low & SERVER_BIT != 0)
}

/// Its CANCEL, sent or wanted, is of no more use.
fn end_cancel(wheel: &mut Wheel<Due>, client: &mut Client) {
    if let Cancel::Sent { retransmit, wait, .. } = client.cancel {
        wheel.cancel(retransmit);
        wheel.cancel(wait);
    }
    client.cancel = Cancel::NotWanted;
}

fn recycle(spare: &mut Vec<Vec<u8>>, mut buffer: Vec<u8>) {
    if buffer.capacity() > 0 && buffer.capacity() <= SPARE_BYTES_MAX && spare.len() < SPARE_MAX {
        buffer.clear();
        spare.push(buffer);
    }
}

const SERVER_BIT: u32 = 1 << 31;
const SPARE_MAX: usize = 1024;
const SPARE_BYTES_MAX: usize = 4096;

/// Match keys are hashes already.
#[derive(Clone, Copy, Debug, Default)]
struct AlreadyHashed(u64);

impl core::hash::Hasher for AlreadyHashed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(byte);
        }
    }

    fn write_u128(&mut self, value: u128) {
        self.0 = value as u64;
    }
}

#[cfg(test)]
#[path = "layer_tests.rs"]
mod tests;
