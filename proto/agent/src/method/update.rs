//! UPDATE (RFC 3311): a change of the session or of the remote target without an INVITE.

use crate::call::Reoffer;
use crate::draft::Body;
use crate::request::reply::{IncomingRequest, add_abilities, add_contact};
use crate::session::SDP;
use crate::{Action, AgentEvent, CallState, UserAgent};
use ringway_sansio::Context;

impl UserAgent {
    pub(super) fn on_update(&mut self, cx: &mut Context<'_, Action>, incoming: &IncomingRequest<'_, '_>) {
        let Some(id) = self.call_in_order(cx, incoming) else { return };
        let Some(call) = self.call_at(id) else { return };
        let has_offer = !incoming.message.body().is_empty();
        let is_pending = matches!(call.reoffer, Reoffer::Sent { .. });
        let awaits_answer = call.acceptance.as_ref().is_some_and(|acceptance| acceptance.awaits_answer);
        match call.state {
            CallState::Leaving | CallState::Cancelling => {
                return self.requests.refuse(
                    &mut self.shared.lend(cx),
                    incoming,
                    481,
                    "Call/Transaction Does Not Exist",
                );
            }
            // The first offer and answer are not through.
            CallState::Calling | CallState::Ringing if has_offer => return self.ask_later(cx, incoming),
            CallState::Accepted | CallState::Established if has_offer && is_pending => {
                return self.requests.refuse(&mut self.shared.lend(cx), incoming, 491, "Request Pending");
            }
            CallState::Accepted | CallState::Established if has_offer && awaits_answer => {
                return self.ask_later(cx, incoming);
            }
            CallState::Calling | CallState::Ringing | CallState::Accepted | CallState::Established => {}
        }
        // Before anything changes: what there is no room for changes nothing.
        let Some(server) = self.requests.begin(&mut self.shared.lend(cx), incoming, None) else { return };
        let incoming = &IncomingRequest { server: Some(server), ..*incoming };
        let body = match has_offer.then(|| self.negotiate(cx, incoming, id)).transpose() {
            Ok(negotiated) => negotiated.map(|(body, _)| body),
            Err(why) => {
                self.requests.refuse_session(&mut self.shared.lend(cx), incoming, &why);
                return cx.emit(AgentEvent::OfferRefused {
                    call: id,
                    status: why.status,
                    reason: why.reason,
                });
            }
        };
        let Some(call) = self.call_mut(id) else { return };
        // RFC 3261 §12.2.2: the target of the dialog that it came in. Before the answer there may be several.
        call.dialog_of(incoming.message).refresh_target(incoming.message);
        let account = call.account;
        self.requests.respond(&mut self.shared.lend(cx), incoming, 200, "OK", None, |response, config| {
            add_contact(response, config, account, incoming.flow);
            add_abilities(response);
            body.map(|bytes| Body { content_type: SDP, bytes })
        });
    }
}
