//! Records of a campaign in `results.jsonl`: a JSON object on each line.
//!
//! Times are in milliseconds, CPU time is in microseconds, rates are a second. A value that was not measured is `null`. A reader
//! ignores fields that it does not use.

mod profile;
mod pulse;

pub use profile::{ComponentTime, FunctionTime, Profile};
pub use pulse::Pulse;

use crate::text_file;
use anyhow::{Context, Result, anyhow, bail};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// Name of the file in the folder of the results.
pub const FILE: &str = "results.jsonl";

/// Start of the error of a row that this build, this machine or the target cannot have; it is no failure.
pub const NOT_AVAILABLE: &str = "not available: ";

/// Version of the records.
pub const FORMAT: u32 = 1;

/// One line of `results.jsonl`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "lowercase")]
pub enum Record {
    /// Start of the campaign; the first record.
    Campaign(Campaign),
    /// A server.
    Target(Target),
    /// An experiment; follows the targets.
    Experiment(Experiment),
    /// Generator against generator, without a server (RFC 7502 §6.1).
    Baseline(Box<Measurement>),
    /// One trial.
    Measurement(Box<Measurement>),
    /// Highest rate at which the criterion was met.
    Peak(Peak),
    /// Result of a pulse beyond the peak.
    Pulse(Pulse),
    /// CPU time of a server by component.
    Profile(Box<Profile>),
    /// Two targets beside each other.
    Comparison(Comparison),
    /// An experiment that could not be done with one target.
    Failed(Failed),
    /// End of the campaign; only comparisons with earlier results follow it.
    End(End),
}

/// Start of a campaign.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Campaign {
    /// [`FORMAT`].
    pub format: u32,
    /// Time of the start, RFC 3339.
    pub started: String,
    /// Command line.
    pub command: String,
    /// Version of Ringway's lab.
    pub version: String,
    /// One short trial of each point; the figures are indicative.
    pub quick: bool,
    /// Order of the targets in the trials, such as `ABBA`.
    pub interleaving: String,
    /// Machine of the campaign.
    pub machine: Machine,
}

/// Machine of a campaign.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Machine {
    /// Hash of what makes results comparable: processors, kernel, the system's machine-id.
    pub id: String,
    /// Model of the processors.
    pub cpu: String,
    /// Number of processors.
    pub processors: u32,
    /// Release of the kernel.
    pub kernel: String,
    /// Memory in MB.
    pub memory_mb: u64,
    /// Name of the system.
    pub os: String,
    /// Load averages before the campaign.
    pub loadavg: String,
    /// Share of a processor that the hypervisor took before the campaign, from 0 to 1.
    pub steal: f64,
    /// Share of the time for which a program that was ready did not run while all processors had work, from 0 to 1; `None`: not measured.
    pub stalled: Option<f64>,
    /// Longest of these times in milliseconds.
    pub stall_ms: Option<f64>,
}

/// A server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Target {
    /// Name of the target on the command line.
    pub target: String,
    /// Version, as the program prints it.
    pub version: String,
    /// Command that started it.
    pub command: String,
    /// Text of its configuration.
    pub settings: String,
    /// Processors and kernel of its machine, if that has an agent; empty if it is the generator's.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub machine: String,
}

/// An experiment in one variant.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Experiment {
    /// Name of the experiment on the command line.
    pub experiment: String,
    /// Title.
    pub title: String,
    /// Table or figure of the documents that it reproduces; empty if none.
    pub reproduces: String,
    /// Form of its chart.
    pub chart: Chart,
    /// Kind of attempts.
    pub scenario: String,
    /// Transports of the variants, such as `udp, tcp`.
    pub transport: String,
    /// Algorithms of the variants: `none`, `MD5` or `SHA-256`.
    pub digest: String,
    /// Criterion in words.
    pub criterion: String,
    /// Command that runs only this experiment.
    pub command: String,
}

/// Form of a chart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Chart {
    /// Offered against achieved rate, delays against offered rate.
    #[default]
    Rates,
    /// Variants or targets beside each other at one rate.
    Compare,
    /// Highest rates.
    Peak,
    /// Achieved rate at multiples of the peak.
    Overload,
    /// Processor and delays at multiples of the peak.
    Curve,
    /// Memory and CPU time of idle connections.
    Idle,
}

