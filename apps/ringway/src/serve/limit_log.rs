//! Says in the log which limits are reached: once, then at most once in a while with a count.
//!
//! It reads the counters that there are for every limit, so that reaching one costs the packet path nothing more.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Last line of each limit.
#[derive(Debug, Default)]
pub(super) struct LimitLog {
    limits: HashMap<&'static str, Said>,
    due: Option<Instant>,
}

#[derive(Debug, Default)]
struct Said {
    count: u64,
    at: Option<Instant>,
}

impl LimitLog {
    /// True once a second: then [`LimitLog::look`] is worth its price.
    pub(super) fn is_due(&mut self, now: Instant) -> bool {
        let is_due = self.due.is_none_or(|due| due <= now);
        if is_due {
            self.due = Some(now + LOOK_EVERY);
        }
        is_due
    }

    /// Takes counters with their values, and gives those that are to be said now: how often the limit was reached since it
    /// was last said.
    pub(super) fn look<'c>(
        &mut self,
        now: Instant,
        counters: impl Iterator<Item = (&'c str, u64)>,
    ) -> Vec<(&'static str, u64)> {
        let mut reached = Vec::new();
        for (name, value) in counters {
            let Some(name) = LIMITS.iter().find(|limit| **limit == name) else { continue };
            let said = self.limits.entry(name).or_default();
            let is_time = said.at.is_none_or(|at| now.duration_since(at) >= SAID_EVERY);
            if value > said.count && is_time {
                reached.push((*name, value - said.count));
                *said = Said { count: value, at: Some(now) };
            }
        }
        reached
    }
}

/// Writes what [`LimitLog::look`] gave.
pub(super) fn write(reached: &[(&'static str, u64)]) {
    for (limit, count) in reached {
        tracing::info!(%limit, count, "limit reached");
    }
}

/// The counters of limits.
const LIMITS: &[&str] = &[
    "admin_clients_displaced",
    "connections_over_source",
    "connections_refused",
    "held_drops",
    "inbox_drops",
    "log_lines_dropped",
    "nonces_evicted",
    "over_memory",
    "over_rate",
    "over_user_requests",
    "overflow",
    "rejected_too_large",
    "rejected_too_many_headers",
    "rejected_uri_too_long",
    "registration_too_large",
    "responses_limited",
    "send_drops",
    "slow_closes",
    "slowed_logins",
    "store_records_dropped",
    "stream_memory_closes",
    "stream_source_closes",
    "too_broad",
    "too_many_contacts",
    "transactions_refused",
    "unreachable_unreported",
    "unused_closes",
    "write_queue_closes",
];

/// Shortest time between two lines of one limit.
const SAID_EVERY: Duration = Duration::from_secs(60);

const LOOK_EVERY: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_said_once_and_then_with_a_count_once_in_a_while() {
        let mut log = LimitLog::default();
        let start = Instant::now();
        let mut look = |after_s: u64, value: u64| {
            log.look(
                start + Duration::from_secs(after_s),
                [("over_rate", value), ("requests", value)].into_iter(),
            )
        };
        assert_eq!(look(0, 0), []);
        assert_eq!(look(1, 3), [("over_rate", 3)]);
        assert_eq!(look(2, 500), []);
        assert_eq!(look(60, 700), []);
        assert_eq!(look(61, 703), [("over_rate", 700)]);
        assert_eq!(look(122, 703), []);
        assert_eq!(look(123, 704), [("over_rate", 1)]);
    }
}
