//! Test tones and the tones of a ringing telephone.

use core::f64::consts::TAU;

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
}
