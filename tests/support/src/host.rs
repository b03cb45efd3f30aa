//! The host of a server in tests: subscribers, store and observers in memory.

use md5::Md5;
use ringway_location::{NodeName, Update};
use ringway_sansio::{Flow, Instant, MemoryBound, Seed};
use ringway_server::{
    BindingChange, CallEvent, CallLimits, CallNames, CallRecord, CallStep, CallTable, Ha1, Hold, Host,
    LogEvent, NameForm, NodeNameStatus, NodeState, SharedTables, StoreFailed, StoreStatus, TableLimits,
    TrunkEvent,
};
use ringway_sim::SimLocks;
use ringway_sip::{Limits, Message};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// Limits of [`TestHost`].
#[derive(Clone, Copy, Debug)]
pub struct HostLimits {
    /// Lifetime of a nonce.
    pub nonce_lifetime: Duration,
    /// Maximum number of nonces with stored counts.
    pub nonces_max: usize,
    /// Maximum number of users and sources with a recent successful login.
    pub proofs_max: usize,
    /// Requests of one source in a second; 0: no limit.
    pub per_second: u32,
    /// Maximum length of a record.
    pub record_bytes_max: usize,
}

/// Subscribers, store and observers of a server. They survive the server, and its tables do not.
pub struct TestHost {
    tables: Mutex<Arc<SharedTables>>,
    limits: HostLimits,
    seed: Seed,
    users: Mutex<Subscribers>,
    /// By name and domain: H(A1) of both as a user name.
    full: Mutex<Subscribers>,
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
    /// States of other nodes that are not up.
    pub nodes: Mutex<BTreeMap<NodeName, NodeState>>,
    /// Nodes that can register trunks at present; `None`: not known yet.
    pub trunk_nodes: Mutex<Option<Vec<NodeName>>>,
    /// Hash of this node's trunks.
    pub own_trunks: AtomicU64,
    call_names: CallNames,
    /// Open calls.
    pub calls: Mutex<CallTable>,
    /// Records of the ended calls.
    pub ended_calls: Mutex<Vec<CallRecord>>,
}

/// H(A1) by user and domain.
type Subscribers = BTreeMap<(Vec<u8>, Vec<u8>), Ha1>;

impl TestHost {
    /// Creates a host without subscribers and records.
    pub fn new(limits: HostLimits, seed: &Seed, now: Instant) -> Self {
        Self {
            tables: Mutex::new(tables(limits, seed, now)),
            limits,
            seed: *seed,
            users: Mutex::default(),
            full: Mutex::default(),
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
            nodes: Mutex::default(),
            trunk_nodes: Mutex::default(),
            own_trunks: AtomicU64::new(0),
            call_names: CallNames::new(seed),
            calls: Mutex::new(CallTable::new(CALL_LIMITS, now)),
            ended_calls: Mutex::default(),
        }
    }

    /// Tables of the server's process.
    pub fn tables(&self) -> Arc<SharedTables> {
        Arc::clone(&lock(&self.tables))
    }

    /// Begins with empty tables, as another process of the server does.
    pub fn restart(&self, now: Instant) {
        *lock(&self.tables) = tables(self.limits, &self.seed, now);
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

    /// Ends the records of all open calls, as at the end of the server's process.
    pub fn stop_calls(&self, now: Instant) {
        let mut ended = lock(&self.ended_calls);
        lock(&self.calls).stop(now, usize::MAX, |record| ended.push(record));
    }

    /// Records of all addresses-of-record that have bindings.
    pub fn stored(&self) -> BTreeMap<Vec<u8>, Vec<u8>> {
        let mut stored = lock(&self.records).clone();
        stored.retain(|_, record| !record.is_empty());
        stored
    }
}

impl Host for TestHost {
    fn credentials(&self, user: &[u8], domain: &[u8], form: NameForm) -> Option<Ha1> {
        let users = match form {
            NameForm::User => &self.users,
            NameForm::WithDomain => &self.full,
        };
        lock(users).get(&(user.to_vec(), domain.to_vec())).copied()
    }

    fn is_known(&self, user: &[u8], domain: &[u8]) -> bool {
        self.credentials(user, domain, NameForm::User).is_some()
    }

