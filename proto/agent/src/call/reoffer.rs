//! Changes of a session that we want (RFC 3261 §14.1): hold and resume by another INVITE.
//!
//! ```text
//!             wanted differs from reached            2xx: ACK, MediaChanged
//!   Nothing ──────────────────────────────► Sent ─────────────────────────► Nothing
//!      ▲                                    │  │ 4xx-6xx: ChangeRefused         ▲
//!      │        its time                    │  └────────────────────────────────┘
//!      └────────────────────── Waiting ◄────┘ 491
//! ```
//!
//! What cannot be sent is told as a refusal too, with 503.
//!
//! The program says what it wants, not what is to be sent: whatever was under way, [`UserAgent::reconcile`] brings the two
//! together when it may.

use crate::agent::Timer;
use crate::call::outgoing::abilities;
use crate::call::{CallError, CallId, CallState, Role};
use crate::request::{Answer, Body, ContactField, Purpose, Request, key_of};
use crate::session::{Carried, NotAcceptable, SDP, carried};
use crate::{Action, AgentEvent, By, UserAgent};
use core::time::Duration;
use ringway_sansio::{Context, TimerKey};
use ringway_sdp::{Direction, MediaParams};
use ringway_sip::{Message, Method};
use ringway_transaction::SlabKey;

/// A change of ours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Reoffer {
    /// None is under way.
    #[default]
    Nothing,
    /// An INVITE waits for its answer.
    Sent {
        /// Whether it puts the call on hold.
        hold: bool,
        retries: u8,
    },
    /// It met one of the other side's, and is tried again (RFC 3261 §14.1).
    Waiting { timer: TimerKey, retries: u8 },
}

impl UserAgent {
    /// Puts a call on hold: the other side is asked to send nothing. The answer comes as `MediaChanged` or
    /// `ChangeRefused`.
    pub fn hold(&mut self, cx: &mut Context<'_, Action>, call: CallId) -> Result<(), CallError> {
        self.want_hold(cx, call, true)
    }

    /// Takes a call up again.
    pub fn resume(&mut self, cx: &mut Context<'_, Action>, call: CallId) -> Result<(), CallError> {
        self.want_hold(cx, call, false)
    }

    /// Says whether a call that was protected may go on unprotected, should the other side want that. At first it may not.
    pub fn allow_unprotected(&mut self, call: CallId, allowed: bool) -> Result<(), CallError> {
        let call = self.call_mut(call).ok_or(CallError::NoCall)?;
        call.session.as_mut().ok_or(CallError::WrongState)?.allow_unprotected(allowed);
        Ok(())
    }

    fn want_hold(&mut self, cx: &mut Context<'_, Action>, id: CallId, wanted: bool) -> Result<(), CallError> {
        let added_from = cx.out.len();
        let call = self.call_mut(id).ok_or(CallError::NoCall)?;
        if !matches!(call.state, CallState::Established | CallState::Accepted) {
            return Err(CallError::WrongState);
        }
        call.hold.wanted = wanted;
        self.reconcile(cx, id);
        self.settle(cx, added_from);
        Ok(())
    }

    /// Sends the change that is wanted, if there is one and none is under way.
    pub(crate) fn reconcile(&mut self, cx: &mut Context<'_, Action>, id: CallId) {
        self.offer_again(cx, id, 0);
    }

    pub(crate) fn on_glare_timer(&mut self, cx: &mut Context<'_, Action>, id: CallId) {
        let Some(call) = self.call_mut(id) else { return };
        let Reoffer::Waiting { retries, .. } = call.reoffer else { return };
        call.reoffer = Reoffer::Nothing;
        self.offer_again(cx, id, retries);
    }

    fn offer_again(&mut self, cx: &mut Context<'_, Action>, id: CallId, retries: u8) {
        let Some(call) = self.call_mut(id) else { return };
        let is_free = call.state == CallState::Established
            && call.acceptance.is_none()
            && call.reoffer == Reoffer::Nothing;
        let hold = call.hold.wanted;
        if !is_free || hold == call.hold.reached {
            return;
        }
        let Some(session) = call.session.as_mut() else { return };
        let mut draft = match call.dialog.draft(call.account, Method::Invite) {
            Ok(draft) => draft,
            Err(why) => {
                let reason = alloc::format!("no request can go where the other side says that it is: {why}");
                return self.refuse_change(cx, id, 503, &reason);
            }
        };
        let direction = if hold { Direction::SendOnly } else { Direction::SendRecv };
        draft.body = Some(Body { content_type: SDP, bytes: session.offer(direction) });
        draft.contact = ContactField::Target;
        draft.fields = abilities();
        call.reoffer = Reoffer::Sent { hold, retries };
        if let Err(why) = self.submit(cx, draft, Purpose::Reinvite(id)) {
            self.retract_offer(id);
            self.refuse_change(cx, id, 503, why.reason());
        }
    }

