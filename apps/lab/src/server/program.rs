//! Server programs that the lab configures and starts, for a campaign of this machine or of another one.

use super::{
    Algorithm, Allocator, Carrier, Environment, NonceUse, OverloadUse, Routing, Settings, Store,
    StreamListener, Under, free_port_at, wait_for_options,
};
use crate::machine;
use crate::process::Process;
use crate::profile::components::Table;
use crate::record;
use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Server program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// Ringway, with this overload control.
    Ringway(OverloadUse),
    /// Kamailio.
    Kamailio(Allocator),
    /// OpenSIPS, in a configuration that was not run yet.
    OpenSips,
}

/// Values of a server's configuration, without paths and texts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerSetup {
    /// Number of users.
    pub users: u32,
    /// Handling of INVITEs.
    pub routing: Routing,
    /// Algorithm of the challenges; `None`: it does not challenge.
    pub digest: Option<Algorithm>,
    /// Use of the nonces of its challenges.
    pub nonces: NonceUse,
    /// It serves subscriptions and publications.
    pub presence: bool,
    /// Kamailio touches its shared memory at the start.
    pub touches_memory: bool,
    /// Transport that is measured.
    pub carrier: Carrier,
}

/// A server that was started, and answers.
pub struct Started {
    /// Its process.
    pub process: Process,
    /// Its address for UDP and TCP.
    pub address: SocketAddr,
    /// Its configuration for the results, without the name of the target.
    pub record: record::Target,
    /// Program and configuration of a Ringway server that reads passwords from a database.
    pub reader: Option<[PathBuf; 2]>,
}

impl ServerSetup {
    /// Settings of a server on this address.
    pub fn settings(&self, host: IpAddr, store: Store, secure: Option<StreamListener>) -> Settings {
        let Self { users, routing, digest, nonces, presence, touches_memory, carrier: _ } = *self;
        let open = Settings::open(users, routing);
        Settings { host, store, challenge: digest, nonces, presence, touches_memory, secure, ..open }
    }
}

impl Program {
    /// All programs with their names on the command line and in results.
    pub const ALL: [(&'static str, Self); 5] = [
        ("ringway", Self::Ringway(OverloadUse::Shipped)),
        ("ringway-uncontrolled", Self::Ringway(OverloadUse::Off)),
        ("kamailio", Self::Kamailio(Allocator::Tlsf)),
        ("kamailio-default", Self::Kamailio(Allocator::Default)),
        ("opensips", Self::OpenSips),
    ];

    /// The program with this name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|(of, _)| *of == name).map(|(_, program)| program)
    }

    /// Reason why it cannot be started, and the remedy.
    pub fn obstacle(self, environment: &Environment) -> Option<&'static str> {
        let (path, remedy) = match self {
            Self::Ringway(_) => return None,
            Self::Kamailio(_) => {
                (&environment.kamailio, "kamailio is not installed; apt-get install kamailio")
            }
            Self::OpenSips => (
                &environment.opensips,
                "opensips is not installed; install it from its own packages or sources (Debian has none)",
            ),
        };
        path.is_none().then_some(remedy)
    }

    /// Time after a load until it has written what it writes later, or has finished what it does.
    pub const fn rest(self) -> Duration {
        match self {
            Self::Ringway(_) => WRITING,
            Self::Kamailio(_) | Self::OpenSips => FINISHING,
        }
    }

    /// Reads the table of its components.
    ///
    /// # Errors
    /// None that occur: a test reads them all.
    pub fn table(self) -> Result<Table> {
        match self {
            Self::Ringway(_) => Table::ringway(),
            // Modules of OpenSIPS have the names of those of Kamailio; untested, as the program is.
            Self::Kamailio(_) | Self::OpenSips => Table::kamailio(),
        }
    }

    /// Starts it, and waits until it answers OPTIONS. Without a database Ringway has its users in SQLite, which are imported if it
    /// challenges.
    ///
    /// # Errors
    /// It is not installed, does not start, or does not answer with SIP.
    pub fn start(self, environment: &Environment, settings: Settings, carrier: Carrier) -> Result<Started> {
        if let Some(obstacle) = self.obstacle(environment) {
            bail!(obstacle);
        }
        let port = free_port_at(settings.host)?;
        let host = settings.host;
        let secure = settings.secure.as_ref().map(|listener| listener.port);
        let mut reader = None;
        let (version, process, command, file) = match self {
            Self::Ringway(overload) => {
                let file = format!("ringway-{port}.toml");
                let own = || Store::Sqlite(environment.folder.join(format!("ringway-{port}.db")));
                let is_reader = matches!(settings.store, Store::Database(_));
                let settings = match settings.store {
                    Store::Memory => Settings { store: own(), overload, ..settings },
                    Store::Sqlite(_) | Store::Database(_) => Settings { overload, ..settings },
                };
                if is_reader {
                    reader = Some([environment.ringway.clone(), environment.folder.join(&file)]);
                } else if settings.challenge.is_some() {
                    environment.import_users(&settings)?;
                }
                let process = environment.start_ringway(&settings, port, Under::Itself)?;
                let version = machine::version_of(&environment.ringway.to_string_lossy(), &["--version"]);
                (version, process, "ringway serve --config ringway.toml".to_owned(), file)
            }
            Self::Kamailio(allocator) => {
                let program = environment.kamailio.as_deref().context("kamailio is not installed")?;
                let process = environment.start_kamailio(program, &settings, port, carrier, allocator)?;
                let options = allocator.arguments().join(" ");
                let command = format!("kamailio -f kamailio.cfg -DD -E {options}").trim_end().to_owned();
                let version = machine::version_of(&program.to_string_lossy(), &["-v"]);
                (version, process, command, format!("kamailio-{port}.cfg"))
            }
            Self::OpenSips => {
                let program = environment.opensips.as_deref().context("opensips is not installed")?;
                let process = environment.start_opensips(program, &settings, port, carrier)?;
                let command = "opensips -f opensips.cfg -F (untested configuration)".to_owned();
                let version = machine::version_of(&program.to_string_lossy(), &["-V"]);
                (version, process, command, format!("opensips-{port}.cfg"))
            }
        };
        let address = SocketAddr::new(host, port);
        wait_for_options(address, ANSWER_WAIT)?;
        let record = record::Target {
            version: version.trim_start_matches("version: ").to_owned(),
            command,
            settings: read_settings(&environment.folder, &file, port, secure),
            ..record::Target::default()
        };
        Ok(Started { process, address, record, reader })
    }
}

/// Text of a configuration, the same for each start: without ports and folder.
fn read_settings(folder: &Path, file: &str, port: u16, secure: Option<u16>) -> String {
    let text = fs::read_to_string(folder.join(file)).unwrap_or_default();
    let text = text.replace(&folder.display().to_string(), "FOLDER").replace(&port.to_string(), "PORT");
    let text = match secure {
        Some(port) => text.replace(&port.to_string(), "STREAMS"),
        None => text,
    };
    let is_kept = |line: &&str| !line.starts_with("listen = \"127.0.0.1:");
    text.lines().filter(is_kept).collect::<Vec<_>>().join("\n")
}

/// Most time until a server that has started answers.
const ANSWER_WAIT: Duration = Duration::from_secs(10);
/// Time within which Ringway writes bindings with relaxed durability.
const WRITING: Duration = Duration::from_millis(1300);
/// The same for other servers, which only finish what they do.
pub(crate) const FINISHING: Duration = Duration::from_millis(200);
