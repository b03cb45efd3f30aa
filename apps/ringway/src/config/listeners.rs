//! `listen` and `domains`.

use super::reader::{Reader, Section};
use ringway_sansio::Transport;
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};

/// More listeners than this have no number.
const LISTENERS_MAX: usize = 255;
/// More domains than this would make every request slow.
const DOMAINS_MAX: usize = 1000;
/// The longest domain (RFC 1035 §2.3.4).
const DOMAIN_BYTES_MAX: usize = 253;
/// SIP's own port (RFC 3261 §19.1.2).
const SIP_PORT: u16 = 5060;

/// A transport and an address to listen on; port 0 takes a free one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Listener {
    pub(crate) transport: Transport,
    pub(crate) address: SocketAddr,
}

impl fmt::Display for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.transport, self.address)
    }
}

pub(super) fn listen(reader: &mut Reader<'_>, top: &mut Section<'_, '_>) -> Vec<Listener> {
    let default = SocketAddr::from((Ipv4Addr::LOCALHOST, SIP_PORT));
    let Some(entries) = top.texts(reader, "listen") else {
        return [Transport::Udp, Transport::Tcp]
            .map(|transport| Listener { transport, address: default })
            .into();
    };
    let at = top.place("listen").unwrap_or_default();
    if entries.is_empty() || entries.len() > LISTENERS_MAX {
        reader.error(at, "listen", "give 1 to 255 listeners, as [\"udp:127.0.0.1:5060\"]");
    }
    let mut listeners: Vec<Listener> = Vec::new();
    for (entry, at) in entries {
        match listener(entry) {
            Ok(listener) if listener.address.port() != 0 && listeners.contains(&listener) => {
                reader.error(at, "listen", format!("{entry:?} is there twice; take one out"));
            }
            Ok(listener) => listeners.push(listener),
            Err(why) => reader.error(at, "listen", format!("{entry:?} {why}")),
        }
    }
    listeners
}

fn listener(entry: &str) -> Result<Listener, &'static str> {
    let example =
        "is no listener; write TRANSPORT:ADDRESS:PORT, as \"udp:0.0.0.0:5060\" or \"tcp:[::]:5060\"";
    let (transport, address) = entry.split_once(':').ok_or(example)?;
    let transport = match transport {
        "udp" => Transport::Udp,
        "tcp" => Transport::Tcp,
        "tls" | "ws" | "wss" => {
            return Err("cannot be had: this version has no TLS and no WebSocket yet; use udp: and tcp:");
        }
        _ => return Err(example),
    };
    let address = address.parse().map_err(|_| example)?;
    Ok(Listener { transport, address })
}

pub(super) fn domains(reader: &mut Reader<'_>, top: &mut Section<'_, '_>) -> Vec<String> {
    let Some(entries) = top.texts(reader, "domains") else { return vec!["localhost".to_owned()] };
    let at = top.place("domains").unwrap_or_default();
    if entries.is_empty() || entries.len() > DOMAINS_MAX {
        reader.error(at, "domains", "give 1 to 1000 domains, as [\"example.org\"]");
    }
    let mut domains: Vec<String> = Vec::new();
    for (entry, at) in entries {
        let domain = entry.to_ascii_lowercase();
        if !is_host(&domain) {
            let message =
                format!("{entry:?} is no domain; give a host name or an address, as \"example.org\"");
            reader.error(at, "domains", message);
        } else if domains.contains(&domain) {
            reader.error(at, "domains", format!("{entry:?} is there twice; take one out"));
        } else {
            domains.push(domain);
        }
    }
    domains
}

/// RFC 3261 §25.1 `host`: a name, an IPv4 address, or an IPv6 address in brackets.
fn is_host(domain: &str) -> bool {
    if let Some(inner) = domain.strip_prefix('[') {
        return inner.strip_suffix(']').is_some_and(|inner| inner.parse::<std::net::Ipv6Addr>().is_ok());
    }
    let is_label = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
    };
    domain.len() <= DOMAIN_BYTES_MAX && domain.split('.').all(is_label)
}
