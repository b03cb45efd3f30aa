//! SRTP contexts for the peer's packets: that of the current key, and for a short time that of the previous one.
//!
//! ```text
//!             other key                       2 s, or 500 ms after the first packet under the new key
//!   one key ─────────────► new and previous ──────────────────────────────────────────────────────────► one key
//! ```
//! A peer changes its key when it sends its answer, or when it gets ours; packets overtake signalling, and each other.
//! Those under the previous key are opened by the context that they were made for, with its own rollover counters and
//! replay windows; those that come before the key of the signalling cannot be opened by anybody.

use core::time::Duration;
use ringway_sansio::Instant;
use ringway_sdp::{CryptoSuite, MasterKey};
use ringway_srtp::{KeyError, SrtpReceiver, SrtpSettings, UnprotectError};

/// The contexts that authenticate and decrypt the peer's packets.
#[derive(Debug)]
pub(super) struct ReceiveContexts {
    current: SrtpReceiver,
    /// One at most: who changes keys twice in that time loses what was under way.
    previous: Option<Previous>,
}

/// A key that was given up.
#[derive(Debug)]
struct Previous {
    context: SrtpReceiver,
    until: Instant,
}

/// Key that a packet was protected with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyGeneration {
    Current,
    Previous,
}

impl ReceiveContexts {
    pub(super) fn new(suite: CryptoSuite, key: &MasterKey, settings: SrtpSettings) -> Result<Self, KeyError> {
        Ok(Self { current: SrtpReceiver::with_settings(suite, key, settings)?, previous: None })
    }

    /// True if this key is the current one.
    pub(super) fn is_keyed_by(&self, suite: CryptoSuite, key: &MasterKey) -> bool {
        self.current.is_keyed_by(suite, key)
    }

    /// Goes on with another key; with the one that is there already nothing changes. One that comes back in time finds
    /// its context as it was, so that nothing that came under it can come again.
    pub(super) fn rekey(
        &mut self,
        now: Instant,
        suite: CryptoSuite,
        key: &MasterKey,
    ) -> Result<(), KeyError> {
        if self.is_keyed_by(suite, key) {
            return Ok(());
        }
        self.on_time(now);
        let returning = self.previous.take_if(|previous| previous.context.is_keyed_by(suite, key));
        let next = match returning {
            Some(previous) => previous.context,
            None => self.current.successor(suite, key)?,
        };
        let context = core::mem::replace(&mut self.current, next);
        self.previous = Some(Previous { context, until: now + OVERLAP_MAX });
        Ok(())
    }

    /// Gives the previous key up when its time has come.
    pub(super) fn on_time(&mut self, now: Instant) {
        self.previous.take_if(|previous| previous.until <= now);
    }

    /// Gives the previous key up at once.
    pub(super) fn forget_previous(&mut self) {
        self.previous = None;
    }

    /// Until when the previous key is taken.
    pub(super) fn previous_until(&self) -> Option<Instant> {
        self.previous.as_ref().map(|previous| previous.until)
    }

    /// Opens a packet in place by `unprotect`: how long it is then, and under which key it came.
    pub(super) fn open(
        &mut self,
        now: Instant,
        mut unprotect: impl FnMut(&mut SrtpReceiver) -> Result<usize, UnprotectError>,
    ) -> Result<(usize, KeyGeneration), UnprotectError> {
        self.on_time(now);
        let error = match (unprotect(&mut self.current), &mut self.previous) {
            (Ok(len), previous) => {
                if let Some(previous) = previous {
                    previous.until = previous.until.min(now + OVERLAP_AFTER_FIRST);
                }
                return Ok((len, KeyGeneration::Current));
            }
            (Err(error), None) => return Err(error),
            (Err(error), Some(_)) => error,
        };
        let previous = self.previous.as_mut().map(|previous| unprotect(&mut previous.context));
        match (error, previous) {
            (_, Some(Ok(len))) => Ok((len, KeyGeneration::Previous)),
            // It came under the previous key before: it is a repeat, and nobody forged it.
            (
                UnprotectError::AuthenticationFailed
                | UnprotectError::WrongEncryption
                | UnprotectError::UnknownMki
                | UnprotectError::Malformed,
                Some(Err(again @ (UnprotectError::Replayed | UnprotectError::TooOld))),
            ) => Err(again),
            (error, Some(Err(_)) | None) => Err(error),
        }
    }
}

/// How long the previous key is taken when nothing comes under the new one. An answer that is lost on its way is sent
/// again after 0.5 and after 1.5 s (RFC 3261 §13.3.1.4), and so long the peer cannot know our consent.
const OVERLAP_MAX: Duration = Duration::from_secs(2);

/// How long it is taken once the peer uses the new one: later than this, the jitter buffer takes nothing anyway.
const OVERLAP_AFTER_FIRST: Duration = Duration::from_millis(500);

#[cfg(test)]
mod receive_contexts_tests;
