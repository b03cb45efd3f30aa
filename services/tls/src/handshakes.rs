//! Limits of handshakes in progress.

use ringway_sansio::{LimitHolder, limit_of_source};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Limits of handshakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandshakeLimits {
    /// Maximum number in progress on accepted connections, of all sources.
    pub total: usize,
    /// The same of one source (an IPv4 address, an IPv6 /64 network) while fewer than half of them are in progress, see [`limit_of_source`]; a
    /// network around it has the limits of several (see [`LimitHolder`]).
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
    by_holder: HashMap<LimitHolder, usize>,
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
        let mut open = lock(&self.open);
        if open.total >= limits.total {
            return Err(Refused::Total);
        }
        let per_source = limit_of_source(limits.per_source, (open.total, limits.total));
        let is_full = |holder: LimitHolder| {
            let held = open.by_holder.get(&holder).copied().unwrap_or_default();
            held >= per_source * holder.sources() as usize
        };
        if LimitHolder::of(address).any(is_full) {
            return Err(Refused::Source);
        }
        LimitHolder::of(address).for_each(|holder| *open.by_holder.entry(holder).or_default() += 1);
        open.total += 1;
        Ok(Permit { permits: Arc::clone(self), address })
    }
}

/// One handshake in progress.
#[derive(Debug)]
pub(crate) struct Permit {
    permits: Arc<Permits>,
    address: IpAddr,
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut open = lock(&self.permits.open);
        open.total -= 1;
        for holder in LimitHolder::of(self.address) {
            if let Entry::Occupied(mut entry) = open.by_holder.entry(holder) {
                *entry.get_mut() -= 1;
                if *entry.get() == 0 {
                    entry.remove();
                }
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
        let open = lock(&permits.open);
        let sources = open.by_holder.keys().filter(|holder| matches!(holder, LimitHolder::Source(_)));
        assert_eq!(sources.count(), 2, "a source without a handshake is forgotten");
        drop(open);
    }

    /// Many sources that leave their handshakes unfinished are needed to keep others out.
    #[test]
    fn sources_at_their_limits_leave_room_for_others() {
        let permits = Arc::new(Permits::default());
        let limits = HandshakeLimits::default();
        let mut taken = Vec::new();
        let mut take_all = |source: u32| {
            let before = taken.len();
            let address = IpAddr::from(source.to_be_bytes());
            taken.extend(std::iter::from_fn(|| permits.take(address, limits).ok()));
            taken.len() - before
        };
        assert_eq!([1, 2, 3, 4].map(&mut take_all), [256; 4]);
        assert!((5..=260).all(|source| take_all(source) == 4), "256 sources more");
        assert_eq!(take_all(261), 0);
        assert_eq!(taken.len(), limits.total);
    }

    #[test]
    fn a_home_has_the_handshakes_of_four_sources() {
        let permits = Arc::new(Permits::default());
        let limits = HandshakeLimits { total: 100, per_source: 2, ..HandshakeLimits::default() };
        let of = |network: u16| IpAddr::from([0x2001, 0xdb8, 0, network, 0, 0, 0, 1]);
        let taken: Vec<_> = (0..256).filter_map(|network| permits.take(of(network), limits).ok()).collect();
        assert_eq!(taken.len(), 8);
        drop(taken);
        let open = lock(&permits.open);
        assert!(open.total == 0 && open.by_holder.is_empty());
    }
}
