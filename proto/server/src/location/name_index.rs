//! Index of users by address-of-record.

use alloc::boxed::Box;
use core::hash::Hasher;
use hashbrown::HashTable;
use ringway_sansio::Seed;
use ringway_transaction::SlabKey;
use siphasher::sip128::{Hasher128, SipHasher13};

/// Keys of users by name. Peers choose the names: a keyed hash, wide enough that nothing else is compared.
///
/// It has parts, since a table that grows moves all its entries at once: with a million users in one table, requests waited for half a
/// second.
#[derive(Debug)]
pub(super) struct NameIndex {
    parts: Box<[HashTable<Named>]>,
    hash_key: [u8; 16],
}

/// Half of a name's hash, and the key of its user; the other half is the position in its part.
#[derive(Clone, Copy, Debug)]
struct Named {
    rest: u64,
    key: SlabKey,
}

impl NameIndex {
    pub(super) fn new(seed: &Seed) -> Self {
        let mut hash_key = [0; 16];
        hash_key.copy_from_slice(seed.bytes().get(16..).unwrap_or(&[0; 16]));
        Self { parts: (0..PARTS).map(|_| HashTable::new()).collect(), hash_key }
    }

    pub(super) fn find(&self, name: &[u8]) -> Option<SlabKey> {
        let (hash, rest) = self.hash(name);
        self.parts.get(part_of(rest))?.find(hash, |named| named.rest == rest).map(|named| named.key)
    }

    /// Adds a name that it does not have. `name_of` is the name of an earlier key.
    pub(super) fn insert<'n>(
        &mut self,
        name: &[u8],
        key: SlabKey,
        name_of: impl Fn(SlabKey) -> Option<&'n [u8]>,
    ) {
        let (hash, rest) = self.hash(name);
        let hash_key = self.hash_key;
        if let Some(part) = self.parts.get_mut(part_of(rest)) {
            part.insert_unique(hash, Named { rest, key }, |named| {
                name_of(named.key).map_or(0, |name| hash_with(&hash_key, name).0)
            });
        }
    }

    pub(super) fn remove(&mut self, name: &[u8]) {
        let (hash, rest) = self.hash(name);
        let part = self.parts.get_mut(part_of(rest));
        if let Some(Ok(entry)) = part.map(|part| part.find_entry(hash, |named| named.rest == rest)) {
            entry.remove();
        }
    }

    /// Keyed hash of a name.
    pub(super) fn hash(&self, name: &[u8]) -> (u64, u64) {
        hash_with(&self.hash_key, name)
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.parts.iter().all(HashTable::is_empty)
    }
}

const fn part_of(rest: u64) -> usize {
    rest as usize % PARTS
}

fn hash_with(key: &[u8; 16], name: &[u8]) -> (u64, u64) {
    let mut hash = SipHasher13::new_with_key(key);
    hash.write(name);
    let wide = hash.finish128();
    (wide.h1, wide.h2)
}

const PARTS: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use alloc::vec::Vec;
    use core::cell::Cell;

    #[test]
    fn growth_moves_few_names_at_once() {
        let mut index = NameIndex::new(&Seed::from_number(1));
        let names: Vec<_> = (0..200_000_u32).map(|number| format!("u{number}@example.org")).collect();
        let key = |number: usize| SlabKey { index: number as u32, generation: 1 };
        let moved = Cell::new(0);
        for (number, name) in names.iter().enumerate() {
            moved.set(0);
            index.insert(name.as_bytes(), key(number), |key| {
                moved.set(moved.get() + 1);
                names.get(key.index as usize).map(|name| name.as_bytes())
            });
            assert!(moved.get() < 1_000, "{} names were moved for one", moved.get());
        }
        for (number, name) in names.iter().enumerate() {
            assert_eq!(index.find(name.as_bytes()), Some(key(number)));
            index.remove(name.as_bytes());
            assert_eq!(index.find(name.as_bytes()), None);
        }
        assert!(index.is_empty());
    }
}
