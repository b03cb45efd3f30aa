//! Highest rates at which the criterion is met.

use super::data::{Entry, Results};
use super::figure::{Figure, Key};
use super::plot::Axis;
use super::rows::{Dot, Group, Row, Rows};
use super::svg::Mark;
use super::table::Table;
use super::text::amount;
use crate::record::Peak;

/// Peaks with the trials of their search. `None` without peaks.
pub(super) fn peaks(results: &Results<'_>, entry: &Entry<'_>) -> Option<Figure> {
    entry.peaks.first()?;
    let mut groups: Vec<Group> = Vec::new();
    let mut rows = Vec::new();
    for (target, peak) in &entry.peaks {
        let name = results.name_of(*target);
        let row = row(*target, name, peak);
        match groups.iter_mut().find(|group| group.name == peak.variant) {
            Some(group) => group.rows.push(row),
            None => groups.push(Group { name: peak.variant.clone(), rows: vec![row] }),
        }
        rows.push(vec![
            peak.variant.clone(),
            name.to_owned(),
            shown(peak),
            format!("{} of {}", peak.k, peak.n),
            if peak.confirmed { "passed" } else { "not passed" }.to_owned(),
            trials_text(peak),
        ]);
    }
    let axis = Axis { title: "offered, attempts/s", ..Axis::default() };
    let description =
        "Highest rate at which each target meets the criterion, with the trials of the search".to_owned();
    let chart = Rows { description, axis, groups, reference: None };
    Some(Figure {
        title: "Peak",
        note: format!("Bars end at the highest rate that meets the criterion. {}", criteria(entry)),
        keys: vec![Key::Trial, Key::FailedTrial],
        panels: if chart.is_empty() { Vec::new() } else { vec![(String::new(), chart.svg())] },
        table: Table {
            head: &[
                "Variant",
                "Target",
                "Peak, attempts/s",
                "Trials that must pass",
                "Confirming run",
                "Trials",
            ],
            text_columns: 2,
            rows,
        },
        ..Figure::default()
    })
}

fn row(target: usize, name: &str, peak: &Peak) -> Row {
    let dots = peak.trials.iter().take(TRIALS_MAX).map(|trial| {
        let (mark, result) = if trial.passed { (Mark::Dot, "passed") } else { (Mark::Cross, "missed: ") };
        Dot {
            value: trial.rate,
            mark,
            tip: format!("{name}, {}/s: {result}{}", amount(trial.rate), trial.reason),
        }
    });
    Row {
        style: target,
        name: name.to_owned(),
        bar: (peak.rate > 0.0).then_some(peak.rate),
        dots: dots.collect(),
        label: shown(peak),
        tip: format!("{name}: {}; {} of {} trials", shown(peak), peak.k, peak.n),
        ..Row::default()
    }
}

/// Peak with its unit; a lower bound is marked.
pub(super) fn shown(peak: &Peak) -> String {
    if peak.rate > 0.0 {
        let bound = if peak.limited_by.is_empty() { "" } else { "≥ " };
        format!("{bound}{}/s", amount(peak.rate))
    } else {
        "no rate passed".to_owned()
    }
}

/// Criteria, and why some peaks are only lower bounds.
fn criteria(entry: &Entry<'_>) -> String {
    let mut texts: Vec<String> = Vec::new();
    for (_, peak) in &entry.peaks {
        if !peak.criterion.is_empty() {
            texts.push(format!("Criterion, in {} of {} trials: {}.", peak.k, peak.n, peak.criterion));
        }
    }
    for (_, peak) in &entry.peaks {
        if !peak.limited_by.is_empty() {
            texts.push(format!("{} {}: a lower bound, {}.", peak.variant, peak.target, peak.limited_by));
        }
    }
    texts.dedup();
    texts.truncate(TEXTS_MAX);
    texts.join(" ")
}

fn trials_text(peak: &Peak) -> String {
    let text = |trial: &crate::record::PeakTrial| {
        let result = if trial.passed { "passed".to_owned() } else { format!("missed ({})", trial.reason) };
        format!("{}/s {result}", amount(trial.rate))
    };
    peak.trials.iter().take(TRIALS_MAX).map(text).collect::<Vec<_>>().join("; ")
}

/// Most trials of a peak that are shown.
const TRIALS_MAX: usize = 60;

/// Most criteria that are named.
const TEXTS_MAX: usize = 12;
