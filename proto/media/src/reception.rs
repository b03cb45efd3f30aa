//! Statistics of a received stream: loss by sequence number, delta and jitter by Wireshark's definitions, interarrival
//! jitter (RFC 3550 §6.4.1), and the histogram of the times between packets, for quantiles without storing every value.

mod sequence;

use alloc::boxed::Box;
use core::time::Duration;
use ringway_sansio::Instant;

use crate::rtcp::ReportBlock;
pub use sequence::{PacketOrder, SequenceCounts, SequenceTracker};

/// Header fields and arrival time of an RTP packet.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// Arrival time; the kernel's timestamp if available.
    pub at: Instant,
    /// SSRC of the sender.
    pub ssrc: u32,
    /// Sequence number.
    pub sequence: u16,
    /// RTP timestamp.
    pub timestamp: u32,
    /// Marker bit: start of a talk spurt or of an event.
    pub marker: bool,
    /// Meaning of the RTP timestamp.
    pub clock: Clock,
    /// Length of the IP packet in bytes: IP header, UDP header, payload.
    pub ip_bytes: u32,
}

/// Meaning of a packet's RTP timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// Sampling time, with a clock rate in Hz.
    Hz(u32),
    /// Unrelated to the packet's time: a telephone event keeps the timestamp of its start (RFC 4733
    /// §2.5.1.1).
    Still,
}

/// Statistics of one stream over all its SSRCs.
#[derive(Debug, Default)]
pub struct Reception {
    ssrc: Option<u32>,
    sequence: SequenceTracker,
    /// Counters of earlier SSRCs.
    past: SequenceCounts,
    first_at: Option<Instant>,
    last_at: Option<Instant>,
    ip_bytes: u64,
    last_ip_bytes: u32,
    deltas: DeltaHistogram,
    timing: Timing,
    jitter_sum_ms: f64,
    difference_sum_ms: f64,
    jitters: u64,
    jitter_max_ms: f64,
    skew_max_ms: f64,
    sources: u64,
    /// Expected and received packets at the last receiver report.
    reported: (u64, u64),
    /// The source is not expected to send, because of a hold.
    is_paused: bool,
    /// No packet arrived since the pause.
    is_after_pause: bool,
}

/// Statistics that depend on the timestamps of one source.
#[derive(Clone, Copy, Debug, Default)]
struct Timing {
    jitter: Jitter,
    clock_hz: u32,
    arrived_ms: f64,
    nominal_ms: f64,
    skew_ms: f64,
    fit: LinearFit,
}

/// Linear regression over (arrival, nominal time), both in milliseconds.
#[derive(Clone, Copy, Debug, Default)]
struct LinearFit {
    count: f64,
    x: f64,
    y: f64,
    xx: f64,
    xy: f64,
}

/// Statistics of a stream, by the definitions of Wireshark's RTP Stream Analysis.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ReceptionReport {
    /// Packets, lost, reordered and duplicated, by sequence numbers.
    pub counts: SequenceCounts,
    /// Number of changes of the SSRC.
    pub source_changes: u64,
    /// Maximum time between two packets in milliseconds, except before a packet that starts a talk spurt,
    /// and during a pause.
    pub delta_max_ms: f64,
    /// Mean of these times.
    pub delta_mean_ms: f64,
    /// Number of these times.
    pub deltas: u64,
    /// 99.9th percentile of these times; accurate to 0.02 ms up to 64 ms.
    pub delta_p999_ms: f64,
    /// Maximum interarrival jitter J (RFC 3550 §6.4.1) in milliseconds.
    pub jitter_max_ms: f64,
    /// Mean of J over all packets.
    pub jitter_mean_ms: f64,
    /// J after the last packet.
    pub jitter_last_ms: f64,
    /// Mean of |D|, shown by older versions of Wireshark as mean jitter.
    pub difference_mean_ms: f64,
    /// Maximum difference between the sender's timestamps and our clock since the first packet, in
    /// milliseconds.
    pub skew_max_ms: f64,
    /// Drift of the sender's clock against ours in ppm; positive if faster.
    pub drift_ppm: f64,
    /// Bit rate of the IP packets in kbit/s.
    pub kbit_s: f64,
    /// Time from the first packet to the last, in milliseconds.
    pub duration_ms: f64,
}

