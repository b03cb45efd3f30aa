//! Events, failures and counters of a key agreement.

use crate::algorithm::{KeyAgreement, SasType};
use crate::cache::{Retained, Zid};
use alloc::boxed::Box;
use alloc::string::String;
use ringway_sdp::{CryptoSuite, MasterKey};

/// Event of a key agreement.
#[derive(Debug)]
pub enum ZrtpEvent {
    /// The peer may send SRTP from now on. We may send it only after [`ZrtpEvent::Secured`]. Report the first
    /// authenticated packet with [`Zrtp::on_authenticated_srtp`](crate::Zrtp::on_authenticated_srtp).
    ReadyToReceive {
        /// Crypto suite of the stream.
        suite: CryptoSuite,
        /// The peer's key.
        receive: MasterKey,
    },
    /// Both ends have the keys.
    Secured(Box<Secured>),
    /// Cache entry to store for the next call with this peer.
    Retain(Retained),
    /// Identity whose cache entry is to be deleted.
    Forget(Zid),
    /// No ZRTP packet was received so far; a later Hello is still answered.
    PeerNotZrtp,
    /// The agreement failed. No event follows.
    Failed(ZrtpFailure),
    /// The peer asked to continue without encryption, which was refused (RFC 6189 §4.7.2). The call stays
    /// encrypted.
    GoClearRefused,
}

/// Result of a completed agreement.
#[derive(Debug)]
pub struct Secured {
    /// Crypto suite of both directions.
    pub suite: CryptoSuite,
    /// Our key.
    pub send: MasterKey,
    /// The peer's key.
    pub receive: MasterKey,
    /// Short authentication string, which the users compare by voice: `pdo8`, or `topmost Istanbul`.
    pub sas: String,
    /// Rendering of the string.
    pub sas_type: SasType,
    /// Our user compared the string in an earlier call, and every call since continued the retained secrets.
    pub sas_verified: bool,
    /// The peer's V flag: its user compared the string.
    pub peer_sas_verified: bool,
    /// Result of the comparison of retained secrets.
    pub continuity: Continuity,
    /// The peer's Hello matched the hash that its signalling announced.
    pub is_hello_announced: bool,
    /// Key agreement that was used.
    pub key_agreement: KeyAgreement,
    /// The peer's identity.
    pub peer_zid: Zid,
    /// Client identifier of the peer: printable ASCII, at most 16 characters. Not authenticated.
    pub peer_client: String,
    /// The peer's D flag: it may disclose its keys to others (RFC 6189 §11).
    pub peer_discloses: bool,
}

/// Result of the comparison of retained secrets (RFC 6189 §4.3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Continuity {
    /// No earlier call: only comparing the string by voice excludes a man in the middle.
    FirstCall,
    /// The peer has the retained secret of an earlier call.
    Continued,
    /// The peer should have a retained secret and does not: it lost its cache, or there is a man in the
    /// middle. The user must be warned, and no secret is retained until the string was compared.
    Broken,
}

/// Reason why an agreement failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ZrtpFailure {
    /// No answer from the peer; the name of the awaited message.
    #[error("ZRTP: the peer sent no {0}: call again")]
    Timeout(&'static str),
    /// Error of the peer with its code (RFC 6189 §5.9).
    #[error("ZRTP: the peer gave up with error 0x{0:x}: call again")]
    PeerError(u32),
    /// The peer's version is older than ours (RFC 6189 §4.1.1).
    #[error("ZRTP: the peer's version is older than 1.10: it needs a newer phone")]
    Version,
    /// All Hellos differed from the hash that the signalling announced.
    #[error(
        "ZRTP: the Hello does not match the hash in the signalling: a server between the phones (B2BUA) passed the hash on and \
         changed the media, or there is a man in the middle"
    )]
    HelloNotAnnounced,
    /// The peer has our identity: reflected packets, or a copied phone.
    #[error("ZRTP: the peer has our identity: make a new ZID if it was copied")]
    EqualZids,
    /// The peer has our SSRC.
    #[error("ZRTP: the peer has our SSRC: call again")]
    SsrcCollision,
    /// A message was modified in transit: man in the middle (RFC 6189 §8.1.1).
    #[error("ZRTP: the peer's {0} was modified in transit: man in the middle")]
    Forged(&'static str),
    /// The public value does not match the peer's Commit: man in the middle (RFC 6189 §4.4.1.2).
    #[error("ZRTP: the public value does not match the Commit: man in the middle")]
    Commitment,
    /// The public value is 0, 1, p - 1 or not a point of the curve: attack (RFC 6189 §4.4.1.2).
    #[error("ZRTP: the peer's public value is weak: man in the middle")]
    PublicValue,
    /// The keys of both ends differ: man in the middle (RFC 6189 §4.6).
    #[error("ZRTP: the two ends have different keys: man in the middle")]
    ConfirmMac,
    /// The peer chose an algorithm that we did not offer, or a mode that is not implemented.
    #[error("ZRTP: the peer chose a {0} that was not offered: it needs another setting")]
    NotOffered(&'static str),
    /// The peer requested more computations than an agreement needs.
    #[error("ZRTP: the peer asks for too many computations: call again")]
    TooManyComputations,
}

impl ZrtpFailure {
    /// Code of the Error to send (RFC 6189 §5.9, table 8); `None` if the peer sent an Error.
    pub(crate) fn code(self) -> Option<u32> {
        Some(match self {
            Self::PeerError(_) | Self::HelloNotAnnounced => return None,
            Self::Timeout(_) => 0xb0,
            Self::Version => 0x30,
            Self::EqualZids => 0x90,
            Self::SsrcCollision => 0x91,
            Self::Forged(_) => 0x20,
            Self::Commitment => 0x62,
            Self::PublicValue => 0x61,
            Self::ConfirmMac => 0x70,
            Self::NotOffered("hash") => 0x51,
            Self::NotOffered("cipher") => 0x52,
            Self::NotOffered("auth tag") => 0x54,
            Self::NotOffered("SAS type") => 0x55,
            Self::NotOffered("Preshared mode") => 0x56,
            Self::NotOffered(_) => 0x53,
            Self::TooManyComputations => 0xa0,
        })
    }
}

/// Numbers of received packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ZrtpCounts {
    /// All packets.
    pub packets: u64,
    /// Without the magic cookie, too long, or with a wrong CRC.
    pub damaged: u64,
    /// With a valid CRC and a malformed message.
    pub malformed: u64,
    /// From another SSRC than the peer's Hello.
    pub strangers: u64,
    /// Hellos that do not match the announced hash.
    pub not_announced: u64,
    /// With a hash image that does not lead to the peer's Hello, or a wrong MAC.
    pub forged: u64,
    /// Valid, but not expected in this state: late, duplicated or early.
    pub unexpected: u64,
}
