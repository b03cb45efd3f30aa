//! The sections, each key with its default and its limits.

use super::listeners::{domains, listen};
use super::reader::{ConfigError, Reader, Section, read_document};
use super::{
    AdminConfig, Algorithm, Auth, Config, Level, Limits, Log, LogFormat, Mode, Registrar, Routing,
    StoreConfig,
};
use ringway_linux::store::{Durability, StoreUrl};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

const WORKERS_MAX: u32 = 255;
const CONTACTS_MAX: u32 = 1000;
const CONNECTIONS_MAX: u32 = 1_000_000;
const RATE_MAX: u32 = 10_000_000;
const NONCE_LIFETIME_S_MAX: u32 = 86_400;
/// Shorter limits would refuse what a phone sends (RFC 3261 §18.1.1 has messages of 1,300 bytes over UDP).
const MESSAGE_BYTES_MIN: u32 = 1300;
/// The largest UDP datagram, and the largest message whose parts 16-bit offsets reach (RFC 3261 §18.1.1).
const MESSAGE_BYTES_MAX: u32 = 65_535;
const ADMIN_PORT: u16 = 8060;
const TEXT_BYTES_MAX: usize = 255;

pub(super) fn read(text: &str, file: Option<&Path>) -> Result<Config, Vec<ConfigError>> {
    read_document(text, file, |reader, top| {
        let domains = domains(reader, top);
        let realm = domains.first().cloned().unwrap_or_default();
        let config = Config {
            file: file.map(Path::to_owned),
            listen: listen(reader, top),
            workers: top.number(reader, "workers", 0, 0..=WORKERS_MAX) as u16,
            store: store(reader, top),
            auth: auth(reader, top, realm),
            registrar: registrar(reader, top),
            routing: routing(reader, top),
            limits: limits(reader, top),
            admin: admin(reader, top),
            log: log(reader, top),
            domains,
        };
        location(reader, top);
        tls(reader, top);
        config
    })
}

fn store(reader: &mut Reader<'_>, top: &mut Section<'_, '_>) -> StoreConfig {
    let mut section = top.section(reader, "store");
    let url = match section.text(reader, "url") {
        None => StoreUrl::Sqlite("ringway.db".into()),
        Some((text, at)) => store_url(text).unwrap_or_else(|why| {
            reader.error(at, section.path("url"), format!("{text:?} {why}"));
            StoreUrl::Memory
        }),
    };
    let words = [("relaxed", Durability::Relaxed), ("strict", Durability::Strict)];
    let durability = section.word(reader, "durability", Durability::Relaxed, &words);
    section.finish(reader);
    StoreConfig { url, durability }
}

fn store_url(text: &str) -> Result<StoreUrl, &'static str> {
    if text == "memory:" {
        return Ok(StoreUrl::Memory);
    }
    match text.split_once("://") {
        Some(("sqlite", file)) if !file.is_empty() && !file.contains('\0') => {
            Ok(StoreUrl::Sqlite(file.into()))
        }
        Some(("postgres" | "postgresql" | "mysql", _)) => Err(
            "cannot be had: this version has no PostgreSQL and no MySQL yet; give \"sqlite://FILE\" or \"memory:\"",
        ),
        Some(_) | None => Err("is no store; give \"sqlite://FILE\" or \"memory:\""),
    }
}

fn location(reader: &mut Reader<'_>, top: &mut Section<'_, '_>) {
    let mut section = top.section(reader, "location");
    if let Some((text, at)) = section.text(reader, "url")
        && text != "local:"
    {
        let why = if text.starts_with("redis:") || text.starts_with("rediss:") {
            "cannot be had: this version has no Redis yet"
        } else {
            "is no location service"
        };
        reader.error(at, section.path("url"), format!("{text:?} {why}; give \"local:\""));
    }
    section.finish(reader);
}

fn auth(reader: &mut Reader<'_>, top: &mut Section<'_, '_>, default_realm: String) -> Auth {
    let mut section = top.section(reader, "auth");
    let enabled = section.switch(reader, "enabled", true);
    let realm = match section.text(reader, "realm") {
        None => default_realm,
        Some((text, at)) => {
            let is_bad = |c: char| c.is_control() || c == '"' || c == '\\';
            if text.is_empty() || text.len() > TEXT_BYTES_MAX || text.contains(is_bad) {
                let message = "give 1 to 255 bytes without quotes, backslashes and control characters";
                reader.error(at, section.path("realm"), message);
            }
            text.to_owned()
        }
    };
    let auth = Auth {
        enabled,
        realm,
        algorithms: algorithms(reader, &mut section),
        nonce_lifetime_s: section.number(reader, "nonce_lifetime_s", 300, 1..=NONCE_LIFETIME_S_MAX),
        in_dialog: section.switch(reader, "in_dialog", false),
    };
    section.finish(reader);
    auth
}

