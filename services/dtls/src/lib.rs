//! DTLS-SRTP (RFC 5763, RFC 5764) for media sessions, by the crates `rtc-dtls` and `aws-lc-rs`.
//!
//! Does: a self-signed certificate (P-256) for the life of the program; DTLS 1.2 in both roles with a certificate of
//! the peer, which must have an announced fingerprint; SRTP keys by the exporter; retransmission with a doubling
//! interval on the caller's clock.
//!
//! Does not: open a socket, read a clock, limit the bytes of a handshake (`ringway_media::MediaSession` does), support
//! DTLS 1.3, or resume sessions. Randomness is that of the system.
//!
//! Start reading at [`Identity`].
#![forbid(unsafe_code)]

// The harness is also part of a fuzz target.
#[cfg(test)]
extern crate self as ringway_dtls;

mod association;
#[cfg(test)]
mod cost_tests;
mod fragments;
#[cfg(test)]
#[path = "../tests/harness/sessions.rs"]
mod harness;
mod inbound;
#[cfg(test)]
mod mutation_tests;
#[cfg(test)]
mod story_tests;
mod transport;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use ringway_media::dtls::{DtlsAssociation, DtlsIdentity};
use ringway_sansio::Instant;
use ringway_sdp::{CryptoSuite, DtlsRole, Fingerprint, FingerprintHash};
use rtc_dtls::cipher_suite::CipherSuiteId;
use rtc_dtls::config::{ConfigBuilder, ExtendedMasterSecretType};
use rtc_dtls::crypto::Certificate;
use rtc_dtls::crypto_provider::{RTCCryptoProvider, default_provider};

pub use association::FIRST_RETRANSMISSION;
use association::{Association, Clock};
pub use transport::{DtlsCounters, DtlsCounts, DtlsError, DtlsLimits, DtlsTransport, HostNames};

/// A certificate with its key, and the settings of the associations that present it.
pub struct Identity {
    certificate: Certificate,
    fingerprint: Fingerprint,
    suites: Vec<CryptoSuite>,
    provider: Arc<dyn RTCCryptoProvider>,
    clock: Clock,
}

/// The certificate could not be made.
#[derive(Debug)]
pub struct IdentityError(String);

impl Identity {
    /// Crypto suites that DTLS-SRTP has profiles for, best first.
    pub const SUITES: [CryptoSuite; 3] = association::SUITES;

    /// Makes a certificate. `suites` are offered in this order; those without a profile are left out.
    ///
    /// # Errors
    /// No suite remains, or the system has no randomness.
    pub fn new(suites: &[CryptoSuite]) -> Result<Self, IdentityError> {
        let failed = |error: &dyn fmt::Display| IdentityError(error.to_string());
        let suites: Vec<CryptoSuite> =
            suites.iter().copied().filter(|suite| Self::SUITES.contains(suite)).collect();
        if suites.is_empty() {
            return Err(IdentityError("no SRTP suite that DTLS has a profile for".to_owned()));
        }
        let provider = default_provider().map_err(|error| failed(&error))?;
        // The name says nothing about the user; nobody reads it.
        let certificate =
            Certificate::generate_self_signed(vec!["phone.invalid".to_owned()], provider.crypto())
                .map_err(|error| failed(&error))?;
        let leaf = certificate.certificate.first().ok_or_else(|| failed(&"no certificate"))?;
        let fingerprint =
            association::of(FingerprintHash::Sha256, leaf).ok_or_else(|| failed(&"no digest"))?;
        Ok(Self { certificate, fingerprint, suites, provider, clock: Clock::new() })
    }
}

impl DtlsIdentity for Identity {
    fn fingerprint(&self) -> Fingerprint {
        self.fingerprint.clone()
    }

    fn associate(
        &self,
        role: DtlsRole,
        fingerprints: &[Fingerprint],
        now: Instant,
    ) -> Box<dyn DtlsAssociation> {
        Box::new(Association::new(self, role, fingerprints, now))
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Identity({})", self.fingerprint)
    }
}

impl fmt::Display for IdentityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot make a certificate for DTLS-SRTP: {}", self.0)
    }
}

impl std::error::Error for IdentityError {}

/// Settings of all handshakes. The library verifies no chain: the caller does.
fn builder(provider: Arc<dyn RTCCryptoProvider>, first_retransmission: Duration) -> ConfigBuilder {
    ConfigBuilder::default()
        .with_crypto_provider(provider)
        .with_cipher_suites(CIPHER_SUITES.to_vec())
        // With it the keys prove the messages before them: the library does not compare a client's Finished.
        .with_extended_master_secret(ExtendedMasterSecretType::Require)
        .with_insecure_skip_verify(true)
        .with_flight_interval(first_retransmission)
        .with_mtu(FRAGMENT_BYTES_MAX)
}

/// Maximum length of a fragment of a handshake message: passes IPv6's minimum MTU with all headers.
const FRAGMENT_BYTES_MAX: usize = 1150;

/// Suites with forward secrecy and AEAD that the library has.
const CIPHER_SUITES: [CipherSuiteId; 4] = [
    CipherSuiteId::Tls_Ecdhe_Ecdsa_With_Aes_128_Gcm_Sha256,
    CipherSuiteId::Tls_Ecdhe_Rsa_With_Aes_128_Gcm_Sha256,
    CipherSuiteId::Tls_Ecdhe_Ecdsa_With_ChaCha20_Poly1305_Sha256,
    CipherSuiteId::Tls_Ecdhe_Rsa_With_ChaCha20_Poly1305_Sha256,
];
