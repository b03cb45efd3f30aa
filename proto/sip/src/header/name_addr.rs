//! From, To, Contact, Route, Record-Route, Path: a URI with a name and parameters (RFC 3261 §20.10).

use crate::grammar::{is_lws, is_token, quoted_len, trim};
use crate::{Malformed, Params, Uri};

/// One `name-addr` or `addr-spec` with the header's parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NameAddr<'a> {
    /// The display name as written, with its quotes; empty when there is none.
    pub display_name: &'a [u8],
    /// The URI.
    pub uri: Uri<'a>,
    /// The header's parameters.
    pub params: Params<'a>,
    /// True when the URI stands in angle brackets.
    pub is_bracketed: bool,
    tag: Option<&'a [u8]>,
}

impl<'a> NameAddr<'a> {
    /// Parses one value (not a comma-separated list).
    #[inline]
    pub fn parse(value: &'a [u8]) -> Result<Self, Malformed> {
        let value = trim(value);
        let name_len = match value.first() {
            Some(b'"') => quoted_len(value).ok_or(Malformed)?,
            _ => 0,
        };
        let after_name = value.get(name_len..).ok_or(Malformed)?;
        match memchr::memchr(b'<', after_name) {
            Some(open) => Self::bracketed(value, name_len, name_len + open),
            None if name_len == 0 => Self::bare(value),
            None => Err(Malformed),
        }
    }

    /// The `tag` parameter, of which there is at most one.
    pub const fn tag(&self) -> Option<&'a [u8]> {
        self.tag
    }

    #[inline]
    fn bracketed(value: &'a [u8], name_len: usize, open: usize) -> Result<Self, Malformed> {
        let display_name = trim(value.get(..open).ok_or(Malformed)?);
        let between = value.get(name_len..open).ok_or(Malformed)?;
        let name_is_good = match name_len {
            0 => display_name.iter().all(|&byte| is_token(byte) || is_lws(byte) || byte >= 0x80),
            _ => between.iter().all(|&byte| is_lws(byte)),
        };
        let rest = value.get(open + 1..).ok_or(Malformed)?;
        let close = memchr::memchr(b'>', rest).ok_or(Malformed)?;
        let (uri, after) = rest.split_at_checked(close).ok_or(Malformed)?;
        if !name_is_good {
            return Err(Malformed);
        }
        let (params, tag) = Params::parse_with(trim(after.get(1..).ok_or(Malformed)?), b"tag")?;
        Ok(Self { display_name, uri: Uri::parse(uri)?, params, is_bracketed: true, tag })
    }

    /// RFC 3261 §20.10: without brackets, a comma, question mark or semicolon in the URI is not allowed; what follows a
    /// semicolon belongs to the header.
    fn bare(value: &'a [u8]) -> Result<Self, Malformed> {
        let (uri, params) = match memchr::memchr(b';', value) {
            Some(at) => value.split_at_checked(at).ok_or(Malformed)?,
            None => (value, &[][..]),
        };
        let uri = trim(uri);
        if memchr::memchr2(b'?', b',', uri).is_some() {
            return Err(Malformed);
        }
        let (params, tag) = Params::parse_with(params, b"tag")?;
        Ok(Self { display_name: b"", uri: Uri::parse(uri)?, params, is_bracketed: false, tag })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_brackets_and_parameters() {
        let addr = NameAddr::parse(b"\"A, \\\"B\\\" <x>\"<sip:a@b;p=1?h=2>;tag=t;x=\"q;r\"").unwrap();
        assert_eq!(addr.display_name, b"\"A, \\\"B\\\" <x>\"");
        assert_eq!(addr.uri.as_bytes(), b"sip:a@b;p=1?h=2");
        assert_eq!(addr.tag(), Some(&b"t"[..]));
        let addr = NameAddr::parse(b"caller <sip:caller@example.com>; tag = 323").unwrap();
        assert_eq!((addr.display_name, addr.tag()), (&b"caller"[..], Some(&b"323"[..])));
    }

    #[test]
    fn a_bare_uri_leaves_its_parameters_to_the_header() {
        let addr = NameAddr::parse(b"sip:a@b;tag=1").unwrap();
        assert_eq!((addr.uri.as_bytes(), addr.tag()), (&b"sip:a@b"[..], Some(&b"1"[..])));
        assert!(!addr.is_bracketed);
    }

    #[test]
    fn what_is_no_name_addr() {
        for bad in [
            &b"\"Mr. J. User <sip:j@x>"[..],
            b"Bell, Alexander <sip:a@b>;tag=4",
            b"sip:user@example.com?Route=%3Csip:x%3E",
            b"\"Watson\" < sip:t.watson@example.org >",
            b"<sip:a@b",
            b"\"a\" sip:a@b",
            b"",
            b"<>",
        ] {
            assert_eq!(NameAddr::parse(bad), Err(Malformed), "{:?}", core::str::from_utf8(bad));
        }
    }
}
