//! Settings of a server, in the words of `ringway.toml`.
//!
//! Does: reads typed values out of TOML with the line of everything ([`read_document`]), the sections that make a server
//! ([`Auth`], [`Registrar`], [`Routing`], [`Limits`]), and makes the server machine's settings of them
//! ([`ServerSections`]); reads all that a machine without an operating system is told ([`MachineSettings`]).
//!
//! Does not: open files, or know what only Linux has (stores, threads, logs).
//!
//! Start reading at `sections.rs`.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod host_port;
mod listeners;
mod machine;
mod network;
mod reader;
mod sections;
mod words;

pub use host_port::{HostPort, NoHost};
pub use listeners::{Listener, read_domains, read_listen};
pub use machine::MachineSettings;
pub use network::{Addressing, addressing, host};
pub use reader::{ConfigError, Reader, Section, read_document};
pub use sections::{
    Algorithm, Auth, Connections, Limits, Mode, Network, Registrar, Routing, ServerSections, Strangers,
};
pub use words::split_words;
