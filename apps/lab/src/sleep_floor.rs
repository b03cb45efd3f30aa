//! Threads that only sleep until each tick, on the same processors and with the same priority as calls: the
//! best timing that a program can have on the machine.

use crate::machine::{GENERATOR_CPU, SERVER_CPU, clock_ns, pin_to};
use crate::sys;
use anyhow::{Context, Result, anyhow};
use rustix::thread::clock_nanosleep_absolute;
use rustix::time::{ClockId, Timespec};
use std::thread::JoinHandle;

/// Sleeping threads, one on each processor that the calls use.
pub struct SleepFloor(Vec<JoinHandle<Result<Lateness>>>);

/// Lateness of the ticks; each value is that of the worst thread.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Lateness {
    /// Maximum time from one tick to the next in milliseconds.
    pub delta_max: f64,
    /// 99.9th percentile of that time.
    pub delta_p999: f64,
    /// Maximum delay of a tick in milliseconds.
    pub late_ms: f64,
}

impl SleepFloor {
    /// Starts the threads for `seconds`.
    pub fn start(seconds: f64) -> Self {
        let count = (seconds * 1000.0 / TICK_MS) as u64;
        let thread = |cpu| {
            std::thread::spawn(move || {
                pin_to(cpu)?;
                // Without the permission a phone has no real-time priority either, and prints that.
                let _ = sys::set_real_time(sys::REAL_TIME_PRIORITY);
                sleep_to_ticks(count)
            })
        };
        Self([SERVER_CPU, GENERATOR_CPU].into_iter().map(thread).collect())
    }

    /// Waits for the end of the threads.
    pub fn end(self) -> Result<Lateness> {
        let mut all = Lateness::default();
        for thread in self.0 {
            let one = thread.join().map_err(|_| anyhow!("a thread that sleeps to each tick panicked"))??;
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

    /// Lateness of ticks at these times, in nanoseconds from the first tick.
    fn of(came_ns: &[u64]) -> Self {
        let late = |(number, came): (u64, &u64)| came.saturating_sub(number * TICK_NS);
        let late_max = (0..).zip(came_ns).map(late).max().unwrap_or_default();
        let mut deltas: Vec<u64> = came_ns.windows(2).map(|pair| pair[1].saturating_sub(pair[0])).collect();
        deltas.sort_unstable();
        let at = |environment: usize| deltas.get(environment).map_or(0.0, |&ns| ms(ns));
        let last = deltas.len().saturating_sub(1);
        Self { delta_max: at(last), delta_p999: at(last - last / 1000), late_ms: ms(late_max) }
    }
}

fn sleep_to_ticks(count: u64) -> Result<Lateness> {
    let mut came = Vec::with_capacity(usize::try_from(count)?);
    let first = clock_ns(ClockId::Monotonic) + TICK_NS;
    for number in 0..count {
        let at = first + number * TICK_NS;
        let time = Timespec { tv_sec: (at / SECOND_NS) as i64, tv_nsec: (at % SECOND_NS) as _ };
        clock_nanosleep_absolute(ClockId::Monotonic, &time).context("sleep to a tick")?;
        came.push(clock_ns(ClockId::Monotonic).saturating_sub(first));
    }
    Ok(Lateness::of(&came))
}

fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

/// Time between two packets of a call.
pub const TICK_MS: f64 = 20.0;
const SECOND_NS: u64 = 1_000_000_000;
const TICK_NS: u64 = (TICK_MS * 1e6) as u64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_tick_affects_every_figure() {
        let mut came: Vec<u64> = (0..2001).map(|number| number * TICK_NS).collect();
        assert_eq!(Lateness::of(&came), Lateness { delta_max: 20.0, delta_p999: 20.0, late_ms: 0.0 });
        came[700] += 3_000_000;
        let late = Lateness::of(&came);
        assert_eq!((late.delta_max, late.delta_p999, late.late_ms), (23.0, 20.0, 3.0));
        assert_eq!(late.worse(Lateness::default()), late);
    }

    #[test]
    fn a_thread_sleeps_until_each_tick() {
        let lateness = SleepFloor::start(0.2).end().unwrap();
        assert!(lateness.delta_max > 10.0 && lateness.delta_max < 10_000.0, "{lateness:?}");
    }
}
