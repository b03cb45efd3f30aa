//! Server side of [`Transactions`]: received requests and their responses. Responses that leave no state: to messages
//! that the parser rejects (RFC 3261 §16.3 step 1); their To tags (RFC 3261 §8.2.7).

use crate::layer::{Incoming, Transactions, recycle, server_token};
use crate::server::{self, Allowance, MatchKey, Origin, Server, ServerId};
use crate::slab::SlabKey;
use crate::state::{Class, Effect, ServerEvent, Timer, invite_server};
use crate::timers::{Clock, Due, Side};
use crate::via::reply_flow;
use alloc::vec::Vec;
use core::hash::Hasher;
use core::net::SocketAddr;
use ringway_sansio::{Context, Flow, Instant, Outbox, PartHasher, PlantedFault, Token};
use ringway_sip::{HeaderName, Message, MessageWriter, Method, Rejected, Via, grammar};
use siphasher::sip::SipHasher13;

impl<S: Copy, C: Copy> Transactions<S, C> {
    /// Matches a request to its server transaction. A retransmission gets the last response again, an ACK goes to its
    /// INVITE.
    pub fn receive_request<A>(&mut self, cx: &mut Context<'_, A>, message: &Message<'_>) -> Incoming<S> {
        let key = self.matcher.key(message);
        let Some(&slot) = self.index.get(&key) else { return Incoming::New(key) };
        let Some(server) = self.servers.get_mut(slot) else { return Incoming::New(key) };
        let event = match message.method() {
            Method::Ack => ServerEvent::Ack,
            Method::Invite if PlantedFault::RetransmissionForked.is_planted() => return Incoming::New(key),
            _ => {
                self.counters.requests_absorbed += 1;
                if let Some(allowance) = &mut server.allowance {
                    allowance.receive(message.as_bytes().len());
                }
                ServerEvent::Request
            }
        };
        let owner = server.owner;
        let effects = self.step_server(cx, slot, event);
        if effects.contains(&Effect::PassUp) { Incoming::AckOfSuccess(owner) } else { Incoming::Absorbed }
    }

    /// Starts a server transaction for a request that was [`Incoming::New`]. `None`: the limit is reached.
    pub fn start_server(
        &mut self,
        key: MatchKey,
        is_invite: bool,
        reply: Flow,
        sent_by_port: u16,
        owner: S,
    ) -> Option<ServerId> {
        if self.servers.len() >= self.limits.servers_max {
            self.counters.transactions_refused += 1;
            return None;
        }
        let fallback = reply.connection.map(|_| SocketAddr::new(reply.remote.ip(), sent_by_port));
        let slot = self.servers.insert(Server {
            machine: server::Machine::new(is_invite),
            reply,
            fallback,
            owner,
            key,
            allowance: None,
            last: self.spare.pop().unwrap_or_default(),
            clock: Clock::STOPPED,
        });
        self.index.insert(key, slot);
        Some(ServerId(slot))
    }

    /// True if a sixteenth of all transactions is left for requests of calls that were accepted before.
    pub fn has_room_for_new_calls(&self) -> bool {
        // A limit of a few has no sixteenth.
        let has_room = |len: usize, max: usize| max < 16 || len < max - max / 16;
        has_room(self.servers.len(), self.limits.servers_max)
            && has_room(self.clients.len(), self.limits.clients_max)
    }

    /// Limits the bytes that are sent for a request from an unverified address.
    pub fn limit(&mut self, id: ServerId, allowance: Allowance) {
        if let Some(server) = self.servers.get_mut(id.0) {
            server.allowance = Some(allowance);
        }
    }

