//! State shared by the threads of a store and those that use it, with the lookups under way.

use crate::connection::Host;
use crate::connection::socket::OnWait;
use crate::connection::topology::Topology;
use crate::pending::Pending;
use crate::{Event, Kind, LocationUrl, Settings, Sink, Status, StoreError};
use rustix::event::{EventfdFlags, eventfd};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

pub(crate) struct Shared {
    pub(crate) settings: Settings,
    pub(crate) sink: Arc<dyn Sink>,
    url: Mutex<LocationUrl>,
    /// Masters of a cluster that were found.
    known: Mutex<Vec<Host>>,
    pending: Mutex<Pending>,
    pub(crate) wake: Condvar,
    pub(crate) lookups: Mutex<Lookups>,
    /// Wakes the reader for a lookup or the end.
    pub(crate) reader_wake: OwnedFd,
    health: Mutex<Health>,
    pub(crate) durable: AtomicU64,
    pub(crate) has_failed: AtomicBool,
    pub(crate) is_draining: AtomicBool,
    /// Hash of this node's trunks that register.
    pub(crate) trunks: AtomicU64,
    /// True while an earlier process that runs has the name of this node.
    pub(crate) is_name_taken: AtomicBool,
    /// True once no other process can have the name of this node.
    pub(crate) has_name: AtomicBool,
    pub(crate) is_stopped: AtomicBool,
    /// Times that the store lost data; the reader reads all records again.
    pub(crate) losses: AtomicU64,
    /// Times that it was checked for that.
    pub(crate) checks: AtomicU64,
    pub(crate) is_warm: AtomicBool,
    /// Number of the last update of those that this node writes again; `u64::MAX` while more follow, 0 if it writes none again.
    again_until: AtomicU64,
    pub(crate) counters: Counters,
}

#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) written: AtomicU64,
    pub(crate) refused: AtomicU64,
    /// Updates that the writer has taken.
    pub(crate) in_flight: AtomicUsize,
    pub(crate) followed: AtomicU64,
    pub(crate) read: AtomicU64,
    pub(crate) read_per_second: AtomicU64,
    pub(crate) damaged: AtomicU64,
    pub(crate) nodes: AtomicUsize,
}

/// The thread that a state is of.
#[derive(Clone, Copy)]
pub(crate) enum Part {
    Writer,
    Reader,
}

struct Health {
    works: [bool; 2],
    is_reported: bool,
    /// Begin of the state.
    since: Instant,
    kind: Kind,
    masters: usize,
    errors: u64,
    last_error: Option<String>,
}

impl Shared {
    pub(crate) fn new(settings: Settings, sink: Arc<dyn Sink>) -> io::Result<Self> {
        let health = Health {
            works: [false; 2],
            is_reported: false,
            since: Instant::now(),
            kind: Kind::Unknown,
            masters: 0,
            errors: 0,
            last_error: None,
        };
        Ok(Self {
            url: Mutex::new(settings.url.clone()),
            lookups: Mutex::new(Lookups::new(settings.holds_all)),
            known: Mutex::default(),
            pending: Mutex::new(Pending::new(settings.is_strict)),
            settings,
            sink,
            wake: Condvar::new(),
            reader_wake: eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?,
            health: Mutex::new(health),
            durable: AtomicU64::new(0),
            has_failed: AtomicBool::new(true),
            is_draining: AtomicBool::new(false),
            trunks: AtomicU64::new(0),
            is_name_taken: AtomicBool::new(false),
            has_name: AtomicBool::new(false),
            is_stopped: AtomicBool::new(false),
            losses: AtomicU64::new(0),
            checks: AtomicU64::new(0),
            is_warm: AtomicBool::new(false),
            again_until: AtomicU64::new(0),
            counters: Counters::default(),
        })
    }

