//! The store as a node uses it.

use crate::pending::hashed;
use crate::reader::Reader;
use crate::shared::{Shared, lock};
use crate::writer::Writer;
use crate::{Event, LocationUrl, Settings, Sink, Status};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

/// Registrations in Redis or Valkey: two threads, `location-writer` and `location-reader`.
pub struct LocationStore {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl LocationStore {
    /// Starts the threads. The store may be away: they go on trying.
    ///
    /// # Errors
    /// The system has no thread or no descriptor.
    pub fn start(settings: Settings, sink: Arc<dyn Sink>) -> io::Result<Self> {
        let shared = Arc::new(Shared::new(settings, sink)?);
        let store = Self { shared: Arc::clone(&shared), threads: Mutex::default() };
        let mut writer = Writer::new(Arc::clone(&shared));
        store.spawn("location-writer", move || writer.run())?;
        let mut reader = Reader::new(shared);
        store.spawn("location-reader", move || reader.run())?;
        Ok(store)
    }

    fn spawn(&self, name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let shared = Arc::clone(&self.shared);
        let thread = Builder::new().name(name.to_owned()).spawn(move || {
            if catch_unwind(AssertUnwindSafe(run)).is_err() {
                shared.has_failed.store(true, Ordering::Release);
                shared.close_lookups();
                shared.sink.on_event(Event::Panicked);
            }
        })?;
        lock(&self.threads).push(thread);
        Ok(())
    }

    /// Appends an encoded [`ringway_location::Update`] of an address-of-record and returns its number, which it gets here. Numbers rise
    /// from 1.
    ///
    /// Call it under the lock that protects the bindings: the newest update replaces an earlier one that still waits.
    pub fn append(&self, aor: &[u8], update: &[u8]) -> u64 {
        let (aor, now) = (hashed(aor), Instant::now());
        let appended = self.shared.pending().append(aor, update, now);
        if appended.is_wake_due {
            self.shared.wake.notify_one();
        }
        appended.number
    }

    /// Number up to which all updates are durable.
    pub fn durable(&self) -> u64 {
        self.shared.durable.load(Ordering::Acquire)
    }

    /// True while updates cannot be made durable.
    pub fn failed(&self) -> bool {
        self.shared.has_failed.load(Ordering::Acquire)
    }

    /// True for an update that is not in the store, and maybe never will be: the store refused it, it was dropped, or the store cannot
    /// be written at present. Never without [`Settings::is_strict`].
    pub fn refuses(&self, number: u64) -> bool {
        self.shared.settings.is_strict
            && (self.failed() && number > self.durable() || self.shared.pending().refused.contains(number))
    }

    /// True while an earlier process that runs has the name of this node: other nodes send nothing to this process.
    pub fn is_name_taken(&self) -> bool {
        self.shared.is_name_taken.load(Ordering::Acquire)
    }

    /// True once no other process can have the name of this node: what earlier ones left may be removed.
    pub fn has_name(&self) -> bool {
        self.shared.has_name.load(Ordering::Acquire)
    }

    /// State and counters.
    pub fn status(&self) -> Status {
        self.shared.status()
    }

    /// Begins to read the record of an address-of-record; [`Sink::on_located`] follows within 50 ms. False: the store is away, or too
    /// many lookups are under way; nothing follows.
    pub fn look_up(&self, query: u64, aor: &[u8]) -> bool {
        let is_begun = lock(&self.shared.lookups).begin(query, aor, Instant::now());
        if is_begun {
            self.shared.wake_reader();
        }
        is_begun
    }

    /// Sets the state of this node that others see, from the next heartbeat on.
    pub fn set_draining(&self, is_draining: bool) {
        self.shared.is_draining.store(is_draining, Ordering::Relaxed);
    }

    /// Sets the hash of this node's trunks that others see, from the next heartbeat on; 0: it has none.
    pub fn set_trunks(&self, trunks: u64) {
        self.shared.trunks.store(trunks, Ordering::Relaxed);
    }

    /// Notes that all bindings of this node are appended again from now on, or that the last of them was. Other nodes see it
    /// ([`crate::NodeInfo::writes_again`]) until they are in the store; after an [`Event::Rewrite`] it has begun.
    pub fn set_appending_again(&self, is_under_way: bool) {
        self.shared.set_appending_again(is_under_way);
    }

    /// Replaces URL, user, password and authorities, from the next connection on.
    pub fn set_url(&self, url: LocationUrl) {
        self.shared.set_url(url);
    }

    /// Writes what waits, removes this node from the list of nodes and ends the threads, within 3 s. A thread that still waits for the
    /// system's resolver ends later.
    pub fn stop(&self) {
        self.shared.is_stopped.store(true, Ordering::Release);
        self.shared.pending().is_stopped = true;
        self.shared.wake.notify_all();
        self.shared.wake_reader();
        let until = Instant::now() + STOP_TIME_MAX;
        for thread in std::mem::take(&mut *lock(&self.threads)) {
            while !thread.is_finished() && Instant::now() < until {
                std::thread::sleep(STOP_STEP);
            }
            if thread.is_finished() {
                let _ = thread.join();
            }
        }
    }
}

impl Drop for LocationStore {
    fn drop(&mut self) {
        self.stop();
    }
}

const STOP_TIME_MAX: Duration = Duration::from_secs(3);
const STOP_STEP: Duration = Duration::from_millis(5);
