//! A TLS connection as a layer of a stream connection.
//!
//! ```text
//! handshake --ended--> open --close_notify, error--> closed
//!     |  (here, or on the threads of `handshakes.rs`)
//!     +--> failed: alert sent, reported, counted
//! ```

use crate::connection::Connection;
use crate::counters::add;
use crate::handshakes::{HandshakeThreads, Job};
use crate::report::{Peer, Role};
use ringway_stream::{Decoded, Encoded, Layer, LayerError};
use std::sync::Arc;

/// TLS as a layer.
pub struct TlsLayer {
    state: State,
    peer: Peer,
    /// Messages to send after the handshake.
    kept: Vec<u8>,
}

enum State {
    /// The handshake runs on the connection's own thread.
    Handshake(Box<Connection>),
    /// The handshake runs on other threads.
    Elsewhere(Arc<Job>, Arc<HandshakeThreads>),
    Open(Box<Connection>),
    Closed,
}

impl TlsLayer {
    /// Creates the layer of a connection whose handshake runs on the thread that calls it.
    pub(crate) fn new(connection: Connection, peer: Peer) -> Self {
        Self { state: State::Handshake(Box::new(connection)), peer, kept: Vec::new() }
    }

    /// Creates the layer of a connection whose handshake runs on `threads`.
    pub(crate) fn elsewhere(job: Arc<Job>, threads: Arc<HandshakeThreads>, peer: Peer) -> Self {
        Self { state: State::Elsewhere(job, threads), peer, kept: Vec::new() }
    }

    /// Closes the connection before its first byte is processed.
    fn abandon(&mut self) {
        if let State::Elsewhere(job, _) = &self.state {
            job.cancel();
        }
        self.state = State::Closed;
    }

    /// Takes the result of a handshake on other threads.
    fn collect(
        &mut self,
        decoded: &mut dyn FnMut(Decoded<'_>),
        wire: &mut Vec<u8>,
    ) -> Result<(), LayerError> {
        let State::Elsewhere(job, _) = &self.state else { return Ok(()) };
        let mut state = job.lock();
        let progress = std::mem::take(&mut state.progress);
        let is_over = progress.is_over;
        let connection = if is_over { state.connection.take() } else { None };
        let rest = if is_over { std::mem::take(&mut state.input) } else { Vec::new() };
        drop(state);
        wire.extend_from_slice(&progress.wire);
        match (connection, progress.error) {
            // The thread has reported it.
            (_, Some(error)) => self.fail(&error),
            (Some(connection), None) => {
                self.open(connection, wire);
                if !progress.plain.is_empty() {
                    decoded(Decoded::Bytes(&progress.plain));
                }
                if progress.is_end {
                    decoded(Decoded::StreamEnd);
                }
                self.decode(&rest, decoded, wire)
            }
            (None, None) => Ok(()),
        }
    }

    /// Ends the handshake, and sends the messages that were kept.
    fn open(&mut self, mut connection: Box<Connection>, wire: &mut Vec<u8>) {
        self.peer.counters.completed(self.peer.role == Role::Server, connection.handshake_kind());
        connection.allow_any_size();
        if !self.kept.is_empty() {
            // Writing into a connection's memory does not fail.
            let _ = connection.send(&std::mem::take(&mut self.kept));
            connection.write_records(wire);
        }
        self.state = State::Open(connection);
    }

    fn fail(&mut self, error: &rustls::Error) -> Result<(), LayerError> {
        let is_handshake = matches!(self.state, State::Handshake(_));
        self.state = State::Closed;
        if is_handshake {
            self.peer.failed(error);
        }
        Err(LayerError("the TLS connection failed"))
    }
}

impl Layer for TlsLayer {
    fn start(&mut self, wire: &mut Vec<u8>) {
        match &mut self.state {
            State::Handshake(connection) => connection.write_records(wire),
            State::Elsewhere(job, threads) if self.peer.role == Role::Client => {
                threads.submit(job, &mut job.lock());
            }
            State::Elsewhere(..) | State::Open(_) | State::Closed => {}
        }
    }

