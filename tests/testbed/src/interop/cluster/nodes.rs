//! Servers that share their registrations, REGISTERs that must get no 200, and Debian's Redis: one server, a master
//! with a replica and sentinels, or a cluster of three masters.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use ringway_test_support::eventually::retry;
use ringway_test_support::redis::{MASTER, RedisServer};

use super::register;
use crate::interop::Stage;
use crate::interop::calls::users;
use crate::interop::server::{Server, Wanted};
use crate::interop::sipp::User;
use crate::process::free_port;

/// Process nodes `a`, `b`, … with the same users, of the same store.
pub(super) struct Nodes {
    pub(super) servers: Vec<Server>,
    /// File of the secret and port of links, of each node.
    secrets: Vec<PathBuf>,
    link_ports: Vec<u16>,
}

impl Nodes {
    /// Starts `count` nodes and waits until each has a link to all others.
    pub(super) fn start(
        stage: &Stage,
        redis: &Redis,
        (wanted, count): (Wanted, usize),
        users: &[User],
    ) -> Result<Self> {
        let stores = vec![String::new(); count];
        Self::start_with(stage, redis, (wanted, &stores), users)
    }

    /// Starts a node for each of `stores`, sections `[store]` and others of their configurations; an empty one: the usual.
    pub(super) fn start_with(
        stage: &Stage,
        redis: &Redis,
        (wanted, stores): (Wanted, &[String]),
        users: &[User],
    ) -> Result<Self> {
        let mut nodes = Self { servers: Vec::new(), secrets: Vec::new(), link_ports: Vec::new() };
        for (index, (name, store)) in NAMES.iter().zip(stores).enumerate() {
            let (stage, port) = (stage.within(name)?, free_port()?);
            let listen = SocketAddrV4::new(Ipv4Addr::LOCALHOST, port);
            let shared = Shared { store, url: redis.url(index), name, listen };
            nodes.servers.push(start_one(&stage, &shared, wanted, users)?);
            nodes.secrets.push(secret_of(&stage));
            nodes.link_ports.push(port);
        }
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

    /// Port of a node's links.
    pub(super) fn link_port(&self, index: usize) -> Result<u16> {
        self.link_ports.get(index).copied().context("there is no such node")
    }

    /// Changes the secret of a node, and waits until the links that this closes are open again.
    pub(super) fn change_secret(&mut self, index: usize, secret: &str) -> Result<()> {
        write_secret(self.secrets.get(index).context("there is no such node")?, secret)?;
        let mut before = Vec::new();
        for server in &mut self.servers {
            before.push(server.log_lines(LINK_UP, 0)?.len());
        }
        self.node(index)?.reload()?;
        let others = self.servers.len() - 1;
        for (at, (server, before)) in self.servers.iter_mut().zip(before).enumerate() {
            server.log_lines(LINK_UP, before + if at == index { others } else { 1 })?;
        }
        self.await_links()
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

fn write_secret(file: &Path, secret: &str) -> Result<()> {
    std::fs::write(file, secret)?;
    let mut permissions = std::fs::metadata(file)?.permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut permissions, 0o600);
    Ok(std::fs::set_permissions(file, permissions)?)
}

/// Part of a node in what it shares with others.
pub(crate) struct Shared<'s> {
    /// Section `[store]` and others, or nothing.
    pub(crate) store: &'s str,
    pub(crate) url: String,
    pub(crate) name: &'s str,
    /// Address of links.
    pub(crate) listen: SocketAddrV4,
}

impl Shared<'_> {
    /// Sections of the configuration; the secret is in the folder of `stage`.
    pub(crate) fn sections(&self, stage: &Stage) -> Result<String> {
        let Self { store, url, name, listen } = self;
        let secret = secret_of(stage);
        write_secret(&secret, &format!("{}\n", "5e71c9a8".repeat(8)))?;
        Ok(format!(
            "{store}[location]\nurl = \"{url}\"\n\n[cluster]\nnode = \"{name}\"\nlisten = \"{listen}\"\nsecret = \"{}\"\n",
            secret.display()
        ))
    }
}

