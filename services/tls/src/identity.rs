//! Identities in certificates (RFC 5922), and names of peers whose certificates were verified, checked again when the files
//! are loaded again.

use crate::report::{Reports, Role, add};
use ringway_sansio::{Instant, PeerNames};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, ServerName, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use webpki::EndEntityCert;
use x509_parser::prelude::{FromDer, X509Certificate};

/// Verifies the chain of a server's certificate, and that it is one of the SIP domain that was asked for.
///
/// RFC 5922 §7.1: the identities are the `sip:` URIs without a user among the alternative names; if there is none, the DNS
/// names. The common name is none. §7.2: a name is compared as a whole, and a wildcard matches nothing. A server that is
/// addressed by an IP address needs that address among the alternative names.
#[derive(Debug)]
pub struct ServerVerifier {
    /// `None`: every certificate is accepted (`verify_peer = false`).
    chain: Option<Arc<WebPkiServerVerifier>>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerVerifier {
    /// Verifies chains up to `roots`, of which no certificate is in `crls`.
    ///
    /// # Errors
    /// There are no roots, or a revocation list is not valid.
    pub fn new(
        roots: RootCertStore,
        crls: Vec<CertificateRevocationListDer<'static>>,
        crypto: &Arc<CryptoProvider>,
    ) -> Result<Self, Error> {
        let builder = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(crypto))
            .with_crls(crls)
            .allow_unknown_revocation_status();
        let chain = builder.build().map_err(|why| Error::General(why.to_string()))?;
        Ok(Self { chain: Some(chain), ..Self::accepting_all(crypto) })
    }

    /// Verifies no more than that the server has the key of its certificate.
    pub(crate) fn accepting_all(crypto: &CryptoProvider) -> Self {
        Self { chain: None, algorithms: crypto.signature_verification_algorithms }
    }
}

impl ServerCertVerifier for ServerVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(chain) = &self.chain else { return Ok(ServerCertVerified::assertion()) };
        // The name is the last check, so a wrong name means that all others have passed.
        let has_dns_name =
            match chain.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
                Ok(_) => true,
                Err(Error::InvalidCertificate(
                    CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
                )) => false,
                Err(error) => return Err(error),
            };
        let is_domain = match server_name {
            ServerName::DnsName(name) => is_sip_domain(end_entity, name.as_ref())?,
            _ => has_dns_name,
        };
        match is_domain {
            true => Ok(ServerCertVerified::assertion()),
            false => Err(Error::InvalidCertificate(CertificateError::NotValidForName)),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// True if the certificate is one of this server for some peer: by its SIP domains, or, as web clients read it, by a name with a wildcard.
pub(crate) fn covers(certificate: &CertificateDer<'_>, name: &ServerName<'_>) -> bool {
    is_server(certificate, name)
        || EndEntityCert::try_from(certificate)
            .is_ok_and(|certificate| certificate.verify_is_valid_for_subject_name(name).is_ok())
}

/// True if the certificate is one of the server, whose chain is verified elsewhere.
pub(crate) fn is_server(certificate: &CertificateDer<'_>, name: &ServerName<'_>) -> bool {
    match name {
        ServerName::DnsName(name) => is_sip_domain(certificate, name.as_ref()).unwrap_or(false),
        address => EndEntityCert::try_from(certificate)
            .is_ok_and(|certificate| certificate.verify_is_valid_for_subject_name(address).is_ok()),
    }
}

/// Names of a verified certificate: its domains (RFC 5922 §7.1) and, of a client, its `sip:` URIs with a user. `None`: it
/// has no names. The error is the reason why names do not count.
pub(crate) fn names_of(
    certificate: &CertificateDer<'_>,
    is_server: bool,
) -> Option<Result<PeerNames, &'static str>> {
    const UNREADABLE: &str = "the names in the certificate cannot be read, and do not count";
    let (Ok(parsed), Ok((_, x509))) =
        (EndEntityCert::try_from(certificate), X509Certificate::from_der(certificate))
    else {
        return Some(Err(UNREADABLE));
    };
    let Ok(expires_s) = u64::try_from(x509.validity().not_after.timestamp()) else {
        return Some(Err(UNREADABLE));
    };
    let taken = || parsed.valid_uri_names().take(PeerNames::NAMES_MAX + 1);
    let mut domains: Vec<Box<str>> = taken().filter_map(sip_domain).map(Box::from).collect();
    if domains.is_empty() && taken().count() <= PeerNames::NAMES_MAX {
        let names = parsed.valid_dns_names().take(PeerNames::NAMES_MAX + 1);
        domains = names.map(Box::from).collect();
    }
    let users: Vec<Box<str>> = match is_server {
        true => Vec::new(),
        false => taken().filter(|uri| is_sip_user(uri)).map(Box::from).collect(),
    };
    if domains.is_empty() && users.is_empty() {
        return None;
    }
    let names = PeerNames::new(domains, users, Instant::from_secs(expires_s));
    Some(names.ok_or("the certificate has more than 16 names, or one that is longer than 255 bytes: its names do not count"))
}

