//! Processing of responses (RFC 3261 §16.7).

use super::call::{Answer, BranchEnd, CallNext, Forwarded, MessageStep, Redirected};
use super::context::{Best, BranchState};
use super::forward::write_cseq;
use super::reach::WITHHELD;
use super::stages;
use super::{Proxy, ends};
use crate::base::{BranchId, Env, Grant, Keys, Reach, Response, Step, Transactions};
use crate::dialog::edge;
use crate::tables::CallResult;
use crate::token::sender::as_its_sender_has;
use crate::{CallStep, Detail, Reason, dialog};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;
use ringway_sansio::{Flow, Instant, PlantedFault, TimerKey};
use ringway_sip::{Edit, HeaderName, Limits, Message, MessageWriter, Method};
use ringway_transaction::{ServerId, SlabKey, to_tag};

impl Proxy {
    /// Handles the response of a branch, unless a stage holds it.
    pub(crate) fn on_branch_response(
        &mut self,
        env: &mut Env<'_>,
        transactions: &mut Transactions,
        id: BranchId,
        response: &Response<'_, '_>,
    ) {
        let Some(branch) = self.contexts.branch_mut(id) else { return };
        if branch.over_tcp.is_some() || branch.came.is_some() || stages::may_change_response(env, branch) {
            self.on_response_to_other(env, transactions, id, response);
        } else {
            self.on_any_response(env, transactions, id, response);
        }
    }

    /// The same for a request that was sent over TCP for its length, or has another header field than the caller's, and for a response that a
    /// stage changes.
    #[cold]
    fn on_response_to_other(
        &mut self,
        env: &mut Env<'_>,
        transactions: &mut Transactions,
        id: BranchId,
        response: &Response<'_, '_>,
    ) {
        let Some(branch) = self.contexts.branch_mut(id) else { return };
        // The dialog stays on the transport of its URIs, whatever the length of this request.
        let sent_to = branch.over_tcp.as_ref().map(|over_tcp| over_tcp.datagrams);
        let response = &Response { sent_to: sent_to.as_ref().or(response.sent_to), ..*response };
        let topology = stages::topology_of(env, Some(branch));
        let call_id = topology.and_then(|topology| topology.call_id());
        let changed = stages::as_received(env, Some(branch), response);
        let parsed = match &changed {
            Some(bytes) => Message::parse(bytes, &Limits::STORED).ok(),
            None => None,
        };
        if changed.is_some() && parsed.is_none() {
            return;
        }
        let message = parsed.as_ref().unwrap_or(response.message);
        let inside = call_id.as_deref().map(|call_id| message.with_call_id(call_id));
        let message = inside.as_ref().unwrap_or(message);
        self.on_any_response(env, transactions, id, &Response { message, ..*response });
    }

    /// Handles a response whose header fields are the caller's.
    fn on_any_response(
        &mut self,
        env: &mut Env<'_>,
        transactions: &mut Transactions,
        id: BranchId,
        response: &Response<'_, '_>,
    ) {
        let Some(context) = self.contexts.get_mut(id.context()) else { return };
        match stages::on_message(env, context, &mut self.lookups, id, response) {
            MessageStep::Pass => self.pass_response(env, transactions, id, response),
            MessageStep::Replace(bytes) => self.on_replaced(env, transactions, id, response, &bytes),
            MessageStep::Wait => {}
        }
    }

    /// Handles a response in place of the one that came.
    pub(super) fn on_replaced(
        &mut self,
        env: &mut Env<'_>,
        transactions: &mut Transactions,
        id: BranchId,
        response: &Response<'_, '_>,
        bytes: &[u8],
    ) {
        match Message::parse(bytes, &Limits::STORED) {
            Ok(message) => {
                self.on_passed(env, transactions, id, &Response { message: &message, ..*response });
            }
            Err(_) => self.on_passed(env, transactions, id, response),
        }
    }

