//! Time of day.

use std::time::{SystemTime, UNIX_EPOCH};

/// Seconds since the epoch.
pub(crate) fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}
