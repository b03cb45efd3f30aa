//! Calls: an INVITE, its dialogs, their session, and its end.
//!
//! ```text
//!   call()                                             INVITE
//!     │                                                  │ 100
//!     v           1xx: Progress, EarlyMedia              v           ring(): 18x
//!   Calling ◄──┐                                       Ringing ◄──┐
//!     │  │  └──┘                                         │  │  └──┘
//!     │  │ 2xx: ACK, Answered            answer(): 200   │  │ reject(), CANCEL, too long: 4xx, 6xx
//!     │  └──────────────► Established ◄── ACK ── Accepted ◄┘  └──────────────► (gone)
//!     │ hang_up()             │                    │ no ACK for 64·T1, or hung up: BYE
//!     v                       │ hang_up(): BYE     │
//!   Cancelling                v                    │
//!     │ 2xx: ACK, BYE ──► Leaving ◄────────────────┘
//!     │ failure               │ the BYE's answer
//!     v                       v
//!   (gone)                  (gone)          BYE of the other side, in any state: 200 ──► (gone)
//! ```
//!
//! `Ended` is emitted on entering Leaving, or when the call is removed without it. `outgoing.rs` has the left side,
//! `incoming.rs` the right side until the ACK, `change.rs` hold, resume and changes by the peer, this file the end,
//! `transfer.rs` and `referral.rs` the two sides of a transfer.

mod callers;
mod change;
mod incoming;
mod outgoing;
mod state;
mod transfer;

use alloc::vec::Vec;

use ringway_sansio::{Deadline, Instant, TimerKey, Wheel};
use ringway_sdp::{Codec, LocalMedia};
use ringway_sip::{HeaderName, Message, Method};
use ringway_transaction::{Slab, SlabKey};

use crate::body::is_before_params;
use crate::context::Shared;
use crate::core_context::CoreContext;
use crate::dialog::Order;
use crate::draft::{CallRequest, Purpose};
use crate::request::reply::{IncomingRequest, phrase_of};
use crate::request::{Answer, Cancelled};
use crate::{AccountId, AgentEvent, By, CallId, Ended};
use callers::CallerAuthenticator;
use state::Call;
pub use state::{CallError, CallState, Role};
use transfer::Report;

/// All calls, their sessions and timers.
pub(crate) struct Calls {
    calls: Slab<Call>,
    timers: Wheel<Timer>,
    authenticator: CallerAuthenticator,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Timer {
    /// The call, or our change of it, was not answered in time.
    Ring(CallId),
    /// The server was busy, and the call is tried again.
    Postponed(CallId),
    /// Retransmission of a 2xx without ACK.
    RetransmitSuccess(CallId),
    /// The ACK was not received in time.
    GiveUpOnAck(CallId),
    /// A change of the session is tried again after a 491.
    Glare(CallId),
    /// The result of a transfer was not reported in time.
    Transfer(CallId),
    /// The program did not decide about a transfer in time.
    Referral(CallId),
}

impl Calls {
    pub(crate) fn new(shared: &mut Shared, now: Instant) -> Self {
        let authenticator = CallerAuthenticator::new(shared, now);
        Self { calls: Slab::default(), timers: Wheel::new(now), authenticator }
    }

    pub(crate) fn len(&self) -> usize {
        self.calls.len()
    }

    /// All calls that have not ended.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (CallId, CallState)> {
        self.calls.iter().map(|(_, call)| (call.id, call.state))
    }

    /// State of a call; `None`: it has ended.
    pub(crate) fn call_state(&self, call: CallId) -> Option<CallState> {
        self.call_at(call).map(|call| call.state)
    }

    /// Our role in a call; `None`: it has ended.
    pub(crate) fn call_role(&self, call: CallId) -> Option<Role> {
        self.call_at(call).map(|call| call.role)
    }

    /// True if a call's dialog uses TLS to its next hop in both directions.
    pub(crate) fn call_uses_tls(&self, call: CallId) -> bool {
        self.call_at(call).is_some_and(|call| call.dialog.uses_tls())
    }

