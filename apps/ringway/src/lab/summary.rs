//! Summary of a campaign as a table.

use ringway_lab::campaign::compare::{FACTOR_CPU, FACTOR_RESPONSE, PEAK};
use ringway_lab::record::{
    Chart, Comparison, End, Experiment, Measurement, Media, Profile, Record, Tls, invalid_trials,
};
use ringway_lab::statistics::{latency_coefficient, mean_interval, median, median_interval};
use std::fmt::Write as _;

/// Trials of one target under the same load.
struct Row<'a> {
    experiment: &'a str,
    variant: &'a str,
    target: &'a str,
    rate: f64,
    trials: Vec<&'a Measurement>,
}

/// Table of all points, peaks, comparisons and failures.
pub(super) fn text(records: &[Record], against: &[Comparison], is_quick: bool) -> String {
    let mut lines = Vec::new();
    lines.extend(Some(invalid_trials(records)).filter(|text| !text.is_empty()));
    for record in records {
        if let Record::End(End { waited, .. }) = record
            && *waited >= 1.0
        {
            lines.push(format!("Waited {waited:.0} s for a quiet machine."));
        }
    }
    for record in records {
        if let Record::Failed(failed) = record
            && failed.experiment.is_empty()
        {
            lines.push(
                format!("{} {}: {}", failed.target, failed.variant, failed.error).trim_start().to_owned(),
            );
        }
    }
    for record in records {
        if let Record::Experiment(experiment) = record {
            lines.push(format!("\n{}: {}", experiment.experiment, experiment.title));
            if !experiment.criterion.is_empty() {
                lines.push(format!("  criterion: {}", experiment.criterion));
            }
            points(records, experiment, &mut lines);
            notes(records, &experiment.experiment, &mut lines);
        }
    }
    if !against.is_empty() {
        lines.push("\nbeside the earlier results:".to_owned());
        lines.extend(against.iter().map(compared));
    }
    if is_quick {
        lines.push("\nindicative: one short trial of each point (--quick)".to_owned());
    }
    lines.join("\n").trim_start().to_owned()
}

fn points(records: &[Record], experiment: &Experiment, lines: &mut Vec<String>) {
    let rows = rows(records, experiment);
    let loads: Vec<&Row<'_>> = rows.iter().filter(|row| row.rate > 0.0).collect();
    if !loads.is_empty() {
        lines.push(format!(
            "  {:<28} {:<18} {:>8} {:>9} {:>9} {:>17} {:>10} {:>18}  {}",
            "variant",
            "target",
            "offered",
            "achieved",
            "success",
            "server µs each",
            "median ms",
            "99th percentile ms",
            "criterion"
        ));
        for row in loads {
            lines.push(point(row));
            lines.extend(latency(row));
            let valid = || row.trials.iter().filter(|trial| trial.valid);
            lines.extend(valid().filter_map(|trial| trial.media).map(media));
            lines.extend(valid().filter_map(|trial| trial.tls).map(tls));
        }
    }
    for row in rows.iter().filter(|row| row.rate == 0.0) {
        for idle in row.trials.iter().filter_map(|trial| trial.idle) {
            lines.push(format!(
                "  {:<28} {:<18} {} connections: {:.0} bytes each, {:.1} µs of CPU to open each, {:.0} µs of CPU a second idle",
                row.variant,
                row.target,
                idle.connections,
                idle.memory_bytes_each,
                idle.cpu_us_to_open,
                idle.cpu_us_per_second
            ));
        }
    }
}

fn rows<'a>(records: &'a [Record], experiment: &Experiment) -> Vec<Row<'a>> {
    // The trials of a search are summed up as its peak.
    let is_searched = matches!(experiment.chart, Chart::Peak | Chart::Overload | Chart::Curve);
    let mut rows: Vec<Row<'a>> = Vec::new();
    for record in records {
        let Record::Measurement(trial) = record else { continue };
        if trial.experiment != experiment.experiment || is_searched && trial.multiple.is_none() {
            continue;
        }
        let is_same = |row: &&mut Row<'_>| {
            row.variant == trial.variant && row.target == trial.target && row.rate == trial.rate
        };
        match rows.iter_mut().find(is_same) {
            Some(row) => row.trials.push(trial),
            None => rows.push(Row {
                experiment: &trial.experiment,
                variant: &trial.variant,
                target: &trial.target,
                rate: trial.rate,
                trials: vec![trial],
            }),
        }
    }
    rows.sort_by(|a, b| {
        let order = |row: &Row<'a>| (row.experiment, row.variant);
        order(a).cmp(&order(b)).then(a.rate.total_cmp(&b.rate)).then(a.target.cmp(b.target))
    });
    rows
}

