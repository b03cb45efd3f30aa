//! A server under measurement: Ringway, Kamailio or the floor, with its configuration and start.

use crate::call::{Calls, Carried};
use crate::closed_loop::{Extent, Outcome, drive};
use crate::digest::{Algorithm, PASSWORD};
use crate::floor::Kind;
use crate::open_loop::{Delays, Pace, drive_at};
use crate::process::Process;
use crate::refused::{Ending, Refusals};
use crate::register::{Expect, Refresh, Walk};
use crate::template::{Carrier, DOMAIN};
use crate::wire::{Connections, PHONE_SOCKETS, Phones};
use anyhow::{Context, Result, bail};
use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// A measured operation with all its messages in both directions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    /// A REGISTER that refreshes a binding, over UDP.
    Refresh(Expect),
    /// The same over 200 TCP connections.
    RefreshByTcp(Expect),
    /// INVITE, 100, 180, 200, ACK, BYE, 200.
    Call(Carried),
    /// INVITE, final response, ACK.
    Refuse(Ending),
}

/// A running server with its phones.
pub struct Subject {
    /// The server.
    pub process: Process,
    phones: Phones,
    ports: [u16; PHONE_SOCKETS],
    /// Address of the server for UDP and TCP (of the floor for one of them).
    address: SocketAddrV4,
    registering: Walk,
    calling: Walk,
}

impl Subject {
    /// Runs an operation.
    pub fn run(&mut self, operation: Operation, extent: Extent) -> Result<Outcome> {
        let Self { process, phones, ports, address, registering, calling } = self;
        let mut server_ns = || process.cpu_ns();
        let outcome = match operation {
            Operation::Refresh(expect) => {
                let mut scenario = Refresh::new(registering, *ports, Carrier::Udp, expect);
                drive(phones, &mut scenario, extent, &mut server_ns)
            }
            Operation::RefreshByTcp(expect) => {
                let mut scenario = Refresh::new(registering, *ports, Carrier::Tcp, expect);
                drive(&mut Connections::open(*address)?, &mut scenario, extent, &mut server_ns)
            }
            Operation::Call(carried) => {
                drive(phones, &mut Calls::new(calling, *ports, carried), extent, &mut server_ns)
            }
            Operation::Refuse(ending) => {
                drive(phones, &mut Refusals::new(calling, *ports, ending), extent, &mut server_ns)
            }
        };
        outcome.with_context(|| format!("{operation:?}{}", process.fate()))
    }

    /// Sends REGISTERs over UDP at `pace`; returns their delays.
    pub fn delays(&mut self, expect: Expect, pace: Pace) -> Result<Delays> {
        let mut scenario = Refresh::new(&mut self.registering, self.ports, Carrier::Udp, expect);
        let delays = drive_at(&mut self.phones, &mut scenario, pace);
        delays.with_context(|| format!("{pace:?}{}", self.process.fate()))
    }

    /// Port of the server.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Registers every user once.
    pub fn register_all(&mut self, expect: Expect) -> Result<()> {
        let users = u64::from(self.registering.users());
        self.run(Operation::Refresh(expect), Extent::Operations(users)).context("register all users")?;
        Ok(())
    }

    /// Ends the server.
    pub fn stop(&mut self) -> Result<()> {
        self.process.stop()
    }
}

/// Store of a Ringway server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Store {
    /// No store on a disk.
    Memory,
    /// SQLite in this file, with relaxed durability.
    Sqlite(PathBuf),
}

/// Handling of INVITEs by a Ringway server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Routing {
    /// Proxy with transactions.
    Stateful,
    /// Proxy without transactions.
    Stateless,
    /// Redirect server.
    Redirect,
}

/// Configuration of a Ringway server.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Number of users, a multiple of four.
    pub users: u32,
    /// Its store.
    pub store: Store,
    /// Its routing.
    pub routing: Routing,
    /// Algorithm of the challenges for all users; `None` disables authentication.
    pub challenge: Option<Algorithm>,
}