fn algorithms(reader: &mut Reader<'_>, section: &mut Section<'_, '_>) -> Vec<Algorithm> {
    let key = "algorithms";
    let Some(entries) = section.texts(reader, key) else { return vec![Algorithm::Md5] };
    if entries.is_empty() {
        let at = section.place(key).unwrap_or_default();
        reader.error(at, section.path(key), "the list is empty; give \"SHA-256\", \"MD5\" or both");
    }
    let mut algorithms = Vec::new();
    for (entry, at) in entries {
        let algorithm = match entry {
            "SHA-256" => Algorithm::Sha256,
            "MD5" => Algorithm::Md5,
            _ => {
                reader.error(
                    at,
                    section.path(key),
                    format!("{entry:?} is unknown; give \"SHA-256\" or \"MD5\""),
                );
                continue;
            }
        };
        if algorithms.contains(&algorithm) {
            reader.error(at, section.path(key), format!("{entry:?} is there twice; take one out"));
        }
        algorithms.push(algorithm);
    }
    algorithms
}

fn registrar(reader: &mut Reader<'_>, top: &mut Section<'_, '_>) -> Registrar {
    let mut section = top.section(reader, "registrar");
    let registrar = Registrar {
        min_expires_s: section.number(reader, "min_expires_s", 60, 1..=u32::MAX),
        default_expires_s: section.number(reader, "default_expires_s", 3600, 1..=u32::MAX),
        max_expires_s: section.number(reader, "max_expires_s", 7200, 1..=u32::MAX),
        max_contacts: section.number(reader, "max_contacts", 10, 1..=CONTACTS_MAX),
    };
    let Registrar { min_expires_s: min, default_expires_s: default, max_expires_s: max, .. } = registrar;
    let order = [("min_expires_s", min), ("default_expires_s", default), ("max_expires_s", max)];
    for [(low_key, low), (high_key, high)] in
        [[order[0], order[1]], [order[1], order[2]], [order[0], order[2]]]
    {
        if low > high {
            // One of the two is in the file: the defaults are in order.
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

fn routing(reader: &mut Reader<'_>, top: &mut Section<'_, '_>) -> Routing {
    let mut section = top.section(reader, "routing");
    let modes = [("proxy", Mode::Proxy), ("redirect", Mode::Redirect)];
    let routing = Routing {
        mode: section.word(reader, "mode", Mode::Proxy, &modes),
        stateful: section.switch(reader, "stateful", true),
        record_route: section.switch(reader, "record_route", true),
    };
    section.finish(reader);
    routing
}

fn limits(reader: &mut Reader<'_>, top: &mut Section<'_, '_>) -> Limits {
    let mut section = top.section(reader, "limits");
    let bytes = MESSAGE_BYTES_MIN..=MESSAGE_BYTES_MAX;
    let limits = Limits {
        per_source_rate: section.number(reader, "per_source_rate", 200, 0..=RATE_MAX),
        max_message_bytes: section.number(reader, "max_message_bytes", MESSAGE_BYTES_MAX, bytes) as usize,
        max_connections: section.number(reader, "max_connections", 20_000, 1..=CONNECTIONS_MAX) as usize,
    };
    if section.number(reader, "memory_mb", 0, 0..=u32::MAX) != 0 {
        let at = section.place("memory_mb").unwrap_or_default();
        let message = "cannot be had: this version does not bound its memory yet; give 0 or take it out";
        reader.error(at, section.path("memory_mb"), message);
    }
    section.finish(reader);
    limits
}

fn admin(reader: &mut Reader<'_>, top: &mut Section<'_, '_>) -> AdminConfig {
    let mut section = top.section(reader, "admin");
    let mut listen = SocketAddr::from((Ipv4Addr::LOCALHOST, ADMIN_PORT));
    let mut at = 0;
    if let Some((text, place)) = section.text(reader, "listen") {
        at = place;
        match text.parse() {
            Ok(address) => listen = address,
            Err(_) => {
                let message = format!("{text:?} is no address; write ADDRESS:PORT, as \"127.0.0.1:8060\"");
                reader.error(at, section.path("listen"), message);
            }
        }
    }
    let token = section.text(reader, "token");
    if let Some((text, place)) = token
        && (text.len() > TEXT_BYTES_MAX || text.bytes().any(|byte| !byte.is_ascii_graphic()))
    {
        let message = "give at most 255 visible ASCII characters without spaces";
        reader.error(place, section.path("token"), message);
    }
    let token = token.map(|(text, _)| text.to_owned()).unwrap_or_default();
    if token.is_empty() && !listen.ip().to_canonical().is_loopback() {
        let message =
            format!("{listen} can be reached from other machines; set [admin] token, or listen on 127.0.0.1");
        reader.error(at, section.path("listen"), message);
    }
    section.finish(reader);
    AdminConfig { listen, token }
}

fn log(reader: &mut Reader<'_>, top: &mut Section<'_, '_>) -> Log {
    let mut section = top.section(reader, "log");
    let levels = [
        ("off", Level::Off),
        ("error", Level::Error),
        ("warn", Level::Warn),
        ("info", Level::Info),
        ("debug", Level::Debug),
        ("trace", Level::Trace),
    ];
    let formats = [("text", LogFormat::Text), ("json", LogFormat::Json)];
    let log = Log {
        level: section.word(reader, "level", Level::Info, &levels),
        format: section.word(reader, "format", LogFormat::Text, &formats),
    };
    section.finish(reader);
    log
}

fn tls(reader: &mut Reader<'_>, top: &mut Section<'_, '_>) {
    if top.value("tls").is_some() {
        let message = "cannot be had: this version has no TLS yet; take the section out";
        reader.error(top.place("tls").unwrap_or_default(), "[tls]", message);
    }
}
