//! Current protection of a stream: the two SRTP contexts, kept as long as their keys are the same.

use super::event::SecurityFailure;
use super::receive_contexts::{KeyGeneration, ReceiveContexts};
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
        keys: (&MasterKey, &MasterKey),
        settings: SrtpSettings,
    ) -> Result<KeyChange, SecurityFailure> {
        let (send_key, receive_key) = keys;
        if let Self::Keyed { key_management: KeyManagement::Sdes, send, receive } = self {
            let changed = !send.is_keyed_by(suite, send_key) || !receive.is_keyed_by(suite, receive_key);
            let result = rekey(now, suite, keys, settings, (send, receive));
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
        keys: (&MasterKey, &MasterKey),
        settings: SrtpSettings,
    ) -> Result<(), KeyError> {
        let (send_key, receive_key) = keys;
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
    (send_key, receive_key): (&MasterKey, &MasterKey),
    settings: SrtpSettings,
    (send, receive): (&mut SrtpSender, &mut ReceiveContexts),
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
