//! Charts over the offered rate: achieved rate, failures, retransmissions, response time.

use super::data::{
    Entry, Point as Rate, Results, Series, Variant, failed_share, failures, response, retransmitted_share,
};
use super::figure::{Figure, Key};
use super::html::{Table, amount, amount_or_none, count, percent};
use super::plot::{Axis, Line, Plot, Point, Reference};
use super::scale::Kind;
use crate::record::{Chart, Measurement};

/// Horizontal axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum X {
    /// Offered attempts a second.
    Rate,
    /// Multiples of the peak.
    Multiple,
}

/// A value of a trial, and its text.
#[derive(Clone, Copy)]
pub(super) struct Value {
    pub(super) of: fn(&Measurement) -> Option<f64>,
    pub(super) text: fn(f64) -> String,
}

impl X {
    /// Axis of an experiment.
    pub(super) fn of(entry: &Entry<'_>) -> Self {
        let mut points = entry.points();
        let is_multiple = matches!(entry.experiment.chart, Chart::Overload | Chart::Curve);
        if is_multiple && points.any(|point| point.multiple().is_some()) {
            Self::Multiple
        } else {
            Self::Rate
        }
    }

    pub(super) fn axis(self, entry: &Entry<'_>) -> Axis {
        let (title, at): (_, fn(&Rate<'_>) -> f64) = match self {
            Self::Rate => ("offered, attempts/s", |point| point.rate),
            Self::Multiple => {
                ("offered, multiples of the peak", |point| point.multiple().unwrap_or_default())
            }
        };
        let points = entry.points();
        let (low, high) = points
            .map(at)
            .filter(|value| *value > 0.0)
            .fold((f64::INFINITY, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)));
        // Rates that multiply are spread evenly by a logarithmic axis.
        let kind = if high / low > 12.0 { Kind::Log } else { Kind::Linear };
        Axis { title, kind, contains: 0.0 }
    }

    fn at(self, point: &Rate<'_>) -> Option<f64> {
        match self {
            Self::Rate => Some(point.rate),
            Self::Multiple => point.multiple(),
        }
    }
}

/// Line of a target: a value over the rate, with invalid trials apart.
pub(super) fn line(results: &Results<'_>, series: &Series<'_>, x: X, value: Value) -> Line {
    let name = results.name_of(series.target);
    let mut points = Vec::new();
    for point in &series.points {
        let Some(at) = x.at(point) else { continue };
        let offered = format!("{name}, {}/s", amount(point.rate));
        if let Some(spread) = point.spread(value.of) {
            points.push(Point {
                x: at,
                y: spread.median,
                range: spread.range(),
                is_invalid: false,
                tip: format!("{offered}: {}", (value.text)(spread.median)),
            });
        }
        for trial in point.trials.iter().filter(|trial| !trial.valid) {
            let Some(y) = (value.of)(trial) else { continue };
            let tip = format!("{offered}: {}; not valid: {}", (value.text)(y), trial.invalid_because);
            points.push(Point { x: at, y, range: None, is_invalid: true, tip });
        }
    }
    Line { style: series.target, label: name.to_owned(), points, ..Line::default() }
}

/// Panels of a value, one for each variant, with the same vertical axis.
pub(super) fn panels(
    results: &Results<'_>,
    entry: &Entry<'_>,
    x: Axis,
    y: Axis,
    value: Value,
    reference: Option<Reference>,
) -> Vec<(String, String)> {
    let valid = entry.points().filter_map(|point| point.spread(value.of));
    let y = Axis { contains: valid.map(|spread| spread.high).fold(y.contains, f64::max), ..y };
    let panel = |variant: &Variant<'_>| {
        let lines = variant.series.iter().map(|series| line(results, series, X::of(entry), value)).collect();
        let description = format!("{}: {} against {}", variant.name, y.title, x.title);
        let plot = Plot { description, x, y, lines, reference };
        (!plot.is_empty()).then(|| (variant.name.to_owned(), plot.svg()))
    };
    entry.variants.iter().filter_map(panel).collect()
}

/// Key of invalid points, if the experiment has some.
pub(super) fn invalid_key(entry: &Entry<'_>) -> Option<Key> {
    entry.invalid().next().map(|_| Key::Invalid)
}

/// Offered against achieved rate.
pub(super) fn achieved(results: &Results<'_>, entry: &Entry<'_>) -> Figure {
    // Only axes of one kind have a straight line y = x.
    let x = Axis { kind: Kind::Linear, ..X::Rate.axis(entry) };
    let y = Axis { title: "achieved, successful attempts/s", ..Axis::default() };
    let value =
        Value { of: |trial| Some(trial.achieved), text: |rate| format!("{}/s achieved", amount(rate)) };
    let mut keys = vec![Key::Reference("y = x: every attempt succeeds")];
    keys.extend(invalid_key(entry));
    Figure {
        title: "Offered and achieved rate",
        note: "A server that keeps up is on the line y = x. Points are medians of the trials, vertical lines their range.".to_owned(),
        keys,
        panels: panels(results, entry, x, y, value, Some(Reference::Diagonal)),
        table: attempts_table(results, entry),
        ..Figure::default()
    }
}