    fn has_read(&self, _user: &[u8], _domain: &[u8]) -> bool {
        true
    }

    fn store_status(&self) -> StoreStatus {
        let name = match self.is_name_taken.load(Ordering::Relaxed) {
            true => NodeNameStatus::Taken,
            false => NodeNameStatus::Own,
        };
        StoreStatus {
            has_failed: self.relaxed_store_fails.load(Ordering::Relaxed),
            is_warm: !self.is_cold.load(Ordering::Relaxed),
            name,
        }
    }

    fn record_bytes_max(&self, _aor: &[u8]) -> Result<usize, StoreFailed> {
        let fails = self.store_fails.load(Ordering::Relaxed);
        if fails { Err(StoreFailed) } else { Ok(self.record_bytes_max.load(Ordering::Relaxed)) }
    }

    fn store(&self, aor: &[u8], record: &[u8]) {
        lock(&self.records).insert(aor.to_vec(), record.to_vec());
    }

    fn share(&self, aor: &[u8], update: &[u8]) -> u64 {
        let number = self.shared_len.fetch_add(1, Ordering::Relaxed) + 1;
        let mut update = update.to_vec();
        Update::set_number(&mut update, number);
        lock(&self.shared).push((aor.to_vec(), update));
        number
    }

    fn node_state(&self, node: &NodeName) -> NodeState {
        lock(&self.nodes).get(node).copied().unwrap_or_default()
    }

    fn nodes_with_trunks(&self, trunks: u64) -> Option<Vec<NodeName>> {
        self.own_trunks.store(trunks, Ordering::Relaxed);
        lock(&self.trunk_nodes).clone()
    }

    fn on_change(&self, _aor: &[u8], _change: BindingChange, _flow: Option<Flow>) {}

    fn is_traced(&self, _received: Option<(&Message<'_>, &Flow)>) -> bool {
        self.is_tracing.load(Ordering::Relaxed)
    }

    fn call_names(&self) -> Option<&CallNames> {
        Some(&self.call_names)
    }

    fn observe(&self, now: Instant, event: &LogEvent<'_>) {
        let text = String::from_utf8_lossy;
        let event = match *event {
            LogEvent::LoginRefused { user, reason, .. } => format!("{} {reason:?}", text(user)),
            LogEvent::TrunkRegistered { name } => format!("{name} registered"),
            LogEvent::TrunkNotRegistered { name, status } => format!("{name} not registered: {status}"),
            // The response says it.
            LogEvent::RequestRefused { .. } => return,
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
            LogEvent::EmergencyCall { caller, number, site, .. } => {
                format!("emergency call of {} to {} from {site:?}", text(caller), text(number))
            }
            LogEvent::TrunkBypassed { caller, target, .. } => {
                format!("{} may not reach the trunk of {}", text(caller), text(target))
            }
            LogEvent::InnerHostRefused { caller, hop, host, .. } => {
                format!("{} may not reach {hop}: {host:?}", text(caller))
            }
            LogEvent::TrunkLoginRefused { name, .. } => format!("{name} refused the login"),
            LogEvent::Decided { decision, .. } => return lock(&self.decisions).push(decision.to_string()),
            LogEvent::Received { .. } => return,
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

    fn note_trunk(&self, _now: Instant, _trunk: usize, _event: TrunkEvent) {}
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap()
}

fn tables(limits: HostLimits, seed: &Seed, now: Instant) -> Arc<SharedTables> {
    let HostLimits { nonce_lifetime, nonces_max, proofs_max, per_second, .. } = limits;
    let limits = TableLimits {
        parts: 1,
        memory: Arc::new(MemoryBound::new(BUDGET_BYTES)),
        nonces_max,
        nonce_lifetime,
        proofs_max,
        sides_max: 64,
        per_second,
        hold: Hold::All,
    };
    Arc::new(SharedTables::new::<SimLocks>(&limits, seed, now))
}

/// Limits of the table of calls.
const CALL_LIMITS: CallLimits =
    CallLimits { calls_max: 10_000, bytes_max: 8 << 20, dialog_lifetime: Duration::from_secs(86_400) };

/// Memory for pending requests.
const BUDGET_BYTES: usize = 64 << 20;
