//! Lookups under way.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

/// Lookups under way; each ends once: by an answer, by its deadline, or when the store fails.
pub(crate) struct Lookups {
    waiting: VecDeque<Lookup>,
    /// Sent to the store, by number.
    asked: BTreeMap<u64, Lookup>,
    max: usize,
    pub(crate) is_open: bool,
    pub(crate) begun: u64,
    pub(crate) failed: u64,
}

#[derive(Clone)]
pub(crate) struct Lookup {
    pub(crate) query: u64,
    pub(crate) aor: Vec<u8>,
    deadline: Instant,
}

impl Lookups {
    pub(crate) const fn new(holds_all: bool) -> Self {
        let max = if holds_all { LOOKUPS_MAX } else { LOOKUPS_MAX_SERVED };
        Self { waiting: VecDeque::new(), asked: BTreeMap::new(), max, is_open: false, begun: 0, failed: 0 }
    }

    /// Adds a lookup. False: the store is away, or too many are under way.
    pub(crate) fn begin(&mut self, query: u64, aor: &[u8], now: Instant) -> bool {
        let is_begun = self.is_open && self.waiting.len() + self.asked.len() < self.max;
        if is_begun {
            self.begun += 1;
            self.waiting.push_back(Lookup { query, aor: aor.to_vec(), deadline: now + LOOKUP_TIME_MAX });
        } else {
            self.failed += 1;
        }
        is_begun
    }

    pub(crate) fn is_under_way(&self) -> bool {
        !self.waiting.is_empty() || !self.asked.is_empty()
    }

    /// Moves the lookups that wait to those that were sent, and returns them.
    pub(crate) fn ask(&mut self) -> Vec<Lookup> {
        let lookups: Vec<Lookup> = self.waiting.drain(..).collect();
        self.asked.extend(lookups.iter().map(|lookup| (lookup.query, lookup.clone())));
        lookups
    }

    /// Ends an asked lookup. False: it ended before.
    pub(crate) fn end(&mut self, query: u64) -> bool {
        self.asked.remove(&query).is_some()
    }

    /// Ends lookups whose deadline is over.
    pub(crate) fn expire(&mut self, now: Instant) -> Vec<u64> {
        let mut ended = Vec::new();
        let mut is_left = |lookup: &Lookup| {
            let is_left = lookup.deadline > now;
            if !is_left {
                ended.push(lookup.query);
            }
            is_left
        };
        self.waiting.retain(&mut is_left);
        self.asked.retain(|_, lookup| is_left(lookup));
        self.failed += ended.len() as u64;
        ended
    }

    /// Ends all lookups, and refuses new ones.
    pub(crate) fn close(&mut self) -> Vec<u64> {
        self.is_open = false;
        let waiting = std::mem::take(&mut self.waiting).into_iter().map(|lookup| lookup.query);
        let ended: Vec<u64> = waiting.chain(std::mem::take(&mut self.asked).into_keys()).collect();
        self.failed += ended.len() as u64;
        ended
    }
}

/// Maximum number of lookups under way if all records are held, and if they are not.
const LOOKUPS_MAX: usize = 256;
const LOOKUPS_MAX_SERVED: usize = 4_096;
/// Maximum time of a lookup.
const LOOKUP_TIME_MAX: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_lookup_ends_once() {
        let (mut lookups, now) = (Lookups { is_open: true, ..Lookups::new(true) }, Instant::now());
        for query in 0..LOOKUPS_MAX as u64 {
            assert!(lookups.begin(query, b"a", now));
        }
        assert!(!lookups.begin(999, b"a", now));
        assert_eq!(lookups.ask().len(), LOOKUPS_MAX);
        assert!(lookups.end(7) && !lookups.end(7));
        assert!(lookups.begin(1_000, b"b", now + LOOKUP_TIME_MAX));
        assert_eq!(lookups.expire(now + LOOKUP_TIME_MAX).len(), LOOKUPS_MAX - 1);
        assert!(!lookups.end(8), "it ended by its deadline");
        assert_eq!(lookups.close(), [1_000]);
        assert!(!lookups.begin(1, b"a", now));
        assert_eq!(lookups.failed, 1 + LOOKUPS_MAX as u64 - 1 + 1 + 1);
    }
}
