//! Sides of a TLS connection: begin of a handshake, records (rustls' states, one after another, until it needs more bytes),
//! account of its end.

use crate::gate::{Count, Gate};
use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::string::ToString;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::SocketAddr;
use ringway_stream::Decoded;
use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::pki_types::ServerName;
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{
    ConnectionState, EncodeError, EncodeTlsData, EncryptError, UnbufferedStatus, WriteTraffic,
};
use rustls::{ClientConfig, Error, ServerConfig};

/// Side of a connection.
pub(crate) trait Role {
    /// Connection of this side.
    type Connection: Records;

    /// Maximum number of bytes of a handshake that wait.
    const HANDSHAKE_BYTES_MAX: usize;

    /// Begins the handshake; `input` has all received bytes.
    fn begin(&mut self, input: &[u8]) -> Begin<Self::Connection>;

    /// Notes that the handshake ended, in any way.
    fn ended(&mut self);

    /// Counts a completed handshake.
    fn completed(&self);

    /// Counts a failed handshake.
    fn failed(&self, error: &Error);
}

/// Begin of a handshake.
pub(crate) enum Begin<C> {
    /// Not yet.
    Waits,
    Begins(Box<C>),
    /// The peer speaks another protocol.
    NotTls,
    Failed(Error),
}

/// The accepting side. A handshake begins when its first record is complete and the gate allows it.
pub(crate) struct Accepted {
    config: Arc<ServerConfig>,
    peer: SocketAddr,
    gate: Rc<Gate>,
    /// True if the gate has counted it as waiting.
    is_waiting: bool,
}

impl Accepted {
    /// Side of a connection that the gate has counted as a handshake in progress.
    pub(crate) const fn new(config: Arc<ServerConfig>, peer: SocketAddr, gate: Rc<Gate>) -> Self {
        Self { config, peer, gate, is_waiting: false }
    }

    fn stop_waiting(&mut self) {
        if core::mem::take(&mut self.is_waiting) {
            self.gate.waited();
        }
    }
}

impl Role for Accepted {
    type Connection = UnbufferedServerConnection;

    /// A ClientHello with a post-quantum key share has less than 2,000.
    const HANDSHAKE_BYTES_MAX: usize = 8 << 10;

    fn begin(&mut self, input: &[u8]) -> Begin<UnbufferedServerConnection> {
        match input.first() {
            None => return Begin::Waits,
            Some(&RECORD_HANDSHAKE) => {}
            Some(_) => {
                self.gate.count(Count::NotTls);
                return Begin::NotTls;
            }
        }
        let Some(&[_, _, _, high, low]) = input.first_chunk() else { return Begin::Waits };
        if input.len() < HEADER_BYTES + usize::from(u16::from_be_bytes([high, low])) {
            return Begin::Waits;
        }
        if !self.gate.may_begin() {
            if !core::mem::replace(&mut self.is_waiting, true) {
                self.gate.wait();
            }
            return Begin::Waits;
        }
        self.stop_waiting();
        match UnbufferedServerConnection::new(Arc::clone(&self.config)) {
            Ok(connection) => Begin::Begins(Box::new(connection)),
            Err(error) => Begin::Failed(error),
        }
    }

    fn ended(&mut self) {
        self.stop_waiting();
        self.gate.leave(self.peer.ip());
    }

    fn completed(&self) {
        self.gate.count(Count::Completed);
    }

    fn failed(&self, error: &Error) {
        self.gate.failed(self.peer, || error.to_string());
    }
}

/// The dialling side. A handshake begins at once.
pub(crate) struct Dialled {
    config: Arc<ClientConfig>,
    peer: SocketAddr,
    /// Name that the peer's certificate must have.
    name: ServerName<'static>,
    /// For its counters.
    gate: Rc<Gate>,
}

impl Dialled {
    pub(crate) const fn new(
        config: Arc<ClientConfig>,
        peer: SocketAddr,
        name: ServerName<'static>,
        gate: Rc<Gate>,
    ) -> Self {
        Self { config, peer, name, gate }
    }
}

