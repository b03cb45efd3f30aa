//! Pauses between connections.

use std::time::{Duration, Instant};

/// Pauses between connections, which grow while sessions are short.
pub(crate) struct Backoff {
    random: u64,
    failures: u32,
    began: Instant,
}

impl Backoff {
    pub(crate) fn new(seed: u64) -> Self {
        Self { random: seed | 1, failures: 0, began: Instant::now() }
    }

    /// Notes the begin of an attempt.
    pub(crate) fn begin(&mut self, now: Instant) {
        self.began = now;
    }

    /// Pause after an attempt, or a session, that ended at `now`.
    pub(crate) fn pause(&mut self, now: Instant) -> Duration {
        if now.saturating_duration_since(self.began) > SESSION_TIME_LONG {
            self.failures = 0;
        }
        let pause = match self.failures {
            0 => PAUSE_FIRST,
            failures => (PAUSE_MIN * 2_u32.pow((failures - 1).min(4))).min(PAUSE_MAX),
        };
        self.failures += 1;
        // xorshift: nodes that lost the store together do not return together.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        pause.mul_f64(0.75 + (self.random % 512) as f64 / 1024.0)
    }
}

/// Pause after the end of a session: most often another master answers.
const PAUSE_FIRST: Duration = Duration::from_millis(100);
const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(8);
/// A session that lasted longer was a good one.
const SESSION_TIME_LONG: Duration = Duration::from_secs(15);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_ten_seconds_and_begin_anew_after_a_long_session() {
        let (mut backoff, now) = (Backoff::new(7), Instant::now());
        backoff.begin(now);
        let pauses: Vec<u128> = (0..8).map(|_| backoff.pause(now).as_millis()).collect();
        for (pause, whole) in pauses.iter().zip([100, 1_000, 2_000, 4_000, 8_000, 8_000, 8_000, 8_000]) {
            assert!((whole * 3 / 4..=whole * 5 / 4).contains(pause), "{pauses:?}");
        }
        assert!(backoff.pause(now + SESSION_TIME_LONG * 2).as_millis() < 200);
    }
}
