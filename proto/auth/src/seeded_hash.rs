//! Keyed hash of values that peers choose.

use ringway_sansio::Seed;
use siphasher::sip::SipHasher13;

/// SipHash with a key from a seed.
#[derive(Clone, Copy, Debug)]
pub struct SeededHash([u8; 16]);

impl SeededHash {
    /// Creates it; the key is the first half of `seed`.
    pub fn new(seed: &Seed) -> Self {
        let mut key = [0; 16];
        key.copy_from_slice(seed.bytes().get(..16).unwrap_or(&[0; 16]));
        Self(key)
    }
}

impl core::hash::BuildHasher for SeededHash {
    type Hasher = SipHasher13;

    #[inline]
    fn build_hasher(&self) -> SipHasher13 {
        SipHasher13::new_with_key(&self.0)
    }
}
