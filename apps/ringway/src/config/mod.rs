//! Configuration: every key of the file, with its default and its limits.
//!
//! Does: reads `ringway.toml` into a [`Config`], or reports each error with its line, key and remedy. Unknown keys and
//! keys of unsupported features are errors.
//!
//! Start reading at [`Config::load`]. The sections that only Linux has are in `sections.rs`, the others in
//! `ringway-settings`.

mod acme;
mod advertise;
mod caller_limits;
mod cluster;
mod emergency;
mod example;
mod exposed;
mod location;
mod media;
mod neighbours;
mod proxy_protocol;
mod rates;
mod records;
mod routes;
mod sections;
mod stir;
mod store;
#[cfg(test)]
mod table_tests;
#[cfg(test)]
mod tests;
mod tls;
mod trunk_headers;
mod trunk_identity;
#[cfg(test)]
mod trunk_tests;
mod trunks;

pub(crate) use ringway_settings::{
    ConfigError, KeyChange, Keys, Limits, Listener, NumberLookups, Reader, Section, read_document,
};

pub(crate) use advertise::with_public_ip;
pub(crate) use cluster::ClusterConfig;
pub(crate) use example::text as example;
pub(crate) use location::LocationConfig;
pub(crate) use proxy_protocol::ProxiedListener;
pub(crate) use records::Records;
pub(crate) use stir::{SignerSettings, StirFiles};
pub(crate) use store::{StoreConfig, StoreQuery};

use crate::failure::Failure;
use ringway_acme::AcmeConfig;
use ringway_admin::LONG_TOKEN_BYTES;
use ringway_linux::Dscp;
use ringway_settings::HostPort;
use ringway_tls::TlsFiles;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// Maximum number of trunks with a warning of their own.
const TRUNKS_WARNED_MAX: usize = 20;
/// Files that are read without `--config` and without [`VARIABLE`], the first that exists.
const DEFAULT_FILES: [&str; 2] = [DEFAULT_FILE, "/etc/ringway/ringway.toml"];
/// File in the current folder.
const DEFAULT_FILE: &str = "ringway.toml";
/// Variable with the path of the file.
const VARIABLE: &str = "RINGWAY_CONFIG";

/// A checked configuration.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Config {
    /// Path of the file; `None`: defaults.
    pub(crate) file: Option<PathBuf>,
    /// Settings of the server machine, without its listeners, its secret, and the nodes linked to it.
    pub(crate) server: ringway_server::Config,
    /// Listeners; at least one.
    pub(crate) listen: Vec<Listener>,
    /// Those of them that are behind proxies with the PROXY protocol.
    pub(crate) proxied: Vec<ProxiedListener>,
    /// Mark of the packets of all listeners.
    pub(crate) dscp: Dscp,
    /// Worker threads; 0: one for each core.
    pub(crate) workers: u16,
    pub(crate) store: StoreConfig,
    /// Store of the bindings that several nodes share; `None`: they are in this process.
    pub(crate) location: Option<LocationConfig>,
    pub(crate) limits: Limits,
    pub(crate) admin: AdminConfig,
    pub(crate) log: Log,
    pub(crate) tls: TlsFiles,
    /// Certificates that are ordered; `tls` has their file.
    pub(crate) acme: Option<AcmeConfig>,
    /// This server as one of several nodes.
    pub(crate) cluster: Option<ClusterConfig>,
    /// Origins whose pages may connect by WebSocket; empty: all.
    pub(crate) websocket_origins: Vec<String>,
    /// Files of `[stir]`.
    pub(crate) stir: StirFiles,
    /// Control ports of the media relays.
    pub(crate) media_relays: Vec<SocketAddr>,
    pub(crate) records: Records,
    /// Collector of captured messages.
    pub(crate) hep: Option<ringway_hep::CollectorConfig>,
    /// STUN server that says which address it sees; set with an advertised address `auto`.
    pub(crate) stun: Option<HostPort>,
    /// DNS servers that host names are looked up at.
    pub(crate) dns_servers: ringway_dns::Servers,
    /// All keys with their values, to compare two configurations.
    pub(crate) keys: Keys,
}

/// `[admin]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AdminConfig {
    pub(crate) listen: SocketAddr,
    /// Empty: no token, permitted on loopback only.
    pub(crate) token: String,
}

