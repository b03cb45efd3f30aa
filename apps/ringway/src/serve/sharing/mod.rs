//! This server among the nodes that share their registrations: the store, the other nodes.

mod again;
mod location;
mod peers;
mod sweep;
mod tickets;
mod view;

pub(super) use again::Again;
pub(super) use location::SharedLocation;
pub(super) use peers::{LINK_VERSION, Peers, wall_ms};
pub(super) use sweep::Sweep;
