//! Planned times of attempts.

use crate::length::exponential;
use core::time::Duration;
use ringway_sansio::{Instant, Rng};

/// Distribution of the intervals between planned times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Spacing {
    /// Equal intervals.
    #[default]
    Fixed,
    /// Exponentially distributed intervals, as independent callers have (a Poisson process).
    Poisson,
}

/// Planned times of attempts at a rate. They do not depend on the progress of earlier attempts: an open loop.
///
/// ```
/// use core::time::Duration;
/// use ringway_load::{Arrivals, Spacing};
/// use ringway_sansio::{Instant, Rng, Seed};
///
/// let start = Instant::from_secs(10);
/// let mut arrivals = Arrivals::new(4.0, Spacing::Fixed, start, Duration::from_secs(1));
/// let mut rng = Rng::new(&Seed::from_number(1));
/// let mut planned = Vec::new();
/// while let Some(at) = arrivals.take_due(Instant::from_secs(60), &mut rng) {
///     planned.push(at.since(start).as_millis());
/// }
/// assert_eq!(planned, [0, 250, 500, 750]);
/// ```
#[derive(Clone, Debug)]
pub struct Arrivals {
    interval_ns: f64,
    spacing: Spacing,
    start: Instant,
    end: Instant,
    /// Nanoseconds from the start to the next planned time.
    next_ns: f64,
    /// Number of planned times so far; with equal intervals each time is computed from it, so that no error adds up.
    count: u64,
}

impl Arrivals {
    /// Plans `rate` attempts a second from `start` on, for `length`. A rate that is not positive plans none.
    pub fn new(rate: f64, spacing: Spacing, start: Instant, length: Duration) -> Self {
        let is_rate = rate.is_finite() && rate > 0.0;
        Self {
            interval_ns: if is_rate { 1e9 / rate } else { 0.0 },
            spacing,
            start,
            end: if is_rate { start + length } else { start },
            next_ns: 0.0,
            count: 0,
        }
    }

    /// Planned time of the next attempt, while there is one.
    pub fn next(&self) -> Option<Instant> {
        let next = self.start + Duration::from_nanos(self.next_ns as u64);
        (next < self.end).then_some(next)
    }

    /// Takes the next planned time if it is not after `now`.
    pub fn take_due(&mut self, now: Instant, rng: &mut Rng) -> Option<Instant> {
        let planned = self.next().filter(|&planned| planned <= now)?;
        self.count += 1;
        match self.spacing {
            Spacing::Fixed => self.next_ns = self.count as f64 * self.interval_ns,
            Spacing::Poisson => self.next_ns += self.interval_ns * exponential(rng),
        }
        Some(planned)
    }

    /// Plans no further attempts.
    pub fn stop(&mut self) {
        self.end = self.start;
    }

    /// Number of attempts that were planned and taken.
    pub const fn taken(&self) -> u64 {
        self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringway_sansio::Seed;

    fn count(rate: f64, spacing: Spacing, seconds: u64) -> usize {
        let start = Instant::from_secs(1);
        let mut rng = Rng::new(&Seed::from_number(5));
        let mut arrivals = Arrivals::new(rate, spacing, start, Duration::from_secs(seconds));
        core::iter::from_fn(|| arrivals.take_due(Instant::FAR, &mut rng)).count()
    }

    #[test]
    fn a_rate_is_kept_exactly_however_odd_it_is() {
        assert_eq!(count(3_333.0, Spacing::Fixed, 30), 99_990);
        assert_eq!(count(0.1, Spacing::Fixed, 30), 3);
        assert_eq!(count(7.0, Spacing::Fixed, 1), 7);
    }

    #[test]
    fn a_poisson_process_has_its_rate_on_average_and_its_scatter() {
        let seen = count(1_000.0, Spacing::Poisson, 100);
        // Standard deviation √100,000 = 316.
        assert!((98_500..101_500).contains(&seen) && seen != 100_000, "{seen}");
    }

    #[test]
    fn rates_that_are_none_plan_nothing() {
        for rate in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(count(rate, Spacing::Fixed, 10), 0, "{rate}");
        }
    }

    #[test]
    fn nothing_is_due_early_and_nothing_after_a_stop() {
        let start = Instant::from_secs(1);
        let mut rng = Rng::new(&Seed::from_number(5));
        let mut arrivals = Arrivals::new(10.0, Spacing::Fixed, start, Duration::from_secs(9));
        assert_eq!(arrivals.take_due(start, &mut rng), Some(start));
        assert_eq!(arrivals.take_due(start + Duration::from_millis(99), &mut rng), None);
        arrivals.stop();
        assert_eq!((arrivals.next(), arrivals.taken()), (None, 1));
    }
}
