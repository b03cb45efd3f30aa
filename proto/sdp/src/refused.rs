//! Reasons to reject an offer or an answer.

use crate::Malformed;

/// Reason why an offer or an answer is not accepted. An earlier agreement stays in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The body is not a valid description, or exceeds a limit.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// An offer arrived while our own is pending (RFC 3261 §14.2).
    #[error("our own offer is still pending")]
    OfferPending,
    /// An answer arrived without a pending offer.
    #[error("an answer without an offer")]
    NoOffer,
    /// No audio section is in use.
    #[error("no audio is offered")]
    NoAudio,
    /// The answer rejects the audio with port 0.
    #[error("the peer rejected the audio")]
    Rejected,
    /// A protocol other than RTP, or several ports.
    #[error("the audio is not carried by RTP")]
    Transport,
    /// A host name, a multicast group, or an address of another family than ours.
    #[error("no address that media can be sent to")]
    Address,
    /// No common codec.
    #[error("no codec in common: only PCMU and PCMA are supported")]
    Codec,
    /// Keys in the SDP, which are not enabled: another kind of protection is required.
    #[error("the other phone offers SRTP with keys in the SDP (SDES), which is not enabled here")]
    Sdes,
    /// Keys from DTLS, which is not enabled: by policy, or because the program is built without it.
    #[error("the other phone requires DTLS-SRTP, which is not enabled here")]
    Dtls,
    /// Keys from DTLS without a certificate's fingerprint of an accepted hash function.
    #[error("DTLS-SRTP needs a fingerprint with sha-256, sha-384 or sha-512")]
    Fingerprint,
    /// Keys from DTLS, and neither side would begin the handshake (`a=setup:holdconn`).
    #[error("DTLS-SRTP needs a=setup with active, passive or actpass")]
    Setup,
    /// The offer requires SRTP, which is disabled by policy.
    #[error("SRTP is disabled")]
    ProtectionUnwanted,
    /// The offer has no protection, which is required by policy.
    #[error("SRTP is required")]
    Unprotected,
    /// No `a=crypto` line with a supported suite and parameters.
    #[error("no SRTP crypto suite in common")]
    Crypto,
    /// The keys of the call would come from elsewhere: another kind of protection.
    #[error("the call is protected already, and the kind of its SRTP keys (SDES, ZRTP, DTLS) cannot change")]
    OtherKeys,
    /// The protection of the call would be removed.
    #[error("this would remove the SRTP protection of the call")]
    Downgrade,
    /// The answer does not match the offer.
    #[error(transparent)]
    Mismatch(Mismatch),
}

/// Mismatch between an answer and its offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Mismatch {
    /// Different number of media sections (RFC 3264 §6).
    #[error("the answer has another number of media sections")]
    Sections,
    /// Different media type of a section.
    #[error("the answer changes a section's medium")]
    Medium,
    /// Different protocol in an `m=` line.
    #[error("the answer changes the RTP profile")]
    Profile,
    /// A key for a suite or tag that was not offered, or more than one key (RFC 4568 §5.1.3).
    #[error("the answer has an SRTP key that does not match the offer")]
    Crypto,
    /// A role in the DTLS handshake that does not complement ours (RFC 5763 §5).
    #[error("the answer chooses no role in the DTLS handshake")]
    Setup,
    /// Our own key, which would encrypt two streams with the same key stream (RFC 4568 §7.1.2).
    #[error("the peer sends our own SRTP key back")]
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
            | Self::Sdes
            | Self::Dtls
            | Self::Fingerprint
            | Self::Setup
            | Self::ProtectionUnwanted
            | Self::Unprotected
            | Self::Crypto
            | Self::OtherKeys
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
            | Self::Sdes
            | Self::Dtls
            | Self::Fingerprint
            | Self::Setup
            | Self::ProtectionUnwanted
            | Self::Unprotected
            | Self::Crypto
            | Self::OtherKeys
            | Self::Downgrade
            | Self::Mismatch(_) => 399,
        }
    }
}
