//! Layers of a runtime's connections.

use crate::counters::{TlsCounters, add};
use crate::files::TlsMaterial;
use crate::handshakes::{HandshakeLimits, HandshakeThreads, Job, Permits, Refused};
use crate::layer::{Guarded, PlainLayer, TlsLayer};
use crate::report::{Observer, Peer, Role};
use ringway_linux::{BoxedLayer, Hosts, Layers, Resume};
use ringway_sansio::{Flow, HostNameId, Transport};
use ringway_stream::{WebSocket, WebSocketServer};
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, ServerConfig, ServerConnection};
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::SystemTime;

/// Provides the layers of TCP, TLS and WebSocket connections.
pub struct TlsLayers {
    material: RwLock<TlsMaterial>,
    websocket: RwLock<Arc<WebSocketServer>>,
    hosts: Arc<Hosts>,
    limits: HandshakeLimits,
    permits: Arc<Permits>,
    threads: Arc<HandshakeThreads>,
    counters: Arc<TlsCounters>,
    observer: Arc<dyn Observer>,
}

impl TlsLayers {
    /// Starts the threads for handshakes. `hosts` has the names by which servers are verified.
    ///
    /// # Errors
    /// A thread cannot be created.
    pub fn start(
        material: TlsMaterial,
        hosts: Arc<Hosts>,
        limits: HandshakeLimits,
        observer: Arc<dyn Observer>,
    ) -> io::Result<Self> {
        Ok(Self {
            material: RwLock::new(material),
            websocket: RwLock::default(),
            hosts,
            limits,
            permits: Arc::default(),
            threads: Arc::new(HandshakeThreads::start()?),
            counters: Arc::default(),
            observer,
        })
    }

    /// Uses other certificates for connections from now on; open connections remain. Sessions of the earlier configuration
    /// are not resumed, since its rules for clients may have been others.
    pub fn reload(&self, material: TlsMaterial) {
        *self.material.write().unwrap_or_else(PoisonError::into_inner) = material;
    }

    /// Sets the rules of WebSocket connections that are accepted from now on.
    pub fn set_websocket(&self, rules: WebSocketServer) {
        *self.websocket.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(rules);
    }

    /// Counters of handshakes.
    pub fn counters(&self) -> &Arc<TlsCounters> {
        &self.counters
    }

    /// Configuration for HTTPS with the server's certificates, which asks for no client certificate. `None`: there are none.
    pub fn https(&self) -> Option<Arc<ServerConfig>> {
        self.material().https
    }

    /// Seconds until the first of the server's certificates expires; negative if it has expired.
    pub fn expires_s(&self) -> Option<f64> {
        let expires = self.material().expires()?;
        Some(match expires.duration_since(SystemTime::now()) {
            Ok(left) => left.as_secs_f64(),
            Err(past) => -past.duration().as_secs_f64(),
        })
    }

    fn websocket(&self) -> Arc<WebSocketServer> {
        Arc::clone(&self.websocket.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn material(&self) -> TlsMaterial {
        self.material.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn peer(&self, role: Role, flow: &Flow) -> Peer {
        let (counters, observer) = (Arc::clone(&self.counters), Arc::clone(&self.observer));
        Peer { role, remote: flow.remote, counters, observer }
    }

    fn accept_tls(&self, flow: &Flow, resume: Resume) -> Option<TlsLayer> {
        let permit = match self.permits.take(flow.remote.ip(), self.limits) {
            Ok(permit) => permit,
            Err(why) => {
                add(match why {
                    Refused::Total => &self.counters.tls_refused,
                    Refused::Source => &self.counters.tls_refused_source,
                });
                return None;
            }
        };
        let connection = ServerConnection::new(self.material().server?).ok()?;
        let peer = self.peer(Role::Server, flow);
        let job = Job::new(Box::new(connection.into()), resume, peer.clone(), Some(permit));
        Some(TlsLayer::elsewhere(job, Arc::clone(&self.threads), peer))
    }

    fn dial_tls(&self, flow: &Flow, resume: Resume) -> Option<TlsLayer> {
        let name = match flow.host {
            HostNameId::NONE => ServerName::from(flow.remote.ip()),
            host => ServerName::try_from(self.hosts.name_of(host)?.to_string()).ok()?,
        };
        let connection = ClientConnection::new(Arc::clone(&self.material().client), name).ok()?;
        let peer = self.peer(Role::Client, flow);
        let job = Job::new(Box::new(connection.into()), resume, peer.clone(), None);
        Some(TlsLayer::elsewhere(job, Arc::clone(&self.threads), peer))
    }
}

/// Layers whose handshakes run on the caller's thread: for clients such as a load generator, which measure them.
#[derive(Clone)]
pub struct InlineTls {
    material: TlsMaterial,
    counters: Arc<TlsCounters>,
    observer: Arc<dyn Observer>,
}

impl InlineTls {
    /// Layers with these files.
    pub fn new(material: TlsMaterial, observer: Arc<dyn Observer>) -> Self {
        Self { material, counters: Arc::default(), observer }
    }

    /// Layer of a connection to the host `name`; without a name, to the host with the address. `None`: it is not a name.
    pub fn client(&self, remote: SocketAddr, name: Option<&str>) -> Option<TlsLayer> {
        let name = match name {
            Some(name) => ServerName::try_from(name.to_owned()).ok()?,
            None => ServerName::from(remote.ip()),
        };
        let connection = ClientConnection::new(Arc::clone(&self.material.client), name).ok()?;
        Some(TlsLayer::new(connection.into(), self.peer(Role::Client, remote)))
    }

    /// Layer of an accepted connection. `None`: there is no certificate.
    pub fn server(&self, remote: SocketAddr) -> Option<TlsLayer> {
        let connection = ServerConnection::new(Arc::clone(self.material.server.as_ref()?)).ok()?;
        Some(TlsLayer::new(connection.into(), self.peer(Role::Server, remote)))
    }

    /// Counters of handshakes.
    pub fn counters(&self) -> &Arc<TlsCounters> {
        &self.counters
    }

    fn peer(&self, role: Role, remote: SocketAddr) -> Peer {
        let (counters, observer) = (Arc::clone(&self.counters), Arc::clone(&self.observer));
        Peer { role, remote, counters, observer }
    }
}

impl Layers for TlsLayers {
    fn accepted(&self, flow: &Flow, resume: Resume) -> Option<BoxedLayer> {
        match flow.transport {
            Transport::Tcp => Some(Box::new(PlainLayer::new(self.peer(Role::Server, flow)))),
            Transport::Tls => Some(Box::new(Guarded::new(self.accept_tls(flow, resume)?))),
            Transport::Ws => {
                let lower = PlainLayer::new(self.peer(Role::Server, flow));
                Some(Box::new(WebSocket::accepted(lower, self.websocket())))
            }
            Transport::Wss => {
                let lower = Guarded::new(self.accept_tls(flow, resume)?);
                Some(Box::new(WebSocket::accepted(lower, self.websocket())))
            }
            Transport::Udp => None,
        }
    }

    fn dialled(&self, flow: &Flow, resume: Resume) -> Option<BoxedLayer> {
        match flow.transport {
            Transport::Tcp => Some(Box::new(PlainLayer::new(self.peer(Role::Client, flow)))),
            Transport::Tls => Some(Box::new(self.dial_tls(flow, resume)?)),
            // Clients open WebSocket connections (RFC 7118 §5).
            Transport::Udp | Transport::Ws | Transport::Wss => None,
        }
    }
}
