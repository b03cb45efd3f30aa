//! Configuration of rustls, and resumption of sessions on the server's side: tickets, and session identifiers for clients
//! without tickets.

use crate::challenge::Undecided;
use crate::connection::Connection;
use crate::files::{
    ClientAuth, PeerCa, TlsError, TlsFiles, expiry, load_certificates, load_crls, load_key, load_roots,
    system_roots,
};
use crate::identity::{ServerVerifier, Verifiers};
use crate::offer::TlsVersion;
use crate::sessions::Sessions;
use rustls::client::Resumption;
use rustls::crypto::aws_lc_rs::{self, Ticketer};
use rustls::crypto::{CryptoProvider, GetRandomFailed};
use rustls::pki_types::{CertificateRevocationListDer, ServerName};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{
    ClientHello, NoServerSessionStorage, ProducesTickets, ResolvesServerCert, ServerSessionMemoryCache,
    WebPkiClientVerifier,
};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::ticketer::TicketRotator;
use rustls::{
    ClientConfig, ClientConnection, Error, ServerConfig, ServerConnection, SupportedProtocolVersion, version,
};
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

/// Both sides of connections by rustls.
#[derive(Clone)]
pub(crate) struct Configs {
    server: Option<Arc<ServerConfig>>,
    client: Arc<ClientConfig>,
    pub(crate) https: Option<Arc<ServerConfig>>,
    pub(crate) verifiers: Arc<Verifiers>,
    pub(crate) certificates: Option<Arc<Certificates>>,
    /// Time at which the first of the own certificates expires.
    pub(crate) expires: Option<SystemTime>,
}

impl Configs {
    /// Loads the files.
    pub(crate) fn load(files: &TlsFiles) -> Result<Self, TlsError> {
        let crypto = Arc::new(files.provider());
        let crls = files.crl.as_deref().map(load_crls).transpose()?.unwrap_or_default();
        let certificates = Certificates::load(files, &crypto)?.map(Arc::new);
        let clients = files.client_verifier(&crypto, &crls)?;
        let (server, https) = match &certificates {
            None => (None, None),
            Some(own) => {
                let server = files.server_config(&crypto, Arc::clone(own), clients.clone())?;
                (Some(Arc::new(server)), Some(https(Arc::clone(own))?))
            }
        };
        let own = certificates.as_ref().map(|own| Arc::clone(&own.first));
        let servers = files.server_verifier(&crypto, crls)?;
        let client = Arc::new(files.client_config(&crypto, own, servers.clone())?);
        let verifiers = Arc::new(Verifiers { clients, servers });
        let expires = certificates.as_ref().and_then(|own| own.expires());
        Ok(Self { server, client, https, verifiers, certificates, expires })
    }

    /// Both sides of links.
    pub(crate) fn of_links(server: ServerConfig, client: ClientConfig, verifiers: Arc<Verifiers>) -> Self {
        let (server, client) = (Some(Arc::new(server)), Arc::new(client));
        Self { server, client, https: None, verifiers, certificates: None, expires: None }
    }

    /// Connection of a peer that was accepted. `None`: there is no certificate. `challenge`: configuration for authorities that verify a
    /// domain.
    pub(crate) fn accept(&self, challenge: Option<&Arc<ServerConfig>>) -> Option<Connection> {
        let usual = Arc::clone(self.server.as_ref()?);
        if let Some(challenge) = challenge {
            return Some(Connection::Undecided(Box::new(Undecided::new(usual, Arc::clone(challenge)))));
        }
        Some(Connection::Rustls(ServerConnection::new(usual).ok()?.into()))
    }

    /// Connection to a peer that was dialled, and must be `name`.
    pub(crate) fn dial(&self, name: ServerName<'static>) -> Option<Connection> {
        let connection = ClientConnection::new(Arc::clone(&self.client), name).ok()?;
        Some(Connection::Rustls(connection.into()))
    }
}

/// Configuration for HTTPS with the files' certificates. `None`: there are none.
#[cfg(feature = "legacy-tls")]
pub(crate) fn https_of(files: &TlsFiles) -> Result<Option<Arc<ServerConfig>>, TlsError> {
    let crypto = Arc::new(aws_lc_rs::default_provider());
    Certificates::load(files, &crypto)?.map(|own| https(Arc::new(own))).transpose()
}

