//! Writes snapshots concurrently with the journal, on a thread of its own.
//!
//! The segments before `first_segment` are removed only after the snapshot is complete, durable and renamed, so that a
//! crash at any step leaves either the old state or the new one.

use crate::Disk;
use crate::record::{RECORD_BYTES_MAX, encode, encode_end, seal};
use crate::segment::{FileNames, Header, Kind};
use crate::shared::Shared;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::{Builder, JoinHandle};

/// Walks the live table and passes on each key with its complete state. It runs on the snapshot thread.
///
/// The receiving function may block on the disk: copy a part of the table under its lock, and pass it on after unlocking.
/// A walk that returns is taken as complete: keys that it left out are lost with the old segments. A walk that cannot
/// continue must block or panic; after a panic it is repeated.
pub type SnapshotSource = Box<dyn FnMut(&mut dyn FnMut(&[u8], &[u8])) + Send>;

/// Size of one write.
const BLOCK_BYTES: usize = 1 << 20;
/// Bytes between syncs. Without them the journal would wait for hundreds of megabytes of a snapshot on the same disk.
const SYNC_BYTES: u64 = 16 << 20;

/// The thread that writes snapshots.
pub(crate) struct Snapshots {
    begin: Option<Sender<u64>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Snapshots {
    /// Starts the thread. The result of a snapshot is stored in `shared`.
    pub(crate) fn start(
        shared: Arc<Shared>,
        disk: Arc<dyn Disk>,
        names: FileNames,
        mut source: SnapshotSource,
    ) -> io::Result<Self> {
        let (begin, requests) = channel();
        let stop = Arc::new(AtomicBool::new(false));
        let stopping = Arc::clone(&stop);
        let thread = Builder::new().name("snapshot".into()).spawn(move || {
            for first_segment in requests {
                let walk = AssertUnwindSafe(|| write(&*disk, &names, first_segment, &mut source, &stopping));
                let result = catch_unwind(walk)
                    .unwrap_or_else(|_| Err(io::Error::other("the walk of the table panicked")));
                shared.snapshot_ended(result);
            }
        })?;
        Ok(Self { begin: Some(begin), stop, thread: Some(thread) })
    }

    /// Requests a snapshot that replaces the segments before `first_segment`.
    pub(crate) fn begin(&self, first_segment: u64) {
        if let Some(begin) = &self.begin {
            // The thread ends only after `begin` is dropped.
            let _ = begin.send(first_segment);
        }
    }

    /// Aborts a running snapshot and ends the thread.
    pub(crate) fn stop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.begin = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Writes a snapshot, renames it, and removes the replaced segments. Returns its length in bytes.
pub(crate) fn write(
    disk: &dyn Disk,
    names: &FileNames,
    first_segment: u64,
    source: &mut SnapshotSource,
    stop: &AtomicBool,
) -> io::Result<u64> {
    let path = names.snapshot_new();
    let bytes = match write_file(disk, names, first_segment, source, stop) {
        Ok(bytes) => bytes,
        Err(error) => {
            // Frees disk space; recovery removes the file if this fails.
            let _ = disk.remove(&path);
            return Err(error);
        }
    };
    disk.rename(&path, names.snapshot())?;
    disk.sync_folder(names.folder())?;
    for number in names.segments()?.into_iter().filter(|number| *number < first_segment) {
        // Recovery removes the remaining segments.
        let _ = disk.remove(&names.segment(number));
    }
    Ok(bytes)
}

fn write_file(
    disk: &dyn Disk,
    names: &FileNames,
    first_segment: u64,
    source: &mut SnapshotSource,
    stop: &AtomicBool,
) -> io::Result<u64> {
    let mut file = disk.create(&names.snapshot_new())?;
    let mut block = Vec::with_capacity(BLOCK_BYTES + RECORD_BYTES_MAX);
    let header = Header::new(Kind::Snapshot, first_segment, 0)?;
    let in_file = header.file.unwrap_or_default();
    block.extend_from_slice(&header.encode());
    file.append(&block)?;
    let mut bytes = block.len() as u64;
    let mut synced = 0;
    block.clear();
    let mut records = 0u64;
    let mut next = 0;
    let mut outcome = Ok(());
    let mut flush = |block: &mut Vec<u8>| -> io::Result<()> {
        if stop.load(Ordering::Relaxed) {
            return Err(io::Error::new(io::ErrorKind::Interrupted, "the program is stopping"));
        }
        file.append(block)?;
        bytes += block.len() as u64;
        block.clear();
        if bytes - synced >= SYNC_BYTES {
            file.sync()?;
            synced = bytes;
        }
        Ok(())
    };
    source(&mut |key, value| {
        if outcome.is_err() || value.is_empty() {
            return;
        }
        let start = block.len();
        if encode(&mut block, key, |buffer| buffer.extend_from_slice(value)) {
            next = seal(block.get_mut(start..).unwrap_or_default(), in_file, next);
            records += 1;
        }
        if block.len() >= BLOCK_BYTES {
            outcome = flush(&mut block);
        }
    });
    outcome?;
    let start = block.len();
    encode_end(&mut block, records);
    seal(block.get_mut(start..).unwrap_or_default(), in_file, next);
    flush(&mut block)?;
    file.sync()?;
    Ok(bytes)
}
