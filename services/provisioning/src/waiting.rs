//! Users whose registrations changed and are not written yet.

use std::collections::HashSet;

/// Addresses-of-record whose registrations changed, each once: what is written is read when it is written.
#[derive(Debug, Default)]
pub(crate) struct WaitingUsers {
    aors: HashSet<Box<[u8]>>,
    bytes: usize,
    /// True after a drop, until all registrations are written again: no names are needed meanwhile.
    is_incomplete: bool,
}

impl WaitingUsers {
    /// Adds a user, and returns the number of users that were dropped because too many wait.
    pub(crate) fn add(&mut self, aor: &[u8]) -> u64 {
        if self.is_incomplete {
            return 1;
        }
        if self.aors.contains(aor) {
            return 0;
        }
        if self.aors.len() >= USERS_MAX || self.bytes + aor.len() > BYTES_MAX {
            let dropped = self.aors.len() as u64 + 1;
            self.drop_all();
            return dropped;
        }
        self.bytes += aor.len();
        self.aors.insert(aor.into());
        0
    }

    /// Removes all users and returns them. `None`: some were dropped, and all registrations must be written.
    pub(crate) fn take(&mut self) -> Option<Vec<Box<[u8]>>> {
        let Self { aors, is_incomplete, .. } = std::mem::take(self);
        if is_incomplete { None } else { Some(aors.into_iter().collect()) }
    }

    /// Drops all users: all registrations must be written.
    pub(crate) fn drop_all(&mut self) {
        *self = Self { is_incomplete: true, ..Self::default() };
    }

    /// Number of users that wait.
    pub(crate) fn len(&self) -> usize {
        self.aors.len()
    }
}

/// Maximum number of users that wait, and bytes of their names; as many can be under way to the database.
pub(crate) const USERS_MAX: usize = 100_000;
pub(crate) const BYTES_MAX: usize = 8 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_waits_once() {
        let mut waiting = WaitingUsers::default();
        assert_eq!((waiting.add(b"a@b"), waiting.add(b"a@b"), waiting.len()), (0, 0, 1));
        assert_eq!(waiting.take().map(|aors| aors.len()), Some(1));
        assert_eq!((waiting.take().map(|aors| aors.len()), waiting.bytes), (Some(0), 0));
    }

    #[test]
    fn beyond_the_number_all_are_dropped_and_the_next_read_is_of_all() {
        let mut waiting = WaitingUsers::default();
        let dropped: u64 = (0..=USERS_MAX).map(|n| waiting.add(n.to_string().as_bytes())).sum();
        assert_eq!((dropped, waiting.len()), (USERS_MAX as u64 + 1, 0));
        assert_eq!((waiting.add(b"a@b"), waiting.len()), (1, 0));
        assert_eq!(waiting.take(), None);
        assert_eq!((waiting.add(b"a@b"), waiting.len()), (0, 1));
    }

    #[test]
    fn long_names_are_bounded_too() {
        let mut waiting = WaitingUsers::default();
        let name = |n: usize| format!("{n:0>50000}");
        let dropped: u64 = (0..BYTES_MAX / 50_000 + 1).map(|n| waiting.add(name(n).as_bytes())).sum();
        assert!(dropped > 0 && waiting.bytes == 0, "{dropped}");
    }
}