/// Configuration for HTTPS: clients need no certificate, and named suites are those of SIP only.
fn https(certificates: Arc<Certificates>) -> Result<Arc<ServerConfig>, TlsError> {
    let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_cert_resolver(certificates);
    Ok(Arc::new(config))
}

impl TlsFiles {
    /// aws-lc-rs with the suites of the offer, in their order.
    fn provider(&self) -> CryptoProvider {
        let mut provider = aws_lc_rs::default_provider();
        if !self.offer.suites().is_empty() {
            let known = std::mem::take(&mut provider.cipher_suites);
            let of_id = |id: u16| known.iter().find(|suite| u16::from(suite.suite()) == id).copied();
            provider.cipher_suites =
                self.offer.suites().iter().filter_map(|suite| of_id(suite.id())).collect();
        }
        provider
    }

    fn versions(&self) -> Vec<&'static SupportedProtocolVersion> {
        let of_rustls = |version| match version {
            TlsVersion::V1_3 => Some(&version::TLS13),
            TlsVersion::V1_2 => Some(&version::TLS12),
            TlsVersion::V1_0 | TlsVersion::V1_1 => None,
        };
        self.offer.versions().filter_map(of_rustls).collect()
    }

    fn server_config(
        &self,
        crypto: &Arc<CryptoProvider>,
        certificates: Arc<Certificates>,
        clients: Option<Arc<dyn ClientCertVerifier>>,
    ) -> Result<ServerConfig, TlsError> {
        let builder = ServerConfig::builder_with_provider(Arc::clone(crypto))
            .with_protocol_versions(&self.versions())?;
        let mut config = match clients {
            Some(verifier) => builder.with_client_cert_verifier(verifier),
            None => builder.with_no_client_auth(),
        }
        .with_cert_resolver(certificates);
        // Named suites are in order of preference, which the client's order does not change.
        config.ignore_client_order = !self.offer.suites().is_empty();
        match self.session_timeout {
            Some(lifetime) => {
                let lifetime_s = u32::try_from(lifetime.as_secs()).unwrap_or(u32::MAX).max(1);
                TicketKeys::new(lifetime_s)?.apply(&mut config);
            }
            None => TicketKeys::none(&mut config),
        }
        Ok(config)
    }

    fn client_verifier(
        &self,
        crypto: &Arc<CryptoProvider>,
        crls: &[CertificateRevocationListDer<'static>],
    ) -> Result<Option<Arc<dyn ClientCertVerifier>>, TlsError> {
        if self.client_auth == ClientAuth::None {
            return Ok(None);
        }
        let path = self.client_ca.as_deref().ok_or(TlsError::NoClientCa)?;
        let roots = Arc::new(load_roots("client_ca", path)?);
        let mut builder = WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(crypto))
            .with_crls(crls.iter().cloned())
            .allow_unknown_revocation_status();
        if self.client_auth == ClientAuth::Optional {
            builder = builder.allow_unauthenticated();
        }
        let failed = |why: rustls::server::VerifierBuilderError| TlsError::File {
            key: "client_ca",
            what: "certificate authorities",
            path: path.to_owned(),
            why: why.to_string(),
        };
        Ok(Some(builder.build().map_err(failed)?))
    }

    /// `None` with `verify_peer = false`.
    fn server_verifier(
        &self,
        crypto: &Arc<CryptoProvider>,
        crls: Vec<CertificateRevocationListDer<'static>>,
    ) -> Result<Option<Arc<ServerVerifier>>, TlsError> {
        if !self.verify_peer {
            return Ok(None);
        }
        let roots = match &self.peer_ca {
            PeerCa::System => system_roots()?,
            PeerCa::File(path) => load_roots("peer_ca", path)?,
        };
        Ok(Some(Arc::new(ServerVerifier::new(roots, crls, crypto)?)))
    }

    fn client_config(
        &self,
        crypto: &Arc<CryptoProvider>,
        own: Option<Arc<CertifiedKey>>,
        servers: Option<Arc<ServerVerifier>>,
    ) -> Result<ClientConfig, TlsError> {
        let builder = ClientConfig::builder_with_provider(Arc::clone(crypto))
            .with_protocol_versions(&self.versions())?;
        let verifier = servers.unwrap_or_else(|| Arc::new(ServerVerifier::accepting_all(crypto)));
        let builder = builder.dangerous().with_custom_certificate_verifier(verifier);
        let mut config = match own {
            Some(own) => builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(own))),
            None => builder.with_no_client_auth(),
        };
        config.resumption = match self.session_timeout {
            Some(_) => Resumption::store(Arc::new(Sessions::new())),
            None => Resumption::disabled(),
        };
        Ok(config)
    }
}

