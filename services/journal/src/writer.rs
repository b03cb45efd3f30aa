//! Writing end of the journal: a buffer in memory, to which threads append under a short lock.
//!
//! An appending thread makes no system call, except that it wakes the journal's thread with the first record after a
//! pause, with the record that fills the buffer to a limit, and with [`Durability::Strict`]. The journal's thread takes
//! the whole buffer and writes it at once; `pace.rs` says when.
//!
//! Guarantees of [`Durability`]:
//! - relaxed: a record is durable within 1 s. It is written within 250 ms, or after a sync that takes longer, and
//!   survives the death of the process from then on; it is synced twice a second, and survives a power failure from
//!   then on.
//! - strict: [`Writer::durable`] reaches a record's number when the record is durable, never before. While the disk
//!   fails it does not advance, and [`Writer::failed`] is true.

use crate::record::{RECORD_BYTES_MAX, RECORD_HEADER_BYTES, encode};
use crate::shared::{Pending, Shared};
use crate::snapshot::Snapshots;
use crate::writer_thread::{Durability, WriterEvent, WriterThread};
use crate::{Journal, SnapshotSource};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};

/// Maximum number of bytes that wait for the disk. Further records are dropped and counted, and a snapshot is written
/// when the disk works again.
pub const BUFFER_BYTES_MAX: usize = 128 << 20;

/// Bytes of memory of what waits, and of what is being written.
pub const MEMORY_BYTES_MAX: usize = 2 * (BUFFER_BYTES_MAX + RECORD_BYTES_MAX);

