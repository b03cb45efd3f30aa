//! Sides of dialogs that moved, and flows that phones left.

use super::{UriHash, UserHash, Way};
use crate::sources::SourceHash;
use crate::token::{Side, TargetHash};
use alloc::collections::VecDeque;
use core::hash::Hasher;
use core::time::Duration;
use hashbrown::HashMap;
use ringway_auth::SeededHash;
use ringway_sansio::{Flow, Instant, PartHasher, Seed};
use ringway_sip::Message;
use siphasher::sip::SipHasher13;

/// Sides of dialogs that moved, and flows that a later registration of the same phone replaced.
///
/// A user agent keeps the route set of its dialog (RFC 3261 §12.2), so a mark cannot be replaced. All shards share one table, because
/// the requests of the two sides are in different shards. It is lost in a restart.
#[derive(Debug)]
pub struct SideTable {
    /// Keys are our own keyed hashes, but peers choose which of them are used: a seeded hash.
    moved: HashMap<u64, Moved, SeededHash>,
    left: HashMap<u64, Left, SeededHash>,
    /// Keys of `left`, the earliest first.
    order: VecDeque<u64>,
    entries_max: usize,
    /// Time of the last search for moves that have ended.
    swept: Instant,
}

/// One side of one dialog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DialogSide(u64);

/// Side that moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moved {
    pub(crate) way: Way,
    /// Address that it sends from, beside those in the mark.
    pub(crate) source: SourceHash,
    /// Its Contact.
    pub(crate) target: UriHash,
    /// Time of the move in seconds since the epoch.
    pub(crate) at_s: u64,
    pub(crate) until: Instant,
}

/// Flow that a phone had.
#[derive(Clone, Copy, Debug)]
struct Left {
    /// Flow that it has since.
    to: Side,
    user: UserHash,
    at_s: u64,
    until: Instant,
}

impl DialogSide {
    /// Side that sends a request in a dialog; `is_caller`: the one that began it.
    pub(crate) fn of_sender(key: &[u8; 16], request: &Message<'_>, is_caller: bool) -> Self {
        let (from, to) = (request.from(), request.to());
        let (caller, callee) = if is_caller { (from, to) } else { (to, from) };
        let mut hash = PartHasher::new(SipHasher13::new_with_key(key));
        hash.fixed(b"dialog");
        for part in [request.call_id(), caller.tag().unwrap_or_default(), callee.tag().unwrap_or_default()] {
            hash.part(part);
        }
        Self((hash.hasher().finish() & !1) | u64::from(is_caller))
    }

    /// The other side of the same dialog.
    pub(crate) const fn other(self) -> Self {
        Self(self.0 ^ 1)
    }
}

impl SideTable {
    /// Default maximum number of moved sides, and of flows that were left.
    pub const ENTRIES_MAX: usize = 65_536;

    /// Maximum number of flows that a phone took one after another since the mark was made.
    const STEPS_MAX: usize = 8;

    /// Creates an empty table of `entries_max` sides, and as many flows.
    pub fn new(seed: &Seed, entries_max: usize) -> Self {
        let hash = SeededHash::new(seed);
        Self {
            moved: HashMap::with_hasher(hash),
            left: HashMap::with_hasher(hash),
            order: VecDeque::new(),
            entries_max,
            swept: Instant::default(),
        }
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.moved.len() + self.left.len()
    }

    /// True without entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn moved(&self, now: Instant, side: DialogSide) -> Option<&Moved> {
        self.moved.get(&side.0).filter(|moved| moved.until > now)
    }

    /// Notes where a side is; false, if the table is full.
    pub(crate) fn note_moved(&mut self, now: Instant, side: DialogSide, moved: Moved) -> bool {
        if self.moved.len() >= self.entries_max && !self.moved.contains_key(&side.0) {
            if now.since(self.swept) >= SWEEP_INTERVAL {
                self.swept = now;
                self.moved.retain(|_, moved| moved.until > now);
            }
            if self.moved.len() >= self.entries_max {
                return false;
            }
        }
        self.moved.insert(side.0, moved);
        true
    }

    /// Forgets both sides of a dialog.
    pub(crate) fn end(&mut self, side: DialogSide) {
        self.moved.remove(&side.0);
        self.moved.remove(&side.other().0);
    }

    /// Notes that a phone of `user` has registered over `to` instead of `from`; false, if the earliest other flow was forgotten for
    /// it.
    pub(crate) fn note_left(
        &mut self,
        key: &[u8; 16],
        (from, to): (&Flow, Side),
        user: UserHash,
        (now, until): (Instant, Instant),
    ) -> bool {
        let mut has_room = true;
        let from = key_of(key, side_of(from));
        if !self.left.contains_key(&from) {
            while self.left.len() >= self.entries_max
                && let Some(earliest) = self.order.pop_front()
            {
                let forgotten = self.left.remove(&earliest);
                has_room &= forgotten.is_none_or(|left| left.until <= now);
            }
            self.order.push_back(from);
        }
        self.left.insert(from, Left { to, user, at_s: now.as_secs(), until });
        has_room
    }

    /// Flow that the phone of `user` has registered with since `since_s`, instead of `side`.
    pub(crate) fn registered(
        &self,
        key: &[u8; 16],
        side: Side,
        user: UserHash,
        (now, mut since_s): (Instant, u64),
    ) -> Option<Side> {
        let mut current = None;
        for _ in 0..Self::STEPS_MAX {
            let left = self.left.get(&key_of(key, current.unwrap_or(side)));
            let is_it = |left: &&Left| left.until > now && left.user == user && left.at_s >= since_s;
            let Some(left) = left.filter(is_it) else { break };
            (current, since_s) = (Some(left.to), left.at_s);
        }
        current
    }
}

