//! The call, as the machine and its screen know it.

use alloc::string::String;
use core::net::SocketAddr;
use ringway_agent::{CallId, Role};
use ringway_phone::{CallNumber, Hold, Protection};
use ringway_sansio::Instant;
use ringway_sdp::LocalMedia;

pub(crate) struct Call {
    /// `None`: nothing was sent yet.
    pub(crate) id: Option<CallId>,
    pub(crate) role: Role,
    pub(crate) number: CallNumber,
    /// URI of the peer, as it claims.
    pub(crate) uri: String,
    pub(crate) phase: Phase,
    pub(crate) is_held_by_us: bool,
    pub(crate) is_held_by_peer: bool,
    /// Protection in force.
    pub(crate) protection: Protection,
}

/// How far a call is.
pub(crate) enum Phase {
    /// It is asked how our ports look from outside, until then; the call waits for it.
    Mapping {
        until: Instant,
        local: LocalMedia,
        /// The port of RTP, and that of RTCP, as far as they are known.
        seen_as: Option<(SocketAddr, Option<SocketAddr>)>,
    },
    /// The INVITE is sent.
    Calling,
    RingsThere,
    /// There is sound, and nobody has answered.
    EarlySound,
    RingsHere,
    /// We answered; the other side has not said that it knows.
    Answering,
    /// Established.
    Talking,
    /// It is over as soon as the other side has said so.
    Ending,
}

impl Call {
    pub(crate) fn new(number: CallNumber, id: Option<CallId>, role: Role, uri: String, phase: Phase) -> Self {
        Self {
            id,
            role,
            number,
            uri,
            phase,
            is_held_by_us: false,
            is_held_by_peer: false,
            protection: Protection::None,
        }
    }

    /// Sides that hold the call.
    pub(crate) const fn hold(&self) -> Hold {
        match (self.is_held_by_us, self.is_held_by_peer) {
            (false, false) => Hold::None,
            (true, false) => Hold::Ours,
            (false, true) => Hold::Theirs,
            (true, true) => Hold::Both,
        }
    }

    /// True once both talk.
    pub(crate) const fn is_talking(&self) -> bool {
        matches!(self.phase, Phase::Talking)
    }
}
