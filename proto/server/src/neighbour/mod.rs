//! Connections to neighbours: opened at the start, kept, checked with OPTIONS, opened again after a back-off.

mod keeper;
mod link;
mod table;

pub(crate) use keeper::Neighbours;
pub use table::{NEIGHBOURS_MAX, NeighbourRoute, NeighbourTable};
