//! What a session is made with.

use crate::jitter_buffer::BufferLimits;
use alloc::string::String;
use core::net::SocketAddr;
use core::time::Duration;
use ringway_srtp::SrtpSettings;
use ringway_zrtp::{ZidCache, ZrtpConfig};

/// How one stream behaves.
#[derive(Clone, Debug)]
pub struct SessionConfig {
    /// What is held at most.
    pub limits: SessionLimits,
    /// Our canonical name in RTCP: the same for all streams of a call, and nothing that names the user (RFC 7022).
    pub cname: String,
    /// Whose sound is heard.
    pub symmetric: SymmetricRtp,
    /// Whom to ask how our ports look from outside.
    pub stun_server: Option<SocketAddr>,
    /// What is tried when nobody is heard.
    pub port_row: PortRow,
    /// Replay window and limits of SRTP.
    pub srtp: SrtpSettings,
    /// Our side of ZRTP; `None`: streams that ask for it fail.
    pub zrtp: Option<ZrtpSettings>,
    /// How long a digit is held down.
    pub digit_duration: Duration,
}

impl Default for SessionConfig {
    fn default() -> Self {
        Self {
            limits: SessionLimits::default(),
            cname: String::from("ringway"),
            symmetric: SymmetricRtp::default(),
            stun_server: None,
            port_row: PortRow::default(),
            srtp: SrtpSettings::default(),
            zrtp: None,
            digit_duration: Duration::from_millis(100),
        }
    }
}

/// What a session holds at most; each is counted where it is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionLimits {
    /// Packets and delay of the jitter buffer.
    pub buffer: BufferLimits,
    /// Digits that wait to be sent.
    pub digits_max: usize,
    /// Events that wait to be polled; over it the newest is dropped.
    pub events_max: usize,
}

impl Default for SessionLimits {
    fn default() -> Self {
        Self { buffer: BufferLimits::default(), digits_max: 64, events_max: 64 }
    }
}

/// Whose sound is heard, and where ours goes (RFC 4961, and what NATs make necessary).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SymmetricRtp {
    /// The address that signalling told; with SRTP, the first whose packets authenticate; without, if nothing comes
    /// from the signalled one, the first that sends several packets of an agreed kind in a row.
    #[default]
    Latch,
    /// The address that signalling told, or with SRTP the first whose packets authenticate. No other.
    SignalledOnly,
}

/// A row of consecutive ports of the peer, to which our sound goes as well while nobody is heard: a NAT that counts its ports up
/// has opened one of them (port + 1, port + 2, …), and lets nobody in but whom the peer sends to; a NAT on our side lets the peer in
/// at the port that we have sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortRow {
    /// How many ports beside the signalled one: up to [`Self::PORTS_MAX`]; 0: none.
    pub ports: u8,
    /// How long nobody must have been heard.
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

/// Our side of ZRTP.
#[derive(Clone, Debug)]
pub struct ZrtpSettings {
    /// Who we are and what we take.
    pub config: ZrtpConfig,
    /// What is remembered of earlier calls.
    pub cache: ZidCache,
}
