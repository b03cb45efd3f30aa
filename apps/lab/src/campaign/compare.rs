//! Comparisons of targets, and of a campaign with an earlier one.

use super::experiment::Variant;
use crate::record::{Campaign, Comparison, Measurement, Peak, Record};
use crate::statistics::{median, ratio_interval};
use anyhow::{Result, bail};
use ringway_sansio::Seed;
use std::collections::BTreeMap;

/// Valid trials of one target under the same load.
type Groups<'a> = BTreeMap<Load, BTreeMap<&'a str, Vec<&'a Measurement>>>;

/// Experiment, variant, rate (as bits, so that it has an order) of a trial.
type Load = (String, String, u64);

/// Name of the compared value of [`peaks`].
pub const PEAK: &str = "peak";

/// Name of a factor of the CPU time over the plain case.
pub const FACTOR_CPU: &str = "factor_cpu";
/// Name of a factor of the median response time over the plain case.
pub const FACTOR_RESPONSE: &str = "factor_response";

/// Compared value and its name.
type Metric = (&'static str, fn(&Measurement) -> Option<f64>);

/// Compares the first target with each of the others, load by load. Invalid trials do not count, nor does a trial that missed
/// the criterion: its operations are not those of the other.
pub fn targets(measurements: &[Measurement], order: &[String]) -> Vec<Comparison> {
    let Some((first, others)) = order.split_first() else { return Vec::new() };
    let groups = grouped(measurements);
    let mut comparisons = Vec::new();
    for (load, group) in &groups {
        for other in others {
            if let (Some(a), Some(b)) = (group.get(first.as_str()), group.get(other.as_str())) {
                comparisons.extend(compared(load, (first, a), (other, b)));
            }
        }
    }
    comparisons
}

/// Compares each target of a campaign with the same one of an earlier campaign.
pub fn campaigns(now: &[Measurement], earlier: &[Record], name: &str) -> Vec<Comparison> {
    let earlier: Vec<Measurement> = earlier.iter().filter_map(measurement).cloned().collect();
    let (now, earlier) = (grouped(now), grouped(&earlier));
    let mut comparisons = Vec::new();
    for (load, group) in &now {
        for (target, a) in group {
            if let Some(b) = earlier.get(load).and_then(|group| group.get(target)) {
                comparisons.extend(compared(load, (target, a), (&format!("{target} of {name}"), b)));
            }
        }
    }
    comparisons
}

/// Factors of each variant over the plain case, the first variant with the same scenario, at each rate of each target.
pub fn factors<'m>(
    variants: &[&Variant],
    measurements: impl Iterator<Item = &'m Measurement>,
) -> Vec<Comparison> {
    let measurements: Vec<Measurement> =
        measurements.filter(|trial| trial.multiple.is_none()).cloned().collect();
    let groups = grouped(&measurements);
    let mut comparisons = Vec::new();
    for variant in variants {
        let Some(plain) = plain_of(variants, &variant.name) else { continue };
        let of_variant = groups.iter().filter(|((_, name, _), _)| *name == variant.name);
        for ((experiment, _, rate), group) in of_variant {
            let Some(plain_group) = groups.get(&(experiment.clone(), plain.to_owned(), *rate)) else {
                continue;
            };
            for (target, trials) in group {
                let Some(plain_trials) = plain_group.get(target) else { continue };
                let load = (experiment.clone(), (*target).to_owned(), *rate);
                comparisons.extend(compared_by(
                    &FACTORS,
                    &load,
                    (&variant.name, trials),
                    (plain, plain_trials),
                ));
            }
        }
    }
    comparisons
}

/// Name of the plain case of a variant; `None` if it is one itself.
fn plain_of<'v>(variants: &[&'v Variant], name: &str) -> Option<&'v str> {
    let flow = variants.iter().find(|variant| variant.name == name)?.flow;
    let plain = variants.iter().find(|variant| variant.flow == flow)?;
    (plain.name != name).then_some(plain.name.as_str())
}

