//! Whether sound is a tone.

use std::f64::consts::TAU;

/// The share of the energy of telephone sound that is at one frequency (Goertzel).
pub(crate) fn share_at(samples: &[i16], frequency_hz: f64) -> f64 {
    let step = TAU * frequency_hz / 8000.0;
    let (mut before, mut last) = (0.0, 0.0);
    for &sample in samples {
        (before, last) = (last, f64::from(sample) + 2.0 * step.cos() * last - before);
    }
    let power = last * last + before * before - 2.0 * step.cos() * last * before;
    let energy: f64 = samples.iter().map(|&sample| f64::from(sample).powi(2)).sum();
    2.0 * power / (energy.max(1.0) * samples.len() as f64)
}
