//! Services of a server in memory, for tests.

use md5::Md5;
use ringway_location::{NodeName, Update};
use ringway_sansio::{ConnectionId, Flow, Instant, LocatedServer, Seed};
use ringway_server::{
    BlockList, CallEvent, CallLimits, CallNames, CallRate, CallRates, CallRecord, CallStep, CallTable,
    Caller, ChallengeLimits, DialogExtensions, FailedServers, GuessLimits, Ha1, Hold, LampFilter, LampTable,
    LocateLimits, LocateRefusal, LogEvent, Login, LoginResult, MemoryBudget, NeighbourRoute, NeighbourTable,
    NodeState, NonceId, NonceUse, PausedTrunks, Payer, ReplayWindows, Services, SideTable, StoreFailed,
    Traffic, TrafficRates, TrunkLogins, TrunkPause,
};
use ringway_sip::{Limits, Message};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// Limits of [`TestServices`].
#[derive(Clone, Copy, Debug)]
pub struct ServiceLimits {
    /// Lifetime of a nonce.
    pub nonce_lifetime: Duration,
    /// Maximum number of nonces with stored counts.
    pub nonces_max: usize,
    /// Maximum number of users and sources with counted wrong passwords; `None`: not counted.
    pub guesses_max: Option<usize>,
    /// Requests of one source in a second; 0: no limit.
    pub per_second: u32,
    /// Maximum length of a record.
    pub record_bytes_max: usize,
}

/// Subscribers, store and all other services of a server. They survive the server.
pub struct TestServices {
    users: Mutex<Subscribers>,
    /// By name and domain: H(A1) of both as a user name.
    full: Mutex<Subscribers>,
    windows: Mutex<ReplayWindows>,
    guesses: Mutex<Option<GuessLimits>>,
    challenges: Mutex<ChallengeLimits>,
    rates: Mutex<TrafficRates>,
    dialogs: Mutex<DialogExtensions>,
    sides: Mutex<SideTable>,
    /// Number of logins by result: proven, wrong, slowed.
    pub logins: Mutex<[usize; 3]>,
    /// Memory for pending requests.
    pub budget: Mutex<MemoryBudget>,
    /// Last record of each address-of-record; empty: it has no bindings any more.
    pub records: Mutex<BTreeMap<Vec<u8>, Vec<u8>>>,
    /// True: storing fails.
    pub store_fails: AtomicBool,
    /// True: storing fails, and a REGISTER succeeds all the same.
    pub relaxed_store_fails: AtomicBool,
    /// Maximum length of a record.
    pub record_bytes_max: AtomicUsize,
    /// Log events.
    pub events: Mutex<Vec<String>>,
    /// True: decisions are wanted.
    pub is_tracing: AtomicBool,
    /// Decisions, as a trace shows them.
    pub decisions: Mutex<Vec<String>>,
    /// Updates for the store that nodes share, with their addresses-of-record and numbers, oldest first.
    pub shared: Mutex<Vec<(Vec<u8>, Vec<u8>)>>,
    shared_len: AtomicU64,
    /// True: another process has the name of this node.
    pub is_name_taken: AtomicBool,
    /// True: the bindings of the other nodes are not all here.
    pub is_cold: AtomicBool,
    locates: Mutex<LocateLimits>,
    /// States of other nodes that are not up.
    pub nodes: Mutex<BTreeMap<NodeName, NodeState>>,
    neighbours: Mutex<NeighbourTable>,
    paused_trunks: Mutex<PausedTrunks>,
    trunk_logins: Mutex<TrunkLogins>,
    call_rates: Mutex<CallRates>,
    failed: Mutex<FailedServers>,
    /// Block lists.
    pub blocks: Mutex<BlockList>,
    lamp_filter: Arc<LampFilter>,
    /// Calls of watched users.
    pub lamps: Mutex<LampTable>,
    call_names: CallNames,
    /// Open calls.
    pub calls: Mutex<CallTable>,
    /// Records of the ended calls.
    pub ended_calls: Mutex<Vec<CallRecord>>,
}

/// H(A1) by user and domain.
type Subscribers = BTreeMap<(Vec<u8>, Vec<u8>), Ha1>;

