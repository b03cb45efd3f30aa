//! Numbers of the documents beside those of the campaign: shape against shape.

use super::cost::{NEUTRAL, common_rate};
use super::data::{Entry, Results, Variant};
use super::figure::{Figure, Key};
use super::html::{Table, amount};
use super::plot::Axis;
use super::rows::{Dot, Group, Row, Rows};
use super::svg::Mark;
use crate::documents::{Documents, Ratio};

/// Ratios of variants, of the documents and of each target; values of the documents. Nothing without any of this experiment.
pub(super) fn beside(results: &Results<'_>, entry: &Entry<'_>) -> Vec<Figure> {
    // A test reads them.
    let Ok(documents) = Documents::shipped() else { return Vec::new() };
    let name = &entry.experiment.experiment;
    let mut groups = Vec::new();
    let mut rows = Vec::new();
    for ratio in documents.ratios.iter().filter(|ratio| ratio.experiment == *name) {
        let mut group = vec![document_row(ratio)];
        let printed = range(ratio);
        let heading = format!("{} / {}", ratio.of, ratio.to);
        let start =
            |who: &str, value: String| vec![ratio.of.clone(), ratio.to.clone(), who.to_owned(), value];
        rows.push([start(&ratio.document, printed), vec![ratio.note.clone()]].concat());
        for target in entry.shown_targets() {
            let Some((own, source)) = own(entry, target, ratio) else { continue };
            let name = results.name_of(target);
            group.push(Row {
                style: target,
                name: name.to_owned(),
                dots: vec![Dot {
                    value: own,
                    mark: Mark::Target(target),
                    tip: format!("{name}: {}", amount(own)),
                }],
                label: amount(own),
                ..Row::default()
            });
            rows.push([start(name, amount(own)), vec![source.to_owned()]].concat());
        }
        if group.len() > 1 {
            groups.push(Group { name: heading, rows: group });
        }
    }
    let axis = Axis { title: "throughput, ratio of the variants", contains: 1.0, ..Axis::default() };
    let description = "Ratios of variants, of the documents and of the targets".to_owned();
    let chart = Rows { description, axis, groups, reference: Some(1.0) };
    let values = documents.values.iter().filter(|value| value.experiment == *name).map(|value| {
        let printed = format!("{} {}", amount(value.value), value.unit);
        vec![value.variant.clone(), value.document.clone(), printed, value.note.clone()]
    });
    let ratios = Figure {
        title: "Beside the documents",
        note: "The documents measured other servers on old machines: their shape is compared, the throughput of a variant divided by that of another one. Ours are ratios of the peaks, or without peaks of the CPU time for each attempt."
            .to_owned(),
        is_neutral: true,
        keys: vec![Key::Reference("1: no difference"), Key::Interval("range of the document")],
        panels: if chart.is_empty() { Vec::new() } else { vec![(String::new(), chart.svg())] },
        table: Table { head: &["Variant", "Divided by", "Of", "Ratio", "Source"], text_columns: 3, rows },
        ..Figure::default()
    };
    let values = Figure {
        title: "Values of the documents",
        note: "As printed, on the machines of the documents.".to_owned(),
        table: Table {
            head: &["Variant", "Document", "Value", "Conditions"],
            text_columns: 4,
            rows: values.collect(),
        },
        ..Figure::default()
    };
    vec![ratios, values]
}

fn document_row(ratio: &Ratio) -> Row {
    let middle = (ratio.low + ratio.high) / 2.0;
    Row {
        style: NEUTRAL,
        name: ratio.document.clone(),
        interval: Some((ratio.low, ratio.high)),
        dots: vec![Dot { value: middle, mark: Mark::Dot, tip: ratio.note.clone() }],
        label: range(ratio),
        ..Row::default()
    }
}

fn range(ratio: &Ratio) -> String {
    match ratio.low.total_cmp(&ratio.high).is_eq() {
        true => amount(ratio.low),
        false => format!("{} to {}", amount(ratio.low), amount(ratio.high)),
    }
}

/// Ratio of a target and its source.
fn own(entry: &Entry<'_>, target: usize, ratio: &Ratio) -> Option<(f64, &'static str)> {
    let peak = |variant: &str| {
        let found = entry.peaks.iter().find(|(of, peak)| *of == target && peak.variant == variant);
        found.map(|(_, peak)| peak.rate).filter(|rate| *rate > 0.0)
    };
    if let (Some(of), Some(to)) = (peak(&ratio.of), peak(&ratio.to)) {
        return Some((of / to, "peaks"));
    }
    let variant = |name: &str| entry.variants.iter().find(|variant| variant.name == name);
    let (of, to) = (variant(&ratio.of)?, variant(&ratio.to)?);
    let rate = common_rate(of)?.min(common_rate(to)?);
    let cpu = |variant: &Variant<'_>| {
        let series = variant.series.iter().find(|series| series.target == target)?;
        let point = series.points.iter().find(|point| point.rate.total_cmp(&rate).is_eq())?;
        Some(point.spread(|trial| trial.server_cpu_us)?.median).filter(|us| *us > 0.0)
    };
    Some((cpu(to)? / cpu(of)?, "CPU time for each attempt"))
}
