//! Progress and results of a load and of its media streams, as text and as JSON.

use ringway_lab::load::{
    ConnectionUse, Delay, LAG_ATTEMPTS_MIN, MediaStatistics, MediaUse, Plan, Statistics,
};
use ringway_lab::times::milliseconds;
use serde_json::{Map, Value, json};
use std::time::Duration;

/// State of a run at one time.
#[derive(Clone, Copy)]
pub(super) struct Snapshot<'a> {
    pub(super) plan: &'a Plan,
    pub(super) statistics: &'a Statistics,
    /// Time since the start.
    pub(super) elapsed: Duration,
    /// Time after which a signal ended the run.
    pub(super) interrupted_at: Option<Duration>,
}

/// Result of a run.
pub(super) struct Result<'a> {
    pub(super) plan: &'a Plan,
    pub(super) statistics: &'a Statistics,
    /// CPU time of the server during the run.
    pub(super) server_cpu_ns: Option<u64>,
    /// Time of the clock at which the load started, in seconds since 1970.
    pub(super) started_at: Option<f64>,
    /// Time after which a signal ended the run.
    pub(super) interrupted_at: Option<Duration>,
    /// Conditions of `--fail-if` that hold.
    pub(super) failed: &'a [String],
}

impl Result<'_> {
    /// Record of the result.
    pub(super) fn json(&self) -> String {
        let Self { plan, statistics, .. } = self;
        let (counters, health) = (statistics.counters(), statistics.health());
        let delays: Map<String, Value> = Delay::ALL
            .into_iter()
            .map(|delay| (format!("{}_ms", delay.name()), percentiles(statistics, delay)))
            .collect();
        json!({
            "type": "result",
            "scenario": plan.scenario_name(),
            "target": plan.target.to_string(),
            "transport": plan.transport.name(),
            "connection_use": plan.transport.is_stream().then(|| connection_use(plan.connections)),
            "offered_per_s": plan.rate,
            "planned_seconds": plan.length.as_secs_f64(),
            "seconds": self.length().as_secs_f64(),
            "users": plan.users.count(),
            "started_at": self.started_at,
            "started": counters.started,
            "achieved_per_s": statistics.achieved(),
            "outcomes": statistics.outcomes(),
            "success_share": self.success(),
            "open": statistics.open(),
            "retransmissions": counters.retransmissions,
            "requests": counters.requests,
            "challenges": counters.challenges,
            "malformed": counters.malformed,
            "stray": counters.stray,
            "delays": delays,
            "connections": plan.transport.is_stream().then(|| connections(statistics)),
            "generator": {
                "lag_p99_ms": milliseconds(health.lag_p99),
                "lag_is_judged": health.judges_lag(),
                "late": statistics.late(),
                "dropped": health.dropped,
                "refused_packets": health.refused_packets,
                "unsent_packets": statistics.wire().unsent,
                "cpu_us_each": self.generator_us(),
                "cpu_share": health.cpu_share,
            },
            "media": statistics.media().map(|media| json(plan.media, media)),
            "server_cpu_us_each": self.server_us(),
            "valid": health.invalid_because().is_none(),
            "invalid_because": health.invalid_because(),
            "interrupted": self.interrupted_at.is_some(),
            "cut_off": statistics.cut_off(),
            "target_loss": statistics.target_loss(),
            "failed_conditions": self.failed,
            "remarks": self.remarks(),
        })
        .to_string()
    }

    /// Lines for people.
    pub(super) fn lines(&self) -> Vec<String> {
        let Self { plan, statistics, .. } = self;
        let (counters, health) = (statistics.counters(), statistics.health());
        let mut lines = vec![format!(
            "{}: offered {:.0}/s for {:.1} s, {} attempts started",
            title(plan),
            plan.rate,
            self.length().as_secs_f64(),
            counters.started
        )];
        let failures: Vec<String> =
            statistics.failures().map(|(name, count)| format!("{name}: {count}")).collect();
        let failures = if failures.is_empty() { "none failed".to_owned() } else { failures.join(", ") };
        lines.push(format!(
            "  successful  {} ({:.2} %), {failures}; {:.0}/s achieved",
            statistics.successes(),
            self.success() * 100.0,
            statistics.achieved()
        ));
        lines.push(format!(
            "  retransmissions  {} for {} requests",
            counters.retransmissions, counters.requests
        ));
        lines.push(format!("  challenges  {} (401, 407)", counters.challenges));
        for (delay, title) in DELAYS {
            if let Some(text) = percentile_text(statistics, delay) {
                lines.push(format!("  {title}  {text}"));
            }
        }
        lines.push(
            "  (99th percentile: 99 % of the attempts took at most this time; median: half of them)"
                .to_owned(),
        );
        lines.extend(statistics.media().into_iter().flat_map(|media| media_lines(plan.media, media)));
        lines.push(format!(
            "  generator  lag {:.3} ms (99th percentile), {} late, {} dropped",
            milliseconds(health.lag_p99),
            statistics.late(),
            health.dropped,
        ));
        lines.push(format!(
            "  generator's CPU  {:.1} µs for each attempt, {:.0} % of a processor",
            self.generator_us(),
            health.cpu_share * 100.0
        ));
        if !health.judges_lag() {
            lines.push(format!(
                "  too few attempts to judge the lag: {} (from {LAG_ATTEMPTS_MIN} on)",
                health.attempts
            ));
        }
        self.add_connections(&mut lines);
        if let Some(us) = self.server_us() {
            lines.push(format!("  server  {us:.1} µs of CPU for each attempt"));
        }
        if let Some((reason, remedy)) = health.invalid_because().zip(health.remedy()) {
            lines.push(format!("  INVALID: {reason}\n  {remedy}"));
        }
        if self.interrupted_at.is_some() {
            lines.push(format!(
                "  INTERRUPTED before {:.1} s; {} open attempts were cut off: neither successful nor failed",
                plan.length.as_secs_f64(),
                statistics.cut_off()
            ));
        }
        lines.extend(statistics.target_loss().map(|text| format!("  FAILED: {text}")));
        if self.is_fruitless() {
            lines.push("  FAILED: no attempt succeeded".to_owned());
        }
        lines.extend(self.remarks().iter().map(|remark| format!("  {remark}")));
        lines.extend(self.failed.iter().map(|limit| format!("  FAILED: {limit}")));
        lines
    }

    fn add_connections(&self, lines: &mut Vec<String>) {
        let wire = self.statistics.wire();
        if self.plan.transport.is_stream() {
            lines.push(format!(
                "  connections  {} opened, {} accepted, {} not opened, {} closed by the server, {} broken",
                wire.opened, wire.accepted, wire.not_opened, wire.closed_by_peer, wire.broken
            ));
        }
        if self.plan.transport.is_secure() {
            let share = |share: Option<f64>| {
                share.map_or_else(String::new, |share| format!(" ({:.1} %)", share * 100.0))
            };
            let mut line = format!(
                "  TLS  {} full handshakes, {} resumed{}, {} failed",
                wire.tls_full,
                wire.tls_resumed,
                share(wire.resumed_share()),
                wire.tls_failed
            );
            if let Some(accepted) = wire.accepted_resumed_share() {
                line.push_str(&format!(
                    "; from the server: {} full, {} resumed{}",
                    wire.tls_accepted_full,
                    wire.tls_accepted_resumed,
                    share(Some(accepted))
                ));
            }
            lines.push(line);
        }
    }

    /// True if attempts ended and none of them with success.
    pub(super) fn is_fruitless(&self) -> bool {
        self.statistics.ended() > 0 && self.statistics.successes() == 0 && self.interrupted_at.is_none()
    }

    /// Remarks on outcomes that a user can do something about, and on passwords.
    fn remarks(&self) -> Vec<&'static str> {
        let Self { plan, statistics, .. } = self;
        let hints = HINTS.iter().filter(|(name, _)| statistics.outcomes().contains_key(*name));
        let mut remarks: Vec<&str> = hints.map(|(_, hint)| *hint).collect();
        let is_challenged = statistics.counters().challenges > 0;
        if !plan.users.password(0).is_empty() && !is_challenged && statistics.successes() > 0 {
            remarks.push(UNCHALLENGED);
        }
        remarks
    }

    fn success(&self) -> f64 {
        self.statistics.successes() as f64 / (self.statistics.ended() as f64).max(1.0)
    }

    /// Time in which attempts were started.
    fn length(&self) -> Duration {
        self.interrupted_at.unwrap_or(self.plan.length)
    }

    /// Number of attempts that cost CPU time; at least 1.
    fn attempts(&self) -> f64 {
        ((self.statistics.ended() + self.statistics.cut_off()) as f64).max(1.0)
    }

    fn generator_us(&self) -> f64 {
        self.statistics.generator_cpu().as_secs_f64() * 1e6 / self.attempts()
    }

    fn server_us(&self) -> Option<f64> {
        self.server_cpu_ns.map(|ns| ns as f64 / 1e3 / self.attempts())
    }
}

