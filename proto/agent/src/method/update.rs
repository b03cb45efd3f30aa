//! UPDATE (RFC 3311): a change of the session or of the remote target without an INVITE.

use crate::call::{CallState, Reoffer};
use crate::reply::{Asked, add_abilities, add_contact};
use crate::request::Body;
use crate::session::SDP;
use crate::{Action, AgentEvent, UserAgent};
use ringway_sansio::Context;

impl UserAgent {
    pub(super) fn on_update(&mut self, cx: &mut Context<'_, Action>, asked: &Asked<'_, '_>) {
        let Some(id) = self.call_in_order(cx, asked) else { return };
        let Some(call) = self.call_at(id) else { return };
        let has_offer = !asked.message.body().is_empty();
        let is_pending = matches!(call.reoffer, Reoffer::Sent { .. });
        let awaits_answer = call.acceptance.as_ref().is_some_and(|acceptance| acceptance.awaits_answer);
        match call.state {
            CallState::Leaving | CallState::Cancelling => {
                return self.refuse(cx, asked, 481, "Call/Transaction Does Not Exist");
            }
            // The first offer and answer are not through.
            CallState::Calling | CallState::Ringing if has_offer => return self.ask_later(cx, asked),
            CallState::Accepted | CallState::Established if has_offer && is_pending => {
                return self.refuse(cx, asked, 491, "Request Pending");
            }
            CallState::Accepted | CallState::Established if has_offer && awaits_answer => {
                return self.ask_later(cx, asked);
            }
            CallState::Calling | CallState::Ringing | CallState::Accepted | CallState::Established => {}
        }
        // Before anything changes: what there is no room for changes nothing.
        let Some(server) = self.begin(cx, asked, None) else { return };
        let asked = &Asked { server: Some(server), ..*asked };
        let body = match has_offer.then(|| self.negotiate(cx, asked, id)).transpose() {
            Ok(negotiated) => negotiated.map(|(body, _)| body),
            Err(why) => {
                self.refuse_session(cx, asked, &why);
                return cx.emit(AgentEvent::OfferRefused {
                    call: id,
                    status: why.status,
                    reason: why.reason,
                });
            }
        };
        let Some(call) = self.call_mut(id) else { return };
        // RFC 3261 §12.2.2: the target of the dialog that it came in. Before the answer there may be several.
        call.dialog_of(asked.message).refresh_target(asked.message);
        let account = call.account;
        self.respond(cx, asked, 200, "OK", None, |response, config| {
            add_contact(response, config, account, asked.flow);
            add_abilities(response);
            body.map(|bytes| Body { content_type: SDP, bytes })
        });
    }
}
