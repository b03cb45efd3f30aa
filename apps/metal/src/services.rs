//! `Services` of the server, kept in memory.

use alloc::collections::VecDeque;
use alloc::rc::Rc;
use core::cell::RefCell;
use core::net::IpAddr;
use core::time::Duration;
use ringway_sansio::{Flow, Instant, Seed};
use ringway_server::{
    BindingChange, ChallengeLimits, DialogExtensions, GuessLimits, Ha1, Login, LoginResult, MemoryBudget,
    NonceId, NonceUse, Payer, ReplayWindows, Services, SideTable, Traffic, TrafficRates,
};
use ringway_users::Subscribers;

/// Users, nonces and rates. There is one thread and no lock.
#[derive(Clone)]
pub struct MemoryServices(Rc<Inner>);

struct Inner {
    users: Subscribers,
    windows: RefCell<ReplayWindows>,
    dialogs: RefCell<DialogExtensions>,
    sides: RefCell<SideTable>,
    budget: RefCell<MemoryBudget>,
    guesses: RefCell<GuessLimits>,
    challenges: RefCell<ChallengeLimits>,
    rates: RefCell<TrafficRates>,
    changes: RefCell<VecDeque<RecordedChange>>,
}

/// A change of a user's bindings.
#[derive(Clone, Debug)]
pub(crate) struct RecordedChange {
    aor: [u8; AOR_BYTES_MAX],
    aor_bytes: usize,
    pub(crate) change: BindingChange,
    pub(crate) flow: Option<Flow>,
}

impl RecordedChange {
    /// Beginning of the address-of-record, as shown on the screen.
    pub(crate) fn aor(&self) -> &[u8] {
        self.aor.get(..self.aor_bytes).unwrap_or_default()
    }
}

impl MemoryServices {
    /// Creates services for these users. `per_source_rate` is the limit of requests per second from one source; 0: no
    /// limit.
    pub fn new(
        users: Subscribers,
        nonce_lifetime: Duration,
        per_source_rate: u32,
        seed: &Seed,
        now: Instant,
    ) -> Self {
        Self(Rc::new(Inner {
            users,
            windows: RefCell::new(ReplayWindows::new(NONCES_MAX, nonce_lifetime, now)),
            budget: RefCell::new(MemoryBudget::new(MEMORY_BYTES_MAX, &seed.part(5))),
            dialogs: RefCell::new(DialogExtensions::new(&seed.part(4))),
            sides: RefCell::new(SideTable::new(&seed.part(7), SIDES_MAX)),
            guesses: RefCell::new(GuessLimits::new(PROOFS_MAX, &seed.part(3), now)),
            challenges: RefCell::new(ChallengeLimits::new(&seed.part(6))),
            rates: RefCell::new(TrafficRates::new(per_source_rate, &seed.part(2))),
            changes: RefCell::new(VecDeque::with_capacity(CHANGES_MAX)),
        }))
    }

    /// Oldest change that was not taken yet.
    pub(crate) fn take_change(&self) -> Option<RecordedChange> {
        self.0.changes.try_borrow_mut().ok()?.pop_front()
    }

    /// Subscribers of the server.
    pub fn users(&self) -> &Subscribers {
        &self.0.users
    }

    /// Stored nonces, their maximum number, and the number evicted early.
    pub fn nonces(&self) -> (usize, usize, u64) {
        let windows = self.0.windows.borrow();
        (windows.len(), NONCES_MAX, windows.evicted())
    }
}

impl Services for MemoryServices {
    fn credentials(&self, user: &[u8], domain: &[u8]) -> Option<Ha1> {
        let (user, domain) = (core::str::from_utf8(user).ok()?, core::str::from_utf8(domain).ok()?);
        let users = &self.0.users;
        users.find(&users.name(user, domain))
    }

    fn full_credentials(&self, user: &[u8], domain: &[u8]) -> Option<Ha1> {
        let (user, domain) = (core::str::from_utf8(user).ok()?, core::str::from_utf8(domain).ok()?);
        let users = &self.0.users;
        users.find_full(&users.name(user, domain))
    }

    fn is_known(&self, user: &[u8], domain: &[u8]) -> bool {
        let users = &self.0.users;
        match (core::str::from_utf8(user), core::str::from_utf8(domain)) {
            (Ok(user), Ok(domain)) => users.contains(&users.name(user, domain)),
            _ => false,
        }
    }