    /// Handles a response that no stage holds any more.
    pub(super) fn on_passed(
        &mut self,
        env: &mut Env<'_>,
        transactions: &mut Transactions,
        id: BranchId,
        response: &Response<'_, '_>,
    ) {
        let topology = stages::topology_of(env, self.contexts.branch(id));
        let call_id = topology.and_then(|topology| topology.call_id());
        let inside = call_id.as_deref().map(|call_id| response.message.with_call_id(call_id));
        let message = inside.as_ref().unwrap_or(response.message);
        self.pass_response(env, transactions, id, &Response { message, ..*response });
    }

    /// Handles a response that no stage holds, with the Call-ID of inside.
    fn pass_response(
        &mut self,
        env: &mut Env<'_>,
        transactions: &mut Transactions,
        id: BranchId,
        response: &Response<'_, '_>,
    ) {
        let key = id.context();
        let Some(context) = self.contexts.get(key) else { return };
        let (message, status) = (response.message, response.status);
        // RFC 3261 §16.7 step 3: a response whose only Via is ours is not forwarded. A final one ends its branch: its
        // client transaction is over, and nothing else would end the context.
        let shows = || stages::topology_of(env, self.contexts.branch(id)).is_some_and(|it| it.shows());
        if message.has_one_via() && !shows() {
            env.counters.without_next_via += 1;
            if status >= 200 {
                self.on_branch_failure(env, transactions, id, 502);
            }
            return;
        }
        stages::on_response(env, context, id, status);
        match status {
            // A target that was superseded is not to be heard of again before its final response.
            ..200 if context.is_superseded(id) => {}
            100 => {
                let branch = context.branches.get(id.parts().1);
                if branch.is_some_and(|branch| branch.state.awaits_first_response()) {
                    self.answer_first_response(env, transactions, key);
                }
                self.note_ringing(env, id, status);
            }
            101..=199 => {
                self.note_ringing(env, id, status);
                self.report_step(env, key, CallStep::Ringing(status), Some(message));
                self.forward_response(env, transactions, id, response);
            }
            200..=299 => {
                let (is_invite, source) = (context.is_invite, context.source);
                self.note_moves(env, key, response);
                if let Some(context) = self.contexts.get_mut(key) {
                    stages::on_success(env, context, id, message);
                }
                self.end_branch(env, id, CallResult::of(is_invite, status));
                self.forward_response(env, transactions, id, response);
                if message.method() == Method::Register {
                    self.on_registered(env, key, &source);
                }
                if is_invite {
                    self.report_step(env, key, CallStep::Answered(status), Some(message));
                    if let Some(context) = self.contexts.get(key) {
                        stages::on_answer(env, context, id, message);
                    }
                    // There is no dialog state: the caller's connection counts as in use until its peer closes it.
                    env.cx.out.keep(&source, Instant::FAR);
                    let elsewhere =
                        (self.contexts.get(key).is_some_and(|context| context.branches.len() > 1))
                            .then(|| Arc::from(ends::ELSEWHERE));
                    if !PlantedFault::RingsOn.is_planted() {
                        self.cancel_branches(&mut env.cx, transactions, key, elsewhere.as_ref());
                    }
                    self.contexts.forget_request(key);
                }
                match message.method() {
                    Method::Bye => self.report_bye(env, key, status),
                    Method::Invite | Method::Update => stages::on_refresh(env, message),
                    _ => {}
                }
                self.shrink_answered(env, key, message.as_bytes().len());
            }
            _ => self.on_failure_response(env, transactions, id, response),
        }
        if status >= 200 && message.method() == Method::Bye {
            if let Some(context) = self.contexts.get_mut(key) {
                stages::close_branch(env, context, id, status);
            }
            env.end_call_dialog(message);
        }
    }

    /// Notes where the sides of a dialog are after a 2xx.
    fn note_moves(&mut self, env: &mut Env<'_>, key: SlabKey, response: &Response<'_, '_>) {
        let Some(context) = self.contexts.get(key) else { return };
        if changes_dialog(env, &context.grant, response.message.method()) {
            let bytes = context.request.clone().unwrap_or_default();
            self.with_stored(env, key, &bytes, |_, env, request, routed| {
                dialog::on_success(env, request, routed, response);
            });
        }
    }

