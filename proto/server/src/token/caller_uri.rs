//! URI of the caller of a dialog at a side that has another one than the caller itself (decision 0061).
//!
//! `ri=` in our Record-Route has both, sealed for the Call-ID. Inside, the server sees the caller's own: a request of the callee, whose To
//! has the other one, gets the caller's before anything else reads it.

use super::sealed::{open, seal};
use crate::Config;
use alloc::vec::Vec;
use ringway_sip::{Edit, EditSpace, HeaderName, Limits, Message, NameAddr, Uri};

/// The caller's URI at both sides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CallerUris {
    /// The caller's own.
    pub(crate) own: Vec<u8>,
    /// The one that the callee has.
    pub(crate) shown: Vec<u8>,
}

impl CallerUris {
    /// Appends the parameter of our Record-Route URI.
    pub(crate) fn write(&self, key: &[u8; 16], message: &Message<'_>, out: &mut Vec<u8>) {
        let Ok(len) = u8::try_from(self.own.len()) else { return };
        let text = [&[len], self.own.as_slice(), self.shown.as_slice()].concat();
        out.extend_from_slice(CALLER_URIS);
        seal(key, message.call_id(), &text, out);
    }

    /// Those in a Route of this server, if the caller has two.
    pub(crate) fn of_request(config: &Config, key: &[u8; 16], message: &Message<'_>) -> Option<Self> {
        let has_some = |value: &&[u8]| memchr::memmem::find(value, CALLER_URIS).is_some();
        let value = message.values(HeaderName::Route).take(OWN_ROUTES_MAX).find(has_some)?;
        let route = NameAddr::parse(value).ok().filter(|route| config.domain_of(&route.uri).is_some())?;
        let text = open(key, message.call_id(), route.uri.params().value(b"ri")?)?;
        let (len, uris) = text.split_first()?;
        let (own, shown) = uris.split_at_checked(usize::from(*len))?;
        Some(Self { own: own.to_vec(), shown: shown.to_vec() })
    }
}

/// A request of the callee with the caller's own URI in To; `None` for any other.
pub(crate) fn with_own_uri(config: &Config, key: &[u8; 16], message: &Message<'_>) -> Option<Vec<u8>> {
    if !message.has(HeaderName::Route) || message.to().tag().is_none() {
        return None;
    }
    let uris = CallerUris::of_request(config, key, message)?;
    let is_shown = Uri::parse(&uris.shown).is_ok_and(|shown| is_same(&message.to().uri, &shown));
    is_shown.then(|| changed(message, HeaderName::To, &uris.own)).flatten()
}

/// Calls `act` with a request as its sender has it, for a response of this server.
pub(crate) fn as_its_sender_has<T>(
    config: &Config,
    key: &[u8; 16],
    message: &Message<'_>,
    act: impl FnOnce(&Message<'_>) -> T,
) -> T {
    if let Some(bytes) = with_shown_uri(config, key, message)
        && let Ok(message) = &Message::parse(&bytes, &Limits::STORED)
    {
        return act(message);
    }
    act(message)
}

/// A request of the callee with the URI in To that it sent; `None` for any other.
fn with_shown_uri(config: &Config, key: &[u8; 16], message: &Message<'_>) -> Option<Vec<u8>> {
    if !config.trunking.has_trunks() || !message.has(HeaderName::Route) {
        return None;
    }
    let uris = CallerUris::of_request(config, key, message)?;
    let is_own = Uri::parse(&uris.own).is_ok_and(|own| is_same(&message.to().uri, &own));
    is_own.then(|| changed(message, HeaderName::To, &uris.shown)).flatten()
}

/// A message with another URI in From or To.
fn changed(message: &Message<'_>, name: HeaderName, uri: &[u8]) -> Option<Vec<u8>> {
    let value = with_uri(message.first(name)?, uri)?;
    with_value(message, name, &value)
}

/// A message with another value of a header field.
pub(crate) fn with_value(message: &Message<'_>, name: HeaderName, value: &[u8]) -> Option<Vec<u8>> {
    let (mut space, mut out) = (EditSpace::default(), Vec::new());
    let mut edit = Edit::new(message, &mut space);
    edit.set(name, |out| out.extend_from_slice(value));
    edit.write_into(&mut out).ok()?;
    Message::parse(&out, &Limits::STORED).is_ok().then_some(out)
}

/// A value of From or To with another URI.
pub(crate) fn with_uri(value: &[u8], uri: &[u8]) -> Option<Vec<u8>> {
    let name = NameAddr::parse(value).ok()?;
    let own = name.uri.as_bytes();
    // A display name may contain the URI too.
    let at = name.display_name.len() + memchr::memmem::find(value.get(name.display_name.len()..)?, own)?;
    let (before, behind) = (value.get(..at)?, value.get(at + own.len()..)?);
    Some(match name.is_bracketed {
        true => [before, uri, behind].concat(),
        false => [before, b"<", uri, b">", behind].concat(),
    })
}

/// True for URIs with the same user and host.
pub(crate) fn is_same(one: &Uri<'_>, other: &Uri<'_>) -> bool {
    one.is_sip() && other.is_sip() && one.user() == other.user() && one.host().equals(other.host().as_bytes())
}

/// Parameter of our Record-Route URI.
const CALLER_URIS: &[u8] = b";ri=";
/// Values of Route that are searched: those of two sides, before and after a pass of this server to itself.
const OWN_ROUTES_MAX: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_uri_of_a_value_changes() {
        for (value, changed) in [
            ("Alice <sip:alice@h;x=1>;tag=7", "Alice <sip:b@c>;tag=7"),
            ("\"sip:alice@h\" <sip:alice@h>;tag=7", "\"sip:alice@h\" <sip:b@c>;tag=7"),
            ("sip:alice@h;tag=7", "<sip:b@c>;tag=7"),
            ("<sip:alice@h>", "<sip:b@c>"),
        ] {
            let written = with_uri(value.as_bytes(), b"sip:b@c").unwrap();
            assert_eq!(core::str::from_utf8(&written).unwrap(), changed);
        }
    }
}
