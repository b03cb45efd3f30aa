//! Entries of a trace, bounded in number, bytes and rate.

use ringway_admin::{TraceEntry, TracePage};
use std::collections::VecDeque;
use std::time::Instant;

/// The last entries of a trace. Each has a number; numbers without an entry were lost.
#[derive(Debug, Default)]
pub(super) struct Ring {
    entries: VecDeque<TraceEntry>,
    bytes: usize,
    /// Number of the last entry.
    last: u64,
    second: Option<Instant>,
    in_second: u32,
}

impl Ring {
    /// Takes the number of the next entry; `None`: it is lost, because there were too many in this second.
    pub(super) fn admit(&mut self, now: Instant) -> Option<u64> {
        self.last += 1;
        if self.second.is_none_or(|second| now.saturating_duration_since(second).as_secs() > 0) {
            self.second = Some(now);
            self.in_second = 0;
        }
        self.in_second += 1;
        (self.in_second <= ENTRIES_PER_SECOND).then_some(self.last)
    }

    /// Adds an entry; returns the number of earlier ones that made room for it.
    pub(super) fn push(&mut self, entry: TraceEntry) -> u64 {
        self.bytes += bytes_of(&entry);
        self.entries.push_back(entry);
        let mut removed = 0;
        while self.entries.len() > ENTRIES_MAX || self.bytes > BYTES_MAX {
            let Some(oldest) = self.entries.pop_front() else { break };
            self.bytes -= bytes_of(&oldest);
            removed += 1;
        }
        removed
    }

    /// No entries, and the number of the last one.
    pub(super) fn end(&self) -> TracePage {
        TracePage { next: self.last, ..TracePage::default() }
    }

    /// Entries after number `after`. A number that the trace has not reached is one of an earlier trace: it counts as 0.
    pub(super) fn page(&self, after: u64, max: usize) -> TracePage {
        let after = if after > self.last { 0 } else { after };
        let newer = self.entries.iter().filter(|entry| entry.n > after);
        let entries: Vec<_> = newer.take(max).cloned().collect();
        let is_whole = entries.len() < max;
        let next = if is_whole { self.last } else { entries.last().map_or(after, |last| last.n) };
        let lost = (next - after).saturating_sub(entries.len() as u64);
        TracePage { entries, next, lost }
    }
}

/// Bytes that an entry takes.
fn bytes_of(entry: &TraceEntry) -> usize {
    let TraceEntry { n: _, time, kind: _, flow, first_line, call_id, cseq, from, to, text, reason: _ } =
        entry;
    let texts = [time, flow, first_line, call_id, cseq].into_iter().chain(from).chain(to).chain(text);
    size_of::<TraceEntry>() + texts.map(String::capacity).sum::<usize>()
}

/// Maximum number of entries.
const ENTRIES_MAX: usize = 2000;
/// Maximum number of their bytes.
const BYTES_MAX: usize = 1 << 20;
/// Maximum number of entries that are made in a second.
const ENTRIES_PER_SECOND: u32 = 1000;

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn fill(ring: &mut Ring, count: u64, bytes: usize, from: Instant) -> u64 {
        let mut removed = 0;
        for number in 0..count {
            let now = from + Duration::from_millis(2 * number);
            if let Some(n) = ring.admit(now) {
                removed +=
                    ring.push(TraceEntry { n, first_line: "x".repeat(bytes), ..TraceEntry::default() });
            }
        }
        removed
    }

    #[test]
    fn old_entries_make_room_and_the_reader_gets_their_number() {
        let (mut ring, now) = (Ring::default(), Instant::now());
        assert_eq!(fill(&mut ring, 2500, 10, now), 500);
        let page = ring.page(0, 5000);
        assert_eq!((page.entries.len(), page.next, page.lost), (2000, 2500, 500));
        let page = ring.page(600, 100);
        assert_eq!((page.entries.len(), page.next, page.lost), (100, 700, 0));
        assert_eq!(ring.page(2500, 100), TracePage { next: 2500, ..TracePage::default() });
        assert_eq!(ring.end(), ring.page(2500, 100));
        assert_eq!(ring.page(9999, 1).entries[0].n, 501, "a number of an earlier trace");
        fill(&mut ring, 2000, 4000, now + Duration::from_secs(60));
        assert!(ring.bytes <= BYTES_MAX && ring.entries.len() < 300);
    }

    #[test]
    fn a_flood_makes_no_more_entries_than_its_second_permits() {
        let (mut ring, now) = (Ring::default(), Instant::now());
        let made = (0..50_000).filter(|_| ring.admit(now).is_some()).count();
        assert_eq!(made, 1000);
        assert_eq!(ring.page(0, 500), TracePage { next: 50_000, lost: 50_000, ..TracePage::default() });
        assert!(ring.admit(now + Duration::from_secs(1)).is_some());
    }
}
