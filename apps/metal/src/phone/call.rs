//! The call, as the machine and its screen know it.

use alloc::string::String;
use core::net::SocketAddr;
use ringway_agent::{CallId, Role};
use ringway_sansio::Instant;
use ringway_sdp::LocalMedia;

pub(crate) struct Call {
    /// `None`: nothing was sent yet.
    pub(crate) id: Option<CallId>,
    pub(crate) role: Role,
    /// The other side's URI and name, as it says.
    pub(crate) uri: String,
    pub(crate) name: String,
    pub(crate) phase: Phase,
    pub(crate) is_held_by_us: bool,
    pub(crate) is_held_by_peer: bool,
    /// Keys of ours.
    pub(crate) digits: String,
    /// What ZRTP gave the people to compare.
    pub(crate) sas: Option<Sas>,
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
    /// We called, then.
    Calling(Instant),
    RingsThere,
    /// There is sound, and nobody has answered.
    EarlySound,
    RingsHere,
    /// We answered; the other side has not said that it knows.
    Answering,
    /// Since then.
    Talking(Instant),
    /// It is over as soon as the other side has said so.
    Ending,
}

/// A short authentication string.
pub(crate) struct Sas {
    pub(crate) text: String,
    /// The people say that it is equal.
    pub(crate) is_compared: bool,
}

impl Call {
    pub(crate) fn new(id: Option<CallId>, role: Role, (uri, name): (String, String), phase: Phase) -> Self {
        Self {
            id,
            role,
            uri,
            name,
            phase,
            is_held_by_us: false,
            is_held_by_peer: false,
            digits: String::new(),
            sas: None,
        }
    }

    /// True once both talk.
    pub(crate) const fn is_talking(&self) -> bool {
        matches!(self.phase, Phase::Talking(_))
    }
}
