//! Buffer between a sound card and a call, whose clocks differ.
//!
//! Does: keeps [`MARGIN`] queued in both directions, because a card's clock differs from the call's by some parts per
//! million and a card is rarely ready at the exact time of a packet. When a queue runs empty, silence fills the gap; when
//! it exceeds [`QUEUE_MAX`], samples are dropped. Both are counted.
//!
//! Does not: resample, take echoes out, or drive a card: [`SoundCard`] is the interface to its driver.

use crate::tone::{Ring, Ringing};
use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use core::fmt;

/// A sound card: 16-bit samples, 8,000 per second, one channel. No method blocks.
pub trait SoundCard: fmt::Debug {
    /// A name for people.
    fn name(&self) -> &str;

    /// Samples that were given to [`play`](Self::play) and not played yet.
    fn queued(&mut self) -> usize;

    /// Queues samples for the loudspeaker. Samples that find no room are lost; what does not fill 10 ms may wait for
    /// the rest of them.
    fn play(&mut self, samples: &[i16]);

    /// True while the card plays; a block that it cannot take before that is no loss of the card's.
    fn is_playing(&self) -> bool {
        true
    }

    /// Samples of the microphone that can be taken. The first call may be what switches the microphone on.
    fn captured(&mut self) -> usize;

    /// Takes the oldest samples of the microphone and returns their number.
    fn capture(&mut self, room: &mut [i16]) -> usize;
}

impl<C: SoundCard + ?Sized> SoundCard for Box<C> {
    fn name(&self) -> &str {
        (**self).name()
    }

    fn queued(&mut self) -> usize {
        (**self).queued()
    }

    fn play(&mut self, samples: &[i16]) {
        (**self).play(samples);
    }

    fn is_playing(&self) -> bool {
        (**self).is_playing()
    }

    fn captured(&mut self) -> usize {
        (**self).captured()
    }

    fn capture(&mut self, room: &mut [i16]) -> usize {
        (**self).capture(room)
    }
}

/// Loudspeaker and microphone of a call: a sound card with its buffer.
#[derive(Debug)]
pub struct Headset<C> {
    card: C,
    ring: Ring,
    /// True once a block of the call was played.
    is_playing: bool,
    /// True while the microphone has its margin.
    is_capturing: bool,
    counters: Counters,
}

/// Gaps and drops of one call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counters {
    /// Times the card had run out of samples to play.
    gaps: u64,
    /// Blocks that were not played because the queue of a playing card was full.
    not_played: u64,
    /// Blocks requested from the microphone.
    requested: u64,
    /// Samples that the microphone gave.
    captured: u64,
    /// Requested blocks that were filled up with silence.
    missed: u64,
    /// Samples of the microphone that were dropped because the queue was full.
    not_sent: u64,
}

impl<C: SoundCard> Headset<C> {
    /// Creates the buffer of a card.
    pub fn new(card: C) -> Self {
        Self {
            card,
            ring: Ring::default(),
            is_playing: false,
            is_capturing: false,
            counters: Counters::default(),
        }
    }

    /// The card's name.
    pub fn name(&self) -> &str {
        self.card.name()
    }

    /// Starts a call, or its ringing: discards what the microphone captured before and resets the counters.
    pub fn start(&mut self) {
        let mut room = [0; 160];
        // No card keeps more than this.
        for _ in 0..64 {
            if self.card.capture(&mut room) == 0 {
                break;
            }
        }
        (self.is_playing, self.is_capturing) = (false, false);
        self.ring = Ring::default();
        self.counters = Counters::default();
    }

    /// Plays a block of the call.
    pub fn play(&mut self, block: &[i16]) {
        match self.card.queued() {
            0 => {
                self.counters.gaps += u64::from(self.is_playing);
                self.card.play(&[0; MARGIN]);
            }
            QUEUE_MAX.. => {
                self.counters.not_played += u64::from(self.card.is_playing());
                return;
            }
            _ => {}
        }
        self.is_playing = true;
        self.card.play(block);
    }

    /// Fills a block with samples of the microphone.
    pub fn capture(&mut self, block: &mut [i16]) {
        let mut captured = self.card.captured();
        self.counters.requested += 1;
        if !self.is_capturing && captured < block.len() + MARGIN {
            self.counters.missed += u64::from(self.counters.requested > START_BLOCKS);
            return block.fill(0);
        }
        self.is_capturing = true;
        if captured > QUEUE_MAX {
            self.drop_oldest(&mut captured, block.len() + MARGIN);
        }
        let count = self.card.capture(block).min(block.len());
        self.counters.captured += count as u64;
        if count < block.len() {
            self.counters.missed += 1;
            self.is_capturing = false;
        }
        if let Some(rest) = block.get_mut(count..) {
            rest.fill(0);
        }
    }

    /// Keeps the card ringing. To be called at least every 20 ms; the ring ends within [`MARGIN`] of the last call.
    pub fn ring(&mut self, ringing: Ringing) {
        let mut block = [0; 80];
        while self.card.queued() + block.len() <= MARGIN {
            self.ring.fill(ringing, &mut block);
            let before = self.card.queued();
            self.card.play(&block);
            if self.card.queued() <= before {
                break;
            }
        }
    }

    /// Fills a block with the ringback tone.
    pub fn fill_ringback(&mut self, block: &mut [i16]) {
        self.ring.fill(Ringing::There, block);
    }

    /// The counters of the call, for people.
    pub fn summary(&self) -> String {
        let Counters { gaps, not_played, requested, captured, missed, not_sent } = self.counters;
        let microphone = match (requested, captured) {
            (0, _) => "not used".to_string(),
            (_, 0) => "GAVE NOTHING".to_string(),
            _ => format!("{missed} gaps, {} ms too many", not_sent / SAMPLES_PER_MS),
        };
        let name = self.card.name();
        format!("{name}: loudspeaker {gaps} gaps, {not_played} blocks too many; microphone {microphone}")
    }

    /// Drops the oldest `captured` samples of the microphone down to `keep`.
    fn drop_oldest(&mut self, captured: &mut usize, keep: usize) {
        let mut room = [0; 80];
        while *captured > keep {
            let part = room.len().min(*captured - keep);
            let Some(room) = room.get_mut(..part) else { return };
            let count = self.card.capture(room);
            if count == 0 {
                return;
            }
            self.counters.not_sent += count as u64;
            *captured -= count.min(*captured);
        }
    }
}

/// Samples that are queued on purpose: 30 ms.
pub const MARGIN: usize = 240;

/// Maximum number of queued samples: 120 ms.
pub const QUEUE_MAX: usize = 960;

/// Blocks at the start of a call during which the microphone's margin fills.
const START_BLOCKS: u64 = 5;

const SAMPLES_PER_MS: u64 = 8;

#[cfg(test)]
#[path = "headset_tests.rs"]
mod tests;
