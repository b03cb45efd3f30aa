//! Conversion of sample rates to 8,000 Hz.

use super::SAMPLE_RATE_HZ;
use std::f64::consts::PI;

/// Converts samples (-1 to 1) to 8,000/s.
///
/// Each output sample is a sum of the surrounding samples, weighted by a sinc function in a Hann window, which passes
/// frequencies below half the lower of both rates: higher ones are removed and do not alias.
pub(super) fn to_telephone(samples: &[f32], rate_hz: u32) -> Vec<i16> {
    let to_i16 = |sample: f64| (sample * 32_768.0).round().clamp(-32_768.0, 32_767.0) as i16;
    if rate_hz == SAMPLE_RATE_HZ || rate_hz == 0 {
        return samples.iter().map(|&sample| to_i16(f64::from(sample))).collect();
    }
    let ratio = f64::from(rate_hz) / f64::from(SAMPLE_RATE_HZ);
    let cutoff = (1.0 / ratio).min(1.0) * PASSED;
    let reach = (ZERO_CROSSINGS / cutoff).ceil();
    let count = (samples.len() as f64 / ratio) as usize;
    let sample_at = |index: usize| {
        let position = index as f64 * ratio;
        let first = (position - reach).ceil().max(0.0) as usize;
        let last = ((position + reach).floor() as usize).min(samples.len().saturating_sub(1));
        let around = samples.get(first..=last).unwrap_or_default();
        let weigh = |(offset, &sample): (usize, &f32)| {
            let distance = (first + offset) as f64 - position;
            let window = 0.5 * (1.0 + (PI * distance / reach).cos());
            f64::from(sample) * sinc(distance * cutoff) * window * cutoff
        };
        around.iter().enumerate().map(weigh).sum::<f64>()
    };
    (0..count).map(|index| to_i16(sample_at(index))).collect()
}

fn sinc(x: f64) -> f64 {
    if x.abs() < 1e-9 { 1.0 } else { (PI * x).sin() / (PI * x) }
}

/// Half the width of the window, in zeros of the sinc function.
const ZERO_CROSSINGS: f64 = 16.0;

/// Fraction of the band that passes unattenuated.
const PASSED: f64 = 0.92;
