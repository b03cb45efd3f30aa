//! Why a key or a packet is not taken.

use core::fmt;

/// Why a master key makes no context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyError {
    /// The key is not as long as the suite says.
    KeyLength {
        /// Bytes the suite needs.
        expected: usize,
    },
    /// The salt is not as long as the suite says.
    SaltLength {
        /// Bytes the suite needs.
        expected: usize,
    },
    /// The MKI is longer than [`MKI_BYTES_MAX`](crate::MKI_BYTES_MAX).
    MkiTooLong,
    /// The lifetime is 0, or more than the suite allows (RFC 4568 §6.1).
    Lifetime,
    /// Several keys need MKIs that differ, all of one length above 0 (RFC 4568 §6.1).
    MkiMismatch,
    /// The receiver holds [`MASTER_KEYS_MAX`](crate::MASTER_KEYS_MAX) keys.
    TooManyKeys,
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::KeyLength { expected } => write!(f, "the SRTP master key must have {expected} bytes"),
            Self::SaltLength { expected } => write!(f, "the SRTP master salt must have {expected} bytes"),
            Self::MkiTooLong => f.write_str("the master key identifier is longer than 128 bytes"),
            Self::Lifetime => f.write_str("the key's lifetime must be 1 to 2^48 packets"),
            Self::MkiMismatch => {
                f.write_str("several keys need different master key identifiers of the same length")
            }
            Self::TooManyKeys => f.write_str("too many master keys at a time"),
        }
    }
}

impl core::error::Error for KeyError {}

/// Why a packet was not protected; nothing of the context or of the packet has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtectError {
    /// It is no RTP or RTCP packet: too short, another version, or a header longer than the packet.
    Malformed,
    /// It is, or would become, longer than [`PACKET_BYTES_MAX`](crate::PACKET_BYTES_MAX).
    TooLong,
    /// The buffer has no room for the tag and the MKI behind the packet.
    NoRoom {
        /// Bytes the buffer must have.
        needed: usize,
    },
    /// This sequence number has been sent already, or lies too far back to know: its key stream must not be used
    /// again (RFC 3711 §9.1, RFC 7714 §8.4).
    Repeated,
    /// The key has protected as many packets as it may: a new one must be agreed on (RFC 3711 §9.2).
    LifetimeOver,
    /// The context follows as many SSRCs as it may.
    TooManySsrcs,
}

impl fmt::Display for ProtectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed => f.write_str("not an RTP or RTCP packet"),
            Self::TooLong => f.write_str("the packet is too long for SRTP"),
            Self::NoRoom { needed } => write!(f, "the protected packet needs a buffer of {needed} bytes"),
            Self::Repeated => f.write_str("the sequence number was sent before"),
            Self::LifetimeOver => f.write_str("the SRTP key is used up: agree on a new one"),
            Self::TooManySsrcs => f.write_str("too many SSRCs with one SRTP key"),
        }
    }
}

impl core::error::Error for ProtectError {}

/// Why a packet was not taken; of the context only a count has changed, and of the packet nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnprotectError {
    /// It is too short for its header, its MKI and its tag, too long, or of another version.
    Malformed,
    /// No key of ours has its MKI.
    UnknownMki,
    /// It was received before (RFC 3711 §3.3.2).
    Replayed,
    /// It lies behind the replay window, so that nobody knows whether it was received before (RFC 3711 §3.3.2).
    TooOld,
    /// The tag is not what the key makes of the packet.
    AuthenticationFailed,
    /// It says that it is encrypted where the session's RTCP is not, or the other way round (RFC 4568 §6.3.2).
    WrongEncryption,
    /// Its key has protected as many packets as it may (RFC 4568 §6.1).
    LifetimeOver,
    /// It has a new SSRC, and the context follows as many as it may.
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
            Self::WrongEncryption => "the packet's RTCP encryption is not what was agreed on",
            Self::LifetimeOver => "the packet's key is used up",
            Self::TooManySsrcs => "too many SSRCs with one SRTP key",
        })
    }
}

impl core::error::Error for UnprotectError {}
