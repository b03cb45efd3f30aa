//! Header fields of RTP and RTCP that SRTP reads (RFC 3711 §3.1, §3.4), the hook for measuring the steps of protecting
//! and unprotecting a packet, and errors of keys and packets.

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

/// Reason why a master key is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The key does not have the length that the suite needs.
    #[error("the SRTP master key must have {expected} bytes")]
    KeyLength {
        /// Length that the suite needs, in bytes.
        expected: usize,
    },
    /// The salt does not have the length that the suite needs.
    #[error("the SRTP master salt must have {expected} bytes")]
    SaltLength {
        /// Length that the suite needs, in bytes.
        expected: usize,
    },
    /// The MKI is longer than [`MKI_BYTES_MAX`](ringway_sdp::MKI_BYTES_MAX).
    #[error("the master key identifier is longer than 128 bytes")]
    MkiTooLong,
    /// The lifetime is 0 or above the suite's maximum (RFC 4568 §6.1).
    #[error("the key's lifetime must be 1 to 2^48 packets")]
    Lifetime,
}

/// Reason why a packet was not protected. Context and packet are unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtectError {
    /// Not an RTP or RTCP packet: too short, another version, or a header longer than the packet.
    #[error("not an RTP or RTCP packet")]
    Malformed,
    /// The packet is, or would become, longer than [`PACKET_BYTES_MAX`](crate::PACKET_BYTES_MAX).
    #[error("the packet is too long for SRTP")]
    TooLong,
    /// The buffer is too short for the packet with its tag and MKI.
    #[error("the protected packet needs a buffer of {needed} bytes")]
    NoRoom {
        /// Length that the buffer must have, in bytes.
        needed: usize,
    },
    /// The sequence number was used before, or is behind the replay window, so that it may have been. The key
    /// stream must not be reused (RFC 3711 §9.1, RFC 7714 §8.4).
    #[error("the sequence number was sent before")]
    Repeated,
    /// The key has protected its maximum number of packets; a new key must be negotiated (RFC 3711 §9.2).
    #[error("the lifetime of the SRTP key is over; negotiate a new key")]
    LifetimeOver,
    /// The context already tracks the maximum number of SSRCs.
    #[error("too many SSRCs with one SRTP key")]
    TooManySsrcs,
}

/// Reason why a packet was rejected. The packet is unchanged; of the context only a counter has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnprotectError {
    /// Too short for header, MKI and tag, too long, or of another version.
    #[error("not an SRTP or SRTCP packet")]
    Malformed,
    /// No key of this context has the packet's MKI.
    #[error("no key has the packet's master key identifier")]
    UnknownMki,
    /// The packet was received before (RFC 3711 §3.3.2).
    #[error("the packet was received before")]
    Replayed,
    /// The index is behind the replay window (RFC 3711 §3.3.2).
    #[error("the packet is older than the replay window")]
    TooOld,
    /// The tag does not match the packet.
    #[error("the packet's authentication failed")]
    AuthenticationFailed,
    /// SRTCP without the E flag; unencrypted SRTCP is never negotiated (RFC 4568 §6.3.2).
    #[error("the RTCP packet is not encrypted")]
    WrongEncryption,
    /// The key has protected its maximum number of packets (RFC 4568 §6.1).
    #[error("the lifetime of the packet's key is over")]
    LifetimeOver,
    /// The SSRC is new, and the context already tracks the maximum number of SSRCs.
    #[error("too many SSRCs with one SRTP key")]
    TooManySsrcs,
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
