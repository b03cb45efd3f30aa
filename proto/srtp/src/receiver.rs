//! Cryptographic context of the received stream: authentication and decryption in place (RFC 3711 §3.3).
//!
//! A packet that is not authentic is left unchanged.

use crate::PACKET_BYTES_MAX;
use crate::key::{Cipher, Key, SrtpSettings, rtcp_tag_bytes, rtp_tag_bytes};
use crate::packet::{
    ENCRYPTED_FLAG, NoProbe, Probe, RTCP_CLEAR_BYTES, RTCP_INDEX_BYTES, RtpHeader, Step, rtcp_ssrc,
    rtp_header,
};
use crate::packet::{KeyError, UnprotectError};
use crate::stream::{IndexError, ReplayWindow, Seen, Streams, index_candidates};
use crate::transforms::{CounterMode, Gcm, TAG_BYTES, rollover_counter, rtcp_associated_data};
use core::fmt;
use ringway_sansio::Defence;
use ringway_sdp::{CryptoSuite, MasterKey};
use subtle::ConstantTimeEq;

/// Cryptographic context of the packets that the peer sends: one key, and rollover counter and replay window of
/// each SSRC.
///
/// Keep the context as long as the key is the same ([`Self::is_keyed_by`]): through a hold, a re-INVITE or an
/// address change.
pub struct SrtpReceiver {
    key: Key,
    streams: Streams,
    counts: SrtpCounts,
}

/// Numbers of packets by result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SrtpCounts {
    /// SRTP and SRTCP packets accepted.
    pub accepted: u64,
    /// Too short, too long or of another version.
    pub malformed: u64,
    /// Unknown master key identifier.
    pub unknown_mki: u64,
    /// Received before.
    pub replayed: u64,
    /// Index behind the replay window.
    pub too_old: u64,
    /// Tag does not match: forged, damaged, or protected with another key.
    pub authentication_failed: u64,
    /// SRTCP without encryption.
    pub wrong_encryption: u64,
    /// Lifetime of the key is over.
    pub lifetime_over: u64,
    /// SSRC beyond the maximum number of tracked ones.
    pub too_many_ssrcs: u64,
}

impl SrtpReceiver {
    /// Creates a context with the default settings.
    ///
    /// # Errors
    /// The key does not match the suite, or its lifetime or MKI is out of range.
    pub fn new(suite: CryptoSuite, key: &MasterKey) -> Result<Self, KeyError> {
        Self::with_settings(suite, key, SrtpSettings::default())
    }

