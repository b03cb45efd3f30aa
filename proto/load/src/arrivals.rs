//! Planned times of attempts, and random lengths of time: ring time, talk time.

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

/// Planned times of attempts: at a rate, or of a window.
///
/// At a rate they do not depend on the progress of earlier attempts: an open loop.
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
///
/// Of a window, each attempt begins when another one ends: a closed loop. The planned time of an attempt is then the time of its
/// start, so that delays from it contain no wait of a caller whom a slow server made late. It measures the cost of an operation
/// on a saturated server, not its delays.
///
/// ```
/// use core::time::Duration;
/// use ringway_load::Arrivals;
/// use ringway_sansio::{Instant, Rng, Seed};
///
/// let at = Instant::from_secs;
/// let mut arrivals = Arrivals::window(1, at(10), Duration::from_secs(60));
/// let mut rng = Rng::new(&Seed::from_number(1));
/// assert_eq!(arrivals.take_due(at(10), &mut rng), Some(at(10)));
/// assert_eq!(arrivals.take_due(at(11), &mut rng), None);
/// arrivals.attempt_ended(at(12));
/// assert_eq!((arrivals.next(), arrivals.take_due(at(13), &mut rng)), (Some(at(12)), Some(at(13))));
/// ```
#[derive(Clone, Debug)]
pub struct Arrivals {
    pacing: Pacing,
    start: Instant,
    end: Instant,
    /// Number of planned times so far.
    count: u64,
    count_max: u64,
}

#[derive(Clone, Debug)]
enum Pacing {
    Rate {
        interval_ns: f64,
        spacing: Spacing,
        /// Nanoseconds from the start to the next planned time.
        next_ns: f64,
        /// Number of planned times before the start; with equal intervals each time is computed from the count, so that no error adds up.
        before: u64,
        /// Rate that follows, and for how long.
        later: Option<(f64, Duration)>,
    },
    Window {
        size: u32,
        /// Number of attempts that were taken and have not ended.
        open: u32,
        /// Time since which the window is not full.
        since: Instant,
    },
}

impl Arrivals {
    /// Plans `rate` attempts a second from `start` on, for `length`. A rate that is not positive plans none.
    pub fn new(rate: f64, spacing: Spacing, start: Instant, length: Duration) -> Self {
        let is_rate = rate.is_finite() && rate > 0.0;
        Self {
            pacing: Pacing::Rate {
                interval_ns: if is_rate { 1e9 / rate } else { 0.0 },
                spacing,
                next_ns: 0.0,
                before: 0,
                later: None,
            },
            start,
            end: if is_rate { start + length } else { start },
            count: 0,
            count_max: u64::MAX,
        }
    }

    /// Plans `rate` attempts a second after the end, for `length`: the load after a pulse. A window, and a rate that is not positive, stay.
    #[must_use]
    pub fn then(mut self, rate: f64, length: Duration) -> Self {
        if let Pacing::Rate { later, .. } = &mut self.pacing
            && rate.is_finite()
            && rate > 0.0
        {
            *later = Some((rate, length));
        }
        self
    }

    /// Keeps `size` attempts open from `start` on, for `length`.
    pub fn window(size: u32, start: Instant, length: Duration) -> Self {
        let pacing = Pacing::Window { size, open: 0, since: start };
        Self { pacing, start, end: start + length, count: 0, count_max: u64::MAX }
    }

    /// Plans at most `count` attempts.
    #[must_use]
    pub const fn at_most(self, count: u64) -> Self {
        Self { count_max: count, ..self }
    }

    /// Planned time of the next attempt, while there is one.
    pub fn next(&self) -> Option<Instant> {
        let next = match self.pacing {
            Pacing::Rate { next_ns, .. } => self.start + Duration::from_nanos(next_ns as u64),
            Pacing::Window { size, open, since } => (open < size).then_some(since)?,
        };
        (next < self.end && self.count < self.count_max).then_some(next)
    }

    /// Takes the next planned time if it is not after `now`.
    pub fn take_due(&mut self, now: Instant, rng: &mut Rng) -> Option<Instant> {
        let planned = self.next().filter(|&planned| planned <= now)?;
        let is_over = now >= self.end;
        self.count += 1;
        match &mut self.pacing {
            Pacing::Rate { interval_ns, spacing, next_ns, before, later } => {
                match spacing {
                    Spacing::Fixed => *next_ns = (self.count - *before) as f64 * *interval_ns,
                    Spacing::Poisson => *next_ns += *interval_ns * exponential(rng),
                }
                let is_over = self.start + Duration::from_nanos(*next_ns as u64) >= self.end;
                if is_over && let Some((rate, length)) = later.take() {
                    (*interval_ns, *next_ns, *before) = (1e9 / rate, 0.0, self.count);
                    (self.start, self.end) = (self.end, self.end + length);
                }
            }
            Pacing::Window { .. } if is_over => {
                self.count -= 1;
                self.stop();
                return None;
            }
            Pacing::Window { open, .. } => {
                *open += 1;
                return Some(now);
            }
        }
        Some(planned)
    }

    /// Notes the end of an attempt, which makes room in a window.
    pub fn attempt_ended(&mut self, now: Instant) {
        if let Pacing::Window { size, open, since } = &mut self.pacing {
            if open >= size {
                *since = now;
            }
            *open = open.saturating_sub(1);
        }
    }

    /// Plans no further attempts.
    pub fn stop(&mut self) {
        self.end = self.start;
        if let Pacing::Rate { later, .. } = &mut self.pacing {
            *later = None;
        }
    }

    /// Number of attempts that were planned and taken.
    pub const fn taken(&self) -> u64 {
        self.count
    }
}

