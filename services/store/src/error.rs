//! Reasons for which an operation of a store fails.

use ringway_journal::JournalError;
use ringway_users::Unusable;
use std::io;
use std::path::PathBuf;

/// Error of a store operation. Each text names the file or the user and says what to do.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The file is there and is not a database, or its pages contradict each other.
    #[error(
        "{}: damaged, or not a Ringway database ({detail}); restore a backup, or move the file away to start with an \
         empty one",
        file.display()
    )]
    Corrupt {
        /// The database.
        file: PathBuf,
        /// The finding.
        detail: String,
    },
    /// The file was written by a later version.
    #[error(
        "{}: its schema version is {found} and this program knows {known}; use the newer ringway that wrote it, or \
         restore a backup",
        file.display()
    )]
    Newer {
        /// The database.
        file: PathBuf,
        /// The version in the file.
        found: i64,
        /// The newest version this program reads.
        known: i64,
    },
    /// The journal of bindings cannot be opened.
    #[error("{0} ([store] url sets the path)")]
    Journal(#[from] JournalError),
    /// The file system refused.
    #[error("{}: cannot {doing}: {source}; check the path, its permissions and the room on the disk", file.display())]
    Io {
        /// The file.
        file: PathBuf,
        /// The operation that failed.
        doing: &'static str,
        /// The system's reason.
        source: io::Error,
    },
    /// The database refused.
    #[error("{}: {source}; check the file's permissions and the room on the disk, and try again", file.display())]
    Database {
        /// The database.
        file: PathBuf,
        /// SQLite's reason.
        source: rusqlite::Error,
    },
    /// The operating system gave no random bytes.
    #[error("the operating system gave no random bytes ({0}); the store's secret cannot be made")]
    Random(String),
    /// The user is there already.
    #[error("{0} exists already; use `user passwd` to change the password")]
    Exists(String),
    /// There is no such user.
    #[error("{0} is not a user here; `user list` shows them all")]
    NoSuchUser(String),
    /// The user has no such permanent contact.
    #[error("{user} has no permanent contact {contact}; `user list --json` shows them all")]
    NoSuchContact {
        /// Whose contact.
        user: String,
        /// The contact, or `at all`.
        contact: String,
    },
    /// A name, domain, password or contact that cannot be used.
    #[error("{what}: {why}")]
    Unusable {
        /// The value, quoted as far as it is safe to print.
        what: String,
        /// The reason, and what to do.
        why: &'static str,
    },
    /// A row of an import is wrong; nothing was imported.
    #[error("{}:{line}: {detail}; nothing was imported", file.display())]
    BadRow {
        /// The CSV file.
        file: PathBuf,
        /// The line in it, from 1.
        line: u64,
        /// The fault, and what to do.
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
