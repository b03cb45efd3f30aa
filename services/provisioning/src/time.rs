//! Time of day, and pauses of threads.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Seconds since the epoch.
pub(crate) fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

/// Waits until the time is over, or soon after the thread is to end.
pub(crate) fn wait(time: Duration, is_ended: &AtomicBool) {
    let until = Instant::now() + time;
    while !is_ended.load(Ordering::Relaxed) && Instant::now() < until {
        std::thread::sleep(STEP);
    }
}

/// Pause after the first failure of a connection; it doubles with each one.
pub(crate) const PAUSE_MIN: Duration = Duration::from_secs(1);
pub(crate) const PAUSE_MAX: Duration = Duration::from_secs(30);

const STEP: Duration = Duration::from_millis(250);
