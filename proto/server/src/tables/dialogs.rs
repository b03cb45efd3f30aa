//! Record-Route marks that were extended by target refreshes.

use super::owned::{EntryOwner, Owned};
use ringway_auth::SeededHash;
use ringway_sansio::{Instant, Seed};

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

    /// Extends a mark until the second time; false, if the table, or the share of its owner, is full.
    pub(crate) fn extend(&mut self, time: (Instant, Instant), mark: u64, owner: EntryOwner) -> bool {
        self.marks.insert(time, mark, (), owner)
    }

    /// True if the mark was extended and has not ended.
    pub(crate) fn is_extended(&self, now: Instant, mark: u64) -> bool {
        self.marks.get(now, mark).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::token::UserHash;
    use core::time::Duration;

    #[test]
    fn an_extension_ends_and_one_user_takes_no_room_of_others() {
        let now = Instant::from_secs(1000);
        let end = now + Duration::from_secs(10);
        let mut dialogs = DialogExtensions::new(&Seed::from_number(1));
        let [one, other] =
            [b"one", b"two"].map(|name| EntryOwner::of_user(UserHash::of(&[7; 16], name, b"h")));
        assert!(dialogs.extend((now, end), 7, one));
        assert!(dialogs.is_extended(now, 7) && !dialogs.is_extended(now, 8) && !dialogs.is_extended(end, 7));
        let taken = (0..70_000).filter(|&mark| dialogs.extend((now, end), 100 + mark, one)).count();
        assert_eq!(taken, DialogExtensions::DIALOGS_MAX / 32 - 1);
        assert!(dialogs.extend((now, end), 1, other) && dialogs.extend((now, end), 7, one));
        let later = end + Duration::from_secs(1);
        assert!(dialogs.extend((later, later + Duration::from_secs(9)), 2, one), "ended entries make room");
    }
}
