//! Connections to neighbours: opened at the start, kept, checked with OPTIONS, opened again after a back-off.

mod alias;
mod calls;
mod keeper;
mod link;
mod sending;
mod table;

pub use calls::CALLS_MAX;
pub(crate) use calls::{CallRequest, CallResult};
pub(crate) use keeper::Neighbours;
pub(crate) use sending::Sending;
pub use table::{NEIGHBOURS_MAX, NeighbourRoute, NeighbourTable};
