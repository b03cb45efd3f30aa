//! Settings of a server, with the keys of `ringway.toml`.
//!
//! Does: reads typed values from TOML and keeps the line of each ([`read_document`]); reads the sections of a server into
//! [`ringway_server::Config`], which has their defaults ([`read_auth`], [`read_registrar`], [`read_routing`]), and [`Limits`];
//! reads all settings of a machine without an operating system ([`MachineSettings`]).
//!
//! Does not: open files, or have settings that only Linux needs (stores, threads, logs).
//!
//! Start reading at `sections.rs`.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

#[cfg(feature = "keys")]
mod keys;
mod listeners;
mod machine;
mod network;
mod reader;
mod sections;
mod words;

#[cfg(feature = "keys")]
pub use keys::{KeyChange, Keys, ShownValue, is_secret};
pub use listeners::{HostPort, Listener, NoHost, read_domains, read_listen};
pub use machine::MachineSettings;
pub use network::{Addressing, addressing, host};
#[cfg(feature = "keys")]
pub use reader::read_document_with_keys;
pub use reader::{ConfigError, Reader, Section, nearest, read_document};
pub use sections::{
    Connections, Limits, NumberLookups, read_auth, read_networks, read_registrar, read_routing,
};
pub use words::split_words;

#[cfg(test)]
mod machine_tests;
