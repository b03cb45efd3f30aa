//! Servers as programs: configuration, users (domain, password, digest algorithm, transport) and start of Ringway,
//! Kamailio and OpenSIPS.

mod kamailio;
mod opensips;
mod overload;
pub mod program;

use crate::load::Transport;
use crate::process::Process;
use crate::tls::SideTls;
use anyhow::{Context, Result, bail};
use kamailio::kamailio_configuration;
use opensips::opensips_configuration;
pub use overload::OverloadUse;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Store of a Ringway server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Store {
    /// No store on a disk.
    Memory,
    /// SQLite in this file, with relaxed durability.
    Sqlite(PathBuf),
    /// Tables of a database, from which each request with a password reads it.
    Database(Database),
}

/// Database on a server that the lab does not start.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Database {
    /// `postgres://USER@HOST/NAME` or `mysql://USER@HOST/NAME`, without a password.
    pub url: String,
    /// File with the user's password in its first line.
    pub password_file: Option<PathBuf>,
}

/// Handling of INVITEs by a Ringway server.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Routing {
    /// Proxy with transactions.
    Stateful,
    /// Proxy without transactions.
    Stateless,
    /// Redirect server.
    Redirect,
}

/// Use of the nonces of a server's challenges.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NonceUse {
    /// A nonce is used many times, with a counter, or is checked without state.
    #[default]
    Count,
    /// A nonce is used once: the server keeps each until it is used or has expired.
    Once,
}

/// Trunks, routes and rules of a Ringway server, for calls between its own users.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rules {
    /// None.
    Absent,
    /// A trunk, [`ROUTES`] routes by prefix, rules for destinations, recursion, a domain of another registrar; and with
    /// [`Environment::prepare_store`] forwards and block lists. None applies to a call between the users.
    Present,
}

/// Number of routes of [`Rules::Present`].
pub const ROUTES: u32 = 100;

/// Configuration of a Ringway server.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Address that it listens on.
    pub host: IpAddr,
    /// Number of users, a multiple of four.
    pub users: u32,
    /// Its store.
    pub store: Store,
    /// Its routing.
    pub routing: Routing,
    /// Algorithm of the challenges for all users; `None` disables authentication.
    pub challenge: Option<Algorithm>,
    /// Use of the nonces of its challenges.
    pub nonces: NonceUse,
    /// It serves subscriptions and publications.
    pub presence: bool,
    /// Its trunks, routes and rules.
    pub rules: Rules,
    /// Kamailio touches its shared memory at the start, so that page faults are not measured. Then its memory tells nothing.
    pub touches_memory: bool,
    /// Its listener for TLS or WebSocket.
    pub secure: Option<StreamListener>,
    /// Overload control of a Ringway server.
    pub overload: OverloadUse,
}

/// Listener of a server besides those for UDP and TCP.
#[derive(Clone, Debug)]
pub struct StreamListener {
    /// Its transport: TLS, or WebSocket over TCP or TLS.
    pub carrier: Carrier,
    /// Its port.
    pub port: u16,
    /// TLS of a secure transport.
    pub tls: Option<SideTls>,
}

impl StreamListener {
    /// The listener of a transport on a free port of `host`; `None` for UDP and TCP, which each server has.
    ///
    /// # Errors
    /// As [`free_port_at`].
    pub fn open(host: IpAddr, carrier: Carrier, tls: Option<SideTls>) -> Result<Option<Self>> {
        let port = carrier.has_own_listener().then(|| free_port_at(host)).transpose()?;
        Ok(port.map(|port| Self { carrier, port, tls }))
    }
}

impl Settings {
    /// Settings without store and authentication, on loopback.
    pub fn open(users: u32, routing: Routing) -> Self {
        let (store, rules) = (Store::Memory, Rules::Absent);
        Self {
            host: Ipv4Addr::LOCALHOST.into(),
            users,
            store,
            routing,
            challenge: None,
            nonces: NonceUse::Count,
            presence: false,
            rules,
            touches_memory: true,
            secure: None,
            overload: OverloadUse::Patient,
        }
    }

