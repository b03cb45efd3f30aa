//! What we send: protected in place (RFC 3711 §3.3, the sender's steps).

use crate::error::{KeyError, ProtectError};
use crate::gcm::TAG_BYTES;
use crate::index::{IndexError, estimate};
use crate::key::{Cipher, Key, rtcp_tag_bytes, rtp_tag_bytes};
use crate::packet::{RTCP_CLEAR_BYTES, RTCP_INDEX_BYTES, rtcp_ssrc, rtp_header};
use crate::probe::{NoProbe, Probe, Step};
use crate::replay::Seen;
use crate::seal::{Part, seal_rtcp, seal_rtcp_aead, seal_rtp, seal_rtp_aead};
use crate::settings::{RtcpEncryption, SrtpSettings};
use crate::stream::Streams;
use crate::{PACKET_BYTES_MAX, SRTCP_PACKETS_MAX};
use core::fmt;
use ringway_sdp::{CryptoSuite, MKI_BYTES_MAX, MasterKey};

/// The cryptographic context of what we send: one key, and the rollover counter of each of our SSRCs.
///
/// Keep it as long as the key is the same ([`Self::is_keyed_by`]): through a hold, a re-INVITE or a new address.
pub struct SrtpSender {
    key: Key,
    streams: Streams,
    rtcp_encryption: RtcpEncryption,
}

impl SrtpSender {
    /// The most that a packet grows, in bytes: tag, SRTCP index and MKI.
    pub const OVERHEAD_BYTES_MAX: usize = TAG_BYTES + RTCP_INDEX_BYTES + MKI_BYTES_MAX;

    /// A context with the default settings, whose rollover counters start at 0.
    ///
    /// # Errors
    /// The key does not fit the suite.
    pub fn new(suite: CryptoSuite, key: &MasterKey) -> Result<Self, KeyError> {
        Self::with_settings(suite, key, SrtpSettings::default())
    }

