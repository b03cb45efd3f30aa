//! Trace of messages, for a log.

use ringway_sansio::Flow;

/// Direction of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From a peer to a node.
    Received,
    /// From a node to a peer.
    Sent,
}

/// Function that gets every received and sent message. It runs on the worker's thread and must not block.
pub type MessageTrace = fn(Direction, &Flow, &[u8]);