    /// Creates a context with the given settings.
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
            streams: Streams::new(settings.ssrcs_max, settings.window_packets),
            counts: SrtpCounts::default(),
        })
    }

    /// Creates the context for a new key of the same peer. It continues the rollover counters (RFC 3711
    /// §3.3.1) and also accepts a peer that restarts them with the new key. This context is unchanged and can
    /// decrypt packets that are still in transit.
    ///
    /// The key must not have been used before: the new context has no record of packets received under it.
    ///
    /// # Errors
    /// The key does not match the suite.
    pub fn successor(&self, suite: CryptoSuite, key: &MasterKey) -> Result<Self, KeyError> {
        let mut streams = self.streams.clone();
        streams.allow_restart();
        Ok(Self { key: Key::new(suite, key)?, streams, counts: SrtpCounts::default() })
    }

    /// Authenticates and decrypts an SRTP packet in place. `packet` is exactly the datagram. Returns the
    /// length of the RTP packet in bytes.
    ///
    /// # Errors
    /// The packet is rejected: it is unchanged, and of the context only a counter has changed.
    pub fn unprotect_rtp(&mut self, packet: &mut [u8]) -> Result<usize, UnprotectError> {
        self.unprotect_rtp_probed(packet, &mut NoProbe)
    }

    /// Same as [`Self::unprotect_rtp`]; calls `probe` at the end of each step.
    ///
    /// # Errors
    /// Same as [`Self::unprotect_rtp`].
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

    /// Authenticates and decrypts an SRTCP packet in place. `packet` is exactly the datagram. Returns the
    /// length of the RTCP packet in bytes.
    ///
    /// # Errors
    /// The packet is rejected: it is unchanged, and of the context only a counter has changed.
    pub fn unprotect_rtcp(&mut self, packet: &mut [u8]) -> Result<usize, UnprotectError> {
        let result = self.take_rtcp(packet);
        self.counts.count(result.err());
        result
    }

    /// True if this key is the context's key. Then the context must be kept, because it holds the
    /// rollover counters.
    pub fn is_keyed_by(&self, suite: CryptoSuite, key: &MasterKey) -> bool {
        self.key.is(suite, key)
    }

    /// Crypto suite of the key.
    pub fn suite(&self) -> CryptoSuite {
        self.key.suite()
    }

    /// Numbers of packets by result since the creation of this context.
    pub fn counts(&self) -> &SrtpCounts {
        &self.counts
    }

    /// Highest index (rollover counter and sequence number) of an authenticated RTP packet with this SSRC.
    pub fn highest_index(&self, ssrc: u32) -> Option<u64> {
        self.streams.at(self.streams.find(ssrc)).and_then(|stream| stream.rtp.highest())
    }

    #[inline]
    fn take_rtp(&mut self, packet: &mut [u8], probe: &mut impl Probe) -> Result<usize, UnprotectError> {
        let tag_bytes = rtp_tag_bytes(self.suite());
        let tail = Tail::of(packet.len(), self.suite(), tag_bytes, 0, self.key.mki().len())?;
        let header = packet.get(..tail.body).and_then(rtp_header).ok_or(UnprotectError::Malformed)?;
        self.check_mki(packet, &tail)?;
        let key = &mut self.key;
        let at = self.streams.find(header.ssrc);
        if at.is_none() && self.streams.is_full() {
            return Err(UnprotectError::TooManySsrcs);
        }
        if key.rtp_use.left() == 0 {
            return Err(UnprotectError::LifetimeOver);
        }
        probe.ended(Step::Headers);
        let stream = self.streams.at(at);
        let candidates = index_candidates(stream, header.sequence);
        let window = stream.map(|stream| &stream.rtp);
        let first = candidates.first.map_err(|none| match none {
            IndexError::BeforeStart => UnprotectError::TooOld,
            IndexError::Overflow => UnprotectError::LifetimeOver,
        });
        let in_order = first.and_then(|index| is_new(window, index));
        // No packet has been received under this key: none can be a replay, and an authentic one may be a
        // restart of the counter.
        let may_restart = stream.is_some_and(|stream| stream.rtp_may_restart);
        probe.ended(Step::Replay);
        let mut open = |index| match open_rtp(&key.rtp, packet, &header, &tail, index, probe) {
            true => Ok(index),
            false => Err(UnprotectError::AuthenticationFailed),
        };
        let first = if may_restart { first } else { in_order };
        let (index, restarts) = match (first.and_then(&mut open), candidates.second) {
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
        let tail = Tail::of(packet.len(), self.suite(), tag_bytes, RTCP_INDEX_BYTES, self.key.mki().len())?;
        let ssrc = packet.get(..tail.body).and_then(rtcp_ssrc).ok_or(UnprotectError::Malformed)?;
        let word = packet.get(tail.index_at..).and_then(|rest| rest.first_chunk::<RTCP_INDEX_BYTES>());
        let word = u32::from_be_bytes(*word.ok_or(UnprotectError::Malformed)?);
        let index = u64::from(word & !ENCRYPTED_FLAG);
        if word & ENCRYPTED_FLAG == 0 {
            return Err(UnprotectError::WrongEncryption);
        }
        self.check_mki(packet, &tail)?;
        let key = &mut self.key;
        let at = self.streams.find(ssrc);
        if at.is_none() && self.streams.is_full() {
            return Err(UnprotectError::TooManySsrcs);
        }
        if key.rtcp_use.left() == 0 {
            return Err(UnprotectError::LifetimeOver);
        }
        let stream = self.streams.at(at);
        let in_order = is_new(stream.map(|stream| &stream.rtcp), index);
        // Same for RTCP: under a new key, an index that was received under the old one may be a restart.
        let restarts = in_order.is_err() && stream.is_some_and(|stream| stream.rtcp_may_restart);
        if !restarts {
            in_order?;
        }
        if !open_rtcp(&key.rtcp, packet, &tail, ssrc, index) {
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

    #[inline]
    fn check_mki(&self, packet: &[u8], tail: &Tail) -> Result<(), UnprotectError> {
        let mki = packet.get(tail.mki_at..tail.mki_at + self.key.mki().len());
        if mki == Some(self.key.mki()) { Ok(()) } else { Err(UnprotectError::UnknownMki) }
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
        Seen::Yes if Defence::SrtpReplay.is_on() => Err(UnprotectError::Replayed),
        Seen::Yes => Ok(index),
        Seen::TooOld => Err(UnprotectError::TooOld),
    }
}

/// Offsets of the fields behind the packet. Counter mode: (index,) MKI, tag. AEAD: tag, (index,) MKI.
struct Tail {
    /// End of the RTP or RTCP packet.
    body: usize,
    /// Offset of the word with the E flag and the SRTCP index.
    index_at: usize,
    mki_at: usize,
    tag_at: usize,
}

impl Tail {
    /// Computes the offsets for a packet of `len` bytes.
    ///
    /// # Errors
    /// The packet is too long, or too short for the fields behind it.
    #[inline]
    pub(crate) fn of(
        len: usize,
        suite: CryptoSuite,
        tag_bytes: usize,
        index_bytes: usize,
        mki_bytes: usize,
    ) -> Result<Self, UnprotectError> {
        if len > PACKET_BYTES_MAX {
            return Err(UnprotectError::Malformed);
        }
        let tail = tag_bytes + index_bytes + mki_bytes;
        let body = len.checked_sub(tail).ok_or(UnprotectError::Malformed)?;
        Ok(if suite.is_aead() {
            let index_at = body + tag_bytes;
            Self { body, index_at, mki_at: index_at + index_bytes, tag_at: body }
        } else {
            let mki_at = body + index_bytes;
            Self { body, index_at: body, mki_at, tag_at: mki_at + mki_bytes }
        })
    }
}

/// Decrypts an SRTP packet if it is authentic under this index; returns false otherwise.
#[inline]
fn open_rtp(
    cipher: &Cipher,
    packet: &mut [u8],
    header: &RtpHeader,
    tail: &Tail,
    index: u64,
    probe: &mut impl Probe,
) -> bool {
    match cipher {
        Cipher::CounterMode(cipher) => open_rtp_counter_mode(cipher, packet, header, tail, index, probe),
        Cipher::Gcm(cipher) => {
            let opened = open_rtp_aead(cipher, packet, header, tail, index);
            probe.ended(Step::Encryption);
            opened
        }
    }
    .is_some()
}

/// Decrypts an SRTCP packet if it is authentic; returns false otherwise.
fn open_rtcp(cipher: &Cipher, packet: &mut [u8], tail: &Tail, ssrc: u32, index: u64) -> bool {
    match cipher {
        Cipher::CounterMode(cipher) => open_rtcp_counter_mode(cipher, packet, tail, ssrc, index),
        Cipher::Gcm(cipher) => open_rtcp_aead(cipher, packet, tail, ssrc, index),
    }
    .is_some()
}

fn open_rtp_counter_mode(
    cipher: &CounterMode,
    packet: &mut [u8],
    header: &RtpHeader,
    tail: &Tail,
    index: u64,
    probe: &mut impl Probe,
) -> Option<()> {
    let tag = cipher.tag(packet.get(..tail.body)?, &rollover_counter(index));
    let authentic = check(&tag, packet.get(tail.tag_at..)?);
    probe.ended(Step::Authentication);
    authentic?;
    cipher.apply(header.ssrc, index, packet.get_mut(header.payload_at..tail.body)?);
    probe.ended(Step::Encryption);
    Some(())
}

fn open_rtp_aead(cipher: &Gcm, packet: &mut [u8], header: &RtpHeader, tail: &Tail, index: u64) -> Option<()> {
    let (protected, behind) = packet.split_at_mut_checked(tail.tag_at)?;
    let (header_bytes, payload) = protected.split_at_mut_checked(header.payload_at)?;
    cipher.open(header.ssrc, index, header_bytes, payload, behind.first_chunk::<TAG_BYTES>()?)
}

fn open_rtcp_counter_mode(
    cipher: &CounterMode,
    packet: &mut [u8],
    tail: &Tail,
    ssrc: u32,
    index: u64,
) -> Option<()> {
    let tag = cipher.tag(packet.get(..tail.mki_at)?, &[]);
    check(&tag, packet.get(tail.tag_at..)?)?;
    cipher.apply(ssrc, index, packet.get_mut(RTCP_CLEAR_BYTES..tail.body)?);
    Some(())
}

fn open_rtcp_aead(cipher: &Gcm, packet: &mut [u8], tail: &Tail, ssrc: u32, index: u64) -> Option<()> {
    let (protected, behind) = packet.split_at_mut_checked(tail.body)?;
    let (tag, behind) = behind.split_first_chunk::<TAG_BYTES>()?;
    let word = behind.first_chunk::<RTCP_INDEX_BYTES>()?;
    let (clear, text) = protected.split_first_chunk_mut::<RTCP_CLEAR_BYTES>()?;
    cipher.open(ssrc, index, &rtcp_associated_data(clear, word), text, tag)
}

/// Compares a computed tag with the received one in constant time.
#[inline]
fn check(full: &[u8], received: &[u8]) -> Option<()> {
    let wanted = full.get(..received.len())?;
    (bool::from(wanted.ct_eq(received)) || !Defence::SrtpTag.is_on()).then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    impl SrtpReceiver {
        /// Replaces the key.
        pub(crate) fn set_key(&mut self, key: Key) {
            self.key = key;
        }

        /// Sets the highest received index of this SSRC.
        pub(crate) fn set_highest_index(&mut self, ssrc: u32, index: u64) {
            self.streams.at_or_new(self.streams.find(ssrc), ssrc).unwrap().rtp.note(index);
        }

        /// All state except the counters.
        pub(crate) fn state(&self) -> impl PartialEq + fmt::Debug + use<> {
            (self.streams.clone(), self.key.rtp_use.left(), self.key.rtcp_use.left())
        }
    }
}
