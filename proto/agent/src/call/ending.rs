//! The end of a call, from whichever side and in whichever state.

use crate::call::{CallError, CallId, CallState};
use crate::reply::phrase_of;
use crate::request::{Answer, Purpose, key_of};
use crate::{Action, AgentEvent, By, Ended, UserAgent};
use ringway_sansio::Context;
use ringway_sip::Method;

impl UserAgent {
    /// Ends a call in the way that fits: CANCEL while nobody has answered, 603 when it rings here, BYE when it stands.
    pub fn hang_up(&mut self, cx: &mut Context<'_, Action>, call: CallId) -> Result<(), CallError> {
        let added_from = cx.out.len();
        self.call_state(call).ok_or(CallError::NoCall)?;
        self.end_call(cx, call, None);
        self.settle(cx, added_from);
        Ok(())
    }

    /// The same; `status` is for a call that rings here.
    pub(crate) fn end_call(&mut self, cx: &mut Context<'_, Action>, id: CallId, status: Option<u16>) {
        let Some(state) = self.call_state(id) else { return };
        match state {
            CallState::Calling => self.cancel_call(cx, id),
            CallState::Ringing => self.decline(cx, id, status.unwrap_or(603), By::Local),
            CallState::Accepted | CallState::Established => self.leave(cx, id, 200, "hung up", By::Local),
            CallState::Cancelling | CallState::Leaving => {}
        }
    }

    /// RFC 3261 §9.1. The CANCEL waits for a provisional answer; until the INVITE's final one the call is not over.
    fn cancel_call(&mut self, cx: &mut Context<'_, Action>, id: CallId) {
        let Some(call) = self.call_mut(id) else { return };
        call.state = CallState::Cancelling;
        let (invite, ring) = (call.invite, call.ring);
        self.wheel.cancel(ring);
        let Some(key) = invite else { return };
        match self.requests.get(key).and_then(|request| request.client) {
            Some(client) => {
                self.transactions.cancel(cx, client);
            }
            None => {
                self.forget_unsent(key);
                self.report_progress(cx, id, 487);
                self.tell_ended(cx, id, 487, "cancelled", By::Local);
                self.drop_call(id);
            }
        }
    }

    /// Refuses the INVITE of a call that rings here.
    pub(crate) fn decline(&mut self, cx: &mut Context<'_, Action>, id: CallId, status: u16, by: By) {
        let phrase = phrase_of(status);
        self.respond_to_invite(cx, id, status, phrase, |_| {});
        self.tell_ended(cx, id, status, phrase, by);
        self.drop_call(id);
    }

    /// Ends a call that stands: tells the program, and the other side by BYE. A callee may not send that before the ACK has
    /// come (RFC 3261 §15).
    pub(crate) fn leave(
        &mut self,
        cx: &mut Context<'_, Action>,
        id: CallId,
        status: u16,
        reason: &str,
        by: By,
    ) {
        let Some(call) = self.call_mut(id).filter(|call| call.state != CallState::Leaving) else { return };
        call.state = CallState::Leaving;
        let must_wait = call.acceptance.is_some();
        self.stop_changes(id);
        self.tell_ended(cx, id, status, reason, by);
        if !must_wait {
            self.send_bye(cx, id);
        }
    }

    /// Sends the BYE of a call that was left. When it cannot be sent the call is gone at once.
    pub(crate) fn send_bye(&mut self, cx: &mut Context<'_, Action>, id: CallId) {
        let Some(call) = self.call_mut(id) else { return };
        let account = call.account;
        let sent = match call.dialog.draft(account, Method::Bye) {
            Ok(draft) => self.submit(cx, draft, Purpose::Bye(id)).is_ok(),
            Err(_) => false,
        };
        if !sent {
            self.drop_call(id);
        }
    }

    /// Whatever the answer to a BYE is, the call is gone.
    pub(crate) fn on_bye_answer(&mut self, id: CallId) {
        self.calls.remove(key_of(id.0));
    }

    /// The other side has said BYE.
    pub(crate) fn on_peer_left(&mut self, cx: &mut Context<'_, Action>, id: CallId) {
        match self.call_state(id) {
            Some(CallState::Ringing) => self.decline(cx, id, 487, By::Remote),
            // A callee may not say BYE before its answer, and another fork may still answer: the INVITE's own end counts.
            Some(CallState::Calling | CallState::Cancelling | CallState::Leaving) | None => {}
            Some(CallState::Accepted | CallState::Established) => {
                self.tell_ended(cx, id, 200, "the other side hung up", By::Remote);
                self.drop_call(id);
            }
        }
    }

    /// Forgets a call and everything that waits for it.
    pub(crate) fn drop_call(&mut self, id: CallId) {
        self.end_acceptance(id);
        self.stop_changes(id);
        if let Some(call) = self.calls.remove(key_of(id.0)) {
            self.wheel.cancel(call.ring);
        }
    }

    /// Stops the timers of what could still change in a call.
    fn stop_changes(&mut self, id: CallId) {
        self.stop_reoffer(id);
        self.stop_transfer(id);
        self.stop_referral(id);
    }

    pub(crate) fn tell_ended(
        &mut self,
        cx: &mut Context<'_, Action>,
        call: CallId,
        status: u16,
        reason: &str,
        by: By,
    ) {
        cx.emit(AgentEvent::Ended { call, cause: Ended { status, reason: reason.into(), by } });
    }

    /// RFC 3261 §12.2.1.2: an answer to a request inside a dialog that says the dialog is gone. True when it does.
    pub(crate) fn ends_dialog(
        &mut self,
        cx: &mut Context<'_, Action>,
        id: CallId,
        answer: &Answer<'_, '_>,
    ) -> bool {
        match answer.status {
            481 => {
                if self.call_state(id).is_some_and(|state| state != CallState::Leaving) {
                    self.tell_ended(cx, id, 481, &answer.reason, By::Remote);
                }
                self.drop_call(id);
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
