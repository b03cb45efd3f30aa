//! Diversion of calls: forwards of users, and the header fields of a call that was forwarded.

mod lines;
mod reason;
mod table;
mod target;

pub(crate) use lines::{Diverted, diversions_of};
pub use reason::DiversionReason;
pub(crate) use table::ForwardTable;
pub(crate) use target::DivertedTo;
