//! Authentication and decryption of packets.
//!
//! A packet that is not authentic is left unchanged.

use crate::PACKET_BYTES_MAX;
use crate::counter_mode::CounterMode;
use crate::error::UnprotectError;
use crate::gcm::{Gcm, TAG_BYTES};
use crate::key::Cipher;
use crate::packet::{RTCP_CLEAR_BYTES, RTCP_INDEX_BYTES, RtpHeader};
use crate::probe::{Probe, Step};
use crate::seal::{rollover_counter, rtcp_associated_data};
use ringway_sdp::CryptoSuite;
use subtle::ConstantTimeEq;

/// Offsets of the fields behind the packet. Counter mode: (index,) MKI, tag. AEAD: tag, (index,) MKI.
pub(crate) struct Tail {
    /// End of the RTP or RTCP packet.
    pub(crate) body: usize,
    /// Offset of the word with the E flag and the SRTCP index.
    pub(crate) index_at: usize,
    pub(crate) mki_at: usize,
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
pub(crate) fn open_rtp(
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
pub(crate) fn open_rtcp(cipher: &Cipher, packet: &mut [u8], tail: &Tail, ssrc: u32, index: u64) -> bool {
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
    bool::from(wanted.ct_eq(received)).then_some(())
}
