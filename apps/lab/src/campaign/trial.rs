//! One load on one server, and its measurement.

use super::experiment::{Experiment, Variant};
use super::noise::{Meter, Noise};
use super::pulse::Pulse;
use super::server::{Reading, Server};
use super::{Observer, Options, is_dialog};
use crate::agent::Reading as AgentReading;
use crate::load::{
    Called, ConnectionUse, Criteria, Delay, Flow, MediaStatistics, Plan, Run, Session, Statistics, Stop,
    Users,
};
use crate::record::{self, Generator, Measurement, Media, Percentiles, Tls};
use crate::server::Carrier;
use crate::times::milliseconds;
use anyhow::{Result, anyhow, bail};
use std::time::{Duration, Instant};

/// Load of a trial.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load<'a> {
    pub(super) experiment: &'a Experiment,
    pub(super) variant: &'a Variant,
    /// Attempts a second.
    pub(super) rate: f64,
    /// Seconds during which they are planned.
    pub(super) seconds: f64,
    /// Seconds of the same load before, which are not measured.
    pub(super) warm_up: f64,
}

/// Result of a load.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    pub(super) statistics: Statistics,
    /// CPU time of the server in nanoseconds.
    server_ns: Option<u64>,
    /// CPU time of the profiler in nanoseconds.
    pub(super) profiler_ns: u64,
    server_memory: Option<u64>,
    /// Passwords that the server read from a database.
    pub(super) lookups: Option<u64>,
    noise: Noise,
    /// Retransmissions of each second.
    retransmissions: Vec<u64>,
}

impl Load<'_> {
    /// Users of each side.
    pub(super) fn users(&self, is_quick: bool) -> u32 {
        match self.variant.flow {
            // Each binding is made or removed once.
            Flow::Register | Flow::Logout => {
                ((self.rate * (self.seconds + self.warm_up)).ceil() as u32).saturating_add(1)
            }
            Flow::Update
            | Flow::Call
            | Flow::CallNotFound
            | Flow::CallUnavailable
            | Flow::Unauthenticated
            | Flow::WrongPassword
            | Flow::Redirect
            | Flow::Options
            | Flow::Message
            | Flow::Subscribe
            | Flow::Publish => *self.variant.users.as_ref().unwrap_or(&self.experiment.users).of(is_quick),
        }
    }

    /// Plan of the load on a server.
    pub(super) fn plan(&self, server: &mut Server, options: &Options) -> Result<Plan> {
        let (variant, count) = (self.variant, self.users(options.is_quick));
        let transport = variant.carrier.transport();
        // Connections that only one side shares are one each: the modes of a chain of proxies.
        let is_shared = variant.connections == ConnectionUse::Shared && variant.called == Called::Usual;
        let sockets = if variant.carrier != Carrier::Udp && is_shared { CONNECTIONS } else { 1 };
        if !server.password.is_empty() && count > server.users() {
            bail!(
                "{count} users are needed and the server has {}; give a lower rate or fewer --seconds",
                server.users()
            );
        }
        let password = match variant.flow {
            Flow::WrongPassword => "not the password".to_owned(),
            _ => server.password.clone(),
        };
        let mut users = || Users::by_rule("u", 7, server.take_users(count), count, &password);
        let callers = users()?;
        let peers = match variant.flow {
            Flow::CallNotFound => Users::by_rule("nobody", 7, 0, 1_000_000, "")?,
            Flow::Call | Flow::CallUnavailable | Flow::Redirect | Flow::Options | Flow::Message => users()?,
            Flow::Register
            | Flow::Update
            | Flow::Logout
            | Flow::Unauthenticated
            | Flow::WrongPassword
            | Flow::Subscribe
            | Flow::Publish => callers.clone(),
        };
        Ok(Plan {
            transport,
            connections: variant.connections,
            called: variant.called,
            tls: server.load_tls()?,
            media: variant.media,
            allowed_hosts: options.allowed_hosts.clone(),
            rate: self.rate,
            length: Duration::from_secs_f64(self.seconds),
            domain: server.domain.clone(),
            sources: options.sources,
            sockets: sockets.min(u8::MAX / options.sources.max(1)),
            called_sockets: (variant.called == Called::Dialled).then(|| CALLED / options.sources.max(1)),
            ring: variant.ring.unwrap_or(self.experiment.ring),
            talk: self.experiment.talk,
            // Of a few called users the writing costs little beside the calls.
            settle: if options.is_quick && is_dialog(variant.flow) { Duration::ZERO } else { server.rest },
            ..Plan::new(server.variant_address(), variant.flow, callers, peers)
        })
    }

    /// Measurement of an outcome; the caller fills in target and trial.
    pub(super) fn measurement(&self, outcome: &Outcome) -> Measurement {
        Measurement {
            experiment: self.experiment.name.clone(),
            variant: self.variant.name.clone(),
            warm_up: self.warm_up,
            ..measurement(outcome, self.rate, self.seconds, &self.experiment.criteria)
        }
    }
}

