//! The server under test: Ringway as a program or a machine, or Kamailio when the scenarios themselves are
//! tested.

use std::fmt::Write as _;
use std::fs::Permissions;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use ringway_lab::server::wait_for_options;
use ringway_test_support::eventually::retry;
use ringway_test_support::namespace;
use ringway_test_support::process::run_to_end;

use super::certificates::{CA_FILE, Certificate};
use super::{Ringway, Stage, Transport};
use crate::process::{PATIENCE, Process, cpu_s, free_port};

/// Configuration of the server in a scenario.
#[derive(Clone, Copy)]
pub(crate) struct Wanted {
    /// Digest authentication is on.
    pub(crate) digest: bool,
    /// Further lines of `[auth]`.
    pub(crate) auth: &'static str,
    /// Handling of a call to one of our users.
    pub(crate) mode: Mode,
    /// Bindings are on disk before their 200, or up to a second after it.
    pub(crate) strict: bool,
    /// Listening address.
    pub(crate) host: Ipv4Addr,
    /// Listening port; `None`: a free one.
    pub(crate) port: Option<u16>,
    /// Realm of its challenges.
    pub(crate) realm: &'static str,
    /// Domain of its users.
    pub(crate) domain: &'static str,
    /// Has a TLS listener, with the certificate [`Certificate::SERVER`] of the stage and these further lines of `[tls]`.
    pub(crate) tls: Option<&'static str>,
    /// Has a DTLS listener too, with the certificate of TLS and its port number.
    pub(crate) dtls: bool,
    /// Has a `ws` listener, and with TLS a `wss` listener, and these lines of `[websocket]`.
    pub(crate) websocket: Option<&'static str>,
    /// Has a UDP listener on the loopback address of IPv6 too.
    pub(crate) ipv6: bool,
    /// Further lines of `[routing]`.
    pub(crate) routing: &'static str,
    /// Lines of `[limits]`.
    pub(crate) limits: &'static str,
    /// Token of the admin API.
    pub(crate) admin_token: &'static str,
    /// Another name of the server itself.
    pub(crate) alias: Option<&'static str>,
    /// Proxy that it trusts.
    pub(crate) trusted: Option<Ipv4Addr>,
    /// Port of the DNS server on loopback that it asks; `None`: the system's.
    pub(crate) dns_port: Option<u16>,
    /// Lines of `[media]`, and the control ports of its relays on loopback; 0: none.
    pub(crate) media: Option<(&'static str, [u16; 2])>,
}

impl Default for Wanted {
    fn default() -> Self {
        Self {
            digest: true,
            auth: "",
            mode: Mode::Stateful,
            strict: false,
            host: Ipv4Addr::LOCALHOST,
            port: None,
            realm: DOMAIN,
            domain: DOMAIN,
            tls: None,
            dtls: false,
            websocket: None,
            ipv6: false,
            routing: "",
            limits: "per_source_rate = 0",
            admin_token: "",
            alias: None,
            trusted: None,
            dns_port: None,
            media: None,
        }
    }
}

impl Wanted {
    /// Same as words of a machine's command line.
    fn words(&self) -> String {
        let auth = if self.digest { "on" } else { "off" };
        let (mode, stateful) = match self.mode {
            Mode::Stateful => ("proxy", "on"),
            Mode::Stateless => ("proxy", "off"),
            Mode::Redirect => ("redirect", "on"),
        };
        format!("users={USERS_FILE} auth={auth} mode={mode} stateful={stateful}")
    }
}

/// Routing mode.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Stateful,
    Stateless,
    Redirect,
}

/// The store of most scenarios.
const STORE: &str = "[store]\nurl = \"sqlite://ringway.db\"\ndurability = \"DURABILITY\"\n";

/// A running server with its configuration.
pub(crate) struct Server {
    /// Port for UDP and TCP.
    pub(crate) port: u16,
    /// Port for WebSocket; the next one is for WebSocket over TLS.
    websocket_port: u16,
    config: PathBuf,
    ringway: Ringway,
    wanted: Wanted,
    folder: PathBuf,
    data: PathBuf,
    /// Further lines of its configuration.
    more: String,
    running: Option<Process>,
    /// Network namespace that it runs in.
    namespace: Option<Arc<str>>,
}