/// Result of one trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Measurement {
    /// Name of the experiment.
    pub experiment: String,
    /// Variant, such as `tcp, digest MD5`.
    pub variant: String,
    /// Name of the target.
    pub target: String,
    /// Number of the trial, from 1.
    pub trial: u32,
    /// Offered attempts a second.
    pub rate: f64,
    /// Offered rate as a multiple of the peak, in an experiment that overloads.
    pub multiple: Option<f64>,
    /// Seconds during which attempts were planned.
    pub seconds: f64,
    /// Seconds of the same load before it, which are in no value.
    pub warm_up: f64,
    /// Planned attempts.
    pub planned: u64,
    /// Started attempts.
    pub started: u64,
    /// Successful attempts.
    pub successes: u64,
    /// Failed attempts by status code or by another reason.
    pub failures: BTreeMap<String, u64>,
    /// Successful attempts a second.
    pub achieved: f64,
    /// Sent requests, without retransmissions.
    pub requests: u64,
    /// Received challenges: 401 and 407.
    pub challenges: u64,
    /// Retransmissions.
    pub retransmissions: u64,
    /// Planned start to the final response.
    pub response_ms: Option<Percentiles>,
    /// First send to the final response.
    pub service_ms: Option<Percentiles>,
    /// First send to the first response other than 100 (RFC 6076: session request delay).
    pub first_response_ms: Option<Percentiles>,
    /// BYE to its response (RFC 6076: session disconnect delay).
    pub disconnect_ms: Option<Percentiles>,
    /// Planned start to the first send.
    pub lag_ms: Option<Percentiles>,
    /// Distribution of the response time: milliseconds, share of the responses up to then. At most 60 points.
    pub cdf: Vec<[f64; 2]>,
    /// Shares of the response times of 0 to 30 ms, to 60, 90, 120, 150 and above.
    pub buckets30: [f64; 6],
    /// CPU time of the server for each attempt.
    pub server_cpu_us: Option<f64>,
    /// CPU time of the server as a share of one processor, while attempts were planned.
    pub server_cpu_share: Option<f64>,
    /// Resident memory of the server's processes at the end.
    pub server_memory_kb: Option<u64>,
    /// Passwords that the server read from a database for requests of the load; `null` unless it is Ringway in such a variant.
    pub database_lookups: Option<u64>,
    /// Share of a processor that other programs used.
    pub others_share: f64,
    /// Share of a processor that the hypervisor took.
    pub steal: f64,
    /// Idle connections of this measurement.
    pub idle: Option<Idle>,
    /// Condition of the generator.
    pub generator: Generator,
    /// It says something about the server: the generator did its part in time.
    pub valid: bool,
    /// Reason for which the trial does not count; empty if it does.
    pub invalid_because: String,
    /// The criterion was met; `None`: the trial does not count.
    pub criterion_met: Option<bool>,
    /// True if it was met in a trial that is invalid for its lag alone.
    #[serde(skip)]
    pub met_late: bool,
    /// Missed parts of the criterion; empty if it was met, or the trial does not count.
    pub criterion_missed: String,
    /// Second, and in it: planned, ended and successful attempts, retransmissions.
    pub seconds_series: Vec<[u64; 5]>,
    /// Media streams of the calls.
    pub media: Option<Media>,
    /// TLS handshakes.
    pub tls: Option<Tls>,
}

/// TLS handshakes of a trial.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Tls {
    /// Full handshakes of connections to the server.
    pub full: u64,
    /// Resumed handshakes of connections to the server.
    pub resumed: u64,
    /// Achieved share of resumed ones; `null` without any.
    pub resumed_share: Option<f64>,
    /// Full handshakes of connections from the server, which is the client then.
    pub accepted_full: u64,
    /// Resumed handshakes of connections from the server.
    pub accepted_resumed: u64,
    /// Achieved share of resumed ones; `null` without any.
    pub accepted_resumed_share: Option<f64>,
    /// Failed handshakes of both.
    pub failed: u64,
}

/// Media streams of a trial.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Media {
    /// Started streams.
    pub streams: u64,
    /// Ended streams that received no packet.
    pub silent_streams: u64,
    /// Sent packets.
    pub packets_sent: u64,
    /// Received packets.
    pub packets_received: u64,
    /// Lost packets, by sequence numbers.
    pub packets_lost: u64,
    /// Packets that the generator sent more than 5 ms late.
    pub late_packets: u64,
    /// 99th percentile of the streams' mean interarrival jitter.
    pub jitter_p99_ms: Option<f64>,
    /// 99th percentile of the packets' delay.
    pub delay_p99_ms: Option<f64>,
}

