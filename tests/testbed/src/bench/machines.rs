//! Machines of a measurement: network namespaces for servers and for the phones, joined by a bridge.

use anyhow::{Context, Result};
use ringway_test_support::namespace::{Namespace, enter};
use std::net::{IpAddr, Ipv4Addr};

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
