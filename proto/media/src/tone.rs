//! Interface between a call and its sound, and the loudness of blocks, for meters; test tones and the tones of a
//! ringing telephone.

use core::f64::consts::TAU;

/// Source and sink of a call's sound: blocks of 16-bit samples, 8,000 per second, one channel. No method blocks or
/// allocates.
pub trait Sound {
    /// Fills a block with the next samples to send. The block holds what was just played, for a source that sends it back.
    fn capture(&mut self, block: &mut [i16]);

    /// The call was answered.
    fn on_answered(&mut self) {}

    /// Takes a block of received sound.
    fn play(&mut self, block: &[i16]);

    /// Takes a block of received sound, and plays the ringback tone instead.
    fn play_ringback(&mut self, block: &mut [i16]);

    /// True if the source is a microphone, which continues while its samples are not sent. Other sources pause.
    fn is_microphone(&self) -> bool;
}

/// Loudness of a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Level {
    /// Largest sample, 0 to 32,768.
    pub peak: u16,
    /// Root mean square, 0 to 32,768.
    pub rms: u16,
}

impl Level {
    /// Measures a block.
    pub fn of(block: &[i16]) -> Self {
        let peak = block.iter().map(|sample| sample.unsigned_abs()).max().unwrap_or(0);
        let sum: u64 = block.iter().map(|&sample| i64::from(sample).pow(2).unsigned_abs()).sum();
        let mean = sum / (block.len() as u64).max(1);
        Self { peak, rms: u16::try_from(mean.isqrt()).unwrap_or(u16::MAX) }
    }

    /// The root mean square in decibels relative to full scale; -96 for silence.
    pub fn dbfs(self) -> f32 {
        (libm::log10f(f32::from(self.rms.max(1)) / 32_768.0) * 20.0).max(-96.0)
    }
}

/// A pure tone at half of full scale, 8,000 samples per second.
#[derive(Clone, Debug, PartialEq)]
pub struct Tone {
    /// Phase advance per sample, in radians.
    step: f64,
    /// Phase of the next sample, 0 to 2π.
    phase: f64,
}

impl Tone {
    /// Creates a tone of 1 to 3,999 Hz; `None` for frequencies that 8,000 samples per second cannot carry.
    pub const fn new(frequency_hz: u32) -> Option<Self> {
        match frequency_hz {
            1..4000 => Some(Self::at(frequency_hz)),
            _ => None,
        }
    }

    const fn at(frequency_hz: u32) -> Self {
        Self { step: TAU * frequency_hz as f64 / 8000.0, phase: 0.0 }
    }

    /// Fills a block with the next samples.
    pub fn fill(&mut self, block: &mut [i16]) {
        for sample in block {
            *sample = (libm::sin(self.phase) * AMPLITUDE) as i16;
            self.phase = (self.phase + self.step) % TAU;
        }
    }
}

/// Tone that is played before a call is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ringing {
    /// The called phone rings: two tones in turn.
    Here,
    /// The ringback tone of the caller: 425 Hz (ITU-T E.180).
    There,
}

/// Generator of [`Ringing`]: one second on, four seconds off.
#[derive(Debug)]
pub struct Ring {
    there: Tone,
    here: [Tone; 2],
    /// Samples generated so far.
    position: usize,
}

impl Default for Ring {
    fn default() -> Self {
        Self { there: Tone::at(425), here: [Tone::at(800), Tone::at(1000)], position: 0 }
    }
}

impl Ring {
    /// Fills a block. A block is wholly on or wholly off, so its length should divide 400.
    pub fn fill(&mut self, ringing: Ringing, block: &mut [i16]) {
        let position = self.position % PERIOD;
        self.position = position + block.len();
        if position >= ON {
            return block.fill(0);
        }
        match ringing {
            Ringing::There => self.there.fill(block),
            Ringing::Here => {
                let [low, high] = &mut self.here;
                let tone = if (position / TURN).is_multiple_of(2) { low } else { high };
                tone.fill(block);
            }
        }
        for sample in block {
            *sample /= SOFTER;
        }
    }
}

/// Half of full scale.
const AMPLITUDE: f64 = 16_384.0;
/// Samples of tone in a period: one second.
const ON: usize = 8_000;
/// Samples of a period: five seconds.
const PERIOD: usize = 40_000;
/// Samples of each of the two tones of [`Ringing::Here`]: 50 ms.
const TURN: usize = 400;
/// A quarter of a test tone's amplitude: the loudspeaker may be at an ear.
const SOFTER: i16 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tones_exist_from_1_to_3999_hz() {
        assert!([0, 4000, 48_000].map(Tone::new).iter().all(Option::is_none));
        let mut block = [0; 8];
        Tone::at(1000).fill(&mut block);
        assert_eq!(block, [0, 11_585, 16_384, 11_585, 0, -11_585, -16_384, -11_585]);
    }

    #[test]
    fn a_ring_is_on_for_one_second_in_five() {
        for ringing in [Ringing::Here, Ringing::There] {
            let mut ring = Ring::default();
            let mut samples = [0; 2 * PERIOD];
            samples.chunks_mut(80).for_each(|block| ring.fill(ringing, block));
            for period in samples.chunks(PERIOD) {
                assert!(period[..ON].chunks(80).all(|block| block.iter().any(|sample| *sample > 2000)));
                assert!(period[ON..].iter().all(|sample| *sample == 0));
            }
        }
    }

    #[test]
    fn levels_are_relative_to_full_scale() {
        assert_eq!(Level::of(&[i16::MIN; 160]), Level { peak: 32_768, rms: 32_768 });
        assert!(Level { peak: 0, rms: 32_768 }.dbfs().abs() < 0.001);
        assert!((Level { peak: 0, rms: 16_384 }.dbfs() + 6.02).abs() < 0.01);
        let quiet = Level::of(&[0; 160]);
        assert_eq!(quiet, Level::default());
        assert!((quiet.dbfs() + 90.3).abs() < 0.1);
        assert_eq!(Level::of(&[]), Level::default());
    }
}
