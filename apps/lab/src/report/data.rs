//! Records in the order of the report: experiment, variant, target, rate, trials.

use super::html::short;
use super::svg::STYLES;
use crate::record::{
    Campaign, Comparison, Experiment, Failed, Measurement, Peak, Percentiles, Profile, Pulse, Record, Target,
};
use crate::statistics::{median, median_interval};
use anyhow::{Result, bail};
use std::collections::BTreeMap;

/// Results of one or several campaigns on one machine.
#[derive(Debug, Default)]
pub(super) struct Results<'a> {
    pub(super) campaigns: Vec<&'a Campaign>,
    /// Servers; an index into this list is a target's number.
    pub(super) targets: Vec<Server<'a>>,
    pub(super) experiments: Vec<Entry<'a>>,
    /// Generator against generator.
    pub(super) baselines: Vec<&'a Measurement>,
    /// Targets that failed before the first experiment.
    pub(super) failed: Vec<&'a Failed>,
    /// Campaigns that have a record of their end.
    pub(super) ended: usize,
    /// Campaigns that were ended by a signal.
    pub(super) interrupted: usize,
    /// Length of all campaigns that ended.
    pub(super) seconds: f64,
    /// Time of all campaigns that was spent waiting for a quiet machine.
    pub(super) waited: f64,
    /// Records above the limits of a report.
    pub(super) left_out: usize,
    /// Number of each name of a target, in the current campaign.
    numbers: BTreeMap<&'a str, usize>,
}

/// A target of the report.
#[derive(Debug)]
pub(super) struct Server<'a> {
    /// Name, with a number if servers of several campaigns differ.
    pub(super) name: String,
    /// Name in the records.
    base: &'a str,
    /// Records of the target, one for each configuration; none if the file has none.
    pub(super) records: Vec<&'a Target>,
}

/// An experiment with its results.
#[derive(Debug, Default)]
pub(super) struct Entry<'a> {
    pub(super) experiment: Experiment,
    pub(super) variants: Vec<Variant<'a>>,
    /// Peaks with the number of their target.
    pub(super) peaks: Vec<(usize, &'a Peak)>,
    /// Pulses with the number of their target.
    pub(super) pulses: Vec<(usize, &'a Pulse)>,
    pub(super) comparisons: Vec<&'a Comparison>,
    /// Profiles with the number of their target.
    pub(super) profiles: Vec<(usize, &'a Profile)>,
    pub(super) failed: Vec<&'a Failed>,
}

/// A variant of an experiment.
#[derive(Debug)]
pub(super) struct Variant<'a> {
    pub(super) name: &'a str,
    pub(super) series: Vec<Series<'a>>,
}

/// Points of a target.
#[derive(Debug)]
pub(super) struct Series<'a> {
    /// Number of the target.
    pub(super) target: usize,
    /// By ascending rate.
    pub(super) points: Vec<Point<'a>>,
}

/// Trials at one rate.
#[derive(Debug)]
pub(super) struct Point<'a> {
    pub(super) rate: f64,
    pub(super) trials: Vec<&'a Measurement>,
}

/// Median and range of the valid trials of a point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Spread {
    pub(super) median: f64,
    pub(super) low: f64,
    pub(super) high: f64,
    pub(super) n: usize,
    /// 95 % confidence interval of the median; `None` with too few trials.
    pub(super) confidence: Option<(f64, f64)>,
}

impl<'a> Results<'a> {
    /// Sorts the records.
    ///
    /// # Errors
    /// The records are of several machines.
    pub(super) fn new(records: &'a [Record]) -> Result<Self> {
        let mut results = Self::default();
        for record in records {
            match record {
                Record::Campaign(campaign) => results.start_campaign(campaign)?,
                Record::Target(target) => results.add_target(target),
                Record::Experiment(experiment) => {
                    if let Some(entry) = results.entry(&experiment.experiment) {
                        entry.experiment = experiment.clone();
                    }
                }
                Record::Baseline(baseline) if results.baselines.len() < BASELINES_MAX => {
                    results.baselines.push(baseline);
                }
                Record::Baseline(_) => results.left_out += 1,
                Record::Measurement(measurement) => results.add_measurement(measurement),
                Record::Peak(peak) => {
                    let target = results.number(&peak.target);
                    results.add(&peak.experiment, |entry| {
                        push_to(&mut entry.peaks, target.map(|number| (number, peak)))
                    });
                }
                Record::Pulse(pulse) => {
                    let target = results.number(&pulse.target);
                    results.add(&pulse.experiment, |entry| {
                        push_to(&mut entry.pulses, target.map(|number| (number, pulse)))
                    });
                }
                Record::Profile(profile) => {
                    let target = results.number(&profile.target);
                    results.add(&profile.experiment, |entry| {
                        push_to(&mut entry.profiles, target.map(|number| (number, profile.as_ref())))
                    });
                }
                Record::Comparison(comparison) => results
                    .add(&comparison.experiment, |entry| push_to(&mut entry.comparisons, Some(comparison))),
                Record::Failed(failed) if failed.experiment.is_empty() => {
                    let is_added = push_to(&mut results.failed, Some(failed));
                    results.left_out += usize::from(!is_added);
                }
                Record::Failed(failed) => {
                    results.add(&failed.experiment, |entry| push_to(&mut entry.failed, Some(failed)));
                }
                Record::End(end) => {
                    results.ended += 1;
                    results.interrupted += usize::from(end.interrupted);
                    results.seconds += end.seconds;
                    results.waited += end.waited;
                }
            }
        }
        for point in results.experiments.iter_mut().flat_map(|entry| &mut entry.variants) {
            for series in &mut point.series {
                series.points.sort_by(|a, b| a.rate.total_cmp(&b.rate));
            }
        }
        Ok(results)
    }

