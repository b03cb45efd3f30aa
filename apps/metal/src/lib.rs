//! The SIP server and the phone as bootable machines without an operating system.
//!
//! Does: configures an IP address, fetches settings and users by TFTP, serves ([`Machine`]) and shows an administration
//! screen; or registers, calls and answers, with sound ([`PhoneMachine`]). Hardware access is in the image
//! (`apps/metal/image`), which passes in a [`Card`](ringway_ethernet::Card), the time, keys and memory figures.
//!
//! Does not: access hardware, block, depend on a specific machine.
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
mod steps;
mod view;

pub use machine::Machine;
pub use phone::PhoneMachine;
pub use program::Program;
pub use ringway_in_memory::{CountedNode, MakeTables, MemoryHost, Traffic, tables_with};
pub use ringway_media::headset::SoundCard;

use alloc::boxed::Box;
use ringway_sansio::Seed;

/// Properties of the machine that the image detected.
#[derive(Debug)]
pub struct Hardware {
    /// Name of the network card.
    pub card_name: &'static str,
    /// Version of the program.
    pub version: &'static str,
    /// Random seed; `None`: the machine has no source of randomness.
    pub seed: Option<Seed>,
    /// Another seed, from further output of the same source. Keys of TLS connections come from it alone, and it is not kept.
    pub tls_seed: Option<Seed>,
    /// File on the boot medium with certificate and key of the server, in PEM; `None`: there is none.
    pub boot_file: Option<&'static [u8]>,
    /// Words of the command line that the image itself handles.
    pub words: &'static [&'static str],
    /// Maker of the tables of a server, with locks of this hardware.
    pub tables: MakeTables,
    /// Clock of the server's timing points, which never goes back; `None`: they are off.
    pub step_clock: Option<fn() -> u64>,
    /// Sound card, for programs with [`Program::HAS_SOUND`]; `None`: there is none.
    pub sound: Option<Box<dyn SoundCard>>,
}

/// Usage of the heap, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// In use.
    pub used: u64,
    /// Maximum in use since the start.
    pub peak: u64,
    /// Total size; 0: unknown.
    pub limit: u64,
    /// Number of failed allocations.
    pub failures: u64,
}