    /// Sends a forwarded response; otherwise like [`Transactions::respond`].
    pub fn forward<A>(
        &mut self,
        cx: &mut Context<'_, A>,
        id: ServerId,
        status: u16,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> bool {
        self.send_response(cx, id, status, Origin::Forwarded, write)
    }

    /// Sends a locally generated response, written by `write`. After a final response nothing more is sent, except
    /// further 2xx to an INVITE. Returns true if it was sent.
    pub fn respond<A>(
        &mut self,
        cx: &mut Context<'_, A>,
        id: ServerId,
        status: u16,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> bool {
        self.send_response(cx, id, status, Origin::Generated, write)
    }

    fn send_response<A>(
        &mut self,
        cx: &mut Context<'_, A>,
        id: ServerId,
        status: u16,
        origin: Origin,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> bool {
        let Some(server) = self.servers.get_mut(id.0) else { return false };
        let class = Class::of(status);
        let event = ServerEvent::Respond(class);
        if !server.machine.on(event, server.reply.transport.is_reliable()).effects.contains(&Effect::Send) {
            return false;
        }
        let before = cx.out.len();
        cx.out.send_with(server.reply, server_token(self.shard, id.0), write);
        if cx.out.len() == before {
            return false;
        }
        server.last.clear();
        let is_accepted = class == Class::Success && matches!(server.machine, server::Machine::Invite(_));
        if !is_accepted || server.reply.connection.is_some() {
            server.last.extend_from_slice(cx.out.last_bytes());
        }
        let length = cx.out.last_bytes().len();
        if server.allowance.as_mut().is_some_and(|allowance| !allowance.send(origin, length)) {
            self.counters.responses_limited += 1;
            cx.out.drop_last();
        }
        self.step_server_after_send(cx.now, id.0, event);
        true
    }

    /// True after a final response was sent.
    pub fn is_answered(&self, id: ServerId) -> bool {
        self.servers.get(id.0).is_none_or(|server| server.machine.is_answered())
    }

    /// Flow of the responses of a server transaction.
    pub fn reply_flow_of(&self, id: ServerId) -> Option<Flow> {
        self.servers.get(id.0).map(|server| server.reply)
    }

    /// Removes a server transaction without a response (RFC 4320 §4.2: no 408 to a non-INVITE).
    pub fn drop_server(&mut self, id: ServerId) {
        self.remove_server(id.0);
    }

    /// Transaction, owner and flow of the INVITE that this CANCEL is for (RFC 3261 §9.2).
    pub fn cancelled_by(&self, cancel: &Message<'_>) -> Option<(ServerId, S, Flow)> {
        let slot = *self.index.get(&self.matcher.key_of_cancelled(cancel))?;
        self.servers.get(slot).map(|server| (ServerId(slot), server.owner, server.reply))
    }

    /// True for a retransmission of a request that has a transaction.
    pub fn is_served(&self, request: &Message<'_>) -> bool {
        self.index.contains_key(&self.matcher.key(request))
    }

    /// Key of the INVITE that this CANCEL is for.
    pub fn key_of_cancelled(&self, cancel: &Message<'_>) -> MatchKey {
        self.matcher.key_of_cancelled(cancel)
    }

    pub(crate) fn step_server<A>(
        &mut self,
        cx: &mut Context<'_, A>,
        slot: SlabKey,
        event: ServerEvent,
    ) -> &'static [Effect] {
        let Some(server) = self.servers.get_mut(slot) else { return &[] };
        let step = server.machine.on(event, server.reply.transport.is_reliable());
        if step.effects.contains(&Effect::Send) && !server.last.is_empty() {
            let length = server.last.len();
            let may_send = |allowance: &mut Allowance| allowance.send(Origin::Generated, length);
            if server.allowance.as_mut().is_none_or(may_send) {
                self.counters.responses_retransmitted += 1;
                cx.out.send(server.reply, server_token(self.shard, slot), &server.last);
            } else {
                self.counters.responses_limited += 1;
            }
        }
        self.step_server_after_send(cx.now, slot, event)
    }

    /// Executes a step without the sending.
    fn step_server_after_send(
        &mut self,
        now: Instant,
        slot: SlabKey,
        event: ServerEvent,
    ) -> &'static [Effect] {
        let Some(server) = self.servers.get_mut(slot) else { return &[] };
        let step = server.machine.on(event, server.reply.transport.is_reliable());
        server.machine = step.state;
        // A failure is not retransmitted after its ACK.
        if step.state == server::Machine::Invite(invite_server::State::Confirmed) {
            recycle(&mut self.spare, core::mem::take(&mut server.last));
        }
        let due = |timer| Due { of: Side::Server, key: slot, timer };
        for &effect in step.effects {
            match effect {
                Effect::Start(Timer::H) if PlantedFault::AckAwaited.is_planted() => {}
                Effect::Start(timer) => {
                    server.clock.start(&mut self.wheel, now, self.timers.length(timer), due(timer));
                }
                Effect::Repeat(timer) => {
                    let interval = self.timers.next_interval(timer, server.clock.interval);
                    server.clock.repeat(&mut self.wheel, now, interval, due(timer));
                }
                Effect::StopRetransmitting => server.clock.stop_retransmission(&mut self.wheel),
                Effect::StopWaiting => server.clock.stop_waiting(&mut self.wheel),
                Effect::ReportTimeout => self.counters.acks_missed += 1,
                Effect::Send | Effect::SendAck | Effect::PassUp | Effect::ReportTransportError => {}
            }
        }
        if step.state.is_over() {
            self.remove_server(slot);
        }
        step.effects
    }

    fn remove_server(&mut self, slot: SlabKey) {
        if let Some(server) = self.servers.remove(slot) {
            server.clock.stop(&mut self.wheel);
            if self.index.get(&server.key) == Some(&slot) {
                self.index.remove(&server.key);
            }
            recycle(&mut self.spare, server.last);
            if self.index.is_empty() && self.index.capacity() > INDEX_KEPT_MAX {
                self.index.shrink_to(INDEX_KEPT_MAX);
                self.spare = Vec::new();
            }
            self.gone.push(server.owner);
        }
    }
}

/// Answers a rejected request without a transaction. Responses, ACKs and requests without a Via are dropped. `flow` is
/// the flow of the request; `to_tag` is added if its To has no tag.
pub fn answer_rejected(rejected: &Rejected<'_>, flow: Flow, to_tag: &[u8], out: &mut Outbox) {
    let fields = &rejected.fields;
    let Some(via_line) = fields.first(HeaderName::Via) else { return };
    if fields.is_response() || fields.as_bytes().starts_with(b"ACK ") {
        return;
    }
    let via = Via::parse(grammar::split_value(via_line).0);
    let flow = via.map_or(flow, |via| reply_flow(&via, flow));
    let phrase = alloc::format!("{}", rejected.reason);
    let status = rejected.reason.status();
    out.send_with(flow, Token::NONE, |arena| {
        let response =
            MessageWriter::response(arena, fields, status, &phrase, Some(flow.remote), Some(to_tag));
        let _ = response.finish();
    });
}

/// The To tag of a response without a transaction. It follows from the request, so that a retransmitted request gets it again and
/// the ACK of the response is recognized.
pub fn to_tag(key: &[u8; 16], message: &Message<'_>) -> [u8; 16] {
    let mut hash = PartHasher::new(SipHasher13::new_with_key(key));
    let (call_id, from_tag) = (message.call_id(), message.from().tag().unwrap_or_default());
    // Both are parts of one message and shorter than 65,536 bytes.
    let lengths = (call_id.len() as u64) << 16 | from_tag.len() as u64;
    hash.fixed(&(u64::from(message.cseq().number) << 32 | lengths).to_le_bytes());
    hash.bytes(call_id);
    hash.bytes(from_tag);
    ringway_sip::hex16(hash.hasher().finish())
}

/// Capacity that an empty index keeps.
const INDEX_KEPT_MAX: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::{String, ToString};
    use ringway_sansio::ListenerId;
    use ringway_sip::{Limits, Message};

