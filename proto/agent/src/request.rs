//! Requests of ours, from the draft to the final answer: finding the way, sending, being challenged.
//!
//! ```text
//!   submit ──► name? ── no ──────────────► sent ──► 1xx, 2xx, failure: to its purpose
//!               │ yes                       ▲ │
//!               ▼                           │ │ 401, 407 that may be answered: next CSeq, credentials
//!            looked up ── found ────────────┘ └──► sent again
//!               │ not found, or no answer
//!               ▼
//!            failed
//! ```
//!
//! The place of an INVITE that was accepted stays until no 2xx can come any more, because each of them is acknowledged
//! from here.

use crate::account::challenge::{Unanswered, hex};
use crate::agent::Timer;
use crate::event::text;
use crate::way::Way;
use crate::{AccountId, Action, CallId, Config, LargeRequests, QueryId, UserAgent};
use alloc::string::String;
use alloc::vec::Vec;
use core::net::SocketAddr;
use ringway_sansio::{ConnectionId, Context, Flow, Instant, TimerKey, Token, Transport};
use ringway_sip::{HeaderName, Message, Method, RequestWriter, write_host};
use ringway_transaction::{ClientId, Outgoing, SlabKey, may_send_to};
use smallvec::SmallVec;

/// A request as far as it does not depend on the way it takes.
#[derive(Clone, Debug)]
pub(crate) struct Draft {
    pub(crate) account: AccountId,
    pub(crate) method: Method<'static>,
    pub(crate) uri: Vec<u8>,
    /// Route values, in order.
    pub(crate) routes: Vec<Vec<u8>>,
    pub(crate) from: Vec<u8>,
    pub(crate) to: Vec<u8>,
    pub(crate) call_id: Vec<u8>,
    pub(crate) cseq: u32,
    pub(crate) contact: ContactField,
    pub(crate) fields: Vec<(HeaderName, Vec<u8>)>,
    pub(crate) body: Option<Body>,
    pub(crate) way: Way,
    pub(crate) is_in_dialog: bool,
    /// The flow of the other side's last request in its dialog. A phone that can be reached by its own connection only names that
    /// connection's address as its contact.
    pub(crate) peer: Option<Flow>,
}

/// Whether a request says where we are; where depends on how it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ContactField {
    None,
    /// Where requests inside the dialog go.
    Target,
    /// What is registered, and for how long.
    Binding {
        expires_s: u32,
    },
}

#[derive(Clone, Debug)]
pub(crate) struct Body {
    pub(crate) content_type: &'static str,
    pub(crate) bytes: Vec<u8>,
}

/// What a request is for, and so who gets its answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Register(AccountId),
    Invite(CallId),
    /// A change of a session (RFC 3261 §14).
    Reinvite(CallId),
    Bye(CallId),
    Refer(CallId),
    /// A report to whoever asked for a transfer.
    Report(CallId),
    Query(QueryId),
    /// The ACK of a 2xx to the INVITE at this place.
    Ack(SlabKey),
    /// Nobody cares: the BYE of a second dialog.
    Nobody,
}

/// A request under way.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) draft: Draft,
    pub(crate) purpose: Purpose,
    /// `None` while a name is looked up.
    pub(crate) client: Option<ClientId>,
    /// Where it was sent.
    pub(crate) flow: Option<Flow>,
    /// The connection it was sent by, as far as it is known: see [`Peers`](crate::connections::Peers).
    pub(crate) connection: Option<ConnectionId>,
    /// How often it was challenged and sent again.
    pub(crate) rounds: u8,
    /// The fields whose challenges it has answered.
    pub(crate) answered: SmallVec<[HeaderName; 2]>,
    /// The credentials it was sent with; its ACK has the same (RFC 3261 §22.1).
    credentials: Vec<(HeaderName, Vec<u8>)>,
    /// The ACKs of its 2xx.
    pub(crate) acks: Vec<Ack>,
    switched: Switched,
    timer: TimerKey,
}

/// The ACK of one 2xx, to be sent again whenever that comes again.
#[derive(Debug)]
pub(crate) struct Ack {
    pub(crate) remote_tag: Vec<u8>,
    /// `None` while a name is looked up.
    pub(crate) flow: Option<Flow>,
    pub(crate) bytes: Vec<u8>,
}

/// RFC 3261 §18.1.1: whether a large request was sent by TCP instead of UDP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Switched {
    NotYet,
    ToTcp,
    /// Nobody answered there.
    BackToUdp,
}