impl Server {
    /// Configures a server, adds `users` (name and password) and starts it.
    pub(crate) fn start(stage: &Stage, wanted: Wanted, users: &[(String, String)]) -> Result<Self> {
        Self::start_one(stage, stage.ringway.clone(), (wanted, ""), users)
    }

    /// Starts a server without users, with further sections of its configuration.
    pub(crate) fn start_with(stage: &Stage, wanted: Wanted, sections: &str) -> Result<Self> {
        Self::start_one(stage, stage.ringway.clone(), (wanted, sections), &[])
    }

    /// Starts a server with users and with further sections of its configuration.
    pub(crate) fn start_among(
        stage: &Stage,
        wanted: (Wanted, &str),
        users: &[(String, String)],
    ) -> Result<Self> {
        Self::start_one(stage, stage.ringway.clone(), wanted, users)
    }

    /// Starts Kamailio, which accepts `secret-NAME` as the password of every user.
    pub(crate) fn start_reference(stage: &Stage, wanted: Wanted) -> Result<Self> {
        Self::start_one(stage, Ringway::Others, (wanted, ""), &[])
    }

    fn start_one(
        stage: &Stage,
        ringway: Ringway,
        (wanted, more): (Wanted, &str),
        users: &[(String, String)],
    ) -> Result<Self> {
        let mut server = Self {
            port: wanted.port.map_or_else(free_port, Ok)?,
            websocket_port: free_port()?,
            config: stage.path("ringway.toml"),
            ringway,
            wanted,
            folder: stage.folder.clone(),
            data: stage.data.clone(),
            more: more.to_owned(),
            running: None,
            namespace: stage.namespace.clone(),
        };
        match &server.ringway {
            Ringway::Program(_) => {
                std::fs::write(&server.config, server.configuration(free_port()?))?;
                // It may have the password of a database.
                std::fs::set_permissions(&server.config, Permissions::from_mode(0o600))?;
                server.import(users)?;
            }
            Ringway::Machine(_) => write_users(&server.folder.join(USERS_FILE), users)?,
            Ringway::Others => {}
        }
        server.start_again()?;
        Ok(server)
    }

    /// Port of its listener for this transport.
    pub(crate) const fn port_of(&self, transport: Transport) -> u16 {
        match transport {
            Transport::Udp | Transport::Tcp => self.port,
            // The neighbour of a free port is free too.
            Transport::Tls => self.port + 1,
        }
    }

    /// URL of its listener for WebSocket.
    pub(crate) fn ws_url(&self) -> String {
        format!("ws://{}:{}", self.wanted.host, self.websocket_port)
    }

    /// URL of its listener for WebSocket over TLS.
    pub(crate) fn wss_url(&self) -> String {
        format!("wss://{}:{}", self.wanted.host, self.websocket_port + 1)
    }

    /// Starts the stopped or killed server on the same ports and files.
    pub(crate) fn start_again(&mut self) -> Result<()> {
        match &self.ringway {
            Ringway::Program(program) => {
                let mut command = namespace::command(self.namespace.as_deref(), program);
                command.arg("serve").arg("--config").arg(&self.config);
                let running = Process::start("ringway", &mut command, &self.folder)?;
                running.wait_for_output("ready ")?;
                self.running = Some(running);
            }
            Ringway::Machine(machine) => {
                let running = machine.start(&self.folder, self.port, &self.wanted.words())?;
                running.wait_for_output("ready ")?;
                self.running = Some(running);
            }
            Ringway::Others => self.start_kamailio()?,
        }
        Ok(())
    }

    /// `kill -9`.
    pub(crate) fn kill(&mut self) {
        if let Some(running) = self.running.take() {
            running.kill();
        }
    }

    /// Adds a user with the password `secret-NAME` to the running server with `ringway user add`, and waits twice the second
    /// within which the server reads it, as the machine may be busy. Kamailio accepts such a password for every user.
    pub(crate) fn add_user(&self, name: &str) -> Result<()> {
        if self.ringway.program().is_none() {
            return Ok(());
        }
        self.command(
            &["user", "add", name, "--password-stdin", "--danger-weak"],
            Some(&format!("secret-{name}")),
        )?;
        std::thread::sleep(Duration::from_secs(2));
        Ok(())
    }

    /// Adds a permanent contact of a user of Ringway with `ringway user bind`.
    pub(crate) fn bind(&self, user: &str, contact: &str) -> Result<()> {
        self.bind_all([(user, contact.to_owned())].into_iter())
    }

