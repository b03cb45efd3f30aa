//! Limits of challenges to clients that answer each of them with a digest that proves nothing.

use crate::buckets::Buckets;
use crate::{Login, SeededHash};
use core::time::Duration;
use ringway_sansio::{Instant, Seed};

/// Token buckets of unusable digests, for each user at each source.
///
/// Only digests with a fresh nonce for their source count, so that nobody takes tokens with a forged address. The limit
/// replaces challenges to unusable digests and nothing else: it refuses no client whose digests can be verified.
#[derive(Debug)]
pub struct ChallengeLimits {
    hash: SeededHash,
    buckets: Buckets,
}

impl ChallengeLimits {
    /// Challenges at once.
    pub const BURST: u32 = 10;
    /// Time for one further challenge.
    pub const INTERVAL: Duration = Duration::from_secs(60);

    /// Creates it with all tokens.
    pub fn new(seed: &Seed) -> Self {
        let hash = SeededHash::new(seed);
        Self { hash, buckets: Buckets::new(Self::BURST, Self::INTERVAL, hash) }
    }

    /// Takes a token; false if there is none.
    pub fn may_challenge(&mut self, now: Instant, login: &Login<'_>) -> bool {
        let key = login.hash_with_source(self.hash);
        let has_token = self.buckets.has(now, key);
        if has_token {
            self.buckets.take(now, key);
        }
        has_token
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buckets::TRACKED_MAX;

    const START: Instant = Instant::from_secs(1_800_000_000);

    fn login<'a>(user: &'a [u8], source: &str) -> Login<'a> {
        Login { user, domain: b"example.org", source: source.parse().unwrap() }
    }

    #[test]
    fn ten_at_once_and_one_a_minute_for_each_user_at_each_source() {
        let mut limits = ChallengeLimits::new(&Seed::from_number(1));
        let old_phone = login(b"alice", "192.0.2.1");
        let allowed = |limits: &mut ChallengeLimits, now, login: &Login<'_>| {
            (0..100).filter(|_| limits.may_challenge(now, login)).count()
        };
        assert_eq!(allowed(&mut limits, START, &old_phone), 10);
        assert_eq!(allowed(&mut limits, START, &login(b"bob", "192.0.2.1")), 10);
        assert_eq!(allowed(&mut limits, START, &login(b"alice", "192.0.2.2")), 10);
        assert_eq!(allowed(&mut limits, START + Duration::from_secs(180), &old_phone), 3);
    }

    #[test]
    fn what_is_tracked_is_bounded() {
        let mut limits = ChallengeLimits::new(&Seed::from_number(1));
        for number in 0..TRACKED_MAX as u32 + 1000 {
            limits.may_challenge(START, &login(&number.to_be_bytes(), "192.0.2.1"));
        }
        assert_eq!(limits.buckets.len(), TRACKED_MAX);
        assert!(!limits.may_challenge(START, &login(b"new", "192.0.2.1")), "those above share one bucket");
        let later = START + Duration::from_secs(601);
        assert!(limits.may_challenge(later, &login(b"new", "192.0.2.1")));
    }
}
