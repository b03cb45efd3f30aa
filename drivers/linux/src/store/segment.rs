//! The files of a journal: their names, their header, and reading one in big blocks.

use super::StoreError;
use super::record::{RECORD_HEADER_BYTES, SYNCED_MAGIC, Step, decode};
use memchr::memmem;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// What every file of a journal begins with, and how much of it.
pub(super) const HEADER_BYTES: usize = 32;
/// The journal version this program writes and reads.
const VERSION: u16 = 1;
const MAGIC: &[u8; 8] = b"RNGWBIND";
/// How much is read at once.
const BLOCK_BYTES: usize = 1 << 20;
/// How far a `synced` record can reach over the end of a block.
const OVERLAP_BYTES: usize = 64;

/// The names of a journal's files: `BASE` is the snapshot, `BASE.N` the segments, `BASE.new` a snapshot being written,
/// `BASE.lock` tells that a server is running.
#[derive(Clone, Debug)]
pub(super) struct Names {
    base: PathBuf,
}

impl Names {
    pub(super) fn new(base: &Path) -> Self {
        Self { base: base.to_owned() }
    }

    pub(super) fn snapshot(&self) -> &Path {
        &self.base
    }

    pub(super) fn snapshot_new(&self) -> PathBuf {
        self.with("new")
    }

    pub(super) fn lock(&self) -> PathBuf {
        self.with("lock")
    }

    pub(super) fn segment(&self, number: u64) -> PathBuf {
        self.with(&number.to_string())
    }

    pub(super) fn folder(&self) -> &Path {
        match self.base.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            Some(_) | None => Path::new("."),
        }
    }

    /// The numbers of the segments that are there, in order.
    pub(super) fn segments(&self) -> io::Result<Vec<u64>> {
        let mut numbers = Vec::new();
        let stem = self.base.file_name().unwrap_or_default().to_string_lossy().into_owned() + ".";
        for entry in self.folder().read_dir()? {
            let name = entry?.file_name();
            if let Some(number) = name.to_str().and_then(|name| name.strip_prefix(&stem)?.parse().ok()) {
                numbers.push(number);
            }
        }
        numbers.sort_unstable();
        Ok(numbers)
    }

    fn with(&self, suffix: &str) -> PathBuf {
        let mut name = self.base.clone().into_os_string();
        name.push(".");
        name.push(suffix);
        name.into()
    }
}

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Segment,
    Snapshot,
}

/// The beginning of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) kind: Kind,
    /// Of a segment: its own number. Of a snapshot: the first segment that is newer than it.
    pub(super) number: u64,
    /// Of a segment: how much of the segment before it was known to be on the disk when this one was begun. After a
    /// disk failure that is less than the whole, and damage beyond it is no surprise.
    pub(super) previous_synced: u64,
}

impl Header {
    pub(super) fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..10].copy_from_slice(&VERSION.to_le_bytes());
        bytes[10] = match self.kind {
            Kind::Segment => 1,
            Kind::Snapshot => 2,
        };
        bytes[12..20].copy_from_slice(&self.number.to_le_bytes());
        bytes[20..28].copy_from_slice(&self.previous_synced.to_le_bytes());
        let crc = crc32fast::hash(&bytes[..28]);
        bytes[28..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Reads the header of `path`. `Ok(None)`: the file ends, or is zeros, where its header should be, as after a
    /// crash while it was made.
    pub(super) fn read(file: &mut File, path: &Path, names: &Names) -> Result<Option<Self>, StoreError> {
        let mut bytes = Vec::with_capacity(HEADER_BYTES);
        file.seek(SeekFrom::Start(0)).map_err(StoreError::io(path, "read"))?;
        file.by_ref()
            .take(HEADER_BYTES as u64)
            .read_to_end(&mut bytes)
            .map_err(StoreError::io(path, "read"))?;
        let Ok(bytes) = <[u8; HEADER_BYTES]>::try_from(bytes) else { return Ok(None) };
        if bytes == [0; HEADER_BYTES] {
            return Ok(None);
        }
        let damaged = |detail| names.damaged(path, 0, detail);
        if &bytes[..8] != MAGIC {
            return Err(damaged("it does not begin like a journal of bindings"));
        }
        let version = u16::from_le_bytes([bytes[8], bytes[9]]);
        if version != VERSION {
            return Err(StoreError::Newer {
                file: path.to_owned(),
                what: "journal",
                found: version.into(),
                known: VERSION.into(),
            });
        }
        let number = |at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[at..at + 8]);
            u64::from_le_bytes(word)
        };
        if crc32fast::hash(&bytes[..28]).to_le_bytes() != bytes[28..] {
            return Err(damaged("its header's checksum is wrong"));
        }
        let kind = match bytes[10] {
            1 => Kind::Segment,
            2 => Kind::Snapshot,
            _ => return Err(damaged("it is neither a snapshot nor a segment")),
        };
        Ok(Some(Self { kind, number: number(12), previous_synced: number(20) }))
    }
}

