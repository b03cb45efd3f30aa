//! Header fields of RTP and RTCP that SRTP reads (RFC 3711 §3.1, §3.4), and the hook for measuring the steps of protecting
//! and unprotecting a packet.

/// Fields of an RTP header that SRTP uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RtpHeader {
    pub(crate) ssrc: u32,
    pub(crate) sequence: u16,
    /// Offset of the payload: the end of header, CSRCs and extension.
    pub(crate) payload_at: usize,
}

/// Length of the part of an RTCP packet that is never encrypted (first header and SSRC), in bytes.
pub(crate) const RTCP_CLEAR_BYTES: usize = 8;

/// Length of the word with the E flag and the index behind an SRTCP packet, in bytes.
pub(crate) const RTCP_INDEX_BYTES: usize = 4;

/// E flag of that word.
pub(crate) const ENCRYPTED_FLAG: u32 = 1 << 31;

/// Reads an RTP header; `None` if the version is not 2 or the header is longer than the packet.
#[inline]
pub(crate) fn rtp_header(packet: &[u8]) -> Option<RtpHeader> {
    let [first, _, sequence_high, sequence_low, _, _, _, _, ssrc @ ..] = packet.first_chunk::<12>()?;
    if first >> 6 != 2 {
        return None;
    }
    let mut payload_at = 12 + 4 * usize::from(first & 0x0f);
    if first & 0x10 != 0 {
        let [_, _, words_high, words_low] = *packet.get(payload_at..)?.first_chunk()?;
        payload_at += 4 + 4 * usize::from(u16::from_be_bytes([words_high, words_low]));
    }
    let ssrc = u32::from_be_bytes(*ssrc);
    let sequence = u16::from_be_bytes([*sequence_high, *sequence_low]);
    (payload_at <= packet.len()).then_some(RtpHeader { ssrc, sequence, payload_at })
}

/// SSRC of the sender of an RTCP packet; `None` if the version is not 2 or the packet is too short.
#[inline]
pub(crate) fn rtcp_ssrc(packet: &[u8]) -> Option<u32> {
    let [first, _, _, _, ssrc @ ..] = packet.first_chunk::<RTCP_CLEAR_BYTES>()?;
    (first >> 6 == 2).then(|| u32::from_be_bytes(*ssrc))
}

/// One step of protecting or unprotecting a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// Header parsing, SSRC lookup, and writing of the fields behind the packet.
    Headers,
    /// Index estimation, and check or update of the replay window.
    Replay,
    /// Encryption or decryption of the payload; with an AEAD suite also authentication.
    Encryption,
    /// Computation or comparison of the tag.
    Authentication,
}

impl Step {
    /// All steps.
    pub const ALL: [Self; 4] = [Self::Headers, Self::Replay, Self::Encryption, Self::Authentication];
}

/// Callback at the end of each step, so that a driver can measure its duration.
///
/// This crate reads no clock. Reading a clock takes about a tenth of the time of a packet, so sample one
/// packet in many. Creating a context consists of key derivation only and is measured around the call.
pub trait Probe {
    /// Called when `step` has ended; the time since the previous call belongs to it. A step may occur twice
    /// for a packet.
    fn ended(&mut self, step: Step);
}

/// Probe that does nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoProbe;

impl Probe for NoProbe {
    #[inline(always)]
    fn ended(&mut self, _step: Step) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn csrcs_and_an_extension_belong_to_the_header() {
        let mut packet = [0; 40];
        packet[..4].copy_from_slice(&[0x92, 0, 0x12, 0x34]);
        packet[8..12].copy_from_slice(&[0xca, 0xfe, 0xba, 0xbe]);
        packet[20..24].copy_from_slice(&[0xbe, 0xde, 0, 2]);
        let header = RtpHeader { ssrc: 0xcafe_babe, sequence: 0x1234, payload_at: 32 };
        assert_eq!(rtp_header(&packet), Some(header));
        assert_eq!(rtp_header(&packet[..32]), Some(header));
        assert_eq!(rtp_header(&packet[..31]), None);
        packet[0] = 0x52;
        assert_eq!(rtp_header(&packet), None);
    }
}
