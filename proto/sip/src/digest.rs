//! The syntax of digest authentication (RFC 7616, RFC 8760): challenges out, credentials in. The arithmetic is not here.

use crate::grammar::{TOKEN, class_len, is_lws, quoted_len, trim, unquote};
use crate::{Malformed, grammar};
use alloc::borrow::Cow;
use alloc::vec::Vec;

/// What a client sends to prove who it is. Values are as written, without quotes, escapes still in place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Credentials<'a> {
    /// `username`.
    pub username: &'a [u8],
    /// `realm`.
    pub realm: &'a [u8],
    /// `nonce`.
    pub nonce: &'a [u8],
    /// `uri`.
    pub uri: &'a [u8],
    /// `response`, hexadecimal.
    pub response: &'a [u8],
    /// `algorithm`; absent means MD5.
    pub algorithm: Option<&'a [u8]>,
    /// `cnonce`.
    pub cnonce: Option<&'a [u8]>,
    /// `qop`; absent means RFC 2069's computation.
    pub qop: Option<&'a [u8]>,
    /// `nc`, eight hexadecimal digits as written: they go into the hash.
    pub nc: Option<&'a [u8]>,
    /// `opaque`.
    pub opaque: Option<&'a [u8]>,
}

impl<'a> Credentials<'a> {
    /// Parses an Authorization or Proxy-Authorization value. `Ok(None)`: it is of another scheme than Digest.
    pub fn parse(value: &'a [u8]) -> Result<Option<Self>, Malformed> {
        let value = trim(value);
        let end = value.iter().position(|&byte| is_lws(byte)).unwrap_or(value.len());
        let (scheme, rest) = value.split_at_checked(end).ok_or(Malformed)?;
        if !scheme.eq_ignore_ascii_case(b"Digest") {
            return Ok(None);
        }
        let mut credentials = Self::default();
        let mut seen = 0_u16;
        let mut rest = trim(rest);
        while !rest.is_empty() {
            let (name, text, after) = next_pair(rest)?;
            if let Some(place) = NAMES.iter().position(|known| known.eq_ignore_ascii_case(name)) {
                // A parameter that stands twice could be read in two ways by two readers.
                if seen & (1 << place) != 0 {
                    return Err(Malformed);
                }
                seen |= 1 << place;
                credentials.put(place, unquote(text));
            }
            rest = after;
        }
        let all = (1 << MANDATORY) - 1;
        if seen & all != all {
            return Err(Malformed);
        }
        Ok(Some(credentials))
    }

    /// The nonce count, when it is eight hexadecimal digits.
    pub fn nonce_count(&self) -> Option<u32> {
        let digits = self.nc.filter(|digits| digits.len() == 8)?;
        u32::from_str_radix(core::str::from_utf8(digits).ok()?, 16).ok()
    }

    fn put(&mut self, place: usize, text: &'a [u8]) {
        match place {
            0 => self.username = text,
            1 => self.realm = text,
            2 => self.nonce = text,
            3 => self.uri = text,
            4 => self.response = text,
            5 => self.algorithm = Some(text),
            6 => self.cnonce = Some(text),
            7 => self.qop = Some(text),
            8 => self.nc = Some(text),
            _ => self.opaque = Some(text),
        }
    }
}

/// A challenge (RFC 7616 §3.3).
#[derive(Clone, Copy, Debug)]
pub struct Challenge<'a> {
    /// Whose password is asked for.
    pub realm: &'a [u8],
    /// The nonce; it must need no quoting.
    pub nonce: &'a [u8],
    /// The algorithm's name.
    pub algorithm: &'a str,
    /// True when only the nonce was wrong.
    pub is_stale: bool,
}

impl Challenge<'_> {
    /// Appends the value of a WWW-Authenticate or Proxy-Authenticate field.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"Digest realm=\"");
        write_escaped(out, self.realm);
        out.extend_from_slice(b"\",nonce=\"");
        write_escaped(out, self.nonce);
        out.extend_from_slice(b"\",algorithm=");
        out.extend_from_slice(self.algorithm.as_bytes());
        out.extend_from_slice(if self.is_stale { b",qop=\"auth\",stale=true" } else { b",qop=\"auth\"" });
    }
}

