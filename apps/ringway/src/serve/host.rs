//! The host of the server on Linux: users, the journal's writer, other nodes, observers; and its tables.

use super::capture::Capture;
use super::event_log::EventLog;
use super::provisioning::{WaitingLookup, write_back_stats};
use super::records::CallRecords;
use super::sharing::SharedLocation;
use super::trace::TraceHub;
use super::trunks::TrunkTable;
use crate::config::Config;
use ringway_admin::Stat;
use ringway_linux::SystemLocks;
use ringway_sansio::{Flow, Instant, MemoryBound, Seed, ShardKey, Transport};
use ringway_server::{
    BindingChange, CallNames, Ha1, Hold, Host, LogEvent, NameForm, NodeName, NodeNameStatus, NodeState,
    SharedTables, SideTable, StoreFailed, StoreStatus, TableLimits, TrunkEvent,
};
use ringway_sip::Message;
use ringway_sql::provisioning::{DangerLookup, WriteBack};
use ringway_store::{Directory, KEY_BYTES_MAX, SubscriberRow, VALUE_BYTES_MAX, Writer, WriterStats};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// Host of the server, and the tables of its shards. No lock is held while waiting.
pub(crate) struct ServerHost {
    tables: Arc<SharedTables>,
    directory: Directory,
    writer: OnceLock<Writer>,
    last_stored: AtomicU64,
    /// The store that nodes share, and the last update that was passed to it.
    location: OnceLock<SharedLocation>,
    last_shared: AtomicU64,
    /// The table of a database that gets the registrations.
    write_back: OnceLock<WriteBack>,
    lookup: OnceLock<WaitingLookup>,
    /// True if responses to REGISTER confirm durable bindings: a failed store then refuses.
    is_strict: bool,
    keeps_bindings: bool,
    log: EventLog,
    traces: TraceHub,
    records: CallRecords,
    capture: Capture,
    trunks: TrunkTable,
    seed: Seed,
}

impl ServerHost {
    pub(crate) fn new(config: &Config, seed: Seed, now: Instant) -> Self {
        let mut key = [0; 16];
        key.copy_from_slice(seed.part(0).bytes().get(..16).unwrap_or(&[0; 16]));
        let limits = table_limits(config);
        Self {
            tables: Arc::new(SharedTables::new::<SystemLocks>(&limits, &seed, now)),
            directory: Directory::new(key),
            writer: OnceLock::new(),
            last_stored: AtomicU64::new(0),
            location: OnceLock::new(),
            last_shared: AtomicU64::new(0),
            write_back: OnceLock::new(),
            lookup: OnceLock::new(),
            keeps_bindings: config.store.url.bindings().is_some(),
            is_strict: config.store.durability == ringway_store::Durability::Strict,
            log: EventLog::new(&seed),
            traces: TraceHub::new(),
            records: CallRecords::new(&seed.part(204), now),
            capture: Capture::default(),
            trunks: TrunkTable::default(),
            seed,
        }
    }

    /// Key of the hash that assigns messages and users to shards.
    pub(crate) fn shard_key(&self) -> ShardKey {
        ShardKey::new(&self.seed.part(400))
    }

    /// Applies the limits of a new configuration.
    pub(crate) fn reconfigure(&self, config: &Config) {
        self.tables.reconfigure(config.limits.per_source_rate, config.server.auth.nonce_lifetime);
        self.tables.memory().set_max(memory_bytes(config.limits.memory_mb));
    }

    /// Tables that the shards share.
    pub(crate) const fn tables(&self) -> &Arc<SharedTables> {
        &self.tables
    }

    pub(crate) fn set_writer(&self, writer: Writer) {
        // It cannot be set already: this is the only call.
        let _ = self.writer.set(writer);
    }

    pub(crate) fn stop_writer(&self) {
        if let Some(writer) = self.writer.get() {
            writer.stop();
        }
        if let Some(location) = self.location.get() {
            location.stop();
        }
    }

    pub(crate) fn add_subscriber(&self, row: &SubscriberRow<'_>) {
        self.directory.insert(row.name, row.domain, row.hashes());
    }

    pub(crate) fn directory(&self) -> &Directory {
        &self.directory
    }