/// The journal's writing end, for any number of threads.
pub struct Writer {
    /// `None`: records are not stored.
    shared: Option<Arc<Shared>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Writer {
    /// Starts the threads that write `journal`.
    ///
    /// `source` walks the live table when a snapshot is due. The journal's thread calls `on_event`, which must not
    /// block.
    ///
    /// # Errors
    /// A thread cannot be created.
    pub fn start(
        journal: Journal,
        durability: Durability,
        source: SnapshotSource,
        on_event: Box<dyn Fn(WriterEvent<'_>) + Send>,
    ) -> io::Result<Self> {
        Self::start_with(journal, durability, BUFFER_BYTES_MAX, source, on_event)
    }

    /// Like [`Writer::start`], with a limit other than [`BUFFER_BYTES_MAX`].
    ///
    /// # Errors
    /// A thread cannot be created.
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

    /// Creates a writer whose thread the test replaces.
    #[cfg(test)]
    pub(crate) fn without_thread(shared: Arc<Shared>) -> Self {
        Self { shared: Some(shared), thread: Mutex::new(None) }
    }

    /// Creates a writer that stores nothing. Its record numbers are 0, which is always durable.
    pub fn memory() -> Self {
        Self { shared: None, thread: Mutex::new(None) }
    }

    /// Appends the complete state of `key` and returns the record's number.
    ///
    /// Call it under the lock that protects the state: the journal keeps the order of the calls, and the last record of
    /// a key is its state after a restart.
    pub fn append(&self, key: &[u8], value: &[u8]) -> u64 {
        self.batch(|batch| batch.put(key, |buffer| buffer.extend_from_slice(value)))
    }

    /// Like [`Writer::append`], with the value written by `value`, which may only append and runs under the buffer's
    /// lock.
    pub fn append_with(&self, key: &[u8], value: impl FnOnce(&mut Vec<u8>)) -> u64 {
        self.batch(|batch| batch.put(key, value))
    }

    /// Appends the removal of `key`.
    pub fn remove(&self, key: &[u8]) -> u64 {
        self.batch(|batch| batch.put(key, |_| {}))
    }

    /// Appends several records under one lock and returns the number of the last one.
    pub fn batch(&self, fill: impl FnOnce(&mut Batch<'_>)) -> u64 {
        let Some(shared) = &self.shared else { return 0 };
        let mut pending = shared.lock();
        let good = pending.bytes.len();
        let mut batch = Batch { pending: &mut pending, good, buffer_bytes_max: shared.buffer_bytes_max };
        fill(&mut batch);
        drop(batch);
        let number = pending.last;
        let is_wake_due = pending.take_wake();
        drop(pending);
        if is_wake_due {
            shared.wake.notify_one();
        }
        number
    }

    /// Number up to which all records are durable.
    pub fn durable(&self) -> u64 {
        self.shared.as_ref().map_or(0, |shared| shared.durable.load(Ordering::Acquire))
    }

    /// True while records cannot be made durable.
    pub fn failed(&self) -> bool {
        self.shared.as_ref().is_some_and(|shared| shared.failed.load(Ordering::Acquire))
    }

    /// Counters since the start.
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
            wakes: pending.wakes,
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

    /// Writes the buffered records, makes them durable and ends the threads. If the disk fails it gives up after a few
    /// seconds. Records appended afterwards are not stored.
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
    /// Records appended; also the number of the last one.
    pub appended: u64,
    /// Number up to which all records are durable.
    pub durable: u64,
    /// Records dropped because the buffer was full; the next snapshot contains their state.
    pub dropped: u64,
    /// Records refused because their key or value was too long.
    pub refused: u64,
    /// Bytes in the buffer.
    pub waiting_bytes: u64,
    /// Times that an appending thread woke the journal's thread.
    pub wakes: u64,
    /// Writes, each of a whole batch.
    pub writes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Syncs.
    pub syncs: u64,
    /// Snapshots written.
    pub snapshots: u64,
    /// Writes, syncs and snapshots that failed.
    pub failures: u64,
    /// Total size of the journal's files in bytes.
    pub disk_bytes: u64,
    /// Lower bound of the records that were lost in damaged files at recovery.
    pub lost_records: u64,
    /// Files that were damaged or missing at recovery.
    pub damaged_files: u64,
}

/// Batch of records that is appended under one lock.
pub struct Batch<'a> {
    pending: &'a mut Pending,
    /// Length of the complete records in the buffer; an incomplete one of a caller that panics is cut off.
    good: usize,
    buffer_bytes_max: usize,
}

impl Batch<'_> {
    /// Appends the complete state of `key`, written by `value`, which may only append; an empty value removes the key.
    /// A key longer than [`crate::KEY_BYTES_MAX`] or a value longer than [`crate::VALUE_BYTES_MAX`] is counted and not
    /// stored.
    pub fn put(&mut self, key: &[u8], value: impl FnOnce(&mut Vec<u8>)) {
        self.pending.last += 1;
        if self.pending.bytes.len() + RECORD_HEADER_BYTES + key.len() > self.buffer_bytes_max {
            self.pending.dropped += 1;
            return;
        }
        self.make_room();
        if encode(&mut self.pending.bytes, key, value) {
            self.good = self.pending.bytes.len();
        } else {
            self.pending.refused += 1;
        }
    }

    /// Ends the doubling of a buffer that would have room for more than its limit.
    fn make_room(&mut self) {
        let (bytes, most) = (&mut self.pending.bytes, self.buffer_bytes_max + RECORD_BYTES_MAX);
        if bytes.capacity() > self.buffer_bytes_max / 2 && bytes.capacity() < most {
            bytes.reserve_exact(most - bytes.len());
        }
    }
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        self.pending.bytes.truncate(self.good);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Recovery;

    #[test]
    fn the_memory_of_a_full_buffer_is_the_published_one_at_most() {
        let most = 8 << 20;
        let writer = Writer::without_thread(Arc::new(Shared::new(most, &Recovery::default())));
        let taken = allocation_counter::measure(|| {
            let mut number = 0_u32;
            while writer.stats().dropped == 0 {
                writer.append(&number.to_le_bytes(), &[b'x'; 1000]);
                number += 1;
            }
            writer.append(b"long", &vec![b'x'; crate::VALUE_BYTES_MAX]);
        });
        let (taken, size) = (taken.bytes_current as usize, most + RECORD_BYTES_MAX);
        assert!((most..=size).contains(&taken), "{taken} of {size}");
    }
}
