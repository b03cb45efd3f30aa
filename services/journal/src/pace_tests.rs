//! The journal's thread on a virtual clock: its sleeps, writes and syncs at all rates.
//!
//! The thread's code runs on the test's thread, and each sleep advances the clock. Not tested: real time.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use super::*;
use crate::shared::Shared;
use crate::snapshot::Snapshots;
use crate::writer_thread::WriterThread;
use crate::{Disk, DiskFile, Journal, Writer, WriterStats};
use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;

const KEY: &[u8] = b"subscriber0000001@example.org";
/// With the record's header and key, about 300 bytes.
const VALUE: [u8; 240] = [b'v'; 240];
const RECORD_BYTES: usize = 30 + KEY.len() + VALUE.len();
/// Time in which a relaxed record must be durable.
const DURABLE_WITHIN: Duration = Duration::from_secs(1);

/// A disk that accepts everything.
struct NoDisk;

impl Disk for NoDisk {
    fn create(&self, _: &Path) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(NoFile))
    }
    fn append_to(&self, _: &Path, _: u64) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(NoFile))
    }
    fn rename(&self, _: &Path, _: &Path) -> io::Result<()> {
        Ok(())
    }
    fn remove(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }
    fn keep(&self, _: &Path, _: &Path) -> io::Result<()> {
        Ok(())
    }
    fn sync_folder(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }
}

struct NoFile;

impl DiskFile for NoFile {
    fn append(&mut self, _: &[u8]) -> io::Result<()> {
        Ok(())
    }
    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
    fn cut(&mut self, _: u64) -> io::Result<()> {
        Ok(())
    }
}

/// A writer and the code of its thread, with a clock of their own.
struct Simulation {
    _folder: TempDir,
    shared: Arc<Shared>,
    writer: Writer,
    thread: WriterThread,
    now: Instant,
    /// Duration of a sync.
    sync_takes: Duration,
    /// End of the thread's sleep; `None`: only an append ends it.
    sleeps_until: Option<Instant>,
    /// Times of the records of [`Simulation::load`] that are not appended yet.
    arrivals: VecDeque<Instant>,
    /// Appended records that are not durable: number and time.
    open: VecDeque<(u64, Instant)>,
    slowest: Duration,
    longest_in_buffer: Duration,
    /// Times at which the records in the buffer were appended.
    buffered: VecDeque<Instant>,
    largest_buffer: u64,
    wake_ups: u64,
}

impl Simulation {
    fn new(durability: Durability, buffer_bytes_max: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("r.bindings");
        let journal = Journal::recover_on(Arc::new(NoDisk), &path, |_, _| {}).unwrap();
        let journal = journal.compact_from(u64::MAX);
        let shared = Arc::new(Shared::new(buffer_bytes_max, journal.recovery()));
        let snapshots = Snapshots::start(
            Arc::clone(&shared),
            Arc::clone(journal.disk()),
            journal.names().clone(),
            Box::new(|_| {}),
        )
        .unwrap();
        let thread = WriterThread::new(Arc::clone(&shared), journal, durability, snapshots, Box::new(|_| {}));
        let mut simulation = Self {
            _folder: folder,
            writer: Writer::without_thread(Arc::clone(&shared)),
            shared,
            thread,
            now: Instant::now(),
            sync_takes: Duration::ZERO,
            sleeps_until: None,
            arrivals: VecDeque::new(),
            open: VecDeque::new(),
            slowest: Duration::ZERO,
            longest_in_buffer: Duration::ZERO,
            buffered: VecDeque::new(),
            largest_buffer: 0,
            wake_ups: 0,
        };
        simulation.work();
        simulation
    }

    /// Does the thread's work until it sleeps.
    fn work(&mut self) {
        loop {
            let next = self.thread.next(&mut self.shared.lock(), self.now);
            match next {
                Next::Work => self.run_once(),
                Next::Sleep { until, .. } => {
                    self.sleeps_until = until;
                    return;
                }
            }
        }
    }

    fn run_once(&mut self) {
        let syncs = self.stats().syncs;
        self.thread.run_once(self.now);
        for appended in self.buffered.drain(..) {
            self.longest_in_buffer = self.longest_in_buffer.max(self.now - appended);
        }
        if self.stats().syncs > syncs {
            self.now += self.sync_takes;
        }
        let durable = self.writer.durable();
        while let Some(&(_, arrived)) = self.open.front().filter(|(number, _)| *number <= durable) {
            self.slowest = self.slowest.max(self.now - arrived);
            self.open.pop_front();
        }
        // They are in the buffer when the sync ends.
        self.take_arrivals();
    }

    /// Sleeps until `time`, or works at the end of the thread's sleeps before it.
    fn advance_to(&mut self, time: Instant) {
        while let Some(until) = self.sleeps_until.filter(|until| *until <= time) {
            self.now = self.now.max(until);
            self.wake_ups += 1;
            self.work();
        }
        self.now = self.now.max(time);
    }

    fn append(&mut self, value: &[u8]) {
        self.append_since(self.now, value);
    }

    /// Appends a record that arrived at `arrived`.
    fn append_since(&mut self, arrived: Instant, value: &[u8]) {
        let wakes = self.stats().wakes;
        let number = self.writer.append(KEY, value);
        self.open.push_back((number, arrived));
        self.buffered.push_back(arrived);
        self.largest_buffer = self.largest_buffer.max(self.stats().waiting_bytes);
        if self.stats().wakes > wakes {
            self.wake_ups += 1;
            self.work();
        }
    }

