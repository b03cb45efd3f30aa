//! Actions of a generator.

use crate::{MediaEvent, Report};
use alloc::vec::Vec;
use ringway_sansio::ConnectionId;

/// Requested action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// An attempt has ended.
    Ended(Report),
    /// The connection of an ended attempt is not used any more ([`ConnectionUse::PerAttempt`](crate::ConnectionUse::PerAttempt)): write what is queued, and
    /// close it.
    Release(ConnectionId),
    /// The media of an attempt starts or ends. With [`MediaUse::None`](crate::MediaUse::None) only of a scenario that plays recordings.
    Media(MediaEvent),
    /// A line for the log.
    Log {
        /// Number of the attempt.
        attempt: u64,
        /// True for a warning.
        is_warning: bool,
        /// The line.
        text: Vec<u8>,
    },
}
