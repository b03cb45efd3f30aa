//! Digest challenges, received and sent.

use super::{Qop, next_pair};
use crate::grammar::{TOKEN, class_len, is_lws, trim, unquote};
use alloc::vec::Vec;

/// A challenge (RFC 7616 §3.3).
#[derive(Clone, Copy, Debug)]
pub struct Challenge<'a> {
    /// Protection domain of the password.
    pub realm: &'a [u8],
    /// The nonce; it must need no quoting.
    pub nonce: &'a [u8],
    /// The algorithm's name.
    pub algorithm: &'a str,
    /// Value that the client returns; it must need no quoting.
    pub opaque: Option<&'a [u8]>,
    /// Qualities of protection.
    pub qop: QopOffer,
    /// True when only the nonce was wrong.
    pub is_stale: bool,
}

/// Qualities of protection in a challenge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QopOffer {
    /// `auth`.
    #[default]
    Auth,
    /// `auth,auth-int`.
    AuthOrAuthInt,
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
        if let Some(opaque) = self.opaque {
            out.extend_from_slice(b",opaque=\"");
            write_escaped(out, opaque);
            out.push(b'"');
        }
        out.extend_from_slice(match self.qop {
            QopOffer::Auth => b",qop=\"auth\"",
            QopOffer::AuthOrAuthInt => b",qop=\"auth,auth-int\"",
        });
        if self.is_stale {
            out.extend_from_slice(b",stale=true");
        }
    }
}

/// A challenge as it came (RFC 7616 §3.3). Values are as written, without quotes, escapes still in place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceivedChallenge<'a> {
    /// `realm`.
    pub realm: &'a [u8],
    /// `nonce`.
    pub nonce: &'a [u8],
    /// `algorithm`; absent means MD5.
    pub algorithm: Option<&'a [u8]>,
    /// `opaque`, to be sent back as it is.
    pub opaque: Option<&'a [u8]>,
    /// `qop`, a list; absent means RFC 2069's computation.
    pub qop: Option<&'a [u8]>,
    /// `stale` is true: only the nonce was wrong.
    pub is_stale: bool,
}

impl<'a> ReceivedChallenge<'a> {
    /// The Digest challenges in one WWW-Authenticate or Proxy-Authenticate line: one as RFC 3261 §20.44 has it, or several
    /// with commas between them as HTTP allows. Challenges of other schemes and ones that cannot be read are left out.
    pub fn all(line: &'a [u8]) -> impl Iterator<Item = Self> {
        let mut rest = trim(line);
        core::iter::from_fn(move || {
            while !rest.is_empty() {
                let (scheme, after) = rest.split_at_checked(class_len(rest, TOKEN))?;
                if scheme.is_empty() || !after.first().is_some_and(|&byte| is_lws(byte)) {
                    return None;
                }
                let (challenge, after) = Self::read(trim(after))?;
                rest = after;
                if scheme.eq_ignore_ascii_case(b"Digest") && !challenge.nonce.is_empty() {
                    return Some(challenge);
                }
            }
            None
        })
    }

    /// True when `qop` has this value; `None` when there is no `qop`.
    pub fn offers(&self, qop: Qop) -> Option<bool> {
        let list = self.qop?;
        Some(list.split(|&byte| byte == b',').any(|one| Qop::from_name(trim(one)) == Some(qop)))
    }

    /// The parameters of one challenge, and what follows them: nothing, or the next scheme.
    fn read(mut rest: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let mut challenge = Self::default();
        while !rest.is_empty() && !begins_a_challenge(rest) {
            let (name, text, after) = next_pair(rest).ok()?;
            challenge.put(name, unquote(text));
            rest = after;
        }
        Some((challenge, rest))
    }

    fn put(&mut self, name: &[u8], text: &'a [u8]) {
        if name.eq_ignore_ascii_case(b"realm") {
            self.realm = text;
        } else if name.eq_ignore_ascii_case(b"nonce") {
            self.nonce = text;
        } else if name.eq_ignore_ascii_case(b"algorithm") {
            self.algorithm = Some(text);
        } else if name.eq_ignore_ascii_case(b"opaque") {
            self.opaque = Some(text);
        } else if name.eq_ignore_ascii_case(b"qop") {
            self.qop = Some(text);
        } else if name.eq_ignore_ascii_case(b"stale") {
            self.is_stale = text.eq_ignore_ascii_case(b"true");
        }
    }
}

/// A scheme and white space stand where a parameter would have its `=`.
fn begins_a_challenge(rest: &[u8]) -> bool {
    let after = rest.get(class_len(rest, TOKEN)..).unwrap_or_default();
    after.first().is_some_and(|&byte| is_lws(byte)) && !trim(after).starts_with(b"=")
}

fn write_escaped(out: &mut Vec<u8>, text: &[u8]) {
    if memchr::memchr2(b'"', b'\\', text).is_none() {
        return out.extend_from_slice(text);
    }
    for &byte in text {
        if matches!(byte, b'"' | b'\\') {
            out.push(b'\\');
        }
        out.push(byte);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digest::unescape;

    #[test]
    fn challenges_as_servers_write_them() {
        let line = b"Digest realm=\"a\", nonce=\"n1\",\r\n qop=\"auth,auth-int\", algorithm=SHA-256, stale=TRUE, Basic realm=\"x\", Digest nonce=\"n2\",realm=\"b\",opaque=\"o\"";
        let all: Vec<_> = ReceivedChallenge::all(line).collect();
        assert_eq!(all.len(), 2);
        assert_eq!((all[0].realm, all[0].nonce, all[0].is_stale), (&b"a"[..], &b"n1"[..], true));
        assert_eq!((all[0].offers(Qop::Auth), all[1].offers(Qop::Auth)), (Some(true), None));
        assert_eq!(all[0].offers(Qop::AuthInt), Some(true));
        assert_eq!((all[1].opaque, all[1].algorithm), (Some(&b"o"[..]), None));
    }

    #[test]
    fn what_is_no_challenge_is_left_out() {
        for bad in [
            &b""[..],
            b"Digest",
            b"Digest ",
            b"Digest realm",
            b"Digest realm=\"a",
            b"Digest realm=\"a\"",
            b",,,",
        ] {
            assert_eq!(ReceivedChallenge::all(bad).count(), 0, "{:?}", core::str::from_utf8(bad));
        }
    }

    #[test]
    fn a_challenge_keeps_its_quotes_closed() {
        let mut out = Vec::new();
        let challenge = Challenge {
            realm: b"a\"b",
            nonce: b"n",
            algorithm: "SHA-256",
            opaque: None,
            qop: QopOffer::Auth,
            is_stale: true,
        };
        challenge.write(&mut out);
        assert_eq!(out, b"Digest realm=\"a\\\"b\",nonce=\"n\",algorithm=SHA-256,qop=\"auth\",stale=true");
        out.clear();
        let opaque = Some(&b"o"[..]);
        Challenge { opaque, qop: QopOffer::AuthOrAuthInt, is_stale: false, ..challenge }.write(&mut out);
        let expected =
            b"Digest realm=\"a\\\"b\",nonce=\"n\",algorithm=SHA-256,opaque=\"o\",qop=\"auth,auth-int\"";
        assert_eq!(out, expected);
        assert_eq!(unescape(b"a\\\"b\\").as_ref(), b"a\"b\\");
    }
}
