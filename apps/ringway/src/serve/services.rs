//! What all shards share: credentials, replay windows, source rates, the store's writing end.

use crate::config::Config;
use ringway_linux::store::{Directory, KEY_BYTES_MAX, SubscriberRow, VALUE_BYTES_MAX, Writer, WriterStats};
use ringway_sansio::{Instant, Seed};
use ringway_server::auth::{NonceId, NonceUse, ReplayWindows};
use ringway_server::{Ha1, Services, SourceRates, StoreFailed};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

/// In memory, behind locks that nobody holds while waiting.
pub(crate) struct SharedServices {
    directory: Directory,
    windows: Vec<Mutex<ReplayWindows>>,
    rates: Vec<Mutex<SourceRates>>,
    is_rate_limited: AtomicBool,
    writer: OnceLock<Writer>,
    last_stored: AtomicU64,
    /// A binding is promised to be on disk: then a store that fails must refuse.
    is_strict: bool,
    keeps_bindings: bool,
    seed: Seed,
}

impl SharedServices {
    pub(crate) fn new(config: &Config, seed: Seed, now: Instant) -> Self {
        let lifetime = Duration::from_secs(u64::from(config.auth.nonce_lifetime_s));
        let mut key = [0; 16];
        key.copy_from_slice(seed.part(0).bytes().get(..16).unwrap_or(&[0; 16]));
        let windows = (0..PARTS as u64)
            .map(|part| {
                Mutex::new(ReplayWindows::new(NONCES_MAX / PARTS, lifetime, &seed.part(1 + part), now))
            })
            .collect();
        let services = Self {
            directory: Directory::new(key),
            windows,
            rates: (0..PARTS).map(|_| Mutex::new(SourceRates::new(0, &seed))).collect(),
            is_rate_limited: AtomicBool::new(false),
            writer: OnceLock::new(),
            last_stored: AtomicU64::new(0),
            keeps_bindings: config.store.url.bindings().is_some(),
            is_strict: config.store.durability == ringway_linux::Durability::Strict,
            seed,
        };
        services.reconfigure(config);
        services
    }

    /// Takes the limits of a new configuration.
    pub(crate) fn reconfigure(&self, config: &Config) {
        let rate = config.limits.per_source_rate;
        for (part, rates) in self.rates.iter().enumerate() {
            *lock(rates) = SourceRates::new(rate, &self.seed.part(100 + part as u64));
        }
        self.is_rate_limited.store(rate > 0, Ordering::Relaxed);
    }

    pub(crate) fn set_writer(&self, writer: Writer) {
        // It is empty before: nothing else sets it.
        let _ = self.writer.set(writer);
    }

    pub(crate) fn stop_writer(&self) {
        if let Some(writer) = self.writer.get() {
            writer.stop();
        }
    }

    pub(crate) fn add_subscriber(&self, row: &SubscriberRow<'_>) {
        self.directory.insert(row.name, row.domain, row.ha1());
    }

    pub(crate) fn directory(&self) -> &Directory {
        &self.directory
    }

    /// The number of the last record given to the store.
    pub(crate) fn last_stored(&self) -> u64 {
        self.last_stored.load(Ordering::Acquire)
    }

    pub(crate) fn durable(&self) -> u64 {
        self.writer.get().map_or(0, Writer::durable)
    }

    pub(crate) fn writer_stats(&self) -> WriterStats {
        self.writer.get().map(Writer::stats).unwrap_or_default()
    }

    pub(crate) fn store_has_failed(&self) -> bool {
        self.writer.get().is_some_and(Writer::failed)
    }

    /// Nonces remembered, and how many were forgotten early.
    pub(crate) fn nonces(&self) -> (usize, u64) {
        self.windows.iter().fold((0, 0), |(remembered, evicted), windows| {
            let windows = lock(windows);
            (remembered + windows.len(), evicted + windows.evicted())
        })
    }
}

impl Services for SharedServices {
    fn credentials(&self, user: &[u8], domain: &[u8]) -> Option<Ha1> {
        let (user, domain) = (std::str::from_utf8(user).ok()?, std::str::from_utf8(domain).ok()?);
        self.directory.find(user, domain)
    }

    fn is_known(&self, user: &[u8], domain: &[u8]) -> bool {
        match (std::str::from_utf8(user), std::str::from_utf8(domain)) {
            (Ok(user), Ok(domain)) => self.directory.contains(user, domain),
            _ => false,
        }
    }

    fn use_nonce(&self, now: Instant, nonce: NonceId, count: u32, request: u64) -> NonceUse {
        let part = nonce.counter as usize % PARTS;
        match self.windows.get(part) {
            Some(windows) => lock(windows).use_count(now, nonce, count, request),
            None => NonceUse::Forgotten,
        }
    }

    fn admit(&self, now: Instant, source: IpAddr) -> bool {
        if !self.is_rate_limited.load(Ordering::Relaxed) {
            return true;
        }
        let part = match source {
            IpAddr::V4(v4) => v4.octets().into_iter().fold(0, |sum, octet| sum * 31 + usize::from(octet)),
            IpAddr::V6(v6) => v6
                .segments()
                .into_iter()
                .fold(0, |sum: usize, segment| sum.wrapping_mul(31).wrapping_add(usize::from(segment))),
        };
        self.rates.get(part % PARTS).is_none_or(|rates| lock(rates).admit(now, source))
    }

    fn keeps_bindings(&self) -> bool {
        self.keeps_bindings
    }

    fn record_bytes_max(&self, aor: &[u8]) -> Result<usize, StoreFailed> {
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
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Locks that shards spread over.
const PARTS: usize = 16;

/// Nonces whose counts are remembered at once, about 64 bytes each.
const NONCES_MAX: usize = 1 << 20;
