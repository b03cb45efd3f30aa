//! Filter in front of the table of lamps: tells, without a lock, for nearly all users and calls that the table has nothing of them.

use core::hash::Hasher;
use core::sync::atomic::{AtomicU32, Ordering};
use ringway_sansio::{PartHasher, Seed};
use siphasher::sip::SipHasher13;

/// Counts of watched users and of lit calls, by parts of their keyed hashes. All shards read it, the table changes it.
#[derive(Debug)]
pub struct LampFilter {
    key: [u8; 16],
    watched: AtomicU32,
    lit: AtomicU32,
    users: [AtomicU32; SLOTS],
    calls: [AtomicU32; SLOTS],
}

/// Direction of a change of a count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    More,
    Less,
}

impl LampFilter {
    /// Creates an empty filter; the key is the first half of `seed`.
    pub fn new(seed: &Seed) -> Self {
        let mut key = [0; 16];
        key.copy_from_slice(seed.bytes().split_at(16).0);
        Self {
            key,
            watched: AtomicU32::new(0),
            lit: AtomicU32::new(0),
            users: [const { AtomicU32::new(0) }; SLOTS],
            calls: [const { AtomicU32::new(0) }; SLOTS],
        }
    }

    /// True if the dialogs of any user are watched.
    #[inline]
    pub fn is_watching(&self) -> bool {
        self.watched.load(Ordering::Relaxed) > 0
    }

    /// True if any call of a watched user is open.
    #[inline]
    pub fn has_calls(&self) -> bool {
        self.lit.load(Ordering::Relaxed) > 0
    }

    /// False if nobody watches the dialogs of `user@domain`.
    pub fn may_watch(&self, aor: &[u8]) -> bool {
        self.is_watching() && is_set(&self.users, self.hash(aor))
    }

    /// False if no call of a watched user has this Call-ID.
    pub fn may_have(&self, call_id: &[u8]) -> bool {
        self.has_calls() && is_set(&self.calls, self.hash(call_id))
    }

    pub(super) fn hash(&self, bytes: &[u8]) -> u64 {
        let mut hash = PartHasher::new(SipHasher13::new_with_key(&self.key));
        hash.part(bytes);
        hash.hasher().finish()
    }

    /// Identifier of a call in the documents of a user: a watcher of two users cannot tell that they are in one call.
    pub(super) fn shown_id(&self, user: &[u8], call: u64, from: u64) -> u64 {
        let mut hash = PartHasher::new(SipHasher13::new_with_key(&self.key));
        hash.part(user);
        hash.fixed(&call.to_be_bytes());
        hash.fixed(&from.to_be_bytes());
        hash.hasher().finish()
    }

    pub(super) fn count_user(&self, aor: &[u8], change: Change) {
        count(&self.watched, change);
        count(slot(&self.users, self.hash(aor)), change);
    }

    pub(super) fn count_call(&self, call: u64, change: Change) {
        count(&self.lit, change);
        count(slot(&self.calls, call), change);
    }
}

fn is_set(counts: &[AtomicU32; SLOTS], hash: u64) -> bool {
    slot(counts, hash).load(Ordering::Relaxed) > 0
}

const fn slot(counts: &[AtomicU32; SLOTS], hash: u64) -> &AtomicU32 {
    &counts[hash as usize % SLOTS]
}

fn count(count: &AtomicU32, change: Change) {
    match change {
        Change::More => count.fetch_add(1, Ordering::Relaxed),
        Change::Less => count.fetch_sub(1, Ordering::Relaxed),
    };
}

/// Parts of the hashes. With few watched users, and few calls of theirs, most others find their part empty.
const SLOTS: usize = 1024;
