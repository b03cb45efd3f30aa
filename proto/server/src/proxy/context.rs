//! The response context: one request being forwarded, its branches and the best answer so far (RFC 3261 §16.2, §16.7).

use super::breadth::Share;
use super::forward::{Plan, target_uri};
use super::{Lookup, Target, Targets};
use crate::auth::Grant;
use crate::route::{Hop, Routed, preprocess};
use crate::server::Request;
use crate::{Action, CallStep, LogEvent, Server, Services};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::IpAddr;
use ringway_sansio::{Context, Flow, Instant, TimerKey};
use ringway_sip::{HeaderName, Message, Method, Start};
use ringway_transaction::{Allowance, ClientId, DEFAULT_PORT, Outgoing, ServerId, SlabKey, reply_flow};

/// One request being forwarded.
#[derive(Debug)]
pub(crate) struct ResponseContext {
    /// Towards the caller.
    pub(super) server: ServerId,
    /// The request as it came, as long as an answer of our own or a further branch may need it.
    pub(super) request: Option<Arc<[u8]>>,
    /// What was reserved for it.
    pub(super) reserved: usize,
    /// Of a stranger: the user it is for.
    pub(super) strangers_user: Option<u64>,
    pub(super) source: Flow,
    pub(super) grant: Grant,
    pub(super) since: Instant,
    pub(super) is_invite: bool,
    /// An INVITE without a final answer, one of [`Server::ringing_calls_len`].
    is_unanswered: bool,
    pub(super) branches: Vec<Branch>,
    /// The best final answer so far.
    pub(super) best: Option<Best>,
    /// Challenges of all branches, for the caller to answer at once (RFC 3261 §16.7 step 7).
    pub(super) challenges: Vec<(HeaderName, Vec<u8>, usize)>,
    /// The caller gave up, or an answer was chosen: no new branch begins.
    pub(super) is_cancelled: bool,
}

/// One branch of a fork.
#[derive(Debug)]
pub(super) struct Branch {
    pub(super) state: BranchState,
    pub(super) timer_c: TimerKey,
    /// The target, for a branch that is not sent yet.
    pub(super) uri: Box<[u8]>,
    pub(super) keeps_uri: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BranchState {
    /// Its host is being looked up; the port and transport wait.
    Resolving { query: u64, port: u16, transport: ringway_sansio::Transport },
    /// Sent; `rings` when a provisional answer came.
    Sent { client: ClientId, rings: bool },
    /// Answered, or failed.
    Done,
}

/// A branch of a response context; the owner of its client transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BranchId {
    context: SlabKey,
    number: u32,
}

impl BranchId {
    pub(super) fn new(context: SlabKey, number: usize) -> Self {
        Self { context, number: u32::try_from(number).unwrap_or(u32::MAX) }
    }

    /// The context, and the index of the branch in it.
    pub(super) const fn parts(self) -> (SlabKey, usize) {
        (self.context, self.number as usize)
    }
}

/// A final answer to be forwarded when all branches are done.
#[derive(Debug)]
pub(super) struct Best {
    pub(super) status: u16,
    /// As it came, our Via taken off. Empty: an answer of our own.
    pub(super) bytes: Vec<u8>,
    pub(super) branch: usize,
}

