//! Damage of a journal (the files and the keys that lost records), and reasons for which it cannot be opened.

use crate::record::LostKey;
use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};
use std::io;
use std::path::{Path, PathBuf};

/// Maximum number of lost keys that are kept.
const KEYS_MAX: usize = 1_000;

/// A damaged or missing file of the journal. Its text contains the offset, the number of lost records and the name of
/// the kept copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Path of the file.
    pub file: PathBuf,
    /// Offset of the damage in bytes; `None`: the file is missing.
    pub offset: Option<u64>,
    /// Number of lost records, or its lower bound.
    pub lost: u64,
    /// True if `lost` is the exact number.
    pub is_exact: bool,
    /// Name of the kept copy, or the error that prevented keeping it.
    pub kept: Result<PathBuf, String>,
    /// Number of consecutive missing files that begin with this one.
    missing: u64,
}

impl Damage {
    pub(crate) fn at(file: &Path, offset: u64, lost: u64, is_exact: bool) -> Self {
        let kept = Err(String::new());
        Self { file: file.to_owned(), offset: Some(offset), lost, is_exact, kept, missing: 0 }
    }

    pub(crate) fn missing(file: &Path, files: u64) -> Self {
        let kept = Err(String::new());
        Self { file: file.to_owned(), offset: None, lost: 0, is_exact: false, kept, missing: files }
    }

    pub(crate) fn is_missing(&self) -> bool {
        self.offset.is_none()
    }

    pub(super) fn files(&self) -> u64 {
        if self.is_missing() { self.missing } else { 1 }
    }
}

impl Display for Damage {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.file.display())?;
        let Some(offset) = self.offset else {
            return write!(
                f,
                "missing ({} files from this one on): all records in it are lost; the others were \
                 read",
                self.missing
            );
        };
        let at_least = if self.is_exact { "" } else { "at least " };
        let records = if self.lost == 1 { "record" } else { "records" };
        write!(
            f,
            "damaged at byte {offset}: {at_least}{} {records} lost, all others were read; ",
            self.lost
        )?;
        match &self.kept {
            Ok(kept) => write!(f, "the file is kept as {}", kept.display()),
            Err(why) => write!(f, "the file could not be kept: {why}"),
        }
    }
}

/// Keys whose last record is damaged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LostKeys {
    /// By key: false if the key itself may be wrong.
    keys: BTreeMap<Vec<u8>, bool>,
    more: u64,
}

impl LostKeys {
    pub(crate) fn add(&mut self, lost: LostKey<'_>) {
        if self.keys.len() < KEYS_MAX {
            *self.keys.entry(lost.key.to_vec()).or_default() |= lost.is_certain;
        } else if !self.keys.contains_key(lost.key) {
            self.more += 1;
        }
    }

    /// Removes `key`, because an intact later record was found.
    pub(crate) fn restored(&mut self, key: &[u8]) {
        if !self.keys.is_empty() {
            self.keys.remove(key);
        }
    }

    /// Lost keys, sorted.
    pub fn iter(&self) -> impl Iterator<Item = LostKey<'_>> {
        self.keys.iter().map(|(key, is_certain)| LostKey { key, is_certain: *is_certain })
    }

    /// Number of lost keys beyond those of [`LostKeys::iter`].
    pub fn more(&self) -> u64 {
        self.more
    }

    /// True if the key of no damaged record is readable.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }
}

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