/// Offers a load to a server, after `warm_up` seconds of the same load, and waits until all attempts have ended; those that have not
/// ended `drain` after the last planned one are stopped. `None`: the observer has interrupted it.
///
/// # Errors
/// The server ended or does not answer; the load cannot be offered.
pub(super) fn offer(
    plan: &Plan,
    warm_up: f64,
    mut server: Option<&mut Server>,
    drain: Duration,
    observer: &mut dyn Observer,
) -> Result<Option<Outcome>> {
    let read = |server: &Option<&mut Server>| server.as_ref().map_or(Ok(None), |server| server.read());
    let lookups = |server: &Option<&mut Server>| server.as_ref().map_or(Ok(None), |server| server.lookups());
    let Some(session) = open(plan, observer)? else { return Ok(None) };
    let session = match server.as_ref().and_then(|server| server.tick()) {
        Some(tick) => session.ticking(tick),
        None => session,
    };
    let warmed = warm_up_with(session, plan, warm_up, (server.as_deref_mut(), drain), observer)?;
    let Some(session) = warmed else { return Ok(None) };
    let lookups_before = lookups(&server);
    let run = session.planning(plan).start_planned()?;
    let (meter, before) = (Meter::start(), read(&server));
    let is_sampled = server.as_deref_mut().map_or(Ok(()), Server::begin_window);
    let watched = watch(&run, plan.whole_length() + drain, server.as_deref_mut(), observer);
    let is_interrupted = matches!(watched, Ok(None)) || watched.is_err() && is_interrupted_soon(observer);
    run.stop();
    let finished = run.finish_session();
    // A server that the campaign has started ends with its bindings.
    let is_kept = server.as_ref().is_some_and(|server| !server.is_started());
    if is_interrupted {
        if is_kept && let Ok((statistics, session)) = finished {
            remove_bindings(&statistics, session, observer);
        }
        return Ok(None);
    }
    let Some(retransmissions) = watched? else { return Ok(None) };
    let (statistics, session) = finished?;
    is_sampled?;
    if let Some(loss) = statistics.target_loss() {
        bail!("{loss}");
    }
    let rest = server.as_ref().map_or(Duration::ZERO, |server| server.rest);
    if pause(rest, observer) {
        if is_kept {
            remove_bindings(&statistics, session, observer);
        }
        return Ok(None);
    }
    if let Some(server) = &mut server {
        server.check()?;
    }
    let readings = before?.zip(read(&server)?);
    let server_ns = readings.map(|(before, after)| after.cpu_ns.saturating_sub(before.cpu_ns));
    let profiler_ns = server.as_deref_mut().map_or(Ok(None), Server::end_window)?.unwrap_or_default();
    let server_memory = server.as_ref().map_or(Ok(None), |server| server.memory_bytes())?;
    let noise = noise(&meter, readings, profiler_ns);
    let lookups = match (lookups_before?, lookups(&server)?) {
        (Some(before), Some(after)) => Some(after.saturating_sub(before)),
        _ => None,
    };
    if is_kept {
        remove_bindings(&statistics, session, observer);
    }
    Ok(Some(Outcome { statistics, server_ns, profiler_ns, server_memory, lookups, noise, retransmissions }))
}

