//! Globally routable URIs of one phone (RFC 5627): public ones contain the user and the instance, temporary ones neither.
//!
//! The user part of a temporary one is `tgruu.` and the hexadecimal digits of IV and ciphertext. The plaintext is a keyed
//! hash of instance and Call-ID, the CSeq of the REGISTER, and the user. The IV is its HMAC, which is verified after
//! decryption (a synthetic IV, RFC 5297 §1.3.2), and the key stream is HMACs of the IV with a counter. There is no table: the
//! hash fits no binding any more when the phone registers with another Call-ID, or not at all.

use crate::Aor;
use crate::base::GruuKeys;
use crate::location::Binding;
use crate::token::UriHash;
use alloc::vec::Vec;
use core::hash::Hasher;
use hmac::{Hmac, KeyInit, Mac};
use ringway_sansio::PartHasher;
use ringway_sip::grammar::unescaped;
use ringway_sip::{Scheme, Uri, hex16, read_hex, write_hex};
use siphasher::sip::SipHasher13;

/// GRUU in a Request-URI.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Gruu {
    /// Public: the bindings of this instance.
    Instance(Vec<u8>),
    /// Temporary: its user and the bindings that it is for, as a URI of this server.
    Temporary(Vec<u8>),
    /// URI of a decrypted temporary one: the bindings with this hash.
    Registration(u64),
    /// Contact of a phone in a dialog: the bindings with this hash.
    Contact(UriHash),
}

impl Gruu {
    /// GRUU that a Request-URI is; `None` for any other URI of this server. `is_own`: this server wrote it, in a request to itself.
    pub(crate) fn of(keys: &GruuKeys, uri: &Uri<'_>, is_own: bool) -> Option<Self> {
        let params = uri.params();
        if params.as_bytes().is_empty() {
            return None;
        }
        if let Some(hash) = params.value(REGISTRATION).filter(|_| is_own) {
            return Some(Self::Registration(read_hex(hash).unwrap_or(0)));
        }
        if let Some(hash) = params.value(CONTACT).filter(|_| is_own) {
            return Some(Self::Contact(UriHash::read(hash).unwrap_or_default()));
        }
        let gr = params.find(b"gr")?;
        let token = uri.user().and_then(|user| user.strip_prefix(PREFIX));
        if let (None, Some(token)) = (gr.value, token) {
            return keys.iter().find_map(|key| decrypted(key, token, uri)).map(Self::Temporary);
        }
        Some(Self::Instance(unescaped(gr.value.unwrap_or_default()).into_owned()))
    }

    /// True if the binding is reached by it.
    pub(crate) fn is_of(&self, keys: &GruuKeys, binding: &Binding) -> bool {
        match self {
            Self::Instance(name) => {
                binding.instance().and_then(name_of).is_some_and(|own| is_same_name(own, name))
            }
            Self::Temporary(_) => false,
            Self::Registration(hash) => keys.iter().any(|key| hash_of(key, binding) == Some(*hash)),
            Self::Contact(hash) => {
                let uri = Uri::parse(binding.uri());
                uri.is_ok_and(|uri| keys.iter().any(|key| UriHash::of(key, &uri) == *hash))
            }
        }
    }

    /// True if the phone of a binding that is reached by it writes its instance in other capitals.
    pub(crate) fn has_other_capitals(&self, binding: &Binding) -> bool {
        match self {
            Self::Instance(name) => binding.instance().and_then(name_of).is_some_and(|own| own != name),
            Self::Temporary(_) | Self::Registration(_) | Self::Contact(_) => false,
        }
    }
}

/// URI of this server for the phone of a user that is a side of a dialog, whose Contact is `target`. Its user's only phone is found
/// by it also if that has another contact now.
pub(crate) fn in_dialog(keys: &GruuKeys, aor: &Aor, target: &Uri<'_>, with_gruu: bool) -> Vec<u8> {
    let gruu = if with_gruu { Gruu::of(keys, target, false) } else { None };
    let mut uri = match &gruu {
        Some(Gruu::Temporary(uri)) => uri.clone(),
        _ => {
            let mut uri = scheme_of(target).to_vec();
            write_escaped(aor.user(), &mut uri);
            uri.push(b'@');
            uri.extend_from_slice(aor.domain());
            uri
        }
    };
    match (&gruu, target.params().value(b"gr")) {
        (Some(Gruu::Instance(_)), Some(instance)) => {
            uri.extend_from_slice(b";gr=");
            uri.extend_from_slice(instance);
        }
        (Some(Gruu::Temporary(_)), _) => {}
        _ => {
            uri.push(b';');
            uri.extend_from_slice(CONTACT);
            uri.push(b'=');
            UriHash::of(&keys.current, target).write(&mut uri);
        }
    }
    uri.push(b';');
    uri.extend_from_slice(IN_DIALOG);
    uri
}

