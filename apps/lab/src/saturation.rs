//! Proof that a server is saturated: its busiest thread never sleeps.

use crate::machine::ThreadTimes;
use crate::process::Process;
use anyhow::Result;
use std::collections::HashMap;
use std::time::Instant;

/// Smallest share of the time in which the busiest thread of a saturated server runs or waits for its processor.
pub const RUNNABLE_MIN: f64 = 0.95;

/// Use of the processor by a server during some time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Saturation {
    /// Share of the time in which the busiest thread did not sleep: it ran or waited for its processor.
    pub runnable: f64,
    /// Share of the processor that all its threads used.
    pub cpu: f64,
}

/// Times of a server's threads at the start of a measurement.
pub struct Runnable {
    at: Instant,
    threads: HashMap<u32, ThreadTimes>,
}

impl Runnable {
    /// Reads the times.
    ///
    /// # Errors
    /// The server has ended.
    pub fn of(process: &Process) -> Result<Self> {
        Ok(Self { at: Instant::now(), threads: process.threads()? })
    }

    /// Use of the processor since then.
    ///
    /// # Errors
    /// The server has ended.
    pub fn until_now(&self, process: &Process) -> Result<Saturation> {
        let now = process.threads()?;
        Ok(between(&self.threads, &now, self.at.elapsed().as_nanos() as f64))
    }
}

fn between(before: &HashMap<u32, ThreadTimes>, now: &HashMap<u32, ThreadTimes>, wall_ns: f64) -> Saturation {
    let mut saturation = Saturation { runnable: 0.0, cpu: 0.0 };
    for (thread, now) in now {
        let before = before.get(thread).copied().unwrap_or_default();
        let share = |now: u64, before: u64| now.saturating_sub(before) as f64 / wall_ns.max(1.0);
        saturation.runnable = saturation.runnable.max(share(now.runnable_ns(), before.runnable_ns()));
        saturation.cpu += share(now.cpu_ns, before.cpu_ns);
    }
    saturation
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_busiest_thread_counts_and_the_cpu_time_of_all() {
        let times = |cpu_ns, waiting_ns| ThreadTimes { cpu_ns, waiting_ns };
        let before = HashMap::from([(1, times(1000, 1000)), (2, times(0, 0))]);
        let now = HashMap::from([(1, times(1250, 1740)), (2, times(60, 10)), (3, times(40, 0))]);
        let saturation = between(&before, &now, 1000.0);
        assert!((saturation.runnable - 0.99).abs() < 1e-9, "{saturation:?}");
        assert!((saturation.cpu - 0.35).abs() < 1e-9, "{saturation:?}");
    }
}
