//! FileNames and headers of a journal's files.

use crate::JournalError;
use crate::record::Format;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Length of the two copies of the header at the beginning of every file.
pub(crate) const HEADER_BYTES: usize = 2 * COPY_BYTES;
/// One copy of the header.
const COPY_BYTES: usize = 40;
/// Length of the header of version 1, which has one copy.
pub(crate) const V1_HEADER_BYTES: usize = 32;
/// Journal version that this program writes; it also reads version 1.
const VERSION: u16 = 2;
const MAGIC: &[u8; 8] = b"RNGWBIND";
/// Maximum number of damaged files kept per name.
const KEPT_MAX: u32 = 16;

/// FileNames of a journal's files: `BASE` is the snapshot, `BASE.N` the segments, `BASE.new` an incomplete snapshot,
/// `BASE.lock` the lock file of a running server, `BASE.damaged-K` and `BASE.N.damaged-K` are kept damaged files.
#[derive(Clone, Debug)]
pub(crate) struct FileNames {
    base: PathBuf,
}

impl FileNames {
    pub(crate) fn new(base: &Path) -> Self {
        Self { base: base.to_owned() }
    }

    pub(crate) fn snapshot(&self) -> &Path {
        &self.base
    }

    pub(crate) fn snapshot_new(&self) -> PathBuf {
        self.with("new")
    }

    pub(crate) fn lock(&self) -> PathBuf {
        self.with("lock")
    }

    pub(crate) fn segment(&self, number: u64) -> PathBuf {
        self.with(&number.to_string())
    }

    pub(crate) fn folder(&self) -> &Path {
        match self.base.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            Some(_) | None => Path::new("."),
        }
    }

    /// Numbers of the existing segments, sorted.
    pub(crate) fn segments(&self) -> io::Result<Vec<u64>> {
        let mut numbers = Vec::new();
        let stem = self.base.file_name().unwrap_or_default().to_string_lossy().into_owned() + ".";
        for entry in self.folder().read_dir()? {
            let name = entry?.file_name();
            let number = name.to_str().and_then(|name| name.strip_prefix(&stem)?.parse::<u64>().ok());
            // Larger numbers are not valid; this limit leaves room for further segments.
            numbers.extend(number.filter(|number| *number <= u64::MAX / 2));
        }
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// Free name under which `path` can be kept. `Ok(None)`: [`KEPT_MAX`] files of this name are kept.
    ///
    /// `Err`: the file is already kept under this name.
    pub(crate) fn kept(path: &Path) -> Result<Option<PathBuf>, PathBuf> {
        let identity = |path: &Path| path.symlink_metadata().ok().map(|file| (file.dev(), file.ino()));
        let this = identity(path);
        for number in 1..=KEPT_MAX {
            let mut name = path.as_os_str().to_owned();
            name.push(format!(".damaged-{number}"));
            let name = PathBuf::from(name);
            match identity(&name) {
                None => return Ok(Some(name)),
                found if found == this => return Err(name),
                Some(_) => {}
            }
        }
        Ok(None)
    }

    fn with(&self, suffix: &str) -> PathBuf {
        let mut name = self.base.clone().into_os_string();
        name.push(".");
        name.push(suffix);
        name.into()
    }
}

/// Kind of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Segment,
    Snapshot,
}

/// Header of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) kind: Kind,
    /// For a segment: its number. For a snapshot: the number of the first newer segment.
    pub(crate) number: u64,
    /// For a segment: durable length of the previous segment when this one was created. After a disk failure it is
    /// shorter than that segment, and damage after it is expected.
    pub(crate) previous_synced: u64,
    /// File number of all records; `None` in version 1.
    pub(crate) file: Option<u32>,
}

/// Result of reading a file's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeaderState {
    Whole(Header),
    /// One of its two copies is intact.
    OneCopy(Header),
    /// The file is shorter than its header, or the header is zeros, as after a crash during its creation.
    Missing,
    Damaged,
}

impl Header {
    /// Creates a header with a random file number.
    pub(crate) fn new(kind: Kind, number: u64, previous_synced: u64) -> io::Result<Self> {
        let mut file = [0; 4];
        getrandom::fill(&mut file).map_err(io::Error::other)?;
        Ok(Self { kind, number, previous_synced, file: Some(u32::from_le_bytes(file)) })
    }

