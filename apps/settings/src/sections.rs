//! The sections of a server, each key with its default and its limits.

use crate::listeners::{EntryFault, read_edge_domains, read_edge_nodes, read_enum_zones};
use crate::{Reader, Section};
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::RangeInclusive;
use ringway_server::{
    Algorithm, AuthConfig, Config, DigestPolicy, Mode, Network, NoncePolicy, NotANetwork, Realms,
    RegistrarConfig, Strangers,
};
use ringway_sip::NameAddr;

/// Lookups of telephone numbers by a machine, and its trunks and nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberLookups {
    /// It has them, and so the keys `enum` and `edge_nodes`.
    Supported,
    /// It has none of them.
    Absent,
}

/// `[limits]`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Requests a second from one address; 0: no limit.
    pub per_source_rate: u32,
    /// Connections at once.
    pub max_connections: usize,
    /// Accepted connections of one source at once; 0: no limit.
    pub max_connections_per_source: usize,
    /// Bound on what requests under way and TCP connections hold, in MiB: 16 to 1,048,576; 0: a quarter of what the machine has.
    pub memory_mb: u32,
}

/// Number of connections that a machine supports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connections {
    /// Default, without the key.
    pub default: u32,
    /// Range of the key.
    pub range: RangeInclusive<u32>,
    /// Default for one source; `None`: the machine has no such limit, and no such key.
    pub per_source: Option<u32>,
}

/// Reads `[auth]` of a server for `domains`. It has no client certificates: they are in other sections.
pub fn read_auth(
    reader: &mut Reader<'_>,
    top: &mut Section<'_, '_>,
    default_realm: String,
    domains: &[String],
) -> AuthConfig {
    let default = AuthConfig::for_realm(default_realm);
    let mut section = top.section(reader, "auth");
    let auth = AuthConfig {
        enabled: section.switch(reader, "enabled", default.enabled),
        realms: read_realms(reader, &mut section, default.realms, domains),
        algorithms: algorithms(reader, &mut section).unwrap_or(default.algorithms),
        nonce_lifetime: section.seconds(
            reader,
            "nonce_lifetime_s",
            default.nonce_lifetime,
            1..=NONCE_LIFETIME_S_MAX,
        ),
        digest: read_policy(reader, &mut section, default.digest),
        in_dialog: section.switch(reader, "in_dialog", default.in_dialog),
        strangers: section.word(reader, "strangers", default.strangers, &STRANGERS),
        hide_users: section.switch(reader, "hide_users", default.hide_users),
        stranger_refer: section.switch(reader, "stranger_refer", default.stranger_refer),
        trusted: read_networks(reader, &mut section, "trusted").unwrap_or(default.trusted),
        fronts: read_networks(reader, &mut section, "fronts").unwrap_or(default.fronts),
        certificates: default.certificates,
    };
    section.finish(reader);
    auth
}

/// Reads a list of networks.
pub fn read_networks(
    reader: &mut Reader<'_>,
    section: &mut Section<'_, '_>,
    key: &'static str,
) -> Option<Vec<Network>> {
    let entries = section.texts(reader, key)?;
    if entries.len() > NETWORKS_MAX {
        let at = section.place(key).unwrap_or_default();
        reader.error(
            at,
            section.path(key),
            format!("the list is too long; give at most {NETWORKS_MAX} networks"),
        );
    }
    let mut networks = Vec::new();
    for (entry, at) in entries {
        match entry.parse::<Network>() {
            Ok(network) => networks.push(network),
            Err(NotANetwork::Syntax) => {
                let message = format!(
                    "{entry:?} is not a network; give an address, or one with a prefix as \"192.0.2.0/24\""
                );
                reader.error(at, section.path(key), message);
            }
            Err(NotANetwork::BitsBehindPrefix(network)) => {
                let message = format!(
                    "{entry:?} is not a network: bits behind the prefix are set; write \"{network}\", or the address alone"
                );
                reader.error(at, section.path(key), message);
            }
        }
    }
    Some(networks)
}

fn algorithms(reader: &mut Reader<'_>, section: &mut Section<'_, '_>) -> Option<Vec<Algorithm>> {
    let key = "algorithms";
    let Some(entries) = section.texts(reader, key) else {
        section.note_default(reader, key, || "[\"MD5\"]".to_owned());
        return None;
    };
    if entries.is_empty() {
        let at = section.place(key).unwrap_or_default();
        reader.error(at, section.path(key), "the list is empty; give \"SHA-256\", \"MD5\" or both");
    }
    let mut algorithms = Vec::new();
    for (entry, at) in entries {
        match algorithm(entry, &algorithms) {
            Ok(algorithm) => algorithms.push(algorithm),
            Err(EntryFault::Wrong) => {
                let message = format!("{entry:?} is unknown; give \"SHA-256\" or \"MD5\"");
                reader.error(at, section.path(key), message);
            }
            Err(EntryFault::Twice) => {
                reader.error(at, section.path(key), format!("{entry:?} is there twice; take one out"));
            }
        }
    }
    Some(algorithms)
}