impl Role for Dialled {
    type Connection = UnbufferedClientConnection;

    /// A server's chain of certificates has some thousand.
    const HANDSHAKE_BYTES_MAX: usize = 64 << 10;

    fn begin(&mut self, _input: &[u8]) -> Begin<UnbufferedClientConnection> {
        match UnbufferedClientConnection::new(Arc::clone(&self.config), self.name.clone()) {
            Ok(connection) => Begin::Begins(Box::new(connection)),
            Err(error) => Begin::Failed(error),
        }
    }

    fn ended(&mut self) {}

    fn completed(&self) {
        self.gate.count(Count::Completed);
    }

    fn failed(&self, error: &Error) {
        self.gate.failed(self.peer, || error.to_string());
    }
}

const RECORD_HANDSHAKE: u8 = 22;

/// Connection of rustls of either side.
pub(crate) trait Records {
    /// State of the side.
    type Data;

    /// Processes `input` until something is to be done.
    fn process<'c, 'i>(&'c mut self, input: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data>;
}

impl Records for UnbufferedServerConnection {
    type Data = ServerConnectionData;

    fn process<'c, 'i>(&'c mut self, input: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data> {
        self.process_tls_records(input)
    }
}

impl Records for UnbufferedClientConnection {
    type Data = ClientConnectionData;

    fn process<'c, 'i>(&'c mut self, input: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data> {
        self.process_tls_records(input)
    }
}

/// Lets a connection process `input` until it needs more; true if it can send messages then, after `write` did so.
pub(crate) fn advance<C: Records>(
    connection: &mut C,
    input: &mut Vec<u8>,
    decoded: &mut dyn FnMut(Decoded<'_>),
    wire: &mut Vec<u8>,
    mut write: impl FnMut(&mut WriteTraffic<'_, C::Data>, &mut Vec<u8>) -> Result<(), Error>,
) -> Result<bool, Error> {
    loop {
        let UnbufferedStatus { mut discard, state, .. } = connection.process(input);
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
pub(crate) fn write_alert<C: Records>(connection: &mut C, input: &mut Vec<u8>, wire: &mut Vec<u8>) {
    for _ in 0..RECORDS_OF_ALERT_MAX {
        let UnbufferedStatus { discard, state, .. } = connection.process(input);
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
fn encode<D>(data: &mut EncodeTlsData<'_, D>, wire: &mut Vec<u8>) -> Result<(), Error> {
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
pub(crate) fn encrypt<D>(
    traffic: &mut WriteTraffic<'_, D>,
    message: &[u8],
    wire: &mut Vec<u8>,
) -> Result<(), Error> {
    let records = message.len().div_ceil(PLAIN_BYTES_MAX) + RECORDS_BEFORE_MAX;
    append(wire, message.len() + records * RECORD_OVERHEAD_MAX, |room| traffic.encrypt(message, room))
}

/// Appends a close_notify.
pub(crate) fn close_notify<D>(traffic: &mut WriteTraffic<'_, D>, wire: &mut Vec<u8>) -> Result<(), Error> {
    append(wire, ALERT_BYTES_MAX, |room| traffic.queue_close_notify(room))
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
/// Length of a record's header, and maximum length of a record (RFC 5246 §6.2.3).
const HEADER_BYTES: usize = 5;
pub(crate) const RECORD_BYTES_MAX: usize = HEADER_BYTES + (1 << 14) + 2048;
const PLAIN_BYTES_MAX: usize = 1 << 14;
/// Maximum length that a record adds to its plain text: header, explicit nonce, type and tag.
const RECORD_OVERHEAD_MAX: usize = HEADER_BYTES + 8 + 1 + 16;
/// Maximum number of short records before those of a message: answers to key updates.
const RECORDS_BEFORE_MAX: usize = 2;
const ALERT_BYTES_MAX: usize = RECORDS_BEFORE_MAX * (RECORD_OVERHEAD_MAX + 8);
/// Maximum number of records with an alert: a server's first flight has five.
const RECORDS_OF_ALERT_MAX: usize = 8;
