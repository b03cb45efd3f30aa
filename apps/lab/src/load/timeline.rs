//! Attempts over the time of a run, and histograms of times.

use hdrhistogram::Histogram;
use ringway_load::{Outcome, Report};
use ringway_sansio::Instant;
use std::time::Duration;

/// Planned, ended and successful attempts in slots of [`SLOT`]. Attempts after the last slot count there.
#[derive(Clone, Debug, Default)]
pub(super) struct Timeline {
    start: Option<Instant>,
    length: Duration,
    slots: Vec<Slot>,
    /// Successful attempts by the slot in which they would have ended without their pauses.
    unpaused: Vec<u64>,
}

/// Counts of a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slot {
    /// Planned attempts.
    pub planned: u64,
    /// Ended attempts.
    pub ended: u64,
    /// Successful ones among the ended.
    pub successes: u64,
}

impl Timeline {
    /// Timeline of attempts that are planned from `start` on, for `length`.
    pub(super) const fn new(start: Instant, length: Duration) -> Self {
        Self { start: Some(start), length, slots: Vec::new(), unpaused: Vec::new() }
    }

    pub(super) fn shorten(&mut self, length: Duration) {
        self.length = self.length.min(length);
    }

    pub(super) fn add(&mut self, report: &Report) {
        let Some(start) = self.start else { return };
        let index_of = |at: Instant| {
            let index = at.as_nanos().saturating_sub(start.as_nanos()) / SLOT_NANOS;
            usize::try_from(index).unwrap_or(usize::MAX).min(SLOTS_MAX - 1)
        };
        let (planned, ended) = (index_of(report.planned), index_of(report.ended));
        let needed = planned.max(ended) + 1;
        if self.slots.len() < needed {
            self.slots.resize(needed, Slot::default());
        }
        if let Some(slot) = self.slots.get_mut(planned) {
            slot.planned += 1;
        }
        if let Some(slot) = self.slots.get_mut(ended) {
            slot.ended += 1;
            slot.successes += u64::from(report.outcome == Outcome::Success);
        }
        if report.outcome == Outcome::Success {
            let ended = Duration::from_nanos(report.ended.as_nanos()).saturating_sub(report.paused);
            let index = index_of(Instant::from_nanos(u64::try_from(ended.as_nanos()).unwrap_or(u64::MAX)));
            if self.unpaused.len() <= index {
                self.unpaused.resize(index + 1, 0);
            }
            if let Some(count) = self.unpaused.get_mut(index) {
                *count += 1;
            }
        }
    }

    /// Seconds during which attempts are planned; 0 if unknown.
    pub(super) const fn seconds(&self) -> f64 {
        self.length.as_secs_f64()
    }

    /// Successful attempts a second, in a time as long as the load that begins with the end of the first successful one. Their
    /// pauses do not count, which no server shortens; a server that falls behind ends attempts later than that.
    pub(super) fn achieved(&self) -> f64 {
        let Some(first) = self.unpaused.iter().position(|&count| count > 0) else { return 0.0 };
        let in_time = self.length.as_nanos().div_ceil(SLOT.as_nanos());
        let count = usize::try_from(in_time).unwrap_or(usize::MAX).saturating_add(1);
        let successes: u64 = self.unpaused.iter().skip(first).take(count).sum();
        successes as f64 / self.seconds().max(f64::MIN_POSITIVE)
    }

    /// Counts of each second.
    pub(super) fn by_second(&self) -> impl Iterator<Item = Slot> {
        let in_second = usize::try_from(Duration::from_secs(1).as_nanos() / SLOT.as_nanos()).unwrap_or(1);
        self.slots.chunks(in_second.max(1)).map(|slots| {
            slots.iter().fold(Slot::default(), |sum, slot| Slot {
                planned: sum.planned + slot.planned,
                ended: sum.ended + slot.ended,
                successes: sum.successes + slot.successes,
            })
        })
    }
}

/// Length of a slot.
const SLOT: Duration = Duration::from_millis(10);
const SLOT_NANOS: u64 = SLOT.as_nanos() as u64;
/// Number of slots, an hour.
const SLOTS_MAX: usize = 360_000;

/// Histogram of microseconds up to an hour, with three significant digits.
pub(super) fn histogram() -> Histogram<u64> {
    let bounded = Histogram::new_with_bounds(1, 3_600_000_000, 3);
    // The bounds are valid; the other constructor takes any value and needs more memory.
    bounded
        .unwrap_or_else(|_| Histogram::new(3).unwrap_or_else(|_| unreachable!("three digits are permitted")))
}

/// Whole microseconds; `Duration::as_micros` divides 128-bit numbers.
pub(super) fn micros(time: Duration) -> u64 {
    time.as_secs().saturating_mul(1_000_000).saturating_add(time.subsec_micros().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(planned_ms: u64, ended_ms: u64, outcome: Outcome) -> Report {
        let at = |ms| Instant::from_secs(5) + Duration::from_millis(ms);
        Report {
            planned: at(planned_ms),
            started: at(planned_ms),
            ended: at(ended_ms),
            outcome,
            first_response: None,
            final_response: None,
            disconnect: None,
            paused: Duration::ZERO,
        }
    }

    #[test]
    fn attempts_that_end_late_are_not_achieved() {
        let mut good = Timeline::new(Instant::from_secs(5), Duration::from_secs(2));
        let mut slow = good.clone();
        for number in 0..200 {
            let planned = number * 10;
            good.add(&report(planned, planned + 505, Outcome::Success));
            // Half as fast as it is loaded.
            slow.add(&report(planned, 2 * planned + 5, Outcome::Success));
        }
        assert_eq!(good.achieved(), 100.0);
        assert!((50.0..51.0).contains(&slow.achieved()), "{}", slow.achieved());
        let seconds: Vec<_> = good.by_second().map(|slot| (slot.planned, slot.ended)).collect();
        assert_eq!(seconds, [(100, 50), (100, 100), (0, 50)]);
    }

    #[test]
    fn pauses_take_nothing_from_the_achieved_rate() {
        let mut varied = Timeline::new(Instant::from_secs(5), Duration::from_secs(2));
        let mut slow = varied.clone();
        for number in 0..200 {
            // From 0 to 19.9 s, in no order, and longer than the load.
            let talk = number * 7_919 % 200 * 100;
            let paused = Duration::from_millis(talk);
            let planned = number * 10;
            varied.add(&Report { paused, ..report(planned, planned + talk + 5, Outcome::Success) });
            // Half as fast as it is loaded.
            slow.add(&Report { paused, ..report(planned, 2 * planned + talk + 5, Outcome::Success) });
        }
        assert_eq!(varied.achieved(), 100.0);
        assert!((50.0..51.0).contains(&slow.achieved()), "{}", slow.achieved());
    }

    #[test]
    fn failures_and_times_beyond_the_limit_are_counted() {
        let mut timeline = Timeline::new(Instant::from_secs(5), Duration::from_secs(1));
        timeline.add(&report(0, 10_000_000, Outcome::TimedOut));
        assert_eq!(timeline.achieved(), 0.0);
        assert_eq!(timeline.slots.len(), SLOTS_MAX);
        assert_eq!(timeline.by_second().map(|slot| slot.ended).sum::<u64>(), 1);
    }
}