    /// Payload types and codecs of the pending offer of a call.
    pub(crate) fn offered_codecs(&self, call: CallId) -> Option<&[(u8, Codec)]> {
        self.call_at(call)?.session.as_ref()?.offered_codecs()
    }

    fn call_at(&self, call: CallId) -> Option<&Call> {
        self.calls.get(call.key())
    }

    fn call_mut(&mut self, call: CallId) -> Option<&mut Call> {
        self.calls.get_mut(call.key())
    }

    /// Number of calls that count towards the limit.
    fn live_count(&self) -> usize {
        self.calls.iter().filter(|(_, call)| call.state != CallState::Leaving).count()
    }

    /// Call of an in-dialog request.
    fn call_of(&self, message: &Message<'_>) -> Option<CallId> {
        message.to().tag()?;
        let found = self.calls.iter().find(|(_, call)| {
            let is_early = call.early.iter().any(|early| early.dialog.has_request(message));
            is_early || call.dialog.has_request(message)
        });
        found.map(|(key, _)| CallId::from_key(key))
    }

    /// Call of an in-dialog request with the next CSeq; `None` if it was refused.
    fn call_in_order(
        &mut self,
        cx: &mut CoreContext<'_>,
        incoming: &IncomingRequest<'_, '_>,
    ) -> Option<CallId> {
        let Some(id) = self.call_of(incoming.message) else {
            cx.refuse(incoming, 481, "Call/Transaction Does Not Exist");
            return None;
        };
        let (message, cseq) = (incoming.message, incoming.message.cseq().number);
        let order = self.call_mut(id).map(|call| call.dialog_of(message).receive(cseq, incoming.flow));
        if order != Some(Order::Next) {
            cx.refuse(incoming, 500, "Out Of Order");
            return None;
        }
        Some(id)
    }

    /// Next CSeq of a call's dialog.
    pub(crate) fn next_cseq(&mut self, id: CallId) -> Option<u32> {
        let dialog = &mut self.call_mut(id)?.dialog;
        dialog.local_cseq = dialog.local_cseq.saturating_add(1);
        Some(dialog.local_cseq)
    }

    /// Account of the call of an in-dialog request; `None` if it was refused.
    pub(crate) fn account_in_order(
        &mut self,
        cx: &mut CoreContext<'_>,
        incoming: &IncomingRequest<'_, '_>,
    ) -> Option<AccountId> {
        let id = self.call_in_order(cx, incoming)?;
        self.call_at(id).map(|call| call.account)
    }

    /// Handles the result of a request of a call.
    pub(crate) fn on_answer(
        &mut self,
        cx: &mut CoreContext<'_>,
        id: CallId,
        request: CallRequest,
        key: SlabKey,
        answer: &Answer<'_, '_>,
    ) {
        match request {
            CallRequest::Invite => self.on_invite_answer(cx, id, key, answer),
            CallRequest::Reinvite => self.on_reinvite_answer(cx, id, key, answer),
            CallRequest::Bye | CallRequest::Refer | CallRequest::Report if answer.status < 200 => {}
            // The call has ended with any response.
            CallRequest::Bye => {
                self.calls.remove(id.key());
            }
            CallRequest::Refer => self.on_refer_answer(cx, id, answer),
            // A refused report ends the subscription; the call continues.
            CallRequest::Report if answer.status < 300 => {}
            CallRequest::Report => {
                if let Some(call) = self.calls.get_mut(id.key()) {
                    call.stop_referral(&mut self.timers);
                }
            }
        }
    }

