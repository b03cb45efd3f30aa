//! What a damaged journal has lost, in words for the person who runs it.

use super::record::LostKey;
use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};
use std::path::{Path, PathBuf};

/// Names of users remembered.
const NAMES_MAX: usize = 1_000;

/// A file of the journal that is damaged or missing. Its text says where, how much is lost and where the file is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The file.
    pub file: PathBuf,
    /// Where the damage begins, in bytes; `None`: the file is missing.
    pub offset: Option<u64>,
    /// Records that are lost, or at least so many.
    pub lost: u64,
    /// False: there may be more than `lost`.
    pub is_exact: bool,
    /// Under which name the damaged file is kept, or why it is not.
    pub kept: Result<PathBuf, String>,
    /// Missing files, this one and those numbered after it.
    missing: u64,
}

impl Damage {
    pub(super) fn at(file: &Path, offset: u64, lost: u64, is_exact: bool) -> Self {
        let kept = Err(String::new());
        Self { file: file.to_owned(), offset: Some(offset), lost, is_exact, kept, missing: 0 }
    }

    pub(super) fn missing(file: &Path, files: u64) -> Self {
        let kept = Err(String::new());
        Self { file: file.to_owned(), offset: None, lost: 0, is_exact: false, kept, missing: files }
    }

    pub(super) fn is_missing(&self) -> bool {
        self.offset.is_none()
    }
}

impl Display for Damage {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.file.display())?;
        let Some(offset) = self.offset else {
            return write!(
                f,
                "missing ({} files from this one on): all changes of registrations in it are lost; the others were \
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

/// Users whose last record is damaged, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LostUsers {
    /// False: the name itself is damaged.
    names: BTreeMap<Vec<u8>, bool>,
    more: u64,
}

impl LostUsers {
    pub(super) fn add(&mut self, lost: LostKey<'_>) {
        if self.names.len() < NAMES_MAX {
            *self.names.entry(lost.key.to_vec()).or_default() |= lost.is_certain;
        } else if !self.names.contains_key(lost.key) {
            self.more += 1;
        }
    }

    /// A whole record of `key` came after the damaged one: nothing of it is lost.
    pub(super) fn found_again(&mut self, key: &[u8]) {
        if !self.names.is_empty() {
            self.names.remove(key);
        }
    }

    /// The names, `user@domain`, quoted; a name that may be misread ends in `?`.
    pub fn names(&self) -> impl Iterator<Item = String> {
        self.names.iter().map(|(name, is_certain)| {
            let mark = if *is_certain { "" } else { "?" };
            format!("{:?}{mark}", String::from_utf8_lossy(name))
        })
    }

    /// How many there are beside [`LostUsers::names`].
    pub fn more(&self) -> u64 {
        self.more
    }

    /// True when no damaged record has a name that can be read.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }
}
