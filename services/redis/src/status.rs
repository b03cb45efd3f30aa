//! State of a store for the log, metrics and listings, and its errors.

use std::fmt;
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

/// Error of a URL.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// The scheme is another one. Only the scheme is shown: the rest can have a password.
    #[error(
        "the URL {0}:… is of neither Redis nor Valkey; write as redis://HOST:PORT or, over TLS, rediss://HOST:PORT"
    )]
    Scheme(String),
    /// A host is missing or not valid. The part before `@` is not shown.
    #[error(
        "`{0}` is not a host and port; write as redis://HOST:PORT[,HOST:PORT…], with IPv6 addresses in brackets"
    )]
    Host(String),
    /// There are more hosts than the limit.
    #[error("the URL has more than {0} hosts; name a few of the store's, the others are found")]
    TooManyHosts(usize),
    /// The part before `@` is not valid.
    #[error(
        "the user or password before @ is not valid; write : / ? # @ , and % in them as %3A %2F %3F %23 %40 %2C %25"
    )]
    User,
    /// The path is not a name of Sentinel.
    #[error(
        "`/{0}` is not the name of a Sentinel's master; write letters, digits, . - _ or leave it out (mymaster)"
    )]
    Master(String),
    /// The URL has parameters behind a question mark, or a fragment.
    #[error("the URL has parameters; leave out the part from the ? or # on")]
    Parameters,
}

/// Error of a connection or a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreError(String);

impl StoreError {
    pub(crate) fn new(reason: impl fmt::Display) -> Self {
        Self(reason.to_string().chars().take(REASON_CHARS_MAX).collect())
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for StoreError {}

/// Maximum length of the reason of an error, which has text of the server.
const REASON_CHARS_MAX: usize = 1_024;