    /// Handles the timers that are due.
    pub(crate) fn on_timeout(&mut self, cx: &mut CoreContext<'_>) {
        while let Some(timer) = self.timers.expire(cx.now()) {
            match timer {
                Timer::Ring(id) => self.on_ring_timeout(cx, id),
                Timer::Postponed(id) => self.call_again(cx, id),
                Timer::RetransmitSuccess(id) => self.retransmit_success(cx, id),
                Timer::GiveUpOnAck(id) => self.give_up_on_ack(cx, id),
                Timer::Glare(id) => self.on_glare_timer(cx, id),
                Timer::Transfer(id) => {
                    if let Some(call) = self.calls.get_mut(id.key()) {
                        let reason = "the other side did not report what came of it";
                        call.finish_transfer(cx, &mut self.timers, 408, reason);
                    }
                }
                Timer::Referral(id) => {
                    if let Some(call) = self.calls.get_mut(id.key()) {
                        // An accepted transfer is not rejected any more.
                        let _ = call.reject_referral(cx, &mut self.timers);
                    }
                }
            }
        }
    }

    pub(crate) fn next_deadline(&self) -> Option<Deadline> {
        self.timers.next_due().map(|at| Deadline { at, reason: "a timer of a call" })
    }

    /// Ends a call: CANCEL before the answer, 603 for a ringing call, BYE for an established one.
    pub(crate) fn hang_up(&mut self, cx: &mut CoreContext<'_>, call: CallId) -> Result<(), CallError> {
        self.call_state(call).ok_or(CallError::NoCall)?;
        self.end_call(cx, call, None);
        Ok(())
    }

    /// Ends a call; `status` is for a ringing call.
    fn end_call(&mut self, cx: &mut CoreContext<'_>, id: CallId, status: Option<u16>) {
        let Some(state) = self.call_state(id) else { return };
        match state {
            CallState::Calling => self.cancel_call(cx, id),
            CallState::Ringing => self.decline(cx, id, status.unwrap_or(603), By::Local),
            CallState::Accepted | CallState::Established => self.leave(cx, id, 200, "hung up", By::Local),
            CallState::Cancelling | CallState::Leaving => {}
        }
    }

    /// Handles BYE (RFC 3261 §15.1.2).
    pub(crate) fn on_bye(&mut self, cx: &mut CoreContext<'_>, incoming: &IncomingRequest<'_, '_>) {
        let Some(id) = self.call_in_order(cx, incoming) else { return };
        cx.respond(incoming, 200, "OK", None, |_, _| None);
        self.on_peer_left(cx, id);
    }

    /// Handles CANCEL (RFC 3261 §9.2). After the final response it has no effect; the caller sends BYE.
    pub(crate) fn on_cancel(&mut self, cx: &mut CoreContext<'_>, incoming: &IncomingRequest<'_, '_>) {
        let found = cx.requests.cancelled_by(incoming.message);
        // An attacker who has read a branch must not end the call: a CANCEL comes from the address of its INVITE.
        let found = found.filter(|(_, flow)| flow.remote.ip() == incoming.flow.remote.ip());
        let Some((call, _)) = found else {
            return cx.refuse(incoming, 481, "Call/Transaction Does Not Exist");
        };
        let tag = call.and_then(|id| self.call_at(id)).map(|call| call.dialog.local_tag.clone());
        cx.respond(incoming, 200, "OK", tag.as_deref(), |_, _| None);
        if let Some(id) = call
            && self.call_state(id) == Some(CallState::Ringing)
        {
            self.decline(cx, id, 487, By::Remote);
        }
    }

    /// Handles a REFER.
    pub(crate) fn on_refer(&mut self, cx: &mut CoreContext<'_>, incoming: &IncomingRequest<'_, '_>) {
        if incoming.message.to().tag().is_none() {
            // An out-of-dialog REFER would let any sender make this phone call a third party.
            return cx.refuse(incoming, 403, "Refer Only Inside A Call");
        }
        let Some(id) = self.call_in_order(cx, incoming) else { return };
        if let Some(call) = self.calls.get_mut(id.key()) {
            call.on_refer(cx, &mut self.timers, incoming);
        }
    }