impl<S: Services> Server<S> {
    /// Forwards with state: 100 to an INVITE, one client transaction for each target, all at once.
    pub(super) fn forward(
        &mut self,
        cx: &mut Context<'_, Action>,
        request: &Request<'_, '_>,
        routed: &Routed<'_>,
        targets: &Targets,
    ) {
        let message = request.message;
        let reserved = cost_of(message, targets.list.len());
        if !self.has_room(request, targets.strangers_user, reserved) {
            return self.reply(cx, request, 503, "Too Many Requests Under Way", |response| {
                response.header_number(HeaderName::RetryAfter, 5);
            });
        }
        let is_invite = request.method == Method::Invite;
        let reply = reply_flow(message.via(), request.flow);
        let port = message.via().port.unwrap_or(DEFAULT_PORT);
        let context = self.contexts.next_key();
        let match_key = request.key.unwrap_or_else(|| self.transactions.key_of(message));
        let Some(server) = self.transactions.start_server(match_key, is_invite, reply, port, context) else {
            self.counters.overflow += 1;
            self.give_back(request.flow, reserved, targets.strangers_user);
            return self.reply(cx, request, 503, "Too Many Transactions", |response| {
                response.header_number(HeaderName::RetryAfter, 5);
            });
        };
        if !request.is_verified() {
            self.transactions.limit(server, Allowance::for_request(message.as_bytes().len()));
        }
        let context = self.contexts.insert(ResponseContext {
            server,
            request: Some(Arc::from(message.as_bytes())),
            reserved,
            strangers_user: targets.strangers_user,
            source: request.flow,
            grant: request.grant,
            since: cx.now,
            is_invite,
            is_unanswered: is_invite,
            branches: Vec::with_capacity(targets.list.len()),
            best: None,
            challenges: Vec::new(),
            is_cancelled: false,
        });
        self.unanswered += usize::from(is_invite);
        if is_invite {
            cx.out.keep(&request.flow, cx.now + self.config.timer_c);
            // RFC 3261 §16.2: at once, so that the caller stops repeating.
            let source = request.flow.remote;
            self.transactions.respond(cx, server, 100, |arena| {
                let response =
                    ringway_sip::ResponseWriter::answer(arena, message, 100, "Trying", source, None);
                let _ = response.finish();
            });
        }
        for target in &targets.list {
            self.start_branch(cx, context, request, routed, targets, target);
        }
        self.finish_if_done(cx, context);
    }

    /// Reserves what a request makes this server keep; false, and counted, when a limit is reached.
    fn has_room(&mut self, request: &Request<'_, '_>, strangers_user: Option<u64>, bytes: usize) -> bool {
        if strangers_user.is_some_and(|user| !self.pending.has_room(user)) {
            self.counters.over_user_requests += 1;
            return false;
        }
        let is_stranger = !request.grant.sender.is_believed();
        if !self.services.reserve(request.flow.remote.ip(), bytes, is_stranger) {
            self.counters.over_memory += 1;
            return false;
        }
        if let Some(user) = strangers_user {
            self.pending.begin(user);
        }
        true
    }

    /// Gives back what [`Server::has_room`] reserved.
    fn give_back(&mut self, source: Flow, reserved: usize, strangers_user: Option<u64>) {
        self.services.release(source.remote.ip(), reserved);
        if let Some(user) = strangers_user {
            self.pending.end(user);
        }
    }

    /// The caller has its final response, of this length. When no branch holds the request any more, most of what was reserved
    /// goes back; the request still counts until its context ends.
    pub(super) fn give_back_answered(&mut self, key: SlabKey, response: usize) {
        let Some(context) = self.contexts.get_mut(key) else { return };
        let user = context.strangers_user.take();
        let kept = ANSWERED_BYTES + response;
        // What a sender with a password has reserved for a short INVITE is not worth a lock: its callers are few.
        let is_worth_it = !context.grant.sender.is_believed()
            || !context.is_invite
            || context.reserved > kept + SHRUNK_BYTES_MIN;
        if is_worth_it && context.is_done() && context.reserved > kept {
            let given = context.reserved - kept;
            context.reserved = kept;
            self.services.shrink(context.source.remote.ip(), given);
        }
        if let Some(user) = user {
            self.pending.end(user);
        }
    }

