//! Responses to received requests.

use crate::context::AgentContext;
use crate::draft::{Body, text, unfolded, write_contact};
use crate::request::Requests;
use crate::session::{NotAcceptable, Unsupported};
use crate::{AccountId, CallId, Config};
use alloc::string::String;
use alloc::vec::Vec;
use ringway_sansio::{Flow, Token};
use ringway_sip::{HeaderName, Message, MessageWriter, Method, Rejected, Scheme, Uri, digest, grammar};
use ringway_transaction::{
    Allowance, DEFAULT_PORT, Incoming, MatchKey, ServerId, answer_rejected, reply_flow,
};

/// Received request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IncomingRequest<'m, 'a> {
    pub(crate) message: &'m Message<'a>,
    pub(crate) method: Method<'a>,
    pub(crate) uri: Uri<'a>,
    pub(crate) flow: Flow,
    pub(crate) key: MatchKey,
    /// Its transaction, if that was started before the response.
    pub(crate) server: Option<ServerId>,
    /// User whose password it proves.
    pub(crate) proven_user: Option<&'m str>,
}

impl IncomingRequest<'_, '_> {
    /// True if the request came with TLS on every hop.
    pub(crate) fn is_sips(&self) -> bool {
        self.uri.scheme() == Scheme::Sips
    }
}

impl Requests {
    /// Starts the server transaction of a request, unless it has one. `None`: the limit is reached, and 503 was sent.
    pub(crate) fn begin(
        &mut self,
        cx: &mut AgentContext<'_>,
        incoming: &IncomingRequest<'_, '_>,
        owner: Option<CallId>,
    ) -> Option<ServerId> {
        if incoming.server.is_some() {
            return incoming.server;
        }
        let flow = reply_flow(incoming.message.via(), incoming.flow);
        let port = incoming.message.via().port.unwrap_or(DEFAULT_PORT);
        let is_invite = incoming.method == Method::Invite;
        let id = self.transactions.start_server(incoming.key, is_invite, flow, port, owner);
        if id.is_none() {
            cx.counters.overflow += 1;
            let tag = cx.random.new_tag();
            cx.io.out.send_with(flow, Token::NONE, |arena| {
                let source = incoming.flow.remote;
                let busy =
                    MessageWriter::answer(arena, incoming.message, 503, "Too Busy", source, Some(&tag));
                let _ = busy.finish();
            });
        }
        // The source of a datagram may be forged.
        if let Some(id) = id.filter(|_| !flow.transport.has_connections()) {
            let allowance = Allowance::for_request(incoming.message.as_bytes().len());
            self.transactions.limit(id, allowance);
        }
        id
    }

