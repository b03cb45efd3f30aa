//! Incoming calls (RFC 3261 §13.3), from the INVITE to the ACK.

use crate::body::{Carried, carried};
use crate::call::state::{Acceptance, Accepting, Call, Unanswered};
use crate::call::{Calls, Timer};
use crate::core_context::CoreContext;
use crate::dialog::{Dialog, NoDialog};
use crate::draft::{Body, is_sips, text, unfolded};
use crate::registration::{Registrations, Sender};
use crate::request::reply::{
    ALLOW, IncomingRequest, add_abilities, add_contact, finish, phrase_of, warning_agent, write_refusal,
};
use crate::session::{NotAcceptable, SDP, Session, check_offer};
use crate::{AccountId, AgentEvent, By, CallError, CallId, CallState, Config, Role};
use alloc::vec::Vec;
use core::ops::Range;
use core::time::Duration;
use ringway_sansio::{Flow, source_of};
use ringway_sdp::{Direction, LocalMedia, MediaParams};
use ringway_sip::{HeaderName, Message, MessageWriter, Params, digest, grammar};

/// Call of a Replaces header field (RFC 3891 §3).
enum Replaced {
    /// There is no such header field.
    None,
    Call(CallId),
    Refused(u16, &'static str),
}

/// Call that an acceptable INVITE begins.
struct NewCall {
    account: AccountId,
    sender: Sender,
    has_offer: bool,
    replaces: Option<CallId>,
}

impl Calls {
    pub(crate) fn on_invite(
        &mut self,
        cx: &mut CoreContext<'_>,
        registrations: &Registrations,
        incoming: &IncomingRequest<'_, '_>,
    ) {
        if incoming.message.to().tag().is_some() {
            return self.on_reinvite(cx, incoming);
        }
        let proven_user = match &cx.config.caller_auth {
            Some(auth) => match self.authenticator.authenticate(cx, auth, incoming) {
                Some(user) => Some(user),
                None => return,
            },
            None => None,
        };
        let incoming = &IncomingRequest { proven_user: proven_user.as_deref(), ..*incoming };
        if self.is_merged(incoming.message) {
            return cx.refuse(incoming, 482, "Loop Detected");
        }
        let Some(account) = cx.config.account_for(&incoming.uri) else {
            return cx.refuse(incoming, 404, "Not Found");
        };
        if cx.is_stopping {
            return cx.refuse(incoming, 480, "Temporarily Unavailable");
        }
        let checked = carried(incoming.message, &cx.config.limits).and_then(|carried| match carried {
            Carried::Nothing => Ok(false),
            Carried::Body(offer) => check_offer(offer).map(|()| true),
        });
        let has_offer = match checked {
            Ok(has_offer) => has_offer,
            Err(why) => return cx.refuse_session(incoming, &why),
        };
        let sender = registrations.sender_of(cx.config, account, incoming.flow);
        let replaced = match cx.config.takes_replaces {
            true => self.replaced_by(incoming.message, account, sender, |flow| {
                registrations.sender_of(cx.config, account, flow)
            }),
            false => Replaced::None,
        };
        let replaces = match replaced {
            Replaced::None => None,
            Replaced::Call(call) => Some(call),
            Replaced::Refused(status, phrase) => {
                return cx.refuse(incoming, status, phrase);
            }
        };
        // A call that replaces another may exceed the limit by one, until the other ends.
        let live = self.live_count();
        let is_full = live >= cx.config.limits.calls_max + usize::from(replaces.is_some());
        // Each call that ends holds a BYE until the peer responds to it.
        if is_full || self.calls.len().saturating_sub(live) >= LEAVING_MAX {
            cx.counters.too_many_calls += 1;
            return cx.refuse(incoming, 486, "Busy Here");
        }
        if self.rings_too_often(cx, sender, incoming.flow) {
            return cx.refuse(incoming, 486, "Busy Here");
        }
        let tag = cx.random.new_tag();
        match Dialog::called(incoming.message, incoming.flow, tag, &cx.config.limits) {
            // RFC 5630 §5.1.2.
            Ok(dialog) if incoming.is_sips() && !is_sips(&dialog.target) => {
                cx.refuse(incoming, 400, "Missing Or Bad Contact");
            }
            Ok(dialog) => {
                self.take_call(cx, incoming, dialog, NewCall { account, sender, has_offer, replaces });
            }
            Err(NoDialog::Contact) => cx.refuse(incoming, 400, "Missing Or Bad Contact"),
            Err(NoDialog::Routes) => {
                cx.counters.too_many_routes += 1;
                cx.refuse(incoming, 400, "Bad Or Too Many Record-Routes");
            }
        }
    }

