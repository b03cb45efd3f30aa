//! What the server asks of its surroundings, all in this machine's memory.

use alloc::collections::VecDeque;
use alloc::rc::Rc;
use core::cell::RefCell;
use core::net::IpAddr;
use core::time::Duration;
use ringway_sansio::{Flow, Instant, Seed};
use ringway_server::auth::{
    DialogExtensions, GuessLimits, Login, LoginResult, NonceId, NonceUse, ReplayWindows,
};
use ringway_server::{BindingChange, Ha1, MemoryBudget, Services, SourceRates};
use ringway_users::Subscribers;

/// Users, nonces and rates. One thread: nothing is locked.
#[derive(Clone)]
pub struct MemoryServices(Rc<Inside>);

struct Inside {
    users: Subscribers,
    windows: RefCell<ReplayWindows>,
    dialogs: RefCell<DialogExtensions>,
    budget: RefCell<MemoryBudget>,
    guesses: RefCell<GuessLimits>,
    rates: RefCell<SourceRates>,
    changes: RefCell<VecDeque<Changed>>,
}

/// A change of somebody's bindings.
#[derive(Clone, Debug)]
pub(crate) struct Changed {
    aor: [u8; AOR_BYTES_MAX],
    aor_bytes: usize,
    pub(crate) change: BindingChange,
    pub(crate) flow: Option<Flow>,
}

impl Changed {
    /// The beginning of the address-of-record, as much as is shown.
    pub(crate) fn aor(&self) -> &[u8] {
        self.aor.get(..self.aor_bytes).unwrap_or_default()
    }
}

impl MemoryServices {
    /// For these users; `per_source_rate` requests a second are taken from one address, 0: any number.
    pub fn new(
        users: Subscribers,
        nonce_lifetime: Duration,
        per_source_rate: u32,
        seed: &Seed,
        now: Instant,
    ) -> Self {
        Self(Rc::new(Inside {
            users,
            windows: RefCell::new(ReplayWindows::new(NONCES_MAX, nonce_lifetime, &seed.part(1), now)),
            budget: RefCell::new(MemoryBudget::new(MEMORY_BYTES_MAX, &seed.part(5))),
            dialogs: RefCell::new(DialogExtensions::new(&seed.part(4))),
            guesses: RefCell::new(GuessLimits::new(PROOFS_MAX, &seed.part(3), now)),
            rates: RefCell::new(SourceRates::new(per_source_rate, &seed.part(2))),
            changes: RefCell::new(VecDeque::with_capacity(CHANGES_MAX)),
        }))
    }

    /// The oldest change that was not taken yet.
    pub(crate) fn take_change(&self) -> Option<Changed> {
        self.0.changes.try_borrow_mut().ok()?.pop_front()
    }

    /// Who may register.
    pub fn users(&self) -> &Subscribers {
        &self.0.users
    }

    /// Nonces remembered, how many there may be, and how many were forgotten early.
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

    fn is_known(&self, user: &[u8], domain: &[u8]) -> bool {
        let users = &self.0.users;
        match (core::str::from_utf8(user), core::str::from_utf8(domain)) {
            (Ok(user), Ok(domain)) => users.contains(&users.name(user, domain)),
            _ => false,
        }
    }

    fn use_nonce(&self, now: Instant, nonce: NonceId, count: u32, request: u64) -> NonceUse {
        // Nothing below calls back: it is never borrowed twice.
        match self.0.windows.try_borrow_mut() {
            Ok(mut windows) => windows.use_count(now, nonce, count, request),
            Err(_) => NonceUse::Replayed,
        }
    }

    fn reserve(&self, source: IpAddr, bytes: usize, is_stranger: bool) -> bool {
        self.0.budget.try_borrow_mut().is_ok_and(|mut budget| budget.reserve(source, bytes, is_stranger))
    }

    fn shrink(&self, source: IpAddr, bytes: usize) {
        if let Ok(mut budget) = self.0.budget.try_borrow_mut() {
            budget.shrink(source, bytes);
        }
    }

    fn release(&self, source: IpAddr, bytes: usize) {
        if let Ok(mut budget) = self.0.budget.try_borrow_mut() {
            budget.release(source, bytes);
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

    fn admit(&self, now: Instant, source: IpAddr) -> bool {
        self.0.rates.try_borrow_mut().is_ok_and(|mut rates| rates.admit(now, source))
    }

    fn may_log_in(&self, now: Instant, login: &Login<'_>) -> bool {
        self.0.guesses.try_borrow_mut().is_ok_and(|mut guesses| guesses.may_log_in(now, login))
    }

    fn on_login(&self, now: Instant, login: &Login<'_>, result: LoginResult) {
        if let Ok(mut guesses) = self.0.guesses.try_borrow_mut() {
            guesses.on_login(now, login, result);
        }
    }

    /// There is no disk.
    fn keeps_bindings(&self) -> bool {
        false
    }

    fn store(&self, _aor: &[u8], _record: &[u8]) {}

    fn on_change(&self, aor: &[u8], change: BindingChange, flow: Option<Flow>) {
        // A screen shows no more of them; the newest of a flood are as good as any.
        if let Ok(mut changes) = self.0.changes.try_borrow_mut()
            && changes.len() < CHANGES_MAX
        {
            // Nothing is allocated: this is for every REGISTER.
            let mut changed =
                Changed { aor: [0; AOR_BYTES_MAX], aor_bytes: aor.len().min(AOR_BYTES_MAX), change, flow };
            changed.aor.iter_mut().zip(aor).for_each(|(to, from)| *to = *from);
            changes.push_back(changed);
        }
    }
}

/// Bytes that requests under way may keep; the heap has 32 MiB at least.
const MEMORY_BYTES_MAX: usize = 8 << 20;

/// What is shown of an address-of-record.
const AOR_BYTES_MAX: usize = 64;

/// Changes that wait to be shown: what a burst can bring between two looks.
const CHANGES_MAX: usize = 64;

/// Nonces whose counts are remembered: of as many users as a machine has.
const NONCES_MAX: usize = 20_000;

/// Users whose password was proven lately, each with its source.
const PROOFS_MAX: usize = 40_000;
