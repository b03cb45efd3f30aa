//! Several generators of one load: `ringway lab load --start-at`, by which they start together, and `ringway lab sum`, which adds up their
//! results.

use crate::failure::Failure;
use crate::output;
use clap::Args as ClapArgs;
use jiff::Timestamp;
use ringway_lab::text_file;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Arguments of `ringway lab sum`.
#[derive(Debug, ClapArgs)]
pub(crate) struct SumArgs {
    /// Output of `ringway lab load --json` of each generator
    #[arg(value_name = "FILE", required = true)]
    pub(crate) results: Vec<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

impl SumArgs {
    /// Help behind the options.
    pub(crate) const HELP: &str =
        "Counts and rates are added. A percentile of all attempts together is between the
smallest and the largest one of the generators, and printed as that range.
Each generator needs users of its own (--prefix), and a clock that is set.

Examples:
  ringway lab load 192.0.2.1:5060 --prefix a --rate 500 --allow-remote 192.0.2.1 \\
    --start-at 2026-01-31T12:00:00Z --json > a.json
  ringway lab load 192.0.2.1:5060 --prefix b --rate 500 --allow-remote 192.0.2.1 \\
    --start-at 2026-01-31T12:00:00Z --json > b.json
  ringway lab sum a.json b.json

Exit status: 0 done; 1 a result is INVALID or FAILED, or the generators did not
start within a second; 2 files that are not results of one load.";
}

/// Reads a time of the clock: seconds since 1970, or RFC 3339.
///
/// # Errors
/// Text for the user.
pub(crate) fn clock_time(text: &str) -> Result<SystemTime, String> {
    let advice = || format!("{text:?} is not a time; give seconds since 1970, or 2026-01-31T12:00:00Z");
    match text.parse::<f64>() {
        Ok(seconds) if (0.0..=SECONDS_MAX).contains(&seconds) => {
            Ok(SystemTime::UNIX_EPOCH + Duration::from_secs_f64(seconds))
        }
        Ok(_) => Err(advice()),
        Err(_) => text.parse::<Timestamp>().map(SystemTime::from).map_err(|_| advice()),
    }
}

/// Seconds since 1970.
pub(crate) fn seconds_of(time: SystemTime) -> f64 {
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_micros() as f64 / 1e6
}

/// Adds up results, and prints the sum.
pub(crate) fn run(args: &SumArgs) -> Result<(), Failure> {
    let mut results = Vec::new();
    for file in &args.results {
        results.push(read(file).map_err(Failure::usage)?);
    }
    let sum = Sum::of(&results).map_err(Failure::usage)?;
    output::line(&if args.json { sum.json().to_string() } else { sum.lines().join("\n") })?;
    if sum.faults.is_empty() { Ok(()) } else { Err(Failure::said()) }
}

/// The last result of a file.
fn read(file: &Path) -> Result<OfGenerator, String> {
    let name = file.display().to_string();
    let text = text_file::read(file, FILE_BYTES_MAX).map_err(|error| format!("{error:#}"))?;
    let is_result = |value: &Value| value.get("type").is_some_and(|kind| kind == "result");
    let mut values = text.lines().rev().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let Some(value) = values.find(is_result) else {
        return Err(format!("{name}: it has no result; give the output of `ringway lab load --json`"));
    };
    let result = serde_json::from_value::<OfGenerator>(value);
    let result = result.map_err(|error| format!("{name}: its result cannot be read: {error}"))?;
    Ok(OfGenerator { name, ..result })
}

/// Result of one generator.
#[derive(Clone, Debug, Default, Deserialize)]
struct OfGenerator {
    #[serde(skip)]
    name: String,
    scenario: String,
    transport: String,
    offered_per_s: f64,
    planned_seconds: f64,
    started: u64,
    achieved_per_s: f64,
    outcomes: BTreeMap<String, u64>,
    cut_off: u64,
    retransmissions: u64,
    requests: u64,
    challenges: u64,
    delays: BTreeMap<String, BTreeMap<String, Option<f64>>>,
    valid: bool,
    invalid_because: Option<String>,
    interrupted: bool,
    target_loss: Option<String>,
    failed_conditions: Vec<String>,
    started_at: Option<f64>,
}

/// Smallest and largest value of the generators.
type Range = (f64, f64);

/// Results of all generators.
#[derive(Debug, Default)]
struct Sum {
    generators: usize,
    scenario: String,
    transport: String,
    seconds: f64,
    offered_per_s: f64,
    achieved_per_s: f64,
    started: u64,
    ended: u64,
    outcomes: BTreeMap<String, u64>,
    retransmissions: u64,
    requests: u64,
    challenges: u64,
    delays: BTreeMap<String, BTreeMap<String, Range>>,
    /// Seconds between the first and the last start, by the clocks of the generators.
    starts_apart: Option<f64>,
    /// Reasons why the sum is no result.
    faults: Vec<String>,
}

impl Sum {
    /// Adds up results.
    ///
    /// # Errors
    /// They are of different loads.
    fn of(results: &[OfGenerator]) -> Result<Self, String> {
        let loads: BTreeSet<_> = results.iter().map(|one| (&one.scenario, &one.transport)).collect();
        if loads.len() > 1 {
            let names: Vec<String> =
                loads.iter().map(|(scenario, transport)| format!("{scenario} over {transport}")).collect();
            return Err(format!("these are results of different loads: {}", names.join(", ")));
        }
        let mut sum = Self { generators: results.len(), ..Self::default() };
        for one in results {
            sum.scenario.clone_from(&one.scenario);
            sum.transport.clone_from(&one.transport);
            sum.seconds = sum.seconds.max(one.planned_seconds);
            sum.offered_per_s += one.offered_per_s;
            sum.achieved_per_s += one.achieved_per_s;
            sum.started = sum.started.saturating_add(one.started);
            sum.retransmissions = sum.retransmissions.saturating_add(one.retransmissions);
            sum.requests = sum.requests.saturating_add(one.requests);
            sum.challenges = sum.challenges.saturating_add(one.challenges);
            let outcomes = one.outcomes.values().fold(0, |sum: u64, count| sum.saturating_add(*count));
            sum.ended = sum.ended.saturating_add(outcomes.saturating_sub(one.cut_off));
            for (name, count) in &one.outcomes {
                let all = sum.outcomes.entry(name.clone()).or_default();
                *all = all.saturating_add(*count);
            }
            for (delay, percentiles) in &one.delays {
                let all = sum.delays.entry(delay.clone()).or_default();
                for (percentile, value) in percentiles {
                    let Some(value) = *value else { continue };
                    let range = all.entry(percentile.clone()).or_insert((value, value));
                    *range = (range.0.min(value), range.1.max(value));
                }
            }
            sum.faults.extend(one.faults().map(|fault| format!("{}: {fault}", one.name)));
        }
        let starts: Option<Vec<f64>> = results.iter().map(|one| one.started_at).collect();
        let starts = starts.filter(|starts| starts.len() > 1).unwrap_or_default();
        let first = starts.iter().copied().reduce(f64::min);
        sum.starts_apart =
            first.zip(starts.iter().copied().reduce(f64::max)).map(|(first, last)| last - first);
        if let Some(apart) = sum.starts_apart.filter(|apart| *apart > APART_MAX_S) {
            sum.faults
                .push(format!("the generators started {apart:.3} s apart; give all the same --start-at"));
        }
        Ok(sum)
    }

