//! Environment of the components: configuration, host, tables, keys, counters.

use super::host::{Host, observe};
use super::keys::Keys;
use super::steps::{Step, StepTable, Steps};
use crate::base::request::Request;
use crate::base::{EndedInvites, RefusedInDialog};
use crate::config::Features;
use crate::report::{CallNames, Parts, Report};
use crate::tables::{Lifetime, SharedTables};
use crate::{
    Action, Aor, CallEvent, CallName, CallSender, CallStep, Cluster, Config, Counters, Decision, Detail,
    LogEvent, Reason,
};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use hashbrown::HashMap;
use ringway_auth::SeededHash;
use ringway_sansio::{Context, Flow, Instant, Seed};
use ringway_sip::{Message, Method, Uri};
use ringway_users::Forwards;

/// Owner of everything that the components of one shard share.
pub(crate) struct Environment {
    config: Arc<Config>,
    features: Features,
    /// Those of all configurations so far: what they began may have to end.
    had_features: Features,
    host: Arc<dyn Host>,
    tables: Arc<SharedTables>,
    keys: Keys,
    counters: Counters,
    refused_in_dialog: RefusedInDialog,
    ended_invites: EndedInvites,
    forwards: ForwardTable,
    calls_checked_at: Option<Instant>,
    started_s: u64,
    input: InputState,
    is_tracing: bool,
}

/// State of the input that is being handled.
#[derive(Default)]
pub(crate) struct InputState {
    /// Value of Authentication-Info for the response to the request; usually none.
    pub(crate) answer_info: Vec<u8>,
    /// Timing points.
    pub(crate) steps: Steps,
}

/// Context and environment of one input.
pub(crate) struct Env<'e> {
    pub(crate) cx: Context<'e, Action>,
    pub(crate) config: &'e Config,
    pub(crate) features: Features,
    pub(crate) host: &'e dyn Host,
    pub(crate) tables: &'e SharedTables,
    pub(crate) keys: &'e Keys,
    pub(crate) counters: &'e mut Counters,
    pub(crate) refused_in_dialog: &'e mut RefusedInDialog,
    pub(crate) ended_invites: &'e mut EndedInvites,
    /// Forwards of the shard's users.
    pub(crate) forwards: &'e ForwardTable,
    /// Time of the next check of the calls with a connection of their own.
    pub(crate) calls_checked_at: &'e mut Option<Instant>,
    /// Start of this server, in seconds since the epoch.
    pub(crate) started_s: u64,
    /// State of this input.
    pub(crate) input: &'e mut InputState,
    is_tracing: bool,
}

/// Parts of the environment by which changed bindings are kept: in the journal of this server, or in the store that nodes share.
pub(crate) struct Storage<'e> {
    pub(crate) host: &'e dyn Host,
    pub(crate) cluster: Option<&'e Cluster>,
    pub(crate) keeps_bindings: bool,
    /// Key of flow tokens.
    pub(crate) link_key: &'e [u8; 16],
    /// Key of addresses in them.
    pub(crate) source_key: &'e [u8; 16],
    /// Start of this server, in seconds since the epoch.
    pub(crate) started_s: u64,
}

impl Environment {
    pub(crate) fn new(
        config: Arc<Config>,
        host: Arc<dyn Host>,
        tables: Arc<SharedTables>,
        seed: &Seed,
        now: Instant,
    ) -> Self {
        let (keys, features) = (Keys::of(&config), Features::of(&config));
        Self {
            config,
            features,
            had_features: features,
            host,
            tables,
            keys,
            counters: Counters::default(),
            refused_in_dialog: RefusedInDialog::default(),
            ended_invites: EndedInvites::new(&seed.part(ENDED_KEY)),
            forwards: ForwardTable::new(&seed.part(FORWARDS_KEY)),
            calls_checked_at: None,
            started_s: now.as_secs(),
            input: InputState::default(),
            is_tracing: false,
        }
    }

    pub(crate) fn reconfigure(&mut self, config: Arc<Config>) {
        self.keys = Keys::of(&config);
        self.features = Features::of(&config);
        self.had_features = self.had_features.or(self.features);
        self.config = config;
    }

    pub(crate) const fn forwards_mut(&mut self) -> &mut ForwardTable {
        &mut self.forwards
    }

    /// Features of this configuration.
    pub(crate) const fn features(&self) -> Features {
        self.features
    }

    /// Features of this configuration and of all before it.
    pub(crate) const fn had_features(&self) -> Features {
        self.had_features
    }

    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    pub(crate) const fn keys(&self) -> &Keys {
        &self.keys
    }

    pub(crate) fn host(&self) -> &dyn Host {
        &*self.host
    }

    pub(crate) fn tables(&self) -> &SharedTables {
        &self.tables
    }

    pub(crate) const fn counters_mut(&mut self) -> &mut Counters {
        &mut self.counters
    }

