//! Globally routable URIs of one phone (RFC 5627): public GRUUs, which contain the instance.

use crate::Aor;
use crate::location::Binding;
use alloc::vec::Vec;
use ringway_sip::Uri;
use ringway_sip::grammar::unescape_into;

/// Appends `;pub-gruu="sip:user@domain;gr=instance"`; nothing if the instance cannot be a URI parameter.
pub(crate) fn write_param(aor: &Aor, instance: &[u8], out: &mut Vec<u8>) {
    let Some(name) = name_of(instance) else { return };
    out.extend_from_slice(b";pub-gruu=\"sip:");
    for &byte in aor.user() {
        match byte.is_ascii_alphanumeric() || USER_MARKS.contains(&byte) {
            true => out.push(byte),
            false => {
                let digit = |nibble: u8| *b"0123456789ABCDEF".get(usize::from(nibble)).unwrap_or(&b'0');
                out.extend_from_slice(&[b'%', digit(byte >> 4), digit(byte & 15)]);
            }
        }
    }
    out.push(b'@');
    out.extend_from_slice(aor.domain());
    out.extend_from_slice(b";gr=");
    out.extend_from_slice(name);
    out.push(b'"');
}

/// Instance that the Request-URI is limited to; `None` for a URI that is no GRUU.
pub(crate) fn instance_in(uri: &Uri<'_>) -> Option<Vec<u8>> {
    let params = uri.params();
    if params.as_bytes().is_empty() {
        return None;
    }
    let mut instance = Vec::new();
    unescape_into(params.find(b"gr")?.value.unwrap_or_default(), &mut instance);
    Some(instance)
}

/// True if a GRUU with `name` is that of the binding.
pub(crate) fn is_of(name: &[u8], binding: &Binding) -> bool {
    binding.instance().and_then(name_of).is_some_and(|own| own == name)
}

/// Instance as the value of `gr`: a URN without its brackets.
fn name_of(instance: &[u8]) -> Option<&[u8]> {
    let name = instance.strip_prefix(b"<").and_then(|rest| rest.strip_suffix(b">")).unwrap_or(instance);
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || PARAM_MARKS.contains(byte);
    (!name.is_empty() && name.iter().all(is_plain)).then_some(name)
}

/// Characters of a user part that need no escape (RFC 3261 §25.1, `unreserved`).
const USER_MARKS: &[u8] = b"-_.!~*'()";
/// Characters of a URI parameter that need no escape (RFC 3261 §25.1, `paramchar`), without `%`.
const PARAM_MARKS: &[u8] = b"-_.!~*'()[]/:&+$";
