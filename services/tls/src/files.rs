//! Certificates, private keys, authorities and revocation lists, from PEM files.

use crate::identity::{AnyServer, SipServer};
use crate::sessions::TicketKeys;
use rustls::client::Resumption;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{ClientHello, ResolvesServerCert, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use x509_parser::prelude::{FromDer, X509Certificate};

/// Requirement on the certificate of a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientAuth {
    /// None is requested.
    #[default]
    None,
    /// It is requested; a client without one is accepted, one with a certificate that is not valid is refused.
    Optional,
    /// A client without a valid one is refused.
    Required,
}

/// Authorities whose certificates are accepted of servers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PeerCa {
    /// Those of the operating system.
    #[default]
    System,
    /// Those in a PEM file.
    File(PathBuf),
}

/// Certificate for a further domain, chosen by the name that the client sends (SNI, RFC 6066 §3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DomainFiles {
    /// Domain in lower case.
    pub name: String,
    /// Certificate chain, PEM.
    pub certificate: PathBuf,
    /// Private key, PEM.
    pub private_key: PathBuf,
}

/// Files and rules from which [`TlsMaterial`] is loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// Certificate chain and private key, PEM; also presented to servers that ask for one. `None`: a client without a
    /// certificate, and no server.
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// Certificates of further domains.
    pub domains: Vec<DomainFiles>,
    /// Requirement on clients.
    pub client_auth: ClientAuth,
    /// Authorities of clients' certificates; required unless `client_auth` is [`ClientAuth::None`].
    pub client_ca: Option<PathBuf>,
    /// Lifetime of sessions; `None` switches resumption off on both sides.
    pub session_timeout: Option<Duration>,
    /// False: certificates of servers are not verified.
    pub verify_peer: bool,
    /// Authorities of servers' certificates.
    pub peer_ca: PeerCa,
    /// Revocation lists, PEM, for the certificates of clients and servers.
    pub crl: Option<PathBuf>,
}

impl Default for TlsFiles {
    fn default() -> Self {
        Self {
            certificate: None,
            domains: Vec::new(),
            client_auth: ClientAuth::None,
            client_ca: None,
            session_timeout: Some(Duration::from_secs(7200)),
            verify_peer: true,
            peer_ca: PeerCa::System,
            crl: None,
        }
    }
}

/// Error of loading [`TlsMaterial`]. The key names the entry of the `[tls]` section.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read, or has no PEM section of the kind.
    #[error("{key}: cannot read {what} from {}: {why}", path.display())]
    File {
        /// Key of the configuration.
        key: &'static str,
        /// Expected content.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Cause.
        why: String,
    },
    /// A certificate and its key do not belong together, or the key's kind is not supported.
    #[error("private_key: {} does not fit the certificate {}: {why}", key.display(), certificate.display())]
    Pair {
        /// File of the certificate.
        certificate: PathBuf,
        /// File of the key.
        key: PathBuf,
        /// Cause.
        why: String,
    },
    /// Client certificates are verified by no authority.
    #[error(
        "client_ca is missing: name a PEM file with the authorities of the clients, or set client_auth = \"none\""
    )]
    NoClientCa,
    /// The system has no authorities.
    #[error(
        "peer_ca: no certificate authority was found on this system ({0}); install the package ca-certificates, or name a PEM file"
    )]
    NoSystemCa(String),
    /// Another error of the TLS library.
    #[error("TLS: {0}")]
    Library(#[from] rustls::Error),
}

/// Loaded configuration of both sides.
#[derive(Clone)]
pub struct TlsMaterial {
    pub(crate) server: Option<Arc<ServerConfig>>,
    /// The same certificates for HTTPS: clients need none.
    pub(crate) https: Option<Arc<ServerConfig>>,
    pub(crate) client: Arc<ClientConfig>,
    expires: Option<SystemTime>,
}

