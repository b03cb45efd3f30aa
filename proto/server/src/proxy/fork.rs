//! Stateful forwarding: the branches of a request, from their targets to their end (RFC 3261 §16.6, §16.8 to §16.10).

use super::branch_media::BranchMedia;
use super::call::{BranchEnd, Call, Next};
use super::context::{Branch, BranchState, Conversion, ResponseContext, Servers};
use super::forward::{Forwarding, Plan};
use super::lookups::Lookup;
use super::pending::{branch_cost_of, cost_of};
use super::reach::{failed_last, hop_to_target, refusal, take_reachable};
use super::retarget::Recursion;
use super::serial::LaterGroups;
use super::stages::recursion::{self, may_recurse};
use super::stages::{self, trunks};
use super::targets::{Authority, Target, Targets, target_uri};
use super::trunk_branch::TrunkBranch;
use super::{
    Proxy, cancel_reason, decided, divert, groups, lit, number_lookup, reach, relays, trying, unreached,
};
use crate::base::{BranchId, Env, Owner, Request, Transactions};
use crate::media::is_sdp;
use crate::neighbour::Sending;
use crate::route::{NextHop, Routed, preprocess};
use crate::tables::{CallRequest, CallResult};
use crate::{Action, CallEvent, CallStep, Detail, LogEvent, Reason, lamp};
use alloc::boxed::Box;
use alloc::sync::Arc;
use ringway_sansio::{Context, DialledId, Flow, LocatedServers, TimerKey};
use ringway_sip::{HeaderName, Limits, Message, Method, Start};
use ringway_transaction::{Allowance, DEFAULT_PORT, Outgoing, SlabKey, reply_flow};

impl Proxy {
    /// Forwards statefully: 100 to an INVITE, one client transaction for each target, all at once.
    pub(super) fn fork(
        &mut self,
        env: &mut Env<'_>,
        transactions: &mut Transactions,
        forwarding: Forwarding<'_, '_, '_>,
    ) {
        let Forwarding { request, routed, targets } = forwarding;
        let message = request.message;
        if request.grant.dialog.is_none() && !transactions.has_room_for_new_calls() {
            env.counters.overflow += 1;
            return refuse_now(env, request, "Too Many Transactions");
        }
        let branches = targets.list().len();
        let strangers_user = targets.strangers_user();
        let mut of_branch = branch_cost_of(message);
        if env.config.media.is_on() {
            of_branch += relays::cost_of(message);
        }
        let cost = cost_of(message)
            + targets.flows_len() * of_branch
            + targets.rewrite_bytes()
            + env.answer_info.len();
        let Some(reserved) = self.pending.reserve(env, request, strangers_user, (cost, of_branch)) else {
            return refuse_now(env, request, "Too Many Requests Under Way");
        };
        let is_invite = request.method == Method::Invite;
        let reply = reply_flow(message.via(), request.flow);
        let port = message.via().port.unwrap_or(DEFAULT_PORT);
        let key = self.contexts.next_key();
        let match_key = request.key.unwrap_or_else(|| transactions.key_of(message));
        let Some(server) = transactions.start_server(match_key, is_invite, reply, port, key) else {
            env.counters.overflow += 1;
            self.pending.release(env, reserved, strangers_user);
            return refuse_now(env, request, "Too Many Transactions");
        };
        if !request.is_verified() {
            transactions.limit(server, Allowance::for_request(message.as_bytes().len()));
        }
        let mut context =
            ResponseContext::new(server, request, reserved, strangers_user, env.cx.now, branches);
        if !env.answer_info.is_empty() {
            context.answer_info = env.answer_info.as_slice().into();
        }
        if branches > 1 && (targets.are_at_trunks() || !env.config.serial_fork.is_zero()) {
            context.later = LaterGroups::of(targets);
        }
        divert::hold(self, env, &mut context, key, targets);
        unreached::hold(self, env, &mut context, key, targets.candidate());
        if env.config.recurse && may_recurse(request.grant.reach) && divert::is_divertible(env, request) {
            context.recursion = Some(Recursion::of(routed, targets));
        }
        if is_invite {
            context.lit = lamp::begin(env, request, routed, targets.diverted().is_some());
        }
        let first = branches - context.later.as_ref().map_or(0, |later| later.len());
        let key = self.contexts.insert(context);
        if is_invite {
            env.cx.out.keep(&request.flow, env.cx.now + env.config.timer_c);
            trying::on_invite(env, transactions, server, (message, request.flow));
        }
        if let Some(condition) = targets.diverted() {
            let target = targets.list().first().map(|target| targets.uri(target));
            env.note_forward(request, condition, target.unwrap_or_default());
        }
        for target in targets.list().iter().take(first) {
            self.start_branch(env, transactions, key, forwarding, target);
        }
        groups::arm(self, env, key);
        self.finish_if_done(env, transactions, key);
    }

