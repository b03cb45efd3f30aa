//! The SIP server, and a phone, each as a machine of its own, without an operating system.
//!
//! Does: takes an address, fetches settings and users by TFTP, serves ([`Machine`]), and shows an administrator what it does;
//! or registers, calls and is called, with sound ([`PhoneMachine`]).
//! All of it is an ordinary program: what touches hardware is in the image (`apps/metal/image`), and gives it a
//! [`Card`](ringway_ethernet::Card), the time, keys and memory figures.
//!
//! Does not: touch hardware, wait, or know which machine it is on.
//!
//! Start reading at `machine.rs`, for the phone at `phone/machine.rs`.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod consoles;
mod machine;
mod network;
mod phone;
mod program;
mod serial_log;
mod services;
mod view;
mod watched;

pub use machine::Machine;
pub use phone::PhoneMachine;
pub use program::Program;
pub use ringway_media::headset::SoundCard;
pub use services::MemoryServices;
pub use watched::{Traffic, Watched};

use alloc::boxed::Box;
use ringway_sansio::Seed;

/// What the image found out about the machine.
#[derive(Debug)]
pub struct Hardware {
    /// The network card's name.
    pub card_name: &'static str,
    /// The program's version.
    pub version: &'static str,
    /// Chance that nobody can guess; `None`: the machine has none.
    pub seed: Option<Seed>,
    /// Words of the command line that the image itself takes.
    pub words: &'static [&'static str],
    /// The sound card, for programs that [use one](Program::HAS_SOUND); `None`: there is none.
    pub sound: Option<Box<dyn SoundCard>>,
}

/// The heap, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// In use.
    pub used: u64,
    /// The most that ever was.
    pub peak: u64,
    /// All there is; 0: nobody knows.
    pub limit: u64,
    /// Allocations that found no room.
    pub failures: u64,
}
