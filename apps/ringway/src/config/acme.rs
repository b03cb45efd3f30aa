//! `[tls.acme]`: certificates that are ordered from an authority.

use super::{Listener, Reader, Section};
use ringway_acme::{AcmeConfig, ChallengeKind, Folder, check_contact, check_directory, check_domain};
use ringway_sansio::Transport;
use ringway_tls::{Backend, TlsFiles};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

const FOLDER: &str = "acme";
/// Ports that authorities connect to (RFC 8555 §8.3, RFC 8737 §3).
const HTTP_PORT: u16 = 80;
const TLS_PORT: u16 = 443;

/// Reads the section of `[tls]`, and uses its certificate in place of files that are named. `None`: it is not there. `domains` are those of
/// the server.
pub(super) fn read(
    reader: &mut Reader<'_>,
    tls: &mut Section<'_, '_>,
    (listen, domains): (&[Listener], &[String]),
    files: &mut TlsFiles,
) -> Option<AcmeConfig> {
    let at = tls.place("acme");
    let mut section = tls.section(reader, "acme").named("tls.acme");
    let at = at?;
    let directory = section.text(reader, "directory");
    section.note_default(reader, "directory", || format!("{:?}", AcmeConfig::DEFAULT_DIRECTORY));
    let directory = directory.map_or(AcmeConfig::DEFAULT_DIRECTORY, |(url, at)| {
        if let Err(why) = check_directory(url) {
            reader.error(at, section.path("directory"), why.to_string());
        }
        url
    });
    let contact = section.text(reader, "contact").map(|(uri, at)| {
        if let Err(why) = check_contact(uri) {
            reader.error(at, section.path("contact"), why.to_string());
        }
        uri.to_owned()
    });
    if !section.switch(reader, "accept_terms", false) {
        let message =
            "is missing: read the terms of service of the directory's authority, and set accept_terms = true";
        reader.error(section.place("accept_terms").unwrap_or(at), section.path("accept_terms"), message);
    }
    let names = names(reader, &mut section, at, domains);
    let challenge = challenge(reader, &mut section, at, listen);
    let folder = section.text(reader, "folder").map_or(FOLDER, |(folder, _)| folder);
    section.note_default(reader, "folder", || format!("{FOLDER:?}"));
    let ca = section.text(reader, "ca").map(|(file, _)| file).filter(|file| *file != "system");
    section.note_default(reader, "ca", || "\"system\"".to_owned());
    let config = AcmeConfig {
        directory: directory.to_owned(),
        contact,
        domains: names,
        challenge,
        folder: folder.into(),
        ca: ca.map(PathBuf::from),
    };
    section.finish(reader);
    use_in(&config, reader, tls, files);
    Some(config)
}

/// Names of the certificate: those of the section, or the server's domains that are host names.
fn names(
    reader: &mut Reader<'_>,
    section: &mut Section<'_, '_>,
    at: usize,
    domains: &[String],
) -> Vec<String> {
    let path = section.path("domains");
    let names: Vec<String> = match section.texts(reader, "domains") {
        Some(given) => {
            for (name, at) in &given {
                if let Err(why) = check_domain(name) {
                    reader.error(*at, path.clone(), why.to_string());
                }
            }
            given.into_iter().map(|(name, _)| name.to_ascii_lowercase()).collect()
        }
        None => domains
            .iter()
            .filter(|name| check_domain(name).is_ok())
            .map(|name| name.to_ascii_lowercase())
            .collect(),
    };
    if names.is_empty() {
        let message =
            "is missing: none of the server's domains is a host name; give domains = [\"sip.example.org\"]";
        reader.error(at, path, message);
    } else if names.len() > AcmeConfig::DOMAINS_MAX {
        reader.error(
            at,
            path,
            format!("more than {} domains; name those of the certificate", AcmeConfig::DOMAINS_MAX),
        );
    }
    names
}

