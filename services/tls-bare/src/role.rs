//! Sides of a TLS connection: begin of a handshake, and account of its end.

use crate::gate::{Count, Gate};
use crate::records::{HEADER_BYTES, Records};
use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::string::ToString;
use alloc::sync::Arc;
use core::net::SocketAddr;
use rustls::client::UnbufferedClientConnection;
use rustls::pki_types::ServerName;
use rustls::server::UnbufferedServerConnection;
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
