//! Floods, contacts that misbehave, and callers with and without a password.

pub mod crowd;
pub mod flood;
pub mod message;
pub mod peer;
pub mod script;
pub mod target;
