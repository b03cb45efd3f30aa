//! Recovery of a journal after a stop, a crash, a power failure or damage.
//!
//! ```text
//! BASE (snapshot; contains the number N of the first newer segment)   BASE.N, BASE.N+1, ... (segments, the last one
//! open)
//! ```
//! A crash can leave: a truncated last record in the last segment (cut off), a segment without its header (created
//! again), an incomplete snapshot under another name (removed), segments older than the snapshot (removed). Everything
//! else is damage: every intact record is read, losses are reported, the damaged file is kept under another name, and a
//! new segment is begun, so that nothing is appended to a damaged one.

use crate::damage::{Damage, LostKeys};
use crate::record::{Format, LostKey, decode};
use crate::record::{RECORD_BYTES_MAX, Step};
use crate::scan::{Lost, Scan, ScanSink, Tail, scan};
use crate::segment::{FileNames, HEADER_BYTES, Header, HeaderState, Kind, V1_HEADER_BYTES};
use crate::{Disk, JournalError, disk};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// Report of reading a journal.
#[derive(Clone, Debug, Default)]
pub struct Recovery {
    /// Records read from the snapshot.
    pub snapshot_records: u64,
    /// Records read from the segments.
    pub segment_records: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Bytes of incomplete writes that were cut off.
    pub torn_bytes: u64,
    /// Damaged or missing files.
    pub damage: Vec<Damage>,
    /// Files with one damaged copy of their header; no records are lost.
    pub damaged_headers: Vec<PathBuf>,
    /// Keys whose last record is damaged. An earlier record of the key is used, if there is one.
    pub lost_keys: LostKeys,
}

impl Recovery {
    /// Lower bound of the number of lost records. Records of missing files are not counted.
    pub fn lost_records(&self) -> u64 {
        self.damage.iter().map(|damage| damage.lost).sum()
    }

    /// Number of damaged or missing files.
    pub fn damaged_files(&self) -> u64 {
        self.damage.iter().map(Damage::files).sum()
    }
}

/// Position at which writing continues.
#[derive(Debug)]
pub(crate) struct Position {
    /// Number of the segment to append to.
    pub(crate) segment: u64,
    /// State of the segment; `None`: it must be created.
    pub(crate) open: Option<OpenSegment>,
    /// For a segment to be created: intact length of the previous one.
    pub(crate) previous_synced: u64,
    /// Bytes of all earlier segments that are newer than the snapshot.
    pub(crate) older_bytes: u64,
    /// Bytes of the snapshot.
    pub(crate) snapshot_bytes: u64,
    /// True if a snapshot should replace the files: one of them is damaged, has a damaged copy of its header, or has an
    /// older version.
    pub(crate) wants_snapshot: bool,
}

/// A segment that can be appended to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenSegment {
    /// Length of its intact part.
    pub(crate) length: u64,
    /// File number of its records.
    pub(crate) file: u32,
    /// Number of the next record.
    pub(crate) next: u32,
}

/// Reads the snapshot and the segments in order, and passes every intact record to `on_record`.
pub(crate) fn recover(
    names: &FileNames,
    disk: &dyn Disk,
    on_record: &mut dyn FnMut(&[u8], &[u8]),
) -> Result<(Recovery, Position), JournalError> {
    let unfinished = names.snapshot_new();
    if unfinished.symlink_metadata().is_ok() {
        disk.remove(&unfinished).map_err(JournalError::io(&unfinished, "remove"))?;
    }
    let mut segments = names.segments().map_err(JournalError::io(names.folder(), "list"))?;
    let mut reading = Reading { names, found: Recovery::default(), on_record };
    let snapshot = reading.snapshot()?;
    let first = snapshot.first.or(segments.first().copied()).unwrap_or(1);
    for number in segments.extract_if(.., |number| *number < first) {
        let path = names.segment(number);
        disk.remove(&path).map_err(JournalError::io(&path, "remove"))?;
    }
    let mut position = Position {
        segment: first,
        open: None,
        previous_synced: 0,
        older_bytes: 0,
        snapshot_bytes: snapshot.length,
        wants_snapshot: snapshot.is_replaced,
    };
    let mut expected = first;
    let mut last = None;
    for (index, number) in segments.iter().copied().enumerate() {
        if number != expected {
            reading.missing(&names.segment(expected), number - expected);
        }
        expected = number + 1;
        let segment = reading.segment(number, segments.get(index + 1).copied())?;
        position.older_bytes += segment.length;
        position.wants_snapshot |= segment.is_replaced;
        last = Some((number, segment));
    }
    match last {
        Some((number, Segment { open: None, good: 0, .. })) => position.segment = number,
        Some((number, Segment { open: Some(open), length, .. })) => {
            position.segment = number;
            position.open = Some(open);
            position.older_bytes -= length;
        }
        Some((number, segment)) => {
            position.segment = number + 1;
            position.previous_synced = segment.good;
        }
        None => {}
    }
    let mut found = reading.found;
    if !found.damage.is_empty() {
        position.wants_snapshot = true;
        found.damage.iter_mut().for_each(|damage| keep_aside(disk, damage));
        disk.sync_folder(names.folder()).map_err(JournalError::io(names.folder(), "sync"))?;
    }
    Ok((found, position))
}

