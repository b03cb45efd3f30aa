//! TLS of a story's hosts: an authority, certificates from the seed, and the layers of the hosts' connections.

use crate::World;
use crate::world::{REALM, SERVER};
use p256::ecdsa::signature::Signer as _;
use p256::ecdsa::{DerSignature, SigningKey};
use p256::elliptic_curve::sec1::ToSec1Point as _;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, PublicKeyData, SanType};
use ringway_linux::Hosts;
use ringway_sansio::{Entropy, Flow, HostNameId, Instant, Seed, Transport};
use ringway_server::{Config, Listener};
use ringway_sim::HostId;
use ringway_stream::{Layer, PassThrough, StreamLayers};
use ringway_tls::ServerVerifier;
use ringway_tls_bare::{Credentials, HandshakeCounters, TlsClient, TlsLayers};
use rustls::RootCertStore;
use rustls::crypto::aws_lc_rs;
use std::cell::RefCell;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;

impl World {
    /// Adds a TLS listener at port 5061 to a server's configuration; for [`Story::configure`](crate::Story::configure).
    pub fn with_tls(config: &mut Config) {
        let (bound, advertised) = (TLS_SERVER, TLS_SERVER);
        config.listeners.push(Listener { transport: Transport::Tls, bound, advertised });
    }

    /// Gives a host a certificate with these names (DNS names, addresses, `sip:` URIs) for its listeners.
    pub fn certify(&mut self, host: HostId, names: &[&str]) {
        let credentials = self.authority.certificate(names);
        self.set_tls(host, Some(credentials));
    }

    /// Lets a host dial TLS; it has no certificate.
    pub(crate) fn let_dial(&mut self, host: HostId) {
        self.set_tls(host, None);
    }

    /// Gives the server its certificate.
    pub(crate) fn certify_server(&mut self) {
        let address = SERVER.ip().to_string();
        self.certify(self.server, &[REALM, "sip.example.org", &address]);
    }

    fn set_tls(&mut self, host: HostId, credentials: Option<Credentials>) {
        let layers = self.authority.layers(credentials, self.sim.now());
        self.tls.retain(|(other, _)| *other != host);
        self.tls.push((host, layers.clone()));
        self.sim.set_layers(host, layers);
    }

    /// Counters of the handshakes on connections that a host accepted.
    pub fn accepted(&self, host: HostId) -> HandshakeCounters {
        self.tls_of(host).0.borrow().accepted.counters()
    }

    /// Counters of the handshakes on connections that a host dialled.
    pub fn dialled(&self, host: HostId) -> HandshakeCounters {
        self.tls_of(host).0.borrow().dialled.counters()
    }

    /// First failure of a handshake of a host that dialled, since the last call.
    pub fn dial_failure(&self, host: HostId) -> Option<String> {
        self.tls_of(host).0.borrow().dialled.take_failure().map(|(_, why)| why)
    }

    /// Number of accepted handshakes of a host in progress.
    pub fn handshakes(&self, host: HostId) -> usize {
        self.tls_of(host).0.borrow().accepted.handshakes()
    }

    /// First flight of a client of the server.
    pub(crate) fn client_hello(&mut self) -> Vec<u8> {
        let layers = self.authority.layers(None, self.sim.now());
        let mut hello = Vec::new();
        let layer = layers.0.borrow().dialled.layer(TLS_SERVER, Some(REALM));
        layer.expect("it is a name").start(&mut hello);
        hello
    }

    /// Asserts that no handshake is left at the end of a story.
    pub(crate) fn check_handshakes(&self) {
        for (host, _) in &self.tls {
            assert_eq!(self.handshakes(*host), 0, "handshakes are left");
        }
    }

    fn tls_of(&self, host: HostId) -> &HostLayers {
        let of_host = self.tls.iter().find(|(other, _)| *other == host);
        of_host.map(|(_, layers)| layers).expect("the host has TLS")
    }
}

/// Authority that issues the certificates of a story, and the numbers of its host names.
pub(crate) struct Authority {
    issuer: CertifiedIssuer<'static, Key>,
    seed: Seed,
    /// Number of keys and random generators so far.
    parts: u64,
    pub(crate) hosts: Arc<Hosts>,
}

