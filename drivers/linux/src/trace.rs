//! Trace of messages, for a log.

use ringway_sansio::Flow;
use std::sync::Arc;

/// Direction of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From a peer to a node.
    Received,
    /// From a node to a peer.
    Sent,
}

/// Function that gets every received and sent message. It runs on the worker's thread and must not block.
pub type MessageTrace = Arc<dyn Fn(Direction, &Flow, &[u8]) + Send + Sync>;
