//! Calls now and call records: the tables that the workers fill, and the thread that numbers and writes what ended.
//!
//! Start reading at [`CallRecords::observe`], then `writer.rs`.

mod line;
#[cfg(test)]
mod samples;
mod sink;
mod writer;

use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use ringway_admin::{CallRecord as Row, Page};
use ringway_sansio::{Instant, Seed, TableSize};
use ringway_server::{
    CallCounters, CallEvent, CallLimits, CallNames, CallRecord, CallSender, CallTable, OngoingCall,
};

use super::lock;
use super::log_lines::LineRates;
use crate::config::Config;
pub(super) use sink::{Sink, check, open};
use writer::Writer;
pub(super) use writer::WriterStats;

/// Open calls in partitions, and the records of those that ended.
pub(super) struct CallRecords {
    is_on: AtomicBool,
    names: CallNames,
    tables: Vec<Mutex<CallTable>>,
    /// Unanswered calls of strangers, whose records would fill a disk.
    strangers: Mutex<LineRates>,
    left_out: AtomicU64,
    writer: Writer,
}

/// Record with its number.
#[derive(Debug)]
struct Numbered {
    n: u64,
    record: CallRecord,
}

impl Numbered {
    /// Bytes that it counts for.
    fn size(&self) -> usize {
        size_of::<Self>() + self.record.size()
    }
}

impl CallRecords {
    pub(super) fn new(seed: &Seed, now: Instant) -> Self {
        Self {
            is_on: AtomicBool::new(false),
            names: CallNames::new(&seed.part(0)),
            tables: (0..PARTS).map(|_| Mutex::new(CallTable::new(LIMITS, now))).collect(),
            strangers: Mutex::new(LineRates::new((PER_SOURCE_S, PER_S), &seed.part(1000))),
            left_out: AtomicU64::new(0),
            writer: Writer::default(),
        }
    }

    /// True while calls are followed.
    pub(super) fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    /// Names of calls, while they are followed.
    #[inline]
    pub(super) fn names(&self) -> Option<&CallNames> {
        self.is_on().then_some(&self.names)
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
            lock(table).on_step(now, &name, event, |record| self.keep(record));
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
        let lifetime = config.server.dialog_lifetime;
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
            self.tables.iter().for_each(|table| lock(table).expire(now, |record| self.keep(record)));
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

    /// Records of strangers that were left out.
    pub(super) fn left_out(&self) -> u64 {
        self.left_out.load(Ordering::Relaxed)
    }

    pub(super) fn writer_stats(&self) -> WriterStats {
        self.writer.stats()
    }

    /// Passes a record to the writer, unless there are too many of strangers.
    fn keep(&self, record: CallRecord) {
        let is_limited = record.sender == CallSender::Stranger && record.answered.is_none();
        if is_limited && lock(&self.strangers).admit(record.ended, record.source.ip()).is_none() {
            self.left_out.fetch_add(1, Ordering::Relaxed);
        } else {
            self.writer.push(record);
        }
    }

    /// Ends all calls in rounds, between which the thread writes.
    fn end_calls(&self, now: Instant) {
        let until = std::time::Instant::now() + END_MAX;
        for table in &self.tables {
            while lock(table).stop(now, writer::ROOM, |record| self.keep(record)) > 0 {
                self.writer.make_room(until);
            }
            self.writer.make_room(until);
        }
    }
}

/// The most memory of calls that are followed, and of records that wait for the file and the database.
pub(crate) const fn sizes() -> [TableSize; 2] {
    let waiting = TableSize::of_bytes("call records that wait", 0, writer::BYTES_MAX + 2 * sink::BYTES_MAX);
    [LIMITS.size().times(PARTS), waiting]
}

/// Full tables of calls.
#[cfg(test)]
pub(crate) fn filled_calls() -> CallRecords {
    let now = Instant::from_secs(1_800_000_000);
    let records = CallRecords::new(&Seed::from_number(1), now);
    records.is_on.store(true, Ordering::Relaxed);
    for number in 0..131_072 + 131_072 / 8 {
        tests::step(&records, now, number, ringway_server::CallStep::Begun);
    }
    records
}

/// Records of calls that ended, as many as wait for the thread, and for two outputs.
#[cfg(test)]
pub(crate) fn filled_records() -> impl std::any::Any {
    let fill = || {
        let now = Instant::from_secs(1_800_000_000);
        let records = CallRecords::new(&Seed::from_number(1), now);
        records.is_on.store(true, Ordering::Relaxed);
        let mut number = 0;
        while records.writer.queue_lost() == 0 {
            tests::step(&records, now, number, ringway_server::CallStep::Begun);
            tests::step(&records, now, number, ringway_server::CallStep::Failed(404));
            number += 1;
        }
        records
    };
    let sinks = [sink::filled(fill().writer.taken()), sink::filled(fill().writer.taken())];
    (fill(), sinks)
}

/// Number of partitions, each with its own lock.
const PARTS: usize = 16;

/// Maximum number of records a second of unanswered calls without a password, of one source and of all.
const PER_SOURCE_S: u32 = 20;
const PER_S: u32 = 100;

/// Time limit of waiting for the disk when all calls end.
const END_MAX: Duration = Duration::from_secs(3);

/// Limits of one partition.
const LIMITS: CallLimits = CallLimits {
    calls_max: 131_072 / PARTS,
    bytes_max: (64 << 20) / PARTS,
    dialog_lifetime: Duration::from_secs(86_400),
};

#[cfg(test)]
mod tests {
    use super::*;
    use ringway_sansio::{Flow, ListenerId};
    use ringway_server::CallStep;
    use ringway_sip::{Limits, Message};