    /// Responds to a request in a transaction of its own. `to_tag` is for requests without one: a dialog's, or a new one.
    /// `add` adds header fields and returns the body.
    pub(crate) fn respond(
        &mut self,
        cx: &mut AgentContext<'_>,
        incoming: &IncomingRequest<'_, '_>,
        status: u16,
        phrase: &str,
        to_tag: Option<&[u8]>,
        add: impl FnOnce(&mut MessageWriter<'_>, &Config) -> Option<Body>,
    ) {
        let Some(id) = self.begin(cx, incoming, None) else { return };
        let tag = to_tag.map_or_else(|| cx.random.new_tag(), <[u8]>::to_vec);
        let config = cx.config;
        let was_sent = self.transactions.respond(&mut cx.io, id, status, |arena| {
            let source = incoming.flow.remote;
            let response = MessageWriter::answer(arena, incoming.message, status, phrase, source, Some(&tag));
            finish(response, config, add);
        });
        if !was_sent {
            self.transactions.drop_server(id);
        }
    }

    /// Passes a received request to its transaction.
    pub(crate) fn receive_request(
        &mut self,
        cx: &mut AgentContext<'_>,
        message: &Message<'_>,
    ) -> Incoming<Option<CallId>> {
        self.transactions.receive_request(&mut cx.io, message)
    }

    /// Sends a serialised response in its transaction.
    pub(crate) fn send_response(
        &mut self,
        cx: &mut AgentContext<'_>,
        server: ServerId,
        status: u16,
        response: &[u8],
    ) {
        let write = |arena: &mut Vec<u8>| arena.extend_from_slice(response);
        // A 2xx to an INVITE is retransmitted until its ACK, so it has the larger allowance.
        match status {
            200..=299 => self.transactions.forward(&mut cx.io, server, status, write),
            _ => self.transactions.respond(&mut cx.io, server, status, write),
        };
    }

    /// Call and flow of the INVITE that a CANCEL is for.
    pub(crate) fn cancelled_by(&self, cancel: &Message<'_>) -> Option<(Option<CallId>, Flow)> {
        self.transactions.cancelled_by(cancel).map(|(_, call, flow)| (call, flow))
    }

    /// Handles a message that the parser rejected. A request is refused if a response to it is possible.
    pub(crate) fn on_rejected(&mut self, cx: &mut AgentContext<'_>, rejected: &Rejected<'_>, flow: Flow) {
        cx.counters.unreadable += 1;
        let tag = cx.random.new_tag();
        answer_rejected(rejected, flow, &tag, cx.io.out);
    }
}

/// Warn-agent of a Warning: the local address.
pub(crate) fn warning_agent(config: &Config, flow: Flow) -> Vec<u8> {
    let mut agent = Vec::new();
    if let Some(address) = config.address_of(flow.listener) {
        ringway_sip::write_host(&mut agent, address);
    }
    agent
}

/// Completes a response: User-Agent, the header fields of `add`, and its body.
pub(crate) fn finish(
    mut response: MessageWriter<'_>,
    config: &Config,
    add: impl FnOnce(&mut MessageWriter<'_>, &Config) -> Option<Body>,
) {
    if !config.user_agent.is_empty() {
        response.header(HeaderName::UserAgent, config.user_agent.as_bytes());
    }
    let _ = match add(&mut response, config) {
        Some(body) => response.finish_with_body(body.content_type, &body.bytes),
        None => response.finish(),
    };
}

/// Adds the Contact of a response that creates or refreshes a dialog.
pub(crate) fn add_contact(
    response: &mut MessageWriter<'_>,
    config: &Config,
    account: AccountId,
    flow: Flow,
    is_sips: bool,
) {
    response.header_with(HeaderName::Contact, |out| write_contact(config, account, flow, is_sips, out));
}

/// Adds the capabilities of this phone (RFC 3261 §11.2).
pub(crate) fn add_abilities(response: &mut MessageWriter<'_>, config: &Config) {
    response.header(HeaderName::Allow, ALLOW);
    if let Some(supported) = config.supported() {
        response.header(HeaderName::Supported, supported);
    }
    response.header(HeaderName::AllowEvents, b"refer");
}

/// Adds Accept, Accept-Encoding and Warning to a failure.
pub(crate) fn write_refusal(response: &mut MessageWriter<'_>, why: &NotAcceptable, agent: &[u8]) {
    match why.unsupported {
        Some(Unsupported::Type) => response.header(HeaderName::Accept, ACCEPT),
        Some(Unsupported::Encoding) => response.header_named("Accept-Encoding", b"identity"),
        None => response,
    };
    if matches!(why.status, 400 | 415 | 488 | 513) {
        response.header_with(HeaderName::Warning, |out| write_warning(why, agent, out));
    }
}

/// Appends a Warning value: `399 host:port "reason"` (RFC 3261 §20.43).
fn write_warning(why: &NotAcceptable, agent: &[u8], out: &mut Vec<u8>) {
    ringway_sip::write_number(out, u64::from(why.warning));
    out.push(b' ');
    out.extend_from_slice(if agent.is_empty() { b"phone" } else { agent });
    out.extend_from_slice(b" \"");
    out.extend(text(why.reason.as_bytes()).bytes().filter(|&byte| !matches!(byte, b'"' | b'\\')));
    out.push(b'"');
}

/// Text of a Warning value, for people (RFC 3261 §20.43).
pub(super) fn warning_text(value: &[u8]) -> String {
    let quoted = value.iter().position(|&byte| byte == b'"').and_then(|at| value.get(at..)).unwrap_or(value);
    text(&digest::unescape(&unfolded(grammar::unquote(quoted))))
}

/// Reason phrase of a status code.
pub(crate) const fn phrase_of(status: u16) -> &'static str {
    match status {
        180 => "Ringing",
        181 => "Call Is Being Forwarded",
        182 => "Queued",
        183 => "Session Progress",
        200 => "OK",
        400 => "Bad Request",
        403 => "Forbidden",
        404 => "Not Found",
        408 => "Request Timeout",
        415 => "Unsupported Media Type",
        480 => "Temporarily Unavailable",
        481 => "Call/Transaction Does Not Exist",
        486 => "Busy Here",
        487 => "Request Terminated",
        488 => "Not Acceptable Here",
        491 => "Request Pending",
        500 => "Server Internal Error",
        503 => "Service Unavailable",
        513 => "Message Too Large",
        600 => "Busy Everywhere",
        603 => "Decline",
        _ => "Refused",
    }
}

/// Supported types of bodies in requests of calls.
pub(crate) const ACCEPT: &[u8] = b"application/sdp, message/sipfrag, multipart/mixed, multipart/alternative";

/// Supported methods.
pub(crate) const ALLOW: &[u8] = b"INVITE, ACK, CANCEL, BYE, OPTIONS, REFER, NOTIFY, UPDATE";
