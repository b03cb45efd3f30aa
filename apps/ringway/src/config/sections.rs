//! Sections of the configuration, with the default and the limits of each key.

use super::cluster::OtherSections;
use super::{
    AdminConfig, Config, ConfigError, Level, Limits, Log, LogFormat, NumberLookups, Reader, Section,
};
use ringway_admin::LONG_TOKEN_BYTES;
use ringway_linux::Dscp;
use ringway_server::{AuthConfig, CertificateRules, Mode, OverloadConfig, PresenceConfig, Watchers};
use ringway_settings::{
    Connections, Keys, read_auth, read_document_with_keys, read_domains, read_listen, read_registrar,
    read_routing,
};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::Path;
use std::time::Duration;

const WORKERS_MAX: u32 = 255;
const CONNECTIONS: Connections = Connections { default: 20_000, range: 1..=1_000_000, per_source: Some(100) };
const ADMIN_PORT: u16 = 8060;
const ORIGINS_MAX: usize = 1000;
const DNS_PORT: u16 = 53;
const DNS_SERVERS_MAX: usize = 8;
const TOKEN_BYTES_MAX: usize = 255;

pub(super) fn read(text: &str, file: Option<&Path>) -> Result<Config, Vec<ConfigError>> {
    let name = file.map(|file| file.display().to_string());
    let read = read_document_with_keys(text, name.as_deref(), |reader, top| {
        let mut server = ringway_server::Config::for_domains(read_domains(reader, top));
        let listen = read_listen(reader, top);
        let stun = super::advertise::read(reader, top, &listen, &mut server);
        let proxied = super::proxy_protocol::read(reader, top, &listen);
        let dscp = dscp(reader, top);
        let (tls, acme, client_users) = super::tls::read(reader, top, (&listen, &server.domains));
        let edge_nodes = read_routing(reader, top, NumberLookups::Supported, &mut server);
        let neighbours = super::neighbours::read(reader, top, &tls, &mut server);
        let stir = super::stir::read(reader, top, &mut server.stir);
        super::trunks::read(reader, top, (&neighbours, &edge_nodes), &mut server);
        super::trunk_identity::read_dialing(reader, top, &mut server);
        let store = super::store::read(reader, top);
        let location = super::location::read(reader, top);
        let rest = OtherSections { file, listen: &listen, server: &server, is_shared: location.is_some() };
        let cluster = super::cluster::read(reader, top, &rest);
        super::routes::read(reader, top, &mut server);
        super::emergency::read(reader, top, &mut server);
        let websocket_origins = websocket(reader, top);
        let dns_servers = dns(reader, top);
        let media_relays = super::media::read(reader, top, &mut server);
        server.presence = read_presence(reader, top, &server);
        server.overload = read_overload(reader, top);
        let workers = top.number(reader, "workers", 0, 0..=WORKERS_MAX) as u16;
        let records = super::records::read(reader, top, &server, &store);
        let hep = super::records::read_hep(reader, top);
        let realm = server.domains.first().cloned().unwrap_or_default();
        let certificates = CertificateRules { users: client_users, ..server.auth.certificates };
        server.auth = AuthConfig { certificates, ..read_auth(reader, top, realm, &server.domains) };
        server.registrar = read_registrar(reader, top);
        let limits = Limits::read(reader, top, CONNECTIONS, &mut server, super::caller_limits::read);
        Config {
            file: file.map(Path::to_owned),
            server,
            cluster,
            tls,
            acme,
            stir,
            websocket_origins,
            dns_servers,
            stun,
            media_relays,
            listen,
            proxied,
            dscp,
            workers,
            records,
            hep,
            store,
            location,
            limits,
            admin: admin(reader, top),
            log: log(reader, top),
            keys: Keys::default(),
        }
    });
    read.map(|(config, keys)| Config { keys, ..config })
}

/// `dscp`: a name, or a number, as a string or not.
fn dscp(reader: &mut Reader<'_>, top: &mut Section<'_, '_>) -> Dscp {
    let Some((text, at)) = top.text_or_number(reader, "dscp") else { return Dscp::NONE };
    text.parse().unwrap_or_else(|why| {
        reader.error(at, "dscp", format!("{text:?} {why}"));
        Dscp::NONE
    })
}

fn websocket(reader: &mut Reader<'_>, top: &mut Section<'_, '_>) -> Vec<String> {
    let mut section = top.section(reader, "websocket");
    let mut origins = Vec::new();
    for (text, at) in section.texts(reader, "origins").unwrap_or_default() {
        let host = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
        if host.is_none_or(|host| host.is_empty() || host.contains('/')) || origins.len() >= ORIGINS_MAX {
            let message =
                format!("{text:?} is no origin; write as \"https://phone.example.org\", at most 1000");
            reader.error(at, section.path("origins"), message);
        }
        origins.push(text.to_owned());
    }
    section.finish(reader);
    origins
}

fn dns(reader: &mut Reader<'_>, top: &mut Section<'_, '_>) -> ringway_dns::Servers {
    let mut section = top.section(reader, "dns");
    let mut servers = Vec::new();
    for (text, at) in section.texts(reader, "servers").unwrap_or_default() {
        let with_port = text.parse().or_else(|_| text.parse::<IpAddr>().map(|ip| (ip, DNS_PORT).into()));
        match with_port {
            Ok(address) if servers.len() < DNS_SERVERS_MAX => servers.push(address),
            Ok(_) | Err(_) => {
                let message = format!(
                    "{text:?} is no address of a DNS server; write as \"192.0.2.53\" or \"[2001:db8::53]:53\", at most 8"
                );
                reader.error(at, section.path("servers"), message);
            }
        }
    }
    section.finish(reader);
    if servers.is_empty() { ringway_dns::Servers::OfSystem } else { ringway_dns::Servers::At(servers) }
}

