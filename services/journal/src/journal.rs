//! Journal of bindings: append-only segments, and snapshots that replace old segments.

use crate::disk::open_to_lock;
use crate::record::{encode_synced, seal};
use crate::recovery::{self, OpenSegment, Recovery};
use crate::segment::{FileNames, HEADER_BYTES, Header, Kind};
use crate::{Disk, DiskFile, JournalError, LocalDisk};
use std::fs::{File, TryLockError};
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Total size of the segments below which no snapshot is written, in bytes.
pub(crate) const COMPACT_BYTES_MIN: u64 = 64 << 20;
/// Total size of the segments, as a multiple of the last snapshot, above which a snapshot is written.
pub(crate) const COMPACT_SNAPSHOTS: u64 = 2;

/// A journal that was recovered and is open for appending, for [`crate::Writer::start`].
pub struct Journal {
    names: FileNames,
    disk: Arc<dyn Disk>,
    segment: Box<dyn DiskFile>,
    number: u64,
    /// Intact length of the segment and number of its next record. Bytes after it, left by a failed write, are cut off
    /// before the next write.
    open: OpenSegment,
    needs_cut: bool,
    /// Bytes of the segment that are durable.
    synced: u64,
    /// True if the segment ends with a `synced` record, or nothing was appended yet.
    is_marked: bool,
    older_bytes: u64,
    snapshot_bytes: u64,
    compact_bytes_min: u64,
    /// True if the recovered files should be replaced by a snapshot regardless of their size.
    needs_snapshot: bool,
    recovery: Recovery,
    /// Locked during the lifetime of the journal; the system unlocks it when the process ends.
    _lock: File,
}

impl Journal {
    /// Reads the journal whose files begin with `path`, creating it if necessary, and passes its records to `on_record`
    /// as key and value, oldest first; an empty value means that the key was removed. Each record is the complete state
    /// of its key, so a later one replaces an earlier one.
    ///
    /// Damaged records are skipped and reported in [`Journal::recovery`]; the damaged file is kept under another name
    /// and replaced by a snapshot.
    ///
    /// # Errors
    /// Another process has locked the journal; a file has a later version or is a symbolic link; a file operation
    /// failed.
    pub fn recover(path: &Path, on_record: impl FnMut(&[u8], &[u8])) -> Result<Self, JournalError> {
        Self::recover_on(Arc::new(LocalDisk), path, on_record)
    }

    /// Checks that [`Journal::recover`] could read and write the files of the journal, without changing them. A process that has
    /// locked it is no error.
    ///
    /// # Errors
    /// As [`Journal::recover`], for the files that exist.
    pub fn check(path: &Path) -> Result<(), JournalError> {
        recovery::check(&FileNames::new(path))
    }

    /// Like [`Journal::recover`], with writes going to `disk`.
    ///
    /// # Errors
    /// As [`Journal::recover`].
    pub fn recover_on(
        disk: Arc<dyn Disk>,
        path: &Path,
        mut on_record: impl FnMut(&[u8], &[u8]),
    ) -> Result<Self, JournalError> {
        let names = FileNames::new(path);
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
            needs_snapshot: position.wants_snapshot,
            recovery,
            _lock: lock,
        })
    }

    /// Sets the segment size from which snapshots are written, instead of 64 MiB; for tests.
    #[must_use]
    pub fn compact_from(mut self, bytes: u64) -> Self {
        self.compact_bytes_min = bytes;
        self
    }

    /// Report of the recovery.
    pub fn recovery(&self) -> &Recovery {
        &self.recovery
    }

    /// Common prefix of the names of all its files; also the path of the snapshot.
    pub fn path(&self) -> &Path {
        self.names.snapshot()
    }

    /// Seals a batch of records for this segment and appends it.
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

    /// Makes all appended records durable.
    pub(crate) fn sync(&mut self) -> io::Result<()> {
        self.segment.sync()?;
        self.synced = self.open.length;
        Ok(())
    }

    /// Begins a new segment. Its header stores the synced length of the old one: the rest may be damaged after a crash.
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

    /// Ends the segment with a `synced` record, so that later damage to its last records is not mistaken for an
    /// incomplete write of a crash.
    pub(crate) fn close(&mut self) {
        if self.synced == self.open.length && !self.is_marked && !self.needs_cut {
            let mut mark = Vec::new();
            encode_synced(&mut mark, self.synced);
            // The next start works without this record too.
            let _ = self.append(&mut mark).and_then(|()| self.sync());
        }
    }

    /// True if the segments have grown so much that a snapshot is due.
    pub(crate) fn wants_snapshot(&self) -> bool {
        let grown = self.older_bytes + self.open.length;
        self.needs_snapshot
            || grown > self.compact_bytes_min.max(self.snapshot_bytes.saturating_mul(COMPACT_SNAPSHOTS))
    }

    /// Notes that a snapshot of `bytes` bytes has replaced all segments before the open one.
    pub(crate) fn snapshot_written(&mut self, bytes: u64) {
        self.snapshot_bytes = bytes;
        self.older_bytes = 0;
        self.needs_snapshot = false;
    }

    pub(crate) fn names(&self) -> &FileNames {
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

fn lock(names: &FileNames) -> Result<File, JournalError> {
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

/// Creates segment `number` with its header and makes both durable, so that a segment with records has a valid header.
fn create_segment(
    names: &FileNames,
    disk: &dyn Disk,
    number: u64,
    previous_synced: u64,
) -> io::Result<(Box<dyn DiskFile>, OpenSegment)> {
    let mut segment = disk.create(&names.segment(number))?;
    let header = Header::new(Kind::Segment, number, previous_synced)?;
    segment.append(&header.encode())?;
    segment.sync()?;
    disk.sync_folder(names.folder())?;
    let open = OpenSegment { length: HEADER_BYTES as u64, file: header.file.unwrap_or_default(), next: 0 };
    Ok((segment, open))
}
