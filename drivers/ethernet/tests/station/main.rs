//! A station against another stack's host, on a cable in memory and a virtual clock.
//!
//! Tested: UDP both ways with ARP, fragments, a gateway, TCP both ways, DHCP, DNS, TFTP, media with SRTP between
//! two stations, its beat, frames of every length, floods.
//! Not tested here: hardware, ICMP echo.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod addresses;
mod datagrams;
mod files;
mod harness;
mod hostile;
mod media;
mod names;
mod streams;
