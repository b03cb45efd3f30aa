//! Reading of all records, tag by tag and page by page, while the streams are followed; what such a read did not confirm is
//! dropped. Users whose records are read by their keys because entries of a stream are not enough.

use crate::scripts::TAGS;
use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

/// Reading of all records.
pub(crate) struct Walk {
    /// Tags that are not read, with their cursors.
    tags: VecDeque<(usize, String)>,
    since: Instant,
    read: u64,
    /// True if all were read once. Later reads are slower.
    is_again: bool,
    next_at: Instant,
    second: (Instant, u64),
}

impl Walk {
    /// Begins with all tags.
    pub(crate) fn new(now: Instant) -> Self {
        let mut walk = Self::none(now);
        walk.add(0..TAGS, now);
        walk
    }

    /// Reads nothing until tags are added.
    pub(crate) const fn none(now: Instant) -> Self {
        Self { tags: VecDeque::new(), since: now, read: 0, is_again: false, next_at: now, second: (now, 0) }
    }

    /// Adds tags; one that is being read begins anew.
    pub(crate) fn add(&mut self, tags: impl Iterator<Item = usize>, now: Instant) {
        if self.tags.is_empty() {
            (self.since, self.read, self.next_at, self.second) = (now, 0, now, (now, 0));
        }
        for tag in tags {
            self.tags.retain(|(known, _)| *known != tag);
            self.tags.push_back((tag, "0".to_owned()));
        }
    }

    /// Begins the tag that is being read anew: cursors are those of one server.
    pub(crate) fn restart(&mut self) {
        if let Some((_, cursor)) = self.tags.front_mut() {
            "0".clone_into(cursor);
        }
    }

    /// Time of the next page; `None`: all is read.
    pub(crate) fn next_at(&self) -> Option<Instant> {
        (!self.tags.is_empty()).then_some(self.next_at)
    }

    /// Tag and cursor of the next page.
    pub(crate) fn page(&self) -> Option<(usize, String)> {
        self.tags.front().cloned()
    }

    /// Notes a page of `records`, read until `now`. Some: all is read, with the number of records and the time that it took.
    pub(crate) fn read(&mut self, cursor: &str, records: u64, now: Instant) -> Option<(u64, Duration)> {
        self.read += records;
        self.second.1 += records;
        if self.is_again {
            self.next_at = now + Duration::from_secs(records) / RATE_AGAIN;
        }
        match self.tags.front_mut() {
            Some((_, known)) if cursor != "0" => cursor.clone_into(known),
            _ => drop(self.tags.pop_front()),
        }
        let is_done = self.tags.is_empty();
        self.is_again |= is_done;
        is_done.then(|| (self.read, now.saturating_duration_since(self.since)))
    }

    /// Records read in the last second, once a second.
    pub(crate) fn rate(&mut self, now: Instant) -> Option<u64> {
        let passed = now.saturating_duration_since(self.second.0);
        if passed < Duration::from_secs(1) {
            return None;
        }
        let rate = self.second.1 as f64 / passed.as_secs_f64();
        self.second = (now, 0);
        Some(rate as u64)
    }
}

/// Maximum number of records read a second after the first time.
const RATE_AGAIN: u32 = 20_000;

/// Number of the newest read of all records of each tag; 0: none.
pub type Walks = [u32; TAGS];

/// Reads of all records, and the time after them.
pub(crate) struct Sweep {
    walks: Walks,
    last: u32,
    is_open: bool,
    is_loss: bool,
    /// Number of checks of the store's marks at the end of the reads.
    ended_at: Option<u64>,
}

impl Sweep {
    pub(crate) const fn new() -> Self {
        Self { walks: [0; TAGS], last: 0, is_open: false, is_loss: false, ended_at: None }
    }

    /// Notes that the records of some tags are read from now on; `is_loss`: the store may have lost some. Returns the number of the read.
    pub(crate) fn begin(&mut self, tags: &[usize], is_loss: bool) -> u32 {
        self.last = self.last.saturating_add(1);
        for tag in tags {
            if let Some(walk) = self.walks.get_mut(*tag) {
                *walk = self.last;
            }
        }
        (self.is_open, self.ended_at) = (true, None);
        self.is_loss |= is_loss;
        self.last
    }

    /// Reads, and whether the store may have lost data, once nothing is being read and the marks of the store were checked since: a loss
    /// is found by them. `checks` is the number of checks.
    pub(crate) fn due(&mut self, is_reading: bool, checks: u64) -> Option<(Walks, bool)> {
        if !self.is_open || is_reading {
            return None;
        }
        let ended_at = *self.ended_at.get_or_insert(checks);
        // One that was under way at the end is not enough.
        if checks < ended_at + 2 {
            return None;
        }
        self.is_open = false;
        Some((self.walks, std::mem::take(&mut self.is_loss)))
    }
}

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
    fn all_tags_are_read_once_and_again_at_a_limited_rate() {
        let now = Instant::now();
        let mut walk = Walk::new(now);
        assert_eq!(walk.page(), Some((0, "0".to_owned())));
        assert_eq!(walk.read("77", 10, now), None);
        assert_eq!(walk.page(), Some((0, "77".to_owned())));
        walk.restart();
        assert_eq!(walk.page(), Some((0, "0".to_owned())));
        for _ in 1..TAGS {
            assert_eq!(walk.read("0", 10, now), None);
        }
        let later = now + Duration::from_secs(2);
        assert_eq!(walk.read("0", 10, later), Some((650, Duration::from_secs(2))));
        assert_eq!((walk.next_at(), walk.rate(later)), (None, Some(325)));
        walk.add([5, 6, 5].into_iter(), later);
        assert_eq!(walk.page(), Some((6, "0".to_owned())));
        walk.read("0", 200, later);
        assert_eq!(walk.next_at(), Some(later + Duration::from_millis(10)));
    }

    #[test]
    fn what_was_not_read_is_dropped_after_two_checks_of_the_marks() {
        let mut sweep = Sweep::new();
        assert_eq!(sweep.due(false, 9), None, "nothing was read");
        assert_eq!(sweep.begin(&[0, 1, 2], false), 1);
        assert_eq!((sweep.due(true, 10), sweep.due(false, 20), sweep.due(false, 21)), (None, None, None));
        // The second check found a loss.
        assert_eq!(sweep.begin(&[1], true), 2);
        assert_eq!((sweep.due(true, 22), sweep.due(false, 23), sweep.due(false, 24)), (None, None, None));
        let (walks, is_loss) = sweep.due(false, 25).unwrap();
        assert_eq!((&walks[..4], is_loss), (&[1, 2, 1, 0][..], true));
        assert_eq!(sweep.due(false, 99), None);
        sweep.begin(&[3], false);
        sweep.due(false, 99);
        assert_eq!(sweep.due(false, 101).map(|(walks, is_loss)| (walks[3], is_loss)), Some((3, false)));
    }

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
