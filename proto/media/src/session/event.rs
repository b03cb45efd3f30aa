//! What a session tells the program.

use crate::stun::StunFailure;
use alloc::string::String;
use core::net::SocketAddr;
use ringway_sdp::CryptoSuite;
use ringway_zrtp::{Continuity, Retained, Zid, ZrtpFailure};

/// What happened to a stream.
#[derive(Debug)]
pub enum MediaEvent {
    /// The peer pressed a key: `0`-`9`, `*`, `#`, `A`-`D`.
    Digit(char),
    /// The peer is heard from here, and our sound goes there: for the first time, or changed.
    LatchedTo(SocketAddr),
    /// How our ports look from outside: for the first time, or when more is known or it has changed.
    StunMapped {
        /// The port of RTP.
        rtp: SocketAddr,
        /// The port of RTCP, once that is known too.
        rtcp: Option<SocketAddr>,
    },
    /// The STUN server was of no use; it is deferred again after 30 s.
    StunFailed(StunFailure),
    /// The stream is protected from now on, both ways, or under another key.
    Secured {
        /// Crypto suite of both directions.
        suite: CryptoSuite,
        /// The short authentication string of ZRTP; `None` with keys from the SDP.
        sas: Option<Sas>,
    },
    /// The stream was protected and is no longer, because new parameters say so.
    Unprotected,
    /// What was agreed on cannot protect the stream: nothing is sent or heard.
    SecurityFailed(SecurityFailure),
    /// The peer does not answer with ZRTP, so far: nothing is sent or heard until it does.
    PeerNotZrtp,
    /// To be stored for the next call with this peer.
    Retain(Retained),
    /// To be forgotten.
    Forget(Zid),
    /// The peer says by RTCP that it stops sending.
    PeerLeft,
}

/// A short authentication string and what is known about it (RFC 6189 §7).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sas {
    /// What the two users compare by voice.
    pub text: String,
    /// Our user compared it in an earlier call.
    pub is_verified: bool,
    /// What the secrets of earlier calls say about the peer.
    pub continuity: Continuity,
    /// The peer's Hello was the one that its signalling announced.
    pub is_hello_announced: bool,
    /// What program the peer says it is.
    pub peer_client: String,
    /// The peer says that it may hand its keys to others.
    pub peer_discloses: bool,
}

/// Why a stream cannot be protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecurityFailure {
    /// A key of the signalling does not fit its suite.
    Key(ringway_srtp::KeyError),
    /// The agreement came to nothing.
    Zrtp(ZrtpFailure),
    /// ZRTP was agreed on, and this session was made without it.
    NoZrtp,
    /// The stream had gone on without ZRTP, and its keys are gone.
    ZrtpLeft,
    /// The key has protected as many packets as it may: signalling must agree on a new one.
    KeyUsedUp,
}

impl core::fmt::Display for SecurityFailure {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Key(error) => write!(f, "SRTP: {error}"),
            Self::Zrtp(failure) => failure.fmt(f),
            Self::NoZrtp => f.write_str("ZRTP was agreed on, and this phone was started without it"),
            Self::ZrtpLeft => f.write_str("ZRTP was given up in this call and cannot come back: call again"),
            Self::KeyUsedUp => {
                f.write_str("SRTP: the key is used up: hold and resume the call, or call again")
            }
        }
    }
}

impl core::error::Error for SecurityFailure {}