impl Settings {
    /// Settings without store and authentication.
    pub fn open(users: u32, routing: Routing) -> Self {
        Self { users, store: Store::Memory, routing, challenge: None }
    }

    fn toml(&self, sip: u16, admin: u16) -> String {
        let store = match &self.store {
            Store::Memory => "memory:".to_owned(),
            Store::Sqlite(path) => format!("sqlite://{}", path.display()),
        };
        let (mode, stateful) = match self.routing {
            Routing::Stateful => ("proxy", true),
            Routing::Stateless => ("proxy", false),
            Routing::Redirect => ("redirect", true),
        };
        let auth = match self.challenge {
            None => "enabled = false".to_owned(),
            Some(algorithm) => format!("enabled = true\nalgorithms = [\"{}\"]", algorithm.name()),
        };
        format!(
            "domains = [\"{DOMAIN}\"]\nlisten = [\"udp:127.0.0.1:{sip}\", \"tcp:127.0.0.1:{sip}\"]\nworkers = 1\n\
             [store]\nurl = \"{store}\"\ndurability = \"relaxed\"\n[auth]\n{auth}\n\
             [routing]\nmode = \"{mode}\"\nstateful = {stateful}\nrecord_route = true\n\
             [limits]\nper_source_rate = 0\n[admin]\nlisten = \"127.0.0.1:{admin}\"\n[log]\nlevel = \"warn\"\n"
        )
    }
}

/// Program under which a server runs.
#[derive(Clone, Copy, Debug)]
pub enum Under<'a> {
    /// None, as users run it.
    Itself,
    /// callgrind, which writes its counts to this file.
    Callgrind(&'a Path),
}

/// Programs to measure, and a folder for files.
pub struct Environment {
    /// Ringway's release binary.
    pub ringway: PathBuf,
    /// Kamailio, if it is installed.
    pub kamailio: Option<PathBuf>,
    /// Creates the command that runs [`floor::serve`](crate::floor::serve); kind and ports of the phones are
    /// appended.
    pub floor_command: fn() -> Result<Command>,
    /// Folder for configurations, logs and databases.
    pub folder: PathBuf,
}

impl Environment {
    /// Starts Ringway on a free port.
    pub fn ringway(&self, settings: &Settings, under: Under<'_>) -> Result<Subject> {
        let port = free_port()?;
        let process = self.start_ringway(settings, port, under)?;
        subject(process, port, Phones::bind()?, settings.users)
    }

    /// Restarts Ringway, possibly with another configuration; returns the time until it is ready.
    pub fn restart(&self, subject: &mut Subject, settings: &Settings) -> Result<Duration> {
        subject.stop()?;
        let begun = Instant::now();
        subject.process = self.start_ringway(settings, subject.address.port(), Under::Itself)?;
        Ok(begun.elapsed())
    }

    /// Imports all users of `settings`; returns the duration.
    pub fn import_users(&self, settings: &Settings) -> Result<Duration> {
        let list = self.folder.join("users.csv");
        write_users(&list, settings.users).with_context(|| list.display().to_string())?;
        let configuration = self.write_configuration(settings, free_port()?)?;
        let begun = Instant::now();
        self.command(&configuration, &["user", "import", &list.to_string_lossy()])?;
        Ok(begun.elapsed())
    }

    /// Runs a command of Ringway to its end; returns its standard output.
    pub fn command(&self, configuration: &Path, arguments: &[&str]) -> Result<Vec<u8>> {
        let mut command = Command::new(&self.ringway);
        command.args(arguments).arg("--config").arg(configuration);
        let output = command.output().context("run ringway")?;
        if !output.status.success() {
            let error = String::from_utf8_lossy(&output.stderr);
            bail!("ringway {}: {}", arguments.join(" "), error.trim());
        }
        Ok(output.stdout)
    }

