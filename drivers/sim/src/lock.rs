//! Locks for machines in the simulator.

use ringway_sansio::{Locked, Locks};
use std::sync::{Mutex, PoisonError};

/// Locks of a simulated program: mutexes, so that tests may look at tables too.
#[derive(Clone, Copy, Debug)]
pub struct SimLocks;

struct SimLock<T>(Mutex<T>);

impl Locks for SimLocks {
    fn lock<T: Send + Sync + 'static>(value: T) -> Box<dyn Locked<T> + Send + Sync> {
        Box::new(SimLock(Mutex::new(value)))
    }
}

impl<T> Locked<T> for SimLock<T> {
    fn read(&self, read: &mut dyn FnMut(&T)) {
        read(&self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn change(&self, change: &mut dyn FnMut(&mut T)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}