    /// Handles a NOTIFY: a report on a transfer that we requested; others are refused.
    pub(crate) fn on_notify(&mut self, cx: &mut CoreContext<'_>, incoming: &IncomingRequest<'_, '_>) {
        let event = incoming.message.first(HeaderName::Event).unwrap_or_default();
        if !is_before_params(event, b"refer") {
            return cx.refuse_with(incoming, 489, "Bad Event", |response| {
                response.header(HeaderName::AllowEvents, b"refer");
            });
        }
        let Some(id) = self.call_in_order(cx, incoming) else { return };
        let Some(call) = self.calls.get_mut(id.key()) else { return };
        if call.on_notify(cx, &mut self.timers, incoming) {
            self.end_call(cx, id, None);
        }
    }

    /// Requests the peer to call `target` in place of us. When that call is established, ours is ended.
    pub(crate) fn transfer(
        &mut self,
        cx: &mut CoreContext<'_>,
        id: CallId,
        target: &str,
    ) -> Result<(), CallError> {
        let call = self.calls.get_mut(id.key()).ok_or(CallError::NoCall)?;
        call.refer(cx, &mut self.timers, target)
    }

    /// Starts the call that the peer of a call requested.
    pub(crate) fn accept_transfer(
        &mut self,
        cx: &mut CoreContext<'_>,
        id: CallId,
        media: LocalMedia,
    ) -> Result<CallId, CallError> {
        let call = self.calls.get_mut(id.key()).ok_or(CallError::NoCall)?;
        let invitation = call.accept_referral(&mut self.timers)?;
        let result = self.invite(cx, invitation, media);
        if result.is_err()
            && let Some(call) = self.calls.get_mut(id.key())
        {
            call.report(cx, &mut self.timers, 503, Report::Last);
        }
        result
    }

    pub(crate) fn reject_transfer(&mut self, cx: &mut CoreContext<'_>, id: CallId) -> Result<(), CallError> {
        let call = self.calls.get_mut(id.key()).ok_or(CallError::NoCall)?;
        call.reject_referral(cx, &mut self.timers)
    }

    /// Reports progress of a call to the peer that requested it by REFER.
    fn report_progress(&mut self, cx: &mut CoreContext<'_>, new: CallId, status: u16) {
        let Some(old) = self.call_at(new).and_then(|call| call.referred_by) else { return };
        let report = if status >= 200 { Report::Last } else { Report::More };
        if let Some(call) = self.calls.get_mut(old.key()) {
            call.report(cx, &mut self.timers, status, report);
        }
    }

    /// Handles the final response to our REFER. A 2xx only means that the peer will try.
    fn on_refer_answer(&mut self, cx: &mut CoreContext<'_>, id: CallId, answer: &Answer<'_, '_>) {
        if (200..300).contains(&answer.status) {
            return;
        }
        if let Some(call) = self.calls.get_mut(id.key()) {
            call.finish_transfer(cx, &mut self.timers, answer.status, &answer.reason);
        }
        self.ends_dialog(cx, id, answer);
    }

    /// Ends all calls.
    pub(crate) fn end_all(&mut self, cx: &mut CoreContext<'_>) {
        let ids: Vec<CallId> = self.calls.iter().map(|(_, call)| call.id).collect();
        for id in ids {
            self.end_call(cx, id, None);
        }
    }

    /// Identifier of the next call that is inserted.
    fn next_id(&self) -> CallId {
        CallId::from_key(self.calls.next_key())
    }

    /// Cancels a call (RFC 3261 §9.1). The CANCEL waits for a provisional response; the call ends with the INVITE's final one.
    fn cancel_call(&mut self, cx: &mut CoreContext<'_>, id: CallId) {
        let Some(call) = self.call_mut(id) else { return };
        call.state = CallState::Cancelling;
        let (invite, ring) = (call.invite, call.ring);
        self.timers.cancel(ring);
        let Some(key) = invite else { return };
        match cx.cancel(key) {
            Cancelled::Sent => {}
            Cancelled::Unsent => {
                self.report_progress(cx, id, 487);
                self.report_ended(cx, id, 487, "cancelled", By::Local);
                self.drop_call(cx, id);
            }
        }
    }

