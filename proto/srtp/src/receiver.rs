//! What the peer sends: checked and opened in place (RFC 3711 §3.3, the receiver's steps).

use crate::error::{KeyError, UnprotectError};
use crate::index::IndexError;
use crate::key::{Key, rtcp_tag_bytes, rtp_tag_bytes};
use crate::open::{Tail, open_rtcp, open_rtp};
use crate::packet::{ENCRYPTED_FLAG, RTCP_INDEX_BYTES, rtcp_ssrc, rtp_header};
use crate::probe::{NoProbe, Probe, Step};
use crate::replay::{ReplayWindow, Seen};
use crate::settings::{RtcpEncryption, SrtpSettings};
use crate::stream::{Streams, guess};
use alloc::vec::Vec;
use core::fmt;
use ringway_sdp::{CryptoSuite, MASTER_KEYS_MAX, MasterKey};

/// The cryptographic context of what the peer sends: its keys, and rollover counter and replay window of each of its
/// SSRCs.
///
/// Keep it as long as the key is the same ([`Self::is_keyed_by`]): through a hold, a re-INVITE or a new address.
pub struct SrtpReceiver {
    /// At least one; all of one suite, their MKIs of one length.
    keys: Vec<Key>,
    streams: Streams,
    rtcp_encryption: RtcpEncryption,
    counts: SrtpCounts,
}

/// What became of the packets a receiver was given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SrtpCounts {
    /// SRTP and SRTCP packets taken.
    pub accepted: u64,
    /// Too short, too long or of another version.
    pub malformed: u64,
    /// Under an unknown master key identifier.
    pub unknown_mki: u64,
    /// Received before.
    pub replayed: u64,
    /// Behind the replay window.
    pub too_old: u64,
    /// Forged, damaged, or under another key.
    pub authentication_failed: u64,
    /// SRTCP encrypted where it should not be, or not encrypted where it should.
    pub wrong_encryption: u64,
    /// Under a key that is used up.
    pub lifetime_over: u64,
    /// Of one SSRC more than are followed.
    pub too_many_ssrcs: u64,
}

impl SrtpReceiver {
    /// A context with the default settings.
    ///
    /// # Errors
    /// The key does not fit the suite.
    pub fn new(suite: CryptoSuite, key: &MasterKey) -> Result<Self, KeyError> {
        Self::with_settings(suite, key, SrtpSettings::default())
    }

    /// A context with these settings.
    ///
    /// # Errors
    /// The key does not fit the suite.
    pub fn with_settings(
        suite: CryptoSuite,
        key: &MasterKey,
        settings: SrtpSettings,
    ) -> Result<Self, KeyError> {
        let settings = settings.clamped();
        Ok(Self {
            keys: Vec::from([Key::new(suite, key)?]),
            streams: Streams::new(settings.ssrcs_max, settings.window_packets),
            rtcp_encryption: settings.rtcp_encryption,
            counts: SrtpCounts::default(),
        })
    }

    /// Takes packets under this key too: it must have an MKI of the length the others have.
    ///
    /// # Errors
    /// The key does not fit, or there are [`MASTER_KEYS_MAX`] already.
    pub fn add_key(&mut self, key: &MasterKey) -> Result<(), KeyError> {
        let suite = self.suite();
        let fits = |held: &Key| held.mki().len() == key.mki.len() && held.mki() != key.mki;
        if key.mki.is_empty() || !self.keys.iter().all(fits) {
            return Err(KeyError::MkiMismatch);
        }
        if self.keys.len() >= MASTER_KEYS_MAX {
            return Err(KeyError::TooManyKeys);
        }
        self.keys.push(Key::new(suite, key)?);
        Ok(())
    }

    /// The context for a new key of the same peer. Rollover counters count on in it (RFC 3711 §3.3.1); a peer that
    /// starts them anew with its new key is understood too. This context stays as it is, for packets that are still on
    /// their way.
    ///
    /// The key must be new: what has come under it already, the successor does not know.
    ///
    /// # Errors
    /// The key does not fit the suite.
    pub fn successor(&self, suite: CryptoSuite, key: &MasterKey) -> Result<Self, KeyError> {
        let mut streams = self.streams.clone();
        streams.allow_restart();
        Ok(Self {
            keys: Vec::from([Key::new(suite, key)?]),
            streams,
            rtcp_encryption: self.rtcp_encryption,
            counts: SrtpCounts::default(),
        })
    }

    /// Checks and decrypts the SRTP packet that fills `packet`, and returns how many bytes of it are the RTP packet.
    ///
    /// # Errors
    /// The packet is not taken: of the context only a count has changed, of the packet nothing.
    pub fn unprotect_rtp(&mut self, packet: &mut [u8]) -> Result<usize, UnprotectError> {
        self.unprotect_rtp_probed(packet, &mut NoProbe)
    }

