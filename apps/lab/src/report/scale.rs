//! Scales of axes: values to coordinates, and ticks.

use super::html::amount;

/// Kind of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// From zero.
    Linear,
    /// Logarithmic; values that are not positive are not shown.
    Log,
}

/// Mapping of values to the coordinates from `start` to `end`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    kind: Kind,
    low: f64,
    high: f64,
    start: f64,
    end: f64,
}

impl Scale {
    /// Makes a scale that contains all usable values and ends at a round number.
    pub(super) fn new(kind: Kind, values: impl Iterator<Item = f64>, start: f64, end: f64) -> Self {
        let usable = values.filter(|&value| is_usable(kind, value));
        let (least, most) =
            usable.fold((f64::INFINITY, 0.0_f64), |(least, most), value| (least.min(value), most.max(value)));
        let (low, high) = match kind {
            Kind::Linear if most > 0.0 => {
                let step = step_of(most);
                (0.0, step * (most / step - 1e-9).ceil())
            }
            Kind::Linear => (0.0, 1.0),
            Kind::Log if most > 0.0 => {
                let (low, high) = (round_down(least.max(most / SPAN_MAX)), round_up(most));
                if high / low < 9.0 { (round_down(low / 2.0), round_up(high * 2.0)) } else { (low, high) }
            }
            Kind::Log => (0.1, 10.0),
        };
        Self { kind, low, high, start, end }
    }

    /// Coordinate of a value; `None` if the axis does not contain it.
    pub(super) fn at(&self, value: f64) -> Option<f64> {
        if !is_usable(self.kind, value) || value < self.low * 0.999_999 || value > self.high * 1.000_001 {
            return None;
        }
        let share = match self.kind {
            Kind::Linear => (value - self.low) / (self.high - self.low),
            Kind::Log => (value / self.low).log10() / (self.high / self.low).log10(),
        };
        Some(self.start + share * (self.end - self.start))
    }

    /// Coordinate of a value, or of the end of the axis that is nearer to it.
    pub(super) fn at_or_end(&self, value: f64) -> f64 {
        self.at(value).unwrap_or(if value > self.low { self.end } else { self.start })
    }

    /// Ends of the axis.
    pub(super) const fn ends(&self) -> (f64, f64) {
        (self.low, self.high)
    }

    /// Round values on the axis with their labels, at most about `count_max`.
    pub(super) fn ticks(&self, count_max: usize) -> Vec<(f64, String)> {
        let values = match self.kind {
            Kind::Linear => self.linear_ticks(count_max),
            Kind::Log => self.log_ticks(count_max),
        };
        values.into_iter().map(|value| (value, amount(value))).collect()
    }

    fn linear_ticks(&self, count_max: usize) -> Vec<f64> {
        let mut step = step_of(self.high);
        while self.high / step > count_max as f64 {
            step = next_step(step);
        }
        let count = (self.high / step + 1e-9).floor().clamp(1.0, 100.0) as usize;
        (0..=count).map(|index| index as f64 * step).collect()
    }

    fn log_ticks(&self, count_max: usize) -> Vec<f64> {
        let (first, last) = (self.low.log10().floor() as i32, self.high.log10().ceil() as i32);
        let decades = (self.high / self.low).log10();
        let digits: &[f64] = match decades * 3.0 <= count_max as f64 {
            true => &[1.0, 2.0, 5.0],
            false => &[1.0],
        };
        let every = (decades / count_max as f64).ceil().max(1.0) as usize;
        (first..=last)
            .step_by(every)
            .flat_map(|decade| digits.iter().map(move |digit| digit * 10_f64.powi(decade)))
            .filter(|&value| self.at(value).is_some())
            .collect()
    }
}

/// True if an axis can show the value.
pub(super) fn is_usable(kind: Kind, value: f64) -> bool {
    value.is_finite() && value <= VALUE_MAX && value >= if kind == Kind::Log { VALUE_MIN } else { 0.0 }
}