    /// Appends `per_second` records a second for `duration`, evenly spaced.
    fn load(&mut self, per_second: u32, duration: Duration) {
        let begun = self.now;
        let interval = Duration::from_secs(1) / per_second;
        let count = (duration.as_nanos() / interval.as_nanos()) as u32;
        self.arrivals = (0..count).map(|n| begun + interval * n).collect();
        while let Some(&arrival) = self.arrivals.front() {
            self.advance_to(arrival);
            self.take_arrivals();
        }
        self.advance_to(begun + duration);
    }

    /// Appends the records that have arrived.
    fn take_arrivals(&mut self) {
        while let Some(&arrived) = self.arrivals.front().filter(|arrival| **arrival <= self.now) {
            self.arrivals.pop_front();
            self.append_since(arrived, &VALUE);
        }
    }

    fn stats(&self) -> WriterStats {
        self.writer.stats()
    }
}

fn relaxed() -> Simulation {
    Simulation::new(Durability::Relaxed, crate::BUFFER_BYTES_MAX)
}

#[test]
fn records_within_a_tick_are_one_write_and_wake_nobody() {
    let mut simulation = relaxed();
    simulation.append(&VALUE);
    let stats = simulation.stats();
    assert_eq!(
        (stats.wakes, stats.writes, stats.syncs),
        (1, 1, 1),
        "a record after a pause is written at once"
    );
    assert_eq!(simulation.sleeps_until, None, "a single record starts no timer");
    for _ in 0..500 {
        simulation.advance_to(simulation.now + Duration::from_micros(400));
        simulation.append(&VALUE);
    }
    let stats = simulation.stats();
    assert_eq!((stats.wakes, stats.writes), (2, 1), "only the second record wakes the thread");
    simulation.load(3_000, TICK);
    let stats = simulation.stats();
    assert_eq!((stats.wakes, stats.writes), (2, 2));
}

#[test]
fn relaxed_records_are_durable_within_a_second_at_every_rate() {
    for per_second in [1, 3, 5, 10, 100, 1_000, 3_000, 20_000] {
        for sync_takes in [0, 30, 300, 480].map(Duration::from_millis) {
            let mut simulation = relaxed();
            simulation.sync_takes = sync_takes;
            simulation.load(per_second, Duration::from_secs(3));
            simulation.advance_to(simulation.now + DURABLE_WITHIN);
            let what = format!("{per_second}/s, a sync takes {sync_takes:?}");
            assert!(simulation.open.is_empty(), "{what}: {} records are not durable", simulation.open.len());
            assert!(simulation.slowest <= DURABLE_WITHIN, "{what}: {:?}", simulation.slowest);
            let in_buffer = TICK.max(sync_takes);
            assert!(simulation.longest_in_buffer <= in_buffer, "{what}: {:?}", simulation.longest_in_buffer);
        }
    }
}

#[test]
fn the_thread_wakes_up_once_in_a_tick_or_for_a_full_buffer() {
    for (per_second, seconds) in [(1, 20), (3, 20), (5, 10), (100, 10), (3_000, 5), (20_000, 2), (100_000, 1)]
    {
        let mut simulation = relaxed();
        simulation.load(per_second, Duration::from_secs(seconds));
        let stats = simulation.stats();
        let what = format!("{per_second}/s: {} wake-ups, {stats:?}", simulation.wake_ups);
        let full = stats.written_bytes / TAKE_BYTES as u64;
        let ticks = seconds * 4;
        // Below 4 records a second no tick has two: each record wakes the thread, and a timer for its sync.
        let expected = if per_second < 4 { stats.appended + stats.syncs } else { ticks + full + 2 };
        assert!(simulation.wake_ups <= expected, "{what}");
        if per_second >= 5 {
            assert!(stats.wakes <= full + 2, "{what}");
        }
        assert!(stats.syncs <= seconds * 2 + 1, "{what}");
        assert!(simulation.largest_buffer < (TAKE_BYTES + RECORD_BYTES) as u64, "{what}");
    }
}

#[test]
fn an_idle_thread_has_no_timer() {
    let mut simulation = relaxed();
    assert_eq!(simulation.sleeps_until, None);
    simulation.load(1_000, Duration::from_secs(1));
    simulation.advance_to(simulation.now + SYNC_INTERVAL + TICK);
    assert_eq!(simulation.sleeps_until, None);
    let stats = simulation.stats();
    assert_eq!(stats.durable, stats.appended);
    simulation.append(&VALUE);
    assert_eq!((simulation.stats().wakes, simulation.stats().writes), (stats.wakes + 1, stats.writes + 1));
}

#[test]
fn strict_records_are_taken_and_synced_at_once() {
    let mut simulation = Simulation::new(Durability::Strict, crate::BUFFER_BYTES_MAX);
    for number in 1..=100 {
        simulation.append(&VALUE);
        assert_eq!((simulation.writer.durable(), simulation.stats().syncs), (number, number));
        assert_eq!(simulation.sleeps_until, None);
    }
    assert_eq!(simulation.slowest, Duration::ZERO);
}

#[test]
fn a_small_buffer_is_taken_before_it_is_full() {
    let mut simulation = Simulation::new(Durability::Relaxed, 10_000);
    simulation.load(100_000, Duration::from_secs(1));
    let stats = simulation.stats();
    assert_eq!(stats.dropped, 0);
    assert!(simulation.largest_buffer <= 10_000, "{stats:?}");
}

#[test]
fn a_refused_record_becomes_durable_like_the_others() {
    let mut simulation = relaxed();
    simulation.append(&VALUE);
    simulation.append(&vec![0; crate::VALUE_BYTES_MAX + 1]);
    assert_eq!(simulation.stats().refused, 1);
    simulation.advance_to(simulation.now + DURABLE_WITHIN);
    assert_eq!(simulation.writer.durable(), 2);
    assert_eq!(simulation.sleeps_until, None);
}
