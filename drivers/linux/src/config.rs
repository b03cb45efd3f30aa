//! Settings of a runtime.

use crate::clock::Clock;
use crate::held::MarkedPackets;
use crate::layers::{Layers, PlainTcp};
use crate::trace::MessageTrace;
use ringway_datagram::Associations;
use ringway_sansio::{Flow, MemoryBound, Seed, ShardKey, Transport};
use ringway_stream::StreamLimits;
use std::sync::Arc;

/// Maximum length in bytes of a message on a stream with this flow; called once for each stream.
pub type MessageBytesMax = Arc<dyn Fn(&Flow) -> usize + Send + Sync>;

/// Settings of a [`Runtime`](crate::Runtime).
#[derive(Clone)]
pub struct Config {
    /// Clock of the runtime; must be the one with which the nodes were created.
    pub clock: Clock,
    /// Treatment of packets that confirm that something is stored.
    pub marked_packets: MarkedPackets,
    /// Maximum length of a message on a stream.
    pub message_bytes_max: MessageBytesMax,
    /// Maximum number of open connections, accepted and dialled; more are refused.
    pub max_connections: usize,
    /// Maximum number of accepted connections of one source; 0: no limit, also not on the memory of a source's
    /// connections. An IPv6 source is a /64 network.
    pub max_connections_per_source: usize,
    /// Maximum number of datagrams per system call, 1 to 64.
    pub datagram_batch: usize,
    /// Limits of one stream connection.
    pub streams: StreamLimits,
    /// Limit of the bytes that stream connections hold: incomplete messages and unread output. `None`: no common limit.
    pub memory: Option<Arc<MemoryBound>>,
    /// Secret key that assigns messages to shards; must be the one with which the nodes were filled.
    pub shard_key: ShardKey,
    /// Layers of stream connections.
    pub layers: Arc<dyn Layers>,
    /// Transport whose connections are dialled from the port of their listener where that is possible: for a listener whose
    /// accepted connections fail.
    pub dials_from_listener: Option<Transport>,
    /// Associations of DTLS listeners. `None`: their datagrams are dropped.
    pub associations: Option<Arc<dyn Associations>>,
    /// Called with every message, if set.
    pub trace: Option<MessageTrace>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            clock: Clock::new(),
            marked_packets: MarkedPackets::SendAtOnce,
            message_bytes_max: Arc::new(|_| 65_535),
            max_connections: 20_000,
            max_connections_per_source: 0,
            datagram_batch: 32,
            streams: StreamLimits::default(),
            memory: None,
            shard_key: ShardKey::new(&Seed::from_bytes([0; 32])),
            layers: Arc::new(PlainTcp),
            dials_from_listener: None,
            associations: None,
            trace: None,
        }
    }
}
