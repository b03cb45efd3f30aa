//! Calls that come (RFC 3261 §13.3), from the INVITE to the answer.

use crate::account::challenge::unfolded;
use crate::agent::Timer;
use crate::call::acceptance::{Acceptance, Accepting};
use crate::call::{Call, CallError, CallId, CallState, Role};
use crate::dialog::Dialog;
use crate::event::text;
use crate::reply::{Asked, add_abilities, add_contact, finish, phrase_of, write_refusal};
use crate::request::{Body, key_of, number_of};
use crate::session::{Carried, NotAcceptable, SDP, Session, carried};
use crate::{AccountId, Action, AgentEvent, By, Config, UserAgent};
use alloc::vec::Vec;
use core::ops::Range;
use core::time::Duration;
use ringway_sansio::{Context, Flow};
use ringway_sdp::{Direction, LocalMedia, MediaParams};
use ringway_sip::{HeaderName, Message, ResponseWriter, digest, grammar};
use ringway_transaction::ServerId;

/// The INVITE of a call that nobody has answered.
#[derive(Debug)]
pub(crate) struct Unanswered {
    pub(crate) server: ServerId,
    /// As it came; its answers are written from it.
    request: Vec<u8>,
    pub(crate) flow: Flow,
    pub(crate) cseq: u32,
}

impl UserAgent {
    /// Tells the caller that it rings: 180, or another provisional status from 101 to 199.
    pub fn ring(&mut self, cx: &mut Context<'_, Action>, call: CallId, status: u16) -> Result<(), CallError> {
        let added_from = cx.out.len();
        self.check_answer(call, status, 101..200)?;
        self.respond_to_invite(cx, call, status, phrase_of(status), |_| {});
        self.settle(cx, added_from);
        Ok(())
    }

    /// Answers a call. `media` says where and how sound is taken.
    pub fn answer(
        &mut self,
        cx: &mut Context<'_, Action>,
        call: CallId,
        media: LocalMedia,
    ) -> Result<(), CallError> {
        let added_from = cx.out.len();
        let result = self.accept_call(cx, call, media);
        self.settle(cx, added_from);
        result
    }

    /// Refuses a call: 486 busy, 603 decline, 480 away, or another status from 400 to 699.
    pub fn reject(
        &mut self,
        cx: &mut Context<'_, Action>,
        call: CallId,
        status: u16,
    ) -> Result<(), CallError> {
        let added_from = cx.out.len();
        self.check_answer(call, status, 400..700)?;
        self.end_call(cx, call, Some(status));
        self.settle(cx, added_from);
        Ok(())
    }

