//! A running server: its configuration, its figures, load for it.

use super::super::machines::Machines;
use super::super::machines::{SERVERS, Site};
use crate::interop::Stage;
use crate::interop::cluster::{Redis, Shared};
use anyhow::{Context, Result, anyhow, ensure};
use ringway_lab::load::{ConnectionUse, Flow, Plan, Session, Transport, Users};
use ringway_lab::machine;
use ringway_lab::process::Process;
use ringway_lab::server::DOMAIN;
use ringway_lab::server::PASSWORD;
use ringway_lab::server::Under;
use ringway_test_support::eventually::retry_often;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream};
use std::time::Duration;

/// A running server.
pub(super) struct Node<'s> {
    process: Process,
    site: &'s Site<'s>,
    /// Index of its machine.
    index: usize,
    pub(super) address: SocketAddr,
}

/// CPU time of the threads of servers, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cost {
    /// Of the workers.
    pub(super) packets: f64,
    /// Of the threads that write to the store and read from it.
    pub(super) store: f64,
    /// Of all threads.
    pub(super) all: f64,
}

impl<'s> Node<'s> {
    /// Starts a server that shares nothing.
    pub(super) fn alone(site: &'s Site<'s>) -> Result<Self> {
        Self::start(site, 0, None, "")
    }

    /// Starts nodes, each with these keys of its `[routing]`, and waits until each has all registrations and a link to each
    /// other one.
    pub(super) fn several<const N: usize>(
        site: &'s Site<'s>,
        store: &Redis,
        routing: [&str; N],
    ) -> Result<[Self; N]> {
        let mut nodes = Vec::new();
        for (index, routing) in routing.into_iter().enumerate() {
            nodes.push(Self::start(site, index, Some(store), routing)?);
        }
        for node in &nodes {
            node.wait_for("location_nodes_up", (N - 1) as f64)?;
            node.wait_for("location_warm", 1.0)?;
        }
        nodes.try_into().map_err(|_| anyhow!("a node is missing"))
    }

    /// Starts it on the machine with this index. Without a store it shares nothing.
    pub(super) fn start(
        site: &'s Site<'s>,
        index: usize,
        store: Option<&Redis>,
        routing: &str,
    ) -> Result<Self> {
        let name = NAMES[index];
        let folder = site.folder(name)?;
        let configuration = folder.join("ringway.toml");
        let host = Machines::address(index);
        let address = SocketAddrV4::new(host, SIP_PORT);
        let shared = match store {
            None => String::new(),
            Some(store) => {
                let listen = SocketAddrV4::new(host, LINK_PORT);
                let stage = Stage::outside(folder.clone());
                Shared { store: "", url: store.url(0), name, listen }.sections(&stage)?
            }
        };
        let text = format!(
            "domains = [\"{DOMAIN}\"]\nlisten = [\"udp:{address}\", \"tcp:{address}\"]\nworkers = 1\n[store]\nurl = \"sqlite://{}\"\n\
             [auth]\nenabled = false\n[routing]\n{routing}\n[limits]\nper_source_rate = 0\n[admin]\nlisten = \"{ADMIN}\"\n\
             [log]\nlevel = \"warn\"\n{shared}",
            folder.join("ringway.db").display(),
        );
        fs::write(&configuration, text).with_context(|| configuration.display().to_string())?;
        let process = site.machines.at(index, || site.environment.serve(&configuration, Under::Itself))?;
        Ok(Self { process, site, index, address: address.into() })
    }

    /// Plan of a load of `count` callers from number `first` on, and as many called users after them.
    pub(super) fn plan(&self, flow: Flow, first: u32, count: u32) -> Result<Plan> {
        let users = |first| Users::by_rule("u", 7, first, count, PASSWORD);
        Ok(Plan {
            domain: DOMAIN.to_owned(),
            register_window: Some(64),
            allowed_hosts: self.site.machines.addresses(),
            ..Plan::new(self.address, flow, users(first)?, users(first + count)?)
        })
    }

    /// Plan of calls over TCP to users who are connected to this or another node, otherwise the same.
    pub(super) fn calls_to(&self, called_at: &Self, first: u32, count: u32) -> Result<Plan> {
        Ok(Plan {
            transport: Transport::Tcp,
            connections: ConnectionUse::PerUser,
            peer_target: Some(called_at.address),
            ..self.plan(Flow::Call, first, count)?
        })
    }

    /// Users who have registered by the plan of a load over UDP.
    pub(super) fn session(&self, flow: Flow, first: u32, count: u32) -> Result<Session> {
        Session::open(&self.plan(flow, first, count)?)
    }

    /// Ends it as a crash does.
    pub(super) fn kill(&self) -> Result<()> {
        for pid in self.process.family()? {
            rustix::process::kill_process(pid, rustix::process::Signal::KILL)?;
        }
        Ok(())
    }

    pub(super) fn resident_bytes(&self) -> Result<u64> {
        self.process.resident_bytes()
    }

    pub(super) fn cpu_ns(&self) -> Result<Cost> {
        let mut cost = Cost::default();
        for pid in self.process.family()? {
            for (thread, times) in machine::thread_times(pid)? {
                let name = fs::read_to_string(format!("/proc/{}/task/{thread}/comm", pid.as_raw_nonzero()));
                cost.all += times.cpu_ns as f64;
                match name.unwrap_or_default() {
                    name if name.starts_with("worker") => cost.packets += times.cpu_ns as f64,
                    name if name.starts_with("location") => cost.store += times.cpu_ns as f64,
                    _ => {}
                }
            }
        }
        Ok(cost)
    }

    /// Figure of its admin API.
    pub(super) fn stat(&self, name: &str) -> Result<f64> {
        let shown = self.site.machines.at(self.index, read_stats)?;
        shown[name].as_f64().with_context(|| format!("the server has no figure {name}"))
    }

    /// Waits until a figure has this value, or more if it is not 0.
    pub(super) fn wait_for(&self, name: &str, value: f64) -> Result<()> {
        retry_often(Duration::from_secs(120), LOOK, || {
            let found = self.stat(name)?;
            let is_there = found == value || (value > 0.0 && found >= value);
            ensure!(is_there, "{name} is {found} instead of {value} after 120 s");
            Ok(())
        })
    }
}

/// Figures of the server on this thread's machine by its admin API, without a process for each reading.
fn read_stats() -> Result<serde_json::Value> {
    let mut stream = TcpStream::connect(ADMIN)?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    write!(stream, "GET /api/stats HTTP/1.1\r\nHost: {ADMIN}\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let body = answer.find('{').and_then(|at| answer.get(at..)).context("no figures")?;
    let end = body.rfind('}').context("no figures")?;
    serde_json::from_str(body.get(..=end).unwrap_or_default()).context("figures that are no JSON")
}

/// Interval at which a figure is read.
const LOOK: Duration = Duration::from_millis(20);
const NAMES: [&str; SERVERS] = ["a", "b", "c"];
// The ports are free: each machine has one server.
const SIP_PORT: u16 = 5060;
const LINK_PORT: u16 = 5070;
const ADMIN: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 8080);
