//! Saturated servers: a busy thread beside the server (ballast), which leaves it a part of its processor, and the proof that
//! its busiest thread never sleeps.
//!
//! A generator with one processor costs as much as a fast server, which would then sleep now and again for want of work. With
//! ballast the server has less time than the generator and always work to do; its CPU time for an operation is that of a
//! saturated server. The loop of the thread touches no memory, so that it does not clear the server's caches.

use crate::machine::{self, SERVER_CPU, ThreadTimes};
use crate::process::Process;
use crate::sys::set_real_time;
use anyhow::{Context, Result};
use rustix::thread::set_current_timer_slack;
use rustix::time::ClockId;
use std::collections::HashMap;
use std::hint::spin_loop;
use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

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

/// Time of the server in each period: too short to empty the generator's window, even for a server that needs 4 µs.
pub const SERVER_TIME: Duration = Duration::from_micros(400);

/// Time of the ballast in each period, with real-time priority.
pub const BALLAST_TIME: Duration = Duration::from_micros(2000);

/// Time of the server in each period beside a share: short, because messages wait for the rest of the period.
const SHARED_SERVER_TIME: Duration = Duration::from_micros(200);

/// Lowest real-time priority: above every server's.
const PRIORITY: u8 = 1;

/// A running ballast; it ends with the value.
pub struct Ballast {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Ballast {
    /// Starts the thread on [`SERVER_CPU`]. Without permission for real-time priority it has an ordinary one, and the server
    /// gets more time; readings say whether the server was saturated.
    ///
    /// # Errors
    /// There is no such processor.
    pub fn start() -> Result<Self> {
        Self::start_with(BALLAST_TIME, SERVER_TIME)
    }

    /// The same with a share of the processor for the ballast, below 1; `None` for none.
    ///
    /// # Errors
    /// As [`Ballast::start`].
    pub fn start_share(share: f64) -> Result<Option<Self>> {
        if share <= 0.0 {
            return Ok(None);
        }
        let time = SHARED_SERVER_TIME.mul_f64(share / (1.0 - share).max(0.01));
        Self::start_with(time, SHARED_SERVER_TIME).map(Some)
    }

    fn start_with(ballast_time: Duration, server_time: Duration) -> Result<Self> {
        let is_over = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&is_over);
        let (sender, ready) = std::sync::mpsc::channel();
        let body = move || {
            let pinned = machine::pin_to(SERVER_CPU);
            let is_ready = pinned.is_ok();
            // Without these the server gets more time, which its readings show.
            let _ = set_real_time(PRIORITY);
            let _ = set_current_timer_slack(Some(NonZero::<u64>::MIN));
            let _ = sender.send(pinned);
            while is_ready && !flag.load(Ordering::Relaxed) {
                spin(ballast_time);
                thread::sleep(server_time);
            }
        };
        let thread =
            thread::Builder::new().name("ballast".to_owned()).spawn(body).context("start the ballast")?;
        let ballast = Self { is_over, thread: Some(thread) };
        ready.recv().context("start the ballast")??;
        Ok(ballast)
    }
}

impl Drop for Ballast {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Uses the processor for `time`.
fn spin(time: Duration) {
    let until = machine::clock_ns(ClockId::Monotonic) + time.as_nanos() as u64;
    while machine::clock_ns(ClockId::Monotonic) < until {
        spin_loop();
    }
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