    pub(super) fn start_branch(
        &mut self,
        env: &mut Env<'_>,
        transactions: &mut Transactions,
        key: SlabKey,
        forwarding: Forwarding<'_, '_, '_>,
        target: &Target,
    ) {
        let Forwarding { request, routed, targets } = forwarding;
        let hop = match target_uri(targets, target, routed) {
            Some(uri) => hop_to_target(env, request.grant.reach, routed, target, &uri),
            None => NextHop::Unreachable,
        };
        let Some(context) = self.contexts.get_mut(key) else { return };
        let number = context.branches.len();
        let id = BranchId::new(key, number);
        let mut branch = Branch {
            state: BranchState::Done,
            timer_c: TimerKey::NONE,
            dialled: DialledId::SHARED,
            share: target.share,
            authority: target.authority,
            target: None,
            is_of_binding: !target.keeps_uri && target.trunk().is_none(),
            flows: target.flows.clone(),
            servers: None,
            trunk: target.trunk().map(|trunk| TrunkBranch::of(&env.config.trunking, trunk)),
            caller_cseq: None,
            conversion: Conversion::None,
            media: None,
        };
        if trunks::may_be_challenged(env.config, request.grant.reach, &branch)
            || env.config.media.converts() && is_sdp(request.message)
        {
            branch.target = Some(Box::new(targets.stored(target)));
        }
        if let Some(number) = targets.number() {
            let target = number_lookup::target_of(env.config, number, request);
            let query = self.lookups.start_number(&mut env.cx, target, id);
            branch.state = BranchState::Resolving { query };
            return context.branches.push(branch);
        }
        match hop {
            NextHop::Flow(flow) => {
                context.branches.push(branch);
                let plan = Plan::new(env, forwarding, target, flow);
                self.send_branch(env, transactions, id, &plan);
            }
            NextHop::Name(host) => {
                // A peer must not use up the lookups of a trunk.
                let source = target.trunk().is_none().then(|| request.client(env.config));
                let asked = (request.message, source);
                env.decided(request, Reason::Resolving, Detail::Text(host.parts().1.as_bytes()));
                let query = self.lookups.start(&mut env.cx, host, asked, Lookup::Branch(id));
                branch.target = Some(Box::new(targets.stored(target)));
                branch.state = BranchState::Resolving { query };
                context.branches.push(branch);
            }
            NextHop::Unreachable => {
                context.branches.push(branch);
                env.decided(request, Reason::NotSent, Detail::None);
                context.fail_branch(number, 480);
            }
        }
    }