/// Outcomes that a user can do something about, with what to do.
const HINTS: [(&str, &str); 2] = [
    ("challenge", "challenge: the server asks for a password; give --password-file or --users-file"),
    (
        "user_busy",
        "user_busy: all users had an attempt pending; the server is slow or drops requests, or give more --users",
    ),
];

/// Remark on passwords that the server did not ask for.
const UNCHALLENGED: &str = "no request was challenged: the server did not check the passwords, and this is no result with digest \
                            authentication";

/// Scenario, target and transport.
fn title(plan: &Plan) -> String {
    let use_of_connections = match plan.transport.is_stream() {
        true => format!(", connections: {}", connection_use(plan.connections)),
        false => String::new(),
    };
    let transport = plan.transport.via_token();
    format!("{} to {} over {transport}{use_of_connections}", plan.scenario_name(), plan.target)
}

/// Name of the use of connections, as on the command line.
const fn connection_use(connections: ConnectionUse) -> &'static str {
    match connections {
        ConnectionUse::Shared => "shared",
        ConnectionUse::PerUser => "user",
        ConnectionUse::PerAttempt => "call",
    }
}

fn connections(statistics: &Statistics) -> Value {
    let wire = statistics.wire();
    json!({
        "open": wire.connections,
        "opened": wire.opened,
        "accepted": wire.accepted,
        "not_opened": wire.not_opened,
        "closed_by_peer": wire.closed_by_peer,
        "broken": wire.broken,
        "over_limit": wire.over_limit,
        "no_port": wire.no_port,
        "tls_full": wire.tls_full,
        "tls_resumed": wire.tls_resumed,
        "tls_resumed_share": wire.resumed_share(),
        "tls_failed": wire.tls_failed,
        "tls_accepted_full": wire.tls_accepted_full,
        "tls_accepted_resumed": wire.tls_accepted_resumed,
        "tls_accepted_resumed_share": wire.accepted_resumed_share(),
    })
}