    /// True if as many calls of this sender ring as may, so that no other peer keeps the account's server from calling.
    fn rings_too_often(&self, cx: &mut CoreContext<'_>, sender: Sender, flow: Flow) -> bool {
        if sender == Sender::Server {
            return false;
        }
        let ringing = self.calls.iter().filter_map(|(_, call)| call.unanswered.as_ref());
        let (mut of_source, mut bypassing) = (0, 0);
        for other in ringing.filter(|other| other.sender == sender) {
            of_source += usize::from(source_of(other.flow.remote.ip()) == source_of(flow.remote.ip()));
            bypassing += usize::from(sender == Sender::BypassesServer);
        }
        let limits = &cx.config.limits;
        let is_over_source = of_source >= limits.ringing_per_source_max;
        let is_over_bypassing = bypassing >= limits.ringing_bypassing_max;
        cx.counters.too_many_ringing_of_source += u64::from(is_over_source);
        cx.counters.too_many_ringing_bypassing += u64::from(is_over_bypassing);
        is_over_source || is_over_bypassing
    }

    /// True for a merged request: it was received before on another path (RFC 3261 §8.2.2.2).
    fn is_merged(&self, message: &Message<'_>) -> bool {
        self.calls.iter().any(|(_, call)| {
            call.role == Role::Callee
                && call.dialog.call_id == message.call_id()
                && call.dialog.has_remote_tag(message.from().tag().unwrap_or_default())
                && call.dialog.remote_cseq == Some(message.cseq().number)
        })
    }

    /// The call that an INVITE replaces. It must have come the way of that call, by the account's server if there is one: a stranger
    /// who has its identifiers replaces nothing.
    fn replaced_by(
        &self,
        message: &Message<'_>,
        account: AccountId,
        sender: Sender,
        sender_of: impl Fn(Flow) -> Sender,
    ) -> Replaced {
        let mut lines = message.lines_of(HeaderName::Replaces);
        let Some(line) = lines.next() else { return Replaced::None };
        if sender == Sender::BypassesServer {
            return Replaced::Refused(403, "Forbidden");
        }
        let (Ok((call_id, params)), None) = (Params::after(line), lines.next()) else {
            return Replaced::Refused(400, "Bad Replaces");
        };
        let (Some(to_tag), Some(from_tag)) = (params.value(b"to-tag"), params.value(b"from-tag")) else {
            return Replaced::Refused(400, "Bad Replaces");
        };
        let found = self.calls.iter().find(|(_, call)| {
            let is_it = |dialog: &Dialog| dialog.is_replaced_by(call_id, to_tag, from_tag);
            let is_same_way = call.dialog.peer.is_none_or(|flow| sender_of(flow) == sender);
            let has_it = call.early.iter().any(|early| is_it(&early.dialog)) || is_it(&call.dialog);
            call.account == account && is_same_way && has_it
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
                Replaced::Call(CallId::from_key(key))
            }
            // RFC 3891 §3: an early dialog can only be replaced at its caller.
            CallState::Ringing | CallState::Cancelling => {
                Replaced::Refused(481, "Call/Transaction Does Not Exist")
            }
        }
    }

