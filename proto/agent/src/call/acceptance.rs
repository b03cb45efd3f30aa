//! A 2xx to an INVITE, from us, until its ACK (RFC 3261 §13.3.1.4). It is this layer that sends it again, over reliable
//! transports too, because only the ACK says that it arrived.
//!
//! ```text
//!   2xx sent ── T1, doubling up to T2: sent again ──┐
//!      │  ▲─────────────────────────────────────────┘
//!      │ ACK ──► done (its answer, where the 2xx had the offer)
//!      └ 64·T1 ──► BYE
//! ```

use crate::agent::Timer;
use crate::call::{CallId, CallState};
use crate::session::{Carried, NotAcceptable, carried};
use crate::{Action, AgentEvent, By, UserAgent};
use alloc::vec::Vec;
use core::time::Duration;
use ringway_sansio::{Context, TimerKey};
use ringway_sip::Message;
use ringway_transaction::ServerId;

/// A 2xx that waits for its ACK.
#[derive(Debug)]
pub(crate) struct Acceptance {
    server: ServerId,
    response: Vec<u8>,
    /// The INVITE's number, which its ACK has too.
    cseq: u32,
    accepting: Accepting,
    /// The 2xx had the offer.
    pub(crate) awaits_answer: bool,
    interval: Duration,
    repeat: TimerKey,
    give_up: TimerKey,
}

/// What was accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Accepting {
    /// The call.
    Call,
    /// A change of it.
    Change,
}

impl Acceptance {
    pub(crate) const fn new(
        server: ServerId,
        response: Vec<u8>,
        cseq: u32,
        accepting: Accepting,
        awaits_answer: bool,
    ) -> Self {
        Self {
            server,
            response,
            cseq,
            accepting,
            awaits_answer,
            interval: Duration::ZERO,
            repeat: TimerKey::NONE,
            give_up: TimerKey::NONE,
        }
    }
}

impl UserAgent {
    /// Sends the 2xx and begins to wait.
    pub(crate) fn begin_acceptance(
        &mut self,
        cx: &mut Context<'_, Action>,
        id: CallId,
        mut acceptance: Acceptance,
    ) {
        let response = &acceptance.response;
        self.transactions.respond(cx, acceptance.server, 200, |arena| {
            arena.extend_from_slice(response);
        });
        acceptance.interval = self.config.timers.t1;
        acceptance.repeat = self.wheel.arm(cx.now + acceptance.interval, Timer::RepeatSuccess(id));
        acceptance.give_up = self.wheel.arm(cx.now + self.config.timers.t1 * 64, Timer::GiveUpOnAck(id));
        self.end_acceptance(id);
        if let Some(call) = self.call_mut(id) {
            call.acceptance = Some(acceptance);
        }
    }

    pub(crate) fn repeat_success(&mut self, cx: &mut Context<'_, Action>, id: CallId) {
        let t2 = self.config.timers.t2;
        let Some(acceptance) =
            self.calls.get_mut(crate::request::key_of(id.0)).and_then(|call| call.acceptance.as_mut())
        else {
            return;
        };
        let response = &acceptance.response;
        self.transactions.respond(cx, acceptance.server, 200, |arena| {
            arena.extend_from_slice(response);
        });
        acceptance.interval = (acceptance.interval * 2).min(t2);
        acceptance.repeat = self.wheel.arm(cx.now + acceptance.interval, Timer::RepeatSuccess(id));
    }

    /// RFC 3261 §13.3.1.4: without an ACK the call is over, and the other side is told.
    pub(crate) fn give_up_on_ack(&mut self, cx: &mut Context<'_, Action>, id: CallId) {
        if self.call_at(id).is_some_and(|call| call.acceptance.is_some()) {
            self.counters.acks_missed += 1;
            self.end_acceptance(id);
            if self.call_state(id) == Some(CallState::Leaving) {
                return self.send_bye(cx, id);
            }
            self.leave(cx, id, 408, "the other side did not acknowledge our answer", By::Remote);
        }
    }

    /// An ACK. What it belongs to is known by its dialog and its number.
    pub(crate) fn on_ack(&mut self, cx: &mut Context<'_, Action>, message: &Message<'_>) {
        let found = self.call_of(message).filter(|&id| {
            let acceptance = self.call_at(id).and_then(|call| call.acceptance.as_ref());
            acceptance.is_some_and(|acceptance| acceptance.cseq == message.cseq().number)
        });
        let Some(id) = found else {
            self.counters.stray += 1;
            return;
        };
        let Some(acceptance) = self.end_acceptance(id) else { return };
        if self.call_state(id) == Some(CallState::Leaving) {
            // It was hung up on before; cx.now the other side may be told.
            return self.send_bye(cx, id);
        }
        if let Some(call) = self.call_mut(id).filter(|call| call.state == CallState::Accepted) {
            call.state = CallState::Established;
        }
        if acceptance.awaits_answer {
            self.on_answer_in_ack(cx, id, acceptance.accepting, message);
        }
        self.reconcile(cx, id);
    }

    /// Stops waiting; what was waited for is given back.
    pub(crate) fn end_acceptance(&mut self, id: CallId) -> Option<Acceptance> {
        let acceptance = self.call_mut(id)?.acceptance.take()?;
        self.wheel.cancel(acceptance.repeat);
        self.wheel.cancel(acceptance.give_up);
        Some(acceptance)
    }

    /// The answer to the offer that our 2xx had. Without one there is no session to speak of, and a call that cannot be
    /// agreed on is ended (RFC 3261 §14.2).
    fn on_answer_in_ack(
        &mut self,
        cx: &mut Context<'_, Action>,
        id: CallId,
        accepting: Accepting,
        message: &Message<'_>,
    ) {
        let body_bytes_max = self.config.limits.body_bytes_max;
        let Some(session) = self.call_mut(id).and_then(|call| call.session.as_mut()) else { return };
        let agreed = match carried(message, body_bytes_max) {
            Ok(Carried::Description(body)) => session.accept_answer(body),
            Ok(Carried::Nothing) => Err(NotAcceptable::missing("the ACK has no answer to our offer")),
            Err(why) => Err(why),
        };
        match agreed {
            Ok(params) => {
                let is_held = !params.direction.sends();
                cx.emit(match accepting {
                    Accepting::Call => AgentEvent::Answered { call: id, params },
                    Accepting::Change => AgentEvent::MediaChanged { call: id, params },
                });
                self.note_peer_hold(cx, id, is_held);
            }
            Err(why) => {
                self.counters.sessions_refused += 1;
                self.leave(cx, id, why.status, &why.reason, By::Local);
            }
        }
    }
}
