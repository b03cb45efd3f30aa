//! A TLS connection as a layer of a stream connection.
//!
//! ```text
//! waiting --first record is complete, the gate lets it begin--> handshake --ended--> open --close_notify, error--> closed
//!     +--> closed: no TLS                                           +--> closed: alert sent, counted
//! ```

use crate::gate::{Count, Gate};
use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::string::ToString;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::net::SocketAddr;
use ringway_stream::{Decoded, Encoded, Layer, LayerError};
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{
    ConnectionState, EncodeError, EncodeTlsData, EncryptError, UnbufferedStatus, WriteTraffic,
};
use rustls::{Error, ServerConfig};

/// TLS by rustls, on an accepted connection.
pub struct TlsLayer {
    state: State,
    peer: SocketAddr,
    gate: Rc<Gate>,
    /// Received bytes that rustls has not consumed: a part of a record, or of a handshake message.
    input: Vec<u8>,
    /// Messages to send after the handshake.
    kept: Vec<u8>,
}

enum State {
    /// The first record is not complete, or waits for its turn.
    Waiting {
        config: Arc<ServerConfig>,
        is_counted: bool,
    },
    Handshake(Box<UnbufferedServerConnection>),
    Open(Box<UnbufferedServerConnection>),
    Closed,
}

impl TlsLayer {
    /// Creates the layer of an accepted connection that the gate has counted as a handshake in progress.
    pub(crate) const fn new(config: Arc<ServerConfig>, peer: SocketAddr, gate: Rc<Gate>) -> Self {
        let state = State::Waiting { config, is_counted: false };
        Self { state, peer, gate, input: Vec::new(), kept: Vec::new() }
    }

    /// Begins the handshake if its first record is complete and the gate allows it.
    fn begin(&mut self) -> Result<(), LayerError> {
        let State::Waiting { config, is_counted } = &mut self.state else { return Ok(()) };
        let Some(&first) = self.input.first() else { return Ok(()) };
        if first != RECORD_HANDSHAKE {
            self.gate.count(Count::NotTls);
            self.close();
            return Err(LayerError("no TLS on a TLS port"));
        }
        let Some(&[_, _, _, high, low]) = self.input.first_chunk() else { return Ok(()) };
        if self.input.len() < HEADER_BYTES + usize::from(u16::from_be_bytes([high, low])) {
            return Ok(());
        }
        if !self.gate.may_begin() {
            if !core::mem::replace(is_counted, true) {
                self.gate.count(Count::Waited);
            }
            return Ok(());
        }
        match UnbufferedServerConnection::new(Arc::clone(config)) {
            Ok(connection) => self.state = State::Handshake(Box::new(connection)),
            Err(error) => return self.fail(&error),
        }
        Ok(())
    }

    /// Lets rustls process the received bytes.
    fn process(
        &mut self,
        decoded: &mut dyn FnMut(Decoded<'_>),
        wire: &mut Vec<u8>,
    ) -> Result<(), LayerError> {
        let (State::Handshake(connection) | State::Open(connection)) = &mut self.state else { return Ok(()) };
        let result = advance(connection, &mut self.input, decoded, wire, |_, _| Ok(()));
        match result {
            Ok(false) => Ok(()),
            Ok(true) => self.open(wire),
            Err(error) => {
                write_alert(connection, &mut self.input, wire);
                self.fail(&error)
            }
        }
    }

    /// Ends the handshake, and sends the messages that were kept.
    fn open(&mut self, wire: &mut Vec<u8>) -> Result<(), LayerError> {
        let State::Handshake(_) = &self.state else { return Ok(()) };
        self.gate.leave(self.peer.ip());
        self.gate.count(Count::Completed);
        if let State::Handshake(connection) = core::mem::replace(&mut self.state, State::Closed) {
            self.state = State::Open(connection);
        }
        match core::mem::take(&mut self.kept) {
            kept if kept.is_empty() => Ok(()),
            kept => self.write(wire, |traffic, wire| encrypt(traffic, &kept, wire)),
        }
    }

    /// Calls rustls for bytes to be sent.
    fn write(
        &mut self,
        wire: &mut Vec<u8>,
        write: impl FnMut(&mut WriteTraffic<'_, ServerConnectionData>, &mut Vec<u8>) -> Result<(), Error>,
    ) -> Result<(), LayerError> {
        let State::Open(connection) = &mut self.state else {
            return Err(LayerError("the TLS connection is closed"));
        };
        match advance(connection, &mut self.input, &mut |_| {}, wire, write) {
            Ok(true) => Ok(()),
            Ok(false) => Err(LayerError("the TLS connection takes no more data")),
            Err(error) => self.fail(&error),
        }
    }

    fn fail(&mut self, error: &Error) -> Result<(), LayerError> {
        if self.is_handshaking() {
            self.gate.failed(self.peer, || error.to_string());
        }
        self.close();
        Err(LayerError("the TLS connection failed"))
    }

    fn close(&mut self) {
        if self.is_handshaking() {
            self.gate.leave(self.peer.ip());
        }
        self.state = State::Closed;
        self.input = Vec::new();
        self.kept = Vec::new();
    }
}

impl fmt::Debug for TlsLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsLayer").field("peer", &self.peer).finish_non_exhaustive()
    }
}

