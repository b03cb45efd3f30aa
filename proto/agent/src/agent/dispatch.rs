//! Received requests: checks that all methods share, dispatch to the components, and OPTIONS.

use crate::call::Calls;
use crate::core_context::CoreContext;
use crate::draft::unfolded;
use crate::request::reply::{ACCEPT, ALLOW, IncomingRequest, add_abilities, add_contact};
use crate::{Action, UserAgent};
use alloc::vec::Vec;
use ringway_sansio::{Context, Flow};
use ringway_sip::{HeaderName, Message, Method, Scheme, Uri};
use ringway_transaction::Incoming;

impl UserAgent {
    /// Handles a well-formed request.
    pub(super) fn on_request(
        &mut self,
        cx: &mut Context<'_, Action>,
        message: &Message<'_>,
        method: Method<'_>,
        uri: Uri<'_>,
        flow: Flow,
    ) {
        let received = self.requests.receive_request(&mut self.shared.lend(cx), message);
        let (cx, calls) = (&mut CoreContext::new(&mut self.shared, &mut self.requests, cx), &mut self.calls);
        let key = match received {
            Incoming::Absorbed => return,
            Incoming::AckOfSuccess(_) => return calls.on_ack(cx, message),
            Incoming::New(_) if method == Method::Ack => return calls.on_ack(cx, message),
            Incoming::New(key) => key,
        };
        let incoming = &IncomingRequest { message, method, uri, flow, key, server: None, proven_user: None };
        if method == Method::Cancel {
            return calls.on_cancel(cx, incoming);
        }
        // RFC 3261 §26.2.2: a sips: request comes by TLS.
        let is_supported = match uri.scheme() {
            Scheme::Sip => true,
            Scheme::Sips => flow.transport.carries_sips(),
            Scheme::Tel | Scheme::Other => false,
        };
        if !is_supported {
            return cx.refuse(incoming, 416, "Unsupported URI Scheme");
        }
        if !supports_extensions(cx, incoming) {
            return;
        }
        match method {
            Method::Invite => calls.on_invite(cx, &self.registrations, incoming),
            Method::Bye => calls.on_bye(cx, incoming),
            Method::Update => calls.on_update(cx, incoming),
            Method::Refer => calls.on_refer(cx, incoming),
            Method::Notify => calls.on_notify(cx, incoming),
            Method::Options => on_options(calls, cx, incoming),
            Method::Register
            | Method::Prack
            | Method::Info
            | Method::Message
            | Method::Subscribe
            | Method::Publish => refuse_method(cx, incoming, 405, "Method Not Allowed"),
            Method::Ack | Method::Cancel => {}
            Method::Other(_) => refuse_method(cx, incoming, 501, "Not Implemented"),
        }
    }
}

/// Handles OPTIONS (RFC 3261 §11.2), inside a dialog or outside.
fn on_options(calls: &mut Calls, cx: &mut CoreContext<'_>, incoming: &IncomingRequest<'_, '_>) {
    let is_in_dialog = incoming.message.to().tag().is_some();
    let account = if is_in_dialog {
        let Some(account) = calls.account_in_order(cx, incoming) else { return };
        Some(account)
    } else {
        cx.config.account_for(&incoming.uri)
    };
    let Some(account) = account else {
        return cx.refuse(incoming, 404, "Not Found");
    };
    cx.respond(incoming, 200, "OK", None, |response, config| {
        add_contact(response, config, account, incoming.flow, incoming.is_sips());
        add_abilities(response, config);
        response.header(HeaderName::Accept, ACCEPT);
        None
    });
}

/// Refuses a request that requires an unsupported extension with 420 (RFC 3261 §8.2.2.3). False if it was refused.
fn supports_extensions(cx: &mut CoreContext<'_>, incoming: &IncomingRequest<'_, '_>) -> bool {
    let foreign: Vec<Vec<u8>> = incoming
        .message
        .values(HeaderName::Require)
        .filter(|option| !cx.config.supported().is_some_and(|known| option.eq_ignore_ascii_case(known)))
        .map(unfolded)
        .collect();
    if foreign.is_empty() {
        return true;
    }
    cx.refuse_with(incoming, 420, "Bad Extension", |response| {
        for option in &foreign {
            response.header(HeaderName::Unsupported, option);
        }
    });
    false
}

fn refuse_method(cx: &mut CoreContext<'_>, incoming: &IncomingRequest<'_, '_>, status: u16, phrase: &str) {
    cx.refuse_with(incoming, status, phrase, |response| {
        response.header(HeaderName::Allow, ALLOW);
    });
}
