//! Connections by OpenSSL over bytes in memory, for experiments with legacy versions and cipher suites. Its errors become
//! those of rustls, so that both libraries are counted and reported alike.
//!
//! Does: the same rules as rustls has here, for identities (RFC 5922), revocation lists, tickets and names that clients send.
//!
//! Does not: resume sessions of connections that it dials, since the binding has no safe function for that.

mod contexts;

pub(crate) use contexts::Contexts;
use openssl::error::ErrorStack;
use openssl::ssl::{Error, ErrorCode, ShutdownState, Ssl, SslStream};
use openssl::x509::X509VerifyResult;
use ringway_stream::Decoded;
use rustls::{AlertDescription, CertificateError, HandshakeKind, OtherError, PeerIncompatible};
use std::io::{self, Read, Write};
use std::sync::Arc;

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
            _ => Err(of(&error, self.stream.ssl().verify_result())),
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
    fn agreed(&self) -> (&str, &str) {
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

/// Error of a connection; `verified` is the result for the peer's certificate.
fn of(error: &Error, verified: X509VerifyResult) -> rustls::Error {
    // The last one is that of TLS itself; those before it are its causes.
    let last = error.ssl_error().and_then(|stack| stack.errors().last());
    let Some(last) = last else { return rustls::Error::General(error.to_string()) };
    match last.reason_code() {
        CERTIFICATE_VERIFY_FAILED => rustls::Error::InvalidCertificate(of_certificate(verified)),
        PEER_DID_NOT_RETURN_A_CERTIFICATE => rustls::Error::NoCertificatesPresented,
        NO_SHARED_CIPHER | NO_CIPHERS_AVAILABLE => PeerIncompatible::NoCipherSuitesInCommon.into(),
        NO_PROTOCOLS_AVAILABLE | UNSUPPORTED_PROTOCOL | VERSION_TOO_LOW => {
            PeerIncompatible::Tls12NotOfferedOrEnabled.into()
        }
        reason => match u8::try_from(reason - ALERT_OFFSET) {
            Ok(alert) => rustls::Error::AlertReceived(AlertDescription::from(alert)),
            Err(_) => {
                rustls::Error::General(last.reason().unwrap_or("a failure without a reason").to_owned())
            }
        },
    }
}

fn of_certificate(verified: X509VerifyResult) -> CertificateError {
    match verified.as_raw() {
        // Codes of X509_STORE_CTX_get_error(3).
        2 | 18..=21 | 24 => CertificateError::UnknownIssuer,
        9 => CertificateError::NotValidYet,
        10 => CertificateError::Expired,
        23 => CertificateError::Revoked,
        26 => CertificateError::InvalidPurpose,
        code if code == X509VerifyResult::APPLICATION_VERIFICATION.as_raw() => {
            CertificateError::NotValidForName
        }
        _ => CertificateError::Other(OtherError(Arc::new(verified))),
    }
}

/// Reasons of `openssl/sslerr.h`.
const CERTIFICATE_VERIFY_FAILED: i32 = 134;
const NO_CIPHERS_AVAILABLE: i32 = 181;
const NO_PROTOCOLS_AVAILABLE: i32 = 191;
const NO_SHARED_CIPHER: i32 = 193;
const PEER_DID_NOT_RETURN_A_CERTIFICATE: i32 = 199;
const UNSUPPORTED_PROTOCOL: i32 = 258;
const VERSION_TOO_LOW: i32 = 396;
/// Reasons of received alerts are their numbers above this one.
const ALERT_OFFSET: i32 = 1000;

#[cfg(test)]
mod tests;
