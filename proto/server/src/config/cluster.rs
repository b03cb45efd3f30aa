//! Servers that share registrations (nodes, decision 0050): the secret that they share, and the links between them.
//!
//! All connections of links, accepted and dialled, belong to one listener, whose TLS accepts nodes only. A connection is therefore a
//! link if it has the number of that listener.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::SocketAddr;
use hmac::{Hmac, KeyInit, Mac};
use ringway_location::NodeName;
use ringway_sansio::{Flow, Instant, ListenerId, PeerNames, Transport};
use sha2::Sha256;

/// Secret of all nodes, from which keys are derived.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ClusterSecret([u8; 32]);

/// This server as a node, and its links to the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Links {
    /// Name of this node.
    pub node: NodeName,
    /// Number of the TLS listener of links. Connections to other nodes have it too, and no other connections.
    pub listener: ListenerId,
    /// Secret that keys are derived from.
    pub secret: ClusterSecret,
    /// Secret that is accepted too, while all nodes change to another.
    pub accepted_secret: Option<ClusterSecret>,
    /// The other nodes.
    pub nodes: Vec<LinkedNode>,
    /// As in [`Cluster`](crate::Cluster).
    #[cfg(not(feature = "cluster"))]
    pub(crate) absent: core::convert::Infallible,
}

/// Another node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkedNode {
    /// Its name.
    pub name: NodeName,
    /// Address of its listener of links.
    pub address: SocketAddr,
}

impl ClusterSecret {
    /// Secret from random bytes, at least 32.
    pub fn new(random: &[u8]) -> Self {
        Self(mac(b"ringway cluster secret", random))
    }

    /// Key for a purpose, equal on all nodes (HKDF-Expand of RFC 5869 with one block).
    pub fn key(&self, purpose: &[u8]) -> [u8; 32] {
        mac(&self.0, &[purpose, &[1]].concat())
    }

    pub(crate) fn short_key(&self, purpose: &[u8]) -> [u8; 16] {
        let mut key = [0; 16];
        key.iter_mut().zip(self.key(purpose)).for_each(|(to, from)| *to = from);
        key
    }
}

impl core::fmt::Debug for ClusterSecret {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("ClusterSecret")
    }
}

impl Links {
    /// Keys of `purpose` by the secret, and by the one that is accepted too.
    pub(crate) fn keys(&self, purpose: &[u8]) -> ([u8; 16], Option<[u8; 16]>) {
        (self.secret.short_key(purpose), self.accepted_secret.map(|secret| secret.short_key(purpose)))
    }

    /// Secret of the keys that are this node's alone: those of marks and tokens, which name its connections. Nodes whose databases
    /// were copied have the same `secret` in them, and different names.
    pub(crate) fn own_secret(&self, secret: &[u8; 32]) -> [u8; 32] {
        mac(secret, &[b"node ", self.node.as_bytes()].concat())
    }

    /// True if the peer of a link has the certificate of a node.
    pub(crate) fn is_node(peer: &PeerNames, now: Instant) -> bool {
        peer.is_below(NODES, now)
    }

    /// Flow to the node with this address; `None` if there is none.
    pub(crate) fn flow_to(&self, transport: Transport, remote: SocketAddr) -> Option<Flow> {
        let is_node = transport == Transport::Tls && self.nodes.iter().any(|node| node.address == remote);
        is_node.then(|| Flow::new(Transport::Tls, self.listener, remote))
    }

    /// Flows to all nodes.
    pub(crate) fn flows(&self) -> impl Iterator<Item = Flow> {
        self.nodes.iter().map(|node| Flow::new(Transport::Tls, self.listener, node.address))
    }
}

/// Domain in the certificate of a node.
pub fn node_domain(name: &NodeName) -> String {
    format!("{name}.{NODES}")
}

impl LinkedNode {
    /// URI of its listener of links: that of the neighbour that this node keeps a connection to.
    pub fn uri(&self) -> String {
        format!("sip:{};transport=tls", self.address)
    }
}

fn mac(key: &[u8], text: &[u8]) -> [u8; 32] {
    let mac = Hmac::<Sha256>::new_from_slice(key);
    let mut mac = mac.unwrap_or_else(|_| Hmac::new(&Default::default()));
    mac.update(text);
    mac.finalize().into_bytes().into()
}

/// Domain of the names of nodes in their certificates; `internal` is reserved for private use.
const NODES: &str = "node.ringway.internal";

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_differ_by_secret_and_purpose() {
        let (one, other) = (ClusterSecret::new(&[1; 32]), ClusterSecret::new(&[2; 32]));
        assert_eq!(one.key(b"nonce"), ClusterSecret::new(&[1; 32]).key(b"nonce"));
        assert_ne!(one.key(b"nonce"), one.key(b"gruu"));
        assert_ne!(one.key(b"nonce"), other.key(b"nonce"));
        assert_eq!(alloc::format!("{one:?}"), "ClusterSecret");
    }
}
