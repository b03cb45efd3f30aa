//! The user agent: its accounts, calls and requests, and what it does with what comes.

use crate::account::{self, AccountState, BadAccount, Registration};
use crate::call::Call;
use crate::connections::Peers;
use crate::event::text;
use crate::request::{Answer, Purpose, Request, key_of, number_of};
use crate::way::Names;
use crate::{AccountId, Action, AgentEvent, CallId, Config, Counters, MessageDirection, SipFramer, Trace};
use alloc::vec::Vec;
use ringway_sansio::{Context, Deadline, Entropy, Event, Flow, Instant, Node, Received, Rng, Seed, Wheel};
use ringway_sip::{HeaderName, Message, Method, Start};
use ringway_transaction::{BranchKey, Notice, Slab, SlabKey, Transactions};

/// A phone's signalling for one or more accounts: registrations, calls, queries.
///
/// What the program wants is a method; what it must know comes back as [`Action::Event`]. Both take a [`Context`], like
/// everything of [`Node`].
pub struct UserAgent {
    pub(crate) config: Config,
    pub(crate) accounts: Vec<AccountState>,
    pub(crate) transactions: Transactions<Option<CallId>, SlabKey>,
    pub(crate) requests: Slab<Request>,
    pub(crate) calls: Slab<Call>,
    pub(crate) wheel: Wheel<Timer>,
    /// Keys of media: what nobody but the peer of a call may see.
    pub(crate) secrets: Entropy,
    /// Tags, Call-IDs, cnonces: what must not be guessed before it is sent, and everybody may see then.
    pub(crate) visible: Entropy,
    /// Back-off and glare: what only must differ.
    pub(crate) rng: Rng,
    pub(crate) names: Names,
    pub(crate) peers: Peers,
    pub(crate) counters: Counters,
    pub(crate) next_query: u64,
    pub(crate) is_stopping: bool,
    notices: Vec<Notice<SlabKey>>,
}

/// What the agent waits for, other than the transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timer {
    /// A registration is to be refreshed, or tried again.
    Register(AccountId),
    /// The server is to be sent a keep-alive.
    KeepAlive(AccountId),
    /// The driver has not answered a look-up.
    Lookup(SlabKey),
    /// No 2xx can come any more for an INVITE that was accepted.
    ForgetRequest(SlabKey),
    /// It has rung for too long.
    Ring(CallId),
    /// The 2xx is sent again until its ACK comes.
    RepeatSuccess(CallId),
    /// The ACK has not come.
    GiveUpOnAck(CallId),
    /// A change of the session that met another is tried again.
    Glare(CallId),
    /// The other side of a transfer has said nothing for too long.
    Transfer(CallId),
    /// Nobody has decided about a transfer.
    Referral(CallId),
}

impl UserAgent {
    /// A user agent that does nothing yet. `seed` is its only source of chance, and keys for calls grow from it.
    pub fn new(config: Config, seed: Seed, now: Instant) -> Result<Self, BadAccount> {
        account::check(&config)?;
        let mut secrets = Entropy::new(&seed.part(SECRETS));
        let mut visible = Entropy::new(&seed.part(VISIBLE));
        let branch_key = BranchKey::new(secrets.bytes());
        let limits = config.limits.transactions;
        let transactions = Transactions::new(0, config.timers, limits, secrets.bytes(), branch_key, now);
        let accounts =
            config.accounts.iter().map(|_| AccountState::new(Registration::new(&mut visible))).collect();
        Ok(Self {
            config,
            accounts,
            transactions,
            requests: Slab::default(),
            calls: Slab::default(),
            wheel: Wheel::new(now),
            secrets,
            visible,
            rng: Rng::new(&seed.part(TIMING)),
            names: Names::default(),
            peers: Peers::default(),
            counters: Counters::default(),
            next_query: 1,
            is_stopping: false,
            notices: Vec::new(),
        })
    }

    /// Registers every account whose configuration says so.
    pub fn start(&mut self, cx: &mut Context<'_, Action>) {
        for place in 0..self.config.accounts.len() {
            if self.config.accounts.get(place).is_some_and(|account| account.register) {
                self.register(cx, AccountId(place));
            }
        }
    }

    /// Ends every call and registration; nothing new is begun or taken after it. [`UserAgent::is_idle`] tells when all
    /// is done; a program that does not want to wait for others' answers stops after a second or two.
    pub fn shut_down(&mut self, cx: &mut Context<'_, Action>) {
        let added_from = cx.out.len();
        self.is_stopping = true;
        let calls: Vec<CallId> = self.calls.iter().map(|(key, _)| CallId(number_of(key))).collect();
        for call in calls {
            self.end_call(cx, call, None);
        }
        for place in 0..self.accounts.len() {
            self.remove_registration(cx, AccountId(place));
        }
        self.settle(cx, added_from);
    }

