//! Errors of a store.

use ringway_journal::JournalError;
use ringway_users::{Unusable, UnusableForward};
use std::io;
use std::path::PathBuf;

/// Error of a store operation. Its text contains the file or the user, and the remedy.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The file is not a database, or its pages are inconsistent.
    #[error(
        "{}: damaged, or not a Ringway database ({detail}); restore a backup, or move the file away to start with an \
         empty one",
        file.display()
    )]
    Corrupt {
        /// Path of the database.
        file: PathBuf,
        /// Details of the damage.
        detail: String,
    },
    /// The file was written by a later version.
    #[error(
        "{}: its schema version is {found} and this program reads {known}; use the newer ringway that wrote it, or \
         restore a backup",
        file.display()
    )]
    Newer {
        /// Path of the database.
        file: PathBuf,
        /// Version in the file.
        found: i64,
        /// Newest version that this program reads.
        known: i64,
    },
    /// The journal of bindings cannot be opened.
    #[error("{0} ([store] url sets the path)")]
    Journal(#[from] JournalError),
    /// A file operation failed.
    #[error("{}: cannot {doing}: {source}; check the path, its permissions and the free space on the disk", file.display())]
    Io {
        /// Path of the file.
        file: PathBuf,
        /// The operation that failed.
        doing: &'static str,
        /// Error of the system.
        source: io::Error,
    },
    /// Another program held a lock for the time that a query waits.
    #[error(
        "{}: locked by another program; end its transaction (for example that of an open sqlite3), and try again",
        file.display()
    )]
    Locked {
        /// Path of the database.
        file: PathBuf,
    },
    /// A query failed.
    #[error("{}: {source}; check the file's permissions and the free space on the disk, and try again", file.display())]
    Database {
        /// Path of the database.
        file: PathBuf,
        /// Error of SQLite.
        source: rusqlite::Error,
    },
    /// The operating system returned no random bytes.
    #[error("the operating system returned no random bytes ({0}); the store's secret cannot be generated")]
    Random(String),
    /// The user exists already.
    #[error("{0} exists already; use `user passwd` to change the password")]
    Exists(String),
    /// The user does not exist.
    #[error("{0} is not a user here; `user list` shows them all")]
    NoSuchUser(String),
    /// The user has no such permanent contact.
    #[error("{user} has no permanent contact {contact}; `user list --json` shows them all")]
    NoSuchContact {
        /// Name of the user.
        user: String,
        /// The contact, or `at all`.
        contact: String,
    },
    /// A name, domain, password, contact or forward is invalid.
    #[error("{what}: {why}")]
    Unusable {
        /// The value, quoted and limited to printable text.
        what: String,
        /// Cause and remedy.
        why: &'static str,
    },
    /// A row of a backup is one that no command writes; nothing was restored.
    #[error("{}: row {row} of the table {table}, of {user}: {fault}; nothing was restored, take another backup", file.display())]
    BackupRow {
        /// Path of the backup.
        file: PathBuf,
        /// The table.
        table: &'static str,
        /// Number of the row in the order of the table, from 1.
        row: u64,
        /// Name of the user in the row, quoted.
        user: String,
        /// Cause.
        fault: String,
    },
    /// A row of an import is invalid; nothing was imported.
    #[error("{}:{line}: {detail}; nothing was imported", file.display())]
    BadRow {
        /// Path of the CSV file.
        file: PathBuf,
        /// Line number, from 1.
        line: u64,
        /// Cause and remedy.
        detail: String,
    },
}

impl StoreError {
    pub(super) fn io(file: impl Into<PathBuf>, doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        let file = file.into();
        move |source| Self::Io { file, doing, source }
    }
}

impl From<Unusable> for StoreError {
    fn from(unusable: Unusable) -> Self {
        let Unusable { what, why } = unusable;
        Self::Unusable { what, why }
    }
}

impl From<UnusableForward> for StoreError {
    fn from(unusable: UnusableForward) -> Self {
        let UnusableForward { what, why } = unusable;
        Self::Unusable { what, why }
    }
}
