//! Cryptographically secure random bytes from a seed.

use crate::Seed;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// Generator of secret random bytes: keys, salts, nonces, SSRCs.
///
/// Each block is HMAC-SHA256 of the state. The state is replaced after every call, so that a later disclosure of it does not
/// reveal earlier output (NIST SP 800-90A §10.1.2 in its simplest form).
#[derive(Clone)]
pub struct Entropy {
    state: [u8; 32],
}

impl Entropy {
    /// Creates a generator; its sequence is a function of `seed`.
    pub const fn new(seed: &Seed) -> Self {
        Self { state: *seed.bytes() }
    }

    /// Fills `out` with random bytes.
    pub fn fill(&mut self, out: &mut [u8]) {
        for (number, chunk) in (1u64..).zip(out.chunks_mut(32)) {
            let block = self.block(number);
            chunk.copy_from_slice(&block[..chunk.len()]);
        }
        self.state = self.block(0);
    }

    /// Next `N` random bytes.
    pub fn bytes<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        self.fill(&mut bytes);
        bytes
    }

    fn block(&self, number: u64) -> [u8; 32] {
        // HMAC pads a short key with zeros to the hash's block (RFC 2104 §2); done here, it cannot fail.
        let mut key = [0; 64];
        key[..32].copy_from_slice(&self.state);
        let mut mac = Hmac::<Sha256>::new(&key.into());
        mac.update(&number.to_be_bytes());
        mac.finalize().into_bytes().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_the_hmac_of_its_number() {
        let mut mac = Hmac::<Sha256>::new_from_slice(Seed::from_number(1).bytes()).unwrap();
        mac.update(&1u64.to_be_bytes());
        let expected: [u8; 32] = mac.finalize().into_bytes().into();
        assert_eq!(Entropy::new(&Seed::from_number(1)).bytes::<32>(), expected);
    }

    #[test]
    fn the_same_seed_gives_the_same_secrets_and_no_two_calls_do() {
        let mut one = Entropy::new(&Seed::from_number(1));
        let mut two = Entropy::new(&Seed::from_number(1));
        let first: [u8; 46] = one.bytes();
        assert_eq!(first, two.bytes::<46>());
        assert_ne!(first, one.bytes::<46>());
        assert_ne!(first[..14], first[32..]);
    }
}
