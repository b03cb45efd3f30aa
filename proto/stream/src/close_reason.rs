//! Reasons for closing a connection.

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
