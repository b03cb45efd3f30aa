//! The journal's thread: writes and syncs the buffer, at the times of [`Pace`], starts snapshots, and handles disk
//! failures.
//!
//! ```text
//!            buffer due (see `Pace`)               due (relaxed: every 500 ms; strict: at once)
//!   wait ------------------------> write ---------------------------------------------------> sync -> durable
//!     ^                              | error: reported once, retried         error: what was written since the last
//!     +--- all written ---<----------+ every second, `failed`                sync may be gone -> new segment, snapshot
//! ```
//! After a full disk or a file size limit the same write is repeated. After any other failure, in particular of a sync,
//! the system may have discarded written bytes and report the next sync as successful. That is a loss, and so are
//! records dropped because the buffer was full. Only a new segment and a snapshot of the whole table repair a loss, and
//! until then nothing further counts as durable. Records that are buffered when that segment begins are discarded,
//! because the table contains their state: after the snapshot they could only restore an older state of a key.
//!
//! ```text
//! relaxed   idle --record--> take --record--> sleep --250 ms or 256 KiB--> take --...--> nothing in 250 ms --> idle
//!           sync 500 ms after the last sync, or at once if that is longer ago
//! strict    take and sync whenever there is a record
//! ```
//! The first record after a pause wakes the thread and is taken at once; the second one wakes it too, and begins the
//! ticks. Then the thread sleeps on its own timer, and appending threads make no system call until a tick without a
//! record ends the ticks. An idle thread has no timer.

use crate::Journal;
use crate::shared::{Pending, Shared, WAKE_NEVER};
use crate::snapshot::Snapshots;
use std::io::{self, ErrorKind};
use std::mem;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

/// Time after a failure until the next try.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// Delay after a failed snapshot, at first and at most.
const SNAPSHOT_RETRY_MIN: Duration = Duration::from_secs(2);
const SNAPSHOT_RETRY_MAX: Duration = Duration::from_secs(300);
/// Time limit of a stop while the disk fails.
const STOP_WAIT_MAX: Duration = Duration::from_secs(3);
/// Interval of the retries during a stop.
const STOP_RETRY_INTERVAL: Duration = Duration::from_millis(50);
/// A buffer that is larger than this after a write is freed.
const BUFFER_KEPT_BYTES: usize = 4 << 20;

/// Report of the journal's thread.
#[derive(Debug)]
pub enum WriterEvent<'a> {
    /// All records up to this number are durable.
    Durable(u64),
    /// The disk fails; reported once until it works again.
    Failing(&'a io::Error),
    /// The disk works again after this duration.
    Recovered(Duration),
    /// The writer was stopped while the disk failed, and the last records are lost.
    StoppedWithLoss,
    /// The thread panicked, and nothing is written any more.
    Panicked,
}

