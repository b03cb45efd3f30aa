//! Servers, links and measurements that tests of several crates use.
//!
//! Does: answers DHCP and TFTP, with faults on request ([`dhcp`], [`tftp`]), measures tones ([`tone`]), connects a station of
//! `ringway-ethernet` to a host of another stack by a link in memory (feature `ethernet`), and implements the host of
//! a server (feature `server`), starts servers of Redis (feature `redis`), looks for programs ([`programs`]).
//!
//! Does not: belong to any program. Support for the tests of only one crate stays in that crate.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

pub mod dhcp;
#[cfg(feature = "ethernet")]
pub mod ethernet;
#[cfg(feature = "server")]
pub mod host;
pub mod programs;
#[cfg(feature = "redis")]
pub mod redis;
pub mod tftp;
pub mod tone;
