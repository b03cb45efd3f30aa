//! Limits of handshakes in progress.

use ringway_sansio::source_of;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Limits of handshakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandshakeLimits {
    /// Maximum number in progress on accepted connections, of all sources.
    pub total: usize,
    /// The same of one source (an IPv4 address, an IPv6 /64 network).
    pub per_source: usize,
    /// Time that a worker spends on handshakes at once, besides a twentieth of its time. Others run on threads of their own.
    pub inline_burst: Duration,
}

impl Default for HandshakeLimits {
    fn default() -> Self {
        Self { total: 2048, per_source: 256, inline_burst: Duration::from_millis(2) }
    }
}

/// Numbers of handshakes in progress.
#[derive(Debug, Default)]
pub(crate) struct Permits {
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    total: usize,
    by_source: HashMap<IpAddr, usize>,
}

/// Reason why a handshake does not begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    Total,
    Source,
}

impl Permits {
    /// Counts a handshake until the permit is dropped.
    pub(crate) fn take(
        self: &Arc<Self>,
        address: IpAddr,
        limits: HandshakeLimits,
    ) -> Result<Permit, Refused> {
        let source = source_of(address);
        let mut open = lock(&self.open);
        if open.total >= limits.total {
            return Err(Refused::Total);
        }
        let of_source = open.by_source.entry(source).or_default();
        if *of_source >= limits.per_source {
            return Err(Refused::Source);
        }
        *of_source += 1;
        open.total += 1;
        Ok(Permit { permits: Arc::clone(self), source })
    }
}

/// One handshake in progress.
#[derive(Debug)]
pub(crate) struct Permit {
    permits: Arc<Permits>,
    source: IpAddr,
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut open = lock(&self.permits.open);
        open.total -= 1;
        if let Some(of_source) = open.by_source.get_mut(&self.source) {
            *of_source -= 1;
            if *of_source == 0 {
                open.by_source.remove(&self.source);
            }
        }
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handshakes_are_limited_by_source_and_together() {
        let permits = Arc::new(Permits::default());
        let limits = HandshakeLimits { total: 3, per_source: 2, ..HandshakeLimits::default() };
        let address = |text: &str| text.parse::<IpAddr>().unwrap();
        let first = permits.take(address("2001:db8::1"), limits).unwrap();
        let _second = permits.take(address("2001:db8::2"), limits).unwrap();
        assert_eq!(
            permits.take(address("2001:db8::3"), limits).unwrap_err(),
            Refused::Source,
            "one /64 network"
        );
        let _third = permits.take(address("192.0.2.1"), limits).unwrap();
        assert_eq!(permits.take(address("192.0.2.2"), limits).unwrap_err(), Refused::Total);
        drop(first);
        let fourth = permits.take(address("192.0.2.2"), limits).unwrap();
        drop(fourth);
        assert_eq!(lock(&permits.open).by_source.len(), 2, "a source without a handshake is forgotten");
    }
}
