//! Sound of calls on Linux: sources (files, tones, speech-like sound), sinks (files, memory), levels, and sound cards
//! by PulseAudio's protocol ([`pulse`]).
//!
//! Does: fills and processes blocks on a call's media thread without blocking, locking, logging or allocation; file I/O
//! happens before the call or on another thread.
//!
//! Does not: encode, send or receive; `ringway-media` and the driver do.
//!
//! Sound consists of 16-bit samples, 8,000/s, one channel. Start reading at [`CallSound`].

mod call_sound;
pub mod pulse;
mod sink;
mod source;
mod wav_file;

pub use call_sound::{CallSound, Input, Ringer};
pub use sink::{Sink, WavRecorder};
pub use source::{Source, SourceError};

/// Sample rate.
pub const SAMPLE_RATE_HZ: u32 = 8000;

#[cfg(test)]
mod tests;
