//! Masters of a store and the tags that they serve.

use crate::connection::socket::OnWait;
use crate::connection::{Connection, Host};
use crate::connection::{bytes, number};
use crate::scripts::{self, TAGS};
use crate::{Kind, LocationUrl, StoreError};
use redis::{InfoDict, Value, cmd};

/// Masters of a store.
pub(crate) struct Topology {
    pub(crate) kind: Kind,
    pub(crate) masters: Vec<Master>,
    /// Index of the master of each tag.
    pub(crate) master_of: [usize; TAGS],
}

pub(crate) struct Master {
    pub(crate) host: Host,
    pub(crate) connection: Connection,
    /// Text of the process; another one after a restart or a failover.
    pub(crate) run_id: String,
}

impl Topology {
    /// Connects to the masters that a host of the URL names, or one of `known`, the masters of a cluster that were found before.
    pub(crate) fn discover(url: &LocationUrl, known: &[Host], on_wait: &OnWait) -> Result<Self, StoreError> {
        let mut failed = StoreError::new("the URL has no host");
        for host in url.hosts().iter().chain(known) {
            match Self::ask(host, url, on_wait) {
                Ok(topology) => return Ok(topology),
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }

    /// Masters that can be asked in place of the hosts of the URL. Only those of a cluster: the others follow the URL.
    pub(crate) fn known(&self) -> Vec<Host> {
        match self.kind {
            Kind::Cluster => self.masters.iter().map(|master| master.host.clone()).collect(),
            Kind::Unknown | Kind::Single | Kind::Sentinel => Vec::new(),
        }
    }

    fn ask(host: &Host, url: &LocationUrl, on_wait: &OnWait) -> Result<Self, StoreError> {
        let (mut connection, refused) = Connection::connect(host, url, on_wait)?;
        let info = match (info(&mut connection, "server"), refused) {
            (Ok(info), None) => info,
            // Sentinels of a store with a password often have none.
            (Ok(info), Some(_)) if mode(&info).as_deref() == Some("sentinel") => info,
            (_, Some(error)) | (Err(error), None) => return Err(error),
        };
        match mode(&info).as_deref() {
            Some("sentinel") => {
                let master = named_master(&mut connection, url)?;
                Ok(Self::of_one(Kind::Sentinel, Master::connect(master, url, on_wait)?))
            }
            Some("cluster") => Self::of_cluster(connection, host, url, on_wait),
            _ => Ok(Self::of_one(Kind::Single, Master::of(host.clone(), connection, &info)?)),
        }
    }

    fn of_one(kind: Kind, master: Master) -> Self {
        Self { kind, masters: vec![master], master_of: [0; TAGS] }
    }

    fn of_cluster(
        mut connection: Connection,
        host: &Host,
        url: &LocationUrl,
        on_wait: &OnWait,
    ) -> Result<Self, StoreError> {
        let ranges: Vec<Value> = connection.run(cmd("CLUSTER").arg("SLOTS"))?;
        let ranges: Vec<(u64, u64, Host)> =
            ranges.iter().filter_map(|range| read_range(range.as_sequence()?, host)).collect();
        for tag in 0..TAGS {
            connection.push(cmd("CLUSTER").arg("KEYSLOT").arg(scripts::log(tag)));
        }
        connection.send()?;
        let mut masters: Vec<Master> = Vec::new();
        let mut master_of = [0; TAGS];
        for (tag, index) in master_of.iter_mut().enumerate() {
            let reply = connection.receive(crate::connection::REPLY_TIME_MAX)?;
            let slot = number(&connection.checked(reply)?);
            let range =
                ranges.iter().find(|(from, to, _)| slot.is_some_and(|slot| (*from..=*to).contains(&slot)));
            let Some((_, _, host)) = range else {
                let server = connection.server();
                return Err(StoreError::new(format_args!(
                    "{server}: the cluster serves no slot of {}",
                    scripts::log(tag)
                )));
            };
            *index = match masters.iter().position(|master| master.host == *host) {
                Some(index) => index,
                None => {
                    masters.push(Master::connect(host.clone(), url, on_wait)?);
                    masters.len() - 1
                }
            };
        }
        Ok(Self { kind: Kind::Cluster, masters, master_of })
    }

    /// Connection to the master of a tag.
    pub(crate) fn of_tag(&mut self, tag: usize) -> Result<&mut Connection, StoreError> {
        let index = self.master_of.get(tag).copied().unwrap_or_default();
        let master = self.masters.get_mut(index);
        master.map(|master| &mut master.connection).ok_or_else(|| StoreError::new("no master"))
    }

    /// Tags of a master.
    pub(crate) fn tags(&self, master: usize) -> impl Iterator<Item = usize> {
        self.master_of.iter().enumerate().filter(move |(_, index)| **index == master).map(|(tag, _)| tag)
    }
}

impl Master {
    fn connect(host: Host, url: &LocationUrl, on_wait: &OnWait) -> Result<Self, StoreError> {
        let (mut connection, refused) = Connection::connect(&host, url, on_wait)?;
        if let Some(error) = refused {
            return Err(error);
        }
        let info = info(&mut connection, "server")?;
        Self::of(host, connection, &info)
    }

    fn of(host: Host, mut connection: Connection, server: &InfoDict) -> Result<Self, StoreError> {
        let role: Option<String> = info(&mut connection, "replication")?.get("role");
        if role.as_deref() != Some("master") {
            let server = connection.server();
            return Err(StoreError::new(format_args!(
                "{server} is a replica; name the master, or its Sentinels"
            )));
        }
        Ok(Self { host, connection, run_id: server.get("run_id").unwrap_or_default() })
    }
}

fn info(connection: &mut Connection, section: &str) -> Result<InfoDict, StoreError> {
    connection.run(cmd("INFO").arg(section))
}

fn mode(server: &InfoDict) -> Option<String> {
    server.get("redis_mode")
}

fn named_master(sentinel: &mut Connection, url: &LocationUrl) -> Result<Host, StoreError> {
    let name = url.master();
    let host: Option<Host> = sentinel.run(cmd("SENTINEL").arg("GET-MASTER-ADDR-BY-NAME").arg(name))?;
    host.ok_or_else(|| {
        let server = sentinel.server();
        StoreError::new(format_args!(
            "Sentinel {server} has no master `{name}`; name it as redis://{server}/NAME"
        ))
    })
}

/// First and last slot and the master of a range. A master without an address is the one that was asked.
fn read_range(range: &[Value], asked: &Host) -> Option<(u64, u64, Host)> {
    let (from, to) = (number(range.first()?)?, number(range.get(1)?)?);
    let Value::Array(master) = range.get(2)? else { return None };
    let port = u16::try_from(number(master.get(1)?)?).ok()?;
    let host = match master.first().and_then(bytes) {
        None | Some(b"" | b"?") => asked.0.clone(),
        Some(host) => std::str::from_utf8(host).ok()?.to_owned(),
    };
    Some((from, to, (host, port)))
}
