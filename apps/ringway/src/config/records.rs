//! `[records]` and `[hep]`: call records, and the collector that captured messages are sent to.

use super::{Reader, Section, StoreConfig};
use ringway_hep::{CollectorConfig, CollectorTransport, PASSWORD_BYTES_MAX};
use ringway_server::{Config, Mode};
use ringway_store::StoreUrl;
use std::path::PathBuf;

/// `[records]`
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Records {
    /// Calls are followed to their end.
    pub(crate) enabled: bool,
    /// File of JSON lines.
    pub(crate) file: Option<PathBuf>,
    /// SQLite database.
    pub(crate) database: Option<PathBuf>,
    /// Days for which records stay in the database; 0: always.
    pub(crate) keep_days: u32,
    /// Maximum size of the files, and of the database, in MiB; 0: no limit.
    pub(crate) max_mb: u32,
}

impl Records {
    /// Maximum number of bytes of the files, and of the database; `None`: no limit.
    pub(crate) fn bytes_max(&self) -> Option<u64> {
        (self.max_mb > 0).then(|| u64::from(self.max_mb) << 20)
    }
}

pub(super) fn read(
    reader: &mut Reader<'_>,
    top: &mut Section<'_, '_>,
    server: &Config,
    store: &StoreConfig,
) -> Records {
    let mut section = top.section(reader, "records");
    let mut file = None;
    if let Some((text, at)) = section.text(reader, "file") {
        if text.is_empty() || text.contains('\0') {
            reader.error(at, section.path("file"), "give the path of a file, as \"calls.jsonl\"");
        }
        file = Some(PathBuf::from(text));
    }
    let mut database = None;
    if let Some((text, at)) = section.text(reader, "url") {
        match database_of(text, store) {
            Ok(path) => database = Some(path),
            Err(why) => reader.error(at, section.path("url"), format!("{text:?} {why}")),
        }
    }
    let enabled = section.switch(reader, "enabled", file.is_some() || database.is_some());
    let keep_days = section.number(reader, "keep_days", 0, 0..=KEEP_DAYS_MAX);
    let max_mb = section.number(reader, "max_mb", MAX_MB, 0..=MAX_MB_MAX);
    let key = [("file", file.is_some()), ("url", database.is_some()), ("enabled", enabled)]
        .into_iter()
        .find_map(|(key, is_set)| is_set.then_some(key));
    if let Some(key) = key {
        let at = section.place(key).unwrap_or_default();
        if !enabled {
            let message = "needs [records] enabled = true; set it, or take the key out";
            reader.error(at, section.path(key), message);
        }
        if !server.stateful && server.mode == Mode::Proxy {
            let message = "needs [routing] stateful = true: without state no end of a call is seen";
            reader.error(at, section.path(key), message);
        }
    }
    if let Some(at) = section.place("max_mb")
        && section.place("file").is_none()
        && section.place("url").is_none()
    {
        let message = "needs [records] file or url; set one, or take the key out";
        reader.error(at, section.path("max_mb"), message);
    }
    if let Some(at) = section.place("keep_days")
        && section.place("url").is_none()
    {
        reader.error(at, section.path("keep_days"), "needs [records] url; set it, or take the key out");
    }
    section.finish(reader);
    Records { enabled, file, database, keep_days, max_mb }
}

fn database_of(text: &str, store: &StoreConfig) -> Result<PathBuf, &'static str> {
    let path = match text.split_once("://") {
        Some(("sqlite", file)) if !file.is_empty() && !file.contains('\0') => PathBuf::from(file),
        Some(("postgres" | "postgresql" | "mysql", _)) => {
            return Err(
                "is not supported: this version has no PostgreSQL and no MySQL yet; give \"sqlite://FILE\"",
            );
        }
        Some(_) | None => return Err("is no database of records; give \"sqlite://FILE\""),
    };
    match &store.url {
        StoreUrl::Sqlite(users) if *users == path => {
            Err("is the database of the users; give the records a file of their own")
        }
        StoreUrl::Sqlite(_) | StoreUrl::Memory => Ok(path),
    }
}

/// Reads `[hep]`; `None`: nothing is captured.
pub(super) fn read_hep(reader: &mut Reader<'_>, top: &mut Section<'_, '_>) -> Option<CollectorConfig> {
    let mut section = top.section(reader, "hep");
    let mut collector = None;
    if let Some((text, at)) = section.text(reader, "collector") {
        collector = collector_of(text);
        if collector.is_none() {
            let message = format!(
                "{text:?} is no collector; write \"tcp:HOST:PORT\" or \"udp:HOST:PORT\", as \"tcp:homer.example.org:9060\""
            );
            reader.error(at, section.path("collector"), message);
        }
    }
    let capture_id = section.number(reader, "capture_id", CAPTURE_ID, 0..=u32::MAX);
    section.note_default(reader, "password", || "\"\"".to_owned());
    let mut password = String::new();
    if let Some((text, at)) = section.text(reader, "password") {
        if text.len() > PASSWORD_BYTES_MAX {
            reader.error(at, section.path("password"), format!("give at most {PASSWORD_BYTES_MAX} bytes"));
        }
        password = text.to_owned();
    }
    for key in ["capture_id", "password"] {
        if let Some(at) = section.place(key)
            && section.place("collector").is_none()
        {
            let message = "needs [hep] collector; set it, or take the key out";
            reader.error(at, section.path(key), message);
        }
    }
    section.finish(reader);
    let (transport, host, port) = collector?;
    Some(CollectorConfig { transport, host, port, capture_id, password })
}

