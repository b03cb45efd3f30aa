//! `[[neighbour]]`: other SIP servers.

use super::{Reader, Section};
use ringway_settings::HostPort;
use ringway_tls::{ClientAuth, TlsFiles};

/// A neighbour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Neighbour {
    /// Name in the log; unique.
    pub(crate) name: String,
    /// Domain of its certificate, in lower case: a connection that presents it is trusted.
    pub(crate) certificate: Option<String>,
}

/// Reads the sections.
pub(super) fn read(reader: &mut Reader<'_>, top: &mut Section<'_, '_>, tls: &TlsFiles) -> Vec<Neighbour> {
    let mut list: Vec<Neighbour> = Vec::new();
    for (mut section, at) in top.sections(reader, "neighbour") {
        if list.len() >= NEIGHBOURS_MAX {
            reader.error(at, "neighbour", "the list is too long; give at most 64 neighbours");
            break;
        }
        let name = section.text(reader, "name").map(|(name, _)| name.to_owned()).unwrap_or_default();
        if !is_name(&name) || list.iter().any(|other| other.name == name) {
            let at = section.place("name").unwrap_or(at);
            let message = format!(
                "{name:?} is not a name; give each neighbour one of its own, of 1 to 64 letters, digits, `.`, `-` or `_`"
            );
            reader.error(at, section.path("name"), message);
        }
        let certificate = certificate(reader, &mut section, tls);
        section.finish(reader);
        list.push(Neighbour { name, certificate });
    }
    list
}

fn certificate(reader: &mut Reader<'_>, section: &mut Section<'_, '_>, tls: &TlsFiles) -> Option<String> {
    let (text, at) = section.text(reader, "certificate")?;
    let is_domain =
        text.parse::<HostPort>().is_ok_and(|host| host.port.is_none() && host.address().is_none());
    if !is_domain {
        let message = format!(
            "{text:?} is not a domain; give the one in the neighbour's certificate, as \"trunk.example.net\""
        );
        reader.error(at, section.path("certificate"), message);
    }
    if tls.client_auth == ClientAuth::None {
        let message = "needs [tls] client_auth = \"optional\" or \"required\": otherwise no client presents a certificate";
        reader.error(at, section.path("certificate"), message);
    }
    Some(text.to_ascii_lowercase())
}

fn is_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    (1..=64).contains(&name.len()) && name.bytes().all(is_plain)
}

const NEIGHBOURS_MAX: usize = 64;
