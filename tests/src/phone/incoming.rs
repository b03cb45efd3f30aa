//! Incoming requests of a phone.

use super::outgoing::uri_of;
use super::outgoing::{text, values};
use super::{Behaviour, Call, CallState, Due, Phone, PhoneEvent, outgoing};
use ringway_sansio::{Context, Flow, Instant, TimerKey, Token};
use ringway_sim::Effects;
use ringway_sip::{HeaderName, Limits, Message, MessageWriter, Method};
use ringway_transaction::{Incoming, MatchKey, reply_flow};
use std::time::Duration;

impl Phone {
    pub(super) fn on_request(
        &mut self,
        now: Instant,
        message: &Message<'_>,
        flow: Flow,
        effects: &mut Effects,
    ) {
        let key = match self
            .layer
            .receive_request(&mut Context::<()>::new(now, &mut effects.out, &mut Vec::new()), message)
        {
            Incoming::Absorbed => return,
            Incoming::AckOfSuccess(_) => return self.on_ack(message),
            Incoming::New(key) => key,
        };
        match message.method() {
            Method::Invite => self.on_invite(now, key, message, flow, effects),
            Method::Ack => self.on_ack(message),
            Method::Cancel => self.on_cancel(now, key, message, flow, effects),
            Method::Bye => self.on_bye(now, key, message, flow, effects),
            Method::Message => {
                if let Some(status) = self.message_answer {
                    self.answer_at_once(now, key, message, flow, status, effects);
                }
            }
            method => {
                if let (Method::Update, Some(index)) = (method, self.index_of(message)) {
                    let contact = values(message, HeaderName::Contact);
                    self.calls[index].target = uri_of(contact.first().expect("an UPDATE has a Contact"));
                }
                self.answer_at_once(now, key, message, flow, 200, effects);
            }
        }
    }

    pub(super) fn on_due(&mut self, now: Instant, due: Due, effects: &mut Effects) {
        match due {
            Due::Ring(index) => self.respond(now, index, 180, effects),
            Due::Answer(index) => self.accept(now, index, effects),
            Due::RetransmitOk(index) => self.retransmit_ok(now, index, effects),
            Due::StopRinging(index) => {
                if self.calls[index].state == CallState::Ringing {
                    self.calls[index].state = CallState::Over;
                    self.respond(now, index, 480, effects);
                }
            }
            Due::GiveUp(owner) => {
                let request = &mut self.requests[owner];
                request.is_cancelled = true;
                if let Some(client) = request.client {
                    self.layer
                        .cancel(&mut Context::<()>::new(now, &mut effects.out, &mut Vec::new()), client);
                }
            }
            Due::GiveUpAck(index) => {
                if self.calls[index].state == CallState::Unconfirmed {
                    self.wheel.cancel(self.calls[index].repeat);
                    self.events.push(PhoneEvent::NeverConfirmed);
                    self.bye(now, index, effects);
                }
            }
        }
    }

