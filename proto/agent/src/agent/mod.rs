//! User agent: owns the components, and passes inputs and effects between them.

mod commands;
mod dispatch;

use crate::call::Calls;
use crate::context::Shared;
use crate::core_context::CoreContext;
use crate::draft::{CallRequest, Purpose, text};
use crate::registration::Registrations;
use crate::request::{Answer, Challenges, Failure, Outcome, Requests};
use crate::{AccountId, Action, AgentEvent, BadAccount, CallId, Config, Counters, MessageDirection, Trace};
use alloc::vec::Vec;
use ringway_sansio::{Context, Deadline, Event, Flow, IcmpError, Instant, Node, Received, Seed, Transport};
use ringway_sip::{HeaderName, Message, Start};
use ringway_transaction::{SipFramer, SlabKey, Transactions};

/// Signalling of a phone for one or more accounts: registrations, calls, queries.
///
/// Commands of the program are methods; results are reported as [`Action::Event`]. All take a [`Context`], like the
/// methods of [`Node`].
pub struct UserAgent {
    shared: Shared,
    requests: Requests,
    registrations: Registrations,
    calls: Calls,
}

impl UserAgent {
    /// Creates an idle user agent. `seed` is its only source of randomness; media keys are derived from it too.
    ///
    /// # Errors
    /// An account has no valid address-of-record.
    pub fn new(config: Config, seed: Seed, now: Instant) -> Result<Self, BadAccount> {
        crate::account::check(&config)?;
        let mut shared = Shared::new(config, &seed);
        let requests = Requests::new(&mut shared, now);
        let registrations = Registrations::new(&mut shared, now);
        let calls = Calls::new(&mut shared, now);
        Ok(Self { shared, requests, registrations, calls })
    }

    /// Registers every account with [`Account::register`](crate::Account::register).
    pub fn start(&mut self, cx: &mut Context<'_, Action>) {
        for index in 0..self.shared.config.accounts.len() {
            if self.shared.config.accounts.get(index).is_some_and(|account| account.register) {
                self.register(cx, AccountId(index));
            }
        }
    }

    /// Registers an account at once and keeps it registered. A registered account is refreshed.
    pub fn register(&mut self, cx: &mut Context<'_, Action>, account: AccountId) {
        let added_from = cx.out.len();
        let core = &mut CoreContext::new(&mut self.shared, &mut self.requests, cx);
        self.registrations.register(core, account);
        self.settle(cx, added_from);
    }

    /// Removes an account's binding.
    pub fn unregister(&mut self, cx: &mut Context<'_, Action>, account: AccountId) {
        let added_from = cx.out.len();
        let core = &mut CoreContext::new(&mut self.shared, &mut self.requests, cx);
        self.registrations.remove(core, account);
        self.settle(cx, added_from);
    }

    /// True for an account with a binding at its registrar.
    pub fn is_registered(&self, account: AccountId) -> bool {
        self.registrations.is_registered(account)
    }

    /// Ends every call and registration, and refuses new ones. [`UserAgent::is_done`] is true after the last response; a
    /// program need not wait longer than a second or two for it.
    pub fn shut_down(&mut self, cx: &mut Context<'_, Action>) {
        let added_from = cx.out.len();
        self.shared.is_stopping = true;
        let core = &mut CoreContext::new(&mut self.shared, &mut self.requests, cx);
        self.calls.end_all(core);
        for index in 0..core.config.accounts.len() {
            self.registrations.remove(core, AccountId(index));
        }
        self.settle(cx, added_from);
    }

    /// True if there is no call, no request without a final response, and no unanswered server transaction.
    pub fn is_idle(&self) -> bool {
        self.calls.len() == 0 && self.requests.is_done() && self.requests.transactions().is_idle()
    }

    /// True if there is no call, and no request of ours without a final response. Unlike with [`UserAgent::is_idle`],
    /// received requests may still be unanswered.
    pub fn is_done(&self) -> bool {
        self.calls.len() == 0 && self.requests.is_done()
    }

    /// Settings of the agent.
    pub const fn config(&self) -> &Config {
        &self.shared.config
    }

    /// Counters since the start.
    pub const fn counters(&self) -> &Counters {
        &self.shared.counters
    }

    /// Transaction layer, for listings.
    pub const fn transactions(&self) -> &Transactions<Option<CallId>, SlabKey> {
        self.requests.transactions()
    }

