//! Slab: table of values in numbered slots that are used again, with generational keys.

use alloc::vec::Vec;
use ringway_sansio::TableSize;

/// Values in numbered slots. A key of a removed value never finds the slot's next value.
#[derive(Debug)]
pub struct Slab<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
    /// Generation of a new slot. It rises when the memory of the slots is released, so that no key is used twice.
    first: u32,
}

/// Index of a slot, and generation of its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SlabKey {
    /// Index of the slot.
    pub index: u32,
    /// Generation of the value.
    pub generation: u32,
}

#[derive(Debug)]
struct Slot<T> {
    generation: u32,
    value: Option<T>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), free: Vec::new(), first: FIRST_GENERATION }
    }
}

impl<T> Slab<T> {
    /// Memory of so many values.
    pub const fn size(name: &'static str, values: usize) -> TableSize {
        TableSize::of_list(name, values, size_of::<Slot<T>>()).with_list(values, size_of::<u32>())
    }

    /// Number of values.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// True if there are no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Key that the next [`Slab::insert`] returns.
    pub fn next_key(&self) -> SlabKey {
        match self.free.last() {
            Some(&index) => SlabKey {
                index,
                generation: self.slots.get(index as usize).map_or(self.first, |slot| slot.generation),
            },
            None => {
                SlabKey { index: u32::try_from(self.slots.len()).unwrap_or(u32::MAX), generation: self.first }
            }
        }
    }

    /// Inserts a value into a free slot.
    pub fn insert(&mut self, value: T) -> SlabKey {
        let key = self.next_key();
        if self.free.pop().is_some() {
            if let Some(slot) = self.slots.get_mut(key.index as usize) {
                slot.value = Some(value);
            }
        } else {
            self.slots.push(Slot { generation: key.generation, value: Some(value) });
        }
        key
    }

    /// Removes a value and returns it.
    pub fn remove(&mut self, key: SlabKey) -> Option<T> {
        let slot = self.slots.get_mut(key.index as usize)?;
        if slot.generation != key.generation {
            return None;
        }
        let value = slot.value.take()?;
        slot.generation = match slot.generation {
            LAST_GENERATION => FIRST_GENERATION,
            generation => generation + 1,
        };
        self.free.push(key.index);
        if self.slots.len() > KEPT_SLOTS_MAX && self.is_empty() {
            self.give_back();
        }
        Some(value)
    }

    /// Releases the memory of all slots.
    fn give_back(&mut self) {
        let last = self.slots.iter().map(|slot| slot.generation).max().unwrap_or(self.first);
        *self = Self { first: last.max(FIRST_GENERATION), ..Self::default() };
    }

    /// Value of `key`, unless it was removed.
    #[inline]
    pub fn get(&self, key: SlabKey) -> Option<&T> {
        self.slots
            .get(key.index as usize)
            .filter(|slot| slot.generation == key.generation)
            .and_then(|slot| slot.value.as_ref())
    }

    /// Mutable reference to the value of `key`, unless it was removed.
    #[inline]
    pub fn get_mut(&mut self, key: SlabKey) -> Option<&mut T> {
        self.slots
            .get_mut(key.index as usize)
            .filter(|slot| slot.generation == key.generation)
            .and_then(|slot| slot.value.as_mut())
    }

    /// Value of a slot, of any generation; the outer `None` is for an index after the last slot.
    pub fn at(&self, index: u32) -> Option<Option<&T>> {
        self.slots.get(index as usize).map(|slot| slot.value.as_ref())
    }

    /// Values with their keys.
    pub fn iter(&self) -> impl Iterator<Item = (SlabKey, &T)> {
        self.slots.iter().zip(0_u32..).filter_map(|(slot, index)| {
            slot.value.as_ref().map(|value| (SlabKey { index, generation: slot.generation }, value))
        })
    }
}

/// Number of slots that an empty slab keeps.
const KEPT_SLOTS_MAX: usize = 1024;
/// Not 0: a token of 0 ([`Token::NONE`](ringway_sansio::Token::NONE)) requests no report.
const FIRST_GENERATION: u32 = 1;
/// Tokens and branches have 16 bits for the generation.
const LAST_GENERATION: u32 = 0xffff;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_key_never_finds_a_new_value() {
        let mut slab = Slab::default();
        let one = slab.insert("one");
        assert_eq!(slab.remove(one), Some("one"));
        let two = slab.insert("two");
        assert_eq!((one.index, slab.len()), (two.index, 1));
        assert_eq!((slab.get(one), slab.get(two)), (None, Some(&"two")));
        assert_eq!((slab.remove(one), slab.remove(two)), (None, Some("two")));
    }

    #[test]
    fn an_empty_slab_releases_its_memory_and_repeats_no_key() {
        let mut slab = Slab::default();
        let keys: Vec<_> = (0..2000).map(|number| slab.insert(number)).collect();
        for &key in &keys {
            slab.remove(key);
        }
        assert_eq!(slab.slots.capacity(), 0);
        let again = slab.insert(1);
        assert!(!keys.contains(&again) && keys.iter().all(|&key| slab.get(key).is_none()));
    }

    #[test]
    fn generations_start_over_without_zero() {
        let mut slab = Slab::default();
        for _ in 0..=LAST_GENERATION {
            let key = slab.insert(());
            assert!((FIRST_GENERATION..=LAST_GENERATION).contains(&key.generation));
            assert_eq!(slab.remove(key), Some(()));
        }
        assert_eq!(slab.next_key(), SlabKey { index: 0, generation: 2 });
    }
}
