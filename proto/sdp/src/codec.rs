//! The sounds a stream can carry, and which way.

/// How sound is coded in a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Codec {
    /// G.711 µ-law, 8,000 Hz, 8 bits a sample; static payload type 0 (RFC 3551 §4.5.14).
    Pcmu,
    /// G.711 A-law, 8,000 Hz, 8 bits a sample; static payload type 8 (RFC 3551 §4.5.14).
    Pcma,
}

impl Codec {
    /// The encoding name of `a=rtpmap` (RFC 3551 §6); names are compared without regard to case.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pcmu => "PCMU",
            Self::Pcma => "PCMA",
        }
    }

    /// The payload type that needs no `a=rtpmap`.
    pub const fn static_payload_type(self) -> u8 {
        match self {
            Self::Pcmu => 0,
            Self::Pcma => 8,
        }
    }

    /// Ticks of the RTP time stamp in a second, and samples of sound in a second.
    pub const fn clock_rate_hz(self) -> u32 {
        match self {
            Self::Pcmu | Self::Pcma => 8000,
        }
    }

    /// The codec with this encoding name and clock rate, if we have it.
    pub fn from_name(name: &str, clock_rate_hz: u32) -> Option<Self> {
        [Self::Pcmu, Self::Pcma]
            .into_iter()
            .find(|codec| codec.name().eq_ignore_ascii_case(name) && codec.clock_rate_hz() == clock_rate_hz)
    }
}

/// Which way sound goes, seen from the side that says it (RFC 3264 §5.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direction {
    /// Both ways.
    #[default]
    SendRecv,
    /// We send and do not listen.
    SendOnly,
    /// We listen and do not send.
    RecvOnly,
    /// Neither.
    Inactive,
}

impl Direction {
    /// True when the side that says it sends sound.
    pub const fn sends(self) -> bool {
        matches!(self, Self::SendRecv | Self::SendOnly)
    }

    /// True when the side that says it listens.
    pub const fn receives(self) -> bool {
        matches!(self, Self::SendRecv | Self::RecvOnly)
    }

    /// The same seen from the other side.
    pub const fn reversed(self) -> Self {
        Self::from_parts(self.receives(), self.sends())
    }

    /// What is left when both sides must agree: sends what both let it send, hears what both let it hear.
    pub const fn and(self, other: Self) -> Self {
        Self::from_parts(self.sends() && other.sends(), self.receives() && other.receives())
    }

    /// From its two halves.
    pub const fn from_parts(sends: bool, receives: bool) -> Self {
        match (sends, receives) {
            (true, true) => Self::SendRecv,
            (true, false) => Self::SendOnly,
            (false, true) => Self::RecvOnly,
            (false, false) => Self::Inactive,
        }
    }

    /// The attribute's name in SDP (RFC 8866 §6.7).
    pub const fn name(self) -> &'static str {
        match self {
            Self::SendRecv => "sendrecv",
            Self::SendOnly => "sendonly",
            Self::RecvOnly => "recvonly",
            Self::Inactive => "inactive",
        }
    }
}
