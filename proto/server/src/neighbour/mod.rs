//! Connections to neighbours: opened at the start, kept, checked with OPTIONS, opened again after a back-off.

mod keeper;
pub(crate) mod line;
mod link;
mod registration;
mod sending;

pub(crate) use keeper::Neighbours;
pub(crate) use registration::Registrations;
pub(crate) use sending::Sending;
