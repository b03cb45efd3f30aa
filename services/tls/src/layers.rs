//! Layers of a runtime's connections.

use crate::challenge;
use crate::files::TlsError;
use crate::handshake::{HandOver, Handshake};
use crate::identity::{Verification, VerifiedPeers};
use crate::layer::{PlainLayer, TlsLayer};
use crate::limits::{Budget, HandshakeLimits, HandshakeThreads, Permits, Refused};
use crate::links::LinkTls;
use crate::material::TlsMaterial;
use crate::report::{Observer, Reports, Role, TlsCounters, add};
use ringway_linux::{BoxedLayer, Hosts, Layers, Resume};
use ringway_sansio::{Flow, HostNameId, Transport};
use ringway_stream::{Layer, Origin, WebSocket, WebSocketServer};
use rustls::ServerConfig;
use rustls::pki_types::ServerName;
use rustls::sign::CertifiedKey;
use std::collections::HashMap;
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
    /// By worker.
    budgets: Vec<Arc<Budget>>,
    reports: Reports,
    verified: Arc<VerifiedPeers>,
    links: RwLock<Option<Links>>,
    /// Configuration for authorities that verify a domain, while they do.
    challenge: RwLock<Option<Arc<ServerConfig>>>,
}

/// Links of a node, with the peers whose certificates it accepted.
struct Links {
    tls: LinkTls,
    verified: Arc<VerifiedPeers>,
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
        let reports = Reports::to(observer);
        let verified = VerifiedPeers::new(Arc::clone(material.verifiers()), reports.clone());
        Ok(Self {
            verified,
            material: RwLock::new(material),
            websocket: RwLock::default(),
            hosts,
            limits,
            permits: Arc::default(),
            threads: Arc::new(HandshakeThreads::start()?),
            budgets: (0..Resume::WORKERS_MAX).map(|_| Arc::new(Budget::new(limits.inline_burst))).collect(),
            reports,
            links: RwLock::default(),
            challenge: RwLock::default(),
        })
    }

    /// Sets the links of this node. Open connections remain, with the certificates of both sides; peers
    /// whose certificates are not accepted any more have no names.
    pub fn set_links(&self, tls: LinkTls) {
        let verifiers = Arc::clone(tls.material.verifiers());
        let mut links = self.links.write().unwrap_or_else(PoisonError::into_inner);
        let verified = match links.take() {
            Some(earlier) => earlier.verified,
            None => VerifiedPeers::new(Arc::clone(&verifiers), self.reports.clone()),
        };
        *links = Some(Links { tls, verified: Arc::clone(&verified) });
        drop(links);
        verified.reload(&verifiers);
    }

    /// Uses other certificates for connections from now on; open connections remain. Sessions of the earlier configuration
    /// are not resumed, since its rules for clients may have been others. Names of peers whose certificates the new authorities
    /// and revocation lists do not accept count for nothing.
    pub fn reload(&self, material: TlsMaterial) {
        let verifiers = Arc::clone(material.verifiers());
        *self.material.write().unwrap_or_else(PoisonError::into_inner) = material;
        self.verified.reload(&verifiers);
    }

    /// Sets the certificates, by domain, that answer TLS-ALPN-01 (RFC 8737) on connections accepted from now on; none: no challenge is
    /// under way.
    ///
    /// # Errors
    /// The library does not take them.
    pub fn set_challenges(&self, certificates: HashMap<String, Arc<CertifiedKey>>) -> Result<(), TlsError> {
        let config = challenge::config_of(certificates)?;
        *self.challenge.write().unwrap_or_else(PoisonError::into_inner) = config;
        Ok(())
    }

    /// Sets the rules of WebSocket connections that are accepted from now on.
    pub fn set_websocket(&self, rules: WebSocketServer) {
        *self.websocket.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(rules);
    }

    /// Counters of handshakes.
    pub fn counters(&self) -> &Arc<TlsCounters> {
        &self.reports.counters
    }

    /// Configuration for HTTPS with the server's certificates, which asks for no client certificate. `None`: there are none.
    pub fn https(&self) -> Option<Arc<ServerConfig>> {
        self.read(TlsMaterial::https)
    }

    /// Seconds until the first of the server's certificates expires; negative if it has expired.
    pub fn expires_s(&self) -> Option<f64> {
        self.read(TlsMaterial::expires).map(seconds_until)
    }

    /// Seconds until the first revocation list should be replaced by its next one; negative if that time has passed.
    pub fn lists_expire_s(&self) -> Option<f64> {
        self.read(TlsMaterial::lists_expire).map(seconds_until)
    }

    fn websocket_over(&self, lower: impl Layer + Send + 'static) -> BoxedLayer {
        let rules = Arc::clone(&self.websocket.read().unwrap_or_else(PoisonError::into_inner));
        Box::new(WebSocket::accepted(lower, rules))
    }

    fn read<T>(&self, part: impl FnOnce(&TlsMaterial) -> T) -> T {
        part(&self.material.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Certificates for a flow, and its peers: those of links for a link.
    fn read_for<T>(&self, flow: &Flow, part: impl FnOnce(&TlsMaterial, &Arc<VerifiedPeers>) -> T) -> T {
        let links = self.links.read().unwrap_or_else(PoisonError::into_inner);
        match links.as_ref().filter(|links| links.tls.listener == flow.listener) {
            Some(links) => part(&links.tls.material, &links.verified),
            None => self.read(|material| part(material, &self.verified)),
        }
    }

    /// Name that the server at the other end of a flow must have.
    fn name_for(&self, flow: &Flow) -> Option<ServerName<'static>> {
        let links = self.links.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(links) = links.as_ref().filter(|links| links.tls.listener == flow.listener) {
            return ServerName::try_from(links.tls.names.get(&flow.remote)?.clone()).ok();
        }
        match flow.host {
            HostNameId::NONE => Some(ServerName::from(flow.remote.ip())),
            host => ServerName::try_from(self.hosts.name_of(host)?.to_string()).ok(),
        }
    }

    fn accept_tls(&self, flow: &Flow, resume: Resume) -> Option<TlsLayer> {
        let permit = match self.permits.take(flow.remote.ip(), self.limits) {
            Ok(permit) => permit,
            Err(why) => {
                add(match why {
                    Refused::Total => &self.reports.counters.tls_refused,
                    Refused::Source => &self.reports.counters.tls_refused_source,
                });
                return None;
            }
        };
        let challenge = self.challenge.read().unwrap_or_else(PoisonError::into_inner).clone();
        let (connection, has_client_auth, verifiers, peers) = self.read_for(flow, |material, peers| {
            let verifiers = Arc::clone(material.verifiers());
            Some((
                material.accept(challenge.as_ref())?,
                material.has_client_auth(),
                verifiers,
                Arc::clone(peers),
            ))
        })?;
        let handshake = Handshake::new(connection, self.reports.peer(Role::Server, flow.remote));
        let handshake = handshake.accepted(permit, has_client_auth);
        let layer = TlsLayer::new(handshake.with_threads(self.hand_over(resume)?));
        Some(layer.verified_by(Verification { peers, verifiers, server: None, remote: flow.remote }))
    }

    fn dial_tls(&self, flow: &Flow, resume: Resume) -> Option<TlsLayer> {
        let name = self.name_for(flow)?;
        let (connection, verifiers, peers) = self.read_for(flow, |material, peers| {
            Some((material.dial(name.clone())?, Arc::clone(material.verifiers()), Arc::clone(peers)))
        })?;
        let handshake = Handshake::new(connection, self.reports.peer(Role::Client, flow.remote));
        let layer = TlsLayer::new(handshake.with_threads(self.hand_over(resume)?)).reporting_end();
        let remote = flow.remote;
        match verifiers.servers {
            Some(_) => Some(layer.verified_by(Verification { peers, verifiers, server: Some(name), remote })),
            None => Some(layer),
        }
    }

    fn hand_over(&self, resume: Resume) -> Option<HandOver> {
        let budget = Arc::clone(self.budgets.get(resume.worker())?);
        Some(HandOver { threads: Arc::clone(&self.threads), budget, resume })
    }
}

