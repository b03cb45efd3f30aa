//! What a media thread counts, and how it runs.

use crate::counters::Counter;
use std::fmt;
use std::sync::atomic::{AtomicU16, Ordering};

/// How the system lets a media thread run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Priority {
    /// Before every other program (`SCHED_FIFO`), at this priority, 1-99.
    RealTime(u8),
    /// With a larger share than others, by this nice value, -20 to -1.
    Nice(i8),
    /// Like everybody. On a busy machine packets leave late.
    #[default]
    Normal,
}

impl fmt::Display for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RealTime(priority) => write!(f, "real-time {priority}"),
            Self::Nice(nice) => write!(f, "nice {nice}"),
            Self::Normal => f.write_str("normal"),
        }
    }
}

/// What was counted since the thread began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MediaCounts {
    /// Beats kept: times at which what was prepared was sent.
    pub beats: u64,
    /// Beats left out because the thread could not run for too long.
    pub beats_skipped: u64,
    /// Beats that came more than a millisecond late.
    pub beats_late: u64,
    /// The latest beat, nanoseconds behind its time.
    pub late_ns_max: u64,
    /// Datagrams handed to the kernel.
    pub sent: u64,
    /// Datagrams the kernel did not take.
    pub send_errors: u64,
    /// Datagrams received.
    pub received: u64,
    /// Datagrams dropped because they were longer than media are.
    pub too_long: u64,
    /// Datagrams whose time of arrival the kernel did not say.
    pub unstamped: u64,
    /// Receiving failed.
    pub receive_errors: u64,
    /// Beats in which so much came that the rest was left in the sockets, to be dropped there if it is too much.
    pub floods: u64,
    /// Reports dropped because nobody fetched those before.
    pub reports_dropped: u64,
}

/// The same while it runs: one thread writes, any reads.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) beats: Counter,
    pub(super) beats_skipped: Counter,
    pub(super) beats_late: Counter,
    pub(super) late_ns_max: Counter,
    pub(super) sent: Counter,
    pub(super) send_errors: Counter,
    pub(super) received: Counter,
    pub(super) too_long: Counter,
    pub(super) unstamped: Counter,
    pub(super) receive_errors: Counter,
    pub(super) floods: Counter,
    pub(super) reports_dropped: Counter,
    /// Kind and value, a byte each.
    priority: AtomicU16,
}

impl Counters {
    pub(super) fn set_priority(&self, priority: Priority) {
        let [kind, value] = match priority {
            Priority::Normal => [0, 0],
            Priority::Nice(nice) => [1, nice.cast_unsigned()],
            Priority::RealTime(priority) => [2, priority],
        };
        self.priority.store(u16::from_be_bytes([kind, value]), Ordering::Release);
    }

    pub(super) fn priority(&self) -> Priority {
        match self.priority.load(Ordering::Acquire).to_be_bytes() {
            [1, nice] => Priority::Nice(nice.cast_signed()),
            [2, priority] => Priority::RealTime(priority),
            _ => Priority::Normal,
        }
    }

    pub(super) fn counts(&self) -> MediaCounts {
        MediaCounts {
            beats: self.beats.read(),
            beats_skipped: self.beats_skipped.read(),
            beats_late: self.beats_late.read(),
            late_ns_max: self.late_ns_max.read(),
            sent: self.sent.read(),
            send_errors: self.send_errors.read(),
            received: self.received.read(),
            too_long: self.too_long.read(),
            unstamped: self.unstamped.read(),
            receive_errors: self.receive_errors.read(),
            floods: self.floods.read(),
            reports_dropped: self.reports_dropped.read(),
        }
    }
}
