//! The journal of bindings: append-only segments, and now and then a snapshot that makes the old ones unneeded.

use crate::disk::open_to_lock;
use crate::record::{encode_synced, seal};
use crate::recovery::{self, Open, Recovery};
use crate::segment::{HEADER_BYTES, Header, Kind, Names};
use crate::{Disk, DiskFile, JournalError, LocalDisk};
use std::fs::{File, TryLockError};
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Segments may always grow to this many bytes before a snapshot is written.
pub(crate) const COMPACT_BYTES_MIN: u64 = 64 << 20;
/// Beyond that they may grow to this many times the last snapshot.
pub(crate) const COMPACT_SNAPSHOTS: u64 = 2;

/// A journal that was read and is open for appending. Give it to [`crate::Writer::start`].
pub struct Journal {
    names: Names,
    disk: Arc<dyn Disk>,
    segment: Box<dyn DiskFile>,
    number: u64,
    /// The segment's good bytes and its next record; what a failed write left behind them is cut off before the next one.
    open: Open,
    needs_cut: bool,
    /// Bytes of the segment that are on the disk.
    synced: u64,
    /// The segment ends in a record that says that all of it is on the disk, or nothing was appended yet.
    is_marked: bool,
    older_bytes: u64,
    snapshot_bytes: u64,
    compact_bytes_min: u64,
    /// The files that were read should be replaced by a snapshot, however long they are.
    is_worn: bool,
    recovery: Recovery,
    /// Held as long as the journal lives; the system lets go of it when the process dies.
    _lock: File,
}

impl Journal {
    /// Reads the journal whose files begin with `path` (they are made if there are none) and hands over its records,
    /// oldest first: key, value; an empty value says that the key is gone. Each record is the whole state of its key,
    /// so a later one replaces an earlier one.
    ///
    /// Damaged records are left out and reported in [`Journal::recovery`]; the damaged file is kept under another name and
    /// replaced by a snapshot.
    ///
    /// # Errors
    /// Another process holds the journal; a file is of a later version or a symbolic link; the file system refuses.
    pub fn recover(path: &Path, on_record: impl FnMut(&[u8], &[u8])) -> Result<Self, JournalError> {
        Self::recover_on(Arc::new(LocalDisk), path, on_record)
    }

    /// [`Journal::recover`], with writes going to `disk`.
    ///
    /// # Errors
    /// As [`Journal::recover`].
    pub fn recover_on(
        disk: Arc<dyn Disk>,
        path: &Path,
        mut on_record: impl FnMut(&[u8], &[u8]),
    ) -> Result<Self, JournalError> {
        let names = Names::new(path);
        let lock = lock(&names)?;
        let (recovery, position) = recovery::recover(&names, &*disk, &mut on_record)?;
        let file = names.segment(position.segment);
        let (segment, open) = match position.open {
            None => create_segment(&names, &*disk, position.segment, position.previous_synced)
                .map_err(JournalError::io(&file, "create the journal"))?,
            Some(open) => {
                let segment = disk
                    .append_to(&file, open.length)
                    .map_err(JournalError::io(&file, "open for writing"))?;
                (segment, open)
            }
        };
        Ok(Self {
            names,
            disk,
            segment,
            number: position.segment,
            open,
            needs_cut: false,
            synced: 0,
            is_marked: true,
            older_bytes: position.older_bytes,
            snapshot_bytes: position.snapshot_bytes,
            compact_bytes_min: COMPACT_BYTES_MIN,
            is_worn: position.wants_snapshot,
            recovery,
            _lock: lock,
        })
    }

    /// Lets segments grow to only `bytes` before a snapshot is written, instead of 64 MiB; for tests.
    #[must_use]
    pub fn compact_from(mut self, bytes: u64) -> Self {
        self.compact_bytes_min = bytes;
        self
    }

    /// Report of the recovery.
    pub fn recovery(&self) -> &Recovery {
        &self.recovery
    }

