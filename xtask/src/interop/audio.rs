//! Sound in files: a tone to send, and whether a recording has that tone in it.

use std::path::Path;

use anyhow::{Context, Result, bail};

/// Samples per second of everything here: what G.711 carries.
const RATE: u32 = 8000;

/// A recording: mono samples between -1 and 1, and their rate in Hz.
pub(crate) struct Recording {
    samples: Vec<f64>,
    rate: f64,
}

/// Writes a sine of `hz` that lasts `seconds`: 16-bit mono WAV, at half of full scale.
pub(crate) fn write_tone(path: &Path, hz: f64, seconds: u32) -> Result<()> {
    let count = RATE * seconds;
    let bytes = count * 2;
    let mut wav = Vec::new();
    wav.extend_from_slice(b"RIFF");
    wav.extend_from_slice(&(36 + bytes).to_le_bytes());
    wav.extend_from_slice(b"WAVEfmt ");
    wav.extend_from_slice(&16_u32.to_le_bytes());
    wav.extend_from_slice(&1_u16.to_le_bytes()); // PCM
    wav.extend_from_slice(&1_u16.to_le_bytes()); // one channel
    wav.extend_from_slice(&RATE.to_le_bytes());
    wav.extend_from_slice(&(RATE * 2).to_le_bytes());
    wav.extend_from_slice(&2_u16.to_le_bytes());
    wav.extend_from_slice(&16_u16.to_le_bytes());
    wav.extend_from_slice(b"data");
    wav.extend_from_slice(&bytes.to_le_bytes());
    for n in 0..count {
        let phase = std::f64::consts::TAU * hz * f64::from(n) / f64::from(RATE);
        let sample = (phase.sin() * 0.5 * f64::from(i16::MAX)) as i16;
        wav.extend_from_slice(&sample.to_le_bytes());
    }
    std::fs::write(path, wav).with_context(|| format!("cannot write {}", path.display()))
}

impl Recording {
    /// Reads a 16-bit mono WAV file, also one whose lengths were never filled in because its writer was ended.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        Self::decode(&bytes).with_context(|| format!("{} is not 16-bit mono WAV", path.display()))
    }

    /// Length in seconds.
    pub(crate) fn seconds(&self) -> f64 {
        self.samples.len() as f64 / self.rate
    }

    /// Root mean square: 0.354 for a tone at half of full scale.
    pub(crate) fn rms(&self) -> f64 {
        (energy(&self.samples) / (self.samples.len().max(1)) as f64).sqrt()
    }

    /// The part of all energy that lies at `hz`: 1 for that tone alone, 0 for silence. By Goertzel's algorithm in
    /// windows of 50 ms, so that a lost packet moves the phase of one window only.
    pub(crate) fn share_at(&self, hz: f64) -> f64 {
        let window = (self.rate / 20.0) as usize;
        let total = energy(&self.samples);
        if total == 0.0 || window == 0 {
            return 0.0;
        }
        let step = 2.0 * (std::f64::consts::TAU * hz / self.rate).cos();
        let mut at = 0.0;
        for part in self.samples.chunks_exact(window) {
            let (mut last, mut before) = (0.0, 0.0);
            for sample in part {
                let next = sample + step * last - before;
                before = last;
                last = next;
            }
            let power = last * last + before * before - step * last * before;
            at += 2.0 * power / window as f64;
        }
        at / total
    }

    /// Fails unless the recording is at least `seconds` of mostly the tone `hz`.
    pub(crate) fn expect_tone(&self, hz: f64, seconds: f64) -> Result<()> {
        let (length, rms, share) = (self.seconds(), self.rms(), self.share_at(hz));
        if length < seconds || rms < 0.05 || share < 0.5 {
            bail!(
                "no {hz} Hz tone was received: {length:.1} s recorded, RMS {rms:.3}, {:.0} % of it at {hz} Hz",
                share * 100.0
            );
        }
        Ok(())
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        if bytes.get(..4)? != b"RIFF" || bytes.get(8..12)? != b"WAVE" {
            return None;
        }
        let mut rest = bytes.get(12..)?;
        let mut rate = None;
        loop {
            let (kind, body) = (rest.get(..4)?, rest.get(8..)?);
            let declared = usize::try_from(u32::from_le_bytes(rest.get(4..8)?.try_into().ok()?)).ok()?;
            let chunk = body.get(..declared).unwrap_or(body);
            match kind {
                b"fmt " => {
                    let (channels, bits) = (chunk.get(2..4)?, chunk.get(14..16)?);
                    if channels != 1_u16.to_le_bytes() || bits != 16_u16.to_le_bytes() {
                        return None;
                    }
                    rate = Some(u32::from_le_bytes(chunk.get(4..8)?.try_into().ok()?));
                }
                b"data" => {
                    let chunk = if declared == 0 { body } else { chunk };
                    let scale = f64::from(i16::MAX);
                    let sample = |pair: &[u8]| match *pair {
                        [low, high] => f64::from(i16::from_le_bytes([low, high])) / scale,
                        _ => 0.0,
                    };
                    let samples = chunk.chunks_exact(2).map(sample).collect();
                    return Some(Self { samples, rate: f64::from(rate?) });
                }
                _ => {}
            }
            rest = body.get(declared + declared % 2..)?;
        }
    }
}

fn energy(samples: &[f64]) -> f64 {
    samples.iter().map(|sample| sample * sample).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tone_is_told_from_another_and_from_silence() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tone.wav");
        write_tone(&file, 440.0, 2).unwrap();
        let tone = Recording::read(&file).unwrap();
        assert!((tone.seconds() - 2.0).abs() < 1e-9);
        assert!((tone.rms() - 0.354).abs() < 0.01, "{}", tone.rms());
        assert!(tone.share_at(440.0) > 0.95, "{}", tone.share_at(440.0));
        assert!(tone.share_at(1000.0) < 0.05, "{}", tone.share_at(1000.0));
        tone.expect_tone(440.0, 1.5).unwrap();
        assert!(tone.expect_tone(1000.0, 1.5).is_err());
        assert!(tone.expect_tone(440.0, 3.0).is_err());
        let silence = Recording { samples: vec![0.0; 16_000], rate: 8000.0 };
        assert!(silence.expect_tone(440.0, 1.0).is_err());
    }

    #[test]
    fn a_file_that_is_no_wav_is_refused() {
        assert!(Recording::decode(b"RIFF").is_none());
        assert!(Recording::decode(b"RIFF\0\0\0\0WAVEfmt \xff\xff\xff\xff").is_none());
    }
}