    /// As [`Self::unprotect_rtp`]; `probe` is told when each step ends.
    ///
    /// # Errors
    /// As [`Self::unprotect_rtp`].
    #[inline]
    pub fn unprotect_rtp_probed(
        &mut self,
        packet: &mut [u8],
        probe: &mut impl Probe,
    ) -> Result<usize, UnprotectError> {
        let result = self.take_rtp(packet, probe);
        self.counts.count(result.err());
        result
    }

    /// Checks and decrypts the SRTCP packet that fills `packet`, and returns how many bytes of it are the RTCP
    /// packet.
    ///
    /// # Errors
    /// The packet is not taken: of the context only a count has changed, of the packet nothing.
    pub fn unprotect_rtcp(&mut self, packet: &mut [u8]) -> Result<usize, UnprotectError> {
        let result = self.take_rtcp(packet);
        self.counts.count(result.err());
        result
    }

    /// True when this key, and no other, is the one packets are taken under: then this context must be kept, and its
    /// rollover counters with it.
    pub fn is_keyed_by(&self, suite: CryptoSuite, key: &MasterKey) -> bool {
        matches!(self.keys.as_slice(), [only] if only.is(suite, key))
    }

    /// What protects the packets.
    pub fn suite(&self) -> CryptoSuite {
        // There is always a key.
        self.keys.first().map_or(CryptoSuite::AesCm128HmacSha1_80, Key::suite)
    }

    /// What became of the packets so far.
    pub fn counts(&self) -> &SrtpCounts {
        &self.counts
    }

    /// The index, rollover counter and sequence number in one, of the highest RTP packet taken with this SSRC.
    pub fn highest_index(&self, ssrc: u32) -> Option<u64> {
        self.streams.at(self.streams.find(ssrc)).and_then(|stream| stream.rtp.highest())
    }

    #[inline]
    fn take_rtp(&mut self, packet: &mut [u8], probe: &mut impl Probe) -> Result<usize, UnprotectError> {
        let tag_bytes = rtp_tag_bytes(self.suite());
        let mki_bytes = self.keys.first().map_or(0, |key| key.mki().len());
        let tail = Tail::of(packet.len(), self.suite(), tag_bytes, 0, mki_bytes)?;
        let header = packet.get(..tail.body).and_then(rtp_header).ok_or(UnprotectError::Malformed)?;
        let key_at = self.key_of(packet, &tail)?;
        let Some(key) = self.keys.get_mut(key_at) else { return Err(UnprotectError::UnknownMki) };
        let at = self.streams.find(header.ssrc);
        if at.is_none() && self.streams.is_full() {
            return Err(UnprotectError::TooManySsrcs);
        }
        if key.rtp_use.left() == 0 {
            return Err(UnprotectError::LifetimeOver);
        }
        probe.ended(Step::Headers);
        let stream = self.streams.at(at);
        let guesses = guess(stream, header.sequence);
        let window = stream.map(|stream| &stream.rtp);
        let first = guesses.first.map_err(|none| match none {
            IndexError::BeforeStart => UnprotectError::TooOld,
            IndexError::Overflow => UnprotectError::LifetimeOver,
        });
        let in_order = first.and_then(|index| is_new(window, index));
        // Nothing has come under this key: nothing can be a replay, and whatever is authentic may be a new start.
        let may_restart = stream.is_some_and(|stream| stream.rtp_may_restart);
        probe.ended(Step::Replay);
        let mut open = |index| match open_rtp(&key.rtp, packet, &header, &tail, index, probe) {
            true => Ok(index),
            false => Err(UnprotectError::AuthenticationFailed),
        };
        let first = if may_restart { first } else { in_order };
        let (index, restarts) = match (first.and_then(&mut open), guesses.second) {
            (Ok(index), _) => (index, in_order.is_err()),
            (Err(error), None) => return Err(in_order.err().unwrap_or(error)),
            (Err(error), Some(second)) => match open(second) {
                Ok(index) => (index, true),
                Err(_) => return Err(in_order.err().unwrap_or(error)),
            },
        };
        let stream = self.streams.at_or_new(at, header.ssrc).ok_or(UnprotectError::TooManySsrcs)?;
        if restarts {
            stream.rtp.clear();
        }
        stream.rtp_may_restart = false;
        stream.rtp.note(index);
        key.rtp_use.spend();
        probe.ended(Step::Replay);
        Ok(tail.body)
    }

