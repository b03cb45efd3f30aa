//! This server among the nodes that share their registrations: the store, the other nodes.

mod location;
mod peers;
mod tickets;
mod view;

pub(super) use location::SharedLocation;
pub(super) use peers::{LINK_VERSION, Peers, wall_ms};
