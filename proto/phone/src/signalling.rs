//! Events of the user agent.

use crate::call::Origin;
use crate::commands::BUSY_HERE;
use crate::phone::Phone;
use crate::{
    Action, Call, CallEnd, CallNumber, IncomingPolicy, MediaCommand, Phase, PhoneEvent, PhoneLimits, Side,
    SipMessage, TransferPolicy, TransferStep,
};
use alloc::boxed::Box;
use alloc::string::String;
use ringway_agent::{AgentEvent, By, CallId, CallState, Ended};
use ringway_sansio::Context;
use ringway_sdp::{Direction, MediaParams, Protection};

impl Phone {
    /// Handles an event of the user agent.
    pub(crate) fn on_agent_event(&mut self, cx: &mut Context<'_, Action>, event: AgentEvent) {
        match event {
            AgentEvent::Registered { expires_s, .. } => cx.emit(PhoneEvent::Registered { expires_s }),
            AgentEvent::RegistrationFailed { status, reason, retry_s, .. } => {
                cx.emit(PhoneEvent::RegistrationFailed { status, reason, retry_s });
            }
            AgentEvent::Unregistered { .. } => cx.emit(PhoneEvent::Unregistered),
            AgentEvent::Message { direction, flow, line, cseq, bytes, whole, .. } => {
                cx.emit(PhoneEvent::Message(SipMessage {
                    direction,
                    transport: flow.transport,
                    peer: flow.remote,
                    line,
                    cseq,
                    length: bytes,
                    bytes: whole,
                }));
            }
            AgentEvent::Incoming {
                call: id,
                from: uri,
                display_name: name,
                proven_user,
                replaces,
                bypasses_server,
                is_sips,
                ..
            } => {
                if let Some(user) = proven_user {
                    cx.emit(PhoneEvent::CallerProven { uri: uri.clone(), user });
                }
                let call = self.new_number();
                let (shown, from) = (name.clone(), uri.clone());
                let replaces = replaces.and_then(|replaced| self.number_of(replaced));
                let incoming =
                    PhoneEvent::Incoming { call, name: shown, uri: from, bypasses_server, is_sips, replaces };
                let call =
                    Call { id: Some(id), bypasses_server, ..Call::new(call, Origin::Incoming, name, uri) };
                self.on_incoming(cx, call, incoming, replaces.is_some());
            }
            AgentEvent::Progress { call, .. }
            | AgentEvent::Postponed { call, .. }
            | AgentEvent::EarlyMedia { call, .. }
            | AgentEvent::Answered { call, .. }
            | AgentEvent::MediaChanged { call, .. }
            | AgentEvent::HeldByPeer { call }
            | AgentEvent::ResumedByPeer { call }
            | AgentEvent::ChangeRefused { call, .. }
            | AgentEvent::OfferRefused { call, .. }
            | AgentEvent::Ended { call, .. }
            | AgentEvent::TransferRequested { call, .. }
            | AgentEvent::TransferProgress { call, .. }
            | AgentEvent::TransferDone { call, .. } => {
                if let Some(number) = self.number_of(call) {
                    self.on_call_event(cx, number, event);
                }
            }
            AgentEvent::CallerRefused { from: uri, user, source } => {
                cx.emit(PhoneEvent::CallerRefused { uri, user, source });
            }
            AgentEvent::QueryAnswered { status, reason, abilities, .. } => {
                cx.emit(PhoneEvent::OptionsAnswered { status, reason, abilities });
            }
        }
    }

