//! Registrations of this server for a table of its database.

use super::Node;
use super::host::ServerHost;
use crate::config::Config;
use crate::failure::Failure;
use ringway_linux::{Clock, Shards};
use ringway_sansio::{Instant, ShardKey};
use ringway_server::{RegistrationRef, shard_of_aor};
use ringway_sql::connection::DatabaseAccess;
use ringway_sql::provisioning::{DangerLookup, LiveRegistration, LiveRegistrations, Position, WriteBack};
use std::fs;

/// Registrations of the shards. Each is copied under the lock of its shard and written after unlocking.
struct OfShards {
    shards: Shards<Node>,
    shard_key: ShardKey,
    clock: Clock,
}

/// Starts what else the configuration wants from the database of users: to write the registrations of this node into it, and to read
/// passwords from it.
pub(super) fn start(
    config: &Config,
    access: DatabaseAccess,
    (shards, clock): (&Shards<Node>, Clock),
    host: &ServerHost,
) -> Result<(), Failure> {
    if config.store.danger_lookup {
        host.set_lookup(DangerLookup::new(access.clone()));
    }
    if config.store.write_back {
        let live = OfShards { shards: shards.clone(), shard_key: host.shard_key(), clock };
        let write_back = WriteBack::start(access, &node_name(config), live);
        host.set_write_back(
            write_back
                .map_err(|error| Failure::failed(format!("cannot start the thread for [store]: {error}")))?,
        );
    }
    Ok(())
}

/// `[cluster] node`, or the name of this machine: servers without a cluster can have one database.
fn node_name(config: &Config) -> String {
    match &config.cluster {
        Some(cluster) => cluster.node.to_string(),
        None => fs::read_to_string("/proc/sys/kernel/hostname")
            .map_or_else(|_| String::new(), |name| name.trim().to_owned()),
    }
}

impl LiveRegistrations for OfShards {
    fn of(&self, aor: &[u8]) -> Vec<LiveRegistration> {
        let shard = shard_of_aor(&self.shard_key, aor, self.shards.len() as u16);
        let now = self.clock.now();
        let mut registrations = Vec::new();
        self.shards.with_shard(shard, |node| {
            node.location().bindings_of(aor, |found| registrations.extend(copied(&found, now)));
        });
        registrations
    }

    fn page(&self, from: Position, each: &mut dyn FnMut(&[u8], LiveRegistration)) -> Option<Position> {
        let Position { shard, slot } = from;
        if usize::from(shard) >= self.shards.len() {
            return None;
        }
        let now = self.clock.now();
        let walk = |node: &mut Node| {
            node.location().bindings_from(slot, SLOTS_AT_ONCE, |found| {
                if let Some(registration) = copied(&found, now) {
                    each(found.aor(), registration);
                }
            })
        };
        let next = self.shards.with_shard(shard, walk).flatten();
        Some(next.map_or(Position { shard: shard + 1, slot: 0 }, |slot| Position { shard, slot }))
    }
}

/// A copy; `None` for what is not registered at this node now.
fn copied(found: &RegistrationRef<'_>, now: Instant) -> Option<LiveRegistration> {
    if found.is_permanent() || found.node().is_some() || found.expires() <= now {
        return None;
    }
    let owned = found.to_owned();
    Some(LiveRegistration {
        contact: owned.contact,
        transport: owned.transport.to_string(),
        received: owned.address,
        path: owned.path,
        instance: owned.instance,
        call_id: found.call_id().to_vec(),
        cseq: found.cseq(),
        expires_in_s: owned.expires.since(now).as_secs(),
    })
}

/// Users that are copied at once under a lock.
const SLOTS_AT_ONCE: u32 = 256;
