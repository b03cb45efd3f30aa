//! Stream connection as a sans-I/O machine.
//!
//! Does: the part of a connection that is equal on every platform, between the socket and the protocol machine.
//! [`Connection`] decodes received bytes with a [`Layer`] ([`PassThrough`] for TCP, [`WebSocket`]), cuts them into
//! messages with a [`Framer`](ringway_sansio::Framer), answers keep-alives (RFC 5626 §3.5.1), queues bytes that the
//! socket does not accept, enforces [`StreamLimits`], and returns the reason to close it ([`CloseReason`]). [`ProxyHeader`] reads
//! the header of a proxy in front, before the connection begins.
//!
//! Does not: open, accept, read or close a socket, read a clock, choose a connection for a message, or parse SIP. Slot tables,
//! dialling, epoll and smoltcp belong to the drivers (docs/decisions/0013-one-stream-connection.md).
//!
//! Start reading at [`Connection`].
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
// The checks of the corpus, which the fuzz targets have too, name the crate.
#[cfg(test)]
extern crate self as ringway_stream;
#[cfg(test)]
extern crate std;

mod connection;
mod layer;
mod limits;
mod proxy_header;
mod times;
mod websocket;
mod write_queue;

pub use connection::{Batch, Connection, WriteFailed};
pub use layer::{Decoded, Encoded, Layer, LayerError, PassThrough, PlainLayers, StreamLayers};
pub use limits::{CloseReason, StreamLimits};
pub use proxy_header::{ProxiedPeer, ProxyHeader, ProxyHeaderError};
pub use times::Origin;
pub use websocket::{WebSocket, WebSocketServer, WebSocketTarget};

#[cfg(test)]
mod corpus_tests;
#[cfg(test)]
mod test_layers;
