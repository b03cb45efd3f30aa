//! `[stir]`, and `stir` of a `[[trunk]]`: signed identities of callers.

use super::{Reader, Section};
use ringway_server::{CallSigner, CallerCheck, CertificateHost, Network, StirConfig, TrunkStir};
use ringway_settings::read_networks;
use sha2::{Digest, Sha256};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use x509_parser::pem::Pem;
use x509_parser::prelude::{FromDer, X509Certificate};

/// Files and networks of the section, beside what the server machine gets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct StirFiles {
    /// Rules for the certificates of others; `None`: none are fetched.
    pub(crate) signers: Option<SignerSettings>,
    /// End of the own certificate, in seconds since 1970.
    expires_s: Option<u64>,
}

/// Rules for the certificates of who signs the calls of trunks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SignerSettings {
    /// Content of the file with the authorities that have issued them, as DER.
    pub(crate) authorities: Vec<Vec<u8>>,
    /// File with the authorities of the servers that have them; `None`: those of the system.
    pub(crate) server_authorities: Option<PathBuf>,
    /// Networks of such servers beside public addresses.
    pub(crate) networks: Vec<Network>,
}

/// Reads the section into `server`.
pub(super) fn read(reader: &mut Reader<'_>, top: &mut Section<'_, '_>, server: &mut StirConfig) -> StirFiles {
    let mut section = top.section(reader, "stir");
    let expires_s = read_own(reader, &mut section, server);
    for (text, at) in section.texts(reader, "certificate_hosts").unwrap_or_default() {
        match CertificateHost::parse(text) {
            Some(host) if server.hosts.len() < HOSTS_MAX => server.hosts.push(host),
            Some(_) | None => {
                let message = format!(
                    "{text:?} is no host; write as \"cert.example.org\", \"*.example.org\" or \"*\", at most {HOSTS_MAX}"
                );
                reader.error(at, section.path("certificate_hosts"), message);
            }
        }
    }
    server.checks_per_second =
        section.number(reader, "checks_per_s", server.checks_per_second, 1..=CHECKS_PER_S_MAX);
    let networks = read_networks(reader, &mut section, "certificate_networks").unwrap_or_default();
    section.note_default(reader, "server_authorities", || "\"system\"".to_owned());
    let server_authorities = section.text(reader, "server_authorities").map(|(text, _)| text);
    let server_authorities = server_authorities.filter(|text| *text != "system").map(PathBuf::from);
    let signers = authorities(reader, &mut section).map(|authorities| SignerSettings {
        authorities,
        server_authorities,
        networks,
    });
    section.finish(reader);
    StirFiles { signers, expires_s }
}

/// Reads the own key and its certificate; returns the end of the certificate.
fn read_own(reader: &mut Reader<'_>, section: &mut Section<'_, '_>, server: &mut StirConfig) -> Option<u64> {
    let mut text = |key| text_of(reader, section, key);
    let (key, certificate) = (text("private_key"), text("certificate"));
    let (url, origin_id) = (text("certificate_url"), text("origid"));
    let (Some(key), Some(certificate), Some(url)) = (key, certificate, url) else {
        let given = [
            ("private_key", key),
            ("certificate", certificate),
            ("certificate_url", url),
            ("origid", origin_id),
        ];
        if let Some((name, Some((_, at)))) = given.into_iter().find(|(_, given)| given.is_some()) {
            let message = "needs private_key, certificate and certificate_url together; add what is missing, or remove this line";
            reader.error(at, section.path(name), message);
        }
        return None;
    };
    if !is_url(url.0) {
        let message = format!(
            "{:?} is no URL that others fetch; write as \"https://cert.example.org/stir.pem\"",
            url.0
        );
        reader.error(url.1, section.path("certificate_url"), message);
        return None;
    }
    let signer = sections_of(Path::new(key.0), |label| label.ends_with("PRIVATE KEY"))
        .and_then(|keys| keys.first().and_then(|der| CallSigner::from_der(der, url.0)).ok_or_else(no_key));
    let signer = match signer {
        Ok(signer) => signer,
        Err(why) => {
            reader.error(key.1, section.path("private_key"), format!("{:?} {why}", key.0));
            return None;
        }
    };
    let expires_s = match certificate_of(Path::new(certificate.0), &signer) {
        Ok(expires_s) => Some(expires_s),
        Err(why) => {
            reader.error(certificate.1, section.path("certificate"), format!("{:?} {why}", certificate.0));
            None
        }
    };
    server.origin_id = match origin_id {
        Some((text, at)) => {
            if !is_uuid(text) {
                let message = format!(
                    "{text:?} is no UUID; write as \"123e4567-e89b-12d3-a456-426655440000\" (`uuidgen`)"
                );
                reader.error(at, section.path("origid"), message);
            }
            text.to_ascii_lowercase().into()
        }
        None => uuid_of(&signer.public_key()).into(),
    };
    server.signer = Some(Arc::new(signer));
    expires_s
}

/// Text of a key; empty: none.
fn text_of<'t>(
    reader: &mut Reader<'_>,
    section: &mut Section<'t, '_>,
    key: &'static str,
) -> Option<(&'t str, usize)> {
    section.note_default(reader, key, || "\"\"".to_owned());
    section.text(reader, key).filter(|(text, _)| !text.is_empty())
}

fn no_key() -> String {
    "has no private key of P-256 in PEM format; `openssl ecparam -name prime256v1 -genkey -noout` makes one"
        .to_owned()
}

