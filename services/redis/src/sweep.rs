//! Reads of all records after which what they did not confirm is dropped.

use crate::keys::TAGS;

/// Number of the newest read of all records of each tag; 0: none.
pub type Walks = [u32; TAGS];

/// Reads of all records, and the time after them.
pub(crate) struct Sweep {
    walks: Walks,
    last: u32,
    is_open: bool,
    is_loss: bool,
    /// Number of checks of the store's marks at the end of the reads.
    ended_at: Option<u64>,
}

impl Sweep {
    pub(crate) const fn new() -> Self {
        Self { walks: [0; TAGS], last: 0, is_open: false, is_loss: false, ended_at: None }
    }

    /// Notes that the records of some tags are read from now on; `is_loss`: the store may have lost some. Returns the number of the read.
    pub(crate) fn begin(&mut self, tags: &[usize], is_loss: bool) -> u32 {
        self.last = self.last.saturating_add(1);
        for tag in tags {
            if let Some(walk) = self.walks.get_mut(*tag) {
                *walk = self.last;
            }
        }
        (self.is_open, self.ended_at) = (true, None);
        self.is_loss |= is_loss;
        self.last
    }

    /// Reads, and whether the store may have lost data, once nothing is being read and the marks of the store were checked since: a loss
    /// is found by them. `checks` is the number of checks.
    pub(crate) fn due(&mut self, is_reading: bool, checks: u64) -> Option<(Walks, bool)> {
        if !self.is_open || is_reading {
            return None;
        }
        let ended_at = *self.ended_at.get_or_insert(checks);
        // One that was under way at the end is not enough.
        if checks < ended_at + 2 {
            return None;
        }
        self.is_open = false;
        Some((self.walks, std::mem::take(&mut self.is_loss)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_read_is_dropped_after_two_checks_of_the_marks() {
        let mut sweep = Sweep::new();
        assert_eq!(sweep.due(false, 9), None, "nothing was read");
        assert_eq!(sweep.begin(&[0, 1, 2], false), 1);
        assert_eq!((sweep.due(true, 10), sweep.due(false, 20), sweep.due(false, 21)), (None, None, None));
        // The second check found a loss.
        assert_eq!(sweep.begin(&[1], true), 2);
        assert_eq!((sweep.due(true, 22), sweep.due(false, 23), sweep.due(false, 24)), (None, None, None));
        let (walks, is_loss) = sweep.due(false, 25).unwrap();
        assert_eq!((&walks[..4], is_loss), (&[1, 2, 1, 0][..], true));
        assert_eq!(sweep.due(false, 99), None);
        sweep.begin(&[3], false);
        sweep.due(false, 99);
        assert_eq!(sweep.due(false, 101).map(|(walks, is_loss)| (walks[3], is_loss)), Some((3, false)));
    }
}
