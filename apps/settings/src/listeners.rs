//! `listen` and `domains`, and the address of a server as it is written in settings: `HOST[:PORT]`.

use crate::{Reader, Section};
use alloc::borrow::ToOwned;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use alloc::{format, vec};
use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use core::str::FromStr;
use ringway_sansio::{NumberTarget, Transport};
use ringway_sip::{Host, Uri};
use ringway_transaction::DEFAULT_PORT;

/// Maximum number of listeners: their numbers are 8 bits wide.
const LISTENERS_MAX: usize = 255;
/// Maximum number of ports of a machine with one address.
const PORTS_MAX: usize = 16;
/// Maximum number of domains of other registrars.
const EDGE_DOMAINS_MAX: usize = 100;
/// Maximum number of domains: each is compared for every request.
const DOMAINS_MAX: usize = 1000;
/// Maximum length of a domain in bytes (RFC 1035 §2.3.4).
const DOMAIN_BYTES_MAX: usize = 253;

/// A transport and an address to listen on; port 0 takes a free one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listener {
    /// Transport protocol.
    pub transport: Transport,
    /// Local address.
    pub address: SocketAddr,
}

impl fmt::Display for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.transport, self.address)
    }
}

/// Reads `listen`; without it UDP and TCP on loopback.
pub fn read_listen(reader: &mut Reader<'_>, top: &mut Section<'_, '_>) -> Vec<Listener> {
    let give = "give 1 to 255 listeners, as [\"udp:127.0.0.1:5060\"]";
    read_entries(reader, top, LISTENERS_MAX, give, listener).unwrap_or_else(|| {
        let default = default_listeners(Ipv4Addr::LOCALHOST);
        top.note_default(reader, "listen", || {
            let quoted: Vec<String> = default.iter().map(|listener| format!("\"{listener}\"")).collect();
            format!("[{}]", quoted.join(", "))
        });
        default
    })
}

/// Reads `listen` for a machine that has one address, and gets it later: entries are ports, and the address is
/// unspecified. Without it UDP and TCP.
pub(crate) fn read_ports(reader: &mut Reader<'_>, top: &mut Section<'_, '_>) -> Vec<Listener> {
    let give = "give 1 to 16 listeners, as [\"udp:5060\"]";
    read_entries(reader, top, PORTS_MAX, give, port)
        .unwrap_or_else(|| default_listeners(Ipv4Addr::UNSPECIFIED))
}

/// The default listeners.
pub(crate) fn default_listeners(address: Ipv4Addr) -> Vec<Listener> {
    let address = SocketAddr::from((address, DEFAULT_PORT));
    [Transport::Udp, Transport::Tcp].map(|transport| Listener { transport, address }).into()
}

fn read_entries(
    reader: &mut Reader<'_>,
    top: &mut Section<'_, '_>,
    entries_max: usize,
    give: &str,
    parse: fn(&str) -> Result<Listener, &'static str>,
) -> Option<Vec<Listener>> {
    let entries = top.texts(reader, "listen")?;
    let at = top.place("listen").unwrap_or_default();
    if entries.is_empty() || entries.len() > entries_max {
        reader.error(at, "listen", give);
    }
    let mut listeners: Vec<Listener> = Vec::new();
    for (entry, at) in entries {
        match parse(entry) {
            Ok(listener) if listener.address.port() != 0 && listeners.contains(&listener) => {
                reader.error(at, "listen", format!("{entry:?} is there twice; take one out"));
            }
            Ok(listener) => listeners.push(listener),
            Err(why) => reader.error(at, "listen", format!("{entry:?} {why}")),
        }
    }
    Some(listeners)
}

fn listener(entry: &str) -> Result<Listener, &'static str> {
    let example =
        "is no listener; write TRANSPORT:ADDRESS:PORT, as \"udp:0.0.0.0:5060\" or \"tls:[::]:5061\"";
    let (transport, address) = entry.split_once(':').ok_or(example)?;
    let transport = Transport::from_name(transport).ok_or(example)?;
    let address = address.parse().map_err(|_| example)?;
    Ok(Listener { transport, address })
}

