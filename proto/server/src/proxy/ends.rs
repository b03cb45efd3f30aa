//! Ends of branches and contexts: failure, the next server or target, timer C, CANCEL (RFC 3261 §16.7 to §16.10); BYEs, which end calls.

use super::Proxy;
use super::call::{Answer, BranchEnd, BranchNext, CallNext};
use super::context::{BranchState, ResponseContext};
use super::forward::server_at;
use super::reach::failed_last;
use super::stages::{self, Ended};
use super::states::KeptStates;
use crate::base::{BranchId, Env, Grant, Owner, Reach, Request, Sender, Transactions};
use crate::tables::{CallResult, paused_until};
use crate::{Action, CallEvent, CallStep, Config, Detail, FailedServers, LogEvent, Reason};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;
use ringway_sansio::{Context, Defence, Flow, PlantedFault, TimerKey, Transport};
use ringway_sip::{HeaderName, Message, Method};
use ringway_transaction::{Notice, SlabKey};

impl Proxy {
    /// Handles the branches whose timer C fired, and the groups whose time has passed.
    pub(crate) fn expire_branches(&mut self, env: &mut Env<'_>, transactions: &mut Transactions) {
        self.give_up_dials(env, transactions);
        while let Some(due) = self.timer_c.expire(env.cx.now) {
            self.on_timer_c(env, transactions, due);
        }
        while let Some(due) = self.groups.expire(env.cx.now) {
            let key = due.context();
            let next =
                self.decide(env, transactions, key, |call, forwarded| stages::on_time(call, forwarded, due));
            self.follow(env, transactions, key, next);
        }
    }

    /// Applies the effects of the transactions: notices about branches, and the end of contexts.
    pub(crate) fn apply(
        &mut self,
        env: &mut Env<'_>,
        transactions: &mut Transactions,
        notices: &mut Vec<Notice<Owner>>,
    ) {
        for notice in notices.drain(..) {
            let (client, owner, status) = match notice {
                Notice::ClientTimedOut { client, owner } => (client, owner, 408),
                // RFC 3261 §16.9 has 503 here; without another response the user is not reachable. A closed connection is
                // not dialled again: the peer's address may belong to another host by now.
                Notice::ClientUnreachable { client, owner } => (client, owner, 480),
            };
            let Owner::Branch(id) = owner else { continue };
            // That of an earlier server says nothing of the present one.
            if !self.contexts.branch_mut(id).is_some_and(|branch| branch.state.is_of(client)) {
                continue;
            }
            if self.sends_datagrams(env, transactions, id, status) {
                continue;
            }
            self.note_failed(env, id);
            let reason = if status == 408 { Reason::HopTimeout } else { Reason::HopUnreachable };
            self.contexts.decided(env, id.context(), reason, Detail::None);
            let is_over_flow =
                |context: &ResponseContext| context.is_over_flow() || env.config.is_link(&context.source);
            let flow_is_gone = status == 480 && self.contexts.get(id.context()).is_some_and(is_over_flow);
            let status = if flow_is_gone { 430 } else { status };
            let end = BranchEnd { id, status, response: None, is_superseded: false };
            if !self.fail_over(env, transactions, id) && !self.goes_on(env, transactions, &end) {
                self.on_branch_failure(env, transactions, id, status);
            }
        }
        while let Some(context) = transactions.take_gone() {
            if let Some(ended) = self.contexts.get(context) {
                ended.note_ended(env);
            }
            self.drop_context(env, transactions, context);
        }
    }

    /// Sends a request in a datagram that was too long for one, if no connection was established; the next hop gets no other one of its
    /// kind for an hour. What took the request and sent nothing back gets none either, but the caller has waited for too long.
    fn sends_datagrams(
        &mut self,
        env: &mut Env<'_>,
        transactions: &mut Transactions,
        id: BranchId,
        status: u16,
    ) -> bool {
        let Some(branch) = self.contexts.branch_mut(id) else { return false };
        let awaits = branch.state.awaits_first_response();
        let Some(over_tcp) = branch.over_tcp.take() else { return false };
        self.connecting.cancel(over_tcp.connecting);
        if !awaits {
            return false;
        }
        let flow = over_tcp.datagrams;
        let over = server_at(&Flow::dial(flow.listener, flow.remote));
        env.tables.note_without_tcp(env.cx.now, &over, env.cx.now + WITHOUT_TCP_TIME);
        let is_wanted = self
            .contexts
            .get(id.context())
            .is_some_and(|context| context.may_replace_branch(env, transactions.is_answered(context.server)));
        if status != 480 || !is_wanted {
            return false;
        }
        self.end_branch(env, id, CallResult::Other);
        if let Some(branch) = self.contexts.branch_mut(id) {
            branch.states.note_datagram();
        }
        self.send_stored(env, transactions, id, flow);
        self.finish_if_done(env, transactions, id.context());
        true
    }

