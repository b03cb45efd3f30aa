//! Reading a file's records in big blocks, and over what is damaged to the next whole one.
//!
//! A damaged stretch (gap) is searched for the mark that begins every record; what was in it is known from the numbers
//! of the records around it. A gap that reaches to the end of the file is either a write that a crash cut short or damage:
//! see [`Tail`].

use crate::record::{Content, Format, LostKey, RECORD_HEADER_BYTES, Step, Whole, decode, find_next};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

/// Size of one read.
const BLOCK_BYTES: usize = 1 << 20;
/// A write that was cut short can leave zeros at the end of a file; no record ends with so many.
const ZEROS_MIN: usize = 16;
/// Names remembered of one gap.
const GAP_NAMES_MAX: usize = 1_000;

/// Receives what a scan finds.
pub(crate) trait Found {
    /// A whole record.
    fn record(&mut self, key: &[u8], value: &[u8]);
    /// The key of a damaged record.
    fn lost(&mut self, lost: LostKey<'_>);
}

/// The end of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Tail {
    /// The last record ends there.
    #[default]
    Whole,
    /// A record is cut short or is zeros: what a crash leaves of a write under way.
    CutShort,
    /// A record is as long as it should be and wrong.
    Damaged,
}

/// Result of reading a file's records.
#[derive(Debug, Default)]
pub(crate) struct Scan {
    /// Records handed over.
    pub(crate) records: u64,
    /// Records missing, as far as their numbers tell; at least one for each gap.
    pub(crate) lost: u64,
    /// Offset of the first gap that is not the file's tail.
    pub(crate) damaged_at: Option<u64>,
    /// End of the last whole record.
    pub(crate) good: u64,
    /// The file's length.
    pub(crate) length: u64,
    pub(crate) tail: Tail,
    /// Records that the tail held, at least.
    pub(crate) tail_records: u64,
    /// The count of an `end` record, if there was one.
    pub(crate) end: Option<u64>,
    /// The number of the next record.
    pub(crate) next: u32,
}

/// Reads all records of `file` from byte `from` on, in order. Only names of damaged records are kept meanwhile.
pub(crate) fn scan(
    file: &mut File,
    from: u64,
    format: Format,
    found: &mut dyn Found,
) -> io::Result<(Scan, Vec<Lost>)> {
    let from = file.seek(SeekFrom::Start(from))?;
    let length = file.metadata()?.len();
    let scan = Scan { good: from, length, ..Scan::default() };
    let mut scanner = Scanner { format, at: from, gap: None, is_searching: false, scan, found };
    let mut block = Vec::with_capacity(BLOCK_BYTES);
    loop {
        let added = file.by_ref().take(BLOCK_BYTES as u64).read_to_end(&mut block)?;
        let used = scanner.take(&block, added == 0);
        scanner.at += used as u64;
        block.drain(..used);
        if added == 0 {
            return Ok(scanner.end());
        }
    }
}

/// The key of a damaged record, kept until it is clear what its gap is.
#[derive(Debug)]
pub(crate) struct Lost {
    key: Vec<u8>,
    is_certain: bool,
}

impl Lost {
    pub(crate) fn key(&self) -> LostKey<'_> {
        LostKey { key: &self.key, is_certain: self.is_certain }
    }
}

struct Scanner<'f> {
    format: Format,
    /// Offset of the block in the file.
    at: u64,
    gap: Option<Gap>,
    /// The next record is to be searched for, and not expected at once.
    is_searching: bool,
    scan: Scan,
    found: &'f mut dyn Found,
}

struct Gap {
    start: u64,
    /// Beginnings of records in it.
    heads: u64,
    /// The record at its start has the file's end before its own.
    is_cut: bool,
    /// Zeros at the end of what was seen of it.
    zeros: usize,
    names: Vec<Lost>,
}

