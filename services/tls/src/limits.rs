//! Limits of handshakes: their number, the time of a worker, and threads for work for which the workers have no time, so that
//! a flood of it leaves the workers' other users alone.

use ringway_linux::sys::{self, thread_cpu_time};
use ringway_sansio::{LimitHolder, limit_of_source};
use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

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
        let per_source = limit_of_source(limits.per_source, open.total, limits.total);
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

/// CPU time that a worker spends on handshakes: a burst at once, and [`SHARE`] of the time in the long run.
///
/// The cost of a step is measured, and charged afterwards, without the time in which the kernel ran other threads: a step that begins with little time left makes a debt, and no
/// other step begins before it is paid.
pub(crate) struct Budget {
    burst: Duration,
    start: Instant,
    /// Time after `start` at which the whole burst is available again, in nanoseconds. One worker writes it.
    full_at: AtomicU64,
}

impl Budget {
    pub(crate) fn new(burst: Duration) -> Self {
        Self { burst, start: Instant::now(), full_at: AtomicU64::new(0) }
    }

    /// Begins a step; `None` if there is no time for it. Pass the result, the thread's CPU time, to [`Budget::end`].
    pub(crate) fn begin(&self) -> Option<Duration> {
        self.is_left(self.now()).then(thread_cpu_time)
    }

    /// Charges for a step.
    pub(crate) fn end(&self, begun: Duration) {
        self.charge(self.now(), nanos(thread_cpu_time().saturating_sub(begun)));
    }

    fn is_left(&self, now: u64) -> bool {
        let until_full = self.full_at.load(Ordering::Relaxed).saturating_sub(now);
        until_full < nanos(self.burst).saturating_mul(SHARE)
    }

    fn charge(&self, now: u64, spent: u64) {
        let from = self.full_at.load(Ordering::Relaxed).max(now);
        self.full_at.store(from.saturating_add(spent.saturating_mul(SHARE)), Ordering::Relaxed);
    }

    /// Nanoseconds since `start`.
    fn now(&self) -> u64 {
        nanos(self.start.elapsed())
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Inverse of the share of a worker's time in which it may run handshakes: 5 %.
const SHARE: u64 = 20;

/// Work of a thread.
pub(crate) trait Task: Send + Sync {
    fn run(&self);
}

/// Threads that run tasks in the order of their arrival.
pub(crate) struct HandshakeThreads {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    work: Condvar,
}

#[derive(Default)]
struct Queue {
    tasks: VecDeque<Arc<dyn Task>>,
    is_ended: bool,
}

impl HandshakeThreads {
    pub(crate) fn start() -> io::Result<Self> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = Self { shared: Arc::default() };
        for number in 0..cores.div_ceil(2) {
            let shared = Arc::clone(&threads.shared);
            std::thread::Builder::new().name(format!("handshake-{number}")).spawn(move || {
                // Without the permission they compete with the workers.
                let _ = sys::set_nice(NICE);
                shared.run();
            })?;
        }
        Ok(threads)
    }

    pub(crate) fn submit(&self, task: Arc<dyn Task>) {
        lock(&self.shared.queue).tasks.push_back(task);
        self.shared.work.notify_one();
    }
}

impl Drop for HandshakeThreads {
    fn drop(&mut self) {
        lock(&self.shared.queue).is_ended = true;
        self.shared.work.notify_all();
    }
}

impl Shared {
    fn run(&self) {
        let mut queue = lock(&self.queue);
        while !queue.is_ended {
            match queue.tasks.pop_front() {
                Some(task) => {
                    drop(queue);
                    task.run();
                    drop(task);
                    queue = lock(&self.queue);
                }
                None => queue = self.work.wait(queue).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}

/// Nice value of the threads: a ninth of the share of a worker.
const NICE: i8 = 10;

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

    const MS: u64 = 1_000_000;

    #[test]
    fn a_flood_gets_the_burst_and_a_twentieth_of_the_time() {
        let budget = Budget::new(Duration::from_millis(2));
        let (mut now, mut spent) = (0, 0);
        // Two steps of 100 µs arrive in each 200 µs, for a second.
        while now < 1000 * MS {
            if budget.is_left(now) {
                budget.charge(now, MS / 10);
                spent += MS / 10;
            }
            now += MS / 10;
        }
        assert!((51 * MS..=53 * MS).contains(&spent), "{spent}");
    }

    #[test]
    fn the_debt_of_a_long_step_is_paid_before_the_next_step() {
        let budget = Budget::new(Duration::from_millis(2));
        budget.charge(0, 2 * MS - 1);
        assert!(budget.is_left(0), "something is left");
        budget.charge(0, 5 * MS);
        assert!(!budget.is_left(99 * MS) && budget.is_left(101 * MS));
        budget.charge(10_000 * MS, 2 * MS);
        assert!(!budget.is_left(10_000 * MS), "no more than the burst is saved up");
    }

    #[test]
    fn a_budget_of_zero_permits_nothing() {
        assert!(Budget::new(Duration::ZERO).begin().is_none());
    }

    #[test]
    fn the_cpu_time_is_charged() {
        let budget = Budget::new(Duration::from_millis(1));
        let begun = budget.begin().unwrap();
        while thread_cpu_time() < begun + Duration::from_millis(3) {
            std::hint::spin_loop();
        }
        budget.end(begun);
        assert!(budget.full_at.load(Ordering::Relaxed) >= 60 * MS, "twenty times the CPU time");
    }

    #[test]
    fn time_in_which_the_thread_did_not_run_costs_nothing() {
        let budget = Budget::new(Duration::from_millis(1));
        let begun = budget.begin().unwrap();
        std::thread::sleep(Duration::from_millis(100));
        budget.end(begun);
        let debt = budget.full_at.load(Ordering::Relaxed).saturating_sub(budget.now());
        assert!(debt < 1000 * MS, "{debt}: twenty times the sleep would be 2 s");
    }
}
