//! Time of a worker for handshakes.

use ringway_linux::sys::thread_cpu_time;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

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

#[cfg(test)]
mod tests {
    use super::*;

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