impl Reception {
    /// Creates empty statistics.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets whether the source pauses, because of a hold. The times before packets during and right after a pause are not
    /// counted, because no packet was due.
    pub fn set_paused(&mut self, is_paused: bool) {
        self.is_paused = is_paused;
        self.is_after_pause |= is_paused;
    }

    /// Counts a packet and classifies its sequence number.
    pub fn on_packet(&mut self, arrival: &Arrival) -> PacketOrder {
        let is_first = self.first_at.is_none();
        if self.ssrc != Some(arrival.ssrc) {
            self.begin_source(arrival.ssrc);
        }
        let order = self.sequence.on_packet(arrival.sequence);
        if matches!(order, PacketOrder::Restarted(_)) {
            self.timing.jitter.restart();
            self.timing = Timing { jitter: self.timing.jitter, ..Timing::default() };
        }
        let is_backwards =
            matches!(order, PacketOrder::Reordered(_) | PacketOrder::Duplicate(_) | PacketOrder::Stray);
        let previous = self.last_at.unwrap_or(arrival.at);
        let moved = if order == PacketOrder::Stray { None } else { self.timing.on_packet(arrival) };
        let is_after_pause = core::mem::replace(&mut self.is_after_pause, self.is_paused);
        if !is_first && !arrival.marker && !is_backwards && !is_after_pause {
            self.deltas.add(arrival.at.since(previous));
            if let Some(difference_ms) = moved {
                self.jitters += 1;
                self.jitter_sum_ms += self.timing.jitter.ms();
                self.difference_sum_ms += difference_ms;
                self.jitter_max_ms = self.jitter_max_ms.max(self.timing.jitter.ms());
            }
        }
        if self.timing.skew_ms.abs() > self.skew_max_ms.abs() {
            self.skew_max_ms = self.timing.skew_ms;
        }
        self.first_at.get_or_insert(arrival.at);
        self.last_at = Some(previous.max(arrival.at));
        self.ip_bytes += u64::from(arrival.ip_bytes);
        self.last_ip_bytes = arrival.ip_bytes;
        order
    }

    /// Data for the report block of the current source (RFC 3550 §6.4.1, §A.3); the fraction lost counts from
    /// the previous call. `None` before the first packet.
    pub fn receiver_report(&mut self) -> Option<ReportBlock> {
        let ssrc = self.ssrc?;
        let counts = self.sequence.counts();
        let (expected_before, received_before) = self.reported;
        self.reported = (counts.expected, counts.received);
        let expected = counts.expected.saturating_sub(expected_before);
        let lost = expected.saturating_sub(counts.received.saturating_sub(received_before));
        let fraction = (lost << 8).checked_div(expected).unwrap_or(0).min(255);
        Some(ReportBlock {
            ssrc,
            fraction_lost: fraction as u8,
            cumulative_lost: i32::try_from(counts.lost()).unwrap_or(i32::MAX),
            highest_sequence: self.sequence.highest(),
            jitter: (self.timing.jitter.ms() * f64::from(self.timing.clock_hz) / 1000.0) as u32,
            ..ReportBlock::default()
        })
    }

    /// Current SSRC.
    pub const fn ssrc(&self) -> Option<u32> {
        self.ssrc
    }

    /// Arrival time of the last packet.
    pub const fn last_at(&self) -> Option<Instant> {
        self.last_at
    }

    /// All statistics so far.
    pub fn report(&self) -> ReceptionReport {
        let duration_ms = match (self.first_at, self.last_at) {
            (Some(first), Some(last)) => millis(first, last),
            (Some(_) | None, _) => 0.0,
        };
        // The bytes of the last packet belong to the interval after it, which is not known.
        let bits = 8.0 * self.ip_bytes.saturating_sub(u64::from(self.last_ip_bytes)) as f64;
        ReceptionReport {
            counts: self.past.and(&self.sequence.counts()),
            source_changes: self.sources.saturating_sub(1),
            delta_max_ms: self.deltas.max_ms(),
            delta_mean_ms: self.deltas.mean_ms(),
            deltas: self.deltas.count(),
            delta_p999_ms: self.deltas.quantile_ms(999, 1000),
            jitter_max_ms: self.jitter_max_ms,
            jitter_mean_ms: mean(self.jitter_sum_ms, self.jitters),
            jitter_last_ms: self.timing.jitter.ms(),
            difference_mean_ms: mean(self.difference_sum_ms, self.jitters),
            skew_max_ms: self.skew_max_ms,
            drift_ppm: self.timing.fit.slope().map_or(0.0, |slope| (slope - 1.0) * 1e6),
            kbit_s: if duration_ms > 0.0 { bits / duration_ms } else { 0.0 },
            duration_ms,
        }
    }

