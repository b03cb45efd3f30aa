//! The character classes and small rules of RFC 3261 §25 that everything else is read with.

use crate::scan::{find, sixteens_of};
use alloc::borrow::Cow;
use alloc::vec::Vec;

/// `token` characters: alphanumeric and `-.!%*_+` and backquote, quote, tilde.
pub const fn is_token(byte: u8) -> bool {
    (CLASS[byte as usize] & TOKEN) != 0
}

/// `hostname` characters, and the underscore that real networks use.
pub const fn is_host(byte: u8) -> bool {
    (CLASS[byte as usize] & HOST) != 0
}

/// True for bytes that are allowed in a URI: no white space, controls, quotes, backslashes, angle brackets or octets
/// above 126. The grammar forbids `^`, backquote, `{`, `|` and `}` too, but phones send them, and nothing ends at them.
pub const fn is_uri(byte: u8) -> bool {
    (CLASS[byte as usize] & URI) != 0
}

/// White space inside a header value, where a line break is always a folded one.
pub const fn is_lws(byte: u8) -> bool {
    (CLASS[byte as usize] & LWS) != 0
}

/// True when `bytes` is one token.
pub fn is_token_str(bytes: &[u8]) -> bool {
    !bytes.is_empty() && class_len(bytes, TOKEN) == bytes.len()
}

/// Number of bytes at the start of `bytes` that are in one of the classes in `class`.
#[inline]
pub(crate) fn class_len(bytes: &[u8], class: u8) -> usize {
    let is_of_class = |byte: u8| CLASS[usize::from(byte)] & class != 0;
    let (eights, rest) = bytes.as_chunks::<8>();
    let mut len = 0;
    for eight in eights {
        // Eight times the same, without a loop.
        for (place, &byte) in eight.iter().enumerate() {
            if !is_of_class(byte) {
                return len + place;
            }
        }
        len += 8;
    }
    len + rest.iter().take_while(|&&byte| is_of_class(byte)).count()
}

/// Number of bytes at the start of `bytes` that are of a parameter's value without quotes. Marks, branches and tags are long,
/// and have little but letters and digits.
#[inline]
pub(crate) fn param_value_len(bytes: &[u8]) -> usize {
    let is_plain = |byte: u8| {
        ((byte | 0x20).wrapping_sub(b'a') < 26)
            | (byte.wrapping_sub(b'0') < 10)
            | (byte.wrapping_sub(b'-') < 2)
    };
    let len = sixteens_of(bytes, is_plain);
    len + class_len(bytes.get(len..).unwrap_or_default(), PARAM_VALUE)
}

/// Number of bytes at the start of `bytes` that are allowed in a URI (see [`is_uri`]).
#[inline]
pub(crate) fn uri_len(bytes: &[u8]) -> usize {
    let is_allowed = |byte: u8| {
        (byte.wrapping_sub(b'!') < 127 - b'!')
            & (byte != b'"')
            & (byte != b'<')
            & (byte != b'>')
            & (byte != b'\\')
    };
    let len = sixteens_of(bytes, is_allowed);
    len + class_len(bytes.get(len..).unwrap_or_default(), URI)
}

/// True when both are the same name without regard to case; nearly all are spelled in the same case.
#[inline]
pub(crate) fn is_same_name(one: &[u8], other: &[u8]) -> bool {
    one == other || one.eq_ignore_ascii_case(other)
}

/// `bytes` without white space at either end.
#[inline]
pub fn trim(bytes: &[u8]) -> &[u8] {
    trim_end(trim_start(bytes))
}

/// `bytes` without white space at the start.
#[inline]
pub(crate) fn trim_start(bytes: &[u8]) -> &[u8] {
    // Nearly always there is none, else one space. A loop would take registers of each caller.
    match bytes {
        [first, rest @ ..] if is_lws(*first) => match rest.first() {
            Some(second) if is_lws(*second) => trim_long_start(rest),
            Some(_) | None => rest,
        },
        _ => bytes,
    }
}

#[cold]
#[inline(never)]
fn trim_long_start(bytes: &[u8]) -> &[u8] {
    let len = bytes.iter().take_while(|&&byte| is_lws(byte)).count();
    bytes.get(len..).unwrap_or_default()
}

/// `bytes` without white space at the end.
#[inline]
pub(crate) fn trim_end(mut bytes: &[u8]) -> &[u8] {
    while let [rest @ .., last] = bytes
        && is_lws(*last)
    {
        bytes = rest;
    }
    bytes
}

/// A decimal number of digits only; `None` when empty, over 20 digits, or above `u64::MAX`. Leading zeros are allowed.
pub fn number(bytes: &[u8]) -> Option<u64> {
    if bytes.is_empty() || bytes.len() > 20 {
        return None;
    }
    // So many digits always fit.
    let (most, last) = bytes.split_at_checked(19).unwrap_or((bytes, &[]));
    let mut value = 0_u64;
    for &byte in most {
        value = value * 10 + u64::from(digit(byte)?);
    }
    for &byte in last {
        value = value.checked_mul(10)?.checked_add(u64::from(digit(byte)?))?;
    }
    Some(value)
}

const fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        _ => None,
    }
}

/// A decimal number that fits 32 bits.
pub fn number_u32(bytes: &[u8]) -> Option<u32> {
    number(bytes).and_then(|value| u32::try_from(value).ok())
}

/// `delta-seconds` (RFC 3261 §25.1): below 2^32, else `None`.
pub fn delta_seconds(bytes: &[u8]) -> Option<u32> {
    number_u32(trim(bytes))
}

/// `qvalue` in thousandths: `0` to `1`, at most three decimals.
pub fn q_thousandths(bytes: &[u8]) -> Option<u16> {
    let (whole, decimals) = match memchr::memchr(b'.', bytes) {
        Some(dot) => (bytes.get(..dot)?, bytes.get(dot + 1..)?),
        None => (bytes, &[][..]),
    };
    if decimals.len() > 3 || !matches!(whole, b"" | b"0" | b"1") || (whole.is_empty() && decimals.is_empty())
    {
        return None;
    }
    let mut value = if whole == b"1" { 1000 } else { 0 };
    for (place, &byte) in decimals.iter().enumerate() {
        if !byte.is_ascii_digit() {
            return None;
        }
        value += u16::from(byte - b'0') * [100, 10, 1].get(place).copied().unwrap_or(0);
    }
    (value <= 1000).then_some(value)
}

/// The length of the quoted string at the start of `bytes`, with both quotes; `None` when it does not begin with a
/// quote or never ends.
pub fn quoted_len(bytes: &[u8]) -> Option<usize> {
    if bytes.first() != Some(&b'"') {
        return None;
    }
    let mut at = 1;
    loop {
        let found = at + memchr::memchr2(b'"', b'\\', bytes.get(at..)?)?;
        if bytes.get(found) == Some(&b'"') {
            return Some(found + 1);
        }
        at = found + 2;
    }
}

/// The inside of a quoted string, escapes still in place; other bytes as they are.
pub fn unquote(bytes: &[u8]) -> &[u8] {
    match bytes {
        [b'"', inner @ .., b'"'] => inner,
        other => other,
    }
}

/// Splits off the first of several comma-separated values; commas in quotes or angle brackets do not count. The rest is
/// `None` when there is no further comma.
pub fn split_value(bytes: &[u8]) -> (&[u8], Option<&[u8]>) {
    if memchr::memchr(b',', bytes).is_none() {
        return (bytes, None);
    }
    let mut at = 0;
    loop {
        let found = at + class_len(bytes.get(at..).unwrap_or_default(), LISTED);
        let rest = bytes.get(found..).unwrap_or_default();
        at = match rest.first() {
            Some(b',') => return (bytes.get(..found).unwrap_or_default(), rest.get(1..)),
            Some(b'"') => match quoted_len(rest) {
                Some(len) => found + len,
                None => break,
            },
            Some(_) => match memchr::memchr(b'>', rest) {
                Some(end) => found + end + 1,
                None => break,
            },
            None => break,
        };
    }
    (bytes, None)
}

/// Walks the comma-separated values of one header line.
pub(crate) struct Values<'a> {
    rest: Option<&'a [u8]>,
}

impl<'a> Values<'a> {
    pub(crate) const fn new(line: &'a [u8]) -> Self {
        Self { rest: Some(line) }
    }
}

impl<'a> Iterator for Values<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let (value, rest) = split_value(self.rest?);
        self.rest = rest;
        Some(trim(value))
    }
}

/// The value of two hexadecimal digits.
pub fn hex_pair(high: u8, low: u8) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    u8::try_from(digit(high)? * 16 + digit(low)?).ok()
}

/// One octet of `bytes` with `%HH` unescaped, and the number of bytes it took. A `%` without two digits is taken
/// literally.
pub fn unescaped_octet(bytes: &[u8]) -> Option<(u8, usize)> {
    match bytes {
        [b'%', high, low, ..] => Some(hex_pair(*high, *low).map_or((b'%', 1), |octet| (octet, 3))),
        [first, ..] => Some((*first, 1)),
        [] => None,
    }
}

/// Appends `bytes` with `%HH` unescaped once.
pub fn unescape_into(mut bytes: &[u8], out: &mut Vec<u8>) {
    if find::<b'%'>(bytes).is_none() {
        out.extend_from_slice(bytes);
        return;
    }
    while let Some((octet, used)) = unescaped_octet(bytes) {
        out.push(octet);
        bytes = bytes.get(used..).unwrap_or_default();
    }
}

/// `bytes` with `%HH` unescaped once; borrowed if there is none.
pub fn unescaped(bytes: &[u8]) -> Cow<'_, [u8]> {
    match find::<b'%'>(bytes) {
        None => Cow::Borrowed(bytes),
        Some(_) => {
            let mut plain = Vec::with_capacity(bytes.len());
            unescape_into(bytes, &mut plain);
            Cow::Owned(plain)
        }
    }
}

