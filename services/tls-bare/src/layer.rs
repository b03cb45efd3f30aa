//! A TLS connection as a layer of a stream connection, on either side.
//!
//! ```text
//! waiting --its role begins it--> handshake --ended--> open --close_notify, error--> closed
//!     +--> closed: no TLS             +--> closed: alert sent, counted
//! ```

use crate::role::{Begin, RECORD_BYTES_MAX, Records, Role, advance, close_notify, encrypt, write_alert};
use alloc::boxed::Box;
use alloc::string::ToString;
use alloc::vec::Vec;
use core::fmt;
use ringway_stream::{Decoded, Encoded, Layer, LayerError};
use rustls::Error;
use rustls::unbuffered::WriteTraffic;

/// TLS by rustls.
pub(crate) struct TlsLayer<R: Role> {
    state: State<R::Connection>,
    role: R,
    /// Received bytes that rustls has not consumed: a part of a record, or of a handshake message.
    input: Vec<u8>,
    /// Messages to send after the handshake.
    kept: Vec<u8>,
}

enum State<C> {
    /// The role has not begun the handshake.
    Waiting,
    Handshake(Box<C>),
    Open(Box<C>),
    Closed,
}

impl<R: Role> TlsLayer<R> {
    pub(crate) const fn new(role: R) -> Self {
        Self { state: State::Waiting, role, input: Vec::new(), kept: Vec::new() }
    }

    /// Begins the handshake if the role does.
    fn begin(&mut self) -> Result<(), LayerError> {
        let State::Waiting = &self.state else { return Ok(()) };
        match self.role.begin(&self.input) {
            Begin::Waits => Ok(()),
            Begin::Begins(connection) => {
                self.state = State::Handshake(connection);
                Ok(())
            }
            Begin::NotTls => {
                self.close();
                Err(LayerError("no TLS on a TLS port"))
            }
            Begin::Failed(error) => self.fail(&error),
        }
    }

    /// Lets rustls process the received bytes.
    fn process(
        &mut self,
        decoded: &mut dyn FnMut(Decoded<'_>),
        wire: &mut Vec<u8>,
    ) -> Result<(), LayerError> {
        let (State::Handshake(connection) | State::Open(connection)) = &mut self.state else { return Ok(()) };
        let result = advance(&mut **connection, &mut self.input, decoded, wire, |_, _| Ok(()));
        match result {
            Ok(false) => Ok(()),
            Ok(true) => self.open(wire),
            Err(error) => {
                write_alert(&mut **connection, &mut self.input, wire);
                self.fail(&error)
            }
        }
    }

    /// Ends the handshake, and sends the messages that were kept.
    fn open(&mut self, wire: &mut Vec<u8>) -> Result<(), LayerError> {
        let State::Handshake(_) = &self.state else { return Ok(()) };
        self.role.ended();
        self.role.completed();
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
        write: impl FnMut(&mut WriteTraffic<'_, Data<R>>, &mut Vec<u8>) -> Result<(), Error>,
    ) -> Result<(), LayerError> {
        let State::Open(connection) = &mut self.state else {
            return Err(LayerError("the TLS connection is closed"));
        };
        match advance(&mut **connection, &mut self.input, &mut |_| {}, wire, write) {
            Ok(true) => Ok(()),
            Ok(false) => Err(LayerError("the TLS connection takes no more data")),
            Err(error) => self.fail(&error),
        }
    }

    fn fail(&mut self, error: &Error) -> Result<(), LayerError> {
        if self.is_handshaking() {
            self.role.failed(error);
        }
        self.close();
        Err(LayerError("the TLS connection failed"))
    }

    fn close(&mut self) {
        if self.is_handshaking() {
            self.role.ended();
        }
        self.state = State::Closed;
        self.input = Vec::new();
        self.kept = Vec::new();
    }
}

/// State of a role's side.
type Data<R> = <<R as Role>::Connection as Records>::Data;

impl<R: Role> fmt::Debug for TlsLayer<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsLayer").finish_non_exhaustive()
    }
}

impl<R: Role> Layer for TlsLayer<R> {
    fn start(&mut self, wire: &mut Vec<u8>) {
        // A failure is counted, and the next call returns it.
        let _ = self.begin().and_then(|()| self.process(&mut |_| {}, wire));
    }

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
        let most =
            if self.is_handshaking() { R::HANDSHAKE_BYTES_MAX } else { RECORD_BYTES_MAX + bytes.len() };
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
            let _ = self.write(wire, close_notify);
        }
    }

    fn is_handshaking(&self) -> bool {
        matches!(self.state, State::Waiting | State::Handshake(_))
    }

    fn held_bytes(&self) -> usize {
        let state = match &self.state {
            State::Waiting | State::Closed => 0,
            State::Handshake(_) => HANDSHAKE_BYTES,
            State::Open(_) => OPEN_BYTES,
        };
        state + self.input.capacity() + self.kept.capacity()
    }
}

impl<R: Role> Drop for TlsLayer<R> {
    fn drop(&mut self) {
        self.close();
    }
}

/// Capacity of the input buffer that is kept between records: most messages.
const INPUT_BYTES_KEPT: usize = 2048;
/// Approximate memory of a connection during its handshake, and after it, in bytes.
const HANDSHAKE_BYTES: usize = 8 << 10;
const OPEN_BYTES: usize = 4 << 10;
