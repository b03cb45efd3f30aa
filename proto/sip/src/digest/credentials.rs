//! Digest credentials, sent by a client in answer to a challenge.

use super::pairs::next_pair;
use crate::Malformed;
use crate::grammar::{is_lws, trim, unquote};
use alloc::vec::Vec;

/// Digest credentials (RFC 7616 §3.4). Values are as written, without quotes, escapes still in place.
///
/// ```
/// use ringway_sip::digest::Credentials;
///
/// let value = b"Digest username=\"bob\", realm=\"example.org\", nonce=\"n1\", uri=\"sip:example.org\", \
///     response=\"6629fae49393a05397450978507c4ef1\", qop=auth, nc=00000001, cnonce=\"c\"";
/// let credentials = Credentials::parse(value)?.expect("the scheme is Digest");
/// assert_eq!(credentials.username, b"bob");
/// assert_eq!(credentials.nonce_count(), Some(1));
/// assert_eq!(Credentials::parse(b"Basic YTpi")?, None);
/// # Ok::<(), ringway_sip::Malformed>(())
/// ```
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
            if let Some(place) = place_of(name) {
                // Two readers could interpret a duplicated parameter in two ways.
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

    /// Appends the value of an Authorization or Proxy-Authorization field. Values are written as they are: the caller
    /// has escaped them.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"Digest ");
        for (name, value) in [
            (&b"username"[..], self.username),
            (b"realm", self.realm),
            (b"nonce", self.nonce),
            (b"uri", self.uri),
            (b"response", self.response),
        ] {
            write_quoted(out, name, value);
            out.extend_from_slice(b", ");
        }
        out.truncate(out.len() - 2);
        for (name, value) in [(&b"algorithm"[..], self.algorithm), (b"qop", self.qop), (b"nc", self.nc)] {
            if let Some(value) = value {
                for part in [b", ", name, b"=", value] {
                    out.extend_from_slice(part);
                }
            }
        }
        for (name, value) in [(&b"cnonce"[..], self.cnonce), (b"opaque", self.opaque)] {
            if let Some(value) = value {
                out.extend_from_slice(b", ");
                write_quoted(out, name, value);
            }
        }
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

pub(super) fn write_quoted(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    for part in [name, b"=\"", value, b"\""] {
        out.extend_from_slice(part);
    }
}

/// Index of a parameter in [`NAMES`], without regard to case; nearly all clients use the spelling of the table.
fn place_of(name: &[u8]) -> Option<usize> {
    let exact = NAMES.iter().position(|known| *known == name);
    exact.or_else(|| NAMES.iter().position(|known| known.eq_ignore_ascii_case(name)))
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
    fn what_is_written_reads_back_the_same() {
        let given = Credentials {
            username: b"al\\\"ice",
            realm: b"r",
            nonce: b"n=",
            uri: b"sip:b",
            response: b"00",
            algorithm: Some(b"SHA-256"),
            cnonce: Some(b"c"),
            qop: Some(b"auth"),
            nc: Some(b"00000001"),
            opaque: Some(b""),
        };
        let mut out = Vec::new();
        given.write(&mut out);
        assert_eq!(Credentials::parse(&out), Ok(Some(given)));
        let plain = Credentials { algorithm: None, cnonce: None, qop: None, nc: None, opaque: None, ..given };
        out.clear();
        plain.write(&mut out);
        assert_eq!(Credentials::parse(&out), Ok(Some(plain)));
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
}
