//! Codecs and directions of a stream.

/// Audio codec.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Codec {
    /// G.711 µ-law, 8,000 Hz, 8 bits a sample; static payload type 0 (RFC 3551 §4.5.14).
    Pcmu,
    /// G.711 A-law, 8,000 Hz, 8 bits a sample; static payload type 8 (RFC 3551 §4.5.14).
    Pcma,
}

impl Codec {
    /// Encoding name in `a=rtpmap` (RFC 3551 §6); compared case-insensitively.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pcmu => "PCMU",
            Self::Pcma => "PCMA",
        }
    }

    /// Payload type that is valid without `a=rtpmap`.
    pub const fn static_payload_type(self) -> u8 {
        match self {
            Self::Pcmu => 0,
            Self::Pcma => 8,
        }
    }

    /// RTP clock rate and sample rate, in Hz.
    pub const fn clock_rate_hz(self) -> u32 {
        match self {
            Self::Pcmu | Self::Pcma => 8000,
        }
    }

    /// The supported codec with this encoding name and clock rate.
    pub fn from_name(name: &str, clock_rate_hz: u32) -> Option<Self> {
        [Self::Pcmu, Self::Pcma]
            .into_iter()
            .find(|codec| codec.name().eq_ignore_ascii_case(name) && codec.clock_rate_hz() == clock_rate_hz)
    }
}

/// Direction of a stream, as seen from the side that sends the SDP (RFC 3264 §5.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direction {
    /// Sends and receives.
    #[default]
    SendRecv,
    /// Sends only.
    SendOnly,
    /// Receives only.
    RecvOnly,
    /// Neither sends nor receives.
    Inactive,
}

impl Direction {
    /// True if this side sends.
    pub const fn sends(self) -> bool {
        matches!(self, Self::SendRecv | Self::SendOnly)
    }

    /// True if this side receives.
    pub const fn receives(self) -> bool {
        matches!(self, Self::SendRecv | Self::RecvOnly)
    }

    /// The same direction as seen from the other side.
    pub const fn reversed(self) -> Self {
        Self::from_parts(self.receives(), self.sends())
    }

    /// Intersection: sends if both send, receives if both receive.
    pub const fn and(self, other: Self) -> Self {
        Self::from_parts(self.sends() && other.sends(), self.receives() && other.receives())
    }

    /// Combines sending and receiving.
    pub const fn from_parts(sends: bool, receives: bool) -> Self {
        match (sends, receives) {
            (true, true) => Self::SendRecv,
            (true, false) => Self::SendOnly,
            (false, true) => Self::RecvOnly,
            (false, false) => Self::Inactive,
        }
    }

    /// Name of the SDP attribute (RFC 8866 §6.7).
    pub const fn name(self) -> &'static str {
        match self {
            Self::SendRecv => "sendrecv",
            Self::SendOnly => "sendonly",
            Self::RecvOnly => "recvonly",
            Self::Inactive => "inactive",
        }
    }
}
