//! Addresses-of-record, and the proof that a client may change one.

use alloc::vec::Vec;

/// Address-of-record in one of `domains`, in canonical form: user part without escapes, domain in lower case.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Aor {
    /// `user@domain`.
    bytes: Vec<u8>,
    user_len: usize,
}

impl Aor {
    /// Creates it from a user part without escapes and a domain of `domains`.
    pub fn new(user: &[u8], domain: &[u8]) -> Self {
        let mut aor = Self::default();
        aor.set(|out| out.extend_from_slice(user), domain);
        aor
    }

    /// Replaces the address in the allocated memory.
    pub(crate) fn set(&mut self, write_user: impl FnOnce(&mut Vec<u8>), domain: &[u8]) {
        self.bytes.clear();
        self.bytes.reserve(USER_BYTES + domain.len());
        write_user(&mut self.bytes);
        self.user_len = self.bytes.len();
        self.bytes.push(b'@');
        self.bytes.extend_from_slice(domain);
        if let Some(domain) = self.bytes.get_mut(self.user_len + 1..) {
            domain.make_ascii_lowercase();
        }
    }

    /// `user@domain`.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// User part, without escapes.
    pub fn user(&self) -> &[u8] {
        self.bytes.get(..self.user_len).unwrap_or_default()
    }

    /// Domain.
    pub fn domain(&self) -> &[u8] {
        self.bytes.get(self.user_len + 1..).unwrap_or_default()
    }
}

/// User part and domain of `user@domain`.
pub(crate) fn split(aor: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = aor.iter().rposition(|&byte| byte == b'@')?;
    Some((aor.get(..at)?, aor.get(at + 1..)?))
}

/// Length of a usual user part, with the `@`: longer ones take a second allocation.
const USER_BYTES: usize = 32;

/// Proof that the sender of a request may act for `T`. Created only by the digest verifier, from the certificate
/// of the request's connection, or if authentication is off. A
/// REGISTER changes bindings only with it.
#[derive(Clone, Copy, Debug)]
pub struct Authenticated<T>(T);

impl<T> Authenticated<T> {
    /// Subject of the proof.
    pub const fn subject(&self) -> &T {
        &self.0
    }

    pub(crate) const fn proven_by_digest(subject: T) -> Self {
        Self(subject)
    }

    pub(crate) const fn proven_by_certificate(subject: T) -> Self {
        Self(subject)
    }

    pub(crate) const fn danger_without_authentication(subject: T) -> Self {
        Self(subject)
    }
}
