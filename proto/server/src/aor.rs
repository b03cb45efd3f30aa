//! Addresses-of-record, and the proof that somebody may change one.

use alloc::vec::Vec;

/// A user of one of our domains in the form it is compared in: user part with escapes undone, domain in lower case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Aor {
    /// `user@domain`.
    bytes: Vec<u8>,
    user_len: usize,
}

impl Aor {
    /// From a user part without escapes and a domain of ours.
    pub fn new(user: &[u8], domain: &[u8]) -> Self {
        let mut aor = Self::default();
        aor.set(|out| out.extend_from_slice(user), domain);
        aor
    }

    /// Becomes another address, in the room it has.
    pub(crate) fn set(&mut self, write_user: impl FnOnce(&mut Vec<u8>), domain: &[u8]) {
        self.bytes.clear();
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

    /// The user, escapes undone.
    pub fn user(&self) -> &[u8] {
        self.bytes.get(..self.user_len).unwrap_or_default()
    }

    /// The domain.
    pub fn domain(&self) -> &[u8] {
        self.bytes.get(self.user_len + 1..).unwrap_or_default()
    }
}

/// Proof that whoever sent the request may act for `T`. Only the digest verifier makes it, or a configuration that says
/// aloud that everyone is believed. The location table's `save` takes nothing else.
#[derive(Clone, Copy, Debug)]
pub struct Authenticated<T>(T);

impl<T> Authenticated<T> {
    /// What the proof is for.
    pub const fn subject(&self) -> &T {
        &self.0
    }

    pub(crate) const fn proven_by_digest(subject: T) -> Self {
        Self(subject)
    }

    pub(crate) const fn danger_everyone_is_believed(subject: T) -> Self {
        Self(subject)
    }
}
