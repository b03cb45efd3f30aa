//! The thread that numbers the records, keeps the last ones, and writes them, and the queue of ended calls on their way to
//! it.

use super::Numbered;
use super::line::row_of;
use super::sink::Sink;
use crate::serve::lock;
use ringway_admin::{CallRecord as Row, Page};
use ringway_sansio::Instant as WallTime;
use ringway_server::{CallRecord, CallSender};
use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

#[derive(Default)]
pub(super) struct Writer {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Default)]
struct Shared {
    queue: Queue,
    last: Mutex<LastRecords>,
    sinks: Mutex<Sinks>,
    /// Figures after the last turn: who reads them does not wait for a disk.
    stats: Mutex<WriterStats>,
    is_stopping: AtomicBool,
}

/// Records of the calls that ended last. Those of strangers displace none of users.
#[derive(Default)]
struct LastRecords {
    users: VecDeque<Arc<Numbered>>,
    strangers: VecDeque<Arc<Numbered>>,
    count: u64,
}

#[derive(Default)]
struct Sinks {
    now: Vec<Sink>,
    /// Figures of the outputs that were replaced.
    before: WriterStats,
}

/// Figures of the writer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WriterStats {
    /// Records that did not fit into a queue.
    pub(crate) lost: u64,
    /// Records that wait for an output.
    pub(crate) waiting: usize,
    /// True while an output fails.
    pub(crate) is_failing: bool,
    /// Older files that were replaced because of `max_mb`.
    pub(crate) files_removed: u64,
    /// Rows that were removed from the database because of `max_mb`.
    pub(crate) rows_removed: u64,
}

impl Writer {
    /// Starts the thread, unless it runs.
    pub(super) fn start(&self) -> io::Result<()> {
        let mut thread = lock(&self.thread);
        if thread.is_none() {
            let shared = Arc::clone(&self.shared);
            *thread = Some(thread::Builder::new().name("records".to_owned()).spawn(move || shared.run())?);
        }
        Ok(())
    }

    /// Adds the record of a call.
    pub(super) fn push(&self, record: CallRecord) {
        self.shared.queue.push(record);
    }

    /// Records that did not fit into the queue.
    #[cfg(test)]
    pub(super) fn queue_lost(&self) -> u64 {
        self.shared.queue.lost()
    }

    /// Records that wait in the queue.
    #[cfg(test)]
    pub(super) fn taken(&self) -> VecDeque<CallRecord> {
        self.shared.queue.take()
    }

    /// Writes what waits to the outputs of now, and uses others from then on.
    pub(super) fn replace(&self, sinks: Vec<Sink>) {
        self.shared.turn();
        let mut outputs = lock(&self.shared.sinks);
        let stats = outputs.stats();
        outputs.before =
            WriterStats { lost: stats.lost + stats.waiting as u64, waiting: 0, is_failing: false, ..stats };
        outputs.now = sinks;
    }

    /// Opens the file again.
    pub(super) fn reopen(&self) {
        lock(&self.shared.sinks).now.iter_mut().for_each(Sink::reopen);
    }