    /// Begins a call from an acceptable INVITE: sends 100 and emits `Incoming`.
    fn take_call(
        &mut self,
        cx: &mut CoreContext<'_>,
        incoming: &IncomingRequest<'_, '_>,
        dialog: Dialog,
        new: NewCall,
    ) {
        let NewCall { account, sender, has_offer, replaces } = new;
        let message = incoming.message;
        let id = self.next_id();
        let mut call = Call::new(id, account, Role::Callee, CallState::Ringing, dialog);
        call.replaces = replaces;
        self.calls.insert(call);
        let Some(server) = cx.begin(incoming, Some(id)) else {
            self.calls.remove(id.key());
            return;
        };
        let ring = cx.config.ring.min(expires_of(message).unwrap_or(Duration::MAX));
        let ring = self.timers.arm(cx.now() + ring, Timer::Ring(id));
        if let Some(call) = self.call_mut(id) {
            call.ring = ring;
            call.unanswered = Some(Unanswered {
                server,
                request: message.as_bytes().to_vec(),
                flow: incoming.flow,
                cseq: message.cseq().number,
                sender,
            });
        }
        self.respond_to_invite(cx, id, 100, "Trying", |_| {});
        let name = grammar::unquote(message.from().display_name);
        cx.emit(AgentEvent::Incoming {
            call: id,
            account,
            from: text(message.from().uri.as_bytes()),
            to: text(message.to().uri.as_bytes()),
            display_name: text(&digest::unescape(&unfolded(name))),
            bypasses_server: sender == Sender::BypassesServer,
            is_sips: incoming.is_sips(),
            proven_user: incoming.proven_user.map(Into::into),
            has_offer,
            replaces,
        });
    }

    /// Sends 180, or another provisional status from 101 to 199.
    pub(crate) fn ring(
        &mut self,
        cx: &mut CoreContext<'_>,
        call: CallId,
        status: u16,
    ) -> Result<(), CallError> {
        self.check_answer(call, status, 101..200)?;
        self.respond_to_invite(cx, call, status, phrase_of(status), |_| {});
        Ok(())
    }

    /// Answers a call. `media` is the local address and capabilities.
    pub(crate) fn answer(
        &mut self,
        cx: &mut CoreContext<'_>,
        id: CallId,
        media: LocalMedia,
    ) -> Result<(), CallError> {
        let limits = cx.config.limits;
        let call = self.calls.get_mut(id.key()).ok_or(CallError::NoCall)?;
        let unanswered = call.unanswered.as_ref().filter(|_| call.state == CallState::Ringing);
        let unanswered = unanswered.ok_or(CallError::WrongState)?;
        let (server, flow, cseq) = (unanswered.server, unanswered.flow, unanswered.cseq);
        let message = Message::parse(&unanswered.request, &cx.config.message_limits);
        let mut session = Session::new(media, &mut cx.random.secrets, &mut cx.random.visible);
        let agreed = match message.as_ref().map(|message| carried(message, &limits)) {
            Ok(Ok(Carried::Body(offer))) => {
                session.answer(offer, Direction::SendRecv).map(|(body, params)| (body, Some(params)))
            }
            Ok(Ok(Carried::Nothing)) => Ok((session.offer(Direction::SendRecv), None)),
            Ok(Err(why)) => Err(why),
            Err(_) => return Err(CallError::WrongState),
        };
        let (body, params) = match agreed {
            Ok(agreed) => agreed,
            Err(why) => return Err(self.refuse_call(cx, id, &why, flow)),
        };
        call.session = Some(session);
        let (account, ring) = (call.account, call.ring);
        let secure = is_sips(&call.dialog.target);
        let mut response = Vec::new();
        self.write_to_invite(cx.config, id, 200, "OK", &mut response, |response, config| {
            add_contact(response, config, account, flow, secure);
            add_abilities(response, config);
            Some(Body { content_type: SDP, bytes: body })
        });
        self.timers.cancel(ring);
        let Some(call) = self.call_mut(id) else { return Err(CallError::NoCall) };
        call.state = CallState::Accepted;
        call.unanswered = None;
        let awaits_answer = params.is_none();
        self.begin_acceptance(
            cx,
            id,
            Acceptance::new(server, response, cseq, Accepting::Call, awaits_answer),
        );
        self.report_answered(cx, id, params);
        self.end_replaced(cx, id);
        Ok(())
    }