    /// Number that [`ServerHost::durable`] reaches when everything that was stored is durable.
    pub(crate) fn last_stored(&self) -> u64 {
        let journal = self.last_stored.load(Ordering::Acquire);
        match self.location.get().filter(|_| self.is_strict) {
            Some(location) => location.ticket(journal, self.last_shared.load(Ordering::Acquire)),
            None => journal,
        }
    }

    pub(crate) fn durable(&self) -> u64 {
        let journal = self.writer.get().map_or(0, Writer::durable);
        self.location.get().map_or(journal, |location| location.durable(journal))
    }

    /// Shares registrations with other nodes from now on.
    pub(super) fn set_location(&self, location: SharedLocation) {
        // It cannot be set already: this is the only call.
        let _ = self.location.set(location);
    }

    /// The registrations that this node shares with others.
    pub(super) fn location(&self) -> Option<&SharedLocation> {
        self.location.get()
    }

    /// Writes registrations into a database from now on.
    pub(super) fn set_write_back(&self, write_back: WriteBack) {
        // It cannot be set already: this is the only call.
        let _ = self.write_back.set(write_back);
    }

    /// Reads passwords while requests wait from now on.
    pub(super) fn set_lookup(&self, lookup: DangerLookup) {
        // It cannot be set already: this is the only call.
        let _ = self.lookup.set(WaitingLookup::new(lookup));
    }

    /// Figures of the database beside those of its users.
    pub(super) fn database_stats(&self) -> Vec<Stat> {
        let write_back =
            self.write_back.get().into_iter().flat_map(|write_back| write_back_stats(write_back.counts()));
        write_back.chain(self.lookup.get().into_iter().flat_map(WaitingLookup::stats)).collect()
    }

    pub(crate) fn writer_stats(&self) -> WriterStats {
        self.writer.get().map(Writer::stats).unwrap_or_default()
    }

    /// True while the disk cannot be written, or the store that nodes share.
    pub(crate) fn store_has_failed(&self) -> bool {
        self.writer.get().is_some_and(Writer::failed)
            || self.location.get().is_some_and(SharedLocation::has_failed)
    }

    /// Uses the trunks of a configuration.
    pub(super) fn set_trunks(&self, settings: &ringway_server::Config) {
        self.trunks.set(&settings.trunking.trunks);
    }

    /// Events of each trunk.
    pub(super) const fn trunks(&self) -> &TrunkTable {
        &self.trunks
    }

    /// Traces of users.
    pub(super) const fn traces(&self) -> &TraceHub {
        &self.traces
    }

    /// Calls now and call records.
    pub(super) const fn records(&self) -> &CallRecords {
        &self.records
    }

    /// Capture of messages.
    pub(super) const fn capture(&self) -> &Capture {
        &self.capture
    }

    /// Passes each neighbour that has been probed to `each`: its index, name, last known address, and whether it works.
    pub(super) fn each_neighbour(&self, mut each: impl FnMut(usize, &str, Option<SocketAddr>, bool)) {
        self.tables.read_neighbours((), |table| table.for_each(&mut each));
    }

    /// True if the link to the node with this address works.
    pub(super) fn is_linked(&self, link: &SocketAddr) -> bool {
        self.tables.read_neighbours(false, |table| table.is_up_at(Transport::Tls, *link))
    }
}

impl Host for ServerHost {
    fn credentials(&self, user: &[u8], domain: &[u8], form: NameForm) -> Option<Ha1> {
        if let (Some(lookup), NameForm::User) = (self.lookup.get(), form) {
            return lookup.found(user, domain);
        }
        let (user, domain) = (std::str::from_utf8(user).ok()?, std::str::from_utf8(domain).ok()?);
        match form {
            NameForm::User => self.directory.find(user, domain),
            NameForm::WithDomain => self.directory.find_full(user, domain),
        }
    }

    fn is_known(&self, user: &[u8], domain: &[u8]) -> bool {
        self.directory.contains(user, domain)
    }

    fn has_read(&self, user: &[u8], domain: &[u8]) -> bool {
        self.lookup.get().is_none_or(|lookup| lookup.look_up(user, domain))
    }

