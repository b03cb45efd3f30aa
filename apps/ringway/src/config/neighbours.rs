//! `[[neighbour]]`: other SIP servers.

use super::tls::NO_NAMES;
use super::{Reader, Section};
use ringway_sansio::Transport;
use ringway_server::{Config, Neighbour, NeighbourConnection};
use ringway_settings::HostPort;
use ringway_sip::{Scheme, Uri};
use ringway_tls::{Backend, ClientAuth, TlsFiles};
use std::time::Duration;

/// Reads the sections into `server`: a neighbour with a URI has a connection that is kept open, and one with a certificate
/// is trusted. Returns their names.
pub(super) fn read(
    reader: &mut Reader<'_>,
    top: &mut Section<'_, '_>,
    tls: &TlsFiles,
    server: &mut Config,
) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for (mut section, at) in top.sections(reader, "neighbour") {
        if names.len() >= NEIGHBOURS_MAX {
            reader.error(at, "neighbour", "the list is too long; give at most 64 neighbours");
            break;
        }
        let name = section.text(reader, "name").map(|(name, _)| name.to_owned()).unwrap_or_default();
        let is_used = names.contains(&name);
        if !is_name(&name) || is_used {
            let at = section.place("name").unwrap_or(at);
            let fault = if is_used { "is used twice" } else { "is not a name" };
            let message = format!(
                "{name:?} {fault}; give each neighbour one of its own, of 1 to 64 letters, digits, `.`, `-` or `_`"
            );
            reader.error(at, section.path("name"), message);
        }
        let uri = uri(reader, &mut section);
        let connection = connection(reader, &mut section, uri.is_some(), server);
        let interval = section.seconds(reader, "health_check_s", HEALTH_CHECK, 5..=3600);
        let certificate = certificate(reader, &mut section, tls, uri.is_some());
        section.finish(reader);
        server.auth.certificates.trusted.extend(certificate.clone());
        if let Some(uri) = uri {
            let offers_alias = tls.certificate.is_some() && is_by_tls(&uri);
            let name = name.clone();
            server.neighbours.push(Neighbour { name, uri, interval, connection, certificate, offers_alias });
        }
        names.push(name);
    }
    names
}

/// The URI; one that is not usable is an error.
fn uri(reader: &mut Reader<'_>, section: &mut Section<'_, '_>) -> Option<String> {
    let (text, at) = section.text(reader, "uri")?;
    let is_usable = Uri::parse(text.as_bytes()).is_ok_and(|uri| {
        let is_stream = matches!(transport_of(&uri), Some(Transport::Tcp | Transport::Tls));
        uri.is_sip() && uri.user().is_none() && uri.headers().is_empty() && is_stream
    });
    if !is_usable {
        let message = format!(
            "{text:?} is not a server over TCP or TLS; write as \"sip:proxy.example.net;transport=tls\" or \"sip:192.0.2.7:5060;transport=tcp\""
        );
        reader.error(at, section.path("uri"), message);
    }
    Some(text.to_owned())
}

fn transport_of(uri: &Uri<'_>) -> Option<Transport> {
    Transport::of_uri(uri.scheme() == Scheme::Sips, uri.params().value(b"transport"))
}

fn is_by_tls(uri: &str) -> bool {
    Uri::parse(uri.as_bytes()).is_ok_and(|uri| transport_of(&uri) == Some(Transport::Tls))
}

fn connection(
    reader: &mut Reader<'_>,
    section: &mut Section<'_, '_>,
    is_dialled: bool,
    server: &Config,
) -> NeighbourConnection {
    let words = [("kept", NeighbourConnection::Kept), ("per-call", NeighbourConnection::PerCall)];
    let connection = section.word(reader, "connection", NeighbourConnection::Kept, &words);
    let at = section.place("connection").unwrap_or_default();
    let needs = match connection {
        NeighbourConnection::PerCall if !is_dialled => "a uri",
        NeighbourConnection::PerCall if !server.stateful => "[routing] stateful = true",
        NeighbourConnection::PerCall | NeighbourConnection::Kept => return connection,
    };
    let message = format!("\"per-call\" needs {needs}; add it, or write \"kept\"");
    reader.error(at, section.path("connection"), message);
    connection
}

fn certificate(
    reader: &mut Reader<'_>,
    section: &mut Section<'_, '_>,
    tls: &TlsFiles,
    is_dialled: bool,
) -> Option<String> {
    let (text, at) = section.text(reader, "certificate")?;
    let is_domain =
        text.parse::<HostPort>().is_ok_and(|host| host.port.is_none() && host.address().is_none());
    if !is_domain {
        let message = format!(
            "{text:?} is not a domain; give the one in the neighbour's certificate, as \"trunk.example.net\""
        );
        reader.error(at, section.path("certificate"), message);
    }
    if is_domain && tls.client_auth == ClientAuth::None && !is_dialled {
        let message = "needs [tls] client_auth = \"optional\" or \"required\": otherwise no client presents a certificate";
        reader.error(at, section.path("certificate"), message);
    }
    if is_domain && tls.offer.backend() == Backend::OpenSsl {
        reader.error(at, section.path("certificate"), NO_NAMES);
    }
    Some(text.to_ascii_lowercase())
}

fn is_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    (1..=64).contains(&name.len()) && name.bytes().all(is_plain)
}

const NEIGHBOURS_MAX: usize = ringway_server::NEIGHBOURS_MAX;
const HEALTH_CHECK: Duration = Duration::from_secs(30);