    /// Refuses a call: 486 busy, 603 decline, 480 away, or another status from 400 to 699.
    pub(crate) fn reject(
        &mut self,
        cx: &mut CoreContext<'_>,
        call: CallId,
        status: u16,
    ) -> Result<(), CallError> {
        self.check_answer(call, status, 400..700)?;
        self.end_call(cx, call, Some(status));
        Ok(())
    }

    /// Checks that a call is ringing and that `status` is one of `statuses`.
    fn check_answer(&self, call: CallId, status: u16, statuses: Range<u16>) -> Result<(), CallError> {
        if self.call_state(call).ok_or(CallError::NoCall)? != CallState::Ringing {
            return Err(CallError::WrongState);
        }
        if statuses.contains(&status) { Ok(()) } else { Err(CallError::BadStatus) }
    }

    fn report_answered(&mut self, cx: &mut CoreContext<'_>, call: CallId, params: Option<MediaParams>) {
        let Some(params) = params else { return };
        let is_held = !params.direction.sends();
        cx.emit(AgentEvent::Answered { call, params });
        self.note_peer_hold(cx, call, is_held);
    }

    /// Ends a ringing call whose offer is not acceptable.
    fn refuse_call(
        &mut self,
        cx: &mut CoreContext<'_>,
        id: CallId,
        why: &NotAcceptable,
        flow: Flow,
    ) -> CallError {
        cx.counters.sessions_refused += 1;
        let agent = warning_agent(cx.config, flow);
        self.respond_to_invite(cx, id, why.status, phrase_of(why.status), |response| {
            write_refusal(response, why, &agent);
        });
        self.report_ended(cx, id, why.status, &why.reason, By::Local);
        self.drop_call(cx, id);
        CallError::Refused { status: why.status, reason: why.reason.clone() }
    }

    /// Ends the replaced call after the replacement was answered (RFC 3891 §3).
    fn end_replaced(&mut self, cx: &mut CoreContext<'_>, id: CallId) {
        if let Some(old) = self.call_mut(id).and_then(|call| call.replaces.take()) {
            self.end_call(cx, old, None);
        }
    }

