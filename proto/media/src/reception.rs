//! What arrived, counted and timed: loss by sequence number, delta and jitter as Wireshark shows them.

mod delta;
mod sequence;

pub use sequence::{Place, SequenceCounts};

use delta::DeltaHistogram;
use ringway_sansio::Instant;
use sequence::SequenceTracker;

/// One RTP packet as far as statistics go.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// When it came in; by the kernel's clock where there is one.
    pub at: Instant,
    /// Who sends it.
    pub ssrc: u32,
    /// Its sequence number.
    pub sequence: u16,
    /// Its time stamp.
    pub timestamp: u32,
    /// A talk spurt or an event begins.
    pub marker: bool,
    /// Whether its time stamp is the moment it was sampled.
    pub clock: Clock,
    /// Length of the IP packet: header, UDP header, payload.
    pub ip_bytes: u32,
}

/// What a packet's time stamp says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// When it was sampled, in ticks of a clock of this many hertz.
    Hz(u32),
    /// Nothing about this packet: a telephone event keeps the time at which it began (RFC 4733 §2.5.1.1).
    Still,
}

/// Statistics of one stream over all its sources.
#[derive(Debug, Default)]
pub struct Reception {
    ssrc: Option<u32>,
    sequence: SequenceTracker,
    /// Sources that came before the present one.
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
    /// At the last receiver report: expected, received.
    reported: (u64, u64),
}

/// What depends on the time stamps of one source.
#[derive(Clone, Copy, Debug, Default)]
struct Timing {
    last: Option<(Instant, u32)>,
    jitter_ms: f64,
    clock_hz: u32,
    arrived_ms: f64,
    nominal_ms: f64,
    skew_ms: f64,
    line: Line,
}

/// Sums for a straight line through (arrival, nominal time), both in milliseconds.
#[derive(Clone, Copy, Debug, Default)]
struct Line {
    count: f64,
    x: f64,
    y: f64,
    xx: f64,
    xy: f64,
}

/// Figures of a stream, in Wireshark's words (RTP Stream Analysis).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ReceptionReport {
    /// Sequence numbers: packets, lost, reordered, doubled.
    pub counts: SequenceCounts,
    /// How often another source took over.
    pub source_changes: u64,
    /// Longest time between two packets, in milliseconds; packets that begin a talk spurt are left out.
    pub delta_max_ms: f64,
    /// Mean of the same.
    pub delta_mean_ms: f64,
    /// All but one in a thousand are below it; within 0.02 ms up to 64 ms.
    pub delta_p999_ms: f64,
    /// Largest value of the interarrival jitter J (RFC 3550 §6.4.1), in milliseconds.
    pub jitter_max_ms: f64,
    /// Mean of J over all packets.
    pub jitter_mean_ms: f64,
    /// J after the last packet.
    pub jitter_last_ms: f64,
    /// Mean of |D|, which older versions of Wireshark show as mean jitter.
    pub difference_mean_ms: f64,
    /// Time by the sender's stamps minus time by our clock, at its largest, since the first packet.
    pub skew_max_ms: f64,
    /// How much faster the sender's clock runs than ours, in millionths.
    pub drift_ppm: f64,
    /// Thousand bits of IP packets a second.
    pub kbit_s: f64,
    /// From the first packet to the last.
    pub duration_ms: f64,
}

impl Reception {
    /// Nothing arrived yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Counts a packet and says where it stands in its stream.
    pub fn on_packet(&mut self, arrival: &Arrival) -> Place {
        let is_first = self.first_at.is_none();
        if self.ssrc != Some(arrival.ssrc) {
            self.begin_source(arrival.ssrc);
        }
        let place = self.sequence.on_packet(arrival.sequence);
        if matches!(place, Place::Restarted(_)) {
            self.timing = Timing { jitter_ms: self.timing.jitter_ms, ..Timing::default() };
        }
        let is_backwards = matches!(place, Place::Reordered(_) | Place::Duplicate(_) | Place::Stray);
        let previous = self.last_at.unwrap_or(arrival.at);
        let moved = if place == Place::Stray { None } else { self.timing.on_packet(arrival) };
        if !is_first && !arrival.marker && !is_backwards {
            self.deltas.add(arrival.at.since(previous));
            if let Some(difference_ms) = moved {
                self.jitters += 1;
                self.jitter_sum_ms += self.timing.jitter_ms;
                self.difference_sum_ms += difference_ms;
                self.jitter_max_ms = self.jitter_max_ms.max(self.timing.jitter_ms);
            }
        }
        if self.timing.skew_ms.abs() > self.skew_max_ms.abs() {
            self.skew_max_ms = self.timing.skew_ms;
        }
        self.first_at.get_or_insert(arrival.at);
        self.last_at = Some(previous.max(arrival.at));
        self.ip_bytes += u64::from(arrival.ip_bytes);
        self.last_ip_bytes = arrival.ip_bytes;
        place
    }