/// True for a URI of [`in_dialog`], in a request that this server sent to itself.
pub(crate) fn is_in_dialog(uri: &Uri<'_>) -> bool {
    uri.params().has(IN_DIALOG)
}

/// Appends the GRUUs of a binding as contact parameters; nothing if its instance cannot be a URI parameter.
pub(crate) fn write_params(key: &[u8; 16], aor: &Aor, binding: &Binding, out: &mut Vec<u8>) {
    let Some(name) = binding.instance().and_then(name_of) else { return };
    out.extend_from_slice(b";pub-gruu=\"sip:");
    write_escaped(aor.user(), out);
    out.push(b'@');
    out.extend_from_slice(aor.domain());
    out.extend_from_slice(b";gr=");
    out.extend_from_slice(name);
    out.push(b'"');
    let Some(hash) = hash_of(key, binding).filter(|_| aor.user().len() <= USER_BYTES_MAX) else { return };
    let mut text = hash.to_be_bytes().to_vec();
    text.extend_from_slice(&binding.cseq.to_be_bytes());
    text.extend_from_slice(aor.user());
    let iv = iv_of(key, &text);
    apply_key_stream(key, &iv, &mut text);
    out.extend_from_slice(b";temp-gruu=\"sip:");
    out.extend_from_slice(PREFIX);
    iv.iter().chain(&text).for_each(|byte| write_hex(out, u64::from(*byte), 2));
    out.push(b'@');
    out.extend_from_slice(aor.domain());
    out.extend_from_slice(b";gr\"");
}

/// URI for the token of a temporary GRUU `uri`; `None` if it is not one of this server.
fn decrypted(key: &[u8; 16], token: &[u8], uri: &Uri<'_>) -> Option<Vec<u8>> {
    let (digits, []) = token.as_chunks::<2>() else { return None };
    let bytes = digits.iter().map(|pair| u8::try_from(read_hex(pair)?).ok());
    let bytes = bytes.collect::<Option<Vec<u8>>>()?;
    let (iv, text) = bytes.split_first_chunk::<IV_BYTES>()?;
    let mut text = text.to_vec();
    if text.len() > FIXED_BYTES + USER_BYTES_MAX {
        return None;
    }
    apply_key_stream(key, iv, &mut text);
    mac(key, b"iv", &[&text]).verify_truncated_left(iv).ok()?;
    let (hash, rest) = text.split_first_chunk::<8>()?;
    let user = rest.get(FIXED_BYTES - 8..)?;
    let mut target = scheme_of(uri).to_vec();
    write_escaped(user, &mut target);
    target.push(b'@');
    target.extend_from_slice(uri.host().as_bytes());
    target.push(b';');
    target.extend_from_slice(REGISTRATION);
    target.push(b'=');
    target.extend_from_slice(&hex16(u64::from_be_bytes(*hash)));
    Some(target)
}

