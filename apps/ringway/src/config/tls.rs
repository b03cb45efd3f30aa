//! `[tls]`: certificates, and rules for peers.

use super::{Listener, Reader, Section, acme};
use crate::tls_args::nearest_suite;
use ringway_acme::AcmeConfig;
use ringway_sansio::Transport;
use ringway_tls::{
    Backend, ClientAuth, DomainFiles, Offer, OfferError, OfferSettings, PeerCa, Suite, TlsFiles,
};
use std::path::PathBuf;
use std::time::Duration;

const SESSION_TIMEOUT_S: u32 = 7200;
/// RFC 8446 §4.6.1: a ticket is valid for a week at most.
const SESSION_TIMEOUT_S_MAX: u32 = 604_800;
const DOMAINS_MAX: usize = 1000;

/// Reads the section: the files, `[tls.acme]`, and `client_users`. Without it there is no TLS listener, and servers are verified by the
/// system's authorities.
pub(super) fn read(
    reader: &mut Reader<'_>,
    top: &mut Section<'_, '_>,
    (listen, server_domains): (&[Listener], &[String]),
) -> (TlsFiles, Option<AcmeConfig>, bool) {
    let place = top.place("tls");
    let mut section = top.section(reader, "tls");
    let certificate = path(reader, &mut section, "certificate");
    let private_key = path(reader, &mut section, "private_key");
    let pair = match (certificate, private_key) {
        (Some(certificate), Some(key)) => Some((certificate, key)),
        (None, None) => None,
        (certificate, _) => {
            let missing = if certificate.is_some() { "private_key" } else { "certificate" };
            let message = "is missing: a certificate and its private key are given together";
            reader.error(place.unwrap_or_default(), section.path(missing), message);
            None
        }
    };
    let words =
        [("none", ClientAuth::None), ("optional", ClientAuth::Optional), ("required", ClientAuth::Required)];
    let client_auth = section.word(reader, "client_auth", ClientAuth::None, &words);
    let client_ca = path(reader, &mut section, "client_ca");
    if client_auth != ClientAuth::None && client_ca.is_none() {
        let message =
            "is missing: name a PEM file with the authorities of the clients, or set client_auth = \"none\"";
        reader.error(place.unwrap_or_default(), section.path("client_ca"), message);
    }
    let client_users = section.switch(reader, "client_users", false);
    if client_users && client_auth == ClientAuth::None {
        let message =
            "needs client_auth = \"optional\" or \"required\": otherwise no client presents a certificate";
        let at = section.place("client_users").unwrap_or_default();
        reader.error(at, section.path("client_users"), message);
    }
    let is_resumed = section.switch(reader, "session_resumption", true);
    let timeout_s = section.number(reader, "session_timeout_s", SESSION_TIMEOUT_S, 1..=SESSION_TIMEOUT_S_MAX);
    let mut files = TlsFiles {
        domains: domains(reader, &mut section),
        client_auth,
        client_ca,
        session_timeout: is_resumed.then(|| Duration::from_secs(u64::from(timeout_s))),
        verify_peer: section.switch(reader, "verify_peer", true),
        peer_ca: match section.text(reader, "peer_ca") {
            None => {
                section.note_default(reader, "peer_ca", || "\"system\"".to_owned());
                PeerCa::System
            }
            Some(("system", _)) => PeerCa::System,
            Some((file, _)) => PeerCa::File(file.into()),
        },
        crl: path(reader, &mut section, "crl"),
        certificate: pair,
        offer: offer(reader, &mut section),
    };
    if client_users && files.offer.backend() == Backend::OpenSsl {
        let at = section.place("client_users").unwrap_or_default();
        reader.error(at, section.path("client_users"), NO_NAMES);
    }
    let acme = acme::read(reader, &mut section, (listen, server_domains), &mut files);
    section.finish(reader);
    if files.certificate.is_none()
        && let Some(listener) = listen.iter().find(|listener| listener.transport.is_secure())
    {
        let at = top.place("listen").unwrap_or_default();
        let message = format!(
            "\"{listener}\" needs [tls] certificate and private_key; `ringway cert init --domain D` makes them, and [tls.acme] orders \
             them"
        );
        reader.error(at, "listen", message);
    }
    if files.client_auth != ClientAuth::None
        && let Some(listener) = listen.iter().find(|listener| listener.transport == Transport::Dtls)
    {
        let at = top.place("listen").unwrap_or_default();
        let message = format!(
            "\"{listener}\" requests no certificates of clients: remove it, or set [tls] client_auth = \"none\""
        );
        reader.error(at, "listen", message);
    }
    (files, acme, client_users)
}