fn seconds_until(time: SystemTime) -> f64 {
    match time.duration_since(SystemTime::now()) {
        Ok(left) => left.as_secs_f64(),
        Err(past) => -past.duration().as_secs_f64(),
    }
}

/// Layers whose handshakes run on the caller's thread: for clients such as a load generator, which measure them.
#[derive(Clone)]
pub struct InlineTls {
    pub(crate) verified: Arc<VerifiedPeers>,
    material: TlsMaterial,
    reports: Reports,
}

impl InlineTls {
    /// Layers with these files.
    pub fn new(material: TlsMaterial, observer: Arc<dyn Observer>) -> Self {
        let reports = Reports::to(observer);
        let verified = VerifiedPeers::new(Arc::clone(material.verifiers()), reports.clone());
        Self { verified, material, reports }
    }

    /// Layer of a connection to the host `name`; without a name, to the host with the address. `None`: it is not a name.
    pub fn client(&self, remote: SocketAddr, name: Option<&str>) -> Option<TlsLayer> {
        let name = match name {
            Some(name) => ServerName::try_from(name.to_owned()).ok()?,
            None => ServerName::from(remote.ip()),
        };
        let connection = self.material.dial(name)?;
        Some(TlsLayer::new(Handshake::new(connection, self.reports.peer(Role::Client, remote))))
    }

    /// Layer of an accepted connection. `None`: there is no certificate.
    pub fn server(&self, remote: SocketAddr) -> Option<TlsLayer> {
        let connection = self.material.accept(None)?;
        let layer = TlsLayer::new(Handshake::new(connection, self.reports.peer(Role::Server, remote)));
        let (peers, verifiers) = (Arc::clone(&self.verified), Arc::clone(self.material.verifiers()));
        Some(layer.verified_by(Verification { peers, verifiers, server: None, remote }))
    }

    /// Counters of handshakes.
    pub fn counters(&self) -> &Arc<TlsCounters> {
        &self.reports.counters
    }
}

impl Layers for TlsLayers {
    fn layer(&self, origin: Origin, flow: &Flow, resume: Resume) -> Option<BoxedLayer> {
        let role = match origin {
            Origin::Accepted => Role::Server,
            Origin::Dialled => Role::Client,
        };
        let plain = || PlainLayer::new(self.reports.peer(role, flow.remote));
        Some(match (flow.transport, origin) {
            (Transport::Tcp, _) => Box::new(plain()),
            (Transport::Tls, Origin::Accepted) => Box::new(self.accept_tls(flow, resume)?),
            (Transport::Tls, Origin::Dialled) => Box::new(self.dial_tls(flow, resume)?),
            (Transport::Ws, Origin::Accepted) => self.websocket_over(plain()),
            (Transport::Wss, Origin::Accepted) => self.websocket_over(self.accept_tls(flow, resume)?),
            // Clients open WebSocket connections (RFC 7118 §5).
            (Transport::Udp | Transport::Dtls, _) | (Transport::Ws | Transport::Wss, Origin::Dialled) => {
                return None;
            }
        })
    }
}
