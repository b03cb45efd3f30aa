//! Ballast: a busy thread beside the server, which leaves it a part of its processor.
//!
//! A generator with one processor costs as much as a fast server, which would then sleep now and again for want of work. With
//! ballast the server has less time than the generator and always work to do; its CPU time for an operation is that of a
//! saturated server. The loop of the thread touches no memory, so that it does not clear the server's caches.

use crate::machine::{self, SERVER_CPU};
use crate::sys::set_real_time;
use anyhow::{Context, Result};
use rustix::thread::set_current_timer_slack;
use rustix::time::ClockId;
use std::hint::spin_loop;
use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Time of the server in each period: too short to empty the generator's window, even for a server that needs 4 µs.
pub const SERVER_TIME: Duration = Duration::from_micros(400);

/// Time of the ballast in each period, with real-time priority.
pub const BALLAST_TIME: Duration = Duration::from_micros(2000);

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
                spin(BALLAST_TIME);
                thread::sleep(SERVER_TIME);
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
