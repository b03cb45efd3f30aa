//! Locks of a machine with one core and no thread: they only refuse to be taken twice.

use alloc::boxed::Box;
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, Ordering};
use ringway_sansio::{Locked, Locks};

/// Locks of one core.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CoreLocks;

struct CoreLock<T> {
    is_taken: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached by `with` alone, which nobody enters while another call is in it.
unsafe impl<T: Send> Sync for CoreLock<T> {}

impl Locks for CoreLocks {
    fn lock<T: Send + Sync + 'static>(value: T) -> Box<dyn Locked<T> + Send + Sync> {
        Box::new(CoreLock { is_taken: AtomicBool::new(false), value: UnsafeCell::new(value) })
    }
}

impl<T> CoreLock<T> {
    fn with(&self, change: impl FnOnce(&mut T)) {
        if !self.is_taken.swap(true, Ordering::Acquire) {
            // SAFETY: `is_taken` was false, and is true until the end of this call.
            change(unsafe { &mut *self.value.get() });
            self.is_taken.store(false, Ordering::Release);
        }
    }
}

impl<T> Locked<T> for CoreLock<T> {
    fn read(&self, read: &mut dyn FnMut(&T)) {
        self.with(|value| read(value));
    }

    fn change(&self, change: &mut dyn FnMut(&mut T)) {
        self.with(change);
    }
}