    /// Takes a well-formed INVITE that nothing speaks against: tells the program, and 100 to the caller.
    pub(crate) fn take_call(
        &mut self,
        cx: &mut Context<'_, Action>,
        asked: &Asked<'_, '_>,
        account: AccountId,
        dialog: Dialog,
        replaces: Option<CallId>,
    ) {
        let message = asked.message;
        let mut call = Call::new(account, Role::Callee, CallState::Ringing, dialog);
        call.replaces = replaces;
        let id = CallId(number_of(self.calls.insert(call)));
        let Some(server) = self.begin(cx, asked, Some(id)) else {
            self.calls.remove(key_of(id.0));
            return;
        };
        let ring = self.config.ring.min(expires_of(message).unwrap_or(Duration::MAX));
        let ring = self.wheel.arm(cx.now + ring, Timer::Ring(id));
        if let Some(call) = self.call_mut(id) {
            call.ring = ring;
            call.unanswered = Some(Unanswered {
                server,
                request: message.as_bytes().to_vec(),
                flow: asked.flow,
                cseq: message.cseq().number,
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
            has_offer: !message.body().is_empty(),
            replaces,
        });
    }

    fn accept_call(
        &mut self,
        cx: &mut Context<'_, Action>,
        id: CallId,
        media: LocalMedia,
    ) -> Result<(), CallError> {
        let limits = self.config.limits;
        let call = self.calls.get_mut(key_of(id.0)).ok_or(CallError::NoCall)?;
        let unanswered = call.unanswered.as_ref().filter(|_| call.state == CallState::Ringing);
        let unanswered = unanswered.ok_or(CallError::WrongState)?;
        let (server, flow, cseq) = (unanswered.server, unanswered.flow, unanswered.cseq);
        let message = Message::parse(&unanswered.request, &self.config.message_limits);
        let mut session = Session::new(media, &mut self.secrets, &mut self.visible);
        let agreed = match message.as_deref().map(|message| carried(message, limits.body_bytes_max)) {
            Ok(Ok(Carried::Description(offer))) => {
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
        let mut response = Vec::new();
        self.write_to_invite(id, 200, "OK", &mut response, |response, config| {
            add_contact(response, config, account, flow);
            add_abilities(response);
            Some(Body { content_type: SDP, bytes: body })
        });
        self.wheel.cancel(ring);
        let Some(call) = self.call_mut(id) else { return Err(CallError::NoCall) };
        call.state = CallState::Accepted;
        call.unanswered = None;
        let awaits_answer = params.is_none();
        self.begin_acceptance(
            cx,
            id,
            Acceptance::new(server, response, cseq, Accepting::Call, awaits_answer),
        );
        self.tell_answered(cx, id, params);
        self.end_replaced(cx, id);
        Ok(())
    }

    fn tell_answered(&mut self, cx: &mut Context<'_, Action>, call: CallId, params: Option<MediaParams>) {
        let Some(params) = params else { return };
        let is_held = !params.direction.sends();
        cx.emit(AgentEvent::Answered { call, params });
        self.note_peer_hold(cx, call, is_held);
    }

    /// The offer cannot be answered: no call.
    fn refuse_call(
        &mut self,
        cx: &mut Context<'_, Action>,
        id: CallId,
        why: &NotAcceptable,
        flow: Flow,
    ) -> CallError {
        self.counters.sessions_refused += 1;
        let agent = self.warning_agent(flow);
        self.respond_to_invite(cx, id, why.status, phrase_of(why.status), |response| {
            write_refusal(response, why, &agent);
        });
        self.tell_ended(cx, id, why.status, &why.reason, By::Local);
        self.drop_call(id);
        CallError::Refused { status: why.status, reason: why.reason.clone() }
    }

    /// RFC 3891 §3: who is replaced is hung up on when the replacement is answered.
    fn end_replaced(&mut self, cx: &mut Context<'_, Action>, id: CallId) {
        if let Some(old) = self.call_mut(id).and_then(|call| call.replaces.take()) {
            self.end_call(cx, old, None);
        }
    }

    /// Answers the INVITE of a call that has not been answered.
    pub(crate) fn respond_to_invite(
        &mut self,
        cx: &mut Context<'_, Action>,
        id: CallId,
        status: u16,
        phrase: &str,
        add: impl FnOnce(&mut ResponseWriter<'_>),
    ) {
        let Some(unanswered) = self.call_at(id).and_then(|call| call.unanswered.as_ref()) else { return };
        let (server, flow) = (unanswered.server, unanswered.flow);
        let account = self.call_at(id).map(|call| call.account);
        let mut response = Vec::new();
        self.write_to_invite(id, status, phrase, &mut response, |response, config| {
            if let Some(account) = account.filter(|_| (101..300).contains(&status)) {
                add_contact(response, config, account, flow);
                response.header(HeaderName::Allow, crate::reply::ALLOW);
            }
            add(response);
            None
        });
        self.transactions.respond(cx, server, status, |arena| arena.extend_from_slice(&response));
    }

    /// Whether the program may answer a call so: while it rings, and with one of `statuses`.
    fn check_answer(&self, call: CallId, status: u16, statuses: Range<u16>) -> Result<(), CallError> {
        if self.call_state(call).ok_or(CallError::NoCall)? != CallState::Ringing {
            return Err(CallError::WrongState);
        }
        if statuses.contains(&status) { Ok(()) } else { Err(CallError::BadStatus) }
    }

    fn write_to_invite(
        &self,
        id: CallId,
        status: u16,
        phrase: &str,
        bytes: &mut Vec<u8>,
        add: impl FnOnce(&mut ResponseWriter<'_>, &Config) -> Option<Body>,
    ) {
        let Some(call) = self.call_at(id) else { return };
        let Some(unanswered) = &call.unanswered else { return };
        let Ok(message) = Message::parse(&unanswered.request, &self.config.message_limits) else { return };
        let source = unanswered.flow.remote;
        // RFC 3261 §8.2.6.2: a 100 needs no tag.
        let tag = (status != 100).then_some(call.dialog.local_tag.as_slice());
        let mut response = ResponseWriter::answer(bytes, &message, status, phrase, source, tag);
        if (101..300).contains(&status) {
            response.copy(&message, HeaderName::RecordRoute);
        }
        finish(response, &self.config, add);
    }
}

/// How long the caller lets it ring at most (RFC 3261 §13.3.1).
fn expires_of(message: &Message<'_>) -> Option<Duration> {
    let seconds = message.first(HeaderName::Expires).and_then(grammar::delta_seconds)?;
    Some(Duration::from_secs(u64::from(seconds.max(1))))
}
