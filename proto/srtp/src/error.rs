//! Errors of keys and packets.

use core::fmt;

/// Reason why a master key is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyError {
    /// The key does not have the length that the suite needs.
    KeyLength {
        /// Length that the suite needs, in bytes.
        expected: usize,
    },
    /// The salt does not have the length that the suite needs.
    SaltLength {
        /// Length that the suite needs, in bytes.
        expected: usize,
    },
    /// The MKI is longer than [`MKI_BYTES_MAX`](ringway_sdp::MKI_BYTES_MAX).
    MkiTooLong,
    /// The lifetime is 0 or above the suite's maximum (RFC 4568 §6.1).
    Lifetime,
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::KeyLength { expected } => write!(f, "the SRTP master key must have {expected} bytes"),
            Self::SaltLength { expected } => write!(f, "the SRTP master salt must have {expected} bytes"),
            Self::MkiTooLong => f.write_str("the master key identifier is longer than 128 bytes"),
            Self::Lifetime => f.write_str("the key's lifetime must be 1 to 2^48 packets"),
        }
    }
}

impl core::error::Error for KeyError {}

/// Reason why a packet was not protected. Context and packet are unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtectError {
    /// Not an RTP or RTCP packet: too short, another version, or a header longer than the packet.
    Malformed,
    /// The packet is, or would become, longer than [`PACKET_BYTES_MAX`](crate::PACKET_BYTES_MAX).
    TooLong,
    /// The buffer is too short for the packet with its tag and MKI.
    NoRoom {
        /// Length that the buffer must have, in bytes.
        needed: usize,
    },
    /// The sequence number was used before, or is behind the replay window, so that it may have been. The key
    /// stream must not be reused (RFC 3711 §9.1, RFC 7714 §8.4).
    Repeated,
    /// The key has protected its maximum number of packets; a new key must be negotiated (RFC 3711 §9.2).
    LifetimeOver,
    /// The context already tracks the maximum number of SSRCs.
    TooManySsrcs,
}

impl fmt::Display for ProtectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed => f.write_str("not an RTP or RTCP packet"),
            Self::TooLong => f.write_str("the packet is too long for SRTP"),
            Self::NoRoom { needed } => write!(f, "the protected packet needs a buffer of {needed} bytes"),
            Self::Repeated => f.write_str("the sequence number was sent before"),
            Self::LifetimeOver => f.write_str("the lifetime of the SRTP key is over; negotiate a new key"),
            Self::TooManySsrcs => f.write_str("too many SSRCs with one SRTP key"),
        }
    }
}

impl core::error::Error for ProtectError {}

/// Reason why a packet was rejected. The packet is unchanged; of the context only a counter has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnprotectError {
    /// Too short for header, MKI and tag, too long, or of another version.
    Malformed,
    /// No key of this context has the packet's MKI.
    UnknownMki,
    /// The packet was received before (RFC 3711 §3.3.2).
    Replayed,
    /// The index is behind the replay window (RFC 3711 §3.3.2).
    TooOld,
    /// The tag does not match the packet.
    AuthenticationFailed,
    /// SRTCP without the E flag; unencrypted SRTCP is never negotiated (RFC 4568 §6.3.2).
    WrongEncryption,
    /// The key has protected its maximum number of packets (RFC 4568 §6.1).
    LifetimeOver,
    /// The SSRC is new, and the context already tracks the maximum number of SSRCs.
    TooManySsrcs,
}

impl fmt::Display for UnprotectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Malformed => "not an SRTP or SRTCP packet",
            Self::UnknownMki => "no key has the packet's master key identifier",
            Self::Replayed => "the packet was received before",
            Self::TooOld => "the packet is older than the replay window",
            Self::AuthenticationFailed => "the packet's authentication failed",
            Self::WrongEncryption => "the RTCP packet is not encrypted",
            Self::LifetimeOver => "the lifetime of the packet's key is over",
            Self::TooManySsrcs => "too many SSRCs with one SRTP key",
        })
    }
}

impl core::error::Error for UnprotectError {}
