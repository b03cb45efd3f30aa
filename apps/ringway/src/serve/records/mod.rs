//! Calls now and call records: the tables that the workers fill, and the thread that numbers and writes what ended.
//!
//! Start reading at [`CallRecords::observe`], then `writer.rs`.

mod queue;
mod row;
mod sink;
mod writer;

pub(super) use sink::{Sink, open};
pub(super) use writer::WriterStats;

use crate::config::Config;
use ringway_admin::{CallRecord as Row, Page};
use ringway_sansio::{Instant, Seed};
use ringway_server::{CallCounters, CallEvent, CallLimits, CallNames, CallTable, OngoingCall};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use writer::Writer;

/// Open calls in partitions, and the records of those that ended.
pub(super) struct CallRecords {
    is_on: AtomicBool,
    names: CallNames,
    tables: Vec<Mutex<CallTable>>,
    writer: Writer,
}

impl CallRecords {
    pub(super) fn new(seed: &Seed, now: Instant) -> Self {
        let table = |part| Mutex::new(CallTable::new(LIMITS, &seed.part(part), now));
        Self {
            is_on: AtomicBool::new(false),
            names: CallNames::new(&seed.part(0)),
            tables: (1..=PARTS as u64).map(table).collect(),
            writer: Writer::default(),
        }
    }

    /// True while calls are followed.
    pub(super) fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    /// Handles a step of a call.
    pub(super) fn observe(&self, now: Instant, event: &CallEvent<'_>) {
        if self.is_on() {
            self.on_step(now, event);
        }
    }

    #[inline(never)]
    fn on_step(&self, now: Instant, event: &CallEvent<'_>) {
        let Some(name) = self.names.of(event) else { return };
        let table = self.tables.get(name.partition(self.tables.len()));
        if let Some(table) = table {
            lock(table).on_step(now, &name, event, |record| self.writer.push(record));
        }
    }

    /// Uses the settings of a configuration from now on; `sinks`: its outputs, if they are not those of now.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(super) fn reconfigure(
        &self,
        config: &Config,
        sinks: Option<Vec<Sink>>,
        now: Instant,
    ) -> io::Result<()> {
        let lifetime = Duration::from_secs(u64::from(config.routing.dialog_lifetime_s));
        self.tables.iter().for_each(|table| lock(table).set_dialog_lifetime(lifetime));
        match sinks {
            Some(sinks) => self.writer.replace(sinks),
            None => self.writer.reopen(),
        }
        if config.records.enabled {
            self.writer.start()?;
        }
        let was_on = self.is_on.swap(config.records.enabled, Ordering::Relaxed);
        if was_on && !config.records.enabled {
            self.end_calls(now);
        }
        Ok(())
    }

    /// Ends the calls whose time has passed.
    pub(super) fn expire(&self, now: Instant) {
        if self.is_on() {
            self.tables.iter().for_each(|table| lock(table).expire(now, |record| self.writer.push(record)));
        }
    }

    /// Ends all calls, and writes what waits.
    pub(super) fn stop(&self, now: Instant) {
        if self.is_on.swap(false, Ordering::Relaxed) {
            self.end_calls(now);
        }
        self.writer.stop();
    }

    /// Number of open calls, and of their bytes.
    pub(super) fn open(&self) -> (usize, usize) {
        self.tables.iter().fold((0, 0), |(calls, bytes), table| {
            let table = lock(table);
            (calls + table.len(), bytes + table.bytes())
        })
    }

    pub(super) const fn partitions(&self) -> u16 {
        PARTS as u16
    }

    /// Open calls in `count` slots of a partition, from slot `first`; returns the next slot.
    pub(super) fn calls(
        &self,
        partition: u16,
        first: u32,
        count: u32,
        each: impl FnMut(OngoingCall<'_>),
    ) -> Option<u32> {
        let table = self.tables.get(usize::from(partition))?;
        lock(table).calls(first, count, each)
    }

    /// Records of the calls that ended last, from the one after number `after` on.
    pub(super) fn records(&self, after: u64, limit: usize) -> Page<Row> {
        self.writer.records(after, limit)
    }

    /// Counters of all partitions.
    pub(super) fn counters(&self, mut each: impl FnMut(&'static str, &'static str, u64)) {
        for table in &self.tables {
            let counters: CallCounters = lock(table).counters().clone();
            counters.for_each(&mut each);
        }
    }

    pub(super) fn writer_stats(&self) -> WriterStats {
        self.writer.stats()
    }

    fn end_calls(&self, now: Instant) {
        self.tables.iter().for_each(|table| lock(table).stop(now, |record| self.writer.push(record)));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Number of partitions, each with its own lock.
const PARTS: usize = 16;

/// Limits of one partition.
const LIMITS: CallLimits = CallLimits {
    calls_max: 131_072 / PARTS,
    bytes_max: (64 << 20) / PARTS,
    dialog_lifetime: Duration::from_secs(86_400),
};