    /// Starts Kamailio with its location table in memory, one worker for the transport and no log; of `settings` it has the
    /// users, the routing and whether it authenticates (with MD5). Its shared memory is touched at the start, so that page
    /// faults are not measured.
    pub fn kamailio(&self, program: &Path, settings: &Settings, carrier: Carrier) -> Result<Subject> {
        let (port, users) = (free_port()?, settings.users);
        let configuration = self.folder.join(format!("kamailio-{port}.cfg"));
        fs::write(&configuration, kamailio_configuration(port, settings, carrier))
            .with_context(|| configuration.display().to_string())?;
        // About 1.1 kB for each binding, and memory for the transactions of a run.
        let shared_mb = 768 + users / 500;
        let mut command = Command::new(program);
        command.arg("-f").arg(&configuration).args(["-DD", "-E", "-x", "tlsf", "-M", "16", "-m"]);
        command.arg(shared_mb.to_string()).arg("-w").arg(&self.folder);
        let process = Process::start("kamailio", &mut command, &self.folder.join("kamailio.log"))?;
        wait_for_options(SocketAddrV4::new(Ipv4Addr::LOCALHOST, port))
            .with_context(|| self.last_words("kamailio.log"))?;
        subject(process, port, Phones::bind()?, users)
    }

    /// Starts the floor for the phones of the generator.
    pub fn floor(&self, kind: Kind, users: u32) -> Result<Subject> {
        let phones = Phones::bind()?;
        let ports = phones.ports()?;
        self.start_floor(kind, &ports, phones, users)
    }

    /// Starts the floor for phones of another program at these ports.
    pub fn floor_between(&self, kind: Kind, ports: &[u16]) -> Result<Subject> {
        self.start_floor(kind, ports, Phones::bind()?, 1)
    }

    fn start_floor(&self, kind: Kind, ports: &[u16], phones: Phones, users: u32) -> Result<Subject> {
        let mut command = (self.floor_command)()?;
        command.arg(kind.name());
        command.args(ports.iter().map(u16::to_string));
        let mut process = Process::start("floor", &mut command, &self.folder.join("floor.log"))?;
        let line = process.ready()?;
        let port = line
            .rsplit_once(':')
            .and_then(|(_, port)| port.trim().parse().ok())
            .with_context(|| format!("the floor printed {line:?}, which has no port"))?;
        subject(process, port, phones, users)
    }

    fn start_ringway(&self, settings: &Settings, port: u16, under: Under<'_>) -> Result<Process> {
        let configuration = self.write_configuration(settings, port)?;
        self.serve(&configuration, under)
    }

    /// Starts Ringway with this configuration.
    pub fn serve(&self, configuration: &Path, under: Under<'_>) -> Result<Process> {
        let mut command = match under {
            Under::Itself => Command::new(&self.ringway),
            Under::Callgrind(counts) => {
                let mut command = Command::new("valgrind");
                command.arg("--tool=callgrind").arg(format!("--callgrind-out-file={}", counts.display()));
                command.arg(&self.ringway);
                command
            }
        };
        command.args(["serve", "--config"]).arg(configuration).current_dir(&self.folder);
        let mut process = Process::start("ringway", &mut command, &self.folder.join("ringway.log"))?;
        process.ready().with_context(|| self.last_words("ringway.log"))?;
        Ok(process)
    }

    fn write_configuration(&self, settings: &Settings, port: u16) -> Result<PathBuf> {
        let path = self.folder.join(format!("ringway-{port}.toml"));
        fs::write(&path, settings.toml(port, free_port()?)).with_context(|| path.display().to_string())?;
        Ok(path)
    }

    /// Last line of a server's log.
    fn last_words(&self, log: &str) -> String {
        let text = fs::read_to_string(self.folder.join(log)).unwrap_or_default();
        text.lines().next_back().unwrap_or("the log is empty").to_owned()
    }
}

fn subject(process: Process, port: u16, phones: Phones, users: u32) -> Result<Subject> {
    let address = SocketAddrV4::new(Ipv4Addr::LOCALHOST, port);
    phones.connect(address)?;
    let ports = phones.ports()?;
    Ok(Subject { process, phones, ports, address, registering: Walk::new(users), calling: Walk::new(users) })
}

