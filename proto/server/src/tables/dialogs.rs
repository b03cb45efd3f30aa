//! Record-Route marks that were extended by target refreshes.

use hashbrown::HashMap;
use ringway_auth::SeededHash;
use ringway_sansio::{Instant, Seed};

/// Ends of the extended marks, by mark.
///
/// A user agent keeps the route set of its dialog (RFC 3261 §12.2), so a mark cannot be replaced; its new end is stored
/// here, for at most [`DialogExtensions::DIALOGS_MAX`] of them. They are lost in a restart.
#[derive(Debug)]
pub struct DialogExtensions {
    /// Keys are our own keyed hashes, but peers choose which of them are used: a seeded hash.
    ends: HashMap<u64, Instant, SeededHash>,
    refused: u64,
}

impl DialogExtensions {
    /// Maximum number of extended dialogs.
    pub const DIALOGS_MAX: usize = 65_536;

    /// Creates an empty table.
    pub fn new(seed: &Seed) -> Self {
        Self { ends: HashMap::with_hasher(SeededHash::new(seed)), refused: 0 }
    }

    /// Extends a mark until `until`. If the table is full, a mark that is not in it is not extended.
    pub fn extend(&mut self, now: Instant, mark: u64, until: Instant) {
        if self.ends.len() >= Self::DIALOGS_MAX && !self.ends.contains_key(&mark) {
            self.ends.retain(|_, end| *end > now);
            if self.ends.len() >= Self::DIALOGS_MAX {
                self.refused += 1;
                return;
            }
        }
        self.ends.insert(mark, until);
    }

    /// True if the mark was extended and has not ended.
    pub fn is_extended(&self, now: Instant, mark: u64) -> bool {
        self.ends.get(&mark).is_some_and(|end| *end > now)
    }

    /// Number of extensions that were refused because the table was full.
    pub const fn refused(&self) -> u64 {
        self.refused
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::time::Duration;

    #[test]
    fn an_extension_ends_and_the_table_is_bounded() {
        let now = Instant::from_secs(1000);
        let mut dialogs = DialogExtensions::new(&Seed::from_number(1));
        dialogs.extend(now, 7, now + Duration::from_secs(10));
        assert!(dialogs.is_extended(now, 7) && !dialogs.is_extended(now, 8));
        assert!(!dialogs.is_extended(now + Duration::from_secs(10), 7));
        for mark in 0..DialogExtensions::DIALOGS_MAX as u64 + 10 {
            dialogs.extend(now, mark, now + Duration::from_secs(10));
        }
        assert_eq!((dialogs.ends.len(), dialogs.refused()), (DialogExtensions::DIALOGS_MAX, 10));
        dialogs.extend(now + Duration::from_secs(11), 1 << 40, now + Duration::from_secs(20));
        assert_eq!(dialogs.ends.len(), 1, "ended entries make room");
    }
}
