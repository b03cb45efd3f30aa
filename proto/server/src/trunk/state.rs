//! Trunks that did not answer a short time ago.

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

/// Trunks that sent no response to a request in time. Shared by all shards behind [`Services`](crate::Services), so that a silent
/// trunk costs one call its time and not each.
#[derive(Clone, Debug)]
pub struct SilentTrunks {
    /// Ends of the times for which they are tried last.
    until: [Instant; NEIGHBOURS_MAX],
}

impl Default for SilentTrunks {
    fn default() -> Self {
        Self { until: [Instant::default(); NEIGHBOURS_MAX] }
    }
}

impl SilentTrunks {
    /// Time for which a trunk is tried after the others of its routes.
    pub const SILENT_TIME: Duration = Duration::from_secs(60);

    /// Notes that the trunk with this index did not answer.
    pub fn note(&mut self, now: Instant, trunk: usize) {
        if let Some(until) = self.until.get_mut(trunk) {
            *until = now + Self::SILENT_TIME;
        }
    }

    /// Notes that it answered: it is not tried last any more.
    pub fn clear(&mut self, trunk: usize) {
        if let Some(until) = self.until.get_mut(trunk) {
            *until = Instant::default();
        }
    }

    /// True if the trunk did not answer within [`SilentTrunks::SILENT_TIME`].
    pub fn has(&self, now: Instant, trunk: usize) -> bool {
        self.until.get(trunk).is_some_and(|until| *until > now)
    }
}