    fn on_invite(
        &mut self,
        now: Instant,
        key: MatchKey,
        message: &Message<'_>,
        flow: Flow,
        effects: &mut Effects,
    ) {
        if self.behaviour == Behaviour::Challenge && !outgoing::is_proven(&self.account, message) {
            return self.challenge(now, key, message, flow, effects);
        }
        self.events.push(PhoneEvent::Called);
        let reply = reply_flow(message.via(), flow);
        let port = message.via().port.unwrap_or(5060);
        let owner = Some(self.calls.len());
        let server = self.layer.start_server(key, true, reply, port, owner).expect("there is room");
        let local_tag = self.new_tag();
        let contact = values(message, HeaderName::Contact);
        self.calls.push(Call {
            call_id: text(message.call_id()),
            local: format!("<{}>", text(message.to().uri.as_bytes())),
            local_tag,
            remote_tag: text(message.from().tag().unwrap_or_default()),
            remote: format!("<{}>", text(message.from().uri.as_bytes())),
            target: contact.first().map(|value| uri_of(value)).expect("an INVITE has a Contact"),
            routes: values(message, HeaderName::RecordRoute),
            cseq: 1,
            state: CallState::Ringing,
            invite: message.as_bytes().to_vec(),
            server: Some(server),
            source: flow,
            last: Vec::new(),
            repeat: TimerKey::NONE,
            repeat_interval: Duration::ZERO,
        });
        let index = self.calls.len() - 1;
        self.wheel.arm(now + RINGS_MAX, Due::StopRinging(index));
        match self.behaviour {
            Behaviour::Answer { ring_ms, answer_ms } => {
                self.wheel.arm(now + Duration::from_millis(ring_ms), Due::Ring(index));
                self.wheel.arm(now + Duration::from_millis(answer_ms), Due::Answer(index));
            }
            Behaviour::Challenge => {
                self.wheel.arm(now + Duration::from_millis(500), Due::Answer(index));
            }
            Behaviour::Ring => self.respond(now, index, 180, effects),
            Behaviour::Refuse(status) => {
                self.calls[index].state = CallState::Over;
                self.respond(now, index, status, effects);
            }
            Behaviour::KeepTopViaOnly(status) => {
                self.respond(now, index, 180, effects);
                self.calls[index].state = CallState::Over;
                self.respond(now, index, status, effects);
            }
            Behaviour::Silent => {
                // A silent phone does not report the call.
                self.events.pop();
                self.calls[index].state = CallState::Over;
                self.layer.drop_server(server);
            }
        }
    }

    fn challenge(
        &mut self,
        now: Instant,
        key: MatchKey,
        message: &Message<'_>,
        flow: Flow,
        effects: &mut Effects,
    ) {
        let reply = reply_flow(message.via(), flow);
        let port = message.via().port.unwrap_or(5060);
        let server = self.layer.start_server(key, true, reply, port, None).expect("there is room");
        let tag = self.new_tag();
        let mut actions = Vec::new();
        self.layer.respond(
            &mut Context::<()>::new(now, &mut effects.out, &mut actions),
            server,
            407,
            |arena| {
                let (source, tag) = (Some(flow.remote), Some(tag.as_bytes()));
                let mut response = MessageWriter::response(arena, message, 407, "Challenge", source, tag);
                response.header(HeaderName::ProxyAuthenticate, outgoing::challenge().as_bytes());
                response.finish().expect("nothing breaks out");
            },
        );
    }

    fn accept(&mut self, now: Instant, index: usize, effects: &mut Effects) {
        if self.calls[index].state != CallState::Ringing {
            return;
        }
        self.calls[index].state = CallState::Unconfirmed;
        self.respond(now, index, 200, effects);
        let call = &mut self.calls[index];
        call.last = effects.out.last_bytes().to_vec();
        call.repeat_interval = T1;
        call.repeat = self.wheel.arm(now + T1, Due::RetransmitOk(index));
        self.wheel.arm(now + 64 * T1, Due::GiveUpAck(index));
    }

    /// RFC 3261 §13.3.1.4: until the ACK arrives, at intervals from T1 to T2.
    fn retransmit_ok(&mut self, now: Instant, index: usize, effects: &mut Effects) {
        let call = &mut self.calls[index];
        if call.state != CallState::Unconfirmed {
            return;
        }
        call.repeat_interval = (call.repeat_interval * 2).min(T2);
        call.repeat = self.wheel.arm(now + call.repeat_interval, Due::RetransmitOk(index));
        let Some(server) = call.server else { return };
        let ok = &call.last;
        self.layer.respond(
            &mut Context::<()>::new(now, &mut effects.out, &mut Vec::new()),
            server,
            200,
            |arena| arena.extend_from_slice(ok),
        );
    }

    fn on_ack(&mut self, message: &Message<'_>) {
        let Some(index) = self.index_of(message) else { return };
        let call = &mut self.calls[index];
        if call.state == CallState::Unconfirmed {
            call.state = CallState::Established;
            self.wheel.cancel(call.repeat);
            self.events.push(PhoneEvent::Confirmed);
        }
    }

