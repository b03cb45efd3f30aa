//! A call of a phone, and the history of calls.

use crate::{CallNumber, Hold, Levels, MediaReport, PhoneEvent, Protection, Side};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::string::String;
use core::net::SocketAddr;
use core::time::Duration;
use ringway_agent::{CallId, Role};
use ringway_sansio::Instant;
use ringway_sdp::{LocalMedia, MediaParams, SecurityPolicy};

/// Progress of a call.
///
/// ```text
///  Call ──► Opening ──► Mapping ──► Calling ──► RingsThere ──► EarlyMedia ─┐ 200
///              ▲          ▲  STUN answers, or 3 s                          ├──────► Talking ──► Ending ──► (gone)
///  INVITE ─► RingsHere ─► Opening ─► Mapping ─► Answering ─────────────────┘ ACK
/// ```
/// Without a STUN server there is no Mapping. Any phase may go to Ending or end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It rings here.
    RingsHere,
    /// The front end opens ports and sound.
    Opening,
    /// A STUN query for the mapped ports is pending.
    Mapping,
    /// The INVITE was sent at this time.
    Calling(Instant),
    /// The peer rings.
    RingsThere,
    /// The peer described sound, and has not answered.
    EarlyMedia,
    /// We sent 200 and wait for the ACK.
    Answering,
    /// Established since this time.
    Talking(Instant),
    /// We ended it and wait for the peer's response.
    Ending,
}

/// The request that makes an outgoing call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// An INVITE of the peer.
    Incoming,
    /// A command of the user.
    Command,
    /// A transfer that the peer of another call requested.
    Transfer(CallId),
}

/// Ports that a call is about to offer.
#[derive(Debug)]
pub(crate) struct Mapping {
    pub(crate) until: Instant,
    pub(crate) local: LocalMedia,
    /// Mapped ports of RTP and RTCP, as far as the STUN server gave them.
    pub(crate) mapped: Option<(SocketAddr, Option<SocketAddr>)>,
}

/// Media of a call in the front end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Media {
    Closed,
    Open,
    /// The front end was asked to close it.
    Closing,
}

/// The end of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallEnd {
    /// Side that ended it.
    pub by: Side,
    /// Status code; 200 after a BYE, 0 when no INVITE was sent.
    pub status: u16,
    /// Reason for a person.
    pub reason: String,
}

/// A call.
#[derive(Debug)]
pub struct Call {
    pub(crate) number: CallNumber,
    /// `None`: there is no INVITE yet.
    pub(crate) id: Option<CallId>,
    pub(crate) origin: Origin,
    pub(crate) name: String,
    pub(crate) uri: String,
    /// Its INVITE did not come from the account's server.
    pub(crate) bypasses_server: bool,
    pub(crate) phase: Phase,
    /// Event of an incoming call that waits until the media of a call that has ended are closed.
    pub(crate) waiting: Option<Box<PhoneEvent>>,
    pub(crate) talking_since: Option<Instant>,
    pub(crate) media: Media,
    /// Negotiated media that sends, until the ACK of our 200.
    pub(crate) awaits_ack: Option<MediaParams>,
    pub(crate) policy: SecurityPolicy,
    pub(crate) mapping: Option<Mapping>,
    pub(crate) rtp: Option<SocketAddr>,
    /// The last mapped address that was reported.
    pub(crate) mapped: Option<SocketAddr>,
    /// The user wants to hold it.
    pub(crate) wants_hold: bool,
    pub(crate) hold: Hold,
    pub(crate) codec: &'static str,
    pub(crate) is_securing: bool,
    pub(crate) protection: Protection,
    pub(crate) digits_sent: String,
    pub(crate) levels: Option<Levels>,
    pub(crate) report: Option<MediaReport>,
    /// Target of the transfer that the peer requested.
    pub(crate) transfer_target: Option<String>,
    /// Error that ends it, for a person.
    pub(crate) failure: Option<String>,
    /// It is over once its media is closed.
    pub(crate) end: Option<CallEnd>,
}

