//! Policy for the protection of a call.

use crate::{CryptoSuite, Fingerprint};
use alloc::vec::Vec;

/// Required and permitted protection of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecurityPolicy {
    /// Protection if the peer supports it: offers RTP/AVP with keys (RFC 8643), accepts any offer.
    Opportunistic {
        /// Suites for SDES, in order of preference.
        suites: Vec<CryptoSuite>,
        /// Hash of our ZRTP Hello, if ZRTP may be used (RFC 6189 §8).
        hello_hash: Option<[u8; 32]>,
        /// Fingerprint of our certificate, if offers of DTLS-SRTP may be answered (RFC 5763).
        fingerprint: Option<Fingerprint>,
    },
    /// No protection.
    None,
    /// SDES (RFC 4568) is required.
    Sdes {
        /// Suites, in order of preference; at least one.
        suites: Vec<CryptoSuite>,
    },
    /// ZRTP (RFC 6189) is required.
    Zrtp {
        /// Hash of our Hello.
        hello_hash: [u8; 32],
    },
    /// DTLS-SRTP (RFC 5763) is required.
    Dtls {
        /// Fingerprint of our certificate.
        fingerprint: Fingerprint,
    },
}

impl SecurityPolicy {
    pub(crate) fn suites(&self) -> &[CryptoSuite] {
        match self {
            Self::Opportunistic { suites, .. } | Self::Sdes { suites } => suites,
            Self::None | Self::Zrtp { .. } | Self::Dtls { .. } => &[],
        }
    }

    pub(crate) const fn hello_hash(&self) -> Option<&[u8; 32]> {
        match self {
            Self::Opportunistic { hello_hash, .. } => hello_hash.as_ref(),
            Self::Zrtp { hello_hash } => Some(hello_hash),
            Self::None | Self::Sdes { .. } | Self::Dtls { .. } => None,
        }
    }

    pub(crate) const fn fingerprint(&self) -> Option<&Fingerprint> {
        match self {
            Self::Opportunistic { fingerprint, .. } => fingerprint.as_ref(),
            Self::Dtls { fingerprint } => Some(fingerprint),
            Self::None | Self::Sdes { .. } | Self::Zrtp { .. } => None,
        }
    }
}

/// Permission to continue a protected call without protection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Downgrade {
    /// Not permitted: the offer or answer is rejected.
    #[default]
    Refused,
    /// Permitted by the user.
    Allowed,
}