    fn send_branch(
        &mut self,
        env: &mut Env<'_>,
        transactions: &mut Transactions,
        id: BranchId,
        plan: &Plan<'_, '_, '_>,
    ) {
        if let Some((status, phrase)) = refusal(env, plan) {
            if let Some(context) = self.contexts.get_mut(id.context()) {
                context.refuse_branch(id.parts().1, status, phrase);
            }
            return;
        }
        if env.config.media.is_on() && relays::ask_offer(env, &mut self.contexts, &mut self.lookups, id, plan)
        {
            return;
        }
        let (key, number) = id.parts();
        let request = plan.request();
        let is_invite = request.method == Method::Invite;
        let Sending { flow, offers_alias } =
            match env.sending_flow(plan.flow(), request.message, CallRequest::of(request.method)) {
                Ok(sending) => sending,
                Err(status) => {
                    env.decided(request, Reason::NotSent, Detail::Flow(plan.flow()));
                    if let Some(context) = self.contexts.get_mut(key) {
                        context.fail_branch(number, status);
                    }
                    return;
                }
            };
        let space = &mut self.space;
        let outgoing = Outgoing { flow, is_invite, owner: Owner::Branch(id) };
        let branch = self.contexts.get(key).and_then(|context| context.branches.get(number));
        let plan = plan.with_media(branch.and_then(|branch| branch.media.as_deref()?.written_mark()));
        let trunk = branch.and_then(|branch| branch.trunk);
        let plan = trunks::numbered(env, &mut self.repeated, plan, trunk);
        let credentials = trunks::credentials(env, trunk, plan.covered());
        let plan = plan.with_credentials(credentials.as_ref().map(|(name, value)| (*name, value.as_slice())));
        let client = transactions.start_client(&mut env.cx, outgoing, |arena, branch| {
            plan.write(space, branch, offers_alias, arena);
        });
        let caller_cseq = plan.caller_cseq();
        reach::charge(env, &plan, &flow);
        let Some(context) = self.contexts.get_mut(key) else { return };
        let Some(client) = client else {
            env.counters.overflow += 1;
            env.end_call_request(flow.dialled, CallResult::Other);
            return context.fail_branch(number, 503);
        };
        env.count_forwarded(&flow);
        env.decided(request, Reason::Forwarded, Detail::Flow(flow));
        if let Some(original) = &context.request {
            transactions.share(client, original);
        }
        let timer_c = if is_invite {
            env.observe_call(&Request { flow, ..*request }, CallStep::Forwarded);
            self.timer_c.arm(env.cx.now + env.config.timer_c, id)
        } else {
            TimerKey::NONE
        };
        if let Some(branch) = context.branches.get_mut(number) {
            branch.state = BranchState::Sent { client, rings: false };
            branch.timer_c = timer_c;
            branch.dialled = flow.dialled;
            branch.caller_cseq = caller_cseq;
        }
    }

    /// Handles the result of a branch's lookup.
    pub(super) fn on_branch_resolved(
        &mut self,
        env: &mut Env<'_>,
        transactions: &mut Transactions,
        id: BranchId,
        query: u64,
        servers: LocatedServers,
    ) {
        let (key, number) = id.parts();
        let Some(context) = self.contexts.get_mut(key) else { return };
        let Some(branch) = context.branches.get_mut(number) else { return };
        if branch.state != (BranchState::Resolving { query }) {
            return;
        }
        branch.state = BranchState::Done;
        let servers = failed_last(env, servers);
        let (reason, detail) = match servers.iter().count() {
            0 => (Reason::NotResolved, Detail::None),
            count => (Reason::Resolved, Detail::Count(count)),
        };
        decided::about(env, &self.contexts, key, reason, detail);
        if !self.send_to_first(env, transactions, id, servers)
            && let Some(context) = self.contexts.get_mut(key)
        {
            context.fail_branch(number, 480);
        }
        self.finish_if_done(env, transactions, key);
    }

