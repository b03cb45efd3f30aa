//! A call, and its entry in the history.

use crate::phone::Now;
use crate::text::{Shown, cut, width};
use alloc::borrow::ToOwned;
use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::{String, ToString};
use core::time::Duration;
use ringway_phone::{CallNumber, Hold, Levels, MediaReport, Protection, Side, Signalling};

/// Names, URIs, reasons: longer ones are cut.
pub(super) const NAME_CHARS_MAX: usize = 128;
pub(in crate::phone) const URI_CHARS_MAX: usize = 256;
pub(super) const REASON_CHARS_MAX: usize = 256;
/// Mark of a call that bypasses the account's server.
pub(super) const DIRECT: &str = "(direct)";
/// Seconds that a sparkline remembers.
const SERIES_MAX: usize = 300;
/// Fall of a meter from one event to the next, at most.
const FALL_DB: f32 = 3.0;
/// Keys that are remembered of a call.
const DIGITS_MAX: usize = 64;

/// The side that began a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// We called.
    Ours,
    /// They called.
    Theirs,
}

/// The other side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Party {
    /// Name that it claims; may be empty, and proves nothing.
    pub(crate) name: Shown,
    /// The name of a contact, else the URI.
    label: Shown,
    pub(crate) uri: Shown,
    /// The URI as it can be called.
    pub(crate) address: String,
}

impl Party {
    pub(crate) fn new(name: &str, uri: &str) -> Self {
        Self {
            name: Shown::new(name.trim(), NAME_CHARS_MAX),
            label: Shown::new(uri, URI_CHARS_MAX),
            uri: Shown::new(uri, URI_CHARS_MAX),
            address: uri.to_owned(),
        }
    }

    /// A contact, with the name that the user gave it.
    pub(super) fn contact(name: &str, uri: &str) -> Self {
        let party = Self::new(name, uri);
        Self { label: party.name.clone(), ..party }
    }

    /// A caller who bypasses the account's server; nobody verified the URI.
    pub(super) fn direct(name: &str, uri: &str) -> Self {
        let party = Self::new(&format!("{DIRECT} {}", name.trim()), uri);
        Self { label: Shown::new(&format!("{DIRECT} {uri}"), URI_CHARS_MAX), ..party }
    }

    /// True if the account's server did not pass the call on.
    pub(crate) fn is_direct(&self) -> bool {
        self.label.as_str().starts_with(DIRECT)
    }

    /// `Bob <sip:bob@example.org>`
    pub(crate) fn whole(&self) -> String {
        if self.name.is_empty() { self.uri.to_string() } else { format!("{} <{}>", self.name, self.uri) }
    }

    /// The same in `columns`: the name is cut before the URI, because a name proves nothing.
    pub(crate) fn within(&self, columns: usize) -> String {
        let room = columns.saturating_sub(width(self.uri.as_str()) + 3);
        if self.is_direct() && room < DIRECT.len() {
            return cut(self.label.as_str(), columns);
        }
        if self.name.is_empty() || room == 0 {
            return cut(self.uri.as_str(), columns);
        }
        format!("{} <{}>", cut(self.name.as_str(), room), self.uri)
    }

    /// The name of a contact, else the URI: anybody can claim a name.
    pub(crate) fn short(&self) -> &str {
        self.label.as_str()
    }
}

/// Phase of a call.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Phase {
    /// It rings here.
    RingsHere,
    /// We have asked for it and heard nothing.
    Calling,
    /// It rings there.
    RingsThere,
    /// There is sound, and no answer yet.
    Early,
    /// Both talk.
    Talking { since: Now },
    /// It is over.
    Over { after: Option<Duration>, by: Side, status: u16, reason: Shown },
}

/// Something asked of a call that has not happened yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    Hold,
    Resume,
    Answer,
    HangUp,
}

/// A call, live or the last one.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Call {
    pub(crate) number: CallNumber,
    pub(crate) origin: Origin,
    /// Answering it ends another call.
    pub(crate) is_replacing: bool,
    pub(crate) party: Party,
    pub(crate) began: Now,
    pub(crate) phase: Phase,
    pub(crate) asked: Option<Asked>,
    pub(crate) codec: Shown,
    pub(crate) lock: Protection,
    /// The media sessions are agreeing on keys.
    pub(crate) is_securing: bool,
    pub(crate) hold: Hold,
    pub(crate) is_muted: bool,
    /// No sound has come, although the other side may send.
    pub(crate) is_silent: bool,
    pub(crate) levels: Option<Levels>,
    pub(crate) report: Option<MediaReport>,
    pub(crate) delta: Series,
    pub(crate) jitter: Series,
    pub(crate) loss: Series,
    pub(crate) digits_sent: String,
    pub(crate) digits_received: String,
    pub(crate) transfer: Shown,
    /// Target of our transfer.
    pub(crate) transfer_to: Shown,
    /// They talk to the target.
    pub(crate) is_transferred: bool,
    /// Whom the other side wants us to call instead.
    pub(crate) asks_for: Option<Shown>,
}

impl Call {
    pub(super) fn new(number: CallNumber, origin: Origin, party: Party, now: Now) -> Self {
        Self {
            number,
            origin,
            is_replacing: false,
            party,
            began: now,
            phase: match origin {
                Origin::Ours => Phase::Calling,
                Origin::Theirs => Phase::RingsHere,
            },
            asked: None,
            codec: Shown::default(),
            lock: Protection::None,
            is_securing: false,
            hold: Hold::None,
            is_muted: false,
            is_silent: false,
            levels: None,
            report: None,
            delta: Series::default(),
            jitter: Series::default(),
            loss: Series::default(),
            digits_sent: String::new(),
            digits_received: String::new(),
            transfer: Shown::default(),
            transfer_to: Shown::default(),
            is_transferred: false,
            asks_for: None,
        }
    }