    /// Same for several users.
    pub(crate) fn bind_all<'a>(&self, contacts: impl Iterator<Item = (&'a str, String)>) -> Result<()> {
        for (user, contact) in contacts {
            self.command(&["user", "bind", user, &contact], None)?;
        }
        // Twice the second within which the server reads it.
        std::thread::sleep(Duration::from_secs(2));
        Ok(())
    }

    /// Changes the forwards of a user with `ringway user forward`, and waits twice the second within which the server reads
    /// it.
    pub(crate) fn forward(&self, user: &str, options: &[&str]) -> Result<()> {
        self.command(&[&["user", "forward", user][..], options].concat(), None)?;
        std::thread::sleep(Duration::from_secs(2));
        Ok(())
    }

    /// Takes over the users of a Kamailio with `ringway migrate`, and waits twice the second within which the server reads
    /// them; returns what it said.
    pub(crate) fn migrate(&self, arguments: &[&str], password: &str) -> Result<String> {
        let said = self.command(
            &[&["migrate", "kamailio", "--password-stdin"][..], arguments].concat(),
            Some(password),
        )?;
        std::thread::sleep(Duration::from_secs(2));
        Ok(said)
    }

    /// Counters of Ringway: `ringway show stats --json`.
    pub(crate) fn counters(&self) -> Result<Counters> {
        let shown = self.command(&["show", "stats", "--json"], None)?;
        let value = serde_json::from_str(&shown).context("`ringway show stats --json` printed no JSON")?;
        Ok(Counters(value))
    }

    /// Its connections: `ringway show connections --json`.
    pub(crate) fn connections(&self) -> Result<String> {
        self.command(&["show", "connections", "--json"], None)
    }

    /// Waits until a counter has this value.
    pub(crate) fn await_counter(&self, name: &str, wanted: u64, within: Duration) -> Result<()> {
        retry(within, || {
            let found = self.counters()?.get(name)?;
            ensure!(found == wanted, "{name} is {found} instead of {wanted} after {within:?}");
            Ok(())
        })
    }

    /// Its nodes and their store: `ringway show cluster --json`.
    pub(crate) fn cluster(&self) -> Result<serde_json::Value> {
        let shown = self.command(&["show", "cluster", "--json"], None)?;
        serde_json::from_str(&shown).context("`ringway show cluster --json` printed no JSON")
    }

    /// CPU time of its living threads in seconds.
    pub(crate) fn cpu_s(&self) -> Result<f64> {
        self.running.as_ref().context("the server is stopped").and_then(cpu_s)
    }

    /// Warnings and errors of its configuration: `ringway check --json`.
    pub(crate) fn check(&self) -> Result<serde_json::Value> {
        let shown = self.run(&["check", "--json", &self.config.display().to_string()], None)?;
        serde_json::from_str(&shown).context("`ringway check --json` printed no JSON")
    }

    /// Applies its changed configuration.
    pub(crate) fn reload(&self) -> Result<()> {
        self.command(&["reload"], None).map(drop)
    }

    /// Makes phones leave it within this time in seconds.
    pub(crate) fn drain(&self, over_s: u32) -> Result<()> {
        self.command(&["drain", "--over", &over_s.to_string()], None).map(drop)
    }

    /// Ends that.
    pub(crate) fn cancel_drain(&self) -> Result<()> {
        self.command(&["drain", "--cancel"], None).map(drop)
    }

    /// Number of its calls: `ringway show calls --json`.
    pub(crate) fn calls(&self) -> Result<usize> {
        let shown = self.command(&["show", "calls", "--json"], None)?;
        let shown: serde_json::Value =
            serde_json::from_str(&shown).context("`ringway show calls --json` printed no JSON")?;
        Ok(shown["calls"].as_array().context("`ringway show calls --json` printed no list")?.len())
    }

    /// Writes a copy of its database.
    pub(crate) fn back_up(&self, to: &Path) -> Result<()> {
        self.command(&["backup", &to.display().to_string()], None).map(drop)
    }

    /// Its configuration file.
    pub(crate) fn config(&self) -> &Path {
        &self.config
    }

    /// URL of its admin API, without a slash at the end.
    pub(crate) fn admin_url(&mut self) -> Result<String> {
        let lines = self.log_lines(ADMIN_LINE, 1)?;
        let url = lines.first().and_then(|line| line.split(ADMIN_LINE).nth(1));
        Ok(url.context("the log names no admin API")?.trim().trim_end_matches('/').to_owned())
    }

    /// Lines of its log that contain `text`, after waiting for `count` of them.
    pub(crate) fn log_lines(&mut self, text: &str, count: usize) -> Result<Vec<String>> {
        let running = self.running.as_mut().context("the server is stopped")?;
        running.wait_until(text, |output| output.matches(text).count() >= count)?;
        Ok(running.output().lines().filter(|line| line.contains(text)).map(str::to_owned).collect())
    }

    /// Output of `ringway show registrations --json`; `None` for a server without this command.
    pub(crate) fn registrations(&self) -> Result<Option<String>> {
        if self.ringway.program().is_none() {
            return Ok(None);
        }
        let shown = self.command(&["show", "registrations", "--json"], None)?;
        let _: serde_json::Value =
            serde_json::from_str(&shown).context("`ringway show registrations --json` printed no JSON")?;
        Ok(Some(shown))
    }

    /// Fails unless exactly those of `users` that are `expected` to be registered are listed.
    pub(crate) fn expect_registered<'a>(
        &self,
        users: impl Iterator<Item = &'a str>,
        expected: bool,
    ) -> Result<()> {
        let Some(shown) = self.registrations()? else { return Ok(()) };
        for user in users {
            if shown.contains(&format!("{user}@example.org")) != expected {
                let not = if expected { "does not list" } else { "still lists" };
                bail!("`ringway show registrations --json` {not} {user}: {shown}");
            }
        }
        Ok(())
    }

    fn start_kamailio(&mut self) -> Result<()> {
        let text = std::fs::read_to_string(self.data.join("kamailio/reference.cfg"))?;
        let config = self.folder.join("reference.cfg");
        let (host, port) = (self.wanted.host.to_string(), self.port.to_string());
        let text =
            text.replace("@HOST@", &host).replace("@PORT@", &port).replace("@REALM@", self.wanted.realm);
        std::fs::write(&config, text)?;
        let mut defines = Vec::new();
        if self.wanted.digest {
            defines.push("DIGEST");
        }
        match self.wanted.mode {
            Mode::Stateful => {}
            Mode::Stateless => defines.push("STATELESS"),
            Mode::Redirect => defines.push("REDIRECT"),
        }
        let mut command = kamailio(&config);
        for define in defines {
            command.args(["-A", define]);
        }
        let running = Process::start("kamailio", &mut command, &self.folder)?;
        await_sip(self.wanted.host, self.port)?;
        self.running = Some(running);
        Ok(())
    }

    fn configuration(&self, admin_port: u16) -> String {
        let Wanted {
            digest,
            auth,
            mode,
            strict,
            host,
            port: _,
            realm,
            domain,
            tls,
            dtls,
            websocket,
            ipv6,
            routing,
            limits,
            admin_token,
            alias,
            trusted,
            dns_port,
            media,
        } = self.wanted;
        let durability = if strict { "strict" } else { "relaxed" };
        let routed = if mode == Mode::Redirect { "redirect" } else { "proxy" };
        let stateful = mode != Mode::Stateless;
        let (port, more) = (self.port, &self.more);
        let (name, listener, section) = match tls {
            None => ("", String::new(), String::new()),
            // The name is also in a Route of linphonec: only a configured name is the server's own.
            Some(lines) => (
                ", \"localhost\"",
                format!(", \"tls:{host}:{}\"", self.port_of(Transport::Tls)),
                format!("{}{lines}", tls_section(Certificate::SERVER.name)),
            ),
        };
        let listener = match dtls {
            false => listener,
            true => format!("{listener}, \"dtls:{host}:{}\"", self.port_of(Transport::Tls)),
        };
        let (listener, section) = match websocket {
            None => (listener, section),
            Some(lines) => {
                let port = self.websocket_port;
                let secure =
                    tls.map_or(String::new(), |_| format!(", \"wss:{host}:{}\"", self.websocket_port + 1));
                (
                    format!("{listener}, \"ws:{host}:{port}\"{secure}"),
                    format!("{section}\n[websocket]\n{lines}\n"),
                )
            }
        };
        let listener = match ipv6 {
            false => listener,
            true => format!("{listener}, \"udp:[::1]:{port}\""),
        };
        let media = media.map_or(String::new(), |(lines, ports)| {
            let ports = ports.iter().filter(|port| **port != 0);
            let relays: Vec<String> = ports.map(|port| format!("\"127.0.0.1:{port}\"")).collect();
            format!("[media]\nrtpengine = [{}]\n{lines}", relays.join(", "))
        });
        let alias = alias.map_or(String::new(), |alias| format!(", \"{alias}\""));
        let trusted = trusted.map_or(String::new(), |proxy| format!("trusted = [\"{proxy}\"]"));
        let dns = dns_port.map_or(String::new(), |port| format!("[dns]\nservers = [\"127.0.0.1:{port}\"]"));
        // Another store is a part of the further sections.
        let store =
            if more.starts_with("[store]") { String::new() } else { STORE.replace("DURABILITY", durability) };
        format!(
            r#"domains = ["{domain}"{alias}{name}]
listen = ["udp:{host}:{port}", "tcp:{host}:{port}"{listener}]
{section}
{dns}
{media}

{store}

[auth]
enabled = {digest}
realm = "{realm}"
{auth}
{trusted}

[routing]
mode = "{routed}"
stateful = {stateful}
{routing}

[limits]
{limits}

[admin]
listen = "127.0.0.1:{admin_port}"
token = "{admin_token}"

{more}
"#
        )
    }

    fn import(&self, users: &[(String, String)]) -> Result<()> {
        if users.is_empty() {
            return Ok(());
        }
        write_users(&self.folder.join(USERS_FILE), users)?;
        self.command(&["user", "import", USERS_FILE], None).map(drop)
    }

    /// Runs a `ringway` command with this server's configuration; returns its output.
    fn command(&self, arguments: &[&str], input: Option<&str>) -> Result<String> {
        let config = self.config.display().to_string();
        self.run(&[arguments, &["--config", &config]].concat(), input)
    }

    /// Runs a `ringway` command; returns its output.
    fn run(&self, arguments: &[&str], input: Option<&str>) -> Result<String> {
        let shown = arguments.join(" ");
        let program = self.ringway.program().with_context(|| format!("this server has no `{shown}`"))?;
        let mut command = namespace::command(self.namespace.as_deref(), program);
        let input = input.map(|line| format!("{line}\n")).unwrap_or_default();
        run_to_end(command.args(arguments).current_dir(&self.folder), &input)
    }
}

