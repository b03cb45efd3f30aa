//! Results of the media streams of a run.

use crate::load::timeline::{histogram, micros};
use hdrhistogram::Histogram;
use ringway_load::{MediaCounters, MediaStreams, StreamReport};
use std::collections::{BTreeMap, HashMap};
use std::thread::ThreadId;
use std::time::Duration;

/// Numbers of packets and their quality. Values of the received packets are those of ended streams.
#[derive(Clone, Debug, Default)]
pub struct MediaStatistics {
    threads: HashMap<ThreadId, OfThread>,
    ended: Sums,
    histograms: Option<Histograms>,
}

#[derive(Clone, Debug)]
struct Histograms {
    jitter_us: Histogram<u64>,
    delay_us: Histogram<u64>,
}

#[derive(Clone, Debug, Default)]
struct OfThread {
    counters: MediaCounters,
    send_errors: u64,
    cpu_ns: u64,
}

/// Sums over ended streams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sums {
    streams: u64,
    silent: u64,
    expected: u64,
    received: u64,
    lost: u64,
    reordered: u64,
    duplicates: u64,
    authentication_failed: u64,
    replayed: u64,
    malformed: u64,
}

/// Values of a thread since its last transfer to [`MediaStatistics`].
#[derive(Debug)]
pub(super) struct Delays {
    sums: Sums,
    histograms: Histograms,
}

impl Delays {
    pub(super) fn new() -> Self {
        Self { sums: Sums::default(), histograms: Histograms::new() }
    }

    pub(super) fn add_delay(&mut self, delay: Duration) {
        self.histograms.delay_us.saturating_record(micros(delay));
    }

    pub(super) fn add_report(&mut self, report: &StreamReport) {
        let sums = &mut self.sums;
        sums.streams += 1;
        sums.authentication_failed += report.authentication_failed;
        sums.replayed += report.replayed;
        sums.malformed += report.malformed;
        if report.received.received == 0 {
            sums.silent += 1;
            return;
        }
        sums.expected += report.received.expected;
        sums.received += report.received.received;
        sums.lost += report.received.lost();
        sums.reordered += report.received.reordered;
        sums.duplicates += report.received.duplicates;
        self.histograms.jitter_us.saturating_record((report.jitter_mean_ms * 1e3) as u64);
    }
}

impl Histograms {
    fn new() -> Self {
        Self { jitter_us: histogram(), delay_us: histogram() }
    }

    /// Adds the values of `other`, and clears it.
    fn take(&mut self, other: &mut Self) {
        // Both have the same bounds, for which adding does not fail.
        let _ = self.jitter_us.add(&other.jitter_us).and_then(|()| self.delay_us.add(&other.delay_us));
        other.jitter_us.reset();
        other.delay_us.reset();
    }
}

impl Sums {
    fn add(&mut self, other: &Self) {
        self.streams += other.streams;
        self.silent += other.silent;
        self.expected += other.expected;
        self.received += other.received;
        self.lost += other.lost;
        self.reordered += other.reordered;
        self.duplicates += other.duplicates;
        self.authentication_failed += other.authentication_failed;
        self.replayed += other.replayed;
        self.malformed += other.malformed;
    }
}

impl MediaStatistics {
    /// Adds what a thread has measured since its last call; its counters replace those of that call.
    pub(super) fn add(
        &mut self,
        thread: ThreadId,
        counters: &MediaCounters,
        send_errors: u64,
        cpu_ns: u64,
        delays: &mut Delays,
    ) {
        self.threads.insert(thread, OfThread { counters: counters.clone(), send_errors, cpu_ns });
        self.ended.add(&delays.sums);
        delays.sums = Sums::default();
        self.histograms.get_or_insert_with(Histograms::new).take(&mut delays.histograms);
    }

    fn sum(&self, value: impl Fn(&MediaCounters) -> u64) -> u64 {
        self.threads.values().map(|thread| value(&thread.counters)).sum()
    }

    /// Streams that were started: one for each side of a call that is played.
    pub fn streams(&self) -> u64 {
        self.sum(|counters| counters.started)
    }

    /// Ended streams that received no packet.
    pub const fn silent_streams(&self) -> u64 {
        self.ended.silent
    }

    /// Recordings that calls played.
    pub fn played(&self) -> u64 {
        self.sum(|counters| counters.played)
    }

    /// Packets sent.
    pub fn sent(&self) -> u64 {
        self.sum(|counters| counters.sent)
    }

    /// Packets sent more than 5 ms after their planned time.
    pub fn late(&self) -> u64 {
        self.sum(|counters| counters.late)
    }

    /// Longest time from a planned time to sending.
    pub fn late_max(&self) -> Duration {
        self.threads.values().map(|thread| thread.counters.late_max).max().unwrap_or_default()
    }

    /// Packets that were not sent: the generator was more than 200 ms late, its socket did not take them, or their SRTP key
    /// was used up.
    pub fn not_sent(&self) -> u64 {
        self.sum(|counters| counters.skipped + counters.unprotected)
            + self.threads.values().map(|thread| thread.send_errors).sum::<u64>()
    }

    /// Received packets, without duplicates.
    pub const fn received(&self) -> u64 {
        self.ended.received
    }

    /// Lost packets, by the sequence numbers between the first and the last received packet of a stream.
    pub const fn lost(&self) -> u64 {
        self.ended.lost
    }

    /// Lost packets for each expected one, 0 to 1.
    pub fn loss_share(&self) -> f64 {
        self.ended.lost as f64 / (self.ended.expected as f64).max(1.0)
    }