    /// Destination and text of the response to `message`, which must lack mandatory header fields.
    fn answer(message: &str) -> Option<(String, String)> {
        let bytes = message.replace('\n', "\r\n").into_bytes();
        let rejected = Message::parse(&bytes, &Limits::default()).unwrap_err();
        let mut out = Outbox::new();
        let flow = Flow::udp(ListenerId(0), "192.0.2.1:40000".parse().unwrap());
        answer_rejected(&rejected, flow, b"t", &mut out);
        let (packet, bytes) = out.packets().next()?;
        Some((packet.flow.remote.to_string(), String::from_utf8(bytes.to_vec()).unwrap()))
    }

    #[test]
    fn only_requests_with_a_via_are_answered() {
        let (to, text) =
            answer("BYE sip:b@h SIP/2.0\nVia: SIP/2.0/UDP h:5070;branch=z9hG4bKa\nTo: <sip:b@h>\n\n")
                .unwrap();
        assert_eq!(to, "192.0.2.1:5070");
        assert!(text.starts_with("SIP/2.0 400 ") && text.contains("\r\nTo: <sip:b@h>;tag=t\r\n"), "{text}");
        for message in [
            "ACK sip:b@h SIP/2.0\nVia: SIP/2.0/UDP h;branch=z9hG4bKa\n\n",
            "SIP/2.0 200 OK\nVia: SIP/2.0/UDP h;branch=z9hG4bKa\n\n",
            "BYE sip:b@h SIP/2.0\nTo: <sip:b@h>\n\n",
        ] {
            assert_eq!(answer(message), None, "{message}");
        }
    }
}
