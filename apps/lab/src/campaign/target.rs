//! Servers of a campaign: programs that it starts, and addresses of running ones.

use super::experiment::Variant;
use super::server::{Server, Source, Started};
use crate::agent::{AgentAccess, Remote, RemoteServer, RemoteTls};
use crate::load::{self, Flow};
use crate::record;
use crate::server::program::{Program, ServerSetup};
use crate::server::{self, Database, Environment, Store, StreamListener, wait_for_options};
use crate::tls::{Authority, SideTls, save_authority};
use anyhow::{Context, Result, bail};
use ringway_settings::nearest;
use std::cell::Cell;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
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
    Program(Program),
    /// A running server.
    Address(SocketAddr),
    /// A server at an agent with this address.
    Agent {
        agent: SocketAddr,
        /// The program that it starts; `None`: a running server of its list.
        program: Option<Program>,
    },
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
    /// Access to agents, which targets at agents need.
    pub agents: Option<AgentAccess>,
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
        let store = Store::Database(filled.database.clone());
        let settings = setup(variant, users).settings(Ipv4Addr::LOCALHOST.into(), store, None);
        self.environment.import_users(&settings).map(drop)
    }

    /// Authority of a variant with TLS.
    fn authority(&self, variant: &Variant) -> Result<Authority> {
        // A build that cannot offer it need not start a server.
        variant.tls.offer()?;
        Authority::make(&self.environment.folder, variant.tls.key)
    }

    /// Addresses of the callers and called users towards a server.
    fn users_towards(&self, server: SocketAddr) -> Vec<IpAddr> {
        let first = load::local_towards(server);
        load::Locals { first, sources: self.sources.max(1), sockets: 1 }.addresses().collect()
    }

    /// Store of a server for a variant: the database if it reads one.
    fn store(&self, variant: &Variant) -> Store {
        match &self.database {
            Some(filled) if variant.reads_database() => Store::Database(filled.database.clone()),
            Some(_) | None => Store::Memory,
        }
    }
}

impl Target {
    /// Reads the name of a target: one of the programs, `HOST:PORT`, or `NAME@HOST:PORT` for a server at an agent.
    ///
    /// # Errors
    /// None of them; a host that is not permitted.
    pub fn parse(name: &str, allowed_hosts: &[IpAddr]) -> Result<Self> {
        let names = Program::ALL.map(|(name, _)| name);
        let kind = match (Program::by_name(name), name.rsplit_once('@')) {
            (Some(program), _) => TargetKind::Program(program),
            (None, Some(("", _))) => bail!("{name:?} has no server; give NAME@HOST:PORT"),
            (None, Some((server, agent))) => {
                let agent = load::resolve(agent, allowed_hosts)?;
                TargetKind::Agent { agent, program: Program::by_name(server) }
            }
            (None, None) if name.contains(':') => TargetKind::Address(load::resolve(name, allowed_hosts)?),
            (None, None) => match nearest(name, &names) {
                Some(known) => bail!("no target is named {name:?}; did you mean `{known}`?"),
                None => bail!(
                    "no target is named {name:?}; give {}, for a running server HOST:PORT, or for one at an agent NAME@HOST:PORT",
                    names.join(", ")
                ),
            },
        };
        Ok(Self { name: name.to_owned(), kind })
    }

    /// Reason why this target cannot be measured, and the remedy.
    pub fn obstacle(&self, site: &Site) -> Option<String> {
        match self.kind {
            TargetKind::Program(program) => program.obstacle(&site.environment).map(str::to_owned),
            TargetKind::Agent { .. } if site.agents.is_none() => {
                Some(format!("{} is at an agent: give its key with --agent-key FILE", self.name))
            }
            TargetKind::Address(_) | TargetKind::Agent { .. } => None,
        }
    }

    /// True if it can be started in the configuration of a variant.
    pub const fn is_program(&self) -> bool {
        matches!(self.kind, TargetKind::Program(_) | TargetKind::Agent { program: Some(_), .. })
    }

    /// True if it is at an agent.
    pub const fn is_at_agent(&self) -> bool {
        matches!(self.kind, TargetKind::Agent { .. })
    }

    /// Starts the server for a variant, with `users` users if it challenges; those of a database are there already. Waits until it
    /// answers OPTIONS.
    ///
    /// # Errors
    /// It is not installed, does not start, or does not answer with SIP; its agent is away.
    pub fn start(&self, site: &Site, variant: &Variant, users: u32) -> Result<Server> {
        if let Some(obstacle) = self.obstacle(site) {
            bail!(obstacle);
        }
        if !self.is_program() && variant.carrier.has_own_listener() {
            bail!(
                "not available: running servers are measured over UDP and TCP; for {} take `ringway lab load`",
                variant.carrier.name()
            );
        }
        match self.kind {
            TargetKind::Address(address) => running(&self.name, address, site),
            TargetKind::Program(program) => self.start_here(program, site, variant, users),
            TargetKind::Agent { agent, program } => {
                let access = site.agents.as_ref().context("no key of an agent is given")?;
                let name = self.name.rsplit_once('@').map_or("", |(name, _)| name);
                if variant.reads_database() {
                    bail!("not available: a server at an agent reads no passwords from a database");
                }
                match program {
                    Some(_) => self.start_there(access, (agent, name), site, variant, users),
                    None => self.watch_there(access, (agent, name), site),
                }
            }
        }
    }