    /// A context whose rollover counters start at 0. Of the settings the replay window is the receiver's alone.
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
            key: Key::new(suite, key)?,
            streams: Streams::new(settings.ssrcs_max, SrtpSettings::WINDOW_PACKETS_MIN),
            rtcp_encryption: settings.rtcp_encryption,
        })
    }

    /// Goes on with a new key; with the key that is there already nothing changes. Rollover counters and SRTCP indices
    /// count on (RFC 3711 §3.3.1, §3.4).
    ///
    /// For a new context instead (RFC 4568 §7.1.4, when our address changes) make a new sender.
    ///
    /// # Errors
    /// The key does not fit the suite; the old one stays.
    pub fn rekey(&mut self, suite: CryptoSuite, key: &MasterKey) -> Result<(), KeyError> {
        if !self.is_keyed_by(suite, key) {
            self.key = Key::new(suite, key)?;
        }
        Ok(())
    }

    /// Protects the RTP packet in the first `len` bytes of `buffer`, and returns how long it is now: longer by
    /// [`Self::rtp_overhead_bytes`], for which the buffer must have room.
    ///
    /// # Errors
    /// The packet cannot be protected; neither it nor the context has changed.
    pub fn protect_rtp(&mut self, buffer: &mut [u8], len: usize) -> Result<usize, ProtectError> {
        self.protect_rtp_probed(buffer, len, &mut NoProbe)
    }

    /// As [`Self::protect_rtp`]; `probe` is told when each step ends.
    ///
    /// # Errors
    /// As [`Self::protect_rtp`].
    #[inline]
    pub fn protect_rtp_probed(
        &mut self,
        buffer: &mut [u8],
        len: usize,
        probe: &mut impl Probe,
    ) -> Result<usize, ProtectError> {
        let header = buffer.get(..len).and_then(rtp_header).ok_or(ProtectError::Malformed)?;
        let packet = room(buffer, len + self.rtp_overhead_bytes())?;
        let at = self.streams.find(header.ssrc);
        if at.is_none() && self.streams.is_full() {
            return Err(ProtectError::TooManySsrcs);
        }
        if self.key.rtp_use.left() == 0 {
            return Err(ProtectError::LifetimeOver);
        }
        probe.ended(Step::Headers);
        let window = self.streams.at(at).map(|stream| &stream.rtp);
        let index = match window.and_then(|window| Some((window, window.highest()?))) {
            None => u64::from(header.sequence),
            Some((window, highest)) => match estimate(highest, header.sequence) {
                Ok(index) if window.check(index) == Seen::No => index,
                Ok(_) | Err(IndexError::BeforeStart) => return Err(ProtectError::Repeated),
                Err(IndexError::Overflow) => return Err(ProtectError::LifetimeOver),
            },
        };
        probe.ended(Step::Replay);
        let part = Part { payload_at: header.payload_at, len, ssrc: header.ssrc, index };
        match &self.key.rtp {
            Cipher::CounterMode(cipher) => {
                let tag_bytes = rtp_tag_bytes(self.key.suite());
                seal_rtp(cipher, packet, &part, self.key.mki(), tag_bytes, probe)
            }
            Cipher::Gcm(cipher) => seal_rtp_aead(cipher, packet, &part, self.key.mki(), probe),
        }
        .ok_or(ProtectError::TooLong)?;
        let stream = self.streams.at_or_new(at, header.ssrc).ok_or(ProtectError::TooManySsrcs)?;
        stream.rtp.note(index);
        self.key.rtp_use.spend();
        probe.ended(Step::Replay);
        Ok(packet.len())
    }

    /// Protects the RTCP packet in the first `len` bytes of `buffer`, and returns how long it is now: longer by
    /// [`Self::rtcp_overhead_bytes`], for which the buffer must have room.
    ///
    /// # Errors
    /// The packet cannot be protected; neither it nor the context has changed.
    pub fn protect_rtcp(&mut self, buffer: &mut [u8], len: usize) -> Result<usize, ProtectError> {
        let ssrc = buffer.get(..len).and_then(rtcp_ssrc).ok_or(ProtectError::Malformed)?;
        let packet = room(buffer, len + self.rtcp_overhead_bytes())?;
        let at = self.streams.find(ssrc);
        if at.is_none() && self.streams.is_full() {
            return Err(ProtectError::TooManySsrcs);
        }
        // RFC 3711 §3.4: the first packet has the index 0.
        let last = self.streams.at(at).and_then(|stream| stream.rtcp.highest());
        let index = last.map_or(0, |last| last + 1);
        if self.key.rtcp_use.left() == 0 || index >= SRTCP_PACKETS_MAX {
            return Err(ProtectError::LifetimeOver);
        }
        let part = Part { payload_at: RTCP_CLEAR_BYTES, len, ssrc, index };
        match &self.key.rtcp {
            Cipher::CounterMode(cipher) => {
                let tag_bytes = rtcp_tag_bytes(self.key.suite());
                seal_rtcp(cipher, packet, &part, self.rtcp_encryption, self.key.mki(), tag_bytes)
            }
            Cipher::Gcm(cipher) => {
                seal_rtcp_aead(cipher, packet, &part, self.rtcp_encryption, self.key.mki())
            }
        }
        .ok_or(ProtectError::TooLong)?;
        let stream = self.streams.at_or_new(at, ssrc).ok_or(ProtectError::TooManySsrcs)?;
        stream.rtcp.note(index);
        self.key.rtcp_use.spend();
        Ok(packet.len())
    }

    /// True when this key would make the same context: then this one must be kept, and its rollover counters with
    /// it.
    pub fn is_keyed_by(&self, suite: CryptoSuite, key: &MasterKey) -> bool {
        self.key.is(suite, key)
    }

    /// What protects the packets.
    pub fn suite(&self) -> CryptoSuite {
        self.key.suite()
    }

    /// Bytes by which an RTP packet grows: tag and MKI.
    #[inline]
    pub fn rtp_overhead_bytes(&self) -> usize {
        rtp_tag_bytes(self.key.suite()) + self.key.mki().len()
    }

    /// Bytes by which an RTCP packet grows: tag, index and MKI.
    pub fn rtcp_overhead_bytes(&self) -> usize {
        rtcp_tag_bytes(self.key.suite()) + RTCP_INDEX_BYTES + self.key.mki().len()
    }

    /// How many RTP packets the key may still protect: agree on a new one before it is 0 (RFC 3711 §9.2).
    pub fn rtp_packets_left(&self) -> u64 {
        self.key.rtp_use.left()
    }

    /// How many RTCP packets the key may still protect.
    pub fn rtcp_packets_left(&self) -> u64 {
        self.key.rtcp_use.left()
    }

    /// The index, rollover counter and sequence number in one, of the highest RTP packet sent with this SSRC.
    pub fn highest_index(&self, ssrc: u32) -> Option<u64> {
        self.streams.at(self.streams.find(ssrc)).and_then(|stream| stream.rtp.highest())
    }
}

impl fmt::Debug for SrtpSender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SrtpSender({}, {} SSRCs)", self.suite().name(), self.streams.len())
    }
}

/// The part of the buffer that the protected packet fills.
#[inline]
fn room(buffer: &mut [u8], needed: usize) -> Result<&mut [u8], ProtectError> {
    if needed > PACKET_BYTES_MAX {
        return Err(ProtectError::TooLong);
    }
    buffer.get_mut(..needed).ok_or(ProtectError::NoRoom { needed })
}

#[cfg(test)]
mod tests {
    use super::*;

    impl SrtpSender {
        /// Puts a key made by a test in the place of its own.
        pub(crate) fn set_key(&mut self, key: Key) {
            self.key = key;
        }

        /// As if the SRTCP packets of this SSRC had come so far.
        pub(crate) fn set_next_rtcp_index(&mut self, ssrc: u32, next: u64) {
            if let Some(last) = next.checked_sub(1) {
                self.streams.at_or_new(self.streams.find(ssrc), ssrc).unwrap().rtcp.note(last);
            }
        }

        /// As if the highest index sent with this SSRC had been this.
        pub(crate) fn set_highest_index(&mut self, ssrc: u32, index: u64) {
            self.streams.at_or_new(self.streams.find(ssrc), ssrc).unwrap().rtp.note(index);
        }
    }
}