fn port(entry: &str) -> Result<Listener, &'static str> {
    let example = "is no listener; write TRANSPORT:PORT, as \"udp:5060\"";
    let (transport, port) = entry.split_once(':').ok_or(example)?;
    let transport = transport_of(transport, example)?;
    // The syntax of `ringway.toml` on Linux.
    let port = match port.rsplit_once(':') {
        Some(("0.0.0.0", port)) => port,
        Some(_) => {
            return Err("names an address; this machine has one, and learns it later: write \"udp:5060\"");
        }
        None => port,
    };
    Ok(Listener {
        transport,
        address: SocketAddr::from((Ipv4Addr::UNSPECIFIED, port_number(port).ok_or(example)?)),
    })
}

/// A port that can be listened on.
pub(crate) fn port_number(text: &str) -> Option<u16> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|port| *port != 0 && is_number)
}

fn transport_of(word: &str, example: &'static str) -> Result<Transport, &'static str> {
    match Transport::from_name(word) {
        Some(transport @ (Transport::Udp | Transport::Tcp | Transport::Tls)) => Ok(transport),
        Some(Transport::Ws | Transport::Wss | Transport::Dtls) => {
            Err("is not supported without an operating system: use udp:, tcp: and tls:")
        }
        None => Err(example),
    }
}

/// Reads `domains`, and makes them lower-case; without it `localhost`.
pub fn read_domains(reader: &mut Reader<'_>, top: &mut Section<'_, '_>) -> Vec<String> {
    let Some(entries) = top.texts(reader, "domains") else {
        let default = default_domains();
        top.note_default(reader, "domains", || format!("{default:?}"));
        return default;
    };
    let at = top.place("domains").unwrap_or_default();
    if entries.is_empty() || entries.len() > DOMAINS_MAX {
        reader.error(at, "domains", "give 1 to 1000 domains, as [\"example.org\"]");
    }
    read_domain_list(reader, "domains", entries)
}

/// Reads `edge_domains` of a section, and makes them lower-case.
pub(crate) fn read_edge_domains(reader: &mut Reader<'_>, section: &mut Section<'_, '_>) -> Vec<String> {
    let key = "edge_domains";
    let entries = section.texts(reader, key).unwrap_or_default();
    if entries.len() > EDGE_DOMAINS_MAX {
        let at = section.place(key).unwrap_or_default();
        let message = format!("the list is too long; give at most {EDGE_DOMAINS_MAX} domains");
        reader.error(at, section.path(key), message);
    }
    read_domain_list(reader, &section.path(key), entries)
}

/// Reads `edge_nodes` of a section: URIs of servers, each with an address.
pub(crate) fn read_edge_nodes(reader: &mut Reader<'_>, section: &mut Section<'_, '_>) -> Vec<String> {
    let key = "edge_nodes";
    let entries = section.texts(reader, key).unwrap_or_default();
    let mut nodes: Vec<String> = Vec::new();
    for (entry, at) in entries {
        let is_node = Uri::parse(entry.as_bytes()).is_ok_and(|uri| {
            uri.is_sip() && uri.user().is_none() && uri.headers().is_empty() && uri.host().ip().is_some()
        });
        if !is_node {
            let message = format!(
                "{entry:?} is not a node; write as \"sip:192.0.2.1:5060\" or \"sip:192.0.2.1:5060;transport=tcp\", with an address and without a user"
            );
            reader.error(at, section.path(key), message);
        } else if nodes.iter().any(|node| node == entry) {
            reader.error(at, section.path(key), format!("{entry:?} is there twice; take one out"));
        }
        nodes.push(entry.to_owned());
    }
    nodes
}

/// Reads `enum` of a section: domains under which telephone numbers are, in lower case.
pub(crate) fn read_enum_zones(reader: &mut Reader<'_>, section: &mut Section<'_, '_>) -> Vec<String> {
    let key = "enum";
    let entries = section.texts(reader, key).unwrap_or_default();
    let (at, path) = (section.place(key).unwrap_or_default(), section.path(key));
    if entries.len() > NumberTarget::ZONES_MAX {
        let message = format!("the list is too long; give at most {} domains", NumberTarget::ZONES_MAX);
        reader.error(at, path.clone(), message);
    }
    for (entry, at) in &entries {
        let is_address = entry.trim_matches(['[', ']']).parse::<IpAddr>().is_ok();
        if is_address || entry.len() > NumberTarget::ZONE_BYTES_MAX {
            let message = format!(
                "{entry:?} has no names of numbers; give a domain of at most {} bytes, as \"e164.arpa\"",
                NumberTarget::ZONE_BYTES_MAX
            );
            reader.error(*at, path.clone(), message);
        }
    }
    read_domain_list(reader, &path, entries)
}

fn read_domain_list(reader: &mut Reader<'_>, path: &str, entries: Vec<(&str, usize)>) -> Vec<String> {
    let mut domains: Vec<String> = Vec::new();
    for (entry, at) in entries {
        match domain(entry, &domains) {
            Ok(domain) => domains.push(domain),
            Err(EntryFault::Wrong) => {
                let message =
                    format!("{entry:?} is no domain; give a host name or an address, as \"example.org\"");
                reader.error(at, path, message);
            }
            Err(EntryFault::Twice) => {
                reader.error(at, path, format!("{entry:?} is there twice; take one out"));
            }
        }
    }
    domains
}

/// The domains where nothing is said.
pub(crate) fn default_domains() -> Vec<String> {
    vec!["localhost".to_owned()]
}

/// A fault of an entry of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntryFault {
    /// It does not have the syntax of an entry.
    Wrong,
    /// The list contains it already.
    Twice,
}

