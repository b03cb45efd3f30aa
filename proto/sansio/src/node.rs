//! The one trait between drivers and protocol machines.

use crate::{Context, Deadline, Event, Received, Seed};

/// A protocol machine: bytes and time go in, bytes and wishes come out. It never waits and never looks around.
///
/// The unit a driver runs is one node. A driver with several threads owns several nodes ("shards") and gives each
/// message to the one that [`Node::shard_of`] names; it may not call one node from two threads at once. Messages of one
/// flow must be handed over in the order they arrived.
pub trait Node {
    /// What the machine wishes done that is not a packet: store this, look that name up.
    type Action;

    /// How a byte stream is cut into this protocol's messages.
    type Framer: Framer;

    /// The shard, below `shards`, that a message belongs to. It must be cheap, and total on hostile bytes. `key` is secret, so
    /// that no peer chooses whose shard it loads.
    fn shard_of(key: &ShardKey, bytes: &[u8], shards: u16) -> u16;

    /// Takes one message: a datagram, or a frame that the [`Framer`] cut from a stream.
    fn on_message(&mut self, cx: &mut Context<'_, Self::Action>, received: Received<'_>);

    /// Takes a report of the transport.
    fn on_event(&mut self, cx: &mut Context<'_, Self::Action>, event: Event);

    /// Does what is due at the time of the context. Calling it early does no harm.
    fn on_timeout(&mut self, cx: &mut Context<'_, Self::Action>);

    /// When [`Node::on_timeout`] is wanted next. `None`: not before the next message.
    fn next_deadline(&self) -> Option<Deadline>;
}

/// The secret that messages are spread over shards with: one for a driver and all its nodes, new at each start.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ShardKey([u8; 16]);

impl ShardKey {
    /// From a part of a seed that is used for nothing else.
    pub fn new(seed: &Seed) -> Self {
        let mut key = [0; 16];
        key.copy_from_slice(seed.bytes().split_at(16).0);
        Self(key)
    }

    /// The bytes, for keying a hash.
    pub const fn bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl core::fmt::Debug for ShardKey {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("ShardKey(..)")
    }
}

/// Cuts a byte stream into messages. It owns the bytes it was given until they are a message.
pub trait Framer {
    /// A framer for a new connection that never holds more than about `max_message_bytes`.
    fn new(max_message_bytes: usize) -> Self;

    /// Adds bytes as they arrived.
    fn push(&mut self, bytes: &[u8]);

    /// Notes that the bytes so far end a message, because the layer below preserves boundaries (a WebSocket, RFC 7118 §5). A
    /// framer that finds the ends by itself ignores it.
    fn message_end(&mut self) {}

    /// The next whole message. `Ok(None)`: more bytes are needed. After an error the connection is of no use and
    /// must be closed: nobody can say where the next message begins.
    fn next_frame(&mut self) -> Result<Option<&[u8]>, FramingError>;

    /// Keep-alive answers that are owed to the peer since the last call (RFC 5626 §3.5.1: CRLF for a double CRLF).
    fn pongs(&mut self) -> usize;

    /// What a pong looks like on the wire.
    const PONG: &'static [u8];

    /// True while a message has begun and is not whole, for a limit on how long that may take.
    fn is_partial(&self) -> bool;

    /// Bytes of memory that it holds, unused capacity included.
    fn held_bytes(&self) -> usize;
}

/// Why a stream can no longer be cut into messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FramingError(
    /// In words, for a log and a counter.
    pub &'static str,
);

impl core::fmt::Display for FramingError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.0)
    }
}

impl core::error::Error for FramingError {}
