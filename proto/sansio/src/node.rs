//! Trait of protocol machines that messages and timers drive.

use crate::{Context, Deadline, Event, IcmpError, Received, Seed};

/// Sans-I/O protocol machine: takes messages, events and the current time, and returns packets and requested actions. It
/// performs no I/O and never blocks.
///
/// A driver with several threads owns several nodes ("shards") and passes each message to the node that
/// [`Node::shard_of`] selects. It must not call one node from two threads at once, and must pass messages of one flow in
/// the order of their arrival.
pub trait Node {
    /// Effect other than a packet, for example a DNS lookup.
    type Action;

    /// Framing of this protocol on a byte stream.
    type Framer: Framer;

    /// Index, below `shards`, of the shard that a message belongs to. Must be cheap and must accept any bytes. `key` is
    /// secret, so that a peer cannot choose the shard that it loads.
    fn shard_of(key: &ShardKey, bytes: &[u8], shards: u16) -> u16;

    /// Handles one message: a datagram, or a frame that the [`Framer`] cut from a stream.
    fn on_message(&mut self, cx: &mut Context<'_, Self::Action>, received: Received<'_>);

    /// Handles an event of the transport.
    fn on_event(&mut self, cx: &mut Context<'_, Self::Action>, event: Event);

    /// Index, below `shards`, of the shard that sent the datagram which begins with `quoted`. `None`: an ICMP error with this
    /// quotation has no effect, so that the driver can drop it.
    fn shard_of_quoted(_quoted: &[u8], _shards: u16) -> Option<u16> {
        None
    }

    /// Handles an ICMP error for a datagram of this node.
    fn on_icmp_error(&mut self, _cx: &mut Context<'_, Self::Action>, _error: IcmpError<'_>) {}

    /// Performs everything that is due at the time of the context. An early call has no effect.
    fn on_timeout(&mut self, cx: &mut Context<'_, Self::Action>);

    /// Time of the next necessary call of [`Node::on_timeout`]. `None`: not before the next message or event.
    fn next_deadline(&self) -> Option<Deadline>;
}

/// Secret key of the hash that distributes messages to shards; one for a driver and all its nodes, new at each start.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ShardKey([u8; 16]);

impl ShardKey {
    /// Creates the key from a part of the seed that has no other use.
    pub fn new(seed: &Seed) -> Self {
        let mut key = [0; 16];
        key.copy_from_slice(seed.bytes().split_at(16).0);
        Self(key)
    }

    /// Bytes of the key of a hash.
    pub const fn bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl core::fmt::Debug for ShardKey {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("ShardKey(..)")
    }
}

/// Cuts a byte stream into messages, and owns the bytes of an incomplete message.
pub trait Framer {
    /// Creates a framer for a new connection; it holds not much more than `max_message_bytes`.
    fn new(max_message_bytes: usize) -> Self;

    /// Adds received bytes.
    fn push(&mut self, bytes: &[u8]);

    /// Marks the start of a message, if the layer below preserves boundaries (WebSocket, RFC 7118 §5): its end is then
    /// reported by [`Framer::message_end`].
    fn message_start(&mut self) {}

    /// Marks the end of a message, if the layer below preserves boundaries (WebSocket, RFC 7118 §5). A framer that finds
    /// the ends in the bytes ignores it.
    fn message_end(&mut self) {}

    /// Next complete message. `Ok(None)`: more bytes are needed.
    ///
    /// # Errors
    /// The stream cannot be cut into messages any more; the connection must be closed.
    fn next_frame(&mut self) -> Result<Option<&[u8]>, FramingError>;

    /// Number of keep-alives that were received since the last call and need a pong (RFC 5626 §3.5.1: CRLF for a double
    /// CRLF).
    fn pongs(&mut self) -> usize;

    /// Bytes of a pong on the wire.
    const PONG: &'static [u8];

    /// True while a message has begun and is not complete; the driver limits the duration of this state.
    fn is_partial(&self) -> bool;

    /// Memory in use in bytes, unused capacity included.
    fn held_bytes(&self) -> usize;
}

/// Reason why a stream cannot be cut into messages any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct FramingError(
    /// Text for a log.
    pub &'static str,
);
