//! A hash table whose own memory is booked on the limit of what its entries account for.

use core::hash::Hash;
use hashbrown::HashMap;
use ringway_auth::SeededHash;
use ringway_sansio::MemoryBound;

/// Values by keys that peers choose. Memory of the table beyond [`FREE_BYTES`] is booked on a [`MemoryBound`].
#[derive(Debug)]
pub(super) struct BookedMap<K, V> {
    entries: HashMap<K, V, SeededHash>,
    booked: usize,
}

/// Request for room in a [`BookedMap`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    /// Number of new entries.
    pub(super) entries: usize,
    /// 1 / `spare_share` of the slots is left to others; 0: none.
    pub(super) spare_share: usize,
    /// Bytes of the limit that are left to others.
    pub(super) rest: usize,
}

impl<K: Eq + Hash, V: Default> BookedMap<K, V> {
    pub(super) fn new(hash: SeededHash) -> Self {
        Self { entries: HashMap::with_hasher(hash), booked: 0 }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn get(&self, key: &K) -> Option<&V> {
        self.entries.get(key)
    }

    pub(super) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.entries.get_mut(key)
    }

    /// True if there is room for new entries; the table grows if the limit permits it.
    pub(super) fn has_room(&mut self, all: &MemoryBound, room: Room) -> bool {
        let slots = self.entries.capacity();
        let spare = slots.checked_div(room.spare_share).unwrap_or(0);
        let wanted = room.entries + spare;
        self.entries.len() + wanted <= slots || self.grow(all, wanted, room.rest)
    }

    /// The value of a key, a new one if there is none. [`BookedMap::has_room`] returned true for it.
    pub(super) fn entry(&mut self, key: K) -> &mut V {
        self.entries.entry(key).or_default()
    }

    pub(super) fn remove(&mut self, all: &MemoryBound, key: &K) {
        self.entries.remove(key);
        if self.entries.is_empty() {
            self.entries.shrink_to_fit();
        } else if self.booked > 0 && self.entries.len() * SHRINK_SHARE < self.slots() {
            self.entries.shrink_to(4 * self.entries.len());
        } else {
            return;
        }
        self.settle(all);
    }

    #[cold]
    fn grow(&mut self, all: &MemoryBound, wanted: usize, rest: usize) -> bool {
        // Twice as many slots at most.
        let most = (2 * self.entries.allocation_size()).saturating_sub(FREE_BYTES);
        let more = most.saturating_sub(self.booked);
        if more > 0 && !all.take_and_leave(more, rest) {
            return self.rebuild(wanted);
        }
        self.booked += more;
        self.entries.reserve(wanted);
        self.settle(all);
        true
    }

    /// Removes the marks that removed entries left, and true if there is room now. One slot in eight is free afterwards, so that this is rare.
    fn rebuild(&mut self, wanted: usize) -> bool {
        let slots = self.slots() / 8 * 7;
        if self.entries.len() + wanted.max(slots / 8) > slots {
            return false;
        }
        let hash = *self.entries.hasher();
        let mut fresh = HashMap::with_capacity_and_hasher(slots, hash);
        fresh.extend(self.entries.drain());
        self.entries = fresh;
        self.entries.len() + wanted <= self.entries.capacity()
    }

    /// Number of slots, used or not.
    fn slots(&self) -> usize {
        self.entries.allocation_size() / (size_of::<(K, V)>() + 1)
    }

    /// Returns what is booked and not used.
    fn settle(&mut self, all: &MemoryBound) {
        let used = self.entries.allocation_size().saturating_sub(FREE_BYTES);
        all.give(self.booked.saturating_sub(used));
        self.booked = self.booked.min(used);
    }
}

/// Bytes of a table that are not booked.
pub(super) const FREE_BYTES: usize = 16 << 10;

/// A table with fewer entries than 1 / `SHRINK_SHARE` of its slots shrinks.
const SHRINK_SHARE: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use ringway_sansio::Seed;

    const ONE: Room = Room { entries: 1, spare_share: 0, rest: 0 };

    fn map() -> BookedMap<u64, [u64; 3]> {
        BookedMap::new(SeededHash::new(&Seed::from_number(1)))
    }

    /// Adds entries from `first` on until one is refused, `count` at most; returns their number.
    fn fill(
        map: &mut BookedMap<u64, [u64; 3]>,
        all: &MemoryBound,
        room: Room,
        first: u64,
        count: u64,
    ) -> u64 {
        (first..first + count)
            .take_while(|key| {
                let has_room = map.has_room(all, room);
                if has_room {
                    map.entry(*key);
                }
                has_room
            })
            .count() as u64
    }

    #[test]
    fn the_table_takes_what_is_booked_and_no_more() {
        let all = MemoryBound::new(1 << 20);
        let mut table = map();
        let taken = allocation_counter::measure(|| {
            assert!(fill(&mut table, &all, ONE, 0, 1 << 20) > 10_000);
        });
        let taken = taken.bytes_current as usize;
        assert_eq!(taken, all.used() + FREE_BYTES);
        assert!(all.used() > all.max() / 4 && all.used() <= all.max(), "{}", all.used());
        assert_eq!(taken, table.entries.allocation_size());
        // Entries come and go in the eighth that new ones leave to others, without further memory.
        let count = table.len() as u64;
        (0..=count / 8).for_each(|key| table.remove(&all, &key));
        for key in 1_000_000..1_200_000 {
            assert!(table.has_room(&all, ONE), "{key}");
            table.entry(key);
            table.remove(&all, &key);
        }
        assert_eq!(taken, table.entries.allocation_size());
    }

    #[test]
    fn a_table_that_was_full_returns_its_memory_before_it_is_empty() {
        let all = MemoryBound::new(1 << 20);
        let mut table = map();
        let count = fill(&mut table, &all, ONE, 0, 1 << 20);
        (100..count).for_each(|key| table.remove(&all, &key));
        assert_eq!(table.len(), 100);
        assert!(all.used() < 2 * FREE_BYTES, "{}", all.used());
        assert!((0..100).all(|key| table.get(&key).is_some()));
        (0..100).for_each(|key| table.remove(&all, &key));
        assert_eq!((table.is_empty(), table.entries.allocation_size()), (true, 0));
    }

    #[test]
    fn slots_are_left_to_others_and_the_limit_holds() {
        let all = MemoryBound::new(64 << 10);
        let mut table = map();
        let new = Room { entries: 1, spare_share: 8, rest: 16 << 10 };
        let count = fill(&mut table, &all, new, 0, 1 << 20);
        let slots = table.entries.capacity() as u64;
        assert!(count <= slots - slots / 8 && count + 2 > slots - slots / 8, "{count} of {slots}");
        let others = Room { spare_share: 0, ..new };
        assert_eq!(fill(&mut table, &all, others, count, 1 << 20), slots - count);
        assert!(all.used() <= 48 << 10, "{}", all.used());
    }
}
