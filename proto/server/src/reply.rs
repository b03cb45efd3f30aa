//! Answers this server gives by itself.

use crate::auth::Sender;
use crate::server::Request;
use crate::{Action, CallStep, Server, Services};
use alloc::vec::Vec;
use core::hash::Hasher;
use ringway_sansio::{Context, Flow, PartHasher, Token, Transport};
use ringway_sip::{HeaderName, Message, Method, Rejected, ResponseWriter, Via};
use ringway_transaction::{Allowance, MatchKey, answer_rejected, reply_flow};
use siphasher::sip::SipHasher13;

impl<S: Services> Server<S> {
    /// Answers without a transaction (RFC 3261 §8.2.7): the same request gets the same answer again. Towards an address that is not
    /// verified a response over its allowance is not sent.
    pub(crate) fn reply(
        &mut self,
        cx: &mut Context<'_, Action>,
        request: &Request<'_, '_>,
        status: u16,
        phrase: &str,
        add: impl FnOnce(&mut ResponseWriter<'_>),
    ) {
        let before = cx.out.len();
        write_reply(cx, &self.keys.tag, request, status, phrase, add);
        let is_over = cx.out.last_bytes().len() > Allowance::generated_max(request.message.as_bytes().len());
        if cx.out.len() > before && is_over && !request.is_verified() {
            self.counters.unverified_limited += 1;
            cx.out.drop_last();
        }
    }

    /// Answers a request that goes no further, without a transaction: its client retransmits it until the response arrives. Our To
    /// tag tells the ACK of an INVITE; inside a dialog the tag is the dialog's, and the last few such INVITEs are remembered.
    pub(crate) fn refuse(
        &mut self,
        cx: &mut Context<'_, Action>,
        request: &Request<'_, '_>,
        status: u16,
        phrase: &str,
        add: impl FnOnce(&mut ResponseWriter<'_>),
    ) {
        if request.method == Method::Ack {
            self.counters.stray += 1;
            return;
        }
        if request.method == Method::Invite && request.message.to().tag().is_some() {
            self.refused_in_dialog.push(self.transactions.key_of(request.message));
        }
        self.reply(cx, request, status, phrase, add);
    }

    /// Refuses with a status alone.
    pub(crate) fn refuse_plainly(
        &mut self,
        cx: &mut Context<'_, Action>,
        request: &Request<'_, '_>,
        status: u16,
        phrase: &str,
    ) {
        match status {
            403 => self.counters.forbidden += 1,
            404 => self.counters.not_found += 1,
            440 => self.counters.too_broad += 1,
            480 => self.counters.not_registered += 1,
            482 => self.counters.loops += 1,
            483 => self.counters.too_many_hops += 1,
            _ => self.counters.refused += 1,
        }
        if request.method == Method::Invite {
            let step = match request.grant.sender {
                Sender::Unknown => CallStep::Refused(status),
                Sender::Proven | Sender::Trusted | Sender::Believed | Sender::InDialog | Sender::Stranger => {
                    CallStep::Failed(status)
                }
            };
            self.observe_call(cx.now, request, step);
        }
        self.refuse(cx, request, status, phrase, |_| {});
    }

    /// Answers a request that cannot be accepted, if it can be answered at all; drops responses and ACKs.
    pub(crate) fn on_rejected(&mut self, cx: &mut Context<'_, Action>, rejected: &Rejected<'_>, flow: Flow) {
        if let Some(count) = self.counters.rejected.get_mut(rejected.reason.index()) {
            *count += 1;
        }
        answer_rejected(rejected, flow, b"rejected", cx.out);
    }

    /// A stream's client is over its rate.
    pub(crate) fn slow_down(&mut self, cx: &mut Context<'_, Action>, message: &Message<'_>, flow: Flow) {
        if message.is_response() || message.method() == Method::Ack {
            return;
        }
        let tag = self.to_tag(message);
        cx.out.send_with(reply_flow(message.via(), flow), Token::NONE, |arena| {
            let phrase = "Slow Down";
            let mut response = ResponseWriter::answer(arena, message, 503, phrase, flow.remote, Some(&tag));
            response.header_number(HeaderName::RetryAfter, 1);
            let _ = response.finish();
        });
    }

    /// The To tag of our own answers: it follows from the request, so that a repeated request gets it again and the ACK
    /// of an answer that left no state is known (RFC 3261 §8.2.7).
    pub(crate) fn to_tag(&self, message: &Message<'_>) -> [u8; 16] {
        to_tag(&self.keys.tag, message)
    }

    /// True for the ACK of a refusal of ours.
    pub(crate) fn acknowledges_us(&self, ack: &Message<'_>, key: MatchKey) -> bool {
        ack.to().tag().is_some_and(|tag| tag == self.to_tag(ack)) || self.refused_in_dialog.contains(key)
    }

    /// The flow to a Via's client, for a response that is forwarded without state.
    pub(crate) fn flow_to_via(&self, via: &Via<'_>, connection: u64) -> Option<Flow> {
        let remote = ringway_transaction::reply_address(via)?;
        let transport = Transport::from_token(via.transport)?;
        let listener = self.config.listener_for(transport, remote.ip())?;
        let connection = (connection != 0).then_some(ringway_sansio::ConnectionId(connection));
        // A response goes over the connection of its request. One that came as a datagram and says TCP in its Via has none, and
        // would have us dial whomever its source names.
        if transport.is_stream() && connection.is_none() {
            return None;
        }
        Some(Flow { transport, listener, remote, connection })
    }
}

/// The last INVITEs inside dialogs that were refused. An ACK that is forgotten is forwarded to the other side of its dialog, which
/// ignores it.
#[derive(Debug, Default)]
pub(crate) struct RefusedInDialog {
    keys: Vec<MatchKey>,
    next: usize,
}

impl RefusedInDialog {
    const KEYS_MAX: usize = 64;

    fn push(&mut self, key: MatchKey) {
        match self.keys.get_mut(self.next) {
            Some(oldest) => *oldest = key,
            None => self.keys.push(key),
        }
        self.next = (self.next + 1) % Self::KEYS_MAX;
    }

    fn contains(&self, key: MatchKey) -> bool {
        self.keys.contains(&key)
    }
}

/// See [`Server::reply`].
pub(crate) fn write_reply(
    cx: &mut Context<'_, Action>,
    tag_key: &[u8; 16],
    request: &Request<'_, '_>,
    status: u16,
    phrase: &str,
    add: impl FnOnce(&mut ResponseWriter<'_>),
) {
    let tag = to_tag(tag_key, request.message);
    let flow = reply_flow(request.message.via(), request.flow);
    let (message, source) = (request.message, request.flow.remote);
    cx.out.send_with(flow, Token::NONE, |arena| {
        let mut response = ResponseWriter::answer(arena, message, status, phrase, source, Some(&tag));
        add(&mut response);
        // What was refused as unsafe is not sent: the client asks again and gives up.
        let _ = response.finish();
    });
}

fn to_tag(key: &[u8; 16], message: &Message<'_>) -> [u8; 16] {
    let mut hash = PartHasher::new(SipHasher13::new_with_key(key));
    let (call_id, from_tag) = (message.call_id(), message.from().tag().unwrap_or_default());
    // Both are parts of one message and shorter than 65,536 bytes.
    let lengths = (call_id.len() as u64) << 16 | from_tag.len() as u64;
    hash.fixed(&(u64::from(message.cseq().number) << 32 | lengths).to_le_bytes());
    hash.fixed(call_id);
    hash.fixed(from_tag);
    ringway_sip::hex16(hash.into_hasher().finish())
}

/// Appends a value of a message without its folds, so that it can stand on one line of an answer.
pub(crate) fn write_unfolded(value: &[u8], out: &mut Vec<u8>) {
    out.extend(value.iter().filter(|byte| !matches!(byte, b'\r' | b'\n' | 0)));
}

/// Appends the methods this server lets through or answers.
pub(crate) fn write_allow(out: &mut Vec<u8>) {
    out.extend_from_slice(
        b"INVITE, ACK, CANCEL, BYE, REGISTER, OPTIONS, PRACK, UPDATE, INFO, MESSAGE, SUBSCRIBE, NOTIFY, REFER, PUBLISH",
    );
}
