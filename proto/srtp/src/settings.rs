//! What a context can be told beside its keys.

/// How a context behaves, and its limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SrtpSettings {
    /// The replay window in packets: 64-32,768, 64 by default; a value outside is taken as the nearest
    /// (RFC 3711 §3.3.2). The memory for it, two bits a packet and SSRC, is taken at the start.
    pub window_packets: usize,
    /// How many SSRCs are followed at a time: 1-1024, 16 by default; a value outside is taken as the nearest. A
    /// packet of one more is refused and counted: to forget another's state instead would open it to replays.
    pub ssrcs_max: usize,
    /// Whether RTCP is encrypted.
    pub rtcp_encryption: RtcpEncryption,
}

impl SrtpSettings {
    /// The smallest replay window that RFC 3711 §3.3.2 allows.
    pub const WINDOW_PACKETS_MIN: usize = 64;
    /// The largest replay window: beyond it the rollover counter cannot be guessed.
    pub const WINDOW_PACKETS_MAX: usize = 32_768;
    /// The most SSRCs that can be followed.
    pub const SSRCS_MAX: usize = 1024;

    pub(crate) fn clamped(self) -> Self {
        Self {
            window_packets: self.window_packets.clamp(Self::WINDOW_PACKETS_MIN, Self::WINDOW_PACKETS_MAX),
            ssrcs_max: self.ssrcs_max.clamp(1, Self::SSRCS_MAX),
            rtcp_encryption: self.rtcp_encryption,
        }
    }
}

impl Default for SrtpSettings {
    fn default() -> Self {
        Self {
            window_packets: Self::WINDOW_PACKETS_MIN,
            ssrcs_max: 16,
            rtcp_encryption: RtcpEncryption::Encrypted,
        }
    }
}

/// Whether RTCP is encrypted; it is authenticated always (RFC 3711 §3.4, RFC 4568 §6.3.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RtcpEncryption {
    /// Every packet has the E flag; one without it is refused.
    #[default]
    Encrypted,
    /// No packet has the E flag; one with it is refused.
    AuthenticatedOnly,
}
