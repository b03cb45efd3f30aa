//! Trunks that did not answer a short time ago, or asked for a pause.

use crate::NEIGHBOURS_MAX;
use core::time::Duration;
use ringway_sansio::Instant;

/// Event at a trunk, for an administrator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrunkEvent {
    /// An INVITE was sent to it.
    Called,
    /// It sent a response with this status.
    Answered(u16),
    /// It refused its credentials, or asked for some and has none.
    LoginRefused,
}

/// Reason why a trunk is tried after the others of its routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrunkPause {
    /// It sent no response in time.
    Silent,
    /// It answered 503 with a Retry-After that has not passed (RFC 3261 §21.5.4).
    RetryAfter,
}

/// Trunks that are tried last. Shared by all shards in [`SharedTables`](crate::SharedTables), so that a silent trunk costs one call its
/// time and not each.
#[derive(Clone, Debug)]
pub struct PausedTrunks {
    /// Ends of the times after a silence.
    silent: [Instant; NEIGHBOURS_MAX],
    /// Ends of the pauses that they asked for.
    paused: [Instant; NEIGHBOURS_MAX],
}

impl Default for PausedTrunks {
    fn default() -> Self {
        Self { silent: [Instant::default(); NEIGHBOURS_MAX], paused: [Instant::default(); NEIGHBOURS_MAX] }
    }
}

impl PausedTrunks {
    /// Time for which a silent trunk is tried last.
    pub const SILENT_TIME: Duration = Duration::from_secs(60);

    /// Notes that the trunk with this index is tried last until `until`.
    pub fn note(&mut self, trunk: usize, pause: TrunkPause, until: Instant) {
        let list = match pause {
            TrunkPause::Silent => &mut self.silent,
            TrunkPause::RetryAfter => &mut self.paused,
        };
        if let Some(end) = list.get_mut(trunk) {
            *end = until;
        }
    }

    /// Notes that it answered: it is not silent any more.
    pub fn clear(&mut self, trunk: usize) {
        if let Some(until) = self.silent.get_mut(trunk) {
            *until = Instant::default();
        }
    }

    /// Reason why the trunk is tried last at present.
    pub fn of(&self, now: Instant, trunk: usize) -> Option<TrunkPause> {
        let is_within = |list: &[Instant]| list.get(trunk).is_some_and(|until| *until > now);
        match (is_within(&self.silent), is_within(&self.paused)) {
            (true, _) => Some(TrunkPause::Silent),
            (false, true) => Some(TrunkPause::RetryAfter),
            (false, false) => None,
        }
    }
}
