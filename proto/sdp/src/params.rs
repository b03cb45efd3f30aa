//! Negotiated media parameters.

use crate::{Codec, CryptoSuite, Direction, DtlsRole, Fingerprint, IceParams, MasterKey};
use alloc::vec::Vec;
use core::fmt;
use core::net::SocketAddr;

/// Negotiated parameters of one stream: the result of offer/answer and the input of the media session.
///
/// A hold, a re-INVITE or a transfer gives new parameters for the same session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MediaParams {
    /// RTP address of the peer from its SDP.
    pub remote: SocketAddr,
    /// RTCP address of the peer; equal to `remote` with `rtcp_mux` (RFC 5761).
    pub remote_rtcp: SocketAddr,
    /// RTP and RTCP share one port.
    pub rtcp_mux: bool,
    /// Codec that we send.
    pub codec: Codec,
    /// Payload type that we send (0 to 127).
    pub payload_type: u8,
    /// Payload types and codecs that the peer may send.
    pub receive: Vec<(u8, Codec)>,
    /// Payload type of the DTMF that we send (RFC 4733), if the peer supports it.
    pub telephone_event: Option<u8>,
    /// Payload type of the DTMF that the peer may send.
    pub receive_telephone_event: Option<u8>,
    /// Packet length in milliseconds: 10 to 200.
    pub ptime_ms: u16,
    /// Direction, as seen from us.
    pub direction: Direction,
    /// Protection of the stream.
    pub protection: Protection,
    /// ICE, if it is in use: media then goes only to an address that the peer nominated, and `remote` is not used.
    pub ice: Option<IceParams>,
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
    /// Keys in the SDP (RFC 4568); they are only as secret as the signalling.
    Sdes,
    /// Key agreement in the media path (RFC 6189).
    Zrtp,
    /// DTLS handshake in the media path (RFC 5764); the certificates are proved by the SDP.
    Dtls,
}

/// Negotiated protection of a stream, with the input of SRTP, ZRTP or DTLS.
#[derive(Clone, PartialEq, Eq)]
pub enum Protection {
    /// Unencrypted RTP.
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
        /// Hash of the peer's Hello from its SDP (RFC 6189 §8).
        peer_hello_hash: Option<[u8; 32]>,
    },
    /// SRTP with keys from a DTLS handshake.
    Dtls {
        /// Our role in the handshake.
        role: DtlsRole,
        /// Fingerprints from the peer's SDP, at least one; its certificate must have one of them.
        fingerprints: Vec<Fingerprint>,
    },
}

impl Protection {
    /// Key management; `None` without SRTP.
    pub const fn key_management(&self) -> Option<KeyManagement> {
        match self {
            Self::None => None,
            Self::Sdes { .. } => Some(KeyManagement::Sdes),
            Self::Zrtp { .. } => Some(KeyManagement::Zrtp),
            Self::Dtls { .. } => Some(KeyManagement::Dtls),
        }
    }
}

impl fmt::Debug for Protection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("None"),
            Self::Sdes { suite, .. } => write!(f, "Sdes({})", suite.name()),
            Self::Zrtp { .. } => f.write_str("Zrtp"),
            Self::Dtls { role, .. } => write!(f, "Dtls({})", role.name()),
        }
    }
}
