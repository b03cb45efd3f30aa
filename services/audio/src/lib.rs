//! Sound of calls on Linux: sources (files, tones, speech-like sound), sinks (files, memory), levels, and sound cards
//! by PulseAudio's protocol ([`pulse`]).
//!
//! Does: fills and takes blocks on a call's media thread, where nothing may wait, lock, log or allocate; file I/O is
//! done before the call or on a thread of its own.
//!
//! Does not: encode, send or receive; that is `ringway-media`'s and the driver's.
//!
//! Sound is 16-bit samples, 8,000 a second, one channel. Start reading at [`CallSound`].

mod call_sound;
mod level;
pub mod pulse;
mod resample;
mod ringer;
mod sink;
mod source;

pub use call_sound::{CallSound, Input};
pub use level::{Level, Levels};
pub use ringer::Ringer;
pub use sink::{Sink, WavRecorder};
pub use source::{Source, SourceError};

/// Samples in a second.
pub const SAMPLE_RATE_HZ: u32 = 8000;

#[cfg(test)]
mod tests;