pub(crate) struct WriterThread {
    shared: Arc<Shared>,
    journal: Journal,
    pace: Pace,
    snapshots: Snapshots,
    on_event: Box<dyn Fn(WriterEvent<'_>) + Send>,
    /// Batch that is being written, and the number of its last record.
    batch: Vec<u8>,
    batch_last: u64,
    /// Number of the last written record.
    written: u64,
    durable: u64,
    /// Time of the next try while writing fails.
    retry_at: Option<Instant>,
    failing_since: Option<Instant>,
    /// Number of losses, and how many of them a snapshot has repaired.
    losses: u64,
    losses_repaired: u64,
    dropped_seen: u64,
    /// Number of losses that the running snapshot repairs.
    losses_in_snapshot: Option<u64>,
    snapshot_retry: Duration,
    snapshot_retry_at: Option<Instant>,
    stopping: bool,
}

impl WriterThread {
    pub(crate) fn new(
        shared: Arc<Shared>,
        journal: Journal,
        durability: Durability,
        snapshots: Snapshots,
        on_event: Box<dyn Fn(WriterEvent<'_>) + Send>,
    ) -> Self {
        Self {
            pace: Pace::new(durability, shared.buffer_bytes_max),
            shared,
            journal,
            snapshots,
            on_event,
            batch: Vec::new(),
            batch_last: 0,
            written: 0,
            durable: 0,
            retry_at: None,
            failing_since: None,
            losses: 0,
            losses_repaired: 0,
            dropped_seen: 0,
            losses_in_snapshot: None,
            snapshot_retry: SNAPSHOT_RETRY_MIN,
            snapshot_retry_at: None,
            stopping: false,
        }
    }

    /// Runs until it is stopped.
    pub(crate) fn run(&mut self) {
        while !self.wait_for_work() {
            self.run_once(Instant::now());
        }
        self.finish();
    }

    /// Waits until there is work. True: stop.
    fn wait_for_work(&mut self) -> bool {
        let shared = Arc::clone(&self.shared);
        let mut pending = shared.lock();
        loop {
            let now = Instant::now();
            let Next::Sleep { until, .. } = self.next(&mut pending, now) else { return pending.stop };
            let wake = &shared.wake;
            pending = match until {
                None => wake.wait(pending).unwrap_or_else(PoisonError::into_inner),
                Some(until) => {
                    let left = until.saturating_duration_since(now);
                    wake.wait_timeout(pending, left).unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    /// Decides whether there is work at `now`, and sets the buffer length at which an append wakes this thread.
    pub(crate) fn next(&mut self, pending: &mut Pending, now: Instant) -> Next {
        let next = if pending.stop || pending.snapshot.is_some() {
            Next::Work
        } else if self.retry_at.is_some() {
            Next::undisturbed().or_at(now, self.next_deadline(now))
        } else {
            let is_appended = !pending.bytes.is_empty() || pending.last > self.batch_last;
            let waiting = Waiting { bytes: pending.bytes.len(), is_appended };
            self.pace.next(now, waiting).or_at(now, self.next_deadline(now))
        };
        pending.wake_from = match next {
            Next::Work => WAKE_NEVER,
            Next::Sleep { wake_from, .. } => wake_from,
        };
        next
    }

    /// Time of the next work if nothing is appended.
    fn next_deadline(&self, now: Instant) -> Option<Instant> {
        let is_unsynced = self.written > self.durable && !self.has_loss();
        let sync = (is_unsynced && self.retry_at.is_none()).then(|| self.pace.sync_at().unwrap_or(now));
        let is_wanted = (self.has_loss() || self.journal.wants_snapshot()) && self.retry_at.is_none();
        let snapshot = self.snapshot_retry_at.or_else(|| is_wanted.then_some(now));
        let snapshot = snapshot.filter(|_| self.losses_in_snapshot.is_none());
        [sync, self.retry_at, snapshot].into_iter().flatten().min()
    }

    /// Does all work that is due.
    pub(crate) fn run_once(&mut self, now: Instant) {
        self.end_snapshot(now);
        if self.retry_at.is_none_or(|retry| now >= retry) {
            self.retry_at = None;
            self.begin_snapshot_if_due(now);
            if let Err(error) = self.write(now).and_then(|()| self.sync_if_due(now)) {
                self.fail(now, &error);
            }
        }
        if self.retry_at.is_none() && !self.has_loss() {
            self.recover(now);
        }
        self.shared.disk_bytes.store(self.journal.bytes(), Ordering::Relaxed);
    }

    /// Writes the batch that failed before, if there is one, and then the buffer.
    fn write(&mut self, now: Instant) -> io::Result<()> {
        self.write_batch()?;
        let shared = Arc::clone(&self.shared);
        let mut pending = shared.lock();
        self.note_dropped(&pending);
        mem::swap(&mut self.batch, &mut pending.bytes);
        let last = mem::replace(&mut self.batch_last, pending.last);
        if pending.last > last {
            self.pace.taken(now);
        }
        drop(pending);
        self.write_batch()
    }

    fn write_batch(&mut self) -> io::Result<()> {
        if !self.batch.is_empty() {
            if let Err(error) = self.journal.append(&mut self.batch) {
                if !matches!(
                    error.kind(),
                    ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge
                ) {
                    self.losses += 1;
                }
                return Err(error);
            }
            self.shared.writes.fetch_add(1, Ordering::Relaxed);
            self.shared.written_bytes.fetch_add(self.batch.len() as u64, Ordering::Relaxed);
            self.batch.clear();
            if self.batch.capacity() > BUFFER_KEPT_BYTES {
                self.batch = Vec::new();
            }
        }
        self.written = self.batch_last;
        Ok(())
    }

    fn note_dropped(&mut self, pending: &Pending) {
        if pending.dropped != self.dropped_seen {
            self.dropped_seen = pending.dropped;
            self.losses += 1;
            self.shared.failed.store(true, Ordering::Release);
        }
    }

    fn sync_if_due(&mut self, now: Instant) -> io::Result<()> {
        let is_due = self.stopping || self.pace.is_sync_due(now);
        if self.has_loss() || self.written <= self.durable || !is_due {
            return Ok(());
        }
        self.sync(now)
    }

    fn sync(&mut self, now: Instant) -> io::Result<()> {
        self.pace.sync_begins(now);
        if let Err(error) = self.journal.sync() {
            self.losses += 1;
            return Err(error);
        }
        self.shared.syncs.fetch_add(1, Ordering::Relaxed);
        self.publish(self.written);
        Ok(())
    }

    fn publish(&mut self, number: u64) {
        if number > self.durable {
            self.durable = number;
            self.shared.durable.store(number, Ordering::Release);
            self.report(WriterEvent::Durable(number));
        }
    }

    pub(crate) fn report(&self, event: WriterEvent<'_>) {
        (self.on_event)(event);
    }

    /// True while there is a loss that no snapshot has repaired.
    fn has_loss(&self) -> bool {
        self.losses > self.losses_repaired
    }

    fn begin_snapshot_if_due(&mut self, now: Instant) {
        let is_wanted = self.has_loss() || (self.journal.wants_snapshot() && !self.stopping);
        let is_retry_due = self.snapshot_retry_at.is_none_or(|retry| now >= retry);
        if !is_wanted || !is_retry_due || self.losses_in_snapshot.is_some() {
            return;
        }
        if self.has_loss() {
            self.discard_waiting();
        } else if let Err(error) = self.sync(now) {
            self.fail(now, &error);
            return;
        }
        match self.journal.begin_segment() {
            Ok(segment) => {
                self.losses_in_snapshot = Some(self.losses);
                self.snapshots.begin(segment);
            }
            Err(error) => {
                self.report_failure(now, &error);
                self.delay_snapshot(now);
            }
        }
    }

    /// Discards records whose state the next snapshot contains.
    fn discard_waiting(&mut self) {
        let shared = Arc::clone(&self.shared);
        let mut pending = shared.lock();
        self.note_dropped(&pending);
        pending.bytes = Vec::new();
        self.batch = Vec::new();
        self.batch_last = pending.last;
        self.written = pending.last;
    }

    fn end_snapshot(&mut self, now: Instant) {
        let Some(result) = self.shared.lock().snapshot.take() else { return };
        let Some(repaired) = self.losses_in_snapshot.take() else { return };
        match result {
            Ok(bytes) => {
                self.journal.snapshot_written(bytes);
                self.shared.snapshots.fetch_add(1, Ordering::Relaxed);
                self.snapshot_retry = SNAPSHOT_RETRY_MIN;
                self.snapshot_retry_at = None;
                self.losses_repaired = self.losses_repaired.max(repaired);
            }
            Err(error) => {
                self.report_failure(now, &error);
                self.delay_snapshot(now);
            }
        }
    }

    fn delay_snapshot(&mut self, now: Instant) {
        self.snapshot_retry_at = Some(now + self.snapshot_retry);
        self.snapshot_retry = (self.snapshot_retry * 2).min(SNAPSHOT_RETRY_MAX);
    }

    /// Handles a failed write or sync: schedules the next try.
    fn fail(&mut self, now: Instant, error: &io::Error) {
        self.retry_at = Some(now + RETRY_INTERVAL);
        self.shared.failed.store(true, Ordering::Release);
        self.report_failure(now, error);
    }

    /// Reports a failing disk once until it works again.
    fn report_failure(&mut self, now: Instant, error: &io::Error) {
        self.shared.failures.fetch_add(1, Ordering::Relaxed);
        if self.failing_since.is_none() {
            self.failing_since = Some(now);
            self.report(WriterEvent::Failing(error));
        }
    }

    /// Reports that the disk works again, if it failed before.
    fn recover(&mut self, now: Instant) {
        self.shared.failed.store(false, Ordering::Release);
        if self.snapshot_retry_at.is_some() {
            return;
        }
        if let Some(since) = self.failing_since.take() {
            self.report(WriterEvent::Recovered(now.saturating_duration_since(since)));
        }
    }

    /// Writes and syncs the rest at a stop.
    fn finish(&mut self) {
        self.stopping = true;
        let deadline = Instant::now() + STOP_WAIT_MAX;
        let is_kept = loop {
            self.retry_at = None;
            self.snapshot_retry_at = None;
            self.run_once(Instant::now());
            let is_kept = self.retry_at.is_none() && !self.has_loss() && self.written <= self.durable;
            if is_kept || Instant::now() >= deadline {
                break is_kept;
            }
            std::thread::sleep(STOP_RETRY_INTERVAL);
        };
        self.snapshots.stop();
        if is_kept {
            self.journal.close();
        } else {
            self.report(WriterEvent::StoppedWithLoss);
        }
    }
}

/// Relaxed: interval at which the buffer is taken and written. A record that is only in the buffer is lost when the
/// process is killed.
pub(crate) const TICK: Duration = Duration::from_millis(250);
/// Relaxed: length of the buffer at which it is taken before the tick ends, so that it stays in the processor's cache
/// and the memory is limited at any rate.
pub(crate) const TAKE_BYTES: usize = 256 << 10;
/// Relaxed: interval of the syncs. The rest of the second in which a record must be durable is for the sync itself.
pub(crate) const SYNC_INTERVAL: Duration = Duration::from_millis(500);

/// Moment at which a record counts as stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// The record is appended; it is durable within 1 s.
    #[default]
    Relaxed,
    /// The record is durable.
    Strict,
}

/// Times of the last take and of the last sync.
#[derive(Clone, Copy, Debug)]
struct Pace {
    durability: Durability,
    /// Length of the buffer at which it is taken before the tick ends.
    take_bytes: usize,
    taken_at: Option<Instant>,
    synced_at: Option<Instant>,
    /// True while the thread wakes up at the end of each tick.
    is_ticking: bool,
}

/// State of the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Waiting {
    /// Its length in bytes.
    pub(crate) bytes: usize,
    /// True if something was appended since the last take; a refused record has no bytes.
    pub(crate) is_appended: bool,
}

/// Next action of the journal's thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// There is work.
    Work,
    /// Nothing is due before `until`, unless the buffer reaches `wake_from` bytes.
    Sleep { until: Option<Instant>, wake_from: usize },
}

impl Pace {
    /// `buffer_bytes_max`: limit of the buffer; it is taken before it is full.
    pub(crate) fn new(durability: Durability, buffer_bytes_max: usize) -> Self {
        let take_bytes = TAKE_BYTES.min(buffer_bytes_max / 2);
        Self { durability, take_bytes, taken_at: None, synced_at: None, is_ticking: false }
    }

    /// Notes that a buffer with records was taken.
    pub(crate) fn taken(&mut self, now: Instant) {
        self.taken_at = Some(now);
    }

    /// Notes that a sync begins.
    fn sync_begins(&mut self, now: Instant) {
        self.synced_at = Some(now);
    }

    /// Time at which records that are written should be synced; `None`: at once.
    fn sync_at(&self) -> Option<Instant> {
        match self.durability {
            Durability::Strict => None,
            Durability::Relaxed => self.synced_at.map(|synced| synced + SYNC_INTERVAL),
        }
    }

    fn is_sync_due(&self, now: Instant) -> bool {
        self.sync_at().is_none_or(|due| now >= due)
    }

    /// Decides on the buffer.
    pub(crate) fn next(&mut self, now: Instant, waiting: Waiting) -> Next {
        let tick_end = match self.durability {
            Durability::Strict => None,
            Durability::Relaxed => self.taken_at.map(|taken| taken + TICK).filter(|end| *end > now),
        };
        match tick_end {
            Some(end) if waiting.bytes < self.take_bytes && (waiting.is_appended || self.is_ticking) => {
                self.is_ticking = true;
                Next::Sleep { until: Some(end), wake_from: self.take_bytes }
            }
            Some(_) | None if waiting.is_appended => Next::Work,
            Some(_) | None => {
                self.is_ticking = false;
                Next::Sleep { until: None, wake_from: 0 }
            }
        }
    }
}

impl Next {
    /// Makes `deadline` end the sleep too.
    fn or_at(self, now: Instant, deadline: Option<Instant>) -> Self {
        match (self, deadline) {
            (Self::Work, _) => Self::Work,
            (Self::Sleep { .. }, Some(deadline)) if deadline <= now => Self::Work,
            (Self::Sleep { until, wake_from }, deadline) => {
                Self::Sleep { until: [until, deadline].into_iter().flatten().min(), wake_from }
            }
        }
    }

    /// Sleep that no append ends.
    fn undisturbed() -> Self {
        Self::Sleep { until: None, wake_from: WAKE_NEVER }
    }
}

#[cfg(test)]
#[path = "pace_tests.rs"]
mod tests;
