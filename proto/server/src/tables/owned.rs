//! Entries that end, limited in number, and in number for each owner.

use crate::token::UserHash;
use crate::token::sources::SourceHash;
use core::time::Duration;
use hashbrown::HashMap;
use ringway_auth::SeededHash;
use ringway_sansio::{Instant, TableSize};

/// User, or source of a stranger, that entries are counted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct EntryOwner(u64);

/// Time of an entry: the present one, and its end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lifetime {
    pub(crate) now: Instant,
    pub(crate) until: Instant,
}

/// Number of entries of each owner.
#[derive(Debug)]
pub(super) struct Shares {
    /// Keys are our own keyed hashes, but peers choose which of them are used: a seeded hash.
    counts: HashMap<EntryOwner, usize, SeededHash>,
    each_max: usize,
}

/// Entries with an owner and an end each. Those that have ended make room.
#[derive(Debug)]
pub(super) struct Owned<V> {
    entries: HashMap<u64, Entry<V>, SeededHash>,
    shares: Shares,
    entries_max: usize,
    /// Time of the last search for entries that have ended.
    swept: Instant,
}

#[derive(Debug)]
struct Entry<V> {
    value: V,
    owner: EntryOwner,
    until: Instant,
}

impl EntryOwner {
    /// A trunk, a node, or a proxy that calls for many: its entries are not counted.
    pub(crate) const NONE: Self = Self(0);

    pub(crate) fn of_user(user: UserHash) -> Self {
        Self(u64::from(user.number()) | 1 << 32)
    }

    pub(crate) fn of_source(source: SourceHash) -> Self {
        Self(u64::from(source.number()) | 1 << 33)
    }
}

impl Shares {
    /// `entries_max`: limit of the whole table.
    pub(super) fn new(hash: SeededHash, entries_max: usize) -> Self {
        Self { counts: HashMap::with_hasher(hash), each_max: (entries_max / OWNER_SHARE).max(1) }
    }

    pub(super) fn has_room(&self, owner: EntryOwner) -> bool {
        self.counts.get(&owner).is_none_or(|count| *count < self.each_max)
    }

    /// Memory of the shares of so many owners.
    pub(super) const fn bytes_of(owners: usize) -> u64 {
        TableSize::map_bytes(owners, size_of::<(EntryOwner, usize)>())
    }

    pub(super) fn add(&mut self, owner: EntryOwner) {
        if owner != EntryOwner::NONE {
            *self.counts.entry(owner).or_insert(0) += 1;
        }
    }

    pub(super) fn remove(&mut self, owner: EntryOwner) {
        let Some(count) = self.counts.get_mut(&owner) else { return };
        *count = count.saturating_sub(1);
        if *count == 0 {
            self.counts.remove(&owner);
        }
    }
}

impl<V> Owned<V> {
    pub(super) fn new(hash: SeededHash, entries_max: usize) -> Self {
        let shares = Shares::new(hash, entries_max);
        Self { entries: HashMap::with_hasher(hash), shares, entries_max, swept: Instant::default() }
    }

    /// Memory of a table of `entries_max`, each with an owner of its own.
    pub(super) const fn size(name: &'static str, entries_max: usize) -> TableSize {
        TableSize::of_map(name, entries_max, size_of::<(u64, Entry<V>)>())
            .with_bytes(Shares::bytes_of(entries_max))
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn get(&self, now: Instant, key: u64) -> Option<&V> {
        self.entries.get(&key).filter(|entry| entry.until > now).map(|entry| &entry.value)
    }

    /// Adds or replaces an entry; false if the table, or the share of its owner, is full.
    pub(super) fn insert(&mut self, lifetime: Lifetime, key: u64, value: V, owner: EntryOwner) -> bool {
        let Lifetime { now, until } = lifetime;
        let known = self.remove(key);
        if !self.has_room(owner) && now.since(self.swept) >= SWEEP_INTERVAL {
            self.swept = now;
            let Self { entries, shares, .. } = self;
            entries.retain(|_, entry| {
                let is_live = entry.until > now;
                if !is_live {
                    shares.remove(entry.owner);
                }
                is_live
            });
        }
        let has_room = self.has_room(owner);
        let entry = if has_room { Some(Entry { value, owner, until }) } else { known };
        if let Some(entry) = entry {
            self.shares.add(entry.owner);
            self.entries.insert(key, entry);
        }
        has_room
    }

    pub(super) fn end(&mut self, key: u64) {
        self.remove(key);
    }

    fn remove(&mut self, key: u64) -> Option<Entry<V>> {
        let entry = self.entries.remove(&key)?;
        self.shares.remove(entry.owner);
        Some(entry)
    }

    fn has_room(&self, owner: EntryOwner) -> bool {
        self.entries.len() < self.entries_max && self.shares.has_room(owner)
    }
}

/// Inverse of the share of a table that one owner may have.
pub(super) const OWNER_SHARE: usize = 32;

/// Time between two searches for entries that have ended, in a full table.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;
    use ringway_sansio::Seed;

    const NOW: Instant = Instant::from_secs(1000);

    fn until(seconds: u64) -> Lifetime {
        Lifetime { now: NOW, until: NOW + Duration::from_secs(seconds) }
    }

    #[test]
    fn an_owner_has_its_share_and_all_have_the_table() {
        let mut owned = Owned::new(SeededHash::new(&Seed::from_number(1)), 2 * OWNER_SHARE);
        let [one, other] = [EntryOwner(1), EntryOwner(2)];
        assert!(owned.insert(until(10), 1, 'a', one) && owned.insert(until(20), 2, 'b', one));
        assert!(!owned.insert(until(10), 3, 'c', one), "two of 64");
        assert!(owned.insert(until(10), 1, 'd', one), "one is replaced");
        assert!(!owned.insert(until(10), 3, 'c', one));
        assert!(owned.insert(until(20), 2, 'e', other), "it has another owner now");
        assert!(owned.insert(until(20), 3, 'c', one));
        assert_eq!([1, 2, 3].map(|key| owned.get(NOW, key)), [Some(&'d'), Some(&'e'), Some(&'c')]);
        owned.end(3);
        assert!(owned.insert(until(30), 4, 'f', one), "one that was removed makes room");
        for key in 10..100 {
            owned.insert(until(10), key, 'g', EntryOwner::NONE);
        }
        assert_eq!(owned.len(), 2 * OWNER_SHARE);
        assert!(!owned.insert(until(10), 100, 'h', other), "all are in use");
        let later = NOW + Duration::from_secs(15);
        assert_eq!((owned.get(later, 1), owned.get(later, 2)), (None, Some(&'e')));
        assert!(owned.insert(Lifetime { now: later, until: later + Duration::from_secs(9) }, 100, 'h', one));
        assert_eq!(owned.len(), 3, "what has ended is removed");
        for key in [2, 4, 100] {
            owned.end(key);
        }
        assert!(owned.shares.counts.is_empty());
    }
}