/// Counters of a server.
pub(crate) struct Counters(serde_json::Value);

impl Counters {
    /// Fails if the server has no such counter.
    pub(crate) fn get(&self, name: &str) -> Result<u64> {
        self.0[name].as_u64().with_context(|| format!("`ringway show stats` has no {name}"))
    }
}

/// Section `[tls]` with the certificate `name` and the authority of the stage.
fn tls_section(name: &str) -> String {
    format!(
        "\n[tls]\ncertificate = \"{name}.pem\"\nprivate_key = \"{name}-key.pem\"\npeer_ca = \"{CA_FILE}\"\n"
    )
}

fn write_users(path: &Path, users: &[(String, String)]) -> Result<()> {
    let mut rows = String::from("username,password\n");
    for (name, password) in users {
        writeln!(rows, "{name},{password}")?;
    }
    std::fs::write(path, rows).with_context(|| format!("cannot write {}", path.display()))
}

/// Text of the log before the URL of the admin API.
const ADMIN_LINE: &str = "admin API on ";

/// Domain of the server's users.
const DOMAIN: &str = "example.org";

/// File name of the list of users in the server's folder.
const USERS_FILE: &str = "users.csv";

/// Command for Kamailio in the foreground, logging to standard error, with the fast allocator; the default
/// one is for debugging.
pub(crate) fn kamailio(config: &Path) -> Command {
    let mut command = Command::new("kamailio");
    command.arg("-f").arg(config).args(["-m", "64", "-M", "8", "-x", "tlsf", "-DD", "-E"]);
    command
}

/// Waits until a SIP server answers OPTIONS over UDP.
pub(crate) fn await_sip(host: Ipv4Addr, port: u16) -> Result<()> {
    wait_for_options(SocketAddr::from((host, port)), PATIENCE).map(drop)
}
