//! RTP profile: the protocol of an `m=` line (RFC 8866 §8.2.3).

/// RTP profiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Profile {
    /// `RTP/AVP` (RFC 3551).
    Avp,
    /// `RTP/AVPF`: with early feedback (RFC 4585).
    Avpf,
    /// `RTP/SAVP`: SRTP (RFC 3711).
    Savp,
    /// `RTP/SAVPF` (RFC 5124).
    Savpf,
    /// `UDP/TLS/RTP/SAVP`: SRTP with keys from DTLS (RFC 5764).
    DtlsSavp,
    /// `UDP/TLS/RTP/SAVPF`.
    DtlsSavpf,
}

impl Profile {
    /// All profiles.
    pub const ALL: [Self; 6] =
        [Self::Avp, Self::Avpf, Self::Savp, Self::Savpf, Self::DtlsSavp, Self::DtlsSavpf];

    /// Name in an `m=` line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Avp => "RTP/AVP",
            Self::Avpf => "RTP/AVPF",
            Self::Savp => "RTP/SAVP",
            Self::Savpf => "RTP/SAVPF",
            Self::DtlsSavp => "UDP/TLS/RTP/SAVP",
            Self::DtlsSavpf => "UDP/TLS/RTP/SAVPF",
        }
    }

    /// Parses a name case-insensitively.
    pub fn from_name(name: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|profile| profile.name().as_bytes().eq_ignore_ascii_case(name))
    }

    /// True if every packet is SRTP.
    pub const fn is_secure(self) -> bool {
        match self {
            Self::Avp | Self::Avpf => false,
            Self::Savp | Self::Savpf | Self::DtlsSavp | Self::DtlsSavpf => true,
        }
    }

    /// True if the keys come from DTLS.
    pub const fn is_dtls(self) -> bool {
        match self {
            Self::Avp | Self::Avpf | Self::Savp | Self::Savpf => false,
            Self::DtlsSavp | Self::DtlsSavpf => true,
        }
    }
}
