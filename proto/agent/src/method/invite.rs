//! INVITE: a new call, or a change of one (RFC 3261 §13.3, §14.2).

use crate::call::acceptance::{Acceptance, Accepting};
use crate::call::{CallId, CallState, Reoffer, Role};
use crate::dialog::{Dialog, NoDialog};
use crate::reply::{Asked, add_abilities, add_contact};
use crate::request::number_of;
use crate::session::{Carried, NotAcceptable, SDP, carried, check_offer};
use crate::{AccountId, Action, AgentEvent, UserAgent};
use alloc::vec::Vec;
use ringway_sansio::Context;
use ringway_sdp::Direction;
use ringway_sip::{HeaderName, Message, Params, ResponseWriter, grammar};
use ringway_transaction::ServerId;

/// Whom a Replaces names (RFC 3891 §3).
enum Replaced {
    /// There is no such header.
    Nobody,
    Call(CallId),
    Refused(u16, &'static str),
}

impl UserAgent {
    pub(super) fn on_invite(&mut self, cx: &mut Context<'_, Action>, asked: &Asked<'_, '_>) {
        if asked.message.to().tag().is_some() {
            return self.on_reinvite(cx, asked);
        }
        if self.is_merged(asked.message) {
            return self.refuse(cx, asked, 482, "Loop Detected");
        }
        let Some(account) = self.account_for(&asked.uri) else {
            return self.refuse(cx, asked, 404, "Not Found");
        };
        if self.is_stopping {
            return self.refuse(cx, asked, 480, "Temporarily Unavailable");
        }
        let checked =
            carried(asked.message, self.config.limits.body_bytes_max).and_then(|carried| match carried {
                Carried::Nothing => Ok(()),
                Carried::Description(offer) => check_offer(offer),
            });
        if let Err(why) = checked {
            return self.refuse_session(cx, asked, &why);
        }
        let replaces = match self.replaced_by(asked.message, account) {
            Replaced::Nobody => None,
            Replaced::Call(call) => Some(call),
            Replaced::Refused(status, phrase) => return self.refuse(cx, asked, status, phrase),
        };
        // The call that takes another's place may be one more, until it has taken it.
        if self.calls_len() >= self.config.limits.calls_max + usize::from(replaces.is_some()) {
            self.counters.too_many_calls += 1;
            return self.refuse(cx, asked, 486, "Busy Here");
        }
        let tag = self.new_tag();
        match Dialog::called(asked.message, asked.flow, tag, &self.config.limits) {
            Ok(dialog) => self.take_call(cx, asked, account, dialog, replaces),
            Err(NoDialog::Contact) => self.refuse(cx, asked, 400, "Missing Or Bad Contact"),
            Err(NoDialog::Tag) => self.refuse(cx, asked, 400, "Missing From Tag"),
            Err(NoDialog::Routes) => {
                self.counters.too_many_routes += 1;
                self.refuse(cx, asked, 400, "Bad Or Too Many Record-Routes");
            }
        }
    }

    /// RFC 3261 §8.2.2.2: the same request has come by another way before.
    fn is_merged(&self, message: &Message<'_>) -> bool {
        self.calls.iter().any(|(_, call)| {
            call.role == Role::Callee
                && call.dialog.call_id == message.call_id()
                && Some(call.dialog.remote_tag.as_slice()) == message.from().tag()
                && call.dialog.remote_cseq == Some(message.cseq().number)
        })
    }

    fn replaced_by(&self, message: &Message<'_>, account: AccountId) -> Replaced {
        let mut lines = message.lines_of(HeaderName::Replaces);
        let Some(line) = lines.next() else { return Replaced::Nobody };
        let at = line.iter().position(|&byte| byte == b';').unwrap_or(line.len());
        let (call_id, params) = line.split_at_checked(at).unwrap_or((line, b""));
        let (Ok(params), None) = (Params::parse(params), lines.next()) else {
            return Replaced::Refused(400, "Bad Replaces");
        };
        let (Some(to_tag), Some(from_tag)) = (params.value(b"to-tag"), params.value(b"from-tag")) else {
            return Replaced::Refused(400, "Bad Replaces");
        };
        let found = self.calls.iter().find(|(_, call)| {
            let is_early =
                call.early.iter().any(|early| early.dialog.is(grammar::trim(call_id), to_tag, from_tag));
            call.account == account && (is_early || call.dialog.is(grammar::trim(call_id), to_tag, from_tag))
        });
        let Some((key, call)) = found else {
            return Replaced::Refused(481, "Call/Transaction Does Not Exist");
        };
        match call.state {
            CallState::Leaving => Replaced::Refused(603, "Decline"),
            CallState::Accepted | CallState::Established if params.has(b"early-only") => {
                Replaced::Refused(486, "Busy Here")
            }
            CallState::Accepted | CallState::Established | CallState::Calling => {
                Replaced::Call(CallId(number_of(key)))
            }
            // RFC 3891 §3: only who made the early dialog may be taken out of it.
            CallState::Ringing | CallState::Cancelling => {
                Replaced::Refused(481, "Call/Transaction Does Not Exist")
            }
        }
    }

