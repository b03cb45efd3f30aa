//! Registrations (RFC 3261 §10.2), refreshed until they are removed. Keep-alives of a registration's flow, and what they find
//! (RFC 5626 §4.4).
//!
//! ```text
//!            register()              2xx                     before it expires
//!   Idle ──────────────► Waiting ─────────► Registered ─────────────────────► Waiting
//!                         │ ▲ │ 423: at once with Min-Expires      connection lost: Backing off
//!                         │ └─┘
//!                 failed  ▼        its time (RFC 5626 §4.5)
//!                     BackingOff ──────────────────────► Waiting
//!
//!   unregister(): Registered, Waiting, BackingOff ──► Removing ── any answer ──► Idle
//! ```

use crate::context::Shared;
use crate::core_context::CoreContext;
use crate::draft::{ContactField, Draft, Purpose, Scope, hex, write_contact};
use crate::next_hop::NextHop;
use crate::request::Answer;
use crate::{Account, AccountId, AgentEvent, Config};
use alloc::string::String;
use alloc::vec::Vec;
use core::net::SocketAddr;
use core::time::Duration;
use ringway_sansio::{
    ConnectionId, Deadline, Entropy, Flow, HostNameId, Instant, TimerKey, Transport, Wheel,
};
use ringway_sip::{Contact, Fields, HeaderName, Method, Uri, grammar};
use ringway_stun::{Class, METHOD_BINDING, Message, MessageWriter, TransactionId};
use ringway_transaction::SlabKey;

/// Registrations of all accounts.
pub(crate) struct Registrations {
    /// By [`AccountId`].
    accounts: Vec<Registration>,
    timers: Wheel<Timer>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Timer {
    /// Refresh, or retry after a failure.
    Register(AccountId),
    KeepAlive(AccountId),
}

/// Registration of one account.
#[derive(Debug)]
struct Registration {
    state: State,
    /// Constant for the life of the agent (RFC 3261 §10.2).
    call_id: Vec<u8>,
    local_tag: Vec<u8>,
    cseq: u32,
    /// Requested expiry in seconds; a 423 can raise it.
    expires_s: u32,
    /// Failures since the last success.
    failures: u32,
    timer: TimerKey,
    keep_alive: TimerKey,
    /// Flow to the registrar.
    flow: Option<Flow>,
    /// Connection of its last response.
    connection: Option<ConnectionId>,
    /// Use of outbound (RFC 5626).
    outbound: Outbound,
}

/// Use of outbound by a registration.
#[derive(Clone, Copy, Debug)]
enum Outbound {
    /// The registrar decides, if the account has an instance.
    Unknown,
    /// The registrar applies it, and wants keep-alives within this time.
    Applies { watch: FlowWatch, flow_timer_s: Option<u32> },
    /// A proxy on the way does not support it (439).
    Unsupported,
}

/// State of a registration; see the figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Not registered.
    Idle,
    /// A REGISTER was sent; its response is missing.
    Waiting(SlabKey),
    /// A binding exists; it is refreshed before it expires.
    Registered,
    /// The last REGISTER failed; it is retried.
    BackingOff,
    /// The removal was sent; its response is missing.
    Removing(SlabKey),
}

impl Registration {
    fn new(entropy: &mut Entropy) -> Self {
        Self {
            state: State::Idle,
            call_id: hex(&entropy.bytes::<16>()),
            local_tag: hex(&entropy.bytes::<8>()),
            cseq: 0,
            expires_s: 0,
            failures: 0,
            timer: TimerKey::NONE,
            keep_alive: TimerKey::NONE,
            flow: None,
            connection: None,
            outbound: Outbound::Unknown,
        }
    }

    const fn next_cseq(&mut self) -> u32 {
        self.cseq = self.cseq.saturating_add(1);
        self.cseq
    }
}

/// Peer that sent a request, compared with the account's server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sender {
    Server,
    BypassesServer,
    /// The account has no server, or its address is not known before the account is registered.
    Direct,
}

impl Registrations {
    pub(crate) fn new(shared: &mut Shared, now: Instant) -> Self {
        let visible = &mut shared.random.visible;
        let accounts = shared.config.accounts.iter().map(|_| Registration::new(visible)).collect();
        Self { accounts, timers: Wheel::new(now) }
    }

    /// Registers an account at once and keeps it registered. A registered account is refreshed.
    pub(crate) fn register(&mut self, cx: &mut CoreContext<'_>, account: AccountId) {
        let expires_s = cx.config.account(account).map_or(0, |account| account.expires_s);
        if let Some(registration) = self.accounts.get_mut(account.0)
            && !cx.is_stopping
            && !matches!(registration.state, State::Waiting(_))
        {
            registration.expires_s = expires_s;
            registration.failures = 0;
            self.send_register(cx, account);
        }
    }

