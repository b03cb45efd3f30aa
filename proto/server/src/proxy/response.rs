//! Answers on their way back (RFC 3261 §16.7).

use super::context::{Best, BranchId, BranchState};
use crate::server::Source;
use crate::{Action, CallStep, Server, Services};
use alloc::vec::Vec;
use core::time::Duration;
use ringway_sansio::{Context, Instant, TimerKey};
use ringway_sip::{Edit, HeaderName, Message, ResponseWriter};
use ringway_transaction::{ServerId, SlabKey};

impl<S: Services> Server<S> {
    /// A branch was answered.
    pub(crate) fn on_branch_response(
        &mut self,
        cx: &mut Context<'_, Action>,
        id: BranchId,
        source: &Source<'_>,
        message: &Message<'_>,
        status: u16,
    ) {
        let (key, number) = id.parts();
        let Some(context) = self.contexts.get(key) else { return };
        // RFC 3261 §16.7 step 3: a response whose only Via is ours is not forwarded. A final one ends its branch: its client
        // transaction is over, and nothing else would end the context.
        if message.values(HeaderName::Via).nth(1).is_none() {
            self.counters.without_next_via += 1;
            if status >= 200 {
                self.on_branch_failure(cx, id, 502);
            }
            return;
        }
        match status {
            100 => self.note_ringing(cx.now, key, number, status),
            101..=199 => {
                self.note_ringing(cx.now, key, number, status);
                self.forward_response(cx, key, source, message, status);
            }
            200..=299 => {
                let is_invite = context.is_invite;
                self.note_answer(key, number);
                self.forward_response(cx, key, source, message, status);
                if is_invite {
                    self.observe_context(cx.now, key, CallStep::Answered(status));
                    self.keep_caller(cx, key);
                    self.cancel_branches(cx, key);
                    self.forget_request(key);
                }
                self.give_back_answered(key, message.as_bytes().len());
            }
            _ => self.on_failure_response(cx, key, number, message, status),
        }
    }

    /// No dialog state is kept: the caller's connection counts as in use as long as its peer lives.
    fn keep_caller(&self, cx: &mut Context<'_, Action>, key: SlabKey) {
        if let Some(context) = self.contexts.get(key) {
            cx.out.keep(&context.source, Instant::FAR);
        }
    }

    /// A branch ended without an answer: 408 after a time-out.
    pub(crate) fn on_branch_failure(&mut self, cx: &mut Context<'_, Action>, id: BranchId, status: u16) {
        let (key, number) = id.parts();
        self.note_answer(key, number);
        self.note_failure(key, number, status);
        self.finish_if_done(cx, key);
    }

    fn on_failure_response(
        &mut self,
        cx: &mut Context<'_, Action>,
        key: SlabKey,
        number: usize,
        message: &Message<'_>,
        status: u16,
    ) {
        self.note_answer(key, number);
        let mut bytes = Vec::with_capacity(message.as_bytes().len());
        let mut edit = Edit::new(message, &mut self.space);
        edit.pop_first(HeaderName::Via);
        let readable = edit.write_into(&mut bytes).is_ok();
        let Some(context) = self.contexts.get_mut(key) else { return };
        if matches!(status, 401 | 407) {
            for name in [HeaderName::WwwAuthenticate, HeaderName::ProxyAuthenticate] {
                let mut bytes: usize = context.challenges.iter().map(|(_, value, _)| value.len()).sum();
                let values = message.lines_of(name).take(CHALLENGES_MAX).take_while(|value| {
                    bytes += value.len();
                    bytes <= CHALLENGE_BYTES_MAX
                });
                let challenges = values.map(|value| (name, value.to_vec(), number));
                context.challenges.extend(challenges);
            }
        }
        if readable {
            context.keep_better(Best { status, bytes, branch: number });
        }
        if status >= 600 {
            self.cancel_branches(cx, key);
        }
        self.finish_if_done(cx, key);
    }

    /// RFC 3261 §16.7 step 2: a provisional answer starts timer C anew, except 100.
    fn note_ringing(&mut self, now: Instant, key: SlabKey, number: usize, status: u16) {
        let length = self.config.timer_c;
        let Some(context) = self.contexts.get_mut(key) else { return };
        let ends = context.since + RINGING_MAX.max(length);
        let Some(branch) = context.branches.get_mut(number) else { return };
        if let BranchState::Sent { rings, .. } = &mut branch.state {
            *rings = true;
        }
        let until = (now + length).min(ends);
        if status > 100 && branch.timer_c != TimerKey::NONE && until > now {
            self.wheel.cancel(branch.timer_c);
            branch.timer_c = self.wheel.arm(until, BranchId::new(key, number));
        }
    }

    fn note_answer(&mut self, key: SlabKey, number: usize) {
        if let Some(branch) = self.branch_mut(key, number) {
            branch.state = BranchState::Done;
            let timer_c = core::mem::replace(&mut branch.timer_c, TimerKey::NONE);
            self.wheel.cancel(timer_c);
        }
    }