    /// A meter falls slowly: an eye cannot follow sound.
    pub(super) fn note_levels(&mut self, levels: Levels) {
        let falling = |new: f32, old: f32| new.max(old - FALL_DB);
        self.levels = Some(match self.levels {
            None => levels,
            Some(old) => Levels {
                sent_db: falling(levels.sent_db, old.sent_db),
                received_db: falling(levels.received_db, old.received_db),
            },
        });
    }

    pub(super) fn note_report(&mut self, report: MediaReport) {
        self.delta.push(report.delta_ms);
        self.jitter.push(report.jitter_ms);
        self.loss.push(report.loss_percent);
        self.report = Some(report);
    }

    pub(super) fn note_digit_sent(&mut self, face: char) {
        remember(&mut self.digits_sent, face);
    }

    pub(super) fn note_digit_received(&mut self, face: char) {
        remember(&mut self.digits_received, face);
    }

    pub(crate) fn rings_here(&self) -> bool {
        self.phase == Phase::RingsHere
    }

    pub(crate) fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Over { .. })
    }

    pub(crate) fn is_talking(&self) -> bool {
        matches!(self.phase, Phase::Talking { .. })
    }

    /// True while we hold it.
    pub(crate) fn is_held_by_us(&self) -> bool {
        matches!(self.hold, Hold::Ours | Hold::Both)
    }

    /// Time since the answer, or between answer and end.
    pub(crate) fn talked(&self, now: Now) -> Option<Duration> {
        match self.phase {
            Phase::Talking { since } => Some(now.elapsed.saturating_sub(since.elapsed)),
            Phase::Over { after, .. } => after,
            Phase::RingsHere | Phase::Calling | Phase::RingsThere | Phase::Early => None,
        }
    }
}

fn remember(digits: &mut String, face: char) {
    if digits.len() >= DIGITS_MAX {
        digits.remove(0);
    }
    digits.push(face);
}

/// Values of the last seconds, the oldest first.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Series(VecDeque<f32>);

impl Series {
    fn push(&mut self, value: f32) {
        if self.0.len() >= SERIES_MAX {
            self.0.pop_front();
        }
        self.0.push_back(if value.is_finite() { value } else { 0.0 });
    }

    /// The newest `count` values, the oldest of them first.
    pub(crate) fn newest(&self, count: usize) -> impl Iterator<Item = f32> {
        self.0.iter().skip(self.0.len().saturating_sub(count)).copied()
    }
}

/// A call of the history.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PastCall {
    pub(crate) origin: Origin,
    pub(crate) party: Party,
    pub(crate) at: Now,
    pub(crate) talked: Option<Duration>,
    pub(crate) outcome: Outcome,
    /// Protection at its end, as [`lock_name`] names it.
    pub(crate) lock: &'static str,
}

/// Outcome of a call of the history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Talked,
    /// We transferred it.
    Transferred {
        to: Shown,
    },
    /// They called, and nobody answered.
    Missed,
    /// We refused it.
    Rejected,
    /// We gave up before they answered.
    Cancelled,
    /// They, or the network, did not take it.
    Failed {
        status: u16,
        reason: Shown,
    },
}

impl PastCall {
    /// The entry for a call that is over; `None`: it is not.
    pub(super) fn of(call: &Call) -> Option<Self> {
        let Phase::Over { after, by, status, reason } = &call.phase else { return None };
        let outcome = match (call.origin, after, by) {
            (_, Some(_), _) if call.is_transferred => Outcome::Transferred { to: call.transfer_to.clone() },
            (_, Some(_), _) => Outcome::Talked,
            (Origin::Theirs, None, Side::Us) => Outcome::Rejected,
            (Origin::Theirs, None, Side::Peer | Side::Failure) => Outcome::Missed,
            (Origin::Ours, None, Side::Us) => Outcome::Cancelled,
            (Origin::Ours, None, Side::Peer | Side::Failure) => {
                Outcome::Failed { status: *status, reason: reason.clone() }
            }
        };
        Some(Self {
            origin: call.origin,
            party: call.party.clone(),
            at: call.began,
            talked: *after,
            outcome,
            lock: lock_name(&call.lock),
        })
    }
}

/// Protection of a call, in fixed words.
pub(crate) const fn lock_name(lock: &Protection) -> &'static str {
    let [none, sdes_open, sdes, dtls_open, dtls, zrtp] = LOCKS;
    match lock {
        Protection::None => none,
        Protection::Sdes { signalling: Signalling::Open, .. } => sdes_open,
        Protection::Sdes { signalling: Signalling::TlsToServer, .. } => sdes,
        Protection::Dtls { signalling: Signalling::Open, .. } => dtls_open,
        Protection::Dtls { signalling: Signalling::TlsToServer, .. } => dtls,
        Protection::Zrtp { .. } => zrtp,
    }
}

/// Names of the kinds of protection.
pub(super) const LOCKS: [&str; 6] =
    ["none", "SDES over plain SIP (weak)", "SDES over TLS", "DTLS over plain SIP (weak)", "DTLS", "ZRTP"];
