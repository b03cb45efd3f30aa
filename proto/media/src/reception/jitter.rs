//! Interarrival jitter (RFC 3550 §6.4.1), and the histogram of the times between packets, for quantiles without storing every
//! value.

use alloc::boxed::Box;
use core::time::Duration;
use ringway_sansio::Instant;

/// Interarrival jitter of one source: J = J + (|D| - J) / 16.
#[derive(Clone, Copy, Debug, Default)]
pub struct Jitter {
    last: Option<(Instant, u32)>,
    jitter_ms: f64,
}

/// Times between a packet and the one that arrived before it, in milliseconds; negative if it is the earlier one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Step {
    pub(super) arrived_ms: f64,
    pub(super) nominal_ms: f64,
}

impl Step {
    /// |D| of RFC 3550.
    pub(super) const fn difference_ms(self) -> f64 {
        (self.arrived_ms - self.nominal_ms).abs()
    }

    /// True if the difference is not caused by the network: the sender's clock was set.
    pub(super) const fn is_jump(self) -> bool {
        self.difference_ms() > JUMP_MS
    }
}

impl Jitter {
    /// Counts a packet that arrived at `at`, with its RTP timestamp in ticks of `clock_hz`.
    pub fn on_packet(&mut self, at: Instant, timestamp: u32, clock_hz: u32) {
        self.step(at, timestamp, clock_hz);
    }

    /// J after the last packet, in milliseconds.
    pub const fn ms(&self) -> f64 {
        self.jitter_ms
    }

    /// Counts a packet. A jump of the sender's clock does not change J. `None` for the first packet.
    pub(super) fn step(&mut self, at: Instant, timestamp: u32, clock_hz: u32) -> Option<Step> {
        let (last_at, last_timestamp) = self.last.replace((at, timestamp))?;
        let ticks = timestamp.wrapping_sub(last_timestamp) as i32;
        let nominal_ms = f64::from(ticks) * 1000.0 / f64::from(clock_hz.max(1));
        let step = Step { arrived_ms: millis(last_at, at), nominal_ms };
        if !step.is_jump() {
            self.jitter_ms += (step.difference_ms() - self.jitter_ms) / 16.0;
        }
        Some(step)
    }

    /// Begins anew after a restart of the sender; J is kept.
    pub(super) const fn restart(&mut self) {
        self.last = None;
    }
}

/// Milliseconds from one instant to another; negative if the second is earlier.
pub(super) fn millis(from: Instant, to: Instant) -> f64 {
    let nanos = to.as_nanos() as i64 - from.as_nanos() as i64;
    nanos as f64 / 1e6
}

/// Difference of the clocks that is not caused by the network.
const JUMP_MS: f64 = 5000.0;

/// Histogram in steps of 20 µs up to 64 ms, where regular packets are, and of 1 ms up to 2 s.
#[derive(Debug)]
pub(super) struct DeltaHistogram {
    counts: Box<[u32; FINE + COARSE]>,
    count: u64,
    sum_ns: u64,
    max_ns: u64,
}

impl Default for DeltaHistogram {
    fn default() -> Self {
        Self { counts: Box::new([0; FINE + COARSE]), count: 0, sum_ns: 0, max_ns: 0 }
    }
}

impl DeltaHistogram {
    pub(super) fn add(&mut self, delta: Duration) {
        let nanos = u64::try_from(delta.as_nanos()).unwrap_or(u64::MAX);
        let fine = nanos / FINE_NS;
        let bucket = if fine < FINE as u64 {
            fine
        } else {
            (FINE as u64 + (nanos - FINE as u64 * FINE_NS) / COARSE_NS).min((FINE + COARSE) as u64 - 1)
        };
        if let Some(count) = self.counts.get_mut(bucket as usize) {
            *count = count.saturating_add(1);
        }
        self.count += 1;
        self.sum_ns = self.sum_ns.saturating_add(nanos);
        self.max_ns = self.max_ns.max(nanos);
    }

    pub(super) const fn count(&self) -> u64 {
        self.count
    }

    pub(super) fn max_ms(&self) -> f64 {
        self.max_ns as f64 / 1e6
    }

    pub(super) fn mean_ms(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum_ns as f64 / self.count as f64 / 1e6 }
    }

    /// Value that `part` of `whole` deltas do not exceed: the upper end of its step, at most the maximum.
    pub(super) fn quantile_ms(&self, part: u64, whole: u64) -> f64 {
        let rank = (self.count * part).div_ceil(whole).max(1);
        let mut seen = 0;
        for (bucket, count) in (1_u64..).zip(self.counts.iter()) {
            seen += u64::from(*count);
            if seen >= rank && bucket < (FINE + COARSE) as u64 {
                let coarse = bucket.saturating_sub(FINE as u64);
                let upper_ns = (bucket - coarse) * FINE_NS + coarse * COARSE_NS;
                return upper_ns.min(self.max_ns) as f64 / 1e6;
            }
        }
        self.max_ms()
    }
}

const FINE: usize = 3200;
const FINE_NS: u64 = 20_000;
const COARSE: usize = 1936;
const COARSE_NS: u64 = 1_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_accurate_to_a_step() {
        let mut deltas = DeltaHistogram::default();
        assert_eq!((deltas.quantile_ms(999, 1000), deltas.mean_ms()), (0.0, 0.0));
        for at in 0..10_000_u64 {
            deltas.add(Duration::from_micros(if at % 2000 == 0 { 700_500 } else { 20_005 }));
        }
        let near = deltas.quantile_ms(999, 1000);
        assert!((20.005..=20.025).contains(&near), "{near}");
        let far = deltas.quantile_ms(9999, 10_000);
        assert!((700.5..=701.5).contains(&far), "{far}");
        deltas.add(Duration::from_secs(3600));
        assert_eq!((deltas.quantile_ms(1, 1), deltas.max_ms()), (3_600_000.0, 3_600_000.0));
    }
}