    /// Notes that a phone registered through this server.
    fn on_registered(&mut self, env: &mut Env<'_>, key: SlabKey, source: &Flow) {
        // Its registrar decides when its connection ends.
        let longest = Duration::from_secs(u64::from(env.config.registrar.max_expires_s));
        env.cx.out.keep(source, env.cx.now + longest);
        if !env.config.edge_domains.is_empty() {
            let request = self.contexts.get(key).and_then(|context| context.request.clone());
            self.with_stored(env, key, &request.unwrap_or_default(), |_, env, request, routed| {
                edge::on_registered(env, request, routed);
            });
        }
    }

    fn on_failure_response(
        &mut self,
        env: &mut Env<'_>,
        transactions: &mut Transactions,
        id: BranchId,
        response: &Response<'_, '_>,
    ) {
        let (key, number) = id.parts();
        let (message, status) = (response.message, response.status);
        self.note_pause(env, id, message, status);
        let is_superseded = self.contexts.get(key).is_some_and(|context| context.is_superseded(id));
        let end = BranchEnd { id, status, response: Some(response), is_superseded };
        if (status == 503 && self.fail_over(env, transactions, id)) || self.goes_on(env, transactions, &end) {
            return;
        }
        self.close_branch(env, id, CallResult::of(false, status), status);
        let branch = self.contexts.branch_mut(id);
        let caller_cseq = branch.as_ref().and_then(|branch| branch.caller_cseq);
        let is_of_binding = branch.is_some_and(|branch| branch.is_of_binding);
        // The response to our own CANCEL: for the caller the target has not answered. A 430 says something to the registrar's proxy only
        // (RFC 5626 §11.5): for the caller the phone is not reachable.
        if (is_superseded && status == 487) || (status == 430 && is_of_binding) {
            return self.on_branch_failure(env, transactions, id, 480);
        }
        let redirected = match self.contexts.get(key).is_some_and(stages::may_add) {
            true => {
                self.decide(env, transactions, key, |call, forwarded| stages::failed(call, forwarded, &end))
            }
            false => None,
        };
        let uncalled = redirected.map(|Redirected { targets, uncalled }| {
            self.start_targets(env, transactions, key, targets);
            uncalled
        });
        let mut bytes = Vec::with_capacity(message.as_bytes().len());
        let mut edit = Edit::new(message, &mut self.space);
        edit.pop_first(HeaderName::Via);
        if let Some(topology) = stages::topology_of(env, self.contexts.branch(id)) {
            topology.show(&mut edit);
        }
        restore_cseq(&mut edit, message, caller_cseq);
        if let Some(uncalled) = &uncalled {
            edit.remove_lines(HeaderName::Contact, |_| true);
            for contact in uncalled {
                edit.push_last(HeaderName::Contact, |out| out.extend_from_slice(contact));
            }
        }
        let is_readable = edit.write_into(&mut bytes).is_ok();
        let Some(context) = self.contexts.get_mut(key) else { return };
        if matches!(status, 401 | 407) {
            context.keep_challenges(message, number);
        }
        if is_readable && uncalled.is_none_or(|uncalled| !uncalled.is_empty()) {
            context.keep_better(Best { status, bytes, branch: number, phrase: "" });
        }
        if status >= 600 {
            self.cancel_branches(&mut env.cx, transactions, key, None);
        }
        self.finish_if_done(env, transactions, key);
    }

    /// Handles a final response of this length to the caller. If no branch needs the request any more, most of its memory
    /// is released; the request counts until its context ends.
    pub(super) fn shrink_answered(&mut self, env: &Env<'_>, key: SlabKey, response: usize) {
        let Some(context) = self.contexts.get_mut(key) else { return };
        let user = context.strangers_user.take();
        if context.reserved.is_open && context.is_done() {
            context.reserved.is_open = false;
            env.tables.answered(context.reserved.payer);
        }
        let held = context.answer_info.len() + stages::held_bytes(env, &context.branches);
        let kept = ANSWERED_BYTES + response + held;
        // For a short INVITE of a sender with a password it is not worth a lock: such callers are few.
        let is_worth_it = !context.grant.sender.is_believed()
            || !context.is_invite
            || context.reserved.bytes > kept + SHRUNK_BYTES_MIN;
        if is_worth_it && context.is_done() && context.reserved.bytes > kept {
            let given = context.reserved.bytes - kept;
            context.reserved.bytes = kept;
            env.tables.shrink(context.reserved.payer, given);
        }
        if let Some(user) = user {
            self.pending.end(user);
        }
    }

