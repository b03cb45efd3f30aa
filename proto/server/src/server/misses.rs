//! Users that had no bindings in the store that nodes share a moment ago.

use alloc::collections::VecDeque;
use core::hash::BuildHasher;
use core::time::Duration;
use hashbrown::HashMap;
use ringway_auth::SeededHash;
use ringway_sansio::{Instant, Seed};

/// Users that had no bindings a moment ago: they are not looked up again so soon. Beyond the maximum the oldest is forgotten.
pub(super) struct Misses {
    /// End of each, by the keyed hash of its user.
    until: HashMap<u64, Instant, SeededHash>,
    /// The same in the order of the ends; some are forgotten already.
    order: VecDeque<(Instant, u64)>,
    hash: SeededHash,
}

impl Misses {
    /// Time for which a user is remembered.
    pub(super) const DURATION: Duration = Duration::from_secs(1);
    const USERS_MAX: usize = 16_384;

    pub(super) fn new(seed: &Seed) -> Self {
        let hash = SeededHash::new(seed);
        Self { until: HashMap::with_hasher(hash), order: VecDeque::new(), hash }
    }

    pub(super) fn note(&mut self, now: Instant, aor: &[u8]) {
        self.forget_old(now);
        let (user, until) = (self.hash.hash_one(aor), now + Self::DURATION);
        self.until.insert(user, until);
        self.order.push_back((until, user));
    }

    pub(super) fn has(&self, now: Instant, aor: &[u8]) -> bool {
        !self.until.is_empty() && self.until.get(&self.hash.hash_one(aor)).is_some_and(|until| *until > now)
    }

    pub(super) fn forget(&mut self, aor: &[u8]) {
        if !self.until.is_empty() {
            self.until.remove(&self.hash.hash_one(aor));
        }
    }

    fn forget_old(&mut self, now: Instant) {
        while let Some(&(until, user)) = self.order.front()
            && (until <= now || self.order.len() >= Self::USERS_MAX)
        {
            self.order.pop_front();
            if self.until.get(&user) == Some(&until) {
                self.until.remove(&user);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_miss_is_remembered_for_a_second_and_their_number_is_bounded() {
        let (mut misses, now) = (Misses::new(&Seed::from_number(1)), Instant::from_secs(10));
        misses.note(now, b"bob@x");
        let later = now + Misses::DURATION;
        assert!(misses.has(now, b"bob@x") && !misses.has(now, b"carol@x") && !misses.has(later, b"bob@x"));
        misses.forget(b"bob@x");
        assert!(!misses.has(now, b"bob@x"));
        for number in 0..2 * Misses::USERS_MAX as u32 {
            misses.note(now, &number.to_be_bytes());
        }
        assert_eq!((misses.until.len(), misses.order.len()), (Misses::USERS_MAX, Misses::USERS_MAX));
        misses.note(later, b"bob@x");
        assert_eq!((misses.until.len(), misses.order.len()), (1, 1));
    }
}
