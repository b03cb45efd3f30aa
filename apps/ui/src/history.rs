//! The last minute of a figure.

/// One value for each of the last [`History::LENGTH`] seconds.
#[derive(Clone, Debug)]
pub(crate) struct History {
    values: [u64; Self::LENGTH],
    /// Index of the next value.
    next: usize,
}

impl History {
    pub(crate) const LENGTH: usize = 60;

    pub(crate) const fn new() -> Self {
        Self { values: [0; Self::LENGTH], next: 0 }
    }

    /// Adds a second's value; the oldest goes.
    pub(crate) fn push(&mut self, value: u64) {
        if let Some(place) = self.values.get_mut(self.next) {
            *place = value;
        }
        self.next = (self.next + 1) % Self::LENGTH;
    }

    /// The value of the last second.
    pub(crate) fn newest(&self) -> u64 {
        self.newest_first().next().unwrap_or_default()
    }

    /// The highest value that is kept.
    pub(crate) fn most(&self) -> u64 {
        self.values.iter().copied().max().unwrap_or_default()
    }

    pub(crate) fn newest_first(&self) -> impl Iterator<Item = u64> + '_ {
        let (newer, older) = self.values.split_at_checked(self.next).unwrap_or((&self.values, &[]));
        newer.iter().rev().chain(older.iter().rev()).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn a_minute_is_kept() {
        let mut history = History::new();
        assert_eq!((history.newest(), history.most()), (0, 0));
        (1..=61).for_each(|value| history.push(value));
        assert_eq!((history.newest(), history.most()), (61, 61));
        let kept: Vec<u64> = history.newest_first().collect();
        assert_eq!(kept, (2..=61).rev().collect::<Vec<u64>>());
    }
}
