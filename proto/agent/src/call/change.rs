//! Changes of a session (RFC 3261 §14): hold and resume by another INVITE, and re-INVITE and UPDATE of the peer.
//!
//! ```text
//!             wanted differs from reached            2xx: ACK, MediaChanged
//!   Nothing ──────────────────────────────► Sent ─────────────────────────► Nothing
//!      ▲                                    │  │ 4xx-6xx: ChangeRefused         ▲
//!      │        its time                    │  └────────────────────────────────┘
//!      └────────────────────── Waiting ◄────┘ 491
//! ```
//!
//! A change that cannot be sent is reported as a refusal, with 503.
//!
//! The program sets the wanted state, not the request: [`Calls::reconcile`] sends a change as soon as no other is pending.

use crate::body::{Carried, carried};
use crate::call::outgoing::abilities;
use crate::call::state::{Acceptance, Accepting, Reoffer};
use crate::call::{Calls, Timer};
use crate::core_context::CoreContext;
use crate::draft::{Body, CallRequest, ContactField, Purpose};
use crate::request::reply::{IncomingRequest, add_abilities, add_contact};
use crate::request::{Answer, Cancelled};
use crate::session::{NotAcceptable, SDP};
use crate::{AgentEvent, By, CallError, CallId, CallState, Role};
use alloc::vec::Vec;
use core::time::Duration;
use ringway_sdp::{Direction, MediaParams};
use ringway_sip::{HeaderName, Message, MessageWriter, Method};
use ringway_transaction::{ServerId, SlabKey};

impl Calls {
    /// Puts a call on hold. The result is `MediaChanged` or `ChangeRefused`.
    pub(crate) fn hold(&mut self, cx: &mut CoreContext<'_>, call: CallId) -> Result<(), CallError> {
        self.want_hold(cx, call, true)
    }

    /// Ends the hold of a call.
    pub(crate) fn resume(&mut self, cx: &mut CoreContext<'_>, call: CallId) -> Result<(), CallError> {
        self.want_hold(cx, call, false)
    }

    /// Allows or forbids that a protected call becomes unprotected if the peer offers that. The default is to forbid it.
    pub(crate) fn allow_unprotected(&mut self, call: CallId, allowed: bool) -> Result<(), CallError> {
        let call = self.call_mut(call).ok_or(CallError::NoCall)?;
        call.session.as_mut().ok_or(CallError::WrongState)?.allow_unprotected(allowed);
        Ok(())
    }

    fn want_hold(&mut self, cx: &mut CoreContext<'_>, id: CallId, wanted: bool) -> Result<(), CallError> {
        let call = self.call_mut(id).ok_or(CallError::NoCall)?;
        if !matches!(call.state, CallState::Established | CallState::Accepted) {
            return Err(CallError::WrongState);
        }
        call.hold.wanted = wanted;
        self.reconcile(cx, id);
        Ok(())
    }

    /// Sends the wanted change, if there is one and none is pending.
    pub(super) fn reconcile(&mut self, cx: &mut CoreContext<'_>, id: CallId) {
        self.offer_again(cx, id, 0);
    }

    pub(super) fn on_glare_timer(&mut self, cx: &mut CoreContext<'_>, id: CallId) {
        let Some(call) = self.call_mut(id) else { return };
        let Reoffer::Waiting { retries, .. } = call.reoffer else { return };
        call.reoffer = Reoffer::Nothing;
        self.offer_again(cx, id, retries);
    }

    fn offer_again(&mut self, cx: &mut CoreContext<'_>, id: CallId, retries: u8) {
        let Some(call) = self.calls.get_mut(id.key()) else { return };
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
        draft.fields = abilities(cx.config);
        call.reoffer = Reoffer::Sent { hold, retries };
        match cx.submit(draft, Purpose::Call(id, CallRequest::Reinvite)) {
            Ok(key) => {
                call.invite = Some(key);
                self.timers.cancel(call.ring);
                call.ring = self.timers.arm(cx.now() + cx.config.ring, Timer::Ring(id));
            }
            Err(why) => {
                self.retract_offer(id);
                self.refuse_change(cx, id, 503, why.reason());
            }
        }
    }

