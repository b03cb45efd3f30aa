//! CPU time and memory of the servers, targets beside each other.

use super::data::{Entry, Point as Rate, Results, Spread, Variant};
use super::figure::{Figure, Key};
use super::html::{Table, amount, amount_or_none, count};
use super::plot::Axis;
use super::rates::{Value, X, invalid_key, panels, rows};
use super::rows::{Dot, Group, Row, Rows};
use super::scale::Kind;
use super::svg::Mark;
use crate::campaign::compare::{FACTOR_CPU, FACTOR_RESPONSE, PEAK};
use crate::load::percentile_name;
use crate::record::{Comparison, Idle, Measurement};

/// CPU time for each attempt over the rate, and beside each other at the highest common rate.
pub(super) fn cpu(results: &Results<'_>, entry: &Entry<'_>) -> Figure {
    let value = Value {
        of: |trial| trial.server_cpu_us,
        text: |us| format!("{} µs of CPU time for each attempt", amount(us)),
    };
    let y = Axis { title: "server CPU time, µs for each attempt", ..Axis::default() };
    let has_rates =
        entry.variants.iter().flat_map(|variant| &variant.series).any(|series| series.points.len() > 1);
    let x = X::of(entry).axis(entry);
    let mut panels = if has_rates { panels(results, entry, x, y, value, None) } else { Vec::new() };
    let beside = beside(results, entry);
    if !beside.is_empty() {
        let heading = if has_rates { "beside each other, at one rate" } else { "" };
        panels.push((heading.to_owned(), beside.svg()));
    }
    let mut keys = vec![Key::Trial, Key::Interval("95 % interval, or range of fewer than 6 trials")];
    keys.extend(invalid_key(entry));
    Figure {
        title: "CPU time of the server for each attempt",
        note: "Bars are medians, dots the trials. The interval is the 95 % confidence interval of the median (sign test); with fewer than 6 trials, which cannot give it, it is the range of the trials. CPU time for each attempt falls as the rate rises: only values at the same rate are compared, the highest one at which all targets met the criterion.".to_owned(),
        keys,
        panels,
        table: cpu_table(results, entry),
        ..Figure::default()
    }
}

fn beside(results: &Results<'_>, entry: &Entry<'_>) -> Rows {
    let group = |variant: &Variant<'_>| {
        let rate = common_rate(variant)?;
        let rows = variant.series.iter().filter_map(|series| {
            let point = series.points.iter().find(|point| point.rate.total_cmp(&rate).is_eq())?;
            let spread = point.spread(|trial| trial.server_cpu_us)?;
            let name = results.name_of(series.target);
            let dots = point.trials.iter().filter_map(|trial| {
                let value = trial.server_cpu_us?;
                let mark = if trial.valid { Mark::Dot } else { Mark::Invalid };
                Some(Dot {
                    value, mark, tip: format!("{name}, trial {}: {} µs", trial.trial, amount(value))
                })
            });
            Some(Row {
                style: series.target,
                name: name.to_owned(),
                bar: Some(spread.median),
                interval: spread.interval(),
                dots: dots.collect(),
                label: format!("{} µs", amount(spread.median)),
                tip: format!("{name}: median {} µs of {} trials", amount(spread.median), spread.n),
            })
        });
        let name = if variant.name.is_empty() { String::new() } else { format!("{}, ", variant.name) };
        Some(Group { name: format!("{name}{}/s offered", amount(rate)), rows: rows.collect() })
    };
    let axis = Axis { title: "server CPU time, µs for each attempt", ..Axis::default() };
    let description = "Server CPU time for each attempt, targets beside each other".to_owned();
    Rows { description, axis, groups: entry.variants.iter().filter_map(group).collect(), reference: None }
}

/// Highest rate at which every target has a valid CPU time, if possible one at which the criterion was met.
pub(super) fn common_rate(variant: &Variant<'_>) -> Option<f64> {
    let has = |rate: f64, accept: &dyn Fn(&Rate<'_>) -> bool| {
        variant.series.iter().all(|series| {
            let mut at = series.points.iter().filter(|point| point.rate.total_cmp(&rate).is_eq());
            at.any(|point| point.spread(|trial| trial.server_cpu_us).is_some() && accept(point))
        })
    };
    let rates = || {
        variant
            .series
            .first()
            .into_iter()
            .flat_map(|series| series.points.iter().rev())
            .map(|point| point.rate)
    };
    rates()
        .find(|rate| has(*rate, &|point| point.is_met()))
        .or_else(|| rates().find(|rate| has(*rate, &|_| true)))
}

