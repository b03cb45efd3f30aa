//! Randomness of a protocol machine: a seed that it is constructed with, secure random bytes from it, and the buffer in front
//! of a keyed hasher for several parts of a message.

use core::hash::Hasher;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// Root of a machine's random numbers: 32 bytes that the driver takes from the operating system, or that a simulation
/// counts up.
///
/// ```
/// use ringway_sansio::{Rng, Seed};
///
/// let seed = Seed::from_number(7);
/// assert_ne!(seed.part(0), seed.part(1));
/// let (mut one, mut two) = (Rng::new(&seed.part(0)), Rng::new(&seed.part(0)));
/// assert_eq!(one.next_u64(), two.next_u64());
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Seed([u8; 32]);

impl Seed {
    /// Creates a seed from 32 bytes. They must be unpredictable for anything that is connected to a network.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Creates the seed of a simulation or a test. Equal numbers give equal runs.
    pub fn from_number(number: u64) -> Self {
        let mut bytes = [0; 32];
        let mut state = number;
        for chunk in bytes.chunks_exact_mut(8) {
            chunk.copy_from_slice(&split_mix(&mut state).to_le_bytes());
        }
        Self(bytes)
    }

    /// Bytes of the seed, as key of a hash or a MAC.
    pub const fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Derives the seed of part `number` by HKDF (RFC 5869). A disclosed part reveals nothing about this seed or other
    /// parts. An [`Rng`], whose state can be computed from its output, is therefore created from a part of its own.
    pub fn part(&self, number: u64) -> Self {
        Self(expand(&self.0, &[PART, &number.to_be_bytes()]))
    }
}

impl core::fmt::Debug for Seed {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Seed(..)")
    }
}

/// Small, fast generator (xoshiro256++) for tags, jitter and simulated faults.
///
/// Not for secrets: its state can be computed from a few outputs. Secrets come from [`Entropy`](crate::Entropy) or a keyed
/// MAC, with another part of the [`Seed`].
#[derive(Clone, Debug)]
pub struct Rng {
    state: [u64; 4],
}

impl Rng {
    /// Creates a generator; its sequence is a function of `seed`.
    pub fn new(seed: &Seed) -> Self {
        let mut state = [0; 4];
        for (word, chunk) in state.iter_mut().zip(seed.0.chunks_exact(8)) {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(chunk);
            *word = u64::from_le_bytes(bytes);
        }
        if state == [0; 4] {
            state[0] = 1;
        }
        Self { state }
    }

    /// Next 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        let [a, b, c, d] = self.state;
        let result = a.wrapping_add(d).rotate_left(23).wrapping_add(a);
        let mut next = [a, b, c ^ a, d ^ b];
        next[1] ^= next[2];
        next[0] ^= next[3];
        next[2] ^= b << 17;
        next[3] = next[3].rotate_left(45);
        self.state = next;
        result
    }

    /// Random number below `bound`; 0 if `bound` is 0. The bias is below 2^-32 for bounds below 2^32.
    pub fn below(&mut self, bound: u64) -> u64 {
        let wide = u128::from(self.next_u64()) * u128::from(bound);
        (wide >> 64) as u64
    }

    /// True with a probability of `per_mille` / 1000.
    pub fn random_bool(&mut self, per_mille: u32) -> bool {
        self.below(1000) < u64::from(per_mille)
    }
}

/// HKDF-Expand with SHA-256 for one block of output (RFC 5869 §2.3). A seed needs no HKDF-Extract: it is uniformly random
/// already (§3.3).
fn expand(key: &[u8; 32], info: &[&[u8]]) -> [u8; 32] {
    // HMAC pads a short key with zeros to the hash's block (RFC 2104 §2); done here, it cannot fail.
    let mut block = [0; 64];
    block[..32].copy_from_slice(key);
    let mut mac = Hmac::<Sha256>::new(&block.into());
    for text in info {
        mac.update(text);
    }
    mac.update(&[1]);
    mac.finalize().into_bytes().into()
}

/// Label of the derived seeds, in HKDF's `info`.
const PART: &[u8] = b"ringway seed part ";

fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

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

/// Collects many short parts and passes them to a hasher in one piece.
///
/// A keyed hash processes eight bytes at a time and is slow for shorter writes. The result equals that of the hasher for
/// the same bytes.
pub struct PartHasher<H> {
    hasher: H,
    buffer: [u8; BUFFER_LEN],
    len: usize,
}

impl<H: Hasher> PartHasher<H> {
    /// Creates a buffer in front of `hasher`, which holds the key.
    #[inline]
    pub const fn new(hasher: H) -> Self {
        Self { hasher, buffer: [0; BUFFER_LEN], len: 0 }
    }

    /// Adds bytes whose length is fixed by their type: a number, an address. They are stored without a call.
    #[inline]
    pub fn fixed<const N: usize>(&mut self, bytes: &[u8; N]) {
        match self.buffer.get_mut(self.len..).and_then(|room| room.first_chunk_mut()) {
            Some(room) => {
                *room = *bytes;
                self.len += N;
            }
            None => self.spill(bytes),
        }
    }

    /// Adds bytes whose length other parts state.
    #[inline]
    pub fn bytes(&mut self, bytes: &[u8]) {
        let end = self.len + bytes.len();
        match self.buffer.get_mut(self.len..end) {
            Some(room) => {
                room.copy_from_slice(bytes);
                self.len = end;
            }
            None => self.spill(bytes),
        }
    }

