//! Debian's Redis: one server, a master with a replica and sentinels, or a cluster of three masters.

use std::net::Ipv4Addr;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::interop::Stage;
use crate::process::{PATIENCE, Running, free_port};

/// A running Redis, as one program or several.
pub(crate) struct Redis {
    servers: Vec<RedisServer>,
    sentinels: Vec<RedisServer>,
    /// Address for nodes on other machines.
    host: Option<Ipv4Addr>,
}

/// One program.
struct RedisServer {
    name: String,
    stage: Stage,
    port: u16,
    arguments: Vec<String>,
    running: Option<Running>,
}

impl Redis {
    /// One server that keeps its data over a restart.
    pub(super) fn single(stage: &Stage) -> Result<Self> {
        let server = RedisServer::start(stage, "redis", &["--appendonly", "yes"])?;
        Ok(Self { servers: vec![server], sentinels: Vec::new(), host: None })
    }

    /// The same at this address of the stage's namespace, for nodes in others.
    pub(crate) fn single_at(stage: &Stage, host: Ipv4Addr) -> Result<Self> {
        let bind = format!("--bind 127.0.0.1 {host}");
        let arguments = ["--appendonly", "yes", &bind, "--protected-mode", "no"];
        let server = RedisServer::start(stage, "redis", &arguments)?;
        Ok(Self { servers: vec![server], sentinels: Vec::new(), host: Some(host) })
    }

    /// A master and a replica, watched by three sentinels.
    pub(super) fn sentinel(stage: &Stage) -> Result<Self> {
        let master = RedisServer::start(stage, "master", &[])?;
        let replica = RedisServer::start(stage, "replica", &["--replicaof", &master.address()])?;
        replica.await_reply(&["info", "replication"], "master_link_status:up")?;
        let mut sentinels = Vec::new();
        for name in ["sentinel-1", "sentinel-2", "sentinel-3"] {
            let sentinel = RedisServer::start_sentinel(stage, name, master.port)?;
            sentinels.push(sentinel);
        }
        for sentinel in &sentinels {
            sentinel.await_reply(&["sentinel", "ckquorum", MASTER], "OK 3 usable")?;
            sentinel.await_reply(&["sentinel", "replicas", MASTER], &replica.port.to_string())?;
        }
        Ok(Self { servers: vec![master, replica], sentinels, host: None })
    }

    /// Three masters that share the slots.
    pub(super) fn cluster(stage: &Stage) -> Result<Self> {
        let mut servers = Vec::new();
        for name in ["redis-1", "redis-2", "redis-3"] {
            // The port of the cluster's bus is 10,000 higher unless it is given.
            let bus = free_port()?.to_string();
            let arguments = ["--cluster-enabled", "yes", "--cluster-port", &bus];
            servers.push(RedisServer::start(stage, name, &arguments)?);
        }
        let addresses: Vec<String> =
            servers.iter().map(|server| format!("127.0.0.1:{}", server.port)).collect();
        let made = Command::new("redis-cli")
            .args(["--cluster", "create"])
            .args(&addresses)
            .arg("--cluster-yes")
            .output()
            .context("cannot start redis-cli; is redis-tools installed?")?;
        ensure!(made.status.success(), "no cluster: {}", String::from_utf8_lossy(&made.stdout));
        for server in &servers {
            server.await_reply(&["cluster", "info"], "cluster_state:ok")?;
        }
        Ok(Self { servers, sentinels: Vec::new(), host: None })
    }

    /// Its URL for a node. One server has an address for each node, so that one of them can be cut off.
    pub(crate) fn url(&self, node: usize) -> String {
        let named = if self.sentinels.is_empty() { &self.servers } else { &self.sentinels };
        let local = if named.len() == 1 { Self::host_for(node) } else { Ipv4Addr::LOCALHOST };
        let host = self.host.unwrap_or(local);
        let hosts: Vec<String> = named.iter().map(|server| format!("{host}:{}", server.port)).collect();
        format!("redis://{}", hosts.join(","))
    }

