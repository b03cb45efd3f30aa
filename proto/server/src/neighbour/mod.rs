//! Connections to neighbours: opened at the start, kept, checked with OPTIONS, opened again after a back-off.

mod keeper;
mod link;
mod sending;

pub(crate) use keeper::Neighbours;
pub(crate) use sending::Sending;