    /// True for an account with a binding at its registrar.
    pub(crate) fn is_registered(&self, account: AccountId) -> bool {
        self.accounts.get(account.0).is_some_and(|registration| registration.state == State::Registered)
    }

    /// Compares the flow of a request with the account's server: the connection of the registration, or its address. The
    /// port counts with UDP only, because a server may open a connection of its own from any port.
    pub(crate) fn sender_of(&self, config: &Config, id: AccountId, flow: Flow) -> Sender {
        let registration = self.accounts.get(id.0);
        let server = config.account(id).and_then(|account| account.server.as_ref());
        let configured = || {
            let hop = NextHop::of_server(server?).ok()?;
            Some(hop.target(0).server_at(hop.ip()?, HostNameId::NONE).address)
        };
        let registrar = registration.and_then(|registration| registration.flow).map(|flow| flow.remote);
        let Some(server) = registrar.or_else(configured) else { return Sender::Direct };
        let connection = registration.and_then(|registration| registration.connection);
        let is_server = flow.remote == server
            || (flow.transport != Transport::Udp && flow.remote.ip() == server.ip())
            || (flow.connection.is_some() && flow.connection == connection);
        if is_server { Sender::Server } else { Sender::BypassesServer }
    }

    /// Next CSeq of an account's registration.
    pub(crate) fn next_cseq(&mut self, account: AccountId) -> Option<u32> {
        self.accounts.get_mut(account.0).map(Registration::next_cseq)
    }

    /// Notes the connection that a response to a REGISTER was received on.
    pub(crate) fn note_connection(&mut self, account: AccountId, connection: ConnectionId) {
        if let Some(registration) = self.accounts.get_mut(account.0) {
            registration.connection = Some(connection);
        }
    }

    /// Handles the timers that are due.
    pub(crate) fn on_timeout(&mut self, cx: &mut CoreContext<'_>) {
        while let Some(timer) = self.timers.expire(cx.now()) {
            match timer {
                Timer::Register(account) => self.send_register(cx, account),
                Timer::KeepAlive(account) => self.send_keep_alive(cx, account),
            }
        }
    }

    pub(crate) fn next_deadline(&self) -> Option<Deadline> {
        self.timers
            .next_due()
            .map(|at| Deadline { at, reason: "a registration's refresh, retry or keep-alive" })
    }

    /// Removes an account's binding.
    pub(crate) fn remove(&mut self, cx: &mut CoreContext<'_>, account: AccountId) {
        let Some(registration) = self.accounts.get_mut(account.0) else { return };
        self.timers.cancel(registration.timer);
        self.timers.cancel(registration.keep_alive);
        let under_way = match registration.state {
            State::Idle | State::Removing(_) => return,
            State::Waiting(key) => Some(key),
            State::Registered | State::BackingOff => None,
        };
        registration.state = State::Idle;
        registration.expires_s = 0;
        if let Some(key) = under_way {
            cx.requests.forget(key);
        }
        match self.submit_register(cx, account) {
            Ok(key) => self.set_state(account, State::Removing(key)),
            Err(_) => cx.emit(AgentEvent::Unregistered { account }),
        }
    }

    /// Handles the result of a REGISTER.
    pub(crate) fn on_answer(
        &mut self,
        cx: &mut CoreContext<'_>,
        account: AccountId,
        key: SlabKey,
        answer: &Answer<'_, '_>,
    ) {
        if answer.status < 200 {
            return;
        }
        let Some(state) = self.accounts.get(account.0).map(|registration| registration.state) else {
            return;
        };
        if state == State::Removing(key) {
            self.set_state(account, State::Idle);
            return cx.emit(AgentEvent::Unregistered { account });
        }
        if state != State::Waiting(key) {
            return;
        }
        match (answer.status, answer.message) {
            (200..=299, Some(message)) => self.on_registered(cx, account, key, message),
            (423, Some(message)) => self.on_too_brief(cx, account, answer, message),
            (439, _) if self.gives_up_outbound(account) => self.send_register(cx, account),
            (_, message) => {
                let after = message.and_then(|message| message.retry_after());
                self.on_failure(cx, account, answer, after);
            }
        }
    }