impl Call {
    pub(crate) const fn new(number: CallNumber, origin: Origin, name: String, uri: String) -> Self {
        Self {
            number,
            id: None,
            origin,
            name,
            uri,
            bypasses_server: false,
            phase: match origin {
                Origin::Incoming => Phase::RingsHere,
                Origin::Command | Origin::Transfer(_) => Phase::Opening,
            },
            waiting: None,
            talking_since: None,
            media: Media::Closed,
            awaits_ack: None,
            policy: SecurityPolicy::None,
            mapping: None,
            rtp: None,
            mapped: None,
            wants_hold: false,
            hold: Hold::None,
            codec: "",
            is_securing: false,
            protection: Protection::None,
            digits_sent: String::new(),
            levels: None,
            report: None,
            transfer_target: None,
            failure: None,
            end: None,
        }
    }

    /// Its number.
    pub const fn number(&self) -> CallNumber {
        self.number
    }

    /// Our role.
    pub const fn role(&self) -> Role {
        match self.origin {
            Origin::Incoming => Role::Callee,
            Origin::Command | Origin::Transfer(_) => Role::Caller,
        }
    }

    /// The peer's display name; may be empty.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The peer's URI.
    pub fn uri(&self) -> &str {
        &self.uri
    }

    /// Its progress.
    pub const fn phase(&self) -> Phase {
        self.phase
    }

    /// Sides that hold it.
    pub const fn hold(&self) -> Hold {
        self.hold
    }

    /// Encoding name; empty before the codec is negotiated.
    pub const fn codec(&self) -> &'static str {
        self.codec
    }

    /// True while ZRTP runs and nothing is protected yet.
    pub const fn is_securing(&self) -> bool {
        self.is_securing
    }

    /// Protection in force.
    pub const fn protection(&self) -> &Protection {
        &self.protection
    }

    /// The last digits that were sent.
    pub fn digits_sent(&self) -> &str {
        &self.digits_sent
    }

    /// The last levels.
    pub const fn levels(&self) -> Option<Levels> {
        self.levels
    }

    /// The last figures.
    pub const fn report(&self) -> Option<&MediaReport> {
        self.report.as_ref()
    }

    pub(crate) const fn has_media(&self) -> bool {
        matches!(self.media, Media::Open)
    }

    pub(crate) const fn is_held_by_us(&self) -> bool {
        matches!(self.hold, Hold::Ours | Hold::Both)
    }

    /// True when our user, and not the peer or an error, ends it.
    pub(crate) const fn is_ended_by_us(&self) -> bool {
        matches!(self.phase, Phase::Ending) && self.failure.is_none()
    }

    /// Sets whether a side holds the call; true when that is a change.
    pub(crate) fn set_hold(&mut self, ours: Option<bool>, theirs: Option<bool>) -> bool {
        let was = self.hold;
        let ours = ours.unwrap_or(self.is_held_by_us());
        let theirs = theirs.unwrap_or(matches!(was, Hold::Theirs | Hold::Both));
        self.hold = match (ours, theirs) {
            (false, false) => Hold::None,
            (true, false) => Hold::Ours,
            (false, true) => Hold::Theirs,
            (true, true) => Hold::Both,
        };
        self.hold != was
    }
}

/// A call of the history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PastCall {
    /// Its number.
    pub number: CallNumber,
    /// Our role.
    pub role: Role,
    /// The peer's display name; may be empty.
    pub name: String,
    /// The peer's URI.
    pub uri: String,
    /// Time from the answer to the end; `None`: it was not answered.
    pub talked: Option<Duration>,
    /// Its end.
    pub end: CallEnd,
}

/// The history of calls, newest first.
#[derive(Debug, Default)]
pub(crate) struct History {
    calls: VecDeque<PastCall>,
}

impl History {
    /// Adds a call; true when the oldest one was dropped for it.
    pub(crate) fn push(&mut self, call: PastCall, max: usize) -> bool {
        self.calls.push_front(call);
        let is_full = self.calls.len() > max;
        self.calls.truncate(max);
        is_full
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &PastCall> {
        self.calls.iter()
    }
}