/// An algorithm that is not among `others`.
pub(crate) fn algorithm(entry: &str, others: &[Algorithm]) -> Result<Algorithm, EntryFault> {
    let algorithm = match entry {
        "SHA-256" => Algorithm::Sha256,
        "MD5" => Algorithm::Md5,
        _ => return Err(EntryFault::Wrong),
    };
    if others.contains(&algorithm) {
        return Err(EntryFault::Twice);
    }
    Ok(algorithm)
}

/// Reads `[registrar]`.
pub fn read_registrar(reader: &mut Reader<'_>, top: &mut Section<'_, '_>) -> RegistrarConfig {
    let mut section = top.section(reader, "registrar");
    let default = RegistrarConfig::default();
    let mut seconds = |key, default| section.number(reader, key, default, 1..=u32::MAX);
    let registrar = RegistrarConfig {
        min_expires_s: seconds("min_expires_s", default.min_expires_s),
        default_expires_s: seconds("default_expires_s", default.default_expires_s),
        max_expires_s: seconds("max_expires_s", default.max_expires_s),
        max_contacts: section.number(reader, "max_contacts", default.max_contacts as u32, 1..=CONTACTS_MAX)
            as usize,
        outbound: section.switch(reader, "outbound", default.outbound),
        gruu: section.switch(reader, "gruu", default.gruu),
        flow_timer_s: section.number(reader, "flow_timer_s", default.flow_timer_s, 0..=FLOW_TIMER_S_MAX),
        service_route: service_route(reader, &mut section),
    };
    if (1..FLOW_TIMER_S_MIN).contains(&registrar.flow_timer_s) {
        let at = section.place("flow_timer_s").unwrap_or_default();
        let message = format!(
            "{} is too short; give {FLOW_TIMER_S_MIN} to {FLOW_TIMER_S_MAX}, or 0 for none",
            registrar.flow_timer_s
        );
        reader.error(at, section.path("flow_timer_s"), message);
    }
    let RegistrarConfig { min_expires_s: min, default_expires_s: default, max_expires_s: max, .. } =
        registrar;
    let order = [("min_expires_s", min), ("default_expires_s", default), ("max_expires_s", max)];
    for [(low_key, low), (high_key, high)] in
        [[order[0], order[1]], [order[1], order[2]], [order[0], order[2]]]
    {
        if low > high {
            // At least one of the two is in the file: the defaults are in order.
            let key = if section.place(low_key).is_some() { low_key } else { high_key };
            let message =
                format!("{low_key} ({low}) is more than {high_key} ({high}); make min <= default <= max");
            reader.error(section.place(key).unwrap_or_default(), section.path(key), message);
            break;
        }
    }
    section.finish(reader);
    registrar
}

/// `service_route`.
fn service_route(reader: &mut Reader<'_>, section: &mut Section<'_, '_>) -> Vec<String> {
    let key = "service_route";
    let entries = section.texts(reader, key).unwrap_or_default();
    if entries.len() > SERVICE_ROUTES_MAX {
        let at = section.place(key).unwrap_or_default();
        let message = format!("the list is too long; give at most {SERVICE_ROUTES_MAX} values");
        reader.error(at, section.path(key), message);
    }
    let mut routes = Vec::new();
    for (entry, at) in entries {
        let route = NameAddr::parse(entry.as_bytes());
        let is_route =
            route.is_ok_and(|route| route.is_bracketed && route.uri.is_sip() && route.uri.is_loose_router());
        if !is_route || entry.len() > SERVICE_ROUTE_BYTES_MAX || entry.contains(char::is_control) {
            let message =
                format!("{entry:?} is not a route; give a URI in brackets, as \"<sip:edge.example.org;lr>\"");
            reader.error(at, section.path(key), message);
        }
        routes.push(entry.to_owned());
    }
    routes
}