    /// Takes our Via off and passes a response on at once.
    fn forward_response(
        &mut self,
        cx: &mut Context<'_, Action>,
        key: SlabKey,
        source: &Source<'_>,
        message: &Message<'_>,
        status: u16,
    ) {
        let Some(context) = self.contexts.get(key) else { return };
        // RFC 4320 §4.1: the only provisional response to another request than INVITE is a late 100.
        if !context.is_invite && status < 200 {
            return;
        }
        let server = context.server;
        let Self { transactions, space, config, keys, .. } = self;
        let was_sent = transactions.forward(cx, server, status, |arena| {
            let mut edit = Edit::new(message, space);
            edit.pop_first(HeaderName::Via);
            super::remote_target::record(config, &keys.route, message, source, &mut edit);
            // What is added is not from the message, so nothing can be refused.
            let _ = edit.write_into(arena);
        });
        self.end_unanswered(server, status, was_sent);
    }

    /// Ends a server transaction whose final response could not be written: nothing else would.
    fn end_unanswered(&mut self, server: ServerId, status: u16, was_sent: bool) {
        if !was_sent && status >= 200 && !self.transactions.is_answered(server) {
            self.transactions.drop_server(server);
        }
    }

    /// When every branch is done, the best answer goes to the caller.
    pub(super) fn finish_if_done(&mut self, cx: &mut Context<'_, Action>, key: SlabKey) {
        let Some(context) = self.contexts.get_mut(key) else { return };
        if !context.is_done() || self.transactions.is_answered(context.server) {
            return;
        }
        let Some(mut best) = context.best.take() else {
            // Cancelled before anything was sent.
            return self.answer_caller(cx, key, 487, "Request Terminated");
        };
        // A caller that gave up is told so, whatever the silence of a target looks like.
        if context.is_cancelled && best.bytes.is_empty() {
            return self.answer_caller(cx, key, 487, "Request Terminated");
        }
        match (best.status, best.bytes.is_empty()) {
            // RFC 4320 §4.2: silence is the answer to a request whose client has given up too.
            (408, _) if !context.is_invite => {
                let server = context.server;
                self.transactions.drop_server(server);
            }
            (408, true) => self.answer_caller(cx, key, 408, "Request Timeout"),
            (480, true) => self.answer_caller(cx, key, 480, "Temporarily Unavailable"),
            // RFC 3261 §16.7 step 6: another server's overload is not ours.
            (503, _) => self.answer_caller(cx, key, 500, "Server Internal Error"),
            (status, true) => self.answer_caller(cx, key, status, "Failed"),
            (_, false) => {
                self.add_challenges(key, &mut best);
                self.pass_best(cx, key, &best);
            }
        }
    }

    /// RFC 3261 §16.7 step 7: a 401 or 407 carries the challenges of all branches.
    fn add_challenges(&mut self, key: SlabKey, best: &mut Best) {
        let Some(context) = self.contexts.get_mut(key) else { return };
        if !matches!(best.status, 401 | 407) {
            return;
        }
        let mut others = context.challenges.iter().filter(|(_, _, branch)| *branch != best.branch).peekable();
        if others.peek().is_none() {
            return;
        }
        let Ok(message) = Message::parse(&best.bytes, &self.config.message_limits) else { return };
        let mut edit = Edit::new(&message, &mut self.space);
        for (name, value, _) in others {
            edit.push_last(*name, |out| out.extend_from_slice(value));
        }
        let mut bytes = Vec::new();
        if edit.write_into(&mut bytes).is_ok() {
            best.bytes = bytes;
        }
    }

    fn pass_best(&mut self, cx: &mut Context<'_, Action>, key: SlabKey, best: &Best) {
        let Some(context) = self.contexts.get(key) else { return };
        let server = context.server;
        self.observe_context(cx.now, key, CallStep::Failed(best.status));
        let was_sent = self.transactions.forward(cx, server, best.status, |arena| {
            arena.extend_from_slice(&best.bytes);
        });
        self.end_unanswered(server, best.status, was_sent);
        self.forget_request(key);
        self.give_back_answered(key, best.bytes.len());
    }

    /// An answer of our own to a request that was being forwarded.
    pub(super) fn answer_caller(
        &mut self,
        cx: &mut Context<'_, Action>,
        key: SlabKey,
        status: u16,
        phrase: &str,
    ) {
        self.observe_context(cx.now, key, CallStep::Failed(status));
        self.note_answered(key);
        let Some(context) = self.contexts.get_mut(key) else { return };
        let request = context.request.take().unwrap_or_default();
        let (server, source) = (context.server, context.source.remote);
        let Ok(message) = Message::parse(&request, &self.config.message_limits) else {
            // Only a reload that allows less can have made it unreadable.
            return self.transactions.drop_server(server);
        };
        match status {
            480 => self.counters.not_registered += 1,
            _ => self.counters.refused += 1,
        }
        let tag = self.to_tag(&message);
        let was_sent = self.transactions.respond(cx, server, status, |arena| {
            let response = ResponseWriter::answer(arena, &message, status, phrase, source, Some(&tag));
            let _ = response.finish();
        });
        self.end_unanswered(server, status, was_sent);
        self.give_back_answered(key, message.as_bytes().len());
    }

    /// The request was answered for good: what is left of it only absorbs repetitions.
    fn forget_request(&mut self, key: SlabKey) {
        self.note_answered(key);
        if let Some(context) = self.contexts.get_mut(key) {
            context.request = None;
            context.best = None;
            context.challenges = Vec::new();
        }
    }
}

/// Longest time that provisional responses keep a branch of an INVITE; RFC 3261 §16.7 step 2 names none.
const RINGING_MAX: Duration = Duration::from_secs(3600);

/// Challenges kept of one branch.
const CHALLENGES_MAX: usize = 8;
/// Bytes of the challenges kept of all branches.
const CHALLENGE_BYTES_MAX: usize = 8192;
