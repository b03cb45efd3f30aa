//! Servers, links and measurements that tests of several crates use.
//!
//! Does: starts programs as processes, with servers of Redis and rtpengine, in network namespaces (feature `process`), and looks for them ([`programs`]); finds
//! free ports ([`port`]) and waits for conditions ([`eventually`]); answers DHCP and TFTP, with faults on request ([`dhcp`],
//! [`tftp`]); measures tones ([`tone`]); connects a station of `ringway-ethernet` to a host of another stack by a link in
//! memory (feature `ethernet`); implements the host of a server (feature `server`).
//!
//! Does not: belong to any program. Support for the tests of only one crate stays in that crate.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

pub mod dhcp;
#[cfg(feature = "ethernet")]
pub mod ethernet;
pub mod eventually;
#[cfg(feature = "server")]
pub mod host;
#[cfg(feature = "process")]
pub mod namespace;
pub mod port;
#[cfg(feature = "process")]
pub mod process;
pub mod programs;
#[cfg(feature = "process")]
pub mod redis;
#[cfg(feature = "process")]
pub mod rtpengine;
pub mod tftp;
pub mod tone;