impl TlsFiles {
    /// All files, for watching them.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        let pair = self.certificate.iter().flat_map(|(certificate, key)| [certificate, key]);
        let domains = self.domains.iter().flat_map(|domain| [&domain.certificate, &domain.private_key]);
        let peer_ca = match &self.peer_ca {
            PeerCa::System => None,
            PeerCa::File(path) => Some(path),
        };
        let others = [self.client_ca.as_ref(), peer_ca, self.crl.as_ref()].into_iter().flatten();
        pair.chain(domains).chain(others).map(PathBuf::as_path)
    }

    /// Loads everything.
    ///
    /// # Errors
    /// A file is missing or not valid; the error names the key and the file.
    pub fn load(&self) -> Result<TlsMaterial, TlsError> {
        let crypto = Arc::new(aws_lc_rs::default_provider());
        let crls = self.crl.as_deref().map(load_crls).transpose()?.unwrap_or_default();
        let own = self.certificate.as_ref().map(|(chain, key)| load_pair(&crypto, chain, key)).transpose()?;
        let mut expires = own.as_ref().and_then(expiry);
        let (server, https) = match &own {
            None => (None, None),
            Some(own) => {
                let mut domains = HashMap::new();
                for domain in &self.domains {
                    let pair = load_pair(&crypto, &domain.certificate, &domain.private_key)?;
                    expires = expires.min(expiry(&pair)).or(expires);
                    domains.insert(domain.name.clone(), Arc::new(pair));
                }
                let certificates = Arc::new(Certificates { first: Arc::new(own.clone()), domains });
                let https = ServerConfig::builder_with_provider(Arc::clone(&crypto))
                    .with_safe_default_protocol_versions()?
                    .with_no_client_auth()
                    .with_cert_resolver(Arc::clone(&certificates) as _);
                let server = self.server_config(&crypto, certificates, &crls)?;
                (Some(Arc::new(server)), Some(Arc::new(https)))
            }
        };
        let client = Arc::new(self.client_config(&crypto, own, crls)?);
        Ok(TlsMaterial { server, https, client, expires })
    }

    fn server_config(
        &self,
        crypto: &Arc<CryptoProvider>,
        certificates: Arc<Certificates>,
        crls: &[CertificateRevocationListDer<'static>],
    ) -> Result<ServerConfig, TlsError> {
        let builder =
            ServerConfig::builder_with_provider(Arc::clone(crypto)).with_safe_default_protocol_versions()?;
        let mut config = match self.client_verifier(crypto, crls)? {
            Some(verifier) => builder.with_client_cert_verifier(verifier),
            None => builder.with_no_client_auth(),
        }
        .with_cert_resolver(certificates);
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

    fn client_config(
        &self,
        crypto: &Arc<CryptoProvider>,
        own: Option<CertifiedKey>,
        crls: Vec<CertificateRevocationListDer<'static>>,
    ) -> Result<ClientConfig, TlsError> {
        let builder =
            ClientConfig::builder_with_provider(Arc::clone(crypto)).with_safe_default_protocol_versions()?;
        let builder = match self.verify_peer {
            true => {
                let roots = match &self.peer_ca {
                    PeerCa::System => system_roots()?,
                    PeerCa::File(path) => load_roots("peer_ca", path)?,
                };
                builder.dangerous().with_custom_certificate_verifier(SipServer::new(roots, crls, crypto)?)
            }
            false => builder.dangerous().with_custom_certificate_verifier(AnyServer::new(crypto)),
        };
        let mut config = match own {
            Some(own) => {
                builder.with_client_cert_resolver(Arc::new(rustls::sign::SingleCertAndKey::from(own)))
            }
            None => builder.with_no_client_auth(),
        };
        config.resumption = match self.session_timeout {
            Some(_) => Resumption::in_memory_sessions(SESSIONS_MAX),
            None => Resumption::disabled(),
        };
        Ok(config)
    }
}

impl TlsMaterial {
    /// Time at which the first of the server's own certificates expires.
    pub const fn expires(&self) -> Option<SystemTime> {
        self.expires
    }
}

/// Certificates by the name that a client sends; the first for all other names, and for clients without one.
#[derive(Debug)]
struct Certificates {
    first: Arc<CertifiedKey>,
    domains: HashMap<String, Arc<CertifiedKey>>,
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let named = hello.server_name().and_then(|name| self.domains.get(&name.to_ascii_lowercase()));
        Some(Arc::clone(named.unwrap_or(&self.first)))
    }
}

fn load_pair(crypto: &CryptoProvider, chain: &Path, key: &Path) -> Result<CertifiedKey, TlsError> {
    let certificates = load_certificates("certificate", chain)?;
    let private = PrivateKeyDer::from_pem_file(key).map_err(|why| TlsError::File {
        key: "private_key",
        what: "a private key",
        path: key.to_owned(),
        why: describe(&why),
    })?;
    CertifiedKey::from_der(certificates, private, crypto).map_err(|why| TlsError::Pair {
        certificate: chain.to_owned(),
        key: key.to_owned(),
        why: why.to_string(),
    })
}

fn load_certificates(key: &'static str, path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let failed = |why: String| TlsError::File { key, what: "certificates", path: path.to_owned(), why };
    let list = CertificateDer::pem_file_iter(path).map_err(|why| failed(describe(&why)))?;
    let list: Result<Vec<_>, _> = list.take(CERTIFICATES_MAX).collect();
    match list.map_err(|why| failed(describe(&why)))? {
        list if list.is_empty() => Err(failed("it has no certificate in PEM format".to_owned())),
        list => Ok(list),
    }
}

fn load_roots(key: &'static str, path: &Path) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in load_certificates(key, path)? {
        roots.add(certificate).map_err(|why| TlsError::File {
            key,
            what: "certificate authorities",
            path: path.to_owned(),
            why: why.to_string(),
        })?;
    }
    Ok(roots)
}

fn system_roots() -> Result<RootCertStore, TlsError> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(found.certs);
    match roots.is_empty() {
        true => Err(TlsError::NoSystemCa(found.errors.first().map_or_else(String::new, ToString::to_string))),
        false => Ok(roots),
    }
}

fn load_crls(path: &Path) -> Result<Vec<CertificateRevocationListDer<'static>>, TlsError> {
    let failed =
        |why: String| TlsError::File { key: "crl", what: "revocation lists", path: path.to_owned(), why };
    let list = CertificateRevocationListDer::pem_file_iter(path).map_err(|why| failed(describe(&why)))?;
    let list: Result<Vec<_>, _> = list.take(CERTIFICATES_MAX).collect();
    match list.map_err(|why| failed(describe(&why)))? {
        list if list.is_empty() => Err(failed("it has no revocation list in PEM format".to_owned())),
        list => Ok(list),
    }
}

fn describe(why: &rustls::pki_types::pem::Error) -> String {
    match why {
        rustls::pki_types::pem::Error::Io(why) => why.to_string(),
        rustls::pki_types::pem::Error::NoItemsFound => "it has none in PEM format".to_owned(),
        other => format!("{other:?}"),
    }
}

/// Time at which the first certificate of a chain expires.
fn expiry(pair: &CertifiedKey) -> Option<SystemTime> {
    let first = pair.cert.first()?;
    let (_, certificate) = X509Certificate::from_der(first).ok()?;
    let seconds = u64::try_from(certificate.validity().not_after.timestamp()).unwrap_or(0);
    Some(UNIX_EPOCH + Duration::from_secs(seconds))
}

/// Maximum number of certificates, or lists, that are read from a file.
const CERTIFICATES_MAX: usize = 10_000;
/// Number of remembered sessions with servers.
const SESSIONS_MAX: usize = 4096;
