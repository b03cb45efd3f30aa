//! A call that has not ended.

use super::record::{CallEnd, CallRecord, CallTexts};
use crate::report::{CallName, Pass};
use crate::{CallSender, DiversionReason};
use alloc::boxed::Box;
use core::net::SocketAddr;
use ringway_sansio::{Instant, TimerKey};
use smallvec::SmallVec;

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