    /// Cancels a change that has no final response in time: after a provisional one its transaction has no limit (RFC 3261
    /// §17.1.1.2).
    pub(super) fn give_up_change(&mut self, cx: &mut CoreContext<'_>, id: CallId) {
        let Some(call) = self.call_mut(id) else { return };
        if let (Reoffer::Sent { .. }, Some(key)) = (call.reoffer, call.invite)
            && cx.cancel(key) == Cancelled::Unsent
        {
            self.retract_offer(id);
            self.refuse_change(cx, id, 408, "the change was not sent in time");
        }
    }

    /// Handles the result of a re-INVITE.
    pub(super) fn on_reinvite_answer(
        &mut self,
        cx: &mut CoreContext<'_>,
        id: CallId,
        key: SlabKey,
        answer: &Answer<'_, '_>,
    ) {
        match (answer.status, answer.message) {
            (..=199, _) => {}
            (200..=299, Some(message)) => self.on_changed(cx, id, key, message),
            (491, _) => self.on_glare(cx, id),
            _ => {
                if cx.requests.was_never_sent(key) {
                    self.retract_offer(id);
                }
                if self.call_state(id) == Some(CallState::Established) && !self.ends_dialog(cx, id, answer) {
                    self.refuse_change(cx, id, answer.status, &answer.reason);
                }
            }
        }
    }

    fn on_changed(&mut self, cx: &mut CoreContext<'_>, id: CallId, key: SlabKey, message: &Message<'_>) {
        let limits = cx.config.limits;
        let acks = cx.requests.ack_count(key);
        let is_ours = self.call_at(id).is_some_and(|call| call.dialog.has_response(message));
        if acks > 0 || !is_ours {
            cx.counters.stray += 1;
            return;
        }
        let Some(call) = self.call_mut(id) else { return };
        call.dialog.refresh_target(message);
        let account = call.account;
        if let Ok(ack) = call.dialog.ack(account, message.cseq().number) {
            cx.acknowledge(key, message.to().tag().unwrap_or_default(), ack);
        }
        let Some(call) = self.call_mut(id).filter(|call| call.state == CallState::Established) else {
            return;
        };
        let Reoffer::Sent { hold, .. } = call.reoffer else { return };
        call.reoffer = Reoffer::Nothing;
        let Some(session) = call.session.as_mut() else { return };
        let agreed = match carried(message, &limits) {
            Ok(Carried::Body(body)) => session.accept_answer(body),
            Ok(Carried::Nothing) => Err(NotAcceptable::missing("the answer has no session description")),
            Err(why) => Err(why),
        };
        match agreed {
            Ok(params) => {
                call.hold.reached = hold;
                let is_held = !params.direction.sends();
                self.report_changed(cx, id, params);
                self.note_peer_hold(cx, id, is_held);
                self.reconcile(cx, id);
            }
            // The peer has accepted the offer, so with an unacceptable answer the two sides have different sessions.
            Err(why) => {
                cx.counters.sessions_refused += 1;
                self.leave(cx, id, why.status, &why.reason, By::Local);
            }
        }
    }

    /// Schedules the retry after glare (RFC 3261 §14.1): the caller waits longer, so that the two do not collide again.
    fn on_glare(&mut self, cx: &mut CoreContext<'_>, id: CallId) {
        let (retries_max, units) = (cx.config.limits.glare_retries_max, cx.random.rng.next_u64());
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
        let timer = self.timers.arm(cx.now() + Duration::from_millis(pause_ms), Timer::Glare(id));
        if let Some(call) = self.call_mut(id) {
            call.reoffer = Reoffer::Waiting { timer, retries: retries + 1 };
        }
    }

    /// Withdraws an offer that the peer has not seen, with its version.
    fn retract_offer(&mut self, id: CallId) {
        if let Some(session) = self.call_mut(id).and_then(|call| call.session.as_mut()) {
            session.retract_offer();
        }
    }

