//! Reasons for which a journal cannot be opened.

use std::io;
use std::path::PathBuf;

/// Error of opening a journal. Its text contains the file and the remedy.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The file was written by a later version.
    #[error(
        "{}: its journal version is {found} and this program reads {known}; use the newer program that wrote it, or \
         restore a backup",
        file.display()
    )]
    Newer {
        /// The file.
        file: PathBuf,
        /// Version in the file.
        found: u16,
        /// Newest version that this program reads.
        known: u16,
    },
    /// A file of the journal is a symbolic link, and writes would go to another file.
    #[error(
        "{}: cannot {doing}: it is a symbolic link, which the journal does not follow; remove the link, or configure the \
         path that it leads to",
        file.display()
    )]
    SymbolicLink {
        /// The link.
        file: PathBuf,
        /// The operation that failed.
        doing: &'static str,
    },
    /// Another process has locked the journal.
    #[error("{}: another process is using it; stop that process, or configure another path", file.display())]
    InUse {
        /// The journal's lock file.
        file: PathBuf,
    },
    /// A file operation failed.
    #[error("{}: cannot {doing}: {source}; check the path, its permissions and the free space on the disk", file.display())]
    Io {
        /// The file.
        file: PathBuf,
        /// The operation that failed.
        doing: &'static str,
        /// Error of the system.
        source: io::Error,
    },
}

impl JournalError {
    pub(crate) fn io(file: impl Into<PathBuf>, doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        let file = file.into();
        move |source| match source.raw_os_error() {
            Some(libc::ELOOP) => Self::SymbolicLink { file, doing },
            _ => Self::Io { file, doing, source },
        }
    }
}
