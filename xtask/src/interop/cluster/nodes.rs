//! Servers that share their registrations.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::redis::Redis;
use crate::interop::Stage;
use crate::interop::process::free_port;
use crate::interop::server::{Server, Wanted};
use crate::interop::sipp::User;

/// Running nodes `a`, `b`, … with the same users, of the same store.
pub(super) struct Nodes {
    pub(super) servers: Vec<Server>,
}

impl Nodes {
    /// Starts `count` nodes and waits until each has a link to all others.
    pub(super) fn start(
        stage: &Stage,
        redis: &Redis,
        (wanted, count): (Wanted, usize),
        users: &[User],
    ) -> Result<Self> {
        let mut servers = Vec::new();
        for name in NAMES.iter().take(count) {
            servers.push(start_one(&stage.within(name)?, redis, (wanted, name), users)?);
        }
        let nodes = Self { servers };
        nodes.await_links()?;
        Ok(nodes)
    }

    /// A node.
    pub(super) fn node(&self, index: usize) -> Result<&Server> {
        self.servers.get(index).context("there is no such node")
    }

    /// The same, to stop it or to start it again.
    pub(super) fn node_mut(&mut self, index: usize) -> Result<&mut Server> {
        self.servers.get_mut(index).context("there is no such node")
    }

    /// Waits until each node has read all registrations and has a link to each other node.
    pub(super) fn await_links(&self) -> Result<()> {
        for server in &self.servers {
            eventually("linked and warm", || {
                let cluster = server.cluster()?;
                let nodes = cluster["nodes"].as_array().context("no nodes")?;
                let linked = nodes.iter().filter(|node| node["link"] == "up").count();
                let is_warm = cluster["store"]["state"] == "up";
                match is_warm && linked + 1 == self.servers.len() {
                    true => Ok(()),
                    false => bail!("{cluster}"),
                }
            })?;
        }
        Ok(())
    }

    /// Waits until this node lists all of `users`.
    pub(super) fn await_registered(&self, index: usize, users: &[User]) -> Result<()> {
        let server = self.node(index)?;
        eventually("registrations of other nodes", || {
            server.expect_registered(users.iter().map(|user| user.name.as_str()), true)
        })
    }
}

/// Starts a node.
pub(super) fn start_one(
    stage: &Stage,
    redis: &Redis,
    (wanted, name): (Wanted, &str),
    users: &[User],
) -> Result<Server> {
    let secret = stage.path("cluster-secret");
    std::fs::write(&secret, format!("{}\n", "5e71c9a8".repeat(8)))?;
    let mut permissions = std::fs::metadata(&secret)?.permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut permissions, 0o600);
    std::fs::set_permissions(&secret, permissions)?;
    let accounts: Vec<_> = users.iter().map(|user| (user.name.clone(), user.password.clone())).collect();
    let sections = format!(
        "[location]\nurl = \"{}\"\n\n[cluster]\nnode = \"{name}\"\nlisten = \"127.0.0.1:{}\"\nsecret = \"{}\"\n",
        redis.url(),
        free_port()?,
        secret.display()
    );
    Server::start_among(stage, (wanted, &sections), &accounts)
}

/// Repeats until it succeeds, for 20 s at most.
pub(super) fn eventually(what: &str, mut attempt: impl FnMut() -> Result<()>) -> Result<()> {
    let end = Instant::now() + Duration::from_secs(20);
    loop {
        match attempt() {
            Ok(()) => return Ok(()),
            Err(error) if Instant::now() > end => return Err(error).context(what.to_owned()),
            Err(_) => std::thread::sleep(Duration::from_millis(50)),
        }
    }
}

const NAMES: [&str; 3] = ["a", "b", "c"];
