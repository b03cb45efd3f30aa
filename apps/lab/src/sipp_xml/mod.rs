//! SIPp's scenario files: [`read()`] makes a [`Scenario`] of one, [`write()`] one of a scenario, [`read_list`] reads a list of `-inf`.
//!
//! A file is read if each of its elements and attributes either means the same here or cannot matter, such as the tables of
//! SIPp's statistics. Anything else is refused with its line and the reason. Retransmissions are those of RFC 3261, whatever `retrans`
//! says.

mod actions;
mod error;
mod keywords;
mod list;
mod pattern;
mod read;
mod recordings;
mod write;

pub use error::SippError;
pub use list::{CredentialColumns, InputList, InputLists, List, ListError, is_list, read_list};
pub use read::{FILE_BYTES_MAX, ScenarioFile, read, read_with};
pub use recordings::Recordings;
use ringway_load::Scenario;
pub use write::{Style, write};

#[cfg(test)]
mod tests;
