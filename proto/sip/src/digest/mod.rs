//! Digest authentication (RFC 7616, RFC 8760): syntax of challenges and credentials, and the computation of the
//! response, for servers and clients.

mod challenge;
mod credentials;
mod hash;
mod info;
mod pairs;
mod qop;

pub use challenge::{Challenge, QopOffer, ReceivedChallenge};
pub use credentials::Credentials;
pub use hash::{Algorithm, Ha1};
pub use info::{AuthenticationInfo, ServerProof};
pub use qop::Qop;

use alloc::borrow::Cow;
use alloc::vec::Vec;

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
