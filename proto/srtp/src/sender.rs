//! Cryptographic context of the sent stream: encryption and authentication in place (RFC 3711 §3.3).

use crate::key::{Cipher, Key, SrtpSettings, rtcp_tag_bytes, rtp_tag_bytes};
use crate::packet::{KeyError, ProtectError};
use crate::packet::{NoProbe, Probe, RTCP_CLEAR_BYTES, RTCP_INDEX_BYTES, Step, rtcp_ssrc, rtp_header};
use crate::stream::{IndexError, Seen, Streams, estimate};
use crate::transforms::{PacketLayout, TAG_BYTES, seal_rtcp, seal_rtcp_aead, seal_rtp, seal_rtp_aead};
use crate::{PACKET_BYTES_MAX, SRTCP_PACKETS_MAX};
use core::fmt;
use ringway_sdp::{CryptoSuite, MKI_BYTES_MAX, MasterKey};

/// Cryptographic context of the packets that we send: one key, and the rollover counter of each of our SSRCs.
///
/// Keep the context as long as the key is the same ([`Self::is_keyed_by`]): through a hold, a re-INVITE or an
/// address change.
pub struct SrtpSender {
    key: Key,
    streams: Streams,
}

impl SrtpSender {
    /// Maximum number of bytes that protection adds to a packet: tag, SRTCP index and MKI.
    pub const OVERHEAD_BYTES_MAX: usize = TAG_BYTES + RTCP_INDEX_BYTES + MKI_BYTES_MAX;

    /// Creates a context with the default settings and rollover counters of 0.
    ///
    /// # Errors
    /// The key does not match the suite, or its lifetime or MKI is out of range.
    pub fn new(suite: CryptoSuite, key: &MasterKey) -> Result<Self, KeyError> {
        Self::with_settings(suite, key, SrtpSettings::default())
    }

    /// Creates a context with rollover counters of 0. The replay window of `settings` applies to the receiver
    /// only.
    ///
    /// # Errors
    /// The key does not match the suite, or its lifetime or MKI is out of range.
    pub fn with_settings(
        suite: CryptoSuite,
        key: &MasterKey,
        settings: SrtpSettings,
    ) -> Result<Self, KeyError> {
        let settings = settings.clamped();
        Ok(Self {
            key: Key::new(suite, key)?,
            streams: Streams::new(settings.ssrcs_max, SrtpSettings::WINDOW_PACKETS_MIN),
        })
    }

    /// Replaces the key and continues the rollover counters and SRTCP indices (RFC 3711 §3.3.1, §3.4). The
    /// current key changes nothing.
    ///
    /// When our address changes, create a new sender instead (RFC 4568 §7.1.4).
    ///
    /// # Errors
    /// The key does not match the suite; the old one stays in use.
    pub fn rekey(&mut self, suite: CryptoSuite, key: &MasterKey) -> Result<(), KeyError> {
        if !self.is_keyed_by(suite, key) {
            self.key = Key::new(suite, key)?;
        }
        Ok(())
    }

    /// Protects the RTP packet in the first `len` bytes of `buffer` and returns its new length in bytes. The
    /// buffer needs room for [`Self::rtp_overhead_bytes`] more.
    ///
    /// # Errors
    /// The packet cannot be protected; neither packet nor context has changed.
    pub fn protect_rtp(&mut self, buffer: &mut [u8], len: usize) -> Result<usize, ProtectError> {
        self.protect_rtp_probed(buffer, len, &mut NoProbe)
    }

