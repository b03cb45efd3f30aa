//! Errors of keys and packets.

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
