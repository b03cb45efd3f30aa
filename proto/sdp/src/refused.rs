//! Why an offer or an answer is not accepted.

use crate::Malformed;
use core::fmt;

/// Why an offer or an answer is not accepted. Whatever was agreed before stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// It is no description, or more than is read.
    Malformed(Malformed),
    /// An offer arrived while our own waits for its answer (RFC 3261 §14.2).
    OfferPending,
    /// An answer arrived, and no offer waits for one.
    NoOffer,
    /// No audio section that is in use.
    NoAudio,
    /// The answer rejects the audio: its port is 0.
    Rejected,
    /// A protocol other than RTP, or several ports in a row.
    Transport,
    /// Media is wanted at a host name, a group, or an address of the other family than ours.
    Address,
    /// No codec in common.
    Codec,
    /// Its keys come from DTLS, which is not there yet.
    Dtls,
    /// It offers SRTP only, and protection is switched off.
    ProtectionUnwanted,
    /// It offers no protection, and protection is asked for.
    Unprotected,
    /// No `a=crypto` line with a suite and parameters that we accept.
    Crypto,
    /// It takes the protection away that the call had.
    Downgrade,
    /// The answer does not fit the offer.
    Mismatch(Mismatch),
}

/// How an answer does not fit its offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mismatch {
    /// Another number of media sections (RFC 3264 §6).
    Sections,
    /// Another medium in a section.
    Medium,
    /// Another protocol in the section's `m=` line.
    Profile,
    /// A key for a suite or tag that was not offered, or more than one (RFC 4568 §5.1.3).
    Crypto,
    /// A key of our own, which would encrypt two streams with one key stream (RFC 4568 §7.1.2).
    KeyReused,
}

impl Refused {
    /// How many different [`Refused::index`] values there are.
    pub const COUNT: usize = 15;

    /// The status code that an offer is refused with: 400 for what cannot be read, 488 for what is not acceptable here
    /// (RFC 3261 §13.3.1.3), 491 while our own offer waits.
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

    /// The code of the Warning header that says why (RFC 3261 §20.43).
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

    /// The place of this reason in a table of counters.
    pub const fn index(&self) -> usize {
        match self {
            Self::Malformed(malformed) if malformed.fault.is_limit() => 1,
            Self::Malformed(_) => 0,
            Self::OfferPending => 2,
            Self::NoOffer => 3,
            Self::NoAudio => 4,
            Self::Rejected => 5,
            Self::Transport => 6,
            Self::Address => 7,
            Self::Codec => 8,
            Self::Dtls => 9,
            Self::ProtectionUnwanted => 10,
            Self::Unprotected => 11,
            Self::Crypto => 12,
            Self::Downgrade => 13,
            Self::Mismatch(_) => 14,
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
            Self::OfferPending => "an offer of ours still waits for its answer",
            Self::NoOffer => "an answer to no offer",
            Self::NoAudio => "no audio is offered",
            Self::Rejected => "the peer rejected the audio",
            Self::Transport => "the audio is not carried by RTP",
            Self::Address => "no address that media can be sent to from here",
            Self::Codec => "no codec in common: only PCMU and PCMA are here",
            Self::Dtls => "DTLS-SRTP is not supported yet; SDES and ZRTP are",
            Self::ProtectionUnwanted => "SRTP is switched off here",
            Self::Unprotected => "only calls protected by SRTP are taken here",
            Self::Crypto => "no SRTP crypto suite in common",
            Self::Downgrade => "this would take the call's SRTP protection away",
            Self::Mismatch(Mismatch::Sections) => "the answer has another number of media sections",
            Self::Mismatch(Mismatch::Medium) => "the answer changes a section's medium",
            Self::Mismatch(Mismatch::Profile) => "the answer changes the RTP profile",
            Self::Mismatch(Mismatch::Crypto) => "the answer has an SRTP key that does not fit the offer",
            Self::Mismatch(Mismatch::KeyReused) => "the peer sends our own SRTP key back",
        };
        f.write_str(words)
    }
}

impl core::error::Error for Refused {}
