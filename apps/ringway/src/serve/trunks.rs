//! Events of each trunk since it was configured, for administrators.

use ringway_sansio::Instant;
use ringway_server::{Trunk, TrunkEvent};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

/// Trunks in the order of the configuration.
#[derive(Debug, Default)]
pub(super) struct TrunkTable {
    list: RwLock<Vec<Arc<TrunkRow>>>,
}

/// One trunk.
#[derive(Debug)]
pub(super) struct TrunkRow {
    pub(super) name: String,
    pub(super) uri: String,
    /// Index of its neighbour, if it is probed.
    pub(super) neighbour: Option<usize>,
    /// It is a node behind this front.
    pub(super) is_node: bool,
    calls: AtomicU64,
    logins_refused: AtomicU64,
    answered: AtomicU64,
    status: AtomicU16,
    /// The calls under way are counted, since there is a limit of them.
    pub(super) is_counted: bool,
    /// It registers.
    registers: bool,
    /// Result of its last registration: [`REGISTERED`], or the status of a failure; 0: none yet.
    registered: AtomicU16,
}

impl TrunkTable {
    /// Replaces the trunks; one with the same name and URI keeps what it has counted.
    pub(super) fn set(&self, trunks: &[Trunk]) {
        let mut list = self.list.write().unwrap_or_else(PoisonError::into_inner);
        let rows: HashMap<&str, &Arc<TrunkRow>> = list.iter().map(|row| (row.name.as_str(), row)).collect();
        let row = |trunk: &Trunk| match rows.get(trunk.name.as_str()) {
            Some(row) if row.is_of(trunk) => Arc::clone(row),
            Some(_) | None => Arc::new(TrunkRow::new(trunk)),
        };
        let new = trunks.iter().map(row).collect();
        *list = new;
    }

    pub(super) fn note(&self, now: Instant, trunk: usize, event: TrunkEvent) {
        let list = self.list.read().unwrap_or_else(PoisonError::into_inner);
        let Some(row) = list.get(trunk) else { return };
        match event {
            TrunkEvent::Called => {
                row.calls.fetch_add(1, Ordering::Relaxed);
            }
            TrunkEvent::Answered(status) => {
                row.answered.store(now.as_nanos(), Ordering::Relaxed);
                row.status.store(status, Ordering::Relaxed);
            }
            TrunkEvent::Registered(_) => row.registered.store(REGISTERED, Ordering::Relaxed),
            TrunkEvent::NotRegistered(status) => {
                row.registered.store(status.min(OF_OTHER_NODE - 1), Ordering::Relaxed);
            }
            TrunkEvent::OfOtherNode => row.registered.store(OF_OTHER_NODE, Ordering::Relaxed),
            TrunkEvent::LoginRefused => {
                row.logins_refused.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    pub(super) fn rows(&self) -> Vec<Arc<TrunkRow>> {
        self.list.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl TrunkRow {
    fn new(trunk: &Trunk) -> Self {
        Self {
            name: trunk.name.clone(),
            uri: trunk.uri.clone(),
            neighbour: trunk.neighbour,
            is_node: trunk.is_node,
            calls: AtomicU64::new(0),
            logins_refused: AtomicU64::new(0),
            answered: AtomicU64::new(0),
            status: AtomicU16::new(0),
            is_counted: is_counted(trunk),
            registers: trunk.registers,
            registered: AtomicU16::new(0),
        }
    }

    /// True for the row of this trunk.
    fn is_of(&self, trunk: &Trunk) -> bool {
        let of_row = (&self.name, &self.uri, self.neighbour, self.is_node);
        of_row == (&trunk.name, &trunk.uri, trunk.neighbour, trunk.is_node)
            && (self.registers, self.is_counted) == (trunk.registers, is_counted(trunk))
    }

    /// True if it registered this server, false if not; `None`: it does not register.
    pub(super) fn is_registered(&self) -> Option<bool> {
        self.registers.then(|| self.registered.load(Ordering::Relaxed) == REGISTERED)
    }

    /// True if another node registers at it.
    pub(super) fn is_of_other_node(&self) -> bool {
        self.registered.load(Ordering::Relaxed) == OF_OTHER_NODE
    }

    /// INVITEs sent to it.
    pub(super) fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// Logins that it refused, or for which there were no credentials.
    pub(super) fn logins_refused(&self) -> u64 {
        self.logins_refused.load(Ordering::Relaxed)
    }

    /// Time and status of its last response to a request that was routed to it.
    pub(super) fn last_answer(&self) -> Option<(Instant, u16)> {
        let status = self.status.load(Ordering::Relaxed);
        (status != 0).then(|| (Instant::from_nanos(self.answered.load(Ordering::Relaxed)), status))
    }
}

fn is_counted(trunk: &Trunk) -> bool {
    trunk.counts_calls()
}

/// Value of a registration that succeeded: no status.
const REGISTERED: u16 = u16::MAX;
/// Another node registers.
const OF_OTHER_NODE: u16 = REGISTERED - 1;
