//! The thread that numbers the records, keeps the last ones, and writes them.

use super::super::lock::lock;
use super::queue::Queue;
use super::row::row_of;
use super::sink::Sink;
use ringway_admin::{CallRecord as Row, Page};
use ringway_sansio::Instant as WallTime;
use ringway_server::CallRecord;
use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
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

/// Records of the calls that ended last.
#[derive(Default)]
struct LastRecords {
    rows: VecDeque<Arc<Row>>,
    count: u64,
}

#[derive(Default)]
struct Sinks {
    now: Vec<Sink>,
    /// Records that were lost by outputs that were replaced.
    lost: u64,
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

    /// Writes what waits to the outputs of now, and uses others from then on.
    pub(super) fn replace(&self, sinks: Vec<Sink>) {
        self.shared.turn();
        let mut outputs = lock(&self.shared.sinks);
        outputs.lost += outputs.now.iter().map(|sink| sink.lost() + sink.waiting_len() as u64).sum::<u64>();
        outputs.now = sinks;
    }

    /// Opens the file again.
    pub(super) fn reopen(&self) {
        lock(&self.shared.sinks).now.iter_mut().for_each(Sink::reopen);
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
        let newer = last.rows.iter().filter(|row| row.n > after);
        let items: Vec<Row> = newer.take(limit).map(|row| Row::clone(row)).collect();
        let ends_at = items.last().map(|row| row.n);
        let next = ends_at.filter(|n| last.rows.back().is_some_and(|newest| newest.n > *n));
        Page { items, total: last.rows.len() as u64, next: next.map(|n| n.to_string()) }
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
        for record in self.queue.take() {
            let row = lock(&self.last).add(&record);
            sinks.now.iter_mut().for_each(|sink| sink.push(&row));
        }
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let wall = WallTime::default() + wall;
        sinks.now.iter_mut().for_each(|sink| sink.write(Instant::now(), wall));
        *lock(&self.stats) = WriterStats {
            lost: sinks.lost + sinks.now.iter().map(Sink::lost).sum::<u64>(),
            waiting: sinks.now.iter().map(Sink::waiting_len).sum(),
            is_failing: sinks.now.iter().any(Sink::is_failing),
        };
    }
}

impl LastRecords {
    fn add(&mut self, record: &CallRecord) -> Arc<Row> {
        self.count += 1;
        let row = Arc::new(row_of(self.count, record));
        if self.rows.len() >= KEPT {
            self.rows.pop_front();
        }
        self.rows.push_back(Arc::clone(&row));
        row
    }
}

/// Time after which an ended call is written.
const INTERVAL: Duration = Duration::from_millis(200);
/// Time limit of writing what waits at the end.
const STOP_MAX: Duration = Duration::from_secs(2);
/// Number of records in memory.
const KEPT: usize = 1000;
