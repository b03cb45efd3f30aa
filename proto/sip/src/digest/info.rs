//! Authentication-Info and Proxy-Authentication-Info: what a server says about credentials that it accepted.

use super::Qop;
use super::credentials::write_quoted;
use super::pairs::next_pair;
use crate::Malformed;
use crate::grammar::{trim, unquote};
use alloc::vec::Vec;

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
