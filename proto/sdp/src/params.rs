//! The one value that crosses from signalling to media.

use crate::{Codec, CryptoSuite, Direction, MasterKey};
use alloc::vec::Vec;
use core::fmt;
use core::net::SocketAddr;

/// What both sides agreed on for one stream: made by offer/answer, taken by the media session.
///
/// A hold, a re-INVITE or a transfer makes a new one for the same session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MediaParams {
    /// Where the peer's signalling says it listens for RTP.
    pub remote: SocketAddr,
    /// Where it listens for RTCP; the same as `remote` with `rtcp_mux` (RFC 5761).
    pub remote_rtcp: SocketAddr,
    /// RTP and RTCP share a port.
    pub rtcp_mux: bool,
    /// What we send.
    pub codec: Codec,
    /// As which payload type (0-127).
    pub payload_type: u8,
    /// What the peer may send: payload type and codec.
    pub receive: Vec<(u8, Codec)>,
    /// The payload type by which we send DTMF (RFC 4733), if the peer takes it.
    pub telephone_event: Option<u8>,
    /// The payload type by which the peer may send DTMF.
    pub receive_telephone_event: Option<u8>,
    /// Milliseconds of sound in a packet: 10-200.
    pub ptime_ms: u16,
    /// Which way sound goes, seen from us.
    pub direction: Direction,
    /// What protects it.
    pub protection: Protection,
}

impl MediaParams {
    /// Key management of the stream; `None` without SRTP.
    pub const fn key_management(&self) -> Option<KeyManagement> {
        self.protection.key_management()
    }
}

/// Key management for SRTP (RFC 3711 §8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyManagement {
    /// The SDP carries the keys (RFC 4568): they are as secret as the signalling.
    Sdes,
    /// The two ends agree on keys in the media path (RFC 6189).
    Zrtp,
}

/// Negotiated protection of a stream, with what SRTP or ZRTP needs to start.
#[derive(Clone, PartialEq, Eq)]
pub enum Protection {
    /// RTP in the clear.
    None,
    /// SRTP with keys from the SDP.
    Sdes {
        /// Crypto suite of both directions.
        suite: CryptoSuite,
        /// Our key.
        send: MasterKey,
        /// The peer's key.
        receive: MasterKey,
    },
    /// SRTP with keys from ZRTP.
    Zrtp {
        /// The hash of the peer's Hello as its signalling announced it (§8).
        peer_hello_hash: Option<[u8; 32]>,
    },
}

impl Protection {
    /// Key management; `None` without SRTP.
    pub const fn key_management(&self) -> Option<KeyManagement> {
        match self {
            Self::None => None,
            Self::Sdes { .. } => Some(KeyManagement::Sdes),
            Self::Zrtp { .. } => Some(KeyManagement::Zrtp),
        }
    }
}

impl fmt::Debug for Protection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("None"),
            Self::Sdes { suite, .. } => write!(f, "Sdes({})", suite.name()),
            Self::Zrtp { .. } => f.write_str("Zrtp"),
        }
    }
}
