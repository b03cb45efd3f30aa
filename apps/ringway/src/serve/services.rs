//! State shared by all shards: credentials, replay windows, source rates, the journal's writer.

use super::capture::Capture;
use super::danger_lookup::WaitingLookup;
use super::event_log::EventLog;
use super::lock::lock;
use super::provisioning::write_back_stats;
use super::records::CallRecords;
use super::sharing::SharedLocation;
use super::trace::TraceHub;
use super::trunks::TrunkTable;
use crate::config::Config;
use ringway_admin::Stat;
use ringway_linux::OpenConnection;
use ringway_location::NodeName;
use ringway_provisioning::{DangerLookup, WriteBack};
use ringway_sansio::{ConnectionId, Flow, Instant, LocatedServer, MemoryBound, Seed, ShardKey, Transport};
use ringway_server::{
    BindingChange, BlockList, CallNames, CallRate, CallRates, Caller, ChallengeLimits, DialogExtensions,
    FailedServers, GuessLimits, Ha1, Hold, LampFilter, LampTable, LocateLimits, LocateRefusal, LogEvent,
    Login, LoginResult, MemoryBudget, NeighbourRoute, NeighbourTable, NodeState, NonceId, NonceUse,
    PausedTrunks, Payer, ReplayWindows, Services, SideTable, StoreFailed, Traffic, TrafficRates, TrunkEvent,
    TrunkLogins, TrunkPause,
};
use ringway_sip::Message;
use ringway_store::{Directory, KEY_BYTES_MAX, SubscriberRow, VALUE_BYTES_MAX, Writer, WriterStats};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};
use std::time::Duration;

/// `Services` of the server in memory. No lock is held while waiting.
pub(crate) struct SharedServices {
    directory: Directory,
    windows: Vec<Mutex<ReplayWindows>>,
    dialogs: Mutex<DialogExtensions>,
    sides: Mutex<SideTable>,
    has_moved_sides: AtomicBool,
    guesses: Mutex<GuessLimits>,
    challenges: Mutex<ChallengeLimits>,
    rates: Vec<Mutex<TrafficRates>>,
    memory: Arc<MemoryBound>,
    budgets: Vec<Mutex<MemoryBudget>>,
    is_rate_limited: AtomicBool,
    writer: OnceLock<Writer>,
    last_stored: AtomicU64,
    /// The store that nodes share, and the last update that was passed to it.
    location: OnceLock<SharedLocation>,
    last_shared: AtomicU64,
    locates: Mutex<LocateLimits>,
    /// The table of a database that gets the registrations.
    write_back: OnceLock<WriteBack>,
    lookup: OnceLock<WaitingLookup>,
    /// True if responses to REGISTER confirm durable bindings: a failed store then refuses.
    is_strict: bool,
    keeps_bindings: bool,
    log: EventLog,
    traces: TraceHub,
    records: CallRecords,
    lamp_filter: Arc<LampFilter>,
    lamps: Mutex<LampTable>,
    capture: Capture,
    neighbours: RwLock<NeighbourTable>,
    paused_trunks: RwLock<PausedTrunks>,
    trunks: TrunkTable,
    trunk_logins: Mutex<TrunkLogins>,
    call_rates: Mutex<CallRates>,
    blocks: RwLock<BlockList>,
    has_blocked_networks: AtomicBool,
    has_blocked_callers: AtomicBool,
    failed: Mutex<FailedServers>,
    seed: Seed,
}

