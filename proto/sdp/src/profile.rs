//! What carries a stream: the protocol of an `m=` line (RFC 8866 §8.2.3).

/// The RTP profiles that a phone meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Profile {
    /// `RTP/AVP` (RFC 3551).
    Avp,
    /// `RTP/AVPF`: with quick feedback (RFC 4585).
    Avpf,
    /// `RTP/SAVP`: SRTP (RFC 3711).
    Savp,
    /// `RTP/SAVPF` (RFC 5124).
    Savpf,
    /// `UDP/TLS/RTP/SAVP`: SRTP with keys from DTLS (RFC 5764). Known, to be refused by name.
    DtlsSavp,
    /// `UDP/TLS/RTP/SAVPF`.
    DtlsSavpf,
}

impl Profile {
    /// Every profile.
    pub const ALL: [Self; 6] =
        [Self::Avp, Self::Avpf, Self::Savp, Self::Savpf, Self::DtlsSavp, Self::DtlsSavpf];

    /// As an `m=` line writes it.
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

    /// The profile of this name, in either case.
    pub fn from_name(name: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|profile| profile.name().as_bytes().eq_ignore_ascii_case(name))
    }

    /// True where every packet is SRTP, whatever the attributes say.
    pub const fn is_secure(self) -> bool {
        match self {
            Self::Avp | Self::Avpf => false,
            Self::Savp | Self::Savpf | Self::DtlsSavp | Self::DtlsSavpf => true,
        }
    }

    /// True where the keys come from DTLS.
    pub const fn is_dtls(self) -> bool {
        match self {
            Self::Avp | Self::Avpf | Self::Savp | Self::Savpf => false,
            Self::DtlsSavp | Self::DtlsSavpf => true,
        }
    }
}