/// True when every `%` is followed by two hexadecimal digits.
pub fn escapes_are_whole(bytes: &[u8]) -> bool {
    memchr::memchr_iter(b'%', bytes).all(|at| match bytes.get(at + 1..at + 3) {
        Some([high, low]) => hex_pair(*high, *low).is_some(),
        _ => false,
    })
}

/// Classes of bytes, for [`class_len`].
pub(crate) const TOKEN: u8 = 1;
/// See [`is_host`].
pub(crate) const HOST: u8 = 2;
/// See [`is_uri`].
pub(crate) const URI: u8 = 4;
/// See [`is_lws`].
pub(crate) const LWS: u8 = 8;
/// Characters of a parameter's name: `paramchar` without escapes, and `token` (RFC 3261 §25.1).
pub(crate) const PARAM_NAME: u8 = 16;
/// Characters of a parameter's value without quotes: those of a name, `@` as some phones send it, and octets above 127.
pub(crate) const PARAM_VALUE: u8 = 32;
/// Characters of the user part of a URI: all of [`URI`] but `:`, `@` and `%`, which begins an escape.
pub(crate) const URI_USER: u8 = 64;
/// Characters without a meaning in a comma-separated list: all but `,`, `"` and `<`.
const LISTED: u8 = 128;

const CLASS: [u8; 256] = {
    let mut table = [0; 256];
    let mut at = 0;
    while at < 256 {
        let byte = at as u8;
        let mut class = 0;
        if byte.is_ascii_alphanumeric()
            || matches!(byte, b'-' | b'.' | b'!' | b'%' | b'*' | b'_' | b'+' | b'`' | b'\'' | b'~')
        {
            class |= TOKEN;
        }
        if class & TOKEN != 0 || matches!(byte, b'[' | b']' | b'/' | b':' | b'&' | b'$' | b'(' | b')') {
            class |= PARAM_NAME | PARAM_VALUE;
        }
        if byte == b'@' || byte >= 0x80 {
            class |= PARAM_VALUE;
        }
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_') {
            class |= HOST;
        }
        if byte > b' ' && byte < 127 && !matches!(byte, b'"' | b'<' | b'>' | b'\\') {
            class |= URI;
            if !matches!(byte, b':' | b'@' | b'%') {
                class |= URI_USER;
            }
        }
        if matches!(byte, b' ' | b'\t' | b'\r' | b'\n') {
            class |= LWS;
        }
        if !matches!(byte, b',' | b'"' | b'<') {
            class |= LISTED;
        }
        table[at] = class;
        at += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stop_at_their_edges() {
        assert_eq!(number(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(number(b"18446744073709551616"), None);
        assert_eq!(number(b"0068"), Some(68));
        assert!(number(b"").is_none() && number(b"-1").is_none() && number(b"+1").is_none());
        assert_eq!(number_u32(b"4294967295"), Some(u32::MAX));
        assert_eq!(number_u32(b"4294967296"), None);
    }

    #[test]
    fn runs_of_a_class_end_where_the_class_ends() {
        for len in 0..20 {
            for end in 0..=len {
                let mut text = alloc::vec![b'a'; len];
                if let Some(byte) = text.get_mut(end) {
                    *byte = b'@';
                }
                assert_eq!(class_len(&text, TOKEN), end, "{len}");
                assert_eq!(class_len(&text, URI), len);
                assert_eq!(uri_len(&text), len);
            }
        }
    }

    #[test]
    fn long_runs_end_where_their_class_ends() {
        for byte in 0..=255 {
            for at in 0..40 {
                let mut text = [b'a'; 40];
                text[at] = byte;
                assert_eq!(param_value_len(&text), class_len(&text, PARAM_VALUE), "{byte} at {at}");
                assert_eq!(uri_len(&text), class_len(&text, URI), "{byte} at {at}");
            }
        }
    }

    #[test]
    fn q_values_are_thousandths() {
        for (text, value) in
            [("0", 0), ("1", 1000), ("0.7", 700), ("1.000", 1000), ("0.123", 123), (".5", 500)]
        {
            assert_eq!(q_thousandths(text.as_bytes()), Some(value), "{text}");
        }
        for text in ["", ".", "1.001", "2", "0.1234", "-1", "0.a"] {
            assert_eq!(q_thousandths(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn commas_in_quotes_and_brackets_do_not_split() {
        let (first, rest) = split_value(br#""a, \", b" <sip:x@y,z>, next"#);
        assert_eq!(first, br#""a, \", b" <sip:x@y,z>"#);
        assert_eq!(rest, Some(&b" next"[..]));
        assert_eq!(split_value(b"\"never ends, "), (&b"\"never ends, "[..], None));
    }

    #[test]
    fn escapes_are_undone_once() {
        let mut out = Vec::new();
        unescape_into(b"value%2541%zz%4", &mut out);
        assert_eq!(out, b"value%41%zz%4");
        assert!(escapes_are_whole(b"%00a%fF") && !escapes_are_whole(b"%4") && !escapes_are_whole(b"%g0"));
    }
}
