//! Locally generated responses.

use crate::base::env::Env;
use crate::base::grant::Sender;
use crate::base::keys::Keys;
use crate::base::request::Request;
use crate::base::steps::Step;
use crate::report::Report;
use crate::token::sender::as_its_sender_has;
use crate::{Action, Aor, CallStep, Detail, LogEvent, Reason};
use alloc::vec::Vec;
use ringway_sansio::{Context, Flow, Token};
use ringway_sip::{HeaderName, Message, MessageWriter, Method, Rejected, write_number};
use ringway_transaction::{Allowance, MatchKey, answer_rejected, reply_flow, to_tag};

impl Env<'_> {
    /// Answers without a transaction (RFC 3261 §8.2.7): a retransmitted request gets the same response. A response to an
    /// unverified address that exceeds its allowance is not sent.
    pub(crate) fn reply(
        &mut self,
        request: &Request<'_, '_>,
        status: u16,
        phrase: &str,
        add: impl FnOnce(&mut MessageWriter<'_>),
    ) {
        let before = self.cx.out.len();
        let Keys { tag, route, hidden, .. } = self.keys;
        // The ACK of its sender is translated before it is recognised.
        let tag = to_tag(tag, request.message);
        self.input.steps.mark(Step::Rest);
        as_its_sender_has(self.config, route, hidden, request.message, &request.flow, |message| {
            write_reply(&mut self.cx, &tag, message, &request.flow, status, phrase, add);
        });
        self.input.steps.mark(Step::Format);
        let is_over =
            self.cx.out.last_bytes().len() > Allowance::generated_max(request.message.as_bytes().len());
        if self.cx.out.len() > before && is_over && !request.is_verified() {
            self.counters.unverified_limited += 1;
            self.cx.out.drop_last();
        }
    }

    /// Refuses a request without a transaction: its client retransmits it until the response arrives. The ACK of an
    /// INVITE is recognised by our To tag; inside a dialog the tag is the dialog's, and the keys of the last few such
    /// INVITEs are stored.
    pub(crate) fn refuse(
        &mut self,
        request: &Request<'_, '_>,
        status: u16,
        phrase: &str,
        add: impl FnOnce(&mut MessageWriter<'_>),
    ) {
        if request.method == Method::Ack {
            self.counters.stray += 1;
            return;
        }
        if request.method == Method::Invite
            && request.message.to().tag().is_some()
            && let Some(key) = request.key
        {
            self.refused_in_dialog.push(key);
        }
        // A challenge and a redirection refuse nothing.
        if !matches!(status, 300..=399 | 401 | 407) {
            let (message, address) = (request.message.as_bytes(), request.flow.remote);
            self.observe(&LogEvent::RequestRefused { message, status, phrase, address });
        }
        self.reply(request, status, phrase, add);
    }

    /// Refuses with a status and a phrase only, which say why.
    pub(crate) fn refuse_plainly(&mut self, request: &Request<'_, '_>, status: u16, phrase: &str) {
        self.refuse_for(request, status, phrase, Some(reason_of(status)));
    }

    /// The same after the decision was reported.
    pub(crate) fn refuse_decided(&mut self, request: &Request<'_, '_>, status: u16, phrase: &str) {
        self.refuse_for(request, status, phrase, None);
    }

    fn refuse_for(&mut self, request: &Request<'_, '_>, status: u16, phrase: &str, reason: Option<Reason>) {
        let step = match request.grant.sender {
            Sender::Unknown => CallStep::Refused(status),
            Sender::Proven
            | Sender::ProvenUnnamed
            | Sender::Trusted
            | Sender::Believed
            | Sender::InDialog
            | Sender::Stranger => CallStep::Failed(status),
        };
        self.report(request, Report::Refused { status, phrase, reason, step });
        self.refuse(request, status, phrase, |_| {});
    }

    /// Answers 420 with the unsupported option tags (RFC 3261 §8.2.2.3, §16.3 step 5). Except in REGISTER, this server
    /// supports no extension that can be required. For an unverified address the list is not longer than the request, so that the response
    /// stays within its allowance.
    pub(crate) fn refuse_extensions(&mut self, request: &Request<'_, '_>, name: HeaderName) {
        self.refuse_extensions_but(request, name, |_| false);
    }

    /// The same, for a method with extensions that are supported.
    pub(crate) fn refuse_extensions_but(
        &mut self,
        request: &Request<'_, '_>,
        name: HeaderName,
        is_supported: impl Fn(&[u8]) -> bool,
    ) {
        let message = request.message;
        self.report(request, Report::BadExtension(message.first(name).unwrap_or_default()));
        let mut room = if request.is_verified() { usize::MAX } else { message.as_bytes().len() };
        self.refuse(request, 420, "Bad Extension", |response| {
            let unsupported = message.values(name).filter(|value| !is_supported(value));
            for value in unsupported.take(UNSUPPORTED_MAX) {
                let bytes = b"Unsupported: \r\n".len() + value.len();
                let Some(left) = room.checked_sub(bytes) else { break };
                room = left;
                response.header_with(HeaderName::Unsupported, |out| write_unfolded(value, out));
            }
        });
    }

    /// Answers 404 or 480 for a user without a binding; 480 for both if the sender must not learn which users there are.
    pub(crate) fn refuse_absent(&mut self, request: &Request<'_, '_>, aor: &Aor) {
        let hides = self.hides_users(request);
        // A lookup that finds takes longer than one that does not: without a trace there is none.
        let is_known = (hides && !self.is_tracing()) || self.host.is_known(aor.user(), aor.domain());
        let reason = if is_known { Reason::NotRegistered } else { Reason::NoSuchUser };
        let (status, phrase) = match is_known || hides {
            true => (480, "Temporarily Unavailable"),
            false => (404, "Not Found"),
        };
        self.refuse_for(request, status, phrase, Some(reason));
    }

    /// True if the sender of a request must not learn which users there are.
    pub(crate) fn hides_users(&self, request: &Request<'_, '_>) -> bool {
        self.config.auth.hide_users && !request.grant.sender.is_believed()
    }

    /// Answers a request that the parser rejected, if it has a response; drops responses and ACKs.
    pub(crate) fn on_rejected(&mut self, bytes: &[u8], rejected: &Rejected<'_>, flow: Flow) {
        if let Some(count) = self.counters.rejected.get_mut(rejected.reason.index()) {
            *count += 1;
        }
        let detail = Detail::Status(rejected.reason.status(), rejected.reason.phrase());
        self.decided_about(bytes, Reason::Malformed, detail);
        answer_rejected(rejected, flow, b"rejected", self.cx.out);
    }

    /// Answers 503 on a stream whose source is over its rate; `inside` is the request as the sides inside have it, which the To tag follows from.
    pub(crate) fn slow_down(&mut self, message: &Message<'_>, inside: &Message<'_>, flow: Flow) {
        if message.is_response() || message.method() == Method::Ack {
            return;
        }
        let tag = to_tag(&self.keys.tag, inside);
        write_reply(&mut self.cx, &tag, message, &flow, 503, "Slow Down", |response| {
            response.header_number(HeaderName::RetryAfter, 1);
        });
    }

    /// True for the ACK of a response of [`Env::refuse`].
    pub(crate) fn acknowledges_us(&self, ack: &Message<'_>, key: MatchKey) -> bool {
        ack.to().tag().is_some_and(|tag| tag == to_tag(&self.keys.tag, ack))
            || self.refused_in_dialog.contains(key)
    }
}

/// Reason of a refusal with this status.
const fn reason_of(status: u16) -> Reason {
    match status {
        403 => Reason::Forbidden,
        404 => Reason::NoSuchUser,
        430 => Reason::FlowGone,
        440 => Reason::TooBroad,
        480 => Reason::NotRegistered,
        482 => Reason::Loop,
        483 => Reason::TooManyHops,
        503 => Reason::OverLimit,
        _ => Reason::Refused,
    }
}

/// Writes the response of [`Env::reply`], of any length.
pub(crate) fn write_reply(
    cx: &mut Context<'_, Action>,
    tag: &[u8; 16],
    request: &Message<'_>,
    flow: &Flow,
    status: u16,
    phrase: &str,
    add: impl FnOnce(&mut MessageWriter<'_>),
) {
    cx.out.send_with(reply_flow(request.via(), *flow), Token::NONE, |arena| {
        let mut response = MessageWriter::answer(arena, request, status, phrase, flow.remote, Some(tag));
        add(&mut response);
        // An unsafe value is not sent: the client retransmits and times out.
        let _ = response.finish();
    });
}

/// The 503 instead of an answer of this server to a REGISTER whose change a store refused after the answer was written.
pub fn store_failed_reply(answer: &[u8]) -> Vec<u8> {
    let mut reply = b"SIP/2.0 503 Store Failed\r\n".to_vec();
    let mut is_kept = false;
    for line in answer.split_inclusive(|&byte| byte == b'\n').skip(1) {
        if line == b"\r\n" {
            break;
        }
        // A folded line goes with the one before it.
        if !line.starts_with(b" ") && !line.starts_with(b"\t") {
            is_kept = KEPT_LINES.iter().any(|name| line.starts_with(name));
        }
        if is_kept {
            reply.extend_from_slice(line);
        }
    }
    reply.extend_from_slice(b"Retry-After: 5\r\nContent-Length: 0\r\n\r\n");
    reply
}

/// Lines that every answer has, as this server writes them.
const KEPT_LINES: [&[u8]; 6] = [b"Via:", b"From:", b"To:", b"Call-ID:", b"CSeq:", b"Timestamp:"];

/// Appends a value of a message without its folds, so that it can stand on one line of an answer.
pub(crate) fn write_unfolded(value: &[u8], out: &mut Vec<u8>) {
    out.extend(value.iter().filter(|byte| !matches!(byte, b'\r' | b'\n' | 0)));
}

/// Appends the methods that this server forwards or answers.
pub(crate) fn write_allow(out: &mut Vec<u8>) {
    out.extend_from_slice(
        b"INVITE, ACK, CANCEL, BYE, REGISTER, OPTIONS, PRACK, UPDATE, INFO, MESSAGE, SUBSCRIBE, NOTIFY, REFER, PUBLISH",
    );
}

/// Appends `;q=` unless it is 1.
pub(crate) fn write_q(q: u16, out: &mut Vec<u8>) {
    if q >= 1000 {
        return;
    }
    out.extend_from_slice(b";q=0.");
    for divisor in [100, 10, 1] {
        write_number(out, u64::from(q / divisor % 10));
    }
}

/// Maximum number of option tags in a 420.
const UNSUPPORTED_MAX: usize = 100;
