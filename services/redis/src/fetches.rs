//! Users whose records are read by their keys because entries of a stream are not enough.

use std::collections::BTreeMap;

/// Users whose records are read by their keys. Their number is bounded by that of the entries of a reply: with as many as
/// [`FETCHES_MAX`] the reader asks for no news.
#[derive(Default)]
pub(crate) struct Fetches {
    /// Numbers of the newest updates of this node that the records answer; 0: none.
    waiting: BTreeMap<Vec<u8>, u64>,
}

impl Fetches {
    /// Adds a user; one that waits is read once.
    pub(crate) fn add(&mut self, aor: Vec<u8>, number: u64) {
        let known = self.waiting.entry(aor).or_default();
        *known = (*known).max(number);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// False while the reader may not ask for news.
    pub(crate) fn has_room(&self) -> bool {
        self.waiting.len() < FETCHES_MAX
    }

    /// The next users, with the numbers of their updates.
    pub(crate) fn next(&self) -> Vec<(Vec<u8>, u64)> {
        self.waiting.iter().take(FETCHED_AT_ONCE).map(|(aor, number)| (aor.clone(), *number)).collect()
    }

    /// Removes a user that was read.
    pub(crate) fn remove(&mut self, aor: &[u8]) {
        self.waiting.remove(aor);
    }
}

/// Number of users that wait from which on the reader asks for no news.
const FETCHES_MAX: usize = 1_024;
/// Number of users that are read together: 4 MiB at most.
const FETCHED_AT_ONCE: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_read_once_for_the_newest_update() {
        let mut fetches = Fetches::default();
        for (aor, number) in [(b"b", 0), (b"a", 3), (b"a", 7), (b"a", 0)] {
            fetches.add(aor.to_vec(), number);
        }
        assert_eq!(fetches.next(), [(b"a".to_vec(), 7), (b"b".to_vec(), 0)]);
        fetches.remove(b"a");
        for number in 1..FETCHES_MAX as u32 {
            assert!(fetches.has_room());
            fetches.add(number.to_le_bytes().to_vec(), 0);
        }
        assert!(!fetches.has_room() && fetches.next().len() == FETCHED_AT_ONCE);
    }
}
