//! The journal's writing end: a buffer in memory; appending costs a short lock and a copy.
//!
//! A thread that changes the table appends a record and goes on; it makes no system call, except that the first record
//! after a rest wakes the journal's thread. That thread takes the whole buffer and writes it at once.
//!
//! Guarantees of [`Durability`]:
//! - relaxed: a record is on the disk within 1 s (written within some milliseconds, so that it survives the death of
//!   the process; pushed to the disk twice a second, so that it survives the loss of power).
//! - strict: [`Writer::durable`] reaches a record's number when it is on the disk, never before. While the disk fails
//!   it does not move and [`Writer::failed`] is true.

use crate::record::{RECORD_HEADER_BYTES, encode};
use crate::shared::{Pending, Shared};
use crate::snapshot::Snapshots;
use crate::writer_thread::{Durability, WriterEvent, WriterThread};
use crate::{Journal, SnapshotSource};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};

/// Bytes that may wait for the disk. Over it records are dropped and counted, and the whole table is written once the
/// disk works again.
pub const BUFFER_BYTES_MAX: usize = 128 << 20;

/// The journal's writing end, for any number of threads.
pub struct Writer {
    /// `None` when nothing is kept on a disk.
    shared: Option<Arc<Shared>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Writer {
    /// Starts the threads that write `journal`.
    ///
    /// `source` walks the live table when a snapshot is due. `on_event` is called from the journal's thread; it must not
    /// block.
    ///
    /// # Errors
    /// The system gives no more threads.
    pub fn start(
        journal: Journal,
        durability: Durability,
        source: SnapshotSource,
        on_event: Box<dyn Fn(WriterEvent<'_>) + Send>,
    ) -> io::Result<Self> {
        Self::start_with(journal, durability, BUFFER_BYTES_MAX, source, on_event)
    }

    /// [`Writer::start`] with another bound than [`BUFFER_BYTES_MAX`] on what waits in memory.
    ///
    /// # Errors
    /// The system gives no more threads.
    pub fn start_with(
        journal: Journal,
        durability: Durability,
        buffer_bytes_max: usize,
        source: SnapshotSource,
        on_event: Box<dyn Fn(WriterEvent<'_>) + Send>,
    ) -> io::Result<Self> {
        let shared = Arc::new(Shared::new(buffer_bytes_max, journal.recovery()));
        let snapshots = Snapshots::start(
            Arc::clone(&shared),
            Arc::clone(journal.disk()),
            journal.names().clone(),
            source,
        )?;
        let mut writing = WriterThread::new(Arc::clone(&shared), journal, durability, snapshots, on_event);
        let state = Arc::clone(&shared);
        let thread = Builder::new().name("journal".into()).spawn(move || {
            if catch_unwind(AssertUnwindSafe(|| writing.run())).is_err() {
                state.failed.store(true, Ordering::Release);
                writing.report(WriterEvent::Panicked);
            }
        })?;
        Ok(Self { shared: Some(shared), thread: Mutex::new(Some(thread)) })
    }

    /// A writer that keeps nothing. Every number it gives is 0 and durable.
    pub fn memory() -> Self {
        Self { shared: None, thread: Mutex::new(None) }
    }

    /// Appends the whole state of `key` and gives the record's number.
    ///
    /// Call it while you hold the lock under which the state was changed: the journal keeps the order of the calls,
    /// and the last record of a key is what a restart finds.
    pub fn append(&self, key: &[u8], value: &[u8]) -> u64 {
        self.batch(|batch| batch.put(key, |buffer| buffer.extend_from_slice(value)))
    }

    /// As [`Writer::append`], with the value written by `value`, which may only append, and should do nothing else: it
    /// runs under the buffer's lock.
    pub fn append_with(&self, key: &[u8], value: impl FnOnce(&mut Vec<u8>)) -> u64 {
        self.batch(|batch| batch.put(key, value))
    }

    /// Appends that `key` is gone.
    pub fn remove(&self, key: &[u8]) -> u64 {
        self.batch(|batch| batch.put(key, |_| {}))
    }

    /// Appends several records under one lock and gives the number of the last.
    pub fn batch(&self, fill: impl FnOnce(&mut Batch<'_>)) -> u64 {
        let Some(shared) = &self.shared else { return 0 };
        let mut pending = shared.lock();
        let good = pending.bytes.len();
        let mut batch = Batch { pending: &mut pending, good, buffer_bytes_max: shared.buffer_bytes_max };
        fill(&mut batch);
        drop(batch);
        let number = pending.last;
        let wake = pending.sleeping;
        if wake {
            pending.sleeping = false;
        }
        drop(pending);
        if wake {
            shared.wake.notify_one();
        }
        number
    }

    /// The number up to which all records are on the disk.
    pub fn durable(&self) -> u64 {
        self.shared.as_ref().map_or(0, |shared| shared.durable.load(Ordering::Acquire))
    }

    /// True while records cannot be brought to the disk.
    pub fn failed(&self) -> bool {
        self.shared.as_ref().is_some_and(|shared| shared.failed.load(Ordering::Acquire))
    }

    /// Figures since the start.
    pub fn stats(&self) -> WriterStats {
        let Some(shared) = &self.shared else { return WriterStats::default() };
        let pending = shared.lock();
        let counted = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        WriterStats {
            appended: pending.last,
            durable: counted(&shared.durable),
            dropped: pending.dropped,
            refused: pending.refused,
            waiting_bytes: pending.bytes.len() as u64,
            writes: counted(&shared.writes),
            written_bytes: counted(&shared.written_bytes),
            syncs: counted(&shared.syncs),
            snapshots: counted(&shared.snapshots),
            failures: counted(&shared.failures),
            disk_bytes: counted(&shared.disk_bytes),
            lost_records: shared.lost_records,
            damaged_files: shared.damaged_files,
        }
    }

    /// Writes what waits, brings it to the disk and ends the threads. With a disk that fails it gives up after a few
    /// seconds. Records appended afterwards are not kept.
    pub fn stop(&self) {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        let (Some(shared), Some(thread)) = (&self.shared, thread) else { return };
        shared.lock().stop = true;
        shared.wake.notify_one();
        let _ = thread.join();
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Counters of a writer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriterStats {
    /// Records appended; also the number of the last.
    pub appended: u64,
    /// The number up to which all are on the disk.
    pub durable: u64,
    /// Records dropped because [`BUFFER_BYTES_MAX`] waited; a snapshot makes up for them.
    pub dropped: u64,
    /// Records that are not kept because they are longer than any may be.
    pub refused: u64,
    /// Bytes that wait in memory.
    pub waiting_bytes: u64,
    /// Writes, each of a whole batch.
    pub writes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Times the disk was asked to have it all.
    pub syncs: u64,
    /// Snapshots written.
    pub snapshots: u64,
    /// Writes, syncs and snapshots that failed.
    pub failures: u64,
    /// Bytes of all the journal's files.
    pub disk_bytes: u64,
    /// Records that damaged files had lost when the journal was read, or at least so many.
    pub lost_records: u64,
    /// Files that were damaged or missing when the journal was read.
    pub damaged_files: u64,
}

/// Records being appended under one lock.
pub struct Batch<'a> {
    pending: &'a mut Pending,
    /// Length of the whole records in the buffer; a caller that panics while it writes one leaves nothing behind.
    good: usize,
    buffer_bytes_max: usize,
}

impl Batch<'_> {
    /// Adds the whole state of `key`, written by `value`, which may only append; nothing written: the key is gone.
    /// A key longer than [`crate::KEY_BYTES_MAX`] or a value longer than [`crate::VALUE_BYTES_MAX`] is counted and not
    /// kept.
    pub fn put(&mut self, key: &[u8], value: impl FnOnce(&mut Vec<u8>)) {
        self.pending.last += 1;
        if self.pending.bytes.len() + RECORD_HEADER_BYTES + key.len() > self.buffer_bytes_max {
            self.pending.dropped += 1;
        } else if encode(&mut self.pending.bytes, key, value) {
            self.good = self.pending.bytes.len();
        } else {
            self.pending.refused += 1;
        }
    }
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        self.pending.bytes.truncate(self.good);
    }
}
