//! State of a store, for the log, metrics and listings.

use std::time::Duration;

/// Kind of a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// No host has answered yet.
    #[default]
    Unknown,
    /// One server.
    Single,
    /// A master that Sentinel names.
    Sentinel,
    /// Masters that share the slots.
    Cluster,
}

/// State of a store at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Kind of the store.
    pub kind: Kind,
    /// Number of masters.
    pub masters: usize,
    /// Time since the connection; `None`: not connected.
    pub connected_for: Option<Duration>,
    /// True if all records of the store were read, or the news is followed where they need not be.
    pub is_warm: bool,
    /// Age of the oldest update that is not written, in milliseconds.
    pub lag_ms: u64,
    /// Updates that wait or are being written.
    pub waiting: usize,
    /// Bytes of the updates that wait.
    pub waiting_bytes: usize,
    /// Updates appended.
    pub appended: u64,
    /// Updates that the store confirmed.
    pub written: u64,
    /// Updates that a newer one of the same address-of-record replaced before they were written.
    pub replaced: u64,
    /// Updates dropped because too many waited.
    pub dropped: u64,
    /// Updates that the store refused, or that were too long.
    pub refused: u64,
    /// Errors of the store.
    pub errors: u64,
    /// Text of the last error.
    pub last_error: Option<String>,
    /// Records read from streams.
    pub followed: u64,
    /// Records read by keys.
    pub read: u64,
    /// Records read by keys in the last second of a read of all.
    pub read_per_second: u64,
    /// Lookups.
    pub lookups: u64,
    /// Lookups that had no answer in time, or were too many.
    pub lookups_failed: u64,
    /// Records, entries of streams and nodes that were not valid and passed over.
    pub damaged: u64,
    /// Other nodes that are up or draining.
    pub nodes: usize,
}