impl TestServices {
    /// Creates services without subscribers and records.
    pub fn new(limits: ServiceLimits, seed: &Seed, now: Instant) -> Self {
        let lamp_filter = Arc::new(LampFilter::new(seed));
        Self {
            lamps: Mutex::new(LampTable::new(Arc::clone(&lamp_filter), seed, now)),
            lamp_filter,
            users: Mutex::default(),
            full: Mutex::default(),
            windows: Mutex::new(ReplayWindows::new(limits.nonces_max, limits.nonce_lifetime, now)),
            guesses: Mutex::new(limits.guesses_max.map(|max| GuessLimits::new(max, seed, now))),
            challenges: Mutex::new(ChallengeLimits::new(seed)),
            rates: Mutex::new(TrafficRates::new(limits.per_second, seed)),
            dialogs: Mutex::new(DialogExtensions::new(seed)),
            sides: Mutex::new(SideTable::new(seed, 64)),
            logins: Mutex::default(),
            budget: Mutex::new(MemoryBudget::new(BUDGET_BYTES, seed)),
            records: Mutex::default(),
            store_fails: AtomicBool::new(false),
            relaxed_store_fails: AtomicBool::new(false),
            record_bytes_max: AtomicUsize::new(limits.record_bytes_max),
            events: Mutex::default(),
            is_tracing: AtomicBool::new(false),
            decisions: Mutex::default(),
            shared: Mutex::default(),
            shared_len: AtomicU64::new(0),
            is_name_taken: AtomicBool::default(),
            is_cold: AtomicBool::new(false),
            locates: Mutex::new(LocateLimits::new(Hold::All, seed)),
            nodes: Mutex::default(),
            neighbours: Mutex::default(),
            paused_trunks: Mutex::default(),
            trunk_logins: Mutex::new(TrunkLogins::new(&seed.part(208))),
            call_rates: Mutex::new(CallRates::new(seed)),
            failed: Mutex::default(),
            blocks: Mutex::default(),
            call_names: CallNames::new(seed),
            calls: Mutex::new(CallTable::new(CALL_LIMITS, now)),
            ended_calls: Mutex::default(),
        }
    }

    fn record(&self, now: Instant, event: &CallEvent<'_>) {
        if let Some(name) = self.call_names.of(event) {
            let mut ended = lock(&self.ended_calls);
            lock(&self.calls).on_step(now, &name, event, |record| ended.push(record));
        }
    }

    /// Removes a subscriber.
    pub fn unsubscribe(&self, user: &str, domain: &str) {
        let key = (user.into(), domain.into());
        lock(&self.users).remove(&key);
        lock(&self.full).remove(&key);
    }

    /// Removes H(A1) of a subscriber's name with its domain, which is absent where only a hash of the password came.
    pub fn forget_full(&self, user: &str, domain: &str) {
        lock(&self.full).remove(&(user.into(), domain.into()));
    }

    /// Adds a subscriber.
    pub fn subscribe(&self, user: &str, domain: &str, realm: &str, password: &str) {
        let text = format!("{user}:{realm}:{password}");
        let of = |text: &str| Ha1 { md5: Md5::digest(text).into(), sha256: Sha256::digest(text).into() };
        lock(&self.users).insert((user.into(), domain.into()), of(&text));
        let full = of(&format!("{user}@{domain}:{realm}:{password}"));
        lock(&self.full).insert((user.into(), domain.into()), full);
    }

    /// Releases all reserved memory, as at the end of the server's process.
    pub fn forget_reservations(&self) {
        *lock(&self.budget) = MemoryBudget::new(BUDGET_BYTES, &Seed::from_number(0));
    }

    /// Filter in front of the calls of watched users.
    pub fn lamps_filter(&self) -> &LampFilter {
        &self.lamp_filter
    }

    /// Number of open calls of watched users, and of those without an answer.
    pub fn open_lamps(&self) -> (usize, usize) {
        lock(&self.lamps).open()
    }

    /// Forgets the calls of watched users and their watchers, as at the end of the server's process.
    pub fn forget_lamps(&self) {
        lock(&self.lamps).clear();
    }

    /// Ends the records of all open calls, as at the end of the server's process.
    pub fn stop_calls(&self, now: Instant) {
        let mut ended = lock(&self.ended_calls);
        lock(&self.calls).stop(now, usize::MAX, |record| ended.push(record));
    }

    /// Bytes reserved for pending requests.
    pub fn reserved_bytes(&self) -> usize {
        lock(&self.budget).used()
    }

    /// Number of calls to neighbours with a connection of their own.
    pub fn neighbour_calls(&self) -> usize {
        lock(&self.neighbours).calls_len()
    }

    /// Records of all addresses-of-record that have bindings.
    pub fn stored(&self) -> BTreeMap<Vec<u8>, Vec<u8>> {
        let mut stored = lock(&self.records).clone();
        stored.retain(|_, record| !record.is_empty());
        stored
    }
}

