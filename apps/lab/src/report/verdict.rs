//! The result of an experiment in words: one line over all variants, and a line for each variant.

use super::cost::common_rate;
use super::data::{Entry, Results, Series, Variant, response};
use super::html::{amount, count};
use super::peak::shown;
use super::rates::goodput_percent;
use crate::record::{Chart, Comparison, Idle, NOT_AVAILABLE};

/// The result of an experiment in one line: of several variants the ranges.
pub(super) fn line(results: &Results<'_>, entry: &Entry<'_>) -> String {
    let mut details = details(results, entry);
    let mut line = match (details.len(), details.pop()) {
        (0, _) => match entry.invalid().count() {
            0 => "no valid result".to_owned(),
            trials => format!("no valid result ({trials} trials not valid)"),
        },
        (1, Some(only)) => only,
        (count, _) => {
            let ranges = ranges(results, entry).unwrap_or_else(|| "results below".to_owned());
            format!("{ranges} ({count} variants)")
        }
    };
    let missing = entry.failed.iter().filter(|failed| failed.error.starts_with(NOT_AVAILABLE)).count();
    match entry.failed.len() - missing {
        0 => {}
        1 => line.push_str("; 1 part failed"),
        failed => line.push_str(&format!("; {failed} parts failed")),
    }
    if missing > 0 {
        line.push_str(&format!("; {missing} not available"));
    }
    line
}

/// The result of each variant.
pub(super) fn details(results: &Results<'_>, entry: &Entry<'_>) -> Vec<String> {
    match entry.experiment.chart {
        Chart::Rates => variants(entry, |variant| rates(results, entry, variant)),
        Chart::Compare => variants(entry, |variant| compare(results, entry, variant)),
        Chart::Peak | Chart::Curve => peaks(results, entry),
        Chart::Overload => variants(entry, |variant| overload(results, variant)),
        Chart::Idle => variants(entry, |variant| idle(results, variant)),
    }
}

fn variants(entry: &Entry<'_>, text: impl Fn(&Variant<'_>) -> Option<String>) -> Vec<String> {
    let with_name = |variant: &Variant<'_>| Some(named(variant.name, text(variant)?));
    entry.variants.iter().filter_map(with_name).collect()
}

fn named(variant: &str, text: String) -> String {
    if variant.is_empty() { text } else { format!("{variant}: {text}") }
}

/// The ranges of the results over all variants.
fn ranges(results: &Results<'_>, entry: &Entry<'_>) -> Option<String> {
    let range = |value: &dyn Fn(&Variant<'_>, &Series<'_>) -> Option<f64>, unit: &str| {
        let of_target = |target: usize| {
            let values = entry.variants.iter().filter_map(|variant| {
                let series = variant.series.iter().find(|series| series.target == target)?;
                value(variant, series)
            });
            Some(format!("{} {}", results.name_of(target), range_text(values, unit)?))
        };
        let texts: Vec<String> = entry.shown_targets().into_iter().filter_map(of_target).collect();
        (!texts.is_empty()).then(|| texts.join(", "))
    };
    let cpu = || cpu_ratios(results, entry).map_or_else(String::new, |text| format!("; {text}"));
    Some(match entry.experiment.chart {
        Chart::Rates => {
            let met = range(&|_, series| highest_met(series).map(|rate| rate.unwrap_or_default()), "/s")?;
            format!("criterion met up to: {met}{}", cpu())
        }
        Chart::Compare => {
            let text = range(&|variant, series| cpu_at(series, common_rate(variant)?), " µs")?;
            format!("server CPU time for each attempt: {text}{}", cpu())
        }
        Chart::Peak | Chart::Curve => {
            let of_target = |target: usize| {
                let peaks = entry.peaks.iter().filter(|(of, _)| *of == target);
                Some(format!(
                    "{} {}",
                    results.name_of(target),
                    range_text(peaks.map(|(_, peak)| peak.rate), "/s")?
                ))
            };
            let texts: Vec<String> = entry.shown_targets().into_iter().filter_map(of_target).collect();
            format!("peak: {}", texts.join(", "))
        }
        Chart::Overload => {
            let highest = entry.variants.iter().filter_map(highest_multiple).reduce(f64::max)?;
            let text = range(&|_, series| goodput_at(series, highest), " %")?;
            format!("goodput at {} × the peak, of the peak: {text}", amount(highest))
        }
        Chart::Idle => {
            let memory = range(&|_, series| idle_at(series).map(|idle| idle.memory_bytes_each), " bytes")?;
            format!("memory of a connection: {memory}")
        }
    })
}