    /// What a receiver report says of the source heard (RFC 3550 §6.4.1, §A.3); a share of loss counts from the
    /// report before. `None`: nobody was heard yet.
    pub fn receiver_report(&mut self) -> Option<Heard> {
        let ssrc = self.ssrc?;
        let counts = self.sequence.counts();
        let (expected_before, received_before) = self.reported;
        self.reported = (counts.expected, counts.received);
        let expected = counts.expected.saturating_sub(expected_before);
        let lost = expected.saturating_sub(counts.received.saturating_sub(received_before));
        let fraction = (lost << 8).checked_div(expected).unwrap_or(0).min(255);
        Some(Heard {
            ssrc,
            fraction_lost: fraction as u8,
            cumulative_lost: i32::try_from(counts.lost()).unwrap_or(i32::MAX),
            highest_sequence: self.sequence.highest(),
            jitter: (self.timing.jitter_ms * f64::from(self.timing.clock_hz) / 1000.0) as u32,
        })
    }

    /// The source heard last.
    pub const fn ssrc(&self) -> Option<u32> {
        self.ssrc
    }

    /// When the last packet came.
    pub const fn last_at(&self) -> Option<Instant> {
        self.last_at
    }

    /// All figures so far.
    pub fn report(&self) -> ReceptionReport {
        let duration_ms = match (self.first_at, self.last_at) {
            (Some(first), Some(last)) => millis(first, last),
            (Some(_) | None, _) => 0.0,
        };
        // The last packet's bytes belong to the interval behind it, which nobody saw.
        let bits = 8.0 * self.ip_bytes.saturating_sub(u64::from(self.last_ip_bytes)) as f64;
        ReceptionReport {
            counts: self.past.and(&self.sequence.counts()),
            source_changes: self.sources.saturating_sub(1),
            delta_max_ms: self.deltas.max_ms(),
            delta_mean_ms: self.deltas.mean_ms(),
            delta_p999_ms: self.deltas.quantile_ms(999, 1000),
            jitter_max_ms: self.jitter_max_ms,
            jitter_mean_ms: mean(self.jitter_sum_ms, self.jitters),
            jitter_last_ms: self.timing.jitter_ms,
            difference_mean_ms: mean(self.difference_sum_ms, self.jitters),
            skew_max_ms: self.skew_max_ms,
            drift_ppm: self.timing.line.slope().map_or(0.0, |slope| (slope - 1.0) * 1e6),
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

/// How the source of a stream is heard; [`ReportBlock`](crate::rtcp::ReportBlock) adds when its reports came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heard {
    /// Who is heard.
    pub ssrc: u32,
    /// Share lost since the report before, in 1/256.
    pub fraction_lost: u8,
    /// Packets lost so far.
    pub cumulative_lost: i32,
    /// Highest sequence number with its wraps.
    pub highest_sequence: u32,
    /// Jitter in ticks.
    pub jitter: u32,
}

impl Timing {
    /// Follows J = J + (|D| - J) / 16 (RFC 3550 §6.4.1). Returns |D| in milliseconds if the packet has one.
    fn on_packet(&mut self, arrival: &Arrival) -> Option<f64> {
        let Clock::Hz(clock_hz) = arrival.clock else { return None };
        let (last_at, last_timestamp) = self.last.replace((arrival.at, arrival.timestamp))?;
        self.clock_hz = clock_hz;
        let ticks = arrival.timestamp.wrapping_sub(last_timestamp) as i32;
        let nominal_ms = f64::from(ticks) * 1000.0 / f64::from(clock_hz.max(1));
        let arrived_ms = millis(last_at, arrival.at);
        let difference_ms = (arrived_ms - nominal_ms).abs();
        if difference_ms > JUMP_MS {
            // The sender's clock was set anew: what follows is measured from here.
            *self = Self { last: self.last, jitter_ms: self.jitter_ms, clock_hz, ..Self::default() };
            return None;
        }
        self.jitter_ms += (difference_ms - self.jitter_ms) / 16.0;
        self.arrived_ms += arrived_ms;
        self.nominal_ms += nominal_ms;
        self.skew_ms = self.nominal_ms - self.arrived_ms;
        self.line.add(self.arrived_ms, self.nominal_ms);
        Some(difference_ms)
    }
}

impl Line {
    fn add(&mut self, x: f64, y: f64) {
        self.count += 1.0;
        self.x += x;
        self.y += y;
        self.xx += x * x;
        self.xy += x * y;
    }

    /// By least squares; `None` for less than a second of points.
    fn slope(&self) -> Option<f64> {
        let spread = self.count * self.xx - self.x * self.x;
        let enough = self.count * self.count * 250.0 * 250.0;
        (self.count >= 10.0 && spread > enough).then(|| (self.count * self.xy - self.x * self.y) / spread)
    }
}

/// Milliseconds from one instant to another, negative when it is earlier.
fn millis(from: Instant, to: Instant) -> f64 {
    let nanos = to.as_nanos() as i64 - from.as_nanos() as i64;
    nanos as f64 / 1e6
}

fn mean(sum: f64, count: u64) -> f64 {
    if count == 0 { 0.0 } else { sum / count as f64 }
}

/// A difference between two clocks that no network makes.
const JUMP_MS: f64 = 5000.0;

#[cfg(test)]
#[path = "reception/reception_tests.rs"]
mod tests;
