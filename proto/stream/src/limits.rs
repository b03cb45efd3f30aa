//! Limits of a connection.

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
