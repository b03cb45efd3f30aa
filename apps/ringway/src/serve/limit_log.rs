//! Limits on the log: reached limits are logged at once, and then at most once per interval with a count; lines that peers
//! can cause have a rate.
//!
//! It reads the existing counters of the limits, so that it costs nothing on the packet path.

use ringway_sansio::{Seed, source_of};
use ringway_server::SourceRates;
use std::collections::HashMap;
use std::net::IpAddr;
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

/// Limits of the lines of each source and of all.
pub(super) struct LineRates {
    by_source: SourceRates,
    of_all: SourceRates,
    /// Suppressed lines of each source since its last line.
    suppressed: HashMap<IpAddr, u64>,
}

impl LineRates {
    /// Permits `per_source` lines of a source and `all` of all sources in a second.
    pub(super) fn new((per_source, all): (u32, u32), seed: &Seed) -> Self {
        let by_source = SourceRates::new(per_source, seed);
        Self { by_source, of_all: SourceRates::new(all, seed), suppressed: HashMap::new() }
    }

    /// Admits a line for `address`; returns the number of suppressed lines of its source, or `None` if this line is
    /// suppressed.
    pub(super) fn admit(&mut self, now: ringway_sansio::Instant, address: IpAddr) -> Option<u64> {
        let source = source_of(address);
        let everybody = IpAddr::from([0, 0, 0, 0]);
        if self.by_source.admit(now, address) && self.of_all.admit(now, everybody) {
            return Some(self.suppressed.remove(&source).unwrap_or_default());
        }
        if self.suppressed.len() >= SUPPRESSED_SOURCES_MAX && !self.suppressed.contains_key(&source) {
            self.suppressed.clear();
        }
        *self.suppressed.entry(source).or_default() += 1;
        None
    }
}

/// Maximum number of sources with counts of suppressed lines; above it the counts are cleared.
const SUPPRESSED_SOURCES_MAX: usize = 16_384;

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

    #[test]
    fn suppressed_lines_are_counted_for_each_source() {
        let mut rates = LineRates::new((1, 50), &Seed::from_number(1));
        let now = ringway_sansio::Instant::from_secs(100);
        let (one, other) = (IpAddr::from([192, 0, 2, 1]), IpAddr::from([192, 0, 2, 2]));
        assert_eq!([one, one, one, other].map(|ip| rates.admit(now, ip)), [Some(0), None, None, Some(0)]);
        let later = now + std::time::Duration::from_secs(2);
        assert_eq!([other, one, one].map(|ip| rates.admit(later, ip)), [Some(0), Some(2), None]);
        for number in 0..SUPPRESSED_SOURCES_MAX as u32 * 2 {
            rates.admit(later, IpAddr::from(number.to_be_bytes()));
        }
        assert!(rates.suppressed.len() <= SUPPRESSED_SOURCES_MAX);
    }
}