    pub(crate) const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Turns the timing points on with a clock, or off.
    pub(crate) fn set_step_clock(&mut self, clock: Option<fn() -> u64>) {
        self.input.steps.set_clock(clock);
    }

    /// Times of the steps; `None`: they are not measured.
    pub(crate) fn step_table(&self) -> Option<&StepTable> {
        self.input.steps.table()
    }

    /// Timing points, for the steps of a whole message.
    pub(crate) const fn steps_mut(&mut self) -> &mut Steps {
        &mut self.input.steps
    }

    pub(crate) const fn calls_checked_at(&self) -> Option<Instant> {
        self.calls_checked_at
    }

    pub(crate) fn storage(&self) -> Storage<'_> {
        Storage {
            host: &*self.host,
            cluster: self.config.cluster.as_ref(),
            keeps_bindings: self.config.keeps_bindings,
            link_key: self.keys.of_links(&self.config),
            source_key: &self.keys.route,
            started_s: self.started_s,
        }
    }

    /// Begins an input: decides once whether its decisions are wanted.
    #[inline]
    pub(crate) fn begin_input(&mut self) {
        self.is_tracing = TRACES && self.host.is_traced(None);
    }

    /// The same for a message, whose steps may be measured.
    #[inline]
    pub(crate) fn begin_message_input(&mut self) {
        self.input.steps.begin();
        self.begin_input();
    }

    /// Reports that a message was received, and whether the decisions about it are wanted.
    pub(crate) fn begin_message(&mut self, message: &Message<'_>, flow: &Flow) {
        self.is_tracing = TRACES && self.is_tracing && self.host.is_traced(Some((message, flow)));
    }

    pub(crate) fn env<'e>(&'e mut self, cx: &'e mut Context<'_, Action>) -> Env<'e> {
        self.input.answer_info.clear();
        Env {
            cx: Context::new(cx.now, cx.out, cx.actions),
            config: &self.config,
            features: self.features,
            host: &*self.host,
            tables: &self.tables,
            keys: &self.keys,
            counters: &mut self.counters,
            refused_in_dialog: &mut self.refused_in_dialog,
            ended_invites: &mut self.ended_invites,
            forwards: &self.forwards,
            calls_checked_at: &mut self.calls_checked_at,
            started_s: self.started_s,
            input: &mut self.input,
            is_tracing: TRACES && self.is_tracing,
        }
    }
}

impl<'e> Env<'e> {
    /// Time of an entry that is kept as long as a dialog may last.
    pub(crate) fn dialog_lifetime(&self) -> Lifetime {
        let now = self.cx.now;
        Lifetime { now, until: now + self.config.dialog_lifetime }
    }

    pub(crate) const fn storage(&self) -> Storage<'e> {
        Storage {
            host: self.host,
            cluster: self.config.cluster.as_ref(),
            keeps_bindings: self.config.keeps_bindings,
            link_key: self.keys.of_links(self.config),
            source_key: &self.keys.route,
            started_s: self.started_s,
        }
    }
}