    /// Number of calls and of requests.
    pub fn len(&self) -> (usize, usize) {
        (self.calls.len(), self.requests.len())
    }

    /// True if there is neither a call nor a request.
    pub fn is_empty(&self) -> bool {
        self.len() == (0, 0)
    }

    /// Passes the result of a request to its owner. A final result ends the request, except for an INVITE's 2xx.
    fn deliver(&mut self, cx: &mut Context<'_, Action>, key: SlabKey, answer: &Answer<'_, '_>) {
        let Some(purpose) = self.requests.purpose(key) else { return };
        let is_invite = matches!(purpose, Purpose::Call(_, CallRequest::Invite | CallRequest::Reinvite));
        let is_accepted = is_invite && (200..300).contains(&answer.status);
        let is_final = answer.status >= 200;
        match purpose {
            Purpose::Register(account) => {
                let core = &mut CoreContext::new(&mut self.shared, &mut self.requests, cx);
                self.registrations.on_answer(core, account, key, answer);
            }
            Purpose::Call(call, request) => {
                let core = &mut CoreContext::new(&mut self.shared, &mut self.requests, cx);
                self.calls.on_answer(core, call, request, key, answer);
            }
            Purpose::Query(query) if is_final => {
                let (status, reason) = (answer.status, answer.reason.clone());
                let abilities = self.requests.abilities(cx.now, key, answer);
                cx.emit(AgentEvent::QueryAnswered { query, status, reason, abilities });
            }
            Purpose::Query(_) | Purpose::Ack(_) | Purpose::Unowned => {}
        }
        if is_final && !is_accepted {
            self.requests.forget(key);
        }
    }

    /// Next CSeq of the dialog or registration of a request; `None`: it has neither.
    fn next_cseq(&mut self, purpose: Purpose) -> Option<u32> {
        match purpose {
            Purpose::Register(account) => self.registrations.next_cseq(account),
            Purpose::Call(call, _) => self.calls.next_cseq(call),
            Purpose::Query(_) | Purpose::Ack(_) | Purpose::Unowned => None,
        }
    }

    /// Ends a call into the agent: applies the effects of the components and traces the packets from `added_from` on.
    fn settle(&mut self, cx: &mut Context<'_, Action>, added_from: usize) {
        self.apply(cx);
        self.trace_sent(cx, added_from);
    }

    /// Notifies the owners of failed requests.
    fn apply(&mut self, cx: &mut Context<'_, Action>) {
        while let Some(Failure { key, status, reason }) =
            self.requests.next_failure(&mut self.shared.lend(cx))
        {
            self.deliver(cx, key, &Answer { status, reason: reason.into(), message: None });
        }
    }

    fn on_response(&mut self, cx: &mut Context<'_, Action>, message: &Message<'_>, status: u16, flow: Flow) {
        let found = self.requests.receive_response(&mut self.shared.lend(cx), message, status, flow);
        let Some((key, purpose)) = found else { return };
        if let (Purpose::Register(account), Some(connection)) = (purpose, flow.connection) {
            self.registrations.note_connection(account, connection);
        }
        // A cancelled INVITE is not sent again with credentials.
        let is_given_up =
            matches!(purpose, Purpose::Call(call, CallRequest::Invite) if !self.calls.is_calling(call));
        let challenges = if is_given_up { Challenges::Ignored } else { Challenges::Answered };
        let source = flow.remote;
        match self.requests.on_answer(&mut self.shared.lend(cx), key, message, source, status, challenges) {
            Outcome::Handled => {}
            Outcome::Challenged => {
                let cseq = self.next_cseq(purpose);
                self.requests.send_again(&mut self.shared.lend(cx), key, cseq);
            }
            Outcome::Answer(answer) => self.deliver(cx, key, &answer),
        }
    }

    fn trace_received(&self, cx: &mut Context<'_, Action>, flow: Flow, message: &Message<'_>) {
        if self.shared.config.trace != Trace::Off {
            cx.emit(self.traced(MessageDirection::Received, flow, message));
        }
    }

    fn trace_sent(&self, cx: &mut Context<'_, Action>, added_from: usize) {
        if self.shared.config.trace != Trace::Off {
            for (packet, bytes) in cx.out.packets().skip(added_from) {
                if let Ok(message) = Message::parse(bytes, &self.shared.config.message_limits) {
                    let event = self.traced(MessageDirection::Sent, packet.flow, &message);
                    cx.actions.push(Action::Event(event));
                }
            }
        }
    }

