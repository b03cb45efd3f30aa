//! Forwards of the users of one shard.

use alloc::boxed::Box;
use alloc::sync::Arc;
use hashbrown::HashMap;
use ringway_auth::SeededHash;
use ringway_sansio::Seed;
use ringway_users::Forwards;

/// Forwards by address-of-record. A user without any has no entry.
#[derive(Debug)]
pub(crate) struct ForwardTable {
    users: HashMap<Box<[u8]>, Arc<Forwards>, SeededHash>,
}

impl ForwardTable {
    pub(crate) fn new(seed: &Seed) -> Self {
        Self { users: HashMap::with_hasher(SeededHash::new(seed)) }
    }

    /// Replaces the forwards of `user@domain`; empty ones remove them.
    pub(crate) fn set(&mut self, aor: &[u8], forwards: Forwards) {
        if forwards.is_empty() {
            self.users.remove(aor);
        } else {
            self.users.insert(aor.into(), Arc::new(forwards));
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.users.is_empty()
    }

    /// Forwards of `user@domain`.
    pub(crate) fn find(&self, aor: &[u8]) -> Option<&Arc<Forwards>> {
        self.users.get(aor)
    }
}
