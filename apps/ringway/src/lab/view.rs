//! Results of a load as text and as JSON.

use super::media;
use ringway_lab::load::{ConnectionUse, Delay, Plan, Statistics};
use ringway_lab::times::milliseconds;
use serde_json::{Map, Value, json};

/// Result of a run.
pub(super) struct Result<'a> {
    pub(super) plan: &'a Plan,
    pub(super) statistics: &'a Statistics,
    /// CPU time of the server during the run.
    pub(super) server_cpu_ns: Option<u64>,
    pub(super) is_stopped: bool,
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
            "scenario": plan.flow.name(),
            "target": plan.target.to_string(),
            "transport": plan.transport.name(),
            "connection_use": plan.transport.is_stream().then(|| connection_use(plan.connections)),
            "offered_per_s": plan.rate,
            "seconds": plan.length.as_secs_f64(),
            "users": plan.users.count(),
            "started": counters.started,
            "achieved_per_s": statistics.achieved(),
            "outcomes": statistics.outcomes(),
            "success_share": self.success(),
            "open": statistics.open(),
            "retransmissions": counters.retransmissions,
            "requests": counters.requests,
            "malformed": counters.malformed,
            "stray": counters.stray,
            "delays": delays,
            "connections": plan.transport.is_stream().then(|| connections(statistics)),
            "generator": {
                "lag_p99_ms": milliseconds(health.lag_p99),
                "late": statistics.late(),
                "dropped": health.dropped,
                "refused_packets": health.refused_packets,
                "unsent_packets": statistics.wire().unsent,
                "cpu_us_each": self.generator_us(),
                "cpu_share": health.cpu_share,
            },
            "media": statistics.media().map(|media| media::json(plan.media, media)),
            "server_cpu_us_each": self.server_us(),
            "valid": health.bottleneck().is_none(),
            "invalid_because": health.bottleneck(),
            "stopped": self.is_stopped,
            "target_loss": statistics.target_loss(),
            "failed_conditions": self.failed,
        })
        .to_string()
    }

    /// Lines for people.
    pub(super) fn lines(&self) -> Vec<String> {
        let Self { plan, statistics, .. } = self;
        let (counters, health) = (statistics.counters(), statistics.health());
        let mut lines = vec![format!(
            "{} to {} over {}: offered {:.0}/s for {:.1} s, {} attempts started",
            plan.flow.name(),
            plan.target,
            match plan.transport.is_stream() {
                true => format!(
                    "{}, connections: {}",
                    plan.transport.via_token(),
                    connection_use(plan.connections)
                ),
                false => plan.transport.via_token().to_owned(),
            },
            plan.rate,
            plan.length.as_secs_f64(),
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
        for (delay, title) in [
            (Delay::Response, "response time"),
            (Delay::FirstResponse, "first response"),
            (Delay::Disconnect, "BYE"),
        ] {
            if let Some(text) = percentile_text(statistics, delay) {
                lines.push(format!("  {title}  {text}"));
            }
        }
        lines.extend(statistics.media().into_iter().flat_map(|media| media::lines(plan.media, media)));
        lines.push(format!(
            "  generator  lag p99 {:.3} ms, {} late, {} dropped; {:.1} µs of CPU for each attempt, {:.0} % of a processor",
            milliseconds(health.lag_p99),
            statistics.late(),
            health.dropped,
            self.generator_us(),
            health.cpu_share * 100.0
        ));
        if plan.transport.is_stream() {
            let wire = statistics.wire();
            lines.push(format!(
                "  connections  {} opened, {} accepted, {} not opened, {} closed by the server, {} broken",
                wire.opened, wire.accepted, wire.not_opened, wire.closed_by_peer, wire.broken
            ));
        }
        if let Some(us) = self.server_us() {
            lines.push(format!("  server  {us:.1} µs of CPU for each attempt"));
        }
        if let Some(reason) = health.bottleneck() {
            lines.push(format!(
                "  INVALID: the generator was the bottleneck: {reason}; lower --rate or raise --threads"
            ));
        }
        if self.is_stopped {
            lines.push("  stopped before its end".to_owned());
        }
        lines.extend(statistics.target_loss().map(|text| format!("  FAILED: {text}")));
        lines.extend(self.failed.iter().map(|limit| format!("  FAILED: {limit}")));
        lines
    }

    fn success(&self) -> f64 {
        self.statistics.successes() as f64 / (self.statistics.ended() as f64).max(1.0)
    }

    fn generator_us(&self) -> f64 {
        self.statistics.generator_cpu().as_secs_f64() * 1e6 / (self.statistics.ended() as f64).max(1.0)
    }

    fn server_us(&self) -> Option<f64> {
        self.server_cpu_ns.map(|ns| ns as f64 / 1e3 / (self.statistics.ended() as f64).max(1.0))
    }
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
pub(super) fn second_line(second: u64, seconds: f64, statistics: &Statistics) -> String {
    let (counters, health) = (statistics.counters(), statistics.health());
    let time = match second as f64 <= seconds.ceil() {
        true => format!("{second} of {seconds:.0} s"),
        false => format!("{second} s, waiting for open attempts"),
    };
    format!(
        "{time}: {} started, {} successful, {} failed, {} open, {} retransmissions; {}; lag p99 {:.2} ms",
        counters.started,
        statistics.successes(),
        statistics.ended() - statistics.successes(),
        statistics.open(),
        counters.retransmissions,
        percentile_text(statistics, Delay::Response).unwrap_or_else(|| "no response".to_owned()),
        milliseconds(health.lag_p99)
    )
}

fn percentiles(statistics: &Statistics, delay: Delay) -> Value {
    let value = |percentile| statistics.percentile(delay, percentile).map(milliseconds);
    json!({ "p50": value(50.0), "p90": value(90.0), "p99": value(99.0), "p99_9": value(99.9), "max": value(100.0) })
}

fn percentile_text(statistics: &Statistics, delay: Delay) -> Option<String> {
    let value = |percentile| statistics.percentile(delay, percentile).map(milliseconds);
    Some(format!(
        "p50 {:.2} ms, p90 {:.2}, p99 {:.2}, max {:.2}",
        value(50.0)?,
        value(90.0)?,
        value(99.0)?,
        value(100.0)?
    ))
}