/// Percentiles in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Percentiles {
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p999: f64,
    /// Maximum.
    pub max: f64,
    /// Mean.
    pub mean: f64,
}

/// Condition of the generator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Generator {
    /// CPU time of its busiest thread as a share of a processor.
    pub cpu_share: f64,
    /// CPU time for each attempt.
    pub cpu_us: f64,
    /// Planned attempts that were not started.
    pub dropped: u64,
    /// Attempts that started more than 1 ms late.
    pub late: u64,
}

/// Idle connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Idle {
    /// Number of open connections.
    pub connections: u32,
    /// Resident memory of the server for each connection, in bytes.
    pub memory_bytes_each: f64,
    /// CPU time of the server in a second with all connections idle, in microseconds.
    pub cpu_us_per_second: f64,
    /// CPU time of the server to accept each connection and answer its first request, in microseconds.
    pub cpu_us_to_open: f64,
}

/// Highest rate at which a target meets the criterion.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Peak {
    /// Name of the experiment.
    pub experiment: String,
    /// Variant.
    pub variant: String,
    /// Name of the target.
    pub target: String,
    /// Attempts a second that the target sustains: the highest rate at which the criterion was met; 0 if no rate passed.
    pub rate: f64,
    /// Highest achieved rate of a valid trial, whether or not it met the criterion.
    pub highest_achieved: f64,
    /// Criterion in words.
    pub criterion: String,
    /// Trials that must pass at a rate.
    pub k: u32,
    /// Trials at a rate.
    pub n: u32,
    /// The confirming run passed.
    pub confirmed: bool,
    /// Reason for which the rate is only a lower bound, such as a generator at its limit; empty if it is not.
    pub limited_by: String,
    /// Trials in their order.
    pub trials: Vec<PeakTrial>,
}

/// A trial of the search for a peak.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PeakTrial {
    /// Attempts a second.
    pub rate: f64,
    /// The criterion was met.
    pub passed: bool,
    /// It was no result, for which the reason is that of the generator or its machine: the criterion was neither met nor missed.
    pub invalid: bool,
    /// Missed part of the criterion. If it was met: empty, or how late the generator was.
    pub reason: String,
}

/// Two targets, or two variants, beside each other.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Comparison {
    /// Name of the experiment.
    pub experiment: String,
    /// Variant.
    pub variant: String,
    /// Offered attempts a second.
    pub rate: f64,
    /// Compared value, such as `server_cpu_us`.
    pub metric: String,
    /// Name of the first one.
    pub a: String,
    /// Name of the second one.
    pub b: String,
    /// Median of the first one.
    pub median_a: f64,
    /// Median of the second one.
    pub median_b: f64,
    /// `median_a / median_b`.
    pub ratio: f64,
    /// Lower end of the 95 % confidence interval of the ratio; `null` with fewer than 3 trials.
    pub ci_low: Option<f64>,
    /// Upper end of it.
    pub ci_high: Option<f64>,
    /// Trials of each.
    pub n: u32,
}

/// An experiment that could not be done with one target.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Failed {
    /// Name of the experiment; empty if the target failed before the first one.
    pub experiment: String,
    /// Variant.
    pub variant: String,
    /// Name of the target.
    pub target: String,
    /// Error in one line.
    pub error: String,
}

/// End of a campaign.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct End {
    /// The campaign was ended by a signal.
    pub interrupted: bool,
    /// Length of the campaign.
    pub seconds: f64,
    /// Part of it in which the campaign waited for a quiet machine.
    pub waited: f64,
}

/// Writes records, each at once.
#[derive(Debug)]
pub struct Writer {
    file: File,
    path: PathBuf,
}

impl Writer {
    /// Creates the folder and in it an empty [`FILE`].
    ///
    /// # Errors
    /// The folder has results already, or cannot be written.
    pub fn create(folder: &Path) -> Result<Self> {
        let path = folder.join(FILE);
        fs::create_dir_all(folder).with_context(|| format!("cannot make the folder {}", folder.display()))?;
        match File::create_new(&path) {
            Ok(file) => Ok(Self { file, path }),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                bail!("{} exists; give another folder with --out", path.display())
            }
            Err(error) => Err(error).with_context(|| format!("cannot write {}", path.display())),
        }
    }

    /// File that is written.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends a record.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&mut self, record: &Record) -> Result<()> {
        let mut line = serde_json::to_string(record).context("a record as JSON")?;
        line.push('\n');
        self.file.write_all(line.as_bytes()).with_context(|| format!("cannot write {}", self.path.display()))
    }
}