fn point(row: &Row<'_>) -> String {
    let valid: Vec<&Measurement> = row.trials.iter().copied().filter(|trial| trial.valid).collect();
    let head = format!("  {:<28} {:<18} {:>8.0}", row.variant, row.target, row.rate);
    let Some(first) = valid.first() else {
        let why = row.trials.first().map_or("", |trial| trial.invalid_because.as_str());
        return format!("{head} INVALID, not counted: {why}");
    };
    let middle = |value: fn(&Measurement) -> Option<f64>| {
        let values: Vec<f64> = valid.iter().filter_map(|trial| value(trial)).collect();
        (!values.is_empty()).then(|| (median(values.iter().copied()), median_interval(&values)))
    };
    let cell = |value: fn(&Measurement) -> Option<f64>, digits: usize| {
        middle(value).map_or_else(|| "-".to_owned(), |(value, _)| format!("{value:.digits$}"))
    };
    let cpu = match middle(|trial| trial.server_cpu_us) {
        Some((value, Some([low, high]))) => format!("{value:.1} ({low:.1}-{high:.1})"),
        Some((value, None)) => format!("{value:.1}"),
        None => "-".to_owned(),
    };
    let success = cell(|trial| Some(trial.successes as f64 * 100.0 / (trial.planned as f64).max(1.0)), 2);
    let missed = valid.iter().filter(|trial| trial.criterion_met != Some(true)).count();
    let is_unnamed = first.challenges > 0 && !row.variant.contains("digest");
    let challenged = if is_unnamed { "; challenged by the server" } else { "" };
    let verdict = match missed {
        0 => "met".to_owned(),
        _ if valid.len() == 1 => format!("missed: {}", first.criterion_missed),
        _ => format!("missed in {missed} of {}", valid.len()),
    };
    format!(
        "{head} {:>9} {:>7} % {cpu:>17} {:>10} {:>18}  {verdict}{challenged}",
        cell(|trial| Some(trial.achieved), 0),
        success,
        cell(|trial| trial.response_ms.map(|response| response.p50), 2),
        cell(|trial| trial.response_ms.map(|response| response.p99), 2),
    )
}

/// Processor, average and summed latency, coefficient of a point; `None` without a valid trial.
fn latency(row: &Row<'_>) -> Option<String> {
    let valid: Vec<&Measurement> = row.trials.iter().copied().filter(|trial| trial.valid).collect();
    let values = |value: fn(&Measurement) -> Option<f64>| -> Vec<f64> {
        valid.iter().filter_map(|trial| value(trial)).collect()
    };
    let average = |values: &[f64], unit: &str| match (mean_interval(values), values.first()) {
        (Some((mean, half)), _) => format!("{mean:.2} ± {half:.2} {unit}"),
        (None, Some(only)) => format!("{only:.2} {unit}"),
        (None, None) => "-".to_owned(),
    };
    valid.first()?;
    let share = values(|trial| trial.server_cpu_share.map(|share| share * 100.0));
    let mean = values(|trial| trial.response_ms.map(|response| response.mean));
    let summed = values(|trial| Some(trial.service_ms?.mean + trial.disconnect_ms?.mean));
    let coefficient = median(valid.iter().map(|trial| latency_coefficient(&trial.buckets30)));
    Some(format!(
        "    processor {}; average response {}; summed latency of a call {}; coefficient {coefficient:.4}",
        average(&share, "%"),
        average(&mean, "ms"),
        average(&summed, "ms"),
    ))
}

fn tls(tls: Tls) -> String {
    let share =
        |share: Option<f64>| share.map_or_else(|| "-".to_owned(), |share| format!("{:.1} %", share * 100.0));
    let mut line = format!(
        "    TLS: {} full handshakes, {} resumed ({}), {} failed",
        tls.full,
        tls.resumed,
        share(tls.resumed_share),
        tls.failed
    );
    if tls.accepted_resumed_share.is_some() {
        let _ = write!(
            line,
            "; from the server {} full, {} resumed ({})",
            tls.accepted_full,
            tls.accepted_resumed,
            share(tls.accepted_resumed_share)
        );
    }
    line
}