impl AdminConfig {
    /// True if other machines can reach the listener.
    pub(crate) fn is_public(&self) -> bool {
        !self.listen.ip().to_canonical().is_loopback()
    }

    /// True for a token that can be found by trying.
    fn has_short_token(&self) -> bool {
        (1..LONG_TOKEN_BYTES).contains(&self.token.len())
    }
}

/// `[log]`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Log {
    pub(crate) level: Level,
    pub(crate) format: LogFormat,
    /// The time of each step of a message is measured.
    pub(crate) steps: bool,
}

/// Log level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    Off,
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

/// Log format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogFormat {
    Text,
    Json,
}

impl Config {
    /// Maximum size of a configuration file.
    pub(crate) const FILE_BYTES_MAX: u64 = 8 << 20;

    /// Reads `file`, without one that of [`Config::find`], else the defaults. For a reload, pass the `file` of the current configuration.
    pub(crate) fn load(file: Option<&Path>) -> Result<Self, Failure> {
        let Some(file) = Self::find(file) else { return Self::parse("", None).map_err(configuration) };
        Self::parse(&Self::read(&file)?, Some(&file)).map_err(configuration)
    }

    /// The file that is read: `given`, that of `$RINGWAY_CONFIG`, `./ringway.toml`, `/etc/ringway/ringway.toml`, in this order. The last two
    /// only if they exist, also if they cannot be read; `None`: there is none.
    pub(crate) fn find(given: Option<&Path>) -> Option<PathBuf> {
        let named = std::env::var_os(VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from);
        let default = || DEFAULT_FILES.iter().map(Path::new).find(|path| is_there(path)).map(Path::to_owned);
        given.map(Path::to_owned).or(named).or_else(default)
    }

    /// The same for a command that needs a file: `ringway.toml` if there is none.
    pub(crate) fn find_or_default(given: Option<&Path>) -> PathBuf {
        Self::find(given).unwrap_or_else(|| DEFAULT_FILE.into())
    }

    /// Reads the text of a configuration file.
    pub(crate) fn read(file: &Path) -> Result<String, Failure> {
        let name = file.display();
        let unreadable = |error| Failure::usage(format!("{name}: cannot read it: {error}; check the path"));
        let bytes = fs::metadata(file).map_err(unreadable)?.len();
        if bytes > Self::FILE_BYTES_MAX {
            return Err(Failure::usage(format!("{name}: larger than 8 MiB; give the configuration file")));
        }
        let bytes = fs::read(file).map_err(unreadable)?;
        String::from_utf8(bytes).map_err(|error| {
            let at = error.utf8_error().valid_up_to();
            let line = 1 + error.as_bytes().iter().take(at).filter(|byte| **byte == b'\n').count();
            Failure::usage(format!("{name}:{line}: not valid UTF-8 at byte {at}; give a text file in UTF-8"))
        })
    }

    /// Parses the text of `file`. Returns all errors, sorted by line.
    pub(crate) fn parse(text: &str, file: Option<&Path>) -> Result<Self, Vec<ConfigError>> {
        sections::read(text, file)
    }