impl SharedServices {
    pub(crate) fn new(config: &Config, seed: Seed, now: Instant) -> Self {
        let lifetime = Duration::from_secs(u64::from(config.auth.nonce_lifetime_s));
        let mut key = [0; 16];
        key.copy_from_slice(seed.part(0).bytes().get(..16).unwrap_or(&[0; 16]));
        let windows =
            (0..PARTS).map(|_| Mutex::new(ReplayWindows::new(NONCES_MAX / PARTS, lifetime, now))).collect();
        let memory = Arc::new(MemoryBound::new(memory_bytes(config.limits.memory_mb)));
        let budget = |part| Mutex::new(MemoryBudget::of(Arc::clone(&memory), PARTS, &seed.part(300 + part)));
        let budgets = (1..=PARTS as u64).map(budget).collect();
        let lamp_filter = Arc::new(LampFilter::new(&seed.part(205)));
        let hold = config.location.as_ref().map_or(Hold::All, |location| location.hold);
        let services = Self {
            memory,
            lamps: Mutex::new(LampTable::new(Arc::clone(&lamp_filter), &seed.part(206), now)),
            lamp_filter,
            budgets,
            directory: Directory::new(key),
            windows,
            dialogs: Mutex::new(DialogExtensions::new(&seed.part(201))),
            sides: Mutex::new(SideTable::new(&seed.part(209), SideTable::ENTRIES_MAX)),
            has_moved_sides: AtomicBool::new(false),
            guesses: Mutex::new(GuessLimits::new(PROOFS_MAX, &seed.part(200), now)),
            challenges: Mutex::new(ChallengeLimits::new(&seed.part(202))),
            rates: (0..PARTS).map(|_| Mutex::new(TrafficRates::new(0, &seed))).collect(),
            is_rate_limited: AtomicBool::new(false),
            writer: OnceLock::new(),
            last_stored: AtomicU64::new(0),
            location: OnceLock::new(),
            last_shared: AtomicU64::new(0),
            locates: Mutex::new(LocateLimits::new(hold, &seed.part(207))),
            write_back: OnceLock::new(),
            lookup: OnceLock::new(),
            keeps_bindings: config.store.url.bindings().is_some(),
            is_strict: config.store.durability == ringway_store::Durability::Strict,
            log: EventLog::new(&seed),
            traces: TraceHub::new(),
            records: CallRecords::new(&seed.part(204), now),
            capture: Capture::default(),
            paused_trunks: RwLock::default(),
            trunks: TrunkTable::default(),
            trunk_logins: Mutex::new(TrunkLogins::new(&seed.part(208))),
            call_rates: Mutex::new(CallRates::new(&seed.part(203))),
            failed: Mutex::default(),
            neighbours: RwLock::default(),
            blocks: RwLock::default(),
            has_blocked_networks: AtomicBool::new(false),
            has_blocked_callers: AtomicBool::new(false),
            seed,
        };
        services.reconfigure(config);
        services
    }

    /// Key of the hash that assigns messages and users to shards.
    pub(crate) fn shard_key(&self) -> ShardKey {
        ShardKey::new(&self.seed.part(400))
    }

    /// Applies the limits of a new configuration.
    pub(crate) fn reconfigure(&self, config: &Config) {
        let rate = config.limits.per_source_rate;
        for (part, rates) in self.rates.iter().enumerate() {
            *lock(rates) = TrafficRates::new(rate, &self.seed.part(100 + part as u64));
        }
        self.is_rate_limited.store(rate > 0, Ordering::Relaxed);
        let lifetime = Duration::from_secs(u64::from(config.auth.nonce_lifetime_s));
        self.windows.iter().for_each(|windows| lock(windows).set_lifetime(lifetime));
        self.memory.set_max(memory_bytes(config.limits.memory_mb));
    }