fn media(media: Media) -> String {
    let ms = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.2} ms"));
    format!(
        "    media: {} streams, {} without a packet; {} packets sent, {} received, {} lost; 99th percentile of jitter {}, of delay {}",
        media.streams,
        media.silent_streams,
        media.packets_sent,
        media.packets_received,
        media.packets_lost,
        ms(media.jitter_p99_ms),
        ms(media.delay_p99_ms)
    )
}

/// Peaks, comparisons and failures of an experiment.
fn notes(records: &[Record], experiment: &str, lines: &mut Vec<String>) {
    for record in records {
        match record {
            Record::Pulse(pulse) if pulse.experiment == experiment => {
                let recovered = match pulse.recovered_s {
                    _ if !pulse.valid => format!("INVALID, not counted: {}", pulse.invalid_because),
                    Some(seconds) => format!("recovered after {seconds:.0} s"),
                    None => format!("not recovered within {:.0} s", pulse.then_seconds),
                };
                lines.push(format!(
                    "  {:<28} {:<18} pulse of {:.0} s at {} × the peak: {recovered}",
                    pulse.variant, pulse.target, pulse.seconds, pulse.multiple
                ));
            }
            Record::Peak(peak) if peak.experiment == experiment => {
                let mut line = format!(
                    "  peak ({}), {}: {:.0}/s with {} of {} trials",
                    peak.variant, peak.target, peak.rate, peak.k, peak.n
                );
                line.push_str(if peak.confirmed { ", confirmed" } else { ", not confirmed" });
                if peak.highest_achieved > 0.0 {
                    let _ = write!(line, "; highest achieved rate {:.0}/s", peak.highest_achieved);
                }
                if !peak.limited_by.is_empty() {
                    let _ = write!(line, "; a lower bound: {}", peak.limited_by);
                }
                lines.push(line);
            }
            Record::Profile(profile) if profile.experiment == experiment => lines.extend(components(profile)),
            Record::Comparison(comparison) if comparison.experiment == experiment => {
                lines.push(compared(comparison));
            }
            Record::Failed(failed) if failed.experiment == experiment => {
                lines.push(format!("  FAILED ({}), {}: {}", failed.variant, failed.target, failed.error));
            }
            _ => {}
        }
    }
}

/// Components of a profiled trial, its agreement with the scheduler, and the extrapolated peak.
fn components(profile: &Profile) -> Vec<String> {
    let used = profile.components.iter().filter(|one| one.share > 0.0);
    let parts: Vec<String> =
        used.map(|one| format!("{} {:.1} ({:.0} %)", one.title, one.us, one.share * 100.0)).collect();
    let doubt = match (&profile.disagreement, &profile.invalid_because) {
        (disagreement, _) if !profile.agrees => format!("; NOT IN AGREEMENT: {disagreement}"),
        (_, reason) if !reason.is_empty() => format!("; the trial is not valid: {reason}"),
        _ => String::new(),
    };
    let mut lines = vec![
        format!(
            "  components ({}), {} at {:.0}/s, µs each: {}",
            profile.variant,
            profile.target,
            profile.rate,
            parts.join(", ")
        ),
        format!(
            "    {} samples are {:.1} % of the scheduler's time{doubt}",
            profile.samples,
            profile.agreement * 100.0
        ),
    ];
    if let (Some(extrapolated), Some(measured)) = (profile.extrapolated_peak, profile.measured_peak) {
        let bound = if profile.peak_limited_by.is_empty() { "" } else { ", a lower bound" };
        lines.push(format!(
            "    extrapolated peak {extrapolated:.0}/s, measured {measured:.0}/s{bound}: {:.2} ×",
            extrapolated / measured
        ));
    }
    lines
}

fn compared(comparison: &Comparison) -> String {
    if comparison.metric == PEAK {
        let Comparison { experiment, a, b, ratio, .. } = comparison;
        return format!("  {experiment}: the peak of {a} is {ratio:.2} × that {b}");
    }
    let name = match comparison.metric.as_str() {
        "server_cpu_us" => "CPU of the server",
        "response_p99_ms" => "99th percentile of the response time",
        FACTOR_CPU => "CPU of the server",
        FACTOR_RESPONSE => "median response time",
        other => other,
    };
    let interval = match (comparison.ci_low, comparison.ci_high) {
        (Some(low), Some(high)) => format!(" (95 %: {low:.2}-{high:.2})"),
        _ => String::new(),
    };
    format!(
        "  {} ({}) at {:.0}/s: {name} of {} is {:.2} × that of {}{interval}",
        comparison.experiment,
        comparison.variant,
        comparison.rate,
        comparison.a,
        comparison.ratio,
        comparison.b
    )
}