fn collector_of(text: &str) -> Option<(CollectorTransport, String, u16)> {
    let (transport, place) = text.split_once(':')?;
    let transport = match transport {
        "tcp" => CollectorTransport::Tcp,
        "udp" => CollectorTransport::Udp,
        _ => return None,
    };
    let (host, port) = place.rsplit_once(':')?;
    let port = port.parse().ok().filter(|port| *port != 0)?;
    let host = match host.strip_prefix('[') {
        Some(inner) => inner.strip_suffix(']').filter(|inner| inner.parse::<std::net::Ipv6Addr>().is_ok())?,
        None if host.contains(':') => return None,
        None => host,
    };
    let is_host = !host.is_empty()
        && host.len() <= HOST_BYTES_MAX
        && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_:".contains(&byte));
    is_host.then(|| (transport, host.to_owned(), port))
}

/// Half a million calls and more; a home server's disk has it.
const MAX_MB: u32 = 1024;
const MAX_MB_MAX: u32 = 1 << 20;
const KEEP_DAYS_MAX: u32 = 36_500;
const CAPTURE_ID: u32 = 2001;
const HOST_BYTES_MAX: usize = 253;

#[cfg(test)]
mod tests {
    use crate::config::{Config, ConfigError};
    use ringway_hep::CollectorTransport;
    use std::path::Path;

    fn error(text: &str) -> String {
        let errors = Config::parse(text, Some(Path::new("a.toml"))).err().unwrap_or_default();
        errors.iter().map(ConfigError::to_string).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn what_is_impossible_is_refused_with_its_line_and_key() {
        for (text, start, part) in [
            ("[records]\nurl = \"postgres://h/d\"", "a.toml:2: [records] url", "PostgreSQL"),
            ("[records]\nurl = \"mysql://h/d\"", "a.toml:2: [records] url", "MySQL"),
            ("[records]\nurl = \"calls.db\"", "a.toml:2: [records] url", "sqlite://FILE"),
            ("[records]\nurl = \"sqlite://ringway.db\"", "a.toml:2: [records] url", "of the users"),
            ("[records]\nfile = \"\"", "a.toml:2: [records] file", "path"),
            ("[records]\nfile = \"a\"\nenabled = false", "a.toml:2: [records] file", "enabled = true"),
            (
                "[records]\nurl = \"calls.db\"\nkeep_days = 3\nmax_mb = 3",
                "a.toml:2: [records] url",
                "sqlite://FILE",
            ),
            ("[records]\nkeep_days = 3", "a.toml:2: [records] keep_days", "url"),
            ("[records]\nenabled = true\nmax_mb = 3", "a.toml:3: [records] max_mb", "url"),
            ("[records]\nfile = \"a\"\nmax_mb = 2000000", "a.toml:3: [records] max_mb", "1048576"),
            (
                "[routing]\nstateful = false\n[records]\nenabled = true",
                "a.toml:4: [records] enabled",
                "stateful",
            ),
            ("[hep]\ncollector = \"homer:9060\"", "a.toml:2: [hep] collector", "tcp:HOST:PORT"),
            ("[hep]\ncollector = \"tls:homer:9060\"", "a.toml:2: [hep] collector", "tcp:HOST:PORT"),
            ("[hep]\ncollector = \"tcp:homer\"", "a.toml:2: [hep] collector", "tcp:HOST:PORT"),
            ("[hep]\ncollector = \"tcp:homer:0\"", "a.toml:2: [hep] collector", "tcp:HOST:PORT"),
            ("[hep]\ncollector = \"tcp:2001:db8::1:9060\"", "a.toml:2: [hep] collector", "tcp:HOST:PORT"),
            ("[hep]\npassword = \"x\"", "a.toml:2: [hep] password", "collector"),
        ] {
            let said = error(text);
            assert!(
                said.starts_with(start) && said.contains(part) && said.lines().count() == 1,
                "{text}: {said}"
            );
        }
        let long = format!("[hep]\ncollector = \"tcp:homer:9060\"\npassword = \"{}\"", "x".repeat(129));
        assert!(error(&long).contains("128 bytes"));
    }

    #[test]
    fn records_and_collector_are_read() {
        let text = "[records]\nfile = \"a.jsonl\"\nurl = \"sqlite://b.db\"\nkeep_days = 30\n\
                    [hep]\ncollector = \"udp:[2001:db8::1]:9060\"\ncapture_id = 3\npassword = \"s3cret\"\n";
        let config = Config::parse(text, None).unwrap();
        assert!(config.records.enabled && config.records.keep_days == 30);
        let hep = config.hep.clone().unwrap();
        assert_eq!(
            (hep.transport, hep.host.as_str(), hep.port),
            (CollectorTransport::Udp, "2001:db8::1", 9060)
        );
        assert_eq!(hep.to_string(), "udp:[2001:db8::1]:9060");
        assert!(!format!("{config:?}").contains("s3cret"));
        assert_eq!(config.records.bytes_max(), Some(1 << 30), "the default bounds the disk");
        let unlimited = Config::parse("[records]\nfile = \"a\"\nmax_mb = 0", None).unwrap();
        assert_eq!(unlimited.records.bytes_max(), None);
        let default = Config::parse("", None).unwrap();
        assert!(!default.records.enabled && default.hep.is_none());
    }
}
