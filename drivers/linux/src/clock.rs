//! Clock of the nodes.

use ringway_sansio::Instant;
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