/// Other work of this machine, and of that of the server if it is another one.
fn noise(meter: &Meter, readings: Option<(Reading, Reading)>, profiler_ns: u64) -> Noise {
    let elsewhere = readings.and_then(|(before, after)| before.elsewhere.zip(after.elsewhere));
    match (elsewhere, readings) {
        (Some((before, after)), _) => {
            let since = |value: fn(&AgentReading) -> u64| value(&after).saturating_sub(value(&before));
            let known_ns =
                since(|reading| reading.server_ns) + since(|reading| reading.agent_ns) + profiler_ns;
            let busy_ns = since(|reading| reading.busy_ns);
            let steal_ns = since(|reading| reading.steal_ns);
            let there = Noise::of(busy_ns, known_ns, steal_ns, meter.elapsed());
            meter.noise(0).or_larger(there)
        }
        (None, Some((before, after))) => {
            meter.noise(after.cpu_ns.saturating_sub(before.cpu_ns) + profiler_ns)
        }
        (None, None) => meter.noise(profiler_ns),
    }
}

/// Offers the load of `plan` for some seconds, without a result. `None`: the observer has interrupted it.
fn warm_up_with(
    session: Session,
    plan: &Plan,
    seconds: f64,
    (mut server, drain): (Option<&mut Server>, Duration),
    observer: &mut dyn Observer,
) -> Result<Option<Session>> {
    if seconds <= 0.0 {
        return Ok(Some(session));
    }
    let length = Duration::from_secs_f64(seconds);
    let run = session.start(plan.rate, length)?;
    let watched = watch(&run, length + drain, server.as_deref_mut(), observer);
    run.stop();
    let finished = run.finish_session();
    let is_interrupted = matches!(watched, Ok(None)) || watched.is_err() && is_interrupted_soon(observer);
    if is_interrupted {
        if server.as_ref().is_some_and(|server| !server.is_started())
            && let Ok((statistics, session)) = finished
        {
            remove_bindings(&statistics, session, observer);
        }
        return Ok(None);
    }
    watched?;
    let (statistics, session) = finished?;
    match statistics.target_loss() {
        Some(loss) => bail!("{loss} (in the warm-up)"),
        None => Ok(Some(session)),
    }
}

/// Opens sockets and registers users. `None`: the observer has interrupted it.
fn open(plan: &Plan, observer: &mut dyn Observer) -> Result<Option<Session>> {
    let (plan, stop, mut is_interrupted) = (plan.clone(), Stop::default(), false);
    let stopped = stop.clone();
    let opening = std::thread::spawn(move || Session::open_unless(&plan, &stopped));
    while !opening.is_finished() {
        std::thread::sleep(LOOK_EVERY);
        if !is_interrupted && observer.is_interrupted() {
            is_interrupted = true;
            stop.stop();
        }
    }
    let opened = opening.join().map_err(|_| anyhow!("the start of the load generator panicked"))?;
    match opened {
        // The stop may have come too late.
        Ok(Some(session)) if is_interrupted => {
            remove_bindings(&Statistics::default(), session, observer);
            Ok(None)
        }
        _ if is_interrupted => Ok(None),
        Err(_) if is_interrupted_soon(observer) => Ok(None),
        opened => opened,
    }
}

/// Removes the bindings of a load from a server that goes on running.
fn remove_bindings(statistics: &Statistics, mut session: Session, observer: &mut dyn Observer) {
    if statistics.target_loss().is_none()
        && let Err(error) = session.remove_bindings()
    {
        observer.warn(&format!("{error:#}"));
    }
}