    /// Beginning of the names of all its files.
    pub fn path(&self) -> &Path {
        self.names.snapshot()
    }

    /// Adds a batch of records and seals them for this segment.
    pub(crate) fn append(&mut self, batch: &mut [u8]) -> io::Result<()> {
        if self.needs_cut {
            self.segment.cut(self.open.length)?;
            self.needs_cut = false;
        }
        let next = seal(batch, self.open.file, self.open.next);
        self.is_marked = false;
        match self.segment.append(batch) {
            Ok(()) => {
                self.open.length += batch.len() as u64;
                self.open.next = next;
                Ok(())
            }
            Err(error) => {
                self.needs_cut = true;
                Err(error)
            }
        }
    }

    /// Returns once all that was appended is on the disk.
    pub(crate) fn sync(&mut self) -> io::Result<()> {
        self.segment.sync()?;
        self.synced = self.open.length;
        Ok(())
    }

    /// Begins a new segment. Its header says how much of the old one was synced: the rest may be damaged after a crash.
    pub(crate) fn begin_segment(&mut self) -> io::Result<u64> {
        let number = self.number + 1;
        let (segment, open) = create_segment(&self.names, &*self.disk, number, self.synced)?;
        self.older_bytes += self.open.length;
        self.segment = segment;
        self.number = number;
        self.open = open;
        self.needs_cut = false;
        self.synced = self.open.length;
        self.is_marked = true;
        Ok(number)
    }

    /// Ends the segment with a record that says that all of it is on the disk, so that later damage to its last records
    /// does not look like a write that a crash cut short.
    pub(crate) fn close(&mut self) {
        if self.synced == self.open.length && !self.is_marked && !self.needs_cut {
            let mut mark = Vec::new();
            encode_synced(&mut mark, self.synced);
            // Without this record the next start works as well.
            let _ = self.append(&mut mark).and_then(|()| self.sync());
        }
    }

    /// True when the segments have grown so much that a snapshot pays.
    pub(crate) fn wants_snapshot(&self) -> bool {
        let grown = self.older_bytes + self.open.length;
        self.is_worn
            || grown > self.compact_bytes_min.max(self.snapshot_bytes.saturating_mul(COMPACT_SNAPSHOTS))
    }

    /// Takes note that a snapshot of `bytes` replaced all segments before the open one.
    pub(crate) fn snapshot_written(&mut self, bytes: u64) {
        self.snapshot_bytes = bytes;
        self.older_bytes = 0;
        self.is_worn = false;
    }

    pub(crate) fn names(&self) -> &Names {
        &self.names
    }

    pub(crate) fn disk(&self) -> &Arc<dyn Disk> {
        &self.disk
    }

    /// Bytes of all segments and the snapshot.
    pub(crate) fn bytes(&self) -> u64 {
        self.snapshot_bytes + self.older_bytes + self.open.length
    }
}

fn lock(names: &Names) -> Result<File, JournalError> {
    let path = names.lock();
    let file = open_to_lock(&path).map_err(JournalError::io(&path, "create the lock file"))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(JournalError::InUse { file: path }),
        Err(TryLockError::Error(source)) => {
            Err(JournalError::Io { file: path, doing: "lock it against a second server", source })
        }
    }
}

/// Makes segment `number` with its header, and returns once both are on the disk: a segment that has records has a
/// header that can be trusted.
fn create_segment(
    names: &Names,
    disk: &dyn Disk,
    number: u64,
    previous_synced: u64,
) -> io::Result<(Box<dyn DiskFile>, Open)> {
    let mut segment = disk.create(&names.segment(number))?;
    let header = Header::new(Kind::Segment, number, previous_synced)?;
    segment.append(&header.encode())?;
    segment.sync()?;
    disk.sync_folder(names.folder())?;
    let open = Open { length: HEADER_BYTES as u64, file: header.file.unwrap_or_default(), next: 0 };
    Ok((segment, open))
}