/// Distribution of a length of time.
///
/// ```
/// use core::time::Duration;
/// use ringway_load::Length;
/// use ringway_sansio::{Rng, Seed};
///
/// let mut rng = Rng::new(&Seed::from_number(1));
/// let ring = Length::Uniform(Duration::from_secs(2), Duration::from_secs(4));
/// assert!((2.0..=4.0).contains(&ring.draw(&mut rng).as_secs_f64()));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// Always the same.
    Fixed(Duration),
    /// Uniform between two lengths.
    Uniform(Duration, Duration),
    /// Exponential with this mean, as call holding times are modelled.
    Exponential(Duration),
}

impl Length {
    /// Longest length that [`Length::draw`] gives.
    pub fn longest(self) -> Duration {
        match self {
            Self::Fixed(length) => length,
            Self::Uniform(least, most) => least.max(most),
            Self::Exponential(mean) => mean.saturating_mul(EXPONENTIAL_MAX),
        }
    }

    /// Draws a length.
    pub fn draw(self, rng: &mut Rng) -> Duration {
        match self {
            Self::Fixed(length) => length,
            Self::Uniform(least, most) => {
                let span = most.saturating_sub(least);
                least + Duration::from_nanos(rng.below(nanos(span).saturating_add(1)))
            }
            Self::Exponential(mean) => Duration::from_nanos((nanos(mean) as f64 * exponential(rng)) as u64),
        }
    }
}

/// Multiple of the mean that [`exponential`] does not exceed.
const EXPONENTIAL_MAX: u32 = 37;

/// Exponentially distributed number with mean 1; at most [`EXPONENTIAL_MAX`].
fn exponential(rng: &mut Rng) -> f64 {
    // 53 random bits, from 2^-53 to 1, so that the logarithm is finite.
    let uniform = ((rng.next_u64() >> 11) + 1) as f64 / (1_u64 << 53) as f64;
    -libm::log(uniform)
}

fn nanos(length: Duration) -> u64 {
    u64::try_from(length.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
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

    #[test]
    fn a_window_plans_the_next_attempt_at_the_end_of_another_one_until_its_time_is_over() {
        let at = Instant::from_secs;
        let mut rng = Rng::new(&Seed::from_number(5));
        let mut arrivals = Arrivals::window(2, at(1), Duration::from_secs(10));
        let mut take = |arrivals: &mut Arrivals, second| arrivals.take_due(at(second), &mut rng);
        assert_eq!(take(&mut arrivals, 0), None);
        assert_eq!(
            [take(&mut arrivals, 1), take(&mut arrivals, 1), take(&mut arrivals, 1)],
            [Some(at(1)), Some(at(1)), None]
        );
        assert_eq!(arrivals.next(), None);
        arrivals.attempt_ended(at(5));
        arrivals.attempt_ended(at(6));
        assert_eq!(
            (arrivals.next(), take(&mut arrivals, 7), take(&mut arrivals, 8)),
            (Some(at(5)), Some(at(7)), Some(at(8)))
        );
        arrivals.attempt_ended(at(10));
        assert_eq!((arrivals.next(), take(&mut arrivals, 11)), (Some(at(10)), None));
        assert_eq!((arrivals.next(), arrivals.taken()), (None, 4), "a start that is too late is not made");
    }

    #[test]
    fn another_rate_follows() {
        let (start, mut rng) = (Instant::from_secs(1), Rng::new(&Seed::from_number(5)));
        let arrivals = Arrivals::new(10.0, Spacing::Fixed, start, Duration::from_secs(1));
        let mut arrivals = arrivals.then(2.0, Duration::from_secs(2));
        let times: Vec<_> = core::iter::from_fn(|| arrivals.take_due(Instant::FAR, &mut rng)).collect();
        assert_eq!(times.len(), 14);
        let after: Vec<_> = times.iter().skip(9).map(|at| at.since(start).as_millis()).collect();
        assert_eq!(after, [900, 1000, 1500, 2000, 2500]);
    }

    #[test]
    fn a_limit_ends_a_window_and_a_rate() {
        let mut rng = Rng::new(&Seed::from_number(5));
        let (start, length) = (Instant::from_secs(1), Duration::from_secs(10));
        let mut rate = Arrivals::new(100.0, Spacing::Fixed, start, length).at_most(7);
        assert_eq!(core::iter::from_fn(|| rate.take_due(Instant::FAR, &mut rng)).count(), 7);
        let mut window = Arrivals::window(2, start, length).at_most(7);
        let mut count = 0;
        while window.take_due(start, &mut rng).is_some() {
            count += 1;
            window.attempt_ended(start);
        }
        assert_eq!((count, window.next()), (7, None));
    }

    #[test]
    fn the_mean_is_the_one_asked_for() {
        let mut rng = Rng::new(&Seed::from_number(3));
        let second = Duration::from_secs(1);
        for length in
            [Length::Fixed(second), Length::Uniform(Duration::ZERO, 2 * second), Length::Exponential(second)]
        {
            let total: Duration = (0..20_000).map(|_| length.draw(&mut rng)).sum();
            let mean = total.as_secs_f64() / 20_000.0;
            assert!((0.97..1.03).contains(&mean), "{length:?}: {mean}");
        }
    }

    #[test]
    fn no_length_overflows() {
        let mut rng = Rng::new(&Seed::from_number(4));
        for length in [
            Length::Uniform(Duration::MAX, Duration::ZERO),
            Length::Exponential(Duration::MAX),
            Length::Fixed(Duration::MAX),
        ] {
            let _ = length.draw(&mut rng);
        }
    }
}