    fn take_rtcp(&mut self, packet: &mut [u8]) -> Result<usize, UnprotectError> {
        let tag_bytes = rtcp_tag_bytes(self.suite());
        let mki_bytes = self.keys.first().map_or(0, |key| key.mki().len());
        let tail = Tail::of(packet.len(), self.suite(), tag_bytes, RTCP_INDEX_BYTES, mki_bytes)?;
        let ssrc = packet.get(..tail.body).and_then(rtcp_ssrc).ok_or(UnprotectError::Malformed)?;
        let word = packet.get(tail.index_at..).and_then(|rest| rest.first_chunk::<RTCP_INDEX_BYTES>());
        let word = u32::from_be_bytes(*word.ok_or(UnprotectError::Malformed)?);
        let index = u64::from(word & !ENCRYPTED_FLAG);
        let encryption = match word & ENCRYPTED_FLAG {
            0 => RtcpEncryption::AuthenticatedOnly,
            _ => RtcpEncryption::Encrypted,
        };
        if encryption != self.rtcp_encryption {
            return Err(UnprotectError::WrongEncryption);
        }
        let key_at = self.key_of(packet, &tail)?;
        let Some(key) = self.keys.get_mut(key_at) else { return Err(UnprotectError::UnknownMki) };
        let at = self.streams.find(ssrc);
        if at.is_none() && self.streams.is_full() {
            return Err(UnprotectError::TooManySsrcs);
        }
        if key.rtcp_use.left() == 0 {
            return Err(UnprotectError::LifetimeOver);
        }
        let stream = self.streams.at(at);
        let in_order = is_new(stream.map(|stream| &stream.rtcp), index);
        // The same of RTCP: under a new key an index that was received under the old one may be a new start.
        let restarts = in_order.is_err() && stream.is_some_and(|stream| stream.rtcp_may_restart);
        if !restarts {
            in_order?;
        }
        if !open_rtcp(&key.rtcp, packet, &tail, ssrc, index, encryption) {
            return Err(in_order.err().unwrap_or(UnprotectError::AuthenticationFailed));
        }
        let stream = self.streams.at_or_new(at, ssrc).ok_or(UnprotectError::TooManySsrcs)?;
        if restarts {
            stream.rtcp.clear();
        }
        stream.rtcp_may_restart = false;
        stream.rtcp.note(index);
        key.rtcp_use.spend();
        Ok(tail.body)
    }

    /// Which key the packet names.
    #[inline]
    fn key_of(&self, packet: &[u8], tail: &Tail) -> Result<usize, UnprotectError> {
        // Without an MKI there is one key.
        if tail.mki_bytes == 0 {
            return Ok(0);
        }
        let mki = packet.get(tail.mki_at..tail.mki_at + tail.mki_bytes).unwrap_or_default();
        self.keys.iter().position(|key| key.mki() == mki).ok_or(UnprotectError::UnknownMki)
    }
}

impl fmt::Debug for SrtpReceiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SrtpReceiver({}, {} SSRCs, {:?})", self.suite().name(), self.streams.len(), self.counts)
    }
}

impl SrtpCounts {
    #[inline]
    fn count(&mut self, refused: Option<UnprotectError>) {
        let count = match refused {
            None => &mut self.accepted,
            Some(UnprotectError::Malformed) => &mut self.malformed,
            Some(UnprotectError::UnknownMki) => &mut self.unknown_mki,
            Some(UnprotectError::Replayed) => &mut self.replayed,
            Some(UnprotectError::TooOld) => &mut self.too_old,
            Some(UnprotectError::AuthenticationFailed) => &mut self.authentication_failed,
            Some(UnprotectError::WrongEncryption) => &mut self.wrong_encryption,
            Some(UnprotectError::LifetimeOver) => &mut self.lifetime_over,
            Some(UnprotectError::TooManySsrcs) => &mut self.too_many_ssrcs,
        };
        *count += 1;
    }
}

#[inline]
fn is_new(window: Option<&ReplayWindow>, index: u64) -> Result<u64, UnprotectError> {
    match window.map_or(Seen::No, |window| window.check(index)) {
        Seen::No => Ok(index),
        Seen::Yes => Err(UnprotectError::Replayed),
        Seen::TooOld => Err(UnprotectError::TooOld),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl SrtpReceiver {
        /// Puts a key made by a test in the place of its own.
        pub(crate) fn set_key(&mut self, key: Key) {
            self.keys = Vec::from([key]);
        }

        /// As if the highest index taken with this SSRC had been this.
        pub(crate) fn set_highest_index(&mut self, ssrc: u32, index: u64) {
            self.streams.at_or_new(self.streams.find(ssrc), ssrc).unwrap().rtp.note(index);
        }

        /// All state but the counts.
        pub(crate) fn state(&self) -> impl PartialEq + fmt::Debug + use<> {
            let uses = self.keys.iter().map(|key| (key.rtp_use.left(), key.rtcp_use.left()));
            (self.streams.clone(), uses.collect::<Vec<_>>())
        }
    }
}