/// A `sips:` URI stays one (RFC 3261 §26.2.2).
fn scheme_of(uri: &Uri<'_>) -> &'static [u8] {
    if uri.scheme() == Scheme::Sips { b"sips:" } else { b"sip:" }
}

/// Keyed hash of instance and Call-ID; `None` without an instance.
fn hash_of(key: &[u8; 16], binding: &Binding) -> Option<u64> {
    let mut hash = PartHasher::new(SipHasher13::new_with_key(key));
    hash.part(binding.instance()?);
    hash.part(binding.call_id());
    Some(hash.hasher().finish())
}

fn iv_of(key: &[u8; 16], text: &[u8]) -> [u8; IV_BYTES] {
    let mut iv = [0; IV_BYTES];
    iv.iter_mut().zip(mac(key, b"iv", &[text]).finalize().into_bytes()).for_each(|(to, from)| *to = from);
    iv
}

fn apply_key_stream(key: &[u8; 16], iv: &[u8; IV_BYTES], text: &mut [u8]) {
    for (number, block) in (0_u8..).zip(text.chunks_mut(32)) {
        let stream = mac(key, b"stream", &[iv, &[number]]).finalize().into_bytes();
        block.iter_mut().zip(stream).for_each(|(byte, key)| *byte ^= key);
    }
}

fn mac(key: &[u8; 16], purpose: &[u8], parts: &[&[u8]]) -> Hmac<sha2::Sha256> {
    let mac = Hmac::<sha2::Sha256>::new_from_slice(key);
    let mut mac = mac.unwrap_or_else(|_| Hmac::new(&Default::default()));
    mac.update(purpose);
    parts.iter().for_each(|part| mac.update(part));
    mac
}

/// Appends a user part with its escapes.
fn write_escaped(user: &[u8], out: &mut Vec<u8>) {
    for &byte in user {
        match byte.is_ascii_alphanumeric() || USER_MARKS.contains(&byte) {
            true => out.push(byte),
            false => {
                out.push(b'%');
                write_hex(out, u64::from(byte), 2);
            }
        }
    }
}

/// Instance as the value of `gr`: a URN without its brackets.
fn name_of(instance: &[u8]) -> Option<&[u8]> {
    let name = instance.strip_prefix(b"<").and_then(|rest| rest.strip_suffix(b">")).unwrap_or(instance);
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || PARAM_MARKS.contains(byte);
    (!name.is_empty() && name.iter().all(is_plain)).then_some(name)
}

/// True if both are the same URN: `urn`, the namespace and all of a UUID compare without case (RFC 8141 §3.1, RFC 9562 §4).
fn is_same_name(one: &[u8], other: &[u8]) -> bool {
    let namespace_end = |name: &[u8]| {
        let is_urn = name.get(..URN.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(URN));
        let rest = name.get(URN.len()..).filter(|_| is_urn)?;
        Some(URN.len() + memchr::memchr(b':', rest)?)
    };
    if one == other {
        return true;
    }
    let Some((begin, name)) = namespace_end(one).and_then(|end| one.split_at_checked(end)) else {
        return false;
    };
    let Some((other_begin, other_name)) = other.split_at_checked(begin.len()) else { return false };
    begin.eq_ignore_ascii_case(other_begin)
        && (name == other_name || (begin.eq_ignore_ascii_case(UUID) && name.eq_ignore_ascii_case(other_name)))
}

const URN: &[u8] = b"urn:";
const UUID: &[u8] = b"urn:uuid";
/// Begin of the user part of a temporary GRUU.
const PREFIX: &[u8] = b"tgruu.";
/// Parameter of the URI that a request for a temporary GRUU has on its way to this server itself.
const REGISTRATION: &[u8] = b"rwg";
/// Parameter of the URI that a request in a dialog has on its way to this server itself: the hash of the phone's Contact.
const CONTACT: &[u8] = b"rwc";
/// Parameter of such a URI.
const IN_DIALOG: &[u8] = b"rwd";
const IV_BYTES: usize = 10;
/// Bytes of hash and CSeq.
const FIXED_BYTES: usize = 8 + 4;
/// Maximum length of a user part with temporary GRUUs.
const USER_BYTES_MAX: usize = 64;
/// Characters of a user part that need no escape (RFC 3261 §25.1, `unreserved`).
const USER_MARKS: &[u8] = b"-_.!~*'()";
/// Characters of a URI parameter that need no escape (RFC 3261 §25.1, `paramchar`), without `%`.
const PARAM_MARKS: &[u8] = b"-_.!~*'()[]/:&+$";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phone_in_a_dialog_is_found_by_its_contact_with_the_same_scheme() {
        let keys = GruuKeys { current: [7; 16], accepted: None };
        let aor = Aor::new(b"al ice", b"example.org");
        let of = |target: &str| in_dialog(&keys, &aor, &Uri::parse(target.as_bytes()).unwrap(), true);
        for (target, start) in [
            ("sip:tok@a.invalid;transport=ws;ob", "sip:al%20ice@example.org;rwc="),
            ("sips:alice@192.0.2.1", "sips:al%20ice@example.org;rwc="),
            ("sip:alice@example.org;gr=urn:uuid:1", "sip:al%20ice@example.org;gr=urn:uuid:1"),
        ] {
            let uri = of(target);
            let text = core::str::from_utf8(&uri).unwrap();
            assert!(text.starts_with(start) && text.ends_with(";rwd"), "{text}");
            let uri = Uri::parse(&uri).unwrap();
            assert!(is_in_dialog(&uri) && Gruu::of(&keys, &uri, true).is_some(), "{text}");
        }
        assert_eq!(of("sip:tok@A.invalid"), of("sip:tok@a.invalid;transport=ws;ob"), "one phone");
        assert_ne!(of("sip:tok@a.invalid"), of("sip:other@a.invalid"));
    }
}