    /// True when nothing is under way: no call, and no request that waits for an answer.
    pub fn is_idle(&self) -> bool {
        self.calls.is_empty()
            && self.requests.iter().all(|(_, request)| !request.acks.is_empty())
            && self.transactions.is_idle()
    }

    /// True when nobody waits for anybody: no call, and no request of ours without its answer. Unlike with
    /// [`UserAgent::is_idle`], transactions may still be kept for repetitions; a program that ends need not wait for them.
    pub fn is_done(&self) -> bool {
        self.calls.is_empty() && self.requests.iter().all(|(_, request)| !request.acks.is_empty())
    }

    /// The settings.
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// What was counted.
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The transactions, for listings.
    pub const fn transactions(&self) -> &Transactions<Option<CallId>, SlabKey> {
        &self.transactions
    }

    /// How many calls and how many requests there are.
    pub fn len(&self) -> (usize, usize) {
        (self.calls.len(), self.requests.len())
    }

    /// True when there is neither a call nor a request.
    pub fn is_empty(&self) -> bool {
        self.len() == (0, 0)
    }

    /// A text that nobody can guess, of 16 hexadecimal digits: a tag.
    pub(crate) fn new_tag(&mut self) -> Vec<u8> {
        account::challenge::hex(&self.visible.bytes::<8>())
    }

    /// The same twice as long: a Call-ID.
    pub(crate) fn new_call_id(&mut self) -> Vec<u8> {
        account::challenge::hex(&self.visible.bytes::<16>())
    }

    /// Hands an answer to whom the request was for. A final answer ends the request, except for an INVITE's 2xx.
    pub(crate) fn tell_purpose(
        &mut self,
        cx: &mut Context<'_, Action>,
        key: SlabKey,
        answer: &Answer<'_, '_>,
    ) {
        let Some(request) = self.requests.get(key) else { return };
        let (purpose, is_invite) = (request.purpose, request.draft.method == Method::Invite);
        let is_accepted = is_invite && (200..300).contains(&answer.status);
        let is_final = answer.status >= 200;
        match purpose {
            Purpose::Register(account) => self.on_register_answer(cx, account, key, answer),
            Purpose::Invite(call) => self.on_invite_answer(cx, call, key, answer),
            Purpose::Reinvite(call) => self.on_reinvite_answer(cx, call, key, answer),
            Purpose::Bye(call) if is_final => self.on_bye_answer(call),
            Purpose::Refer(call) if is_final => self.on_refer_answer(cx, call, answer),
            Purpose::Report(call) if is_final => self.on_report_answer(call, answer),
            Purpose::Query(query) if is_final => {
                let (status, reason) = (answer.status, answer.reason.clone());
                cx.emit(AgentEvent::QueryAnswered { query, status, reason });
            }
            Purpose::Bye(_)
            | Purpose::Refer(_)
            | Purpose::Report(_)
            | Purpose::Query(_)
            | Purpose::Ack(_)
            | Purpose::Nobody => {}
        }
        if is_final && !is_accepted {
            self.forget_request(key);
        }
    }

    /// The number of the next request of whatever `purpose` is a part of; `None`: of nothing that counts.
    pub(crate) fn next_cseq(&mut self, purpose: Purpose) -> Option<u32> {
        match purpose {
            Purpose::Register(account) => {
                self.accounts.get_mut(account.0).map(|state| state.registration.next_cseq())
            }
            Purpose::Invite(call)
            | Purpose::Reinvite(call)
            | Purpose::Bye(call)
            | Purpose::Refer(call)
            | Purpose::Report(call) => {
                let dialog = &mut self.calls.get_mut(key_of(call.0))?.dialog;
                dialog.local_cseq = dialog.local_cseq.saturating_add(1);
                Some(dialog.local_cseq)
            }
            Purpose::Query(_) | Purpose::Ack(_) | Purpose::Nobody => None,
        }
    }

    /// Handles the notices of the transactions, and traces the packets that were sent from `added_from` on.
    pub(crate) fn settle(&mut self, cx: &mut Context<'_, Action>, added_from: usize) {
        let mut notices = core::mem::take(&mut self.notices);
        for notice in notices.drain(..) {
            match notice {
                Notice::ClientTimedOut { client, owner } => {
                    if self.is_current(client, owner) {
                        self.fail(cx, owner, 408, "nobody answered");
                    }
                }
                Notice::ClientUnreachable { client, owner } => {
                    if self.is_current(client, owner) {
                        self.on_undelivered(cx, owner);
                    }
                }
            }
        }
        self.notices = notices;
        while self.transactions.take_gone().is_some() {}
        self.trace_sent(cx, added_from);
    }

    /// False for a transaction whose request has been sent again by another since.
    fn is_current(&self, client: ringway_transaction::ClientId, owner: SlabKey) -> bool {
        self.requests.get(owner).is_some_and(|request| request.client == Some(client))
    }

