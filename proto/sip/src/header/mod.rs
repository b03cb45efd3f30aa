//! Typed header values, each parsed from one value of its field: CSeq (RFC 3261 §20.16), and those with a URI, a name and
//! parameters, which are From, To, Contact (`*`, or a list of addresses), Route, Record-Route and Path.

mod via;

use crate::grammar::{delta_seconds, is_lws, is_token, q_thousandths, quoted_len, trim, trim_start};
use crate::{Fields, HeaderName, Malformed, Method, Params, Uri};
pub use via::Via;

/// One `name-addr` or `addr-spec` with the header's parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NameAddr<'a> {
    /// The display name as written, with its quotes; empty when there is none.
    pub display_name: &'a [u8],
    /// The URI.
    pub uri: Uri<'a>,
    /// The header's parameters.
    pub params: Params<'a>,
    /// True if the URI is in angle brackets.
    pub is_bracketed: bool,
    tag: Option<&'a [u8]>,
}

impl<'a> NameAddr<'a> {
    /// Parses one value (not a comma-separated list).
    #[inline]
    pub fn parse(value: &'a [u8]) -> Result<Self, Malformed> {
        let value = trim(value);
        let (display_name, open_on) = match value.first() {
            Some(b'<') => (&[][..], value),
            Some(b'"') => {
                let len = quoted_len(value).ok_or(Malformed)?;
                let (name, rest) = value.split_at_checked(len).ok_or(Malformed)?;
                (name, trim_start(rest))
            }
            _ => match memchr::memchr(b'<', value) {
                Some(open) => split_name(value, open)?,
                None => return Self::bare(value),
            },
        };
        let [b'<', uri_on @ ..] = open_on else { return Err(Malformed) };
        let (uri, [b'>', params_on @ ..]) = Uri::split(uri_on)? else { return Err(Malformed) };
        let (params, tag) = match trim_start(params_on) {
            [] => (Params::default(), None),
            params => Params::parse_with(params, b"tag")?,
        };
        Ok(Self { display_name, uri, params, is_bracketed: true, tag })
    }

    /// The `tag` parameter, of which there is at most one.
    pub const fn tag(&self) -> Option<&'a [u8]> {
        self.tag
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

/// A display name without quotes, and what follows from the bracket at `open` on. It should be made of tokens; phones also write
/// encoded words, addresses and remarks. With a comma it could be the end of another value.
fn split_name(value: &[u8], open: usize) -> Result<(&[u8], &[u8]), Malformed> {
    let (name, open_on) = value.split_at_checked(open).ok_or(Malformed)?;
    let is_good = |&byte: &u8| is_token(byte) || is_lws(byte) || byte >= 0x80 || LAX.contains(&byte);
    if name.iter().all(is_good) { Ok((trim(name), open_on)) } else { Err(Malformed) }
}

/// Characters of no token that a display name without quotes may have.
const LAX: &[u8] = b"=?()/:@[]{}";

/// One Contact value with the parameters a registrar reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contact<'a> {
    /// The address and all its parameters.
    pub address: NameAddr<'a>,
    /// `expires` in seconds. A malformed value counts as 3600 (RFC 3261 §20.10).
    pub expires: Option<u32>,
    /// `q` in thousandths.
    pub q: Option<u16>,
}

impl<'a> Contact<'a> {
    /// Parses one value other than `*`.
    pub fn parse(value: &'a [u8]) -> Result<Self, Malformed> {
        let address = NameAddr::parse(value)?;
        let expires = address.params.value(b"expires").map(|text| delta_seconds(text).unwrap_or(3600));
        let q = match address.params.value(b"q") {
            Some(text) => Some(q_thousandths(text).ok_or(Malformed)?),
            None => None,
        };
        Ok(Self { address, expires, q })
    }
}

/// All Contact values of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contacts {
    /// There is none: a query.
    Absent,
    /// `Contact: *`, alone.
    Star,
    /// This many addresses.
    List(usize),
}

impl Contacts {
    /// The kind of Contacts of a message; the addresses are not read. A `*` beside anything else is malformed (RFC 3261
    /// §10.3 step 6).
    pub fn of(message: &Fields<'_>) -> Result<Self, Malformed> {
        let mut stars = 0;
        let mut count = 0;
        for value in message.values(HeaderName::Contact) {
            if value == b"*" {
                stars += 1;
            } else {
                count += 1;
            }
        }
        match (stars, count) {
            (0, 0) if message.has(HeaderName::Contact) => Err(Malformed),
            (0, 0) => Ok(Self::Absent),
            (1, 0) => Ok(Self::Star),
            (0, count) => Ok(Self::List(count)),
            _ => Err(Malformed),
        }
    }
}