    pub(crate) fn pending(&self) -> MutexGuard<'_, Pending> {
        lock(&self.pending)
    }

    /// Connects to the store.
    pub(crate) fn connect(&self, on_wait: &OnWait) -> Result<Topology, StoreError> {
        let (url, known) = (lock(&self.url).clone(), lock(&self.known).clone());
        let store = Topology::discover(&url, &known, on_wait)?;
        *lock(&self.known) = store.known();
        Ok(store)
    }

    pub(crate) fn set_url(&self, url: LocationUrl) {
        *lock(&self.url) = url;
        lock(&self.known).clear();
    }

    pub(crate) fn stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Acquire)
    }

    pub(crate) fn wake_reader(&self) {
        // It fails only when the counter is full, and then the reader wakes up.
        let _ = rustix::io::write(&self.reader_wake, &1_u64.to_ne_bytes());
    }

    /// Notes that this node appends its bindings again, or that it has appended all.
    pub(crate) fn set_appending_again(&self, is_under_way: bool) {
        let until = if is_under_way { u64::MAX } else { self.pending().last };
        self.again_until.store(until, Ordering::Release);
    }

    /// True while bindings are appended again, or wait. Only the writer calls it.
    pub(crate) fn writes_again(&self) -> bool {
        let until = self.again_until.load(Ordering::Acquire);
        if until == 0 {
            return false;
        }
        let is_written =
            self.pending().settled() >= until && self.counters.in_flight.load(Ordering::Relaxed) == 0;
        if is_written {
            // It fails if they are appended once more.
            let _ = self.again_until.compare_exchange(until, 0, Ordering::AcqRel, Ordering::Relaxed);
        }
        !is_written
    }

    /// Notes that a part works.
    pub(crate) fn works(&self, part: Part, kind: Kind, masters: usize) {
        let mut health = lock(&self.health);
        (health.kind, health.masters) = (kind, masters);
        let was_up = health.is_up();
        health.works[part as usize] = true;
        let after = health.since.elapsed();
        let is_new = health.is_up() && !was_up;
        if is_new {
            (health.since, health.is_reported) = (Instant::now(), false);
        }
        drop(health);
        if is_new {
            self.sink.on_event(Event::Up { after });
        }
    }

    /// Notes that a part failed.
    pub(crate) fn fails(&self, part: Part, reason: &str) {
        let mut health = lock(&self.health);
        if health.is_up() {
            health.since = Instant::now();
        }
        health.works[part as usize] = false;
        health.errors += 1;
        health.last_error = Some(reason.to_owned());
        let is_new = !std::mem::replace(&mut health.is_reported, true);
        drop(health);
        if is_new {
            self.sink.on_event(Event::Down { reason: reason.to_owned() });
        }
    }

    /// Ends lookups whose deadline is over.
    pub(crate) fn expire_lookups(&self) {
        let ended = lock(&self.lookups).expire(Instant::now());
        ended.into_iter().for_each(|query| self.sink.on_located(query));
    }

    /// Ends all lookups, and refuses new ones.
    pub(crate) fn close_lookups(&self) {
        let ended = lock(&self.lookups).close();
        ended.into_iter().for_each(|query| self.sink.on_located(query));
    }

    pub(crate) fn status(&self) -> Status {
        let mut status = Status {
            is_warm: self.is_warm.load(Ordering::Acquire),
            written: load(&self.counters.written),
            followed: load(&self.counters.followed),
            read: load(&self.counters.read),
            read_per_second: load(&self.counters.read_per_second),
            damaged: load(&self.counters.damaged),
            nodes: self.counters.nodes.load(Ordering::Relaxed),
            ..Status::default()
        };
        let pending = self.pending();
        status.lag_ms = pending.oldest().map_or(0, |oldest| oldest.elapsed().as_millis() as u64);
        status.waiting = pending.len() + self.counters.in_flight.load(Ordering::Relaxed);
        status.waiting_bytes = pending.bytes;
        status.appended = pending.last;
        status.replaced = pending.counts.replaced;
        status.dropped = pending.counts.dropped;
        status.refused = pending.counts.refused + load(&self.counters.refused);
        drop(pending);
        let lookups = lock(&self.lookups);
        (status.lookups, status.lookups_failed) = (lookups.begun, lookups.failed);
        drop(lookups);
        let health = lock(&self.health);
        (status.kind, status.masters) = (health.kind, health.masters);
        status.connected_for = health.is_up().then(|| health.since.elapsed());
        (status.errors, status.last_error) = (health.errors, health.last_error.clone());
        status
    }
}

impl Health {
    fn is_up(&self) -> bool {
        self.works == [true; 2]
    }
}

/// Ignores poisoning: a thread that panicked ended the store.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn load(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

/// An event that is reported at most once a minute.
#[derive(Default)]
pub(crate) struct Seldom(Option<Instant>);