/// Starts a node.
pub(super) fn start_one(
    stage: &Stage,
    shared: &Shared<'_>,
    wanted: Wanted,
    users: &[User],
) -> Result<Server> {
    let accounts: Vec<_> = users.iter().map(|user| (user.name.clone(), user.password.clone())).collect();
    let sections = shared.sections(stage)?;
    Server::start_among(stage, (wanted, &sections), &accounts)
}

fn secret_of(stage: &Stage) -> PathBuf {
    stage.path("cluster-secret")
}

/// Repeats until it succeeds, for 20 s at most.
pub(super) fn eventually(what: &str, attempt: impl FnMut() -> Result<()>) -> Result<()> {
    within(Duration::from_secs(20), what, attempt)
}

/// Repeats until it succeeds, for this time at most.
pub(super) fn within(time: Duration, what: &str, attempt: impl FnMut() -> Result<()>) -> Result<()> {
    retry(time, attempt).with_context(|| what.to_owned())
}

/// With strict durability a user whose change the store refuses gets 503, and the others 200.
pub(super) fn change(stage: &Stage) -> Result<()> {
    let redis = Redis::sentinel(stage)?;
    let all = users("callee", "caller");
    let (first, others) = all.split_first().context("no users")?;
    let wanted = Wanted { strict: true, ..Wanted::default() };
    let nodes = Nodes::start(stage, &redis, (wanted, 1), &all)?;
    redis.set_later_record(&format!("{}@example.org", first.name))?;
    let node = nodes.node(0)?;
    let refused = register(&stage.within("refused")?, std::slice::from_ref(first), free_port()?, node);
    ensure!(refused.is_err(), "a refused REGISTER got 200");
    let refusals = node.counters()?.get("location_refusals")?;
    ensure!(refusals > 0, "no REGISTER got 503 after its change");
    register(&stage.within("others")?, others, free_port()?, node)
}

/// A second server with the name of a node registers nobody while the first one runs.
pub(super) fn name(stage: &Stage) -> Result<()> {
    let redis = Redis::single(stage)?;
    let all = users("callee", "caller");
    let mut nodes = Nodes::start(stage, &redis, (Wanted::default(), 1), &all)?;
    let listen = SocketAddrV4::new(Ipv4Addr::LOCALHOST, free_port()?);
    let shared = Shared { store: "", url: redis.url(1), name: "a", listen };
    let mut second = start_one(&stage.within("second")?, &shared, Wanted::default(), &all)?;
    second.log_lines("another server has the name of this node", 1)?;
    ensure!(state(&second)? == "name-taken", "{}", second.cluster()?);
    let refused = register(&stage.within("refused")?, &all, free_port()?, &second);
    ensure!(refused.is_err(), "a server whose name is taken registers phones");
    ensure!(second.counters()?.get("name_taken_registers")? > 0, "no REGISTER was refused for that");
    register(&stage.within("first")?, &all, free_port()?, nodes.node(0)?)?;
    nodes.node_mut(0)?.kill();
    eventually("the second server has the name", || {
        let state = state(&second)?;
        ensure!(state == "up", "{state}");
        Ok(())
    })?;
    register(&stage.within("second-again")?, &all, free_port()?, &second)
}

/// State of a server in its own list of nodes.
fn state(server: &Server) -> Result<String> {
    let cluster = server.cluster()?;
    Ok(cluster["nodes"][0]["state"].as_str().context("no state")?.to_owned())
}

/// A running Redis, as one program or several.
pub(crate) struct Redis {
    servers: Vec<RedisServer>,
    sentinels: Vec<RedisServer>,
    /// Address for nodes on other machines.
    host: Option<Ipv4Addr>,
}

impl Redis {
    /// One server that keeps its data over a restart.
    pub(crate) fn single(stage: &Stage) -> Result<Self> {
        let server = start(stage, "redis", &["--appendonly", "yes"])?;
        Ok(Self { servers: vec![server], sentinels: Vec::new(), host: None })
    }

