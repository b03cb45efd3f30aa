//! Times of batches.

use std::time::{Duration, Instant};

/// Times of batches: updates of the same moment are written together, at once if there are many.
#[derive(Default)]
pub(crate) struct Pace {
    last_batch: Option<Instant>,
}

impl Pace {
    /// Notes a batch that is written now.
    pub(crate) fn begin(&mut self, now: Instant) {
        self.last_batch = Some(now);
    }

    /// Time until the next batch of `waiting` updates.
    pub(crate) fn wait(&self, now: Instant, waiting: usize, is_stopped: bool) -> Duration {
        let since = self.last_batch.map_or(INTERVAL, |last| now.saturating_duration_since(last));
        let is_due = is_stopped || waiting >= FULL;
        if is_due { Duration::ZERO } else { INTERVAL.saturating_sub(since) }
    }
}

/// Time between two batches that are not full: with the reader's interval, less than the 20 ms after which other nodes have a change.
const INTERVAL: Duration = Duration::from_millis(10);
const FULL: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_waits_for_updates_of_the_same_moment_unless_it_is_full() {
        let (mut pace, start) = (Pace::default(), Instant::now());
        assert_eq!(pace.wait(start, 1, false), Duration::ZERO, "the first one");
        pace.begin(start);
        let soon = start + Duration::from_millis(2);
        assert_eq!(pace.wait(soon, 1, false), INTERVAL - Duration::from_millis(2));
        assert_eq!(pace.wait(soon, FULL, false), Duration::ZERO);
        assert_eq!(pace.wait(soon, 1, true), Duration::ZERO, "a stop");
        assert_eq!(pace.wait(start + INTERVAL, 1, false), Duration::ZERO);
    }
}
