//! A memory limit that several parts of a program share, and locks of a driver for what machines of several threads share: `proto/` has
//! none of its own.

use alloc::boxed::Box;
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

/// A value behind a lock of a driver.
///
/// Neither method may be called in a closure of the other one: a lock is never taken twice.
pub trait Locked<T> {
    /// Calls `read` with the value, unless the lock is not available.
    fn read(&self, read: &mut dyn FnMut(&T));

    /// Calls `change` with the value, unless the lock is not available.
    fn change(&self, change: &mut dyn FnMut(&mut T));
}

/// Maker of the locks of a driver.
pub trait Locks {
    /// Puts a value behind a lock.
    fn lock<T: Send + Sync + 'static>(value: T) -> Box<dyn Locked<T> + Send + Sync>;
}

/// A value that several machines share.
pub struct Guarded<T>(Box<dyn Locked<T> + Send + Sync>);

impl<T: Send + Sync + 'static> Guarded<T> {
    /// Puts a value behind a lock of the driver `L`.
    pub fn new<L: Locks>(value: T) -> Self {
        Self(L::lock(value))
    }

    /// Returns what `read` returns for the value, or `otherwise` if the lock is not available.
    #[inline]
    pub fn read<R>(&self, otherwise: R, mut read: impl FnMut(&T) -> R) -> R {
        let mut result = otherwise;
        self.0.read(&mut |value| result = read(value));
        result
    }

    /// Returns what `change` returns for the value, or `otherwise` if the lock is not available.
    #[inline]
    pub fn change<R>(&self, otherwise: R, mut change: impl FnMut(&mut T) -> R) -> R {
        let mut result = otherwise;
        self.0.change(&mut |value| result = change(value));
        result
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
