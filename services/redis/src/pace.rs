//! Times and sizes of batches.

use std::time::{Duration, Instant};

/// Times and sizes of batches: updates of 20 ms together, and few a second after an outage.
#[derive(Default)]
pub(crate) struct Pace {
    last_batch: Option<Instant>,
    limited: Option<Limited>,
}

struct Limited {
    since: Instant,
    refilled: Instant,
    /// Updates appended until then.
    appended: u64,
    allowed: f64,
}

impl Pace {
    /// Limits the rate until what waits is written.
    pub(crate) fn limit(&mut self, now: Instant) {
        match &mut self.limited {
            Some(limited) => limited.since = now,
            None => {
                self.limited = Some(Limited { since: now, refilled: now, appended: u64::MAX, allowed: 0.0 })
            }
        }
    }

    /// Time until the next batch of `waiting` updates.
    pub(crate) fn wait(&self, now: Instant, waiting: usize, is_stopped: bool) -> Duration {
        if is_stopped {
            return Duration::ZERO;
        }
        let since = self.last_batch.map_or(INTERVAL, |last| now.saturating_duration_since(last));
        let is_full = waiting >= FULL && self.limited.is_none();
        if is_full { Duration::ZERO } else { INTERVAL.saturating_sub(since) }
    }

    /// Number of updates to take, at most `max`, of those that wait. `appended` is the number of the last one.
    pub(crate) fn take(
        &mut self,
        now: Instant,
        appended: u64,
        max: usize,
        waiting: usize,
        is_stopped: bool,
    ) -> usize {
        self.last_batch = Some(now);
        let is_over =
            |limited: &Limited| waiting == 0 && now.duration_since(limited.since) >= LIMITED_TIME_MIN;
        if is_stopped || self.limited.as_ref().is_some_and(is_over) {
            self.limited = None;
        }
        let Some(limited) = &mut self.limited else { return max };
        // New ones do not count, or what waits would grow at a high rate.
        let new = appended.saturating_sub(limited.appended) as f64;
        let passed = now.saturating_duration_since(limited.refilled).as_secs_f64();
        let most = RATE_LIMITED * ALLOWED_TIME_MAX + new;
        limited.allowed = (limited.allowed + passed * RATE_LIMITED + new).min(most);
        (limited.refilled, limited.appended) = (now, appended);
        let taken = (limited.allowed as usize).min(max).min(waiting);
        limited.allowed -= taken as f64;
        taken
    }
}

/// Time between two batches that are not full.
const INTERVAL: Duration = Duration::from_millis(20);
const FULL: usize = 256;
/// Updates a second after an outage.
const RATE_LIMITED: f64 = 2_000.0;
/// Seconds whose updates are written at once after a pause.
const ALLOWED_TIME_MAX: f64 = 0.1;
/// Time in which the program begins to append all bindings.
const LIMITED_TIME_MIN: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_an_outage_few_updates_are_written_in_a_second_beside_the_new_ones() {
        let (mut pace, start) = (Pace::default(), Instant::now());
        assert_eq!(pace.take(start, 0, 256, 0, false), 256);
        pace.limit(start);
        let (mut waiting, mut appended, mut taken) = (50_000, 50_000_u64, 0);
        for step in 1..=200 {
            // 4,000 new ones a second.
            let now = start + Duration::from_millis(10 * step);
            (appended, waiting) = (appended + 40, waiting + 40);
            let count = pace.take(now, appended, 256, waiting, false);
            (waiting, taken) = (waiting - count, taken + count);
        }
        assert!((11_500..=12_100).contains(&taken), "{taken} in 2 s");
        assert_eq!(pace.take(start + LIMITED_TIME_MIN, appended, 256, 0, false), 256, "all is written");
        pace.limit(start);
        assert_eq!(pace.take(start, appended, 256, 9, true), 256, "a stop");
    }
}
