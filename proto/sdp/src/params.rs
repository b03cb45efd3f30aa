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

/// What protects a stream.
#[derive(Clone, PartialEq, Eq)]
pub enum Protection {
    /// Nothing.
    None,
    /// SRTP with keys that signalling carried (RFC 4568): as secret as the signalling was.
    Sdes {
        /// What encrypts, both ways.
        suite: CryptoSuite,
        /// Our key.
        send: MasterKey,
        /// The peer's key.
        receive: MasterKey,
    },
    /// SRTP with keys that the two media sessions agree on (RFC 6189).
    Zrtp {
        /// The hash of the peer's Hello as its signalling announced it (§8).
        peer_hello_hash: Option<[u8; 32]>,
    },
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