/// Side at the other end of a flow.
pub(crate) fn side_of(flow: &Flow) -> Side {
    match flow.connection {
        Some(connection) => Side::Connection(connection, flow.listener, TargetHash::NONE),
        None => Side::Address(flow.listener, flow.remote),
    }
}

fn key_of(key: &[u8; 16], side: Side) -> u64 {
    let mut text = alloc::vec::Vec::new();
    match side {
        Side::Connection(connection, listener, _) => {
            Side::Connection(connection, listener, TargetHash::NONE).write(&mut text);
        }
        side => side.write(&mut text),
    }
    let mut hash = PartHasher::new(SipHasher13::new_with_key(key));
    hash.fixed(b"flow");
    hash.part(&text);
    hash.hasher().finish()
}

/// Time between two searches for moves that have ended, in a full table.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;
    use core::time::Duration;
    use ringway_sansio::ListenerId;

    const KEY: [u8; 16] = [7; 16];
    const NOW: Instant = Instant::from_secs(1000);

    fn flow(port: u16) -> Flow {
        Flow::udp(ListenerId(0), ([192, 0, 2, 1], port).into())
    }

    fn table() -> SideTable {
        SideTable::new(&Seed::from_number(1), 4)
    }

    #[test]
    fn moved_sides_end_and_are_bounded() {
        let mut table = table();
        let moved = |seconds| Moved {
            way: Way::User,
            source: SourceHash::NONE,
            target: UriHash::NONE,
            at_s: 1000,
            until: NOW + Duration::from_secs(seconds),
        };
        for number in 0..4 {
            assert!(table.note_moved(NOW, DialogSide(number * 2), moved(10 + number)));
        }
        assert!(!table.note_moved(NOW, DialogSide(100), moved(10)), "it is full");
        assert!(table.note_moved(NOW, DialogSide(0), moved(20)), "an entry is replaced");
        let later = NOW + Duration::from_secs(11);
        assert_eq!(table.moved(later, DialogSide(2)), None);
        assert!(table.note_moved(later, DialogSide(100), moved(30)), "ended entries make room");
        table.end(DialogSide(101));
        assert_eq!(table.moved(later, DialogSide(100)), None, "a dialog ends for both sides");
    }

    #[test]
    fn a_phone_is_followed_over_several_flows() {
        let (mut table, user) = (table(), UserHash::of(&KEY, b"alice", b"example.org"));
        let until = NOW + Duration::from_secs(100);
        for port in 1..4 {
            let to = side_of(&flow(port + 1));
            assert!(table.note_left(&KEY, (&flow(port), to), user, (NOW, until)));
        }
        let of = |table: &SideTable, port, user, since_s| {
            table.registered(&KEY, side_of(&flow(port)), user, (NOW, since_s))
        };
        assert_eq!(of(&table, 1, user, 1000), Some(side_of(&flow(4))));
        assert_eq!(of(&table, 4, user, 1000), None);
        assert_eq!(of(&table, 1, user, 1001), None, "the dialog began over that flow afterwards");
        assert_eq!(of(&table, 1, UserHash::UNNAMED, 1000), None, "another user has the flow now");
        assert_eq!(table.registered(&KEY, side_of(&flow(1)), user, (until, 0)), None);
        let circle = side_of(&flow(1));
        table.note_left(&KEY, (&flow(4), circle), user, (NOW, until));
        assert!(of(&table, 1, user, 0).is_some(), "a circle ends");
        let to = side_of(&flow(9));
        assert!(!table.note_left(&KEY, (&flow(5), to), user, (NOW, until)), "the earliest gives way");
        assert_eq!((of(&table, 5, user, 0), table.len()), (Some(to), 4));
    }
}