    /// Handles an event of a call.
    fn on_call_event(&mut self, cx: &mut Context<'_, Action>, call: CallNumber, event: AgentEvent) {
        let is_ending = self.call(call).is_none_or(|call| call.phase == Phase::Ending);
        match event {
            AgentEvent::Ended { cause, .. } => self.on_ended(cx, call, cause),
            AgentEvent::TransferProgress { status, .. } => {
                cx.emit(PhoneEvent::Transfer { call, step: TransferStep::Trying { status } });
            }
            AgentEvent::TransferDone { status: 200..300, .. } => {
                cx.emit(PhoneEvent::Transfer { call, step: TransferStep::Done });
            }
            AgentEvent::TransferDone { status, reason, .. } => {
                cx.emit(PhoneEvent::Transfer { call, step: TransferStep::Failed { status, reason } });
            }
            // A call that we have ended changes no more.
            _ if is_ending => {}
            AgentEvent::Progress { status: RINGING, .. } => {
                // A 180 behind a 183 with sound takes nothing back.
                if let Some(call) = self.call_mut(call)
                    && let Phase::Calling(_) = call.phase
                {
                    call.phase = Phase::RingsThere;
                }
                self.media(cx, call, MediaCommand::Ringback);
                cx.emit(PhoneEvent::Ringing { call });
            }
            AgentEvent::Progress { status, .. } => cx.emit(PhoneEvent::Progress { call, status }),
            AgentEvent::Postponed { wait, .. } => cx.emit(PhoneEvent::Postponed { call, wait }),
            AgentEvent::EarlyMedia { params, .. } => {
                if let Some(call) = self.call_mut(call) {
                    call.phase = Phase::EarlyMedia;
                }
                self.set_params(cx, call, params);
                cx.emit(PhoneEvent::Early { call });
            }
            AgentEvent::Answered { params, .. } => self.on_answered(cx, call, params),
            AgentEvent::MediaChanged { params, .. } => {
                let receives = params.direction.receives();
                self.set_params(cx, call, params);
                // If neither side sends, the hold may be the peer's.
                self.set_hold(cx, call, |call| Some(call.wants_hold && !receives), None);
            }
            AgentEvent::HeldByPeer { .. } => self.set_hold(cx, call, |_| None, Some(true)),
            AgentEvent::ResumedByPeer { .. } => self.set_hold(cx, call, |_| None, Some(false)),
            AgentEvent::ChangeRefused { status, reason, .. } => {
                self.on_change_refused(cx, call, status, reason);
            }
            AgentEvent::OfferRefused { status, reason, .. } => {
                cx.emit(PhoneEvent::OfferRefused { call, status, reason });
            }
            AgentEvent::TransferRequested { target, .. } => self.on_transfer_requested(cx, call, target),
            // `on_agent_event` handles the events that are not about one call.
            _ => {}
        }
    }

    fn on_incoming(
        &mut self,
        cx: &mut Context<'_, Action>,
        incoming: Call,
        event: PhoneEvent,
        replaces: bool,
    ) {
        let Call { number: call, id, .. } = incoming;
        let PhoneLimits { calls_max, waiting_max, .. } = self.config.limits;
        let count = |is_counted: fn(&&Call) -> bool| self.calls.iter().filter(is_counted).count();
        let (live, waiting) = (count(|call| call.end.is_none()), count(|call| call.waiting.is_some()));
        let has_room = self.calls.len() - waiting < calls_max;
        // The agent bounds the calls that replace others.
        if (live >= calls_max || waiting >= waiting_max) && !replaces {
            self.counters.busy += 1;
            // A call that is over already needs no response.
            let _ = id.map(|id| self.with_agent(cx, |agent, cx| agent.reject(cx, id, BUSY_HERE)));
            return cx.emit(PhoneEvent::Busy { name: incoming.name, uri: incoming.uri });
        }
        if has_room || replaces {
            self.calls.push(incoming);
            self.announce(cx, call, event);
        } else {
            self.calls.push(Call { waiting: Some(Box::new(event)), ..incoming });
        }
    }

    /// Announces the incoming calls that waited for the end of others, whose events are emitted before.
    pub(crate) fn announce_waiting(&mut self, cx: &mut Context<'_, Action>) {
        while self.calls.iter().filter(|call| call.waiting.is_none()).count() < self.config.limits.calls_max {
            let next =
                self.calls.iter_mut().find_map(|call| call.waiting.take().map(|event| (call.number, event)));
            let Some((number, event)) = next else { return };
            self.announce(cx, number, *event);
            // Its caller may have given up.
            self.finish(cx, number);
        }
    }

    fn announce(&mut self, cx: &mut Context<'_, Action>, call: CallNumber, event: PhoneEvent) {
        cx.emit(event);
        match self.config.incoming {
            IncomingPolicy::Ask => {
                self.signal(cx, call, |agent, cx, id| agent.ring(cx, id, RINGING));
            }
            IncomingPolicy::Answer => self.answer(cx, call),
            IncomingPolicy::Reject(status) => self.reject(cx, call, status),
        }
    }