fn cpu_table(results: &Results<'_>, entry: &Entry<'_>) -> Table {
    let row = |point: &Rate<'_>| {
        let cpu = point.spread(|trial| trial.server_cpu_us)?;
        let memory = point.spread(|trial| trial.server_memory_kb.map(|kb| kb as f64));
        let interval = cpu
            .confidence
            .map_or_else(|| "–".to_owned(), |(low, high)| format!("{} to {}", amount(low), amount(high)));
        let others = point.spread(|trial| Some(trial.others_share * 100.0));
        let text = |spread: Option<Spread>| amount_or_none(spread.map(|spread| spread.median));
        Some(vec![
            cpu.n.to_string(),
            amount(cpu.median),
            amount(cpu.low),
            amount(cpu.high),
            interval,
            text(memory),
            text(others),
        ])
    };
    Table {
        head: &[
            "Variant",
            "Target",
            "Offered, attempts/s",
            "Valid trials",
            "CPU median, µs",
            "Minimum, µs",
            "Maximum, µs",
            "95 % interval of the median, µs",
            "Memory of the server, kB",
            "Processor used by other programs, %",
        ],
        text_columns: 2,
        rows: rows(results, entry, row),
    }
}

/// Ratios of two targets or variants with their confidence intervals. `None` without comparisons.
pub(super) fn ratios(entry: &Entry<'_>) -> Option<Figure> {
    let usable: Vec<&Comparison> = entry.comparisons.iter().copied().filter(|one| one.ratio > 0.0).collect();
    let mut metrics: Vec<&str> = Vec::new();
    for comparison in &usable {
        if !metrics.contains(&comparison.metric.as_str()) {
            metrics.push(&comparison.metric);
        }
    }
    let panel = |name: &&str| {
        let of_metric = usable.iter().copied().filter(|comparison| comparison.metric == **name);
        let rows = ratio_rows(of_metric);
        (!rows.is_empty()).then(|| (metric(name).0.to_owned(), rows.svg()))
    };
    let panels: Vec<(String, String)> = metrics.iter().take(METRICS_MAX).filter_map(panel).collect();
    let table = ratio_table(&usable);
    (!panels.is_empty()).then(|| Figure {
        title: "Ratios",
        note: "The first named divided by the second: of times, below 1 the first one needs less; of peaks, above 1 it does more. The line is the 95 % confidence interval of the ratio of the medians (resampling); two servers differ if it does not contain 1. Only trials that met the criterion.".to_owned(),
        is_neutral: true,
        keys: vec![Key::Reference("1: no difference"), Key::Interval("95 % interval")],
        panels,
        table,
        ..Figure::default()
    })
}

/// Rows of a metric: a group for each variant and pair, a row for each rate.
fn ratio_rows<'c>(comparisons: impl Iterator<Item = &'c Comparison>) -> Rows {
    let mut groups: Vec<Group> = Vec::new();
    for comparison in comparisons.take(RATIOS_MAX) {
        let variant =
            if comparison.variant.is_empty() { String::new() } else { format!("{}: ", comparison.variant) };
        let heading = format!("{variant}{} / {}", comparison.a, comparison.b);
        let interval = comparison.ci_low.zip(comparison.ci_high);
        let ratio = amount(comparison.ratio);
        let (label, tip) = match interval {
            Some((low, high)) => {
                let (low, high) = (amount(low), amount(high));
                (format!("{ratio} ({low}–{high})"), format!("{ratio}, 95 % interval {low} to {high}"))
            }
            None => (ratio.clone(), format!("{ratio}, no interval with {} trials", comparison.n)),
        };
        let name =
            if comparison.rate > 0.0 { format!("{}/s", amount(comparison.rate)) } else { String::new() };
        let dots = vec![Dot { value: comparison.ratio, mark: Mark::Target(3), tip }];
        let row = Row { style: NEUTRAL, name, interval, dots, label, ..Row::default() };
        match groups.iter_mut().find(|group| group.name == heading) {
            Some(group) => group.rows.push(row),
            None => groups.push(Group { name: heading, rows: vec![row] }),
        }
    }
    let axis = Axis { title: "ratio", contains: 1.0, ..Axis::default() };
    let description = "Ratios with their 95 % confidence intervals".to_owned();
    Rows { description, axis, groups, reference: Some(1.0) }
}