impl Services for TestServices {
    fn credentials(&self, user: &[u8], domain: &[u8]) -> Option<Ha1> {
        lock(&self.users).get(&(user.to_vec(), domain.to_vec())).copied()
    }

    fn full_credentials(&self, user: &[u8], domain: &[u8]) -> Option<Ha1> {
        lock(&self.full).get(&(user.to_vec(), domain.to_vec())).copied()
    }

    fn is_known(&self, user: &[u8], domain: &[u8]) -> bool {
        self.credentials(user, domain).is_some()
    }

    fn use_nonce(&self, now: Instant, nonce: NonceId, count: u32, request: u64) -> NonceUse {
        lock(&self.windows).use_count(now, nonce, count, request)
    }

    fn admit(&self, now: Instant, source: IpAddr, traffic: Traffic) -> bool {
        lock(&self.rates).admit(now, source, traffic)
    }

    fn give_back(&self, now: Instant, source: IpAddr) {
        lock(&self.rates).give_back(now, source);
    }

    fn is_neighbour_up(&self, neighbour: usize) -> bool {
        lock(&self.neighbours).is_up(neighbour)
    }

    fn trunk_pause(&self, now: Instant, trunk: usize) -> Option<TrunkPause> {
        lock(&self.paused_trunks).of(now, trunk)
    }

    fn pause_trunk(&self, trunk: usize, pause: TrunkPause, until: Instant) {
        lock(&self.paused_trunks).note(trunk, pause, until);
    }

    fn note_answering_trunk(&self, trunk: usize) {
        lock(&self.paused_trunks).clear(trunk);
    }

    fn change_trunk_logins(&self, change: &mut dyn FnMut(&mut TrunkLogins)) {
        change(&mut lock(&self.trunk_logins));
    }

    fn admit_call(&self, now: Instant, aor: &[u8], prefix: &str, per_hour: u32) -> CallRate {
        lock(&self.call_rates).admit(now, aor, prefix, per_hour)
    }

    fn is_source_blocked(&self, source: IpAddr) -> bool {
        lock(&self.blocks).blocks_source(source)
    }

    fn is_caller_blocked(&self, caller: &Caller<'_>) -> bool {
        lock(&self.blocks).blocks_caller(caller)
    }

    fn has_failed(&self, now: Instant, server: &LocatedServer) -> bool {
        lock(&self.failed).has(now, server)
    }

    fn note_failed(&self, now: Instant, server: &LocatedServer, until: Instant) {
        lock(&self.failed).note(now, server, until);
    }

    fn reserve(&self, payer: Payer, bytes: usize) -> bool {
        lock(&self.budget).reserve(payer, bytes)
    }

    fn reserve_more(&self, payer: Payer, bytes: usize) -> bool {
        lock(&self.budget).reserve_more(payer, bytes)
    }

    fn shrink(&self, payer: Payer, bytes: usize) {
        lock(&self.budget).shrink(payer, bytes);
    }

    fn answered(&self, payer: Payer) {
        lock(&self.budget).answered(payer);
    }

    fn release(&self, payer: Payer, bytes: usize) {
        lock(&self.budget).release(payer, bytes);
    }

    fn extend_dialog(&self, now: Instant, mark: u64, until: Instant) {
        lock(&self.dialogs).extend(now, mark, until);
    }

    fn is_dialog_extended(&self, now: Instant, mark: u64) -> bool {
        lock(&self.dialogs).is_extended(now, mark)
    }

    fn has_moved_sides(&self) -> bool {
        !lock(&self.sides).is_empty()
    }

    fn change_sides(&self, change: &mut dyn FnMut(&mut SideTable)) {
        change(&mut lock(&self.sides));
    }

    fn may_challenge(&self, now: Instant, login: &Login<'_>) -> bool {
        lock(&self.challenges).may_challenge(now, login)
    }

    fn may_log_in(&self, now: Instant, login: &Login<'_>) -> bool {
        lock(&self.guesses).as_mut().is_none_or(|guesses| guesses.may_log_in(now, login))
    }

    fn on_login(&self, now: Instant, login: &Login<'_>, result: LoginResult) {
        lock(&self.logins)[result as usize] += 1;
        if let Some(guesses) = lock(&self.guesses).as_mut() {
            guesses.on_login(now, login, result);
        }
    }

    fn record_bytes_max(&self, _aor: &[u8]) -> Result<usize, StoreFailed> {
        let fails = self.store_fails.load(Ordering::Relaxed);
        if fails { Err(StoreFailed) } else { Ok(self.record_bytes_max.load(Ordering::Relaxed)) }
    }