/// Lowest and highest of the values with their unit.
fn range_text(values: impl Iterator<Item = f64>, unit: &str) -> Option<String> {
    let spread = super::data::Spread::of(values)?;
    let (low, high) = (amount(spread.low), amount(spread.high));
    Some(if low == high { format!("{low}{unit}") } else { format!("{low} to {high}{unit}") })
}

/// CPU time for each attempt of the other targets in relation to the first one, over all variants.
fn cpu_ratios(results: &Results<'_>, entry: &Entry<'_>) -> Option<String> {
    let targets = entry.shown_targets();
    let (first, others) = targets.split_first()?;
    let of = |variant: &Variant<'_>, target: usize| {
        let series = variant.series.iter().find(|series| series.target == target)?;
        cpu_at(series, common_rate(variant)?)
    };
    let text = |other: &usize| {
        let ratios =
            entry.variants.iter().filter_map(|variant| Some(of(variant, *other)? / of(variant, *first)?));
        Some(format!("{} {}", results.name_of(*other), range_text(ratios, " ×")?))
    };
    let texts: Vec<String> = others.iter().filter_map(text).collect();
    (!texts.is_empty())
        .then(|| format!("server CPU time in relation to {}: {}", results.name_of(*first), texts.join(", ")))
}

/// Median CPU time for each attempt at a rate.
fn cpu_at(series: &Series<'_>, rate: f64) -> Option<f64> {
    let point = series.points.iter().find(|point| point.rate.total_cmp(&rate).is_eq())?;
    Some(point.spread(|trial| trial.server_cpu_us)?.median)
}

/// Highest rate at which the criterion was met; `Some(None)` if at none, `None` without a valid trial.
fn highest_met(series: &Series<'_>) -> Option<Option<f64>> {
    let mut valid = series.points.iter().filter(|point| point.valid().next().is_some()).peekable();
    valid.peek()?;
    Some(valid.rfind(|point| point.is_met()).map(|point| point.rate))
}