/// Reads `[routing]` into `config`, which has the defaults. Returns `edge_nodes`: URIs of the nodes behind this server.
pub fn read_routing(
    reader: &mut Reader<'_>,
    top: &mut Section<'_, '_>,
    lookups: NumberLookups,
    config: &mut Config,
) -> Vec<String> {
    let mut section = top.section(reader, "routing");
    config.mode = section.word(reader, "mode", config.mode, &MODES);
    config.stateful = section.switch(reader, "stateful", config.stateful);
    config.record_route = section.switch(reader, "record_route", config.record_route);
    config.serial_fork = section.seconds(reader, "serial_fork_s", config.serial_fork, SERIAL_FORKS_S);
    config.datagram_bytes_max =
        section.number(reader, "datagram_bytes_max", config.datagram_bytes_max, DATAGRAM_BYTES);
    config.recurse = section.switch(reader, "recurse", config.recurse);
    config.edge_domains = read_edge_domains(reader, &mut section);
    let edge_nodes = match lookups {
        NumberLookups::Supported => read_edge_nodes(reader, &mut section),
        NumberLookups::Absent => Vec::new(),
    };
    config.dialog_lifetime =
        section.seconds(reader, "dialog_lifetime_s", config.dialog_lifetime, DIALOG_LIFETIMES_S);
    config.inner_networks = read_networks(reader, &mut section, "inner_networks").unwrap_or_default();
    if lookups == NumberLookups::Supported {
        let zones = read_enum_zones(reader, &mut section);
        config.trunking.enum_zones = zones.into_iter().map(String::into_boxed_str).collect();
        let networks = read_networks(reader, &mut section, "enum_networks");
        config.trunking.enum_networks = networks.unwrap_or_default();
        let per_second = config.registrations_per_s;
        config.registrations_per_s =
            section.number(reader, "registrations_per_s_max", per_second, REGISTRATIONS_PER_S);
    }
    check_routing(reader, &section, config, &edge_nodes);
    section.finish(reader);
    edge_nodes
}

/// Adds an error for each key of `[routing]` that others contradict.
fn check_routing(reader: &mut Reader<'_>, section: &Section<'_, '_>, config: &Config, edge_nodes: &[String]) {
    let mut refuse = |key, message: &str| {
        reader.error(section.place(key).unwrap_or_default(), section.path(key), message);
    };
    let has_zones = !config.trunking.enum_zones.is_empty();
    if has_zones && (config.mode == Mode::Redirect || !config.stateful) {
        refuse("enum", "needs mode = \"proxy\" and stateful = true; set them, or take the zones out");
    }
    let is_front = config.mode == Mode::Proxy && config.stateful && config.record_route;
    if !edge_nodes.is_empty() && (config.edge_domains.is_empty() || !is_front) {
        let message = "needs edge_domains, mode = \"proxy\", stateful = true and record_route = true; set them, or take the nodes out";
        refuse("edge_nodes", message);
    }
    if config.recurse && !config.stateful {
        refuse("recurse", "recursion needs state; set stateful = true, or recurse = false");
    }
    if let Some(loopback) = config.inner_networks.iter().find(|network| network.is_loopback()) {
        let message = format!("{loopback} is loopback, which no request may name; take it out");
        refuse("inner_networks", &message);
    }
}

impl Limits {
    /// The defaults.
    pub(crate) fn with(connections: &Connections) -> Self {
        Self {
            per_source_rate: 200,
            max_connections: connections.default as usize,
            max_connections_per_source: connections.per_source.unwrap_or(0) as usize,
            memory_mb: 0,
        }
    }

