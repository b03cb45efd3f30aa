//! NOTIFY (RFC 6665 §4.1.3): reports on a transfer that we asked for, and nothing else.

use crate::UserAgent;
use crate::agent::Out;
use crate::reply::Asked;
use ringway_sip::{HeaderName, grammar};

impl UserAgent {
    pub(super) fn on_notify(&mut self, asked: &Asked<'_, '_>, out: &mut Out<'_>) {
        let event = asked.message.first(HeaderName::Event).unwrap_or_default();
        if !is_token_before_params(event, b"refer") {
            return self.refuse_with(asked, 489, "Bad Event", out, |response| {
                response.header(HeaderName::AllowEvents, b"refer");
            });
        }
        let Some(id) = self.call_in_order(asked, out) else { return };
        if self.call_at(id).is_none_or(|call| call.transfer.is_none()) {
            return self.refuse(asked, 481, "Subscription Does Not Exist", out);
        }
        let content_type = asked.message.first(HeaderName::ContentType).unwrap_or_default();
        if !asked.message.body().is_empty() && !is_token_before_params(content_type, b"message/sipfrag") {
            return self.refuse_with(asked, 415, "Unsupported Media Type", out, |response| {
                response.header(HeaderName::Accept, b"message/sipfrag");
            });
        }
        self.respond(asked, 200, "OK", None, out, |_, _| None);
        self.on_transfer_report(asked.now, id, asked.message, out);
    }
}

/// True when a value is `token`, with or without parameters.
fn is_token_before_params(value: &[u8], token: &[u8]) -> bool {
    let first = value.split(|&byte| byte == b';').next().unwrap_or_default();
    grammar::trim(first).eq_ignore_ascii_case(token)
}
