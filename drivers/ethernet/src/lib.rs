//! From Ethernet frames to protocol machines, without an operating system.
//!
//! Does: names what a network card is ([`Card`]).
//!
//! Does not: touch hardware, read clocks, or know SIP.
//!
//! Start reading at [`Card`].
#![no_std]
#![forbid(unsafe_code)]

mod card;

pub use card::{Card, CardCounters, FRAME_BYTES_MAX};