    /// Reports that a change was refused; the state before it is restored.
    fn refuse_change(&mut self, cx: &mut CoreContext<'_>, id: CallId, status: u16, reason: &str) {
        let Some(call) = self.call_mut(id) else { return };
        if let Some(session) = call.session.as_mut() {
            session.abandon_offer();
        }
        call.reoffer = Reoffer::Nothing;
        call.hold.wanted = call.hold.reached;
        cx.emit(AgentEvent::ChangeRefused { call: id, status, reason: reason.into() });
    }

    /// Reports a new agreement on media.
    fn report_changed(&mut self, cx: &mut CoreContext<'_>, id: CallId, params: MediaParams) {
        cx.emit(AgentEvent::MediaChanged { call: id, params });
    }

    /// Notes if the peer holds the call: its description does not receive.
    pub(super) fn note_peer_hold(&mut self, cx: &mut CoreContext<'_>, id: CallId, is_held: bool) {
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

    /// Stops the change of a call that ends: its retry, or its transaction.
    pub(super) fn stop_reoffer(&mut self, cx: &mut CoreContext<'_>, id: CallId) {
        let Some(call) = self.calls.get_mut(id.key()) else { return };
        match core::mem::take(&mut call.reoffer) {
            Reoffer::Nothing => {}
            Reoffer::Waiting { timer, .. } => {
                self.timers.cancel(timer);
            }
            Reoffer::Sent { .. } => {
                let _ = call.invite.map(|key| cx.cancel(key));
            }
        }
    }

    /// Handles a re-INVITE.
    pub(super) fn on_reinvite(&mut self, cx: &mut CoreContext<'_>, incoming: &IncomingRequest<'_, '_>) {
        let Some(id) = self.call_in_order(cx, incoming) else { return };
        let Some(call) = self.call_at(id) else { return };
        let awaits_answer = call.acceptance.as_ref().is_some_and(|acceptance| acceptance.awaits_answer);
        match (call.state, call.reoffer) {
            (CallState::Leaving | CallState::Cancelling, _) => {
                return cx.refuse(incoming, 481, "Call/Transaction Does Not Exist");
            }
            (CallState::Calling | CallState::Ringing, _) => return self.refuse_until_later(cx, incoming),
            (CallState::Accepted | CallState::Established, Reoffer::Sent { .. }) => {
                return cx.refuse(incoming, 491, "Request Pending");
            }
            (CallState::Accepted | CallState::Established, _) if awaits_answer => {
                return self.refuse_until_later(cx, incoming);
            }
            (CallState::Accepted | CallState::Established, Reoffer::Nothing | Reoffer::Waiting { .. }) => {}
        }
        // Before anything changes: without a transaction the session must not change.
        let Some(server) = cx.begin(incoming, Some(id)) else { return };
        let incoming = &IncomingRequest { server: Some(server), ..*incoming };
        // The sender of a new INVITE has our response to the last one, even if its ACK is lost.
        if self.end_acceptance(id).is_some()
            && let Some(call) = self.call_mut(id)
        {
            call.state = CallState::Established;
        }
        match self.negotiate(cx, incoming, id) {
            Ok((body, awaits_answer)) => self.accept_change(cx, incoming, id, server, body, awaits_answer),
            Err(why) => {
                cx.refuse_session(incoming, &why);
                cx.emit(AgentEvent::OfferRefused { call: id, status: why.status, reason: why.reason });
            }
        }
    }

    /// Answers the offer of a request, or creates one if it has none; then the second value is true.
    fn negotiate(
        &mut self,
        cx: &mut CoreContext<'_>,
        incoming: &IncomingRequest<'_, '_>,
        id: CallId,
    ) -> Result<(Vec<u8>, bool), NotAcceptable> {
        let carried = carried(incoming.message, &cx.config.limits)?;
        let missing = || NotAcceptable::missing("the call has no session");
        let call = self.call_mut(id).ok_or_else(missing)?;
        let wanted = if call.hold.wanted { Direction::SendOnly } else { Direction::SendRecv };
        let session = call.session.as_mut().ok_or_else(missing)?;
        match carried {
            Carried::Nothing => Ok((session.offer(wanted), true)),
            Carried::Body(offer) => {
                let (body, params) = session.answer(offer, wanted)?;
                call.hold.reached = call.hold.wanted;
                let is_held = !params.direction.sends();
                self.report_changed(cx, id, params);
                self.note_peer_hold(cx, id, is_held);
                Ok((body, false))
            }
        }
    }

    fn accept_change(
        &mut self,
        cx: &mut CoreContext<'_>,
        incoming: &IncomingRequest<'_, '_>,
        id: CallId,
        server: ServerId,
        body: Vec<u8>,
        awaits_answer: bool,
    ) {
        let Some(call) = self.call_mut(id) else { return };
        call.dialog.refresh_target(incoming.message);
        let (account, flow) = (call.account, incoming.flow);
        let mut bytes = Vec::new();
        let mut response = MessageWriter::answer(&mut bytes, incoming.message, 200, "OK", flow.remote, None);
        add_contact(&mut response, cx.config, account, flow, incoming.is_sips());
        add_abilities(&mut response, cx.config);
        if !cx.config.user_agent.is_empty() {
            response.header(HeaderName::UserAgent, cx.config.user_agent.as_bytes());
        }
        let _ = response.finish_with_body(SDP, &body);
        let cseq = incoming.message.cseq().number;
        let acceptance = Acceptance::new(server, bytes, cseq, Accepting::Change, awaits_answer);
        self.begin_acceptance(cx, id, acceptance);
    }

    /// Handles UPDATE (RFC 3311): a change of the session or of the remote target without an INVITE.
    pub(crate) fn on_update(&mut self, cx: &mut CoreContext<'_>, incoming: &IncomingRequest<'_, '_>) {
        let Some(id) = self.call_in_order(cx, incoming) else { return };
        let Some(call) = self.call_at(id) else { return };
        let has_offer = carried(incoming.message, &cx.config.limits) != Ok(Carried::Nothing);
        let is_pending = matches!(call.reoffer, Reoffer::Sent { .. });
        let awaits_answer = call.acceptance.as_ref().is_some_and(|acceptance| acceptance.awaits_answer);
        match call.state {
            CallState::Leaving | CallState::Cancelling => {
                return cx.refuse(incoming, 481, "Call/Transaction Does Not Exist");
            }
            // The first offer/answer exchange is pending.
            CallState::Calling | CallState::Ringing if has_offer => {
                return self.refuse_until_later(cx, incoming);
            }
            CallState::Accepted | CallState::Established if has_offer && is_pending => {
                return cx.refuse(incoming, 491, "Request Pending");
            }
            CallState::Accepted | CallState::Established if has_offer && awaits_answer => {
                return self.refuse_until_later(cx, incoming);
            }
            CallState::Calling | CallState::Ringing | CallState::Accepted | CallState::Established => {}
        }
        // Before anything changes: without a transaction the session must not change.
        let Some(server) = cx.begin(incoming, None) else { return };
        let incoming = &IncomingRequest { server: Some(server), ..*incoming };
        let body = match has_offer.then(|| self.negotiate(cx, incoming, id)).transpose() {
            Ok(negotiated) => negotiated.map(|(body, _)| body),
            Err(why) => {
                cx.refuse_session(incoming, &why);
                return cx.emit(AgentEvent::OfferRefused {
                    call: id,
                    status: why.status,
                    reason: why.reason,
                });
            }
        };
        let Some(call) = self.call_mut(id) else { return };
        // RFC 3261 §12.2.2: the target of the request's dialog. Before the answer there may be several dialogs.
        call.dialog_of(incoming.message).refresh_target(incoming.message);
        let account = call.account;
        cx.respond(incoming, 200, "OK", None, |response, config| {
            add_contact(response, config, account, incoming.flow, incoming.is_sips());
            add_abilities(response, config);
            body.map(|bytes| Body { content_type: SDP, bytes })
        });
    }

    /// Refuses an offer while another one is pending (RFC 3261 §14.2).
    fn refuse_until_later(&mut self, cx: &mut CoreContext<'_>, incoming: &IncomingRequest<'_, '_>) {
        let after_s = cx.random.rng.below(11);
        cx.refuse_with(incoming, 500, "Another Request Is Pending", |response| {
            response.header_number(HeaderName::RetryAfter, after_s);
        });
    }
}
