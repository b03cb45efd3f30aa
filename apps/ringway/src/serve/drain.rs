//! Drain of the running server: phones leave it over a time, calls go on.

use super::lock;
use ringway_admin::{Stat, Stats};
use ringway_sansio::Instant;
use std::sync::Mutex;

/// State of the drain; the default is none.
#[derive(Default)]
pub(super) struct DrainState(Mutex<Option<Begun>>);

/// A drain that has begun.
struct Begun {
    until: Instant,
    is_end_logged: bool,
}

impl DrainState {
    /// Begins a drain; one that runs begins anew.
    pub(super) fn begin(&self, until: Instant) {
        *lock(&self.0) = Some(Begun { until, is_end_logged: false });
    }

    /// False: there was none.
    pub(super) fn cancel(&self) -> bool {
        lock(&self.0).take().is_some()
    }

    /// True once, when the time is over.
    fn ends(&self, now: Instant) -> bool {
        let mut state = lock(&self.0);
        let ended = state.as_mut().filter(|begun| begun.until <= now && !begun.is_end_logged);
        ended.map(|begun| begun.is_end_logged = true).is_some()
    }

    /// Logs the end of the time, once.
    pub(super) fn log_end(&self, now: Instant) {
        if self.ends(now) {
            tracing::info!(
                "drain done: the time of all phones has come; stop the server when its calls have ended"
            );
        }
    }

    /// Gauges.
    pub(super) fn stats(&self, now: Instant) -> Stats {
        let until = lock(&self.0).as_ref().map(|begun| begun.until);
        let left = until.map_or(0, |until| until.since(now).as_secs());
        let draining = f64::from(u8::from(until.is_some()));
        vec![
            Stat::gauge(
                "draining",
                "1 while the server drains, and after that until it is cancelled.",
                draining,
            ),
            Stat::gauge("drain_left_s", "Seconds until the time of all phones has come.", left as f64),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(state: &DrainState, now: u64) -> Vec<f64> {
        state.stats(Instant::from_secs(now)).iter().map(|stat| stat.value).collect()
    }

    #[test]
    fn its_end_is_reported_once() {
        let state = DrainState::default();
        assert!(!state.cancel() && !state.ends(Instant::FAR));
        state.begin(Instant::from_secs(10));
        assert_eq!(values(&state, 4), [1.0, 6.0]);
        assert!(!state.ends(Instant::from_secs(9)));
        assert!(state.ends(Instant::from_secs(10)) && !state.ends(Instant::from_secs(11)));
        assert_eq!(values(&state, 11), [1.0, 0.0]);
        state.begin(Instant::from_secs(30));
        assert!(state.ends(Instant::from_secs(30)) && state.cancel());
        assert_eq!(values(&state, 31), [0.0, 0.0]);
    }
}