impl Seldom {
    pub(crate) fn is_due(&mut self) -> bool {
        let is_due = self.0.is_none_or(|last| last.elapsed() > Duration::from_secs(60));
        if is_due {
            self.0 = Some(Instant::now());
        }
        is_due
    }
}

/// Lookups under way; each ends once: by an answer, by its deadline, or when the store fails.
pub(crate) struct Lookups {
    waiting: VecDeque<Lookup>,
    /// Sent to the store, by number.
    asked: BTreeMap<u64, Lookup>,
    max: usize,
    pub(crate) is_open: bool,
    pub(crate) begun: u64,
    pub(crate) failed: u64,
}

#[derive(Clone)]
pub(crate) struct Lookup {
    pub(crate) query: u64,
    pub(crate) aor: Vec<u8>,
    deadline: Instant,
}

impl Lookups {
    pub(crate) const fn new(holds_all: bool) -> Self {
        let max = if holds_all { LOOKUPS_MAX } else { LOOKUPS_MAX_SERVED };
        Self { waiting: VecDeque::new(), asked: BTreeMap::new(), max, is_open: false, begun: 0, failed: 0 }
    }

    /// Adds a lookup. False: the store is away, or too many are under way.
    pub(crate) fn begin(&mut self, query: u64, aor: &[u8], now: Instant) -> bool {
        let is_begun = self.is_open && self.waiting.len() + self.asked.len() < self.max;
        if is_begun {
            self.begun += 1;
            self.waiting.push_back(Lookup { query, aor: aor.to_vec(), deadline: now + LOOKUP_TIME_MAX });
        } else {
            self.failed += 1;
        }
        is_begun
    }

    pub(crate) fn is_under_way(&self) -> bool {
        !self.waiting.is_empty() || !self.asked.is_empty()
    }

    /// Moves the lookups that wait to those that were sent, and returns them.
    pub(crate) fn ask(&mut self) -> Vec<Lookup> {
        let lookups: Vec<Lookup> = self.waiting.drain(..).collect();
        self.asked.extend(lookups.iter().map(|lookup| (lookup.query, lookup.clone())));
        lookups
    }

    /// Ends an asked lookup. False: it ended before.
    pub(crate) fn end(&mut self, query: u64) -> bool {
        self.asked.remove(&query).is_some()
    }

    /// Ends lookups whose deadline is over.
    fn expire(&mut self, now: Instant) -> Vec<u64> {
        let mut ended = Vec::new();
        let mut is_left = |lookup: &Lookup| {
            let is_left = lookup.deadline > now;
            if !is_left {
                ended.push(lookup.query);
            }
            is_left
        };
        self.waiting.retain(&mut is_left);
        self.asked.retain(|_, lookup| is_left(lookup));
        self.failed += ended.len() as u64;
        ended
    }

    /// Ends all lookups, and refuses new ones.
    fn close(&mut self) -> Vec<u64> {
        self.is_open = false;
        let waiting = std::mem::take(&mut self.waiting).into_iter().map(|lookup| lookup.query);
        let ended: Vec<u64> = waiting.chain(std::mem::take(&mut self.asked).into_keys()).collect();
        self.failed += ended.len() as u64;
        ended
    }
}

/// Maximum number of lookups under way if all records are held, and if they are not.
const LOOKUPS_MAX: usize = 256;
const LOOKUPS_MAX_SERVED: usize = 4_096;
/// Maximum time of a lookup.
const LOOKUP_TIME_MAX: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_lookup_ends_once() {
        let (mut lookups, now) = (Lookups { is_open: true, ..Lookups::new(true) }, Instant::now());
        for query in 0..LOOKUPS_MAX as u64 {
            assert!(lookups.begin(query, b"a", now));
        }
        assert!(!lookups.begin(999, b"a", now));
        assert_eq!(lookups.ask().len(), LOOKUPS_MAX);
        assert!(lookups.end(7) && !lookups.end(7));
        assert!(lookups.begin(1_000, b"b", now + LOOKUP_TIME_MAX));
        assert_eq!(lookups.expire(now + LOOKUP_TIME_MAX).len(), LOOKUPS_MAX - 1);
        assert!(!lookups.end(8), "it ended by its deadline");
        assert_eq!(lookups.close(), [1_000]);
        assert!(!lookups.begin(1, b"a", now));
        assert_eq!(lookups.failed, 1 + LOOKUPS_MAX as u64 - 1 + 1 + 1);
    }
}