    /// Name of a target.
    pub(super) fn name_of(&self, target: usize) -> &str {
        self.targets.get(target).map_or("", |server| &server.name)
    }

    /// All trials.
    pub(super) fn trials(&self) -> impl Iterator<Item = &'a Measurement> {
        let points = self.experiments.iter().flat_map(Entry::points);
        points.flat_map(|point| point.trials.iter().copied())
    }

    fn start_campaign(&mut self, campaign: &'a Campaign) -> Result<()> {
        if let Some(first) = self.campaigns.first().filter(|first| first.machine.id != campaign.machine.id) {
            let shown = |campaign: &Campaign| {
                let machine = &campaign.machine;
                let cpu = short(&machine.cpu, 60);
                format!("{} ({cpu}, machine {})", short(&campaign.started, 40), short(&machine.id, 20))
            };
            bail!(
                "the results of {} and of {} are of different machines, and are not compared; make a report of each",
                shown(first),
                shown(campaign)
            );
        }
        if self.campaigns.len() >= CAMPAIGNS_MAX {
            bail!("more than {CAMPAIGNS_MAX} campaigns; make a report of fewer");
        }
        self.campaigns.push(campaign);
        self.numbers.clear();
        Ok(())
    }

    fn add_target(&mut self, target: &'a Target) {
        // Within a campaign a target has one version and several configurations. Between campaigns the version may change.
        let in_campaign = self.numbers.get(target.target.as_str()).copied();
        let same =
            in_campaign.or_else(|| self.targets.iter().position(|server| server.is_version_of(target)));
        let Some(number) = same.or_else(|| self.add_server(&target.target)) else {
            self.left_out += 1;
            return;
        };
        self.numbers.insert(&target.target, number);
        if let Some(server) = self.targets.get_mut(number).filter(|server| !server.records.contains(&target))
        {
            let is_added = push_to(&mut server.records, Some(target));
            self.left_out += usize::from(!is_added);
        }
    }

    fn add_server(&mut self, name: &'a str) -> Option<usize> {
        if self.targets.len() >= STYLES {
            return None;
        }
        let base = if name.is_empty() { "(no name)" } else { name };
        let mut shown = short(base, NAME_CHARS_MAX);
        let mut count = 1;
        while self.targets.iter().any(|server| server.name == shown) {
            count += 1;
            shown = format!("{} ({count})", short(base, NAME_CHARS_MAX));
        }
        self.targets.push(Server { name: shown, base: name, records: Vec::new() });
        Some(self.targets.len() - 1)
    }

    /// Number of a target in the current campaign.
    fn number(&mut self, name: &'a str) -> Option<usize> {
        if let Some(number) = self.numbers.get(name) {
            return Some(*number);
        }
        let number = self.add_server(name)?;
        self.numbers.insert(name, number);
        Some(number)
    }

    fn entry(&mut self, name: &str) -> Option<&mut Entry<'a>> {
        let found = self.experiments.iter().position(|entry| entry.experiment.experiment == name);
        if found.is_none() {
            if self.experiments.len() >= EXPERIMENTS_MAX {
                self.left_out += 1;
                return None;
            }
            let experiment = Experiment { experiment: name.to_owned(), ..Experiment::default() };
            self.experiments.push(Entry { experiment, ..Entry::default() });
        }
        found
            .map_or_else(|| self.experiments.len().checked_sub(1), Some)
            .and_then(|at| self.experiments.get_mut(at))
    }

    fn add(&mut self, experiment: &str, add: impl FnOnce(&mut Entry<'a>) -> bool) {
        if self.entry(experiment).is_some_and(|entry| !add(entry)) {
            self.left_out += 1;
        }
    }

    fn add_measurement(&mut self, measurement: &'a Measurement) {
        let target = self.number(&measurement.target);
        self.add(&measurement.experiment, |entry| {
            target.is_some_and(|target| entry.add_measurement(target, measurement))
        });
    }
}