fn challenge(
    reader: &mut Reader<'_>,
    section: &mut Section<'_, '_>,
    at: usize,
    listen: &[Listener],
) -> ChallengeKind {
    let default = SocketAddr::from((Ipv4Addr::UNSPECIFIED, HTTP_PORT));
    let is_http = section.word(reader, "challenge", true, &[("http-01", true), ("tls-alpn-01", false)]);
    section.note_default(reader, "http_listen", || format!("\"{default}\""));
    let address = section.text(reader, "http_listen").map_or(default, |(text, at)| {
        text.parse().unwrap_or_else(|_| {
            let message = format!("{text:?} is not an address; write ADDRESS:PORT, as \"0.0.0.0:80\"");
            reader.error(at, section.path("http_listen"), message);
            default
        })
    });
    let port = section.number(reader, "tls_port", u32::from(TLS_PORT), 1..=65_535) as u16;
    let is_there = |listener: &&Listener| {
        matches!(listener.transport, Transport::Tls | Transport::Wss) && listener.address.port() == port
    };
    if is_http {
        let is_taken = |listener: &&Listener| {
            let (own, other) = (address.ip(), listener.address.ip());
            let is_same = own == other || own.is_unspecified() || other.is_unspecified();
            listener.transport.is_stream() && listener.address.port() == address.port() && is_same
        };
        if let Some(listener) = listen.iter().find(is_taken) {
            let message =
                format!("{address} is used by the listener \"{listener}\"; give one of them another port");
            reader.error(section.place("http_listen").unwrap_or(at), section.path("http_listen"), message);
        }
        return ChallengeKind::Http01(address);
    }
    if !listen.iter().any(|listener| is_there(&listener)) {
        let message = format!(
            "\"tls-alpn-01\" needs a tls: or wss: listener with port {port}, where authorities connect to; add \"tls:0.0.0.0:{port}\" to \
             `listen`, set tls_port to the port that 443 is forwarded to, or give \"http-01\""
        );
        reader.error(section.place("challenge").unwrap_or(at), section.path("challenge"), message);
    }
    ChallengeKind::TlsAlpn01
}

/// Uses the certificate of the section in place of files that are named.
fn use_in(acme: &AcmeConfig, reader: &mut Reader<'_>, section: &Section<'_, '_>, files: &mut TlsFiles) {
    let mut given =
        ["certificate", "private_key"].into_iter().filter_map(|key| Some((key, section.place(key)?)));
    if let Some((key, at)) = given.next() {
        let message = "cannot be given with [tls.acme], which has its own; remove one of them";
        reader.error(at, section.path(key), message);
    }
    if acme.challenge == ChallengeKind::TlsAlpn01 && files.offer.backend() == Backend::OpenSsl {
        let at = section.place("backend").unwrap_or_default();
        let message = "\"openssl\" does not answer tls-alpn-01; set [tls.acme] challenge = \"http-01\"";
        reader.error(at, section.path("backend"), message);
    }
    let file = Folder::new(&acme.folder).certificate();
    files.certificate = Some((file.clone(), file));
}

/// Warnings about the section, one line each.
pub(super) fn warnings(acme: &AcmeConfig, domains: &[String]) -> Vec<String> {
    let mut warnings = Vec::new();
    for domain in domains.iter().filter(|domain| !acme.domains.contains(&domain.to_ascii_lowercase())) {
        warnings.push(match check_domain(domain) {
            Err(why) => format!("[tls.acme] the certificate is not one for the domain {domain}: {why}"),
            Ok(()) => format!(
                "[tls.acme] the certificate is not one for the domain {domain}; add it to [tls.acme] domains, unless a section [[tls.domain]] \
                 has another one"
            ),
        });
    }
    if let ChallengeKind::Http01(address) = acme.challenge
        && address.port() != HTTP_PORT
    {
        warnings.push(format!(
            "[tls.acme] http_listen: authorities connect to port {HTTP_PORT} of each domain; forward it to port {}",
            address.port()
        ));
    }
    warnings
}