/// Seconds in words: `45 s`, `3 min`.
pub(super) fn duration(seconds: f64) -> String {
    match seconds {
        seconds if seconds < 100.0 => format!("{seconds:.0} s"),
        seconds if seconds < 6000.0 => format!("{:.0} min", seconds / 60.0),
        seconds => format!("{:.1} h", seconds / 3600.0),
    }
}

/// A word of a command line as a shell takes it.
pub(super) fn quoted(word: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./:,=@+".contains(letter);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringway_lab::record::{ComponentTime, Failed, Peak};

    fn trial(target: &str, us: f64, valid: bool) -> Record {
        Record::Measurement(Box::new(Measurement {
            experiment: "call".into(),
            variant: "udp".into(),
            target: target.into(),
            rate: 100.0,
            planned: 100,
            successes: 100,
            achieved: 99.0,
            server_cpu_us: Some(us),
            valid,
            invalid_because: if valid { String::new() } else { "it was late".into() },
            criterion_met: Some(true),
            ..Measurement::default()
        }))
    }

    #[test]
    fn a_point_shows_the_median_of_its_valid_trials() {
        let mut records = vec![Record::Experiment(Experiment {
            experiment: "call".into(),
            title: "Calls".into(),
            criterion: "99th percentile ≤ 50 ms".into(),
            ..Experiment::default()
        })];
        records.extend([trial("a", 900.0, false), trial("a", 21.0, true), trial("a", 20.0, true)]);
        records.extend([trial("a", 22.0, true), trial("b", 5.0, false)]);
        records.push(Record::Peak(Peak { experiment: "call".into(), rate: 512.0, ..Peak::default() }));
        let error = "it ended".to_owned();
        records.push(Record::Failed(Failed { experiment: "call".into(), error, ..Failed::default() }));
        let text = text(&records, &[], true);
        let line = |word: &str| text.lines().find(|line| line.contains(word)).unwrap_or_default().to_owned();
        assert!(line(" a ").contains(" 21.0 ") && line(" a ").ends_with("met"), "{text}");
        assert!(line(" b ").contains("INVALID, not counted: it was late"), "{text}");
        assert!(text.contains("criterion: 99th percentile ≤ 50 ms") && text.contains("512/s"), "{text}");
        assert!(text.contains("FAILED") && text.contains("indicative"), "{text}");
    }

    #[test]
    fn components_are_named_with_their_agreement() {
        let component = |title: &str, us: f64, share: f64| ComponentTime {
            title: title.into(),
            us,
            share,
            ..ComponentTime::default()
        };
        let mut profile = Profile {
            variant: "udp".into(),
            target: "ringway".into(),
            rate: 100.0,
            samples: 4000,
            agreement: 0.98,
            agrees: true,
            components: vec![
                component("kernel", 15.0, 0.75),
                component("libc", 0.0, 0.0),
                component("core", 5.0, 0.25),
            ],
            extrapolated_peak: Some(1100.0),
            measured_peak: Some(1000.0),
            ..Profile::default()
        };
        assert_eq!(
            components(&profile).join("|"),
            "  components (udp), ringway at 100/s, µs each: kernel 15.0 (75 %), core 5.0 (25 %)\
             |    4000 samples are 98.0 % of the scheduler's time\
             |    extrapolated peak 1100/s, measured 1000/s: 1.10 ×"
        );
        (profile.agrees, profile.disagreement) = (false, "too few".into());
        assert!(components(&profile).join("").contains("; NOT IN AGREEMENT: too few"));
    }

    #[test]
    fn words_of_a_command_line_are_quoted_if_needed() {
        assert_eq!(quoted("--fail-if"), "--fail-if");
        assert_eq!(quoted("p99>50ms"), "'p99>50ms'");
        assert_eq!(quoted("it's"), "'it'\\''s'");
        assert_eq!(quoted(""), "''");
        assert_eq!(
            (duration(40.0), duration(300.0), duration(9000.0)),
            ("40 s".into(), "5 min".into(), "2.5 h".into())
        );
    }
}