    /// Sends a branch with the stored request.
    pub(super) fn send_stored(
        &mut self,
        env: &mut Env<'_>,
        transactions: &mut Transactions,
        id: BranchId,
        flow: Flow,
    ) {
        let (key, number) = id.parts();
        let Some(context) = self.contexts.get(key) else { return };
        let bytes = context.request.clone().unwrap_or_default();
        let media = context.branches.get(number).and_then(|branch| branch.media.as_deref());
        let changed = media.and_then(BranchMedia::sdp).and_then(|sdp| {
            let message = Message::parse(&bytes, &Limits::STORED).ok()?;
            Some(relays::with_sdp(&message, sdp))
        });
        let bytes = changed.as_deref().unwrap_or(&bytes);
        self.with_stored(env, key, bytes, |proxy, env, request, routed| {
            let branch = proxy.contexts.get(key).and_then(|context| context.branches.get(number));
            let Some(target) = branch.and_then(|branch| branch.target.as_deref()) else { return };
            let targets = Targets::of_one(target);
            if let Some(target) = targets.list().first() {
                let forwarding = Forwarding { request, routed, targets: &targets };
                let plan = Plan::new(env, forwarding, target, flow);
                proxy.send_branch(env, transactions, id, &plan);
            }
        });
    }

    /// Sends a branch whose pause has passed.
    pub(super) fn send_again(
        &mut self,
        env: &mut Env<'_>,
        transactions: &mut Transactions,
        id: BranchId,
        flow: Flow,
    ) {
        let Some(branch) = self.contexts.branch_mut(id) else { return };
        // It ends if it cannot be sent.
        branch.state = BranchState::Done;
        self.send_stored(env, transactions, id, flow);
        self.finish_if_done(env, transactions, id.context());
    }

    /// Calls `send` with the stored request of a context; `bytes` may have another SDP.
    pub(super) fn with_stored(
        &mut self,
        env: &mut Env<'_>,
        key: SlabKey,
        bytes: &[u8],
        send: impl for<'a> FnOnce(&mut Self, &mut Env<'_>, &Request<'_, 'a>, &Routed<'a>),
    ) {
        let Some(context) = self.contexts.get(key) else { return };
        let (flow, grant, call) = (context.source, context.grant, context.call.as_deref().copied());
        if let Ok(message) = &Message::parse(bytes, &Limits::STORED)
            && let Start::Request { method, uri } = *message.start()
            && let Ok(routed) = preprocess(env.config, &env.keys.route, message, uri)
        {
            let call = call.as_ref();
            let request = Request { message, method, uri, flow, peer: None, key: None, grant, call };
            send(self, env, &request, &routed);
        }
    }

    /// Sends a branch to the first of the servers that can be reached. False: there is none.
    pub(super) fn send_to_first(
        &mut self,
        env: &mut Env<'_>,
        transactions: &mut Transactions,
        id: BranchId,
        mut servers: LocatedServers,
    ) -> bool {
        let Some(context) = self.contexts.get_mut(id.context()) else { return false };
        match context.branches.get(id.parts().1).map(|branch| branch.authority) {
            Some(Authority::Number) => servers = number_lookup::permitted(env.config, &servers),
            Some(Authority::Redirected { by }) => servers = recursion::permitted(env.config, &servers, by),
            Some(Authority::Caller | Authority::Forward | Authority::CalledUser) | None => {}
        }
        let Some((current, flow)) = take_reachable(env, context.grant.reach, &mut servers) else {
            return false;
        };
        if let Some(branch) = self.contexts.branch_mut(id) {
            branch.servers = Some(Box::new(Servers { current, left: servers }));
        }
        self.send_stored(env, transactions, id, flow);
        true
    }