    fn toml(&self, folder: &Path, sip: u16, admin: u16) -> String {
        let store = match &self.store {
            Store::Memory => "url = \"memory:\"".to_owned(),
            Store::Sqlite(path) => format!("url = \"sqlite://{}\"", path.display()),
            Store::Database(database) => database.toml(&folder.join(format!("ringway-{sip}.db"))),
        };
        let (mode, stateful) = match self.routing {
            Routing::Stateful => ("proxy", true),
            Routing::Stateless => ("proxy", false),
            Routing::Redirect => ("redirect", true),
        };
        let auth = match self.challenge {
            None => "enabled = false".to_owned(),
            Some(algorithm) => {
                let nonces = match self.nonces {
                    NonceUse::Count => "",
                    NonceUse::Once => "\nnonce_use = \"once\"",
                };
                format!("enabled = true\nalgorithms = [\"{}\"]{nonces}", algorithm.name())
            }
        };
        let presence = if self.presence { "[presence]\nenabled = true\n" } else { "" };
        let overload = self.overload.toml();
        let (routing, rules) = match self.rules {
            Rules::Absent => (String::new(), String::new()),
            Rules::Present => rules_toml(),
        };
        let (listener, tls) = match &self.secure {
            None => (String::new(), String::new()),
            Some(StreamListener { carrier, port, tls }) => {
                let name = carrier.name();
                let tls = tls.as_ref().map_or_else(String::new, SideTls::ringway);
                (format!(", \"{name}:{}\"", SocketAddr::new(self.host, *port)), tls)
            }
        };
        let sip = SocketAddr::new(self.host, sip);
        format!(
            "domains = [\"{DOMAIN}\"]\nlisten = [\"udp:{sip}\", \"tcp:{sip}\"{listener}]\nworkers = 1\n\
             [store]\n{store}\ndurability = \"relaxed\"\n[auth]\n{auth}\n\
             [routing]\nmode = \"{mode}\"\nstateful = {stateful}\nrecord_route = true\n{routing}\
             [limits]\nper_source_rate = 0\n[admin]\nlisten = \"127.0.0.1:{admin}\"\n[log]\nlevel = \"warn\"\n\
             {presence}{overload}{tls}{rules}"
        )
    }
}

impl Database {
    /// Keys of `[store]`, with a copy in this file.
    fn toml(&self, copy: &Path) -> String {
        let (url, copy) = (&self.url, copy.display());
        let password = self.password_file.as_ref();
        let password =
            password.map_or_else(String::new, |file| format!("password_file = \"{}\"\n", file.display()));
        format!("url = \"{url}\"\n{password}copy = \"{copy}\"\ndanger_lookup = \"per-request\"")
    }

    /// Password of the user; empty without one.
    fn password(&self) -> Result<String> {
        let Some(file) = &self.password_file else { return Ok(String::new()) };
        let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
        Ok(text.lines().next().unwrap_or_default().to_owned())
    }
}

/// Keys of `[routing]`, and sections, of [`Rules::Present`].
fn rules_toml() -> (String, String) {
    let mut rules = "[[trunk]]\nname = \"carrier\"\nuri = \"sip:192.0.2.1\"\nhealth_check_s = 0\n\
                     networks = [\"192.0.2.0/24\"]\n\
                     [[destination]]\nprefix = \"+881\"\nallow = false\n\
                     [[destination]]\nprefix = \"\"\ncalls_per_hour = 20\n"
        .to_owned();
    for route in 0..ROUTES {
        rules.push_str(&format!("[[route]]\nprefix = \"+49{:03}\"\nto = [\"carrier\"]\n", 100 + route));
    }
    ("recurse = true\nedge_domains = [\"example.net\"]\n".to_owned(), rules)
}

/// Program under which a server runs.
#[derive(Clone, Copy, Debug)]
pub enum Under<'a> {
    /// None, as users run it.
    Itself,
    /// callgrind, which writes its counts to this file.
    Callgrind(&'a Path),
}

