//! Replay window (RFC 3711 §3.3.2).

use alloc::boxed::Box;
use alloc::vec;

/// Result of checking an index against the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    No,
    Yes,
    /// Behind the window.
    TooOld,
}

/// Sliding window over the last indices, one bit each.
///
/// The bits form a ring: an index has its bit at `index mod bits`. Advancing clears the bits that are passed
/// over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReplayWindow {
    /// Highest index received.
    highest: Option<u64>,
    /// Number of indices in the window, including the highest.
    size: u64,
    /// Power-of-two number of words with at least `size` bits in total.
    words: Box<[u64]>,
}

impl ReplayWindow {
    /// Creates an empty window of `size` indices.
    pub(crate) fn new(size: usize) -> Self {
        let words = size.div_ceil(64).next_power_of_two();
        Self { highest: None, size: size as u64, words: vec![0; words].into_boxed_slice() }
    }

    /// Marks an index as received; an index that was received or is behind the window changes nothing.
    pub(crate) fn note(&mut self, index: u64) {
        match self.highest {
            None => self.highest = Some(index),
            Some(highest) if index > highest => {
                self.clear_between(highest, index);
                self.highest = Some(index);
            }
            Some(highest) if highest - index >= self.size => return,
            Some(_) => {}
        }
        let (at, bit) = self.bit_of(index);
        if let Some(word) = self.words.get_mut(at) {
            *word |= bit;
        }
    }

    pub(crate) fn clear(&mut self) {
        self.highest = None;
        self.words.fill(0);
    }

    #[inline]
    pub(crate) fn check(&self, index: u64) -> Seen {
        match self.highest {
            None => Seen::No,
            Some(highest) if index > highest => Seen::No,
            Some(highest) if highest - index >= self.size => Seen::TooOld,
            Some(_) => {
                let (at, bit) = self.bit_of(index);
                if self.words.get(at).is_some_and(|word| word & bit != 0) { Seen::Yes } else { Seen::No }
            }
        }
    }

    /// Highest index received.
    #[inline]
    pub(crate) fn highest(&self) -> Option<u64> {
        self.highest
    }

    /// Clears the bits of the indices above `from`, up to and including `to`.
    fn clear_between(&mut self, from: u64, to: u64) {
        if to - from >= self.words.len() as u64 * 64 {
            self.words.fill(0);
            return;
        }
        let mut next = from + 1;
        while next <= to {
            let (at, _) = self.bit_of(next);
            // The bits of this word for the indices from `next` to the end of the word or to `to`.
            let first = next % 64;
            let last = (first + (to - next)).min(63);
            let mask = (u64::MAX << first) & (u64::MAX >> (63 - last));
            if let Some(word) = self.words.get_mut(at) {
                *word &= !mask;
            }
            next += last - first + 1;
        }
    }

    /// Word and mask of the bit of `index`.
    #[inline]
    fn bit_of(&self, index: u64) -> (usize, u64) {
        ((index / 64) as usize & (self.words.len() - 1), 1 << (index % 64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;
    use ringway_sansio::{Rng, Seed};

    #[test]
    fn an_index_is_new_once() {
        let mut window = ReplayWindow::new(64);
        window.note(100);
        assert_eq!(window.check(100), Seen::Yes);
        assert_eq!(window.check(99), Seen::No);
        assert_eq!(window.check(37), Seen::No);
        assert_eq!(window.check(36), Seen::TooOld);
        window.note(163);
        assert_eq!((window.check(100), window.check(99)), (Seen::Yes, Seen::TooOld));
    }

    #[test]
    fn the_window_agrees_with_a_set_of_everything_received() {
        for (seed, size) in (0..40).flat_map(|seed| [64, 65, 100, 128, 1000, 32_768].map(|size| (seed, size)))
        {
            let mut rng = Rng::new(&Seed::from_number(seed));
            let mut window = ReplayWindow::new(size);
            let mut received = BTreeSet::new();
            let mut at = rng.below(100_000);
            for step in 0..2000 {
                at += match rng.below(20) {
                    0 => rng.below(2 * size as u64),
                    1 => rng.below(200),
                    _ => rng.below(3),
                };
                let index = at.saturating_sub(rng.below(size as u64 * 5 / 4));
                let highest = received.last().copied().unwrap_or(0);
                let expected = if received.contains(&index) && highest - index < size as u64 {
                    Seen::Yes
                } else if index + size as u64 <= highest {
                    Seen::TooOld
                } else {
                    Seen::No
                };
                assert_eq!(window.check(index), expected, "seed {seed}, size {size}, step {step}");
                window.note(index);
                if expected == Seen::No {
                    received.insert(index);
                }
                assert_eq!(window.highest(), received.last().copied());
            }
        }
    }
}
