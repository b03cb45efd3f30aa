//! Scripted user agent: registers, calls, answers as configured, and records events.
//!
//! It is the simplest correct one: one account, no media, retransmissions by `ringway-transaction`, retransmission and
//! ACK of a 2xx by the phone (RFC 3261 §13).

mod incoming;
mod outgoing;

use ringway_sansio::{
    ConnectionId, Context, Deadline, Event, Flow, Framer, HostNameId, Instant, ListenerId, Received, Rng,
    Seed, TimerKey, Transport, Wheel,
};
use ringway_server::SipFramer;
use ringway_sim::{Effects, SimConnection, SimNode};
use ringway_sip::{Limits, Message, Start, Uri};
use ringway_stream::{Connection, Layer, Origin};
use ringway_transaction::{Answer, BranchKey, ClientId, Notice, ServerId, Timers, Transactions};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// Account of the phone.
#[derive(Clone, Debug)]
pub struct Account {
    /// User part of the address-of-record.
    pub user: String,
    /// Domain of the address-of-record.
    pub domain: String,
    /// Password.
    pub password: String,
}

/// Behaviour of a phone for incoming calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behaviour {
    /// Rings after some milliseconds and answers later.
    Answer {
        /// Milliseconds until the 180.
        ring_ms: u64,
        /// Milliseconds until the 200.
        answer_ms: u64,
    },
    /// Rings and is never answered.
    Ring,
    /// Refuses with this status.
    Refuse(u16),
    /// Does not respond, like a phone that is switched off.
    Silent,
    /// Like a trunk, challenges an INVITE without the credentials of its own account (407), and answers one with them.
    Challenge,
    /// Rings, then answers with this status; its responses have the topmost Via only.
    KeepTopViaOnly(u16),
}

/// Scheme of a phone's URIs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// `sip:`.
    Sip,
    /// `sips:`: TLS on every hop (RFC 5630).
    Sips,
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sip => "sip",
            Self::Sips => "sips",
        })
    }
}

