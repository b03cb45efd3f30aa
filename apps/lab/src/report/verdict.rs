//! The result of an experiment in one line.

use super::cost::common_rate;
use super::data::{Entry, Results, Series, Variant, response};
use super::peak::shown;
use super::rates::goodput_percent;
use super::text::{amount, count};
use crate::record::{Chart, Comparison};

/// The result of an experiment in one line.
pub(super) fn line(results: &Results<'_>, entry: &Entry<'_>) -> String {
    let mut parts: Vec<String> = match entry.experiment.chart {
        Chart::Rates => variants(entry, |variant| rates(results, entry, variant)),
        Chart::Compare => variants(entry, |variant| compare(results, entry, variant)),
        Chart::Peak => peaks(results, entry),
        Chart::Overload => variants(entry, |variant| overload(results, variant)),
        Chart::Idle => variants(entry, |variant| idle(results, variant)),
    };
    if parts.is_empty() {
        parts.push("no valid result".to_owned());
    }
    let more = parts.len().saturating_sub(PARTS_MAX);
    parts.truncate(PARTS_MAX);
    if more > 0 {
        parts.push(format!("{more} variants more below"));
    }
    match entry.failed.len() {
        0 => {}
        1 => parts.push("1 part failed".to_owned()),
        failed => parts.push(format!("{failed} parts failed")),
    }
    parts.join("; ")
}

fn variants(entry: &Entry<'_>, text: impl Fn(&Variant<'_>) -> Option<String>) -> Vec<String> {
    let with_name = |variant: &Variant<'_>| {
        let text = text(variant)?;
        Some(if variant.name.is_empty() { text } else { format!("{}: {text}", variant.name) })
    };
    entry.variants.iter().filter_map(with_name).collect()
}

/// Text of each target that has one.
fn targets(
    results: &Results<'_>,
    variant: &Variant<'_>,
    text: impl Fn(&Series<'_>) -> Option<String>,
) -> Option<String> {
    let texts: Vec<String> = variant
        .series
        .iter()
        .filter_map(|series| Some(format!("{} {}", results.name_of(series.target), text(series)?)))
        .collect();
    (!texts.is_empty()).then(|| texts.join(", "))
}

fn rates(results: &Results<'_>, entry: &Entry<'_>, variant: &Variant<'_>) -> Option<String> {
    let met = targets(results, variant, |series| {
        series.points.iter().any(|point| point.valid().next().is_some()).then_some(())?;
        let highest = series.points.iter().rfind(|point| point.valid().next().is_some() && point.is_met());
        Some(
            highest
                .map_or_else(|| "at no rate".to_owned(), |point| format!("up to {}/s", amount(point.rate))),
        )
    })?;
    let cpu = compare(results, entry, variant).map_or_else(String::new, |text| format!("; {text}"));
    Some(format!("criterion met by {met}{cpu}"))
}

fn compare(results: &Results<'_>, entry: &Entry<'_>, variant: &Variant<'_>) -> Option<String> {
    let at_rate = |rate: f64, series: &Series<'_>| {
        series.points.iter().position(|point| point.rate.total_cmp(&rate).is_eq())
    };
    if let Some(rate) = common_rate(variant) {
        let text = targets(results, variant, |series| {
            let point = series.points.get(at_rate(rate, series)?)?;
            Some(format!("{} µs", amount(point.spread(|trial| trial.server_cpu_us)?.median)))
        })?;
        let ratio = entry
            .comparisons
            .iter()
            .find(|comparison| comparison.metric == "server_cpu_us" && comparison.variant == variant.name);
        let ratio = ratio.map_or_else(String::new, |comparison| format!(" ({})", ratio_text(comparison)));
        return Some(format!("server CPU time for each attempt at {}/s: {text}{ratio}", amount(rate)));
    }
    let text = targets(results, variant, |series| {
        let point = series.points.iter().rfind(|point| point.valid().next().is_some())?;
        Some(format!(
            "{} ms at {}/s",
            amount(point.spread(response(|ms| ms.p99))?.median),
            amount(point.rate)
        ))
    })?;
    Some(format!("p99 of the response time: {text}"))
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
        let text = format!("{} {} ({} of {} trials)", results.name_of(*target), shown(peak), peak.k, peak.n);
        match parts.iter_mut().find(|(variant, _)| *variant == peak.variant) {
            Some((_, texts)) => texts.push(text),
            None => parts.push((&peak.variant, vec![text])),
        }
    }
    let part = |(variant, texts): (&str, Vec<String>)| {
        let texts = texts.join(", ");
        if variant.is_empty() { texts } else { format!("{variant}: {texts}") }
    };
    parts.into_iter().map(part).collect()
}

fn overload(results: &Results<'_>, variant: &Variant<'_>) -> Option<String> {
    let highest = variant.series.iter().flat_map(|series| &series.points);
    let highest = highest
        .filter(|point| point.valid().next().is_some())
        .filter_map(|point| point.multiple())
        .reduce(f64::max)?;
    let text = targets(results, variant, |series| {
        let point = series.points.iter().find(|point| point.multiple() == Some(highest))?;
        Some(format!("{} %", amount(point.spread(goodput_percent)?.median)))
    })?;
    Some(format!("goodput at {} × the peak: {text} of the peak", amount(highest)))
}

fn idle(results: &Results<'_>, variant: &Variant<'_>) -> Option<String> {
    targets(results, variant, |series| {
        let point = series.points.iter().rfind(|point| point.valid().any(|trial| trial.idle.is_some()))?;
        let memory = point.spread(|trial| trial.idle.map(|idle| idle.memory_bytes_each))?;
        let cpu = point.spread(|trial| trial.idle.map(|idle| idle.cpu_us_per_second))?;
        let connections = point.valid().find_map(|trial| trial.idle)?.connections;
        Some(format!(
            "{} bytes for each of {} connections, {} µs of CPU time a second",
            amount(memory.median),
            count(connections.into()),
            amount(cpu.median)
        ))
    })
}

/// Most variants in a line.
const PARTS_MAX: usize = 4;
