//! Pending requests of strangers, for each user that they are for.

use core::hash::BuildHasher;
use hashbrown::HashMap;
use ringway_auth::SeededHash;
use ringway_sansio::Seed;

/// Numbers of requests, by user. A user without any has no entry, so there are no more entries than contexts.
#[derive(Debug)]
pub(crate) struct Pending {
    counts: HashMap<u64, u32, SeededHash>,
}

impl Pending {
    /// Maximum number of pending requests of strangers for one user.
    pub(crate) const REQUESTS_MAX: u32 = 256;

    pub(crate) fn new(seed: &Seed) -> Self {
        Self { counts: HashMap::with_hasher(SeededHash::new(seed)) }
    }

    /// Keyed hash of an address-of-record.
    pub(crate) fn name_of(&self, aor: &[u8]) -> u64 {
        self.counts.hasher().hash_one(aor)
    }

    pub(crate) fn has_room(&self, user: u64) -> bool {
        self.counts.get(&user).is_none_or(|count| *count < Self::REQUESTS_MAX)
    }

    pub(crate) fn begin(&mut self, user: u64) {
        *self.counts.entry(user).or_default() += 1;
    }

    pub(crate) fn end(&mut self, user: u64) {
        let Some(count) = self.counts.get_mut(&user) else { return };
        *count -= 1;
        if *count == 0 {
            self.counts.remove(&user);
        }
    }
}
