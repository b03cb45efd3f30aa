//! What a key agreement tells the session around it.

use crate::algorithm::{KeyAgreement, SasType};
use crate::cache::{Retained, Zid};
use alloc::boxed::Box;
use alloc::string::String;
use core::fmt;
use ringway_sdp::{CryptoSuite, MasterKey};

/// What happened.
#[derive(Debug)]
pub enum ZrtpEvent {
    /// The peer may send SRTP from now on. We may not yet: that begins with [`ZrtpEvent::Secured`], and a first packet
    /// that authenticates is to be told with [`Zrtp::on_authenticated_srtp`](crate::Zrtp::on_authenticated_srtp).
    ReadyToReceive {
        /// What encrypts.
        suite: CryptoSuite,
        /// The peer's key.
        receive: MasterKey,
    },
    /// Both ends have the keys.
    Secured(Box<Secured>),
    /// To be stored for the next call with this peer.
    Retain(Retained),
    /// To be forgotten.
    Forget(Zid),
    /// Nobody there speaks ZRTP, so far: a Hello that comes later is still answered.
    PeerNotZrtp,
    /// The agreement came to nothing. Nothing follows.
    Failed(ZrtpFailure),
    /// The peer asked to go on in clear; it was told that we do not (RFC 6189 §4.7.2). The call is as protected as before.
    GoClearRefused,
}

/// A finished agreement.
#[derive(Debug)]
pub struct Secured {
    /// What encrypts, both ways.
    pub suite: CryptoSuite,
    /// Our key.
    pub send: MasterKey,
    /// The peer's key.
    pub receive: MasterKey,
    /// What the two users compare by voice: `pdo8`, or `topmost Istanbul`.
    pub sas: String,
    /// How it is rendered.
    pub sas_type: SasType,
    /// Our user compared it in an earlier call, and the secrets lead from there to here without a gap.
    pub sas_verified: bool,
    /// The peer says the same of its user.
    pub peer_sas_verified: bool,
    /// What the secrets of earlier calls say.
    pub continuity: Continuity,
    /// The peer's Hello was the one that its signalling announced.
    pub is_hello_announced: bool,
    /// How the secret was agreed on.
    pub key_agreement: KeyAgreement,
    /// The peer's identity.
    pub peer_zid: Zid,
    /// What program the peer says it is: printable ASCII, at most 16 characters.
    pub peer_client: String,
    /// The peer says that it may hand its keys to others (RFC 6189 §11).
    pub peer_discloses: bool,
}

/// What the secrets of earlier calls say about the peer (RFC 6189 §4.3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Continuity {
    /// No earlier call: only the string, compared by voice, says that nobody is in between.
    FirstCall,
    /// The peer has the secret of an earlier call.
    Continued,
    /// It should have one and has not: it lost its memory, or somebody is in between. The user has to be warned, and
    /// nothing new is remembered until the string was compared.
    Broken,
}

/// Why an agreement came to nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZrtpFailure {
    /// The peer went silent; what was waited for.
    Timeout(&'static str),
    /// The peer gave up, with this code (RFC 6189 §5.9).
    PeerError(u32),
    /// The peer's version is older than ours (§4.1.1).
    Version,
    /// Only Hellos came that its signalling did not announce.
    HelloNotAnnounced,
    /// The peer has our own identity: a mirror, or a copied phone.
    EqualZids,
    /// The peer has our SSRC.
    SsrcCollision,
    /// A message was changed on the way: somebody is in between (§8.1.1).
    Forged(&'static str),
    /// The peer committed to another public value than it showed: somebody is in between (§4.4.1.2).
    Commitment,
    /// The public value was 0, 1, p - 1 or no point of the curve: an attack (§4.4.1.2).
    PublicValue,
    /// The keys of both ends differ: somebody is in between (§4.6).
    ConfirmMac,
    /// The peer chose an algorithm that we did not offer, or a mode that we do not have.
    NotOffered(&'static str),
    /// The peer made us compute more often than an agreement needs.
    TooManyComputations,
}

impl ZrtpFailure {
    /// The code that tells the peer (RFC 6189 §5.9, table 8); none where the peer said it first.
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

impl fmt::Display for ZrtpFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Timeout(awaited) => write!(f, "ZRTP: the peer sent no {awaited}: call again"),
            Self::PeerError(code) => write!(f, "ZRTP: the peer gave up with error 0x{code:x}: call again"),
            Self::Version => {
                f.write_str("ZRTP: the peer's version is older than 1.10: it needs a newer phone")
            }
            Self::HelloNotAnnounced => {
                f.write_str("ZRTP: no Hello fits the hash in the signalling: somebody may be in between")
            }
            Self::EqualZids => {
                f.write_str("ZRTP: the peer has our identity: make a new ZID if it was copied")
            }
            Self::SsrcCollision => f.write_str("ZRTP: the peer has our SSRC: call again"),
            Self::Forged(message) => {
                write!(f, "ZRTP: the peer's {message} was changed on the way: somebody is in between")
            }
            Self::Commitment => f.write_str("ZRTP: the peer broke its commitment: somebody is in between"),
            Self::PublicValue => f.write_str("ZRTP: the peer's public value is weak: somebody is in between"),
            Self::ConfirmMac => f.write_str("ZRTP: the two ends have different keys: somebody is in between"),
            Self::NotOffered(what) => {
                write!(f, "ZRTP: the peer chose a {what} that was not offered: it needs another setting")
            }
            Self::TooManyComputations => {
                f.write_str("ZRTP: the peer asks for too many computations: call again")
            }
        }
    }
}

/// What came in, and what of it was passed over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ZrtpCounts {
    /// Packets handed in.
    pub packets: u64,
    /// Without the cookie, too long, or with a wrong CRC.
    pub damaged: u64,
    /// With a right CRC and a message that cannot be read.
    pub malformed: u64,
    /// From another source than the peer's Hello.
    pub strangers: u64,
    /// Hellos that the peer's signalling did not announce.
    pub not_announced: u64,
    /// With a hash image that does not lead to the peer's Hello, or a MAC that does not fit.
    pub forged: u64,
    /// Right, but not what is waited for: late, repeated or early.
    pub unexpected: u64,
}
