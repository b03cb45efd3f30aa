//! Rates per second, from counters since the start.

use super::facts::{Facts, Totals};
use crate::history::History;
use core::time::Duration;
use ringway_sansio::Instant;

/// The last minute, second by second.
#[derive(Debug)]
pub(super) struct Rates {
    pub(super) requests: History,
    pub(super) registers: History,
    pub(super) successes: History,
    pub(super) redirections: History,
    pub(super) client_errors: History,
    pub(super) server_errors: History,
    pub(super) calls: History,
    /// In microseconds.
    pub(super) queue_delay: History,
    last: Option<(Instant, Totals)>,
}

impl Rates {
    pub(super) const fn new() -> Self {
        Self {
            requests: History::new(),
            registers: History::new(),
            successes: History::new(),
            redirections: History::new(),
            client_errors: History::new(),
            server_errors: History::new(),
            calls: History::new(),
            queue_delay: History::new(),
            last: None,
        }
    }

    /// Takes a second's figures, once that second has passed.
    pub(super) fn watch(&mut self, now: Instant, facts: &Facts<'_>) {
        let Some((then, before)) = self.last else {
            self.last = Some((now, facts.totals));
            return;
        };
        let passed = now.since(then);
        if passed < SECOND {
            return;
        }
        let (after, millis) = (facts.totals, passed.as_millis().max(1));
        let rate = |after: u64, before: u64| {
            u64::try_from(u128::from(after.saturating_sub(before)) * 1000 / millis).unwrap_or(u64::MAX)
        };
        self.requests.push(rate(after.requests, before.requests));
        self.registers.push(rate(after.registers, before.registers));
        self.successes.push(rate(after.successes, before.successes));
        self.redirections.push(rate(after.redirections, before.redirections));
        self.client_errors.push(rate(after.client_errors, before.client_errors));
        self.server_errors.push(rate(after.server_errors, before.server_errors));
        self.calls.push(facts.calls);
        self.queue_delay.push(u64::try_from(facts.queue_delay.as_micros()).unwrap_or(u64::MAX));
        self.last = Some((now, facts.totals));
    }
}

const SECOND: Duration = Duration::from_secs(1);