    /// Same as [`Self::protect_rtp`]; calls `probe` at the end of each step.
    ///
    /// # Errors
    /// Same as [`Self::protect_rtp`].
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
        let layout = PacketLayout { payload_at: header.payload_at, len, ssrc: header.ssrc, index };
        match &self.key.rtp {
            Cipher::CounterMode(cipher) => {
                let tag_bytes = rtp_tag_bytes(self.key.suite());
                seal_rtp(cipher, packet, &layout, self.key.mki(), tag_bytes, probe)
            }
            Cipher::Gcm(cipher) => seal_rtp_aead(cipher, packet, &layout, self.key.mki(), probe),
        }
        .ok_or(ProtectError::TooLong)?;
        let stream = self.streams.at_or_new(at, header.ssrc).ok_or(ProtectError::TooManySsrcs)?;
        stream.rtp.note(index);
        self.key.rtp_use.spend();
        probe.ended(Step::Replay);
        Ok(packet.len())
    }

    /// Protects the RTCP packet in the first `len` bytes of `buffer` and returns its new length in bytes. The
    /// buffer needs room for [`Self::rtcp_overhead_bytes`] more.
    ///
    /// # Errors
    /// The packet cannot be protected; neither packet nor context has changed.
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
        let layout = PacketLayout { payload_at: RTCP_CLEAR_BYTES, len, ssrc, index };
        match &self.key.rtcp {
            Cipher::CounterMode(cipher) => {
                let tag_bytes = rtcp_tag_bytes(self.key.suite());
                seal_rtcp(cipher, packet, &layout, self.key.mki(), tag_bytes)
            }
            Cipher::Gcm(cipher) => seal_rtcp_aead(cipher, packet, &layout, self.key.mki()),
        }
        .ok_or(ProtectError::TooLong)?;
        let stream = self.streams.at_or_new(at, ssrc).ok_or(ProtectError::TooManySsrcs)?;
        stream.rtcp.note(index);
        self.key.rtcp_use.spend();
        Ok(packet.len())
    }

    /// True if this key is the context's key. Then the context must be kept, because it holds the rollover
    /// counters.
    pub fn is_keyed_by(&self, suite: CryptoSuite, key: &MasterKey) -> bool {
        self.key.is(suite, key)
    }

    /// Crypto suite of the key.
    pub fn suite(&self) -> CryptoSuite {
        self.key.suite()
    }

    /// Number of bytes that protection adds to an RTP packet: tag and MKI.
    #[inline]
    pub fn rtp_overhead_bytes(&self) -> usize {
        rtp_tag_bytes(self.key.suite()) + self.key.mki().len()
    }

    /// Number of bytes that protection adds to an RTCP packet: tag, index and MKI.
    pub fn rtcp_overhead_bytes(&self) -> usize {
        rtcp_tag_bytes(self.key.suite()) + RTCP_INDEX_BYTES + self.key.mki().len()
    }
}

impl fmt::Debug for SrtpSender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SrtpSender({}, {} SSRCs)", self.suite().name(), self.streams.len())
    }
}

/// First `needed` bytes of the buffer.
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
        /// Replaces the key.
        pub(crate) fn set_key(&mut self, key: Key) {
            self.key = key;
        }

        /// Number of RTP packets that the key may still protect. Negotiate a new key before it is 0 (RFC 3711
        /// §9.2).
        pub(crate) fn rtp_packets_left(&self) -> u64 {
            self.key.rtp_use.left()
        }

        /// Number of RTCP packets that the key may still protect.
        pub(crate) fn rtcp_packets_left(&self) -> u64 {
            self.key.rtcp_use.left()
        }

        /// Highest index (rollover counter and sequence number) of an RTP packet sent with this SSRC.
        pub(crate) fn highest_index(&self, ssrc: u32) -> Option<u64> {
            self.streams.at(self.streams.find(ssrc)).and_then(|stream| stream.rtp.highest())
        }

        /// Sets the next SRTCP index of this SSRC.
        pub(crate) fn set_next_rtcp_index(&mut self, ssrc: u32, next: u64) {
            if let Some(last) = next.checked_sub(1) {
                self.streams.at_or_new(self.streams.find(ssrc), ssrc).unwrap().rtcp.note(last);
            }
        }

        /// Sets the highest sent index of this SSRC.
        pub(crate) fn set_highest_index(&mut self, ssrc: u32, index: u64) {
            self.streams.at_or_new(self.streams.find(ssrc), ssrc).unwrap().rtp.note(index);
        }
    }
}