    fn store_status(&self) -> StoreStatus {
        let location = self.location.get();
        let name = match location {
            Some(location) if location.is_name_taken() => NodeNameStatus::Taken,
            Some(location) if !location.has_name() => NodeNameStatus::Unconfirmed,
            Some(_) | None => NodeNameStatus::Own,
        };
        StoreStatus {
            has_failed: self.store_has_failed(),
            is_warm: location.is_none_or(SharedLocation::is_warm),
            name,
        }
    }

    fn record_bytes_max(&self, aor: &[u8]) -> Result<usize, StoreFailed> {
        if let Some(location) = self.location.get() {
            location.check()?;
            return Ok(if aor.len() > KEY_BYTES_MAX { 0 } else { VALUE_BYTES_MAX });
        }
        if !self.keeps_bindings {
            return Ok(usize::MAX);
        }
        if self.is_strict && self.store_has_failed() {
            return Err(StoreFailed);
        }
        Ok(if aor.len() > KEY_BYTES_MAX { 0 } else { VALUE_BYTES_MAX })
    }

    fn store(&self, aor: &[u8], record: &[u8]) {
        if let Some(writer) = self.writer.get() {
            self.last_stored.fetch_max(writer.append(aor, record), Ordering::AcqRel);
        }
    }

    fn share(&self, aor: &[u8], update: &[u8]) -> u64 {
        let number = self.location.get().map_or(0, |location| location.append(aor, update));
        self.last_shared.fetch_max(number, Ordering::AcqRel);
        number
    }

    fn node_state(&self, node: &NodeName) -> NodeState {
        let Some(location) = self.location.get() else { return NodeState::Gone };
        match location.state_of(node) {
            (NodeState::Gone, Some(link)) if self.is_linked(&link) => NodeState::Up,
            (state, _) => state,
        }
    }

    fn nodes_with_trunks(&self, trunks: u64) -> Option<Vec<NodeName>> {
        self.location.get()?.nodes_with_trunks(trunks, |link| self.is_linked(link))
    }

    fn on_change(&self, aor: &[u8], _change: BindingChange, _flow: Option<Flow>) {
        if let Some(write_back) = self.write_back.get() {
            write_back.note(aor);
        }
    }

    fn is_traced(&self, received: Option<(&Message<'_>, &Flow)>) -> bool {
        match received {
            Some((message, flow)) => self.traces.follows(message, flow),
            None => self.traces.is_active(),
        }
    }

    fn call_names(&self) -> Option<&CallNames> {
        self.records.names()
    }

    fn observe(&self, now: Instant, event: &LogEvent<'_>) {
        match event {
            LogEvent::Decided { message, decision } => return self.traces.on_decision(message, decision),
            LogEvent::Received { message, flow } => return self.traces.on_received(flow, message),
            _ => self.log.observe(now, event),
        }
        if let LogEvent::Call(event) = event {
            self.records.observe(now, event);
        }
    }

    fn note_trunk(&self, now: Instant, trunk: usize, event: TrunkEvent) {
        self.trunks.note(now, trunk, event);
    }
}

/// Limits of the shared tables.
pub(super) fn table_limits(config: &Config) -> TableLimits {
    TableLimits {
        parts: PARTS,
        memory: Arc::new(MemoryBound::new(memory_bytes(config.limits.memory_mb))),
        nonces_max: NONCES_MAX,
        nonce_lifetime: config.server.auth.nonce_lifetime,
        proofs_max: PROOFS_MAX,
        sides_max: SideTable::ENTRIES_MAX,
        per_second: config.limits.per_source_rate,
        hold: config.location.as_ref().map_or(Hold::All, |location| location.hold),
    }
}

/// Limit of the memory of pending requests and TCP connections in bytes: `[limits] memory_mb`, or a quarter of the
/// available memory.
fn memory_bytes(memory_mb: u32) -> usize {
    let bytes = match memory_mb {
        0 => ringway_linux::process::available_bytes().map_or(MEMORY_UNKNOWN, |bytes| bytes / 4),
        mb => u64::from(mb) << 20,
    };
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// Number of parts of the tables that each message needs.
const PARTS: usize = 16;

/// Assumed memory if the system does not report it.
const MEMORY_UNKNOWN: u64 = 256 << 20;

/// Maximum number of stored nonces, about 64 bytes each.
const NONCES_MAX: usize = 1 << 20;

/// Maximum number of users and sources with a recent successful login.
const PROOFS_MAX: usize = 1 << 21;