    fn has_store_failed(&self) -> bool {
        self.relaxed_store_fails.load(Ordering::Relaxed)
    }

    fn is_tracing(&self) -> bool {
        self.is_tracing.load(Ordering::Relaxed)
    }

    fn call_names(&self) -> Option<&CallNames> {
        Some(&self.call_names)
    }

    fn observe(&self, now: Instant, event: &LogEvent<'_>) {
        let text = String::from_utf8_lossy;
        let event = match *event {
            LogEvent::LoginRefused { user, reason, .. } => format!("{} {reason:?}", text(user)),
            LogEvent::CallerBlocked { caller, callee, .. } => {
                format!("{} blocked for {}", text(caller), text(callee))
            }
            LogEvent::Registered { aor, change, .. } => format!("{} {change:?}", text(aor)),
            LogEvent::BindingEnded { aor, contact, reason, .. } => {
                format!("{} {} {reason:?}", text(aor), text(contact))
            }
            LogEvent::DestinationRefused { aor, number, prefix, .. } => {
                format!("{} may not call {} ({prefix})", text(aor), text(number))
            }
            LogEvent::MessageRefused { sender, recipient, reason, .. } => {
                format!("{} for {}: {reason}", text(sender), text(recipient))
            }
            LogEvent::MessageDropped { sender, recipient, reason } => {
                format!("dropped {} for {}: {reason}", text(sender), text(recipient))
            }
            LogEvent::TrunkBypassed { caller, target, .. } => {
                format!("{} may not reach the trunk of {}", text(caller), text(target))
            }
            LogEvent::InnerHostRefused { caller, hop, host, .. } => {
                format!("{} may not reach {hop}: {host:?}", text(caller))
            }
            LogEvent::TrunkLoginRefused { name, .. } => format!("{name} refused the login"),
            LogEvent::Decided { decision, .. } => return lock(&self.decisions).push(decision.to_string()),
            LogEvent::NeighbourUp { name, .. } => format!("{name} up"),
            LogEvent::NeighbourDown { name, reason, .. } => format!("{name} {reason:?}"),
            LogEvent::Call(event) => {
                self.record(now, &event);
                let step = event.step;
                if matches!(step, CallStep::Ringing(_) | CallStep::Over) {
                    return;
                }
                let message = Message::parse(event.message, &Limits::default()).unwrap();
                let target = event.target.map(|target| format!(" to {}", text(target))).unwrap_or_default();
                format!("{} {step:?}{target}", text(message.call_id()))
            }
        };
        lock(&self.events).push(event);
    }

    fn lamps(&self) -> Option<&LampFilter> {
        Some(&self.lamp_filter)
    }

    fn change_lamps(&self, change: &mut dyn FnMut(&mut LampTable)) {
        change(&mut lock(&self.lamps));
    }

    fn neighbour_route(&self, flow: &Flow) -> NeighbourRoute {
        lock(&self.neighbours).route(flow)
    }

    fn neighbour_connection(&self, neighbour: usize) -> Option<ConnectionId> {
        lock(&self.neighbours).connection(neighbour)
    }

    fn change_neighbours(&self, change: &mut dyn FnMut(&mut NeighbourTable)) {
        change(&mut lock(&self.neighbours));
    }

    fn share(&self, aor: &[u8], update: &[u8]) -> u64 {
        let number = self.shared_len.fetch_add(1, Ordering::Relaxed) + 1;
        let mut update = update.to_vec();
        Update::set_number(&mut update, number);
        lock(&self.shared).push((aor.to_vec(), update));
        number
    }

    fn is_name_taken(&self) -> bool {
        self.is_name_taken.load(Ordering::Relaxed)
    }

    fn is_location_warm(&self) -> bool {
        !self.is_cold.load(Ordering::Relaxed)
    }

    fn begin_locate(&self, now: Instant, source: IpAddr, is_proven: bool) -> Result<(), LocateRefusal> {
        lock(&self.locates).begin(now, source, is_proven)
    }

    fn end_locate(&self) {
        lock(&self.locates).end();
    }

    fn node_state(&self, node: &NodeName) -> NodeState {
        lock(&self.nodes).get(node).copied().unwrap_or_default()
    }

    fn store(&self, aor: &[u8], record: &[u8]) {
        lock(&self.records).insert(aor.to_vec(), record.to_vec());
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap()
}

/// Limits of the table of calls.
const CALL_LIMITS: CallLimits =
    CallLimits { calls_max: 10_000, bytes_max: 8 << 20, dialog_lifetime: Duration::from_secs(86_400) };

/// Memory for pending requests.
const BUDGET_BYTES: usize = 64 << 20;
