//! Conversion of a phone's time, which may be virtual, to the standard library's.

use ringway_sansio::Instant;
use std::time::Duration;

/// An arbitrary instant of the standard library that counts as the phone's zero.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    zero: std::time::Instant,
}

impl Clock {
    pub(crate) fn new() -> Self {
        Self { zero: std::time::Instant::now() }
    }

    pub(crate) fn std(self, at: Instant) -> std::time::Instant {
        self.zero + Duration::from_nanos(at.as_nanos())
    }
}
