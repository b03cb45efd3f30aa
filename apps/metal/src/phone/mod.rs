//! The phone as a machine of its own: an account, one call at a time, its sound, and a screen.
//!
//! Does: takes an address, registers, calls and is called with SRTP, with a sound card, or without one sending a tone, a recorded
//! voice or the received sound ([`PhoneMachine`]).
//!
//! Does not: drive the sound card ([`SoundCard`]), take echoes out, have two calls, or remember anything when it is switched off.
//!
//! Start reading at `machine.rs`; then `events.rs`; the telephone itself is `ringway_phone::Phone`.

mod events;
mod machine;
mod settings;
mod source;

pub use machine::PhoneMachine;

use alloc::boxed::Box;
use ringway_media::headset::{self, SoundCard};

/// Loudspeaker and microphone of the machine.
type Headset = headset::Headset<Box<dyn SoundCard>>;
