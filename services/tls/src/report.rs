//! Reports and counters of handshakes.

use ringway_stream::LayerError;
use rustls::HandshakeKind;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

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

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counters of all TLS connections of a program.
        #[derive(Debug, Default)]
        pub struct TlsCounters {
            $(pub(crate) $name: AtomicU64,)*
        }

        impl TlsCounters {
            /// Current values.
            pub fn counts(&self) -> TlsCounts {
                TlsCounts { $($name: self.$name.load(Ordering::Relaxed),)* }
            }
        }

        /// Values of [`TlsCounters`] since the start.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct TlsCounts {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl TlsCounts {
            /// All counters with their names, for metrics.
            pub fn each(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
                [$((stringify!($name), self.$name),)*].into_iter()
            }
        }
    };
}

counters! {
    /// Full handshakes on accepted connections.
    tls_accepted_full,
    /// Resumed handshakes on accepted connections.
    tls_accepted_resumed,
    /// Full handshakes on dialled connections.
    tls_dialled_full,
    /// Resumed handshakes on dialled connections.
    tls_dialled_resumed,
    /// Completed handshakes that ran on the connection's own thread.
    tls_handshakes_inline,
    /// Completed handshakes of which a step ran on a thread for handshakes.
    tls_handshakes_handed_over,
    /// Handshakes that failed because a certificate was missing or not accepted, by either side.
    tls_failed_certificate,
    /// Handshakes that failed because there was no common version, suite or parameter.
    tls_failed_parameters,
    /// Handshakes that failed because the bytes were not valid TLS.
    tls_failed_protocol,
    /// Certificates whose names do not count because there are too many, too long or unreadable ones.
    tls_names_refused,
    /// Certificates of open connections that a reload does not accept any more.
    tls_names_withdrawn,
    /// Connections to a TLS listener that began with something else than TLS.
    tls_not_tls,
    /// Connections to a listener without TLS that began with TLS.
    tls_on_plain_port,
    /// Connections refused because too many handshakes were in progress.
    tls_refused,
    /// Connections refused because too many handshakes of their source were in progress.
    tls_refused_source,
}

impl TlsCounters {
    pub(crate) fn completed(&self, is_server: bool, kind: Option<HandshakeKind>, was_handed_over: bool) {
        let is_resumed = kind == Some(HandshakeKind::Resumed);
        add(match (is_server, is_resumed) {
            (true, false) => &self.tls_accepted_full,
            (true, true) => &self.tls_accepted_resumed,
            (false, false) => &self.tls_dialled_full,
            (false, true) => &self.tls_dialled_resumed,
        });
        add(if was_handed_over { &self.tls_handshakes_handed_over } else { &self.tls_handshakes_inline });
    }

    pub(crate) fn failed(&self, error: &rustls::Error) {
        use rustls::{AlertDescription as Alert, Error};
        add(match error {
            Error::InvalidCertificate(_)
            | Error::InvalidCertRevocationList(_)
            | Error::NoCertificatesPresented
            | Error::UnsupportedNameType
            | Error::AlertReceived(
                Alert::BadCertificate
                | Alert::UnsupportedCertificate
                | Alert::CertificateRevoked
                | Alert::CertificateExpired
                | Alert::CertificateUnknown
                | Alert::UnknownCA
                | Alert::CertificateRequired
                | Alert::AccessDenied,
            ) => &self.tls_failed_certificate,
            Error::PeerIncompatible(_)
            | Error::NoApplicationProtocol
            | Error::AlertReceived(
                Alert::HandshakeFailure | Alert::ProtocolVersion | Alert::InsufficientSecurity,
            ) => &self.tls_failed_parameters,
            _ => &self.tls_failed_protocol,
        });
    }
}

pub(crate) fn add(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
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
