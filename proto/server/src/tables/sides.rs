//! Sides of dialogs that moved, flows that phones left, and extensions of marks.

use super::owned::{EntryOwner, Lifetime, Owned};
use super::phone_flows::{LeftFlows, PhoneFlows, PhoneHash, side_of};
use crate::token::sources::SourceHash;
use crate::token::{Side, UriHash, UserHash};
use alloc::vec::Vec;
use core::hash::Hasher;
use ringway_auth::SeededHash;
use ringway_sansio::{Flow, Instant, PartHasher, Seed, TableSize};
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

    /// Side with this hash.
    #[cfg(feature = "operator")]
    pub(crate) const fn of_number(number: u64) -> Self {
        Self(number)
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

    /// Memory of `entries_max` of each kind.
    pub const fn sizes(entries_max: usize) -> [TableSize; 3] {
        let moved = Owned::<Moved>::size("sides of dialogs that moved", entries_max);
        [moved, LeftFlows::size(entries_max), PhoneFlows::size(entries_max)]
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
        lifetime: Lifetime,
        side: DialogSide,
        moved: Moved,
        owner: EntryOwner,
    ) -> bool {
        self.moved.insert(lifetime, side.0, moved, owner)
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
        from: &Flow,
        to: &Flow,
        user: UserHash,
        lifetime: Lifetime,
    ) -> bool {
        self.left.note(key, side_of(from), side_of(to), user, lifetime)
    }

    /// Notes that a phone behind this front has registered over `flow`; false, if there is no room for it, or another flow was
    /// forgotten.
    pub(crate) fn note_phone(
        &mut self,
        key: &[u8; 16],
        phone: PhoneHash,
        flow: &Flow,
        user: UserHash,
        lifetime: Lifetime,
    ) -> bool {
        let (before, has_room) = self.phones.note(phone, flow, user, lifetime);
        let has_left = before.is_none_or(|before| self.left.note(key, before, side_of(flow), user, lifetime));
        has_room && has_left
    }

    /// Flow that the phone of `user` has registered with since `since_s`, instead of `side`.
    pub(crate) fn registered(
        &self,
        key: &[u8; 16],
        side: Side,
        user: UserHash,
        now: Instant,
        since_s: u64,
    ) -> Option<Side> {
        self.left.registered(key, side, user, now, since_s)
    }
}

/// Ends of the extended marks, by mark.
///
/// A user agent keeps the route set of its dialog (RFC 3261 §12.2), so a mark cannot be replaced; its new end is stored
/// here, for at most [`DialogExtensions::DIALOGS_MAX`] of them; the side of one user, or of one source without a user, has 1/32 of these. They
/// are lost in a restart.
#[derive(Debug)]
pub(crate) struct DialogExtensions {
    marks: Owned<()>,
}

impl DialogExtensions {
    /// Maximum number of extended dialogs.
    const DIALOGS_MAX: usize = 65_536;

    /// Creates an empty table.
    pub(crate) fn new(seed: &Seed) -> Self {
        Self { marks: Owned::new(SeededHash::new(seed), Self::DIALOGS_MAX) }
    }

    /// Memory of the table.
    pub(crate) const fn size() -> TableSize {
        Owned::<()>::size("extended dialogs", Self::DIALOGS_MAX)
    }

    /// Extends a mark for this time; false, if the table, or the share of its owner, is full.
    pub(crate) fn extend(&mut self, lifetime: Lifetime, mark: u64, owner: EntryOwner) -> bool {
        self.marks.insert(lifetime, mark, (), owner)
    }

    /// True if the mark was extended and has not ended.
    pub(crate) fn is_extended(&self, now: Instant, mark: u64) -> bool {
        self.marks.get(now, mark).is_some()
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
        let lifetime = Lifetime { now, until: now + Duration::from_secs(10) };
        for side in [DialogSide(100), DialogSide(101), DialogSide(102)] {
            assert!(table.note_moved(lifetime, side, moved(Way::User), EntryOwner::NONE));
        }
        table.end(DialogSide(101));
        assert_eq!((table.moved(now, DialogSide(100)), table.len()), (None, 1));
        assert_eq!(table.moved(now, DialogSide(102)), Some(&moved(Way::User)));
        assert_eq!(table.moved(lifetime.until, DialogSide(102)), None);
    }
}

#[cfg(test)]
mod dialogs_tests {
    use super::*;
    use crate::token::UserHash;
    use core::time::Duration;

    #[test]
    fn an_extension_ends_and_one_user_takes_no_room_of_others() {
        let now = Instant::from_secs(1000);
        let end = now + Duration::from_secs(10);
        let lifetime = Lifetime { now, until: end };
        let mut dialogs = DialogExtensions::new(&Seed::from_number(1));
        let [one, other] =
            [b"one", b"two"].map(|name| EntryOwner::of_user(UserHash::of(&[7; 16], name, b"h")));
        assert!(dialogs.extend(lifetime, 7, one));
        assert!(dialogs.is_extended(now, 7) && !dialogs.is_extended(now, 8) && !dialogs.is_extended(end, 7));
        let taken = (0..70_000).filter(|&mark| dialogs.extend(lifetime, 100 + mark, one)).count();
        assert_eq!(taken, DialogExtensions::DIALOGS_MAX / 32 - 1);
        assert!(dialogs.extend(lifetime, 1, other) && dialogs.extend(lifetime, 7, one));
        let later = end + Duration::from_secs(1);
        let lifetime = Lifetime { now: later, until: later + Duration::from_secs(9) };
        assert!(dialogs.extend(lifetime, 2, one), "ended entries make room");
    }
}