    /// Sends a branch that failed without any provisional response to the next server of its host. False: the branch has
    /// failed.
    ///
    /// The caller of a non-INVITE request has given up when a first server has timed out (RFC 4320 §4.2).
    pub(super) fn fail_over(
        &mut self,
        env: &mut Env<'_>,
        transactions: &mut Transactions,
        id: BranchId,
    ) -> bool {
        let Some(context) = self.contexts.get(id.context()) else { return false };
        if !context.may_replace_branch(env, transactions.is_answered(context.server)) {
            return false;
        }
        let Some(branch) = self.contexts.branch_mut(id) else { return false };
        let Some(servers) = branch.servers.as_deref().filter(|_| branch.state.awaits_first_response()) else {
            return false;
        };
        let left = failed_last(env, servers.left);
        if left.is_empty() {
            return false;
        }
        self.end_branch(env, id, CallResult::Other);
        decided::about(env, &self.contexts, id.context(), Reason::NextServer, Detail::None);
        let was_sent = self.send_to_first(env, transactions, id, left);
        env.counters.failovers += u64::from(was_sent);
        if was_sent {
            self.finish_if_done(env, transactions, id.context());
        }
        was_sent
    }

    /// Lets the stages go on with a branch that has ended; false: it has failed.
    pub(super) fn goes_on(
        &mut self,
        env: &mut Env<'_>,
        transactions: &mut Transactions,
        end: &BranchEnd<'_>,
    ) -> bool {
        let next = match self.call(env, transactions, end.id.context()) {
            Some(mut call) => stages::after(&mut call, end),
            None => Next::Pass,
        };
        let (id, key) = (end.id, end.id.context());
        match next {
            Next::Pass => return false,
            Next::Targets(targets) | Next::Redirected { targets, .. } => {
                self.close_branch(env, id, CallResult::Other, 480);
                groups::start_stored(self, env, transactions, key, targets);
            }
            Next::Again(flow, result) => {
                self.end_branch(env, id, result);
                self.send_stored(env, transactions, id, flow);
            }
            Next::Later(time, flow, result) => {
                self.end_branch(env, id, result);
                let query = self.lookups.pause(env.cx.now + time, id, flow);
                if let Some(branch) = self.contexts.branch_mut(id) {
                    branch.state = BranchState::Resolving { query };
                }
                return true;
            }
            Next::Fail(status, result) => {
                self.close_branch(env, id, result, end.status);
                self.on_branch_failure(env, transactions, id, status);
                return true;
            }
        }
        self.finish_if_done(env, transactions, key);
        true
    }

    /// A forwarded request, for the stages.
    pub(super) fn call<'c, 'e>(
        &'c mut self,
        env: &'c mut Env<'e>,
        transactions: &Transactions,
        key: SlabKey,
    ) -> Option<Call<'c, 'e>> {
        let context = self.contexts.get_mut(key)?;
        let is_answered = transactions.is_answered(context.server);
        Some(Call { env, context, key, pending: &mut self.pending, timers: &mut self.groups, is_answered })
    }

    /// Handles the end of a branch without a response to forward; `status` is the caller's response if no branch has a
    /// better one.
    pub(super) fn on_branch_failure(
        &mut self,
        env: &mut Env<'_>,
        transactions: &mut Transactions,
        id: BranchId,
        status: u16,
    ) {
        let (key, number) = id.parts();
        self.close_branch(env, id, CallResult::Other, status);
        if let Some(context) = self.contexts.get_mut(key) {
            context.fail_branch(number, status);
        }
        self.finish_if_done(env, transactions, key);
    }

    /// Ends a branch and its media.
    pub(super) fn close_branch(&mut self, env: &mut Env<'_>, id: BranchId, result: CallResult, status: u16) {
        self.end_branch(env, id, result);
        if let Some(context) = self.contexts.get_mut(id.context()) {
            relays::end(&mut env.cx, context, id, status);
        }
    }

    /// Ends a branch, its timer C, and its request's use of a call's connection.
    pub(super) fn end_branch(&mut self, env: &mut Env<'_>, id: BranchId, result: CallResult) {
        if let Some(branch) = self.contexts.branch_mut(id) {
            branch.state = BranchState::Done;
            self.timer_c.cancel(core::mem::replace(&mut branch.timer_c, TimerKey::NONE));
            env.end_call_request(core::mem::take(&mut branch.dialled), result);
        }
    }