struct Reading<'r> {
    names: &'r FileNames,
    found: Recovery,
    on_record: &'r mut dyn FnMut(&[u8], &[u8]),
}

struct Snapshot {
    /// Number of the first newer segment; `None`: unknown.
    first: Option<u64>,
    length: u64,
    is_replaced: bool,
}

struct Segment {
    /// `None`: nothing may be appended, because it is damaged or has an older version.
    open: Option<OpenSegment>,
    /// Length of its intact part; 0: it has no header.
    good: u64,
    length: u64,
    is_replaced: bool,
}

impl ScanSink for Reading<'_> {
    fn record(&mut self, key: &[u8], value: &[u8]) {
        self.found.lost_keys.restored(key);
        (self.on_record)(key, value);
    }

    fn lost(&mut self, lost: LostKey<'_>) {
        self.found.lost_keys.add(lost);
    }
}

impl Reading<'_> {
    /// Reads the snapshot, if it exists.
    fn snapshot(&mut self) -> Result<Snapshot, JournalError> {
        let path = self.names.snapshot();
        if path.symlink_metadata().is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound) {
            // Before the first snapshot no segment is removed.
            let first = Some(1);
            return Ok(Snapshot { first, length: 0, is_replaced: false });
        }
        let mut file = open(path)?;
        let head = Header::read(&mut file, path)?;
        let has_one_copy = matches!(head, HeaderState::OneCopy(_));
        let (header, from, format) = match head {
            HeaderState::Whole(header) | HeaderState::OneCopy(header) if header.kind == Kind::Snapshot => {
                (Some(header), header.length(), header.format())
            }
            HeaderState::Whole(_) | HeaderState::OneCopy(_) | HeaderState::Missing | HeaderState::Damaged => {
                // Segments older than the snapshot may still exist. Reading them in order results in the same state.
                (None, V1_HEADER_BYTES as u64, format_without_header(&mut file, path)?)
            }
        };
        let (scan, tail) = scan(&mut file, from, format, self).map_err(JournalError::io(path, "read"))?;
        self.found.snapshot_records += scan.records;
        self.found.bytes += scan.length;
        let is_whole = header.is_some()
            && scan.damaged_at.is_none()
            && scan.tail == Tail::Whole
            && scan.end == Some(scan.records);
        if !is_whole {
            tail.iter().for_each(|lost| self.found.lost_keys.add(lost.key()));
            let counted = scan.end.map(|records| records.saturating_sub(scan.records));
            let at = if header.is_none() { 0 } else { scan.damaged_at.unwrap_or(scan.good) };
            let lost = counted.unwrap_or(scan.lost + scan.tail_records);
            self.found.damage.push(Damage::at(path, at, lost, counted.is_some()));
        }
        self.note_header(path, has_one_copy && is_whole);
        let first = header.map(|header| header.number);
        Ok(Snapshot { first, length: scan.length, is_replaced: format == Format::V1 || has_one_copy })
    }

    /// Reads one segment; `next` is the number of the following one.
    fn segment(&mut self, number: u64, next: Option<u64>) -> Result<Segment, JournalError> {
        let path = &self.names.segment(number);
        let mut file = open(path)?;
        let synced = next.map(|next| self.synced_before(next)).transpose()?.unwrap_or(0);
        let head = Header::read(&mut file, path)?;
        let has_one_copy = matches!(head, HeaderState::OneCopy(_));
        let header = match head {
            HeaderState::Whole(header) | HeaderState::OneCopy(header)
                if header.kind == Kind::Segment && header.number == number =>
            {
                Some(header)
            }
            HeaderState::Missing if next.is_none() => {
                let length = file.metadata().map_err(JournalError::io(path, "read"))?.len();
                if length <= HEADER_BYTES as u64 {
                    self.found.torn_bytes += length;
                    return Ok(Segment { open: None, good: 0, length: 0, is_replaced: false });
                }
                None
            }
            HeaderState::Whole(_) | HeaderState::OneCopy(_) | HeaderState::Missing | HeaderState::Damaged => {
                None
            }
        };
        let (from, format) = match header {
            Some(header) => (header.length(), header.format()),
            None => (V1_HEADER_BYTES as u64, format_without_header(&mut file, path)?),
        };
        let (scan, tail) = scan(&mut file, from, format, self).map_err(JournalError::io(path, "read"))?;
        self.found.segment_records += scan.records;
        self.found.bytes += scan.length;
        let is_damaged = self.note_damage(path, header.is_none(), synced, &scan, &tail);
        // A crash can leave an incomplete header, but then no records follow it.
        self.note_header(path, has_one_copy && !is_damaged && scan.records > 0);
        let open = match format {
            Format::V2 { file: Some(file) } if !is_damaged => {
                Some(OpenSegment { length: scan.good, file, next: scan.next })
            }
            Format::V1 | Format::V2 { .. } => None,
        };
        let good = if is_damaged { scan.length } else { scan.good };
        Ok(Segment { open, good, length: scan.good, is_replaced: format == Format::V1 || has_one_copy })
    }

    /// Records the loss of a segment; true if it is damaged.
    fn note_damage(
        &mut self,
        path: &Path,
        lacks_header: bool,
        synced: u64,
        scan: &Scan,
        tail: &[Lost],
    ) -> bool {
        let is_tail_lost = scan.tail == Tail::Damaged || synced > scan.good;
        if !lacks_header && scan.damaged_at.is_none() && !is_tail_lost {
            self.found.torn_bytes += scan.length.saturating_sub(scan.good);
            return false;
        }
        let mut lost = scan.lost;
        if is_tail_lost {
            lost += scan.tail_records.max(1);
            tail.iter().for_each(|lost| self.found.lost_keys.add(lost.key()));
        }
        let at = if lacks_header { 0 } else { scan.damaged_at.unwrap_or(scan.good) };
        self.found.damage.push(Damage::at(path, at, lost, !is_tail_lost));
        true
    }

    fn note_header(&mut self, path: &Path, is_damaged: bool) {
        if is_damaged {
            self.found.damaged_headers.push(path.to_owned());
        }
    }

    /// Synced length of the segment before `number` when `number` was created.
    fn synced_before(&self, number: u64) -> Result<u64, JournalError> {
        let path = self.names.segment(number);
        match Header::read(&mut open(&path)?, &path)? {
            HeaderState::Whole(header) | HeaderState::OneCopy(header) => Ok(header.previous_synced),
            HeaderState::Missing | HeaderState::Damaged => Ok(0),
        }
    }

    fn missing(&mut self, path: &Path, files: u64) {
        self.found.damage.push(Damage::missing(path, files));
    }
}

