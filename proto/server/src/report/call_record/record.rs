//! Calls that have not ended, and call records.

use crate::report::{CallName, Pass};
use crate::{CallSender, DiversionReason};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::net::SocketAddr;
use ringway_sansio::{Instant, TimerKey};
use ringway_sip::Message;
use smallvec::SmallVec;

/// An ended call. All texts come from the network and can have any bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallRecord {
    /// Call-ID and URIs.
    pub texts: CallTexts,
    /// Proof of identity of the caller.
    pub sender: CallSender,
    /// Source address of the INVITE.
    pub source: SocketAddr,
    /// Time of the INVITE.
    pub begun: Instant,
    /// Time of the first provisional response of a target.
    pub ringing: Option<Instant>,
    /// Time of the answer.
    pub answered: Option<Instant>,
    /// End.
    pub ended: Instant,
    /// Status code of the final response; 0: there was none.
    pub status: u16,
    /// Reason for the end.
    pub end: CallEnd,
    /// Reason why the call went to another target than the called user's phones.
    pub diverted: Option<DiversionReason>,
    /// Contact of the target that answered.
    pub target: Option<Box<[u8]>>,
}

/// Reason for the end of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallEnd {
    /// One side hung up.
    Bye,
    /// It was refused.
    Failed,
    /// The callee was busy (486, 600).
    Busy,
    /// Nobody answered in time (timer C, 408, or 480 after ringing).
    NoAnswer,
    /// The caller gave up.
    Cancelled,
    /// The caller got other targets (3xx).
    Redirected,
    /// No BYE was seen in the lifetime of the dialog, or no final response in the longest time for one.
    Unknown,
    /// No BYE that ends a call was seen in the lifetime of the dialog, but one that was refused. It is the end of the record.
    ByeRefused,
    /// The table of calls was full.
    Dropped,
    /// The server stopped.
    Stopped,
}

/// Texts of a call, each at most [`CallTexts::BYTES_MAX`] bytes long; longer ones are cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallTexts {
    bytes: Box<[u8]>,
    ends: [u16; 4],
}

impl CallEnd {
    /// Word in a record.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bye => "bye",
            Self::Failed => "failed",
            Self::Busy => "busy",
            Self::NoAnswer => "no-answer",
            Self::Cancelled => "cancelled",
            Self::Redirected => "redirected",
            Self::Unknown => "unknown-end",
            Self::ByeRefused => "bye-refused",
            Self::Dropped => "dropped",
            Self::Stopped => "stopped",
        }
    }
}

impl CallTexts {
    /// Maximum length of one text.
    pub const BYTES_MAX: usize = 255;

    /// Reads the texts of an INVITE with this Request-URI. `caller`: the user that its sender proved to be; empty: none.
    pub(super) fn of(invite: &Message<'_>, request_uri: &[u8], caller: &[u8]) -> Self {
        let (from, to) = (invite.from().uri.as_bytes(), invite.to().uri.as_bytes());
        let callee = if request_uri == to { &[] } else { request_uri };
        let texts = [invite.call_id(), from, to, callee, caller].map(cut);
        let mut bytes = Vec::with_capacity(texts.iter().map(|text| text.len()).sum());
        let mut ends = [0; 4];
        for (text, end) in texts.iter().zip(ends.iter_mut().map(Some).chain([None])) {
            bytes.extend_from_slice(text);
            if let Some(end) = end {
                *end = bytes.len() as u16;
            }
        }
        Self { bytes: bytes.into(), ends }
    }

    /// Call-ID.
    pub fn call_id(&self) -> &[u8] {
        self.part(0, usize::from(self.ends[0]))
    }

    /// URI of From.
    pub fn from(&self) -> &[u8] {
        self.part(usize::from(self.ends[0]), usize::from(self.ends[1]))
    }

    /// URI of To.
    pub fn to(&self) -> &[u8] {
        self.part(usize::from(self.ends[1]), usize::from(self.ends[2]))
    }