    fn start_branch(
        &mut self,
        cx: &mut Context<'_, Action>,
        key: SlabKey,
        request: &Request<'_, '_>,
        routed: &Routed<'_>,
        targets: &Targets,
        target: &Target,
    ) {
        let hop = match target_uri(targets, target, routed) {
            Some(uri) => self.hop_to_target(request.grant.reach, routed, target, &uri),
            None => Hop::Unreachable,
        };
        let Some(context) = self.contexts.get_mut(key) else { return };
        let number = context.branches.len();
        let mut branch = Branch {
            state: BranchState::Done,
            timer_c: TimerKey::NONE,
            uri: Box::default(),
            keeps_uri: target.keeps_uri,
        };
        match hop {
            Hop::Flow(flow) => {
                context.branches.push(branch);
                self.send_branch(cx, key, number, request, routed, targets, target, flow);
            }
            Hop::Name { host, port, transport } => {
                let query = self.look_up(cx, host, Lookup::Branch(key, number));
                branch.uri = targets.uri(target).into();
                branch.state = BranchState::Resolving { query, port, transport };
                if let Some(context) = self.contexts.get_mut(key) {
                    context.branches.push(branch);
                }
            }
            Hop::Unreachable => {
                context.branches.push(branch);
                self.note_failure(key, number, 480);
            }
        }
    }

    #[expect(clippy::too_many_arguments, reason = "all of it decides what is sent")]
    fn send_branch(
        &mut self,
        cx: &mut Context<'_, Action>,
        key: SlabKey,
        number: usize,
        request: &Request<'_, '_>,
        routed: &Routed<'_>,
        targets: &Targets,
        target: &Target,
        flow: Flow,
    ) {
        let is_invite = request.method == Method::Invite;
        let plan = Plan {
            config: &self.config,
            keys: &self.keys,
            now: cx.now,
            request,
            routed,
            targets,
            target,
            flow,
        };
        let outgoing = Outgoing { flow, is_invite, owner: BranchId::new(key, number) };
        let space = &mut self.space;
        let client = self.transactions.start_client(cx, outgoing, |arena, branch| {
            plan.write(space, branch, arena);
        });
        let Some(client) = client else {
            self.counters.overflow += 1;
            return self.note_failure(key, number, 503);
        };
        self.counters.forwarded += 1;
        if let Some(original) = self.contexts.get(key).and_then(|context| context.request.as_ref()) {
            self.transactions.share(client, original);
        }
        let timer_c = if is_invite {
            self.observe_call(cx.now, &Request { flow, ..*request }, CallStep::Forwarded);
            let due = BranchId::new(key, number);
            self.wheel.arm(cx.now + self.config.timer_c, due)
        } else {
            TimerKey::NONE
        };
        if let Some(branch) = self.branch_mut(key, number) {
            branch.state = BranchState::Sent { client, rings: false };
            branch.timer_c = timer_c;
        }
    }

    /// A name was looked up.
    pub(crate) fn on_resolved(&mut self, cx: &mut Context<'_, Action>, query: u64, address: Option<IpAddr>) {
        let (key, number) = match self.queries.remove(&query) {
            Some(Lookup::Branch(key, number)) => (key, number),
            Some(Lookup::Stateless(waiting)) => return self.forward_waiting(cx, &waiting, address),
            None => return,
        };
        let Some(branch) = self.branch_mut(key, number) else { return };
        let BranchState::Resolving { query: waits_for, port, transport } = branch.state else { return };
        if waits_for != query {
            return;
        }
        branch.state = BranchState::Done;
        let Some(reach) = self.contexts.get(key).map(|context| context.grant.reach) else { return };
        let hop = match address {
            Some(ip) => self.resolved(reach, core::net::SocketAddr::new(ip, port), transport),
            None => Hop::Unreachable,
        };
        match hop {
            Hop::Flow(flow) => self.send_stored(cx, key, number, flow),
            Hop::Name { .. } | Hop::Unreachable => self.note_failure(key, number, 480),
        }
        self.finish_if_done(cx, key);
    }

    /// The transport could not deliver. Nothing is dialled instead of a connection that is gone: whoever has its peer's address
    /// now is not known to be the target.
    pub(crate) fn on_branch_unreachable(&mut self, cx: &mut Context<'_, Action>, id: BranchId) {
        let (key, number) = id.parts();
        let Some(branch) = self.branch_mut(key, number) else { return };
        let timer_c = core::mem::replace(&mut branch.timer_c, TimerKey::NONE);
        branch.state = BranchState::Done;
        self.wheel.cancel(timer_c);
        // RFC 3261 §16.9 calls it a 503; when it is all there is, the user is not there.
        self.note_failure(key, number, 480);
        self.finish_if_done(cx, key);
    }

