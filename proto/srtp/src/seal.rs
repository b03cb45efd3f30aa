//! Encryption and authentication of packets.

use crate::counter_mode::CounterMode;
use crate::gcm::{Gcm, TAG_BYTES};
use crate::packet::{ENCRYPTED_FLAG, RTCP_CLEAR_BYTES, RTCP_INDEX_BYTES};
use crate::probe::{Probe, Step};

/// Lengths and offsets of a packet to be protected.
pub(crate) struct PacketLayout {
    pub(crate) payload_at: usize,
    /// Length of the unprotected packet in bytes.
    pub(crate) len: usize,
    pub(crate) ssrc: u32,
    pub(crate) index: u64,
}

/// SRTP in counter mode (RFC 3711 §3.1): header, encrypted payload, MKI, tag. The tag covers header, payload
/// and rollover counter.
pub(crate) fn seal_rtp(
    cipher: &CounterMode,
    packet: &mut [u8],
    layout: &PacketLayout,
    mki: &[u8],
    tag_bytes: usize,
    probe: &mut impl Probe,
) -> Option<()> {
    cipher.apply(layout.ssrc, layout.index, packet.get_mut(layout.payload_at..layout.len)?);
    probe.ended(Step::Encryption);
    let tag = cipher.tag(packet.get(..layout.len)?, &rollover_counter(layout.index));
    let (mki_room, tag_room) = packet.get_mut(layout.len..)?.split_at_mut_checked(mki.len())?;
    mki_room.copy_from_slice(mki);
    tag_room.copy_from_slice(tag.get(..tag_bytes)?);
    probe.ended(Step::Authentication);
    Some(())
}

/// SRTP with an AEAD suite (RFC 7714 §8.2): header, encrypted payload with its tag, MKI.
pub(crate) fn seal_rtp_aead(
    cipher: &Gcm,
    packet: &mut [u8],
    layout: &PacketLayout,
    mki: &[u8],
    probe: &mut impl Probe,
) -> Option<()> {
    let (header, rest) = packet.split_at_mut_checked(layout.payload_at)?;
    let (payload, tail) = rest.split_at_mut_checked(layout.len.checked_sub(layout.payload_at)?)?;
    let (tag_room, mki_room) = tail.split_at_mut_checked(TAG_BYTES)?;
    tag_room.copy_from_slice(&cipher.seal(layout.ssrc, layout.index, header, payload)?);
    mki_room.copy_from_slice(mki);
    probe.ended(Step::Encryption);
    Some(())
}

/// SRTCP in counter mode (RFC 3711 §3.4): packet, encrypted from its ninth byte; E flag and index; MKI; tag
/// over all but the MKI.
pub(crate) fn seal_rtcp(
    cipher: &CounterMode,
    packet: &mut [u8],
    layout: &PacketLayout,
    mki: &[u8],
    tag_bytes: usize,
) -> Option<()> {
    cipher.apply(layout.ssrc, layout.index, packet.get_mut(layout.payload_at..layout.len)?);
    let authenticated = layout.len + RTCP_INDEX_BYTES;
    packet.get_mut(layout.len..authenticated)?.copy_from_slice(&index_word(layout.index)?);
    let tag = cipher.tag(packet.get(..authenticated)?, &[]);
    let (mki_room, tag_room) = packet.get_mut(authenticated..)?.split_at_mut_checked(mki.len())?;
    mki_room.copy_from_slice(mki);
    tag_room.copy_from_slice(tag.get(..tag_bytes)?);
    Some(())
}

/// SRTCP with an AEAD suite (RFC 7714 §9.2): packet, encrypted from its ninth byte; tag; E flag and index;
/// MKI.
pub(crate) fn seal_rtcp_aead(
    cipher: &Gcm,
    packet: &mut [u8],
    layout: &PacketLayout,
    mki: &[u8],
) -> Option<()> {
    let word = index_word(layout.index)?;
    let (clear, text) = packet.get_mut(..layout.len)?.split_first_chunk_mut::<RTCP_CLEAR_BYTES>()?;
    let tag = cipher.seal(layout.ssrc, layout.index, &rtcp_associated_data(clear, &word), text)?;
    let (tag_room, rest) = packet.get_mut(layout.len..)?.split_at_mut_checked(TAG_BYTES)?;
    let (word_room, mki_room) = rest.split_at_mut_checked(RTCP_INDEX_BYTES)?;
    tag_room.copy_from_slice(&tag);
    word_room.copy_from_slice(&word);
    mki_room.copy_from_slice(mki);
    Some(())
}

/// Rollover counter of an index, as it is authenticated (RFC 3711 §4.2).
#[inline]
pub(crate) fn rollover_counter(index: u64) -> [u8; 4] {
    ((index >> 16) as u32).to_be_bytes()
}

/// Associated data of an SRTCP packet with an AEAD suite (RFC 7714 §9.2): its first bytes, and the word of the index.
pub(crate) fn rtcp_associated_data(
    clear: &[u8; RTCP_CLEAR_BYTES],
    word: &[u8; RTCP_INDEX_BYTES],
) -> [u8; RTCP_CLEAR_BYTES + RTCP_INDEX_BYTES] {
    let mut data = [0; RTCP_CLEAR_BYTES + RTCP_INDEX_BYTES];
    data[..RTCP_CLEAR_BYTES].copy_from_slice(clear);
    data[RTCP_CLEAR_BYTES..].copy_from_slice(word);
    data
}

/// Word with the E flag and the SRTCP index.
fn index_word(index: u64) -> Option<[u8; RTCP_INDEX_BYTES]> {
    Some((u32::try_from(index).ok()? | ENCRYPTED_FLAG).to_be_bytes())
}
