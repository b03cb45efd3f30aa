//! The floor of the row "call": threads that do nothing but sleep to each beat, on the same processors and at the same
//! priority as the calls, while these run. What comes late there comes late for everybody: no program can do better.

use super::super::machine::{GENERATOR_CPU, SERVER_CPU, clock_ns, pin_to};
use super::super::sys;
use super::call::BEAT_MS;
use anyhow::{Context, Result, anyhow};
use rustix::thread::clock_nanosleep_absolute;
use rustix::time::{ClockId, Timespec};
use std::thread::JoinHandle;

/// The threads, one on each processor that the calls use.
pub(super) struct Beats(Vec<JoinHandle<Result<Lateness>>>);

/// How late the beats were that nothing was done at, the worse of all threads in each figure.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Lateness {
    /// The longest time from one beat to the next, in milliseconds.
    pub(super) delta_max: f64,
    /// All but one in a thousand are below it.
    pub(super) delta_p999: f64,
    /// How far behind its time the latest was.
    pub(super) late_ms: f64,
}

impl Beats {
    /// Starts them, for `seconds`.
    pub(super) fn start(seconds: f64) -> Self {
        let count = (seconds * 1000.0 / BEAT_MS) as u64;
        let thread = |cpu| {
            std::thread::spawn(move || {
                pin_to(cpu)?;
                // Without the right to it a phone has none either, and says so.
                let _ = sys::set_real_time(sys::REAL_TIME_PRIORITY);
                sleep_to_beats(count)
            })
        };
        Self([SERVER_CPU, GENERATOR_CPU].into_iter().map(thread).collect())
    }

    /// Waits for their end.
    pub(super) fn end(self) -> Result<Lateness> {
        let mut all = Lateness::default();
        for thread in self.0 {
            let one =
                thread.join().map_err(|_| anyhow!("a thread that keeps the beat ended by a panic"))??;
            all = all.worse(one);
        }
        Ok(all)
    }
}

impl Lateness {
    fn worse(self, other: Self) -> Self {
        Self {
            delta_max: self.delta_max.max(other.delta_max),
            delta_p999: self.delta_p999.max(other.delta_p999),
            late_ms: self.late_ms.max(other.late_ms),
        }
    }

    /// Of the times at which the beats came, in nanoseconds from their own first time.
    fn of(came_ns: &[u64]) -> Self {
        let late = |(number, came): (u64, &u64)| came.saturating_sub(number * BEAT_NS);
        let late_max = (0..).zip(came_ns).map(late).max().unwrap_or_default();
        let mut deltas: Vec<u64> = came_ns.windows(2).map(|pair| pair[1].saturating_sub(pair[0])).collect();
        deltas.sort_unstable();
        let at = |place: usize| deltas.get(place).map_or(0.0, |&ns| ms(ns));
        let last = deltas.len().saturating_sub(1);
        Self { delta_max: at(last), delta_p999: at(last - last / 1000), late_ms: ms(late_max) }
    }
}

fn sleep_to_beats(count: u64) -> Result<Lateness> {
    let mut came = Vec::with_capacity(usize::try_from(count)?);
    let first = clock_ns(ClockId::Monotonic) + BEAT_NS;
    for number in 0..count {
        let at = first + number * BEAT_NS;
        let time = Timespec { tv_sec: (at / SECOND_NS) as i64, tv_nsec: (at % SECOND_NS) as _ };
        clock_nanosleep_absolute(ClockId::Monotonic, &time).context("sleep to a beat")?;
        came.push(clock_ns(ClockId::Monotonic).saturating_sub(first));
    }
    Ok(Lateness::of(&came))
}

fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

const SECOND_NS: u64 = 1_000_000_000;
const BEAT_NS: u64 = (BEAT_MS * 1e6) as u64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_beat_is_seen_in_every_figure() {
        let mut came: Vec<u64> = (0..2001).map(|number| number * BEAT_NS).collect();
        assert_eq!(Lateness::of(&came), Lateness { delta_max: 20.0, delta_p999: 20.0, late_ms: 0.0 });
        came[700] += 3_000_000;
        let late = Lateness::of(&came);
        assert_eq!((late.delta_max, late.delta_p999, late.late_ms), (23.0, 20.0, 3.0));
        assert_eq!(late.worse(Lateness::default()), late);
    }

    #[test]
    fn beats_are_slept_to() {
        let lateness = Beats::start(0.2).end().unwrap();
        assert!(lateness.delta_max > 10.0 && lateness.delta_max < 10_000.0, "{lateness:?}");
    }
}