    fn begin_source(&mut self, ssrc: u32) {
        self.past = self.past.and(&self.sequence.counts());
        self.sequence = SequenceTracker::default();
        self.timing = Timing::default();
        self.reported = (0, 0);
        self.ssrc = Some(ssrc);
        self.sources += 1;
    }
}

impl Timing {
    /// Updates jitter, skew and drift. Returns |D| in milliseconds, if defined for this packet.
    fn on_packet(&mut self, arrival: &Arrival) -> Option<f64> {
        let Clock::Hz(clock_hz) = arrival.clock else { return None };
        let step = self.jitter.step(arrival.at, arrival.timestamp, clock_hz)?;
        self.clock_hz = clock_hz;
        if step.is_jump() {
            // Later packets are measured from here.
            *self = Self { jitter: self.jitter, clock_hz, ..Self::default() };
            return None;
        }
        self.arrived_ms += step.arrived_ms;
        self.nominal_ms += step.nominal_ms;
        self.skew_ms = self.nominal_ms - self.arrived_ms;
        self.fit.add(self.arrived_ms, self.nominal_ms);
        Some(step.difference_ms())
    }
}

impl LinearFit {
    fn add(&mut self, x: f64, y: f64) {
        self.count += 1.0;
        self.x += x;
        self.y += y;
        self.xx += x * x;
        self.xy += x * y;
    }

    /// Slope by least squares; `None` if the points cover less than a second.
    fn slope(&self) -> Option<f64> {
        let spread = self.count * self.xx - self.x * self.x;
        let enough = self.count * self.count * 250.0 * 250.0;
        (self.count >= 10.0 && spread > enough).then(|| (self.count * self.xy - self.x * self.y) / spread)
    }
}

fn mean(sum: f64, count: u64) -> f64 {
    if count == 0 { 0.0 } else { sum / count as f64 }
}

/// Interarrival jitter of one source: J = J + (|D| - J) / 16.
#[derive(Clone, Copy, Debug, Default)]
pub struct Jitter {
    last: Option<(Instant, u32)>,
    jitter_ms: f64,
}

/// Times between a packet and the one that arrived before it, in milliseconds; negative if it is the earlier one.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Step {
    arrived_ms: f64,
    nominal_ms: f64,
}

impl Step {
    /// |D| of RFC 3550.
    const fn difference_ms(self) -> f64 {
        (self.arrived_ms - self.nominal_ms).abs()
    }

    /// True if the difference is not caused by the network: the sender's clock was set.
    const fn is_jump(self) -> bool {
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
    fn step(&mut self, at: Instant, timestamp: u32, clock_hz: u32) -> Option<Step> {
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
    const fn restart(&mut self) {
        self.last = None;
    }
}

/// Milliseconds from one instant to another; negative if the second is earlier.
fn millis(from: Instant, to: Instant) -> f64 {
    let nanos = to.as_nanos() as i64 - from.as_nanos() as i64;
    nanos as f64 / 1e6
}

/// Difference of the clocks that is not caused by the network.
const JUMP_MS: f64 = 5000.0;

/// Histogram in steps of 20 µs up to 64 ms, where regular packets are, and of 1 ms up to 2 s.
#[derive(Debug)]
struct DeltaHistogram {
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
    fn add(&mut self, delta: Duration) {
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

    const fn count(&self) -> u64 {
        self.count
    }

    fn max_ms(&self) -> f64 {
        self.max_ns as f64 / 1e6
    }

    fn mean_ms(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum_ns as f64 / self.count as f64 / 1e6 }
    }

    /// Value that `part` of `whole` deltas do not exceed: the upper end of its step, at most the maximum.
    fn quantile_ms(&self, part: u64, whole: u64) -> f64 {
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
#[path = "reception/reception_tests.rs"]
mod tests;

#[cfg(test)]
mod jitter_tests {
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