/// Text of each target that has one.
fn targets(
    results: &Results<'_>,
    variant: &Variant<'_>,
    text: impl Fn(&Series<'_>) -> Option<String>,
) -> Option<String> {
    let text = |series: &Series<'_>| Some(format!("{} {}", results.name_of(series.target), text(series)?));
    let texts: Vec<String> = variant.series.iter().filter_map(text).collect();
    (!texts.is_empty()).then(|| texts.join(", "))
}

fn rates(results: &Results<'_>, entry: &Entry<'_>, variant: &Variant<'_>) -> Option<String> {
    let met = targets(results, variant, |series| {
        let highest = highest_met(series)?;
        Some(highest.map_or_else(|| "at no rate".to_owned(), |rate| format!("up to {}/s", amount(rate))))
    })?;
    let cpu = cpu(results, entry, variant).map_or_else(String::new, |text| format!("; {text}"));
    Some(format!("criterion met by {met}{cpu}"))
}

fn compare(results: &Results<'_>, entry: &Entry<'_>, variant: &Variant<'_>) -> Option<String> {
    cpu(results, entry, variant).or_else(|| {
        let text = targets(results, variant, |series| {
            let point = series.points.iter().rfind(|point| point.valid().next().is_some())?;
            let p99 = point.spread(response(|ms| ms.p99))?;
            Some(format!("{} ms at {}/s", amount(p99.median), amount(point.rate)))
        })?;
        Some(format!("99th percentile of the response time: {text}"))
    })
}

fn cpu(results: &Results<'_>, entry: &Entry<'_>, variant: &Variant<'_>) -> Option<String> {
    let rate = common_rate(variant)?;
    let text = targets(results, variant, |series| Some(format!("{} µs", amount(cpu_at(series, rate)?))))?;
    let is_ratio = |comparison: &&&Comparison| {
        let is_load = comparison.variant == variant.name && comparison.rate.total_cmp(&rate).is_eq();
        comparison.metric == "server_cpu_us" && is_load
    };
    let ratio = entry.comparisons.iter().find(is_ratio);
    let ratio = ratio.map_or_else(String::new, |comparison| format!(" ({})", ratio_text(comparison)));
    Some(format!("server CPU time for each attempt at {}/s: {text}{ratio}", amount(rate)))
}

fn ratio_text(comparison: &Comparison) -> String {
    let interval = match comparison.ci_low.zip(comparison.ci_high) {
        Some((low, high)) => format!(", 95 % interval {} to {}", amount(low), amount(high)),
        None => String::new(),
    };
    format!("{} / {}: {} ×{interval}", comparison.a, comparison.b, amount(comparison.ratio))
}

fn peaks(results: &Results<'_>, entry: &Entry<'_>) -> Vec<String> {
    let mut parts: Vec<(&str, Vec<String>)> = Vec::new();
    for (target, peak) in &entry.peaks {
        let text = format!("{} {}", results.name_of(*target), shown(peak));
        match parts.iter_mut().find(|(variant, _)| *variant == peak.variant) {
            Some((_, texts)) => texts.push(text),
            None => parts.push((&peak.variant, vec![text])),
        }
    }
    parts.into_iter().map(|(variant, texts)| named(variant, texts.join(", "))).collect()
}

/// Highest multiple of the peak at which every target has a valid trial, or else at which one has.
fn highest_multiple(variant: &Variant<'_>) -> Option<f64> {
    let points = variant.series.iter().flat_map(|series| &series.points);
    let multiples =
        points.filter(|point| point.valid().next().is_some()).filter_map(|point| point.multiple());
    let is_common =
        |multiple: &f64| variant.series.iter().all(|series| goodput_at(series, *multiple).is_some());
    multiples.clone().filter(is_common).reduce(f64::max).or_else(|| multiples.reduce(f64::max))
}

fn goodput_at(series: &Series<'_>, multiple: f64) -> Option<f64> {
    let point = series.points.iter().find(|point| point.multiple() == Some(multiple))?;
    Some(point.spread(goodput_percent)?.median)
}

fn overload(results: &Results<'_>, variant: &Variant<'_>) -> Option<String> {
    let highest = highest_multiple(variant)?;
    let text =
        targets(results, variant, |series| Some(format!("{} %", amount(goodput_at(series, highest)?))))?;
    Some(format!("goodput at {} × the peak: {text} of the peak", amount(highest)))
}

/// Medians at the highest number of idle connections.
fn idle_at(series: &Series<'_>) -> Option<Idle> {
    let connections = |point: &&super::data::Point<'_>| {
        point.valid().find_map(|trial| trial.idle).map(|idle| idle.connections)
    };
    let point = series.points.iter().max_by_key(connections)?;
    let median = |of: fn(&Idle) -> f64| Some(point.spread(|trial| trial.idle.as_ref().map(of))?.median);
    Some(Idle {
        connections: connections(&point)?,
        memory_bytes_each: median(|idle| idle.memory_bytes_each)?,
        cpu_us_per_second: median(|idle| idle.cpu_us_per_second)?,
        cpu_us_to_open: median(|idle| idle.cpu_us_to_open)?,
    })
}

fn idle(results: &Results<'_>, variant: &Variant<'_>) -> Option<String> {
    targets(results, variant, |series| {
        let idle = idle_at(series)?;
        Some(format!(
            "{} bytes for each of {} connections, {} µs of CPU time a second",
            amount(idle.memory_bytes_each),
            count(idle.connections.into()),
            amount(idle.cpu_us_per_second)
        ))
    })
}