    /// Warnings about settings that reduce protection, one line each: the setting, its effect, the remedy.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if !self.server.auth.enabled {
            warnings.push(
                "AUTHENTICATION IS OFF: anyone who reaches this server may register as any user and call; set [auth] \
                 enabled = true unless this network is closed"
                    .to_owned(),
            );
        }
        warnings.extend(self.presence_for_all());
        if self.store.danger_lookup {
            warnings.push(
                "PASSWORDS ARE READ FROM THE DATABASE WHILE REQUESTS WAIT: each of them holds a thread of the server, and without the \
                 database no phone can log in; this is for measurements, remove [store] danger_lookup"
                    .to_owned(),
            );
        }
        if self.server.presence.messages && self.store.url.bindings().is_none() {
            warnings.push(
                "[presence] messages with the store \"memory:\": a restart loses the messages that their senders were told are \
                 accepted; set [store] url = \"sqlite://ringway.db\""
                    .to_owned(),
            );
        }
        warnings.extend(trunks::health_check_warning(&self.server));
        let without_networks = self.server.trunking.named_without_networks();
        for trunk in without_networks.take(TRUNKS_WARNED_MAX) {
            warnings.push(format!(
                "[[trunk]] {trunk:?} has a host name and no `networks`: [[destination]] rules do not hold for calls to its addresses; \
                 give them all in `networks`"
            ));
        }
        if self.server.auth.digest.danger_rfc2069 {
            warnings.push(
                "DIGESTS WITHOUT QOP ARE ACCEPTED: they cover neither a nonce count nor a body, and who records one can search \
                 for its password with tables made before; set [auth] danger_rfc2069 = false once no phone needs it"
                    .to_owned(),
            );
        }
        if !self.server.auth.enabled && !self.server.trunking.routes.is_empty() {
            warnings.push(
                "[[route]] without authentication: anyone who reaches this server may call through the trunks at your expense; \
                 set [auth] enabled = true"
                    .to_owned(),
            );
        }
        warnings.extend(trunks::warnings(&self.server.trunking));
        warnings.extend(emergency::warnings(&self.server.trunking.emergency));
        warnings.extend(advertise::warnings(&self.server.advertised));
        warnings.extend(proxy_protocol::warnings(&self.proxied));
        warnings.extend(self.open_networks());
        if self.admin.is_public() && self.tls.certificate.is_none() {
            warnings.push(format!(
                "[admin] listen: {} can be reached from other machines, and without a certificate the token travels \
                 readable; set [tls] certificate and private_key (`ringway cert init` makes them), or listen on 127.0.0.1",
                self.admin.listen
            ));
        }
        if self.admin.has_short_token() {
            warnings.push(format!(
                "[admin] token: it is shorter than {} characters, and every account of this machine can try it out; give a random \
                 one (`openssl rand -hex 16` prints one)",
                LONG_TOKEN_BYTES
            ));
        }
        warnings.extend(tls::warnings(&self.tls));
        warnings.extend(stir::warnings(&self.stir, &self.server.stir));
        let acme = self.acme.iter();
        warnings.extend(acme.flat_map(|acme| acme::warnings(acme, &self.server.domains)));
        warnings.extend(exposed::warnings(self));
        warnings
    }

    /// Warnings about presence without passwords.
    fn presence_for_all(&self) -> impl Iterator<Item = String> {
        let presence = &self.server.presence;
        let is_open = !self.server.auth.enabled;
        let status = (is_open && presence.enabled).then_some(
            "[presence] without authentication: anyone who reaches this server sees who is there and who calls, and can have \
             NOTIFYs sent to any address; set [auth] enabled = true",
        );
        let messages = (is_open && presence.messages).then_some(
            "[presence] messages without authentication: anyone who reaches this server can leave messages in the name of \
             any user and take those of others; set [auth] enabled = true",
        );
        status.into_iter().chain(messages).map(str::to_owned)
    }

    /// Warnings about networks with every address.
    fn open_networks(&self) -> impl Iterator<Item = String> {
        let open = |networks: &[ringway_server::Network], key: &'static str, effect: &'static str| {
            let open = networks.iter().filter(|network| network.holds_every_address());
            let warnings =
                open.map(move |network| format!("[auth] {key}: {network} contains every address: {effect}"));
            warnings.collect::<Vec<_>>()
        };
        let trusted = open(
            &self.server.auth.trusted,
            "trusted",
            "anyone who reaches this server may call as any user; list the addresses of your proxies",
        );
        let fronts = open(
            &self.server.auth.fronts,
            "fronts",
            "no sender has a limit, and each chooses the address that its wrong passwords count for; list the addresses of your fronts",
        );
        trusted.into_iter().chain(fronts)
    }

    /// Source of the configuration, for messages.
    pub(crate) fn source(&self) -> String {
        match &self.file {
            Some(file) => file.display().to_string(),
            None => "the default configuration".to_owned(),
        }
    }
}

/// True unless nothing has this name: a file that cannot be seen must not become the defaults.
fn is_there(path: &Path) -> bool {
    fs::symlink_metadata(path).err().is_none_or(|error| error.kind() != std::io::ErrorKind::NotFound)
}

fn configuration(errors: Vec<ConfigError>) -> Failure {
    Failure::configuration(errors.iter().map(ConfigError::to_string).collect())
}
