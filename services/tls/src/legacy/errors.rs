//! OpenSSL's errors as those of rustls, so that both libraries are counted and reported alike.

use openssl::ssl::Error;
use openssl::x509::X509VerifyResult;
use rustls::{AlertDescription, CertificateError, OtherError, PeerIncompatible};
use std::sync::Arc;

/// Error of a connection; `verified` is the result for the peer's certificate.
pub(super) fn of(error: &Error, verified: X509VerifyResult) -> rustls::Error {
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