/// A quoted value with its `\` escapes undone; borrowed when there are none.
pub fn unescape(value: &[u8]) -> Cow<'_, [u8]> {
    if memchr::memchr(b'\\', value).is_none() {
        return Cow::Borrowed(value);
    }
    let mut out = Vec::with_capacity(value.len());
    let mut bytes = value.iter();
    while let Some(&byte) = bytes.next() {
        match (byte, bytes.as_slice().first()) {
            (b'\\', Some(&escaped)) => {
                out.push(escaped);
                bytes.next();
            }
            _ => out.push(byte),
        }
    }
    Cow::Owned(out)
}

fn write_escaped(out: &mut Vec<u8>, text: &[u8]) {
    for &byte in text {
        if matches!(byte, b'"' | b'\\') {
            out.push(b'\\');
        }
        out.push(byte);
    }
}

/// A name, its value as written, and what follows their comma.
type Pair<'a> = (&'a [u8], &'a [u8], &'a [u8]);

/// The first `name = value`.
fn next_pair(rest: &[u8]) -> Result<Pair<'_>, Malformed> {
    let (name, after) = rest.split_at_checked(class_len(rest, TOKEN)).ok_or(Malformed)?;
    let value = trim_start(trim_start(after).strip_prefix(b"=").ok_or(Malformed)?);
    let len = match value.first() {
        Some(b'"') => quoted_len(value).ok_or(Malformed)?,
        _ => value.iter().position(|&byte| byte == b',' || grammar::is_lws(byte)).unwrap_or(value.len()),
    };
    let (text, after) = value.split_at_checked(len).ok_or(Malformed)?;
    let after = trim_start(after);
    let after = match after.first() {
        None => after,
        Some(b',') => trim_start(after.get(1..).unwrap_or_default()),
        Some(_) => return Err(Malformed),
    };
    if name.is_empty() || text.is_empty() {
        return Err(Malformed);
    }
    Ok((name, text, after))
}

fn trim_start(bytes: &[u8]) -> &[u8] {
    let lead = bytes.iter().take_while(|&&byte| is_lws(byte)).count();
    bytes.get(lead..).unwrap_or_default()
}

/// The first five are mandatory.
const NAMES: [&[u8]; 10] =
    [b"username", b"realm", b"nonce", b"uri", b"response", b"algorithm", b"cnonce", b"qop", b"nc", b"opaque"];
const MANDATORY: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_as_phones_write_them() {
        let value = b"Digest username=\"bob\", realm=\"biloxi.com\",\r\n nonce=\"dcd98\" , uri=\"sip:bob@biloxi.com\",qop=auth, nc=0000000a, cnonce=\"0a4f\", response=\"6629\", opaque=\"\", algorithm=MD5, x=y";
        let credentials = Credentials::parse(value).unwrap().unwrap();
        assert_eq!(credentials.username, b"bob");
        assert_eq!(credentials.nonce_count(), Some(10));
        assert_eq!(credentials.opaque, Some(&b""[..]));
        assert_eq!(credentials.algorithm, Some(&b"MD5"[..]));
    }

    #[test]
    fn other_schemes_are_not_ours_and_bad_ones_are_malformed() {
        assert_eq!(Credentials::parse(b"NoOneKnowsThisScheme opaque-data=here"), Ok(None));
        for bad in [
            &b"Digest"[..],
            b"Digest username=\"a\"",
            b"Digest username=\"a",
            b"Digest username=a,realm=b,nonce=c,uri=d,response=e,realm=f",
            b"Digest username=a realm=b,nonce=c,uri=d,response=e",
            b"Digest ,,,",
            b"Digest =",
        ] {
            assert_eq!(Credentials::parse(bad), Err(Malformed), "{:?}", core::str::from_utf8(bad));
        }
    }

    #[test]
    fn a_challenge_keeps_its_quotes_closed() {
        let mut out = Vec::new();
        let challenge = Challenge { realm: b"a\"b", nonce: b"n", algorithm: "SHA-256", is_stale: true };
        challenge.write(&mut out);
        assert_eq!(out, b"Digest realm=\"a\\\"b\",nonce=\"n\",algorithm=SHA-256,qop=\"auth\",stale=true");
        assert_eq!(unescape(b"a\\\"b\\").as_ref(), b"a\"b\\");
    }
}
