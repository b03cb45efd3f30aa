//! URI of the caller of a dialog at a side that has another one than the caller itself (decision 0061).
//!
//! `ri=` in our Record-Route has both, sealed for the Call-ID. Inside, the server sees the caller's own: a request of the callee, whose To
//! has the other one, gets the caller's before anything else reads it.

use super::Mark;
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
        seal(key, [message.call_id(), b""], &text, out);
    }

    /// Those in a Route of this server, if the caller has two. They prove nothing: the mark beside them does.
    pub(crate) fn of_request(config: &Config, key: &[u8; 16], message: &Message<'_>) -> Option<Self> {
        let route = own_route(config, message)?;
        let text = open(key, [message.call_id(), b""], route.params().value(b"ri")?)?;
        let (len, uris) = text.split_first()?;
        let (own, shown) = uris.split_at_checked(usize::from(*len))?;
        Some(Self { own: own.to_vec(), shown: shown.to_vec() })
    }

    /// The request of the callee with `to` in place of the other of both in To, if the dialog is proven with the caller's own.
    fn in_to(
        &self,
        config: &Config,
        key: &[u8; 16],
        message: &Message<'_>,
        to: CallerUri,
    ) -> Option<Vec<u8>> {
        let (own, shown) = (Uri::parse(&self.own).ok()?, Uri::parse(&self.shown).ok()?);
        let (from, uri) = match to {
            CallerUri::Own => (&shown, &self.own),
            CallerUri::Shown => (&own, &self.shown),
        };
        if is_same(&own, &shown) || !is_same(&message.to().uri, from) {
            return None;
        }
        let bytes = with_value(message, HeaderName::To, &with_uri(message.first(HeaderName::To)?, uri)?)?;
        let is_proven = match to {
            CallerUri::Own => {
                Message::parse(&bytes, &Limits::STORED).is_ok_and(|message| is_proven(config, key, &message))
            }
            CallerUri::Shown => is_proven(config, key, message),
        };
        is_proven.then_some(bytes)
    }
}

/// One of the caller's URIs.
#[derive(Clone, Copy)]
enum CallerUri {
    Own,
    Shown,
}

/// The first Route that has both URIs, of those of this server at the top.
fn own_route<'a>(config: &Config, message: &Message<'a>) -> Option<Uri<'a>> {
    let routes = message.values(HeaderName::Route).take(OWN_ROUTES_MAX);
    let uris = routes.map_while(|value| NameAddr::parse(value).ok().map(|route| route.uri));
    uris.take_while(|uri| config.domain_of(uri).is_some()).find(|uri| uri.params().has(b"ri"))
}

/// True for a request of the callee in a dialog of this server.
fn is_proven(config: &Config, key: &[u8; 16], message: &Message<'_>) -> bool {
    let mark = own_route(config, message).and_then(|route| Mark::read(key, message, &route));
    matches!(mark, Some(Mark::Dialog { is_of_caller: false, .. }))
}

/// A request of the callee with the URI in To that it wrote there; `None` for any other.
pub(super) fn with_shown_uri(config: &Config, key: &[u8; 16], message: &Message<'_>) -> Option<Vec<u8>> {
    let may_differ = message.has(HeaderName::Route) && message.to().tag().is_some();
    let uris = if may_differ { CallerUris::of_request(config, key, message) } else { None };
    uris?.in_to(config, key, message, CallerUri::Shown)
}

/// A request of the callee with the caller's own URI in To; `None` for any other.
pub(crate) fn with_own_uri(config: &Config, key: &[u8; 16], message: &Message<'_>) -> Option<Vec<u8>> {
    if !message.has(HeaderName::Route) || message.to().tag().is_none() {
        return None;
    }
    CallerUris::of_request(config, key, message)?.in_to(config, key, message, CallerUri::Own)
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
