//! Where the sound of a call comes from and goes to: [`Sound`] is the one trait, and the place where a sound card plugs
//! in. Here are files, tones and silence, so that everything runs without one.
//!
//! Sound is 16-bit samples, 8,000 a second, one channel.

mod level;
mod resample;
mod sink;
mod source;

pub use level::{Level, Levels};
pub use sink::{Sink, WavRecorder};
pub use source::{Source, SourceError};

/// Samples in a second.
pub const SAMPLE_RATE_HZ: u32 = 8000;

/// Both ends of a call's sound, on its media thread: neither may wait, lock, log or allocate.
pub trait Sound: Send {
    /// Fills a block with what is to be sent.
    fn capture(&mut self, block: &mut [i16]);

    /// Takes a block of what was received, to be heard as soon as the one before has been.
    fn play(&mut self, block: &[i16]);
}

/// A source and a sink as one.
#[derive(Debug)]
pub struct Pair {
    source: Source,
    sink: Sink,
}

impl Pair {
    /// From both.
    pub fn new(source: Source, sink: Sink) -> Self {
        Self { source, sink }
    }

    /// Where the sound went, to be asked or [finished](Sink::finish).
    pub fn into_sink(self) -> Sink {
        self.sink
    }
}

impl Sound for Pair {
    fn capture(&mut self, block: &mut [i16]) {
        self.source.fill(block);
    }

    fn play(&mut self, block: &[i16]) {
        self.sink.take(block);
    }
}

#[cfg(test)]
mod tests;