fn ratio_table(comparisons: &[&Comparison]) -> Table {
    let row = |comparison: &&Comparison| {
        let (name, unit) = metric(&comparison.metric);
        vec![
            comparison.variant.clone(),
            name.to_owned(),
            comparison.a.clone(),
            comparison.b.clone(),
            amount(comparison.rate),
            format!("{} {unit}", amount(comparison.median_a)),
            format!("{} {unit}", amount(comparison.median_b)),
            amount(comparison.ratio),
            amount_or_none(comparison.ci_low),
            amount_or_none(comparison.ci_high),
            comparison.n.to_string(),
        ]
    };
    Table {
        head: &[
            "Variant",
            "Value",
            "First",
            "Second",
            "Offered, attempts/s",
            "Median of the first",
            "Median of the second",
            "Ratio",
            "Interval from",
            "Interval to",
            "Trials of each",
        ],
        text_columns: 4,
        rows: comparisons.iter().map(row).collect(),
    }
}

/// Name and unit of a compared value.
fn metric(name: &str) -> (&str, &'static str) {
    match name {
        "server_cpu_us" => ("server CPU time for each attempt", "µs"),
        "response_p99_ms" => ("99th percentile of the response time", "ms"),
        PEAK => ("peak", "attempts/s"),
        FACTOR_CPU => ("server CPU time over the plain case", "µs"),
        FACTOR_RESPONSE => ("median response time over the plain case", "ms"),
        other => (other, ""),
    }
}

/// Percentiles of the response time, targets beside each other.
pub(super) fn percentiles(results: &Results<'_>, entry: &Entry<'_>) -> Figure {
    let group = |variant: &Variant<'_>| {
        let rows = variant
            .series
            .iter()
            .flat_map(|series| series.points.iter().map(move |point| (series.target, point)));
        let rows = rows.filter_map(|(target, point)| {
            let at = |of: fn(&crate::record::Percentiles) -> f64| {
                point.spread(super::data::response(of)).map(|spread| spread.median)
            };
            let name = results.name_of(target);
            let values: [(f64, Option<f64>); 4] = [
                (50.0, at(|ms| ms.p50)),
                (90.0, at(|ms| ms.p90)),
                (99.0, at(|ms| ms.p99)),
                (99.9, at(|ms| ms.p999)),
            ];
            let dots = values.iter().filter_map(|(percentile, value)| {
                let value = (*value)?;
                let mark = if percentile.total_cmp(&99.0).is_eq() { Mark::Target(target) } else { Mark::Dot };
                let tip = format!("{name}: {} {} ms", percentile_name(*percentile), amount(value));
                Some(Dot { value, mark, tip })
            });
            Some(Row {
                style: target,
                name: name.to_owned(),
                interval: at(|ms| ms.p50).zip(at(|ms| ms.p999)),
                dots: dots.collect(),
                label: format!("99th percentile {} ms", amount(at(|ms| ms.p99)?)),
                ..Row::default()
            })
        });
        let rows: Vec<Row> = rows.collect();
        (!rows.is_empty()).then(|| Group { name: variant.name.to_owned(), rows })
    };
    let axis = Axis { title: "response time from the planned start, ms", kind: Kind::Log, contains: 0.0 };
    let description = "Percentiles of the response time, targets beside each other".to_owned();
    let rows = Rows {
        description,
        axis,
        groups: entry.variants.iter().filter_map(group).collect(),
        reference: None,
    };
    Figure {
        title: "Response time",
        note: "From left to right the median, the 90th, the 99th (large mark) and the 99.9th percentile: half of the responses took at most the median, 99 % of them at most the 99th percentile. Medians of the valid trials."
            .to_owned(),
        panels: if rows.is_empty() { Vec::new() } else { vec![(String::new(), rows.svg())] },
        table: super::rates::response_table(results, entry),
        ..Figure::default()
    }
}

