//! What the server asks of its surroundings, as a test wants it answered.

use md5::Md5;
use ringway_sansio::{Instant, Seed};
use ringway_server::auth::{NonceId, NonceUse, ReplayWindows};
use ringway_server::{Ha1, MemoryBudget, Services, StoreFailed};
use sha2::{Digest, Sha256};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

/// Subscribers, replay windows and a store; shared by the shards and kept over a restart of the server.
#[derive(Clone)]
pub struct Desk(Rc<Inside>);

struct Inside {
    realm: String,
    users: RefCell<Subscribers>,
    nonces: RefCell<ReplayWindows>,
    budget: RefCell<MemoryBudget>,
    store: RefCell<BTreeMap<Vec<u8>, Vec<u8>>>,
    store_fails: Cell<bool>,
}

/// H(A1) by user and domain.
type Subscribers = BTreeMap<(Vec<u8>, Vec<u8>), Ha1>;

impl Desk {
    /// Nobody subscribed, nothing stored.
    pub fn new(realm: &str, seed: &Seed, now: Instant) -> Self {
        let nonces = ReplayWindows::new(10_000, Duration::from_secs(300), seed, now);
        Self(Rc::new(Inside {
            realm: realm.to_string(),
            users: RefCell::default(),
            nonces: RefCell::new(nonces),
            budget: RefCell::new(MemoryBudget::new(BUDGET_BYTES, seed)),
            store: RefCell::default(),
            store_fails: Cell::new(false),
        }))
    }

    /// Adds a subscriber.
    pub fn subscribe(&self, user: &str, domain: &str, password: &str) {
        let text = format!("{user}:{}:{password}", self.0.realm);
        let ha1 = Ha1 { md5: Md5::digest(&text).into(), sha256: Sha256::digest(&text).into() };
        self.0.users.borrow_mut().insert((user.into(), domain.into()), ha1);
    }

    /// The server's process ended: what it reserved is free.
    pub(crate) fn forget_reservations(&self) {
        *self.0.budget.borrow_mut() = MemoryBudget::new(BUDGET_BYTES, &Seed::from_number(0));
    }

    /// Bytes reserved for requests under way.
    pub fn reserved_bytes(&self) -> usize {
        self.0.budget.borrow().used()
    }

    /// What is stored: for each address-of-record its record.
    pub fn stored(&self) -> BTreeMap<Vec<u8>, Vec<u8>> {
        self.0.store.borrow().clone()
    }

    /// Whether storing fails from now on.
    pub fn set_store_fails(&self, fails: bool) {
        self.0.store_fails.set(fails);
    }
}

impl Services for Desk {
    fn credentials(&self, user: &[u8], domain: &[u8]) -> Option<Ha1> {
        self.0.users.borrow().get(&(user.to_vec(), domain.to_vec())).copied()
    }

    fn is_known(&self, user: &[u8], domain: &[u8]) -> bool {
        self.credentials(user, domain).is_some()
    }

    fn use_nonce(&self, now: Instant, nonce: NonceId, count: u32, request: u64) -> NonceUse {
        self.0.nonces.borrow_mut().use_count(now, nonce, count, request)
    }

    fn reserve(&self, source: IpAddr, bytes: usize, is_stranger: bool) -> bool {
        self.0.budget.borrow_mut().reserve(source, bytes, is_stranger)
    }

    fn shrink(&self, source: IpAddr, bytes: usize) {
        self.0.budget.borrow_mut().shrink(source, bytes);
    }

    fn release(&self, source: IpAddr, bytes: usize) {
        self.0.budget.borrow_mut().release(source, bytes);
    }

    fn admit(&self, _: Instant, _: IpAddr) -> bool {
        true
    }

    fn record_bytes_max(&self, _aor: &[u8]) -> Result<usize, StoreFailed> {
        if self.0.store_fails.get() { Err(StoreFailed) } else { Ok(usize::MAX) }
    }

    fn store(&self, aor: &[u8], record: &[u8]) {
        let mut store = self.0.store.borrow_mut();
        if record.is_empty() {
            store.remove(aor);
        } else {
            store.insert(aor.to_vec(), record.to_vec());
        }
    }
}

/// Memory for requests under way.
const BUDGET_BYTES: usize = 64 << 20;
