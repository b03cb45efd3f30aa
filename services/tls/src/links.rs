//! Certificates of links between the nodes of a cluster, from the secret that they share.
//!
//! The key of the authority follows from the secret, so every node has it and nobody issues certificates. A node makes its own
//! certificate when it starts, and its key is in no file.

use crate::configs::{Configs, TicketKeys};
use crate::files::TlsError;
use crate::identity::{ServerVerifier, Verifiers};
use crate::material::TlsMaterial;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, PKCS_ED25519, SanType, date_time_ymd,
};
use ringway_sansio::ListenerId;
use rustls::client::Resumption;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::version::TLS13;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::SystemTime;

/// Seed of the key of an authority for nodes.
pub type AuthoritySeed = [u8; 32];

/// TLS of the connections of one listener, which all belong to links.
pub struct LinkTls {
    /// The listener, of accepted and dialled connections.
    pub listener: ListenerId,
    /// Certificates ([`TlsMaterial::of_node`]).
    pub material: TlsMaterial,
    /// Names of the nodes, by their addresses: no other address is dialled.
    pub names: HashMap<SocketAddr, String>,
}

impl TlsMaterial {
    /// Material of the node with the domain `name`. Both sides of a connection present a certificate, of the authority with the seed
    /// `current` or `accepted`; its own one is of `current`.
    ///
    /// # Errors
    /// The library cannot make the certificate.
    pub fn of_node(
        name: &str,
        current: &AuthoritySeed,
        accepted: Option<&AuthoritySeed>,
    ) -> Result<Self, TlsError> {
        let crypto = Arc::new(aws_lc_rs::default_provider());
        let mut roots = RootCertStore::empty();
        let issuer = authority(current, &mut roots)?;
        if let Some(accepted) = accepted {
            authority(accepted, &mut roots)?;
        }
        let (chain, key) = issue(name, &issuer)?;
        let failed = |why: rustls::server::VerifierBuilderError| TlsError::Node(why.to_string());
        let clients =
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots.clone()), Arc::clone(&crypto));
        let clients = clients.build().map_err(failed)?;
        let servers = Arc::new(ServerVerifier::new(roots, Vec::new(), &crypto)?);
        let mut server = ServerConfig::builder_with_provider(Arc::clone(&crypto))
            .with_protocol_versions(&[&TLS13])?
            .with_client_cert_verifier(Arc::clone(&clients))
            .with_single_cert(chain.clone(), key.clone_key())?;
        // A session would keep the names of a certificate that is not accepted any more.
        TicketKeys::none(&mut server);
        let mut client = ClientConfig::builder_with_provider(crypto)
            .with_protocol_versions(&[&TLS13])?
            .dangerous()
            .with_custom_certificate_verifier(Arc::clone(&servers) as _)
            .with_client_auth_cert(chain, key)?;
        client.resumption = Resumption::disabled();
        let verifiers = Arc::new(Verifiers { clients: Some(clients), servers: Some(servers) });
        Ok(Self::of_configs(Configs::of_links(server, client, verifiers)))
    }
}

/// Authority with this seed of its key; its certificate is added to `roots`.
fn authority(seed: &AuthoritySeed, roots: &mut RootCertStore) -> Result<Issuer<'static, KeyPair>, TlsError> {
    let key = [ED25519_PKCS8, seed].concat();
    let key = KeyPair::from_pkcs8_der_and_sign_algo(&PrivatePkcs8KeyDer::from(key), &PKCS_ED25519);
    let key = key.map_err(not_made)?;
    let mut params = params("Ringway nodes", AUTHORITY_END_YEAR);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    let certificate = params.self_signed(&key).map_err(not_made)?;
    roots.add(certificate.der().clone())?;
    Ok(Issuer::new(params, key))
}

/// Certificate of a node with a new key.
fn issue(
    name: &str,
    issuer: &Issuer<'_, KeyPair>,
) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), TlsError> {
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(not_made)?;
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let year = i32::try_from(since_1970.as_secs() / YEAR_S).unwrap_or(0) + 1970;
    let mut params = params(name, year + YEARS);
    params.is_ca = IsCa::ExplicitNoCa;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    params.subject_alt_names = vec![SanType::DnsName(name.try_into().map_err(not_made)?)];
    let certificate = params.signed_by(&key, issuer).map_err(not_made)?;
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    Ok((vec![certificate.der().clone()], key))
}

fn params(common_name: &str, end_year: i32) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, common_name);
    // Clocks of nodes differ, and the end of a certificate is a restart: there is no other reason for a short life.
    params.not_before = date_time_ymd(BEGIN_YEAR, 1, 1);
    params.not_after = date_time_ymd(end_year, 1, 1);
    params
}

fn not_made(error: rcgen::Error) -> TlsError {
    TlsError::Node(error.to_string())
}

/// PKCS #8 of an Ed25519 key before its seed (RFC 8410 §7).
const ED25519_PKCS8: &[u8] = b"\x30\x2e\x02\x01\x00\x30\x05\x06\x03\x2b\x65\x70\x04\x22\x04\x20";
const BEGIN_YEAR: i32 = 2020;
const AUTHORITY_END_YEAR: i32 = 2999;
/// Validity of a node's certificate.
const YEARS: i32 = 10;
const YEAR_S: u64 = 31_556_952;
