//! The interface of protocols between the socket and the framer: TLS, WebSocket.

use alloc::vec::Vec;

/// A protocol between the socket's bytes and the messages' bytes.
///
/// It performs no I/O: received bytes are arguments, bytes for the peer are appended to `wire`, which the connection writes in
/// order. With rustls, `decode` is `read_tls`, `process_new_packets` and `reader().read`, `encode` is `writer().write`, and
/// both end with `write_tls` into `wire`. A WebSocket layer reports the end of each message, because RFC 7118 §5 carries one
/// SIP message in one WebSocket message and lets it go without a Content-Length. Layers stack: a layer over another is a layer.
///
/// The peer decides what `decode` receives. A layer bounds what it holds, and never allocates by a declared length.
pub trait Layer {
    /// Starts the handshake, for the side that speaks first. Called once, when the socket is connected.
    fn start(&mut self, _wire: &mut Vec<u8>) {}

    /// Decodes bytes as the socket delivered them: any part of a record, or several.
    ///
    /// # Errors
    /// The bytes violate the protocol; the connection is closed once `wire` (an alert, perhaps) is written as far as possible.
    fn decode(
        &mut self,
        bytes: &[u8],
        decoded: &mut dyn FnMut(Decoded<'_>),
        wire: &mut Vec<u8>,
    ) -> Result<(), LayerError>;

    /// Encodes one message. Before the end of the handshake the layer keeps it, and appends it to `wire` later, in order.
    ///
    /// # Errors
    /// The layer cannot send any more.
    fn encode(&mut self, message: &[u8], wire: &mut Vec<u8>) -> Result<Encoded, LayerError>;

    /// Appends the layer's own farewell: TLS close_notify, WebSocket Close.
    fn finish(&mut self, _wire: &mut Vec<u8>) {}

    /// True until messages can be exchanged. A dialled connection must get there within
    /// [`StreamLimits::connect`](crate::StreamLimits::connect), an accepted one within
    /// [`StreamLimits::first_message`](crate::StreamLimits::first_message).
    fn is_handshaking(&self) -> bool;

    /// Bytes of memory that it holds, unused capacity included.
    fn held_bytes(&self) -> usize;
}

/// A part of what a layer decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decoded<'a> {
    /// Bytes of messages.
    Bytes(&'a [u8]),
    /// The end of a message, from a layer that preserves boundaries.
    MessageEnd,
    /// The peer sends nothing after this.
    StreamEnd,
}

/// What a layer did with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoded {
    /// Nothing: the message's own bytes are written.
    Unchanged,
    /// It appended the bytes that are written, or keeps the message until it can.
    Appended,
}

/// A violation of a layer's protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayerError(
    /// In words, for a log.
    pub &'static str,
);

impl core::fmt::Display for LayerError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.0)
    }
}

impl core::error::Error for LayerError {}

/// The layer of plain TCP: bytes are messages.
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
