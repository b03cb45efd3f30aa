//! Rate of the requests of registrations (decision 0057).

use core::time::Duration;
use ringway_sansio::Instant;

/// Rate of requests. In no second are there more than the maximum; a tenth of them may follow each other at once.
#[derive(Clone, Copy, Debug)]
pub(super) struct RequestRate {
    gap: Duration,
    /// Time by which requests may be ahead of even gaps.
    ahead: Duration,
    /// End of the requests so far, with even gaps.
    even: Instant,
}

impl RequestRate {
    pub(super) fn new(per_second: u32) -> Self {
        let at_once = (per_second / 10).max(1);
        let gap = Duration::from_secs(1) / per_second.saturating_sub(at_once).max(1);
        Self { gap, ahead: gap * (at_once - 1), even: Instant::default() }
    }

    /// Time from which the next request may be sent.
    pub(super) fn next_at(&self) -> Instant {
        Instant::from_nanos(self.even.as_nanos().saturating_sub(self.ahead.as_nanos() as u64))
    }

    /// Counts a request that is sent now.
    pub(super) fn take(&mut self, now: Instant) {
        self.even = self.even.max(now) + self.gap;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    /// Times of 500 requests that are sent as soon as they may be.
    fn times(per_second: u32) -> Vec<Instant> {
        let (mut rate, mut now) = (RequestRate::new(per_second), Instant::from_nanos(7_000_000_000));
        let mut times = Vec::new();
        for _ in 0..500 {
            now = now.max(rate.next_at());
            rate.take(now);
            times.push(now);
        }
        times
    }

    #[test]
    fn no_second_has_more_requests_than_the_maximum() {
        for per_second in [1, 2, 9, 50, 333, 1000] {
            let times = times(per_second);
            for from in &times {
                let end = *from + Duration::from_secs(1);
                let count = times.iter().filter(|at| (*from..end).contains(at)).count();
                assert!(count <= per_second as usize, "{count} of {per_second}");
            }
        }
        let of_fifty = times(50);
        assert_eq!(of_fifty.iter().filter(|at| **at == of_fifty[0]).count(), 5, "at once");
        assert!(of_fifty[499].since(of_fifty[0]) < Duration::from_secs(12));
    }
}