/// Record of the state after a second.
pub(super) fn second_json(second: u64, statistics: &Statistics) -> String {
    let (counters, health) = (statistics.counters(), statistics.health());
    json!({
        "type": "second",
        "second": second,
        "started": counters.started,
        "successful": statistics.successes(),
        "failed": statistics.ended() - statistics.successes(),
        "open": statistics.open(),
        "retransmissions": counters.retransmissions,
        "response_ms": percentiles(statistics, Delay::Response),
        "lag_p99_ms": milliseconds(health.lag_p99),
    })
    .to_string()
}

/// Line of progress after a second.
pub(super) fn second_line(second: u64, length: Duration, statistics: &Statistics) -> String {
    let (counters, health) = (statistics.counters(), statistics.health());
    let seconds = length.as_secs_f64();
    let time = match second as f64 <= seconds.ceil() {
        true => format!("{second} of {seconds:.0} s"),
        false => format!("{second} s, waiting for open attempts"),
    };
    format!(
        "{time}: {} started, {} successful, {} failed, {} open, {} retransmissions; {}; lag {:.2} ms (99th percentile)",
        counters.started,
        statistics.successes(),
        statistics.ended() - statistics.successes(),
        statistics.open(),
        counters.retransmissions,
        short_percentile_text(statistics, Delay::Response).unwrap_or_else(|| "none finished yet".to_owned()),
        milliseconds(health.lag_p99)
    )
}

/// Counts at one time, from which the view computes rates.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sample {
    elapsed: Duration,
    /// Planned attempts, of which some may not have been started.
    offered: u64,
    successful: u64,
    failed: u64,
    retransmissions: u64,
}