/// Waits for the end of a run. Returns the retransmissions of each second; `None` if it was interrupted.
fn watch(
    run: &Run,
    most: Duration,
    mut server: Option<&mut Server>,
    observer: &mut dyn Observer,
) -> Result<Option<Vec<u64>>> {
    let begun = Instant::now();
    let (mut retransmissions, mut sum) = (Vec::new(), 0);
    let mut note_second = |run: &Run| {
        let now = run.statistics().counters().retransmissions;
        retransmissions.push(now - std::mem::replace(&mut sum, now));
    };
    let mut seconds = 1;
    while !run.is_done() {
        std::thread::sleep(LOOK_EVERY);
        if observer.is_interrupted() {
            return Ok(None);
        }
        if let Some(server) = &mut server {
            server.check()?;
        }
        if begun.elapsed() > most {
            run.stop();
        }
        if begun.elapsed().as_secs() >= seconds {
            seconds += 1;
            note_second(run);
            observer.tick();
        }
    }
    note_second(run);
    Ok(Some(retransmissions))
}

/// Waits; true if the observer interrupts.
pub(super) fn pause(time: Duration, observer: &mut dyn Observer) -> bool {
    let until = Instant::now() + time;
    while Instant::now() < until {
        std::thread::sleep(LOOK_EVERY.min(until.saturating_duration_since(Instant::now())));
        if observer.is_interrupted() {
            return true;
        }
    }
    false
}

/// True if an interruption arrives, which a terminal sends to the server too, and the server may be faster.
fn is_interrupted_soon(observer: &mut dyn Observer) -> bool {
    pause(Duration::from_millis(200), observer)
}

/// Values of a measurement without names.
pub(super) fn measurement(outcome: &Outcome, rate: f64, seconds: f64, criteria: &Criteria) -> Measurement {
    let Outcome { statistics, .. } = outcome;
    let (counters, health) = (statistics.counters(), statistics.health());
    let ended = (statistics.ended() as f64).max(1.0);
    let percentiles = |delay| percentiles(statistics, delay);
    let missed = criteria.missed(statistics);
    let invalid_because = outcome.invalid_because();
    let is_valid = invalid_because.is_empty();
    Measurement {
        rate,
        seconds,
        planned: counters.started + counters.dropped,
        started: counters.started,
        successes: statistics.successes(),
        failures: statistics.failures().map(|(name, count)| (name.to_owned(), count)).collect(),
        achieved: statistics.achieved(),
        requests: counters.requests,
        challenges: counters.challenges,
        retransmissions: counters.retransmissions,
        response_ms: percentiles(Delay::Response),
        service_ms: percentiles(Delay::Service),
        first_response_ms: percentiles(Delay::FirstResponse),
        disconnect_ms: percentiles(Delay::Disconnect),
        lag_ms: percentiles(Delay::Lag),
        cdf: distribution(statistics),
        buckets30: buckets(statistics),
        server_cpu_us: outcome.server_ns.map(|ns| ns as f64 / 1e3 / ended),
        server_cpu_share: outcome.server_ns.map(|ns| ns as f64 / 1e9 / seconds.max(f64::MIN_POSITIVE)),
        server_memory_kb: outcome.server_memory.map(|bytes| bytes / 1024),
        database_lookups: outcome.lookups,
        others_share: outcome.noise.others,
        steal: outcome.noise.steal,
        generator: Generator {
            cpu_share: health.cpu_share,
            cpu_us: statistics.generator_cpu().as_secs_f64() * 1e6 / ended,
            dropped: health.dropped,
            late: statistics.late(),
        },
        valid: is_valid,
        invalid_because,
        criterion_met: is_valid.then_some(missed.is_empty()),
        met_late: health.is_only_late() && missed.is_empty(),
        criterion_missed: if is_valid { missed.join(", ") } else { String::new() },
        seconds_series: outcome.series(),
        media: statistics.media().map(media),
        tls: tls(statistics),
        ..Measurement::default()
    }
}

