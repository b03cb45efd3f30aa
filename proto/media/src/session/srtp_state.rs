//! Current protection of a stream: the two SRTP contexts, kept as long as their keys are the same; of the received
//! stream also one for the previous key, for a short time.
//!
//! ```text
//!             other key                       2 s, or 500 ms after the first packet under the new key
//!   one key ─────────────► new and previous ──────────────────────────────────────────────────────────► one key
//! ```
//! A peer changes its key when it sends its answer, or when it receives ours; packets may overtake signalling
//! and each other. Packets with the previous key are decrypted by its own context, with its rollover counters
//! and replay windows. Packets that arrive before the SDP with their key cannot be decrypted.

use super::config::SecurityFailure;
use core::time::Duration;
use ringway_sansio::Instant;
use ringway_sdp::{CryptoSuite, KeyManagement, MasterKey};
use ringway_srtp::{KeyError, ProtectError, SrtpReceiver, SrtpSender, SrtpSettings, UnprotectError};

/// Protection of a stream.
#[derive(Debug)]
pub(super) enum SrtpState {
    /// No protection was negotiated: unencrypted RTP.
    None,
    /// ZRTP or DTLS is in progress. Nothing is sent; only packets that authenticate with an already known key are
    /// received.
    Agreeing { receive: Option<ReceiveContexts> },
    /// Both contexts have their keys.
    Keyed { key_management: KeyManagement, send: SrtpSender, receive: ReceiveContexts },
    /// The negotiated protection failed: nothing is sent or received.
    Failed,
}

/// Protection in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Security {
    /// Origin of the keys.
    pub key_management: KeyManagement,
    /// Crypto suite of both directions.
    pub suite: CryptoSuite,
}

/// Result of authentication and decryption of a received packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Opened {
    /// Unprotected, as negotiated: the sender is not authenticated.
    Plain,
    /// Authenticated under this key of the peer; the packet has this length in bytes.
    Authenticated(usize, KeyGeneration),
    /// Discarded.
    Refused(UnprotectError),
    /// There is no key yet.
    NotYet,
}

/// Reason why a packet is not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SendError {
    /// There are no keys.
    NotReady,
    /// The lifetime of the key is over.
    KeyUsedUp,
    /// The buffer or the packet is invalid; does not occur with our own packets.
    Malformed,
}

impl SrtpState {
    /// Sets keys from the SDP. A context with an unchanged key is kept with its rollover counters, because
    /// the peer keeps its own (RFC 3711 §3.3.1).
    pub(super) fn set_sdes(
        &mut self,
        now: Instant,
        suite: CryptoSuite,
        send_key: &MasterKey,
        receive_key: &MasterKey,
        settings: SrtpSettings,
    ) -> Result<KeyChange, SecurityFailure> {
        if let Self::Keyed { key_management: KeyManagement::Sdes, send, receive } = self {
            let changed = !send.is_keyed_by(suite, send_key) || !receive.is_keyed_by(suite, receive_key);
            let result = rekey(now, suite, send_key, receive_key, settings, send, receive);
            if let Err(error) = result {
                *self = Self::Failed;
                return Err(SecurityFailure::Key(error));
            }
            return Ok(if changed { KeyChange::Changed } else { KeyChange::Unchanged });
        }
        let contexts = SrtpSender::with_settings(suite, send_key, settings)
            .and_then(|send| Ok((send, ReceiveContexts::new(suite, receive_key, settings)?)));
        match contexts {
            Ok((send, receive)) => {
                *self = Self::Keyed { key_management: KeyManagement::Sdes, send, receive };
                Ok(KeyChange::Changed)
            }
            Err(error) => {
                *self = Self::Failed;
                Err(SecurityFailure::Key(error))
            }
        }
    }

    /// Sets the peer's key before ours: receiving is possible, sending is not.
    pub(super) fn set_receive(
        &mut self,
        suite: CryptoSuite,
        key: &MasterKey,
        settings: SrtpSettings,
    ) -> Result<(), KeyError> {
        *self = Self::Agreeing { receive: Some(ReceiveContexts::new(suite, key, settings)?) };
        Ok(())
    }

    /// Sets the keys of both directions. A receiving context that already has its key is kept.
    pub(super) fn set_agreed(
        &mut self,
        key_management: KeyManagement,
        suite: CryptoSuite,
        send_key: &MasterKey,
        receive_key: &MasterKey,
        settings: SrtpSettings,
    ) -> Result<(), KeyError> {
        let send = SrtpSender::with_settings(suite, send_key, settings)?;
        let receive = match core::mem::replace(self, Self::Failed) {
            Self::Agreeing { receive: Some(receive) } if receive.is_keyed_by(suite, receive_key) => receive,
            Self::None | Self::Agreeing { .. } | Self::Keyed { .. } | Self::Failed => {
                ReceiveContexts::new(suite, receive_key, settings)?
            }
        };
        *self = Self::Keyed { key_management, send, receive };
        Ok(())
    }

