//! Received requests: checks that all methods share, dispatch to the components, and OPTIONS.

use crate::request::reply::{ALLOW, IncomingRequest, SUPPORTED, add_abilities, add_contact};
use crate::text::unfolded;
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
        let key = match self.requests.receive_request(&mut self.shared.lend(cx), message) {
            Incoming::Absorbed => return,
            Incoming::AckOfSuccess(_) => return self.on_ack(cx, message),
            Incoming::New(_) if method == Method::Ack => return self.on_ack(cx, message),
            Incoming::New(key) => key,
        };
        let incoming = &IncomingRequest { message, method, uri, flow, key, server: None, proven_user: None };
        if method == Method::Cancel {
            return self.calls.on_cancel(&mut self.shared.lend(cx), &mut self.requests, incoming);
        }
        if uri.scheme() != Scheme::Sip {
            let cx = &mut self.shared.lend(cx);
            return self.requests.refuse(cx, incoming, 416, "Unsupported URI Scheme");
        }
        if !self.understands(cx, incoming) {
            return;
        }
        let (calls, requests) = (&mut self.calls, &mut self.requests);
        match method {
            Method::Invite => calls.on_invite(&mut self.shared.lend(cx), requests, incoming),
            Method::Bye => calls.on_bye(&mut self.shared.lend(cx), requests, incoming),
            Method::Update => calls.on_update(&mut self.shared.lend(cx), requests, incoming),
            Method::Refer => calls.on_refer(&mut self.shared.lend(cx), requests, incoming),
            Method::Notify => calls.on_notify(&mut self.shared.lend(cx), requests, incoming),
            Method::Options => self.on_options(cx, incoming),
            Method::Register
            | Method::Prack
            | Method::Info
            | Method::Message
            | Method::Subscribe
            | Method::Publish => self.refuse_method(cx, incoming, 405, "Method Not Allowed"),
            Method::Ack | Method::Cancel => {}
            Method::Other(_) => self.refuse_method(cx, incoming, 501, "Not Implemented"),
        }
    }

    fn on_ack(&mut self, cx: &mut Context<'_, Action>, message: &Message<'_>) {
        self.calls.on_ack(&mut self.shared.lend(cx), &mut self.requests, message);
    }

    /// Handles OPTIONS (RFC 3261 §11.2), inside a dialog or outside.
    fn on_options(&mut self, cx: &mut Context<'_, Action>, incoming: &IncomingRequest<'_, '_>) {
        let is_in_dialog = incoming.message.to().tag().is_some();
        let account = if is_in_dialog {
            let cx = &mut self.shared.lend(cx);
            let Some(account) = self.calls.account_in_order(cx, &mut self.requests, incoming) else { return };
            Some(account)
        } else {
            self.shared.config.account_for(&incoming.uri)
        };
        let Some(account) = account else {
            return self.requests.refuse(&mut self.shared.lend(cx), incoming, 404, "Not Found");
        };
        self.requests.respond(&mut self.shared.lend(cx), incoming, 200, "OK", None, |response, config| {
            add_contact(response, config, account, incoming.flow);
            add_abilities(response);
            response.header(HeaderName::Accept, b"application/sdp, message/sipfrag");
            None
        });
    }

    /// RFC 3261 §8.2.2.3: refuses what requires something that is not here.
    fn understands(&mut self, cx: &mut Context<'_, Action>, incoming: &IncomingRequest<'_, '_>) -> bool {
        let foreign: Vec<Vec<u8>> = incoming
            .message
            .values(HeaderName::Require)
            .filter(|option| !option.eq_ignore_ascii_case(SUPPORTED))
            .map(unfolded)
            .collect();
        if foreign.is_empty() {
            return true;
        }
        self.requests.refuse_with(&mut self.shared.lend(cx), incoming, 420, "Bad Extension", |response| {
            for option in &foreign {
                response.header(HeaderName::Unsupported, option);
            }
        });
        false
    }

    fn refuse_method(
        &mut self,
        cx: &mut Context<'_, Action>,
        incoming: &IncomingRequest<'_, '_>,
        status: u16,
        phrase: &str,
    ) {
        self.requests.refuse_with(&mut self.shared.lend(cx), incoming, status, phrase, |response| {
            response.header(HeaderName::Allow, ALLOW);
        });
    }
}
