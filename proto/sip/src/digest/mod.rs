//! Digest authentication (RFC 7616, RFC 8760): syntax of challenges and credentials, and the computation of the
//! response, for servers and clients. Quality of protection of a digest. The `name=value` pairs that challenges and
//! credentials are made of.

mod challenge;
mod credentials;

use alloc::borrow::Cow;
use alloc::vec::Vec;
use digest::Digest;
use md5::Md5;
use sha2::Sha256;

use crate::Malformed;
use crate::grammar::{TOKEN, class_len, is_lws, quoted_len, trim_start};
pub use challenge::{Challenge, QopOffer, ReceivedChallenge};
pub use credentials::{AuthenticationInfo, Credentials, ServerProof};

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

/// Coverage of a digest, besides the method and the URI (RFC 7616 §3.4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Qop {
    /// `auth`: nothing else.
    Auth,
    /// `auth-int`: the body.
    AuthInt,
}

impl Qop {
    /// The name on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auth => "auth",
            Self::AuthInt => "auth-int",
        }
    }

    /// The quality of protection of this name.
    pub fn from_name(name: &[u8]) -> Option<Self> {
        [Self::Auth, Self::AuthInt].into_iter().find(|one| one.name().as_bytes().eq_ignore_ascii_case(name))
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
        _ => value.iter().position(|&byte| byte == b',' || is_lws(byte)).unwrap_or(value.len()),
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

/// A hash algorithm of digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// RFC 1321; what every phone can do.
    Md5,
    /// RFC 8760.
    Sha256,
}

impl Algorithm {
    /// The name on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Md5 => "MD5",
            Self::Sha256 => "SHA-256",
        }
    }

    /// The algorithm of this name.
    pub fn from_name(name: &[u8]) -> Option<Self> {
        [Self::Md5, Self::Sha256].into_iter().find(|one| one.name().as_bytes().eq_ignore_ascii_case(name))
    }

    /// The `response` that H(A1), the method, the body and the credentials' other values make, written into `hex`. The
    /// body counts with `auth-int` only. Without a `qop` it is computed as RFC 2069 did. With an empty method and the body
    /// of the response to the request it is `rspauth` (RFC 7616 §3.5).
    pub fn response<'h>(
        self,
        ha1: &Ha1,
        method: &[u8],
        body: &[u8],
        given: &Credentials<'_>,
        hex: &'h mut [u8; 64],
    ) -> &'h [u8] {
        match self {
            Self::Md5 => response::<Md5, 16>(&ha1.md5, method, body, given, hex),
            Self::Sha256 => response::<Sha256, 32>(&ha1.sha256, method, body, given, hex),
        }
    }

    /// True when the credentials' response is the one that H(A1), the method, the body and the nonce make. Takes the same
    /// time for every wrong answer.
    pub fn proves(self, ha1: &Ha1, method: &[u8], body: &[u8], given: &Credentials<'_>) -> bool {
        let mut hex = [0_u8; 64];
        same(self.response(ha1, method, body, given, &mut hex), given.response)
    }
}

/// H(A1) of a user for each algorithm: what is known of a password (RFC 7616 §3.4.2).
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Ha1 {
    /// MD5 over `user:realm:password`.
    pub md5: [u8; 16],
    /// SHA-256 over the same.
    pub sha256: [u8; 32],
}

impl Ha1 {
    /// From what a person types.
    pub fn new(user: &[u8], realm: &[u8], password: &[u8]) -> Self {
        let parts = [user, b":", realm, b":", password];
        let (mut md5, mut sha256) = (Md5::new(), Sha256::new());
        for part in parts {
            md5.update(part);
            sha256.update(part);
        }
        Self { md5: md5.finalize().into(), sha256: sha256.finalize().into() }
    }
}

/// It is as good as the password, so it is never printed.
impl core::fmt::Debug for Ha1 {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Ha1(..)")
    }
}

fn response<'h, D: Digest, const N: usize>(
    ha1: &[u8; N],
    method: &[u8],
    body: &[u8],
    given: &Credentials<'_>,
    hex: &'h mut [u8; 64],
) -> &'h [u8] {
    let mut hash = D::new();
    hash.update(method);
    hash.update(b":");
    hash.update(given.uri);
    if given.qop.and_then(Qop::from_name) == Some(Qop::AuthInt) {
        hash.update(b":");
        hash.update(to_hex(&D::digest(body), hex));
    }
    let ha2 = hash.finalize();
    let mut hash = D::new();
    hash.update(to_hex(ha1, hex));
    hash.update(b":");
    hash.update(given.nonce);
    hash.update(b":");
    if let Some(qop) = given.qop {
        hash.update(given.nc.unwrap_or_default());
        hash.update(b":");
        hash.update(given.cnonce.unwrap_or_default());
        hash.update(b":");
        hash.update(qop);
        hash.update(b":");
    }
    hash.update(to_hex(&ha2, hex));
    to_hex(&hash.finalize(), hex)
}

/// The digits fit: no hash has more than 32 bytes.
fn to_hex<'h>(bytes: &[u8], hex: &'h mut [u8; 64]) -> &'h [u8] {
    base16ct::lower::encode(bytes, hex).unwrap_or_default()
}

/// Compares without stopping at the first difference; the case of hexadecimal digits does not matter.
fn same(expected: &[u8], given: &[u8]) -> bool {
    if expected.len() != given.len() {
        return false;
    }
    let difference = expected
        .iter()
        .zip(given)
        .fold(0_u8, |difference, (one, two)| difference | (one ^ two.to_ascii_lowercase()));
    core::hint::black_box(difference) == 0
}

#[cfg(test)]
#[path = "hash_tests.rs"]
mod tests;
