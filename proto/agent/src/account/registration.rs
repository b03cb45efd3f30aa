//! A registration (RFC 3261 §10.2), kept alive until it is taken back.
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

use crate::account::challenge::{hex, unfolded};
use crate::agent::Timer;
use crate::request::{Answer, ContactField, Draft, Purpose, write_contact};
use crate::way::Way;
use crate::{AccountId, Action, AgentEvent, FirstHop, ServerAddress, UserAgent};
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;
use ringway_sansio::{ConnectionId, Context, Entropy, Flow, Instant, TimerKey, Token};
use ringway_sip::{Contact, Fields, HeaderName, Method, Uri, grammar};
use ringway_transaction::SlabKey;

/// The registration of one account.
#[derive(Debug)]
pub(crate) struct Registration {
    state: State,
    /// The same for the life of the agent (RFC 3261 §10.2).
    call_id: Vec<u8>,
    local_tag: Vec<u8>,
    cseq: u32,
    /// What is asked for; a 423 can raise it.
    expires_s: u32,
    /// Failures since the last success.
    failures: u32,
    timer: TimerKey,
    keep_alive: TimerKey,
    /// The way to the registrar.
    flow: Option<Flow>,
    /// The connection its last answer came by.
    pub(crate) connection: Option<ConnectionId>,
}

/// Named for what is awaited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Nothing.
    Idle,
    /// The registrar's answer.
    Waiting(SlabKey),
    /// The time to refresh.
    Registered,
    /// The time to try again.
    BackingOff,
    /// The registrar's answer to the removal.
    Removing(SlabKey),
}

impl Registration {
    pub(crate) fn new(entropy: &mut Entropy) -> Self {
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
        }
    }

    pub(crate) const fn next_cseq(&mut self) -> u32 {
        self.cseq = self.cseq.saturating_add(1);
        self.cseq
    }
}

impl UserAgent {
    /// Registers an account, now, and keeps it registered. One that is registered already is refreshed.
    pub fn register(&mut self, cx: &mut Context<'_, Action>, account: AccountId) {
        let added_from = cx.out.len();
        let asked = self.config.account(account).map_or(0, |account| account.expires_s);
        if let Some(state) = self.accounts.get_mut(account.0)
            && !self.is_stopping
            && !matches!(state.registration.state, State::Waiting(_))
        {
            state.registration.expires_s = asked;
            state.registration.failures = 0;
            self.send_register(cx, account);
        }
        self.settle(cx, added_from);
    }

    /// Takes an account's registration back.
    pub fn unregister(&mut self, cx: &mut Context<'_, Action>, account: AccountId) {
        let added_from = cx.out.len();
        self.remove_registration(cx, account);
        self.settle(cx, added_from);
    }

    /// True when the account's registration stands.
    pub fn is_registered(&self, account: AccountId) -> bool {
        self.accounts.get(account.0).is_some_and(|state| state.registration.state == State::Registered)
    }

    pub(crate) fn remove_registration(&mut self, cx: &mut Context<'_, Action>, account: AccountId) {
        let Some(state) = self.accounts.get_mut(account.0) else { return };
        let registration = &mut state.registration;
        self.wheel.cancel(registration.timer);
        self.wheel.cancel(registration.keep_alive);
        let under_way = match registration.state {
            State::Idle | State::Removing(_) => return,
            State::Waiting(key) => Some(key),
            State::Registered | State::BackingOff => None,
        };
        registration.state = State::Idle;
        registration.expires_s = 0;
        if let Some(key) = under_way {
            self.forget_request(key);
        }
        match self.submit_register(cx, account) {
            Ok(key) => self.set_registration(account, State::Removing(key)),
            Err(_) => cx.emit(AgentEvent::Unregistered { account }),
        }
    }

    /// The answer to a REGISTER.
    pub(crate) fn on_register_answer(
        &mut self,
        cx: &mut Context<'_, Action>,
        account: AccountId,
        key: SlabKey,
        answer: &Answer<'_, '_>,
    ) {
        if answer.status < 200 {
            return;
        }
        let Some(state) = self.accounts.get_mut(account.0).map(|state| state.registration.state) else {
            return;
        };
        if state == State::Removing(key) {
            self.set_registration(account, State::Idle);
            return cx.emit(AgentEvent::Unregistered { account });
        }
        if state != State::Waiting(key) {
            return;
        }
        match (answer.status, answer.message) {
            (200..=299, Some(message)) => self.on_registered(cx, account, key, message),
            (423, Some(message)) => self.on_too_brief(cx, account, answer, message),
            (_, message) => {
                let after = message.and_then(|message| retry_after_s(message));
                self.on_register_failure(cx, account, answer, after);
            }
        }
    }

