//! Servers of a campaign: programs that it starts, and addresses of running ones.

use super::experiment::Variant;
use crate::load::{Flow, LoadTls};
use crate::process::Process;
use crate::profile::Sampler;
use crate::profile::components::Table;
use crate::profile::split::{Processes, Split};
use crate::server::{
    self, Allocator, Database, Environment, OverloadUse, Settings, Store, StreamListener, Under, free_port,
    run_command, wait_for_options,
};
use crate::tls::{Certificates, ServerTls};
use crate::{load, machine, record};
use anyhow::{Context, Result, bail};
use ringway_settings::nearest;
use std::cell::Cell;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Server of a campaign.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Name on the command line and in results.
    pub name: String,
    kind: TargetKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TargetKind {
    Ringway,
    /// Without overload control.
    Uncontrolled,
    Kamailio(Allocator),
    /// In a configuration that was not run yet.
    OpenSips,
    /// A running server.
    Address(SocketAddr),
}

/// Programs, and users of servers that a campaign does not start.
pub struct Site {
    /// Programs and a folder for files.
    pub environment: Environment,
    /// Domain of running servers.
    pub domain: String,
    /// Password of the users of running servers; empty for none.
    pub password: String,
    /// Database for the users of variants that read passwords from one.
    pub database: Option<UserDatabase>,
    /// Number of local addresses of callers and called users, from 127.0.0.1 on.
    pub sources: u8,
}

/// A database that was empty before the campaign.
pub struct UserDatabase {
    /// Its URL and password.
    pub database: Database,
    remove_tables: Box<dyn Fn() -> Result<()>>,
    /// A campaign has made tables in it.
    is_filled: Cell<bool>,
}

impl UserDatabase {
    /// An empty database; `remove_tables` removes what `ringway user import` makes in it.
    pub fn new(database: Database, remove_tables: Box<dyn Fn() -> Result<()>>) -> Self {
        Self { database, remove_tables, is_filled: Cell::new(false) }
    }

    /// Removes what a campaign made in it. Its servers must have ended.
    ///
    /// # Errors
    /// The database failed.
    pub fn clear(&self) -> Result<()> {
        if self.is_filled.get() {
            let url = &self.database.url;
            (self.remove_tables)().with_context(|| format!("remove the tables of users from {url}"))?;
            self.is_filled.set(false);
        }
        Ok(())
    }
}

/// A running server in one configuration.
pub struct Server {
    process: Option<Process>,
    /// Its address for UDP and TCP.
    pub address: SocketAddr,
    /// Its listener for the transport of the variant, if that is another one.
    secure: Option<StreamListener>,
    /// Its domain.
    pub domain: String,
    /// Password of its users; empty for none.
    pub password: String,
    /// Time after a load until it has written what it writes later.
    pub rest: Duration,
    /// Its configuration, for the results.
    pub record: record::Target,
    /// Number of users that it has.
    users: u32,
    next_user: u32,
    /// Program and configuration of a Ringway server that reads passwords from a database.
    reader: Option<[PathBuf; 2]>,
    /// Reads the table of its components; `None` for a server that the campaign did not start.
    components: Option<fn() -> Result<Table>>,
    /// Its sampler, with the interval of the load while it is sampled.
    sampler: Option<(Sampler, Duration)>,
}

impl Site {
    /// Gives the database of a variant that reads one `users` users, in place of those of an earlier variant.
    ///
    /// # Errors
    /// The database failed, or there is none.
    pub fn fill_database(&self, variant: &Variant, users: u32) -> Result<()> {
        if !variant.reads_database() {
            return Ok(());
        }
        let filled = self.database.as_ref().context("there is no database for the users")?;
        filled.clear()?;
        filled.is_filled.set(true);
        let settings = settings(variant, Store::Database(filled.database.clone()), users, None);
        self.environment.import_users(&settings).map(drop)
    }

