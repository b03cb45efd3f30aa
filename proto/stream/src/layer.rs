//! Interface of protocols between the socket and the framer (TLS, WebSocket), and of a driver's connections to those that are
//! above TCP.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use ringway_sansio::{Flow, Instant, PeerNames, Transport};

/// Protocol between the socket's bytes and the messages' bytes.
///
/// It performs no I/O: received bytes are arguments, bytes for the peer are appended to `wire`, which the connection writes in
/// order. With rustls, `decode` is `read_tls`, `process_new_packets` and `reader().read`, `encode` is `writer().write`, and
/// both end with `write_tls` into `wire`. A WebSocket layer reports start and end of each message, because RFC 7118 §5 carries
/// one SIP message in one WebSocket message, which may have no Content-Length. Layers stack: a layer over another is a
/// layer.
///
/// The input of `decode` comes from the peer. A layer limits the bytes that it holds, and never allocates by a declared
/// length.
pub trait Layer {
    /// Starts the handshake, on the side that sends first. Called once, when the socket is connected.
    fn start(&mut self, _wire: &mut Vec<u8>) {}

    /// Decodes received bytes: any part of a record, or several records.
    ///
    /// # Errors
    /// The bytes violate the protocol. The connection is closed after `wire` (for example an alert) is written as far as
    /// possible.
    fn decode(
        &mut self,
        bytes: &[u8],
        decoded: &mut dyn FnMut(Decoded<'_>),
        wire: &mut Vec<u8>,
    ) -> Result<(), LayerError>;

    /// Continues after work of the layer that was done outside of the connection, such as a handshake on another thread.
    ///
    /// # Errors
    /// As [`Layer::decode`].
    fn resume(
        &mut self,
        _decoded: &mut dyn FnMut(Decoded<'_>),
        _wire: &mut Vec<u8>,
    ) -> Result<(), LayerError> {
        Ok(())
    }

    /// Encodes one message. Before the end of the handshake the layer keeps it, and appends it to `wire` later, in order.
    ///
    /// # Errors
    /// The layer cannot send any more.
    fn encode(&mut self, message: &[u8], wire: &mut Vec<u8>) -> Result<Encoded, LayerError>;

    /// Appends the end of the layer's protocol: TLS close_notify, WebSocket Close.
    fn finish(&mut self, _wire: &mut Vec<u8>) {}

    /// Names in the verified certificate of the peer: none before the end of the handshake, none without a certificate.
    fn peer_names(&self) -> Option<Arc<PeerNames>> {
        None
    }

    /// True until messages can be exchanged. The limit of this state is
    /// [`StreamLimits::connect`](crate::StreamLimits::connect) for a dialled connection and
    /// [`StreamLimits::handshake`](crate::StreamLimits::handshake) for an accepted one.
    fn is_handshaking(&self) -> bool;

    /// Memory in use in bytes, unused capacity included.
    fn held_bytes(&self) -> usize;
}

impl<L: Layer + ?Sized> Layer for Box<L> {
    fn start(&mut self, wire: &mut Vec<u8>) {
        (**self).start(wire);
    }

    fn decode(
        &mut self,
        bytes: &[u8],
        decoded: &mut dyn FnMut(Decoded<'_>),
        wire: &mut Vec<u8>,
    ) -> Result<(), LayerError> {
        (**self).decode(bytes, decoded, wire)
    }

    fn resume(&mut self, decoded: &mut dyn FnMut(Decoded<'_>), wire: &mut Vec<u8>) -> Result<(), LayerError> {
        (**self).resume(decoded, wire)
    }

    fn encode(&mut self, message: &[u8], wire: &mut Vec<u8>) -> Result<Encoded, LayerError> {
        (**self).encode(message, wire)
    }

    fn finish(&mut self, wire: &mut Vec<u8>) {
        (**self).finish(wire);
    }

    fn peer_names(&self) -> Option<Arc<PeerNames>> {
        (**self).peer_names()
    }

    fn is_handshaking(&self) -> bool {
        (**self).is_handshaking()
    }

    fn held_bytes(&self) -> usize {
        (**self).held_bytes()
    }
}

/// Part of the decoded input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decoded<'a> {
    /// Start of a message, from a layer that preserves boundaries.
    MessageStart,
    /// Bytes of messages.
    Bytes(&'a [u8]),
    /// End of a message, from a layer that preserves boundaries.
    MessageEnd,
    /// Keep-alive of the layer's own protocol. The layer answers it; the connection limits the rate.
    Ping,
    /// End of the stream: the peer sends nothing after this.
    StreamEnd,
}

/// Result of encoding a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoded {
    /// The message's own bytes are written.
    Unchanged,
    /// The layer appended the bytes to write, or keeps the message until it can.
    Appended,
}

/// Violation of a layer's protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct LayerError(
    /// Text for a log.
    pub &'static str,
);

/// Layer of plain TCP: the socket's bytes are the messages' bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct PassThrough;

impl Layer for PassThrough {
    fn decode(
        &mut self,
        bytes: &[u8],
        decoded: &mut dyn FnMut(Decoded<'_>),
        _wire: &mut Vec<u8>,
    ) -> Result<(), LayerError> {
        decoded(Decoded::Bytes(bytes));
        Ok(())
    }

    fn encode(&mut self, _message: &[u8], _wire: &mut Vec<u8>) -> Result<Encoded, LayerError> {
        Ok(Encoded::Unchanged)
    }

    fn is_handshaking(&self) -> bool {
        false
    }

    fn held_bytes(&self) -> usize {
        0
    }
}

/// Source of the layers of a driver's stream connections.
///
/// The driver has one thread, and handles its connections in turns. (A driver whose connections have several threads needs a
/// source that they share: `Layers` of `drivers/linux`.)
pub trait StreamLayers {
    /// Layer of one connection.
    type Layer: Layer;

    /// True if a layer continues in a later turn without a byte of its peer ([`Layer::resume`]): the driver then calls all of
    /// them in its next turn.
    fn resumes(&self) -> bool;

    /// Begins a turn of the driver at `now`, before any layer runs.
    fn begin_turn(&mut self, now: Instant);

    /// Creates the layer of an accepted connection; `None` refuses it.
    fn accept(&mut self, flow: &Flow) -> Option<Self::Layer>;

    /// Creates the layer of a connection that is to be dialled; `None`: it cannot be dialled.
    fn dial(&mut self, flow: &Flow) -> Option<Self::Layer>;
}

/// Layers of a driver whose stream connections are all TCP.
#[derive(Clone, Copy, Debug, Default)]
pub struct PlainLayers;

impl StreamLayers for PlainLayers {
    type Layer = PassThrough;

    fn resumes(&self) -> bool {
        false
    }

    fn begin_turn(&mut self, _now: Instant) {}

    fn accept(&mut self, flow: &Flow) -> Option<PassThrough> {
        (flow.transport == Transport::Tcp).then_some(PassThrough)
    }

    fn dial(&mut self, flow: &Flow) -> Option<PassThrough> {
        (flow.transport == Transport::Tcp).then_some(PassThrough)
    }
}