/// Compares the peaks of a target in two variants of which the first one is the plain case, or of which the second one has all words of
/// the first one, and more: with digest and without it, for example.
pub fn peaks(peaks: &[Peak], variants: &[&Variant]) -> Vec<Comparison> {
    let mut comparisons = Vec::new();
    let found: Vec<&Peak> = peaks.iter().filter(|peak| peak.rate > 0.0).collect();
    for first in &found {
        for second in found.iter().filter(|second| second.target == first.target) {
            let more = second.variant.strip_prefix(&first.variant).and_then(|more| more.strip_prefix(", "));
            let is_plain = plain_of(variants, &second.variant) == Some(first.variant.as_str());
            let with = match more {
                Some(more) => format!("with {more}"),
                None if is_plain => format!("of {}", second.variant),
                None => continue,
            };
            let bound = |peak: &Peak| if peak.limited_by.is_empty() { "" } else { " (lower bound)" };
            comparisons.push(Comparison {
                experiment: first.experiment.clone(),
                metric: PEAK.to_owned(),
                a: format!("{}, {}{}", first.target, first.variant, bound(first)),
                b: format!("{with}{}", bound(second)),
                median_a: first.rate,
                median_b: second.rate,
                ratio: first.rate / second.rate,
                n: 1,
                ..Comparison::default()
            });
        }
    }
    comparisons
}

/// Checks that the figures of two campaigns can be compared.
///
/// # Errors
/// They are of different machines.
pub fn same_machine(id: &str, earlier: &[Record], name: &str) -> Result<()> {
    let campaign: Option<&Campaign> = earlier.iter().find_map(|record| match record {
        Record::Campaign(campaign) => Some(campaign),
        _ => None,
    });
    match campaign {
        Some(campaign) if campaign.machine.id == id => Ok(()),
        Some(campaign) => bail!(
            "{name} was measured on another machine ({} × {}, Linux {}); figures of different machines are not \
             comparable, so run both campaigns on one",
            campaign.machine.processors,
            campaign.machine.cpu,
            campaign.machine.kernel
        ),
        None => bail!("{name} names no machine; give the folder of a campaign"),
    }
}

fn measurement(record: &Record) -> Option<&Measurement> {
    match record {
        Record::Measurement(measurement) => Some(measurement),
        _ => None,
    }
}

fn grouped(measurements: &[Measurement]) -> Groups<'_> {
    let mut groups = Groups::new();
    for trial in measurements.iter().filter(|trial| trial.valid && trial.criterion_met == Some(true)) {
        let load = (trial.experiment.clone(), trial.variant.clone(), trial.rate.to_bits());
        groups.entry(load).or_default().entry(trial.target.as_str()).or_default().push(trial);
    }
    groups
}

/// Values of two targets.
const BESIDE: [Metric; 2] = [
    ("server_cpu_us", |trial| trial.server_cpu_us),
    ("response_p99_ms", |trial| trial.response_ms.map(|response| response.p99)),
];

/// Values of a variant and its plain case.
const FACTORS: [Metric; 2] = [
    (FACTOR_CPU, |trial| trial.server_cpu_us),
    (FACTOR_RESPONSE, |trial| trial.response_ms.map(|response| response.p50)),
];

fn compared(load: &Load, a: (&str, &[&Measurement]), b: (&str, &[&Measurement])) -> Vec<Comparison> {
    compared_by(&BESIDE, load, a, b)
}

