//! State of provisioning, for the log, metrics and listings.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// State of provisioning; read at any time.
#[derive(Debug, Default)]
pub struct Status {
    is_connected: AtomicBool,
    reached_s: AtomicU64,
    full_reads: AtomicU64,
    changes: AtomicU64,
    failures: AtomicU64,
    rows_refused: AtomicU64,
    /// The first row that was refused since the last full read began, and the last error.
    texts: Mutex<Texts>,
}

#[derive(Debug, Default)]
struct Texts {
    refused: Option<String>,
    error: Option<String>,
}

/// Counters of provisioning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// 1 while the database is connected.
    pub connected: u64,
    /// Time at which the store had all changes of the database, in seconds since the epoch.
    pub reached_s: u64,
    /// Reads of all users.
    pub full_reads: u64,
    /// Users changed by reads.
    pub changes: u64,
    /// Connections and queries that failed.
    pub failures: u64,
    /// Rows that were passed over because they are invalid.
    pub rows_refused: u64,
}

impl Status {
    /// The counters.
    pub fn counts(&self) -> Counts {
        Counts {
            connected: u64::from(self.is_connected.load(Ordering::Relaxed)),
            reached_s: self.reached_s.load(Ordering::Relaxed),
            full_reads: self.full_reads.load(Ordering::Relaxed),
            changes: self.changes.load(Ordering::Relaxed),
            failures: self.failures.load(Ordering::Relaxed),
            rows_refused: self.rows_refused.load(Ordering::Relaxed),
        }
    }

    /// Notes a connection. True: the database was away, or is reached for the first time.
    pub(crate) fn connected(&self) -> bool {
        self.texts().error = None;
        !self.is_connected.swap(true, Ordering::Relaxed)
    }

    /// Notes a failure. True: it is the first since the last connection, or has another reason than the one before.
    pub(crate) fn failed(&self, error: String) -> bool {
        self.failures.fetch_add(1, Ordering::Relaxed);
        self.is_connected.store(false, Ordering::Relaxed);
        let mut texts = self.texts();
        let is_new = texts.error.as_ref() != Some(&error);
        texts.error = Some(error);
        is_new
    }

    /// Notes that the store has all changes.
    pub(crate) fn reached(&self, now_s: u64, changes: u64) {
        self.reached_s.store(now_s, Ordering::Relaxed);
        self.changes.fetch_add(changes, Ordering::Relaxed);
    }

    /// Notes a read of all users.
    pub(crate) fn read_all(&self) {
        self.full_reads.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts an invalid row; `why` is kept for the log if it is the first since [`Status::take_refused`].
    pub(crate) fn refuse_row(&self, why: impl FnOnce() -> String) {
        self.rows_refused.fetch_add(1, Ordering::Relaxed);
        self.texts().refused.get_or_insert_with(why);
    }

    /// The first row that was refused since the last call.
    pub(crate) fn take_refused(&self) -> Option<String> {
        self.texts().refused.take()
    }

    fn texts(&self) -> std::sync::MutexGuard<'_, Texts> {
        self.texts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