impl Layer for TlsLayer {
    fn decode(
        &mut self,
        bytes: &[u8],
        decoded: &mut dyn FnMut(Decoded<'_>),
        wire: &mut Vec<u8>,
    ) -> Result<(), LayerError> {
        if matches!(self.state, State::Closed) {
            return Err(LayerError("the TLS connection is closed"));
        }
        // Of an open connection, whole records are processed below, so that one is buffered at most.
        let most = if self.is_handshaking() { HANDSHAKE_BYTES_MAX } else { RECORD_BYTES_MAX + bytes.len() };
        if self.input.len() + bytes.len() > most {
            return self.fail(&Error::General("the handshake has too many bytes".to_string()));
        }
        self.input.extend_from_slice(bytes);
        self.resume(decoded, wire)
    }

    fn resume(&mut self, decoded: &mut dyn FnMut(Decoded<'_>), wire: &mut Vec<u8>) -> Result<(), LayerError> {
        if self.input.is_empty() {
            return Ok(());
        }
        self.begin()?;
        let result = self.process(decoded, wire);
        if self.input.len() < INPUT_BYTES_KEPT {
            self.input.shrink_to(INPUT_BYTES_KEPT);
        }
        result
    }

    fn encode(&mut self, message: &[u8], wire: &mut Vec<u8>) -> Result<Encoded, LayerError> {
        if self.is_handshaking() {
            self.kept.extend_from_slice(message);
            return Ok(Encoded::Appended);
        }
        self.write(wire, |traffic, wire| encrypt(traffic, message, wire))?;
        Ok(Encoded::Appended)
    }

    fn finish(&mut self, wire: &mut Vec<u8>) {
        if let State::Open(_) = &self.state {
            // The connection is closed in any case.
            let _ = self.write(wire, |traffic, wire| {
                append(wire, ALERT_BYTES_MAX, |room| traffic.queue_close_notify(room))
            });
        }
    }

    fn is_handshaking(&self) -> bool {
        matches!(self.state, State::Waiting { .. } | State::Handshake(_))
    }

    fn held_bytes(&self) -> usize {
        let state = match &self.state {
            State::Waiting { .. } | State::Closed => 0,
            State::Handshake(_) => HANDSHAKE_BYTES,
            State::Open(_) => OPEN_BYTES,
        };
        state + self.input.capacity() + self.kept.capacity()
    }
}

impl Drop for TlsLayer {
    fn drop(&mut self) {
        self.close();
    }
}

/// Lets a connection process `input` until it needs more; true if it can send messages then, after `write` did so.
fn advance(
    connection: &mut UnbufferedServerConnection,
    input: &mut Vec<u8>,
    decoded: &mut dyn FnMut(Decoded<'_>),
    wire: &mut Vec<u8>,
    mut write: impl FnMut(&mut WriteTraffic<'_, ServerConnectionData>, &mut Vec<u8>) -> Result<(), Error>,
) -> Result<bool, Error> {
    loop {
        let UnbufferedStatus { mut discard, state, .. } = connection.process_tls_records(input);
        let (mut end, mut is_closed) = (None, false);
        let state = match state {
            Ok(state) => state,
            Err(error) => {
                input.drain(..discard.min(input.len()));
                return Err(error);
            }
        };
        match state {
            ConnectionState::EncodeTlsData(mut data) => encode(&mut data, wire)?,
            // The bytes in `wire` are sent in order, so they count as sent.
            ConnectionState::TransmitTlsData(data) => data.done(),
            ConnectionState::ReadTraffic(mut traffic) => {
                while let Some(record) = traffic.next_record() {
                    let record = record?;
                    discard += record.discard;
                    decoded(Decoded::Bytes(record.payload));
                }
            }
            ConnectionState::PeerClosed => is_closed = true,
            ConnectionState::WriteTraffic(mut traffic) => {
                write(&mut traffic, wire)?;
                end = Some(true);
            }
            ConnectionState::BlockedHandshake | ConnectionState::Closed => end = Some(false),
            // 0-RTT data is not offered.
            _ => return Err(Error::General("unexpected state".to_string())),
        }
        input.drain(..discard.min(input.len()));
        if is_closed {
            // rustls reads nothing after it.
            input.clear();
            decoded(Decoded::StreamEnd);
        }
        if let Some(can_send) = end {
            return Ok(can_send);
        }
    }
}

/// Appends the alert of a failed connection, and the records before it.
///
/// Without a record to send rustls looks at the rest of `input` again, and it must not after its alert, nor with other bytes:
/// both can panic.
fn write_alert(connection: &mut UnbufferedServerConnection, input: &mut Vec<u8>, wire: &mut Vec<u8>) {
    for _ in 0..RECORDS_OF_ALERT_MAX {
        let UnbufferedStatus { discard, state, .. } = connection.process_tls_records(input);
        let Ok(ConnectionState::EncodeTlsData(mut data)) = state else { return };
        let before = wire.len();
        let is_encoded = encode(&mut data, wire).is_ok();
        input.drain(..discard.min(input.len()));
        if !is_encoded || wire.get(before..).is_none_or(is_alert) {
            return;
        }
    }
}

/// True for an alert: of its type, or protected as in TLS 1.3, where no other message has two bytes.
fn is_alert(record: &[u8]) -> bool {
    match record.first() {
        Some(&RECORD_ALERT) => true,
        _ => record.len() == HEADER_BYTES + 2 + 1 + 16,
    }
}

/// Appends a record of the handshake.
fn encode(data: &mut EncodeTlsData<'_, ServerConnectionData>, wire: &mut Vec<u8>) -> Result<(), Error> {
    let bytes = match data.encode(&mut []) {
        Ok(_) => return Ok(()),
        Err(EncodeError::InsufficientSize(size)) => size.required_size,
        Err(EncodeError::AlreadyEncoded) => return Err(Error::EncryptError),
    };
    let before = wire.len();
    wire.resize(before + bytes, 0);
    let room = wire.get_mut(before..).unwrap_or_default();
    data.encode(room).map(|_| ()).map_err(|_| Error::EncryptError)
}

/// Appends a message in records.
fn encrypt(
    traffic: &mut WriteTraffic<'_, ServerConnectionData>,
    message: &[u8],
    wire: &mut Vec<u8>,
) -> Result<(), Error> {
    let records = message.len().div_ceil(PLAIN_BYTES_MAX) + RECORDS_BEFORE_MAX;
    append(wire, message.len() + records * RECORD_OVERHEAD_MAX, |room| traffic.encrypt(message, room))
}

/// Appends at most `most` bytes, which `write` writes.
fn append(
    wire: &mut Vec<u8>,
    most: usize,
    write: impl FnOnce(&mut [u8]) -> Result<usize, EncryptError>,
) -> Result<(), Error> {
    let before = wire.len();
    wire.resize(before + most, 0);
    let written = write(wire.get_mut(before..).unwrap_or_default());
    wire.truncate(before + written.as_ref().map_or(0, |written| *written));
    written.map(|_| ()).map_err(|_| Error::EncryptError)
}

const RECORD_ALERT: u8 = 21;
const RECORD_HANDSHAKE: u8 = 22;
/// Length of a record's header, and maximum length of a record (RFC 5246 §6.2.3).
const HEADER_BYTES: usize = 5;
const RECORD_BYTES_MAX: usize = HEADER_BYTES + (1 << 14) + 2048;
const PLAIN_BYTES_MAX: usize = 1 << 14;
/// Maximum length that a record adds to its plain text: header, explicit nonce, type and tag.
const RECORD_OVERHEAD_MAX: usize = HEADER_BYTES + 8 + 1 + 16;
/// Maximum number of short records before those of a message: answers to key updates.
const RECORDS_BEFORE_MAX: usize = 2;
const ALERT_BYTES_MAX: usize = RECORDS_BEFORE_MAX * (RECORD_OVERHEAD_MAX + 8);
/// Maximum number of records with an alert: a server's first flight has five.
const RECORDS_OF_ALERT_MAX: usize = 8;
/// Capacity of the input buffer that is kept between records: most messages.
const INPUT_BYTES_KEPT: usize = 2048;
/// Maximum number of bytes of a handshake that wait: a ClientHello with a post-quantum key share has less than 2,000.
const HANDSHAKE_BYTES_MAX: usize = 8 << 10;
/// Approximate memory of a connection during its handshake, and after it, in bytes.
const HANDSHAKE_BYTES: usize = 8 << 10;
const OPEN_BYTES: usize = 4 << 10;