/// Achieved rate in overload, as a share of the peak.
pub(super) fn goodput(results: &Results<'_>, entry: &Entry<'_>) -> Figure {
    let y = Axis { title: "goodput, % of the peak", contains: 100.0, ..Axis::default() };
    let value =
        Value { of: goodput_percent, text: |share| format!("goodput {} % of the peak", amount(share)) };
    let mut keys = vec![Key::Reference("100 %: the peak")];
    keys.extend(invalid_key(entry));
    Figure {
        title: "Goodput in overload",
        note: "Successful attempts a second, as a share of the peak of the same server. A server with overload control stays near 100 %.".to_owned(),
        keys,
        panels: panels(results, entry, X::Multiple.axis(entry), y, value, Some(Reference::Level(100.0))),
        table: attempts_table(results, entry),
        ..Figure::default()
    }
}

/// Goodput in percent of the peak.
pub(super) fn goodput_percent(trial: &Measurement) -> Option<f64> {
    let peak = trial.rate / trial.multiple?;
    (peak > 0.0 && peak.is_finite()).then_some(trial.achieved / peak * 100.0)
}

/// Failed attempts, and retransmissions. Without any, a figure without charts.
pub(super) fn failed(results: &Results<'_>, entry: &Entry<'_>) -> Vec<Figure> {
    let x = X::of(entry).axis(entry);
    let share = |of| Value { of, text: |percents| percent(percents / 100.0) };
    let figure = |title, axis, none: &str, note: &str, value: Value| {
        let mut trials = entry.points().flat_map(|point| &point.trials);
        let is_none = !trials.any(|trial| (value.of)(trial).is_some_and(|share| share > 0.0));
        let has_valid = entry.points().any(|point| point.valid().next().is_some());
        let y = Axis { title: axis, ..Axis::default() };
        Figure {
            title,
            is_statement: is_none && has_valid,
            note: if is_none { none } else { note }.to_owned(),
            keys: invalid_key(entry).into_iter().collect(),
            panels: if is_none { Vec::new() } else { panels(results, entry, x, y, value, None) },
            ..Figure::default()
        }
    };
    let mut failed = figure(
        "Failed attempts",
        "failed, % of the ended attempts",
        "No attempt failed.",
        "Attempts that ended with another response than the scenario expects, or with none.",
        share(|trial| failed_share(trial).map(|share| share * 100.0)),
    );
    failed.table = codes_table(results, entry);
    let retransmitted = figure(
        "Retransmissions",
        "retransmissions, % of the requests",
        "No request was retransmitted.",
        "A server can answer all attempts and be overloaded: then the callers retransmit.",
        share(|trial| retransmitted_share(trial).map(|share| share * 100.0)),
    );
    vec![failed, retransmitted]
}

/// Percentiles of the response time over the rate.
pub(super) fn response_times(results: &Results<'_>, entry: &Entry<'_>) -> Figure {
    let x = X::of(entry);
    let axis = x.axis(entry);
    let y = Axis { title: "response time from the planned start, ms", kind: Kind::Log, contains: 0.0 };
    let p99 = Value {
        of: |trial| response(|ms| ms.p99)(trial),
        text: |ms| format!("99th percentile {} ms", amount(ms)),
    };
    let p50 =
        Value { of: |trial| response(|ms| ms.p50)(trial), text: |ms| format!("median {} ms", amount(ms)) };
    let panel = |variant: &Variant<'_>| {
        let lines = variant.series.iter().flat_map(|series| {
            [(p99, "99th percentile", false), (p50, "median", true)].map(|(value, name, is_thin)| {
                let line = line(results, series, x, value);
                let label =
                    if variant.series.len() > 1 { format!("{} {name}", line.label) } else { name.to_owned() };
                Line { label, is_thin, ..line }
            })
        });
        let description =
            format!("{}: percentiles of the response time against {}", variant.name, axis.title);
        let plot = Plot { description, x: axis, y, lines: lines.collect(), reference: None };
        (!plot.is_empty()).then(|| (variant.name.to_owned(), plot.svg()))
    };
    Figure {
        title: "Response time",
        note: "Median (thin) and 99th percentile of the response time, from the planned start of an attempt to its final response. It contains every delay, also the generator's.".to_owned(),
        keys: invalid_key(entry).into_iter().collect(),
        panels: entry.variants.iter().filter_map(panel).collect(),
        table: response_table(results, entry),
        ..Figure::default()
    }
}