/// Memory and CPU time of idle connections.
pub(super) fn idle(results: &Results<'_>, entry: &Entry<'_>) -> Vec<Figure> {
    let figure = |title, axis, unit: &'static str, of: fn(&Idle) -> f64| {
        let axis = Axis { title: axis, ..Axis::default() };
        let rows = idle_rows(results, entry, axis, unit, of);
        let mut keys = vec![Key::Trial];
        keys.extend(invalid_key(entry));
        Figure {
            title,
            note: "Bars are medians of the valid trials.".to_owned(),
            keys,
            panels: if rows.is_empty() { Vec::new() } else { vec![(String::new(), rows.svg())] },
            ..Figure::default()
        }
    };
    let mut figures = vec![
        figure("Memory of an idle connection", "server memory, bytes for each connection", "bytes", |idle| {
            idle.memory_bytes_each
        }),
        figure(
            "CPU time while all connections are idle",
            "server CPU time, µs in a second",
            "µs/s",
            |idle| idle.cpu_us_per_second,
        ),
        figure(
            "CPU time to open a connection",
            "server CPU time, µs for each connection and its first request",
            "µs",
            |idle| idle.cpu_us_to_open,
        ),
    ];
    if let Some(first) = figures.first_mut() {
        first.table = idle_table(results, entry);
    }
    figures
}

fn idle_rows(results: &Results<'_>, entry: &Entry<'_>, axis: Axis, unit: &str, of: fn(&Idle) -> f64) -> Rows {
    let mut groups: Vec<Group> = Vec::new();
    for variant in &entry.variants {
        for series in &variant.series {
            for point in &series.points {
                let value = |trial: &Measurement| trial.idle.as_ref().map(of);
                let (Some(connections), Some(spread)) = (connections(point), point.spread(value)) else {
                    continue;
                };
                let server = results.name_of(series.target);
                let dots = point.trials.iter().filter_map(|trial| {
                    let mark = if trial.valid { Mark::Dot } else { Mark::Invalid };
                    let value = value(trial)?;
                    Some(Dot {
                        value,
                        mark,
                        tip: format!("{server}, trial {}: {} {unit}", trial.trial, amount(value)),
                    })
                });
                let row = Row {
                    style: series.target,
                    name: server.to_owned(),
                    bar: Some(spread.median),
                    dots: dots.collect(),
                    label: format!("{} {unit}", amount(spread.median)),
                    tip: format!("{server}: median {} {unit}", amount(spread.median)),
                    ..Row::default()
                };
                let start =
                    if variant.name.is_empty() { String::new() } else { format!("{}, ", variant.name) };
                let name = format!("{start}{} connections", count(connections.into()));
                match groups.iter_mut().find(|group| group.name == name) {
                    Some(group) => group.rows.push(row),
                    None => groups.push(Group { name, rows: vec![row] }),
                }
            }
        }
    }
    Rows { description: axis.title.to_owned(), axis, groups, reference: None }
}

fn idle_table(results: &Results<'_>, entry: &Entry<'_>) -> Table {
    let row = |point: &Rate<'_>| {
        let value = |of: fn(&Idle) -> f64| {
            let spread = point.spread(|trial| trial.idle.as_ref().map(of));
            amount_or_none(spread.map(|spread| spread.median))
        };
        let valid = point.valid().count();
        let values = [
            value(|idle| idle.memory_bytes_each),
            value(|idle| idle.cpu_us_per_second),
            value(|idle| idle.cpu_us_to_open),
        ];
        let start = [count(connections(point)?.into()), valid.to_string()];
        (valid > 0).then(|| start.into_iter().chain(values).collect())
    };
    Table {
        head: &[
            "Variant",
            "Target",
            "Rate, 1/s",
            "Connections",
            "Valid trials",
            "Memory, bytes for each",
            "CPU while idle, µs/s",
            "CPU to open, µs for each",
        ],
        text_columns: 2,
        rows: rows(results, entry, row),
    }
}

fn connections(point: &Rate<'_>) -> Option<u32> {
    point.trials.iter().find_map(|trial| trial.idle.map(|idle| idle.connections))
}

/// Style that is no target's.
pub(super) const NEUTRAL: usize = 9;

/// Most rows of a chart of ratios.
const RATIOS_MAX: usize = 48;

/// Most compared values with a chart of their own.
const METRICS_MAX: usize = 4;
