//! Reading of all records, tag by tag and page by page, while the streams are followed.

use crate::keys::TAGS;
use std::collections::VecDeque;
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
}
