//! Digest authentication (RFC 7616, RFC 8760): syntax of challenges and credentials, and the computation of the response, for
//! servers and clients. Quality of protection of a digest. The `name=value` pairs that challenges and credentials are made
//! of.

mod challenge;
mod credentials;
mod hash;

use alloc::borrow::Cow;
use alloc::vec::Vec;

use crate::Malformed;
use crate::grammar::{TOKEN, class_len, is_lws, quoted_len, trim_start};
pub use challenge::{Challenge, QopOffer, ReceivedChallenge};
pub use credentials::{AuthenticationInfo, Credentials, ServerProof};
pub use hash::{Algorithm, Ha1};

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