    /// Sends the keep-alive of RFC 5626 §3.5.1 and §4.4.1 to the registrar; registers again if the flow has failed.
    fn send_keep_alive(&mut self, cx: &mut CoreContext<'_>, account: AccountId) {
        let configured = cx.config.account(account).and_then(|account| account.keep_alive);
        let id = cx.random.visible.bytes::<12>();
        let Some(registration) = self.accounts.get_mut(account.0) else { return };
        let Some(flow) = registration.flow else { return };
        let bytes = match &mut registration.outbound {
            Outbound::Applies { watch, .. } => watch.next(&flow, id),
            Outbound::Unknown | Outbound::Unsupported => Ok(b"\r\n\r\n".to_vec()),
        };
        match bytes {
            Ok(bytes) => {
                cx.send(flow, &bytes);
                self.arm_keep_alive(cx, account, configured);
            }
            Err(FlowFailed) if registration.state == State::Registered => self.send_register(cx, account),
            Err(FlowFailed) => self.arm_keep_alive(cx, account, configured),
        }
    }

    /// Starts the timer of the next keep-alive: the configured interval, or that of outbound.
    fn arm_keep_alive(&mut self, cx: &mut CoreContext<'_>, account: AccountId, every: Option<Duration>) {
        let percent = cx.random.rng.below(21);
        let Some(registration) = self.accounts.get_mut(account.0) else { return };
        let every = every.or_else(|| match (registration.outbound, registration.flow) {
            (Outbound::Applies { flow_timer_s, .. }, Some(flow)) => {
                Some(interval(flow.transport, flow_timer_s, percent))
            }
            (Outbound::Applies { .. } | Outbound::Unknown | Outbound::Unsupported, _) => None,
        });
        self.timers.cancel(registration.keep_alive);
        if let Some(every) = every {
            registration.keep_alive = self.timers.arm(cx.now() + every, Timer::KeepAlive(account));
        }
    }

    /// Handles a STUN datagram. If the server sees the phone at another address, the account registers again.
    pub(crate) fn on_stun(&mut self, cx: &mut CoreContext<'_>, flow: Flow, bytes: &[u8]) {
        for index in 0..self.accounts.len() {
            let Some(registration) = self.accounts.get_mut(index) else { return };
            let is_server = registration.flow.is_some_and(|own| own.remote == flow.remote);
            if let Outbound::Applies { watch, .. } = &mut registration.outbound
                && is_server
                && registration.state == State::Registered
                && watch.on_datagram(bytes) == Err(FlowFailed)
            {
                self.send_register(cx, AccountId(index));
            }
        }
    }

    /// True if the account registered its flow, which it does not do any more.
    fn gives_up_outbound(&mut self, account: AccountId) -> bool {
        let Some(registration) = self.accounts.get_mut(account.0) else { return false };
        let before = core::mem::replace(&mut registration.outbound, Outbound::Unsupported);
        !matches!(before, Outbound::Unsupported)
    }

    /// Handles the end of a connection. An account that registered on it is unreachable, so it registers again soon.
    pub(crate) fn on_closed(&mut self, cx: &mut CoreContext<'_>, connection: ConnectionId) {
        for (index, registration) in self.accounts.iter_mut().enumerate() {
            if registration.connection == Some(connection) {
                registration.connection = None;
                if registration.state == State::Registered {
                    self.timers.cancel(registration.timer);
                    let pause = Duration::from_millis(500 + cx.random.rng.below(1500));
                    registration.timer = self.timers.arm(cx.now() + pause, Timer::Register(AccountId(index)));
                }
            }
        }
    }

    fn send_register(&mut self, cx: &mut CoreContext<'_>, account: AccountId) {
        match self.submit_register(cx, account) {
            Ok(key) => self.set_state(account, State::Waiting(key)),
            Err(reason) => {
                let answer = Answer { status: 503, reason, message: None };
                self.on_failure(cx, account, &answer, None);
            }
        }
    }

    fn submit_register(&mut self, cx: &mut CoreContext<'_>, id: AccountId) -> Result<SlabKey, String> {
        let (Some(account), Some(registration)) = (cx.config.account(id), self.accounts.get_mut(id.0)) else {
            return Err("there is no such account".into());
        };
        self.timers.cancel(registration.timer);
        let uri = account.registrar_uri();
        let target = Uri::parse(&uri).map_err(|_| String::from("the domain is not one"))?;
        let next_hop = account.next_hop_to(&target).map_err(|why| alloc::format!("{why}"))?;
        let address = account.name_addr();
        let as_flow = account.instance.is_some() && !matches!(registration.outbound, Outbound::Unsupported);
        let supported = as_flow.then(|| (HeaderName::Supported, b"path, outbound".to_vec()));
        let draft = Draft {
            account: id,
            method: Method::Register,
            routes: Vec::new(),
            from: [&address[..], b";tag=", &registration.local_tag].concat(),
            to: address,
            call_id: registration.call_id.clone(),
            cseq: registration.next_cseq(),
            contact: ContactField::Binding { expires_s: registration.expires_s, as_flow },
            fields: supported.into_iter().collect(),
            body: None,
            next_hop,
            scope: Scope::OutsideDialog,
            peer: None,
            uri,
        };
        cx.submit(draft, Purpose::Register(id)).map_err(|why| why.reason().into())
    }

