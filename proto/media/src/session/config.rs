//! Configuration and events of a media session.

use crate::dtls::{DtlsFailure, DtlsIdentity};
use crate::jitter_buffer::BufferLimits;
use crate::stun::StunFailure;
use alloc::string::String;
use alloc::sync::Arc;
use core::net::SocketAddr;
use core::time::Duration;
use ringway_sdp::{CryptoSuite, KeyManagement};
use ringway_srtp::SrtpSettings;
use ringway_zrtp::{Continuity, Retained, Zid, ZidCache, ZrtpConfig, ZrtpFailure};

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

/// Event of a stream.
#[derive(Debug)]
pub enum MediaEvent {
    /// The peer sent a DTMF digit: `0`-`9`, `*`, `#`, `A`-`D`.
    Digit(char),
    /// The peer's packets come from this address, and ours are sent there: initially or after a change.
    LatchedTo(SocketAddr),
    /// Sound arrives before the first parameters.
    EarlySound,
    /// Mapped addresses of our ports: initially, or after a change.
    StunMapped {
        /// Mapped address of the RTP port.
        rtp: SocketAddr,
        /// Mapped address of the RTCP port, once known.
        rtcp: Option<SocketAddr>,
    },
    /// A STUN transaction failed; the next one starts after 30 s.
    StunFailed(StunFailure),
    /// The stream is protected in both directions from now on, or has another key.
    Secured {
        /// Crypto suite of both directions.
        suite: CryptoSuite,
        /// Origin of the keys.
        key_management: KeyManagement,
        /// The short authentication string of ZRTP; `None` with other keys.
        sas: Option<Sas>,
    },
    /// The stream is no longer protected, because of new parameters.
    Unprotected,
    /// The negotiated protection failed: nothing is sent or received.
    SecurityFailed(SecurityFailure),
    /// The peer does not answer with ZRTP so far: nothing is sent or received until it does.
    PeerNotZrtp,
    /// Cache entry to store for the next call with this peer.
    Retain(Retained),
    /// Identity whose cache entry is to be deleted.
    Forget(Zid),
    /// The peer has sent an RTCP BYE.
    PeerLeft,
}

/// Short authentication string and its context (RFC 6189 §7).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sas {
    /// The string that the users compare by voice.
    pub text: String,
    /// Our user compared it in an earlier call.
    pub is_verified: bool,
    /// Result of the comparison of retained secrets.
    pub continuity: Continuity,
    /// The peer's Hello matched the hash that its signalling announced.
    pub is_hello_announced: bool,
    /// Client identifier of the peer; not authenticated.
    pub peer_client: String,
    /// The peer's D flag: it may disclose its keys to others.
    pub peer_discloses: bool,
}

/// Reason why a stream cannot be protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecurityFailure {
    /// A key from the signalling does not match its suite.
    #[error("SRTP: {0}")]
    Key(ringway_srtp::KeyError),
    /// The ZRTP agreement failed.
    #[error("{0}")]
    Zrtp(ZrtpFailure),
    /// ZRTP was negotiated, but this session has no ZRTP settings.
    #[error("ZRTP was negotiated, but this phone was started without it")]
    NoZrtp,
    /// ZRTP was negotiated again after the stream had continued without it and erased its keys.
    #[error("ZRTP was ended in this call and cannot be resumed: call again")]
    ZrtpLeft,
    /// The DTLS handshake failed.
    #[error("DTLS: {0}")]
    Dtls(DtlsFailure),
    /// DTLS was negotiated, but this session has no certificate.
    #[error("DTLS-SRTP was negotiated, but this phone was started without it")]
    NoDtls,
    /// The key has protected its maximum number of packets; a new one must be negotiated.
    #[error("SRTP: the lifetime of the key is over: hold and resume the call, or call again")]
    KeyUsedUp,
}
