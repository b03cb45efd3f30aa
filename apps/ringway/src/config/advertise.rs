//! `[[advertise]]`: addresses that listeners show to peers in place of their own (decision 0056).

use super::{Listener, Reader, Section};
use ringway_server::{Advertised, AdvertisedHost, Config, is_private};
use ringway_settings::{HostPort, read_networks};
use ringway_transaction::may_send_to;
use std::net::{IpAddr, Ipv4Addr};

/// Reads the sections into `server`; one that cannot be used is an error. Returns the STUN server of those with `auto`.
pub(super) fn read(
    reader: &mut Reader<'_>,
    top: &mut Section<'_, '_>,
    listen: &[Listener],
    server: &mut Config,
) -> Option<HostPort> {
    let entries = &mut server.advertised;
    let mut servers: Vec<HostPort> = Vec::new();
    for (mut section, at) in top.sections(reader, "advertise") {
        if entries.len() >= ENTRIES_MAX {
            reader.error(at, "advertise", "the list is too long; give at most 64 addresses");
            break;
        }
        let listener = listener(reader, &mut section, listen);
        let listener = listener.map(|listener| (listener.transport, listener.address));
        let address = section.text(reader, "address");
        let networks = read_networks(reader, &mut section, "networks").unwrap_or_default();
        if section.place("networks").is_some() && networks.is_empty() {
            let at = section.place("networks").unwrap_or_default();
            let message =
                "the list is empty; take the key out for all peers with public addresses, or name networks";
            reader.error(at, section.path("networks"), message);
        }
        let stun = stun(reader, &mut section, address.map(|(text, _)| text));
        if let (Some(stun), at) = (stun, section.place("stun").unwrap_or(at)) {
            if servers.first().is_some_and(|first| *first != stun) {
                reader.error(
                    at,
                    section.path("stun"),
                    "is another server than before; give all sections the same one",
                );
            }
            servers.push(stun);
        }
        match address {
            Some((text, at)) if is_auto(text) => match auto_port(text) {
                Ok(port) => {
                    let host = AdvertisedHost::Address(AUTO);
                    entries.push(Advertised { listener, host, port, networks });
                }
                Err(why) => reader.error(at, section.path("address"), format!("{text:?} {why}")),
            },
            Some((text, at)) => match host(text) {
                Ok((host, port)) => entries.push(Advertised { listener, host, port, networks }),
                Err(why) => reader.error(at, section.path("address"), format!("{text:?} {why}")),
            },
            None => {
                let message = "is missing; give the address that peers reach this server at, as \"203.0.113.1\" or \"sip.example.org\"";
                reader.error(at, section.path("address"), message);
            }
        }
        section.finish(reader);
    }
    servers.into_iter().next()
}

/// `stun`: needed for `auto`, and for nothing else.
fn stun(reader: &mut Reader<'_>, section: &mut Section<'_, '_>, address: Option<&str>) -> Option<HostPort> {
    let is_auto = address.is_some_and(is_auto);
    let Some((text, at)) = section.text(reader, "stun") else {
        if is_auto {
            let at = section.place("address").unwrap_or_default();
            let message =
                "\"auto\" needs `stun`, a server that says which address it sees, as \"stun.example.org\"";
            reader.error(at, section.path("address"), message);
        }
        return None;
    };
    let server = text.parse::<HostPort>();
    if !is_auto {
        reader.error(
            at,
            section.path("stun"),
            "is for address = \"auto\"; take it out, or write that address",
        );
    } else if let Err(why) = &server {
        reader.error(at, section.path("stun"), format!("{text:?} is no server: {why}"));
    }
    server.ok().filter(|_| is_auto)
}

/// Advertised addresses with the public address in those with `auto`, which are left out while it is not known.
pub(crate) fn with_public_ip(advertised: Vec<Advertised>, public_ip: Option<IpAddr>) -> Vec<Advertised> {
    let known = |entry: Advertised| match entry.host {
        AdvertisedHost::Address(AUTO) => {
            public_ip.map(|ip| Advertised { host: AdvertisedHost::Address(ip), ..entry })
        }
        AdvertisedHost::Address(_) | AdvertisedHost::Name(_) => Some(entry),
    };
    advertised.into_iter().filter_map(known).collect()
}

/// `listen`: one of the listeners, as it is written there.
pub(super) fn listener(
    reader: &mut Reader<'_>,
    section: &mut Section<'_, '_>,
    listen: &[Listener],
) -> Option<Listener> {
    let (text, at) = section.text(reader, "listen")?;
    let found = listen.iter().copied().find(|listener| listener.to_string() == text);
    if found.is_none() {
        let all: Vec<String> = listen.iter().map(|listener| format!("\"{listener}\"")).collect();
        let message = format!("{text:?} is none of `listen`; write one as it is there: {}", all.join(", "));
        reader.error(at, section.path("listen"), message);
    }
    found
}

/// True for `auto` and `auto:PORT`.
fn is_auto(text: &str) -> bool {
    text.split(':').next().is_some_and(|word| word.eq_ignore_ascii_case(AUTO_WORD))
}

/// Port of `auto:PORT`; `None`: that of the listener.
fn auto_port(text: &str) -> Result<Option<u16>, &'static str> {
    match text.split_once(':') {
        None => Ok(None),
        Some((_, port)) => match port.parse() {
            Ok(port) if port != 0 => Ok(Some(port)),
            Ok(_) | Err(_) => Err("has no port; write \"auto\" or \"auto:5060\""),
        },
    }
}

/// `address`: a host, and maybe a port. The error is the fault and the remedy.
fn host(text: &str) -> Result<(AdvertisedHost, Option<u16>), &'static str> {
    let is_no_host = "is no address; write HOST or HOST:PORT, as \"203.0.113.1\" or \"sip.example.org:5060\"";
    let parsed: HostPort = text.parse().map_err(|_| is_no_host)?;
    let Some(ip) = parsed.address().map(|ip| ip.to_canonical()) else {
        let name = parsed.host.trim_end_matches('.').to_ascii_lowercase();
        // RFC 1123 §2.1: the last label of a name is no number.
        let last = name.rsplit('.').next().unwrap_or_default();
        let is_name = !last.is_empty() && !last.bytes().all(|byte| byte.is_ascii_digit());
        return match is_name && name.len() <= NAME_BYTES_MAX {
            true => Ok((AdvertisedHost::Name(name), parsed.port)),
            false => Err(is_no_host),
        };
    };
    if !may_send_to(ip) {
        return Err("is an address that no peer can send to; give that of the router or of the cloud");
    }
    Ok((AdvertisedHost::Address(ip), parsed.port))
}

/// Warnings: an address that peers outside cannot reach.
pub(super) fn warnings(advertised: &[Advertised]) -> Vec<String> {
    let private = advertised.iter().filter_map(|entry| match entry.host {
        AdvertisedHost::Address(ip) if ip != AUTO && entry.networks.is_empty() && is_private(ip) => Some(ip),
        AdvertisedHost::Address(_) | AdvertisedHost::Name(_) => None,
    });
    private
        .map(|ip| {
            format!(
                "[[advertise]] address: {ip} is a private address, and peers with public addresses get it; give the public one, or name \
                 the peers in `networks`"
            )
        })
        .collect()
}

/// Value of `address` for the one that a STUN server sees.
const AUTO_WORD: &str = "auto";
/// Host of an entry whose address a STUN server says.
const AUTO: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
/// Maximum number of entries.
const ENTRIES_MAX: usize = 64;
/// Maximum length of a host name (RFC 1035 §2.3.4).
const NAME_BYTES_MAX: usize = 253;
