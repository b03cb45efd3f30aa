//! Sound sources: a file, a tone, speech-like sound, silence; conversion of sample rates to 8,000 Hz.

use super::SAMPLE_RATE_HZ;
use super::wav_file::{WavError, WavFile};
use ringway_media::tone::Tone;
use std::f64::consts::{PI, TAU};
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Source of sound to be sent.
#[derive(Clone, Debug)]
pub struct Source(Kind);

#[derive(Clone, Debug)]
enum Kind {
    Silence,
    Samples { samples: Arc<[i16]>, next: usize, is_loop: bool },
    Tone(Tone),
}

impl Source {
    /// Silence.
    pub const fn silence() -> Self {
        Self(Kind::Silence)
    }

    /// Pure tone at half the maximum amplitude, 1 to 3,999 Hz.
    pub fn tone(frequency_hz: u32) -> Result<Self, SourceError> {
        Tone::new(frequency_hz).map(|tone| Self(Kind::Tone(tone))).ok_or(SourceError::Frequency(frequency_hz))
    }

    /// Plays samples once, then silence.
    pub fn samples(samples: Vec<i16>) -> Self {
        Self(Kind::Samples { samples: samples.into(), next: 0, is_loop: false })
    }

    /// Speech-like sound without end: syllables of a voice with changing pitch, and pauses.
    pub fn speech_like() -> Self {
        Self(Kind::Samples { samples: syllables().into(), next: 0, is_loop: true })
    }

    /// Plays a WAV file once, then silence: integers of 8 to 32 bits, floating point, µ-law or A-law, 4,000 to 384,000 Hz, any
    /// number of channels, at most 60 million samples per channel. It is read and converted here, so that the media thread
    /// only copies.
    pub fn wav(path: &Path) -> Result<Self, SourceError> {
        let name = || path.display().to_string();
        let file = File::open(path).map_err(WavError::Io).and_then(WavFile::read);
        match file {
            Ok(WavFile { rate_hz, samples }) => Ok(Self::samples(to_telephone(&samples, rate_hz))),
            Err(WavError::Io(why)) => Err(SourceError::File { path: name(), why }),
            Err(WavError::Unusable(what)) => Err(SourceError::Unusable { path: name(), what }),
        }
    }

    /// Repeats a finite source for ever.
    pub fn looped(mut self) -> Self {
        if let Kind::Samples { is_loop, .. } = &mut self.0 {
            *is_loop = true;
        }
        self
    }

    /// Fills the next block.
    pub fn fill(&mut self, block: &mut [i16]) {
        match &mut self.0 {
            Kind::Silence => block.fill(0),
            Kind::Tone(tone) => tone.fill(block),
            Kind::Samples { samples, next, is_loop } => {
                for sample in block {
                    if *is_loop && *next >= samples.len() {
                        *next = 0;
                    }
                    *sample = samples.get(*next).copied().unwrap_or(0);
                    *next = (*next + 1).min(samples.len());
                }
            }
        }
    }
}

/// Error of creating a source.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The frequency is outside the range of 8,000 samples/s.
    #[error("a tone of {0} Hz is not supported; give 1 to 3999 Hz")]
    Frequency(u32),
    /// The file cannot be read.
    #[error("{path}: {why}; give a readable WAV file")]
    File {
        /// Path of the file.
        path: String,
        /// Error of the system.
        why: io::Error,
    },
    /// The file is not a WAV file, or has an unsupported format.
    #[error("{path}: {what}; convert it, for example with `sox IN.wav -r 8000 -c 1 OUT.wav`")]
    Unusable {
        /// Path of the file.
        path: String,
        /// Reason.
        what: String,
    },
}

/// Ten seconds of syllables: a fundamental that glides between 100 and 170 Hz with falling overtones, 120 to 280 ms
/// long, a short pause after each and a long one after every fifth.
fn syllables() -> Vec<i16> {
    let rate = f64::from(SAMPLE_RATE_HZ);
    let mut samples = Vec::with_capacity(10 * SAMPLE_RATE_HZ as usize);
    let mut phase = 0.0;
    for syllable in 0..30_u32 {
        let length = (0.12 + 0.04 * f64::from(syllable * 7 % 5)) * rate;
        for at in 0..length as u32 {
            let position = f64::from(at) / length;
            let pitch = 35.0f64.mul_add((f64::from(syllable) * 1.3 + position * 2.0).sin(), 135.0);
            phase = (phase + TAU * pitch / rate) % TAU;
            // The formant moves from syllable to syllable.
            let formant = 500.0 + 150.0 * f64::from(syllable * 3 % 7);
            let voice: f64 = (1..20)
                .map(|overtone| {
                    let distance = (f64::from(overtone) * pitch - formant) / 400.0;
                    (f64::from(overtone) * phase).sin() * (0.08 + (-distance * distance).exp())
                })
                .sum();
            let envelope = (position * std::f64::consts::PI).sin();
            samples.push((voice * envelope * SPEECH_AMPLITUDE).clamp(-32_000.0, 32_000.0) as i16);
        }
        let pause = if syllable % 5 == 4 { 0.45 } else { 0.05 };
        samples.extend(std::iter::repeat_n(0, (pause * rate) as usize));
    }
    samples
}

const SPEECH_AMPLITUDE: f64 = 3000.0;

/// Converts samples (-1 to 1) to 8,000/s.
///
/// Each output sample is a sum of the surrounding samples, weighted by a sinc function in a Hann window, which passes
/// frequencies below half the lower of both rates: higher ones are removed and do not alias.
fn to_telephone(samples: &[f32], rate_hz: u32) -> Vec<i16> {
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
