//! One TLS connection, by either library.
//!
//! Both libraries report their errors as those of rustls, so that counters and reports have one set of reasons.

use crate::challenge::{Undecided, is_of_authority};
#[cfg(feature = "legacy-tls")]
use crate::legacy::OpenSsl;
use ringway_stream::{Decoded, LayerError};
use rustls::pki_types::CertificateDer;
use rustls::{Error, HandshakeKind};
use std::io::{BufRead, Write};

/// A TLS connection in memory: takes and returns bytes, performs no I/O.
#[expect(clippy::large_enum_variant, reason = "its users box it; the other ones are rare")]
pub(crate) enum Connection {
    Rustls(rustls::Connection),
    /// By rustls, while a challenge of ACME is under way and the ClientHello is not complete.
    Undecided(Box<Undecided>),
    #[cfg(feature = "legacy-tls")]
    OpenSsl(OpenSsl),
}

impl Connection {
    /// Processes received bytes, and passes on what they decode to.
    pub(crate) fn receive(
        &mut self,
        bytes: &[u8],
        decoded: &mut dyn FnMut(Decoded<'_>),
    ) -> Result<(), Error> {
        match self {
            Self::Rustls(connection) => receive(connection, bytes, decoded),
            Self::Undecided(undecided) => {
                let mut rest = bytes;
                let Some(mut connection) = undecided.receive(&mut rest)? else { return Ok(()) };
                let received = receive(&mut connection, rest, decoded);
                *self = Self::Rustls(connection);
                received
            }
            #[cfg(feature = "legacy-tls")]
            Self::OpenSsl(connection) => connection.receive(bytes, decoded),
        }
    }

    /// Appends the records that the connection has for its peer.
    pub(crate) fn write_records(&mut self, wire: &mut Vec<u8>) {
        match self {
            Self::Rustls(connection) => write_records(connection, wire),
            Self::Undecided(undecided) => wire.append(&mut undecided.alert),
            #[cfg(feature = "legacy-tls")]
            Self::OpenSsl(connection) => connection.write_records(wire),
        }
    }

    /// Encrypts bytes for the peer, after the handshake.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> Result<(), LayerError> {
        let error = LayerError("the TLS connection takes no more data");
        match self {
            // Writing into a connection's memory does not fail.
            Self::Rustls(connection) => connection.writer().write_all(bytes).map_err(|_| error),
            Self::Undecided(_) => Err(error),
            #[cfg(feature = "legacy-tls")]
            Self::OpenSsl(connection) => connection.send(bytes).map_err(|_| error),
        }
    }

    /// Ends this side's stream.
    pub(crate) fn send_close_notify(&mut self) {
        match self {
            Self::Rustls(connection) => connection.send_close_notify(),
            Self::Undecided(_) => {}
            #[cfg(feature = "legacy-tls")]
            Self::OpenSsl(connection) => connection.send_close_notify(),
        }
    }

    pub(crate) fn is_handshaking(&self) -> bool {
        match self {
            Self::Rustls(connection) => connection.is_handshaking(),
            Self::Undecided(_) => true,
            #[cfg(feature = "legacy-tls")]
            Self::OpenSsl(connection) => connection.is_handshaking(),
        }
    }

    pub(crate) fn handshake_kind(&self) -> Option<HandshakeKind> {
        match self {
            Self::Rustls(connection) => connection.handshake_kind(),
            Self::Undecided(_) => None,
            #[cfg(feature = "legacy-tls")]
            Self::OpenSsl(connection) => connection.handshake_kind(),
        }
    }

    /// Certificates of the peer, after the handshake. None by OpenSSL.
    pub(crate) fn peer_certificates(&self) -> Option<&[CertificateDer<'static>]> {
        match self {
            Self::Rustls(connection) => connection.peer_certificates(),
            Self::Undecided(_) => None,
            #[cfg(feature = "legacy-tls")]
            Self::OpenSsl(_) => None,
        }
    }

    /// Takes any number of bytes to send: the stream connection limits them.
    pub(crate) fn allow_any_size(&mut self) {
        match self {
            Self::Rustls(connection) => connection.set_buffer_limit(None),
            Self::Undecided(_) => {}
            #[cfg(feature = "legacy-tls")]
            Self::OpenSsl(_) => {}
        }
    }
}

/// Processes received bytes by rustls, and passes on what they decode to.
fn receive(
    connection: &mut rustls::Connection,
    mut bytes: &[u8],
    decoded: &mut dyn FnMut(Decoded<'_>),
) -> Result<(), rustls::Error> {
    while !bytes.is_empty() {
        // Reading from memory fails only if the connection has too many undecoded bytes.
        let too_much = |_| rustls::Error::General("the peer sent too much at once".to_owned());
        if connection.read_tls(&mut bytes).map_err(too_much)? == 0 {
            return Ok(());
        }
        let state = connection.process_new_packets()?;
        if !connection.is_handshaking() && is_of_authority(connection) {
            decoded(Decoded::StreamEnd);
            return Ok(());
        }
        let mut reader = connection.reader();
        // The decrypted records themselves, without a copy.
        while let Ok(plain) = reader.fill_buf()
            && !plain.is_empty()
        {
            let count = plain.len();
            decoded(Decoded::Bytes(plain));
            reader.consume(count);
        }
        if state.peer_has_closed() {
            decoded(Decoded::StreamEnd);
            return Ok(());
        }
    }
    Ok(())
}

/// Appends the records that rustls has for the peer.
fn write_records(connection: &mut rustls::Connection, wire: &mut Vec<u8>) {
    while connection.wants_write() {
        // Writing to memory does not fail.
        if !connection.write_tls(wire).is_ok_and(|count| count > 0) {
            return;
        }
    }
}
