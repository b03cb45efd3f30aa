//! Random numbers from a seed.

use core::fmt;
use core::hint::spin_loop;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use ringway_sansio::{Entropy, Seed};
use rustls::crypto::{GetRandomFailed, SecureRandom};

/// [`Entropy`] behind the shared reference that rustls requires. Its state is replaced before each use, so that a later
/// disclosure does not reveal earlier keys.
pub(super) struct SeededRandom {
    state: [AtomicU64; 4],
    is_busy: AtomicBool,
}

impl SeededRandom {
    pub(super) fn new(seed: &Seed) -> Self {
        let random = Self { state: [const { AtomicU64::new(0) }; 4], is_busy: AtomicBool::new(false) };
        random.store(*seed.bytes());
        random
    }

    pub(super) fn fill(&self, out: &mut [u8]) {
        while self.is_busy.swap(true, Ordering::Acquire) {
            spin_loop();
        }
        let mut entropy = Entropy::new(&Seed::from_bytes(self.load()));
        self.store(entropy.bytes());
        self.is_busy.store(false, Ordering::Release);
        entropy.fill(out);
    }

    fn load(&self) -> [u8; 32] {
        let mut bytes = [0; 32];
        for (to, word) in bytes.chunks_exact_mut(8).zip(&self.state) {
            to.copy_from_slice(&word.load(Ordering::Relaxed).to_le_bytes());
        }
        bytes
    }

    fn store(&self, bytes: [u8; 32]) {
        for (from, word) in bytes.chunks_exact(8).zip(&self.state) {
            let mut value = [0; 8];
            value.copy_from_slice(from);
            word.store(u64::from_le_bytes(value), Ordering::Relaxed);
        }
    }
}

impl fmt::Debug for SeededRandom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SeededRandom(..)")
    }
}

impl SecureRandom for SeededRandom {
    fn fill(&self, out: &mut [u8]) -> Result<(), GetRandomFailed> {
        Self::fill(self, out);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_calls_give_the_same_and_equal_seeds_do() {
        let (one, two) = (SeededRandom::new(&Seed::from_number(1)), SeededRandom::new(&Seed::from_number(1)));
        let next = |random: &SeededRandom| {
            let mut bytes = [0; 48];
            random.fill(&mut bytes);
            bytes
        };
        let first = next(&one);
        assert_eq!(first, next(&two));
        let second = next(&one);
        assert_ne!(first, second);
        assert!(!first.windows(16).any(|window| second.windows(16).any(|other| other == window)));
    }
}
