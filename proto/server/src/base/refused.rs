//! In-dialog INVITEs that were refused without a transaction.

use alloc::vec::Vec;
use ringway_transaction::MatchKey;

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