/// Event of a phone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PhoneEvent {
    /// Its REGISTER was accepted, with the contacts in the response.
    Registered {
        /// Contact values.
        contacts: Vec<String>,
    },
    /// Provisional response to its INVITE, other than 100.
    Progress(u16),
    /// Its call was answered.
    Answered,
    /// A second phone answered the same call; that call was ended.
    AnsweredTwice,
    /// A request with this method was refused, not only challenged.
    Refused(&'static str, u16),
    /// A request with this method was accepted, other than INVITE and REGISTER.
    Accepted(&'static str),
    /// A request with this method timed out.
    Unanswered(&'static str),
    /// An INVITE was received.
    Called,
    /// The caller cancelled.
    Cancelled,
    /// The caller's ACK was received.
    Confirmed,
    /// The caller's ACK was never received.
    NeverConfirmed,
    /// The other side sent a BYE.
    HungUp,
    /// The phone received an invalid message.
    Unreadable,
}

/// Scripted phone.
pub struct Phone {
    account: Account,
    address: SocketAddr,
    /// Address of its Contact.
    contact: SocketAddr,
    transport: Transport,
    /// Address of the server, and the number of its name.
    server: (IpAddr, HostNameId),
    scheme: Scheme,
    behaviour: Behaviour,
    /// Status of its answers to MESSAGE; `None`: it does not answer.
    message_answer: Option<u16>,
    layer: Transactions<Option<usize>, usize>,
    wheel: Wheel<Due>,
    rng: Rng,
    requests: Vec<Request>,
    calls: Vec<Call>,
    events: Vec<PhoneEvent>,
    register_call_id: String,
    register_cseq: u32,
    /// True until the final response to a REGISTER.
    is_registering: bool,
    /// Max-Forwards of its requests.
    hops: u8,
    /// URI of its Contact instead of that with its address.
    gruu: Option<String>,
}

/// Sent request with everything for sending it again with credentials. Its index is its owner number.
struct Request {
    method: &'static str,
    uri: String,
    to: String,
    /// From without the tag.
    from: String,
    from_tag: String,
    call_id: String,
    cseq: u32,
    routes: Vec<String>,
    /// Further header lines.
    extra: String,
    /// Body; empty: none.
    body: String,
    client: Option<ClientId>,
    challenged: u32,
    /// True if the user cancelled the call.
    is_cancelled: bool,
}

/// Dialog, or early dialog.
struct Call {
    call_id: String,
    /// From or To of this side, without the tag (RFC 3261 §12.1.1).
    local: String,
    local_tag: String,
    remote_tag: String,
    /// The same of the other side.
    remote: String,
    target: String,
    routes: Vec<String>,
    cseq: u32,
    state: CallState,
    /// An incoming call's INVITE and its transaction.
    invite: Vec<u8>,
    server: Option<ServerId>,
    source: Flow,
    /// The 200 that is retransmitted, or the ACK.
    last: Vec<u8>,
    repeat: TimerKey,
    repeat_interval: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CallState {
    /// Received, and not answered yet.
    Ringing,
    /// Answered locally; the ACK is missing.
    Unconfirmed,
    /// Established on both sides.
    Established,
    Over,
}

#[derive(Clone, Copy, Debug)]
enum Due {
    Ring(usize),
    Answer(usize),
    RetransmitOk(usize),
    GiveUpAck(usize),
    /// The call is not answered.
    StopRinging(usize),
    /// The caller cancels; by the request's number.
    GiveUp(usize),
}

impl Phone {
    pub(crate) fn new(
        account: Account,
        address: SocketAddr,
        transport: Transport,
        contact: Option<SocketAddr>,
        server: (IpAddr, HostNameId),
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
            contact: contact.unwrap_or(match transport.is_secure() {
                true => SocketAddr::new(address.ip(), transport.default_port()),
                false => address,
            }),
            transport,
            server,
            scheme: Scheme::Sip,
            behaviour: Behaviour::Answer { ring_ms: 50, answer_ms: 1000 },
            message_answer: Some(200),
            layer,
            wheel: Wheel::new(now),
            rng,
            requests: Vec::new(),
            calls: Vec::new(),
            events: Vec::new(),
            register_call_id,
            register_cseq: 0,
            is_registering: false,
            hops: 70,
            gruu: None,
        }
    }

    /// The same phone with its calls at another address, as after a change of networks or a new port of its NAT. A Contact that is not its
    /// address stays.
    pub(crate) fn moved_to(&mut self, address: SocketAddr, seed: &Seed, now: Instant) -> Self {
        let contact = if self.contact == self.address { None } else { Some(self.contact) };
        let account = self.account.clone();
        let mut moved = Self::new(account, address, self.transport, contact, self.server, seed, now);
        moved.calls = core::mem::take(&mut self.calls);
        moved.register_call_id.clone_from(&self.register_call_id);
        moved.register_cseq = self.register_cseq;
        moved
    }

    /// Sets the status of its answers to MESSAGE; `None`: it does not answer.
    pub fn answer_messages(&mut self, status: Option<u16>) {
        self.message_answer = status;
    }

    /// Sets the behaviour for further calls.
    pub fn behave(&mut self, behaviour: Behaviour) {
        self.behaviour = behaviour;
    }

    /// Sets the server of further requests.
    pub fn set_server(&mut self, ip: IpAddr) {
        self.server.0 = ip;
    }

    /// Sets the scheme of further URIs.
    pub fn set_scheme(&mut self, scheme: Scheme) {
        self.scheme = scheme;
    }

    /// Scheme of its URIs.
    pub const fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// Sets the URI of its Contact, for a phone with a GRUU.
    pub fn set_contact_uri(&mut self, uri: &str) {
        self.gruu = Some(uri.into());
    }

    /// Sets the domain of its address.
    pub fn set_domain(&mut self, domain: &str) {
        self.account.domain = domain.into();
    }

    /// Sets the password for further requests.
    pub fn set_password(&mut self, password: &str) {
        self.account.password = password.into();
    }

    /// Sets Max-Forwards of further requests.
    pub fn set_hops(&mut self, hops: u8) {
        self.hops = hops;
    }

    /// User part of the account.
    pub fn user(&self) -> &str {
        &self.account.user
    }

    /// Address of the phone.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// All its events.
    pub fn events(&self) -> Vec<PhoneEvent> {
        self.events.clone()
    }

    /// True until the final response to a REGISTER.
    pub const fn is_registering(&self) -> bool {
        self.is_registering
    }

    /// Number of server and client transactions.
    pub fn transactions_len(&self) -> (usize, usize) {
        self.layer.len()
    }

    /// Number of calls that are answered and not ended.
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
                self.events.push(PhoneEvent::Unanswered(request.method));
            }
        }
        while self.layer.take_gone().is_some() {}
        while let Some(due) = self.wheel.expire(now) {
            self.on_due(now, due, effects);
        }
    }

    /// Flow to a URI; a host name is the server's.
    fn flow_to(&self, uri: &str) -> Flow {
        let uri = Uri::parse(uri.as_bytes()).expect("phones are given URIs");
        let is_sips = uri.scheme() == ringway_sip::Scheme::Sips;
        let transport = match uri.params().value(b"transport") {
            None if !is_sips => self.transport,
            parameter => Transport::of_uri(is_sips, parameter).unwrap_or(Transport::DEFAULT),
        };
        let port = uri.port().unwrap_or(transport.default_port());
        let (ip, host) = match uri.host().ip() {
            Some(ip) => (ip, HostNameId::NONE),
            None => self.server,
        };
        let listener = ListenerId(match transport {
            Transport::Udp => 0,
            Transport::Tls => 2,
            _ => 1,
        });
        Flow { transport, host, ..Flow::dial(listener, SocketAddr::new(ip, port)) }
    }

    pub(crate) fn contact_uri(&self) -> String {
        let (scheme, user, contact) = (self.scheme, &self.account.user, self.contact);
        if let Some(gruu) = &self.gruu {
            return gruu.clone();
        }
        match scheme {
            Scheme::Sip => format!("sip:{user}@{contact}{}", self.transport.uri_parameter()),
            // RFC 5630 §3.1.4: `transport=tls` is not for these.
            Scheme::Sips => format!("sips:{user}@{contact}"),
        }
    }

    fn aor(&self) -> String {
        format!("{}:{}@{}", self.scheme, self.account.user, self.account.domain)
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

    fn connection(&self, origin: Origin, layer: Box<dyn Layer>, now: Instant) -> Box<dyn SimConnection> {
        Box::new(Connection::new(origin, <SipFramer as Framer>::new(65_535), layer, now))
    }

    fn on_message(&mut self, _: u16, now: Instant, received: Received<'_>, effects: &mut Effects) {
        let Ok(message) = Message::parse(received.bytes, &Limits::default()) else {
            self.events.push(PhoneEvent::Unreadable);
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
            Event::Closed(ConnectionId(_))
            | Event::Resolved { .. }
            | Event::NumberResolved { .. }
            | Event::SignerFound { .. }
            | Event::Located { .. }
            | Event::StateChanged { .. }
            | Event::Relayed { .. } => {}
        }
        self.settle(now, notices, effects);
    }

    fn on_timeout(&mut self, _: u16, now: Instant, effects: &mut Effects) {
        let mut notices = Vec::new();
        self.layer.on_timeout(&mut Context::<()>::new(now, &mut effects.out, &mut Vec::new()), &mut notices);
        self.settle(now, notices, effects);
    }

    fn next_deadline(&self, _: u16) -> Option<Deadline> {
        let own = self.wheel.next_due().map(|at| Deadline { at, reason: "an action of the phone's user" });
        [own, self.layer.next_deadline()].into_iter().flatten().min_by_key(|due| due.at)
    }
}