    /// A step of the call of a user.
    pub(super) fn step(records: &CallRecords, now: Instant, number: u32, step: CallStep) {
        let long = format!("{number:0>240}");
        let text = format!(
            "INVITE sip:{long}@example.org SIP/2.0\r\nVia: SIP/2.0/UDP h;branch=z9hG4bK{number}\r\n\
             From: <sip:{long}@h>;tag=1\r\nTo: <sip:{long}@h>\r\nCall-ID: {long}\r\nCSeq: 1 INVITE\r\n\
             Content-Length: 0\r\n\r\n"
        );
        let message = Message::parse(text.as_bytes(), &Limits::default()).unwrap();
        let flow = Some(Flow::udp(ListenerId(0), "192.0.2.1:5060".parse().unwrap()));
        let (message, parsed) = (text.as_bytes(), Some(&message));
        let event = CallEvent { parsed, flow, ..CallEvent::stored(step, message, CallSender::Proven) };
        records.observe(now, &event);
    }

    fn refused(records: &CallRecords, now: Instant, number: u32, sender: CallSender, source: &str) {
        let text = format!(
            "INVITE sip:x@example.org SIP/2.0\r\nVia: SIP/2.0/UDP h;branch=z9hG4bK{number}\r\nFrom: <sip:e@h>;tag=1\r\n\
             To: <sip:x@example.org>\r\nCall-ID: {source}-{number}\r\nCSeq: 1 INVITE\r\nContent-Length: 0\r\n\r\n"
        );
        let message = Message::parse(text.as_bytes(), &Limits::default()).unwrap();
        let flow = Some(Flow::udp(ListenerId(0), format!("{source}:5060").parse().unwrap()));
        for step in [CallStep::Begun, CallStep::Failed(404)] {
            let (message, parsed) = (text.as_bytes(), Some(&message));
            let event = CallEvent { parsed, flow, ..CallEvent::stored(step, message, sender) };
            records.observe(now, &event);
        }
    }

    #[test]
    fn strangers_cannot_fill_a_disk_with_records_of_calls_that_fail() {
        let now = Instant::from_secs(1_800_000_000);
        let records = CallRecords::new(&Seed::from_number(1), now);
        refused(&records, now, 0, CallSender::Proven, "192.0.2.1");
        assert_eq!(records.open(), (0, 0), "it is off");
        records.is_on.store(true, Ordering::Relaxed);
        for number in 0..100 {
            refused(&records, now, number, CallSender::Stranger, "192.0.2.1");
        }
        assert_eq!(records.left_out(), 80);
        for source in 2..100 {
            refused(&records, now, 0, CallSender::Stranger, &format!("192.0.2.{source}"));
        }
        assert_eq!(records.left_out(), 98);
        for number in 100..200 {
            refused(&records, now, number, CallSender::Proven, "192.0.2.1");
        }
        assert_eq!((records.left_out(), records.open().0), (98, 0));
    }

