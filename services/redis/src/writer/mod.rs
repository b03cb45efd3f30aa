//! The thread that writes updates in batches.
//!
//! ```text
//!   connect -> marks of the store (lost data?) -> heartbeat -> [ gather <= 256 updates -> script for each, pipelined -> durable ]*
//!      ^                                                                  | error: kept, written first after the pause
//!      +------------------------------- pause ----------------------------+
//! ```

mod heart;

use crate::connection::socket::OnWait;
use crate::connection::topology::Topology;
use crate::connection::{Backoff, REPLY_TIME_MAX, number};
use crate::pending::{Slot, waited_ms};
use crate::scripts::{self, Scripts, TAGS};
use crate::shared::{Part, Seldom, Shared};
use crate::{Event, StoreError};
use heart::Heart;
use redis::{Cmd, ServerError, Value, cmd};
use ringway_location::Update;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

pub(crate) struct Writer {
    shared: Arc<Shared>,
    scripts: Scripts,
    keys: Vec<TagKeys>,
    heart: Heart,
    pace: Pace,
    backoff: Backoff,
    /// Updates that are being written, and slots whose buffers are used again.
    batch: Vec<Slot>,
    pool: Vec<Slot>,
    /// Key and command of an update, used again.
    key: Vec<u8>,
    command: Cmd,
    is_unconfirmed: bool,
    /// True if dropped updates were reported.
    is_full_reported: bool,
    refused: Seldom,
    stop_at: Option<Instant>,
}

struct TagKeys {
    records: String,
    all: String,
    log: String,
}

/// Result of a batch.
#[derive(Default)]
struct Outcome {
    is_script_missing: bool,
    failed: Option<StoreError>,
}