impl Sample {
    pub(super) fn of(snapshot: &Snapshot<'_>) -> Self {
        let Snapshot { statistics, elapsed, .. } = *snapshot;
        let counters = statistics.counters();
        Self {
            elapsed,
            offered: counters.started + counters.dropped,
            successful: statistics.successes(),
            failed: statistics.ended() - statistics.successes(),
            retransmissions: counters.retransmissions,
        }
    }
}

/// Lines of the view on a terminal, each below 80 columns; the rates are since `before`.
pub(super) fn screen(snapshot: &Snapshot<'_>, before: &Sample) -> Vec<String> {
    let Snapshot { plan, statistics, .. } = *snapshot;
    let (now, counters, health) = (Sample::of(snapshot), statistics.counters(), statistics.health());
    let span = now.elapsed.saturating_sub(before.elapsed).as_secs_f64().max(1e-9);
    let row = |title: &str, now: u64, before: u64, more: &str| {
        let rate = now.saturating_sub(before) as f64 / span;
        format!("{title:<13} {rate:>9.0}/s {now:>12} {more}")
    };
    let share = |part: u64, of: u64| format!("{:6.2} %", part as f64 * 100.0 / (of as f64).max(1.0));
    let failures: Vec<String> =
        statistics.failures().map(|(name, count)| format!("{name}: {count}")).collect();
    let mut lines = vec![
        format!("{}, {:.0}/s", title(plan), plan.rate),
        time_line(snapshot),
        format!("{:13} {:>11} {:>12}", "", "now", "total"),
        row(
            "offered",
            now.offered,
            before.offered,
            &format!("open {}, dropped {}", statistics.open(), counters.dropped),
        ),
        row("successful", now.successful, before.successful, &share(now.successful, statistics.ended())),
        row(
            "failed",
            now.failed,
            before.failed,
            &format!("{} {}", share(now.failed, statistics.ended()), failures.join(", ")),
        ),
        row(
            "retransmitted",
            now.retransmissions,
            before.retransmissions,
            &format!("{} of the requests", share(now.retransmissions, counters.requests)),
        ),
    ];
    for (delay, title) in DELAYS {
        if let Some(text) = short_percentile_text(statistics, delay) {
            lines.push(format!("{title:<14} {text}"));
        }
    }
    lines.push(format!(
        "{:<14} lag {:.2} ms (99th percentile), {} late, CPU {:.0} % of a processor",
        "generator",
        milliseconds(health.lag_p99),
        statistics.late(),
        health.cpu_share * 100.0
    ));
    if let Some(reason) = health.invalid_because() {
        lines.push(format!("INVALID: {reason}"));
    }
    lines.iter_mut().for_each(|line| *line = cut(line));
    lines
}

/// Bar, elapsed time and time left.
fn time_line(snapshot: &Snapshot<'_>) -> String {
    let length = snapshot.plan.length.as_secs_f64();
    let elapsed = snapshot.elapsed.as_secs_f64();
    let share = if length > 0.0 { (elapsed / length).min(1.0) } else { 1.0 };
    let full = (share * f64::from(BAR)) as usize;
    let bar = format!("[{}{}]", "#".repeat(full), "-".repeat(usize::from(BAR) - full));
    let rest = match snapshot.interrupted_at {
        Some(_) => "interrupted, ending open attempts".to_owned(),
        None if elapsed < length => {
            format!("{elapsed:.0} of {length:.0} s, {:.0} s left; Ctrl-C ends it", (length - elapsed).ceil())
        }
        None => format!("{length:.0} s done, waiting for {} open attempts", snapshot.statistics.open()),
    };
    format!("{bar} {rest}")
}

fn cut(line: &str) -> String {
    match line.char_indices().nth(COLUMNS) {
        Some(_) => line.chars().take(COLUMNS - 1).chain(['…']).collect(),
        None => line.trim_end().to_owned(),
    }
}

fn percentiles(statistics: &Statistics, delay: Delay) -> Value {
    let value = |percentile| statistics.percentile(delay, percentile).map(milliseconds);
    json!({ "p50": value(50.0), "p90": value(90.0), "p99": value(99.0), "p99_9": value(99.9), "max": value(100.0) })
}

fn percentile_text(statistics: &Statistics, delay: Delay) -> Option<String> {
    let value = |percentile| statistics.percentile(delay, percentile).map(milliseconds);
    Some(format!(
        "median {:.2} ms, 90th percentile {:.2}, 99th {:.2}, 99.9th {:.2}, maximum {:.2}",
        value(50.0)?,
        value(90.0)?,
        value(99.0)?,
        value(99.9)?,
        value(100.0)?
    ))
}

