//! Reports of handshakes.

use crate::counters::TlsCounters;
use std::net::SocketAddr;
use std::sync::Arc;

/// Side of a TLS connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The side that was dialled.
    Server,
    /// The side that dialled.
    Client,
}

/// Receives reports of handshakes that failed. It is called on the workers' threads and must not block.
pub trait Observer: Send + Sync {
    /// Notes that the handshake with a peer failed, or that it speaks another protocol than expected.
    fn failed(&self, remote: SocketAddr, role: Role, reason: &str);
}

/// Peer of a connection, and where its handshake is counted and reported.
#[derive(Clone)]
pub(crate) struct Peer {
    pub(crate) role: Role,
    pub(crate) remote: SocketAddr,
    pub(crate) counters: Arc<TlsCounters>,
    pub(crate) observer: Arc<dyn Observer>,
}

impl Peer {
    /// Counts and reports a failed handshake.
    pub(crate) fn failed(&self, error: &rustls::Error) {
        self.counters.failed(error);
        self.observer.failed(self.remote, self.role, &describe(error));
    }
}

/// Text of an error for a log.
fn describe(error: &rustls::Error) -> String {
    use rustls::{CertificateError, Error};
    match error {
        Error::InvalidCertificate(CertificateError::NotValidForName) => {
            "the certificate is not valid for the host that was asked for (RFC 5922)".to_owned()
        }
        Error::NoCertificatesPresented => "the peer sent no certificate".to_owned(),
        error => error.to_string(),
    }
}