    /// Protects the RTP packet in the first `len` bytes; returns its new length.
    pub(super) fn protect_rtp(&mut self, buffer: &mut [u8], len: usize) -> Result<usize, SendError> {
        match self {
            Self::None => Ok(len),
            Self::Keyed { send, .. } => send.protect_rtp(buffer, len).map_err(SendError::from),
            Self::Agreeing { .. } | Self::Failed => Err(SendError::NotReady),
        }
    }

    /// Protects the RTCP packet in the first `len` bytes; returns its new length.
    pub(super) fn protect_rtcp(&mut self, buffer: &mut [u8], len: usize) -> Result<usize, SendError> {
        match self {
            Self::None => Ok(len),
            Self::Keyed { send, .. } => send.protect_rtcp(buffer, len).map_err(SendError::from),
            Self::Agreeing { .. } | Self::Failed => Err(SendError::NotReady),
        }
    }

    /// Authenticates and decrypts an RTP packet in place.
    pub(super) fn open_rtp(&mut self, now: Instant, packet: &mut [u8]) -> Opened {
        self.open(now, |receive| receive.unprotect_rtp(packet))
    }

    /// Authenticates and decrypts an RTCP packet in place.
    pub(super) fn open_rtcp(&mut self, now: Instant, packet: &mut [u8]) -> Opened {
        self.open(now, |receive| receive.unprotect_rtcp(packet))
    }

    /// Discards the peer's previous key when its time is over.
    pub(super) fn on_time(&mut self, now: Instant) {
        if let Some(receive) = self.receiving() {
            receive.on_time(now);
        }
    }

    /// Discards the peer's previous key.
    pub(super) fn forget_previous(&mut self) {
        if let Some(receive) = self.receiving() {
            receive.forget_previous();
        }
    }

    /// Time at which the peer's previous key is discarded.
    pub(super) fn previous_until(&self) -> Option<Instant> {
        match self {
            Self::Keyed { receive, .. } | Self::Agreeing { receive: Some(receive) } => {
                receive.previous_until()
            }
            Self::None | Self::Agreeing { receive: None } | Self::Failed => None,
        }
    }

    /// True if audio may be sent.
    pub(super) const fn may_send(&self) -> bool {
        matches!(self, Self::None | Self::Keyed { .. })
    }

    /// Protection in force.
    pub(super) fn security(&self) -> Option<Security> {
        match self {
            Self::Keyed { key_management, send, .. } => {
                Some(Security { key_management: *key_management, suite: send.suite() })
            }
            Self::None | Self::Agreeing { .. } | Self::Failed => None,
        }
    }

    fn open(
        &mut self,
        now: Instant,
        unprotect: impl FnMut(&mut SrtpReceiver) -> Result<usize, UnprotectError>,
    ) -> Opened {
        let receive = match self {
            Self::None => return Opened::Plain,
            Self::Failed | Self::Agreeing { receive: None } => return Opened::NotYet,
            Self::Agreeing { receive: Some(receive) } | Self::Keyed { receive, .. } => receive,
        };
        match receive.open(now, unprotect) {
            Ok((len, under)) => Opened::Authenticated(len, under),
            Err(error) => Opened::Refused(error),
        }
    }

    fn receiving(&mut self) -> Option<&mut ReceiveContexts> {
        match self {
            Self::Keyed { receive, .. } | Self::Agreeing { receive: Some(receive) } => Some(receive),
            Self::None | Self::Agreeing { receive: None } | Self::Failed => None,
        }
    }
}

/// Effect of new parameters on the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyChange {
    Unchanged,
    Changed,
}

/// Replaces the keys that have changed.
fn rekey(
    now: Instant,
    suite: CryptoSuite,
    send_key: &MasterKey,
    receive_key: &MasterKey,
    settings: SrtpSettings,
    send: &mut SrtpSender,
    receive: &mut ReceiveContexts,
) -> Result<(), KeyError> {
    if !send.is_keyed_by(suite, send_key) {
        // RFC 4568 §7.1.4: a new key has a new context with a rollover counter of 0.
        *send = SrtpSender::with_settings(suite, send_key, settings)?;
    }
    receive.rekey(now, suite, receive_key)
}

impl From<ProtectError> for SendError {
    fn from(error: ProtectError) -> Self {
        match error {
            ProtectError::LifetimeOver => Self::KeyUsedUp,
            ProtectError::Malformed
            | ProtectError::TooLong
            | ProtectError::NoRoom { .. }
            | ProtectError::Repeated
            | ProtectError::TooManySsrcs => Self::Malformed,
        }
    }
}

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
    fn is_keyed_by(&self, suite: CryptoSuite, key: &MasterKey) -> bool {
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
#[path = "receive_contexts_tests.rs"]
mod receive_contexts_tests;