    pub(crate) fn on_register_timer(&mut self, cx: &mut Context<'_, Action>, account: AccountId) {
        self.send_register(cx, account);
    }

    /// Sends the keep-alive of RFC 5626 §3.5.1 and §4.4.1 to the registrar.
    pub(crate) fn on_keep_alive(&mut self, cx: &mut Context<'_, Action>, account: AccountId) {
        let Some(every) = self.config.account(account).and_then(|account| account.keep_alive) else { return };
        let Some(state) = self.accounts.get_mut(account.0) else { return };
        if let Some(flow) = state.registration.flow {
            cx.out.send(flow, Token::NONE, b"\r\n\r\n");
        }
        state.registration.keep_alive = self.wheel.arm(cx.now + every, Timer::KeepAlive(account));
    }

    /// A connection is gone. Calls for an account that registered by it would go nowhere, so it registers again, soon.
    pub(crate) fn on_closed(&mut self, now: Instant, connection: ConnectionId) {
        for (place, state) in self.accounts.iter_mut().enumerate() {
            let registration = &mut state.registration;
            if registration.connection == Some(connection) {
                registration.connection = None;
                if registration.state == State::Registered {
                    self.wheel.cancel(registration.timer);
                    let pause = Duration::from_millis(500 + self.rng.below(1500));
                    registration.timer = self.wheel.arm(now + pause, Timer::Register(AccountId(place)));
                }
            }
        }
    }

    fn send_register(&mut self, cx: &mut Context<'_, Action>, account: AccountId) {
        match self.submit_register(cx, account) {
            Ok(key) => self.set_registration(account, State::Waiting(key)),
            Err(reason) => {
                let answer = Answer { status: 503, reason, message: None };
                self.on_register_failure(cx, account, &answer, None);
            }
        }
    }

    fn submit_register(&mut self, cx: &mut Context<'_, Action>, id: AccountId) -> Result<SlabKey, String> {
        let (Some(account), Some(state)) = (self.config.account(id), self.accounts.get_mut(id.0)) else {
            return Err("there is no such account".into());
        };
        let registration = &mut state.registration;
        self.wheel.cancel(registration.timer);
        let uri = account.registrar_uri();
        let target = Uri::parse(&uri).map_err(|_| String::from("the domain is not one"))?;
        let way = account.way_to(&target).map_err(|why| alloc::format!("{why}"))?;
        let address = account.name_addr();
        let routes = account.server.as_ref().map(|server| preloaded_route(server, &way)).unwrap_or_default();
        let draft = Draft {
            account: id,
            method: Method::Register,
            routes,
            from: [&address[..], b";tag=", &registration.local_tag].concat(),
            to: address,
            call_id: registration.call_id.clone(),
            cseq: registration.next_cseq(),
            contact: ContactField::Binding { expires_s: registration.expires_s },
            fields: Vec::new(),
            body: None,
            way,
            is_in_dialog: false,
            peer: None,
            uri,
        };
        self.submit(cx, draft, Purpose::Register(id)).map_err(|why| why.reason().into())
    }

    fn on_registered(
        &mut self,
        cx: &mut Context<'_, Action>,
        account: AccountId,
        key: SlabKey,
        message: &Fields<'_>,
    ) {
        let flow = self.requests.get(key).and_then(|request| request.flow);
        let granted = flow.and_then(|flow| self.granted_s(account, flow, message));
        let Some(state) = self.accounts.get_mut(account.0) else { return };
        let registration = &mut state.registration;
        let expires_s = granted.unwrap_or(registration.expires_s).min(self.config.limits.expires_s_max);
        if expires_s == 0 {
            let answer = Answer {
                status: 200,
                reason: "the registrar did not keep the binding".into(),
                message: None,
            };
            return self.on_register_failure(cx, account, &answer, None);
        }
        registration.state = State::Registered;
        registration.failures = 0;
        registration.flow = flow;
        let lifetime = Duration::from_secs(u64::from(expires_s));
        // Time for a whole transaction to fail and another to succeed, but not more often than twice a lifetime.
        let margin = (lifetime / 10).max(self.config.timers.t1 * 70).min(lifetime / 2);
        self.wheel.cancel(registration.timer);
        registration.timer = self.wheel.arm(cx.now + (lifetime - margin), Timer::Register(account));
        self.wheel.cancel(registration.keep_alive);
        if let Some(every) = self.config.account(account).and_then(|account| account.keep_alive) {
            registration.keep_alive = self.wheel.arm(cx.now + every, Timer::KeepAlive(account));
        }
        cx.emit(AgentEvent::Registered { account, expires_s });
    }