    /// Adds bytes with their length (below 2^32), so that different sequences of parts give different input.
    #[inline]
    pub fn part(&mut self, bytes: &[u8]) {
        self.fixed(&(bytes.len() as u32).to_le_bytes());
        self.bytes(bytes);
    }

    /// Adds a [`part`](Self::part) with ASCII letters in lower case, so that case is ignored.
    #[inline]
    pub fn part_without_case(&mut self, bytes: &[u8]) {
        self.fixed(&(bytes.len() as u32).to_le_bytes());
        for piece in bytes.chunks(32) {
            let mut lower = [0; 32];
            if let Some(letters) = lower.get_mut(..piece.len()) {
                letters.copy_from_slice(piece);
            }
            // All at once: the zeros behind them stay.
            lower.make_ascii_lowercase();
            self.bytes(lower.get(..piece.len()).unwrap_or_default());
        }
    }

    /// Passes the rest to the hasher and returns it where it is: the buffer is not copied.
    #[inline]
    pub fn hasher(&mut self) -> &H {
        self.hasher.write(self.buffer.get(..self.len).unwrap_or_default());
        self.len = 0;
        &self.hasher
    }

    #[cold]
    fn spill(&mut self, bytes: &[u8]) {
        self.hasher.write(self.buffer.get(..self.len).unwrap_or_default());
        self.len = 0;
        self.hasher.write(bytes);
    }
}

/// Size of the buffer; the parts of a usual message are shorter.
const BUFFER_LEN: usize = 192;

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn the_same_seed_gives_the_same_sequence_and_its_parts_differ() {
        let seed = Seed::from_number(7);
        let mut one = Rng::new(&seed);
        let mut two = Rng::new(&Seed::from_number(7));
        assert!((0..100).all(|_| one.next_u64() == two.next_u64()));
        assert_ne!(seed.part(0), seed.part(1));
        assert_eq!(seed.part(3), seed.part(3));
    }

    fn bytes<const N: usize>(hex: &str) -> [u8; N] {
        let mut out = [0; N];
        base16ct::lower::decode(hex, &mut out).unwrap();
        out
    }

    /// First block of OKM in RFC 5869 A.1 and A.3.
    #[test]
    fn a_block_is_hkdf_expands() {
        let key = bytes("077709362c2e32df0ddc3f0dc47bba6390b6c73bb50f9c3122ec844ad7c2b3e5");
        let info: [u8; 10] = bytes("f0f1f2f3f4f5f6f7f8f9");
        let expected = bytes("3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf");
        assert_eq!(expand(&key, &[&info]), expected);
        assert_eq!(expand(&key, &[&info[..4], &info[4..]]), expected);
        let key = bytes("19ef24a32c717b167f33a91d6f648bdf96596776afdb6377ac434c1c293ccb04");
        let expected = bytes("8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d");
        assert_eq!(expand(&key, &[]), expected);
    }

    /// Derivation of parts before HKDF: xoshiro and splitmix, which are invertible.
    fn invertible_part(seed: &Seed, number: u64) -> Seed {
        let mut rng = Rng::new(seed);
        let mut state = rng.next_u64() ^ number.wrapping_mul(0xd6e8_feb8_6659_fd93);
        let mut bytes = [0; 32];
        for chunk in bytes.chunks_exact_mut(8) {
            chunk.copy_from_slice(&(split_mix(&mut state) ^ rng.next_u64()).to_le_bytes());
        }
        Seed(bytes)
    }

    #[test]
    fn a_part_is_no_output_of_the_generator_of_its_seed_or_of_another_part() {
        for number in 0..20 {
            let seed = Seed::from_number(number);
            let (visible, secret) = (seed.part(0), seed.part(1));
            for known in [&seed, &visible] {
                for other in 0..50 {
                    assert_ne!(invertible_part(known, other), secret);
                    assert_ne!(known.part(other) == secret, core::ptr::eq(known, &visible) || other != 1);
                }
                let mut rng = Rng::new(known);
                let words = secret.0.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap()));
                let words: [u64; 4] = words.collect::<alloc::vec::Vec<_>>().try_into().unwrap();
                assert!((0..1000).all(|_| !words.contains(&rng.next_u64())));
            }
        }
    }

    #[test]
    fn below_stays_below() {
        let mut rng = Rng::new(&Seed::from_number(1));
        assert!((0..1000).all(|_| rng.below(7) < 7));
        assert_eq!(rng.below(0), 0);
    }

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

    #[derive(Default)]
    struct Bytes(Vec<u8>);

    impl Hasher for Bytes {
        fn write(&mut self, bytes: &[u8]) {
            self.0.extend_from_slice(bytes);
        }

        fn finish(&self) -> u64 {
            0
        }
    }

    #[test]
    fn the_hasher_gets_all_bytes_in_order_for_any_number() {
        for len in [0, 1, 31, 32, 33, 150, 191, 192, 193, 1000] {
            let part: Vec<u8> = (0..len).map(|at| b'A' + (at % 50) as u8).collect();
            let mut hash = PartHasher::new(Bytes::default());
            hash.fixed(b"key");
            hash.part(&part);
            hash.part_without_case(&part);
            hash.part(b"Z");
            let length = (len as u32).to_le_bytes();
            let expected =
                [b"key", &length[..], &part, &length, &part.to_ascii_lowercase(), &[1, 0, 0, 0], b"Z"]
                    .concat();
            assert_eq!(hash.hasher().0, expected, "{len}");
        }
    }
}