    fn start_here(&self, program: Program, site: &Site, variant: &Variant, users: u32) -> Result<Server> {
        let (carrier, host) = (variant.carrier, IpAddr::from(Ipv4Addr::LOCALHOST));
        let sides = carrier.is_secure().then(|| {
            let authority = site.authority(variant)?;
            let server = authority.server(host, authority.certificate())?;
            let users = authority.users(&site.users_towards((host, 0).into()), authority.certificate())?;
            let side = |files| SideTls { tls: variant.tls.clone(), files };
            Ok::<_, anyhow::Error>((side(server), side(users)))
        });
        let (server_tls, tls) = sides.transpose()?.unzip();
        let secure = StreamListener::open(host, carrier, server_tls)?;
        let stream_port = secure.as_ref().map(|listener| listener.port);
        let settings = setup(variant, users).settings(host, site.store(variant), secure);
        let started = program.start(&site.environment, settings, carrier)?;
        let process = Started { process: started.process, program, sampler: None };
        Ok(Server {
            stream_port,
            tls,
            domain: server::DOMAIN.to_owned(),
            password: server::PASSWORD.to_owned(),
            rest: program.rest(),
            record: record::Target { target: self.name.clone(), ..started.record },
            users,
            reader: started.reader,
            ..Server::of(Source::Process(Box::new(process)), started.address)
        })
    }

    /// Has an agent start a program. With TLS each side makes its own authority and keys; only certificates of authorities are sent.
    fn start_there(
        &self,
        access: &AgentAccess,
        (agent, name): (SocketAddr, &str),
        site: &Site,
        variant: &Variant,
        users: u32,
    ) -> Result<Server> {
        let setup = setup(variant, users);
        let authority = variant.carrier.is_secure().then(|| site.authority(variant)).transpose()?;
        let der = authority.as_ref().map(Authority::der).transpose()?;
        let tls = der.as_deref().map(|authority| RemoteTls { tls: &variant.tls, authority });
        let remote = access.start(agent, RemoteServer::Program { name, setup: &setup, tls })?;
        wait_for_options(remote.address(), ANSWER_WAIT)?;
        let tls = authority.map(|authority| {
            let folder = &site.environment.folder;
            let file = format!("agent-{}-{}", agent.ip(), remote.address().port());
            let peer_ca = save_authority(folder, &file, &remote.authority()?)?;
            let files = authority.users(&site.users_towards(agent), peer_ca)?;
            Ok::<_, anyhow::Error>(SideTls { tls: variant.tls.clone(), files })
        });
        Ok(Server {
            stream_port: remote.stream_port(),
            tls: tls.transpose()?,
            domain: server::DOMAIN.to_owned(),
            password: server::PASSWORD.to_owned(),
            rest: remote.rest(),
            record: record::Target { target: self.name.clone(), ..remote.record() },
            users,
            ..at_agent(remote, true)
        })
    }

    /// Has an agent watch a running server.
    fn watch_there(
        &self,
        access: &AgentAccess,
        (agent, name): (SocketAddr, &str),
        site: &Site,
    ) -> Result<Server> {
        let remote = access.start(agent, RemoteServer::Running { name })?;
        let version = wait_for_options(remote.address(), REMOTE_WAIT)?;
        Ok(Server {
            domain: site.domain.clone(),
            password: site.password.clone(),
            rest: remote.rest(),
            record: record::Target { target: self.name.clone(), version, ..remote.record() },
            ..at_agent(remote, false)
        })
    }
}

fn at_agent(remote: Remote, is_started: bool) -> Server {
    let address = remote.address();
    Server::of(Source::Agent { remote: Box::new(remote), is_started }, address)
}

fn running(name: &str, address: SocketAddr, site: &Site) -> Result<Server> {
    let version = wait_for_options(address, REMOTE_WAIT)?;
    let record = record::Target {
        target: name.to_owned(),
        version,
        command: "a running server".to_owned(),
        ..record::Target::default()
    };
    let (domain, password) = (site.domain.clone(), site.password.clone());
    Ok(Server { domain, password, record, ..Server::of(Source::Address, address) })
}

/// Values of a configuration for a variant.
fn setup(variant: &Variant, users: u32) -> ServerSetup {
    ServerSetup {
        users,
        routing: variant.routing,
        digest: variant.digest,
        nonces: variant.nonces,
        presence: matches!(variant.flow, Flow::Subscribe | Flow::Publish),
        touches_memory: !variant.measures_memory,
        carrier: variant.carrier,
    }
}

/// Most time until a server that an agent has started answers.
const ANSWER_WAIT: Duration = Duration::from_secs(10);
/// Most time until a running server answers.
const REMOTE_WAIT: Duration = Duration::from_secs(2);

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
        let (domain, password) = (String::new(), String::new());
        Site { environment, domain, password, database: None, sources: 1, agents: None }
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
        // At agents.
        let at = |name: &str| parse(name).map(|target| (target.is_program(), target.is_at_agent())).unwrap();
        assert_eq!(at("kamailio-default@192.0.2.1:8061"), (true, true));
        assert_eq!(at("pbx@127.0.0.1:8061"), (false, true));
        assert_eq!(at("ringway"), (true, false));
        assert!(refused("ringway@192.0.2.2:8061").contains("--allow-remote 192.0.2.2"));
        assert!(refused("ringway@127.0.0.1").contains("HOST:PORT"));
        assert!(refused("@127.0.0.1:8061").contains("NAME@HOST:PORT"));
    }

    #[test]
    fn a_missing_program_names_the_remedy() {
        let obstacle = |name: &str| Target::parse(name, &[]).unwrap().obstacle(&site());
        assert!(obstacle("kamailio").unwrap().contains("apt-get install kamailio"));
        assert!(obstacle("opensips").unwrap().contains("Debian has none"));
        assert_eq!(obstacle("127.0.0.1:5060"), None);
        assert!(obstacle("ringway@127.0.0.1:8061").unwrap().contains("--agent-key FILE"));
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