    fn on_answered(&mut self, cx: &mut Context<'_, Action>, number: CallNumber, params: MediaParams) {
        let Some(call) = self.call_mut(number) else { return };
        call.phase = Phase::Talking(cx.now);
        call.talking_since = Some(cx.now);
        let codec = params.codec.name().into();
        let is_securing = matches!(params.protection, Protection::Zrtp { .. } | Protection::Dtls { .. });
        call.is_securing = is_securing;
        // The source of the INVITE may be forged, and its SDP may name a victim: only the ACK shows that the caller has our 200.
        let is_confirmed =
            self.call(number).and_then(|call| call.id).is_none_or(|id| self.is_acknowledged(id));
        let awaits_ack = (!is_confirmed && params.direction.sends()).then(|| params.clone());
        let direction = match (is_confirmed, params.direction.receives()) {
            (true, _) => params.direction,
            (false, true) => Direction::RecvOnly,
            (false, false) => Direction::Inactive,
        };
        self.set_params(cx, number, MediaParams { direction, ..params });
        if let Some(call) = self.call_mut(number) {
            call.awaits_ack = awaits_ack;
        }
        self.media(cx, number, MediaCommand::Answered);
        cx.emit(PhoneEvent::Answered { call: number, codec });
        if is_securing {
            cx.emit(PhoneEvent::Securing { call: number });
        }
    }

    /// Lets the media of answered calls send after the ACK.
    pub(crate) fn release_media(&mut self, cx: &mut Context<'_, Action>) {
        let is_released = |phone: &Self, call: &Call| {
            call.awaits_ack.is_some() && call.id.is_none_or(|id| phone.is_acknowledged(id))
        };
        while let Some(call) = self.calls.iter().find(|call| is_released(self, call)) {
            let (number, wants_hold) = (call.number, call.wants_hold);
            let params = self.call_mut(number).and_then(|call| call.awaits_ack.take());
            if let Some(params) = params {
                self.set_params(cx, number, params);
            }
            if wants_hold {
                self.media(cx, number, MediaCommand::Hold);
            }
        }
    }

    /// False for an incoming call whose 200 has no ACK yet.
    fn is_acknowledged(&self, id: CallId) -> bool {
        self.agent.call_state(id) != Some(CallState::Accepted)
    }

    fn on_change_refused(
        &mut self,
        cx: &mut Context<'_, Action>,
        number: CallNumber,
        status: u16,
        reason: String,
    ) {
        let Some(call) = self.call_mut(number) else { return };
        call.wants_hold = call.is_held_by_us();
        let command = if call.wants_hold { MediaCommand::Hold } else { MediaCommand::Resume };
        self.media(cx, number, command);
        cx.emit(PhoneEvent::HoldRefused { call: number, status, reason });
    }

    fn on_transfer_requested(&mut self, cx: &mut Context<'_, Action>, number: CallNumber, to: String) {
        let Some(call) = self.call_mut(number) else { return };
        call.transfer_target = Some(to.clone());
        cx.emit(PhoneEvent::TransferAsked { call: number, to });
        if self.config.transfers == TransferPolicy::Reject {
            self.signal(cx, number, |agent, cx, id| agent.reject_transfer(cx, id));
        }
    }

    fn on_ended(&mut self, cx: &mut Context<'_, Action>, number: CallNumber, cause: Ended) {
        let Some(call) = self.call(number) else { return };
        let Ended { status, reason, by } = cause;
        let reason = call.failure.clone().unwrap_or(reason);
        let by = match by {
            _ if call.failure.is_some() => Side::Failure,
            _ if call.is_ended_by_us() => Side::Us,
            By::Remote => Side::Peer,
            // After a transfer the user agent hangs up, as it was asked to.
            By::Local if status == OK => Side::Us,
            By::Local => Side::Failure,
        };
        self.end_call(cx, number, CallEnd { by, status, reason });
    }

    fn set_params(&mut self, cx: &mut Context<'_, Action>, number: CallNumber, params: MediaParams) {
        if let Some(call) = self.call_mut(number) {
            call.codec = params.codec.name();
            call.awaits_ack = None;
        }
        self.media(cx, number, MediaCommand::Params(Box::new(params)));
    }

    fn set_hold(
        &mut self,
        cx: &mut Context<'_, Action>,
        number: CallNumber,
        ours: impl FnOnce(&Call) -> Option<bool>,
        theirs: Option<bool>,
    ) {
        let Some(call) = self.call_mut(number) else { return };
        let ours = ours(call);
        if call.set_hold(ours, theirs) {
            cx.emit(PhoneEvent::Held { call: number, hold: call.hold });
        }
    }
}

/// RFC 3261 §21.1.2, §21.2.1.
const RINGING: u16 = 180;
const OK: u16 = 200;