    /// Request-URI, if it is not that of To.
    pub fn callee(&self) -> Option<&[u8]> {
        let callee = self.part(usize::from(self.ends[2]), usize::from(self.ends[3]));
        Some(callee).filter(|callee| !callee.is_empty())
    }

    /// Canonical `user@domain` that the caller proved to be.
    pub fn caller(&self) -> Option<&[u8]> {
        Some(self.part(usize::from(self.ends[3]), self.bytes.len())).filter(|caller| !caller.is_empty())
    }

    /// Length of all.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// True if all are empty.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    fn part(&self, from: usize, to: usize) -> &[u8] {
        self.bytes.get(from..to).unwrap_or_default()
    }
}

impl CallRecord {
    /// Approximate number of bytes that the record occupies.
    pub fn size(&self) -> usize {
        size_of::<Self>() + self.texts.len() + self.target.as_ref().map_or(0, |target| target.len())
    }
}

pub(super) fn cut(text: &[u8]) -> &[u8] {
    text.get(..CallTexts::BYTES_MAX).unwrap_or(text)
}

/// Open call.
///
/// ```text
/// Begun -> (Ringing) -> Answered -> BYE, lifetime
///    \________\___ last pass failed, longest time
/// ```
#[derive(Debug)]
pub(super) struct OpenCall {
    /// Name of the INVITE; `to` becomes that of the answer.
    pub(super) name: CallName,
    /// Transactions of its INVITE without a final response: more than one for a spiral and for a fork before this server.
    pub(super) passes: SmallVec<[Pass; PASSES_MAX]>,
    /// True if another call has a pass with a Via of it: a spiral of either cannot be told from one of the other.
    pub(super) shares_via: bool,
    pub(super) texts: CallTexts,
    pub(super) sender: CallSender,
    pub(super) source: SocketAddr,
    pub(super) begun: Instant,
    pub(super) ringing: Option<Instant>,
    pub(super) answered: Option<Instant>,
    /// Time of the last BYE that was refused.
    pub(super) bye_refused: Option<Instant>,
    pub(super) status: u16,
    pub(super) is_cancelled: bool,
    pub(super) is_timed_out: bool,
    pub(super) diverted: Option<DiversionReason>,
    pub(super) target: Option<Box<[u8]>>,
    pub(super) timer: TimerKey,
}

impl OpenCall {
    pub(super) fn has_pass(&self, pass: Pass) -> bool {
        self.passes.contains(&pass)
    }

    /// True if the tags are those of its two sides, in either direction.
    pub(super) const fn is_between(&self, tags: (u64, u64)) -> bool {
        let own = (self.name.from, self.name.to);
        self.answered.is_some()
            && own.0 != 0
            && own.1 != 0
            && ((tags.0 == own.0 && tags.1 == own.1) || (tags.1 == own.0 && tags.0 == own.1))
    }

    /// Reason for the end by the final response `status`; 0: there was none.
    pub(super) const fn failure(&self, status: u16) -> CallEnd {
        match status {
            _ if self.is_cancelled => CallEnd::Cancelled,
            // Its targets answer the CANCEL of timer C with 487.
            _ if self.is_timed_out => CallEnd::NoAnswer,
            408 => CallEnd::NoAnswer,
            487 => CallEnd::Cancelled,
            480 if self.ringing.is_some() => CallEnd::NoAnswer,
            300..=399 => CallEnd::Redirected,
            486 | 600 => CallEnd::Busy,
            _ => CallEnd::Failed,
        }
    }

    /// Bytes that it counts for.
    pub(super) fn size(&self) -> usize {
        size_of::<Self>() + self.texts.len() + self.target.as_ref().map_or(0, |target| target.len())
    }

    pub(super) fn into_record(self, ended: Instant, end: CallEnd) -> CallRecord {
        let Self { texts, sender, source, begun, ringing, answered, status, diverted, target, .. } = self;
        CallRecord { texts, sender, source, begun, ringing, answered, ended, status, end, diverted, target }
    }
}

/// Maximum number of transactions of one call that are followed.
pub(super) const PASSES_MAX: usize = 4;
