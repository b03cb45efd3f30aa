//! Chance as a protocol machine sees it: a seed it was made with.

/// What a machine's random numbers are grown from: 32 bytes that the driver takes from the operating system, or that
/// a simulation counts up.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Seed([u8; 32]);

impl Seed {
    /// From 32 bytes; for anything on a network they must be unpredictable.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// A seed for simulations and tests: the same number makes the same run.
    pub fn from_number(number: u64) -> Self {
        let mut bytes = [0; 32];
        let mut state = number;
        for chunk in bytes.chunks_exact_mut(8) {
            chunk.copy_from_slice(&split_mix(&mut state).to_le_bytes());
        }
        Self(bytes)
    }

    /// The bytes, for keying a hash or a MAC.
    pub const fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// A seed of its own for part `number` of a whole: the parts' numbers are unrelated.
    pub fn part(&self, number: u64) -> Self {
        let mut rng = Rng::new(self);
        let mut state = rng.next_u64() ^ number.wrapping_mul(0xd6e8_feb8_6659_fd93);
        let mut bytes = [0; 32];
        for chunk in bytes.chunks_exact_mut(8) {
            let word = split_mix(&mut state) ^ rng.next_u64();
            chunk.copy_from_slice(&word.to_le_bytes());
        }
        Self(bytes)
    }
}

impl core::fmt::Debug for Seed {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Seed(..)")
    }
}

/// A small fast generator (xoshiro256++) for tags, jitter and simulated faults.
///
/// Not for secrets: what must not be guessed is made with a keyed MAC from the [`Seed`].
#[derive(Clone, Debug)]
pub struct Rng {
    state: [u64; 4],
}

impl Rng {
    /// A generator whose whole sequence follows from `seed`.
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

    /// The next 64 random bits.
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

    /// A number below `bound`; 0 when `bound` is 0. The bias is below 2^-32 for bounds below 2^32.
    pub fn below(&mut self, bound: u64) -> u64 {
        let wide = u128::from(self.next_u64()) * u128::from(bound);
        (wide >> 64) as u64
    }

    /// True in `per_mille` of a thousand cases.
    pub fn chance(&mut self, per_mille: u32) -> bool {
        self.below(1000) < u64::from(per_mille)
    }
}

fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_makes_the_same_sequence_and_its_parts_differ() {
        let seed = Seed::from_number(7);
        let mut one = Rng::new(&seed);
        let mut two = Rng::new(&Seed::from_number(7));
        assert!((0..100).all(|_| one.next_u64() == two.next_u64()));
        assert_ne!(seed.part(0), seed.part(1));
        assert_eq!(seed.part(3), seed.part(3));
    }

    #[test]
    fn below_stays_below() {
        let mut rng = Rng::new(&Seed::from_number(1));
        assert!((0..1000).all(|_| rng.below(7) < 7));
        assert_eq!(rng.below(0), 0);
    }
}
