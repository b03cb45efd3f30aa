//! CANCEL (RFC 3261 §9.2).

use crate::agent::Out;
use crate::call::{CallId, CallState};
use crate::reply::Asked;
use crate::{By, UserAgent};

impl UserAgent {
    /// Whoever is cancelled too late is not cancelled: the answer is on its way, and the caller ends the call by BYE.
    pub(super) fn on_cancel(&mut self, asked: &Asked<'_, '_>, out: &mut Out<'_>) {
        let found = self.transactions.cancelled_by(asked.message);
        // A stranger who has seen a branch must not end the call: a CANCEL takes the way of its INVITE.
        let found = found.filter(|(_, _, flow)| flow.remote.ip() == asked.flow.remote.ip());
        let Some((_, owner, _)) = found else {
            return self.refuse(asked, 481, "Call/Transaction Does Not Exist", out);
        };
        let id = CallId(owner);
        let tag = self.call_at(id).map(|call| call.dialog.local_tag.clone());
        self.respond(asked, 200, "OK", tag.as_deref(), out, |_, _| None);
        if self.call_state(id) == Some(CallState::Ringing) {
            self.decline(asked.now, id, 487, By::Remote, out);
        }
    }
}
