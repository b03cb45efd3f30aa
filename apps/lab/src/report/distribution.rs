//! Distribution of the response time: cumulative, and by classes of 30 ms.

use super::data::{Entry, Point as Rate, Results, Variant, response};
use super::figure::Figure;
use super::html::{Table, amount, amount_or_none, percent};
use super::plot::{Axis, Line, Plot, Point};
use super::rows::{ShareRow, Shares};
use super::scale::Kind;
use crate::record::Measurement;

/// Load whose distribution is shown.
struct Shown {
    at: At,
    heading: String,
}

/// Position of a load among the points of a target.
#[derive(Clone, Copy, PartialEq)]
enum At {
    Rate(f64),
    /// Multiple of the target's own peak.
    Multiple(f64),
}

impl At {
    fn is(self, point: &Rate<'_>) -> bool {
        match self {
            Self::Rate(rate) => point.rate.total_cmp(&rate).is_eq(),
            Self::Multiple(multiple) => point.multiple() == Some(multiple),
        }
    }
}

/// Cumulative distribution below and above capacity.
pub(super) fn cumulative(results: &Results<'_>, entry: &Entry<'_>) -> Figure {
    let x = Axis { title: "response time, ms", kind: Kind::Log, contains: 0.0 };
    let y = Axis { title: "responses, %", contains: 100.0, ..Axis::default() };
    let mut panels = Vec::new();
    let mut rows = Vec::new();
    for variant in &entry.variants {
        for shown in shown_rates(results, variant) {
            let trials = trials_at(variant, shown.at);
            let lines: Vec<Line> =
                trials.iter().map(|(target, trial)| curve(results, *target, trial)).collect();
            for (target, trial) in &trials {
                let mut row =
                    vec![variant.name.to_owned(), results.name_of(*target).to_owned(), amount(trial.rate)];
                row.extend(SHARES.map(|share| amount_or_none(time_of(trial, share))));
                rows.push(row);
            }
            let description = format!("{}: cumulative distribution of the response time", shown.heading);
            let plot = Plot { description, x, y, lines, reference: None };
            if !plot.is_empty() {
                panels.push((shown.heading, plot.svg()));
            }
        }
    }
    Figure {
        title: "Distribution of the response time",
        note: "Share of the responses that arrived up to a time, below the capacity and, where it was measured, above it. Steps at 500 ms and its multiples come from retransmissions. Of each target the trial whose 99th percentile is the median; attempts without a response are not in it.".to_owned(),
        panels,
        table: Table {
            head: &[
                "Variant", "Target", "Offered, attempts/s", "10 % up to, ms", "25 %, ms", "50 %, ms", "75 %, ms", "90 %, ms", "95 %, ms", "99 %, ms",
            ],
            text_columns: 2,
            rows,
        },
        ..Figure::default()
    }
}

/// Response times by classes of 30 ms.
pub(super) fn classes(results: &Results<'_>, entry: &Entry<'_>) -> Figure {
    let mut panels = Vec::new();
    let mut rows = Vec::new();
    for variant in &entry.variants {
        let mut shares = Vec::new();
        for shown in shown_rates(results, variant) {
            for (target, trial) in trials_at(variant, shown.at) {
                let name = format!("{} {}/s", results.name_of(target), amount(trial.rate));
                shares.push(ShareRow { name, shares: trial.buckets30.to_vec() });
                let mut row =
                    vec![variant.name.to_owned(), results.name_of(target).to_owned(), amount(trial.rate)];
                row.extend(trial.buckets30.map(percent));
                rows.push(row);
            }
        }
        if shares.iter().any(|row| row.shares.iter().any(|share| *share > 0.0)) {
            let description = format!("{}: shares of the response times by classes of 30 ms", variant.name);
            panels
                .push((variant.name.to_owned(), Shares { description, parts: &CLASSES, rows: shares }.svg()));
        }
    }
    Figure {
        title: "Response time by classes of 30 ms",
        note: "Shares of the responses in the classes of the dissertation. Attempts without a response are not in it.".to_owned(),
        parts: &CLASSES,
        panels,
        table: Table {
            head: &[
                "Variant",
                "Target",
                "Offered, attempts/s",
                "0 to 30 ms",
                "to 60 ms",
                "to 90 ms",
                "to 120 ms",
                "to 150 ms",
                "above 150 ms",
            ],
            text_columns: 2,
            rows,
        },
        ..Figure::default()
    }
}

