//! Limits of handshakes in progress, and of those that begin.

use super::counters::{DtlsCounters, add};
use ringway_sansio::{Instant, source_of};
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Limits of handshakes with clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DtlsLimits {
    /// Maximum number in progress.
    pub total: usize,
    /// The same of one source: an IPv4 address, an IPv6 /64 network.
    pub per_source: usize,
    /// Maximum number that begin in a second.
    pub rate: u32,
    /// Maximum number that begin at once.
    pub burst: u32,
}

impl Default for DtlsLimits {
    fn default() -> Self {
        Self { total: 1024, per_source: 32, rate: 200, burst: 50 }
    }
}

/// Numbers of handshakes in progress, and the time from which the next may begin.
#[derive(Debug, Default)]
pub(super) struct Gate {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    total: usize,
    by_source: HashMap<IpAddr, usize>,
    /// Time at which all handshakes so far would have begun at the limit of the rate.
    paid_until: Instant,
}

impl Gate {
    /// Counts a handshake until the pass is dropped. `None`, and counted: a limit is reached.
    pub(super) fn enter(
        self: &Arc<Self>,
        now: Instant,
        address: IpAddr,
        limits: &DtlsLimits,
        counters: &DtlsCounters,
    ) -> Option<Pass> {
        let source = source_of(address);
        let mut state = self.lock();
        if state.total >= limits.total {
            add(&counters.dtls_refused);
            return None;
        }
        let of_source = state.by_source.get(&source).copied().unwrap_or_default();
        if of_source >= limits.per_source {
            add(&counters.dtls_refused_source);
            return None;
        }
        let interval = Duration::from_secs(1) / limits.rate.max(1);
        let paid_until = state.paid_until.max(now) + interval;
        if paid_until.since(now) > interval * limits.burst {
            add(&counters.dtls_postponed);
            return None;
        }
        state.paid_until = paid_until;
        state.total += 1;
        state.by_source.insert(source, of_source + 1);
        Some(Pass { gate: Arc::clone(self), source })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One handshake in progress.
#[derive(Debug)]
pub(super) struct Pass {
    gate: Arc<Gate>,
    source: IpAddr,
}

impl Drop for Pass {
    fn drop(&mut self) {
        let mut state = self.gate.lock();
        state.total -= 1;
        if let Some(of_source) = state.by_source.get_mut(&self.source) {
            *of_source -= 1;
            if *of_source == 0 {
                state.by_source.remove(&self.source);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handshakes_are_limited_together_by_source_and_by_rate() {
        let (gate, counters) = (Arc::new(Gate::default()), DtlsCounters::default());
        let limits = DtlsLimits { total: 3, per_source: 2, rate: 10, burst: 3 };
        let enter = |at_ms: u64, address: &str| {
            let now = Instant::from_nanos(at_ms * 1_000_000);
            gate.enter(now, address.parse().unwrap(), &limits, &counters)
        };
        let first = enter(1000, "2001:db8::1");
        let second = enter(1000, "2001:db8::2");
        assert!(first.is_some() && second.is_some());
        assert!(enter(1000, "2001:db8::3").is_none(), "one /64 network");
        let third = enter(1000, "192.0.2.1");
        assert!(third.is_some() && enter(1000, "192.0.2.2").is_none(), "together");
        drop(first);
        assert!(enter(1000, "192.0.2.2").is_none(), "the burst is spent");
        let fourth = enter(1100, "192.0.2.2");
        assert!(fourth.is_some());
        let counts = counters.counts();
        assert_eq!((counts.dtls_refused, counts.dtls_refused_source, counts.dtls_postponed), (1, 1, 1));
        drop((second, third, fourth));
        assert!(gate.lock().by_source.is_empty() && gate.lock().total == 0);
    }
}