impl Names {
    pub(super) fn damaged(&self, file: &Path, offset: u64, detail: &'static str) -> StoreError {
        StoreError::JournalCorrupt { file: file.to_owned(), journal: self.base.clone(), offset, detail }
    }
}

/// What reading a file's records came to.
#[derive(Debug, Default)]
pub(super) struct Scan {
    /// Records handed over.
    pub(super) records: u64,
    /// Where the last good record ends.
    pub(super) good: u64,
    /// The file's length.
    pub(super) length: u64,
    /// Why reading stopped before the end of the file.
    pub(super) broken: Option<&'static str>,
    /// The count of an `end` record, if there was one.
    pub(super) end: Option<u64>,
}

/// Reads all records of `file` behind its header, in order. Nothing is allocated for a record.
pub(super) fn scan(file: &mut File, on_record: &mut dyn FnMut(&[u8], &[u8])) -> io::Result<Scan> {
    let mut scan = Scan {
        good: file.seek(SeekFrom::Start(HEADER_BYTES as u64))?,
        length: file.metadata()?.len(),
        ..Scan::default()
    };
    let mut block = Vec::with_capacity(BLOCK_BYTES);
    loop {
        let added = file.by_ref().take(BLOCK_BYTES as u64).read_to_end(&mut block)?;
        let mut used = 0;
        while let Some(rest) = block.get(used..).filter(|rest| !rest.is_empty()) {
            match decode(rest) {
                Step::Record { key, value, length } => {
                    on_record(key, value);
                    scan.records += 1;
                    used += length;
                }
                Step::Synced { length, .. } => used += length,
                Step::End { records, length } => {
                    scan.end = Some(records);
                    used += length;
                }
                Step::Incomplete => break,
                Step::Invalid(why) => {
                    scan.broken = Some(why);
                    break;
                }
            }
        }
        scan.good += used as u64;
        block.drain(..used);
        if scan.broken.is_some() {
            return Ok(scan);
        }
        if added == 0 {
            if !block.is_empty() {
                scan.broken = Some("its last record is not whole");
            }
            return Ok(scan);
        }
    }
}

/// True when something behind byte `from` says that more than `from` bytes were once on the disk: then what is broken
/// there is damage, and not the tail of a write that a crash cut short.
pub(super) fn was_synced_beyond(file: &mut File, from: u64) -> io::Result<bool> {
    file.seek(SeekFrom::Start(from))?;
    let finder = memmem::Finder::new(SYNCED_MAGIC);
    let mut block = Vec::with_capacity(BLOCK_BYTES + OVERLAP_BYTES);
    loop {
        let added = file.by_ref().take(BLOCK_BYTES as u64).read_to_end(&mut block)?;
        for magic in finder.find_iter(&block) {
            let record = magic.checked_sub(RECORD_HEADER_BYTES).and_then(|start| block.get(start..));
            if let Some(Step::Synced { bytes, .. }) = record.map(decode)
                && bytes > from
            {
                return Ok(true);
            }
        }
        if added == 0 {
            return Ok(false);
        }
        block.drain(..block.len().saturating_sub(OVERLAP_BYTES));
    }
}
