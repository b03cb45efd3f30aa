//! Estimate of transit times: the shortest one, and its distribution above that.

use super::{BufferLimits, SAMPLES_A_MS};

/// Estimates the transit times of packets, in samples.
#[derive(Debug)]
pub(super) struct DelayEstimate {
    target_max: i64,
    /// Shortest transit time of the previous window and of this one.
    shortest: Option<(i64, i64)>,
    window_end: i64,
    /// Distribution of the transit times above the shortest, in weights whose sum is about [`ONE`].
    longer: [u32; BUCKETS],
    packets: u32,
    target: i64,
}

impl DelayEstimate {
    pub(super) fn new(limits: &BufferLimits) -> Self {
        let target_max = i64::from(limits.delay_ms_max.max(limits.delay_ms_min)) * SAMPLES_A_MS;
        Self { target_max, shortest: None, window_end: 0, longer: [0; BUCKETS], packets: 0, target: BUCKET }
    }

    /// Adds a packet with timestamp `stamp` that arrived at `arrived`.
    pub(super) fn on_packet(&mut self, arrived: i64, stamp: i64) {
        let way = arrived - stamp;
        let (before, now) = self.shortest.unwrap_or((way, way));
        self.shortest = if arrived >= self.window_end {
            // With windows, a sender whose clock is slower than ours is followed after at most two windows.
            self.window_end = arrived + WINDOW;
            Some((now, way))
        } else {
            Some((before, now.min(way)))
        };
        let longer = way - self.base();
        let bucket = usize::try_from(longer / BUCKET).unwrap_or(0).min(BUCKETS - 1);
        self.packets = (self.packets + 1).min(MEMORY_PACKETS);
        for weight in &mut self.longer {
            *weight -= *weight / self.packets;
        }
        if let Some(weight) = self.longer.get_mut(bucket) {
            *weight += ONE / self.packets;
        }
        self.target = self.quantile().min(self.target_max);
    }

    /// True if a transit time indicates that one of the clocks was set.
    pub(super) fn is_jump(&self, way: i64) -> bool {
        self.shortest.is_some() && (way - self.base()).abs() > JUMP
    }

    /// Discards the shortest transit time and keeps the distribution.
    pub(super) fn restart(&mut self) {
        self.shortest = None;
    }

    /// Time that nearly all packets needed beyond the shortest transit time.
    pub(super) const fn target(&self) -> i64 {
        self.target
    }

    pub(super) const fn target_max(&self) -> i64 {
        self.target_max
    }

    /// Shortest recent transit time, on two clocks.
    pub(super) fn base(&self) -> i64 {
        self.shortest.map_or(0, |(before, now)| before.min(now))
    }

    /// Upper end of the bucket up to which 97 % of the weight is.
    fn quantile(&self) -> i64 {
        let whole: u64 = self.longer.iter().map(|weight| u64::from(*weight)).sum();
        let mut below = 0;
        for (bucket, weight) in (1..).zip(self.longer) {
            below += u64::from(weight);
            if below * 100 >= whole * QUANTILE_PERCENT {
                return bucket * BUCKET;
            }
        }
        self.target_max
    }
}

/// 5 ms in samples.
const BUCKET: i64 = 40;
/// 500 ms in total.
const BUCKETS: usize = 100;
const ONE: u32 = 1 << 24;
/// Number of packets in the moving average: about 5 s.
const MEMORY_PACKETS: u32 = 256;
const QUANTILE_PERCENT: u64 = 97;
/// 5 s in samples.
const WINDOW: i64 = 40_000;
/// 2 s in samples.
const JUMP: i64 = 16_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn estimate() -> DelayEstimate {
        DelayEstimate::new(&BufferLimits::default())
    }

    #[test]
    fn punctual_packets_wait_for_one_step() {
        let mut delay = estimate();
        (0..100).for_each(|at| delay.on_packet(5000 + 160 * at, 160 * at));
        assert_eq!((delay.target(), delay.base()), (BUCKET, 5000));
    }

    #[test]
    fn a_spread_of_50_ms_increases_the_delay() {
        let mut delay = estimate();
        (0..500).for_each(|at| delay.on_packet(160 * at + (at * 37 % 400), 160 * at));
        assert!((380..=400).contains(&delay.target()), "{}", delay.target());
        // Without jitter the delay is short again 10 s later.
        (500..1500).for_each(|at| delay.on_packet(160 * at, 160 * at));
        assert_eq!(delay.target(), BUCKET);
    }

    #[test]
    fn a_slow_sender_is_followed() {
        let mut delay = estimate();
        // 500 ppm over 100 s is 50 ms.
        (0..5000).for_each(|at| delay.on_packet(160 * at + at * 160 / 2000, 160 * at));
        assert!((400 - 50..=400).contains(&delay.base()), "{}", delay.base());
    }

    #[test]
    fn a_jump_is_distinguished_from_a_bad_network() {
        let mut delay = estimate();
        delay.on_packet(0, 0);
        assert!(!delay.is_jump(8000) && delay.is_jump(20_000) && delay.is_jump(-20_000));
        delay.restart();
        assert!(!delay.is_jump(20_000));
    }
}