    /// Listener of a variant's transport, with certificates, unless that is UDP or TCP.
    fn listener(&self, variant: &Variant) -> Result<Option<StreamListener>> {
        let carrier = variant.carrier;
        if !carrier.has_own_listener() {
            return Ok(None);
        }
        let tls = carrier.is_secure().then(|| {
            // A build that cannot offer it need not start a server.
            variant.tls.offer()?;
            let local = |number| Ipv4Addr::from_bits(Ipv4Addr::LOCALHOST.to_bits() + number);
            let users: Vec<IpAddr> =
                (0..u32::from(self.sources.max(1))).map(|number| local(number).into()).collect();
            let certificates = Certificates::make(&self.environment.folder, variant.tls.key, &users)?;
            Ok::<_, anyhow::Error>(ServerTls { tls: variant.tls.clone(), certificates })
        });
        Ok(Some(StreamListener { carrier, port: free_port()?, tls: tls.transpose()? }))
    }

    /// Store of a server for a variant: the database if it reads one, otherwise `own`.
    fn store(&self, variant: &Variant, own: Store) -> Store {
        match &self.database {
            Some(filled) if variant.reads_database() => Store::Database(filled.database.clone()),
            Some(_) | None => own,
        }
    }
}

impl Target {
    /// Reads the name of a target: one of the adapters, or `HOST:PORT`.
    ///
    /// # Errors
    /// Neither of them; a host that is not permitted.
    pub fn parse(name: &str, allowed_hosts: &[IpAddr]) -> Result<Self> {
        let kind = match name {
            "ringway" => TargetKind::Ringway,
            "ringway-uncontrolled" => TargetKind::Uncontrolled,
            "kamailio" => TargetKind::Kamailio(Allocator::Tlsf),
            "kamailio-default" => TargetKind::Kamailio(Allocator::Default),
            "opensips" => TargetKind::OpenSips,
            _ if name.contains(':') => TargetKind::Address(load::resolve(name, allowed_hosts)?),
            _ => match nearest(name, &NAMES) {
                Some(known) => bail!("no target is named {name:?}; did you mean `{known}`?"),
                None => bail!(
                    "no target is named {name:?}; give {} or, for a running server, HOST:PORT",
                    NAMES.join(", ")
                ),
            },
        };
        Ok(Self { name: name.to_owned(), kind })
    }

    /// Reason why this target cannot be measured, and the remedy.
    pub fn obstacle(&self, site: &Site) -> Option<String> {
        match self.kind {
            TargetKind::Kamailio(_) if site.environment.kamailio.is_none() => {
                Some("kamailio is not installed; apt-get install kamailio".to_owned())
            }
            TargetKind::OpenSips if site.environment.opensips.is_none() => Some(
                "opensips is not installed; install it from its own packages or sources (Debian has none)"
                    .to_owned(),
            ),
            TargetKind::Ringway
            | TargetKind::Uncontrolled
            | TargetKind::Kamailio(_)
            | TargetKind::OpenSips
            | TargetKind::Address(_) => None,
        }
    }

    /// True if the campaign can start it in the configuration of a variant.
    pub const fn is_program(&self) -> bool {
        !matches!(self.kind, TargetKind::Address(_))
    }