/// True for a `sip:` URI with a user.
fn is_sip_user(uri: &str) -> bool {
    let scheme = uri.get(..4);
    scheme.is_some_and(|scheme| scheme.eq_ignore_ascii_case("sip:")) && uri.contains('@')
}

/// True if `domain` is an identity of the certificate.
fn is_sip_domain(certificate: &CertificateDer<'_>, domain: &str) -> Result<bool, Error> {
    let bad = |_| Error::InvalidCertificate(CertificateError::BadEncoding);
    let certificate = EndEntityCert::try_from(certificate).map_err(bad)?;
    let is_same = |name: &str| name.trim_end_matches('.').eq_ignore_ascii_case(domain.trim_end_matches('.'));
    let mut has_uri = false;
    for host in certificate.valid_uri_names().filter_map(sip_domain) {
        has_uri = true;
        if is_same(host) {
            return Ok(true);
        }
    }
    Ok(!has_uri && certificate.valid_dns_names().any(is_same))
}

/// Domain of a `sip:` URI without a user.
fn sip_domain(uri: &str) -> Option<&str> {
    let (scheme, rest) = uri.split_once(':')?;
    let host = rest.split([';', '?']).next()?;
    (scheme.eq_ignore_ascii_case("sip") && !host.contains('@') && !host.is_empty()).then_some(host)
}

/// Verifiers of one loading of the files.
#[derive(Debug, Default)]
pub(crate) struct Verifiers {
    /// `None`: clients have no certificates.
    pub(crate) clients: Option<Arc<dyn ClientCertVerifier>>,
    /// `None`: servers are not verified.
    pub(crate) servers: Option<Arc<ServerVerifier>>,
}

/// Peer whose certificate was accepted in a handshake.
#[derive(Debug)]
pub(crate) struct VerifiedPeer {
    chain: Vec<CertificateDer<'static>>,
    /// Name of a server that was dialled.
    server: Option<ServerName<'static>>,
    remote: SocketAddr,
    names: Arc<PeerNames>,
    /// Set by a reload whose authorities or revocation lists do not accept the certificate.
    is_withdrawn: AtomicBool,
}

impl VerifiedPeer {
    /// Names of the certificate, unless it was withdrawn.
    pub(crate) fn names(&self) -> Option<Arc<PeerNames>> {
        (!self.is_withdrawn.load(Ordering::Relaxed)).then(|| Arc::clone(&self.names))
    }

    /// Memory in use in bytes, approximately.
    pub(crate) fn held_bytes(&self) -> usize {
        let chain: usize = self.chain.iter().map(|certificate| certificate.len()).sum();
        chain + size_of::<Self>() + size_of::<PeerNames>() + NAMES_BYTES
    }

    fn is_accepted_by(&self, verifiers: &Verifiers) -> bool {
        let Some((first, others)) = self.chain.split_first() else { return false };
        let now = UnixTime::now();
        match (&self.server, &verifiers.clients, &verifiers.servers) {
            (None, Some(clients), _) => clients.verify_client_cert(first, others, now).is_ok(),
            (Some(name), _, Some(servers)) => {
                servers.verify_server_cert(first, others, name, &[], now).is_ok()
            }
            _ => false,
        }
    }
}

/// Verified peers of all open connections.
pub(crate) struct VerifiedPeers {
    state: Mutex<State>,
    reports: Reports,
}

