//! Stories of phones that call each other, on a virtual clock, with media that tests open and close.
//!
//! Tested: registration off, calls both ways, hold, busy, refusal, STUN, media that cannot be opened, lost protection,
//! transfers, limits, DTLS-SRTP between two sessions. Not tested here: sound (`call_media_tests.rs`), SIP itself (`proto/agent/tests`).
#![cfg(test)]

mod calls;
mod dtls;
mod media;
mod world;