    /// Gives up the connections of long requests that are not established in time; established ones stay, and those that others wait for.
    fn give_up_dials(&mut self, env: &mut Env<'_>, transactions: &Transactions) {
        while let Some(id) = self.connecting.expire(env.cx.now) {
            let Some(branch) = self.contexts.branch_mut(id) else { continue };
            let BranchState::Sent { client, rings } = branch.state else { continue };
            let Some(over_tcp) = &mut branch.over_tcp else { continue };
            over_tcp.connecting = TimerKey::NONE;
            if rings {
                continue;
            }
            let flow = over_tcp.datagrams;
            if let Some(listener) = env.config.listener_for(Transport::Tcp, flow.remote.ip()) {
                let dialled = Flow { host: flow.host, ..Flow::dial(listener, flow.remote) };
                env.cx.out.give_up_dial(dialled, transactions.token_of(client));
            }
        }
    }

    /// Notes that the server of a branch did not answer, so that other requests try it last.
    fn note_failed(&mut self, env: &Env<'_>, id: BranchId) {
        let Some(context) = self.contexts.get(id.context()) else { return };
        let branch = context.branches.get(id.parts().1);
        let Some(branch) = branch.filter(|branch| branch.state.awaits_first_response()) else { return };
        if let Some(servers) = &branch.servers {
            let until = env.cx.now + FailedServers::FAILED_TIME;
            env.tables.note_failed(env.cx.now, &servers.current, until);
        }
        if !stages::waits_for_phone(context) {
            stages::on_silence(env, branch);
        }
    }

    /// Notes the pause that the server of a branch asks for, so that other requests try it last (RFC 3261 §21.5.4).
    pub(super) fn note_pause(&self, env: &Env<'_>, id: BranchId, message: &Message<'_>, status: u16) {
        let Some(until) = paused_until(env.cx.now, message, status) else { return };
        let Some(context) = self.contexts.get(id.context()) else { return };
        let Some(branch) = context.branches.get(id.parts().1) else { return };
        if let Some(servers) = &branch.servers {
            env.tables.note_failed(env.cx.now, &servers.current, until);
        }
        stages::on_pause(env, branch, until);
    }

    /// Lets the stages go on with a branch that has ended; false: it has failed.
    pub(super) fn goes_on(
        &mut self,
        env: &mut Env<'_>,
        transactions: &mut Transactions,
        end: &BranchEnd<'_>,
    ) -> bool {
        let (id, key) = (end.id, end.id.context());
        if !self.contexts.get(key).is_some_and(|context| stages::may_go_on(env, context, id)) {
            return false;
        }
        let next = self.decide(env, transactions, key, |call, forwarded| stages::after(call, forwarded, end));
        match next {
            BranchNext::Pass => return false,
            BranchNext::Targets(targets) => {
                self.close_branch(env, id, CallResult::Other, 480);
                self.start_targets(env, transactions, key, targets);
            }
            BranchNext::Again(flow, result) => {
                self.end_branch(env, id, result);
                self.send_stored(env, transactions, id, flow);
            }
            BranchNext::Later(time, flow, result) => {
                self.end_branch(env, id, result);
                let query = self.lookups.pause(env.cx.now + time, id, flow);
                if let Some(branch) = self.contexts.branch_mut(id) {
                    branch.state = BranchState::Resolving { query };
                }
                return true;
            }
            BranchNext::Fail(status, result) => {
                self.end_branch(env, id, result);
                self.on_branch_failure(env, transactions, id, status);
                return true;
            }
        }
        self.finish_if_done(env, transactions, key);
        true
    }

    /// Does what a stage decided about a request, beside its branches.
    pub(super) fn follow(
        &mut self,
        env: &mut Env<'_>,
        transactions: &mut Transactions,
        key: SlabKey,
        next: CallNext,
    ) {
        match next {
            CallNext::Pass => return,
            CallNext::Targets(targets) => self.start_targets(env, transactions, key, targets),
            CallNext::Instead(targets) => {
                // The new branches come first, so that the context does not end when the others do.
                let branches = self.contexts.get(key).map_or(0, |context| context.branches.len());
                self.start_targets(env, transactions, key, targets);
                self.supersede(env, transactions, key, branches);
            }
            CallNext::Answer(answer) => return self.answer_caller(env, transactions, key, answer),
            CallNext::Taken(request) => {
                self.released.push(*request);
                if let Some(context) = self.contexts.get(key) {
                    transactions.drop_server(context.server);
                }
                return;
            }
        }
        self.finish_if_done(env, transactions, key);
    }