    /// Received packets that were overtaken.
    pub const fn reordered(&self) -> u64 {
        self.ended.reordered
    }

    /// Packets that were received again.
    pub const fn duplicates(&self) -> u64 {
        self.ended.duplicates
    }

    /// SRTP packets whose tag does not match.
    pub const fn authentication_failed(&self) -> u64 {
        self.ended.authentication_failed
    }

    /// SRTP packets that were received before, or are behind the replay window.
    pub const fn replayed(&self) -> u64 {
        self.ended.replayed
    }

    /// Packets of streams that are not valid RTP or SRTP, and datagrams that are not RTP.
    pub fn malformed(&self) -> u64 {
        self.ended.malformed + self.sum(|counters| counters.not_rtp)
    }

    /// RTP packets that belong to no stream.
    pub fn stray(&self) -> u64 {
        self.sum(|counters| counters.stray)
    }

    /// Sides of calls without a stream, by reason.
    pub fn refused(&self) -> BTreeMap<&'static str, u64> {
        let mut refused = BTreeMap::new();
        for (reason, count) in self.threads.values().flat_map(|thread| &thread.counters.refused) {
            *refused.entry(reason.name()).or_default() += count;
        }
        refused
    }

    /// Percentile (0 to 100) over the ended streams of their mean interarrival jitter (RFC 3550 §6.4.1).
    pub fn jitter(&self, percentile: f64) -> Option<Duration> {
        percentile_of(&self.histograms.as_ref()?.jitter_us, percentile)
    }

    /// Percentile (0 to 100) over the packets of the one-way delay, from writing the packet to its arrival.
    pub fn delay(&self, percentile: f64) -> Option<Duration> {
        percentile_of(&self.histograms.as_ref()?.delay_us, percentile)
    }

    /// CPU time of the media threads for each second of a stream: 50 packets sent, also recorded ones, and those received.
    pub fn cpu_per_stream_second(&self) -> Option<Duration> {
        let stream_seconds = self.sent() as f64 / 50.0;
        let cpu_ns: u64 = self.threads.values().map(|thread| thread.cpu_ns).sum();
        (stream_seconds > 0.0).then(|| Duration::from_nanos((cpu_ns as f64 / stream_seconds) as u64))
    }

    /// Reason why the media say more about the generator than about the network.
    pub fn bottleneck(&self) -> Option<String> {
        let full = self.sum(|counters| counters.refused.get(&FULL).copied().unwrap_or(0));
        if full > 0 {
            return Some(format!("{full} streams above the limit of {} a thread", MediaStreams::STREAMS_MAX));
        }
        let late = (self.late() + self.not_sent()) as f64 / ((self.sent() + self.not_sent()) as f64).max(1.0);
        (late > LATE_SHARE_MAX).then(|| {
            let ms = MediaStreams::LATE.as_millis();
            format!(
                "{:.2} % of the media packets were sent more than {ms} ms late, or not sent",
                late * 100.0
            )
        })
    }
}

fn percentile_of(histogram: &Histogram<u64>, percentile: f64) -> Option<Duration> {
    (!histogram.is_empty()).then(|| Duration::from_micros(histogram.value_at_percentile(percentile)))
}

const FULL: ringway_load::MediaRefusal = ringway_load::MediaRefusal::Full;
/// Largest share of late packets of a valid run.
const LATE_SHARE_MAX: f64 = 0.001;

#[cfg(test)]
mod tests {
    use super::*;

    fn counters(sent: u64, late: u64) -> MediaCounters {
        MediaCounters { sent, late, ..MediaCounters::default() }
    }

    #[test]
    fn values_of_threads_are_added_and_counters_replaced() {
        let mut statistics = MediaStatistics::default();
        let thread = std::thread::current().id();
        let mut delays = Delays::new();
        delays.add_delay(Duration::from_micros(150));
        let mut report = StreamReport { jitter_mean_ms: 2.0, ..StreamReport::default() };
        delays.add_report(&report);
        report.received.expected = 100;
        report.received.received = 90;
        delays.add_report(&report);
        statistics.add(thread, &counters(50, 0), 0, 1_000_000, &mut delays);
        statistics.add(thread, &counters(100, 0), 0, 2_000_000, &mut delays);
        assert_eq!((statistics.silent_streams(), statistics.received(), statistics.lost()), (1, 90, 10));
        assert_eq!((statistics.loss_share(), statistics.sent()), (0.1, 100));
        assert_eq!(statistics.cpu_per_stream_second(), Some(Duration::from_millis(1)));
        assert_eq!(statistics.jitter(50.0).map(|jitter| jitter.as_millis()), Some(2));
        assert_eq!(statistics.delay(99.0), Some(Duration::from_micros(150)));
        assert_eq!(statistics.bottleneck(), None);
    }

    #[test]
    fn late_unsent_and_refused_streams_make_a_result_invalid() {
        let bottleneck = |counters: &MediaCounters, send_errors| {
            let mut statistics = MediaStatistics::default();
            let thread = std::thread::current().id();
            statistics.add(thread, counters, send_errors, 0, &mut Delays::new());
            statistics.bottleneck()
        };
        assert_eq!(bottleneck(&counters(10_000, 10), 0), None);
        assert!(bottleneck(&counters(10_000, 11), 0).is_some_and(|reason| reason.contains("5 ms late")));
        assert!(bottleneck(&counters(10_000, 0), 11).is_some());
        let full = MediaCounters { refused: BTreeMap::from([(FULL, 1)]), ..counters(10_000, 0) };
        assert!(bottleneck(&full, 0).is_some_and(|reason| reason.contains("limit")));
    }
}