fn admin(reader: &mut Reader<'_>, top: &mut Section<'_, '_>) -> AdminConfig {
    let mut section = top.section(reader, "admin");
    let mut listen = SocketAddr::from((Ipv4Addr::LOCALHOST, ADMIN_PORT));
    section.note_default(reader, "listen", || format!("\"{listen}\""));
    section.note_default(reader, "token", || "\"\"".to_owned());
    let mut at = 0;
    if let Some((text, position)) = section.text(reader, "listen") {
        at = position;
        match text.parse() {
            Ok(address) => listen = address,
            Err(_) => {
                let message =
                    format!("{text:?} is not an address; write ADDRESS:PORT, as \"127.0.0.1:8060\"");
                reader.error(at, section.path("listen"), message);
            }
        }
    }
    let token = section.text(reader, "token");
    if let Some((text, position)) = token
        && (text.len() > TOKEN_BYTES_MAX || text.bytes().any(|byte| !byte.is_ascii_graphic()))
    {
        let message = "give at most 255 visible ASCII characters without spaces";
        reader.error(position, section.path("token"), message);
    }
    let token_at = token.map_or(0, |(_, position)| position);
    let token = token.map(|(text, _)| text.to_owned()).unwrap_or_default();
    let admin = AdminConfig { listen, token };
    if admin.has_short_token() && admin.is_public() {
        let message = format!(
            "is shorter than {LONG_TOKEN_BYTES} characters, and {listen} can be reached from other machines, which can try it out; give \
             a random one (`openssl rand -hex 16` prints one), or listen on 127.0.0.1"
        );
        reader.error(token_at, section.path("token"), message);
    }
    if admin.token.is_empty() && admin.is_public() {
        let message =
            format!("{listen} can be reached from other machines; set [admin] token, or listen on 127.0.0.1");
        reader.error(at, section.path("listen"), message);
    }
    section.finish(reader);
    admin
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
        steps: section.switch(reader, "steps", false),
    };
    section.finish(reader);
    log
}

fn read_presence(
    reader: &mut Reader<'_>,
    top: &mut Section<'_, '_>,
    server: &ringway_server::Config,
) -> PresenceConfig {
    let default = PresenceConfig::default();
    let mut section = top.section(reader, "presence");
    let presence = PresenceConfig {
        enabled: section.switch(reader, "enabled", default.enabled),
        watchers: section.word(reader, "watchers", default.watchers, &WATCHERS),
        min_expires_s: section.number(reader, "min_expires_s", default.min_expires_s, EXPIRES_S),
        max_expires_s: section.number(reader, "max_expires_s", default.max_expires_s, EXPIRES_S),
        messages: section.switch(reader, "messages", default.messages),
        message_keep_days: section.number(reader, "message_keep_days", default.message_keep_days, KEEP_DAYS),
    };
    for (key, is_on) in [("enabled", presence.enabled), ("messages", presence.messages)] {
        if is_on && server.mode == Mode::Redirect {
            let message = format!("needs [routing] mode = \"proxy\"; set it, or {key} = false");
            reader.error(section.place(key).unwrap_or_default(), section.path(key), message);
        }
    }
    if presence.min_expires_s > presence.max_expires_s {
        let message = format!("is more than max_expires_s = {}; lower it", presence.max_expires_s);
        let at = section.place("min_expires_s").or_else(|| section.place("max_expires_s"));
        reader.error(at.unwrap_or_default(), section.path("min_expires_s"), message);
    }
    section.finish(reader);
    presence
}

fn read_overload(reader: &mut Reader<'_>, top: &mut Section<'_, '_>) -> OverloadConfig {
    let default = OverloadConfig::default();
    let mut section = top.section(reader, "overload");
    let mut milliseconds = |key: &'static str, default: Duration, range: RangeInclusive<u32>| {
        let default = u32::try_from(default.as_millis()).unwrap_or(u32::MAX);
        Duration::from_millis(section.number(reader, key, default, range).into())
    };
    let target_delay = milliseconds("target_delay_ms", default.target_delay, TARGET_DELAY_MS);
    let max_delay = milliseconds("max_delay_ms", default.max_delay, MAX_DELAY_MS);
    let overload = OverloadConfig {
        enabled: section.switch(reader, "enabled", default.enabled),
        target_delay,
        max_delay,
    };
    if max_delay < target_delay * 2 {
        let message = format!("is less than twice target_delay_ms = {}; raise it", target_delay.as_millis());
        let at = section.place("max_delay_ms").or_else(|| section.place("target_delay_ms"));
        reader.error(at.unwrap_or_default(), section.path("max_delay_ms"), message);
    }
    section.finish(reader);
    overload
}

const TARGET_DELAY_MS: RangeInclusive<u32> = 1..=1_000;
const MAX_DELAY_MS: RangeInclusive<u32> = 2..=10_000;
const WATCHERS: [(&str, Watchers); 2] = [("domain", Watchers::Domain), ("self", Watchers::Oneself)];
/// Ten seconds to a day.
const EXPIRES_S: RangeInclusive<u32> = 10..=86_400;
/// Days for which a message is kept.
const KEEP_DAYS: RangeInclusive<u32> = 1..=30;
