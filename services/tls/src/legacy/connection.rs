//! A connection by OpenSSL, over bytes in memory.

use super::errors;
use openssl::error::ErrorStack;
use openssl::ssl::{Error, ErrorCode, ShutdownState, Ssl, SslStream};
use ringway_stream::Decoded;
use rustls::HandshakeKind;
use std::io::{self, Read, Write};

/// A connection.
pub(crate) struct OpenSsl {
    stream: SslStream<Memory>,
    /// The handshake has ended. OpenSSL's own state also changes after it.
    is_open: bool,
}

impl OpenSsl {
    /// A connection that is set to accept or to connect.
    pub(crate) fn new(ssl: Ssl) -> Result<Self, ErrorStack> {
        Ok(Self { stream: SslStream::new(ssl, Memory::default())?, is_open: false })
    }

    pub(crate) fn receive(
        &mut self,
        bytes: &[u8],
        decoded: &mut dyn FnMut(Decoded<'_>),
    ) -> Result<(), rustls::Error> {
        self.stream.get_mut().input.extend_from_slice(bytes);
        let result = self.process(decoded);
        // Everything is taken, unless the stream has ended.
        self.stream.get_mut().forget_input();
        result.or_else(|error| match error.code() {
            ErrorCode::WANT_READ => Ok(()),
            ErrorCode::ZERO_RETURN => {
                decoded(Decoded::StreamEnd);
                Ok(())
            }
            _ => Err(errors::of(&error, self.stream.ssl().verify_result())),
        })
    }

    /// Continues until more bytes are needed.
    fn process(&mut self, decoded: &mut dyn FnMut(Decoded<'_>)) -> Result<(), Error> {
        if !self.is_open {
            self.stream.do_handshake()?;
            self.is_open = true;
        }
        let mut room = [0; ROOM_BYTES];
        loop {
            let count = self.stream.ssl_read(&mut room)?;
            decoded(Decoded::Bytes(room.get(..count).unwrap_or_default()));
        }
    }

    pub(crate) fn write_records(&mut self, wire: &mut Vec<u8>) {
        if !self.is_open && !self.has_begun() {
            // The first records of the side that sends first. An error comes again with the first received bytes.
            let _ = self.stream.do_handshake();
        }
        wire.append(&mut self.stream.get_mut().output);
    }

    /// True for the side that is called, and for the caller once its first records are written.
    fn has_begun(&self) -> bool {
        self.stream.ssl().is_server() || self.stream.get_ref().has_written
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) -> Result<(), Error> {
        match bytes {
            [] => Ok(()),
            bytes => self.stream.ssl_write(bytes).map(|_| ()),
        }
    }

    pub(crate) fn send_close_notify(&mut self) {
        // It fails if the connection failed: then nothing is sent.
        let _ = self.stream.shutdown();
    }

    pub(crate) const fn is_handshaking(&self) -> bool {
        !self.is_open
    }

    pub(crate) fn handshake_kind(&self) -> Option<HandshakeKind> {
        let is_resumed = self.stream.ssl().session_reused();
        self.is_open.then_some(if is_resumed { HandshakeKind::Resumed } else { HandshakeKind::Full })
    }

    /// Version and cipher suite, by OpenSSL's names.
    #[cfg(test)]
    pub(super) fn agreed(&self) -> (&str, &str) {
        let ssl = self.stream.ssl();
        (ssl.version_str(), ssl.current_cipher().map_or("", openssl::ssl::SslCipherRef::name))
    }
}

impl Drop for OpenSsl {
    /// Keeps the session although the peer may not have closed the connection properly (RFC 5246 §7.2.1). OpenSSL itself removes
    /// it after a fatal error.
    fn drop(&mut self) {
        if self.is_open {
            self.stream.set_shutdown(ShutdownState::SENT);
        }
    }
}

/// Bytes from the peer and for it.
#[derive(Default)]
struct Memory {
    input: Vec<u8>,
    /// Number of bytes of `input` that were read.
    read: usize,
    output: Vec<u8>,
    has_written: bool,
}

impl Memory {
    fn forget_input(&mut self) {
        self.read = 0;
        self.input.clear();
        self.input.shrink_to(ROOM_BYTES);
    }
}

impl Read for Memory {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let count = (&self.input[self.read.min(self.input.len())..]).read(room)?;
        self.read += count;
        match count {
            0 if !room.is_empty() => Err(io::ErrorKind::WouldBlock.into()),
            count => Ok(count),
        }
    }
}

impl Write for Memory {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.has_written = true;
        self.output.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Size of the buffer between a connection and its framer, and of the input that is kept allocated.
const ROOM_BYTES: usize = 4096;