    /// Encodes both copies.
    pub(crate) fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        let (copy, second) = bytes.split_at_mut(COPY_BYTES);
        copy[..8].copy_from_slice(MAGIC);
        copy[8..10].copy_from_slice(&VERSION.to_le_bytes());
        copy[10] = match self.kind {
            Kind::Segment => 1,
            Kind::Snapshot => 2,
        };
        copy[12..20].copy_from_slice(&self.number.to_le_bytes());
        copy[20..28].copy_from_slice(&self.previous_synced.to_le_bytes());
        copy[28..32].copy_from_slice(&self.file.unwrap_or_default().to_le_bytes());
        let crc = crc32fast::hash(&copy[..36]);
        copy[36..].copy_from_slice(&crc.to_le_bytes());
        second.copy_from_slice(copy);
        bytes
    }

    /// Reads the header of `path`.
    ///
    /// # Errors
    /// The file has a later version; a file operation failed.
    pub(crate) fn read(file: &mut File, path: &Path) -> Result<HeaderState, JournalError> {
        let mut bytes = Vec::with_capacity(HEADER_BYTES);
        file.seek(SeekFrom::Start(0)).map_err(JournalError::io(path, "read"))?;
        file.by_ref()
            .take(HEADER_BYTES as u64)
            .read_to_end(&mut bytes)
            .map_err(JournalError::io(path, "read"))?;
        if let Some(header) = bytes.first_chunk().and_then(Self::decode_v1) {
            return Ok(HeaderState::Whole(header));
        }
        // No records are written before the header is durable.
        if bytes.len() < HEADER_BYTES || bytes.iter().all(|byte| *byte == 0) {
            return Ok(HeaderState::Missing);
        }
        let mut copies = bytes.chunks_exact(COPY_BYTES).map(|copy| copy.first_chunk().and_then(Self::decode));
        match (copies.next().flatten(), copies.next().flatten()) {
            (Some(header), Some(_)) => return Ok(HeaderState::Whole(header)),
            (Some(header), None) | (None, Some(header)) => return Ok(HeaderState::OneCopy(header)),
            (None, None) => {}
        }
        let version = u16::from_le_bytes([bytes[8], bytes[9]]);
        if bytes.starts_with(MAGIC) && version > VERSION {
            return Err(JournalError::Newer { file: path.to_owned(), found: version, known: VERSION });
        }
        Ok(HeaderState::Damaged)
    }

    fn decode(copy: &[u8; COPY_BYTES]) -> Option<Self> {
        let is_whole = copy.starts_with(MAGIC)
            && copy[8..10] == VERSION.to_le_bytes()
            && crc32fast::hash(&copy[..36]).to_le_bytes() == copy[36..];
        let file = u32::from_le_bytes([copy[28], copy[29], copy[30], copy[31]]);
        is_whole.then(|| Self::fields(copy, Some(file)))?
    }

    fn decode_v1(bytes: &[u8; V1_HEADER_BYTES]) -> Option<Self> {
        // The version field is set, so that a flipped bit in it counts as damage and not as another version.
        let mut whole = *bytes;
        whole[..8].copy_from_slice(MAGIC);
        whole[8..10].copy_from_slice(&1_u16.to_le_bytes());
        let is_whole = crc32fast::hash(&whole[..28]).to_le_bytes() == whole[28..];
        is_whole.then(|| Self::fields(&whole, None))?
    }

    /// Decodes the fields that are the same in both versions.
    fn fields(bytes: &[u8], file: Option<u32>) -> Option<Self> {
        let kind = match bytes.get(10)? {
            1 => Kind::Segment,
            2 => Kind::Snapshot,
            _ => return None,
        };
        let number = u64::from_le_bytes(*bytes.get(12..)?.first_chunk()?);
        let previous_synced = u64::from_le_bytes(*bytes.get(20..)?.first_chunk()?);
        Some(Self { kind, number, previous_synced, file })
    }

    /// Format of the file's records.
    pub(crate) fn format(&self) -> Format {
        match self.file {
            Some(_) => Format::V2 { file: self.file },
            None => Format::V1,
        }
    }

    /// Offset of the first record.
    pub(crate) fn length(&self) -> u64 {
        let length = if self.file.is_some() { HEADER_BYTES } else { V1_HEADER_BYTES };
        length as u64
    }
}
