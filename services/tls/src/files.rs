//! Files of certificates, private keys and revocation lists: their names, their contents (PEM), and the rules for peers.

use crate::offer::Offer;
use rustls::RootCertStore;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use x509_parser::prelude::{CertificateRevocationList, FromDer, X509Certificate};

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

/// Files and rules from which [`TlsMaterial`](crate::TlsMaterial) is loaded.
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
    /// Library, versions and cipher suites.
    pub offer: Offer,
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
            offer: Offer::default(),
        }
    }
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
}

/// Error of loading [`TlsMaterial`](crate::TlsMaterial). The key names the entry of the `[tls]` section.
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
    /// The certificate of this node cannot be made.
    #[error("cannot make the certificate of this node: {0}")]
    Node(String),
    /// Another error of the TLS library.
    #[error("TLS: {0}")]
    Library(#[from] rustls::Error),
    /// Another error of OpenSSL.
    #[error("OpenSSL: {0}")]
    OpenSsl(String),
    /// OpenSSL was built without a suite.
    #[error("cipher_suites: this OpenSSL has no {0}; a build with `--features legacy-tls-vendored` has it")]
    NoSuite(&'static str),
}

pub(crate) fn load_certificates(
    key: &'static str,
    path: &Path,
) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let failed = |why: String| TlsError::File { key, what: "certificates", path: path.to_owned(), why };
    let list = CertificateDer::pem_file_iter(path).map_err(|why| failed(describe(&why)))?;
    let list: Result<Vec<_>, _> = list.take(CERTIFICATES_MAX).collect();
    match list.map_err(|why| failed(describe(&why)))? {
        list if list.is_empty() => Err(failed("it has no certificate in PEM format".to_owned())),
        list => Ok(list),
    }
}

pub(crate) fn load_key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_file(path).map_err(|why| TlsError::File {
        key: "private_key",
        what: "a private key",
        path: path.to_owned(),
        why: describe(&why),
    })
}

pub(crate) fn load_roots(key: &'static str, path: &Path) -> Result<RootCertStore, TlsError> {
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

/// Certificates of the authorities in a PEM file, or without one those of the operating system. `key` names the entry of the
/// configuration in errors.
///
/// # Errors
/// The file cannot be read or has no certificate; the system has none.
pub fn authorities(key: &'static str, file: Option<&Path>) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    match file {
        Some(file) => load_certificates(key, file),
        None => native_certificates(),
    }
}

/// Authorities of the operating system.
pub(crate) fn native_certificates() -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found = rustls_native_certs::load_native_certs();
    match found.certs.is_empty() {
        true => Err(TlsError::NoSystemCa(found.errors.first().map_or_else(String::new, ToString::to_string))),
        false => Ok(found.certs),
    }
}

pub(crate) fn system_roots() -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(native_certificates()?);
    match roots.is_empty() {
        true => Err(TlsError::NoSystemCa("none is valid".to_owned())),
        false => Ok(roots),
    }
}

pub(crate) fn load_crls(path: &Path) -> Result<Vec<CertificateRevocationListDer<'static>>, TlsError> {
    let failed =
        |why: String| TlsError::File { key: "crl", what: "revocation lists", path: path.to_owned(), why };
    let list = CertificateRevocationListDer::pem_file_iter(path).map_err(|why| failed(describe(&why)))?;
    let list: Result<Vec<_>, _> = list.take(CERTIFICATES_MAX).collect();
    match list.map_err(|why| failed(describe(&why)))? {
        list if list.is_empty() => Err(failed("it has no revocation list in PEM format".to_owned())),
        list => Ok(list),
    }
}

fn describe(why: &pem::Error) -> String {
    match why {
        pem::Error::Io(why) => why.to_string(),
        pem::Error::NoItemsFound => "it has none in PEM format".to_owned(),
        other => format!("{other:?}"),
    }
}

/// Time at which the first certificate of a chain expires.
pub(crate) fn expiry(chain: &[CertificateDer<'_>]) -> Option<SystemTime> {
    let (_, certificate) = X509Certificate::from_der(chain.first()?).ok()?;
    let seconds = u64::try_from(certificate.validity().not_after.timestamp()).unwrap_or(0);
    Some(UNIX_EPOCH + Duration::from_secs(seconds))
}

/// Time at which the first of these revocation lists should have been replaced (RFC 5280 §5.1.2.5).
pub(crate) fn next_update(lists: &[CertificateRevocationListDer<'_>]) -> Option<SystemTime> {
    let of_list = |list: &CertificateRevocationListDer<'_>| {
        let (_, list) = CertificateRevocationList::from_der(list.as_ref()).ok()?;
        let seconds = u64::try_from(list.next_update()?.timestamp()).unwrap_or(0);
        Some(UNIX_EPOCH + Duration::from_secs(seconds))
    };
    lists.iter().filter_map(of_list).min()
}

/// Maximum number of certificates, or lists, that are read from a file.
const CERTIFICATES_MAX: usize = 10_000;
