//! Counters and scheduling of a media thread.

use crate::counter::Counter;
use std::fmt;
use std::sync::atomic::{AtomicU16, Ordering};

/// Scheduling of a media thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Priority {
    /// Real-time (`SCHED_FIFO`) with this priority, 1 to 99.
    RealTime(u8),
    /// Larger share of the processor with this nice value, -20 to -1.
    Nice(i8),
    /// Normal scheduling. On a busy machine packets are sent late.
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

/// Counters since the start of the thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MediaCounts {
    /// Ticks run, each of which sends the prepared packets.
    pub ticks: u64,
    /// Ticks skipped because the thread was not scheduled for too long.
    pub ticks_skipped: u64,
    /// Ticks that were more than a millisecond late.
    pub ticks_late: u64,
    /// Maximum delay of a tick in nanoseconds.
    pub late_ns_max: u64,
    /// Datagrams handed to the kernel.
    pub sent: u64,
    /// Datagrams refused by the kernel.
    pub send_errors: u64,
    /// Datagrams received.
    pub received: u64,
    /// Datagrams dropped because they were longer than the receive buffer.
    pub too_long: u64,
    /// Datagrams without the kernel's time stamp.
    pub unstamped: u64,
    /// Failed calls that receive.
    pub receive_errors: u64,
    /// Ticks in which the limit of received datagrams was reached; the rest remained in the sockets' buffers.
    pub floods: u64,
    /// Reports dropped because earlier ones were not read.
    pub reports_dropped: u64,
}

/// Counters while the thread runs: one thread writes, any thread reads.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) ticks: Counter,
    pub(super) ticks_skipped: Counter,
    pub(super) ticks_late: Counter,
    pub(super) late_ns_max: Counter,
    pub(super) sent: Counter,
    pub(super) send_errors: Counter,
    pub(super) received: Counter,
    pub(super) too_long: Counter,
    pub(super) unstamped: Counter,
    pub(super) receive_errors: Counter,
    pub(super) floods: Counter,
    pub(super) reports_dropped: Counter,
    /// Kind and value in one byte each.
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
            ticks: self.ticks.read(),
            ticks_skipped: self.ticks_skipped.read(),
            ticks_late: self.ticks_late.read(),
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
