//! Settings of an SRTP context.

/// Replay window and SSRC limit of a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SrtpSettings {
    /// Replay window in packets (RFC 3711 §3.3.2): 64 to 32,768, default 64; other values are clamped. Its
    /// memory, two bits for each packet and SSRC, is allocated when the context is created.
    pub window_packets: usize,
    /// Maximum number of SSRCs tracked at a time: 1 to 1024, default 16; other values are clamped. A packet
    /// with a further SSRC is rejected and counted. Replacing another SSRC's state instead would make that
    /// SSRC open to replay.
    pub ssrcs_max: usize,
}

impl SrtpSettings {
    /// Minimum replay window in packets (RFC 3711 §3.3.2).
    pub const WINDOW_PACKETS_MIN: usize = 64;
    /// Maximum replay window in packets; with a larger one the rollover counter could not be estimated.
    pub const WINDOW_PACKETS_MAX: usize = 32_768;
    /// Maximum of [`SrtpSettings::ssrcs_max`].
    pub const SSRCS_MAX: usize = 1024;

    pub(crate) fn clamped(self) -> Self {
        Self {
            window_packets: self.window_packets.clamp(Self::WINDOW_PACKETS_MIN, Self::WINDOW_PACKETS_MAX),
            ssrcs_max: self.ssrcs_max.clamp(1, Self::SSRCS_MAX),
        }
    }
}

impl Default for SrtpSettings {
    fn default() -> Self {
        Self { window_packets: Self::WINDOW_PACKETS_MIN, ssrcs_max: 16 }
    }
}
