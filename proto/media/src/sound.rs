//! Interface between a call and its sound, and the loudness of blocks, for meters.

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

#[cfg(test)]
mod tests {
    use super::*;

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