/// Kamailio's memory allocator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Allocator {
    /// `-x tlsf`, for which its CPU time is a third.
    Tlsf,
    /// That of the distribution; for Debian one for debugging.
    Default,
}

impl Allocator {
    /// Options of the command line.
    pub const fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::Tlsf => &["-x", "tlsf"],
            Self::Default => &[],
        }
    }
}

/// Programs to measure, and a folder for files.
pub struct Environment {
    /// Ringway's release binary.
    pub ringway: PathBuf,
    /// Kamailio, if it is installed.
    pub kamailio: Option<PathBuf>,
    /// OpenSIPS, if it is installed.
    pub opensips: Option<PathBuf>,
    /// Creates the command that runs [`floor::serve`](crate::floor::serve); kind and ports of the phones are
    /// appended.
    pub floor_command: fn() -> Result<Command>,
    /// Folder for configurations, logs and databases.
    pub folder: PathBuf,
}

impl Environment {
    /// [`Environment::floor_command`] of a program that has no floor.
    ///
    /// # Errors
    /// Always.
    pub fn no_floor() -> Result<Command> {
        bail!("this program has no floor")
    }

    /// Starts Ringway on this port.
    pub fn start_ringway(&self, settings: &Settings, port: u16, under: Under<'_>) -> Result<Process> {
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
        let log = configuration.with_extension("log");
        let mut process = Process::start("ringway", &mut command, &log)?;
        process.ready().with_context(|| last_words(&log))?;
        Ok(process)
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

    /// Fills the store of `settings`, which has none yet: its users; with [`Rules::Present`] forwards of every hundredth user,
    /// block lists for all users and of one.
    ///
    /// # Errors
    /// A command of Ringway fails.
    pub fn prepare_store(&self, settings: &Settings) -> Result<()> {
        self.import_users(settings)?;
        if settings.rules == Rules::Absent {
            return Ok(());
        }
        let configuration = self.write_configuration(settings, free_port()?)?;
        let [busy, no_answer] = ["u0000001", "u0000002"].map(|user| format!("sip:{user}@{DOMAIN}"));
        for user in (0..settings.users).step_by(100) {
            let user = format!("u{user:07}");
            let forward = ["user", "forward", &user, "--busy", &busy, "--no-answer", "20", &no_answer];
            self.command(&configuration, &forward)?;
        }
        for entry in [
            &["--caller", "sip:spam@example.com"][..],
            &["--caller", "*@example.com"],
            &["--caller", "+4930*"],
            &["--network", "198.51.100.0/24"],
            &["--caller", "sip:spam@example.net", "--user", "u0000001"],
        ] {
            self.command(&configuration, &[&["block", "add"], entry].concat())?;
        }
        Ok(())
    }

    /// Runs a command of Ringway to its end; returns its standard output.
    pub fn command(&self, configuration: &Path, arguments: &[&str]) -> Result<Vec<u8>> {
        run_command(&self.ringway, configuration, arguments)
    }

    /// Starts Kamailio on this port, with its location table in memory, one worker for the transport and no log; of `settings`
    /// it has the users, the routing, the challenge, the database and the treatment of its memory.
    pub fn start_kamailio(
        &self,
        program: &Path,
        settings: &Settings,
        port: u16,
        carrier: Carrier,
        allocator: Allocator,
    ) -> Result<Process> {
        let configuration = self.folder.join(format!("kamailio-{port}.cfg"));
        fs::write(&configuration, kamailio_configuration(port, settings, carrier)?)
            .with_context(|| configuration.display().to_string())?;
        if let Some(tls) = settings.secure.as_ref().and_then(|listener| listener.tls.as_ref()) {
            let file = self.folder.join(format!("kamailio-{port}-tls.cfg"));
            fs::write(&file, tls.kamailio()).with_context(|| file.display().to_string())?;
        }
        // About 1.1 kB for each binding, and memory for the transactions of a run.
        let shared_mb = 768 + settings.users / 500;
        let mut command = Command::new(program);
        command.arg("-f").arg(&configuration).args(["-DD", "-E"]).args(allocator.arguments());
        command.args(["-M", "16", "-m"]).arg(shared_mb.to_string()).arg("-w").arg(&self.folder);
        if let Store::Database(database) = &settings.store {
            // Its URLs have no escapes; the libraries of both databases read these variables.
            let password = database.password()?;
            command.env("PGPASSWORD", &password).env("MYSQL_PWD", &password);
        }
        let address = SocketAddr::new(settings.host, port);
        start_answering("kamailio", &mut command, &configuration.with_extension("log"), address)
    }

    /// Starts OpenSIPS on this port, as [`Environment::start_kamailio`]. Untested: no package was at hand.
    pub fn start_opensips(
        &self,
        program: &Path,
        settings: &Settings,
        port: u16,
        carrier: Carrier,
    ) -> Result<Process> {
        let configuration = self.folder.join(format!("opensips-{port}.cfg"));
        fs::write(&configuration, opensips_configuration(port, settings, carrier)?)
            .with_context(|| configuration.display().to_string())?;
        let shared_mb = 768 + settings.users / 500;
        let mut command = Command::new(program);
        command.arg("-f").arg(&configuration).args(["-F", "-M", "16", "-m"]).arg(shared_mb.to_string());
        command.arg("-w").arg(&self.folder);
        let address = SocketAddr::new(settings.host, port);
        start_answering("opensips", &mut command, &configuration.with_extension("log"), address)
    }

    fn write_configuration(&self, settings: &Settings, port: u16) -> Result<PathBuf> {
        let path = self.folder.join(format!("ringway-{port}.toml"));
        fs::write(&path, settings.toml(&self.folder, port, free_port()?))
            .with_context(|| path.display().to_string())?;
        Ok(path)
    }
}

/// Starts a server and waits until it answers OPTIONS.
fn start_answering(
    name: &'static str,
    command: &mut Command,
    log: &Path,
    address: SocketAddr,
) -> Result<Process> {
    let mut process = Process::start(name, command, log)?;
    let begun = Instant::now();
    while let Err(error) = wait_for_options(address, START_LOOK) {
        if !process.fate().is_empty() {
            bail!("{name} ended at its start: {}", last_words(log));
        }
        if begun.elapsed() > START_WAIT {
            return Err(error).with_context(|| last_words(log));
        }
    }
    Ok(process)
}

/// Runs a command of this Ringway program to its end; returns its standard output.
pub(crate) fn run_command(program: &Path, configuration: &Path, arguments: &[&str]) -> Result<Vec<u8>> {
    let mut command = Command::new(program);
    command.args(arguments).arg("--config").arg(configuration);
    let output = command.output().context("run ringway")?;
    if !output.status.success() {
        let error = String::from_utf8_lossy(&output.stderr);
        bail!("ringway {}: {}", arguments.join(" "), error.trim());
    }
    Ok(output.stdout)
}

/// Program of a server, where packages install it.
pub fn find_program(name: &str) -> Option<PathBuf> {
    let folders = ["/usr/sbin", "/usr/local/sbin", "/usr/bin"];
    folders.into_iter().map(|folder| Path::new(folder).join(name)).find(|path| path.exists())
}

/// Last line of a server's log.
fn last_words(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    text.lines().next_back().unwrap_or("its log is empty").to_owned()
}

/// Interval at which a server that was started is looked for among the processes.
const START_LOOK: Duration = Duration::from_millis(300);
/// Most time until a server that was started answers.
const START_WAIT: Duration = Duration::from_secs(60);

/// A port of loopback that is currently free for UDP and TCP.
pub fn free_port() -> Result<u16> {
    free_port_at(Ipv4Addr::LOCALHOST.into())
}

/// A port of this address that is currently free for UDP and TCP.
///
/// # Errors
/// This machine does not have the address, or no free port.
pub fn free_port_at(host: IpAddr) -> Result<u16> {
    for _ in 0..100 {
        let listener = TcpListener::bind((host, 0)).context("find a free port")?;
        let port = listener.local_addr().context("find a free port")?.port();
        if UdpSocket::bind((host, port)).is_ok() {
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

/// Sends OPTIONS over UDP until a response arrives, at most for `wait`. Returns the server's name from the response; empty if
/// it does not name itself.
///
/// # Errors
/// No answer, or one that is no SIP response.
pub fn wait_for_options(server: SocketAddr, wait: Duration) -> Result<String> {
    // Not only loopback: the system chooses the address of the interface.
    let any = if server.is_ipv4() { IpAddr::V4(Ipv4Addr::UNSPECIFIED) } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0)).context("bind a socket")?;
    socket.connect(server).context("connect a socket")?;
    socket.set_read_timeout(Some(Duration::from_millis(100))).context("set a socket")?;
    let from = socket.local_addr().context("read a port")?;
    let question = format!(
        "OPTIONS sip:{server} SIP/2.0\r\nVia: SIP/2.0/UDP {from};branch=z9hG4bKready;rport\r\nMax-Forwards: 70\r\n\
         From: <sip:probe@{from}>;tag=1\r\nTo: <sip:{server}>\r\nCall-ID: ready\r\nCSeq: 1 OPTIONS\r\n\
         Content-Length: 0\r\n\r\n"
    );
    let until = Instant::now() + wait;
    let mut answer = [0; 2048];
    while Instant::now() < until {
        // Until the server has bound its port, sending and receiving may fail.
        if socket.send(question.as_bytes()).is_ok()
            && let Ok(length) = socket.recv(&mut answer)
        {
            let text = String::from_utf8_lossy(answer.get(..length).unwrap_or_default()).into_owned();
            if text.starts_with("SIP/2.0 ") {
                return Ok(name_in(&text));
            }
            let start: String = text.chars().take(40).collect();
            bail!("{server} answers OPTIONS with {start:?}, which is no SIP response");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    bail!("{server} does not answer OPTIONS over UDP within {} s", wait.as_secs_f64())
}

/// Value of the Server or User-Agent header, at most 100 characters.
fn name_in(response: &str) -> String {
    let value = response.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        let is_name = name.eq_ignore_ascii_case("server") || name.eq_ignore_ascii_case("user-agent");
        is_name.then(|| value.trim().chars().filter(|letter| !letter.is_control()).take(100).collect())
    });
    value.unwrap_or_default()
}

/// Password of all users.
pub const PASSWORD: &str = "correct horse battery";

/// Digest algorithm.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Algorithm {
    /// SHA-256.
    Sha256,
    /// MD5.
    Md5,
}

impl Algorithm {
    /// Name in `[auth] algorithms` and in the challenge.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sha256 => "SHA-256",
            Self::Md5 => "MD5",
        }
    }
}

