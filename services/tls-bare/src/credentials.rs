//! Certificate and key of the server, from a PEM file.

use crate::provider::provider;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use ringway_sansio::{Instant, Seed};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::{NoServerSessionStorage, ServerConfig};
use rustls::time_provider::TimeProvider;

/// Certificate chain and private key of a server.
#[derive(Debug)]
pub struct Credentials {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

/// Error of [`Credentials`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CredentialsError {
    /// A block of PEM (RFC 7468) is damaged.
    Pem,
    /// There is no `CERTIFICATE` block.
    NoCertificate,
    /// There is no private key, in PKCS#8 or SEC1, or more than one.
    NotOneKey,
    /// Key or certificate cannot be used; with the reason.
    Unusable(String),
}

impl fmt::Display for CredentialsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pem => f.write_str("the file is not valid PEM"),
            Self::NoCertificate => f.write_str("the file has no certificate (-----BEGIN CERTIFICATE-----)"),
            Self::NotOneKey => {
                f.write_str("the file must have one private key (-----BEGIN PRIVATE KEY-----)")
            }
            Self::Unusable(why) => write!(f, "the certificate or its key cannot be used: {why}"),
        }
    }
}

impl Credentials {
    /// Reads a PEM file with one private key and its certificate, followed by the certificates of its authorities.
    ///
    /// # Errors
    /// The file is damaged, or the key or the certificate is missing.
    pub fn from_pem(pem: &[u8]) -> Result<Self, CredentialsError> {
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
        let keys: Result<Vec<_>, _> = PrivateKeyDer::pem_slice_iter(pem).collect();
        let (chain, keys) =
            (chain.map_err(|_| CredentialsError::Pem)?, keys.map_err(|_| CredentialsError::Pem)?);
        if chain.is_empty() {
            return Err(CredentialsError::NoCertificate);
        }
        let [key] = <[_; 1]>::try_from(keys).map_err(|_| CredentialsError::NotOneKey)?;
        Ok(Self { chain, key })
    }

    /// Makes the configuration of a server whose random numbers come from `seed`.
    pub(crate) fn into_config(
        self,
        seed: &Seed,
        time: Arc<Clock>,
    ) -> Result<Arc<ServerConfig>, CredentialsError> {
        let unusable = |error: rustls::Error| CredentialsError::Unusable(error.to_string());
        let builder = ServerConfig::builder_with_details(Arc::new(provider(seed)), time);
        let builder = builder.with_safe_default_protocol_versions().map_err(unusable)?.with_no_client_auth();
        let mut config = builder.with_single_cert(self.chain, self.key).map_err(unusable)?;
        // No state of strangers is kept after their connections.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(Arc::new(config))
    }
}

/// Time of the machine's last turn, for rustls.
#[derive(Debug)]
pub(crate) struct Clock(AtomicU64);

impl Clock {
    pub(crate) fn new(now: Instant) -> Self {
        Self(AtomicU64::new(now.as_secs()))
    }

    pub(crate) fn set(&self, now: Instant) {
        self.0.store(now.as_secs(), Ordering::Relaxed);
    }
}

impl TimeProvider for Clock {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(Duration::from_secs(self.0.load(Ordering::Relaxed))))
    }
}