/// Checks that a certificate is one of this key; returns its end.
fn certificate_of(path: &Path, signer: &CallSigner) -> Result<u64, String> {
    let list = sections_of(path, |label| label == "CERTIFICATE")?;
    let first = list.first().ok_or("has no certificate in PEM format")?;
    let (_, parsed) = X509Certificate::from_der(first).map_err(|_| "is not X.509")?;
    if *parsed.public_key().subject_public_key.data != *signer.public_key() {
        return Err("is not a certificate of this private_key".to_owned());
    }
    Ok(u64::try_from(parsed.validity().not_after.timestamp()).unwrap_or_default())
}

fn authorities(reader: &mut Reader<'_>, section: &mut Section<'_, '_>) -> Option<Vec<Vec<u8>>> {
    let (file, at) = text_of(reader, section, "authorities")?;
    let list = sections_of(Path::new(file), |label| label == "CERTIFICATE");
    let is_certificate = |der: &Vec<u8>| X509Certificate::from_der(der).is_ok();
    match list {
        Ok(list) if !list.is_empty() && list.iter().all(is_certificate) => Some(list),
        Ok(_) => {
            reader.error(
                at,
                section.path("authorities"),
                format!("{file:?} has no certificate in PEM format"),
            );
            None
        }
        Err(why) => {
            reader.error(at, section.path("authorities"), format!("{file:?} {why}"));
            None
        }
    }
}

/// Reads `stir` of a trunk.
pub(super) fn of_trunk(
    reader: &mut Reader<'_>,
    section: &mut Section<'_, '_>,
    (server, networks): (&ringway_server::Config, &[Network]),
) -> TrunkStir {
    let mut stir = TrunkStir::default();
    for (text, at) in section.texts(reader, "stir").unwrap_or_default() {
        let missing = match text {
            "sign" => {
                stir.signs = true;
                (server.stir.signer.is_none())
                    .then_some("[stir] private_key, certificate and certificate_url")
            }
            "verify" | "require" => {
                stir.check = if text == "verify" { CallerCheck::Verify } else { CallerCheck::Require };
                if server.stir.hosts.is_empty() {
                    Some("[stir] authorities and certificate_hosts")
                } else {
                    networks
                        .is_empty()
                        .then_some("`networks` of the trunk, since only calls from there are verified")
                }
            }
            other => {
                let message = format!("{other:?} is unknown; give \"sign\", and \"verify\" or \"require\"");
                reader.error(at, section.path("stir"), message);
                None
            }
        };
        if let Some(missing) = missing {
            reader.error(at, section.path("stir"), format!("{text:?} needs {missing}"));
        }
        if !server.stateful {
            reader.error(
                at,
                section.path("stir"),
                "needs [routing] stateful = true; set it, or take `stir` out",
            );
        }
    }
    stir
}

/// Warnings about the own certificate, and about hosts without authorities.
pub(super) fn warnings(files: &StirFiles, server: &StirConfig) -> Vec<String> {
    let now_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let days = files.expires_s.map(|expires_s| expires_s.saturating_sub(now_s) / 86_400);
    let expires = match (files.expires_s, days) {
        (Some(expires_s), _) if expires_s <= now_s => {
            Some("[stir] certificate: it has expired, and others refuse what it signs; replace it".to_owned())
        }
        (Some(_), Some(days)) if days < EXPIRY_DAYS => {
            Some(format!("[stir] certificate: it expires in {days} days; replace it"))
        }
        (_, _) => None,
    };
    let unchecked = !server.hosts.is_empty() && files.signers.is_none();
    let unchecked = unchecked.then(|| {
        "[stir] certificate_hosts without `authorities`: no certificate is accepted; name the file".to_owned()
    });
    expires.into_iter().chain(unchecked).collect()
}

/// Contents of the sections of a PEM file whose labels are wanted.
fn sections_of(path: &Path, is_wanted: impl Fn(&str) -> bool) -> Result<Vec<Vec<u8>>, String> {
    let unreadable = |why: &dyn std::fmt::Display| format!("cannot be read: {why}; check the path");
    let mut text = Vec::new();
    let file = std::fs::File::open(path).map_err(|why| unreadable(&why))?;
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut text).map_err(|why| unreadable(&why))?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err("is larger than 1 MiB".to_owned());
    }
    let sections: Result<Vec<Pem>, _> = Pem::iter_from_buffer(&text).collect();
    let sections = sections.map_err(|_| "is not valid PEM")?;
    Ok(sections
        .into_iter()
        .filter(|section| is_wanted(&section.label))
        .map(|section| section.contents)
        .collect())
}

fn is_url(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_graphic() && !b"\"<>\\^`{|}#@".contains(&byte);
    let host = text.strip_prefix("https://").and_then(|rest| rest.split(['/', '?', ':']).next());
    host.is_some_and(|host| !host.is_empty()) && text.len() <= URL_BYTES_MAX && text.bytes().all(is_plain)
}

fn is_uuid(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    parts.iter().map(|part| part.len()).eq([8, 4, 4, 4, 12])
        && parts.iter().all(|part| part.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// UUID of a key (RFC 9562 §5.8): the same at all nodes that have it, and after a restart.
fn uuid_of(public_key: &[u8]) -> String {
    let hash: [u8; 32] = Sha256::new().chain_update(b"origid").chain_update(public_key).finalize().into();
    let hex: String = hash.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    let part = |range| hex.get(range).unwrap_or_default();
    format!("{}-{}-8{}-a{}-{}", part(0..8), part(8..12), part(13..16), part(17..20), part(20..32))
}

/// Days before the end of the certificate from which on there is a warning.
const EXPIRY_DAYS: u64 = 30;
const HOSTS_MAX: usize = 100;
const CHECKS_PER_S_MAX: u32 = 10_000;
/// Maximum length of the own URL, which is twice in each call.
const URL_BYTES_MAX: usize = 200;
const FILE_BYTES_MAX: u64 = 1 << 20;
