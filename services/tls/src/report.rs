//! Reports of handshakes.

use crate::counters::TlsCounters;
use ringway_stream::LayerError;
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

/// Counters of handshakes, and the receiver of their reports.
#[derive(Clone)]
pub(crate) struct Reports {
    pub(crate) counters: Arc<TlsCounters>,
    pub(crate) observer: Arc<dyn Observer>,
}

impl Reports {
    /// Reports to `observer`, with new counters.
    pub(crate) fn to(observer: Arc<dyn Observer>) -> Self {
        Self { counters: Arc::default(), observer }
    }

    pub(crate) fn peer(&self, role: Role, remote: SocketAddr) -> Peer {
        Peer { role, remote, reports: self.clone() }
    }
}

/// Peer of a connection, and where its handshake is counted and reported.
#[derive(Clone)]
pub(crate) struct Peer {
    pub(crate) role: Role,
    pub(crate) remote: SocketAddr,
    pub(crate) reports: Reports,
}

impl Peer {
    /// Reports a failure.
    pub(crate) fn report(&self, reason: &str) {
        self.reports.observer.failed(self.remote, self.role, reason);
    }

    /// Counts and reports a failed handshake; returns the error of its layer.
    pub(crate) fn failed(&self, error: &rustls::Error) -> LayerError {
        self.reports.counters.failed(error);
        self.report(&describe(error, self.role));
        FAILED
    }
}

/// Error of a layer whose TLS connection failed.
pub(crate) const FAILED: LayerError = LayerError("the TLS connection failed");

/// Text of an error for a log.
pub(crate) fn describe(error: &rustls::Error, role: Role) -> String {
    use rustls::{CertificateError, Error, PeerIncompatible};
    match error {
        Error::InvalidCertificate(CertificateError::NotValidForName) => {
            "the certificate is not valid for the host that was asked for (RFC 5922); ask for a name or address that it has"
                .to_owned()
        }
        Error::InvalidCertificate(CertificateError::Expired) => "the certificate has expired".to_owned(),
        Error::InvalidCertificate(CertificateError::NotValidYet) => {
            "the certificate is not valid yet; check the clocks".to_owned()
        }
        Error::InvalidCertificate(CertificateError::UnknownIssuer) => {
            let setting = match role {
                Role::Client => "peer_ca, of a phone ca or --ca",
                Role::Server => "client_ca",
            };
            format!(
                "the certificate was issued by an authority that is not trusted here; if it should be, give its PEM file ({setting})"
            )
        }
        Error::PeerIncompatible(
            PeerIncompatible::Tls12NotOffered
            | PeerIncompatible::Tls12NotOfferedOrEnabled
            | PeerIncompatible::ServerDoesNotSupportTls12Or13
            | PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig
            | PeerIncompatible::SupportedVersionsExtensionRequired,
        ) => "the two sides have no version of TLS in common".to_owned(),
        Error::PeerIncompatible(PeerIncompatible::NoCipherSuitesInCommon) => {
            "the two sides have no cipher suite in common".to_owned()
        }
        Error::NoCertificatesPresented => "the peer sent no certificate".to_owned(),
        error => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::{CertificateError, Error};

    #[test]
    fn common_faults_of_certificates_have_a_sentence_of_their_own() {
        for (fault, text) in [
            (CertificateError::NotValidForName, "the certificate is not valid for the host"),
            (CertificateError::Expired, "the certificate has expired"),
            (CertificateError::NotValidYet, "the certificate is not valid yet"),
            (
                CertificateError::UnknownIssuer,
                "the certificate was issued by an authority that is not trusted",
            ),
        ] {
            let described = describe(&Error::InvalidCertificate(fault), Role::Client);
            assert!(described.starts_with(text), "{described}");
        }
        let unknown = Error::InvalidCertificate(CertificateError::UnknownIssuer);
        for (role, setting) in [(Role::Client, "--ca"), (Role::Server, "client_ca")] {
            assert!(describe(&unknown, role).contains(setting), "{role:?}");
        }
    }
}
