//! Sound cards by PulseAudio's native protocol, which PipeWire's `pipewire-pulse` serves too.
//!
//! Does: lists devices ([`SoundServer::devices`]), and joins a call with a loudspeaker and a microphone
//! ([`PulseCard`]) on a thread of its own, which connects again when the server is lost.
//!
//! Does not: resample (the server does), mix, set volumes, or reach servers on other machines.
//!
//! Start reading at `card.rs`; `connection.rs` has the protocol.

mod card;
mod connection;
mod devices;
mod error;
mod event;
mod server;
mod stream;
#[cfg(test)]
mod tests;

pub use card::PulseCard;
pub use devices::{Device, Devices, Names};
pub use error::AudioError;
pub use event::{AudioEvent, Part};
pub use server::SoundServer;
