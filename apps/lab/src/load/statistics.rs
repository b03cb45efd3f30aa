//! Results of a run.

use super::media::MediaStatistics;
use super::timeline::{Slot, Timeline, histogram, micros};
use super::{Counters, Outcome, WireCounters};
use hdrhistogram::Histogram;
use ringway_load::Report;
use ringway_sansio::Instant;
use std::collections::{BTreeMap, HashMap};
use std::thread::ThreadId;
use std::time::Duration;

/// Outcomes and delays of the callers' attempts.
#[derive(Clone, Debug)]
pub struct Statistics {
    outcomes: BTreeMap<String, u64>,
    delays: [Histogram<u64>; 5],
    late: u64,
    target_loss: Option<String>,
    timeline: Timeline,
    is_interrupted: bool,
    threads: HashMap<ThreadId, OfThread>,
    pub(super) media: Option<MediaStatistics>,
}

/// Measured delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delay {
    /// Planned start to the final response: includes every wait that a caller would have noticed.
    Response,
    /// First send to the final response.
    Service,
    /// First send to the first response other than 100 (RFC 6076: session request delay).
    FirstResponse,
    /// BYE to its response (RFC 6076: session disconnect delay).
    Disconnect,
    /// Planned start to first send: the generator's own delay.
    Lag,
}

impl Delay {
    /// All delays.
    pub const ALL: [Self; 5] =
        [Self::Response, Self::Service, Self::FirstResponse, Self::Disconnect, Self::Lag];

    /// Name in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Response => "response",
            Self::Service => "service",
            Self::FirstResponse => "first_response",
            Self::Disconnect => "disconnect",
            Self::Lag => "lag",
        }
    }
}

/// Condition of the generator itself during a run.
#[derive(Clone, Debug)]
pub struct Health {
    /// 99th percentile of [`Delay::Lag`].
    pub lag_p99: Duration,
    /// Number of attempts that have a lag. Of fewer than [`LAG_ATTEMPTS_MIN`] it is not judged.
    pub attempts: u64,
    /// Largest share of a processor that a thread of the generator used in a second.
    pub cpu_share: f64,
    /// Planned attempts that were not started.
    pub dropped: u64,
    /// Packets to addresses that nothing may be sent to.
    pub refused_packets: u64,
    /// Connections that the generator's own limits prevented: open files, local ports.
    pub missed_connections: u64,
    /// Reason why the media say more about the generator than about the network.
    pub media: Option<String>,
}

impl Health {
    /// Reason why the results say more about the generator, or about its machine, than about the server.
    pub fn invalid_because(&self) -> Option<String> {
        self.invalid_with(Duration::ZERO).map(|(reason, _)| reason)
    }

