//! Reasons to reject an offer or an answer.

use crate::Malformed;
use core::fmt;

/// Reason why an offer or an answer is not accepted. An earlier agreement stays in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The body is not a valid description, or exceeds a limit.
    Malformed(Malformed),
    /// An offer arrived while our own is pending (RFC 3261 §14.2).
    OfferPending,
    /// An answer arrived without a pending offer.
    NoOffer,
    /// No audio section is in use.
    NoAudio,
    /// The answer rejects the audio with port 0.
    Rejected,
    /// A protocol other than RTP, or several ports.
    Transport,
    /// A host name, a multicast group, or an address of another family than ours.
    Address,
    /// No common codec.
    Codec,
    /// Keys from DTLS, which is not supported.
    Dtls,
    /// The offer requires SRTP, which is disabled by policy.
    ProtectionUnwanted,
    /// The offer has no protection, which is required by policy.
    Unprotected,
    /// No `a=crypto` line with a supported suite and parameters.
    Crypto,
    /// The protection of the call would be removed.
    Downgrade,
    /// The answer does not match the offer.
    Mismatch(Mismatch),
}

/// Mismatch between an answer and its offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mismatch {
    /// Different number of media sections (RFC 3264 §6).
    Sections,
    /// Different media type of a section.
    Medium,
    /// Different protocol in an `m=` line.
    Profile,
    /// A key for a suite or tag that was not offered, or more than one key (RFC 4568 §5.1.3).
    Crypto,
    /// Our own key, which would encrypt two streams with the same key stream (RFC 4568 §7.1.2).
    KeyReused,
}

impl Refused {
    /// SIP status code of the response: 400 for a malformed body, 488 for an unacceptable offer (RFC 3261
    /// §13.3.1.3), 491 while our own offer is pending.
    pub const fn status(&self) -> u16 {
        match self {
            Self::Malformed(malformed) if malformed.fault.is_limit() => 488,
            Self::Malformed(_) => 400,
            Self::OfferPending => 491,
            Self::NoOffer
            | Self::NoAudio
            | Self::Rejected
            | Self::Transport
            | Self::Address
            | Self::Codec
            | Self::Dtls
            | Self::ProtectionUnwanted
            | Self::Unprotected
            | Self::Crypto
            | Self::Downgrade
            | Self::Mismatch(_) => 488,
        }
    }

    /// Warning code (RFC 3261 §20.43).
    pub const fn warning(&self) -> u16 {
        match self {
            Self::Address => 301,
            Self::Transport => 302,
            Self::NoAudio | Self::Rejected => 304,
            Self::Codec => 305,
            Self::Malformed(_)
            | Self::OfferPending
            | Self::NoOffer
            | Self::Dtls
            | Self::ProtectionUnwanted
            | Self::Unprotected
            | Self::Crypto
            | Self::Downgrade
            | Self::Mismatch(_) => 399,
        }
    }
}

impl From<Malformed> for Refused {
    fn from(malformed: Malformed) -> Self {
        Self::Malformed(malformed)
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = match self {
            Self::Malformed(malformed) => return malformed.fmt(f),
            Self::OfferPending => "our own offer is still pending",
            Self::NoOffer => "an answer without an offer",
            Self::NoAudio => "no audio is offered",
            Self::Rejected => "the peer rejected the audio",
            Self::Transport => "the audio is not carried by RTP",
            Self::Address => "no address that media can be sent to",
            Self::Codec => "no codec in common: only PCMU and PCMA are supported",
            Self::Dtls => "DTLS-SRTP is not supported yet; SDES and ZRTP are",
            Self::ProtectionUnwanted => "SRTP is disabled",
            Self::Unprotected => "SRTP is required",
            Self::Crypto => "no SRTP crypto suite in common",
            Self::Downgrade => "this would remove the SRTP protection of the call",
            Self::Mismatch(Mismatch::Sections) => "the answer has another number of media sections",
            Self::Mismatch(Mismatch::Medium) => "the answer changes a section's medium",
            Self::Mismatch(Mismatch::Profile) => "the answer changes the RTP profile",
            Self::Mismatch(Mismatch::Crypto) => "the answer has an SRTP key that does not match the offer",
            Self::Mismatch(Mismatch::KeyReused) => "the peer sends our own SRTP key back",
        };
        f.write_str(words)
    }
}

impl core::error::Error for Refused {}
