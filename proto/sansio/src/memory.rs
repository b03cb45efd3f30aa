//! A memory limit that several parts of a program share.

use core::sync::atomic::{AtomicUsize, Ordering};

/// A bound on the bytes that several owners hold together. It counts bytes and allocates none.
#[derive(Debug)]
pub struct MemoryBound {
    max: AtomicUsize,
    used: AtomicUsize,
}

impl MemoryBound {
    /// A bound of `max` bytes.
    pub const fn new(max: usize) -> Self {
        Self { max: AtomicUsize::new(max), used: AtomicUsize::new(0) }
    }

    /// Changes the bound. What is in use beyond it stays in use.
    pub fn set_max(&self, max: usize) {
        self.max.store(max, Ordering::Relaxed);
    }

    /// Reserves `bytes`. False, and nothing reserved, if fewer are left.
    pub fn take(&self, bytes: usize) -> bool {
        self.take_and_leave(bytes, 0)
    }

    /// Takes `bytes` if `rest` bytes are left after that. False if not; then none are taken.
    pub fn take_and_leave(&self, bytes: usize, rest: usize) -> bool {
        let max = self.max().saturating_sub(rest);
        let sum = |used: usize| used.checked_add(bytes).filter(|sum| *sum <= max);
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, sum).is_ok()
    }

    /// Returns `bytes` that were reserved before.
    pub fn give(&self, bytes: usize) {
        let before = self.used.fetch_sub(bytes, Ordering::Relaxed);
        debug_assert!(before >= bytes, "{bytes} bytes given back, {before} in use");
    }

    /// Bytes in use.
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// The bound, in bytes.
    pub fn max(&self) -> usize {
        self.max.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_holds_and_what_is_given_back_can_be_taken_again() {
        let bound = MemoryBound::new(100);
        assert!(bound.take(60) && bound.take(40) && bound.take(0));
        assert!(!bound.take(1));
        bound.give(50);
        assert!(!bound.take(51) && bound.take(50));
        bound.give(100);
        assert_eq!((bound.used(), bound.max()), (0, 100));
        assert!(!bound.take_and_leave(76, 25) && bound.take_and_leave(75, 25));
        assert!(!bound.take_and_leave(0, 101) && bound.take(25));
    }

    #[test]
    fn a_lower_bound_takes_nothing_back() {
        let bound = MemoryBound::new(100);
        assert!(bound.take(80));
        bound.set_max(50);
        assert!(!bound.take(1));
        bound.give(40);
        assert!(bound.take(10) && !bound.take(1));
        bound.set_max(60);
        assert!(bound.take(10));
    }

    #[test]
    fn a_sum_beyond_the_address_space_is_refused() {
        let bound = MemoryBound::new(usize::MAX);
        assert!(bound.take(10) && !bound.take(usize::MAX));
        assert_eq!(bound.used(), 10);
    }
}