impl Env<'_> {
    /// Gives the time since the last timing point to a step.
    #[inline]
    pub(crate) fn mark(&mut self, step: Step) {
        self.input.steps.mark(step);
    }

    /// True if decisions are wanted while this input is handled.
    pub(crate) const fn is_tracing(&self) -> bool {
        TRACES && self.is_tracing
    }

    /// Reports an event to the log.
    #[inline]
    pub(crate) fn observe(&self, event: &LogEvent<'_>) {
        observe(self.host, self.cx.now, event);
    }

    fn call_names(&self) -> Option<&CallNames> {
        if cfg!(feature = "operator") { self.host.call_names() } else { None }
    }

    /// Reports a step of a call to the log.
    pub(crate) fn observe_call(&self, request: &Request<'_, '_>, step: CallStep) {
        self.observe_step(request, &request.flow, step, None);
    }

    fn observe_step(&self, request: &Request<'_, '_>, flow: &Flow, step: CallStep, target: Option<&[u8]>) {
        let event = CallEvent { name: request.call, target, flow: Some(*flow), ..event_of(request, step) };
        self.observe(&LogEvent::Call(event));
    }

    /// Reports a call that begins; returns its name, if calls are recorded.
    pub(crate) fn begin_call(&self, request: &Request<'_, '_>) -> Option<CallName> {
        let event = event_of(request, CallStep::Begun);
        let Some(names) = self.call_names() else {
            self.observe(&LogEvent::Call(event));
            return None;
        };
        let mut user = Aor::default();
        let is_user = event.sender == CallSender::Proven
            && self.config.read_aor(&request.message.from().uri, &mut user);
        let user = is_user.then_some(user.as_bytes());
        let is_spiral = request.grant.returned.is_some() || self.config.is_own_address(request.flow.remote);
        let event = CallEvent { user, is_spiral, ..event };
        let name = names.of(&event);
        let event = CallEvent { name: name.as_ref(), ..event };
        self.observe(&LogEvent::Call(event));
        name
    }

    /// Name of the call that a BYE is to end, if calls are recorded.
    pub(crate) fn name_of_bye(&self, request: &Request<'_, '_>) -> Option<CallName> {
        self.call_names()?.of(&event_of(request, CallStep::Bye))
    }

    /// Counts a request of which one of these URIs has a dot at the end of its domain.
    #[inline]
    pub(crate) fn count_root_dots<const N: usize>(&mut self, uris: [&Uri<'_>; N]) {
        if uris.iter().any(|uri| uri.host().as_bytes().last() == Some(&b'.')) {
            self.counters.root_dots += 1;
        }
    }

    /// Counts a request that is forwarded over a flow.
    pub(crate) fn count_forwarded(&mut self, flow: &Flow) {
        self.counters.forwarded += 1;
        self.counters.forwarded_to_nodes += u64::from(self.config.is_link(flow));
    }

    /// Reports that a message was received that is refused before it is parsed.
    #[inline]
    pub(crate) fn received(&self, message: &[u8], flow: &Flow) {
        if self.is_tracing() {
            self.observe(&LogEvent::Received { message, flow });
        }
    }

    /// Reports a decision about a request, if it is wanted.
    #[inline]
    pub(crate) fn decided(&self, request: &Request<'_, '_>, reason: Reason, detail: Detail<'_>) {
        self.decided_about(request.message.as_bytes(), reason, detail);
    }

    /// The same for a request as it was received.
    #[inline]
    pub(crate) fn decided_about(&self, message: &[u8], reason: Reason, detail: Detail<'_>) {
        if self.is_tracing() {
            report(self.host, self.cx.now, message, Decision { reason, detail });
        }
    }

    /// Reports a fact about a request: to its counters, a trace, the log and the calls.
    pub(crate) fn report(&mut self, request: &Request<'_, '_>, report: Report<'_>) {
        self.report_over(request, &request.flow, report);
    }

    /// The same; `flow` is that of the step of the call.
    pub(crate) fn report_over(&mut self, request: &Request<'_, '_>, flow: &Flow, report: Report<'_>) {
        let Parts { step, target, .. } = self.report_about(request.message.as_bytes(), report);
        if let Some(step) = step
            && request.method == Method::Invite
        {
            self.observe_step(request, flow, step, target);
        }
    }

    /// The same for a request that is not parsed, without calls.
    pub(crate) fn report_about<'r>(&mut self, message: &[u8], report: Report<'r>) -> Parts<'r> {
        let parts = report.parts();
        for counter in parts.counters.into_iter().flatten() {
            *counter(self.counters) += 1;
        }
        if let Some((reason, detail)) = parts.decision {
            self.decided_about(message, reason, detail);
        }
        if let Some(event) = report.event() {
            self.observe(&event);
        }
        parts
    }
}

/// Step of a call by its request.
fn event_of<'a>(request: &Request<'a, 'a>, step: CallStep) -> CallEvent<'a> {
    let (message, sender) = (request.message.as_bytes(), request.grant.sender.of_call());
    let (parsed, flow) = (Some(request.message), Some(request.flow));
    CallEvent { parsed, flow, ..CallEvent::stored(step, message, sender) }
}

/// Reports a decision; apart from the callers, which run without a trace.
#[cold]
#[inline(never)]
fn report(host: &dyn Host, now: Instant, message: &[u8], decision: Decision<'_>) {
    observe(host, now, &LogEvent::Decided { message, decision });
}

/// False: nobody can want decisions, and nothing tests it.
const TRACES: bool = cfg!(feature = "operator");

/// Parts of a shard's seed that are the keys of [`ForwardTable`] and [`EndedInvites`].
const FORWARDS_KEY: u64 = 2;
const ENDED_KEY: u64 = 10;

/// Forwards by address-of-record. A user without any has no entry.
#[derive(Debug)]
pub(crate) struct ForwardTable {
    users: HashMap<Box<[u8]>, Arc<Forwards>, SeededHash>,
}

impl ForwardTable {
    pub(crate) fn new(seed: &Seed) -> Self {
        Self { users: HashMap::with_hasher(SeededHash::new(seed)) }
    }

    /// Replaces the forwards of `user@domain`; empty ones remove them.
    pub(crate) fn set(&mut self, aor: &[u8], forwards: Forwards) {
        if forwards.is_empty() {
            self.users.remove(aor);
        } else {
            self.users.insert(aor.into(), Arc::new(forwards));
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.users.is_empty()
    }

    /// Forwards of `user@domain`.
    pub(crate) fn find(&self, aor: &[u8]) -> Option<&Arc<Forwards>> {
        self.users.get(aor)
    }
}