    fn decode(
        &mut self,
        bytes: &[u8],
        decoded: &mut dyn FnMut(Decoded<'_>),
        wire: &mut Vec<u8>,
    ) -> Result<(), LayerError> {
        self.collect(decoded, wire)?;
        match &mut self.state {
            State::Open(connection) => {
                let result = connection.receive(bytes, decoded);
                connection.write_records(wire);
                result.or_else(|error| self.fail(&error))
            }
            State::Handshake(connection) => {
                let result = connection.receive(bytes, decoded);
                connection.write_records(wire);
                if let Err(error) = result {
                    return self.fail(&error);
                }
                if !connection.is_handshaking()
                    && let State::Handshake(connection) = std::mem::replace(&mut self.state, State::Closed)
                {
                    self.open(connection, wire);
                }
                Ok(())
            }
            State::Elsewhere(job, threads) => {
                let mut state = job.lock();
                if state.input.len() + bytes.len() > HANDSHAKE_BYTES_MAX {
                    drop(state);
                    let error = rustls::Error::General("the handshake has too many bytes".to_owned());
                    self.peer.failed(&error);
                    return self.fail(&error);
                }
                state.input.extend_from_slice(bytes);
                threads.submit(job, &mut state);
                Ok(())
            }
            State::Closed => Err(LayerError("the TLS connection is closed")),
        }
    }

    fn resume(&mut self, decoded: &mut dyn FnMut(Decoded<'_>), wire: &mut Vec<u8>) -> Result<(), LayerError> {
        self.collect(decoded, wire)
    }

    fn encode(&mut self, message: &[u8], wire: &mut Vec<u8>) -> Result<Encoded, LayerError> {
        match &mut self.state {
            State::Open(connection) => {
                connection.send(message)?;
                connection.write_records(wire);
            }
            State::Handshake(_) | State::Elsewhere(..) => self.kept.extend_from_slice(message),
            State::Closed => return Err(LayerError("the TLS connection is closed")),
        }
        Ok(Encoded::Appended)
    }

    fn finish(&mut self, wire: &mut Vec<u8>) {
        if let State::Open(connection) = &mut self.state {
            connection.send_close_notify();
            connection.write_records(wire);
        }
    }

    fn is_handshaking(&self) -> bool {
        matches!(self.state, State::Handshake(_) | State::Elsewhere(..))
    }

    fn held_bytes(&self) -> usize {
        let state = match &self.state {
            State::Handshake(_) => HANDSHAKE_BYTES,
            State::Elsewhere(job, _) => HANDSHAKE_BYTES + job.lock().input.capacity(),
            State::Open(_) => OPEN_BYTES,
            State::Closed => 0,
        };
        state + self.kept.capacity()
    }
}

impl Drop for TlsLayer {
    fn drop(&mut self) {
        if let State::Elsewhere(job, _) = &self.state {
            job.cancel();
        }
    }
}

/// Layer of a TCP connection that notices a peer which speaks TLS.
pub(crate) struct PlainLayer {
    peer: Peer,
    has_begun: bool,
}

impl PlainLayer {
    pub(crate) const fn new(peer: Peer) -> Self {
        Self { peer, has_begun: false }
    }
}

impl Layer for PlainLayer {
    fn decode(
        &mut self,
        bytes: &[u8],
        decoded: &mut dyn FnMut(Decoded<'_>),
        _wire: &mut Vec<u8>,
    ) -> Result<(), LayerError> {
        if !std::mem::replace(&mut self.has_begun, true) && is_tls(bytes) {
            add(&self.peer.counters.tls_on_plain_port);
            self.peer.observer.failed(
                self.peer.remote,
                self.peer.role,
                "the peer speaks TLS, but this port is without TLS: use the port of a tls: listener",
            );
            return Err(LayerError("TLS on a port without TLS"));
        }
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

/// Layer of a connection to a TLS listener before its first byte: a peer without TLS is closed at once.
pub(crate) struct Guarded {
    tls: TlsLayer,
    has_begun: bool,
}

impl Guarded {
    pub(crate) const fn new(tls: TlsLayer) -> Self {
        Self { tls, has_begun: false }
    }
}

impl Layer for Guarded {
    fn decode(
        &mut self,
        bytes: &[u8],
        decoded: &mut dyn FnMut(Decoded<'_>),
        wire: &mut Vec<u8>,
    ) -> Result<(), LayerError> {
        if !self.has_begun
            && let Some(&first) = bytes.first()
        {
            self.has_begun = true;
            if first != RECORD_HANDSHAKE {
                let peer = &self.tls.peer;
                add(&peer.counters.tls_not_tls);
                let seen: String = bytes.iter().take(SEEN_BYTES).map(|&byte| printable(byte)).collect();
                let reason = format!("the peer does not speak TLS; it began with `{seen}`");
                peer.observer.failed(peer.remote, peer.role, &reason);
                self.tls.abandon();
                return Err(LayerError("no TLS on a TLS port"));
            }
        }
        self.tls.decode(bytes, decoded, wire)
    }

    fn resume(&mut self, decoded: &mut dyn FnMut(Decoded<'_>), wire: &mut Vec<u8>) -> Result<(), LayerError> {
        self.tls.resume(decoded, wire)
    }

    fn encode(&mut self, message: &[u8], wire: &mut Vec<u8>) -> Result<Encoded, LayerError> {
        self.tls.encode(message, wire)
    }

    fn finish(&mut self, wire: &mut Vec<u8>) {
        self.tls.finish(wire);
    }

    fn is_handshaking(&self) -> bool {
        self.tls.is_handshaking()
    }

    fn held_bytes(&self) -> usize {
        self.tls.held_bytes()
    }
}

/// True for the beginning of a TLS handshake record (RFC 8446 §5.1).
fn is_tls(bytes: &[u8]) -> bool {
    matches!(bytes, [RECORD_HANDSHAKE, 3, ..] | [RECORD_HANDSHAKE])
}

const fn printable(byte: u8) -> char {
    if byte.is_ascii_graphic() || byte == b' ' { byte as char } else { '.' }
}

const RECORD_HANDSHAKE: u8 = 22;
/// Number of bytes of another protocol that a report quotes.
const SEEN_BYTES: usize = 16;
/// Maximum number of bytes of a handshake that no thread has processed: some certificate chains.
const HANDSHAKE_BYTES_MAX: usize = 64 << 10;
/// Approximate memory of a connection during its handshake, and after it, in bytes.
const HANDSHAKE_BYTES: usize = 16 << 10;
const OPEN_BYTES: usize = 8 << 10;