fn push_to<T>(list: &mut Vec<T>, value: Option<T>) -> bool {
    match value {
        Some(value) if list.len() < LIST_MAX => {
            list.push(value);
            true
        }
        _ => false,
    }
}

impl Server<'_> {
    fn is_version_of(&self, target: &Target) -> bool {
        self.base == target.target && self.records.iter().all(|record| record.version == target.version)
    }
}

impl<'a> Entry<'a> {
    /// Adds a trial; false if it is above a limit.
    fn add_measurement(&mut self, target: usize, measurement: &'a Measurement) -> bool {
        let found = self.variants.iter().position(|variant| variant.name == measurement.variant);
        if found.is_none() && self.variants.len() < VARIANTS_MAX {
            self.variants.push(Variant { name: &measurement.variant, series: Vec::new() });
        } else if found.is_none() {
            return false;
        }
        let at = found.unwrap_or(self.variants.len() - 1);
        let Some(variant) = self.variants.get_mut(at) else { return false };
        variant.add(target, measurement)
    }

    /// Points of all variants and targets.
    pub(super) fn points(&self) -> impl Iterator<Item = &Point<'a>> {
        let series = self.variants.iter().flat_map(|variant| &variant.series);
        series.flat_map(|series| &series.points)
    }

    /// Trials that do not count, with the number of their target.
    pub(super) fn invalid(&self) -> impl Iterator<Item = (usize, &'a Measurement)> {
        let series = self.variants.iter().flat_map(|variant| &variant.series);
        series.flat_map(|series| {
            let trials = series.points.iter().flat_map(|point| &point.trials);
            trials.filter(|trial| !trial.valid).map(|trial| (series.target, *trial))
        })
    }
}

impl<'a> Variant<'a> {
    fn add(&mut self, target: usize, measurement: &'a Measurement) -> bool {
        let at = self.series.iter().position(|series| series.target == target);
        let at = at.unwrap_or_else(|| {
            self.series.push(Series { target, points: Vec::new() });
            self.series.sort_by_key(|series| series.target);
            self.series.iter().position(|series| series.target == target).unwrap_or_default()
        });
        let Some(series) = self.series.get_mut(at) else { return false };
        let key = |measurement: &Measurement| {
            (measurement.rate.to_bits(), measurement.idle.map(|idle| idle.connections))
        };
        let is_same =
            |point: &&mut Point<'a>| point.trials.first().is_some_and(|first| key(first) == key(measurement));
        let room = series.points.len() < POINTS_MAX;
        match series.points.iter_mut().find(is_same) {
            Some(point) if point.trials.len() < TRIALS_MAX => point.trials.push(measurement),
            None if room => series.points.push(Point { rate: measurement.rate, trials: vec![measurement] }),
            Some(_) | None => return false,
        }
        true
    }
}

impl<'a> Point<'a> {
    /// Trials that count.
    pub(super) fn valid(&self) -> impl Iterator<Item = &'a Measurement> {
        self.trials.iter().copied().filter(|trial| trial.valid)
    }

    /// A value over the trials that count.
    pub(super) fn spread(&self, value: impl Fn(&Measurement) -> Option<f64>) -> Option<Spread> {
        Spread::of(self.valid().filter_map(value))
    }

    /// True if more than half of the valid trials met the criterion.
    pub(super) fn is_met(&self) -> bool {
        let met = self.valid().filter(|trial| trial.criterion_met == Some(true)).count();
        met * 2 > self.valid().count()
    }

    /// Offered rate as a multiple of the peak.
    pub(super) fn multiple(&self) -> Option<f64> {
        self.trials.iter().find_map(|trial| trial.multiple)
    }
}

impl Spread {
    /// Spread of the values that are numbers.
    pub(super) fn of(values: impl Iterator<Item = f64>) -> Option<Self> {
        let values: Vec<f64> = values.filter(|value| value.is_finite()).collect();
        let low = values.iter().copied().reduce(f64::min)?;
        let high = values.iter().copied().reduce(f64::max)?;
        let confidence = median_interval(&values).map(|[low, high]| (low, high));
        Some(Self { median: median(values.iter().copied()), low, high, n: values.len(), confidence })
    }

    /// Confidence interval of the median, or else the range of the trials.
    pub(super) fn interval(&self) -> Option<(f64, f64)> {
        self.confidence.or_else(|| self.range())
    }

    /// Range of the trials, if there are several.
    pub(super) const fn range(&self) -> Option<(f64, f64)> {
        if self.n > 1 { Some((self.low, self.high)) } else { None }
    }
}

/// Failed attempts of a trial.
pub(super) fn failures(trial: &Measurement) -> u64 {
    trial.failures.values().fold(0, |sum, count| sum.saturating_add(*count))
}