/// Certificates by the name that a client sends; the first for all other names, and for clients without one.
#[derive(Debug)]
pub(crate) struct Certificates {
    first: Arc<CertifiedKey>,
    domains: HashMap<String, Arc<CertifiedKey>>,
}

impl Certificates {
    /// Loads the files. `None`: they name no certificate.
    fn load(files: &TlsFiles, crypto: &CryptoProvider) -> Result<Option<Self>, TlsError> {
        let Some((chain, key)) = &files.certificate else { return Ok(None) };
        let first = Arc::new(load_pair(crypto, chain, key)?);
        let mut domains = HashMap::new();
        for domain in &files.domains {
            let pair = load_pair(crypto, &domain.certificate, &domain.private_key)?;
            domains.insert(domain.name.clone(), Arc::new(pair));
        }
        Ok(Some(Self { first, domains }))
    }

    /// The one for a client that asks for this name.
    pub(crate) fn of(&self, server_name: Option<&str>) -> &Arc<CertifiedKey> {
        let named = server_name.and_then(|name| self.domains.get(&name.to_ascii_lowercase()));
        named.unwrap_or(&self.first)
    }

    /// Time at which the first of them expires.
    fn expires(&self) -> Option<SystemTime> {
        self.domains.values().chain([&self.first]).filter_map(|pair| expiry(&pair.cert)).min()
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(self.of(hello.server_name())))
    }
}

fn load_pair(crypto: &CryptoProvider, chain: &Path, key: &Path) -> Result<CertifiedKey, TlsError> {
    let (certificates, private) = (load_certificates("certificate", chain)?, load_key(key)?);
    CertifiedKey::from_der(certificates, private, crypto).map_err(|why| TlsError::Pair {
        certificate: chain.to_owned(),
        key: key.to_owned(),
        why: why.to_string(),
    })
}

/// Keys of tickets. A key makes tickets for one lifetime, and is accepted for one more (RFC 5077 §5.5).
pub(crate) struct TicketKeys(Arc<dyn ProducesTickets>);

impl TicketKeys {
    pub(crate) fn new(lifetime_s: u32) -> Result<Self, Error> {
        let rotator = TicketRotator::new(lifetime_s, || {
            let key = Ticketer::new().map_err(|_| GetRandomFailed)?;
            Ok(Box::new(Key(key)))
        })?;
        Ok(Self(Arc::new(rotator)))
    }

    /// Lets a server make and accept tickets with these keys, and remember session identifiers.
    pub(crate) fn apply(&self, config: &mut ServerConfig) {
        config.ticketer = Arc::clone(&self.0);
        config.session_storage = ServerSessionMemoryCache::new(SERVER_SESSIONS_MAX);
        config.send_tls13_tickets = TICKETS;
    }

    /// Switches resumption off.
    pub(crate) fn none(config: &mut ServerConfig) {
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
    }
}

#[derive(Debug)]
struct Key(Arc<dyn ProducesTickets>);

impl ProducesTickets for Key {
    fn enabled(&self) -> bool {
        self.0.enabled()
    }

    fn lifetime(&self) -> u32 {
        self.0.lifetime()
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        self.0.encrypt(plain)
    }

    fn decrypt(&self, cipher: &[u8]) -> Option<Vec<u8>> {
        self.0.decrypt(cipher)
    }
}

/// Number of remembered sessions of clients without tickets.
const SERVER_SESSIONS_MAX: usize = 4096;
/// Number of tickets for each TLS 1.3 connection. A ticket is used once (RFC 8446 §C.4), and a phone opens one connection
/// after another, each of which brings the next ticket. A client that opens several at once resumes the first.
const TICKETS: usize = 1;