/// What came of a request.
#[derive(Debug)]
pub(crate) struct Answer<'m, 'a> {
    pub(crate) status: u16,
    pub(crate) reason: String,
    /// `None`: no message came; the status stands for what happened instead (RFC 3261 §8.1.3.1).
    pub(crate) message: Option<&'m Message<'a>>,
}

/// Why a request was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotSent {
    /// No listener has the transport and the address family.
    NoListener,
    /// As many requests wait as allowed.
    TooMany,
    /// A value in it would have broken its line.
    Unsafe,
}

impl Request {
    /// True as long as nobody can have seen it, not even without the credentials that it has now.
    pub(crate) const fn was_never_sent(&self) -> bool {
        self.client.is_none() && self.rounds == 0
    }
}

impl NotSent {
    pub(crate) const fn reason(self) -> &'static str {
        match self {
            Self::NoListener => "no socket here can reach that transport and kind of address",
            Self::TooMany => "too many requests are under way",
            Self::Unsafe => "an address or name holds a line break",
        }
    }
}

impl UserAgent {
    /// Sends a request, now or when its name is looked up.
    pub(crate) fn submit(
        &mut self,
        cx: &mut Context<'_, Action>,
        draft: Draft,
        purpose: Purpose,
    ) -> Result<SlabKey, NotSent> {
        if self.requests.len() >= self.config.limits.requests_max {
            self.counters.too_many_requests += 1;
            return Err(NotSent::TooMany);
        }
        let key = self.requests.insert(Request {
            draft,
            purpose,
            client: None,
            flow: None,
            connection: None,
            rounds: 0,
            answered: SmallVec::new(),
            credentials: Vec::new(),
            acks: Vec::new(),
            switched: Switched::NotYet,
            timer: TimerKey::NONE,
        });
        match self.find_way(cx, key) {
            Ok(()) => Ok(key),
            Err(why) => {
                self.requests.remove(key);
                Err(why)
            }
        }
    }

    /// The same request once more, with the next number.
    pub(crate) fn send_again(&mut self, cx: &mut Context<'_, Action>, key: SlabKey) {
        let Some(purpose) = self.requests.get(key).map(|request| request.purpose) else { return };
        let next = self.next_cseq(purpose);
        if let Some(request) = self.requests.get_mut(key) {
            request.draft.cseq = next.unwrap_or(request.draft.cseq.saturating_add(1));
            request.client = None;
        }
        if let Err(why) = self.find_way(cx, key) {
            self.fail(cx, key, 503, why.reason());
        }
    }

    /// What the driver has to say about a name.
    pub(crate) fn on_resolved(
        &mut self,
        cx: &mut Context<'_, Action>,
        query: u64,
        address: Option<core::net::IpAddr>,
    ) {
        let key = key_of(query);
        let Some(request) = self.requests.get_mut(key).filter(|request| request.client.is_none()) else {
            return;
        };
        self.wheel.cancel(request.timer);
        let way = request.draft.way.clone();
        let Some(ip) = address.map(|ip| ip.to_canonical()).filter(|&ip| may_send_to(ip)) else {
            self.counters.names_not_found += 1;
            return self.fail(cx, key, 503, "no address was found for the host name");
        };
        let is_displaced = self.names.remember(cx.now, &way.host, ip);
        self.counters.names_displaced += u64::from(is_displaced);
        if let Err(why) = self.transmit(cx, key, SocketAddr::new(ip, way.port)) {
            self.fail(cx, key, 503, why.reason());
        }
    }

