//! Digest credentials, sent by a client in answer to a challenge, and Authentication-Info and Proxy-Authentication-Info, in
//! which a server answers them.

use super::{Qop, next_pair};
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

fn write_quoted(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
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

/// A value of Authentication-Info (RFC 7616 §3.5). Values are as written, without quotes, escapes still in place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AuthenticationInfo<'a> {
    /// `nextnonce`: the nonce for the next request.
    pub nextnonce: Option<&'a [u8]>,
    /// The server's proof, with the values of the credentials that it answers.
    pub proof: Option<ServerProof<'a>>,
}

/// The server's proof that it has the password too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerProof<'a> {
    /// `qop` of the credentials.
    pub qop: Qop,
    /// `rspauth`, hexadecimal.
    pub rspauth: &'a [u8],
    /// `cnonce` of the credentials.
    pub cnonce: &'a [u8],
    /// `nc` of the credentials, eight hexadecimal digits.
    pub nc: &'a [u8],
}

impl<'a> AuthenticationInfo<'a> {
    /// Parses a value; parameters with other names are skipped.
    ///
    /// # Errors
    /// It is not a list of parameters.
    pub fn parse(value: &'a [u8]) -> Result<Self, Malformed> {
        let mut nextnonce = None;
        let (mut qop, mut rspauth, mut cnonce, mut nc) = (None, None, None, None);
        let mut rest = trim(value);
        while !rest.is_empty() {
            let (name, text, after) = next_pair(rest)?;
            let text = unquote(text);
            for (known, place) in [
                (&b"nextnonce"[..], &mut nextnonce),
                (b"qop", &mut qop),
                (b"rspauth", &mut rspauth),
                (b"cnonce", &mut cnonce),
                (b"nc", &mut nc),
            ] {
                if known.eq_ignore_ascii_case(name) {
                    *place = Some(text);
                }
            }
            rest = after;
        }
        let proof = match (qop.and_then(Qop::from_name), rspauth, cnonce, nc) {
            (Some(qop), Some(rspauth), Some(cnonce), Some(nc)) => {
                Some(ServerProof { qop, rspauth, cnonce, nc })
            }
            _ => None,
        };
        Ok(Self { nextnonce, proof })
    }

    /// Appends the value. Values are written as they are: the caller has escaped them.
    pub fn write(&self, out: &mut Vec<u8>) {
        if let Some(nextnonce) = self.nextnonce {
            write_quoted(out, b"nextnonce", nextnonce);
        }
        let Some(ServerProof { qop, rspauth, cnonce, nc }) = self.proof else { return };
        if self.nextnonce.is_some() {
            out.push(b',');
        }
        for part in [b"qop=", qop.name().as_bytes(), b",nc=", nc, b","] {
            out.extend_from_slice(part);
        }
        write_quoted(out, b"rspauth", rspauth);
        out.push(b',');
        write_quoted(out, b"cnonce", cnonce);
    }
}

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

#[cfg(test)]
mod info_tests {
    use super::*;

    #[test]
    fn what_is_written_reads_back_the_same() {
        let proof = ServerProof { qop: Qop::AuthInt, rspauth: b"00", cnonce: b"c", nc: b"00000001" };
        for (nextnonce, proof) in
            [(Some(&b"n"[..]), Some(proof)), (Some(b"n"), None), (None, Some(proof)), (None, None)]
        {
            let info = AuthenticationInfo { nextnonce, proof };
            let mut out = Vec::new();
            info.write(&mut out);
            assert_eq!(AuthenticationInfo::parse(&out), Ok(info));
        }
    }

    #[test]
    fn the_example_of_the_rfc_and_values_that_cannot_be_read() {
        let value =
            b" qop=auth, RSPAUTH=\"6629fae4\" , cnonce=\"0a4f113b\",nc=00000001, nextnonce=\"47364c23\", x=y";
        let info = AuthenticationInfo::parse(value).unwrap();
        assert_eq!(info.nextnonce, Some(&b"47364c23"[..]));
        assert_eq!(info.proof.map(|proof| (proof.qop, proof.nc)), Some((Qop::Auth, &b"00000001"[..])));
        assert_eq!(
            AuthenticationInfo::parse(b"rspauth=\"66\"").unwrap(),
            AuthenticationInfo::default(),
            "RFC 2069 has no qop: the proof is not used"
        );
        for bad in [&b"nextnonce"[..], b"nextnonce=", b"nextnonce=\"a", b"=", b",", b"a=b c=d"] {
            assert_eq!(AuthenticationInfo::parse(bad), Err(Malformed));
        }
    }
}
