//! Limits of handshakes in progress, and of those that begin; counters of associations.

use ringway_sansio::{Instant, LimitHolder, limit_of_source};
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Limits of handshakes with clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DtlsLimits {
    /// Maximum number in progress.
    pub total: usize,
    /// The same of one source, an IPv4 address or an IPv6 /64 network, while fewer than half of them are in progress (see
    /// [`limit_of_source`]); a network around it has the limits of several (see
    /// [`LimitHolder`]).
    pub per_source: usize,
    /// Maximum number that begin in a second.
    pub rate: u32,
    /// Maximum number that begin at once.
    pub burst: u32,
    /// Maximum number of one source that begin in a second, while less than half of the burst is used; half of it may begin at once.
    pub rate_per_source: u32,
    /// Maximum number of bytes that unfinished handshakes of one source keep.
    pub bytes_per_source: usize,
}

impl Default for DtlsLimits {
    fn default() -> Self {
        Self {
            total: 1024,
            per_source: 32,
            rate: 200,
            burst: 50,
            rate_per_source: 40,
            bytes_per_source: 64 << 10,
        }
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
    by_holder: HashMap<LimitHolder, Held>,
    /// Time at which all handshakes so far would have begun at the limit of the rate.
    paid_until: Instant,
}

/// Handshakes of a holder.
#[derive(Clone, Copy, Debug, Default)]
struct Held {
    open: usize,
    bytes: usize,
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
        let mut state = self.lock();
        if state.total >= limits.total {
            add(&counters.dtls_refused);
            return None;
        }
        let holders = LimitHolder::of(address).map(|holder| (holder, state.held(holder)));
        let per_source = limit_of_source(limits.per_source, state.total, limits.total);
        if holders.clone().any(|(holder, held)| held.open >= per_source * holder.sources() as usize) {
            add(&counters.dtls_refused_source);
            return None;
        }
        let used = state.paid_until.since(now).as_nanos() / interval(limits.rate).as_nanos();
        let (rate, burst) = (limits.rate_per_source as usize, limits.burst as usize);
        let rate_per_source = limit_of_source(rate, used as usize, burst) as u32;
        let paid_of = |(holder, held): (LimitHolder, Held)| {
            let rate = rate_per_source * holder.sources();
            let paid_until = paid(held.paid_until, now, rate, rate.div_ceil(2))?;
            Some((holder, Held { open: held.open + 1, paid_until, ..held }))
        };
        let all: Option<Vec<(LimitHolder, Held)>> = holders.map(paid_of).collect();
        let Some((paid_until, all)) = paid(state.paid_until, now, limits.rate, limits.burst).zip(all) else {
            add(&counters.dtls_postponed);
            return None;
        };
        if state.by_holder.len() >= HOLDERS_MAX {
            state.by_holder.retain(|_, held| held.open > 0 || held.paid_until > now);
        }
        state.paid_until = paid_until;
        state.total += 1;
        state.by_holder.extend(all);
        let bytes_max = limits.bytes_per_source;
        Some(Pass { gate: Arc::clone(self), address, bytes: 0, bytes_max })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn held(&self, holder: LimitHolder) -> Held {
        self.by_holder.get(&holder).copied().unwrap_or_default()
    }
}

/// Time between two of those that begin at `rate` in a second.
fn interval(rate: u32) -> Duration {
    Duration::from_secs(1) / rate.max(1)
}

/// Time until which one more is paid at `rate` in a second. `None`: more than `burst` would be ahead of the rate.
fn paid(paid_until: Instant, now: Instant, rate: u32, burst: u32) -> Option<Instant> {
    let interval = interval(rate);
    let paid_until = paid_until.max(now) + interval;
    (paid_until.since(now) <= interval * burst).then_some(paid_until)
}

/// One handshake in progress.
#[derive(Debug)]
pub(super) struct Pass {
    gate: Arc<Gate>,
    address: IpAddr,
    /// Bytes that it keeps.
    bytes: usize,
    bytes_max: usize,
}

impl Pass {
    /// Changes the number of bytes that the handshake keeps. False: those of its source, or of a network around it, are too many.
    pub(super) fn keep(&mut self, bytes: usize) -> bool {
        let mut state = self.gate.lock();
        let before = std::mem::replace(&mut self.bytes, bytes);
        let bytes_max = self.bytes_max;
        LimitHolder::of(self.address).fold(true, |may, holder| {
            let Some(held) = state.by_holder.get_mut(&holder) else { return false };
            held.bytes = held.bytes - before + bytes;
            may && held.bytes <= bytes_max * holder.sources() as usize
        })
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        let mut state = self.gate.lock();
        state.total -= 1;
        for holder in LimitHolder::of(self.address) {
            if let Some(held) = state.by_holder.get_mut(&holder) {
                held.open -= 1;
                held.bytes -= self.bytes;
            }
        }
    }
}

/// Number of sources and networks at which those without a handshake are forgotten.
const HOLDERS_MAX: usize = 4096;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counters of all DTLS associations of a program.
        #[derive(Debug, Default)]
        pub struct DtlsCounters {
            $(pub(crate) $name: AtomicU64,)*
        }