/// A domain in lower case that is not in `others`.
pub(crate) fn domain(entry: &str, others: &[String]) -> Result<String, EntryFault> {
    let domain = entry.to_ascii_lowercase();
    if !is_host(&domain) {
        Err(EntryFault::Wrong)
    } else if others.contains(&domain) {
        Err(EntryFault::Twice)
    } else {
        Ok(domain)
    }
}

/// RFC 3261 §25.1 `host`: a name, an IPv4 address, or an IPv6 address in brackets.
fn is_host(domain: &str) -> bool {
    if let Some(inner) = domain.strip_prefix('[') {
        return inner.strip_suffix(']').is_some_and(|inner| inner.parse::<core::net::Ipv6Addr>().is_ok());
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

/// A host, by address or name, and maybe a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPort {
    /// An IPv6 address has its brackets.
    pub host: String,
    /// Never 0.
    pub port: Option<u16>,
}

/// A text that is no [`HostPort`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("write HOST or HOST:PORT, like 192.0.2.7:5060 or [::1]:5060")]
pub struct NoHost;

impl FromStr for HostPort {
    type Err = NoHost;

    /// `HOST`, `HOST:PORT`, `[ADDRESS]:PORT`.
    fn from_str(text: &str) -> Result<Self, NoHost> {
        let is_bare_ipv6 = text.parse::<Ipv6Addr>().is_ok();
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) if !is_bare_ipv6 && !host.is_empty() && !port.contains(']') => {
                (host, Some(port.parse().ok().filter(|&port| port != 0).ok_or(NoHost)?))
            }
            Some(_) | None => (text, None),
        };
        let host = if is_bare_ipv6 { format!("[{host}]") } else { host.to_string() };
        if Host::parse(host.as_bytes()).is_err() { Err(NoHost) } else { Ok(Self { host, port }) }
    }
}

impl HostPort {
    /// The address, where the host is one and no name.
    pub fn address(&self) -> Option<IpAddr> {
        Host::parse(self.host.as_bytes()).ok()?.ip()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_read_in_every_spelling() {
        let of = |text: &str| HostPort::from_str(text).map(|host| (host.host, host.port)).ok();
        let is = |host: &str, port| Some((host.to_string(), port));
        assert_eq!(of("example.org"), is("example.org", None));
        assert_eq!(of("127.0.0.1:5070"), is("127.0.0.1", Some(5070)));
        assert_eq!(of("[::1]:5070"), is("[::1]", Some(5070)));
        assert_eq!(of("[::1]"), is("[::1]", None));
        assert_eq!(of("::1"), is("[::1]", None));
        for wrong in ["", ":5060", "a b", "host:", "host:0", "host:70000", "host:x", "[::1"] {
            assert_eq!(of(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn an_address_is_distinguished_from_a_name() {
        let address = |text: &str| HostPort::from_str(text).unwrap().address();
        assert_eq!(address("192.0.2.7:5060"), Some(IpAddr::from([192, 0, 2, 7])));
        assert_eq!(address("::1"), Some(IpAddr::from(Ipv6Addr::LOCALHOST)));
        assert_eq!(address("example.org"), None);
    }
}