    /// Starts the server for a variant, with `users` users if it challenges; those of a database are there already. Waits until it
    /// answers OPTIONS.
    ///
    /// # Errors
    /// It is not installed, does not start, or does not answer with SIP.
    pub fn start(&self, site: &Site, variant: &Variant, users: u32) -> Result<Server> {
        if let Some(obstacle) = self.obstacle(site) {
            bail!(obstacle);
        }
        let environment = &site.environment;
        let mut reader = None;
        let secure = if self.is_program() { site.listener(variant)? } else { None };
        let (version, process, port, command, file) = match self.kind {
            TargetKind::Address(_) if variant.carrier.has_own_listener() => bail!(
                "not available: running servers are measured over UDP and TCP; for {} take `ringway lab load`",
                variant.carrier.name()
            ),
            TargetKind::Address(address) => return running(&self.name, address, site),
            TargetKind::Ringway | TargetKind::Uncontrolled => {
                let port = free_port()?;
                let own = Store::Sqlite(environment.folder.join(format!("ringway-{port}.db")));
                let overload = match self.kind {
                    TargetKind::Uncontrolled => OverloadUse::Off,
                    _ => OverloadUse::Shipped,
                };
                let settings = Settings {
                    overload,
                    ..settings(variant, site.store(variant, own), users, secure.clone())
                };
                let file = format!("ringway-{port}.toml");
                if variant.reads_database() {
                    reader = Some([environment.ringway.clone(), environment.folder.join(&file)]);
                } else if settings.challenge.is_some() {
                    environment.import_users(&settings)?;
                }
                let process = environment.start_ringway(&settings, port, Under::Itself)?;
                let command = "ringway serve --config ringway.toml".to_owned();
                let version = machine::version_of(&environment.ringway.to_string_lossy(), &["--version"]);
                (version, process, port, command, file)
            }
            TargetKind::Kamailio(allocator) => {
                let program = environment.kamailio.as_deref().context("kamailio is not installed")?;
                let port = free_port()?;
                let settings = settings(variant, site.store(variant, Store::Memory), users, secure.clone());
                let process =
                    environment.start_kamailio(program, &settings, port, variant.carrier, allocator)?;
                let options = allocator.arguments().join(" ");
                let command = format!("kamailio -f kamailio.cfg -DD -E {options}").trim_end().to_owned();
                let version = machine::version_of(&program.to_string_lossy(), &["-v"]);
                (version, process, port, command, format!("kamailio-{port}.cfg"))
            }
            TargetKind::OpenSips => {
                let program = environment.opensips.as_deref().context("opensips is not installed")?;
                let port = free_port()?;
                let settings = settings(variant, site.store(variant, Store::Memory), users, None);
                let process = environment.start_opensips(program, &settings, port, variant.carrier)?;
                let command = "opensips -f opensips.cfg -F (untested configuration)".to_owned();
                let version = machine::version_of(&program.to_string_lossy(), &["-V"]);
                (version, process, port, command, format!("opensips-{port}.cfg"))
            }
        };
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        wait_for_options(address, ANSWER_WAIT)?;
        let record = record::Target {
            target: self.name.clone(),
            version: version.trim_start_matches("version: ").to_owned(),
            command,
            settings: read_settings(&environment.folder, &file, port, secure.as_ref()),
        };
        let is_ringway = matches!(self.kind, TargetKind::Ringway | TargetKind::Uncontrolled);
        let rest = if is_ringway { WRITING } else { FINISHING };
        let (domain, password) = (server::DOMAIN.to_owned(), server::PASSWORD.to_owned());
        let components: fn() -> Result<Table> = match self.kind {
            TargetKind::Ringway | TargetKind::Uncontrolled | TargetKind::Address(_) => Table::ringway,
            // Modules of OpenSIPS have the names of those of Kamailio; untested, as the target is.
            TargetKind::Kamailio(_) | TargetKind::OpenSips => Table::kamailio,
        };
        Ok(Server {
            process: Some(process),
            address,
            secure,
            domain,
            password,
            rest,
            record,
            users,
            next_user: 0,
            reader,
            components: Some(components),
            sampler: None,
        })
    }
}

impl Server {
    /// Address for the transport of the variant that it was started for.
    pub fn variant_address(&self) -> SocketAddr {
        let port = self.secure.as_ref().map_or(self.address.port(), |listener| listener.port);
        SocketAddr::new(self.address.ip(), port)
    }

    /// TLS of the callers and called users; `None` without TLS.
    ///
    /// # Errors
    /// A file cannot be used.
    pub fn load_tls(&self) -> Result<Option<LoadTls>> {
        let tls = self.secure.as_ref().and_then(|listener| listener.tls.as_ref());
        tls.map(|server| server.tls.load(&server.certificates)).transpose()
    }

    /// CPU time so far in nanoseconds; `None` for a server that the campaign did not start.
    ///
    /// # Errors
    /// The server has ended.
    pub fn cpu_ns(&self) -> Result<Option<u64>> {
        self.process.as_ref().map(Process::cpu_ns).transpose()
    }

