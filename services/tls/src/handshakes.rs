//! Limits of handshakes in progress.

use ringway_sansio::{WideNetwork, limit_of_source, source_of};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Limits of handshakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandshakeLimits {
    /// Maximum number in progress on accepted connections, of all sources.
    pub total: usize,
    /// The same of one source (an IPv4 address, an IPv6 /64 network) while fewer than half of them are in progress, see [`limit_of_source`]; a
    /// [`WideNetwork`] has the limits of several.
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
    by_network: HashMap<WideNetwork, usize>,
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
        let per_source = limit_of_source(limits.per_source, (open.total, limits.total));
        let of_source = open.by_source.get(&source).copied().unwrap_or_default();
        let is_full = |wide: WideNetwork| {
            let of_network = open.by_network.get(&wide).copied().unwrap_or_default();
            of_network >= per_source * wide.sources() as usize
        };
        if of_source >= per_source || WideNetwork::around(source).any(is_full) {
            return Err(Refused::Source);
        }
        *open.by_source.entry(source).or_default() += 1;
        WideNetwork::around(source).for_each(|wide| *open.by_network.entry(wide).or_default() += 1);
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
        leave(&mut open.by_source, self.source);
        WideNetwork::around(self.source).for_each(|wide| leave(&mut open.by_network, wide));
    }
}

fn leave<K: Eq + Hash>(counts: &mut HashMap<K, usize>, key: K) {
    if let Entry::Occupied(mut entry) = counts.entry(key) {
        *entry.get_mut() -= 1;
        if *entry.get() == 0 {
            entry.remove();
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
        assert!(open.total == 0 && open.by_source.is_empty() && open.by_network.is_empty());
    }
}