    /// A response to a request of ours.
    pub(crate) fn on_answer(
        &mut self,
        cx: &mut Context<'_, Action>,
        (client, key): (ClientId, SlabKey),
        (message, source): (&Message<'_>, SocketAddr),
        status: u16,
    ) {
        let Some(request) = self.requests.get(key).filter(|request| request.client == Some(client)) else {
            self.counters.stray += 1;
            return;
        };
        // A call that was given up is not made again with credentials.
        let is_wanted = !matches!(request.purpose, Purpose::Invite(call) if !self.is_calling(call));
        let is_accepted_invite = request.draft.method == Method::Invite && (200..300).contains(&status);
        if is_accepted_invite && self.repeat_ack(cx, key, message) {
            return;
        }
        let mut reason = match *message.start() {
            ringway_sip::Start::Response { reason, .. } => text(reason),
            ringway_sip::Start::Request { .. } => String::new(),
        };
        if matches!(status, 401 | 407) && is_wanted {
            match self.answer_challenge(cx, key, (message, source), status) {
                Ok(()) => return,
                Err(Unanswered::NoSecret) if reason.is_empty() => reason = Unanswered::NoSecret.reason(),
                Err(why) => reason = why.reason(),
            }
        }
        if is_accepted_invite {
            self.keep_until_forks_are_over(cx.now, key);
        }
        self.tell_purpose(cx, key, &Answer { status, reason, message: Some(message) });
    }

    /// A request without an answer: it counts as one with `status` (RFC 3261 §8.1.3.1).
    pub(crate) fn fail(&mut self, cx: &mut Context<'_, Action>, key: SlabKey, status: u16, reason: &str) {
        // An INVITE that was accepted has had its answer.
        if self.requests.get(key).is_none_or(|request| !request.acks.is_empty()) {
            return;
        }
        self.tell_purpose(cx, key, &Answer { status, reason: reason.into(), message: None });
    }

    /// The transport could not deliver a request.
    pub(crate) fn on_undelivered(&mut self, cx: &mut Context<'_, Action>, key: SlabKey) {
        let Some(request) = self.requests.get_mut(key) else { return };
        if request.switched == Switched::ToTcp {
            request.switched = Switched::BackToUdp;
            request.client = None;
            let remote = request.flow.map(|flow| flow.remote);
            if let Some(remote) = remote
                && self.transmit(cx, key, remote).is_ok()
            {
                return;
            }
        }
        self.fail(cx, key, 503, "it could not be sent there, or the connection ended without an answer");
    }

    /// Nobody answered the look-up of a name.
    pub(crate) fn on_lookup_timeout(&mut self, cx: &mut Context<'_, Action>, key: SlabKey) {
        if self.requests.get(key).is_some_and(|request| request.client.is_none()) {
            self.counters.names_not_found += 1;
            self.fail(cx, key, 503, "the host name was not looked up in time");
        }
    }

    /// Forgets a request and what it waits for.
    pub(crate) fn forget_request(&mut self, key: SlabKey) {
        if let Some(request) = self.requests.remove(key) {
            self.wheel.cancel(request.timer);
        }
    }

    /// Forgets a request that was not sent yet. True when it was so.
    pub(crate) fn forget_unsent(&mut self, key: SlabKey) -> bool {
        let is_unsent = self.requests.get(key).is_some_and(|request| request.client.is_none());
        if is_unsent {
            self.forget_request(key);
        }
        is_unsent
    }

    /// Sends the ACK of a 2xx. It is kept with the INVITE, which has it sent again.
    pub(crate) fn acknowledge(
        &mut self,
        cx: &mut Context<'_, Action>,
        invite: SlabKey,
        remote_tag: &[u8],
        draft: Draft,
    ) {
        if let Some(request) = self.requests.get_mut(invite) {
            request.acks.push(Ack { remote_tag: remote_tag.to_vec(), flow: None, bytes: Vec::new() });
            // What cannot be sent is not acknowledged, and the other side gives up by itself.
            let _ = self.submit(cx, draft, Purpose::Ack(invite));
        }
    }

    /// True for a 2xx that is acknowledged already; the ACK is sent again.
    fn repeat_ack(&mut self, cx: &mut Context<'_, Action>, key: SlabKey, message: &Message<'_>) -> bool {
        let tag = message.to().tag().unwrap_or_default();
        let Some(request) = self.requests.get(key) else { return false };
        let Some(ack) = request.acks.iter().find(|ack| ack.remote_tag == tag) else { return false };
        if let Some(flow) = ack.flow {
            cx.out.send(flow, Token::NONE, &ack.bytes);
        }
        true
    }

    fn keep_until_forks_are_over(&mut self, now: Instant, key: SlabKey) {
        let until = now + self.config.timers.t1 * 64;
        if let Some(request) = self.requests.get_mut(key)
            && request.acks.is_empty()
        {
            self.wheel.cancel(request.timer);
            request.timer = self.wheel.arm(until, Timer::ForgetRequest(key));
        }
    }

    /// Looks the next hop up, or sends.
    fn find_way(&mut self, cx: &mut Context<'_, Action>, key: SlabKey) -> Result<(), NotSent> {
        let Some(request) = self.requests.get_mut(key) else { return Ok(()) };
        let way = request.draft.way.clone();
        if let Some(ip) = way.ip().or_else(|| self.names.find(cx.now, &way.host)) {
            return self.transmit(cx, key, SocketAddr::new(ip, way.port));
        }
        request.timer = self.wheel.arm(cx.now + self.config.timers.t1 * 64, Timer::Lookup(key));
        cx.actions.push(Action::Resolve { query: number_of(key), host: way.host.into() });
        Ok(())
    }

    fn transmit(
        &mut self,
        cx: &mut Context<'_, Action>,
        key: SlabKey,
        to: SocketAddr,
    ) -> Result<(), NotSent> {
        let mut flow = self.flow_to(key, to).ok_or(NotSent::NoListener)?;
        let Some(request) = self.requests.get_mut(key) else { return Ok(()) };
        request.flow = Some(flow);
        self.note_server(key, to);
        self.write_credentials(key, to);
        let Some(request) = self.requests.get(key) else { return Ok(()) };
        if let Some(larger) = self.too_large_for(request, flow) {
            flow = larger;
            self.counters.switched_to_tcp += 1;
            if let Some(request) = self.requests.get_mut(key) {
                request.switched = Switched::ToTcp;
                request.flow = Some(flow);
            }
        }
        let Some(request) = self.requests.get(key) else { return Ok(()) };
        if let Purpose::Ack(invite) = request.purpose {
            return self.transmit_ack(cx, key, invite, flow);
        }
        let (config, credentials) = (&self.config, &request.credentials);
        let is_invite = request.draft.method == Method::Invite;
        let outgoing = Outgoing { flow, is_invite, owner: key };
        let client = self.transactions.start_client(cx, outgoing, |arena, branch| {
            write_request(config, &request.draft, credentials, flow, branch, arena);
        });
        let Some(client) = client else {
            let has_room = self.transactions.len().1 < self.config.limits.transactions.clients_max;
            return Err(if has_room { NotSent::Unsafe } else { NotSent::TooMany });
        };
        if let Some(request) = self.requests.get_mut(key) {
            request.client = Some(client);
            request.connection = self.peers.connection_to(flow);
        }
        Ok(())
    }

    fn transmit_ack(
        &mut self,
        cx: &mut Context<'_, Action>,
        key: SlabKey,
        invite: SlabKey,
        flow: Flow,
    ) -> Result<(), NotSent> {
        let branch = [b"z9hG4bK.a", hex(&self.visible.bytes::<12>()).as_slice()].concat();
        let Some(request) = self.requests.remove(key) else { return Ok(()) };
        self.wheel.cancel(request.timer);
        let Some(invite) = self.requests.get_mut(invite) else { return Ok(()) };
        // RFC 3261 §13.2.2.4: the INVITE's credentials, but only where those went.
        let goes_there = invite.flow.is_some_and(|sent| sent.remote == flow.remote);
        let credentials = if goes_there { invite.credentials.as_slice() } else { &[] };
        let mut bytes = Vec::new();
        write_request(&self.config, &request.draft, credentials, flow, &branch, &mut bytes);
        cx.out.send(flow, Token::NONE, &bytes);
        let tag = tag_of(&request.draft.to);
        if let Some(ack) = invite.acks.iter_mut().find(|ack| ack.remote_tag == tag) {
            ack.flow = Some(flow);
            ack.bytes = bytes;
        }
        Ok(())
    }

    /// Notes where the account's server is: where a request goes that was led to it by the configuration.
    fn note_server(&mut self, key: SlabKey, to: SocketAddr) {
        let Some(request) = self.requests.get(key).filter(|request| !request.draft.is_in_dialog) else {
            return;
        };
        let account = request.draft.account;
        let is_led = self.config.account(account).is_some_and(|account| account.server.is_some());
        if (is_led || request.draft.method == Method::Register)
            && !matches!(request.purpose, Purpose::Invite(call) if self.was_redirected(call))
            && let Some(state) = self.accounts.get_mut(account.0)
        {
            state.server = Some(to);
        }
    }

    /// Credentials for what goes to the account's server; inside dialogs only for what was asked for.
    fn write_credentials(&mut self, key: SlabKey, to: SocketAddr) {
        let Some(request) = self.requests.get_mut(key) else { return };
        request.credentials.clear();
        let draft = &request.draft;
        let (Some(account), Some(state)) =
            (self.config.account(draft.account), self.accounts.get_mut(draft.account.0))
        else {
            return;
        };
        if state.server != Some(to) || (draft.is_in_dialog && request.rounds == 0) {
            return;
        }
        state.wallet.write(account, draft.method, &draft.uri, &mut self.visible, &mut request.credentials);
    }

    /// RFC 3261 §18.1.1: the TCP flow for a request that is too large for UDP.
    fn too_large_for(&self, request: &Request, flow: Flow) -> Option<Flow> {
        if flow.transport.is_reliable()
            || request.switched == Switched::BackToUdp
            || self.config.large_requests == LargeRequests::StayOnUdp
        {
            return None;
        }
        let mut bytes = Vec::new();
        write_request(
            &self.config,
            &request.draft,
            &request.credentials,
            flow,
            &[b'x'; BRANCH_BYTES],
            &mut bytes,
        );
        let listener = self.config.listener_for(Transport::Tcp, flow.remote.ip())?;
        (bytes.len() > DATAGRAM_BYTES_MAX).then(|| Flow::dial(listener, flow.remote))
    }
}

/// Appends a request; nothing when a value in it is unsafe.
fn write_request(
    config: &Config,
    draft: &Draft,
    credentials: &[(HeaderName, Vec<u8>)],
    flow: Flow,
    branch: &[u8],
    out: &mut Vec<u8>,
) {
    let Some(own) = config.address_of(flow.listener) else { return };
    let mut request = RequestWriter::new(out, draft.method, &draft.uri);
    request.header_with(HeaderName::Via, |out| {
        out.extend_from_slice(b"SIP/2.0/");
        out.extend_from_slice(flow.transport.via_token().as_bytes());
        out.push(b' ');
        write_host(out, own);
        out.extend_from_slice(b";rport;branch=");
        out.extend_from_slice(branch);
    });
    for route in &draft.routes {
        request.header(HeaderName::Route, route);
    }
    request.header_number(HeaderName::MaxForwards, 70);
    request.header(HeaderName::From, &draft.from);
    request.header(HeaderName::To, &draft.to);
    request.header(HeaderName::CallId, &draft.call_id);
    request.header_with(HeaderName::CSeq, |out| {
        ringway_sip::write_number(out, u64::from(draft.cseq));
        out.push(b' ');
        out.extend_from_slice(draft.method.as_bytes());
    });
    match draft.contact {
        ContactField::None => {}
        ContactField::Target => {
            request.header_with(HeaderName::Contact, |out| write_contact(config, draft.account, flow, out));
        }
        ContactField::Binding { expires_s } => {
            request.header_with(HeaderName::Contact, |out| {
                write_contact(config, draft.account, flow, out);
                out.extend_from_slice(b";expires=");
                ringway_sip::write_number(out, u64::from(expires_s));
            });
        }
    }
    for (name, value) in draft.fields.iter().chain(credentials) {
        request.header(*name, value);
    }
    if !config.user_agent.is_empty() {
        request.header(HeaderName::UserAgent, config.user_agent.as_bytes());
    }
    let _ = match &draft.body {
        Some(body) => request.finish_with_body(body.content_type, &body.bytes),
        None => request.finish(),
    };
}

/// Appends where we are reached by what is sent back along `flow`.
pub(crate) fn write_contact(config: &Config, account: AccountId, flow: Flow, out: &mut Vec<u8>) {
    let account = config.account(account);
    let address = account.and_then(|account| account.contact).or_else(|| config.address_of(flow.listener));
    out.extend_from_slice(b"<sip:");
    if let Some(user) = account.and_then(|account| account.user()) {
        out.extend_from_slice(user);
        out.push(b'@');
    }
    if let Some(address) = address {
        write_host(out, address);
    }
    out.extend_from_slice(flow.transport.uri_parameter().as_bytes());
    out.push(b'>');
}

/// The tag in a From or To of ours.
fn tag_of(value: &[u8]) -> Vec<u8> {
    let parsed = ringway_sip::NameAddr::parse(value).ok();
    parsed.and_then(|value| value.tag()).unwrap_or_default().to_vec()
}

/// A key as the number that a lookup or a [`CallId`](crate::CallId) carries.
pub(crate) fn number_of(key: SlabKey) -> u64 {
    (u64::from(key.generation) << 32) | u64::from(key.index)
}

/// And back.
pub(crate) fn key_of(number: u64) -> SlabKey {
    SlabKey { index: number as u32, generation: (number >> 32) as u32 }
}

/// RFC 3261 §18.1.1: where the path's MTU is not known.
const DATAGRAM_BYTES_MAX: usize = 1300;
/// About what the transactions write.
const BRANCH_BYTES: usize = 62;
