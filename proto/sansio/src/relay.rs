//! Requests to a media relay, and their results.

use alloc::boxed::Box;
use core::net::IpAddr;

/// Request to a media relay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelayRequest {
    /// Kind of the request.
    pub kind: RelayKind,
    /// Call at the relay, chosen by the machine that asks.
    pub call: RelayCall,
    /// Relay that has the call already.
    pub relay: Option<RelayId>,
    /// Side that made the offer.
    pub offerer: RelaySide,
    /// SDP; empty for [`RelayKind::Delete`].
    pub sdp: Box<[u8]>,
    /// Media of the side that gets the SDP.
    pub to: RelayMedia,
    /// Peer that the call counts for.
    pub holder: RelayHolder,
    /// Address that the SDP came from, if the relay sends media there and not to the addresses in the SDP.
    pub source: Option<IpAddr>,
}

/// Peer that a call at a relay counts for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RelayHolder {
    /// One whose calls are not limited.
    Trusted,
    /// User with a password, by a keyed hash of its address-of-record.
    User(u64),
    /// Source that has proved no password.
    Stranger(IpAddr),
}

/// Result of a [`RelayRequest`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelayResult {
    /// Relay that answered.
    pub relay: RelayId,
    /// SDP in place of the given one, as the relay wrote it: not verified.
    pub sdp: Box<[u8]>,
}

/// Kind of a [`RelayRequest`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RelayKind {
    /// SDP offer. It may create the call.
    Offer,
    /// SDP answer.
    Answer,
    /// End of the call. It has no result.
    Delete,
}

/// Name of a call at the relay: random, so that no peer can name the call of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RelayCall(pub u64);

/// Relay, by a hash of its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RelayId(pub u32);

/// Side of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RelaySide {
    /// Sender of the first INVITE.
    Caller,
    /// The other side.
    Callee,
}

/// Media protocol of one side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RelayMedia {
    /// The protocol that the other side offers, without ICE.
    Same,
    /// RTP without encryption (`RTP/AVP`), without ICE.
    Plain,
    /// SRTP with keys in the SDP (`RTP/SAVP`), without ICE.
    Srtp,
    /// DTLS-SRTP (`UDP/TLS/RTP/SAVPF`) with ICE: a browser.
    Browser,
}
