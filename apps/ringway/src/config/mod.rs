//! The configuration: every key of the file, with its default and its limits.
//!
//! Does: reads `ringway.toml` into a [`Config`], or says for each error which line and key it is and what to do.
//! Nothing is ignored: an unknown key, and a key whose feature is not there yet, are errors.
//!
//! Start reading at [`Config::load`]; the sections that only Linux has are in `sections.rs`, the others in
//! `ringway-settings`.

mod sections;
#[cfg(test)]
mod tests;

pub(crate) use ringway_settings::{
    Auth, ConfigError, Limits, Listener, Reader, Registrar, Routing, Section, read_document,
};

use crate::failure::Failure;
use ringway_store::{Durability, StoreUrl};
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// What is read without `--config`, if it is there.
const DEFAULT_FILE: &str = "ringway.toml";
/// A larger file is no configuration.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// A checked configuration.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Config {
    /// The file it came from; `None`: defaults.
    pub(crate) file: Option<PathBuf>,
    /// What the server is responsible for, lower-case; at least one.
    pub(crate) domains: Vec<String>,
    /// At least one.
    pub(crate) listen: Vec<Listener>,
    /// Worker threads; 0: one for each core.
    pub(crate) workers: u16,
    pub(crate) store: StoreConfig,
    pub(crate) auth: Auth,
    pub(crate) registrar: Registrar,
    pub(crate) routing: Routing,
    pub(crate) limits: Limits,
    pub(crate) admin: AdminConfig,
    pub(crate) log: Log,
}

/// `[store]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoreConfig {
    pub(crate) url: StoreUrl,
    pub(crate) durability: Durability,
}

/// `[admin]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AdminConfig {
    pub(crate) listen: SocketAddr,
    /// Empty: none, on loopback only.
    pub(crate) token: String,
}

/// `[log]`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Log {
    pub(crate) level: Level,
    pub(crate) format: LogFormat,
}

/// How much is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    Off,
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

/// How logs are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogFormat {
    Text,
    Json,
}

impl Config {
    /// Reads `file`; without one `./ringway.toml` if it is there; without that, the defaults. To reload, give it the
    /// `file` of the configuration in use.
    pub(crate) fn load(file: Option<&Path>) -> Result<Self, Failure> {
        let default = Path::new(DEFAULT_FILE);
        let Some(file) = file.or_else(|| default.exists().then_some(default)) else {
            return Self::parse("", None).map_err(configuration);
        };
        Self::parse(&Self::read(file)?, Some(file)).map_err(configuration)
    }

    /// Reads a configuration file's text.
    pub(crate) fn read(file: &Path) -> Result<String, Failure> {
        let name = file.display();
        let unreadable = |error| Failure::usage(format!("{name}: cannot read it: {error}; check the path"));
        let bytes = fs::metadata(file).map_err(unreadable)?.len();
        if bytes > FILE_BYTES_MAX {
            return Err(Failure::usage(format!("{name}: larger than 1 MiB; give the configuration file")));
        }
        let bytes = fs::read(file).map_err(unreadable)?;
        String::from_utf8(bytes).map_err(|error| {
            let at = error.utf8_error().valid_up_to();
            let line = 1 + error.as_bytes().iter().take(at).filter(|byte| **byte == b'\n').count();
            Failure::usage(format!("{name}:{line}: not valid UTF-8 at byte {at}; give a text file in UTF-8"))
        })
    }

    /// Reads a configuration from text that stands in `file`. All errors are given, by line.
    pub(crate) fn parse(text: &str, file: Option<&Path>) -> Result<Self, Vec<ConfigError>> {
        sections::read(text, file)
    }

    /// Settings that give up protection, a line for each: what it is, what follows, what to do.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if !self.auth.enabled {
            warnings.push(
                "AUTHENTICATION IS OFF: anyone who reaches this server may register as any user and call; set [auth] \
                 enabled = true unless this network is closed"
                    .to_owned(),
            );
        }
        let open = self.auth.trusted.iter().filter(|network| network.holds_every_address());
        warnings.extend(open.map(|network| {
            format!(
                "[auth] trusted: {network} holds every address: anyone who reaches this server may call as any user; list \
                 the addresses of your proxies"
            )
        }));
        warnings
    }

    /// Where it came from, in words.
    pub(crate) fn source(&self) -> String {
        match &self.file {
            Some(file) => file.display().to_string(),
            None => "the default configuration".to_owned(),
        }
    }
}

fn configuration(errors: Vec<ConfigError>) -> Failure {
    Failure::configuration(errors.iter().map(ConfigError::to_string).collect())
}
