//! Limits of a connection.

use core::time::Duration;

/// What a stream connection may take, in time and room. Reaching one closes the connection and is counted
/// ([`CloseReason::counter`](crate::CloseReason::counter)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamLimits {
    /// For a dialled connection to be made, a layer's handshake included.
    pub connect: Duration,
    /// For a message to become whole once its first byte is there.
    pub message: Duration,
    /// For an accepted connection to bring its first whole message.
    pub first_message: Duration,
    /// Without a byte from the peer. Longer than any registration lasts, so that a phone that refreshes in time
    /// keeps its connection.
    pub idle: Duration,
    /// For an accepted connection that nothing keeps ([`Connection::keep`](crate::Connection::keep)): without a whole
    /// message in either direction. Keep-alives do not count.
    pub unused: Duration,
    /// For the peer to take some of the bytes that wait for it.
    pub write_stall: Duration,
    /// For the peer to take the rest once it sends nothing more, or its bytes are no messages.
    pub linger: Duration,
    /// Bytes that wait for the peer to read, beyond what the kernel or the network stack holds.
    pub write_queue_bytes_max: usize,
    /// Messages and keep-alive answers among them: each costs memory besides its bytes.
    pub write_queue_messages_max: usize,
}

impl Default for StreamLimits {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(4),
            message: Duration::from_secs(10),
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