    fn successes(&self) -> u64 {
        self.outcomes.get("success").copied().unwrap_or_default()
    }

    fn success_share(&self) -> f64 {
        self.successes() as f64 / (self.ended as f64).max(1.0)
    }

    fn json(&self) -> Value {
        let ranges = |percentiles: &BTreeMap<String, Range>| -> Value {
            percentiles.iter().map(|(name, (low, high))| (name.clone(), json!([low, high]))).collect()
        };
        let delays: Value =
            self.delays.iter().map(|(delay, percentiles)| (delay.clone(), ranges(percentiles))).collect();
        json!({
            "type": "sum",
            "generators": self.generators,
            "scenario": self.scenario,
            "transport": self.transport,
            "planned_seconds": self.seconds,
            "offered_per_s": self.offered_per_s,
            "achieved_per_s": self.achieved_per_s,
            "started": self.started,
            "outcomes": self.outcomes,
            "success_share": self.success_share(),
            "retransmissions": self.retransmissions,
            "requests": self.requests,
            "challenges": self.challenges,
            "delays_between": delays,
            "starts_apart_s": self.starts_apart,
            "faults": self.faults,
        })
    }

    fn lines(&self) -> Vec<String> {
        let apart = self.starts_apart.map_or_else(String::new, |apart| {
            format!(", started within {:.1} ms by their own clocks", apart * 1e3)
        });
        let failures: Vec<String> = self
            .outcomes
            .iter()
            .filter(|(name, _)| *name != "success")
            .map(|(name, count)| format!("{name}: {count}"))
            .collect();
        let failures = if failures.is_empty() { "none failed".to_owned() } else { failures.join(", ") };
        let mut lines = vec![
            format!(
                "{} generators{apart}: {} over {}, offered {:.0}/s for {:.1} s, {} attempts started",
                self.generators,
                self.scenario,
                self.transport,
                self.offered_per_s,
                self.seconds,
                self.started
            ),
            format!(
                "  successful  {} ({:.2} %), {failures}; {:.0}/s achieved",
                self.successes(),
                self.success_share() * 100.0,
                self.achieved_per_s
            ),
            format!("  retransmissions  {} for {} requests", self.retransmissions, self.requests),
            format!("  challenges  {} (401, 407)", self.challenges),
        ];
        for (key, title) in DELAYS {
            let of = |percentile: &str| self.delays.get(key)?.get(percentile).copied();
            if let (Some(median), Some(high)) = (of("p50"), of("p99")) {
                lines.push(format!(
                    "  {title}  median {:.2} to {:.2} ms, 99th percentile {:.2} to {:.2}",
                    median.0, median.1, high.0, high.1
                ));
            }
        }
        lines.push("  (that of all attempts together is in the range of the generators)".to_owned());
        lines.extend(self.faults.iter().map(|fault| format!("  FAILED: {fault}")));
        lines
    }
}

impl OfGenerator {
    /// Reasons why it is no result.
    fn faults(&self) -> impl Iterator<Item = String> {
        let invalid = (!self.valid)
            .then(|| format!("INVALID: {}", self.invalid_because.as_deref().unwrap_or("no reason is given")));
        let interrupted = self.interrupted.then(|| "INTERRUPTED".to_owned());
        let lost = self.target_loss.clone();
        invalid.into_iter().chain(interrupted).chain(lost).chain(self.failed_conditions.iter().cloned())
    }
}

/// Delays that are shown.
const DELAYS: [(&str, &str); 4] = [
    ("response_ms", "response time"),
    ("first_response_ms", "first response"),
    ("disconnect_ms", "BYE"),
    ("lag_ms", "lag of the generators"),
];
/// Largest file of a generator.
const FILE_BYTES_MAX: usize = 64 << 20;
/// Largest time of the clock, the year 9999.
const SECONDS_MAX: f64 = 253_402_300_799.0;
/// Most seconds between the first and the last start.
const APART_MAX_S: f64 = 1.0;

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str, started_at: f64, p99: f64) -> OfGenerator {
        let percentiles = [("p50", Some(1.0)), ("p99", Some(p99)), ("max", None)];
        let percentiles = percentiles.map(|(name, value)| (name.to_owned(), value)).into();
        OfGenerator {
            name: name.to_owned(),
            scenario: "call".to_owned(),
            transport: "udp".to_owned(),
            offered_per_s: 100.0,
            planned_seconds: 10.0,
            started: 1000,
            achieved_per_s: 99.5,
            outcomes: [("success".to_owned(), 990), ("503".to_owned(), 8), ("stopped".to_owned(), 2)].into(),
            cut_off: 2,
            requests: 3000,
            retransmissions: 5,
            valid: true,
            delays: [("response_ms".to_owned(), percentiles)].into(),
            started_at: Some(started_at),
            ..OfGenerator::default()
        }
    }

    #[test]
    fn counts_are_added_and_percentiles_are_ranges() {
        let sum = Sum::of(&[of("a", 5.0, 20.0), of("b", 5.002, 30.0), of("c", 5.001, 25.0)]).unwrap();
        assert_eq!((sum.generators, sum.started, sum.successes(), sum.ended), (3, 3000, 2970, 2994));
        assert_eq!((sum.offered_per_s, sum.achieved_per_s, sum.retransmissions), (300.0, 298.5, 15));
        assert_eq!(sum.delays["response_ms"]["p99"], (20.0, 30.0));
        assert!(!sum.delays["response_ms"].contains_key("max"));
        assert!(sum.starts_apart.is_some_and(|apart| (apart - 0.002).abs() < 1e-9));
        let text = sum.lines().join("\n");
        assert!(
            text.contains("3 generators, started within 2.0 ms") && text.contains("20.00 to 30.00"),
            "{text}"
        );
        assert!(sum.faults.is_empty() && sum.json()["delays_between"]["response_ms"]["p99"][1] == 30.0);
    }

    #[test]
    fn generators_that_were_apart_or_invalid_are_no_result() {
        let late =
            OfGenerator { valid: false, invalid_because: Some("late".to_owned()), ..of("b", 7.5, 1.0) };
        let sum = Sum::of(&[of("a", 5.0, 1.0), late]).unwrap();
        assert_eq!(sum.faults.len(), 2, "{:?}", sum.faults);
        assert_eq!(sum.faults[0], "b: INVALID: late");
        assert!(sum.faults[1].contains("2.500 s apart"), "{:?}", sum.faults);
        let other = OfGenerator { scenario: "register".to_owned(), ..of("b", 5.0, 1.0) };
        let error = Sum::of(&[of("a", 5.0, 1.0), other]).unwrap_err();
        assert!(error.contains("call over udp, register over udp"), "{error}");
    }

    #[test]
    fn times_are_seconds_or_rfc_3339() {
        let read = |text: &str| clock_time(text).map(seconds_of);
        assert_eq!(read("1769860800.5"), Ok(1_769_860_800.5));
        assert_eq!(read("2026-01-31T12:00:00Z"), Ok(1_769_860_800.0));
        for text in ["", "tomorrow", "-1", "nan", "inf", "1e300", "2026-01-31"] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
