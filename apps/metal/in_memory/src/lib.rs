//! Memory of the image's server: its host, its tables, counts of its messages.
//!
//! Does: is the server's [`Host`](ringway_server::Host) without an operating system ([`MemoryHost`]), makes its tables
//! ([`MakeTables`]), counts its messages ([`CountedNode`]).
//!
//! Does not: reach hardware or a network; the example `in_memory` measures this server between two rings of frames.
//!
//! Start reading at [`MemoryHost`].
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod counted_node;
mod memory_host;

pub use counted_node::{CountedNode, Traffic};
pub use memory_host::{MakeTables, MemoryHost, NONCES_MAX, RecordedChange, tables_with};
