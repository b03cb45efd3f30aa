//! SRTP contexts of the received stream: one for the current key, and for a short time one for the previous
//! key.
//!
//! ```text
//!             other key                       2 s, or 500 ms after the first packet under the new key
//!   one key ─────────────► new and previous ──────────────────────────────────────────────────────────► one key
//! ```
//! A peer changes its key when it sends its answer, or when it receives ours; packets may overtake signalling
//! and each other. Packets with the previous key are decrypted by its own context, with its rollover counters
//! and replay windows. Packets that arrive before the SDP with their key cannot be decrypted.

use core::time::Duration;
use ringway_sansio::Instant;
use ringway_sdp::{CryptoSuite, MasterKey};
use ringway_srtp::{KeyError, SrtpReceiver, SrtpSettings, UnprotectError};

/// Contexts that authenticate and decrypt the peer's packets.
#[derive(Debug)]
pub(super) struct ReceiveContexts {
    current: SrtpReceiver,
    /// At most one: a peer that changes its key twice in this time loses the packets in transit.
    previous: Option<Previous>,
}

/// Context of a key that was replaced.
#[derive(Debug)]
struct Previous {
    context: SrtpReceiver,
    until: Instant,
}

/// Key of a packet.
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

    /// Changes to another key; the current one changes nothing. The previous key continues with its own
    /// context, so that its packets cannot be replayed.
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

    /// Discards the previous key when its time is over.
    pub(super) fn on_time(&mut self, now: Instant) {
        self.previous.take_if(|previous| previous.until <= now);
    }

    /// Discards the previous key.
    pub(super) fn forget_previous(&mut self) {
        self.previous = None;
    }

    /// Time at which the previous key is discarded.
    pub(super) fn previous_until(&self) -> Option<Instant> {
        self.previous.as_ref().map(|previous| previous.until)
    }

    /// Decrypts a packet in place with `unprotect`; returns its new length and the key.
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
            // Received before under the previous key: a replay, not a forgery.
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

/// Maximum time for which the previous key is accepted. A lost answer is retransmitted after 0.5 and 1.5 s
/// (RFC 3261 §13.3.1.4); until then the peer cannot have our new key.
const OVERLAP_MAX: Duration = Duration::from_secs(2);

/// Time for which it is accepted after the first packet with the new key; later packets would be too late for
/// the jitter buffer.
const OVERLAP_AFTER_FIRST: Duration = Duration::from_millis(500);

#[cfg(test)]
mod receive_contexts_tests;