/// Reads the records of a folder, or of a file. A last line that was cut off is ignored.
///
/// # Errors
/// There is no such file, it is too large, or a line is not a record.
pub fn read(path: &Path) -> Result<Vec<Record>> {
    let path = if path.is_dir() { path.join(FILE) } else { path.to_owned() };
    let text = text_file::read(&path, BYTES_MAX)
        .with_context(|| format!("{}: no results of `ringway lab run`", path.display()))?;
    parse(&text).map_err(|error| anyhow!("{}:{error:#}", path.display()))
}

/// Reads records from the text of a file. The error begins with the number of the line.
///
/// # Errors
/// A line is not a record, or the first one is not the campaign.
pub fn parse(text: &str) -> Result<Vec<Record>> {
    let mut records = Vec::new();
    let mut lines = text.split_inclusive('\n').enumerate().peekable();
    while let Some((index, line)) = lines.next() {
        if line.trim().is_empty() {
            continue;
        }
        match serde_json::from_str(line) {
            Ok(record) => records.push(record),
            Err(_) if lines.peek().is_none() && !line.ends_with('\n') => {}
            Err(error) => bail!("{}: not a record: {error}", index + 1),
        }
    }
    match records.first() {
        Some(Record::Campaign(campaign)) if campaign.format == FORMAT => Ok(records),
        Some(Record::Campaign(campaign)) => {
            bail!("1: records of format {}; this program reads format {FORMAT}", campaign.format)
        }
        _ => bail!("1: the first record is not a campaign; give results of `ringway lab run`"),
    }
}

/// Records with each campaign once, also if it was given several times, whole or cut off: the longest copy counts. Also returns a
/// note for each such campaign.
pub fn without_duplicates(records: Vec<Record>) -> (Vec<Record>, Vec<String>) {
    let mut campaigns: Vec<(Vec<Record>, usize)> = Vec::new();
    let mut current: Vec<Record> = Vec::new();
    let mut keep = |part: Vec<Record>| {
        if part.is_empty() {
            return;
        }
        // The record of a campaign has its start, its command, and the state of the machine.
        match campaigns.iter_mut().find(|(known, _)| known.first() == part.first()) {
            Some((known, count)) => {
                *count += 1;
                if part.len() > known.len() {
                    *known = part;
                }
            }
            None => campaigns.push((part, 1)),
        }
    };
    for record in records {
        if matches!(record, Record::Campaign(_)) {
            keep(std::mem::take(&mut current));
        }
        current.push(record);
    }
    keep(current);
    let note = |(records, count): &(Vec<Record>, usize)| match records.first() {
        Some(Record::Campaign(campaign)) if *count > 1 => {
            Some(format!("the campaign of {} is given {count} times; it is used once", campaign.started))
        }
        _ => None,
    };
    let notes = campaigns.iter().filter_map(note).collect();
    (campaigns.into_iter().flat_map(|(records, _)| records).collect(), notes)
}

/// Sentence about the trials that do not count, with the reasons and their numbers, the most frequent first. Empty without trials.
pub fn invalid_trials(records: &[Record]) -> String {
    let trials = || {
        records.iter().filter_map(|record| match record {
            Record::Measurement(trial) => Some(trial.as_ref()),
            _ => None,
        })
    };
    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    for trial in trials().filter(|trial| !trial.valid) {
        // Numbers differ from trial to trial; of each kind the first one is an example.
        let kind: String = trial.invalid_because.chars().filter(|letter| !letter.is_ascii_digit()).collect();
        *reasons.entry(kind).or_default() += 1;
    }
    let (count, invalid) = (trials().count(), reasons.values().sum::<usize>());
    let mut kinds: Vec<(&String, &usize)> = reasons.iter().collect();
    kinds.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    let example = |kind: &str| {
        let is_kind = |trial: &&Measurement| {
            let without = trial.invalid_because.chars().filter(|letter| !letter.is_ascii_digit());
            !trial.valid && without.eq(kind.chars())
        };
        trials().find(is_kind).map_or("", |trial| trial.invalid_because.as_str())
    };
    let kinds: Vec<String> =
        kinds.iter().take(REASONS_MAX).map(|(kind, count)| format!("{} ({count})", example(kind))).collect();
    match (count, invalid) {
        (0, _) => String::new(),
        (count, 0) => format!("All of {count} trials are valid."),
        (count, invalid) => {
            format!("{invalid} of {count} trials are invalid and count nowhere: {}.", kinds.join("; "))
        }
    }
}

