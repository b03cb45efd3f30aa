//! Settings of a store.

use crate::LocationUrl;
use ringway_location::NodeName;
use std::net::SocketAddr;

/// Settings of a [`crate::LocationStore`].
#[derive(Clone, Debug)]
pub struct Settings {
    /// Hosts of the store, user and password.
    pub url: LocationUrl,
    /// Name of this node, unique among the nodes.
    pub node: NodeName,
    /// Start of this process in milliseconds since the epoch; the one that its updates have.
    pub incarnation: u64,
    /// Address for links of other nodes.
    pub link: SocketAddr,
    /// Version of the link's protocol.
    pub link_version: u16,
    /// True: an update is durable when a replica has it. False: when the store has it.
    pub is_strict: bool,
    /// True: all records are read at the start. False: only those that are looked up.
    pub holds_all: bool,
    /// Random number for the times of reconnections.
    pub seed: u64,
}
