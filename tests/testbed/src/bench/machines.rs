//! Machines of a measurement: network namespaces for servers and for the phones, joined by a bridge; and a site of
//! them, with redis-server and up to three servers of Ringway, each on a machine of its own.

use crate::interop::Stage;
use crate::interop::cluster::Redis;
use anyhow::{Context, Result};
use ringway_lab::subject::Environment;
use ringway_test_support::namespace::{Namespace, enter};
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;

/// Machines, which are removed when this value is dropped.
pub(super) struct Machines {
    servers: Vec<Namespace>,
    /// Has the bridge.
    phones: Namespace,
}

impl Machines {
    /// Makes machines for the phones and for as many servers.
    ///
    /// # Errors
    /// This user may not.
    pub(super) fn make(servers: usize) -> Result<Self> {
        let refused = "cannot create network namespaces; run this as root";
        let phones = Namespace::with_bridge("phones", Self::PHONES)?.context(refused)?;
        let server = |index| {
            let server = Namespace::create("server")?.context(refused)?;
            server.join(&phones, "uplink", Self::address(index))?;
            Ok::<_, anyhow::Error>(server)
        };
        Ok(Self { servers: (0..servers).map(server).collect::<Result<_>>()?, phones })
    }

    /// Address of the phones.
    pub(super) const PHONES: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 100);

    /// Address of a server's machine.
    pub(super) const fn address(index: usize) -> Ipv4Addr {
        Ipv4Addr::new(192, 0, 2, 1 + index as u8)
    }

    /// Addresses of all machines, as load is sent to them.
    pub(super) fn addresses(&self) -> Vec<IpAddr> {
        (0..self.servers.len()).map(Self::address).chain([Self::PHONES]).map(IpAddr::V4).collect()
    }

    /// Machine of a server.
    pub(super) fn server(&self, index: usize) -> Result<&Namespace> {
        self.servers.get(index).context("there is no such machine")
    }

    /// Calls `run` on the machine of a server. What it starts and opens stays there.
    pub(super) fn at<R: Send>(&self, index: usize, run: impl FnOnce() -> Result<R> + Send) -> Result<R> {
        enter(Some(self.server(index)?.name()), run)?
    }

    /// Calls `run` on the machine of the phones.
    pub(super) fn at_phones<R: Send>(&self, run: impl FnOnce() -> Result<R> + Send) -> Result<R> {
        enter(Some(self.phones.name()), run)?
    }
}

/// Machines of a measurement, and its programs.
pub(super) struct Site<'e> {
    pub(super) environment: &'e Environment,
    pub(super) machines: Machines,
}

impl<'e> Site<'e> {
    pub(super) fn make(environment: &'e Environment) -> Result<Self> {
        Ok(Self { environment, machines: Machines::make(SERVERS + 1)? })
    }

    /// Starts a redis-server with an append-only file.
    pub(super) fn store(&self) -> Result<Redis> {
        let stage = Stage::outside(self.folder("store")?).inside(self.machines.server(STORE)?);
        Redis::single_at(&stage, Machines::address(STORE))
    }

    /// A new folder.
    pub(super) fn folder(&self, name: &str) -> Result<PathBuf> {
        Ok(tempfile::Builder::new().prefix(name).tempdir_in(&self.environment.folder)?.keep())
    }
}

/// Maximum number of servers of Ringway. The machine of the store is the one after theirs.
pub(super) const SERVERS: usize = 3;
const STORE: usize = SERVERS;
