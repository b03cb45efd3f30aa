//! Where the machines' time comes from.

use ringway_sansio::Instant;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The wall clock read once, counted on with the monotonic clock: a stored time is still meant after a restart, and no
/// timer jumps when somebody sets the clock.
///
/// Drawback: a wall clock that is stepped while the program runs is followed only by the next start.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    epoch: Duration,
    start: std::time::Instant,
}

impl Clock {
    /// A clock that starts at the wall clock's time.
    pub fn new() -> Self {
        let epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { epoch, start: std::time::Instant::now() }
    }

    /// The time now.
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
    fn it_starts_at_the_wall_clock_and_never_runs_back() {
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
