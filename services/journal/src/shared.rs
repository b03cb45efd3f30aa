//! State shared by the threads of a journal.

use crate::Recovery;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// State shared by appending threads, the journal's thread and the snapshot thread.
pub(crate) struct Shared {
    pending: Mutex<Pending>,
    pub(crate) wake: Condvar,
    pub(crate) durable: AtomicU64,
    pub(crate) failed: AtomicBool,
    pub(crate) writes: AtomicU64,
    pub(crate) written_bytes: AtomicU64,
    pub(crate) syncs: AtomicU64,
    pub(crate) snapshots: AtomicU64,
    pub(crate) failures: AtomicU64,
    pub(crate) disk_bytes: AtomicU64,
    pub(crate) buffer_bytes_max: usize,
    pub(crate) lost_records: u64,
    pub(crate) damaged_files: u64,
}

/// Value of [`Pending::wake_from`] with which an append wakes nobody.
pub(crate) const WAKE_NEVER: usize = usize::MAX;

/// Records that the journal's thread has not taken yet.
pub(crate) struct Pending {
    /// Unsealed records.
    pub(crate) bytes: Vec<u8>,
    /// Number of the last record.
    pub(crate) last: u64,
    /// Records dropped because the buffer was full.
    pub(crate) dropped: u64,
    /// Records refused because they were too long.
    pub(crate) refused: u64,
    /// Length of `bytes` from which an appending thread wakes the journal's thread; [`WAKE_NEVER`]: that thread is awake,
    /// or wakes up by its own timer.
    pub(crate) wake_from: usize,
    /// Times that an appending thread woke the journal's thread.
    pub(crate) wakes: u64,
    pub(crate) stop: bool,
    /// Result of a finished snapshot: its length.
    pub(crate) snapshot: Option<io::Result<u64>>,
}

impl Default for Pending {
    fn default() -> Self {
        Self {
            bytes: Vec::new(),
            last: 0,
            dropped: 0,
            refused: 0,
            wake_from: WAKE_NEVER,
            wakes: 0,
            stop: false,
            snapshot: None,
        }
    }
}

impl Pending {
    /// True if the journal's thread must be woken after an append.
    pub(crate) fn take_wake(&mut self) -> bool {
        let is_due = self.wake_from != WAKE_NEVER && self.bytes.len() >= self.wake_from;
        if is_due {
            self.wake_from = WAKE_NEVER;
            self.wakes += 1;
        }
        is_due
    }
}

impl Shared {
    pub(crate) fn new(buffer_bytes_max: usize, found: &Recovery) -> Self {
        Self {
            pending: Mutex::default(),
            wake: Condvar::new(),
            durable: AtomicU64::new(0),
            failed: AtomicBool::new(false),
            writes: AtomicU64::new(0),
            written_bytes: AtomicU64::new(0),
            syncs: AtomicU64::new(0),
            snapshots: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            disk_bytes: AtomicU64::new(0),
            buffer_bytes_max,
            lost_records: found.lost_records(),
            damaged_files: found.damaged_files(),
        }
    }

    /// Ignores poisoning: a thread that panicked under this lock left complete records only (see [`Batch`](crate::Batch)).
    pub(crate) fn lock(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn snapshot_ended(&self, result: io::Result<u64>) {
        self.lock().snapshot = Some(result);
        self.wake.notify_one();
    }
}