/// Text of a key with a path; empty: none.
fn path(reader: &mut Reader<'_>, section: &mut Section<'_, '_>, key: &'static str) -> Option<PathBuf> {
    section.note_default(reader, key, || "\"\"".to_owned());
    section.text(reader, key).filter(|(text, _)| !text.is_empty()).map(|(text, _)| text.into())
}

fn domains(reader: &mut Reader<'_>, section: &mut Section<'_, '_>) -> Vec<DomainFiles> {
    let mut list = Vec::new();
    let key = section.path("domain");
    for (mut domain, at) in section.sections(reader, "domain") {
        let name = domain.text(reader, "name").map(|(name, _)| name.to_ascii_lowercase());
        let files = (path(reader, &mut domain, "certificate"), path(reader, &mut domain, "private_key"));
        match (name, files) {
            (Some(name), (Some(certificate), Some(private_key))) => {
                list.push(DomainFiles { name, certificate, private_key });
            }
            _ => reader.error(at, key.clone(), "needs name, certificate and private_key"),
        }
        domain.finish(reader);
        if list.len() > DOMAINS_MAX {
            reader.error(at, key.clone(), "more than 1000 domains");
            break;
        }
    }
    list
}

/// Library and cipher suites.
fn offer(reader: &mut Reader<'_>, section: &mut Section<'_, '_>) -> Offer {
    let backends = [("rustls", Backend::Rustls), ("openssl", Backend::OpenSsl)];
    let backend = section.word(reader, "backend", Backend::Rustls, &backends);
    let mut suites: Vec<Suite> = Vec::new();
    let mut places = Vec::new();
    for (name, at) in section.texts(reader, "cipher_suites").unwrap_or_default() {
        let message = match Suite::by_name(name) {
            Some(suite) if suites.contains(&suite) => format!("{name:?} is there twice; remove one of them"),
            Some(suite) => {
                suites.push(suite);
                places.push(at);
                continue;
            }
            None => nearest_suite(name),
        };
        reader.error(at, section.path("cipher_suites"), message);
    }
    let danger_legacy = section.switch(reader, "danger_legacy", false);
    let offer = Offer::new(backend, suites.clone(), None, danger_legacy);
    offer.unwrap_or_else(|error| {
        let (key, at) = match error {
            OfferError::LegacySuite(suite) => {
                let number = suites.iter().position(|other| *other == suite);
                ("cipher_suites", number.and_then(|number| places.get(number)).copied())
            }
            _ => ("backend", None),
        };
        let at = at.or_else(|| section.place(key)).unwrap_or_default();
        reader.error(at, section.path(key), error.text(NAMES));
        Offer::default()
    })
}

/// Error of a key that needs the names in certificates.
pub(super) const NO_NAMES: &str =
    "needs backend = \"rustls\": with \"openssl\" the names in certificates do not count";

const NAMES: OfferSettings =
    OfferSettings { openssl: "backend = \"openssl\"", danger_legacy: "danger_legacy = true" };

/// Warnings about the section, one line each.
pub(super) fn warnings(files: &TlsFiles) -> Vec<String> {
    let mut warnings = Vec::new();
    if !files.verify_peer {
        warnings.push(
            "CERTIFICATES OF SERVERS ARE NOT VERIFIED: anyone between this server and its neighbours can read and change \
             calls; set [tls] verify_peer = true"
                .to_owned(),
        );
    }
    if files.offer.backend() == Backend::OpenSsl {
        warnings.push(
            "LEGACY TLS IS ON: OpenSSL accepts the named versions and cipher suites, which others can break; for experiments \
             only, otherwise remove [tls] backend"
                .to_owned(),
        );
    }
    warnings
}
