//! Measurement of tones in sound.

use std::f64::consts::TAU;

/// Computes the energy of `samples` at `frequency`, in cycles for each sample (Goertzel's algorithm).
pub fn energy_at(samples: &[f64], frequency: f64) -> f64 {
    let turn = 2.0 * (TAU * frequency).cos();
    let (mut before, mut last) = (0.0, 0.0);
    for &sample in samples {
        (before, last) = (last, sample + turn * last - before);
    }
    2.0 * (last * last + before * before - turn * last * before) / samples.len() as f64
}

/// Computes the energy of `samples`.
pub fn energy(samples: &[f64]) -> f64 {
    samples.iter().map(|sample| sample * sample).sum()
}

/// Computes the share of the energy of telephone sound (8,000 samples a second) that is at one frequency: 0 to 1.
pub fn share_at(samples: &[i16], frequency_hz: f64) -> f64 {
    let samples: Vec<f64> = samples.iter().map(|&sample| f64::from(sample)).collect();
    energy_at(&samples, frequency_hz / 8000.0) / energy(&samples).max(1.0)
}
