//! Reading a journal after a stop, a crash or a power cut.
//!
//! ```text
//! BASE (snapshot, says "segments from N on are newer")   BASE.N, BASE.N+1, ... (segments, the last one open)
//! ```
//! A crash can leave: the last record of the last segment cut short (cut off), a segment without its header (made
//! again), a snapshot half written under another name (removed), segments older than the snapshot (removed). All
//! else is damage, and refused: guessing would bring logged-out phones back or lose others without a word.

use super::segment::{HEADER_BYTES, Header, Kind, Names, scan, was_synced_beyond};
use super::{Disk, StoreError};
use std::fs::File;
use std::path::Path;

/// What was found on the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Records read from the snapshot.
    pub snapshot_records: u64,
    /// Records read from the segments behind it.
    pub segment_records: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Bytes of unfinished writes that were cut off.
    pub torn_bytes: u64,
}

/// Where writing goes on.
#[derive(Debug)]
pub(super) struct Position {
    /// The segment to append to.
    pub(super) segment: u64,
    /// How much of it is good; 0: it must be made first.
    pub(super) length: u64,
    /// Bytes of all segments before it and behind the snapshot.
    pub(super) older_bytes: u64,
    /// Bytes of the snapshot.
    pub(super) snapshot_bytes: u64,
}

/// Reads snapshot and segments in order and hands over every record.
pub(super) fn recover(
    names: &Names,
    disk: &dyn Disk,
    on_record: &mut dyn FnMut(&[u8], &[u8]),
) -> Result<(Recovery, Position), StoreError> {
    let mut found = Recovery::default();
    let unfinished = names.snapshot_new();
    if unfinished.exists() {
        disk.remove(&unfinished).map_err(StoreError::io(&unfinished, "remove"))?;
    }
    let (first, snapshot_bytes) = read_snapshot(names, &mut found, on_record)?;
    let mut segments = names.segments().map_err(StoreError::io(names.folder(), "list"))?;
    for number in segments.extract_if(.., |number| *number < first) {
        let path = names.segment(number);
        disk.remove(&path).map_err(StoreError::io(&path, "remove"))?;
    }
    for (index, number) in segments.iter().enumerate() {
        if *number != first + index as u64 {
            let missing = names.segment(first + index as u64);
            return Err(names.damaged(&missing, 0, "the file is missing and a later one is there"));
        }
    }
    let mut position = Position { segment: first, length: 0, older_bytes: 0, snapshot_bytes };
    for (index, number) in segments.iter().enumerate() {
        let next = segments.get(index + 1).copied();
        position.older_bytes += position.length;
        position.segment = *number;
        position.length = read_segment(names, *number, next, &mut found, on_record)?;
    }
    Ok((found, position))
}

fn open(path: &Path) -> Result<File, StoreError> {
    File::open(path).map_err(StoreError::io(path, "open"))
}

/// Reads the snapshot, if there is one; gives the first segment that is newer, and the snapshot's length.
fn read_snapshot(
    names: &Names,
    found: &mut Recovery,
    on_record: &mut dyn FnMut(&[u8], &[u8]),
) -> Result<(u64, u64), StoreError> {
    let path = names.snapshot();
    if !path.exists() {
        return Ok((1, 0));
    }
    let mut file = open(path)?;
    let header = match Header::read(&mut file, path, names)? {
        Some(header) if header.kind == Kind::Snapshot => header,
        Some(_) | None => return Err(names.damaged(path, 0, "it does not begin like a snapshot")),
    };
    let scan = scan(&mut file, on_record).map_err(StoreError::io(path, "read"))?;
    if let Some(detail) = scan.broken {
        return Err(names.damaged(path, scan.good, detail));
    }
    if scan.end != Some(scan.records) {
        return Err(names.damaged(path, scan.good, "records are missing at its end"));
    }
    found.snapshot_records = scan.records;
    found.bytes += scan.length;
    Ok((header.number, scan.length))
}

/// Reads one segment; gives how much of it is good.
fn read_segment(
    names: &Names,
    number: u64,
    next: Option<u64>,
    found: &mut Recovery,
    on_record: &mut dyn FnMut(&[u8], &[u8]),
) -> Result<u64, StoreError> {
    let path = &names.segment(number);
    let mut file = open(path)?;
    let header = match Header::read(&mut file, path, names)? {
        Some(header) if header.kind == Kind::Segment && header.number == number => header,
        Some(_) => return Err(names.damaged(path, 0, "it is another file under this name")),
        None if next.is_none() => {
            found.torn_bytes += file.metadata().map_err(StoreError::io(path, "read"))?.len();
            return Ok(0);
        }
        None => return Err(names.damaged(path, 0, "its header is missing")),
    };
    debug_assert_eq!(header.number, number);
    let scan = scan(&mut file, on_record).map_err(StoreError::io(path, "read"))?;
    found.segment_records += scan.records;
    found.bytes += scan.length;
    let Some(detail) = scan.broken else { return Ok(scan.good.max(HEADER_BYTES as u64)) };
    let is_tail = match next {
        Some(next) => scan.good >= synced_before(names, next)?,
        None => !was_synced_beyond(&mut file, scan.good).map_err(StoreError::io(path, "read"))?,
    };
    if !is_tail {
        return Err(names.damaged(path, scan.good, detail));
    }
    found.torn_bytes += scan.length.saturating_sub(scan.good);
    Ok(scan.good)
}

/// How much of the segment before `number` was on the disk when `number` was begun.
fn synced_before(names: &Names, number: u64) -> Result<u64, StoreError> {
    let path = names.segment(number);
    let header = Header::read(&mut open(&path)?, &path, names)?;
    Ok(header.map_or(0, |header| header.previous_synced))
}