    /// Refuses the INVITE of a ringing call.
    fn decline(&mut self, cx: &mut CoreContext<'_>, id: CallId, status: u16, by: By) {
        let phrase = phrase_of(status);
        self.respond_to_invite(cx, id, status, phrase, |_| {});
        self.report_ended(cx, id, status, phrase, by);
        self.drop_call(cx, id);
    }

    /// Ends an established call: reports it to the program, and sends BYE. A callee must not send BYE before the ACK (RFC
    /// 3261 §15).
    fn leave(&mut self, cx: &mut CoreContext<'_>, id: CallId, status: u16, reason: &str, by: By) {
        let Some(call) = self.call_mut(id).filter(|call| call.state != CallState::Leaving) else { return };
        call.state = CallState::Leaving;
        let must_wait = call.acceptance.is_some();
        self.stop_changes(cx, id);
        self.report_ended(cx, id, status, reason, by);
        if !must_wait {
            self.send_bye(cx, id);
        }
    }

    /// Sends the BYE of an ended call. If it cannot be sent, the call is removed at once.
    fn send_bye(&mut self, cx: &mut CoreContext<'_>, id: CallId) {
        let Some(call) = self.call_mut(id) else { return };
        let account = call.account;
        let sent = match call.dialog.draft(account, Method::Bye) {
            Ok(draft) => cx.submit(draft, Purpose::Call(id, CallRequest::Bye)).is_ok(),
            Err(_) => false,
        };
        if !sent {
            self.drop_call(cx, id);
        }
    }

    /// Handles the peer's BYE.
    fn on_peer_left(&mut self, cx: &mut CoreContext<'_>, id: CallId) {
        match self.call_state(id) {
            Some(CallState::Ringing) => self.decline(cx, id, 487, By::Remote),
            // A callee must not send BYE before its answer, and another fork may still answer: the INVITE continues.
            Some(CallState::Calling | CallState::Cancelling | CallState::Leaving) | None => {}
            Some(CallState::Accepted | CallState::Established) => {
                self.report_ended(cx, id, 200, "the other side hung up", By::Remote);
                self.drop_call(cx, id);
            }
        }
    }

    /// Removes a call and its timers.
    fn drop_call(&mut self, cx: &mut CoreContext<'_>, id: CallId) {
        self.end_acceptance(id);
        self.stop_changes(cx, id);
        if let Some(call) = self.calls.remove(id.key()) {
            self.timers.cancel(call.ring);
            self.timers.cancel(call.postponed.map_or(TimerKey::NONE, |postponed| postponed.timer));
        }
    }

    /// Stops the pending changes and transfers of a call.
    fn stop_changes(&mut self, cx: &mut CoreContext<'_>, id: CallId) {
        self.stop_reoffer(cx, id);
        if let Some(call) = self.calls.get_mut(id.key()) {
            call.stop_transfer(&mut self.timers);
            call.stop_referral(&mut self.timers);
        }
    }

    fn report_ended(&mut self, cx: &mut CoreContext<'_>, call: CallId, status: u16, reason: &str, by: By) {
        cx.emit(AgentEvent::Ended { call, cause: Ended { status, reason: reason.into(), by } });
    }

    /// Ends a call after a response that terminates the dialog (RFC 3261 §12.2.1.2). True if it does.
    fn ends_dialog(&mut self, cx: &mut CoreContext<'_>, id: CallId, answer: &Answer<'_, '_>) -> bool {
        match answer.status {
            481 => {
                if self.call_state(id).is_some_and(|state| state != CallState::Leaving) {
                    self.report_ended(cx, id, 481, &answer.reason, By::Remote);
                }
                self.drop_call(cx, id);
                true
            }
            408 => {
                self.leave(cx, id, 408, &answer.reason, By::Remote);
                true
            }
            _ => false,
        }
    }
}
