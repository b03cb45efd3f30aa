//! How loud sound is, for a meter.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// How loud a block was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Level {
    /// The largest sample, 0-32768.
    pub peak: u16,
    /// The root of the mean square, 0-32768.
    pub rms: u16,
}

impl Level {
    /// Of a block.
    pub fn of(block: &[i16]) -> Self {
        let peak = block.iter().map(|sample| sample.unsigned_abs()).max().unwrap_or(0);
        let sum: u64 = block.iter().map(|&sample| i64::from(sample).pow(2).unsigned_abs()).sum();
        let mean = sum / (block.len() as u64).max(1);
        Self { peak, rms: u16::try_from(mean.isqrt()).unwrap_or(u16::MAX) }
    }

    /// In decibels below the loudest a sample can be; -96 for silence.
    pub fn dbfs(self) -> f32 {
        (f32::from(self.rms.max(1)) / 32_768.0).log10().mul_add(20.0, 0.0).max(-96.0)
    }
}

/// The levels of both directions, written by the media thread and read by whoever draws them.
#[derive(Clone, Debug, Default)]
pub struct Levels(Arc<[AtomicU32; 2]>);

impl Levels {
    /// Notes how loud a block to be sent is.
    pub fn set_captured(&self, level: Level) {
        self.set(0, level);
    }

    /// Notes how loud a block that is played is.
    pub fn set_played(&self, level: Level) {
        self.set(1, level);
    }

    /// Of the last block sent.
    pub fn captured(&self) -> Level {
        self.of(0)
    }

    /// Of the last block played.
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