    fn on_cancel(
        &mut self,
        now: Instant,
        key: MatchKey,
        message: &Message<'_>,
        flow: Flow,
        effects: &mut Effects,
    ) {
        let Some((_, Some(index), _)) = self.layer.cancelled_by(message) else {
            return self.answer_at_once(now, key, message, flow, 481, effects);
        };
        self.answer_at_once(now, key, message, flow, 200, effects);
        if self.calls[index].state == CallState::Ringing {
            self.calls[index].state = CallState::Over;
            self.events.push(PhoneEvent::Cancelled);
            self.respond(now, index, 487, effects);
        }
    }

    fn on_bye(
        &mut self,
        now: Instant,
        key: MatchKey,
        message: &Message<'_>,
        flow: Flow,
        effects: &mut Effects,
    ) {
        let Some(index) = self.index_of(message) else {
            return self.answer_at_once(now, key, message, flow, 481, effects);
        };
        let call = &mut self.calls[index];
        if matches!(call.state, CallState::Established | CallState::Unconfirmed) {
            self.events.push(PhoneEvent::HungUp);
        }
        call.state = CallState::Over;
        self.wheel.cancel(call.repeat);
        self.answer_at_once(now, key, message, flow, 200, effects);
    }

    /// Call of an in-dialog request.
    fn index_of(&self, message: &Message<'_>) -> Option<usize> {
        let (call_id, to_tag) = (message.call_id(), message.to().tag()?);
        self.calls.iter().position(|call| {
            call.call_id.as_bytes() == call_id
                && call.local_tag.as_bytes() == to_tag
                && Some(call.remote_tag.as_bytes()) == message.from().tag()
        })
    }

    fn answer_at_once(
        &mut self,
        now: Instant,
        key: MatchKey,
        message: &Message<'_>,
        flow: Flow,
        status: u16,
        effects: &mut Effects,
    ) {
        let reply = reply_flow(message.via(), flow);
        let port = message.via().port.unwrap_or(5060);
        let server = self.layer.start_server(key, false, reply, port, None).expect("there is room");
        let tag = self.new_tag();
        self.layer.respond(
            &mut Context::<()>::new(now, &mut effects.out, &mut Vec::new()),
            server,
            status,
            |arena| {
                let source = Some(flow.remote);
                let tag = Some(tag.as_bytes());
                let response = MessageWriter::response(arena, message, status, "Answer", source, tag);
                response.finish().expect("nothing breaks out");
            },
        );
    }

    /// Answers the INVITE of a call.
    fn respond(&mut self, now: Instant, index: usize, status: u16, effects: &mut Effects) {
        let contact = format!("<{}>", self.contact_uri());
        let call = &self.calls[index];
        let Some(server) = call.server else { return };
        if status == 180 && call.state != CallState::Ringing {
            return;
        }
        let mut invite = call.invite.clone();
        if matches!(self.behaviour, Behaviour::KeepTopViaOnly(_)) {
            invite = with_top_via_only(&invite);
        }
        let message = Message::parse(&invite, &Limits::default()).expect("it was read before");
        self.layer.respond(
            &mut Context::<()>::new(now, &mut effects.out, &mut Vec::new()),
            server,
            status,
            |arena| {
                let source = Some(call.source.remote);
                let tag = Some(call.local_tag.as_bytes());
                let mut response = MessageWriter::response(arena, &message, status, "Answer", source, tag);
                response.copy(&message, HeaderName::RecordRoute);
                response.header(HeaderName::Contact, contact.as_bytes());
                response.finish().expect("nothing breaks out");
            },
        );
    }

    /// Sends bytes unchanged.
    pub fn send_raw(&mut self, bytes: &[u8], effects: &mut Effects) {
        let flow = self.flow_to(&format!("sip:{}", self.account.domain));
        effects.out.send(flow, Token::NONE, bytes);
    }
}

fn with_top_via_only(message: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(message);
    let mut vias = 0;
    let kept = text.split_inclusive("\r\n").filter(|line| {
        vias += usize::from(line.starts_with("Via:"));
        !line.starts_with("Via:") || vias == 1
    });
    kept.collect::<String>().into_bytes()
}

/// Longer than the timeouts of callers and proxies.
const RINGS_MAX: Duration = Duration::from_secs(240);
const T1: Duration = Duration::from_millis(500);
const T2: Duration = Duration::from_secs(4);