/// Most reasons that [`invalid_trials`] names.
const REASONS_MAX: usize = 5;
/// Largest file of results.
const BYTES_MAX: usize = 256 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn campaign() -> Record {
        Record::Campaign(Campaign { format: FORMAT, quick: true, ..Campaign::default() })
    }

    #[test]
    fn records_are_read_as_they_were_written() {
        let folder = tempfile::tempdir().unwrap();
        let measurement = Measurement {
            experiment: "register".into(),
            rate: 1000.0,
            response_ms: Some(Percentiles { p50: 0.25, ..Percentiles::default() }),
            cdf: vec![[0.25, 0.5], [1.0, 1.0]],
            seconds_series: vec![[1, 1000, 999, 998, 3]],
            ..Measurement::default()
        };
        let records = [
            campaign(),
            Record::Baseline(Box::default()),
            Record::Measurement(Box::new(measurement)),
            Record::Failed(Failed { error: "it ended".into(), ..Failed::default() }),
            Record::End(End { interrupted: true, seconds: 1.5, ..End::default() }),
        ];
        let mut writer = Writer::create(folder.path()).unwrap();
        for record in &records {
            writer.write(record).unwrap();
        }
        assert_eq!(read(folder.path()).unwrap(), records);
        assert!(Writer::create(folder.path()).unwrap_err().to_string().contains("--out"));
        let text = fs::read_to_string(writer.path()).unwrap();
        assert!(text.lines().nth(3).is_some_and(|line| line.starts_with("{\"record\":\"failed\"")), "{text}");
    }

    #[test]
    fn a_cut_line_at_the_end_is_ignored_and_other_faults_have_their_line() {
        let head = serde_json::to_string(&campaign()).unwrap();
        assert_eq!(parse(&format!("{head}\n{{\"record\":\"en")).unwrap(), [campaign()]);
        let fault = |text: &str| parse(text).unwrap_err().to_string();
        assert!(fault(&format!("{head}\n\n{{\"record\":\"x\"}}\n")).starts_with("3: "));
        assert!(fault("{\"record\":\"end\"}\n").contains("campaign"));
        assert!(fault("{\"record\":\"campaign\",\"format\":9}\n").contains("format 9"));
        assert!(fault("").contains("campaign"));
    }

    #[test]
    fn the_invalid_trials_are_counted_by_their_reason() {
        let trial = |reason: &str| {
            let (valid, invalid_because) = (reason.is_empty(), reason.to_owned());
            Record::Measurement(Box::new(Measurement { valid, invalid_because, ..Measurement::default() }))
        };
        assert_eq!(invalid_trials(&[]), "");
        assert_eq!(invalid_trials(&[trial("")]), "All of 1 trials are valid.");
        let trials = ["2 were late", "", "not quiet: 98 %", "7 were late"].map(trial);
        let text = "3 of 4 trials are invalid and count nowhere: 2 were late (2); not quiet: 98 % (1).";
        assert_eq!(invalid_trials(&trials), text);
    }

    #[test]
    fn a_campaign_that_is_given_again_counts_once() {
        let campaign = |started: &str| {
            Record::Campaign(Campaign { format: FORMAT, started: started.into(), ..Campaign::default() })
        };
        let peak = |rate| Record::Peak(Peak { rate, ..Peak::default() });
        let first = [campaign("monday"), peak(1.0), peak(2.0)];
        let second = [campaign("tuesday"), peak(1.0)];
        let (records, notes) = without_duplicates([&first[..2], &second, &first, &first].concat());
        assert_eq!(records, [&first[..], &second].concat());
        assert_eq!(notes, ["the campaign of monday is given 3 times; it is used once"]);
        assert_eq!(without_duplicates(second.to_vec()), (second.to_vec(), Vec::new()));
    }

    #[test]
    fn fields_that_are_not_there_or_not_known_do_no_harm() {
        let head = serde_json::to_string(&campaign()).unwrap();
        let text = format!("{head}\n{{\"record\":\"peak\",\"rate\":5,\"later\":[1]}}\n");
        let peak = Record::Peak(Peak { rate: 5.0, ..Peak::default() });
        assert_eq!(parse(&text).unwrap().last(), Some(&peak));
    }
}
