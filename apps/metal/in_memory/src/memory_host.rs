//! The host of a server without an operating system: its users and the changes for the screen, in memory.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;
use ringway_sansio::{Flow, Guarded, Instant, Locks, MemoryBound, Seed};
use ringway_server::{
    BindingChange, CallNames, Ha1, Hold, Host, LogEvent, NameForm, NodeName, NodeNameStatus, NodeState,
    SharedTables, StoreFailed, StoreStatus, TableLimits, TrunkEvent,
};
use ringway_sip::Message;
use ringway_users::Subscribers;

/// Maker of a server's tables, with the locks of some hardware.
#[derive(Clone, Copy)]
pub struct MakeTables {
    tables: fn(&TableLimits, &Seed, Instant) -> SharedTables,
    changes: fn(VecDeque<RecordedChange>) -> Guarded<VecDeque<RecordedChange>>,
}

/// Maker of a server's tables with the locks `L`.
pub fn tables_with<L: Locks>() -> MakeTables {
    MakeTables { tables: SharedTables::new::<L>, changes: Guarded::new::<L> }
}

impl core::fmt::Debug for MakeTables {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("MakeTables").finish_non_exhaustive()
    }
}

/// Users of a server, and what changed for the screen. Nothing is stored: bindings are gone after a restart.
pub struct MemoryHost {
    users: Subscribers,
    changes: Guarded<VecDeque<RecordedChange>>,
}

/// A change of a user's bindings.
#[derive(Clone, Debug)]
pub struct RecordedChange {
    aor: [u8; AOR_BYTES_MAX],
    aor_bytes: usize,
    /// The change.
    pub change: BindingChange,
    /// Flow of the REGISTER, if that is the cause.
    pub flow: Option<Flow>,
}

impl RecordedChange {
    /// Beginning of the address-of-record, as shown on the screen.
    pub fn aor(&self) -> &[u8] {
        self.aor.get(..self.aor_bytes).unwrap_or_default()
    }
}

impl MakeTables {
    /// Creates the tables of one server. `per_source_rate` is the limit of requests per second from one source; 0: no limit.
    pub fn tables(
        &self,
        nonce_lifetime: Duration,
        per_source_rate: u32,
        seed: &Seed,
        now: Instant,
    ) -> SharedTables {
        let limits = TableLimits {
            parts: 1,
            memory: Arc::new(MemoryBound::new(MEMORY_BYTES_MAX)),
            nonces_max: NONCES_MAX,
            nonce_lifetime,
            proofs_max: PROOFS_MAX,
            sides_max: SIDES_MAX,
            per_second: per_source_rate,
            hold: Hold::All,
        };
        (self.tables)(&limits, seed, now)
    }
}

impl MemoryHost {
    /// Creates the host of a server with these users.
    pub fn new(users: Subscribers, make: MakeTables) -> Self {
        Self { users, changes: (make.changes)(VecDeque::with_capacity(CHANGES_MAX)) }
    }

    /// Oldest change that was not taken yet.
    pub fn take_change(&self) -> Option<RecordedChange> {
        self.changes.change(None, VecDeque::pop_front)
    }

    /// Subscribers of the server.
    pub const fn users(&self) -> &Subscribers {
        &self.users
    }
}

impl Host for MemoryHost {
    fn credentials(&self, user: &[u8], domain: &[u8], form: NameForm) -> Option<Ha1> {
        let (user, domain) = (core::str::from_utf8(user).ok()?, core::str::from_utf8(domain).ok()?);
        let name = self.users.name(user, domain);
        match form {
            NameForm::User => self.users.find(&name),
            NameForm::WithDomain => self.users.find_full(&name),
        }
    }

    fn is_known(&self, user: &[u8], domain: &[u8]) -> bool {
        match (core::str::from_utf8(user), core::str::from_utf8(domain)) {
            (Ok(user), Ok(domain)) => self.users.contains(&self.users.name(user, domain)),
            _ => false,
        }
    }

    fn has_read(&self, _user: &[u8], _domain: &[u8]) -> bool {
        true
    }

    fn store_status(&self) -> StoreStatus {
        let name = NodeNameStatus::Own;
        StoreStatus { has_failed: false, is_warm: true, name }
    }

    fn record_bytes_max(&self, _aor: &[u8]) -> Result<usize, StoreFailed> {
        Ok(usize::MAX)
    }

    fn store(&self, _aor: &[u8], _record: &[u8]) {}

    fn share(&self, _aor: &[u8], _update: &[u8]) -> u64 {
        0
    }

    fn node_state(&self, _node: &NodeName) -> NodeState {
        NodeState::Up
    }

    fn nodes_with_trunks(&self, _trunks: u64) -> Option<Vec<NodeName>> {
        None
    }

    fn on_change(&self, aor: &[u8], change: BindingChange, flow: Option<Flow>) {
        self.changes.change((), |changes| {
            // Further changes of a burst are dropped; the screen shows only a few.
            if changes.len() < CHANGES_MAX {
                // Without allocation, because this runs for every REGISTER.
                let aor_bytes = aor.len().min(AOR_BYTES_MAX);
                let mut changed = RecordedChange { aor: [0; AOR_BYTES_MAX], aor_bytes, change, flow };
                changed.aor.iter_mut().zip(aor).for_each(|(to, from)| *to = *from);
                changes.push_back(changed);
            }
        });
    }

    fn is_traced(&self, _received: Option<(&Message<'_>, &Flow)>) -> bool {
        false
    }

    fn call_names(&self) -> Option<&CallNames> {
        None
    }

    fn observe(&self, _now: Instant, _event: &LogEvent<'_>) {}

    fn note_trunk(&self, _now: Instant, _trunk: usize, _event: TrunkEvent) {}
}

/// Memory budget of pending requests; the heap has at least 32 MiB.
const MEMORY_BYTES_MAX: usize = 8 << 20;

/// Length of the shown address-of-record.
const AOR_BYTES_MAX: usize = 64;

/// Changes queued for the screen.
const CHANGES_MAX: usize = 64;

/// Maximum number of stored nonces; the same as of users.
pub const NONCES_MAX: usize = 20_000;
/// Sides of dialogs that moved, and flows that phones left.
const SIDES_MAX: usize = 256;

/// Maximum number of users and sources with a recent successful login.
const PROOFS_MAX: usize = 40_000;