    /// Address of one server for a node.
    pub(super) const fn host_for(node: usize) -> Ipv4Addr {
        Ipv4Addr::new(127, 0, 0, 2 + node as u8)
    }

    /// Ends the first server as a crash does.
    pub(crate) fn kill_first(&mut self) {
        if let Some(mut running) = self.servers.first_mut().and_then(|server| server.running.take()) {
            running.kill();
        }
    }

    /// Starts the first server again, with the data that it had.
    pub(crate) fn start_first_again(&mut self) -> Result<()> {
        self.servers.first_mut().map_or(Ok(()), RedisServer::run)
    }

    /// Gives a user a record of a later server, which no node changes.
    pub(super) fn set_later_record(&self, aor: &str) -> Result<()> {
        let master = self.servers.first().context("no server")?;
        (0..64).try_for_each(|tag| {
            let key = format!("rw:{{{tag:02}}}:b:{aor}");
            master.ask(&["set", &key, "\u{2}", "ex", "600"]).map(drop)
        })
    }

    /// Removes all data.
    pub(super) fn flush(&self) -> Result<()> {
        self.servers.iter().try_for_each(|server| server.ask(&["flushall"]).map(drop))
    }
}

impl RedisServer {
    fn start(stage: &Stage, name: &str, arguments: &[&str]) -> Result<Self> {
        let (stage, port) = (stage.within(name)?, free_port()?);
        let mut all: Vec<String> = ["--port", &port.to_string(), "--save", ""].map(str::to_owned).into();
        // The first one is that of its own connections.
        all.push("--bind".to_owned());
        all.extend((1..=4).map(|host| format!("127.0.0.{host}")));
        // An argument may have an option and its values.
        all.extend(arguments.iter().flat_map(|argument| argument.split(' ').map(str::to_owned)));
        let mut server = Self { name: name.to_owned(), stage, port, arguments: all, running: None };
        server.run()?;
        Ok(server)
    }

    fn start_sentinel(stage: &Stage, name: &str, master: u16) -> Result<Self> {
        let (stage, port) = (stage.within(name)?, free_port()?);
        let settings = format!(
            "port {port}\nbind 127.0.0.1\nsentinel monitor {MASTER} 127.0.0.1 {master} 2\n\
             sentinel down-after-milliseconds {MASTER} 1000\nsentinel failover-timeout {MASTER} 5000\n"
        );
        let file = stage.path("sentinel.conf");
        std::fs::write(&file, settings)?;
        let arguments = vec![file.display().to_string(), "--sentinel".to_owned()];
        let mut server = Self { name: name.to_owned(), stage, port, arguments, running: None };
        server.run()?;
        Ok(server)
    }

    fn run(&mut self) -> Result<()> {
        let mut command = self.stage.command("redis-server");
        command.args(&self.arguments);
        self.running = Some(Running::start(&self.name, &mut command, &self.stage.folder)?);
        self.await_reply(&["ping"], "PONG")
    }

    fn address(&self) -> String {
        format!("127.0.0.1 {}", self.port)
    }

    fn ask(&self, command: &[&str]) -> Result<String> {
        let output = self
            .stage
            .command("redis-cli")
            .args(["-p", &self.port.to_string()])
            .args(command)
            .output()
            .context("cannot start redis-cli; is redis-tools installed?")?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Asks until the reply has this text.
    fn await_reply(&self, command: &[&str], text: &str) -> Result<()> {
        let end = Instant::now() + PATIENCE;
        loop {
            let reply = self.ask(command)?;
            if reply.contains(text) {
                return Ok(());
            }
            if Instant::now() > end {
                bail!("{} does not reply {text:?} to {}: {}", self.name, command.join(" "), reply.trim());
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

/// Name of the master at the sentinels.
const MASTER: &str = "mymaster";
