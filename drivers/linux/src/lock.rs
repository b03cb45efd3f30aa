//! Locks of the system, for what the shards of a machine share.

use ringway_sansio::{Locked, Locks};
use std::sync::{PoisonError, RwLock};

/// Locks of the system, with any number of readers at a time. The value stays usable after a panic of its holder.
#[derive(Clone, Copy, Debug)]
pub struct SystemLocks;

struct SystemLock<T>(RwLock<T>);

impl Locks for SystemLocks {
    fn lock<T: Send + Sync + 'static>(value: T) -> Box<dyn Locked<T> + Send + Sync> {
        Box::new(SystemLock(RwLock::new(value)))
    }
}

impl<T> Locked<T> for SystemLock<T> {
    fn read(&self, read: &mut dyn FnMut(&T)) {
        read(&self.0.read().unwrap_or_else(PoisonError::into_inner));
    }

    fn change(&self, change: &mut dyn FnMut(&mut T)) {
        change(&mut self.0.write().unwrap_or_else(PoisonError::into_inner));
    }
}
