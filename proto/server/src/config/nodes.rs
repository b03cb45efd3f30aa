//! This server as one of several nodes that share their registrations.

use core::net::SocketAddr;
use ringway_location::NodeName;
use ringway_sansio::Transport;

/// This server among the nodes that share their registrations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// Name of this node.
    pub node: NodeName,
    /// Start of this process in milliseconds since the epoch, later than that of each earlier process of the node.
    pub incarnation: u64,
    /// Transport of the links between nodes.
    pub transport: Transport,
    /// Address of this node for the others; one of its listeners.
    pub link: SocketAddr,
    /// Users whose bindings at other nodes are held here.
    pub hold: Hold,
    /// Without the feature there is no value of this type, and the compiler leaves the code for it out.
    #[cfg(not(feature = "cluster"))]
    pub(crate) absent: core::convert::Infallible,
}

/// Users whose bindings at other nodes a node holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hold {
    /// All: once this node has read all, a user without bindings has none.
    #[default]
    All,
    /// Those that are registered at this node too, or were looked up: a user without bindings is looked up.
    Served,
}

/// State of another node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NodeState {
    /// It serves.
    #[default]
    Up,
    /// It refuses new connections, and calls go on.
    Draining,
    /// It is lost: its flows are not used.
    Gone,
}
