//! Levels of sound, for a meter.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Level of a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Level {
    /// Largest absolute sample value, 0 to 32,768.
    pub peak: u16,
    /// Root mean square, 0 to 32,768.
    pub rms: u16,
}

impl Level {
    /// Level of a block.
    pub fn of(block: &[i16]) -> Self {
        let peak = block.iter().map(|sample| sample.unsigned_abs()).max().unwrap_or(0);
        let sum: u64 = block.iter().map(|&sample| i64::from(sample).pow(2).unsigned_abs()).sum();
        let mean = sum / (block.len() as u64).max(1);
        Self { peak, rms: u16::try_from(mean.isqrt()).unwrap_or(u16::MAX) }
    }

    /// RMS level in dBFS, from about -90 (silence) to 0.
    pub fn dbfs(self) -> f32 {
        (f32::from(self.rms.max(1)) / 32_768.0).log10().mul_add(20.0, 0.0).max(-96.0)
    }
}

/// Levels of both directions, written by the media thread and read by the user interface.
#[derive(Clone, Debug, Default)]
pub struct Levels(Arc<[AtomicU32; 2]>);

impl Levels {
    /// Sets the level of a block to be sent.
    pub fn set_captured(&self, level: Level) {
        self.set(0, level);
    }

    /// Sets the level of a played block.
    pub fn set_played(&self, level: Level) {
        self.set(1, level);
    }

    /// Level of the last block sent.
    pub fn captured(&self) -> Level {
        self.of(0)
    }

    /// Level of the last block played.
    pub fn played(&self) -> Level {
        self.of(1)
    }

    fn set(&self, index: usize, level: Level) {
        if let Some(cell) = self.0.get(index) {
            cell.store(u32::from(level.peak) << 16 | u32::from(level.rms), Ordering::Relaxed);
        }
    }

    fn of(&self, index: usize) -> Level {
        let both = self.0.get(index).map_or(0, |cell| cell.load(Ordering::Relaxed));
        Level { peak: (both >> 16) as u16, rms: both as u16 }
    }
}
