//! Settings of a runtime.

use crate::clock::Clock;
use crate::held::MarkedPackets;
use crate::trace::MessageTrace;
use ringway_sansio::{MemoryBound, Seed, ShardKey};
use ringway_stream::StreamLimits;
use std::sync::Arc;

/// Settings of a [`Runtime`](crate::Runtime).
#[derive(Clone, Debug)]
pub struct Config {
    /// The time the nodes see; give the one they were made with.
    pub clock: Clock,
    /// Treatment of packets that confirm that something is stored.
    pub marked_packets: MarkedPackets,
    /// The longest message a stream may bring, bytes.
    pub max_message_bytes: usize,
    /// Connections open at a time, accepted and dialled together; more are refused.
    pub max_connections: usize,
    /// Accepted connections of one source at a time; 0: no limit, nor on the bytes that a source's connections hold. An IPv6
    /// source is a /64 network.
    pub max_connections_per_source: usize,
    /// Datagrams received or sent with one call, 1 to 64.
    pub datagram_batch: usize,
    /// What one stream connection may take.
    pub streams: StreamLimits,
    /// Bound on the bytes that stream connections hold: begun messages and unread output. `None`: no bound on all together.
    pub memory: Option<Arc<MemoryBound>>,
    /// Spreads messages over the nodes; secret, the same that the nodes were filled by.
    pub shard_key: ShardKey,
    /// Gets every message, if somebody wants to see them.
    pub trace: Option<MessageTrace>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            clock: Clock::new(),
            marked_packets: MarkedPackets::SendAtOnce,
            max_message_bytes: 65_535,
            max_connections: 20_000,
            max_connections_per_source: 0,
            datagram_batch: 32,
            streams: StreamLimits::default(),
            memory: None,
            shard_key: ShardKey::new(&Seed::from_bytes([0; 32])),
            trace: None,
        }
    }
}