        impl DtlsCounters {
            /// Current values.
            pub fn counts(&self) -> DtlsCounts {
                DtlsCounts { $($name: self.$name.load(Ordering::Relaxed),)* }
            }
        }

        /// Values of [`DtlsCounters`] since the start.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct DtlsCounts {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl DtlsCounts {
            /// All counters with their names, for metrics.
            pub fn each(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
                [$((stringify!($name), self.$name),)*].into_iter()
            }
        }
    };
}

counters! {
    /// HelloVerifyRequests that answered a ClientHello without a cookie.
    dtls_cookies_sent,
    /// ClientHellos with a cookie of another address or ClientHello, or an expired one.
    dtls_cookies_wrong,
    /// Fragments of a ClientHello from peers without an association.
    dtls_fragmented,
    /// Datagrams from peers without an association that were no ClientHello of DTLS 1.2.
    dtls_not_hello,
    /// Associations that were not begun because too many handshakes were in progress.
    dtls_refused,
    /// Associations that were not begun or ended because handshakes of their source were too many or kept too many bytes.
    dtls_refused_source,
    /// ClientHellos dropped because of the rate of handshakes, of all or of their source. The client retransmits them.
    dtls_postponed,
    /// Completed handshakes of clients.
    dtls_accepted,
    /// Completed handshakes with servers.
    dtls_dialled,
    /// Handshakes that failed because the certificate of the server was not accepted.
    dtls_failed_certificate,
    /// Handshakes that failed for another reason.
    dtls_failed,
    /// Records and fragments dropped because they are malformed, not expected or beyond the limits of an association.
    dtls_excess,
    /// Messages that were not sent because they are longer than a record can be.
    dtls_too_long,
}

pub(crate) fn add(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handshakes_are_limited_together_by_source_and_by_rate() {
        let (gate, counters) = (Arc::new(Gate::default()), DtlsCounters::default());
        let limits = DtlsLimits { total: 3, per_source: 2, rate: 10, burst: 3, ..DtlsLimits::default() };
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
        assert!(gate.lock().by_holder.values().all(|held| held.open == 0) && gate.lock().total == 0);
    }

    #[test]
    fn one_source_leaves_the_rate_to_others_and_keeps_a_limited_number_of_bytes() {
        let (gate, counters) = (Arc::new(Gate::default()), DtlsCounters::default());
        let limits = DtlsLimits { rate_per_source: 4, bytes_per_source: 1000, ..DtlsLimits::default() };
        let now = Instant::from_secs(1000);
        let enter = |now, address: &str| gate.enter(now, address.parse().unwrap(), &limits, &counters);
        let mut passes: Vec<Pass> = (0..10).filter_map(|_| enter(now, "192.0.2.1")).collect();
        assert_eq!((passes.len(), counters.counts().dtls_postponed), (2, 8));
        let mut other = enter(now, "192.0.2.2").unwrap();
        assert!(enter(now + Duration::from_millis(250), "192.0.2.1").is_some());
        assert!(passes[0].keep(900) && !passes[1].keep(101), "together");
        assert!(passes[1].keep(100) && other.keep(1000));
        drop(passes.remove(0));
        assert!(passes[0].keep(1000));
    }

    /// Otherwise five networks of one home, or five addresses, would leave nothing of the rate.
    #[test]
    fn a_home_and_some_sources_leave_the_rate_to_others() {
        let home = |number: u32| format!("2001:db8:0:{number:x}::1");
        let addresses = |number: u32| format!("192.0.2.{number}");
        for (what, name, begun_max) in [
            ("a home", &home as &dyn Fn(u32) -> String, 80 + 160 * 3),
            ("addresses", &addresses, 25 + 200 * 3),
        ] {
            let (gate, counters) = (Arc::new(Gate::default()), DtlsCounters::default());
            let limits = DtlsLimits::default();
            let mut begun = 0;
            for at_ms in 0..3000 {
                let now = Instant::from_nanos((1000 + at_ms) * 1_000_000);
                let enter = |address: &str| gate.enter(now, address.parse().unwrap(), &limits, &counters);
                begun += (1..=8).filter_map(|number| enter(&name(number))).count();
                if at_ms % 300 == 50 {
                    assert!(enter("198.51.100.1").is_some(), "another source beside {what} at {at_ms} ms");
                }
            }
            assert!((300..=begun_max).contains(&begun), "{what}: {begun}");
        }
    }

    #[test]
    fn sources_are_forgotten() {
        let (gate, counters, limits) = (Arc::default(), DtlsCounters::default(), DtlsLimits::default());
        for number in 0..3 * HOLDERS_MAX as u32 {
            let address = std::net::Ipv4Addr::from(number << 8).into();
            let now = Instant::from_nanos(u64::from(number) * 5_000_000);
            assert!(Gate::enter(&gate, now, address, &limits, &counters).is_some());
        }
        assert!(gate.lock().by_holder.len() <= HOLDERS_MAX);
    }
}