    fn traced(&self, direction: MessageDirection, flow: Flow, message: &Message<'_>) -> AgentEvent {
        let bytes = message.as_bytes();
        let line = bytes.split(|&byte| byte == b'\r').next().unwrap_or_default();
        AgentEvent::Message {
            direction,
            flow,
            line: text(line),
            cseq: text(message.first(HeaderName::CSeq).unwrap_or_default()),
            call_id: text(message.call_id()),
            bytes: bytes.len(),
            whole: match self.shared.config.trace {
                Trace::Whole => bytes.to_vec(),
                Trace::FirstLines | Trace::Off => Vec::new(),
            },
        }
    }
}

impl Node for UserAgent {
    type Action = Action;
    type Framer = SipFramer;

    /// A phone has one shard.
    fn shard_of(_: &ringway_sansio::ShardKey, _bytes: &[u8], _shards: u16) -> u16 {
        0
    }

    fn on_message(&mut self, cx: &mut Context<'_, Action>, received: Received<'_>) {
        let added_from = cx.out.len();
        let Received { flow, bytes, .. } = received;
        if bytes.iter().all(|byte| matches!(byte, b'\r' | b'\n' | 0)) {
            self.shared.counters.keep_alives += 1;
            return;
        }
        if let ([0 | 1, ..], Transport::Udp) = (bytes, flow.transport) {
            let core = &mut CoreContext::new(&mut self.shared, &mut self.requests, cx);
            self.registrations.on_stun(core, flow, bytes);
            return self.settle(cx, added_from);
        }
        match &Message::parse(bytes, &self.shared.config.message_limits) {
            Ok(message) => {
                self.trace_received(cx, flow, message);
                match *message.start() {
                    Start::Request { method, uri } => {
                        self.shared.counters.requests += 1;
                        self.on_request(cx, message, method, uri, flow);
                    }
                    Start::Response { status, .. } => {
                        self.shared.counters.responses += 1;
                        self.on_response(cx, message, status, flow);
                    }
                }
            }
            Err(rejected) => self.requests.on_rejected(&mut self.shared.lend(cx), rejected, flow),
        }
        self.settle(cx, added_from);
    }

    fn on_event(&mut self, cx: &mut Context<'_, Action>, event: Event) {
        let added_from = cx.out.len();
        match event {
            Event::Closed(connection) => {
                let core = &mut CoreContext::new(&mut self.shared, &mut self.requests, cx);
                self.registrations.on_closed(core, connection);
                self.requests.on_closed(connection);
            }
            Event::Unreachable(token) => {
                self.requests.on_unreachable(&mut self.shared.lend(cx), token);
            }
            Event::Resolved { query, servers } => {
                self.requests.on_resolved(&mut self.shared.lend(cx), query, servers);
            }
            // Only a server asks media relays, and has several shards.
            Event::NumberResolved { .. }
            | Event::SignerFound { .. }
            | Event::Located { .. }
            | Event::StateChanged { .. }
            | Event::Relayed { .. } => {}
        }
        self.settle(cx, added_from);
    }

    fn shard_of_quoted(quoted: &[u8], _shards: u16) -> Option<u16> {
        ringway_transaction::shard_of_quoted(quoted).map(|_| 0)
    }

    fn on_icmp_error(&mut self, cx: &mut Context<'_, Action>, error: IcmpError<'_>) {
        let added_from = cx.out.len();
        self.requests.on_icmp_error(&mut self.shared.lend(cx), error);
        self.settle(cx, added_from);
    }

    fn on_timeout(&mut self, cx: &mut Context<'_, Action>) {
        let added_from = cx.out.len();
        self.requests.on_transaction_timeout(&mut self.shared.lend(cx));
        self.settle(cx, added_from);
        let added_from = cx.out.len();
        self.requests.on_timeout(&mut self.shared.lend(cx));
        let core = &mut CoreContext::new(&mut self.shared, &mut self.requests, cx);
        self.registrations.on_timeout(core);
        self.calls.on_timeout(core);
        self.settle(cx, added_from);
    }

    fn next_deadline(&self) -> Option<Deadline> {
        let deadlines =
            [self.requests.next_deadline(), self.registrations.next_deadline(), self.calls.next_deadline()];
        deadlines.into_iter().flatten().min_by_key(|due| due.at)
    }
}

impl core::fmt::Debug for UserAgent {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("UserAgent").field("calls", &self.calls.len()).finish_non_exhaustive()
    }
}