    /// Changes a copy of the block lists, and uses it from then on: no request waits for the change.
    pub(crate) fn change_blocks(&self, change: impl FnOnce(&mut BlockList)) {
        let mut list = self.blocks.read().unwrap_or_else(PoisonError::into_inner).clone();
        change(&mut list);
        let (networks, callers) = (list.has_networks(), list.has_callers());
        let old = std::mem::replace(&mut *self.blocks.write().unwrap_or_else(PoisonError::into_inner), list);
        self.has_blocked_networks.store(networks, Ordering::Relaxed);
        self.has_blocked_callers.store(callers, Ordering::Relaxed);
        drop(old);
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

    /// Number that [`SharedServices::durable`] reaches when everything that was stored is durable.
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

    /// Limit of the memory of pending requests and TCP connections.
    pub(crate) fn memory(&self) -> &Arc<MemoryBound> {
        &self.memory
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

    /// Number of neighbours, and of those that are up.
    pub(crate) fn neighbours(&self) -> (usize, usize) {
        self.neighbours.read().unwrap_or_else(PoisonError::into_inner).counts()
    }

    /// True if the link to the node with this address works.
    pub(super) fn is_linked(&self, link: &SocketAddr) -> bool {
        let table = self.neighbours.read().unwrap_or_else(PoisonError::into_inner);
        table.is_up_at(Transport::Tls, *link)
    }

    /// Name of the neighbour that a connection is kept or dialled for.
    pub(crate) fn neighbour_of(&self, open: &OpenConnection) -> Option<String> {
        let table = self.neighbours.read().unwrap_or_else(PoisonError::into_inner);
        table.name_of(open.id, open.dialled).map(str::to_owned)
    }

    /// Number of calls to neighbours with a connection of their own.
    pub(crate) fn neighbour_calls(&self) -> usize {
        self.neighbours.read().unwrap_or_else(PoisonError::into_inner).calls_len()
    }

    /// Stored nonces, and the number evicted early.
    pub(crate) fn nonces(&self) -> (usize, u64) {
        self.windows.iter().fold((0, 0), |(remembered, evicted), windows| {
            let windows = lock(windows);
            (remembered + windows.len(), evicted + windows.evicted())
        })
    }
}

impl Services for SharedServices {
    fn credentials(&self, user: &[u8], domain: &[u8]) -> Option<Ha1> {
        if let Some(lookup) = self.lookup.get() {
            return lookup.found(user, domain);
        }
        let (user, domain) = (std::str::from_utf8(user).ok()?, std::str::from_utf8(domain).ok()?);
        self.directory.find(user, domain)
    }

    fn full_credentials(&self, user: &[u8], domain: &[u8]) -> Option<Ha1> {
        let (user, domain) = (std::str::from_utf8(user).ok()?, std::str::from_utf8(domain).ok()?);
        self.directory.find_full(user, domain)
    }

    fn is_known(&self, user: &[u8], domain: &[u8]) -> bool {
        self.directory.contains(user, domain)
    }

    fn use_nonce(&self, now: Instant, nonce: NonceId, count: u32, request: u64) -> NonceUse {
        let part = nonce.counter as usize % PARTS;
        match self.windows.get(part) {
            Some(windows) => lock(windows).use_count(now, nonce, count, request),
            None => NonceUse::Forgotten,
        }
    }

    fn extend_dialog(&self, now: Instant, mark: u64, until: Instant) {
        lock(&self.dialogs).extend(now, mark, until);
    }

    fn is_dialog_extended(&self, now: Instant, mark: u64) -> bool {
        lock(&self.dialogs).is_extended(now, mark)
    }

    fn has_moved_sides(&self) -> bool {
        self.has_moved_sides.load(Ordering::Relaxed)
    }

    fn change_sides(&self, change: &mut dyn FnMut(&mut SideTable)) {
        let mut sides = lock(&self.sides);
        change(&mut sides);
        self.has_moved_sides.store(!sides.is_empty(), Ordering::Relaxed);
    }

    fn admit(&self, now: Instant, source: IpAddr, traffic: Traffic) -> bool {
        if !self.is_rate_limited.load(Ordering::Relaxed) {
            return true;
        }
        self.rates.get(part_of(source)).is_none_or(|rates| lock(rates).admit(now, source, traffic))
    }

    fn give_back(&self, now: Instant, source: IpAddr) {
        if let Some(rates) =
            self.rates.get(part_of(source)).filter(|_| self.is_rate_limited.load(Ordering::Relaxed))
        {
            lock(rates).give_back(now, source);
        }
    }

    fn is_source_blocked(&self, source: IpAddr) -> bool {
        self.has_blocked_networks.load(Ordering::Relaxed)
            && self.blocks.read().unwrap_or_else(PoisonError::into_inner).blocks_source(source)
    }

    fn is_caller_blocked(&self, caller: &Caller<'_>) -> bool {
        self.has_blocked_callers.load(Ordering::Relaxed)
            && self.blocks.read().unwrap_or_else(PoisonError::into_inner).blocks_caller(caller)
    }

    fn reserve(&self, payer: Payer, bytes: usize) -> bool {
        let budget = self.budgets.get(part_of_payer(payer));
        budget.is_none_or(|budget| lock(budget).reserve(payer, bytes))
    }

    fn reserve_more(&self, payer: Payer, bytes: usize) -> bool {
        let budget = self.budgets.get(part_of_payer(payer));
        budget.is_none_or(|budget| lock(budget).reserve_more(payer, bytes))
    }

    fn shrink(&self, payer: Payer, bytes: usize) {
        if let Some(budget) = self.budgets.get(part_of_payer(payer)) {
            lock(budget).shrink(payer, bytes);
        }
    }

    fn answered(&self, payer: Payer) {
        if let Some(budget) = self.budgets.get(part_of_payer(payer)) {
            lock(budget).answered(payer);
        }
    }

    fn release(&self, payer: Payer, bytes: usize) {
        if let Some(budget) = self.budgets.get(part_of_payer(payer)) {
            lock(budget).release(payer, bytes);
        }
    }

    fn may_log_in(&self, now: Instant, login: &Login<'_>) -> bool {
        lock(&self.guesses).may_log_in(now, login)
            && self.lookup.get().is_none_or(|lookup| lookup.look_up(login.user, login.domain))
    }

    fn may_challenge(&self, now: Instant, login: &Login<'_>) -> bool {
        lock(&self.challenges).may_challenge(now, login)
    }

    fn on_login(&self, now: Instant, login: &Login<'_>, result: LoginResult) {
        lock(&self.guesses).on_login(now, login, result);
    }

    fn is_tracing(&self) -> bool {
        self.traces.is_active()
    }

    fn is_traced(&self, message: &Message<'_>) -> bool {
        self.traces.follows(message)
    }

    fn call_names(&self) -> Option<&CallNames> {
        self.records.names()
    }

    fn observe(&self, now: Instant, event: &LogEvent<'_>) {
        if let LogEvent::Decided { message, decision } = event {
            return self.traces.on_decision(message, decision);
        }
        self.log.observe(now, event);
        if let LogEvent::Call(event) = event {
            self.records.observe(now, event);
        }
    }

    fn has_failed(&self, now: Instant, server: &LocatedServer) -> bool {
        lock(&self.failed).has(now, server)
    }

    fn note_failed(&self, now: Instant, server: &LocatedServer, until: Instant) {
        lock(&self.failed).note(now, server, until);
    }

    fn neighbour_route(&self, flow: &Flow) -> NeighbourRoute {
        self.neighbours.read().unwrap_or_else(PoisonError::into_inner).route(flow)
    }

    fn neighbour_connection(&self, neighbour: usize) -> Option<ConnectionId> {
        self.neighbours.read().unwrap_or_else(PoisonError::into_inner).connection(neighbour)
    }

    fn is_neighbour_up(&self, neighbour: usize) -> bool {
        self.neighbours.read().unwrap_or_else(PoisonError::into_inner).is_up(neighbour)
    }

    fn trunk_pause(&self, now: Instant, trunk: usize) -> Option<TrunkPause> {
        self.paused_trunks.read().unwrap_or_else(PoisonError::into_inner).of(now, trunk)
    }

    fn pause_trunk(&self, trunk: usize, pause: TrunkPause, until: Instant) {
        self.paused_trunks.write().unwrap_or_else(PoisonError::into_inner).note(trunk, pause, until);
    }

    fn note_answering_trunk(&self, trunk: usize) {
        self.paused_trunks.write().unwrap_or_else(PoisonError::into_inner).clear(trunk);
    }

    fn note_trunk(&self, now: Instant, trunk: usize, event: TrunkEvent) {
        self.trunks.note(now, trunk, event);
    }

    fn change_trunk_logins(&self, change: &mut dyn FnMut(&mut TrunkLogins)) {
        change(&mut lock(&self.trunk_logins));
    }

    fn admit_call(&self, now: Instant, aor: &[u8], prefix: &str, per_hour: u32) -> CallRate {
        lock(&self.call_rates).admit(now, aor, prefix, per_hour)
    }

    fn lamps(&self) -> Option<&LampFilter> {
        Some(&self.lamp_filter)
    }

    fn change_lamps(&self, change: &mut dyn FnMut(&mut LampTable)) {
        change(&mut lock(&self.lamps));
    }

    fn change_neighbours(&self, change: &mut dyn FnMut(&mut NeighbourTable)) {
        change(&mut self.neighbours.write().unwrap_or_else(PoisonError::into_inner));
    }

    fn keeps_bindings(&self) -> bool {
        self.keeps_bindings
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

    fn has_store_failed(&self) -> bool {
        self.store_has_failed()
    }

    fn share(&self, aor: &[u8], update: &[u8]) -> u64 {
        let number = self.location.get().map_or(0, |location| location.append(aor, update));
        self.last_shared.fetch_max(number, Ordering::AcqRel);
        number
    }

    fn has_name(&self) -> bool {
        self.location.get().is_none_or(SharedLocation::has_name)
    }

    fn is_name_taken(&self) -> bool {
        self.location.get().is_some_and(SharedLocation::is_name_taken)
    }

    fn on_change(&self, aor: &[u8], _change: BindingChange, _flow: Option<Flow>) {
        if let Some(write_back) = self.write_back.get() {
            write_back.note(aor);
        }
    }

    fn is_location_warm(&self) -> bool {
        self.location.get().is_none_or(SharedLocation::is_warm)
    }

    fn begin_locate(&self, now: Instant, source: IpAddr, is_proven: bool) -> Result<(), LocateRefusal> {
        lock(&self.locates).begin(now, source, is_proven)
    }

    fn end_locate(&self) {
        lock(&self.locates).end();
    }

    fn node_state(&self, node: &NodeName) -> NodeState {
        let Some(location) = self.location.get() else { return NodeState::Gone };
        match location.state_of(node) {
            (NodeState::Gone, Some(link)) if self.is_linked(&link) => NodeState::Up,
            (state, _) => state,
        }
    }

    fn store(&self, aor: &[u8], record: &[u8]) {
        if let Some(writer) = self.writer.get() {
            self.last_stored.fetch_max(writer.append(aor, record), Ordering::AcqRel);
        }
    }
}

/// Index of an account in the budgets.
fn part_of_payer(payer: Payer) -> usize {
    match payer {
        Payer::Stranger(source) | Payer::Known(source) => part_of(source),
        // A mark is a keyed hash.
        Payer::Dialog(mark) | Payer::End(mark) => mark as usize % PARTS,
    }
}

/// Index of a source in the tables that are partitioned by source; those of an IPv6 network of 48 bits are counted together too.
fn part_of(source: IpAddr) -> usize {
    let part = match source.to_canonical() {
        IpAddr::V4(v4) => v4.octets().into_iter().fold(0, |sum, octet| sum * 31 + usize::from(octet)),
        IpAddr::V6(v6) => v6
            .segments()
            .into_iter()
            .take(3)
            .fold(0, |sum: usize, segment| sum.wrapping_mul(31).wrapping_add(usize::from(segment))),
    };
    part % PARTS
}

/// Limit of the memory of pending requests and TCP connections in bytes: `[limits] memory_mb`, or a quarter of the
/// available memory.
fn memory_bytes(memory_mb: u32) -> usize {
    let bytes = match memory_mb {
        0 => ringway_linux::memory::available_bytes().map_or(MEMORY_UNKNOWN, |bytes| bytes / 4),
        mb => u64::from(mb) << 20,
    };
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// Number of partitions, each with its own lock.
const PARTS: usize = 16;

/// Assumed memory if the system does not report it.
const MEMORY_UNKNOWN: u64 = 256 << 20;

/// Maximum number of stored nonces, about 64 bytes each.
const NONCES_MAX: usize = 1 << 20;

/// Maximum number of users and sources with a recent successful login, about 20 bytes each; half of them in each of two
/// generations. With more users than that, every login moves an entry between them.
const PROOFS_MAX: usize = 1 << 21;