    fn on_registered(
        &mut self,
        cx: &mut CoreContext<'_>,
        account: AccountId,
        key: SlabKey,
        message: &Fields<'_>,
    ) {
        let flow = cx.requests.flow(key);
        let granted = flow.and_then(|flow| granted_s(cx.config, account, flow, message));
        let Some(registration) = self.accounts.get_mut(account.0) else { return };
        let expires_s = granted.unwrap_or(registration.expires_s).min(cx.config.limits.expires_s_max);
        if expires_s == 0 {
            let answer = Answer {
                status: 200,
                reason: "the registrar did not keep the binding".into(),
                message: None,
            };
            return self.on_failure(cx, account, &answer, None);
        }
        registration.state = State::Registered;
        registration.failures = 0;
        registration.flow = flow;
        let lifetime = Duration::from_secs(u64::from(expires_s));
        // Enough time for one transaction to fail and another to succeed, but at most two refreshes in a lifetime.
        let margin = (lifetime / 10).max(cx.config.timers.t1 * 70).min(lifetime / 2);
        self.timers.cancel(registration.timer);
        registration.timer = self.timers.arm(cx.now() + (lifetime - margin), Timer::Register(account));
        let is_required =
            message.values(HeaderName::Require).any(|tag| tag.eq_ignore_ascii_case(b"outbound"));
        registration.outbound = match registration.outbound {
            Outbound::Unsupported => Outbound::Unsupported,
            Outbound::Unknown | Outbound::Applies { .. } if !is_required => Outbound::Unknown,
            Outbound::Unknown | Outbound::Applies { .. } => Outbound::Applies {
                watch: FlowWatch::default(),
                flow_timer_s: message.first(HeaderName::FlowTimer).and_then(grammar::delta_seconds),
            },
        };
        let configured = cx.config.account(account).and_then(|account| account.keep_alive);
        self.arm_keep_alive(cx, account, configured);
        cx.emit(AgentEvent::Registered { account, expires_s });
    }

    /// Handles 423 (RFC 3261 §10.2.8): sends REGISTER again with the registrar's minimum, if that is more than before.
    fn on_too_brief(
        &mut self,
        cx: &mut CoreContext<'_>,
        account: AccountId,
        answer: &Answer<'_, '_>,
        message: &Fields<'_>,
    ) {
        let at_least = message.first(HeaderName::MinExpires).and_then(grammar::delta_seconds);
        let at_least = at_least.filter(|&seconds| seconds <= cx.config.limits.expires_s_max);
        let Some(registration) = self.accounts.get_mut(account.0) else { return };
        match at_least.filter(|&seconds| seconds > registration.expires_s) {
            Some(seconds) => {
                registration.expires_s = seconds;
                self.send_register(cx, account);
            }
            None => self.on_failure(cx, account, answer, None),
        }
    }

    fn on_failure(
        &mut self,
        cx: &mut CoreContext<'_>,
        account: AccountId,
        answer: &Answer<'_, '_>,
        after: Option<Duration>,
    ) {
        let Some(registration) = self.accounts.get_mut(account.0) else { return };
        self.timers.cancel(registration.keep_alive);
        let mut retry_s = None;
        if may_pass(answer.status) {
            let after_s = after.unwrap_or_default().min(RETRY_AFTER_MAX).as_secs() as u32;
            let pause_s = back_off_s(registration.failures, &mut cx.random.rng).max(after_s);
            registration.failures = registration.failures.saturating_add(1);
            registration.state = State::BackingOff;
            let due = cx.now() + Duration::from_secs(u64::from(pause_s));
            registration.timer = self.timers.arm(due, Timer::Register(account));
            retry_s = Some(pause_s);
        } else {
            registration.state = State::Idle;
        }
        let (status, reason) = (answer.status, answer.reason.clone());
        cx.emit(AgentEvent::RegistrationFailed { account, status, reason, retry_s });
    }

