//! Points in time. A protocol machine gets the current time as an argument and never reads a clock.

use core::ops::{Add, Sub};
use core::time::Duration;

/// A point in time: nanoseconds since the Unix epoch, on a clock that never runs backwards.
///
/// The driver sets the epoch once, at start, from the wall clock and then counts with a monotonic clock. So a stored
/// expiry is valid after a restart, and no timer jumps. Range: to the year 2554.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

impl Instant {
    /// The furthest point in time; a timer set there never fires in practice.
    pub const FAR: Self = Self(u64::MAX);

    /// From nanoseconds since the Unix epoch.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// From whole seconds since the Unix epoch; saturates.
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(1_000_000_000))
    }

    /// Nanoseconds since the Unix epoch.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Whole milliseconds since the Unix epoch, rounded down.
    pub const fn as_millis(self) -> u64 {
        self.0 / 1_000_000
    }

    /// Whole seconds since the Unix epoch, rounded down.
    pub const fn as_secs(self) -> u64 {
        self.0 / 1_000_000_000
    }

    /// The time passed since `earlier`, zero when `earlier` is later.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    fn add(self, rhs: Duration) -> Self {
        Self(self.0.saturating_add(nanos(rhs)))
    }
}

impl Sub<Duration> for Instant {
    type Output = Self;

    fn sub(self, rhs: Duration) -> Self {
        Self(self.0.saturating_sub(nanos(rhs)))
    }
}

/// Time of the next call that a machine needs, and the reason as text for a log or a failing simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadline {
    /// Earliest time to call [`Node::on_timeout`](crate::Node::on_timeout).
    pub at: Instant,
    /// The event that is waited for.
    pub reason: &'static str,
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_saturate_instead_of_wrapping() {
        assert_eq!(Instant::FAR + Duration::from_secs(1), Instant::FAR);
        assert_eq!(Instant::from_secs(1) - Duration::from_secs(2), Instant::default());
        assert_eq!(Instant::from_secs(1).since(Instant::from_secs(2)), Duration::ZERO);
        assert_eq!(Instant::from_secs(u64::MAX), Instant::FAR);
    }
}