/// A sequence number and the method it numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CSeq<'a> {
    /// 0 to 2^32-1. RFC 3261 §8.1.1.5 asks senders to stay below 2^31; readers accept the grammar's range.
    pub number: u32,
    /// The method.
    pub method: Method<'a>,
}

impl<'a> CSeq<'a> {
    /// Parses a CSeq value.
    #[inline]
    pub fn parse(value: &'a [u8]) -> Result<Self, Malformed> {
        let mut rest = value;
        let mut number = 0_u64;
        while let [digit @ b'0'..=b'9', after @ ..] = rest {
            number = number * 10 + u64::from(digit - b'0');
            if number > u64::from(u32::MAX) {
                return Err(Malformed);
            }
            rest = after;
        }
        if rest.len() == value.len() || !rest.first().is_some_and(|&byte| is_lws(byte)) {
            return Err(Malformed);
        }
        Ok(Self { number: number as u32, method: Method::parse(trim(rest))? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    #[test]
    fn names_brackets_and_parameters() {
        let addr = NameAddr::parse(b"\"A, \\\"B\\\" <x>\"<sip:a@b;p=1?h=2>;tag=t;x=\"q;r\"").unwrap();
        assert_eq!(addr.display_name, b"\"A, \\\"B\\\" <x>\"");
        assert_eq!(addr.uri.as_bytes(), b"sip:a@b;p=1?h=2");
        assert_eq!(addr.tag(), Some(&b"t"[..]));
        let addr = NameAddr::parse(b"caller <sip:caller@example.com>; tag = 323").unwrap();
        assert_eq!((addr.display_name, addr.tag()), (&b"caller"[..], Some(&b"323"[..])));
        for name in ["=?utf-8?Q?x?=", "a@b", "Front desk (2)", "B\u{f6}rk"] {
            let value = format!("{name} <sip:a@b>;tag=1");
            let addr = NameAddr::parse(value.as_bytes()).unwrap();
            assert_eq!((addr.display_name, addr.uri.as_bytes()), (name.as_bytes(), &b"sip:a@b"[..]));
        }
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

    /// The URI is read up to where it cannot go on; found by its bracket first, it must be the same one.
    #[test]
    fn a_uri_in_brackets_is_what_stands_in_the_brackets() {
        const PIECES: [&[u8]; 16] = [
            b"sip:", b"tel:1", b"a", b"host", b":", b"5060", b"@", b"%41", b"%4", b";lr", b";x=\"", b"?a=b",
            b" ", b"<", b"[::1]", b">",
        ];
        let mut state = 1_u64;
        let mut accepted = 0;
        for _ in 0..200_000 {
            let mut value = alloc::vec![b'<'];
            for place in 0..8 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let chosen = (state >> 33) as usize;
                let piece = match (place, state >> 62) {
                    (0, 1..) => 0,
                    (7, 1..) => 15,
                    _ => chosen % PIECES.len(),
                };
                value.extend_from_slice(PIECES[piece]);
            }
            let plain = value.iter().position(|&byte| byte == b'>').ok_or(Malformed).and_then(|close| {
                let (params, tag) = Params::parse_with(trim(&value[close + 1..]), b"tag")?;
                let uri = Uri::parse(&value[1..close])?;
                Ok(NameAddr { display_name: b"", uri, params, is_bracketed: true, tag })
            });
            accepted += usize::from(plain.is_ok());
            assert_eq!(NameAddr::parse(&value), plain, "{:?}", value.escape_ascii());
        }
        assert!(accepted > 1000, "{accepted} were addresses");
    }

    #[test]
    fn numbers_and_methods() {
        assert_eq!(CSeq::parse(b"0009\r\n  INVITE"), Ok(CSeq { number: 9, method: Method::Invite }));
        assert_eq!(CSeq::parse(b"4294967295 X").map(|cseq| cseq.number), Ok(u32::MAX));
        for bad in [&b"4294967296 INVITE"[..], b"INVITE", b"1", b"-1 INVITE", b"1 IN VITE", b" 1"] {
            assert_eq!(CSeq::parse(bad), Err(Malformed));
        }
    }
}