    /// Remedy for an invalid result.
    pub fn remedy(&self) -> Option<&'static str> {
        self.invalid_with(Duration::ZERO).map(|(_, remedy)| remedy)
    }

    /// Reason of an invalid result, and its remedy, for a load whose attempts wait for a tick.
    pub fn invalid_with(&self, tick: Duration) -> Option<(String, &'static str)> {
        let share = self.cpu_share * 100.0;
        if self.dropped > 0 {
            return Some((
                format!("{} planned attempts were not started", self.dropped),
                FEWER_OR_MORE_THREADS,
            ));
        }
        if self.missed_connections > 0 {
            let missed = self.missed_connections;
            return Some((format!("{missed} connections found no free local port or open file"), MORE_PORTS));
        }
        if self.judges_lag() && self.lag_p99 > LAG_P99_MAX + tick {
            let lag = self.lag_p99.as_secs_f64() * 1e3;
            let late = format!("attempts started up to {lag:.1} ms late (99th percentile)");
            return Some(match self.cpu_share < CPU_SHARE_WAITING {
                true => (
                    format!(
                        "{late}, while the generator used {share:.0} % of a processor: its machine did not run it in time"
                    ),
                    QUIET,
                ),
                false => (
                    format!("{late}: the generator, with {share:.0} % of a processor, was the bottleneck"),
                    FEWER_OR_MORE_THREADS,
                ),
            });
        }
        if self.cpu_share > CPU_SHARE_MAX {
            let used =
                format!("a thread of the generator used {share:.0} % of a processor: it was the bottleneck");
            return Some((used, FEWER_OR_MORE_THREADS));
        }
        self.media.clone().map(|media| (media, FEWER_OR_MORE_THREADS))
    }

    /// True if the result is invalid for its lag alone, and that is too short to change the offered rate.
    pub fn is_only_late(&self) -> bool {
        let in_time = Self { lag_p99: Duration::ZERO, ..self.clone() };
        let is_short = self.lag_p99 <= LAG_P99_PASSED;
        is_short && self.invalid_because().is_some() && in_time.invalid_because().is_none()
    }

    /// True if there are enough attempts to judge the lag: of fewer the 99th percentile is the largest value.
    pub const fn judges_lag(&self) -> bool {
        self.attempts >= LAG_ATTEMPTS_MIN
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct OfThread {
    counters: Counters,
    open: usize,
    cpu_ns: u64,
    cpu_share: f64,
    wire: WireCounters,
}

impl Default for Statistics {
    fn default() -> Self {
        Self {
            outcomes: BTreeMap::new(),
            delays: std::array::from_fn(|_| histogram()),
            late: 0,
            target_loss: None,
            timeline: Timeline::default(),
            is_interrupted: false,
            threads: HashMap::new(),
            media: None,
        }
    }
}

impl Statistics {
    /// Statistics of attempts that are planned from `start` on, for `length`.
    pub(crate) fn new(start: Instant, length: Duration) -> Self {
        Self { timeline: Timeline::new(start, length), ..Self::default() }
    }

    pub(crate) fn add(&mut self, report: &Report) {
        match (report.outcome, self.outcomes.get_mut(report.outcome.name())) {
            (Outcome::Status(status), _) => *self.outcomes.entry(status.to_string()).or_default() += 1,
            (_, Some(count)) => *count += 1,
            (other, None) => drop(self.outcomes.insert(other.name().to_owned(), 1)),
        }
        self.timeline.add(report);
        let lag = report.lag();
        self.late += u64::from(lag > LATE);
        let values = [
            report.final_response.map(|delay| delay + lag),
            report.final_response,
            report.first_response,
            report.disconnect,
            Some(lag),
        ];
        for (histogram, value) in self.delays.iter_mut().zip(values) {
            if let Some(value) = value {
                histogram.saturating_record(micros(value));
            }
        }
    }

    pub(crate) fn set_thread(
        &mut self,
        thread: ThreadId,
        counters: impl Iterator<Item = (Counters, WireCounters)>,
        open: usize,
        cpu_ns: u64,
        cpu_share: f64,
    ) {
        let (mut sum, mut wire) = (Counters::default(), WireCounters::default());
        for (index, (counters, of_sockets)) in counters.enumerate() {
            wire += of_sockets;
            if index == 0 {
                (sum.started, sum.dropped) = (counters.started, counters.dropped);
            }
            sum.requests += counters.requests;
            sum.challenges += counters.challenges;
            sum.retransmissions += counters.retransmissions;
            sum.malformed += counters.malformed;
            sum.stray += counters.stray;
        }
        self.threads.insert(thread, OfThread { counters: sum, open, cpu_ns, cpu_share, wire });
    }

    pub(crate) fn set_target_loss(&mut self, text: String) {
        self.target_loss.get_or_insert(text);
    }

    /// Text for the user if the run was ended because the target did not answer: the target, the time, the reason.
    pub fn target_loss(&self) -> Option<&str> {
        self.target_loss.as_deref()
    }

    /// Number of attempts with each outcome: `success`, a status code, or another name of an [`Outcome`].
    pub fn outcomes(&self) -> &BTreeMap<String, u64> {
        &self.outcomes
    }

    /// Outcomes of attempts that failed.
    pub fn failures(&self) -> impl Iterator<Item = (&str, u64)> {
        let outcomes = self.outcomes.iter().map(|(name, &count)| (name.as_str(), count));
        outcomes.filter(|(name, _)| *name != SUCCESS && !(self.is_interrupted && *name == STOPPED))
    }

    /// Number of successful attempts.
    pub fn successes(&self) -> u64 {
        self.outcomes.get(SUCCESS).copied().unwrap_or(0)
    }

    /// Number of attempts that succeeded or failed.
    pub fn ended(&self) -> u64 {
        self.outcomes.values().sum::<u64>() - self.cut_off()
    }

    /// Number of attempts that an interruption cut off. Attempts that are stopped for another reason failed.
    pub fn cut_off(&self) -> u64 {
        self.outcomes.get(STOPPED).copied().filter(|_| self.is_interrupted).unwrap_or(0)
    }

    /// Number of open attempts.
    pub fn open(&self) -> usize {
        self.threads.values().map(|thread| thread.open).sum()
    }

    /// Number of attempts that started more than 1 ms after their planned time.
    pub const fn late(&self) -> u64 {
        self.late
    }

    /// Percentile (0 to 100) of a delay; `None` without values.
    pub fn percentile(&self, delay: Delay, percentile: f64) -> Option<Duration> {
        let histogram = self.delays.get(delay as usize).filter(|histogram| !histogram.is_empty())?;
        Some(Duration::from_micros(histogram.value_at_percentile(percentile)))
    }

    /// Mean of a delay; `None` without values.
    pub fn mean(&self, delay: Delay) -> Option<Duration> {
        let histogram = self.delays.get(delay as usize).filter(|histogram| !histogram.is_empty())?;
        Some(Duration::from_secs_f64(histogram.mean() / 1e6))
    }

    /// Notes that the user ended the run after `length`.
    pub fn interrupt(&mut self, length: Duration) {
        self.is_interrupted = true;
        self.timeline.shorten(length);
    }

    /// Share of the values of a delay that are at most `limit`; 0 without values.
    pub fn share_within(&self, delay: Delay, limit: Duration) -> f64 {
        let Some(histogram) = self.delays.get(delay as usize) else { return 0.0 };
        histogram.count_between(0, micros(limit)) as f64 / (histogram.len() as f64).max(1.0)
    }

    /// Offered attempts a second: planned ones, with those that were not started.
    pub fn offered(&self) -> f64 {
        let counters = self.counters();
        (counters.started + counters.dropped) as f64 / self.timeline.seconds().max(f64::MIN_POSITIVE)
    }

    /// Successful attempts a second, in a time as long as the load that begins with the end of the first successful one. Pauses
    /// of the attempts, such as ring and talk time, do not count.
    pub fn achieved(&self) -> f64 {
        self.timeline.achieved()
    }

    /// Planned, ended and successful attempts of each second. An attempt counts when it has ended.
    pub fn by_second(&self) -> impl Iterator<Item = Slot> {
        self.timeline.by_second()
    }

    /// Counters of all threads.
    pub fn counters(&self) -> Counters {
        self.threads.values().fold(Counters::default(), |sum, thread| Counters {
            started: sum.started + thread.counters.started,
            dropped: sum.dropped + thread.counters.dropped,
            requests: sum.requests + thread.counters.requests,
            challenges: sum.challenges + thread.counters.challenges,
            retransmissions: sum.retransmissions + thread.counters.retransmissions,
            malformed: sum.malformed + thread.counters.malformed,
            stray: sum.stray + thread.counters.stray,
        })
    }

    /// Counters of the sockets of all threads and both sides.
    pub fn wire(&self) -> WireCounters {
        let mut sum = WireCounters::default();
        self.threads.values().for_each(|thread| sum += thread.wire);
        sum
    }

    /// CPU time of the generator's threads.
    pub fn generator_cpu(&self) -> Duration {
        Duration::from_nanos(self.threads.values().map(|thread| thread.cpu_ns).sum())
    }

    /// Results of the media streams, if there are any.
    pub const fn media(&self) -> Option<&MediaStatistics> {
        self.media.as_ref()
    }

    /// Condition of the generator.
    pub fn health(&self) -> Health {
        let wire = self.wire();
        Health {
            lag_p99: self.percentile(Delay::Lag, 99.0).unwrap_or_default(),
            attempts: self.delays.get(Delay::Lag as usize).map_or(0, Histogram::len),
            cpu_share: self.threads.values().map(|thread| thread.cpu_share).fold(0.0, f64::max),
            dropped: self.counters().dropped,
            refused_packets: wire.not_permitted,
            missed_connections: wire.over_limit + wire.no_port,
            media: self.media.as_ref().and_then(MediaStatistics::bottleneck),
        }
    }
}

const SUCCESS: &str = Outcome::Success.name();
const STOPPED: &str = Outcome::Stopped.name();
/// Lag from which on a start counts as late.
const LATE: Duration = Duration::from_millis(1);
/// Largest 99th percentile of the lag of a valid run.
const LAG_P99_MAX: Duration = Duration::from_millis(1);
/// Largest 99th percentile of the lag of a run that met the criterion although it was late: 1 % of a second, which is the shortest trial.
const LAG_P99_PASSED: Duration = Duration::from_millis(10);
/// Fewest attempts whose lag is judged.
pub const LAG_ATTEMPTS_MIN: u64 = 100;
/// Largest CPU share of a thread in a valid run.
const CPU_SHARE_MAX: f64 = 0.8;
/// Share of a processor below which a generator that starts late was waiting for the processor, not working.
const CPU_SHARE_WAITING: f64 = 0.5;
const FEWER_OR_MORE_THREADS: &str = "lower --rate or raise --threads";
const MORE_PORTS: &str = "give more --sources or a higher ulimit -n";
const QUIET: &str = "end other programs, give a virtual machine processors of its own, and repeat it";

#[cfg(test)]
mod tests {
    use super::*;
    use ringway_sansio::Instant;

    fn report(outcome: Outcome, lag_us: u64, response_us: u64) -> Report {
        let planned = Instant::from_secs(1);
        let started = planned + Duration::from_micros(lag_us);
        let response = Duration::from_micros(response_us);
        Report {
            planned,
            started,
            ended: started + response,
            outcome,
            first_response: None,
            final_response: Some(response),
            disconnect: None,
            paused: Duration::ZERO,
        }
    }

    #[test]
    fn the_response_time_counts_from_the_planned_start() {
        let mut statistics = Statistics::default();
        for _ in 0..99 {
            statistics.add(&report(Outcome::Success, 0, 200));
        }
        statistics.add(&report(Outcome::Status(503), 5_000, 200));
        let ms = |delay, percentile| statistics.percentile(delay, percentile).map(|time| time.as_micros());
        assert_eq!((ms(Delay::Service, 100.0), ms(Delay::Response, 50.0)), (Some(200), Some(200)));
        assert!(ms(Delay::Response, 100.0).is_some_and(|time| (5_190..5_210).contains(&time)));
        assert_eq!(ms(Delay::Disconnect, 50.0), None);
        assert_eq!((statistics.successes(), statistics.late(), statistics.ended()), (99, 1, 100));
        assert_eq!(statistics.failures().collect::<Vec<_>>(), [("503", 1)]);
    }

    #[test]
    fn attempts_that_an_interruption_cuts_off_do_not_fail() {
        let mut statistics = Statistics::default();
        statistics.add(&report(Outcome::Success, 0, 200));
        statistics.add(&report(Outcome::Stopped, 0, 200));
        assert_eq!((statistics.ended(), statistics.cut_off()), (2, 0));
        assert_eq!(statistics.failures().collect::<Vec<_>>(), [("stopped", 1)]);
        statistics.interrupt(Duration::from_secs(1));
        assert_eq!((statistics.ended(), statistics.cut_off()), (1, 1));
        assert_eq!(statistics.failures().count(), 0);
    }

    #[test]
    fn one_late_start_of_few_attempts_makes_no_result_invalid() {
        let mut statistics = Statistics::default();
        for number in 1..=100 {
            statistics.add(&report(Outcome::Success, if number <= 2 { 5_000 } else { 0 }, 200));
            let is_judged = number >= LAG_ATTEMPTS_MIN;
            let health = statistics.health();
            assert_eq!(
                (health.judges_lag(), health.invalid_because().is_some()),
                (is_judged, is_judged),
                "{number}"
            );
        }
    }

    #[test]
    fn a_generator_that_is_late_busy_or_drops_makes_a_result_invalid() {
        let good = Health {
            lag_p99: Duration::from_micros(80),
            attempts: 1_000,
            cpu_share: 0.5,
            dropped: 0,
            refused_packets: 0,
            missed_connections: 0,
            media: None,
        };
        assert_eq!(good.invalid_because(), None);
        assert!(Health { lag_p99: Duration::from_millis(2), ..good.clone() }.invalid_because().is_some());
        assert!(Health { cpu_share: 0.9, ..good.clone() }.invalid_because().is_some());
        assert!(Health { missed_connections: 1, ..good.clone() }.invalid_because().is_some());
        assert!(Health { dropped: 1, ..good.clone() }.invalid_because().is_some());
        let only_late = |health: &Health| health.is_only_late();
        assert!(
            !only_late(&good) && only_late(&Health { lag_p99: Duration::from_millis(2), ..good.clone() })
        );
        assert!(!only_late(&Health { lag_p99: Duration::from_millis(2), dropped: 1, ..good.clone() }));
        assert!(!only_late(&Health { lag_p99: Duration::from_millis(11), ..good.clone() }));
        // Late with 2 % of a processor: another program had it.
        let late = |cpu_share| Health { lag_p99: Duration::from_millis(2), cpu_share, ..good.clone() };
        for (cpu_share, is_bottleneck) in [(0.02, false), (0.4, false), (0.7, true), (0.95, true)] {
            let (reason, remedy) = late(cpu_share).invalid_with(Duration::ZERO).unwrap();
            assert_eq!(reason.contains("the bottleneck"), is_bottleneck, "{reason}");
            assert_eq!(reason.contains("its machine did not run it in time"), !is_bottleneck, "{reason}");
            assert_eq!(remedy.contains("--threads"), is_bottleneck, "{remedy}");
        }
    }
}
