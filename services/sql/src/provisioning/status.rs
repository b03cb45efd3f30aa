//! State of provisioning for the log, metrics and listings: counters, errors, pauses between attempts.

use crate::connection::DatabaseError;
use ringway_store::StoreError;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

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

/// Error of reading or changing users of a database server.
#[derive(Debug, thiserror::Error)]
pub enum ProvisioningError {
    /// There is no connection.
    #[error("{0}; is the database running, and are address, name and password right?")]
    Connect(DatabaseError),
    /// The database failed.
    #[error("{0}")]
    Database(#[from] DatabaseError),
    /// The store of this node failed.
    #[error("{0}")]
    Store(#[from] StoreError),
    /// The tables are of a later version.
    #[error(
        "its tables are of version {found} and this program has {known}; use the newer ringway that made them, also on the other nodes"
    )]
    Newer {
        /// Version of the tables.
        found: String,
        /// Newest version that this program has.
        known: &'static str,
    },
    /// Tables or triggers are missing.
    #[error(
        "tables or triggers of Ringway are missing; if a restore is under way, let it end; otherwise make them by the statements of \
         docs/recipes/databases.md"
    )]
    Incomplete,
    /// The tables cannot be made.
    #[error(
        "the tables cannot be made: {0}; let a user make them who may: docs/recipes/databases.md has the statements, and what MySQL needs for triggers"
    )]
    Create(DatabaseError),
    /// The table of registrations cannot be made.
    #[error(
        "the table ringway_location cannot be made: {0}; docs/recipes/databases.md has the statement, for a user who may"
    )]
    CreateLocation(DatabaseError),
    /// There is no table of registrations.
    #[error("there is no table ringway_location yet; the server makes it if its user may (CREATE)")]
    NoLocationTable,
    /// The operator's query returns no column of this name.
    #[error("the query returns no column {0}; name it with AS, as in SELECT login AS username")]
    Column(&'static str),
    /// The database is another one than that of the store, and has no users.
    #[error(
        "this is another database than the one that the users were read from, and it has none: the users are kept; give it users, or \
         remove the file of the copy to begin without any"
    )]
    OtherEmpty,
    /// The file that is to be the copy has users that come from no database.
    #[error(
        "{file} has {users} users of its own, which a copy of the database would replace: take them into the database by `ringway backup` \
         before and `ringway restore` after the change of [store], or give [store] copy another name"
    )]
    OwnUsers {
        /// The file.
        file: String,
        /// Number of its users.
        users: u64,
    },
    /// Another command, or a dashboard, changes users.
    #[error("another command changes users; try again")]
    Busy,
    /// A row of the user that was to be changed is invalid, and would be lost.
    #[error("{0}; correct it in the database before")]
    InvalidRow(String),
    /// There are more users than the limit.
    #[error("there are more than {0} users")]
    TooMany(u64),
}

/// Seconds since the epoch.
pub(crate) fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

/// Waits until the time is over, or soon after the thread is to end.
pub(crate) fn wait(time: Duration, is_ended: &AtomicBool) {
    let until = Instant::now() + time;
    while !is_ended.load(Ordering::Relaxed) && Instant::now() < until {
        std::thread::sleep(STEP);
    }
}

/// Pause after the first failure of a connection; it doubles with each one.
pub(crate) const PAUSE_MIN: Duration = Duration::from_secs(1);
pub(crate) const PAUSE_MAX: Duration = Duration::from_secs(30);

const STEP: Duration = Duration::from_millis(250);