impl Scanner<'_> {
    /// Takes what is whole from the beginning of `block`; gives how much of it is done with.
    fn take(&mut self, block: &[u8], is_end: bool) -> usize {
        let mut used = 0;
        loop {
            let rest = block.get(used..).unwrap_or_default();
            if self.is_searching {
                let (skipped, is_found) = match find_next(self.format, rest) {
                    Ok(next) => (next, true),
                    Err(_) if is_end => (rest.len(), false),
                    Err(searched) => (searched, false),
                };
                self.see_zeros(rest.get(..skipped).unwrap_or(rest));
                used += skipped;
                self.is_searching = !is_found;
                if !is_found {
                    return used;
                }
                continue;
            }
            match decode(self.format, rest) {
                Step::Whole(record) => {
                    used += record.length;
                    self.whole(&record, self.at + used as u64);
                    continue;
                }
                Step::Incomplete if rest.is_empty() || !is_end => return used,
                Step::Incomplete => self.broken(used, None, true),
                Step::Damaged(lost) => self.broken(used, lost, false),
            }
            self.see_zeros(rest.get(..1).unwrap_or_default());
            used += 1;
            self.is_searching = true;
        }
    }

    fn whole(&mut self, record: &Whole<'_>, end: u64) {
        let begin = end - record.length as u64;
        let gap = self.gap.take();
        if let Some((file, number)) = record.place {
            self.format = Format::V2 { file: Some(file) };
            let missing = number.wrapping_sub(self.scan.next);
            let room = begin.saturating_sub(self.scan.good) / RECORD_HEADER_BYTES as u64;
            let heads = gap.as_ref().map_or(0, |gap| gap.heads);
            // A number that the gap has no room for is no number of ours.
            let lost = if u64::from(missing) <= room { u64::from(missing) } else { heads };
            self.note_gap(gap, lost);
            let is_record = matches!(record.content, Content::Record { .. });
            self.scan.next = number.wrapping_add(u32::from(is_record));
        } else {
            let lost = u64::from(gap.is_some());
            self.note_gap(gap, lost);
        }
        self.scan.good = end;
        match record.content {
            Content::Record { key, value } => {
                self.found.record(key, value);
                self.scan.records += 1;
            }
            Content::Synced => {}
            Content::End { records } => self.scan.end = Some(records),
        }
    }

    fn note_gap(&mut self, gap: Option<Gap>, lost: u64) {
        let Some(gap) = gap else { return };
        self.scan.damaged_at.get_or_insert(gap.start);
        self.scan.lost += lost;
        gap.names.iter().for_each(|name| self.found.lost(name.key()));
    }

    /// No whole record begins at byte `used` of the block.
    fn broken(&mut self, used: usize, lost: Option<LostKey<'_>>, is_cut: bool) {
        let start = self.at + used as u64;
        let is_numbered = matches!(self.format, Format::V2 { .. });
        let gap =
            self.gap.get_or_insert_with(|| Gap { start, heads: 0, is_cut, zeros: 0, names: Vec::new() });
        let is_head = is_numbered || gap.start == start;
        gap.heads += u64::from(is_head);
        if let Some(lost) = lost.filter(|_| is_head && gap.names.len() < GAP_NAMES_MAX) {
            gap.names.push(Lost { key: lost.key.to_vec(), is_certain: lost.is_certain });
        }
    }

    fn see_zeros(&mut self, skipped: &[u8]) {
        let Some(gap) = &mut self.gap else { return };
        let zeros = skipped.iter().rev().take_while(|byte| **byte == 0).count();
        gap.zeros = if zeros == skipped.len() { gap.zeros + zeros } else { zeros };
    }

    /// The end of the file; gives the names that its tail held.
    fn end(mut self) -> (Scan, Vec<Lost>) {
        let Some(gap) = self.gap.take() else { return (self.scan, Vec::new()) };
        let length = usize::try_from(self.scan.length.saturating_sub(gap.start)).unwrap_or(usize::MAX);
        let is_zeros = gap.zeros >= ZEROS_MIN.min(length);
        let is_one_record = gap.is_cut && (gap.heads == 1 || !matches!(self.format, Format::V2 { .. }));
        self.scan.tail = if is_zeros || is_one_record { Tail::CutShort } else { Tail::Damaged };
        self.scan.tail_records = gap.heads;
        (self.scan, gap.names)
    }
}
