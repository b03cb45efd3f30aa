//! Locks of a driver, for what machines of several threads share: `proto/` has none of its own.

use alloc::boxed::Box;

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
