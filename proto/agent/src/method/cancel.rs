//! CANCEL (RFC 3261 §9.2).

use crate::call::CallState;
use crate::reply::Asked;
use crate::{Action, By, UserAgent};
use ringway_sansio::Context;

impl UserAgent {
    /// Whoever is cancelled too late is not cancelled: the answer is on its way, and the caller ends the call by BYE.
    pub(super) fn on_cancel(&mut self, cx: &mut Context<'_, Action>, asked: &Asked<'_, '_>) {
        let found = self.transactions.cancelled_by(asked.message);
        // A stranger who has seen a branch must not end the call: a CANCEL takes the way of its INVITE.
        let found = found.filter(|(_, _, flow)| flow.remote.ip() == asked.flow.remote.ip());
        let Some((_, call, _)) = found else {
            return self.refuse(cx, asked, 481, "Call/Transaction Does Not Exist");
        };
        let tag = call.and_then(|id| self.call_at(id)).map(|call| call.dialog.local_tag.clone());
        self.respond(cx, asked, 200, "OK", tag.as_deref(), |_, _| None);
        if let Some(id) = call
            && self.call_state(id) == Some(CallState::Ringing)
        {
            self.decline(cx, id, 487, By::Remote);
        }
    }
}
