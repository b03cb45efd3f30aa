//! A station and a host of smoltcp on a cable in memory, with a virtual clock.
//!
//! Tested: UDP in both directions with ARP, fragments, a gateway, TCP in both directions, DHCP, DNS, TFTP, media with
//! SRTP between two stations, ticks, frames of every length, floods.
//! Not tested here: hardware.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod addresses;
mod datagrams;
mod files;
mod harness;
mod hostile;
mod media;
mod names;
mod streams;
