//! Layers of a station's connections.

use crate::credentials::Clock;
use crate::gate::Gate;
use crate::layer::TlsLayer;
use crate::role::Accepted;
use crate::{Credentials, CredentialsError, HandshakeCounters};
use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::sync::Arc;
use core::fmt;
use core::net::SocketAddr;
use ringway_sansio::{Flow, Instant, Seed, Transport};
use ringway_stream::{Layer, PassThrough, StreamLayers};
use rustls::ServerConfig;

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
