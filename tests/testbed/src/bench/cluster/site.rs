//! Redis-server and up to three servers of Ringway, each on a machine of its own.

use super::super::machines::Machines;
use crate::interop::Stage;
use crate::interop::cluster::Redis;
use anyhow::Result;
use ringway_lab::subject::Environment;
use std::path::PathBuf;

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