/// Share of failed attempts among those that ended.
pub(super) fn failed_share(trial: &Measurement) -> Option<f64> {
    let (failed, ended) = (failures(trial) as f64, failures(trial) as f64 + trial.successes as f64);
    (ended > 0.0).then_some(failed / ended)
}

/// Retransmissions for each request.
pub(super) fn retransmitted_share(trial: &Measurement) -> Option<f64> {
    (trial.requests > 0).then_some(trial.retransmissions as f64 / trial.requests as f64)
}

/// A percentile of the response time.
pub(super) fn response(percentile: impl Fn(&Percentiles) -> f64) -> impl Fn(&Measurement) -> Option<f64> {
    move |trial| trial.response_ms.as_ref().map(&percentile)
}

/// Longest name of a target; the set-up has the whole record.
const NAME_CHARS_MAX: usize = 40;

const CAMPAIGNS_MAX: usize = 20;
const BASELINES_MAX: usize = 20;
const EXPERIMENTS_MAX: usize = 60;
const VARIANTS_MAX: usize = 16;

/// Most rates of a target in a variant.
const POINTS_MAX: usize = 60;

/// Most trials of a point.
const TRIALS_MAX: usize = 60;

/// Most peaks, comparisons or failures of an experiment.
const LIST_MAX: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Machine;

    fn campaign(machine: &str) -> Record {
        let machine = Machine { id: machine.into(), ..Machine::default() };
        Record::Campaign(Campaign { format: 1, machine, ..Campaign::default() })
    }

    fn trial(target: &str, rate: f64, cpu: f64, valid: bool) -> Record {
        Record::Measurement(Box::new(Measurement {
            experiment: "register".into(),
            target: target.into(),
            rate,
            server_cpu_us: Some(cpu),
            valid,
            ..Measurement::default()
        }))
    }

    #[test]
    fn trials_of_a_rate_are_one_point_and_invalid_ones_do_not_count() {
        let records = [
            campaign("a"),
            trial("ringway", 200.0, 9.0, true),
            trial("ringway", 100.0, 5.0, true),
            trial("ringway", 100.0, 7.0, true),
            trial("ringway", 100.0, 900.0, false),
        ];
        let results = Results::new(&records).unwrap();
        let points = &results.experiments[0].variants[0].series[0].points;
        assert_eq!((points.len(), points[0].rate), (2, 100.0));
        let spread = points[0].spread(|trial| trial.server_cpu_us).unwrap();
        assert_eq!(spread, Spread { median: 6.0, low: 5.0, high: 7.0, n: 2, confidence: None });
        assert_eq!(results.experiments[0].invalid().count(), 1);
    }

    #[test]
    fn results_of_two_machines_are_refused() {
        let error = Results::new(&[campaign("a"), campaign("b")]).unwrap_err().to_string();
        assert!(error.contains("different machines") && error.contains("machine b"), "{error}");
        assert!(Results::new(&[campaign("a"), campaign("a")]).is_ok());
    }

    #[test]
    fn a_target_that_changed_between_campaigns_is_another_one() {
        let target = |version: &str| {
            let (target, version) = ("ringway".into(), version.into());
            Record::Target(Target { target, version, ..Target::default() })
        };
        let rate = |rate| trial("ringway", rate, 1.0, true);
        let first = [campaign("a"), target("1"), rate(1.0)];
        let records = [first.to_vec(), vec![campaign("a"), target("2"), rate(2.0)], first.to_vec()].concat();
        let results = Results::new(&records).unwrap();
        let names: Vec<&str> = results.targets.iter().map(|server| server.name.as_str()).collect();
        assert_eq!(names, ["ringway", "ringway (2)"]);
        let points: Vec<usize> =
            results.experiments[0].variants[0].series.iter().map(|s| s.points.len()).collect();
        assert_eq!(points, [1, 1]);
    }

    #[test]
    fn every_list_has_a_limit_and_the_rest_is_counted() {
        let mut records = vec![campaign("a")];
        records.extend((0..10).map(|target| trial(&target.to_string(), 1.0, 1.0, true)));
        records.extend((0..100).map(|rate| trial("0", f64::from(rate), 1.0, true)));
        records.extend((0..100).map(|_| trial("0", 1.0, 1.0, true)));
        records.extend(
            (0..100)
                .map(|name| Record::Failed(Failed { experiment: format!("e{name}"), ..Failed::default() })),
        );
        let results = Results::new(&records).unwrap();
        assert_eq!((results.targets.len(), results.experiments.len()), (STYLES, EXPERIMENTS_MAX));
        let points = &results.experiments[0].variants[0].series[0].points;
        assert_eq!((points.len(), points[1].trials.len()), (POINTS_MAX, TRIALS_MAX));
        assert!(results.left_out > 100, "{}", results.left_out);
    }
}
