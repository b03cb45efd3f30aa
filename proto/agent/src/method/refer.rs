//! REFER (RFC 3515): the other side of a call wants us to call somebody else.

use crate::account::challenge::unfolded;
use crate::call::CallState;
use crate::event::text;
use crate::reply::{Asked, add_contact};
use crate::way::Way;
use crate::{Action, AgentEvent, UserAgent};
use alloc::vec::Vec;
use ringway_sansio::Context;
use ringway_sip::{HeaderName, Message, NameAddr, grammar};

/// Whom to call, and what the INVITE is to say besides.
type Wanted = (Vec<u8>, Vec<(HeaderName, Vec<u8>)>);

impl UserAgent {
    pub(super) fn on_refer(&mut self, cx: &mut Context<'_, Action>, asked: &Asked<'_, '_>) {
        if asked.message.to().tag().is_none() {
            // A stranger must not be able to make this phone call anybody.
            return self.refuse(cx, asked, 403, "Refer Only Inside A Call");
        }
        let Some(id) = self.call_in_order(cx, asked) else { return };
        let Some(call) = self.call_at(id) else { return };
        if call.state != CallState::Established || call.referral.is_some() {
            return self.refuse(cx, asked, 491, "Request Pending");
        }
        let account = call.account;
        let (target, fields) = match wanted(asked.message) {
            Ok(wanted) => wanted,
            Err((status, phrase)) => return self.refuse(cx, asked, status, phrase),
        };
        // Who is told that there is no room must not be called for all the same.
        let Some(server) = self.begin(cx, asked, None) else { return };
        let asked = &Asked { server: Some(server), ..*asked };
        self.respond(cx, asked, 202, "Accepted", None, |response, config| {
            add_contact(response, config, account, asked.flow);
            None
        });
        let referred_by = text(asked.message.first(HeaderName::ReferredBy).unwrap_or_default());
        cx.emit(AgentEvent::TransferRequested { call: id, target: text(&target), referred_by });
        self.begin_referral(cx, id, target, fields);
    }
}

/// Reads Refer-To. Of the headers in its URI only Replaces is followed (RFC 3891 §4); others would be a way to have
/// this phone say anything.
fn wanted(message: &Message<'_>) -> Result<Wanted, (u16, &'static str)> {
    let bad = (400, "Missing Or Bad Refer-To");
    let mut lines = message.lines_of(HeaderName::ReferTo);
    let (Some(line), None) = (lines.next(), lines.next()) else { return Err(bad) };
    let refer_to = NameAddr::parse(line).map_err(|_| bad)?;
    let uri = refer_to.uri;
    Way::of_uri(&uri).map_err(|_| (416, "Unsupported URI Scheme"))?;
    if uri.params().value(b"method").is_some_and(|method| method != b"INVITE") {
        return Err((501, "Only Calls Can Be Made"));
    }
    let mut fields = Vec::new();
    if let Some(replaces) = replaces_in(uri.headers()) {
        fields.push((HeaderName::Replaces, replaces));
    }
    if let Some(referred_by) = message.first(HeaderName::ReferredBy) {
        fields.push((HeaderName::ReferredBy, unfolded(referred_by)));
    }
    let end = match uri.headers().len() {
        0 => uri.as_bytes().len(),
        headers => uri.as_bytes().len().saturating_sub(headers + 1),
    };
    Ok((uri.as_bytes().get(..end).unwrap_or_default().to_vec(), fields))
}

/// The value of `Replaces` among a URI's headers, escapes undone.
fn replaces_in(headers: &[u8]) -> Option<Vec<u8>> {
    let field = headers
        .split(|&byte| byte == b'&')
        .find(|field| field.get(..9).is_some_and(|start| start.eq_ignore_ascii_case(b"Replaces=")))?;
    let mut value = Vec::new();
    grammar::unescape_into(field.get(9..)?, &mut value);
    Some(unfolded(&value))
}