    /// RFC 3261 §16.7 step 2: a provisional response restarts timer C, except 100.
    fn note_ringing(&mut self, env: &Env<'_>, id: BranchId, status: u16) {
        let (now, timer_c) = (env.cx.now, env.config.timer_c);
        let (key, number) = id.parts();
        let Some(context) = self.contexts.get_mut(key) else { return };
        let timers = &mut self.groups;
        stages::on_provisional(env, &mut Forwarded { context, key, timers, is_answered: false }, id, status);
        let ends = context.since + RINGING_MAX.max(timer_c);
        let Some(branch) = context.branches.get_mut(number) else { return };
        if let BranchState::Sent { rings, .. } = &mut branch.state {
            *rings = true;
        }
        let until = (now + timer_c).min(ends);
        if status > 100 && branch.timer_c != TimerKey::NONE && until > now {
            self.timer_c.cancel(branch.timer_c);
            branch.timer_c = self.timer_c.arm(until, id);
        }
    }

    /// Removes our Via and forwards a response at once.
    fn forward_response(
        &mut self,
        env: &mut Env<'_>,
        transactions: &mut Transactions,
        id: BranchId,
        response: &Response<'_, '_>,
    ) {
        let Some(context) = self.contexts.get(id.context()) else { return };
        let status = response.status;
        // RFC 4320 §4.1: the only provisional response to a non-INVITE request is a late 100.
        if !context.is_invite && status < 200 {
            return;
        }
        let (server, space) = (context.server, &mut self.space);
        let number = context.branches.get(id.parts().1).and_then(|branch| branch.caller_cseq);
        let info = if status >= 200 { &*context.answer_info } else { &[] };
        let (source, branch) = (context.source, context.branches.get(id.parts().1));
        let (border, mut skipped) = (stages::border_of_response(env, &source), 0);
        let topology = stages::topology_of(env, branch);
        let steps = &mut env.input.steps;
        let was_sent = transactions.forward(&mut env.cx, server, status, |arena| {
            steps.mark(Step::Rest);
            let start = arena.len();
            let mut edit = Edit::new(response.message, space);
            edit.pop_first(HeaderName::Via);
            restore_cseq(&mut edit, response.message, number);
            dialog::record(env.config, &env.keys.route, response, &mut edit);
            if let Some(topology) = &topology {
                topology.show(&mut edit);
                topology.hide(&source, response.message, &mut edit);
            }
            if !info.is_empty() {
                edit.push_last(HeaderName::ProxyAuthenticationInfo, |out| out.extend_from_slice(info));
            }
            // Added values do not come from the message, so none is rejected.
            let _ = edit.write_into(arena);
            if !border.is_without_rules() {
                skipped = border.apply(env.config, start, arena);
            }
            steps.mark(Step::Format);
        });
        env.counters.header_changes_skipped += skipped;
        end_unanswered(transactions, server, status, was_sent);
    }