    /// Number of passwords that it has read from a database; `None` if it reads none, or is not Ringway.
    ///
    /// # Errors
    /// The server has ended.
    pub fn lookups(&self) -> Result<Option<u64>> {
        let Some([program, configuration]) = &self.reader else { return Ok(None) };
        let shown = run_command(program, configuration, &["show", "stats", "--json"])?;
        let shown: serde_json::Value =
            serde_json::from_slice(&shown).context("read the server's counters")?;
        let lookups = shown.get("danger_lookups").and_then(serde_json::Value::as_u64);
        lookups.map(Some).context("the server does not count its reads of passwords")
    }

    /// Memory of all its processes in bytes; shared memory counts once.
    ///
    /// # Errors
    /// The server has ended.
    pub fn memory_bytes(&self) -> Result<Option<u64>> {
        self.process.as_ref().map(Process::memory_bytes).transpose()
    }

    /// Checks that the server runs.
    ///
    /// # Errors
    /// Its process has ended.
    pub fn check(&mut self) -> Result<()> {
        match self.process.as_mut().map(Process::fate) {
            None | Some("") => Ok(()),
            Some(_) => bail!("the server ended in the middle of a trial"),
        }
    }

    /// Starts to sample it, with files in `folder`; the window begins later. The load is to come in intervals of `tick`.
    ///
    /// # Errors
    /// It is not one that the campaign started; perf cannot sample.
    pub fn start_sampler(&mut self, folder: &Path, tick: Duration) -> Result<()> {
        if self.components.is_none() {
            bail!("not available: a running server is not profiled; the lab profiles those that it starts");
        }
        self.sampler = Some((Sampler::start(folder)?, tick));
        Ok(())
    }

    /// Interval of the load; `None` if it comes at its planned times.
    pub fn tick(&self) -> Option<Duration> {
        self.sampler.as_ref().map(|(_, tick)| *tick)
    }

    /// Its sampler, if it has one.
    pub fn sampler(&mut self) -> Option<&mut Sampler> {
        self.sampler.as_mut().map(|(sampler, _)| sampler)
    }

    /// Takes what samples it: a further load is not sampled.
    pub fn take_sampler(&mut self) -> Option<Sampler> {
        self.sampler.take().map(|(sampler, _)| sampler)
    }

    /// Ends the sampling of this server, and sums its samples.
    ///
    /// # Errors
    /// perf failed; the server has ended, or is not one that the campaign started.
    pub fn split(&self, sampler: Sampler) -> Result<Split> {
        let (process, table) =
            self.process.as_ref().zip(self.components).context("it was not started here")?;
        let family = process.family()?;
        let number = |pid: &rustix::process::Pid| u32::try_from(pid.as_raw_nonzero().get()).ok();
        let server = family.iter().filter_map(number).collect();
        sampler.finish(Processes { server, generator: std::process::id() }, table()?)
    }

    /// True if the campaign has started it, in the configuration of the variant.
    pub const fn is_started(&self) -> bool {
        self.process.is_some()
    }

    /// Number of users that the server has.
    pub const fn users(&self) -> u32 {
        self.users
    }

    /// Takes `count` users that no earlier load had; when all are used, again from the first one on.
    pub const fn take_users(&mut self, count: u32) -> u32 {
        let is_left = self.next_user.saturating_add(count) <= self.users;
        let first = if is_left { self.next_user } else { 0 };
        self.next_user = first + count;
        first
    }
}

fn running(name: &str, address: SocketAddr, site: &Site) -> Result<Server> {
    let version = wait_for_options(address, REMOTE_WAIT)?;
    let record = record::Target {
        target: name.to_owned(),
        version,
        command: "a running server".to_owned(),
        settings: String::new(),
    };
    Ok(Server {
        process: None,
        address,
        secure: None,
        domain: site.domain.clone(),
        password: site.password.clone(),
        rest: FINISHING,
        record,
        users: u32::MAX,
        next_user: 0,
        reader: None,
        components: None,
        sampler: None,
    })
}

