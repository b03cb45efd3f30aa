//! Steps of a handshake outside of its connection's thread.

use crate::connection::Connection;
use ringway_stream::Decoded;

/// Result of processing received bytes.
#[derive(Default)]
pub(crate) struct Progress {
    /// Bytes for the peer.
    pub(crate) wire: Vec<u8>,
    /// Decoded bytes.
    pub(crate) plain: Vec<u8>,
    /// The peer sends nothing more.
    pub(crate) is_end: bool,
    /// The handshake ended, or failed.
    pub(crate) is_over: bool,
    pub(crate) error: Option<rustls::Error>,
}

impl Progress {
    pub(crate) fn add(&mut self, later: Self) {
        self.wire.extend_from_slice(&later.wire);
        self.plain.extend_from_slice(&later.plain);
        self.is_end |= later.is_end;
        self.is_over |= later.is_over;
        self.error = self.error.take().or(later.error);
    }
}

/// Processes received bytes of a handshake.
pub(crate) fn process(connection: &mut Connection, bytes: &[u8], progress: &mut Progress) {
    let Progress { wire, plain, is_end, .. } = progress;
    let result = connection.receive(bytes, &mut |part| match part {
        Decoded::Bytes(bytes) => plain.extend_from_slice(bytes),
        Decoded::StreamEnd => *is_end = true,
        Decoded::MessageStart | Decoded::MessageEnd | Decoded::Ping => {}
    });
    connection.write_records(wire);
    progress.error = result.err();
    progress.is_over = progress.error.is_some() || !connection.is_handshaking();
}
