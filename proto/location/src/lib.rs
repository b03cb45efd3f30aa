//! Registrations that several servers (nodes) share in one store.
//!
//! A node writes an [`Update`] for each change of an address-of-record. The store joins it with what other nodes wrote by one rule,
//! [`Registrations::apply`], and every node reads the result as a [`Record`]. The drivers of real stores run the same rule inside
//! the store (in Redis as a script); [`Registrations`] is its reference and the store of simulations.
//!
//! Does not: I/O, clocks, SIP. The body of an entry is text of the server that only servers read.
//!
//! Start reading at [`Update`].
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod record;
mod registrations;
mod update;

pub use record::{
    BadEntry, Entry, EntryId, NODE_BYTES_MAX, NodeName, Record, RecordEntry, Registered, Removal, UpdateId,
};
pub use registrations::{ENTRIES_MAX, Registrations, TRACES_MAX};
pub use update::{REMOVALS_MAX, Update, UpdateWriter};

/// Maximum length in bytes of an encoded [`Update`] and of an encoded [`Record`].
pub const BYTES_MAX: usize = 64 * 1024;