    fn records_with_file(folder: &std::path::Path, now: Instant) -> CallRecords {
        let text = format!("[records]\nfile = \"{}/calls.jsonl\"\nmax_mb = 64", folder.display());
        let config = Config::parse(&text, None).unwrap();
        let records = CallRecords::new(&Seed::from_number(1), now);
        records.reconfigure(&config, Some(open(&config.records).unwrap()), now).unwrap();
        records
    }

    fn lines(path: &std::path::Path) -> usize {
        std::fs::read_to_string(path).unwrap_or_default().lines().count()
    }

    #[test]
    fn strangers_have_a_file_and_a_memory_of_their_own() {
        let (now, folder) = (Instant::from_secs(1_800_000_000), tempfile::tempdir().unwrap());
        let records = records_with_file(folder.path(), now);
        for number in 0..300 {
            records.writer.push(samples::refused(b"user", CallSender::Proven, "192.0.2.1:5060").unwrap());
            let stranger = format!("stranger-{number}");
            let refused = samples::refused(stranger.as_bytes(), CallSender::Stranger, "192.0.2.2:5060");
            records.writer.push(refused.unwrap());
        }
        records.stop(now);
        let page = records.records(0, 1000);
        assert_eq!(page.items.iter().filter(|row| row.call_id == "user").count(), 300);
        assert_eq!((page.items.len(), page.next), (550, None));
        assert!(page.items.is_sorted_by_key(|row| row.n));
        let page = records.records(0, 100);
        assert_eq!((page.items.len(), page.next.as_deref()), (100, Some("150")));
        assert_eq!(lines(&folder.path().join("calls.jsonl")), 300);
        assert_eq!(lines(&folder.path().join("calls.jsonl.strangers")), 300);
    }

    #[test]
    fn all_open_calls_have_a_record_when_the_server_stops() {
        let (now, folder) = (Instant::from_secs(1_800_000_000), tempfile::tempdir().unwrap());
        let records = records_with_file(folder.path(), now);
        let flow = Some(Flow::udp(ListenerId(0), "192.0.2.1:5060".parse().unwrap()));
        for number in 0..25_000 {
            let text = format!(
                "INVITE sip:x@h SIP/2.0\r\nVia: SIP/2.0/UDP h;branch=z9hG4bK{number}\r\nFrom: <sip:e@h>;tag=1\r\n\
                 To: <sip:x@h>\r\nCall-ID: {number}\r\nCSeq: 1 INVITE\r\nContent-Length: 0\r\n\r\n"
            );
            let (message, parsed) = (text.as_bytes(), Message::parse(text.as_bytes(), &Limits::default()));
            let (step, sender, parsed) = (CallStep::Begun, CallSender::Proven, parsed.as_ref().ok());
            records.observe(now, &CallEvent { parsed, flow, ..CallEvent::stored(step, message, sender) });
        }
        assert_eq!(records.open().0, 25_000);
        records.stop(now);
        assert_eq!((records.open().0, records.writer_stats().lost), (0, 0));
        assert_eq!(lines(&folder.path().join("calls.jsonl")), 25_000);
    }

    #[test]
    fn a_flood_of_strangers_takes_a_quarter_of_what_waits_for_a_disk() {
        let (now, folder) = (Instant::from_secs(1_800_000_000), tempfile::tempdir().unwrap());
        let inner = folder.path().join("inner");
        std::fs::create_dir(&inner).unwrap();
        let records = records_with_file(&inner, now);
        std::fs::remove_dir_all(&inner).unwrap();
        let push = |sender| {
            records.writer.push(samples::refused(b"x", sender, "192.0.2.1:5060").unwrap());
        };
        (0..4000).for_each(|_| push(CallSender::Stranger));
        (0..4000).for_each(|_| push(CallSender::Proven));
        records.stop(now);
        let stats = records.writer_stats();
        assert_eq!((stats.lost, stats.waiting, stats.is_failing), (1500, 6500, true));
    }
}
