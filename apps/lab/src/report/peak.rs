//! Highest rates at which the criterion is met.

use super::data::{Entry, Results};
use super::figure::{Figure, Key};
use super::html::{Table, amount};
use super::plot::Axis;
use super::rows::{Dot, Group, Row, Rows};
use super::svg::Mark;
use crate::record::{Peak, PeakTrial};

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
            if peak.highest_achieved > 0.0 { amount(peak.highest_achieved) } else { "–".to_owned() },
            format!("{} of {}", peak.k, peak.n),
            confirmation(peak).to_owned(),
            trials_text(peak),
        ]);
    }
    let axis = Axis { title: "offered, attempts/s", ..Axis::default() };
    let description =
        "Highest rate at which each target meets the criterion, with the trials of the search".to_owned();
    let mut keys = vec![Key::Trial, Key::FailedTrial];
    let mut trials = entry.peaks.iter().flat_map(|(_, peak)| &peak.trials);
    keys.extend(trials.any(|trial| trial.invalid).then_some(Key::Invalid));
    let chart = Rows { description, axis, groups, reference: None };
    Some(Figure {
        title: "Peak",
        note: format!(
            "Bars end at the highest rate that meets the criterion, the sustained one; the highest achieved rate is that of any valid trial. {}",
            criteria(entry)
        ),
        keys,
        panels: if chart.is_empty() { Vec::new() } else { vec![(String::new(), chart.svg())] },
        table: Table {
            head: &[
                "Variant",
                "Target",
                "Peak, attempts/s",
                "Highest achieved rate, attempts/s",
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
        let (mark, result) = match (trial.passed, trial.invalid) {
            (true, _) if trial.reason.is_empty() => (Mark::Dot, "passed"),
            (true, _) => (Mark::Dot, "passed, although "),
            (false, true) => (Mark::Invalid, "not valid: "),
            (false, false) => (Mark::Cross, "missed: "),
        };
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

/// Result of the confirming run.
fn confirmation(peak: &Peak) -> &'static str {
    match (peak.confirmed, peak.trials.last()) {
        (true, _) => "passed",
        (false, Some(PeakTrial { invalid: true, .. })) => "not valid",
        (false, _) => "not passed",
    }
}

/// Peak with its unit; a lower bound is marked.
pub(super) fn shown(peak: &Peak) -> String {
    if peak.rate > 0.0 {
        let bound = if peak.limited_by.is_empty() { "" } else { "≥ " };
        format!("{bound}{}/s", amount(peak.rate))
    } else if peak.limited_by.is_empty() {
        "no rate passed".to_owned()
    } else {
        "no valid trial of the lowest rate".to_owned()
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
    let text = |trial: &PeakTrial| {
        let result = match (trial.passed, trial.invalid) {
            (true, _) => "passed".to_owned(),
            (false, true) => format!("not valid ({})", trial.reason),
            (false, false) => format!("missed ({})", trial.reason),
        };
        format!("{}/s {result}", amount(trial.rate))
    };
    peak.trials.iter().take(TRIALS_MAX).map(text).collect::<Vec<_>>().join("; ")
}

/// Most trials of a peak that are shown.
const TRIALS_MAX: usize = 60;

/// Most criteria that are named.
const TEXTS_MAX: usize = 12;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invalid_trial_is_neither_passed_nor_missed() {
        let trial = |rate, passed, invalid, reason: &str| PeakTrial {
            rate,
            passed,
            invalid,
            reason: reason.to_owned(),
        };
        let trials = vec![
            trial(100.0, true, false, ""),
            trial(400.0, false, false, "99th percentile 300 ms"),
            trial(200.0, false, true, "attempts started late"),
        ];
        let peak =
            Peak { rate: 100.0, trials, limited_by: "attempts started late".to_owned(), ..Peak::default() };
        let text =
            "100/s passed; 400/s missed (99th percentile 300 ms); 200/s not valid (attempts started late)";
        assert_eq!(trials_text(&peak), text);
        let marks: Vec<_> = row(0, "ringway", &peak).dots.into_iter().map(|dot| dot.mark).collect();
        assert!(matches!(marks[..], [Mark::Dot, Mark::Cross, Mark::Invalid]));
        assert_eq!(confirmation(&peak), "not valid");
        let none = Peak { rate: 0.0, ..peak };
        assert_eq!(shown(&none), "no valid trial of the lowest rate");
        assert_eq!(shown(&Peak { limited_by: String::new(), ..none }), "no rate passed");
    }
}
