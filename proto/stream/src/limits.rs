//! Limits of a connection, and reasons for closing it.

use core::time::Duration;

/// Limits of time and memory for a stream connection. Reaching one closes the connection and is counted
/// ([`CloseReason::counter`](crate::CloseReason::counter)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamLimits {
    /// Time until a dialled connection is established, a layer's handshake included.
    pub connect: Duration,
    /// Time from the first byte of a message until it is complete.
    pub message: Duration,
    /// Time until a layer's handshake is complete on an accepted connection.
    pub handshake: Duration,
    /// Time until the first complete message on an accepted connection.
    pub first_message: Duration,
    /// Time without a byte from the peer. Longer than the maximum registration, so that a phone that refreshes in time
    /// keeps its connection.
    pub idle: Duration,
    /// Time without a complete message in either direction, for an accepted connection that is not in use
    /// ([`Connection::keep`](crate::Connection::keep)). Keep-alives do not count.
    pub unused: Duration,
    /// Time until the peer accepts some of the queued bytes.
    pub write_stall: Duration,
    /// Time until the peer accepts all queued bytes after it ended the stream or sent bytes that are no messages.
    pub linger: Duration,
    /// Bytes in the queue, without those that the kernel or the network stack holds.
    pub write_queue_bytes_max: usize,
    /// Messages and keep-alive answers in the queue: each costs memory besides its bytes.
    pub write_queue_messages_max: usize,
}

impl Default for StreamLimits {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(4),
            message: Duration::from_secs(10),
            handshake: Duration::from_secs(10),
            first_message: Duration::from_secs(60),
            idle: Duration::from_secs(7500),
            unused: Duration::MAX,
            write_stall: Duration::from_secs(30),
            linger: Duration::from_secs(10),
            write_queue_bytes_max: 1 << 20,
            write_queue_messages_max: 10_000,
        }
    }
}

/// Reason for closing a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// The peer closed it, or the socket failed.
    Ended,
    /// The connection could not be established.
    NotConnected,
    /// Its layer's handshake failed, or an accepted one was not complete in time.
    Handshake,
    /// Its bytes cannot be decoded or cut into messages.
    Framing,
    /// A message was not complete in time.
    Slow,
    /// Nothing was received for too long.
    Idle,
    /// No binding needs it, and no message was exchanged for too long.
    Unused,
    /// The peer does not read.
    Unread,
    /// The peer sent more keep-alives than are answered.
    KeepAlives,
    /// The connections of its source have reached their limit of memory.
    SourceMemory,
    /// All connections, and the other users of the [`MemoryBound`](ringway_sansio::MemoryBound), have reached its limit.
    Memory,
    /// It was unused, all connections were in use, and no source or network had more of them for its limit.
    Crowded,
}

impl CloseReason {
    /// All reasons.
    pub const ALL: [Self; 12] = [
        Self::Ended,
        Self::NotConnected,
        Self::Handshake,
        Self::Framing,
        Self::Slow,
        Self::Idle,
        Self::Unused,
        Self::Unread,
        Self::KeepAlives,
        Self::SourceMemory,
        Self::Memory,
        Self::Crowded,
    ];

    /// Counter of connections closed for this reason. `None`: an end by the peer is not counted.
    pub const fn counter(self) -> Option<&'static str> {
        match self {
            Self::Ended => None,
            Self::NotConnected => Some("dial_failures"),
            Self::Handshake => Some("handshake_failures"),
            Self::Framing => Some("framing_errors"),
            Self::Slow => Some("slow_closes"),
            Self::Idle => Some("idle_closes"),
            Self::Unused => Some("unused_closes"),
            Self::Unread => Some("write_queue_closes"),
            Self::KeepAlives => Some("keep_alive_closes"),
            Self::SourceMemory => Some("stream_source_closes"),
            Self::Memory => Some("stream_memory_closes"),
            Self::Crowded => Some("crowded_closes"),
        }
    }
}