    /// Sends a branch from the stored request.
    fn send_stored(&mut self, cx: &mut Context<'_, Action>, key: SlabKey, number: usize, flow: Flow) {
        let Some(context) = self.contexts.get_mut(key) else { return };
        let bytes = context.request.clone().unwrap_or_default();
        let (source, grant, branches) = (context.source, context.grant, context.branches.len());
        let limits = self.config.message_limits.clone();
        if let Ok(message) = Message::parse(&bytes, &limits)
            && let Start::Request { method, uri } = *message.start()
            && let Ok(routed) = preprocess(&self.config, &self.keys.route, &message, uri)
            && let Some(branch) = self.branch_mut(key, number)
        {
            let mut targets = Targets::default();
            targets.push(&core::mem::take(&mut branch.uri), branch.keeps_uri, None, 1000);
            targets.share = Share::of(&self.config, &message, branches).unwrap_or_default();
            let request = Request { message: &message, method, uri, flow: source, key: None, grant };
            if let Some(target) = targets.list.first() {
                self.send_branch(cx, key, number, &request, &routed, &targets, target, flow);
            }
        }
    }

    pub(super) fn branch_mut(&mut self, key: SlabKey, number: usize) -> Option<&mut Branch> {
        self.contexts.get_mut(key).and_then(|context| context.branches.get_mut(number))
    }

    /// A branch failed without an answer from its target.
    pub(super) fn note_failure(&mut self, key: SlabKey, number: usize, status: u16) {
        let Some(context) = self.contexts.get_mut(key) else { return };
        if let Some(branch) = context.branches.get_mut(number) {
            branch.state = BranchState::Done;
        }
        let best = Best { status, bytes: Vec::new(), branch: number };
        context.keep_better(best);
    }

    /// The caller gave up, or an answer was chosen: everything that still runs is cancelled (RFC 3261 §16.7 step 10).
    pub(super) fn cancel_branches(&mut self, cx: &mut Context<'_, Action>, key: SlabKey) {
        let Some(context) = self.contexts.get_mut(key) else { return };
        context.is_cancelled = true;
        for branch in &mut context.branches {
            match branch.state {
                BranchState::Sent { client, .. } => {
                    if !self.transactions.cancel(cx, client) {
                        branch.state = BranchState::Done;
                    }
                }
                BranchState::Resolving { query, .. } => {
                    self.queries.remove(&query);
                    branch.state = BranchState::Done;
                }
                BranchState::Done => {}
            }
        }
    }

    /// The server ends: what rings is cancelled, and every caller who still waits is told.
    pub(crate) fn give_up_contexts(&mut self, cx: &mut Context<'_, Action>) {
        let keys: Vec<SlabKey> = self.contexts.iter().map(|(key, _)| key).collect();
        for key in keys {
            let Some(context) = self.contexts.get(key) else { continue };
            if !self.transactions.is_answered(context.server) {
                self.cancel_branches(cx, key);
                self.answer_caller(cx, key, 503, "Stopping");
            }
        }
    }

    /// A CANCEL came for the INVITE of this context.
    pub(crate) fn cancel_context(&mut self, cx: &mut Context<'_, Action>, key: SlabKey) {
        let Some(context) = self.contexts.get(key) else { return };
        if !context.is_invite || self.transactions.is_answered(context.server) {
            return;
        }
        if !context.is_cancelled {
            self.observe_context(cx.now, key, CallStep::Cancelled);
        }
        self.cancel_branches(cx, key);
        self.finish_if_done(cx, key);
    }

