//! Drain: phones leave this server for another one, spread evenly over a time.

use core::time::Duration;
use ringway_sansio::Instant;

/// A drain that has begun.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Drain {
    begun: Instant,
    over: Duration,
    /// Time at which connections are closed next; `None`: all are.
    pub(crate) closes_at: Option<Instant>,
}

impl Drain {
    pub(crate) const fn new(now: Instant, over: Duration) -> Self {
        Self { begun: now, over, closes_at: Some(now) }
    }

    /// True once the time of the user with this hash has come.
    pub(crate) fn has_come(&self, hash: u64, now: Instant) -> bool {
        let over = u128::from(u64::try_from(self.over.as_nanos()).unwrap_or(u64::MAX));
        let share = (over * u128::from(hash)) >> 64;
        now.since(self.begun).as_nanos() >= share
    }

    /// Time of the next look at connections, after one at `now`.
    pub(crate) fn next_close(&self, now: Instant) -> Option<Instant> {
        let end = self.begun + self.over;
        let step = (self.over / 8).clamp(CLOSE_INTERVAL_MIN, CLOSE_INTERVAL_MAX);
        (now < end).then(|| (now + step).min(end))
    }
}

/// Bounds of the interval in which connections are closed. Each time all bindings with a connection are looked at: 3 ms for 60,000.
const CLOSE_INTERVAL_MIN: Duration = Duration::from_millis(50);
const CLOSE_INTERVAL_MAX: Duration = Duration::from_secs(1);