/// A port that is currently free for UDP and TCP.
pub fn free_port() -> Result<u16> {
    for _ in 0..100 {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("find a free port")?;
        let port = listener.local_addr().context("find a free port")?.port();
        if UdpSocket::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Ok(port);
        }
    }
    bail!("found no port that is free for both UDP and TCP")
}

/// Writes a list of `users` users in the format of `ringway user import`.
pub fn write_users(path: &Path, users: u32) -> std::io::Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    writeln!(file, "username,password")?;
    for user in 0..users {
        writeln!(file, "u{user:07},{PASSWORD}")?;
    }
    file.flush()
}

/// Sends OPTIONS until a response arrives.
fn wait_for_options(server: SocketAddrV4) -> Result<()> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).context("bind a socket")?;
    socket.connect(server).context("connect a socket")?;
    socket.set_read_timeout(Some(Duration::from_millis(100))).context("set a socket")?;
    let from = socket.local_addr().context("read a port")?;
    let question = format!(
        "OPTIONS sip:{server} SIP/2.0\r\nVia: SIP/2.0/UDP {from};branch=z9hG4bKready;rport\r\nMax-Forwards: 70\r\n\
         From: <sip:probe@{from}>;tag=1\r\nTo: <sip:{server}>\r\nCall-ID: ready\r\nCSeq: 1 OPTIONS\r\n\
         Content-Length: 0\r\n\r\n"
    );
    let until = Instant::now() + Duration::from_secs(60);
    while Instant::now() < until {
        // Until the server has bound its port, sending and receiving may fail.
        let sent = socket.send(question.as_bytes());
        if sent.is_ok() && socket.recv(&mut [0; 2048]).is_ok() {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    bail!("the server at {server} did not answer OPTIONS")
}

fn kamailio_configuration(port: u16, settings: &Settings, carrier: Carrier) -> String {
    let transports = match carrier {
        Carrier::Udp => "disable_tcp=yes".to_owned(),
        Carrier::Tcp => format!("tcp_children=1\nlisten=tcp:127.0.0.1:{port}"),
    };
    let forward = match settings.routing {
        Routing::Stateless => "forward();",
        Routing::Stateful | Routing::Redirect => "t_relay();",
    };
    let (auth, check) = match settings.challenge {
        None => ("", String::new()),
        Some(_) => (
            "loadmodule \"auth.so\"\n",
            format!(
                "if (!pv_www_authenticate(\"{DOMAIN}\", \"{PASSWORD}\", \"0\")) {{ www_challenge(\"{DOMAIN}\", \"1\"); exit; }}"
            ),
        ),
    };
    format!(
        r#"#!KAMAILIO
debug=-1
log_stderror=yes
fork=yes
children=1
shm_force_alloc=yes
auto_aliases=no
{transports}
listen=udp:127.0.0.1:{port}
alias="{DOMAIN}"
loadmodule "tm.so"
loadmodule "sl.so"
loadmodule "rr.so"
loadmodule "pv.so"
loadmodule "maxfwd.so"
loadmodule "siputils.so"
loadmodule "usrloc.so"
loadmodule "registrar.so"
{auth}modparam("usrloc", "db_mode", 0)
modparam("usrloc", "hash_size", 16)
modparam("registrar", "max_expires", 7200)
request_route {{
    if (!mf_process_maxfwd_header("10")) {{ sl_send_reply("483", "Too Many Hops"); exit; }}
    if (method == "REGISTER") {{ {check} save("location"); exit; }}
    if (method == "OPTIONS" && uri==myself) {{ sl_send_reply("200", "OK"); exit; }}
    if (has_totag()) {{
        if (loose_route()) {{ {forward} exit; }}
        if (method == "ACK") {{ if (t_check_trans()) {{ t_relay(); }} exit; }}
        sl_send_reply("404", "Not here");
        exit;
    }}
    if (method == "INVITE") {{ record_route(); }}
    if (!lookup("location")) {{ sl_send_reply("404", "Not Found"); exit; }}
    {forward}
}}
"#
    )
}
