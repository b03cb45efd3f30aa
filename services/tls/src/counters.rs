//! Counters of handshakes.

use crate::report::Role;
use rustls::HandshakeKind;
use std::sync::atomic::{AtomicU64, Ordering};

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
    pub(crate) fn completed(&self, role: Role, kind: Option<HandshakeKind>, was_handed_over: bool) {
        let is_resumed = kind == Some(HandshakeKind::Resumed);
        add(match (role, is_resumed) {
            (Role::Server, false) => &self.tls_accepted_full,
            (Role::Server, true) => &self.tls_accepted_resumed,
            (Role::Client, false) => &self.tls_dialled_full,
            (Role::Client, true) => &self.tls_dialled_resumed,
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