/// Domain of all users.
pub const DOMAIN: &str = "example.org";

/// Transport of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Carrier {
    /// Datagrams.
    Udp,
    /// A connection.
    Tcp,
    /// A connection with TLS.
    Tls,
    /// WebSocket over TCP.
    Ws,
    /// WebSocket over TLS.
    Wss,
}

impl Carrier {
    /// All transports with their names in files and results.
    pub const ALL: [(&'static str, Self); 5] =
        [("udp", Self::Udp), ("tcp", Self::Tcp), ("tls", Self::Tls), ("ws", Self::Ws), ("wss", Self::Wss)];

    /// Name in files and results, and of a listener.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, carrier)| *carrier == self).map_or("", |(name, _)| name)
    }

    /// The transport.
    pub const fn transport(self) -> Transport {
        match self {
            Self::Udp => Transport::Udp,
            Self::Tcp => Transport::Tcp,
            Self::Tls => Transport::Tls,
            Self::Ws => Transport::Ws,
            Self::Wss => Transport::Wss,
        }
    }

    /// True if it has TLS.
    pub const fn is_secure(self) -> bool {
        matches!(self, Self::Tls | Self::Wss)
    }

    /// True if servers have a listener of its own for it, besides those for UDP and TCP.
    pub const fn has_own_listener(self) -> bool {
        matches!(self, Self::Tls | Self::Ws | Self::Wss)
    }
}
