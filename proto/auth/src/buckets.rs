//! Token buckets.

use crate::SeededHash;
use core::time::Duration;
use hashbrown::HashMap;
use ringway_sansio::Instant;

/// Token buckets by a keyed hash; full ones are removed.
#[derive(Debug)]
pub(crate) struct Buckets {
    burst: u32,
    interval: Duration,
    full_at: HashMap<u64, Instant, SeededHash>,
    /// Bucket of all that are not tracked because the table is full.
    crowded_full_at: Instant,
    swept_at: Instant,
}

impl Buckets {
    pub(crate) fn new(burst: u32, interval: Duration, hash: SeededHash) -> Self {
        let full_at = HashMap::with_hasher(hash);
        Self { burst, interval, full_at, crowded_full_at: Instant::default(), swept_at: Instant::default() }
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.full_at.len()
    }

    pub(crate) fn has(&self, now: Instant, key: u64) -> bool {
        let full_at = match self.full_at.get(&key) {
            Some(full_at) => *full_at,
            None if self.full_at.len() >= TRACKED_MAX => self.crowded_full_at,
            None => return true,
        };
        has_token(full_at, now, self.burst, self.interval)
    }

    /// Takes a token. Returns the time at which the bucket is full again.
    pub(crate) fn take(&mut self, now: Instant, key: u64) -> Instant {
        if self.full_at.len() >= TRACKED_MAX && !self.full_at.contains_key(&key) {
            // A scan for each wrong password would cost more than checking it.
            if now.since(self.swept_at) >= self.interval {
                self.swept_at = now;
                self.full_at.retain(|_, full_at| *full_at > now);
            }
            if self.full_at.len() >= TRACKED_MAX {
                self.crowded_full_at = self.crowded_full_at.max(now) + self.interval;
                return self.crowded_full_at;
            }
        }
        let full_at = self.full_at.entry(key).or_default();
        *full_at = (*full_at).max(now) + self.interval;
        *full_at
    }
}

/// True if a bucket that is full at `full_at` has a token.
pub(crate) fn has_token(full_at: Instant, now: Instant, burst: u32, interval: Duration) -> bool {
    full_at.since(now) + interval <= interval * burst
}

/// Maximum number of buckets in a table; further keys share one.
pub(crate) const TRACKED_MAX: usize = 65_536;
