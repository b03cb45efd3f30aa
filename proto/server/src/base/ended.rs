//! INVITEs that are remembered without a transaction: those that ended early, and those that were refused in a dialog.

use alloc::vec::Vec;
use core::time::Duration;
use hashbrown::HashSet;
use ringway_auth::SeededHash;
use ringway_sansio::{Instant, Seed, TableSize};
use ringway_transaction::MatchKey;

/// Keys of INVITEs with a password, by which the same datagram is recognised as a replay: it proves the password once more for
/// [`EndedInvites::LIFE`], as a retransmission of a request of which nothing is kept does, and would ring again.
///
/// Two generations are kept. When the younger is full or as old as that time, the older is dropped.
#[derive(Debug)]
pub(crate) struct EndedInvites {
    young: HashSet<MatchKey, SeededHash>,
    old: HashSet<MatchKey, SeededHash>,
    young_since: Instant,
}

impl EndedInvites {
    /// 64·T1 (RFC 3261 §17.1.2.2), the time for which a nonce count may be repeated.
    pub(crate) const LIFE: Duration = Duration::from_secs(32);
    /// Maximum number of INVITEs in a generation.
    pub(crate) const GENERATION_MAX: usize = 16_384;

    pub(crate) fn new(seed: &Seed) -> Self {
        let hash = SeededHash::new(seed);
        Self {
            young: HashSet::with_hasher(hash),
            old: HashSet::with_hasher(hash),
            young_since: Instant::default(),
        }
    }

    /// Memory of both generations.
    pub(crate) const fn size() -> TableSize {
        TableSize::of_filled_map("ended INVITEs", Self::GENERATION_MAX, size_of::<MatchKey>()).times(2)
    }

    /// Notes an INVITE. False: others were dropped early for it.
    pub(crate) fn note(&mut self, now: Instant, key: MatchKey) -> bool {
        let is_over = now.since(self.young_since) >= Self::LIFE;
        let is_full = self.young.len() >= Self::GENERATION_MAX;
        if is_over || is_full {
            core::mem::swap(&mut self.young, &mut self.old);
            self.young.clear();
            self.young_since = now;
        }
        self.young.insert(key);
        !is_full || is_over
    }

    /// True for an INVITE that was noted.
    pub(crate) fn contains(&self, key: MatchKey) -> bool {
        (!self.young.is_empty() && self.young.contains(&key))
            || (!self.old.is_empty() && self.old.contains(&key))
    }
}

/// Keys of the last refused in-dialog INVITEs, for matching their ACKs. An ACK that is not found is forwarded to the
/// other side of its dialog, which ignores it.
#[derive(Debug, Default)]
pub(crate) struct RefusedInDialog {
    keys: Vec<MatchKey>,
    next: usize,
}

impl RefusedInDialog {
    const KEYS_MAX: usize = 64;

    pub(crate) fn push(&mut self, key: MatchKey) {
        match self.keys.get_mut(self.next) {
            Some(oldest) => *oldest = key,
            None => self.keys.push(key),
        }
        self.next = (self.next + 1) % Self::KEYS_MAX;
    }

    pub(crate) fn contains(&self, key: MatchKey) -> bool {
        self.keys.contains(&key)
    }
}