/// Checks that the existing files can be read and written, and have a version that this program reads.
pub(crate) fn check(names: &FileNames) -> Result<(), JournalError> {
    let segments = names.segments().map_err(JournalError::io(names.folder(), "list"))?;
    let with_header =
        segments.into_iter().map(|number| names.segment(number)).chain([names.snapshot().to_owned()]);
    let is_there = |path: &PathBuf| path.symlink_metadata().is_ok();
    for path in with_header.filter(is_there) {
        Header::read(&mut open(&path)?, &path)?;
        disk::open_to_write(&path).map_err(JournalError::io(&path, "open for writing"))?;
    }
    let lock = Some(names.lock()).filter(is_there);
    lock.map_or(Ok(()), |path| {
        disk::open_to_write(&path).map(drop).map_err(JournalError::io(&path, "open for writing"))
    })
}

fn open(path: &Path) -> Result<File, JournalError> {
    disk::open_to_read(path).map_err(JournalError::io(path, "open"))
}

/// Format of a file whose header is damaged, determined from its first record.
fn format_without_header(file: &mut File, path: &Path) -> Result<Format, JournalError> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(V1_HEADER_BYTES as u64)).map_err(JournalError::io(path, "read"))?;
    file.take(RECORD_BYTES_MAX as u64).read_to_end(&mut bytes).map_err(JournalError::io(path, "read"))?;
    let is_v1 = matches!(decode(Format::V1, &bytes), Step::Whole(_));
    Ok(if is_v1 { Format::V1 } else { Format::V2 { file: None } })
}

/// Adds a name to a damaged file that survives the next snapshot.
fn keep_aside(disk: &dyn Disk, damage: &mut Damage) {
    if damage.is_missing() {
        return;
    }
    damage.kept = match FileNames::kept(&damage.file) {
        Err(kept) => Ok(kept),
        Ok(Some(name)) => disk.keep(&damage.file, &name).map(|()| name).map_err(|error| error.to_string()),
        Ok(None) => Err("too many damaged files of this name are kept already".to_owned()),
    };
}