/// Calls `row` for each point with the beginning of its row: variant, target, rate.
pub(super) fn rows(
    results: &Results<'_>,
    entry: &Entry<'_>,
    row: impl Fn(&Rate<'_>) -> Option<Vec<String>>,
) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for variant in &entry.variants {
        for series in &variant.series {
            for point in &series.points {
                let multiple = point.multiple();
                let multiple = multiple
                    .map_or_else(String::new, |multiple| format!(" ({} × the peak)", amount(multiple)));
                let offered = format!("{}{multiple}", amount(point.rate));
                let start = [variant.name.to_owned(), results.name_of(series.target).to_owned(), offered];
                rows.extend(row(point).map(|rest| start.into_iter().chain(rest).collect()));
            }
        }
    }
    rows
}

/// Table of attempts; a point without a valid trial is not in it.
pub(super) fn attempts_table(results: &Results<'_>, entry: &Entry<'_>) -> Table {
    let value = |point: &Rate<'_>, of: &dyn Fn(&Measurement) -> Option<f64>, text: fn(f64) -> String| {
        point.spread(of).map_or_else(|| "–".to_owned(), |spread| text(spread.median))
    };
    let row = |point: &Rate<'_>| {
        let valid = point.valid().count();
        let met = point.valid().filter(|trial| trial.criterion_met == Some(true)).count();
        let missed = point.valid().find(|trial| !trial.criterion_missed.is_empty());
        let missed = missed.map_or_else(String::new, |trial| format!(": {}", trial.criterion_missed));
        (valid > 0).then(|| {
            vec![
                valid.to_string(),
                value(point, &|trial| Some(trial.seconds), amount),
                value(point, &|trial| Some(trial.achieved), amount),
                value(point, &failed_share, percent),
                value(point, &retransmitted_share, percent),
                value(point, &|trial| trial.lag_ms.map(|lag| lag.p99), amount),
                value(point, &|trial| Some(trial.generator.cpu_share), percent),
                value(point, &|trial| Some(trial.steal), percent),
                if met * 2 > valid { "met".to_owned() } else { format!("missed{missed}") },
            ]
        })
    };
    Table {
        head: &[
            "Variant",
            "Target",
            "Offered, attempts/s",
            "Valid trials",
            "Length, s",
            "Achieved, attempts/s",
            "Failed",
            "Retransmissions for each request",
            "Lag of the generator, 99th percentile, ms",
            "Processor used by the generator",
            "Steal",
            "Criterion",
        ],
        text_columns: 2,
        rows: rows(results, entry, row),
    }
}

/// Maximum number of different outcomes of a trial that are added up.
const CODES_READ_MAX: usize = 200;

fn codes_table(results: &Results<'_>, entry: &Entry<'_>) -> Table {
    let row = |point: &Rate<'_>| {
        let failed = point.valid().fold(0_u64, |sum, trial| sum.saturating_add(failures(trial)));
        let mut codes: Vec<(&str, u64)> = Vec::new();
        for (code, number) in point.valid().flat_map(|trial| trial.failures.iter().take(CODES_READ_MAX)) {
            match codes.iter_mut().find(|(known, _)| known == code) {
                Some((_, sum)) => *sum = sum.saturating_add(*number),
                None => codes.push((code, *number)),
            }
        }
        codes.sort_by_key(|(_, number)| std::cmp::Reverse(*number));
        let text: Vec<String> = codes
            .iter()
            .take(CODES_MAX)
            .map(|(code, number)| format!("{code}: {}", count(*number)))
            .collect();
        (failed > 0).then(|| vec![count(failed), text.join(", ")])
    };
    Table {
        head: &["Variant", "Target", "Offered, attempts/s", "Failed attempts", "By response or reason"],
        text_columns: 2,
        rows: rows(results, entry, row),
    }
}

/// Table of response times.
pub(super) fn response_table(results: &Results<'_>, entry: &Entry<'_>) -> Table {
    let row = |point: &Rate<'_>| {
        let value = |of: fn(&crate::record::Percentiles) -> f64| {
            amount_or_none(point.spread(response(of)).map(|spread| spread.median))
        };
        let first = point.spread(|trial| trial.first_response_ms.map(|ms| ms.p50));
        let bye = point.spread(|trial| trial.disconnect_ms.map(|ms| ms.p50));
        let service = point.spread(|trial| trial.service_ms.map(|ms| ms.p99));
        let or_none =
            |spread: Option<super::data::Spread>| amount_or_none(spread.map(|spread| spread.median));
        point.spread(response(|ms| ms.p50)).map(|_| {
            vec![
                value(|ms| ms.p50),
                value(|ms| ms.p90),
                value(|ms| ms.p99),
                value(|ms| ms.p999),
                value(|ms| ms.max),
                or_none(service),
                or_none(first),
                or_none(bye),
            ]
        })
    };
    Table {
        head: &[
            "Variant",
            "Target",
            "Offered, attempts/s",
            "Median, ms",
            "90th percentile, ms",
            "99th percentile, ms",
            "99.9th percentile, ms",
            "Maximum, ms",
            "Service time, 99th percentile, ms",
            "First response, median, ms",
            "BYE, median, ms",
        ],
        text_columns: 2,
        rows: rows(results, entry, row),
    }
}

/// Most codes of failures that are listed for a point.
const CODES_MAX: usize = 6;
