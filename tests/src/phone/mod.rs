//! A scripted user agent: registers, calls, answers as it is told to, and writes down what it hears.
//!
//! It is as simple as a correct one can be: one account, no media, requests repeated by `ringway-transaction`, 2xx
//! repeated and acknowledged by itself (RFC 3261 §13).

mod digest;
mod incoming;
mod outgoing;
mod write;

use ringway_sansio::{
    ConnectionId, Context, Deadline, Event, Flow, Framer, Instant, ListenerId, Received, Rng, Seed, TimerKey,
    Transport, Wheel,
};
use ringway_server::SipFramer;
use ringway_sim::{Effects, SimConnection, SimNode};
use ringway_sip::{Limits, Message, Start, Uri};
use ringway_stream::{Connection, Origin, PassThrough};
use ringway_transaction::{Answer, BranchKey, ClientId, Notice, ServerId, Timers, Transactions};
use std::net::SocketAddr;
use std::time::Duration;

/// Who uses the phone.
#[derive(Clone, Debug)]
pub struct Account {
    /// The user part of the address-of-record.
    pub user: String,
    /// Its domain.
    pub domain: String,
    /// The password.
    pub password: String,
}

/// What a phone does when it is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behaviour {
    /// Rings after some milliseconds and answers later.
    Answer {
        /// When the 180 goes out.
        ring_ms: u64,
        /// When the 200 goes out.
        answer_ms: u64,
    },
    /// Rings and is never answered.
    Ring,
    /// Refuses with this status.
    Refuse(u16),
    /// Says nothing at all, as a phone that is switched off.
    Silent,
    /// Rings, then answers with this status; its responses have the topmost Via only.
    KeepTopViaOnly(u16),
}

