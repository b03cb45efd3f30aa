//! Numbered places that are used again, with a generation so that an old number never reaches a new tenant.

use alloc::vec::Vec;

/// Values in numbered places.
#[derive(Debug)]
pub struct Slab<T> {
    places: Vec<Place<T>>,
    free: Vec<u32>,
    /// The generation of a new place. It rises when the places are given back, so that no key comes twice.
    first: u32,
}

/// A place and which of its tenants is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SlabKey {
    /// The place.
    pub index: u32,
    /// Which tenant of the place.
    pub generation: u32,
}

#[derive(Debug)]
struct Place<T> {
    generation: u32,
    value: Option<T>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { places: Vec::new(), free: Vec::new(), first: FIRST_GENERATION }
    }
}

impl<T> Slab<T> {
    /// How many values there are.
    pub fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// True when there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The key the next [`Slab::insert`] will give.
    pub fn next_key(&self) -> SlabKey {
        match self.free.last() {
            Some(&index) => SlabKey {
                index,
                generation: self.places.get(index as usize).map_or(self.first, |place| place.generation),
            },
            None => SlabKey {
                index: u32::try_from(self.places.len()).unwrap_or(u32::MAX),
                generation: self.first,
            },
        }
    }

    /// Puts a value into a free place.
    pub fn insert(&mut self, value: T) -> SlabKey {
        let key = self.next_key();
        if self.free.pop().is_some() {
            if let Some(place) = self.places.get_mut(key.index as usize) {
                place.value = Some(value);
            }
        } else {
            self.places.push(Place { generation: key.generation, value: Some(value) });
        }
        key
    }

    /// Takes a value out.
    pub fn remove(&mut self, key: SlabKey) -> Option<T> {
        let place = self.places.get_mut(key.index as usize)?;
        if place.generation != key.generation {
            return None;
        }
        let value = place.value.take()?;
        place.generation = match place.generation {
            LAST_GENERATION => FIRST_GENERATION,
            generation => generation + 1,
        };
        self.free.push(key.index);
        if self.places.len() > KEPT_PLACES_MAX && self.is_empty() {
            self.give_back();
        }
        Some(value)
    }

    /// Gives the memory of all places back.
    fn give_back(&mut self) {
        let last = self.places.iter().map(|place| place.generation).max().unwrap_or(self.first);
        *self = Self { first: last.max(FIRST_GENERATION), ..Self::default() };
    }

    /// The value at `key`, if it is still that tenant.
    pub fn get(&self, key: SlabKey) -> Option<&T> {
        self.places
            .get(key.index as usize)
            .filter(|place| place.generation == key.generation)
            .and_then(|place| place.value.as_ref())
    }

    /// The value at `key`, to change it.
    pub fn get_mut(&mut self, key: SlabKey) -> Option<&mut T> {
        self.places
            .get_mut(key.index as usize)
            .filter(|place| place.generation == key.generation)
            .and_then(|place| place.value.as_mut())
    }

    /// What is at a place, whoever the tenant; the outer `None` is behind the last place.
    pub fn at(&self, index: u32) -> Option<Option<&T>> {
        self.places.get(index as usize).map(|place| place.value.as_ref())
    }

    /// All values with their keys.
    pub fn iter(&self) -> impl Iterator<Item = (SlabKey, &T)> {
        self.places.iter().zip(0_u32..).filter_map(|(place, index)| {
            place.value.as_ref().map(|value| (SlabKey { index, generation: place.generation }, value))
        })
    }
}

/// Places that an empty slab keeps.
const KEPT_PLACES_MAX: usize = 1024;
/// Never 0, so that no key makes a token of 0, which means that nobody wants to know.
const FIRST_GENERATION: u32 = 1;
/// Generations fit the bits that tokens and branches give them.
const LAST_GENERATION: u32 = 0xffff;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_key_never_reaches_a_new_tenant() {
        let mut slab = Slab::default();
        let one = slab.insert("one");
        assert_eq!(slab.remove(one), Some("one"));
        let two = slab.insert("two");
        assert_eq!((one.index, slab.len()), (two.index, 1));
        assert_eq!((slab.get(one), slab.get(two)), (None, Some(&"two")));
        assert_eq!((slab.remove(one), slab.remove(two)), (None, Some("two")));
    }

    #[test]
    fn an_empty_slab_gives_its_memory_back_and_repeats_no_key() {
        let mut slab = Slab::default();
        let keys: Vec<_> = (0..2000).map(|number| slab.insert(number)).collect();
        for &key in &keys {
            slab.remove(key);
        }
        assert_eq!(slab.places.capacity(), 0);
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