    /// For how long the registrar keeps our binding: by its Contact, or by Expires.
    fn granted_s(&self, account: AccountId, flow: Flow, message: &Fields<'_>) -> Option<u32> {
        let mut ours = Vec::new();
        write_contact(&self.config, account, flow, &mut ours);
        let ours = grammar::trim(&ours);
        let ours = Uri::parse(ours.strip_prefix(b"<")?.strip_suffix(b">")?).ok()?;
        let contacts = message.values(HeaderName::Contact).filter_map(|value| Contact::parse(value).ok());
        let own =
            contacts.filter(|contact| contact.address.uri.equals(&ours)).find_map(|contact| contact.expires);
        own.or_else(|| message.first(HeaderName::Expires).and_then(grammar::delta_seconds))
    }

    /// 423 (RFC 3261 §10.2.8): once more with what the registrar wants at least, if that is more than before.
    fn on_too_brief(
        &mut self,
        cx: &mut Context<'_, Action>,
        account: AccountId,
        answer: &Answer<'_, '_>,
        message: &Fields<'_>,
    ) {
        let at_least = message.first(HeaderName::MinExpires).and_then(grammar::delta_seconds);
        let at_least = at_least.filter(|&seconds| seconds <= self.config.limits.expires_s_max);
        let Some(state) = self.accounts.get_mut(account.0) else { return };
        match at_least.filter(|&seconds| seconds > state.registration.expires_s) {
            Some(seconds) => {
                state.registration.expires_s = seconds;
                self.send_register(cx, account);
            }
            None => self.on_register_failure(cx, account, answer, None),
        }
    }

    fn on_register_failure(
        &mut self,
        cx: &mut Context<'_, Action>,
        account: AccountId,
        answer: &Answer<'_, '_>,
        after_s: Option<u32>,
    ) {
        let Some(state) = self.accounts.get_mut(account.0) else { return };
        let registration = &mut state.registration;
        self.wheel.cancel(registration.keep_alive);
        let mut retry_s = None;
        if may_pass(answer.status) {
            let pause_s = back_off_s(registration.failures, &mut self.rng)
                .max(after_s.unwrap_or(0).min(RETRY_AFTER_S_MAX));
            registration.failures = registration.failures.saturating_add(1);
            registration.state = State::BackingOff;
            let due = cx.now + Duration::from_secs(u64::from(pause_s));
            registration.timer = self.wheel.arm(due, Timer::Register(account));
            retry_s = Some(pause_s);
        } else {
            registration.state = State::Idle;
        }
        let (status, reason) = (answer.status, answer.reason.clone());
        cx.emit(AgentEvent::RegistrationFailed { account, status, reason, retry_s });
    }

    fn set_registration(&mut self, account: AccountId, to: State) {
        if let Some(state) = self.accounts.get_mut(account.0) {
            state.registration.state = to;
        }
    }
}

/// The Route that names the outbound proxy, where that is wanted.
pub(crate) fn preloaded_route(server: &ServerAddress, way: &Way) -> Vec<Vec<u8>> {
    match server.first_hop {
        FirstHop::Plain => Vec::new(),
        FirstHop::Route => {
            let parameter = way.transport.uri_parameter();
            alloc::vec![alloc::format!("<sip:{}:{}{parameter};lr>", way.host, way.port).into_bytes()]
        }
    }
}

/// False for failures that will be the same next time, until a person changes something.
const fn may_pass(status: u16) -> bool {
    matches!(status, 200 | 408 | 480 | 486 | 500..=599)
}

/// RFC 5626 §4.5: 30 s, doubled with each failure, at most half an hour; between half of that and all of it.
fn back_off_s(failures: u32, rng: &mut ringway_sansio::Rng) -> u32 {
    let upper = BACK_OFF_BASE_S.saturating_mul(1_u32.checked_shl(failures.min(16)).unwrap_or(u32::MAX));
    let upper = upper.min(BACK_OFF_S_MAX);
    let spread = u32::try_from(rng.below(u64::from(upper / 2) + 1)).unwrap_or(0);
    upper / 2 + spread
}

/// The seconds of Retry-After, without its comment and parameters.
fn retry_after_s(message: &Fields<'_>) -> Option<u32> {
    let value = unfolded(message.first(HeaderName::RetryAfter)?);
    let end = value.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(value.len());
    grammar::delta_seconds(value.get(..end)?)
}

const BACK_OFF_BASE_S: u32 = 30;
const BACK_OFF_S_MAX: u32 = 1800;
/// A registrar cannot silence a phone for longer than a day.
const RETRY_AFTER_S_MAX: u32 = 24 * 3600;