/// What a phone heard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// Its REGISTER was accepted; the contacts as the registrar lists them.
    Registered {
        /// Contact values.
        contacts: Vec<String>,
    },
    /// Its call rings, or makes other progress than 100.
    Progress(u16),
    /// Its call was answered.
    Answered,
    /// A second phone answered the same call; it was hung up on.
    AnsweredTwice,
    /// A request with this method was refused for good.
    Refused(&'static str, u16),
    /// A request with this method was accepted, other than INVITE and REGISTER.
    Accepted(&'static str),
    /// A request with this method was never answered.
    Unanswered(&'static str),
    /// Somebody calls.
    Called,
    /// The caller gave up.
    Cancelled,
    /// The caller's ACK came.
    Confirmed,
    /// The caller's ACK never came.
    NeverConfirmed,
    /// The other side hung up.
    HungUp,
    /// Something that is no SIP message.
    Unreadable,
}

/// A scripted phone.
pub struct Phone {
    account: Account,
    address: SocketAddr,
    /// Where it says it can be reached.
    contact: SocketAddr,
    transport: Transport,
    server: SocketAddr,
    behaviour: Behaviour,
    layer: Transactions<Option<usize>, usize>,
    wheel: Wheel<Due>,
    rng: Rng,
    requests: Vec<Request>,
    calls: Vec<Call>,
    heard: Vec<Heard>,
    register_call_id: String,
    register_cseq: u32,
    /// A REGISTER has no final answer yet.
    is_registering: bool,
    /// Max-Forwards of its requests.
    hops: u8,
}

/// A request it sends, with all that is needed to send it once more with credentials. Its place is its owner number.
struct Request {
    method: &'static str,
    uri: String,
    to: String,
    from_tag: String,
    call_id: String,
    cseq: u32,
    routes: Vec<String>,
    /// Header lines of its own.
    extra: String,
    client: Option<ClientId>,
    challenged: u32,
    /// The user gave the call up.
    is_cancelled: bool,
}

/// A dialog, or what may become one.
struct Call {
    call_id: String,
    local_tag: String,
    remote_tag: String,
    /// From or To of the other side, without the tag.
    remote: String,
    target: String,
    routes: Vec<String>,
    cseq: u32,
    state: CallState,
    /// An incoming call's INVITE and its transaction.
    invite: Vec<u8>,
    server: Option<ServerId>,
    source: Flow,
    /// The 200 that is repeated, or the ACK.
    last: Vec<u8>,
    repeat: TimerKey,
    repeat_interval: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CallState {
    /// Called, and not answered yet.
    Ringing,
    /// Answered by us; the ACK is awaited.
    Unconfirmed,
    /// Both know.
    Established,
    Over,
}

#[derive(Clone, Copy, Debug)]
enum Due {
    Ring(usize),
    Answer(usize),
    RepeatOk(usize),
    GiveUpAck(usize),
    /// Nobody picked up.
    StopRinging(usize),
    /// The caller lost patience; by the request's number.
    GiveUp(usize),
}

impl Phone {
    pub(crate) fn new(
        account: Account,
        address: SocketAddr,
        transport: Transport,
        contact: Option<SocketAddr>,
        server: SocketAddr,
        seed: &Seed,
        now: Instant,
    ) -> Self {
        let mut rng = Rng::new(seed);
        let mut key = [0; 16];
        key[..8].copy_from_slice(&rng.next_u64().to_le_bytes());
        let branch_key = BranchKey::new(key);
        let layer = Transactions::new(0, Timers::default(), Default::default(), key, branch_key, now);
        let register_call_id = format!("register-{:x}@{}", rng.next_u64(), address.ip());
        Self {
            account,
            address,
            contact: contact.unwrap_or(address),
            transport,
            server,
            behaviour: Behaviour::Answer { ring_ms: 50, answer_ms: 1000 },
            layer,
            wheel: Wheel::new(now),
            rng,
            requests: Vec::new(),
            calls: Vec::new(),
            heard: Vec::new(),
            register_call_id,
            register_cseq: 0,
            is_registering: false,
            hops: 70,
        }
    }

    /// How it treats calls from now on.
    pub fn behave(&mut self, behaviour: Behaviour) {
        self.behaviour = behaviour;
    }

    /// The password it uses from now on.
    pub fn set_password(&mut self, password: &str) {
        self.account.password = password.into();
    }

    /// Max-Forwards of the requests it sends from now on.
    pub fn set_hops(&mut self, hops: u8) {
        self.hops = hops;
    }

    /// The user.
    pub fn user(&self) -> &str {
        &self.account.user
    }

    /// Its address.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Everything it heard.
    pub fn heard(&self) -> Vec<Heard> {
        self.heard.clone()
    }

    /// How many server and client transactions it has.
    pub fn transactions_len(&self) -> (usize, usize) {
        self.layer.len()
    }

    /// How many calls it is in: answered, and not hung up.
    pub fn calls_len(&self) -> usize {
        let is_up = |call: &&Call| matches!(call.state, CallState::Established | CallState::Unconfirmed);
        self.calls.iter().filter(is_up).count()
    }

    fn settle(&mut self, now: Instant, notices: Vec<Notice<usize>>, effects: &mut Effects) {
        for notice in notices {
            let owner = match notice {
                Notice::ClientTimedOut { owner, .. } | Notice::ClientUnreachable { owner, .. } => owner,
            };
            if let Some(request) = self.requests.get(owner) {
                self.is_registering &= request.method != "REGISTER";
                self.heard.push(Heard::Unanswered(request.method));
            }
        }
        while self.layer.take_gone().is_some() {}
        while let Some(due) = self.wheel.expire(now) {
            self.on_due(now, due, effects);
        }
    }

    /// The way to a URI: names are the server's.
    fn flow_to(&self, uri: &str) -> Flow {
        let uri = Uri::parse(uri.as_bytes()).expect("phones are given URIs");
        let remote = match uri.host().ip() {
            Some(ip) => SocketAddr::new(ip, uri.port().unwrap_or(5060)),
            None => self.server,
        };
        let transport = match uri.params().value(b"transport") {
            Some(name) => Transport::from_token(name).unwrap_or(Transport::DEFAULT),
            None => self.transport,
        };
        match transport.is_stream() {
            true => Flow { transport, ..Flow::dial(ListenerId(1), remote) },
            false => Flow::udp(ListenerId(0), remote),
        }
    }

    fn contact_uri(&self) -> String {
        let transport = self.transport.uri_parameter();
        format!("sip:{}@{}{transport}", self.account.user, self.contact)
    }

    fn aor(&self) -> String {
        format!("sip:{}@{}", self.account.user, self.account.domain)
    }

    fn new_tag(&mut self) -> String {
        format!("{:016x}", self.rng.next_u64())
    }
}

impl SimNode for Phone {
    fn shards(&self) -> u16 {
        1
    }

    fn shard_of(&self, _: &[u8]) -> u16 {
        0
    }

    fn connection(&self, origin: Origin, now: Instant) -> Box<dyn SimConnection> {
        Box::new(Connection::new(origin, <SipFramer as Framer>::new(65_535), PassThrough, now))
    }

    fn on_message(&mut self, _: u16, now: Instant, received: Received<'_>, effects: &mut Effects) {
        let Ok(message) = Message::parse(received.bytes, &Limits::default()) else {
            self.heard.push(Heard::Unreadable);
            return;
        };
        match *message.start() {
            Start::Request { .. } => self.on_request(now, &message, received.flow, effects),
            Start::Response { status, .. } => {
                let answer = self.layer.receive_response(
                    &mut Context::<()>::new(now, &mut effects.out, &mut Vec::new()),
                    &message,
                    status,
                    |_| true,
                );
                if let Answer::Pass { owner, .. } = answer {
                    self.on_response(now, owner, &message, status, effects);
                }
            }
        }
        self.settle(now, Vec::new(), effects);
    }

    fn on_event(&mut self, _: u16, now: Instant, event: Event, effects: &mut Effects) {
        let mut notices = Vec::new();
        match event {
            Event::Unreachable(token) => {
                self.layer.unreachable(
                    &mut Context::<()>::new(now, &mut effects.out, &mut Vec::new()),
                    token,
                    &mut notices,
                );
            }
            Event::Closed(ConnectionId(_)) | Event::Resolved { .. } => {}
        }
        self.settle(now, notices, effects);
    }

    fn on_timeout(&mut self, _: u16, now: Instant, effects: &mut Effects) {
        let mut notices = Vec::new();
        self.layer.on_timeout(&mut Context::<()>::new(now, &mut effects.out, &mut Vec::new()), &mut notices);
        self.settle(now, notices, effects);
    }

    fn next_deadline(&self, _: u16) -> Option<Deadline> {
        let own = self.wheel.next_due().map(|at| Deadline { at, reason: "the phone's user acts" });
        [own, self.layer.next_deadline()].into_iter().flatten().min_by_key(|due| due.at)
    }
}
