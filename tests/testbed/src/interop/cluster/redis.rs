//! Debian's Redis: one server, a master with a replica and sentinels, or a cluster of three masters.

use anyhow::{Context, Result};
use ringway_test_support::redis::{MASTER, RedisServer};
use std::net::Ipv4Addr;

use crate::interop::Stage;

/// A running Redis, as one program or several.
pub(crate) struct Redis {
    servers: Vec<RedisServer>,
    sentinels: Vec<RedisServer>,
    /// Address for nodes on other machines.
    host: Option<Ipv4Addr>,
}

impl Redis {
    /// One server that keeps its data over a restart.
    pub(super) fn single(stage: &Stage) -> Result<Self> {
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

/// A server in a subfolder, with further arguments, which may have an option and its values.
fn start(stage: &Stage, name: &str, arguments: &[&str]) -> Result<RedisServer> {
    let all: Vec<&str> = LISTEN.iter().chain(arguments).flat_map(|argument| argument.split(' ')).collect();
    RedisServer::start_at(&stage.within(name)?.site(), name, &all)
}

/// An address for each node; the first one is that of its own connections.
const LISTEN: [&str; 2] = ["--bind", "127.0.0.1 127.0.0.2 127.0.0.3 127.0.0.4"];