    fn set_state(&mut self, account: AccountId, to: State) {
        if let Some(registration) = self.accounts.get_mut(account.0) {
            registration.state = to;
        }
    }
}

/// Expiry of our binding in a 2xx, in seconds: of its Contact, or of Expires. A back-to-back user agent may have rewritten
/// host and port of the Contact: then the shortest lifetime of our user counts.
fn granted_s(config: &Config, account: AccountId, flow: Flow, message: &Fields<'_>) -> Option<u32> {
    let mut ours = Vec::new();
    let is_sips = config.account(account).is_some_and(Account::is_sips);
    write_contact(config, account, flow, is_sips, &mut ours);
    let ours = grammar::trim(&ours);
    let ours = Uri::parse(ours.strip_prefix(b"<")?.strip_suffix(b">")?).ok()?;
    let contacts = || message.values(HeaderName::Contact).filter_map(|value| Contact::parse(value).ok());
    let own = contacts().find(|contact| contact.address.uri.equals(&ours));
    let granted = match own {
        Some(own) => own.expires,
        None => {
            let of_user = contacts().filter(|contact| contact.address.uri.user() == ours.user());
            of_user.filter_map(|contact| contact.expires).filter(|&seconds| seconds > 0).min()
        }
    };
    granted.or_else(|| message.first(HeaderName::Expires).and_then(grammar::delta_seconds))
}

/// False for failures that are permanent until the user changes the configuration.
const fn may_pass(status: u16) -> bool {
    matches!(status, 200 | 408 | 480 | 486 | 500..=599)
}

/// Back-off of RFC 5626 §4.5: 30 s, twice as long after each failure, at most half an hour; random between 50% and 100%.
fn back_off_s(failures: u32, rng: &mut ringway_sansio::Rng) -> u32 {
    let upper = BACK_OFF_BASE_S.saturating_mul(1_u32.checked_shl(failures.min(16)).unwrap_or(u32::MAX));
    let upper = upper.min(BACK_OFF_S_MAX);
    let spread = u32::try_from(rng.below(u64::from(upper / 2) + 1)).unwrap_or(0);
    upper / 2 + spread
}

const BACK_OFF_BASE_S: u32 = 30;
const BACK_OFF_S_MAX: u32 = 1800;
/// Maximum Retry-After that is accepted: one day.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(24 * 3600);

/// State of the keep-alives of one flow. By UDP they are STUN requests, whose answers show the address that the server sees.
#[derive(Clone, Copy, Debug, Default)]
struct FlowWatch {
    /// STUN request without an answer.
    asked: Option<TransactionId>,
    mapped: Option<SocketAddr>,
}

/// The flow does not lead to the phone any more: the server does not answer, or sees another address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FlowFailed;

impl FlowWatch {
    /// Next keep-alive of the flow; `id` is random.
    pub(crate) fn next(&mut self, flow: &Flow, id: [u8; 12]) -> Result<Vec<u8>, FlowFailed> {
        if flow.transport != Transport::Udp {
            return Ok(b"\r\n\r\n".to_vec());
        }
        if self.asked.is_some() {
            return Err(FlowFailed);
        }
        let id = TransactionId(id);
        self.asked = Some(id);
        Ok(MessageWriter::new(Class::Request, METHOD_BINDING, id).finish())
    }

    /// Handles a datagram of the server; any other than the answer is ignored.
    fn on_datagram(&mut self, bytes: &[u8]) -> Result<(), FlowFailed> {
        let Ok(message) = Message::parse(bytes) else { return Ok(()) };
        if message.class() != Class::Success || self.asked != Some(message.id()) {
            return Ok(());
        }
        self.asked = None;
        let before = self.mapped;
        self.mapped = message.xor_mapped_address().or(before);
        if before.is_some() && before != self.mapped { Err(FlowFailed) } else { Ok(()) }
    }
}

/// Time to the next keep-alive: 80 to 100 % of Flow-Timer, by default of 30 s by UDP and 120 s by streams (RFC 5626 §4.4.1).
pub(crate) fn interval(transport: Transport, flow_timer_s: Option<u32>, percent: u64) -> Duration {
    let default = if transport == Transport::Udp { 30 } else { 120 };
    let longest = flow_timer_s.map_or(default, |seconds| seconds.clamp(FLOW_TIMER_S_MIN, FLOW_TIMER_S_MAX));
    Duration::from_millis(u64::from(longest) * 10 * (80 + percent.min(20)))
}

/// A server cannot make the phone send more often.
const FLOW_TIMER_S_MIN: u32 = 10;
const FLOW_TIMER_S_MAX: u32 = 3600;
