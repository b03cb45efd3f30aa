//! The telephone as one protocol machine, the same for Linux and for the image without an operating system.
//!
//! Does: the vocabulary between a phone and its front ends: [`PhoneConfig`], [`PhoneCommand`], [`PhoneEvent`], and what
//! protects a call ([`Protection`]).
//!
//! Does not: open sockets or sound cards, read clocks, draw, or resolve names.
//!
//! Start reading at [`PhoneEvent`].
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod command;
mod config;
mod event;
mod protection;

pub use command::{Digit, PhoneCommand};
pub use config::{IncomingPolicy, PhoneConfig, PhoneLimits, StunServer, TransferPolicy};
pub use event::{
    CallNumber, Hold, Levels, MediaReport, NetworkFacts, PhoneEvent, Side, SipMessage, TransferStep,
};
pub use protection::{Protection, SasStatus, SrtpPolicy, UnknownSrtpPolicy};
pub use ringway_agent::MessageDirection;
pub use ringway_sdp::CryptoSuite;