impl Writer {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        let keys =
            |tag| TagKeys { records: scripts::records(tag), all: scripts::all(tag), log: scripts::log(tag) };
        Self {
            heart: Heart::new(Arc::clone(&shared)),
            backoff: Backoff::new(shared.settings.seed),
            shared,
            scripts: Scripts::new(),
            keys: (0..TAGS).map(keys).collect(),
            pace: Pace::default(),
            batch: Vec::new(),
            pool: Vec::new(),
            key: Vec::new(),
            command: Cmd::new(),
            is_unconfirmed: false,
            is_full_reported: false,
            refused: Seldom::default(),
            stop_at: None,
        }
    }

    /// Runs until the store is stopped.
    pub(crate) fn run(&mut self) {
        loop {
            self.backoff.begin(Instant::now());
            let Err(error) = self.session() else { return };
            self.shared.has_failed.store(true, Ordering::Release);
            self.shared.fails(Part::Writer, &error.to_string());
            self.report_full();
            let pause = self.backoff.pause(Instant::now());
            if self.is_over() || self.wait(pause) {
                return;
            }
        }
    }

    /// Writes until the store is stopped and all is written, or something fails.
    fn session(&mut self) -> Result<(), StoreError> {
        let on_wait: OnWait = Arc::new(|| {});
        let mut store = self.shared.connect(&on_wait)?;
        for master in &mut store.masters {
            master.connection.load(&self.scripts)?;
        }
        self.heart.connected(&mut store)?;
        let mut heartbeat_at = Instant::now();
        loop {
            let now = Instant::now();
            let is_check = now >= heartbeat_at;
            if is_check {
                self.heart.heartbeat(&mut store)?;
                if self.is_unconfirmed {
                    let is_confirmed = self.heart.confirm(&mut store)?;
                    self.confirmed(is_confirmed);
                }
                self.shared.works(Part::Writer, store.kind, store.masters.len());
                self.shared.has_failed.store(self.is_unconfirmed, Ordering::Release);
                self.settle();
                self.report_full();
                heartbeat_at = now + HEARTBEAT_INTERVAL;
            }
            self.repair();
            if is_check {
                self.shared.checks.fetch_add(1, Ordering::Release);
            }
            self.gather(heartbeat_at);
            if !self.batch.is_empty() {
                self.write(&mut store)?;
            } else if self.is_over() {
                return self.heart.leave(&mut store);
            }
        }
    }

    /// Reports lost data. After a drop it waits until the others are written.
    fn repair(&mut self) {
        let is_lost = self.heart.take_loss();
        if is_lost {
            self.shared.losses.fetch_add(1, Ordering::Release);
            self.shared.wake_reader();
        }
        let mut pending = self.shared.pending();
        let is_due = is_lost || (pending.has_loss && pending.len() < BATCH_MAX);
        if is_due {
            pending.has_loss = false;
        }
        drop(pending);
        if is_due {
            self.is_full_reported = false;
            self.shared.set_appending_again(true);
            self.shared.sink.on_event(Event::Rewrite);
        }
    }

    /// Reports that updates were dropped, once until all are appended again.
    fn report_full(&mut self) {
        if self.shared.pending().has_loss && !std::mem::replace(&mut self.is_full_reported, true) {
            self.shared.sink.on_event(Event::Full);
        }
    }

    /// Takes the next updates, if there are some before the next heartbeat. Updates of the same moment are written together.
    fn gather(&mut self, until: Instant) {
        if !self.batch.is_empty() {
            return;
        }
        let shared = Arc::clone(&self.shared);
        let mut pending = shared.pending();
        let now = Instant::now();
        if pending.len() == 0 && !pending.is_stopped && now < until {
            pending.is_idle = true;
            let waited = shared.wake.wait_timeout(pending, until - now);
            pending = waited.unwrap_or_else(PoisonError::into_inner).0;
            pending.is_idle = false;
        }
        let is_stopped = pending.is_stopped;
        let wait = self.pace.wait(Instant::now(), pending.len(), is_stopped);
        if !wait.is_zero() && pending.len() > 0 {
            drop(pending);
            std::thread::sleep(wait);
            pending = shared.pending();
        }
        self.pace.begin(Instant::now());
        pending.take(BATCH_MAX, &mut self.batch, &mut self.pool);
        shared.counters.in_flight.store(self.batch.len(), Ordering::Relaxed);
    }

    fn write(&mut self, store: &mut Topology) -> Result<(), StoreError> {
        for _ in 0..2 {
            let used = self.send(store)?;
            let outcome = self.receive(store)?;
            let is_confirmed = self.receive_confirmations(store, &used)?;
            let pool = &mut self.pool;
            for slot in self.batch.extract_if(.., |slot| slot.is_done) {
                pool.push(slot);
            }
            self.shared.counters.in_flight.store(self.batch.len(), Ordering::Relaxed);
            if let Some(error) = outcome.failed {
                return Err(error);
            }
            if !outcome.is_script_missing {
                self.confirmed(is_confirmed);
                self.shared.has_failed.store(self.is_unconfirmed, Ordering::Release);
                self.settle();
                return Ok(());
            }
            for master in &mut store.masters {
                master.connection.load(&self.scripts)?;
            }
        }
        Err(StoreError::new("the store forgets scripts at once"))
    }

    /// Sends the batch, and returns the masters that it went to.
    fn send(&mut self, store: &mut Topology) -> Result<Vec<bool>, StoreError> {
        let now = Instant::now();
        let mut used = vec![false; store.masters.len()];
        for slot in &mut self.batch {
            let tag = scripts::tag_of(slot.hash);
            let Some(keys) = self.keys.get(tag) else { continue };
            Update::set_waited(&mut slot.update, waited_ms(slot.at, now));
            self.key.clear();
            self.key.extend_from_slice(keys.records.as_bytes());
            self.key.extend_from_slice(&slot.aor);
            let command = &mut self.command;
            command.clear();
            command.arg("EVALSHA").arg(&self.scripts.put.name).arg(3);
            command.arg(&self.key).arg(&keys.all).arg(&keys.log).arg(&*slot.aor).arg(&*slot.update);
            store.of_tag(tag)?.push(command);
            if let Some(used) = store.master_of.get(tag).and_then(|master| used.get_mut(*master)) {
                *used = true;
            }
        }
        for (master, _) in store.masters.iter_mut().zip(&used).filter(|(_, used)| **used) {
            if self.shared.settings.is_strict {
                master.connection.push(cmd("WAIT").arg(1).arg(CONFIRM_TIME_MS));
            }
            master.connection.send()?;
        }
        Ok(used)
    }

    /// Reads all replies, so that each one is that of its update.
    fn receive(&mut self, store: &mut Topology) -> Result<Outcome, StoreError> {
        let mut outcome = Outcome::default();
        for slot in &mut self.batch {
            let connection = store.of_tag(scripts::tag_of(slot.hash))?;
            let reply = connection.receive(REPLY_TIME_MAX)?;
            let Value::ServerError(error) = reply else {
                slot.is_done = true;
                self.shared.counters.written.fetch_add(1, Ordering::Relaxed);
                continue;
            };
            if error.code() == "NOSCRIPT" {
                outcome.is_script_missing = true;
            } else if is_of_update(&error) {
                slot.is_done = true;
                self.shared.pending().refused.add(&slot.numbers);
                self.shared.counters.refused.fetch_add(1, Ordering::Relaxed);
                if self.refused.is_due() {
                    let reason = format!("{}: {}", slot.aor.escape_ascii(), connection.refused(&error));
                    self.shared.sink.on_event(Event::Refused { reason });
                }
            } else {
                outcome.failed = Some(connection.refused(&error));
            }
        }
        Ok(outcome)
    }

    /// True if a replica of each master has the batch, or none is needed.
    fn receive_confirmations(&self, store: &mut Topology, used: &[bool]) -> Result<bool, StoreError> {
        let mut is_confirmed = true;
        if self.shared.settings.is_strict {
            for (master, _) in store.masters.iter_mut().zip(used).filter(|(_, used)| **used) {
                let reply = master.connection.receive(REPLY_TIME_MAX)?;
                let reply = master.connection.checked(reply)?;
                is_confirmed &= number(&reply).is_some_and(|replicas| replicas > 0);
            }
        }
        Ok(is_confirmed)
    }

    fn confirmed(&mut self, is_confirmed: bool) {
        let was_unconfirmed = std::mem::replace(&mut self.is_unconfirmed, !is_confirmed);
        if !is_confirmed && !was_unconfirmed {
            self.shared.sink.on_event(Event::NoReplica);
        }
    }

    /// Advances the number up to which updates are durable.
    fn settle(&self) {
        if !self.batch.is_empty() || self.is_unconfirmed {
            return;
        }
        let settled = self.shared.pending().settled();
        if self.shared.durable.swap(settled, Ordering::AcqRel) != settled {
            self.shared.sink.on_durable(settled);
        }
    }

    /// True if the store is stopped, and all is written or the time is over.
    fn is_over(&mut self) -> bool {
        let pending = self.shared.pending();
        if !pending.is_stopped {
            return false;
        }
        let is_written = pending.len() == 0 && self.batch.is_empty();
        let stop_at = *self.stop_at.get_or_insert_with(|| Instant::now() + STOP_TIME_MAX);
        is_written || Instant::now() >= stop_at
    }

    /// Pauses. True: the store is stopped, and the time for that is over.
    fn wait(&mut self, pause: Duration) -> bool {
        let until = Instant::now() + pause;
        let shared = Arc::clone(&self.shared);
        let mut pending = shared.pending();
        while !pending.is_stopped {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            pending = shared.wake.wait_timeout(pending, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        drop(pending);
        std::thread::sleep(STOP_RETRY_INTERVAL);
        self.is_over()
    }
}

/// True for an error of one update, and not of the store. Redis 6 reports errors of the store within those of a script.
fn is_of_update(error: &ServerError) -> bool {
    let of_store = ["-OOM", "-READONLY", "-MISCONF", "-NOREPLICAS", "-MASTERDOWN", "NOPERM"];
    matches!(error.code(), "ERR" | "WRONGTYPE")
        && !of_store.iter().any(|code| error.details().unwrap_or_default().contains(code))
}

/// Maximum number of updates in a batch.
const BATCH_MAX: usize = 256;
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(1);
/// Time for a replica to confirm, in milliseconds.
const CONFIRM_TIME_MS: u32 = 500;
/// Time limit of a stop while the store fails.
const STOP_TIME_MAX: Duration = Duration::from_millis(2_500);
const STOP_RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// Times of batches: updates of the same moment are written together, at once if there are many.
#[derive(Default)]
struct Pace {
    last_batch: Option<Instant>,
}

impl Pace {
    /// Notes a batch that is written now.
    pub(crate) fn begin(&mut self, now: Instant) {
        self.last_batch = Some(now);
    }

    /// Time until the next batch of `waiting` updates.
    pub(crate) fn wait(&self, now: Instant, waiting: usize, is_stopped: bool) -> Duration {
        let since = self.last_batch.map_or(INTERVAL, |last| now.saturating_duration_since(last));
        let is_due = is_stopped || waiting >= FULL;
        if is_due { Duration::ZERO } else { INTERVAL.saturating_sub(since) }
    }
}

/// Time between two batches that are not full: with the reader's interval, less than the 20 ms after which other nodes have a change.
const INTERVAL: Duration = Duration::from_millis(10);
const FULL: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_waits_for_updates_of_the_same_moment_unless_it_is_full() {
        let (mut pace, start) = (Pace::default(), Instant::now());
        assert_eq!(pace.wait(start, 1, false), Duration::ZERO, "the first one");
        pace.begin(start);
        let soon = start + Duration::from_millis(2);
        assert_eq!(pace.wait(soon, 1, false), INTERVAL - Duration::from_millis(2));
        assert_eq!(pace.wait(soon, FULL, false), Duration::ZERO);
        assert_eq!(pace.wait(soon, 1, true), Duration::ZERO, "a stop");
        assert_eq!(pace.wait(start + INTERVAL, 1, false), Duration::ZERO);
    }
}
