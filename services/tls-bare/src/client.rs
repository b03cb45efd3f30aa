//! Dialled TLS connections.

use crate::credentials::Clock;
use crate::gate::Gate;
use crate::layer::TlsLayer;
use crate::provider::provider;
use crate::role::Dialled;
use crate::{CredentialsError, HandshakeCounters};
use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use core::fmt;
use core::net::{IpAddr, SocketAddr};
use ringway_sansio::{Instant, Seed};
use ringway_stream::Layer;
use rustls::ClientConfig;
use rustls::client::Resumption;
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::{self, ServerName};

/// Layers of dialled TLS connections, whose servers a verifier accepts.
pub struct TlsClient {
    config: Arc<ClientConfig>,
    /// For its counters: dialled handshakes have no limits of their own.
    gate: Rc<Gate>,
    clock: Arc<Clock>,
}

impl TlsClient {
    /// Creates a client without a certificate. `seed` is the source of the connections' random numbers; it must be
    /// unpredictable, and not be used elsewhere.
    ///
    /// # Errors
    /// rustls does not accept the provider.
    pub fn new(
        verifier: Arc<dyn ServerCertVerifier>,
        seed: &Seed,
        now: Instant,
    ) -> Result<Self, CredentialsError> {
        let clock = Arc::new(Clock::new(now));
        let time = Arc::clone(&clock) as Arc<_>;
        let builder = ClientConfig::builder_with_details(Arc::new(provider(seed)), time)
            .with_safe_default_protocol_versions()
            .map_err(|error| CredentialsError::Unusable(error.to_string()))?;
        let builder = builder.dangerous().with_custom_certificate_verifier(verifier);
        let mut config = builder.with_no_client_auth();
        config.resumption = Resumption::disabled();
        Ok(Self { config: Arc::new(config), gate: Rc::new(Gate::new(now)), clock })
    }

    /// Sets the time for the verification of certificates.
    pub fn set_time(&self, now: Instant) {
        self.clock.set(now);
    }

    /// Layer of a connection to the host `name`; without a name, to the host with the address. `None`: it is not a name.
    pub fn layer(&self, remote: SocketAddr, name: Option<&str>) -> Option<Box<dyn Layer>> {
        let name = match name {
            Some(name) => ServerName::try_from(name.to_string()).ok()?,
            None => ServerName::IpAddress(match remote.ip() {
                IpAddr::V4(address) => pki_types::IpAddr::V4(address.octets().into()),
                IpAddr::V6(address) => pki_types::IpAddr::V6(address.segments().into()),
            }),
        };
        let role = Dialled::new(Arc::clone(&self.config), remote, name, Rc::clone(&self.gate));
        Some(Box::new(TlsLayer::new(role)))
    }

    /// Counters of its handshakes.
    pub fn counters(&self) -> HandshakeCounters {
        self.gate.counters()
    }

    /// First failure of a handshake since the last call: the peer and the reason.
    pub fn take_failure(&self) -> Option<(SocketAddr, String)> {
        self.gate.take_failure()
    }
}

impl fmt::Debug for TlsClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsClient").field("counters", &self.counters()).finish_non_exhaustive()
    }
}
