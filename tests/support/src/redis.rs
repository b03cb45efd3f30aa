//! Servers of Redis, on free ports and with folders of their own.

use crate::eventually::{PATIENCE, retry};
use crate::port::free_port;
use crate::process::{Process, Signal, Site, run_to_end, temporary_site};
use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::process::Stdio;
use std::time::Duration;
use tempfile::TempDir;

/// A server, which ends when the value is dropped.
pub struct RedisServer {
    name: String,
    program: &'static str,
    arguments: Vec<String>,
    site: Site,
    /// The folder of a server that has no other.
    _folder: Option<TempDir>,
    process: Option<Process>,
    port: u16,
    /// Arguments of `redis-cli` for this server.
    pub cli: Vec<String>,
}

impl RedisServer {
    /// Starts a server without persistence, with further arguments.
    ///
    /// # Panics
    /// It does not start.
    pub fn start(arguments: &[&str]) -> Self {
        let (site, folder) = temporary_site();
        let arguments: Vec<&str> = ["--appendonly", "no"].iter().chain(arguments).copied().collect();
        Self::start_at(&site, "redis", &arguments).unwrap().owning(folder)
    }

    /// Starts a server at a site, with further arguments.
    ///
    /// # Errors
    /// It does not start.
    pub fn start_at(site: &Site, name: &str, arguments: &[&str]) -> Result<Self> {
        const DEFAULTS: [&str; 4] = ["--save", "", "--repl-diskless-sync-delay", "0"];
        Self::launch(site, name, "redis-server", |port| {
            Ok(["--port", &port.to_string()].iter().chain(&DEFAULTS).chain(arguments).map(owned).collect())
        })
    }

    /// Starts a server with a configuration file, which has no port.
    ///
    /// # Panics
    /// It does not start.
    pub fn start_with_configuration(text: &str) -> Self {
        let (site, folder) = temporary_site();
        fs::write(site.folder.join("redis.conf"), text).unwrap();
        let arguments = |port: u16| Ok(["redis.conf", "--port", &port.to_string()].map(str::to_owned).into());
        Self::launch(&site, "redis", "redis-server", arguments).unwrap().owning(folder)
    }

    /// Starts a server over TLS only, with files of the certificate, its key and the authority.
    ///
    /// # Panics
    /// It does not start.
    pub fn start_tls(certificate: &str, key: &str, authority: &str) -> Self {
        let (site, folder) = temporary_site();
        for (name, text) in [("cert.pem", certificate), ("key.pem", key), ("ca.pem", authority)] {
            fs::write(site.folder.join(name), text).unwrap();
        }
        let arguments = |port: u16| {
            let port = port.to_string();
            let own = [
                "--port",
                "0",
                "--tls-port",
                &port,
                "--tls-cert-file",
                "cert.pem",
                "--tls-key-file",
                "key.pem",
            ];
            let peers = ["--tls-ca-cert-file", "ca.pem", "--tls-auth-clients", "no", "--save", ""];
            Ok(own.iter().chain(&peers).map(owned).collect())
        };
        Self::launch(&site, "redis", "redis-server", arguments).unwrap().owning(folder)
    }

    /// Starts a Sentinel of one vote for the master `mymaster`.
    ///
    /// # Panics
    /// It does not start.
    pub fn start_sentinel(master: &Self) -> Self {
        let (site, folder) = temporary_site();
        Self::start_sentinel_at(&site, "sentinel", master, 1, [500, 2000]).unwrap().owning(folder)
    }

    /// Starts a Sentinel for the master [`MASTER`] at a site; `down_ms` is the time until the master is down for it.
    ///
    /// # Errors
    /// It does not start.
    pub fn start_sentinel_at(
        site: &Site,
        name: &str,
        master: &Self,
        votes: u8,
        [down_ms, failover_ms]: [u32; 2],
    ) -> Result<Self> {
        let master = master.port;
        Self::launch(site, name, "redis-sentinel", |port| {
            let settings = format!(
                "port {port}\nbind 127.0.0.1\nsentinel monitor {MASTER} 127.0.0.1 {master} {votes}\n\
                 sentinel down-after-milliseconds {MASTER} {down_ms}\nsentinel failover-timeout {MASTER} {failover_ms}\n"
            );
            let file = site.folder.join("sentinel.conf");
            fs::write(&file, settings)?;
            Ok(vec![file.display().to_string()])
        })
    }

    /// Starts a cluster of three masters.
    ///
    /// # Panics
    /// It does not start.
    pub fn start_cluster() -> Vec<Self> {
        let masters = (0..3).map(|_| {
            let (site, folder) = temporary_site();
            Ok(Self::start_master_at(&site, "redis", &["--cluster-node-timeout", "1000"])?.owning(folder))
        });
        Self::join_cluster(masters.collect::<Result<_>>().unwrap()).unwrap()
    }

