//! Times at which the journal's thread takes the buffer and syncs.
//!
//! ```text
//! relaxed   idle --record--> take --record--> sleep --250 ms or 256 KiB--> take --...--> nothing in 250 ms --> idle
//!           sync 500 ms after the last sync, or at once if that is longer ago
//! strict    take and sync whenever there is a record
//! ```
//! The first record after a pause wakes the thread and is taken at once; the second one wakes it too, and begins the
//! ticks. Then the thread sleeps on its own timer, and appending threads make no system call until a tick without a
//! record ends the ticks. An idle thread has no timer.

use crate::shared::WAKE_NEVER;
use std::time::{Duration, Instant};

/// Relaxed: interval at which the buffer is taken and written. A record that is only in the buffer is lost when the
/// process is killed.
pub(crate) const TICK: Duration = Duration::from_millis(250);
/// Relaxed: length of the buffer at which it is taken before the tick ends, so that it stays in the processor's cache
/// and the memory is limited at any rate.
pub(crate) const TAKE_BYTES: usize = 256 << 10;
/// Relaxed: interval of the syncs. The rest of the second in which a record must be durable is for the sync itself.
pub(crate) const SYNC_INTERVAL: Duration = Duration::from_millis(500);

/// Moment at which a record counts as stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// The record is appended; it is durable within 1 s.
    #[default]
    Relaxed,
    /// The record is durable.
    Strict,
}

/// Times of the last take and of the last sync.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    durability: Durability,
    /// Length of the buffer at which it is taken before the tick ends.
    take_bytes: usize,
    taken_at: Option<Instant>,
    synced_at: Option<Instant>,
    /// True while the thread wakes up at the end of each tick.
    is_ticking: bool,
}

/// State of the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Waiting {
    /// Its length in bytes.
    pub(crate) bytes: usize,
    /// True if something was appended since the last take; a refused record has no bytes.
    pub(crate) is_appended: bool,
}

/// Next action of the journal's thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// There is work.
    Work,
    /// Nothing is due before `until`, unless the buffer reaches `wake_from` bytes.
    Sleep { until: Option<Instant>, wake_from: usize },
}

impl Pace {
    /// `buffer_bytes_max`: limit of the buffer; it is taken before it is full.
    pub(crate) fn new(durability: Durability, buffer_bytes_max: usize) -> Self {
        let take_bytes = TAKE_BYTES.min(buffer_bytes_max / 2);
        Self { durability, take_bytes, taken_at: None, synced_at: None, is_ticking: false }
    }

    /// Notes that a buffer with records was taken.
    pub(crate) fn taken(&mut self, now: Instant) {
        self.taken_at = Some(now);
    }

    /// Notes that a sync begins.
    pub(crate) fn sync_begins(&mut self, now: Instant) {
        self.synced_at = Some(now);
    }

    /// Time at which records that are written should be synced; `None`: at once.
    pub(crate) fn sync_at(&self) -> Option<Instant> {
        match self.durability {
            Durability::Strict => None,
            Durability::Relaxed => self.synced_at.map(|synced| synced + SYNC_INTERVAL),
        }
    }

    pub(crate) fn is_sync_due(&self, now: Instant) -> bool {
        self.sync_at().is_none_or(|due| now >= due)
    }

    /// Decides on the buffer.
    pub(crate) fn next(&mut self, now: Instant, waiting: Waiting) -> Next {
        let tick_end = match self.durability {
            Durability::Strict => None,
            Durability::Relaxed => self.taken_at.map(|taken| taken + TICK).filter(|end| *end > now),
        };
        match tick_end {
            Some(end) if waiting.bytes < self.take_bytes && (waiting.is_appended || self.is_ticking) => {
                self.is_ticking = true;
                Next::Sleep { until: Some(end), wake_from: self.take_bytes }
            }
            Some(_) | None if waiting.is_appended => Next::Work,
            Some(_) | None => {
                self.is_ticking = false;
                Next::Sleep { until: None, wake_from: 0 }
            }
        }
    }
}

impl Next {
    /// Makes `deadline` end the sleep too.
    pub(crate) fn or_at(self, now: Instant, deadline: Option<Instant>) -> Self {
        match (self, deadline) {
            (Self::Work, _) => Self::Work,
            (Self::Sleep { .. }, Some(deadline)) if deadline <= now => Self::Work,
            (Self::Sleep { until, wake_from }, deadline) => {
                Self::Sleep { until: [until, deadline].into_iter().flatten().min(), wake_from }
            }
        }
    }

    /// Sleep that no append ends.
    pub(crate) fn undisturbed() -> Self {
        Self::Sleep { until: None, wake_from: WAKE_NEVER }
    }
}

#[cfg(test)]
#[path = "pace_tests.rs"]
mod tests;
