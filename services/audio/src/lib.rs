//! Sound of calls on Linux: sources (files, tones, speech-like sound), sinks (files, memory) and levels.
//!
//! Does: fills and takes blocks on a call's media thread, where nothing may wait, lock, log or allocate; file I/O is
//! done before the call or on a thread of its own.
//!
//! Does not: encode, send or receive; that is `ringway-media`'s and the driver's.
//!
//! Sound is 16-bit samples, 8,000 a second, one channel. Start reading at [`Pair`].

mod level;
mod resample;
mod sink;
mod source;

pub use level::{Level, Levels};
pub use sink::{Sink, WavRecorder};
pub use source::{Source, SourceError};

/// Samples in a second.
pub const SAMPLE_RATE_HZ: u32 = 8000;

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

    /// Fills a block with what is to be sent.
    pub fn capture(&mut self, block: &mut [i16]) {
        self.source.fill(block);
    }

    /// Takes a block of what was received.
    pub fn play(&mut self, block: &[i16]) {
        self.sink.take(block);
    }
}

#[cfg(test)]
mod tests;
