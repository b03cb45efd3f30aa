//! NOTIFY (RFC 6665 §4.1.3): reports on a transfer that we asked for, and nothing else.

use crate::Action;
use crate::UserAgent;
use crate::reply::Asked;
use ringway_sansio::Context;
use ringway_sip::{HeaderName, grammar};

impl UserAgent {
    pub(super) fn on_notify(&mut self, cx: &mut Context<'_, Action>, asked: &Asked<'_, '_>) {
        let event = asked.message.first(HeaderName::Event).unwrap_or_default();
        if !is_token_before_params(event, b"refer") {
            return self.refuse_with(cx, asked, 489, "Bad Event", |response| {
                response.header(HeaderName::AllowEvents, b"refer");
            });
        }
        let Some(id) = self.call_in_order(cx, asked) else { return };
        if self.call_at(id).is_none_or(|call| call.transfer.is_none()) {
            return self.refuse(cx, asked, 481, "Subscription Does Not Exist");
        }
        let content_type = asked.message.first(HeaderName::ContentType).unwrap_or_default();
        if !asked.message.body().is_empty() && !is_token_before_params(content_type, b"message/sipfrag") {
            return self.refuse_with(cx, asked, 415, "Unsupported Media Type", |response| {
                response.header(HeaderName::Accept, b"message/sipfrag");
            });
        }
        self.respond(cx, asked, 200, "OK", None, |_, _| None);
        self.on_transfer_report(cx, id, asked.message);
    }
}

/// True when a value is `token`, with or without parameters.
fn is_token_before_params(value: &[u8], token: &[u8]) -> bool {
    let first = value.split(|&byte| byte == b';').next().unwrap_or_default();
    grammar::trim(first).eq_ignore_ascii_case(token)
}
