//! Interarrival jitter (RFC 3550 §6.4.1).

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