impl Authority {
    pub(crate) fn new(seed: Seed) -> Self {
        let mut params = CertificateParams::new([]).expect("no name is invalid");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, Key::new(&seed.part(0))).expect("it can sign");
        Self { issuer, seed, parts: 0, hosts: Arc::default() }
    }

    fn certificate(&mut self, names: &[&str]) -> Credentials {
        let key = Key::new(&self.next_seed());
        let mut params = CertificateParams::new([]).expect("no name is invalid");
        params.subject_alt_names = names.iter().map(|name| alternative_name(name)).collect();
        let certificate = params.signed_by(&key, &self.issuer).expect("it can sign");
        let pem = certificate.pem() + &key.pem();
        Credentials::from_pem(pem.as_bytes()).expect("it is valid PEM")
    }

    /// Layers of a host, which accepts TLS with `credentials` if it has some, and dials TLS.
    fn layers(&mut self, credentials: Option<Credentials>, now: Instant) -> HostLayers {
        let mut accepted = TlsLayers::new(now);
        if let Some(credentials) = credentials {
            accepted.set_credentials(credentials, &self.next_seed()).expect("key and certificate fit");
        }
        let mut roots = RootCertStore::empty();
        roots.add(self.issuer.der().clone()).expect("it is a certificate");
        // Verification uses no randomness.
        let crypto = Arc::new(aws_lc_rs::default_provider());
        let verifier = ServerVerifier::new(roots, Vec::new(), &crypto).expect("there is a root");
        let dialled =
            TlsClient::new(Arc::new(verifier), &self.next_seed(), now).expect("the provider is good");
        HostLayers(Rc::new(RefCell::new(HostTls { accepted, dialled, hosts: Arc::clone(&self.hosts) })))
    }

    fn next_seed(&mut self) -> Seed {
        self.parts += 1;
        self.seed.part(self.parts)
    }
}

fn alternative_name(name: &str) -> SanType {
    match (name.parse::<IpAddr>(), name.contains(':')) {
        (Ok(address), _) => SanType::IpAddress(address),
        (Err(_), true) => SanType::URI(name.try_into().expect("it is ASCII")),
        (Err(_), false) => SanType::DnsName(name.try_into().expect("it is ASCII")),
    }
}

/// Key from a seed; its signatures are those of RFC 6979, so they are from the seed too.
struct Key {
    secret: p256::SecretKey,
    point: Vec<u8>,
}

impl Key {
    fn new(seed: &Seed) -> Self {
        let mut bytes = [0; 32];
        Entropy::new(seed).fill(&mut bytes);
        let secret = p256::SecretKey::from_slice(&bytes).expect("nearly all numbers are keys");
        let point = secret.public_key().to_sec1_point(false).as_bytes().to_vec();
        Self { secret, point }
    }

    fn pem(&self) -> String {
        let der = [PKCS8_BEFORE_SECRET, self.secret.to_bytes().as_slice()].concat();
        rcgen::KeyPair::try_from(der).expect("it is a key").serialize_pem()
    }
}

impl PublicKeyData for Key {
    fn der_bytes(&self) -> &[u8] {
        &self.point
    }

    fn algorithm(&self) -> &'static rcgen::SignatureAlgorithm {
        &rcgen::PKCS_ECDSA_P256_SHA256
    }
}

impl rcgen::SigningKey for Key {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, rcgen::Error> {
        let signature: DerSignature = SigningKey::from(&self.secret).sign(message);
        Ok(signature.as_bytes().to_vec())
    }
}

/// Layers of a host's connections; the story keeps them for their counters.
#[derive(Clone)]
pub(crate) struct HostLayers(Rc<RefCell<HostTls>>);

struct HostTls {
    accepted: TlsLayers,
    dialled: TlsClient,
    hosts: Arc<Hosts>,
}

impl StreamLayers for HostLayers {
    type Layer = Box<dyn Layer>;

    fn resumes(&self) -> bool {
        self.0.borrow().accepted.resumes()
    }

    fn begin_turn(&mut self, now: Instant) {
        let mut tls = self.0.borrow_mut();
        tls.accepted.begin_turn(now);
        tls.dialled.set_time(now);
    }

    fn accept(&mut self, flow: &Flow) -> Option<Box<dyn Layer>> {
        self.0.borrow_mut().accepted.accept(flow)
    }

    fn dial(&mut self, flow: &Flow) -> Option<Box<dyn Layer>> {
        let tls = self.0.borrow();
        match flow.transport {
            Transport::Tcp => Some(Box::new(PassThrough)),
            Transport::Tls => {
                let name = match flow.host {
                    HostNameId::NONE => None,
                    host => Some(tls.hosts.name_of(host)?),
                };
                tls.dialled.layer(flow.remote, name.as_deref())
            }
            Transport::Udp | Transport::Dtls | Transport::Ws | Transport::Wss => None,
        }
    }
}

/// Beginning of the PKCS#8 file (RFC 5958) of a key on P-256 without its public key; the 32 bytes of the secret follow.
const PKCS8_BEFORE_SECRET: &[u8] =
    b"\x30\x41\x02\x01\x00\x30\x13\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x08\x2a\x86\x48\xce\
    \x3d\x03\x01\x07\x04\x27\x30\x25\x02\x01\x01\x04\x20";

/// Address of the server's TLS listener.
pub(crate) const TLS_SERVER: SocketAddr = SocketAddr::new(SERVER.ip(), 5061);
