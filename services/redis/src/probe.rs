//! Check of a store before it is used.

use crate::connection::socket::OnWait;
use crate::connection::topology::Topology;
use crate::connection::{Connection, REPLY_TIME_MAX};
use crate::scripts::{Script, Scripts};
use crate::settings::shown_host;
use crate::{Kind, LocationUrl, StoreError};
use redis::{Cmd, InfoDict, cmd};
use ringway_location::{BYTES_MAX, EntryId, NodeName, Registered, UpdateWriter};
use std::sync::Arc;

/// State of a store, for a check of settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Kind of the store.
    pub kind: Kind,
    /// Its masters.
    pub masters: Vec<MasterReport>,
}

/// State of a master.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MasterReport {
    /// Host and port.
    pub server: String,
    /// Name and version, as `Redis 7.0.15`.
    pub version: String,
    /// Maximum memory in bytes; 0: no limit.
    pub memory_max: u64,
    /// Policy at that maximum: `noeviction` is the only good one.
    pub memory_policy: String,
    /// Number of replicas.
    pub replicas: u64,
    /// True with the append-only file.
    pub has_append_only_file: bool,
    /// Errors of commands that this node needs.
    pub refused: Vec<String>,
    is_old: bool,
}

/// Connects to a store, runs all commands that a node needs on keys of their own, and reads the settings that matter.
///
/// # Errors
/// The store cannot be reached, or refuses the user.
pub fn probe(url: &LocationUrl) -> Result<Report, StoreError> {
    let on_wait: OnWait = Arc::new(|| {});
    let mut store = Topology::discover(url, &[], &on_wait)?;
    let tags: Vec<usize> = (0..store.masters.len()).filter_map(|master| store.tags(master).next()).collect();
    let mut masters = Vec::new();
    for (master, tag) in store.masters.iter_mut().zip(tags) {
        let server = shown_host(&master.host.0, master.host.1);
        masters.push(probe_master(&mut master.connection, server, tag)?);
    }
    Ok(Report { kind: store.kind, masters })
}

impl Report {
    /// Changes that an operator should make.
    pub fn warnings(&self, is_strict: bool) -> Vec<String> {
        let mut warnings = Vec::new();
        for master in &self.masters {
            let server = &master.server;
            if master.is_old {
                warnings.push(format!(
                    "{server}: {} is too old; use Redis 6.2, Valkey 7.2 or later",
                    master.version
                ));
            }
            if let Some(first) = master.refused.first() {
                warnings
                    .push(format!("{first}; allow the user the commands and keys of docs/recipes/scale.md"));
            }
            if master.memory_policy != "noeviction" {
                let policy = &master.memory_policy;
                warnings.push(format!(
                    "{server}: maxmemory-policy {policy} removes registrations when memory is short; set noeviction"
                ));
            }
            if is_strict && master.replicas == 0 {
                warnings.push(format!("{server}: no replica is connected, and strict durability needs one"));
            }
            if !master.has_append_only_file && master.replicas == 0 {
                warnings.push(format!(
                    "{server}: without appendonly and without a replica a restart loses all registrations, which the nodes then write again"
                ));
            }
        }
        warnings
    }
}

fn probe_master(connection: &mut Connection, server: String, tag: usize) -> Result<MasterReport, StoreError> {
    let mut info = String::new();
    for section in ["server", "memory", "replication", "persistence"] {
        info.push_str(&connection.run::<String>(cmd("INFO").arg(section))?);
    }
    let info = InfoDict::new(&info);
    let value = |name: &str| info.get::<String>(name).unwrap_or_default();
    let is_valkey = value("server_name") == "valkey";
    let version = value(if is_valkey { "valkey_version" } else { "redis_version" });
    let mut numbers = version.split('.').map(|number| number.parse::<u32>().unwrap_or(0));
    let is_old = (numbers.next(), numbers.next()) < (Some(6), Some(2));
    Ok(MasterReport {
        server,
        version: format!("{} {version}", if is_valkey { "Valkey" } else { "Redis" }),
        memory_max: info.get("maxmemory").unwrap_or_default(),
        memory_policy: value("maxmemory_policy"),
        replicas: info.get("connected_slaves").unwrap_or_default(),
        has_append_only_file: value("aof_enabled") == "1",
        refused: run_commands(connection, tag)?,
        is_old,
    })
}

/// Runs the commands of writer and reader on keys of the probe, and returns the errors of those that are refused.
fn run_commands(connection: &mut Connection, tag: usize) -> Result<Vec<String>, StoreError> {
    let key = |name: &str| format!("rw:{{{tag:02}}}:probe:{name}");
    let (record, all, log, nodes, epoch) =
        (&key("b"), &key("all"), &key("log"), &key("nodes"), &key("epoch"));
    let scripts = Scripts::new();
    let [put, read, list] = scripts.all();
    let mut commands: Vec<Cmd> = scripts.all().map(Script::load).into();
    commands.extend([
        cmd("TIME"),
        put.run(3).arg(&[record, all, log]).arg("probe").arg(update()).take(),
        read.run(2).arg(&[log, all, record]).arg(BYTES_MAX).arg(&["scan", "0", "1"]).take(),
        list.run(1).arg(nodes).take(),
        cmd("XREAD").arg(&["COUNT", "1", "STREAMS", log, "0-0"]).take(),
        Cmd::hset(nodes, "probe", 1),
        cmd("HSTRLEN").arg(nodes).arg("probe").take(),
        Cmd::hget(nodes, "probe"),
        Cmd::hdel(nodes, "probe"),
        cmd("SET").arg(epoch).arg(&["1", "NX"]).take(),
        Cmd::get(epoch),
        cmd("TYPE").arg(log).take(),
        cmd("WAIT").arg(&[0, 1]).take(),
        Cmd::del(&[record, all, log, nodes, epoch]),
    ]);
    let mut refused = Vec::new();
    for command in &commands {
        connection.push(command);
        connection.send()?;
        let reply = connection.receive(REPLY_TIME_MAX)?;
        if let Err(error) = connection.checked(reply) {
            refused.push(error.to_string());
        }
    }
    Ok(refused)
}

/// An update whose record ends within a second.
fn update() -> Vec<u8> {
    let mut update = Vec::new();
    if let Some(node) = NodeName::read(b"probe") {
        let mut writer = UpdateWriter::new(&mut update, &node, 0, None);
        writer
            .entry(EntryId([0; 16]), Registered { age_ms: 0, call: 0, cseq: 0 }, 1_000, |out| out.push(b'x'));
        writer.finish();
    }
    update
}
