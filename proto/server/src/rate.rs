//! Rate limit of requests by source address.

use core::net::IpAddr;
use core::time::Duration;
use hashbrown::HashMap;
use ringway_auth::SeededHash;
use ringway_sansio::{Instant, Seed, source_of};

/// Token buckets by source: `rate` requests a second, and at most the requests of one second at once. Full buckets are
/// removed; sources above [`SourceRates::SOURCES_MAX`] share one bucket.
#[derive(Debug)]
pub struct SourceRates {
    /// Time between two requests; zero: no limit.
    interval: Duration,
    /// Time at which the bucket of each source is full again. Peers choose the keys: a seeded hash.
    full_at: HashMap<IpAddr, Instant, SeededHash>,
    crowded_full_at: Instant,
}

impl SourceRates {
    /// Maximum number of tracked sources.
    pub const SOURCES_MAX: usize = 65_536;

    /// Creates it without tracked sources. `per_second` = 0: no limit.
    pub fn new(per_second: u32, seed: &Seed) -> Self {
        let interval = match per_second {
            0 => Duration::ZERO,
            rate => Duration::from_secs(1) / rate,
        };
        let hash = SeededHash::new(seed);
        Self { interval, full_at: HashMap::with_hasher(hash), crowded_full_at: Instant::default() }
    }

    /// Takes a token of `source`; false if it has none.
    pub fn admit(&mut self, now: Instant, source: IpAddr) -> bool {
        if self.interval.is_zero() {
            return true;
        }
        let source = source_of(source);
        if self.full_at.len() >= Self::SOURCES_MAX && !self.full_at.contains_key(&source) {
            self.full_at.retain(|_, full_at| *full_at > now);
            if self.full_at.len() >= Self::SOURCES_MAX {
                return take(&mut self.crowded_full_at, now, self.interval);
            }
        }
        take(self.full_at.entry(source).or_default(), now, self.interval)
    }
}

fn take(full_at: &mut Instant, now: Instant, interval: Duration) -> bool {
    let from = (*full_at).max(now);
    if from.since(now) + interval > Duration::from_secs(1) + interval / 2 {
        return false;
    }
    *full_at = from + interval;
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_at_once_then_the_rate() {
        let mut rates = SourceRates::new(10, &Seed::from_number(1));
        let source = "192.0.2.1".parse().unwrap();
        let start = Instant::from_secs(100);
        assert_eq!((0..50).filter(|_| rates.admit(start, source)).count(), 10);
        let later = start + Duration::from_millis(500);
        assert_eq!((0..50).filter(|_| rates.admit(later, source)).count(), 5);
        assert!(rates.admit(start, "192.0.2.2".parse().unwrap()));
    }

    #[test]
    fn zero_is_no_limit_and_a_crowd_is_bounded() {
        let mut rates = SourceRates::new(0, &Seed::from_number(1));
        assert!((0..10_000).all(|_| rates.admit(Instant::from_secs(1), "192.0.2.1".parse().unwrap())));
        let mut rates = SourceRates::new(1, &Seed::from_number(1));
        for number in 0..(SourceRates::SOURCES_MAX as u32 + 1000) {
            rates.admit(Instant::from_secs(1), IpAddr::from(number.to_be_bytes()));
        }
        assert_eq!(rates.full_at.len(), SourceRates::SOURCES_MAX);
    }
}
