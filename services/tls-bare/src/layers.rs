//! Layers of a station's connections, accepted and dialled.

use crate::credentials::Clock;
use crate::gate::Gate;
use crate::layer::TlsLayer;
use crate::provider::provider;
use crate::role::{Accepted, Dialled};
use crate::{Credentials, CredentialsError, HandshakeCounters};
use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use core::fmt;
use core::net::{IpAddr, SocketAddr};
use ringway_sansio::{Flow, Instant, Seed, Transport};
use ringway_stream::{Layer, PassThrough, StreamLayers};
use rustls::client::Resumption;
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::{self, ServerName};
use rustls::{ClientConfig, ServerConfig};

/// Layers of TCP connections and, with [`TlsLayers::set_credentials`], of accepted TLS connections.
pub struct TlsLayers {
    server: Option<Arc<ServerConfig>>,
    gate: Rc<Gate>,
    clock: Arc<Clock>,
}

impl TlsLayers {
    /// Creates layers that refuse TLS connections.
    pub fn new(now: Instant) -> Self {
        Self { server: None, gate: Rc::new(Gate::new(now)), clock: Arc::new(Clock::new(now)) }
    }

    /// Accepts TLS connections with this certificate and key. `seed` is the source of the connections' random numbers; it
    /// must be unpredictable, and not be used elsewhere.
    ///
    /// # Errors
    /// The key is not an ECDSA key on P-256, or the certificate is not the key's.
    pub fn set_credentials(&mut self, credentials: Credentials, seed: &Seed) -> Result<(), CredentialsError> {
        self.server = Some(credentials.into_config(seed, Arc::clone(&self.clock))?);
        Ok(())
    }

    /// Counters of handshakes.
    pub fn counters(&self) -> HandshakeCounters {
        self.gate.counters()
    }

    /// Number of handshakes in progress.
    pub fn handshakes(&self) -> usize {
        self.gate.in_progress()
    }

    /// First failure of a handshake since the last call: the peer and the reason.
    pub fn take_failure(&self) -> Option<(SocketAddr, String)> {
        self.gate.take_failure()
    }
}

impl fmt::Debug for TlsLayers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsLayers").field("counters", &self.counters()).finish_non_exhaustive()
    }
}

impl StreamLayers for TlsLayers {
    type Layer = Box<dyn Layer>;

    fn resumes(&self) -> bool {
        self.gate.is_awaited()
    }

    fn begin_turn(&mut self, now: Instant) {
        self.clock.set(now);
        self.gate.begin_turn(now);
    }

    fn accept(&mut self, flow: &Flow) -> Option<Box<dyn Layer>> {
        match flow.transport {
            Transport::Tcp => Some(Box::new(PassThrough)),
            Transport::Tls => {
                let config = Arc::clone(self.server.as_ref()?);
                let is_in = self.gate.enter(flow.remote.ip());
                let role = || Accepted::new(config, flow.remote, Rc::clone(&self.gate));
                is_in.then(|| Box::new(TlsLayer::new(role())) as Box<dyn Layer>)
            }
            Transport::Udp | Transport::Ws | Transport::Wss | Transport::Dtls => None,
        }
    }

    fn dial(&mut self, flow: &Flow) -> Option<Box<dyn Layer>> {
        (flow.transport == Transport::Tcp).then(|| Box::new(PassThrough) as Box<dyn Layer>)
    }
}

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
