//! What the server asks of its surroundings, all in this machine's memory.

use alloc::rc::Rc;
use core::cell::RefCell;
use core::net::IpAddr;
use core::time::Duration;
use ringway_sansio::{Instant, Seed};
use ringway_server::auth::{NonceId, NonceUse, ReplayWindows};
use ringway_server::{Ha1, Services, SourceRates, StoreFailed};
use ringway_users::Subscribers;

/// Users, nonces and rates. One thread: nothing is locked.
#[derive(Clone)]
pub struct MemoryServices(Rc<Inside>);

struct Inside {
    users: Subscribers,
    windows: RefCell<ReplayWindows>,
    rates: RefCell<SourceRates>,
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
            rates: RefCell::new(SourceRates::new(per_source_rate, &seed.part(2))),
        }))
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

    fn admit(&self, now: Instant, source: IpAddr) -> bool {
        self.0.rates.try_borrow_mut().is_ok_and(|mut rates| rates.admit(now, source))
    }

    /// There is no disk.
    fn keeps_bindings(&self) -> bool {
        false
    }

    fn store(&self, _aor: &[u8], _record: &[u8]) -> Result<(), StoreFailed> {
        Ok(())
    }
}

/// Nonces whose counts are remembered: of as many users as a machine has.
const NONCES_MAX: usize = 20_000;
