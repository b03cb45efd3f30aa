//! Logs reached limits: at once, and then at most once per interval with a count.
//!
//! It reads the existing counters of the limits, so that it costs nothing on the packet path.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Last logged count of each limit.
#[derive(Debug, Default)]
pub(super) struct LimitLog {
    limits: HashMap<&'static str, Logged>,
    due: Option<Instant>,
}

#[derive(Debug, Default)]
struct Logged {
    count: u64,
    at: Option<Instant>,
}

impl LimitLog {
    /// True once a second, when [`LimitLog::reached`] should be called.
    pub(super) fn is_due(&mut self, now: Instant) -> bool {
        let is_due = self.due.is_none_or(|due| due <= now);
        if is_due {
            self.due = Some(now + CHECK_INTERVAL);
        }
        is_due
    }

    /// Returns the limits to be logged now, with the number of times that each was reached since it was logged last.
    pub(super) fn reached<'c>(
        &mut self,
        now: Instant,
        counters: impl Iterator<Item = (&'c str, u64)>,
    ) -> Vec<(&'static str, u64)> {
        let mut reached = Vec::new();
        for (name, value) in counters {
            let Some(name) = LIMITS.iter().find(|limit| **limit == name) else { continue };
            let logged = self.limits.entry(name).or_default();
            let is_time = logged.at.is_none_or(|at| now.duration_since(at) >= LOG_INTERVAL);
            if value > logged.count && is_time {
                reached.push((*name, value - logged.count));
                *logged = Logged { count: value, at: Some(now) };
            }
        }
        reached
    }
}

/// Logs the result of [`LimitLog::reached`].
pub(super) fn write(reached: &[(&'static str, u64)]) {
    for (limit, count) in reached {
        tracing::info!(%limit, count, "limit reached");
    }
}

/// Counters of limits.
const LIMITS: &[&str] = &[
    "admin_clients_displaced",
    "admin_tokens_slowed",
    "blocked_sources",
    "connections_over_source",
    "connections_refused",
    "crowded_closes",
    "dials_refused",
    "ended_invites_evicted",
    "forward_loops",
    "handshakes_refused",
    "held_briefly",
    "held_drops",
    "icmp_pauses",
    "inbox_drops",
    "keep_alive_closes",
    "lamps_left_out",
    "lamps_refused",
    "locates_too_many",
    "locates_too_often",
    "log_lines_dropped",
    "lookups_refused",
    "lookups_without_result",
    "messages_delayed",
    "messages_refused",
    "messages_rejected",
    "nonces_evicted",
    "notifies_delayed",
    "over_memory",
    "over_rate",
    "over_user_forwards",
    "over_user_requests",
    "overflow",
    "publications_refused",
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
    "subscriptions_refused",
    "too_broad",
    "too_many_contacts",
    "too_many_flows",
    "trace_entries_lost",
    "transactions_refused",
    "unreachable_unreported",
    "unusable_refused",
    "unused_closes",
    "write_back_dropped",
    "write_queue_closes",
];

/// Minimum interval between two lines of one limit.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

const CHECK_INTERVAL: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_logged_at_once_and_then_once_per_interval() {
        let mut log = LimitLog::default();
        let start = Instant::now();
        let mut reached = |after_s: u64, value: u64| {
            log.reached(
                start + Duration::from_secs(after_s),
                [("over_rate", value), ("requests", value)].into_iter(),
            )
        };
        assert_eq!(reached(0, 0), []);
        assert_eq!(reached(1, 3), [("over_rate", 3)]);
        assert_eq!(reached(2, 500), []);
        assert_eq!(reached(60, 700), []);
        assert_eq!(reached(61, 703), [("over_rate", 700)]);
        assert_eq!(reached(122, 703), []);
        assert_eq!(reached(123, 704), [("over_rate", 1)]);
    }
}