    /// The same at this address of the stage's namespace, for nodes in others.
    pub(crate) fn single_at(stage: &Stage, host: Ipv4Addr) -> Result<Self> {
        let bind = format!("--bind 127.0.0.1 {host}");
        let arguments = ["--appendonly", "yes", &bind, "--protected-mode", "no"];
        let server = start(stage, "redis", &arguments)?;
        Ok(Self { servers: vec![server], sentinels: Vec::new(), host: Some(host) })
    }

    /// A master and a replica, watched by three sentinels.
    pub(super) fn sentinel(stage: &Stage) -> Result<Self> {
        let master = start(stage, "master", &[])?;
        let replica = start(stage, "replica", &["--replicaof", "127.0.0.1", &master.port().to_string()])?;
        replica.await_reply(&["info", "replication"], "master_link_status:up")?;
        let mut sentinels = Vec::new();
        for name in ["sentinel-1", "sentinel-2", "sentinel-3"] {
            let site = stage.within(name)?.site();
            sentinels.push(RedisServer::start_sentinel_at(&site, name, &master, 2, [1000, 5000])?);
        }
        for sentinel in &sentinels {
            sentinel.await_reply(&["sentinel", "ckquorum", MASTER], "OK 3 usable")?;
            sentinel.await_reply(&["sentinel", "replicas", MASTER], &replica.port().to_string())?;
        }
        Ok(Self { servers: vec![master, replica], sentinels, host: None })
    }

    /// Three masters that share the slots.
    pub(super) fn cluster(stage: &Stage) -> Result<Self> {
        let masters = ["redis-1", "redis-2", "redis-3"].map(|name| {
            let arguments: Vec<&str> = LISTEN.iter().flat_map(|argument| argument.split(' ')).collect();
            RedisServer::start_master_at(&stage.within(name)?.site(), name, &arguments)
        });
        let servers = RedisServer::join_cluster(masters.into_iter().collect::<Result<_>>()?)?;
        Ok(Self { servers, sentinels: Vec::new(), host: None })
    }

    /// Its URL for a node. One server has an address for each node, so that one of them can be cut off.
    pub(crate) fn url(&self, node: usize) -> String {
        let named = if self.sentinels.is_empty() { &self.servers } else { &self.sentinels };
        let local = if named.len() == 1 { Self::host_for(node) } else { Ipv4Addr::LOCALHOST };
        let host = self.host.unwrap_or(local);
        let hosts: Vec<String> = named.iter().map(|server| format!("{host}:{}", server.port())).collect();
        format!("redis://{}", hosts.join(","))
    }

    /// Address of one server for a node.
    pub(super) const fn host_for(node: usize) -> Ipv4Addr {
        Ipv4Addr::new(127, 0, 0, 2 + node as u8)
    }

    /// Ends the first server as a crash does.
    pub(crate) fn kill_first(&mut self) {
        if let Some(server) = self.servers.first_mut() {
            server.kill();
        }
    }

    /// Starts the first server again, with the data that it had.
    pub(crate) fn start_first_again(&mut self) -> Result<()> {
        self.servers.first_mut().map_or(Ok(()), RedisServer::start_again)
    }

    /// Value of the only key of this pattern.
    pub(crate) fn value(&self, pattern: &str) -> Result<String> {
        let server = self.servers.first().context("no server")?;
        let keys = server.ask(&["keys", pattern])?;
        server.ask(&["get", keys.trim()])
    }

    /// Gives a user a record of a later server, which no node changes.
    fn set_later_record(&self, aor: &str) -> Result<()> {
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

/// A server in a subfolder, with further arguments, which may have an option and its values.
fn start(stage: &Stage, name: &str, arguments: &[&str]) -> Result<RedisServer> {
    let all: Vec<&str> = LISTEN.iter().chain(arguments).flat_map(|argument| argument.split(' ')).collect();
    RedisServer::start_at(&stage.within(name)?.site(), name, &all)
}

/// Line of the log.
const LINK_UP: &str = "link to node is up";
const NAMES: [&str; 3] = ["a", "b", "c"];
/// An address for each node; the first one is that of its own connections.
const LISTEN: [&str; 2] = ["--bind", "127.0.0.1 127.0.0.2 127.0.0.3 127.0.0.4"];