fn compared_by(
    metrics: &[Metric],
    (experiment, variant, rate): &Load,
    (name_a, a): (&str, &[&Measurement]),
    (name_b, b): (&str, &[&Measurement]),
) -> Vec<Comparison> {
    let one = |(metric, value): Metric| {
        let values = |trials: &[&Measurement]| trials.iter().filter_map(|trial| value(trial)).collect();
        let (a, b): (Vec<f64>, Vec<f64>) = (values(a), values(b));
        if a.is_empty() || b.is_empty() {
            return None;
        }
        let interval = ratio_interval(&a, &b, &Seed::from_number(0));
        let (median_a, median_b) = (median(a.iter().copied()), median(b.iter().copied()));
        Some(Comparison {
            experiment: experiment.clone(),
            variant: variant.clone(),
            rate: f64::from_bits(*rate),
            metric: metric.to_owned(),
            a: name_a.to_owned(),
            b: name_b.to_owned(),
            median_a,
            median_b,
            ratio: median_a / median_b,
            ci_low: interval.map(|[low, _]| low),
            ci_high: interval.map(|[_, high]| high),
            n: u32::try_from(a.len().min(b.len())).unwrap_or(u32::MAX),
        })
    };
    metrics.iter().copied().filter_map(one).filter(|comparison| comparison.ratio.is_finite()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Machine;

    fn trial(target: &str, us: f64, valid: bool) -> Measurement {
        Measurement {
            experiment: "call".into(),
            target: target.into(),
            rate: 100.0,
            server_cpu_us: Some(us),
            valid,
            criterion_met: Some(true),
            ..Measurement::default()
        }
    }

    #[test]
    fn the_first_target_is_compared_with_the_others_without_invalid_trials() {
        let mut trials = vec![trial("a", 900.0, false)];
        for us in [10.0, 10.2, 9.9, 10.1, 9.8] {
            trials.extend([trial("a", us, true), trial("b", 2.0 * us, true)]);
        }
        let comparisons = targets(&trials, &["a".into(), "b".into(), "c".into()]);
        assert_eq!(comparisons.len(), 1, "{comparisons:?}");
        let found = &comparisons[0];
        assert_eq!(
            (found.metric.as_str(), found.n, found.ratio, found.rate),
            ("server_cpu_us", 5, 0.5, 100.0)
        );
        assert!(found.ci_low.unwrap() <= 0.5 && 0.5 <= found.ci_high.unwrap());
        assert_eq!(targets(&trials[..3], &["a".into(), "b".into()])[0].ci_low, None);
    }

    #[test]
    fn the_peaks_of_a_variant_and_of_one_with_more_are_compared() {
        let peak = |target: &str, variant: &str, rate, limit: &str| Peak {
            target: target.into(),
            variant: variant.into(),
            rate,
            limited_by: limit.into(),
            ..Peak::default()
        };
        let found = peaks(
            &[
                peak("a", "udp", 900.0, "lag"),
                peak("b", "udp", 80.0, ""),
                peak("a", "udp, digest MD5", 300.0, ""),
                peak("a", "udp, digest MD5, database", 100.0, ""),
                peak("b", "udp, digest MD5", 0.0, ""),
                peak("a", "udp2", 1.0, ""),
            ],
            &[],
        );
        let found: Vec<_> = found.iter().map(|one| (one.a.as_str(), one.b.as_str(), one.ratio)).collect();
        let expected = [
            ("a, udp (lower bound)", "with digest MD5", 3.0),
            ("a, udp (lower bound)", "with digest MD5, database", 9.0),
            ("a, udp, digest MD5", "with database", 3.0),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn each_variant_is_a_multiple_of_the_plain_case() {
        let text = "scenario = \"update\"\ntransports = [\"udp\", \"tcp\"]\nrates = [100]\n";
        let experiment = super::super::experiment::parse("own", "own.toml", text).unwrap();
        let variants: Vec<&Variant> = experiment.variants.iter().collect();
        let of = |variant: &str, us| Measurement { variant: variant.into(), ..trial("a", us, true) };
        let trials = [of("udp", 10.0), of("tcp", 25.0), of("tcp", 35.0)];
        let found = factors(&variants, trials.iter());
        let found: Vec<_> = found
            .iter()
            .map(|one| (one.metric.as_str(), one.variant.as_str(), one.a.as_str(), one.ratio))
            .collect();
        assert_eq!(found, [(FACTOR_CPU, "a", "tcp", 3.0)]);
        let peak = |variant: &str, rate| Peak { variant: variant.into(), rate, ..Peak::default() };
        let found = peaks(&[peak("udp", 900.0), peak("tcp", 300.0)], &variants);
        assert_eq!((found.len(), found[0].ratio, found[0].b.as_str()), (1, 3.0, "of tcp"));
    }

    #[test]
    fn figures_of_two_machines_are_not_compared() {
        let campaign = |id: &str| {
            let machine = Machine { id: id.into(), cpu: "Z80".into(), ..Machine::default() };
            [Record::Campaign(Campaign { machine, ..Campaign::default() })]
        };
        assert!(same_machine("1", &campaign("1"), "old").is_ok());
        let refusal = same_machine("1", &campaign("2"), "old").unwrap_err().to_string();
        assert!(
            refusal.starts_with("old was measured on another machine") && refusal.contains("Z80"),
            "{refusal}"
        );
        assert!(same_machine("1", &[], "old").is_err());
    }

    #[test]
    fn a_campaign_is_compared_with_an_earlier_one() {
        let earlier = [Record::Measurement(Box::new(trial("a", 8.0, true)))];
        let comparisons = campaigns(&[trial("a", 10.0, true)], &earlier, "results/old");
        assert_eq!((comparisons[0].ratio, comparisons[0].b.as_str()), (1.25, "a of results/old"));
    }
}
