//! Limit of wrong tokens from each source.

use ringway_sansio::source_of;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Token buckets of wrong admin tokens by source (an IPv6 /64 network counts as one), and their counters.
#[derive(Debug, Default)]
pub(crate) struct TokenGuesses {
    buckets: Mutex<Buckets>,
    wrong: AtomicU64,
    slowed: AtomicU64,
}

#[derive(Debug, Default)]
struct Buckets {
    /// Time at which the bucket of each source is full again.
    full_at: HashMap<IpAddr, Instant>,
    /// Time from which on the log has the next line, and the lines left out since the last one.
    next_line: Option<Instant>,
    left_out: u64,
}

impl TokenGuesses {
    /// True if a token of this source may be compared. Otherwise it is counted as slowed.
    pub(crate) fn may_try(&self, source: IpAddr, now: Instant) -> bool {
        let buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let full_at = buckets.full_at.get(&source_of(source));
        let may =
            full_at.is_none_or(|full_at| full_at.saturating_duration_since(now) <= INTERVAL * (BURST - 1));
        if !may {
            self.slowed.fetch_add(1, Ordering::Relaxed);
        }
        may
    }

    /// Notes a wrong token. Returns the number of wrong tokens that the log left out before, or `None` if it has no line for this
    /// one.
    pub(crate) fn on_wrong(&self, source: IpAddr, now: Instant) -> Option<u64> {
        self.wrong.fetch_add(1, Ordering::Relaxed);
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        buckets.take(source_of(source), now);
        if buckets.next_line.is_some_and(|next| now < next) {
            buckets.left_out += 1;
            return None;
        }
        buckets.next_line = Some(now + LINE_INTERVAL);
        Some(std::mem::take(&mut buckets.left_out))
    }

    /// Wrong tokens since the start.
    pub(crate) fn wrong(&self) -> u64 {
        self.wrong.load(Ordering::Relaxed)
    }

    /// Tokens that were not compared, since the start.
    pub(crate) fn slowed(&self) -> u64 {
        self.slowed.load(Ordering::Relaxed)
    }
}

impl Buckets {
    fn take(&mut self, source: IpAddr, now: Instant) {
        if self.full_at.len() >= SOURCES_MAX && !self.full_at.contains_key(&source) {
            self.full_at.retain(|_, full_at| *full_at > now);
            // The source with the fewest wrong tokens makes room, so that no source pays for those of others.
            if self.full_at.len() >= SOURCES_MAX
                && let Some((&fewest, _)) = self.full_at.iter().min_by_key(|(_, full_at)| **full_at)
            {
                self.full_at.remove(&fewest);
            }
        }
        let full_at = self.full_at.entry(source).or_insert(now);
        *full_at = (*full_at).max(now) + INTERVAL;
    }
}

/// Wrong tokens of a source at once.
const BURST: u32 = 20;
/// Time for another one: 10 a minute.
const INTERVAL: Duration = Duration::from_secs(6);
/// Maximum number of tracked sources.
const SOURCES_MAX: usize = 4096;
/// Minimum interval between two lines of the log.
const LINE_INTERVAL: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    fn guessed(guesses: &TokenGuesses, source: IpAddr, now: Instant, count: usize) -> usize {
        let mut compared = 0;
        for _ in 0..count {
            if guesses.may_try(source, now) {
                guesses.on_wrong(source, now);
                compared += 1;
            }
        }
        compared
    }

    #[test]
    fn a_source_has_a_burst_and_ten_a_minute_and_others_are_not_slowed() {
        let (guesses, start) = (TokenGuesses::default(), Instant::now());
        let [eve, near, other] = ["2001:db8::1", "2001:db8::2", "192.0.2.7"].map(|ip| ip.parse().unwrap());
        assert_eq!(guessed(&guesses, eve, start, 10_000), BURST as usize);
        assert_eq!((guesses.wrong(), guesses.slowed()), (u64::from(BURST), 10_000 - u64::from(BURST)));
        assert!(!guesses.may_try(near, start), "of the same network");
        assert!(guesses.may_try(other, start));
        assert_eq!(guessed(&guesses, eve, start + Duration::from_secs(60), 100), 10);
    }

    #[test]
    fn many_sources_are_bounded_and_cost_no_source_a_token() {
        let (guesses, start) = (TokenGuesses::default(), Instant::now());
        guessed(&guesses, IpAddr::from([192, 0, 2, 1]), start, 100);
        for number in 0..SOURCES_MAX as u32 * 2 {
            guesses.on_wrong(IpAddr::from((0x0a00_0000 + number).to_be_bytes()), start);
        }
        assert_eq!(guesses.buckets.lock().unwrap().full_at.len(), SOURCES_MAX);
        assert!(!guesses.may_try(IpAddr::from([192, 0, 2, 1]), start), "it stays slowed");
        assert!(guesses.may_try(IpAddr::from([192, 0, 2, 2]), start));
    }

    #[test]
    fn lines_of_the_log_are_limited_and_those_left_out_are_counted() {
        let (guesses, start) = (TokenGuesses::default(), Instant::now());
        let source = IpAddr::from([192, 0, 2, 1]);
        assert_eq!(
            [0, 1, 99, 100].map(|ms| guesses.on_wrong(source, start + Duration::from_millis(ms))),
            [Some(0), None, None, Some(2)]
        );
    }
}
