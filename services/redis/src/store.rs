//! The store as a node uses it.

use crate::{LocationUrl, Settings, Sink, Status};
use std::io;
use std::sync::Arc;

/// Registrations in Redis or Valkey: two threads, `location-writer` and `location-reader`.
pub struct LocationStore {}

impl LocationStore {
    /// Starts the threads. The store may be away: they go on trying.
    ///
    /// # Errors
    /// The system has no thread or no descriptor.
    pub fn start(settings: Settings, sink: Arc<dyn Sink>) -> io::Result<Self> {
        let _ = (settings, sink);
        Ok(Self {})
    }

    /// Appends an encoded [`ringway_location::Update`] of an address-of-record and returns its number, which it gets here. Numbers rise
    /// from 1.
    ///
    /// Call it under the lock that protects the bindings: the newest update replaces an earlier one that still waits.
    pub fn append(&self, aor: &[u8], update: &[u8]) -> u64 {
        let _ = (aor, update);
        0
    }

    /// Number up to which all updates are durable.
    pub fn durable(&self) -> u64 {
        0
    }

    /// True while updates cannot be made durable.
    pub fn failed(&self) -> bool {
        true
    }

    /// State and counters.
    pub fn status(&self) -> Status {
        Status::default()
    }

    /// Begins to read the record of an address-of-record; [`Sink::on_located`] follows within 50 ms. False: the store is away, or too
    /// many lookups are under way; nothing follows.
    pub fn look_up(&self, query: u64, aor: &[u8]) -> bool {
        let _ = (query, aor);
        false
    }

    /// Sets the state of this node that others see, from the next heartbeat on.
    pub fn set_draining(&self, is_draining: bool) {
        let _ = is_draining;
    }

    /// Replaces URL, user, password and authorities, from the next connection on.
    pub fn set_url(&self, url: LocationUrl) {
        let _ = url;
    }

    /// Writes what waits, removes this node from the list of nodes and ends the threads, within 3 s.
    pub fn stop(&self) {}
}

impl Drop for LocationStore {
    fn drop(&mut self) {
        self.stop();
    }
}
