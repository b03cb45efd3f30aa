//! A view of every message, for a log.

use ringway_sansio::Flow;

/// The way of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From a peer to a node.
    Received,
    /// From a node to a peer.
    Sent,
}

/// Gets every message as a worker receives or sends it. It runs on the worker's thread and must not wait.
pub type MessageTrace = fn(Direction, &Flow, &[u8]);
