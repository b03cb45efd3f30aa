//! Pulses beyond the peak: successful attempts of each second, during the pulse and after it.

use super::data::{Entry, Results};
use super::figure::{Figure, Key};
use super::html::{Table, amount, percent};
use super::plot::{Axis, Line, Plot, Point, Reference};
use crate::record::Pulse;

/// Pulses of an experiment. `None` without any.
pub(super) fn pulses(results: &Results<'_>, entry: &Entry<'_>) -> Option<Figure> {
    let (_, first) = entry.pulses.first()?;
    let x = Axis { title: "seconds since the start of the pulse", contains: 0.0, ..Axis::default() };
    let y = Axis { title: "successful attempts/s, % of the peak", contains: 100.0, ..Axis::default() };
    let mut panels = Vec::new();
    for variant in &entry.variants {
        let of_variant = entry.pulses.iter().filter(|(_, pulse)| pulse.variant == variant.name);
        let lines =
            of_variant.map(|(target, pulse)| line(*target, results.name_of(*target), pulse)).collect();
        let description = format!("{}: {} against {}", variant.name, y.title, x.title);
        let plot = Plot { description, x, y, lines, reference: Some(Reference::Level(first.then * 100.0)) };
        if !plot.is_empty() {
            panels.push((variant.name.to_owned(), plot.svg()));
        }
    }
    let rows = entry.pulses.iter().map(|(target, pulse)| {
        vec![
            pulse.variant.clone(),
            results.name_of(*target).to_owned(),
            format!("{} s at {} ×", amount(pulse.seconds), amount(pulse.multiple)),
            percent(goodput(pulse)),
            recovery(pulse),
        ]
    });
    Some(Figure {
        title: "A pulse, and the time after it",
        note: "Attempts that ended successfully in each second. After the pulse the load is below the peak, at the dashed line: a server that recovers gets there. The time is that after which each second has 99 % of its attempts completed.".to_owned(),
        keys: vec![Key::Reference("the load after the pulse")],
        panels,
        table: Table {
            head: &["Variant", "Target", "Pulse", "Goodput in it, of the peak", "Recovered after"],
            text_columns: 5,
            rows: rows.collect(),
        },
        ..Figure::default()
    })
}

/// Successful attempts a second in the pulse, as a share of the peak; its first second is that of the rise.
pub(super) fn goodput(pulse: &Pulse) -> f64 {
    let seconds = pulse.seconds_series.iter().filter(|[second, ..]| {
        let second = *second as f64;
        second > 1.0 && second <= pulse.seconds
    });
    let (count, successes) =
        seconds.fold((0.0, 0.0), |(count, sum), [.., successes, _]| (count + 1.0, sum + *successes as f64));
    if count > 0.0 && pulse.peak > 0.0 { successes / count / pulse.peak } else { 0.0 }
}

fn recovery(pulse: &Pulse) -> String {
    match pulse.recovered_s {
        _ if !pulse.valid => format!("not valid: {}", pulse.invalid_because),
        Some(seconds) => format!("{} s", amount(seconds)),
        None => format!("not within {} s", amount(pulse.then_seconds)),
    }
}

fn line(target: usize, name: &str, pulse: &Pulse) -> Line {
    let point = |series: &[u64; 5]| {
        let [second, planned, _, successes, _] = *series;
        let share = successes as f64 * 100.0 / pulse.peak.max(f64::MIN_POSITIVE);
        let tip = format!("{name}, second {second}: {successes} of {planned} planned");
        Point { x: second as f64, y: share, range: None, is_invalid: !pulse.valid, tip }
    };
    let points = pulse.seconds_series.iter().map(point).collect();
    Line { style: target, label: name.to_owned(), points, ..Line::default() }
}
