//! Identities in certificates (RFC 5922).

use ringway_sansio::{Instant, PeerNames};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, ServerName, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use std::sync::Arc;
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

/// True if the certificate is one of the server, whose chain is verified elsewhere.
#[cfg(feature = "legacy-tls")]
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