    /// An answer to our change, or the lack of one.
    pub(crate) fn on_reinvite_answer(
        &mut self,
        cx: &mut Context<'_, Action>,
        id: CallId,
        key: SlabKey,
        answer: &Answer<'_, '_>,
    ) {
        match (answer.status, answer.message) {
            (..=199, _) => {}
            (200..=299, Some(message)) => self.on_changed(cx, id, key, message),
            (491, _) => self.on_glare(cx, id),
            _ => {
                if self.requests.get(key).is_some_and(Request::was_never_sent) {
                    self.retract_offer(id);
                }
                if self.call_state(id) == Some(CallState::Established) && !self.ends_dialog(cx, id, answer) {
                    self.refuse_change(cx, id, answer.status, &answer.reason);
                }
            }
        }
    }

    fn on_changed(&mut self, cx: &mut Context<'_, Action>, id: CallId, key: SlabKey, message: &Message<'_>) {
        let body_bytes_max = self.config.limits.body_bytes_max;
        let acks = self.requests.get(key).map_or(0, |request| request.acks.len());
        let is_ours = self.call_at(id).is_some_and(|call| {
            call.dialog.is(
                message.call_id(),
                message.from().tag().unwrap_or_default(),
                message.to().tag().unwrap_or_default(),
            )
        });
        if acks > 0 || !is_ours {
            self.counters.stray += 1;
            return;
        }
        let Some(call) = self.call_mut(id) else { return };
        call.dialog.refresh_target(message);
        let (account, tag) = (call.account, call.dialog.remote_tag.clone());
        if let Ok(ack) = call.dialog.ack(account, message.cseq().number) {
            self.acknowledge(cx, key, &tag, ack);
        }
        let Some(call) = self.call_mut(id).filter(|call| call.state == CallState::Established) else {
            return;
        };
        let Reoffer::Sent { hold, .. } = call.reoffer else { return };
        call.reoffer = Reoffer::Nothing;
        let Some(session) = call.session.as_mut() else { return };
        let agreed = match carried(message, body_bytes_max) {
            Ok(Carried::Description(body)) => session.accept_answer(body),
            Ok(Carried::Nothing) => Err(NotAcceptable::missing("the answer has no session description")),
            Err(why) => Err(why),
        };
        match agreed {
            Ok(params) => {
                call.hold.reached = hold;
                let is_held = !params.direction.sends();
                self.tell_changed(cx, id, params);
                self.note_peer_hold(cx, id, is_held);
                self.reconcile(cx, id);
            }
            // An accepted offer whose answer cannot be taken leaves the two sides with different ideas of the call.
            Err(why) => {
                self.counters.sessions_refused += 1;
                self.leave(cx, id, why.status, &why.reason, By::Local);
            }
        }
    }

    /// RFC 3261 §14.1: who made the call waits longer, so that the two do not meet again.
    fn on_glare(&mut self, cx: &mut Context<'_, Action>, id: CallId) {
        let (retries_max, units) = (self.config.limits.glare_retries_max, self.rng.next_u64());
        let Some(call) = self.call_mut(id) else { return };
        let Reoffer::Sent { retries, .. } = call.reoffer else { return };
        if retries >= retries_max {
            return self.refuse_change(cx, id, 491, "the other side changes the call at the same time");
        }
        if let Some(session) = call.session.as_mut() {
            session.abandon_offer();
        }
        let pause_ms = match call.role {
            Role::Caller => 2100 + 10 * (units % 191),
            Role::Callee => 10 * (units % 201),
        };
        let timer = self.wheel.arm(cx.now + Duration::from_millis(pause_ms), Timer::Glare(id));
        if let Some(call) = self.call_mut(id) {
            call.reoffer = Reoffer::Waiting { timer, retries: retries + 1 };
        }
    }

    /// What the other side has not seen does not count, not even as a version.
    fn retract_offer(&mut self, id: CallId) {
        if let Some(session) = self.call_mut(id).and_then(|call| call.session.as_mut()) {
            session.retract_offer();
        }
    }

    /// Everything is as it was before the change.
    fn refuse_change(&mut self, cx: &mut Context<'_, Action>, id: CallId, status: u16, reason: &str) {
        let Some(call) = self.call_mut(id) else { return };
        if let Some(session) = call.session.as_mut() {
            session.abandon_offer();
        }
        call.reoffer = Reoffer::Nothing;
        call.hold.wanted = call.hold.reached;
        cx.emit(AgentEvent::ChangeRefused { call: id, status, reason: reason.into() });
    }

    /// Tells what was agreed anew.
    pub(crate) fn tell_changed(&mut self, cx: &mut Context<'_, Action>, id: CallId, params: MediaParams) {
        cx.emit(AgentEvent::MediaChanged { call: id, params });
    }

    /// The other side's wish, as its offer has it: it is on hold when it does not want to hear us.
    pub(crate) fn note_peer_hold(&mut self, cx: &mut Context<'_, Action>, id: CallId, is_held: bool) {
        let Some(call) = self.call_mut(id) else { return };
        if call.hold.by_peer != is_held {
            call.hold.by_peer = is_held;
            cx.emit(if is_held {
                AgentEvent::HeldByPeer { call: id }
            } else {
                AgentEvent::ResumedByPeer { call: id }
            });
        }
    }

    pub(crate) fn stop_reoffer(&mut self, id: CallId) {
        if let Some(call) = self.calls.get_mut(key_of(id.0))
            && let Reoffer::Waiting { timer, .. } = call.reoffer
        {
            self.wheel.cancel(timer);
            call.reoffer = Reoffer::Nothing;
        }
    }
}
