//! Sound cards by PulseAudio's native protocol, which PipeWire's `pipewire-pulse` supports too.
//!
//! Does: lists devices ([`SoundServer::devices`]), and connects a call to a loudspeaker and a microphone
//! ([`PulseCard`]) on a separate thread, which reconnects when the server is lost.
//!
//! Does not: resample (the server does), mix, set volumes, or connect to servers on other machines.
//!
//! Start reading at `card.rs`; the protocol is in `connection.rs`.

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