    /// Waits until there is room for [`ROOM`] records, at most until `until`.
    pub(super) fn make_room(&self, until: Instant) {
        if let Some(thread) = &*lock(&self.thread) {
            thread.thread().unpark();
        }
        while !self.shared.queue.has_room() && Instant::now() < until {
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Writes what waits, and ends the thread.
    pub(super) fn stop(&self) {
        self.shared.is_stopping.store(true, Ordering::Release);
        let thread = lock(&self.thread).take();
        if let Some(thread) = thread {
            thread.thread().unpark();
            let until = Instant::now() + STOP_MAX;
            while !thread.is_finished() && Instant::now() < until {
                thread::sleep(Duration::from_millis(5));
            }
            if !thread.is_finished() {
                tracing::warn!("call records are lost: the disk did not take them in time");
            }
        }
    }

    pub(super) fn records(&self, after: u64, limit: usize) -> Page<Row> {
        let last = lock(&self.shared.last);
        let mut newer: Vec<_> = last.all().filter(|ended| ended.n > after).collect();
        newer.sort_unstable_by_key(|ended| ended.n);
        let items: Vec<Row> = newer.iter().take(limit).map(|ended| row_of(ended)).collect();
        let next = if newer.len() > items.len() { items.last().map(|row| row.n.to_string()) } else { None };
        Page { items, total: last.all().count() as u64, next }
    }

    pub(super) fn stats(&self) -> WriterStats {
        let stats = *lock(&self.shared.stats);
        WriterStats { lost: stats.lost + self.shared.queue.lost(), ..stats }
    }
}

impl Shared {
    fn run(&self) {
        loop {
            let is_last = self.is_stopping.load(Ordering::Acquire);
            self.turn();
            if is_last {
                return;
            }
            thread::park_timeout(INTERVAL);
        }
    }

    fn turn(&self) {
        // Held through the writes, so that a reload waits for a disk; no message does.
        let mut sinks = lock(&self.sinks);
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let wall = WallTime::default() + wall;
        for record in self.queue.take() {
            let ended = lock(&self.last).add(record);
            for sink in &mut sinks.now {
                if sink.is_full() {
                    sink.write(Instant::now(), wall);
                }
                sink.push(&ended);
            }
        }
        sinks.now.iter_mut().for_each(|sink| sink.write(Instant::now(), wall));
        *lock(&self.stats) = sinks.stats();
    }
}

impl Sinks {
    fn stats(&self) -> WriterStats {
        let mut stats = self.before;
        for sink in &self.now {
            let (files, rows) = sink.removed();
            stats.lost += sink.lost();
            stats.waiting += sink.waiting_len();
            stats.is_failing |= sink.is_failing();
            stats.files_removed += files;
            stats.rows_removed += rows;
        }
        stats
    }
}

impl LastRecords {
    fn add(&mut self, record: CallRecord) -> Arc<Numbered> {
        self.count += 1;
        let (rows, kept) = match record.sender {
            CallSender::Proven | CallSender::Believed => (&mut self.users, KEPT),
            CallSender::Stranger => (&mut self.strangers, STRANGERS_KEPT),
        };
        let ended = Arc::new(Numbered { n: self.count, record });
        if rows.len() >= kept {
            rows.pop_front();
        }
        rows.push_back(Arc::clone(&ended));
        ended
    }

    fn all(&self) -> impl Iterator<Item = &Arc<Numbered>> {
        self.users.iter().chain(&self.strangers)
    }
}

/// Time after which an ended call is written.
const INTERVAL: Duration = Duration::from_millis(200);
/// Time limit of writing what waits at the end.
const STOP_MAX: Duration = Duration::from_secs(2);
/// Number of records in memory, and of those of strangers beside them.
const KEPT: usize = 1000;
const STRANGERS_KEPT: usize = 250;

/// Bounded queue. Nobody is woken: the thread looks every 200 ms.
#[derive(Default)]
pub(super) struct Queue {
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    records: VecDeque<CallRecord>,
    bytes: usize,
    lost: u64,
}

impl Queue {
    /// Adds a record, or counts it as lost.
    pub(super) fn push(&self, record: CallRecord) {
        let mut waiting = self.lock();
        let size = record.size();
        if waiting.records.len() >= RECORDS_MAX || waiting.bytes + size > BYTES_MAX {
            waiting.lost += 1;
            return;
        }
        waiting.bytes += size;
        waiting.records.push_back(record);
    }

    pub(super) fn take(&self) -> VecDeque<CallRecord> {
        let mut waiting = self.lock();
        waiting.bytes = 0;
        std::mem::take(&mut waiting.records)
    }

    /// True if there is room for [`ROOM`] records of any length.
    fn has_room(&self) -> bool {
        let waiting = self.lock();
        waiting.records.len() + ROOM <= RECORDS_MAX && waiting.bytes <= BYTES_MAX / 2
    }

    /// Records that did not fit.
    pub(super) fn lost(&self) -> u64 {
        self.lock().lost
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Maximum number of ended calls that wait: those of 200 ms.
const RECORDS_MAX: usize = 10_000;
pub(super) const BYTES_MAX: usize = 8 << 20;
/// Number of records that one round adds when all calls end; half of the bytes are enough for the longest ones.
pub(super) const ROOM: usize = 1000;
