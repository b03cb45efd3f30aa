//! Names of the files of certificates, and the rules for peers.

use crate::offer::Offer;
use std::path::{Path, PathBuf};
use std::time::Duration;

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
