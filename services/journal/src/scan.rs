//! Reads a file's records in large blocks, and skips damaged parts.
//!
//! In a damaged part (gap) the mark of the next record is searched; the numbers of the records around the gap give the
//! number of lost ones. A gap at the end of the file is either an incomplete write of a crash or damage: see [`Tail`].

use crate::record::{Content, Format, LostKey, RECORD_HEADER_BYTES, Step, Whole, decode, find_next};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

/// Size of one read.
const BLOCK_BYTES: usize = 1 << 20;
/// Number of zeros at the end of a file that count as an incomplete write; no record ends with so many.
const ZEROS_MIN: usize = 16;
/// Maximum number of keys that are stored for one gap.
const GAP_KEYS_MAX: usize = 1_000;

/// Receiver of a scan's results.
pub(crate) trait ScanSink {
    /// An intact record.
    fn record(&mut self, key: &[u8], value: &[u8]);
    /// The key of a damaged record.
    fn lost(&mut self, lost: LostKey<'_>);
}

/// State of the end of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Tail {
    /// Ends with an intact record.
    #[default]
    Whole,
    /// Ends with a truncated record or zeros, as after a crash during a write.
    CutShort,
    /// Ends with a complete but invalid record.
    Damaged,
}

/// Summary of a file's records.
#[derive(Debug, Default)]
pub(crate) struct Scan {
    /// Number of intact records.
    pub(crate) records: u64,
    /// Number of lost records according to the record numbers; at least one for each gap.
    pub(crate) lost: u64,
    /// Offset of the first gap that is not the tail.
    pub(crate) damaged_at: Option<u64>,
    /// Offset of the end of the last intact record.
    pub(crate) good: u64,
    /// Length of the file.
    pub(crate) length: u64,
    pub(crate) tail: Tail,
    /// Lower bound of the records in the tail.
    pub(crate) tail_records: u64,
    /// Count in the `end` record, if there is one.
    pub(crate) end: Option<u64>,
    /// Number of the next record.
    pub(crate) next: u32,
}

/// Reads all records of `file` from byte `from` on, in order. Only keys of damaged records are stored.
pub(crate) fn scan(
    file: &mut File,
    from: u64,
    format: Format,
    found: &mut dyn ScanSink,
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

/// Key of a damaged record, stored until the kind of its gap is known.
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
    /// True while the next mark is searched.
    is_searching: bool,
    scan: Scan,
    found: &'f mut dyn ScanSink,
}

struct Gap {
    start: u64,
    /// Number of record starts in the gap.
    heads: u64,
    /// True if the first record of the gap extends beyond the end of the file.
    is_cut: bool,
    /// Number of zeros at the end of the scanned part.
    zeros: usize,
    keys: Vec<Lost>,
}

impl Scanner<'_> {
    /// Processes the complete records at the beginning of `block`; returns the number of consumed bytes.
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
                self.count_zeros(rest.get(..skipped).unwrap_or(rest));
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
                Step::Incomplete => self.damaged(used, None, true),
                Step::Damaged(lost) => self.damaged(used, lost, false),
            }
            self.count_zeros(rest.get(..1).unwrap_or_default());
            used += 1;
            self.is_searching = true;
        }
    }

    fn whole(&mut self, record: &Whole<'_>, end: u64) {
        let begin = end - record.length as u64;
        let gap = self.gap.take();
        if let Some((file, number)) = record.position {
            self.format = Format::V2 { file: Some(file) };
            let missing = number.wrapping_sub(self.scan.next);
            let room = begin.saturating_sub(self.scan.good) / RECORD_HEADER_BYTES as u64;
            let heads = gap.as_ref().map_or(0, |gap| gap.heads);
            // A difference that does not fit the gap is a wrong number.
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
        gap.keys.iter().for_each(|name| self.found.lost(name.key()));
    }

    /// Handles a position of the block at which no intact record begins.
    fn damaged(&mut self, used: usize, lost: Option<LostKey<'_>>, is_cut: bool) {
        let start = self.at + used as u64;
        let is_numbered = matches!(self.format, Format::V2 { .. });
        let gap = self.gap.get_or_insert_with(|| Gap { start, heads: 0, is_cut, zeros: 0, keys: Vec::new() });
        let is_head = is_numbered || gap.start == start;
        gap.heads += u64::from(is_head);
        if let Some(lost) = lost.filter(|_| is_head && gap.keys.len() < GAP_KEYS_MAX) {
            gap.keys.push(Lost { key: lost.key.to_vec(), is_certain: lost.is_certain });
        }
    }

    fn count_zeros(&mut self, skipped: &[u8]) {
        let Some(gap) = &mut self.gap else { return };
        let zeros = skipped.iter().rev().take_while(|byte| **byte == 0).count();
        gap.zeros = if zeros == skipped.len() { gap.zeros + zeros } else { zeros };
    }

    /// Ends the scan; returns the keys in the tail.
    fn end(mut self) -> (Scan, Vec<Lost>) {
        let Some(gap) = self.gap.take() else { return (self.scan, Vec::new()) };
        let length = usize::try_from(self.scan.length.saturating_sub(gap.start)).unwrap_or(usize::MAX);
        let is_zeros = gap.zeros >= ZEROS_MIN.min(length);
        let is_one_record = gap.is_cut && (gap.heads == 1 || !matches!(self.format, Format::V2 { .. }));
        self.scan.tail = if is_zeros || is_one_record { Tail::CutShort } else { Tail::Damaged };
        self.scan.tail_records = gap.heads;
        (self.scan, gap.keys)
    }
}