impl Outcome {
    /// CPU time of the server in nanoseconds; `None` for one that the campaign did not start.
    pub(super) const fn server_ns(&self) -> Option<u64> {
        self.server_ns
    }

    /// Reason for which it says nothing about the server; empty if it does.
    fn invalid_because(&self) -> String {
        match (self.statistics.health().invalid_because(), self.noise.disturbance()) {
            (Some(reason), Some(disturbance)) => format!("{reason}; not quiet: {disturbance}"),
            (reason, _) => reason.unwrap_or_default(),
        }
    }

    /// Each second, and in it: planned, ended and successful attempts, retransmissions.
    fn series(&self) -> Vec<[u64; 5]> {
        let series = self.statistics.by_second().enumerate().map(|(index, slot)| {
            let again = self.retransmissions.get(index).copied().unwrap_or_default();
            [index as u64 + 1, slot.planned, slot.ended, slot.successes, again]
        });
        series.take(SECONDS_MAX).collect()
    }

    /// A pulse of this outcome; the caller fills in the names and the peak.
    pub(super) fn pulse(&self, plan: &Pulse) -> record::Pulse {
        let Pulse { multiple, seconds, then, then_seconds } = *plan;
        let (seconds_series, invalid_because) = (self.series(), self.invalid_because());
        record::Pulse {
            multiple,
            seconds,
            then,
            then_seconds,
            recovered_s: recovered_s(&seconds_series, seconds),
            valid: invalid_because.is_empty(),
            invalid_because,
            seconds_series,
            ..record::Pulse::default()
        }
    }

    /// Warning about the machine.
    pub(super) fn warning(&self) -> Option<String> {
        self.noise.warning()
    }
}

/// TLS handshakes; `None` without any.
fn tls(statistics: &Statistics) -> Option<Tls> {
    let wire = statistics.wire();
    let tls = Tls {
        full: wire.tls_full,
        resumed: wire.tls_resumed,
        resumed_share: wire.resumed_share(),
        accepted_full: wire.tls_accepted_full,
        accepted_resumed: wire.tls_accepted_resumed,
        accepted_resumed_share: wire.accepted_resumed_share(),
        failed: wire.tls_failed,
    };
    (tls != Tls::default()).then_some(tls)
}

fn media(media: &MediaStatistics) -> Media {
    let p99 = |value: Option<Duration>| value.map(milliseconds);
    Media {
        streams: media.streams(),
        silent_streams: media.silent_streams(),
        packets_sent: media.sent(),
        packets_received: media.received(),
        packets_lost: media.lost(),
        late_packets: media.late(),
        jitter_p99_ms: p99(media.jitter(99.0)),
        delay_p99_ms: p99(media.delay(99.0)),
    }
}

fn percentiles(statistics: &Statistics, delay: Delay) -> Option<Percentiles> {
    let value = |percentile| Some(milliseconds(statistics.percentile(delay, percentile)?));
    Some(Percentiles {
        p50: value(50.0)?,
        p90: value(90.0)?,
        p99: value(99.0)?,
        p999: value(99.9)?,
        max: value(100.0)?,
        mean: milliseconds(statistics.mean(delay)?),
    })
}

/// Seconds from the end of a pulse on after which nearly all attempts of each second succeeded; `None` if they never did.
fn recovered_s(series: &[[u64; 5]], pulse_seconds: f64) -> Option<f64> {
    let after = series.iter().filter(|[second, planned, ..]| *second as f64 > pulse_seconds && *planned > 0);
    let failed = after.clone().filter(|[_, planned, _, successes, _]| successes * 100 < planned * 99);
    let last = after.map(|[second, ..]| *second).max()?;
    let recovered = failed.map(|[second, ..]| *second as f64 - pulse_seconds).fold(0.0, f64::max);
    (recovered < last as f64 - pulse_seconds).then_some(recovered)
}