    /// Sends the best response to the caller after every branch is done.
    pub(super) fn finish_if_done(
        &mut self,
        env: &mut Env<'_>,
        transactions: &mut Transactions,
        key: SlabKey,
    ) {
        while let Some(context) = self.contexts.get(key)
            && stages::may_follow(&context.states)
            && context.may_go_on()
            && !transactions.is_answered(context.server)
        {
            match self.decide(env, transactions, key, stages::over) {
                CallNext::Pass => break,
                CallNext::Targets(targets) => self.start_targets(env, transactions, key, targets),
                next => return self.follow(env, transactions, key, next),
            }
        }
        let Some(context) = self.contexts.get_mut(key) else { return };
        let is_early = PlantedFault::EarlyFailure.is_planted() && context.best().is_some();
        if !(context.is_done() || is_early) || transactions.is_answered(context.server) {
            return;
        }
        let Some(best) = context.take_best() else {
            // Cancelled before a branch was sent.
            return self.answer_caller(env, transactions, key, Answer::new(487, "Request Terminated"));
        };
        // A caller that cancelled gets 487, also if the targets time out.
        if context.is_cancelled && best.bytes.is_empty() {
            return self.answer_caller(env, transactions, key, Answer::new(487, "Request Terminated"));
        }
        let (is_invite, server) = (context.is_invite, context.server);
        let (status, phrase) = match (best.status, best.bytes.is_empty()) {
            // RFC 4320 §4.2: no response is sent, because the request's client has timed out too.
            (408, _) if !is_invite => {
                self.report_bye(env, key, 408);
                self.contexts.decided(env, key, Reason::NoResponse, Detail::None);
                return transactions.drop_server(server);
            }
            (403, true) => (403, best.phrase),
            (408, true) => (408, "Request Timeout"),
            (480, true) => (480, "Temporarily Unavailable"),
            (430, true) => (430, "Flow Failed"),
            (488, true) => (488, "Not Acceptable Here"),
            // RFC 7339 §5.10: without Retry-After.
            (503, true) if best.phrase == WITHHELD => (503, WITHHELD),
            // RFC 3261 §16.7 step 6: the 503 of another server is not forwarded.
            (503, _) => (500, "Server Internal Error"),
            (status, true) => (status, "Failed"),
            (_, false) => return self.pass_best(env, transactions, key, best),
        };
        self.answer_caller(env, transactions, key, Answer::new(status, phrase));
    }

    /// RFC 3261 §16.7 step 7: a 401 or 407 has the challenges of all branches. Any response has Proxy-Authentication-Info for
    /// credentials that get one.
    fn add_to_best(&mut self, key: SlabKey, best: &mut Best) {
        let Some(context) = self.contexts.get(key) else { return };
        let is_challenge = matches!(best.status, 401 | 407);
        let others = context.challenges_of_others(best.branch).filter(|_| is_challenge);
        let info = Some(&*context.answer_info).filter(|info| !info.is_empty());
        let info = info.map(|info| (HeaderName::ProxyAuthenticationInfo, info));
        let mut added = others.chain(info).peekable();
        if added.peek().is_none() {
            return;
        }
        let Ok(message) = Message::parse(&best.bytes, &Limits::STORED) else { return };
        let mut edit = Edit::new(&message, &mut self.space);
        for (name, value) in added {
            edit.push_last(name, |out| out.extend_from_slice(value));
        }
        let mut bytes = Vec::new();
        if edit.write_into(&mut bytes).is_ok() {
            best.bytes = bytes;
        }
    }

    fn pass_best(
        &mut self,
        env: &mut Env<'_>,
        transactions: &mut Transactions,
        key: SlabKey,
        mut best: Best,
    ) {
        self.add_to_best(key, &mut best);
        let Some(context) = self.contexts.get(key) else { return };
        let server = context.server;
        let border = stages::border_of_response(env, &context.source);
        if let Some(topology) = stages::topology_of(env, context.branches.get(best.branch))
            && topology.hides()
            && let Ok(message) = &Message::parse(&best.bytes, &Limits::STORED)
        {
            let (mut edit, mut bytes) = (Edit::new(message, &mut self.space), Vec::new());
            topology.hide(&context.source, message, &mut edit);
            // Added values do not come from the message, so none is rejected.
            let _ = edit.write_into(&mut bytes);
            best.bytes = bytes;
        }
        if !border.is_without_rules() {
            env.counters.header_changes_skipped += border.apply(env.config, 0, &mut best.bytes);
        }
        self.report_end(env, key, best.status, "");
        let was_sent = transactions.forward(&mut env.cx, server, best.status, |arena| {
            arena.extend_from_slice(&best.bytes);
        });
        end_unanswered(transactions, server, best.status, was_sent);
        self.contexts.forget_request(key);
        self.shrink_answered(env, key, best.bytes.len());
    }

