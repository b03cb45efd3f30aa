//! Pulses: a load beyond the peak, and one below it without a pause between them.

use crate::record::Chart;
use ringway_settings::{Reader, Section};

/// A pulse beyond the peak, and the load after it, in multiples of the peak.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pulse {
    /// Load of the pulse.
    pub multiple: f64,
    /// Its seconds.
    pub seconds: f64,
    /// Load after it.
    pub then: f64,
    /// Seconds of that.
    pub then_seconds: f64,
}

impl Pulse {
    /// Seconds of both loads.
    pub(super) fn whole_seconds(&self) -> f64 {
        self.seconds + self.then_seconds
    }
}

/// Reads the pulse of an experiment that overloads.
pub(super) fn read(reader: &mut Reader<'_>, top: &mut Section<'_, '_>, chart: Chart) -> Option<Pulse> {
    let at = top.place("pulse")?;
    let mut section = top.section(reader, "pulse");
    let mut number = |key, default, range| section.decimal(reader, key, range).unwrap_or(default);
    let multiple = number("multiple", 10.0, 0.1..=100.0);
    let seconds = number("seconds", 5.0, SECONDS);
    let then = number("then", 0.8, 0.1..=100.0);
    let then_seconds = number("then_seconds", 10.0, SECONDS);
    section.finish(reader);
    if chart != Chart::Overload {
        reader.error(at, "pulse", "only an experiment with chart = \"overload\" has one");
    }
    Some(Pulse { multiple, seconds, then, then_seconds })
}

/// Seconds of a load.
const SECONDS: std::ops::RangeInclusive<f64> = 0.1..=3600.0;