/// The same for a line of the view.
fn short_percentile_text(statistics: &Statistics, delay: Delay) -> Option<String> {
    let value = |percentile| statistics.percentile(delay, percentile).map(milliseconds);
    Some(format!(
        "median {:.2} ms, 99th percentile {:.2}, maximum {:.2}",
        value(50.0)?,
        value(99.0)?,
        value(100.0)?
    ))
}

/// Delays that are shown, with their titles.
const DELAYS: [(Delay, &str); 3] = [
    (Delay::Response, "response time"),
    (Delay::FirstResponse, "first response"),
    (Delay::Disconnect, "BYE"),
];
/// Columns of the view.
const COLUMNS: usize = 79;
/// Length of the progress bar.
const BAR: u8 = 30;

/// Record of the media. Delays and jitter are in milliseconds, CPU time in microseconds.
pub(super) fn json(media_use: MediaUse, media: &MediaStatistics) -> Value {
    let percentiles = |value: &dyn Fn(f64) -> Option<Duration>| {
        let value = |percentile| value(percentile).map(milliseconds);
        json!({ "p50": value(50.0), "p99": value(99.0), "max": value(100.0) })
    };
    json!({
        "profile": name(media_use),
        "streams": media.streams(),
        "silent_streams": media.silent_streams(),
        "refused_streams": media.refused(),
        "recordings_played": media.played(),
        "packets_sent": media.sent(),
        "packets_received": media.received(),
        "packets_lost": media.lost(),
        "loss_share": media.loss_share(),
        "packets_reordered": media.reordered(),
        "packets_duplicated": media.duplicates(),
        "authentication_failed": media.authentication_failed(),
        "replayed": media.replayed(),
        "malformed": media.malformed(),
        "stray": media.stray(),
        "jitter_ms": percentiles(&|percentile| media.jitter(percentile)),
        "delay_ms": percentiles(&|percentile| media.delay(percentile)),
        "late_packets": media.late(),
        "late_max_ms": milliseconds(media.late_max()),
        "unsent_packets": media.not_sent(),
        "cpu_us_per_stream_s": media.cpu_per_stream_second().map(|cpu| cpu.as_secs_f64() * 1e6),
    })
}

/// Lines for people.
fn media_lines(media_use: MediaUse, media: &MediaStatistics) -> Vec<String> {
    let ms =
        |value: Option<Duration>| value.map_or_else(|| "-".to_owned(), |v| format!("{:.3}", milliseconds(v)));
    let mut lines = vec![
        format!(
            "  media  {}: {} streams, {} without a packet; {} packets sent, {} received, {} lost ({:.3} %), {} reordered",
            name(media_use),
            media.streams(),
            media.silent_streams(),
            media.sent(),
            media.received(),
            media.lost(),
            media.loss_share() * 100.0,
            media.reordered()
        ),
        format!(
            "  media quality  jitter median {} ms, 99th percentile {}; delay median {} ms, 99th percentile {}; {} failed authentications, {} strays",
            ms(media.jitter(50.0)),
            ms(media.jitter(99.0)),
            ms(media.delay(50.0)),
            ms(media.delay(99.0)),
            media.authentication_failed(),
            media.stray()
        ),
        format!(
            "  media generator  {} packets sent more than 5 ms late, at most {:.1} ms; {:.0} µs of CPU for each second of a stream",
            media.late(),
            milliseconds(media.late_max()),
            media.cpu_per_stream_second().unwrap_or_default().as_secs_f64() * 1e6
        ),
    ];
    if media.played() > 0 {
        lines.push(format!("  recordings  {} played", media.played()));
    }
    let refused: Vec<String> =
        media.refused().iter().map(|(reason, count)| format!("{reason}: {count}")).collect();
    if !refused.is_empty() {
        lines.push(format!("  calls without a stream  {}", refused.join(", ")));
    }
    lines
}

const fn name(media_use: MediaUse) -> &'static str {
    match media_use {
        MediaUse::None => "none",
        MediaUse::Rtp => "rtp",
        MediaUse::Srtp(suite) => suite.name(),
    }
}