    /// Responds to the INVITE of a ringing call.
    pub(super) fn respond_to_invite(
        &mut self,
        cx: &mut CoreContext<'_>,
        id: CallId,
        status: u16,
        phrase: &str,
        add: impl FnOnce(&mut MessageWriter<'_>),
    ) {
        let Some(unanswered) = self.call_at(id).and_then(|call| call.unanswered.as_ref()) else { return };
        let (server, flow) = (unanswered.server, unanswered.flow);
        let account = self.call_at(id).map(|call| call.account);
        let secure = self.call_at(id).is_some_and(|call| is_sips(&call.dialog.target));
        let mut response = Vec::new();
        self.write_to_invite(cx.config, id, status, phrase, &mut response, |response, config| {
            if let Some(account) = account.filter(|_| (101..300).contains(&status)) {
                add_contact(response, config, account, flow, secure);
                response.header(HeaderName::Allow, ALLOW);
            }
            add(response);
            None
        });
        cx.send_response(server, status, &response);
    }

    fn write_to_invite(
        &self,
        config: &Config,
        id: CallId,
        status: u16,
        phrase: &str,
        bytes: &mut Vec<u8>,
        add: impl FnOnce(&mut MessageWriter<'_>, &Config) -> Option<Body>,
    ) {
        let Some(call) = self.call_at(id) else { return };
        let Some(unanswered) = &call.unanswered else { return };
        let Ok(message) = Message::parse(&unanswered.request, &config.message_limits) else {
            return;
        };
        let source = unanswered.flow.remote;
        // RFC 3261 §8.2.6.2: a 100 needs no tag.
        let tag = (status != 100).then_some(call.dialog.local_tag.as_slice());
        let mut response = MessageWriter::answer(bytes, &message, status, phrase, source, tag);
        if (101..300).contains(&status) {
            response.copy(&message, HeaderName::RecordRoute);
        }
        finish(response, config, add);
    }

    /// Sends the 2xx, and starts its retransmission until the ACK.
    pub(super) fn begin_acceptance(
        &mut self,
        cx: &mut CoreContext<'_>,
        id: CallId,
        mut acceptance: Acceptance,
    ) {
        cx.send_response(acceptance.server, 200, &acceptance.response);
        acceptance.interval = cx.config.timers.t1;
        acceptance.repeat = self.timers.arm(cx.now() + acceptance.interval, Timer::RetransmitSuccess(id));
        acceptance.give_up = self.timers.arm(cx.now() + cx.config.timers.t1 * 64, Timer::GiveUpOnAck(id));
        self.end_acceptance(id);
        if let Some(call) = self.call_mut(id) {
            call.acceptance = Some(acceptance);
        }
    }

    pub(super) fn retransmit_success(&mut self, cx: &mut CoreContext<'_>, id: CallId) {
        let t2 = cx.config.timers.t2;
        let Some(acceptance) = self.calls.get_mut(id.key()).and_then(|call| call.acceptance.as_mut()) else {
            return;
        };
        cx.send_response(acceptance.server, 200, &acceptance.response);
        acceptance.interval = (acceptance.interval * 2).min(t2);
        acceptance.repeat = self.timers.arm(cx.now() + acceptance.interval, Timer::RetransmitSuccess(id));
    }

    /// Ends a call whose 2xx got no ACK, with BYE (RFC 3261 §13.3.1.4).
    pub(super) fn give_up_on_ack(&mut self, cx: &mut CoreContext<'_>, id: CallId) {
        if self.call_at(id).is_some_and(|call| call.acceptance.is_some()) {
            cx.counters.acks_missed += 1;
            self.end_acceptance(id);
            if self.call_state(id) == Some(CallState::Leaving) {
                return self.send_bye(cx, id);
            }
            self.leave(cx, id, 408, "the other side did not acknowledge our answer", By::Remote);
        }
    }

    /// Handles an ACK. Its dialog and CSeq identify the 2xx.
    pub(crate) fn on_ack(&mut self, cx: &mut CoreContext<'_>, message: &Message<'_>) {
        let found = self.call_of(message).filter(|&id| {
            let acceptance = self.call_at(id).and_then(|call| call.acceptance.as_ref());
            acceptance.is_some_and(|acceptance| acceptance.cseq == message.cseq().number)
        });
        let Some(id) = found else {
            cx.counters.stray += u64::from(!self.authenticator.is_acknowledged_by(message));
            return;
        };
        let Some(acceptance) = self.end_acceptance(id) else { return };
        if self.call_state(id) == Some(CallState::Leaving) {
            // The call was ended before; the BYE may be sent after the ACK (RFC 3261 §15).
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

    /// Stops the retransmission of a 2xx, and returns it.
    pub(super) fn end_acceptance(&mut self, id: CallId) -> Option<Acceptance> {
        let acceptance = self.call_mut(id)?.acceptance.take()?;
        self.timers.cancel(acceptance.repeat);
        self.timers.cancel(acceptance.give_up);
        Some(acceptance)
    }

    /// Handles the answer to the offer in our 2xx. Without an acceptable one there is no session, and the call is ended
    /// (RFC 3261 §14.2).
    fn on_answer_in_ack(
        &mut self,
        cx: &mut CoreContext<'_>,
        id: CallId,
        accepting: Accepting,
        message: &Message<'_>,
    ) {
        let limits = cx.config.limits;
        let Some(session) = self.call_mut(id).and_then(|call| call.session.as_mut()) else { return };
        let agreed = match carried(message, &limits) {
            Ok(Carried::Body(body)) => session.accept_answer(body),
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
                cx.counters.sessions_refused += 1;
                self.leave(cx, id, why.status, &why.reason, By::Local);
            }
        }
    }
}

/// Expires of an INVITE (RFC 3261 §13.3.1).
fn expires_of(message: &Message<'_>) -> Option<Duration> {
    let seconds = message.first(HeaderName::Expires).and_then(grammar::delta_seconds)?;
    Some(Duration::from_secs(u64::from(seconds.max(1))))
}

/// Number of calls without a response to their BYE at which further INVITEs are refused.
const LEAVING_MAX: usize = 16;
