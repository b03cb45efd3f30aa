//! Protection of a call's sound: required by the user, and reached.

use alloc::string::String;
use core::fmt;
use core::str::FromStr;
use ringway_media::session::Sas;
use ringway_sdp::{CryptoSuite, KeyManagement};
use ringway_zrtp::Continuity;

/// Protection of a call's sound that is in force.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Protection {
    /// None: anybody on the path can listen.
    #[default]
    None,
    /// SRTP with keys from the SDP (RFC 4568), which every server on the path can read.
    Sdes {
        /// Crypto suite of both directions.
        suite: CryptoSuite,
        /// Protection of the keys.
        signalling: Signalling,
    },
    /// SRTP with keys from a DTLS handshake (RFC 5764). The fingerprints in the SDP prove the certificates: who can change
    /// SIP on its way can be in between.
    Dtls {
        /// Crypto suite of both directions.
        suite: CryptoSuite,
        /// Protection of the fingerprints.
        signalling: Signalling,
    },
    /// SRTP with keys that the two phones agreed on (RFC 6189).
    Zrtp {
        /// Crypto suite of both directions.
        suite: CryptoSuite,
        /// Short authentication string, which the two users compare by voice.
        sas: String,
        /// Result of the comparison, in this call or an earlier one.
        status: SasStatus,
    },
}

/// Protection of a call's SIP, as far as a phone can see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signalling {
    /// None: everybody on the path can read and change it.
    Open,
    /// TLS to our server, which can read and change it, as can all that is behind it (RFC 5763 §8).
    TlsToServer,
}

/// Evidence that nobody is between two phones with ZRTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SasStatus {
    /// First call with this phone, and the SAS is not compared.
    FirstCall,
    /// The secret of an earlier call matches; the SAS was never compared.
    Continued,
    /// The users compared the SAS, in this call or in an earlier one whose secret matches.
    Compared,
    /// The peer does not have the secret of an earlier call: it lost the secret, or somebody is between the phones.
    Broken,
    /// The users compared the SAS in this call, and it differs: somebody is between the phones.
    Different,
}

impl Protection {
    /// Protection with the keys of a media session; `sas` is that of ZRTP.
    pub fn new(
        suite: CryptoSuite,
        key_management: KeyManagement,
        sas: Option<Sas>,
        signalling: Signalling,
    ) -> Self {
        let Some(Sas { text, is_verified, continuity, .. }) = sas else {
            return match key_management {
                KeyManagement::Dtls => Self::Dtls { suite, signalling },
                KeyManagement::Sdes | KeyManagement::Zrtp => Self::Sdes { suite, signalling },
            };
        };
        let status = match (continuity, is_verified) {
            (Continuity::Broken, _) => SasStatus::Broken,
            (Continuity::FirstCall | Continuity::Continued, true) => SasStatus::Compared,
            (Continuity::FirstCall, false) => SasStatus::FirstCall,
            (Continuity::Continued, false) => SasStatus::Continued,
        };
        Self::Zrtp { suite, sas: text, status }
    }

    /// Rank among the kinds of protection: more is better.
    pub const fn strength(&self) -> u8 {
        match self {
            Self::None => 0,
            Self::Sdes { signalling: Signalling::Open, .. } => 1,
            Self::Sdes { signalling: Signalling::TlsToServer, .. } => 2,
            Self::Dtls { signalling: Signalling::Open, .. } => 3,
            Self::Dtls { signalling: Signalling::TlsToServer, .. } => 4,
            Self::Zrtp { .. } => 5,
        }
    }

    /// Crypto suite; `None` without protection.
    pub const fn suite(&self) -> Option<CryptoSuite> {
        match self {
            Self::None => None,
            Self::Sdes { suite, .. } | Self::Dtls { suite, .. } | Self::Zrtp { suite, .. } => Some(*suite),
        }
    }
}

impl fmt::Display for Protection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("not protected"),
            Self::Sdes { suite, signalling: Signalling::Open } => {
                write!(f, "SRTP {} with keys that SIP carried readable (weak)", suite.name())
            }
            Self::Sdes { suite, signalling: Signalling::TlsToServer } => write!(
                f,
                "SRTP {} with keys that went over TLS to the server: the servers can read them, and so can the path \
                 behind ours where it has no TLS",
                suite.name()
            ),
            Self::Dtls { suite, signalling: Signalling::Open } => write!(
                f,
                "SRTP {} by DTLS, with fingerprints that SIP carried unprotected (weak against somebody in between)",
                suite.name()
            ),
            Self::Dtls { suite, signalling: Signalling::TlsToServer } => write!(
                f,
                "SRTP {} by DTLS, with fingerprints that came over TLS: the servers can be in between, nobody else",
                suite.name()
            ),
            Self::Zrtp { suite, sas, status } => {
                let suite = suite.name();
                match status {
                    SasStatus::FirstCall => write!(f, "SRTP {suite} by ZRTP; compare by voice: {sas}"),
                    SasStatus::Continued => write!(
                        f,
                        "SRTP {suite} by ZRTP, with the phone of an earlier call; compare by voice: {sas}"
                    ),
                    SasStatus::Compared => write!(f, "SRTP {suite} by ZRTP, compared in an earlier call"),
                    SasStatus::Broken => write!(
                        f,
                        "SRTP {suite} by ZRTP, NOT with the phone of earlier calls; compare by voice: {sas}"
                    ),
                    SasStatus::Different => write!(f, "SRTP {suite} by ZRTP, SAS DIFFERS: {sas}"),
                }
            }
        }
    }
}

/// Protection that a call must have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SrtpPolicy {
    /// The best that both sides support, or none.
    #[default]
    Best,
    /// None: SRTP is not offered.
    None,
    /// SRTP with keys in the SDP, or no call.
    Sdes,
    /// SRTP with keys by ZRTP, or no call.
    Zrtp,
    /// SRTP with keys by DTLS, or no call; needs [`SessionConfig::dtls`](ringway_media::session::SessionConfig::dtls).
    Dtls,
}

impl SrtpPolicy {
    /// All policies.
    pub const ALL: [Self; 5] = [Self::Best, Self::None, Self::Sdes, Self::Zrtp, Self::Dtls];

    /// The name in options and configuration files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Best => "best",
            Self::None => "none",
            Self::Sdes => "sdes",
            Self::Zrtp => "zrtp",
            Self::Dtls => "dtls",
        }
    }

    /// True when calls with this policy run ZRTP.
    pub const fn uses_zrtp(self) -> bool {
        matches!(self, Self::Best | Self::Zrtp)
    }

    /// True when calls with this policy may run DTLS.
    pub const fn uses_dtls(self) -> bool {
        matches!(self, Self::Best | Self::Dtls)
    }
}

/// The error of parsing an [`SrtpPolicy`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("give best, sdes, zrtp, dtls or none")]
pub struct UnknownSrtpPolicy;

impl FromStr for SrtpPolicy {
    type Err = UnknownSrtpPolicy;

    fn from_str(text: &str) -> Result<Self, UnknownSrtpPolicy> {
        Self::ALL.into_iter().find(|policy| policy.name() == text).ok_or(UnknownSrtpPolicy)
    }
}
