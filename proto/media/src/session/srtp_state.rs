//! Current protection of a stream: the two SRTP contexts, kept as long as their keys are the same.

use super::event::SecurityFailure;
use super::receive_contexts::{KeyGeneration, ReceiveContexts};
use ringway_sansio::Instant;
use ringway_sdp::{CryptoSuite, KeyManagement, MasterKey};
use ringway_srtp::{KeyError, ProtectError, SrtpReceiver, SrtpSender, SrtpSettings, UnprotectError};

/// Protection of a stream.
#[derive(Debug)]
pub(super) enum SrtpState {
    /// No protection was negotiated: RTP in the clear.
    None,
    /// ZRTP is in progress. Nothing is sent, and only packets that authenticate under a key already known are received.
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
    /// In the clear, as negotiated: the sender is not authenticated.
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
    /// The key may protect no more.
    KeyUsedUp,
    /// No room, or no packet: never with packets of our own.
    Malformed,
}

impl SrtpState {
    /// Keys that signalling carried. A context whose key is the same is kept, and its rollover counters with it: the
    /// peer, which keeps its own, would understand nothing else (RFC 3711 §3.3.1).
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

    /// The peer may send under this key, and we may not send yet.
    pub(super) fn set_receive(
        &mut self,
        suite: CryptoSuite,
        key: &MasterKey,
        settings: SrtpSettings,
    ) -> Result<(), KeyError> {
        *self = Self::Agreeing { receive: Some(ReceiveContexts::new(suite, key, settings)?) };
        Ok(())
    }

    /// Keys that both ends agreed on. Packets that came meanwhile stay known.
    pub(super) fn set_agreed(
        &mut self,
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
        *self = Self::Keyed { key_management: KeyManagement::Zrtp, send, receive };
        Ok(())
    }

    /// Protects the RTP packet in the first `len` bytes; returns how long it is then.
    pub(super) fn protect_rtp(&mut self, buffer: &mut [u8], len: usize) -> Result<usize, SendError> {
        match self {
            Self::None => Ok(len),
            Self::Keyed { send, .. } => send.protect_rtp(buffer, len).map_err(SendError::from),
            Self::Agreeing { .. } | Self::Failed => Err(SendError::NotReady),
        }
    }

    /// Protects the RTCP packet in the first `len` bytes; returns how long it is then.
    pub(super) fn protect_rtcp(&mut self, buffer: &mut [u8], len: usize) -> Result<usize, SendError> {
        match self {
            Self::None => Ok(len),
            Self::Keyed { send, .. } => send.protect_rtcp(buffer, len).map_err(SendError::from),
            Self::Agreeing { .. } | Self::Failed => Err(SendError::NotReady),
        }
    }

    /// Opens an RTP packet in place.
    pub(super) fn open_rtp(&mut self, now: Instant, packet: &mut [u8]) -> Opened {
        self.open(now, |receive| receive.unprotect_rtp(packet))
    }

    /// Opens an RTCP packet in place.
    pub(super) fn open_rtcp(&mut self, now: Instant, packet: &mut [u8]) -> Opened {
        self.open(now, |receive| receive.unprotect_rtcp(packet))
    }

    /// Gives the peer's previous key up when its time has come.
    pub(super) fn on_time(&mut self, now: Instant) {
        if let Some(receive) = self.receiving() {
            receive.on_time(now);
        }
    }

    /// Gives the peer's previous key up at once.
    pub(super) fn forget_previous(&mut self) {
        if let Some(receive) = self.receiving() {
            receive.forget_previous();
        }
    }

    /// Until when the peer's previous key is taken.
    pub(super) fn previous_until(&self) -> Option<Instant> {
        match self {
            Self::Keyed { receive, .. } | Self::Agreeing { receive: Some(receive) } => {
                receive.previous_until()
            }
            Self::None | Self::Agreeing { receive: None } | Self::Failed => None,
        }
    }

    /// True when our sound may go out.
    pub(super) const fn may_send(&self) -> bool {
        matches!(self, Self::None | Self::Keyed { .. })
    }

    /// The protection in force.
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

/// Puts other keys in the place of those that are no longer the same.
fn rekey(
    now: Instant,
    suite: CryptoSuite,
    (send_key, receive_key): (&MasterKey, &MasterKey),
    settings: SrtpSettings,
    (send, receive): (&mut SrtpSender, &mut ReceiveContexts),
) -> Result<(), KeyError> {
    if !send.is_keyed_by(suite, send_key) {
        // RFC 4568 §7.1.4: a new key is a new context, whose rollover counter is 0.
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