    /// The other side wants to change the session.
    fn on_reinvite(&mut self, cx: &mut Context<'_, Action>, asked: &Asked<'_, '_>) {
        let Some(id) = self.call_in_order(cx, asked) else { return };
        let Some(call) = self.call_at(id) else { return };
        let awaits_answer = call.acceptance.as_ref().is_some_and(|acceptance| acceptance.awaits_answer);
        match (call.state, call.reoffer) {
            (CallState::Leaving | CallState::Cancelling, _) => {
                return self.refuse(cx, asked, 481, "Call/Transaction Does Not Exist");
            }
            (CallState::Calling | CallState::Ringing, _) => return self.ask_later(cx, asked),
            (CallState::Accepted | CallState::Established, Reoffer::Sent { .. }) => {
                return self.refuse(cx, asked, 491, "Request Pending");
            }
            (CallState::Accepted | CallState::Established, _) if awaits_answer => {
                return self.ask_later(cx, asked);
            }
            (CallState::Accepted | CallState::Established, Reoffer::Nothing | Reoffer::Waiting { .. }) => {}
        }
        // Before anything changes: what there is no room for changes nothing.
        let Some(server) = self.begin(cx, asked, Some(id)) else { return };
        let asked = &Asked { server: Some(server), ..*asked };
        // Whoever sends a new INVITE has had our answer to the last one, whatever became of its ACK.
        if self.end_acceptance(id).is_some()
            && let Some(call) = self.call_mut(id)
        {
            call.state = CallState::Established;
        }
        match self.negotiate(cx, asked, id) {
            Ok(agreed) => self.accept_change(cx, asked, id, server, agreed),
            Err(why) => {
                self.refuse_session(cx, asked, &why);
                cx.emit(AgentEvent::OfferRefused { call: id, status: why.status, reason: why.reason });
            }
        }
    }

    /// Answers the offer in a request, or makes one where it has none. Also says whether ours waits for an answer.
    pub(super) fn negotiate(
        &mut self,
        cx: &mut Context<'_, Action>,
        asked: &Asked<'_, '_>,
        id: CallId,
    ) -> Result<(Vec<u8>, bool), NotAcceptable> {
        let carried = carried(asked.message, self.config.limits.body_bytes_max)?;
        let missing = || NotAcceptable::missing("the call has no session");
        let call = self.call_mut(id).ok_or_else(missing)?;
        let wanted = if call.hold.wanted { Direction::SendOnly } else { Direction::SendRecv };
        let session = call.session.as_mut().ok_or_else(missing)?;
        match carried {
            Carried::Nothing => Ok((session.offer(wanted), true)),
            Carried::Description(offer) => {
                let (body, params) = session.answer(offer, wanted)?;
                call.hold.reached = call.hold.wanted;
                let is_held = !params.direction.sends();
                self.tell_changed(cx, id, params);
                self.note_peer_hold(cx, id, is_held);
                Ok((body, false))
            }
        }
    }

    fn accept_change(
        &mut self,
        cx: &mut Context<'_, Action>,
        asked: &Asked<'_, '_>,
        id: CallId,
        server: ServerId,
        (body, awaits_answer): (Vec<u8>, bool),
    ) {
        let Some(call) = self.call_mut(id) else { return };
        call.dialog.refresh_target(asked.message);
        let (account, flow) = (call.account, asked.flow);
        let mut bytes = Vec::new();
        let mut response = ResponseWriter::answer(&mut bytes, asked.message, 200, "OK", flow.remote, None);
        add_contact(&mut response, &self.config, account, flow);
        add_abilities(&mut response);
        if !self.config.user_agent.is_empty() {
            response.header(HeaderName::UserAgent, self.config.user_agent.as_bytes());
        }
        let _ = response.finish_with_body(SDP, &body);
        let cseq = asked.message.cseq().number;
        let acceptance = Acceptance::new(server, bytes, cseq, Accepting::Change, awaits_answer);
        self.begin_acceptance(cx, id, acceptance);
    }

    /// RFC 3261 §14.2: an INVITE while another is not answered yet.
    pub(super) fn ask_later(&mut self, cx: &mut Context<'_, Action>, asked: &Asked<'_, '_>) {
        let after_s = self.rng.below(11);
        self.refuse_with(cx, asked, 500, "Another Request Is Pending", |response| {
            response.header_number(HeaderName::RetryAfter, after_s);
        });
    }
}