/// Distribution of the response time, with more points at its end.
fn distribution(statistics: &Statistics) -> Vec<[f64; 2]> {
    let body = (0..50).map(|step| f64::from(step) * 2.0);
    let tail = [99.0, 99.5, 99.8, 99.9, 99.95, 99.99, 100.0];
    let point = |percentile| {
        let value = statistics.percentile(Delay::Response, percentile)?;
        Some([milliseconds(value), percentile / 100.0])
    };
    body.chain(tail).filter_map(point).collect()
}

/// Shares of the response times in steps of 30 ms.
fn buckets(statistics: &Statistics) -> [f64; 6] {
    let mut below = 0.0;
    std::array::from_fn(|index| {
        let within = match index {
            5 => statistics.share_within(Delay::Response, Duration::MAX),
            _ => {
                let limit = Duration::from_millis(30 * (index as u64 + 1));
                statistics.share_within(Delay::Response, limit)
            }
        };
        let share = within - below;
        below = within;
        share.max(0.0)
    })
}

/// Addresses of called users that the server opens connections to.
const CALLED: u8 = 200;
/// Connections of each side over TCP.
const CONNECTIONS: u8 = 20;
/// Interval at which an end, a signal and a dead server are looked for.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Most seconds in a series.
const SECONDS_MAX: usize = 3600;

#[cfg(test)]
mod tests {
    use super::*;
    use ringway_load::{Outcome as End, Report};
    use ringway_sansio::Instant as At;

    #[test]
    fn a_measurement_has_shares_distribution_and_missed_conditions() {
        let start = At::from_secs(1);
        let mut statistics = Statistics::new(start, Duration::from_secs(1));
        for number in 0..100 {
            let planned = start + Duration::from_millis(10 * number);
            let response = Duration::from_millis(if number < 90 { 10 } else { 100 });
            statistics.add(&Report {
                planned,
                started: planned,
                ended: planned + response,
                outcome: if number == 0 { End::Status(503) } else { End::Success },
                first_response: None,
                final_response: Some(response),
                disconnect: None,
                paused: Duration::ZERO,
            });
        }
        let criteria = Criteria::new(vec!["success<100%".parse().unwrap(), "p50>50ms".parse().unwrap()]);
        let (server_ns, server_memory) = (Some(1_000_000), Some(4096));
        let noise = Noise { others: 0.01, steal: 0.0 };
        let outcome = Outcome {
            statistics,
            server_ns,
            profiler_ns: 0,
            server_memory,
            lookups: Some(4),
            noise,
            retransmissions: vec![3],
        };
        let measured = measurement(&outcome, 100.0, 1.0, &criteria);
        assert_eq!((measured.successes, measured.failures.get("503")), (99, Some(&1)));
        assert_eq!((measured.server_cpu_us, measured.database_lookups), (Some(10.0), Some(4)));
        let [first, _, _, fourth, ..] = measured.buckets30;
        assert!((first - 0.9).abs() < 1e-9 && (fourth - 0.1).abs() < 1e-9, "{:?}", measured.buckets30);
        assert!((measured.buckets30.iter().sum::<f64>() - 1.0).abs() < 1e-9);
        assert!(measured.cdf.len() <= 60 && measured.cdf.is_sorted_by_key(|point| point[0]));
        assert_eq!(measured.seconds_series.first(), Some(&[1, 100, 90, 89, 3]));
        assert_eq!(
            (measured.criterion_met, measured.criterion_missed.as_str()),
            (Some(false), "success 99 % (≥ 100 %)")
        );
        assert!(measured.valid && measured.lag_ms.is_some_and(|lag| lag.max == 0.0));
    }
}