/// Distance of ticks: 1, 2 or 5 times a power of ten, at most five of them up to `most`.
fn step_of(most: f64) -> f64 {
    round_up(most / 5.0)
}

fn next_step(step: f64) -> f64 {
    let power = 10_f64.powf((step * 1.000_001).log10().floor());
    let factor = if (step / power).round() == 2.0 { 2.5 } else { 2.0 };
    step * factor
}

/// Largest 1, 2 or 5 times a power of ten that is not above the value.
fn round_down(value: f64) -> f64 {
    let power = 10_f64.powf((value * 1.000_001).log10().floor());
    let digit = match value * 1.000_001 / power {
        share if share >= 5.0 => 5.0,
        share if share >= 2.0 => 2.0,
        _ => 1.0,
    };
    digit * power
}

fn round_up(value: f64) -> f64 {
    let down = round_down(value);
    if down * 1.000_01 >= value { down } else { next_step(down) }
}

/// Largest value of an axis; larger ones are errors of a measurement.
const VALUE_MAX: f64 = 1e12;

/// Smallest value of a logarithmic axis.
const VALUE_MIN: f64 = 1e-9;

/// Largest ratio of the ends of a logarithmic axis.
const SPAN_MAX: f64 = 1e9;

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(kind: Kind, values: &[f64], count_max: usize) -> Vec<String> {
        let scale = Scale::new(kind, values.iter().copied(), 0.0, 100.0);
        scale.ticks(count_max).into_iter().map(|(_, label)| label).collect()
    }

    #[test]
    fn linear_ticks_are_round_and_begin_at_zero() {
        assert_eq!(labels(Kind::Linear, &[3_700.0], 6), ["0", "1,000", "2,000", "3,000", "4,000"]);
        assert_eq!(labels(Kind::Linear, &[0.9, 0.31], 6), ["0", "0.2", "0.4", "0.6", "0.8", "1"]);
        assert_eq!(labels(Kind::Linear, &[100.0], 6), ["0", "20", "40", "60", "80", "100"]);
        assert_eq!(labels(Kind::Linear, &[], 4), ["0", "0.5", "1"]);
    }

    #[test]
    fn logarithmic_ticks_are_decades_or_parts_of_them() {
        assert_eq!(labels(Kind::Log, &[0.3, 2_000.0], 6), ["1", "10", "100", "1,000"]);
        assert_eq!(labels(Kind::Log, &[1.0, 9.0], 6), ["1", "2", "5", "10"]);
        assert!(labels(Kind::Log, &[1e-9, 1e9], 6).len() <= 7);
    }

    #[test]
    fn every_axis_contains_its_values_and_has_two_ticks() {
        for exponent in -30..40 {
            for factor in [1.0, 1.3, 2.0, 4.99, 5.01, 9.999] {
                let value = factor * 10_f64.powi(exponent / 2);
                for kind in [Kind::Linear, Kind::Log] {
                    let scale = Scale::new(kind, [value, value / 3.0].into_iter(), 0.0, 100.0);
                    let ticks = scale.ticks(6).len();
                    assert!((2..=11).contains(&ticks), "{kind:?} {value}: {ticks}");
                    if is_usable(kind, value) {
                        let at = scale.at(value).unwrap();
                        assert!((-0.01..=100.01).contains(&at), "{kind:?} {value}: {at}");
                    }
                }
            }
        }
    }

    #[test]
    fn values_that_no_axis_has_are_not_shown() {
        let values = [f64::NAN, f64::INFINITY, -1.0, 1e300, 5.0];
        for kind in [Kind::Linear, Kind::Log] {
            let scale = Scale::new(kind, values.into_iter(), 0.0, 100.0);
            let shown = values.iter().filter(|&&value| scale.at(value).is_some()).count();
            assert_eq!(shown, 1, "{kind:?}");
        }
        assert_eq!(Scale::new(Kind::Log, [0.0].into_iter(), 0.0, 1.0).at(0.0), None);
    }
}
