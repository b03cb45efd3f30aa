//! Configuration of a media session.

use crate::dtls::DtlsIdentity;
use crate::jitter_buffer::BufferLimits;
use alloc::string::String;
use alloc::sync::Arc;
use core::net::SocketAddr;
use core::time::Duration;
use ringway_srtp::SrtpSettings;
use ringway_zrtp::{ZidCache, ZrtpConfig};

/// Configuration of one stream.
#[derive(Clone, Debug)]
pub struct SessionConfig {
    /// Limits of buffers and queues.
    pub limits: SessionLimits,
    /// Our CNAME in RTCP: the same for all streams of a call, without information on the user (RFC 7022).
    pub cname: String,
    /// STUN server for the mappings of our ports.
    pub stun_server: Option<SocketAddr>,
    /// Probing of further ports while no packet arrives.
    pub port_row: PortRow,
    /// Replay window and limits of SRTP.
    pub srtp: SrtpSettings,
    /// Settings of ZRTP; `None` if it is not supported.
    pub zrtp: Option<ZrtpSettings>,
    /// Our certificate and the implementation of DTLS; `None` if it is not supported.
    pub dtls: Option<Arc<dyn DtlsIdentity>>,
    /// Duration of a DTMF digit.
    pub digit_duration: Duration,
}

impl Default for SessionConfig {
    fn default() -> Self {
        Self {
            limits: SessionLimits::default(),
            cname: String::from("ringway"),
            stun_server: None,
            port_row: PortRow::default(),
            srtp: SrtpSettings::default(),
            zrtp: None,
            dtls: None,
            digit_duration: Duration::from_millis(100),
        }
    }
}

/// Limits of a session; exceeding one is counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionLimits {
    /// Packets and delay of the jitter buffer.
    pub buffer: BufferLimits,
    /// Maximum number of queued digits.
    pub digits_max: usize,
    /// Maximum number of events that are not polled yet; above it, the newest is dropped.
    pub events_max: usize,
}

impl Default for SessionLimits {
    fn default() -> Self {
        Self { buffer: BufferLimits::default(), digits_max: 64, events_max: 64 }
    }
}

/// Consecutive ports of the peer to which our packets are also sent while no packet arrives. A NAT that assigns ports
/// consecutively has opened one of them (port + 1, port + 2, …) and accepts packets only from addresses that the peer
/// sends to; a NAT on our side accepts the peer's packets at the port that we have sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortRow {
    /// Number of ports in addition to the signalled one, up to [`Self::PORTS_MAX`]; 0 disables the probing.
    pub ports: u8,
    /// Time without a packet after which the probing starts.
    pub after: Duration,
}

impl PortRow {
    /// The longest row: each of its ports gets a packet every 1.28 s.
    pub const PORTS_MAX: u8 = 64;

    /// A row of this length, tried when nobody was heard for 2 s.
    pub fn of(ports: u8) -> Self {
        Self { ports: ports.min(Self::PORTS_MAX), ..Self::default() }
    }
}

impl Default for PortRow {
    fn default() -> Self {
        Self { ports: 0, after: Duration::from_secs(2) }
    }
}

/// Settings of ZRTP.
#[derive(Clone, Debug)]
pub struct ZrtpSettings {
    /// Identity, algorithms and role.
    pub config: ZrtpConfig,
    /// Retained secrets of earlier calls.
    pub cache: ZidCache,
}