    /// Cancels all running branches: the caller cancelled, or a response was chosen (RFC 3261 §16.7 step 10).
    pub(super) fn cancel_branches(
        &mut self,
        cx: &mut Context<'_, Action>,
        transactions: &mut Transactions,
        key: SlabKey,
        why: Option<&Arc<[u8]>>,
    ) {
        let Some(context) = self.contexts.get_mut(key) else { return };
        context.is_cancelled = true;
        if let Some(later) = context.later.take() {
            self.groups.cancel(later.timer);
        }
        if let Some(diversion) = context.diversion.take() {
            self.groups.cancel(diversion.timer);
        }
        for branch in &mut context.branches {
            match branch.state {
                // The caller gets the 2xx that waits for a relay.
                BranchState::Sent { .. }
                    if branch.media.as_ref().is_some_and(|media| media.holds_success()) => {}
                BranchState::Sent { client, .. } => {
                    if let Some(why) = why {
                        transactions.set_reason(client, why);
                    }
                    if !transactions.cancel(cx, client) {
                        branch.state = BranchState::Done;
                    }
                }
                BranchState::Resolving { query, .. } => {
                    self.lookups.end(query);
                    branch.state = BranchState::Done;
                    // The ports are not to wait for the end of the transaction.
                    if let Some(media) = branch.media.take_if(|media| media.is_unanswered()) {
                        cx.actions.push(media.delete());
                    }
                }
                BranchState::Superseded { .. } | BranchState::Done => {}
            }
        }
    }

    /// Cancels all pending INVITEs, and answers all callers without a final response with 503.
    pub(crate) fn give_up(&mut self, env: &mut Env<'_>, transactions: &mut Transactions) {
        for key in self.contexts.keys() {
            let Some(context) = self.contexts.get(key) else { continue };
            if !transactions.is_answered(context.server) {
                self.cancel_branches(&mut env.cx, transactions, key, None);
                self.answer_caller(env, transactions, key, 503, "Stopping");
            }
        }
    }

    /// Handles a CANCEL (RFC 3261 §9.2, §16.10) of the INVITE with the same branch. Only the previous hop of the INVITE
    /// may cancel it: a CANCEL from another address gets 481. It may come over another connection: requests match by their
    /// branch (§17.2.3), and a connection can be lost.
    pub(crate) fn on_cancel(
        &mut self,
        env: &mut Env<'_>,
        transactions: &mut Transactions,
        request: &Request<'_, '_>,
    ) {
        let is_same_hop = |reply: &Flow| {
            reply.transport == request.flow.transport && reply.remote.ip() == request.flow.remote.ip()
        };
        match transactions.cancelled_by(request.message) {
            Some((_, context, reply)) if is_same_hop(&reply) => {
                env.reply(request, 200, "OK", |_| {});
                // A stranger must not make phones forget a call that they missed.
                let is_believed =
                    self.contexts.get(context).is_some_and(|context| context.grant.sender.is_believed());
                let why = is_believed.then(|| cancel_reason::of(request.message)).flatten();
                self.cancel_context(env, transactions, context, why.as_ref());
            }
            _ => {
                env.decided(request, Reason::CancelUnknown, Detail::None);
                env.reply(request, 481, "Call/Transaction Does Not Exist", |_| {});
            }
        }
    }

    fn cancel_context(
        &mut self,
        env: &mut Env<'_>,
        transactions: &mut Transactions,
        key: SlabKey,
        why: Option<&Arc<[u8]>>,
    ) {
        let Some(context) = self.contexts.get(key) else { return };
        if !context.is_invite || transactions.is_answered(context.server) {
            return;
        }
        if !context.is_cancelled {
            self.observe_context(env, key, CallStep::Cancelled, None);
        }
        self.cancel_branches(&mut env.cx, transactions, key, why);
        self.finish_if_done(env, transactions, key);
    }