/// The highest multiple below each target's own peak, and the lowest one above it; without multiples the highest rate at which all targets
/// met the criterion, and the lowest one above it.
fn shown_rates(results: &Results<'_>, variant: &Variant<'_>) -> Vec<Shown> {
    let points = variant.series.iter().flat_map(|series| &series.points);
    let valid = points.filter(|point| point.valid().next().is_some());
    let multiples: Vec<f64> = valid.filter_map(|point| point.multiple()).collect();
    if !multiples.is_empty() {
        let below = multiples.iter().copied().filter(|multiple| *multiple < 1.0).reduce(f64::max);
        let above = multiples.iter().copied().filter(|multiple| *multiple > 1.0).reduce(f64::min);
        let shown = |multiple: f64| {
            let variant = if variant.name.is_empty() { String::new() } else { format!("{}: ", variant.name) };
            let heading = format!("{variant}{} × the server's own peak", amount(multiple));
            Shown { at: At::Multiple(multiple), heading }
        };
        return below.into_iter().chain(above).map(shown).collect();
    }
    let mut rates: Vec<f64> =
        variant.series.iter().flat_map(|series| &series.points).map(|point| point.rate).collect();
    rates.sort_by(f64::total_cmp);
    rates.dedup();
    let missed_at = |rate: f64| -> Vec<&str> {
        let missed = variant.series.iter().filter(|series| {
            point_at(&series.points, rate)
                .is_some_and(|point| point.valid().next().is_some() && !point.is_met())
        });
        missed.map(|series| results.name_of(series.target)).collect()
    };
    let is_valid = |rate: f64| {
        variant
            .series
            .iter()
            .any(|series| point_at(&series.points, rate).is_some_and(|point| point.valid().next().is_some()))
    };
    rates.retain(|rate| is_valid(*rate));
    let below = rates.iter().rfind(|rate| missed_at(**rate).is_empty());
    let above =
        rates.iter().find(|rate| below.is_none_or(|below| *rate > below) && !missed_at(**rate).is_empty());
    let heading = |rate: f64| {
        let missed = missed_at(rate);
        let what = if missed.is_empty() {
            "criterion met".to_owned()
        } else {
            format!("criterion missed by {}", missed.join(", "))
        };
        let variant = if variant.name.is_empty() { String::new() } else { format!("{}: ", variant.name) };
        Shown { at: At::Rate(rate), heading: format!("{variant}{}/s offered, {what}", amount(rate)) }
    };
    below.into_iter().chain(above).map(|rate| heading(*rate)).collect()
}

fn point_at<'p, 'a>(points: &'p [Rate<'a>], rate: f64) -> Option<&'p Rate<'a>> {
    points.iter().find(|point| point.rate.total_cmp(&rate).is_eq())
}

/// Of each target the valid trial whose 99th percentile is the median.
fn trials_at<'a>(variant: &Variant<'a>, at: At) -> Vec<(usize, &'a Measurement)> {
    let middle = |point: &Rate<'a>| {
        let p99 = response(|ms| ms.p99);
        let mut trials: Vec<&Measurement> =
            point.valid().filter(|trial| !trial.cdf.is_empty() && p99(trial).is_some()).collect();
        trials.sort_by(|a, b| p99(a).unwrap_or_default().total_cmp(&p99(b).unwrap_or_default()));
        trials.get(trials.len() / 2).copied()
    };
    let series = variant.series.iter();
    series
        .filter_map(|series| {
            let point = series.points.iter().find(|point| at.is(point));
            Some((series.target, point.and_then(middle)?))
        })
        .collect()
}

fn curve(results: &Results<'_>, target: usize, trial: &Measurement) -> Line {
    let points = trial.cdf.iter().take(CDF_POINTS_MAX).map(|[ms, share]| Point {
        x: *ms,
        y: share * 100.0,
        ..Point::default()
    });
    Line {
        style: target,
        label: results.name_of(target).to_owned(),
        is_curve: true,
        points: points.collect(),
        ..Line::default()
    }
}

/// Time up to which a share of the responses arrived.
fn time_of(trial: &Measurement, share: f64) -> Option<f64> {
    trial.cdf.iter().take(CDF_POINTS_MAX).find(|[_, up_to]| *up_to >= share).map(|[ms, _]| *ms)
}

const SHARES: [f64; 7] = [0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99];

const CLASSES: [&str; 6] = ["0–30 ms", "31–60 ms", "61–90 ms", "91–120 ms", "121–150 ms", "> 150 ms"];

/// Most points of a distribution that are drawn.
const CDF_POINTS_MAX: usize = 60;
