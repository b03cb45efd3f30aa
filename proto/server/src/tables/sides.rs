//! Sides of dialogs that moved, and flows that phones left.

use super::owned::{EntryOwner, Owned};
use super::phone_flows::{LeftFlows, PhoneFlows, PhoneHash, side_of};
use crate::token::sources::SourceHash;
use crate::token::{Side, UriHash, UserHash};
use alloc::vec::Vec;
use core::hash::Hasher;
use ringway_auth::SeededHash;
use ringway_sansio::{Flow, Instant, PartHasher, Seed};
use ringway_sip::Message;
use siphasher::sip::SipHasher13;

/// Way to a side of a dialog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// This side.
    Side(Side),
    /// A binding of its user.
    User,
}

/// Sides of dialogs that moved, and flows that a later registration of the same phone replaced.
///
/// A user agent keeps the route set of its dialog (RFC 3261 §12.2), so a mark cannot be replaced. All shards share one table, because
/// the requests of the two sides are in different shards. It is lost in a restart.
#[derive(Debug)]
pub struct SideTable {
    moved: Owned<Moved>,
    left: LeftFlows,
    phones: PhoneFlows,
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
}

impl DialogSide {
    /// Side that sends a request in a dialog; `is_caller`: the one that began it. `recorded` is where the mark has the caller: somebody
    /// who has the identifiers of a dialog can begin another one with them, and not from there.
    pub(crate) fn of_sender(key: &[u8; 16], request: &Message<'_>, is_caller: bool, recorded: Side) -> Self {
        let (from, to) = (request.from(), request.to());
        let (caller, callee) = if is_caller { (from, to) } else { (to, from) };
        let mut hash = PartHasher::new(SipHasher13::new_with_key(key));
        hash.fixed(b"dialog");
        for part in [request.call_id(), caller.tag().unwrap_or_default(), callee.tag().unwrap_or_default()] {
            hash.part(part);
        }
        let mut side = Vec::new();
        recorded.write(&mut side);
        hash.part(&side);
        Self((hash.hasher().finish() & !1) | u64::from(is_caller))
    }

    /// The other side of the same dialog.
    pub(crate) const fn other(self) -> Self {
        Self(self.0 ^ 1)
    }
}

impl SideTable {
    /// Default maximum number of moved sides, of flows that were left, and of phones behind a front. One user, or one source without a user,
    /// has 1/32 of each.
    pub const ENTRIES_MAX: usize = 65_536;

    /// Creates an empty table of `entries_max` sides, as many flows, and as many phones.
    pub fn new(seed: &Seed, entries_max: usize) -> Self {
        let hash = SeededHash::new(seed);
        Self {
            moved: Owned::new(hash, entries_max),
            left: LeftFlows::new(hash, entries_max),
            phones: PhoneFlows::new(hash, entries_max),
        }
    }

    /// Number of sides that moved, and flows that were left.
    pub fn len(&self) -> usize {
        self.moved.len() + self.left.len()
    }

    /// True without these.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn moved(&self, now: Instant, side: DialogSide) -> Option<&Moved> {
        self.moved.get(now, side.0)
    }

    /// Notes where a side is; false, if the table, or the share of its owner, is full.
    pub(crate) fn note_moved(
        &mut self,
        time: (Instant, Instant),
        side: DialogSide,
        moved: Moved,
        owner: EntryOwner,
    ) -> bool {
        self.moved.insert(time, side.0, moved, owner)
    }

    /// Forgets both sides of a dialog.
    pub(crate) fn end(&mut self, side: DialogSide) {
        self.moved.end(side.0);
        self.moved.end(side.other().0);
    }

    /// Notes that a phone of `user` has registered over `to` instead of `from`; false, if another flow was forgotten for it.
    pub(crate) fn note_left(
        &mut self,
        key: &[u8; 16],
        (from, to): (&Flow, &Flow),
        user: UserHash,
        time: (Instant, Instant),
    ) -> bool {
        self.left.note(key, (side_of(from), side_of(to)), user, time)
    }

    /// Notes that a phone behind this front has registered over `flow`; false, if there is no room for it, or another flow was
    /// forgotten.
    pub(crate) fn note_phone(
        &mut self,
        key: &[u8; 16],
        phone: PhoneHash,
        (flow, user): (&Flow, UserHash),
        time: (Instant, Instant),
    ) -> bool {
        let (before, has_room) = self.phones.note(phone, (flow, user), time);
        let has_left = before.is_none_or(|before| self.left.note(key, (before, side_of(flow)), user, time));
        has_room && has_left
    }

    /// Flow that the phone of `user` has registered with since `since_s`, instead of `side`.
    pub(crate) fn registered(
        &self,
        key: &[u8; 16],
        side: Side,
        user: UserHash,
        time: (Instant, u64),
    ) -> Option<Side> {
        self.left.registered(key, side, user, time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::time::Duration;

    #[test]
    fn a_dialog_ends_for_both_sides() {
        let mut table = SideTable::new(&Seed::from_number(1), 64);
        let (now, moved) = (Instant::from_secs(1000), |way| Moved {
            way,
            source: SourceHash::NONE,
            target: UriHash::NONE,
            at_s: 1000,
        });
        let until = (now, now + Duration::from_secs(10));
        for side in [DialogSide(100), DialogSide(101), DialogSide(102)] {
            assert!(table.note_moved(until, side, moved(Way::User), EntryOwner::NONE));
        }
        table.end(DialogSide(101));
        assert_eq!((table.moved(now, DialogSide(100)), table.len()), (None, 1));
        assert_eq!(table.moved(now, DialogSide(102)), Some(&moved(Way::User)));
        assert_eq!(table.moved(until.1, DialogSide(102)), None);
    }
}
