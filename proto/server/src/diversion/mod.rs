//! Diversion of calls: forwards of users, and the header fields of a call that was forwarded.

mod lines;
mod table;
mod target;

pub(crate) use lines::{Diverted, diversions_of};
pub(crate) use table::ForwardTable;
pub(crate) use target::DivertedTo;
