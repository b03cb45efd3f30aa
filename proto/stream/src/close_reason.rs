//! Why connections are closed.

/// Why a connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// The peer closed it, or it broke.
    Ended,
    /// It could not be made.
    NotConnected,
    /// Its bytes cannot be decoded or cut into messages.
    Framing,
    /// A message did not become whole in time.
    Slow,
    /// Nothing was received for too long.
    Idle,
    /// Nothing is registered over it, and no message was exchanged for too long.
    Unused,
    /// The peer does not read.
    Unread,
    /// The connections of its source hold as many bytes as they may.
    SourceMemory,
    /// All connections, and whatever else shares the [`MemoryBound`](ringway_sansio::MemoryBound), hold as many bytes as
    /// they may.
    Memory,
}

impl CloseReason {
    /// All reasons.
    pub const ALL: [Self; 9] = [
        Self::Ended,
        Self::NotConnected,
        Self::Framing,
        Self::Slow,
        Self::Idle,
        Self::Unused,
        Self::Unread,
        Self::SourceMemory,
        Self::Memory,
    ];

    /// The counter of connections closed for this reason. `None`: an end by the peer is not counted.
    pub const fn counter(self) -> Option<&'static str> {
        match self {
            Self::Ended => None,
            Self::NotConnected => Some("dial_failures"),
            Self::Framing => Some("framing_errors"),
            Self::Slow => Some("slow_closes"),
            Self::Idle => Some("idle_closes"),
            Self::Unused => Some("unused_closes"),
            Self::Unread => Some("write_queue_closes"),
            Self::SourceMemory => Some("stream_source_closes"),
            Self::Memory => Some("stream_memory_closes"),
        }
    }
}