    /// Nobody answered within timer C (RFC 3261 §16.8): a branch that rings is cancelled, another is given up.
    pub(crate) fn on_timer_c(&mut self, cx: &mut Context<'_, Action>, due: BranchId) {
        let (key, number) = due.parts();
        let Some(branch) = self.branch_mut(key, number) else { return };
        branch.timer_c = TimerKey::NONE;
        let BranchState::Sent { client, rings } = branch.state else { return };
        self.counters.timer_c += 1;
        self.observe_context(cx.now, key, CallStep::TimedOut);
        let ends = self.transactions.cancel(cx, client);
        if !rings || !ends {
            self.note_failure(key, number, 408);
            self.finish_if_done(cx, key);
        }
    }

    /// Reports what happened to a call whose request is kept.
    pub(super) fn observe_context(&self, now: Instant, key: SlabKey, step: CallStep) {
        let open = self.contexts.get(key).filter(|context| context.is_invite);
        if let Some(message) = open.and_then(|context| context.request.as_deref()) {
            let flow = None;
            self.services.observe(now, &LogEvent::Call { step, message, flow });
        }
    }

    /// The caller has its final answer.
    pub(super) fn note_answered(&mut self, key: SlabKey) {
        if let Some(context) = self.contexts.get_mut(key)
            && core::mem::take(&mut context.is_unanswered)
        {
            self.unanswered = self.unanswered.saturating_sub(1);
        }
    }

    /// The server transaction is over: nothing more can be answered.
    pub(crate) fn drop_context(&mut self, key: SlabKey) {
        self.note_answered(key);
        let Some(context) = self.contexts.remove(key) else { return };
        self.give_back(context.source, context.reserved, context.strangers_user);
        for branch in &context.branches {
            self.wheel.cancel(branch.timer_c);
            // Nobody waits for it any more, and what it holds is not reserved any more.
            if let BranchState::Sent { client, .. } = branch.state {
                self.transactions.drop_client(client);
            }
            if let BranchState::Resolving { query, .. } = branch.state {
                self.queries.remove(&query);
            }
        }
    }
}

impl ResponseContext {
    /// For an INVITE that nobody has answered yet: the request, whether it rings, and since when it is here.
    pub(crate) fn unanswered(&self) -> Option<(&[u8], bool, Instant)> {
        let rings =
            self.branches.iter().any(|branch| matches!(branch.state, BranchState::Sent { rings: true, .. }));
        let request = self.request.as_deref().filter(|_| self.is_unanswered)?;
        Some((request, rings, self.since))
    }

    /// True when no branch can still answer.
    pub(super) fn is_done(&self) -> bool {
        self.branches.iter().all(|branch| branch.state == BranchState::Done)
    }

    /// RFC 3261 §16.7 step 6: a 6xx before all, then the lowest class; among 4xx those that tell how to do better.
    pub(super) fn keep_better(&mut self, answer: Best) {
        let is_better = match &self.best {
            None => true,
            Some(best) => rank(answer.status) < rank(best.status),
        };
        if is_better {
            self.best = Some(answer);
        }
    }
}

/// Bytes that a request makes this server keep at most, until its context ends: the request, as long a response, and for each
/// branch the header that was written for it.
fn cost_of(message: &Message<'_>, branches: usize) -> usize {
    let whole = message.as_bytes().len();
    let header = whole - message.body().len().min(whole);
    CONTEXT_BYTES + 2 * whole + branches * (BRANCH_BYTES + header)
}

fn rank(status: u16) -> u16 {
    match status {
        600.. => 0,
        401 | 407 | 415 | 420 | 484 => 400,
        // An answer of a target is better than none.
        408 | 480 => 450,
        400..=499 => 410,
        // Another server's overload says least of all: it is not passed on.
        503 => 599,
        other => other,
    }
}

const SHRUNK_BYTES_MIN: usize = 16_384;
/// What is left of an answered request, its response aside.
const ANSWERED_BYTES: usize = 1024;
/// A context with its server transaction, their timers and what allocating them costs.
const CONTEXT_BYTES: usize = 2048;
/// A branch with its client transaction, and what is added to the header.
const BRANCH_BYTES: usize = 2048;