struct State {
    verifiers: Arc<Verifiers>,
    peers: Vec<Weak<VerifiedPeer>>,
    /// Length at which ended connections are removed from the list.
    sweep_at: usize,
}

/// Rules under which a handshake began.
#[derive(Clone)]
pub(crate) struct Verification {
    pub(crate) peers: Arc<VerifiedPeers>,
    pub(crate) verifiers: Arc<Verifiers>,
    /// Name of a server that is dialled.
    pub(crate) server: Option<ServerName<'static>>,
    pub(crate) remote: SocketAddr,
}

impl VerifiedPeers {
    pub(crate) fn new(verifiers: Arc<Verifiers>, reports: Reports) -> Arc<Self> {
        let state = Mutex::new(State { verifiers, peers: Vec::new(), sweep_at: SWEEP_MIN });
        Arc::new(Self { state, reports })
    }

    /// Replaces the verifiers. The names of certificates that they do not accept count for nothing from now on.
    pub(crate) fn reload(&self, verifiers: &Arc<Verifiers>) {
        let mut state = self.lock();
        state.verifiers = Arc::clone(verifiers);
        state.peers.retain(|peer| peer.strong_count() > 0);
        let peers = state.peers.clone();
        // Connections that end their handshake meanwhile are checked by the new verifiers.
        drop(state);
        for peer in peers.iter().filter_map(Weak::upgrade) {
            self.check(&peer, verifiers);
        }
    }

    fn check(&self, peer: &VerifiedPeer, verifiers: &Verifiers) {
        if peer.is_accepted_by(verifiers) || peer.is_withdrawn.swap(true, Ordering::Relaxed) {
            return;
        }
        add(&self.reports.counters.tls_names_withdrawn);
        self.report(peer.server.as_ref(), peer.remote, WITHDRAWN);
    }

    /// Reports a peer, which is a server if it was dialled by a name.
    fn report(&self, server: Option<&ServerName<'_>>, remote: SocketAddr, reason: &str) {
        let role = if server.is_some() { Role::Client } else { Role::Server };
        self.reports.peer(role, remote).report(reason);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Verification {
    /// Notes the end of a handshake in which the peer presented `chain`. `None`: it has no names that count.
    pub(crate) fn accept(&self, chain: &[CertificateDer<'_>]) -> Option<Arc<VerifiedPeer>> {
        let names = match names_of(chain.first()?, self.server.is_some())? {
            Ok(names) => Arc::new(names),
            Err(why) => {
                add(&self.peers.reports.counters.tls_names_refused);
                self.peers.report(self.server.as_ref(), self.remote, why);
                return None;
            }
        };
        let chain = chain.iter().map(|certificate| certificate.clone().into_owned()).collect();
        let (server, remote, is_withdrawn) = (self.server.clone(), self.remote, AtomicBool::new(false));
        let peer = Arc::new(VerifiedPeer { chain, server, remote, names, is_withdrawn });
        let mut state = self.peers.lock();
        if state.peers.len() >= state.sweep_at {
            state.peers.retain(|peer| peer.strong_count() > 0);
            state.sweep_at = (state.peers.len() * 2).max(SWEEP_MIN);
        }
        state.peers.push(Arc::downgrade(&peer));
        let current = Arc::clone(&state.verifiers);
        drop(state);
        if !Arc::ptr_eq(&current, &self.verifiers) {
            self.peers.check(&peer, &current);
        }
        Some(peer)
    }
}

const WITHDRAWN: &str = "the certificate is not accepted any more since the reload; its names do not count until the peer connects with another one";
/// Approximate memory of the names of a certificate, in bytes.
const NAMES_BYTES: usize = 512;
/// Length of the list below which ended connections stay in it.
const SWEEP_MIN: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_sip_uris_without_a_user_are_domains() {
        for (uri, domain) in [
            ("sip:example.org", Some("example.org")),
            ("SIP:example.org;transport=tls", Some("example.org")),
            ("sip:alice@example.org", None),
            ("sips:example.org", None),
            ("https://example.org", None),
            ("sip:", None),
            ("example.org", None),
        ] {
            assert_eq!(sip_domain(uri), domain, "{uri}");
        }
    }
}