    /// Reads `[limits]`; `max_message_bytes` becomes a limit of the parser, in `config`. `further` reads keys that not every machine has.
    pub fn read(
        reader: &mut Reader<'_>,
        top: &mut Section<'_, '_>,
        connections: Connections,
        config: &mut Config,
        further: impl FnOnce(&mut Reader<'_>, &mut Section<'_, '_>, &mut Config),
    ) -> Self {
        let default = Self::with(&connections);
        let mut section = top.section(reader, "limits");
        let bytes = MESSAGE_BYTES_MIN..=MESSAGE_BYTES_MAX;
        let per_source_rate =
            section.number(reader, "per_source_rate", default.per_source_rate, 0..=RATE_MAX);
        // Where one source may send any number of requests, it is a proxy or a load generator: it may connect likewise.
        let per_source = connections.per_source.map_or(0, |per_source| {
            let per_source = if per_source_rate == 0 { 0 } else { per_source };
            let range = 0..=*connections.range.end();
            section.number(reader, "max_connections_per_source", per_source, range)
        });
        let bytes_max = section.number(reader, "max_message_bytes", MESSAGE_BYTES_MAX, bytes);
        config.message_limits.message_bytes_max = bytes_max as usize;
        let limits = Self {
            per_source_rate,
            max_connections_per_source: per_source as usize,
            max_connections: section.number(reader, "max_connections", connections.default, connections.range)
                as usize,
            memory_mb: section.number(reader, "memory_mb", default.memory_mb, 0..=MEMORY_MB_MAX),
        };
        if (1..MEMORY_MB_MIN).contains(&limits.memory_mb) {
            let at = section.place("memory_mb").unwrap_or_default();
            let message = format!("{} is too little; give {MEMORY_MB_MIN} or more, or 0", limits.memory_mb);
            reader.error(at, section.path("memory_mb"), message);
        }
        further(reader, &mut section, config);
        section.finish(reader);
        limits
    }
}

/// Reads `nonce_use`, `auth_int` and `danger_rfc2069`.
fn read_policy(
    reader: &mut Reader<'_>,
    section: &mut Section<'_, '_>,
    default: DigestPolicy,
) -> DigestPolicy {
    DigestPolicy {
        nonces: section.word(reader, "nonce_use", default.nonces, &NONCE_USES),
        auth_int: section.switch(reader, "auth_int", default.auth_int),
        danger_rfc2069: section.switch(reader, "danger_rfc2069", default.danger_rfc2069),
    }
}

/// Reads `realm`, and the sections `[[auth.domain]]` of some of `domains`.
fn read_realms(
    reader: &mut Reader<'_>,
    section: &mut Section<'_, '_>,
    default: Realms,
    domains: &[String],
) -> Realms {
    let mut realms = match section.text(reader, "realm") {
        None => {
            section.note_default(reader, "realm", || format!("{:?}", default.general()));
            default
        }
        Some((text, at)) => {
            if let Err(message) = check_realm(text) {
                reader.error(at, section.path("realm"), message);
            }
            text.into()
        }
    };
    let key = section.path("domain");
    for (mut domain, at) in section.sections(reader, "domain") {
        match (domain.text(reader, "name"), domain.text(reader, "realm")) {
            (Some((name, name_at)), Some((realm, realm_at))) => {
                if let Err(message) = check_realm(realm) {
                    reader.error(realm_at, format!("{key}.realm"), message);
                } else if !domains.iter().any(|own| own.eq_ignore_ascii_case(name)) {
                    let message =
                        format!("{name:?} is not among domains; add it there, or remove this section");
                    reader.error(name_at, format!("{key}.name"), message);
                } else if !realms.add(name, realm.to_owned()) {
                    let message = format!("{name:?} is there twice; remove one of the sections");
                    reader.error(name_at, format!("{key}.name"), message);
                }
            }
            (Some(_), None) | (None, _) => reader.error(at, key.clone(), "needs name and realm"),
        }
        domain.finish(reader);
    }
    realms
}

/// Checks a realm; the error is the remedy.
pub(crate) fn check_realm(text: &str) -> Result<(), &'static str> {
    let is_bad = |c: char| c.is_control() || c == '"' || c == '\\';
    if text.is_empty() || text.len() > REALM_BYTES_MAX || text.contains(is_bad) {
        return Err("give 1 to 255 bytes without quotes, backslashes and control characters");
    }
    Ok(())
}

/// Spelling of the modes.
pub(crate) const MODES: [(&str, Mode); 2] = [("proxy", Mode::Proxy), ("redirect", Mode::Redirect)];
/// Spelling of the policies for strangers.
const STRANGERS: [(&str, Strangers); 3] =
    [("call", Strangers::Call), ("none", Strangers::None), ("all", Strangers::All)];
const NETWORKS_MAX: usize = 1000;
/// None to 3 minutes, the minimum of timer C.
const SERIAL_FORKS_S: RangeInclusive<u32> = 0..=180;
const DATAGRAM_BYTES: RangeInclusive<u32> = 1000..=65_535;
const REGISTRATIONS_PER_S: RangeInclusive<u32> = 1..=1000;
/// A minute to a year.
const DIALOG_LIFETIMES_S: RangeInclusive<u32> = 60..=31_536_000;
const FLOW_TIMER_S_MIN: u32 = 10;
const FLOW_TIMER_S_MAX: u32 = 3600;
const SERVICE_ROUTES_MAX: usize = 4;
const SERVICE_ROUTE_BYTES_MAX: usize = 255;
const CONTACTS_MAX: u32 = 1000;
const RATE_MAX: u32 = 10_000_000;
const NONCE_LIFETIME_S_MAX: u32 = 86_400;
/// Shorter limits would refuse what a phone sends (RFC 3261 §18.1.1 has messages of 1,300 bytes over UDP).
const MESSAGE_BYTES_MIN: u32 = 1300;
/// The largest UDP datagram, and the largest message whose parts 16-bit offsets reach (RFC 3261 §18.1.1).
const MESSAGE_BYTES_MAX: u32 = ringway_sip::Limits::MESSAGE_BYTES_CEILING as u32;
/// Less holds no two large messages of each source.
const MEMORY_MB_MIN: u32 = 16;
/// A tebibyte.
const MEMORY_MB_MAX: u32 = 1_048_576;
/// Spelling of the uses of a nonce.
const NONCE_USES: [(&str, NoncePolicy); 2] = [("count", NoncePolicy::Count), ("once", NoncePolicy::Once)];
const REALM_BYTES_MAX: usize = 255;