    /// Reports the end of a call; that of one whose caller cancelled it was reported then.
    fn report_end(&mut self, env: &mut Env<'_>, key: SlabKey, status: u16, phrase: &str) {
        let Some(context) = self.contexts.get(key) else { return };
        if context.is_invite {
            let is_over = status == 487 && context.is_cancelled;
            let step = if is_over { CallStep::Over } else { CallStep::Failed(status) };
            self.report_step(env, key, step, None);
        } else {
            self.report_bye(env, key, status);
        }
        self.contexts.decided(env, key, Reason::BestResponse, Detail::Status(status, phrase));
    }

    /// Answers a forwarded request with a locally generated response.
    pub(super) fn answer_caller(
        &mut self,
        env: &mut Env<'_>,
        transactions: &mut Transactions,
        key: SlabKey,
        Answer { status, phrase, reason, retry_after_s }: Answer,
    ) {
        if let Some(reason) = reason {
            self.contexts.decided(env, key, reason, Detail::None);
        }
        self.report_end(env, key, status, phrase);
        self.contexts.note_answered(key);
        let Some(context) = self.contexts.get_mut(key) else { return };
        let request = context.request.take().unwrap_or_default();
        let (server, flow, source) = (context.server, context.source, context.source.remote);
        let Ok(message) = Message::parse(&request, &Limits::STORED) else {
            return transactions.drop_server(server);
        };
        match status {
            404 => env.counters.not_found += 1,
            480 => env.counters.not_registered += 1,
            430 => env.counters.flows_gone += 1,
            _ => env.counters.refused += 1,
        }
        let tag = to_tag(&env.keys.tag, &message);
        let info = &*context.answer_info;
        let Keys { route, hidden, .. } = env.keys;
        let was_sent = as_its_sender_has(env.config, route, hidden, &message, &flow, |message| {
            transactions.respond(&mut env.cx, server, status, |arena| {
                let mut response = MessageWriter::answer(arena, message, status, phrase, source, Some(&tag));
                if !info.is_empty() {
                    response.header(HeaderName::ProxyAuthenticationInfo, info);
                }
                if let Some(after_s) = retry_after_s {
                    response.header_number(HeaderName::RetryAfter, after_s);
                }
                let _ = response.finish();
            })
        });
        end_unanswered(transactions, server, status, was_sent);
        self.shrink_answered(env, key, message.as_bytes().len());
    }
}

/// True if the 2xx to a request changes what is known of its dialog.
fn changes_dialog(env: &Env<'_>, grant: &Grant, method: Method<'_>) -> bool {
    let changes = match method {
        Method::Invite | Method::Update | Method::Subscribe | Method::Notify => true,
        Method::Bye => env.tables.has_moved_sides(),
        _ => false,
    };
    changes && grant.dialog.is_some() && matches!(grant.reach, Reach::Side(_) | Reach::User)
}

/// Sets the number of the caller's CSeq in a response to a request that had another one.
fn restore_cseq(edit: &mut Edit<'_, '_>, message: &Message<'_>, caller_cseq: Option<u32>) {
    if let Some(number) = caller_cseq {
        write_cseq(edit, number, message.cseq().method);
    }
}

/// Ends a server transaction whose final response could not be written.
fn end_unanswered(transactions: &mut Transactions, server: ServerId, status: u16, was_sent: bool) {
    if !was_sent && status >= 200 && !transactions.is_answered(server) {
        transactions.drop_server(server);
    }
}

/// Maximum time that provisional responses extend an INVITE's branch; RFC 3261 §16.7 step 2 has none.
const RINGING_MAX: Duration = Duration::from_secs(3600);
const SHRUNK_BYTES_MIN: usize = 16_384;
/// Bytes of an answered request without its response.
const ANSWERED_BYTES: usize = 1024;