    fn on_timer(&mut self, cx: &mut Context<'_, Action>, timer: Timer) {
        match timer {
            Timer::Register(account) => self.on_register_timer(cx, account),
            Timer::KeepAlive(account) => self.on_keep_alive(cx, account),
            Timer::Lookup(key) => self.on_lookup_timeout(cx, key),
            Timer::ForgetRequest(key) => self.forget_request(key),
            Timer::Ring(call) => self.on_ring_timeout(cx, call),
            Timer::RepeatSuccess(call) => self.repeat_success(cx, call),
            Timer::GiveUpOnAck(call) => self.give_up_on_ack(cx, call),
            Timer::Glare(call) => self.on_glare_timer(cx, call),
            Timer::Transfer(call) => self.on_transfer_timeout(cx, call),
            Timer::Referral(call) => self.on_referral_timeout(cx, call),
        }
    }

    fn trace_received(&self, cx: &mut Context<'_, Action>, flow: Flow, message: &Message<'_>) {
        if self.config.trace != Trace::Off {
            cx.emit(self.traced(MessageDirection::Received, flow, message));
        }
    }

    fn trace_sent(&self, cx: &mut Context<'_, Action>, added_from: usize) {
        if self.config.trace != Trace::Off {
            for (packet, bytes) in cx.out.packets().skip(added_from) {
                if let Ok(message) = Message::parse(bytes, &self.config.message_limits) {
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
            whole: match self.config.trace {
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
        let Received { flow, bytes } = received;
        if bytes.iter().all(|byte| matches!(byte, b'\r' | b'\n' | 0)) {
            self.counters.keep_alives += 1;
            return;
        }
        match &Message::parse(bytes, &self.config.message_limits) {
            Ok(message) => {
                self.trace_received(cx, flow, message);
                match *message.start() {
                    Start::Request { method, uri } => {
                        self.counters.requests += 1;
                        self.on_request(cx, message, method, uri, flow);
                    }
                    Start::Response { status, .. } => {
                        self.counters.responses += 1;
                        self.on_response(cx, message, status, flow);
                    }
                }
            }
            Err(rejected) => self.on_rejected(cx, rejected, flow),
        }
        self.settle(cx, added_from);
    }

    fn on_event(&mut self, cx: &mut Context<'_, Action>, event: Event) {
        let added_from = cx.out.len();
        match event {
            Event::Closed(connection) => {
                self.on_closed(cx.now, connection);
                self.on_connection_lost(cx, connection);
            }
            Event::Unreachable(token) => {
                self.transactions.unreachable(cx, token, &mut self.notices);
            }
            Event::Resolved { query, address } => self.on_resolved(cx, query, address),
        }
        self.settle(cx, added_from);
    }

    fn on_timeout(&mut self, cx: &mut Context<'_, Action>) {
        let added_from = cx.out.len();
        self.transactions.on_timeout(cx, &mut self.notices);
        self.settle(cx, added_from);
        let added_from = cx.out.len();
        while let Some(timer) = self.wheel.expire(cx.now) {
            self.on_timer(cx, timer);
        }
        self.settle(cx, added_from);
    }

    fn next_deadline(&self) -> Option<Deadline> {
        let own = self
            .wheel
            .next_due()
            .map(|at| Deadline { at, reason: "a refresh, a repetition, or a wait that ends" });
        [self.transactions.next_deadline(), own].into_iter().flatten().min_by_key(|due| due.at)
    }
}

impl UserAgent {
    fn on_response(&mut self, cx: &mut Context<'_, Action>, message: &Message<'_>, status: u16, flow: Flow) {
        match self.transactions.receive_response(cx, message, status, |_| true) {
            ringway_transaction::Answer::Pass { client, owner } => {
                if let (Some(connection), Some(request)) = (flow.connection, self.requests.get_mut(owner)) {
                    request.connection = Some(connection);
                    let is_displaced = self.peers.note(flow.remote, connection);
                    self.counters.connections_displaced += u64::from(is_displaced);
                    if let Purpose::Register(account) = request.purpose
                        && let Some(state) = self.accounts.get_mut(account.0)
                    {
                        state.registration.connection = Some(connection);
                    }
                }
                self.on_answer(cx, (client, owner), (message, flow.remote), status);
            }
            ringway_transaction::Answer::Absorbed => {}
            ringway_transaction::Answer::Stateless { .. }
            | ringway_transaction::Answer::Elsewhere
            | ringway_transaction::Answer::Stray => {
                self.counters.stray += 1;
            }
        }
    }
}

impl core::fmt::Debug for UserAgent {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("UserAgent").field("calls", &self.calls.len()).finish_non_exhaustive()
    }
}

/// The parts of the seed. Nothing visible comes from a generator that anything secret comes from.
const SECRETS: u64 = 0;
const TIMING: u64 = 1;
const VISIBLE: u64 = 2;

/// Names a query (OPTIONS).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct QueryId(pub u64);