    /// Cancels the first `branches` branches without waiting for their responses.
    fn supersede(
        &mut self,
        env: &mut Env<'_>,
        transactions: &mut Transactions,
        key: SlabKey,
        branches: usize,
    ) {
        let Some(context) = self.contexts.get_mut(key) else { return };
        context.had_silent_group = true;
        for number in 0..branches {
            let id = BranchId::new(key, number);
            let Some(branch) = self.contexts.branch_mut(id) else { continue };
            stages::on_silence(env, branch);
            match branch.state {
                BranchState::Sent { client, .. } if transactions.cancel(&mut env.cx, client) => {
                    branch.state = BranchState::Superseded { client };
                }
                BranchState::Resolving { query } => {
                    self.lookups.end(query);
                    self.on_branch_failure(env, transactions, id, 480);
                }
                BranchState::Sent { .. } | BranchState::Superseded { .. } | BranchState::Done => {}
            }
        }
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
        self.contexts.decided(env, id.context(), Reason::NextServer, Detail::None);
        let was_sent = self.send_to_first(env, transactions, id, left);
        env.counters.failovers += u64::from(was_sent);
        if was_sent {
            self.finish_if_done(env, transactions, id.context());
        }
        was_sent
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

    /// Ends a branch, also for its stages.
    pub(super) fn close_branch(&mut self, env: &mut Env<'_>, id: BranchId, result: CallResult, status: u16) {
        self.end_branch(env, id, result);
        if let Some(context) = self.contexts.get_mut(id.context()) {
            stages::close_branch(env, context, id, status);
        }
    }

    /// Ends a branch, its timer C, and its request's use of a call's connection.
    pub(super) fn end_branch(&mut self, env: &mut Env<'_>, id: BranchId, result: CallResult) {
        if let Some(branch) = self.contexts.branch_mut(id) {
            branch.state = BranchState::Done;
            if let Some(over_tcp) = &mut branch.over_tcp {
                self.connecting.cancel(core::mem::replace(&mut over_tcp.connecting, TimerKey::NONE));
            }
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
        if !context.states.is_empty() {
            for timer in context.states.end_targets() {
                self.groups.cancel(timer);
            }
        }
        let count = if PlantedFault::CancelForgotten.is_planted() { 1 } else { context.branches.len() };
        for branch in context.branches.iter_mut().take(count) {
            match branch.state {
                // The caller gets the 2xx that waits for a stage.
                BranchState::Sent { .. } if branch.states.holds_success() => {}
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
                    stages::cancel_branch(cx, branch);
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
                self.answer_caller(env, transactions, key, Answer::new(503, "Stopping"));
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
            let is_same =
                reply.transport == request.flow.transport && reply.remote.ip() == request.flow.remote.ip();
            is_same || !Defence::CancelHop.is_on()
        };
        match transactions.cancelled_by(request.message) {
            Some((_, context, reply)) if is_same_hop(&reply) => {
                env.reply(request, 200, "OK", |_| {});
                // A stranger must not make phones forget a call that they missed.
                let is_believed =
                    self.contexts.get(context).is_some_and(|context| context.grant.sender.is_believed());
                let why = is_believed.then(|| cancel_reasons(request.message)).flatten();
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
            self.report_step(env, key, CallStep::Cancelled, None);
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
        self.report_step(env, id.context(), CallStep::TimedOut, None);
        let ends = transactions.cancel(&mut env.cx, client);
        if !rings || !ends {
            self.on_branch_failure(env, transactions, id, 408);
        }
    }

    /// Reports a step of a call whose request is stored, and the response that caused it.
    pub(super) fn report_step(
        &mut self,
        env: &mut Env<'_>,
        key: SlabKey,
        step: CallStep,
        response: Option<&Message<'_>>,
    ) {
        if let Some(context) = self.contexts.get_mut(key) {
            stages::on_step(env, context, step);
        }
        match step {
            CallStep::Cancelled => self.contexts.decided(env, key, Reason::Cancelled, Detail::None),
            CallStep::TimedOut => {
                env.counters.timer_c += 1;
                self.contexts.decided(env, key, Reason::TimerC, Detail::None);
            }
            _ => {}
        }
        let Some(context) = self.contexts.get(key).filter(|context| context.is_invite) else { return };
        let Some(message) = context.request.as_deref() else { return };
        let (sender, name) = (context.grant.sender.of_call(), context.call.as_deref());
        let flow = Some(context.source);
        let event = CallEvent { response, name, flow, ..CallEvent::stored(step, message, sender) };
        env.observe(&LogEvent::Call(event));
    }

    /// Ends a context whose server transaction has ended: no further response can be sent.
    pub(super) fn drop_context(&mut self, env: &mut Env<'_>, transactions: &mut Transactions, key: SlabKey) {
        if self.contexts.get(key).is_some_and(ResponseContext::is_unanswered) {
            self.report_step(env, key, CallStep::Over, None);
        }
        let is_cancelled = |context: &ResponseContext| context.is_cancelled;
        if PlantedFault::ContextKept.is_planted() && self.contexts.get(key).is_some_and(is_cancelled) {
            return;
        }
        let Some(mut context) = self.contexts.remove(key) else { return };
        if context.branches.len() < 2 || !PlantedFault::MemoryKept.is_planted() {
            self.pending.release(env, context.reserved, context.strangers_user);
        }
        if let Some(user) = context.leaves_by {
            self.pending.end_leaving(user);
        }
        stages::end(env, &mut self.lookups, &mut context);
        if !context.states.is_empty() {
            for timer in context.states.timers() {
                self.groups.cancel(timer);
            }
        }
        for branch in &context.branches {
            self.timer_c.cancel(branch.timer_c);
            if let Some(over_tcp) = &branch.over_tcp {
                self.connecting.cancel(over_tcp.connecting);
            }
            env.end_call_request(branch.dialled, CallResult::Other);
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

    /// Reports the end of a call, if the request of the context is a BYE that ends one with this final response.
    pub(super) fn report_bye(&self, env: &mut Env<'_>, key: SlabKey, status: u16) {
        let Some(context) = self.contexts.get(key) else { return };
        let bye = context.request.as_deref().filter(|request| request.starts_with(b"BYE "));
        let Some(message) = bye else { return };
        let (step, ended) = match effect(env.config, &context.grant, status) {
            Effect::Ends => (CallStep::Bye, Ended::Both),
            Effect::EndsForSender => (CallStep::ByeRefused(status), Ended::Sender),
            Effect::Nothing => return,
        };
        let sender = context.grant.sender.of_call();
        let (flow, name) = (Some(context.source), context.call.as_deref());
        let event = CallEvent { flow, name, ..CallEvent::stored(step, message, sender) };
        env.observe(&LogEvent::Call(event));
        stages::on_bye(env, message, ended);
    }
}

/// Handles a BYE that this server refuses because it has no room: its sender has hung up.
pub(super) fn on_unforwarded_bye(env: &mut Env<'_>, request: &Request<'_, '_>) {
    if request.method == Method::Bye && effect(env.config, &request.grant, 503) != Effect::Nothing {
        stages::on_bye(env, request.message.as_bytes(), Ended::Sender);
    }
}

/// Effect of a BYE with its final response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    Ends,
    /// Its sender has hung up, and the other side may lie.
    EndsForSender,
    Nothing,
}

/// RFC 3261 §15.1.1: a call ends by a BYE with 2xx, 481, 408 and silence; here also if a side cannot be reached any more. Another response ends
/// it for the sender of the BYE only, which sends nothing in the call from then on if it keeps to the RFC: it may also have provoked the
/// response, by an old CSeq number, and talk on.
///
/// The password of a user is no proof that a BYE goes to the other side of its call: only the mark of the dialog is, if this server
/// sets marks.
const fn effect(config: &Config, grant: &Grant, status: u16) -> Effect {
    let goes_to_side = match (grant.reach, grant.sender) {
        (Reach::Side(_) | Reach::User | Reach::Flow(_), _) | (_, Sender::Trusted | Sender::Believed) => true,
        // It returned to this server for the user of the side.
        _ if grant.dialog.is_some() => true,
        (Reach::Anywhere | Reach::OurUsers, _) => !config.record_route,
    };
    match status {
        _ if !goes_to_side => Effect::Nothing,
        200..=299 | 408 | 430 | 480 | 481 => Effect::Ends,
        300.. => Effect::EndsForSender,
        _ => Effect::Nothing,
    }
}

/// For the phones that did not answer: the call is none that was missed (RFC 3326 §3.1).
pub(super) const ELSEWHERE: &[u8] = b"SIP;cause=200;text=\"Call completed elsewhere\"\n";

/// Values of Reason in a CANCEL, to be copied (RFC 3326 §2). Long ones are left out.
fn cancel_reasons(cancel: &Message<'_>) -> Option<Arc<[u8]>> {
    let mut reasons = Vec::new();
    for value in cancel.lines_of(HeaderName::Reason) {
        let is_one_line = value.iter().all(|&byte| byte >= b' ' || byte == b'\t');
        if !is_one_line || reasons.len() + value.len() > REASON_BYTES_MAX {
            continue;
        }
        reasons.extend_from_slice(value);
        reasons.push(b'\n');
    }
    (!reasons.is_empty()).then(|| reasons.into())
}

/// Maximum bytes of the values of Reason that are copied.
const REASON_BYTES_MAX: usize = 512;

/// Time for which long requests go to a next hop in datagrams after no TCP connection was established.
const WITHOUT_TCP_TIME: Duration = Duration::from_secs(3600);
