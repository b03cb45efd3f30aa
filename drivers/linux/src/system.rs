//! Clock of the nodes, and locks of the system for what the shards of a machine share.

use ringway_sansio::{Instant, Locked, Locks};
use std::sync::{PoisonError, RwLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Wall clock that is read once and continued by the monotonic clock: stored times remain valid after a restart, and
/// timers do not jump when the wall clock is set.
///
/// A step of the wall clock takes effect only at the next start of the program.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    epoch: Duration,
    start: std::time::Instant,
}

impl Clock {
    /// Creates a clock that starts at the wall clock's time.
    pub fn new() -> Self {
        let epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { epoch, start: std::time::Instant::now() }
    }

    /// Current time.
    pub fn now(&self) -> Instant {
        Instant::default() + (self.epoch + self.start.elapsed())
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::new()
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_starts_at_the_wall_clock_and_is_monotonic() {
        let clock = Clock::new();
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        assert!(clock.now().as_secs().abs_diff(wall.as_secs()) <= 1);
        let mut last = clock.now();
        for _ in 0..1000 {
            let now = clock.now();
            assert!(now >= last);
            last = now;
        }
    }
}