    fn use_nonce(&self, now: Instant, nonce: NonceId, count: u32, request: u64) -> NonceUse {
        // No method calls back, so this is never borrowed twice.
        match self.0.windows.try_borrow_mut() {
            Ok(mut windows) => windows.use_count(now, nonce, count, request),
            Err(_) => NonceUse::Replayed,
        }
    }

    fn reserve(&self, payer: Payer, bytes: usize) -> bool {
        self.0.budget.try_borrow_mut().is_ok_and(|mut budget| budget.reserve(payer, bytes))
    }

    fn reserve_more(&self, payer: Payer, bytes: usize) -> bool {
        self.0.budget.try_borrow_mut().is_ok_and(|mut budget| budget.reserve_more(payer, bytes))
    }

    fn shrink(&self, payer: Payer, bytes: usize) {
        if let Ok(mut budget) = self.0.budget.try_borrow_mut() {
            budget.shrink(payer, bytes);
        }
    }

    fn answered(&self, payer: Payer) {
        if let Ok(mut budget) = self.0.budget.try_borrow_mut() {
            budget.answered(payer);
        }
    }

    fn release(&self, payer: Payer, bytes: usize) {
        if let Ok(mut budget) = self.0.budget.try_borrow_mut() {
            budget.release(payer, bytes);
        }
    }

    fn extend_dialog(&self, now: Instant, mark: u64, until: Instant) {
        if let Ok(mut dialogs) = self.0.dialogs.try_borrow_mut() {
            dialogs.extend(now, mark, until);
        }
    }

    fn is_dialog_extended(&self, now: Instant, mark: u64) -> bool {
        self.0.dialogs.try_borrow().is_ok_and(|dialogs| dialogs.is_extended(now, mark))
    }

    fn has_moved_sides(&self) -> bool {
        self.0.sides.try_borrow().is_ok_and(|sides| !sides.is_empty())
    }

    fn change_sides(&self, change: &mut dyn FnMut(&mut SideTable)) {
        if let Ok(mut sides) = self.0.sides.try_borrow_mut() {
            change(&mut sides);
        }
    }

    fn admit(&self, now: Instant, source: IpAddr, traffic: Traffic) -> bool {
        self.0.rates.try_borrow_mut().is_ok_and(|mut rates| rates.admit(now, source, traffic))
    }

    fn give_back(&self, now: Instant, source: IpAddr) {
        if let Ok(mut rates) = self.0.rates.try_borrow_mut() {
            rates.give_back(now, source);
        }
    }

    fn may_log_in(&self, now: Instant, login: &Login<'_>) -> bool {
        self.0.guesses.try_borrow_mut().is_ok_and(|mut guesses| guesses.may_log_in(now, login))
    }

    fn may_challenge(&self, now: Instant, login: &Login<'_>) -> bool {
        self.0.challenges.try_borrow_mut().is_ok_and(|mut challenges| challenges.may_challenge(now, login))
    }

    fn on_login(&self, now: Instant, login: &Login<'_>, result: LoginResult) {
        if let Ok(mut guesses) = self.0.guesses.try_borrow_mut() {
            guesses.on_login(now, login, result);
        }
    }

    fn keeps_bindings(&self) -> bool {
        false
    }

    fn store(&self, _aor: &[u8], _record: &[u8]) {}

    fn on_change(&self, aor: &[u8], change: BindingChange, flow: Option<Flow>) {
        // Further changes of a burst are dropped; the screen shows only a few.
        if let Ok(mut changes) = self.0.changes.try_borrow_mut()
            && changes.len() < CHANGES_MAX
        {
            // Without allocation, because this runs for every REGISTER.
            let mut changed = RecordedChange {
                aor: [0; AOR_BYTES_MAX],
                aor_bytes: aor.len().min(AOR_BYTES_MAX),
                change,
                flow,
            };
            changed.aor.iter_mut().zip(aor).for_each(|(to, from)| *to = *from);
            changes.push_back(changed);
        }
    }
}

/// Memory budget of pending requests; the heap has at least 32 MiB.
const MEMORY_BYTES_MAX: usize = 8 << 20;

/// Length of the shown address-of-record.
const AOR_BYTES_MAX: usize = 64;

/// Changes queued for the screen.
const CHANGES_MAX: usize = 64;

/// Maximum number of stored nonces; the same as of users.
const NONCES_MAX: usize = 20_000;
/// Sides of dialogs that moved, and flows that phones left.
const SIDES_MAX: usize = 256;

/// Maximum number of users and sources with a recent successful login.
const PROOFS_MAX: usize = 40_000;