fn settings(variant: &Variant, store: Store, users: u32, secure: Option<StreamListener>) -> Settings {
    let touches_memory = !variant.measures_memory;
    let (routing, challenge, nonces) = (variant.routing, variant.digest, variant.nonces);
    let presence = matches!(variant.flow, Flow::Subscribe | Flow::Publish);
    Settings { store, challenge, nonces, presence, touches_memory, secure, ..Settings::open(users, routing) }
}

/// Text of a configuration, the same for each start: without ports and folder.
fn read_settings(folder: &Path, file: &str, port: u16, secure: Option<&StreamListener>) -> String {
    let text = fs::read_to_string(folder.join(file)).unwrap_or_default();
    let text = text.replace(&folder.display().to_string(), "FOLDER").replace(&port.to_string(), "PORT");
    let text = match secure {
        Some(listener) => text.replace(&listener.port.to_string(), "STREAMS"),
        None => text,
    };
    let is_kept = |line: &&str| !line.starts_with("listen = \"127.0.0.1:");
    text.lines().filter(is_kept).collect::<Vec<_>>().join("\n")
}

/// Adapters.
const NAMES: [&str; 5] = ["ringway", "ringway-uncontrolled", "kamailio", "kamailio-default", "opensips"];
/// Most time until a server that has started answers.
const ANSWER_WAIT: Duration = Duration::from_secs(10);
/// Most time until a running server answers.
const REMOTE_WAIT: Duration = Duration::from_secs(2);
/// Time within which Ringway writes bindings with relaxed durability.
const WRITING: Duration = Duration::from_millis(1300);
/// The same for other servers, which only finish what they do.
const FINISHING: Duration = Duration::from_millis(200);

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn site() -> Site {
        let environment = Environment {
            ringway: PathBuf::new(),
            kamailio: None,
            opensips: None,
            floor_command: Environment::no_floor,
            folder: PathBuf::new(),
        };
        Site { environment, domain: String::new(), password: String::new(), database: None, sources: 1 }
    }

    #[test]
    fn targets_are_adapters_or_addresses_that_are_permitted() {
        let parse = |name: &str| Target::parse(name, &["192.0.2.1".parse().unwrap()]);
        assert!(parse("kamailio").unwrap().is_program());
        assert!(!parse("127.0.0.1:5070").unwrap().is_program());
        assert!(parse("192.0.2.1:5060").is_ok());
        let refused = |name: &str| parse(name).unwrap_err().to_string();
        assert!(refused("kamalio").ends_with("did you mean `kamailio`?"));
        assert!(parse("opensips").unwrap().is_program());
        assert!(refused("asterisk").contains("HOST:PORT"));
        assert!(refused("127.0.0.1:x").contains("is not HOST:PORT"));
        assert!(refused("192.0.2.2:5060").contains("--allow-remote 192.0.2.2"));
    }

    #[test]
    fn a_missing_program_names_the_remedy() {
        let obstacle = |name: &str| Target::parse(name, &[]).unwrap().obstacle(&site());
        assert!(obstacle("kamailio").unwrap().contains("apt-get install kamailio"));
        assert!(obstacle("opensips").unwrap().contains("Debian has none"));
        assert_eq!(obstacle("127.0.0.1:5060"), None);
    }

    #[test]
    fn users_are_fresh_until_all_are_used() {
        // A socket that answers OPTIONS once.
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        let answer = std::thread::spawn(move || {
            let (_, from) = socket.recv_from(&mut [0; 2048]).unwrap();
            socket.send_to(b"SIP/2.0 200 OK\r\nServer: small (1)\r\n\r\n", from).unwrap();
        });
        let mut server = running("small", address, &site()).unwrap();
        answer.join().unwrap();
        assert_eq!(server.record.version, "small (1)");
        server.users = 25;
        let firsts: Vec<u32> = (0..4).map(|_| server.take_users(10)).collect();
        assert_eq!(firsts, [0, 10, 0, 10]);
    }
}