    /// Handles timer C (RFC 3261 §16.8): a ringing branch is cancelled, another one is given up.
    pub(super) fn on_timer_c(&mut self, env: &mut Env<'_>, transactions: &mut Transactions, id: BranchId) {
        let Some(branch) = self.contexts.branch_mut(id) else { return };
        branch.timer_c = TimerKey::NONE;
        let (client, rings) = match branch.state {
            BranchState::Sent { client, rings } => (client, rings),
            BranchState::Superseded { client } => (client, false),
            BranchState::Resolving { .. } | BranchState::Done => return,
        };
        env.counters.timer_c += 1;
        self.observe_context(env, id.context(), CallStep::TimedOut, None);
        let ends = transactions.cancel(&mut env.cx, client);
        if !rings || !ends {
            self.on_branch_failure(env, transactions, id, 408);
        }
    }

    /// Reports a step of a call whose request is stored, and the response that caused it.
    pub(super) fn observe_context(
        &self,
        env: &mut Env<'_>,
        key: SlabKey,
        step: CallStep,
        response: Option<&Message<'_>>,
    ) {
        lit::on_step(env, &self.contexts, key, step);
        match step {
            CallStep::Cancelled => decided::about(env, &self.contexts, key, Reason::Cancelled, Detail::None),
            CallStep::TimedOut => decided::about(env, &self.contexts, key, Reason::TimerC, Detail::None),
            _ => {}
        }
        let Some(context) = self.contexts.get(key).filter(|context| context.is_invite) else { return };
        let Some(message) = context.request.as_deref() else { return };
        let (sender, name) = (context.grant.sender.of_call(), context.call.as_deref());
        let event = CallEvent { response, name, ..CallEvent::stored(step, message, sender) };
        env.observe(&LogEvent::Call(event));
    }

    /// Ends a context whose server transaction has ended: no further response can be sent.
    pub(super) fn drop_context(&mut self, env: &mut Env<'_>, transactions: &mut Transactions, key: SlabKey) {
        if self.contexts.get(key).is_some_and(ResponseContext::is_unanswered) {
            self.observe_context(env, key, CallStep::Over, None);
        }
        let Some(context) = self.contexts.remove(key) else { return };
        self.pending.release(env, context.reserved, context.strangers_user);
        context.lit.iter().for_each(|lit| lamp::end_unanswered(env, lit));
        if let Some(later) = &context.later {
            self.groups.cancel(later.timer);
        }
        if let Some(diversion) = &context.diversion {
            self.groups.cancel(diversion.timer);
        }
        if let Some(user) = context.leaves_by {
            self.pending.end_leaving(user);
        }
        if let Some(waiting) = &context.waiting {
            self.groups.cancel(waiting.timer);
        }
        for branch in &context.branches {
            self.timer_c.cancel(branch.timer_c);
            env.end_call_request(branch.dialled, CallResult::Other);
            if let Some(media) = &branch.media {
                media.queries().for_each(|query| drop(self.lookups.end(query)));
                if media.ends_with_transaction() {
                    env.cx.actions.push(media.delete());
                }
            }
            // Its memory is not reserved any more.
            match branch.state {
                BranchState::Sent { client, .. } | BranchState::Superseded { client } => {
                    transactions.drop_client(client);
                }
                BranchState::Resolving { query, .. } => {
                    self.lookups.end(query);
                }
                BranchState::Done => {}
            }
        }
    }
}

fn refuse_now(env: &mut Env<'_>, request: &Request<'_, '_>, phrase: &str) {
    env.decided(request, Reason::OverLimit, Detail::Status(503, phrase));
    if request.method == Method::Invite {
        env.observe_call(request, CallStep::Failed(503));
    }
    env.reply(request, 503, phrase, |response| {
        response.header_number(HeaderName::RetryAfter, 5);
    });
}