    /// Starts a master of a cluster at a site, with further arguments.
    ///
    /// # Errors
    /// It does not start.
    pub fn start_master_at(site: &Site, name: &str, arguments: &[&str]) -> Result<Self> {
        // The port of the cluster's bus is 10,000 higher unless it is given.
        let bus = free_port()?.to_string();
        let cluster = ["--cluster-enabled", "yes", "--cluster-port", &bus];
        Self::start_at(site, name, &[&cluster[..], arguments].concat())
    }

    /// Makes a cluster of masters, which share the slots.
    ///
    /// # Errors
    /// It does not come up.
    pub fn join_cluster(servers: Vec<Self>) -> Result<Vec<Self>> {
        let first = servers.first().context("no master")?;
        let mut command = first.site.command("redis-cli");
        command.args(["--cluster", "create"]).args(servers.iter().map(Self::host)).arg("--cluster-yes");
        run_to_end(&mut command, "")?;
        servers.iter().try_for_each(|server| server.await_reply(&["cluster", "info"], "cluster_state:ok"))?;
        Ok(servers)
    }

    fn launch(
        site: &Site,
        name: &str,
        program: &'static str,
        arguments: impl Fn(u16) -> Result<Vec<String>>,
    ) -> Result<Self> {
        let attempt = || {
            let port = free_port()?;
            let arguments = arguments(port)?;
            let has_tls = arguments.iter().any(|argument| argument == "--tls-port");
            let authority = site.folder.join("ca.pem").display().to_string();
            let cli = has_tls.then(|| ["--tls".to_owned(), "--cacert".to_owned(), authority]);
            let mut server = Self {
                name: name.to_owned(),
                program,
                arguments,
                site: site.clone(),
                _folder: None,
                process: None,
                port,
                cli: cli.into_iter().flatten().collect(),
            };
            server.start_again().map(|()| server)
        };
        // Another process may have taken the port.
        attempt().or_else(|_| attempt()).or_else(|_| attempt())
    }

    fn owning(mut self, folder: TempDir) -> Self {
        self._folder = Some(folder);
        self
    }

    /// Starts it again after [`RedisServer::kill`], on the same port, with the data that it kept.
    ///
    /// # Errors
    /// It does not answer.
    pub fn start_again(&mut self) -> Result<()> {
        let mut command = self.site.command(self.program);
        let process = Process::start(&self.name, command.args(&self.arguments), &self.site.folder)?;
        self.process = Some(process);
        let mut has_ended = false;
        retry(PATIENCE, || {
            has_ended = self.process.as_mut().is_none_or(|process| process.has_ended().unwrap_or(true));
            let reply = self.ask(&["ping"])?;
            if has_ended || ["PONG", "NOAUTH", "DENIED"].iter().any(|word| reply.contains(word)) {
                return Ok(());
            }
            bail!("{} does not answer: {}", self.name, reply.trim())
        })?;
        let output = self.process.as_ref().map(Process::output).unwrap_or_default();
        ensure!(!has_ended, "{} ended: {}", self.name, output.trim());
        Ok(())
    }

    /// Port.
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Host and port.
    pub fn host(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Runs a command and returns its result as a text.
    ///
    /// # Panics
    /// There is no `redis-cli`.
    pub fn run(&self, command: &[&str]) -> String {
        self.ask(command).unwrap().trim_end().to_owned()
    }

    /// Same without panics.
    ///
    /// # Errors
    /// There is no `redis-cli`.
    pub fn ask(&self, command: &[&str]) -> Result<String> {
        let mut client = self.site.command("redis-cli");
        client.args(["-p", &self.port.to_string()]).args(&self.cli).args(command).stdin(Stdio::null());
        let output = client.output().context(NO_CLIENT)?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Repeats a command until the result contains this text.
    ///
    /// # Errors
    /// It does not within [`PATIENCE`].
    pub fn await_reply(&self, command: &[&str], text: &str) -> Result<()> {
        retry(PATIENCE, || {
            let reply = self.ask(command)?;
            let words = command.join(" ");
            ensure!(
                reply.contains(text),
                "{} does not reply {text:?} to {words}: {}",
                self.name,
                reply.trim()
            );
            Ok(())
        })
    }

    /// Kills the process.
    pub fn kill(&mut self) {
        if let Some(process) = self.process.take() {
            process.kill();
        }
    }

    /// Stops the process for a time (SIGSTOP, SIGCONT).
    pub fn pause(&self, time: Duration) {
        let process = self.process.as_ref().unwrap();
        process.signal(Signal::STOP);
        std::thread::sleep(time);
        process.signal(Signal::CONT);
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        // It keeps nothing that SIGTERM would save.
        self.kill();
    }
}

fn owned(text: &&str) -> String {
    (*text).to_owned()
}

/// Name of the master at Sentinels.
pub const MASTER: &str = "mymaster";

const NO_CLIENT: &str = "cannot start redis-cli; is redis-tools installed?";
