//! Events of a media session.

use crate::dtls::DtlsFailure;
use crate::stun::StunFailure;
use alloc::string::String;
use core::net::SocketAddr;
use ringway_sdp::{CryptoSuite, KeyManagement};
use ringway_zrtp::{Continuity, Retained, Zid, ZrtpFailure};

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
