//! Start of the server: loading of users and bindings, the writer of the journal, errors of a start that are found without it
//! (`ringway check`), and reports to the service manager (sd_notify(3)), which without one have no effect.

use super::host::ServerHost;
use super::{Node, acme, changes, provisioning, records, signers, tls};
use crate::config::{Config, ConfigError};
use crate::failure::Failure;
use ringway_linux::{Inboxes, Shards};
use ringway_sansio::{Instant, Seed, ShardKey};
use ringway_server::{Server, shard_of_aor, shard_of_user};
use ringway_store::{Bindings, Durability, OtherRealm, SnapshotSource, Store, Writer};
use sd_notify::NotifyState;
use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, OnceLock};

pub(super) fn new_nodes(
    settings: &Arc<ringway_server::Config>,
    host: &Arc<ServerHost>,
    workers: usize,
    seed: Seed,
    now: Instant,
) -> Vec<Node> {
    let count = shards_of(workers);
    let transactions = TRANSACTIONS_MAX.div_ceil(count);
    let mut settings = ringway_server::Config::clone(settings);
    settings.transaction_limits =
        ringway_transaction::Limits { servers_max: transactions, clients_max: transactions };
    let settings = &Arc::new(settings);
    let shard = |shard| {
        let tables = Arc::clone(host.tables());
        Server::new(Arc::clone(settings), Arc::clone(host) as _, tables, shard, seed, now)
    };
    (0..count as u16).map(shard).collect()
}

/// Loads subscribers and permanent contacts from the database. Returns the number of the last change that was applied
/// to the bindings too.
pub(super) fn load(
    store: &Store,
    config: &Config,
    host: &ServerHost,
    nodes: &mut [Node],
) -> Result<u64, Failure> {
    let mut contacts: HashMap<String, Vec<String>> = HashMap::new();
    let loaded = store.load(
        |row| host.add_subscriber(&row),
        |name, domain, contact| {
            contacts.entry(format!("{name}@{domain}")).or_default().push(contact.to_owned());
        },
    )?;
    let count = nodes.len() as u16;
    for (aor, contacts) in &contacts {
        let shard = shard_of_aor(&host.shard_key(), aor.as_bytes(), count);
        let list: Vec<&[u8]> = contacts.iter().map(String::as_bytes).collect();
        if let Some(node) = nodes.get_mut(usize::from(shard)) {
            node.set_permanent_contacts(aor.as_bytes(), &list);
        }
    }
    changes::load(store, host)?;
    // Later than the rest: changes in between are applied again.
    store.load_forwards(|name, domain, forwards| {
        let shard = shard_of_user(&host.shard_key(), name.as_bytes(), count);
        if let Some(node) = nodes.get_mut(usize::from(shard)) {
            node.set_forwards(format!("{name}@{domain}").as_bytes(), forwards);
        }
    })?;
    other_realms(store, config).iter().for_each(|warning| tracing::warn!("{warning}"));
    Ok(loaded.applied)
}

/// Restores the bindings and the kept messages of earlier runs from the journal into `nodes`.
pub(super) fn recover(
    config: &Config,
    key: ShardKey,
    nodes: &mut [Node],
    now: Instant,
) -> Result<Bindings, Failure> {
    let count = nodes.len() as u16;
    let mut unreadable = 0_u64;
    let bindings = Bindings::recover(&config.store.url, |aor, record| {
        let shard = shard_of_aor(&key, aor, count);
        if let Some(node) = nodes.get_mut(usize::from(shard))
            && node.restore(aor, record, now).is_err()
        {
            unreadable += 1;
        }
    })?;
    if unreadable > 0 {
        tracing::warn!("{unreadable} registrations or messages in the store are invalid and are ignored");
    }
    Ok(bindings)
}

pub(super) fn start_writer(
    bindings: Bindings,
    config: &Config,
    inboxes: Inboxes,
    shards: &Arc<OnceLock<Shards<Node>>>,
) -> Result<Writer, Failure> {
    let is_strict = config.store.durability == Durability::Strict;
    let on_durable = move |_| {
        if is_strict {
            inboxes.wake();
        }
    };
    bindings
        .start(config.store.durability, snapshot_source(Arc::clone(shards)), on_durable)
        .map_err(|error| Failure::failed(format!("cannot start the store: {error}")))
}

/// Walks the bindings and the kept messages shard by shard. A few users at a time are copied under the shard's lock and written
/// after unlocking, so that no message waits for the disk.
fn snapshot_source(shards: Arc<OnceLock<Shards<Node>>>) -> SnapshotSource {
    Box::new(move |put| {
        let shards = shards.wait();
        let mut copied: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
        for shard in 0..shards.len() as u16 {
            for walk in [bindings_from, messages_from] {
                let mut from = Some(0);
                while let Some(first) = from {
                    let copy = |node: &mut Node| {
                        walk(node, first, &mut |key, record| copied.push((key.to_vec(), record.to_vec())))
                    };
                    from = shards.with_shard(shard, copy).flatten();
                    for (key, record) in copied.drain(..) {
                        put(&key, &record);
                    }
                }
            }
        }
    })
}

/// Warnings about passwords for another realm. An error of the query does not prevent the start; the next access to the
/// store reports it.
pub(super) fn other_realms(store: &Store, config: &Config) -> Vec<String> {
    if !config.server.auth.enabled {
        return Vec::new();
    }
    let realms = &config.server.auth.realms;
    let warning = |other: OtherRealm| {
        let OtherRealm { domain, realm, users, name } = other;
        let (noun, have) = if users == 1 { ("user", "has") } else { ("users", "have") };
        format!(
            "{users} {noun} of {domain}, {name:?} one of them, {have} a password for the realm {realm:?} instead of {:?}: they \
             cannot log in until `ringway user passwd` gives them one, or [auth] names their realm",
            realms.of(domain.as_bytes())
        )
    };
    let others = store.subscribers_of_other_realms(|domain| realms.of(domain.as_bytes()));
    others.unwrap_or_default().into_iter().map(warning).collect()
}

fn bindings_from(node: &Node, first: u32, each: &mut dyn FnMut(&[u8], &[u8])) -> Option<u32> {
    node.location().records_from(first, USERS_AT_ONCE, each)
}

fn messages_from(node: &Node, first: u32, each: &mut dyn FnMut(&[u8], &[u8])) -> Option<u32> {
    node.message_records_from(first, MESSAGES_AT_ONCE, each)
}

/// Number of shards of so many workers; a single one needs one only.
pub(super) fn shards_of(workers: usize) -> usize {
    if workers <= 1 { 1 } else { (workers * SHARDS_PER_WORKER).min(SHARDS_MAX) }
}

/// Shards per worker: enough that two workers rarely need the same one.
const SHARDS_PER_WORKER: usize = 8;

const SHARDS_MAX: usize = 1024;

/// Users that a snapshot copies at once under a lock.
const USERS_AT_ONCE: u32 = 256;

/// Messages that a snapshot copies at once under a lock: half a mebibyte.
const MESSAGES_AT_ONCE: u32 = 48;

/// Maximum number of transactions of each kind in all shards. A transaction exists for 32 s, so this permits 60,000
/// calls/s; an answered call occupies about 600 bytes for that time.
const TRANSACTIONS_MAX: usize = 2_000_000;

/// Errors of files, and of the database of users, with which a start with the configuration in `file` would end. Nothing is changed, and
/// no port is tried: a running server has them.
pub(crate) fn start_errors(config: &Config, file: &Path) -> Vec<ConfigError> {
    let of_store = || provisioning::check(config, Store::open_existing(&config.store.url)?);
    let checked: [(&str, Result<(), Failure>); 5] = [
        ("[tls]", tls::check(config)),
        ("[tls.acme]", acme::check(config)),
        ("[stir]", signers::check(config)),
        ("[store]", of_store()),
        ("[records]", records::check(&config.records)),
    ];
    let failed = checked.into_iter().filter_map(|(section, checked)| Some((section, checked.err()?)));
    let error = |(section, failure): (&str, Failure)| {
        let line = failure.lines().join("; ");
        // Most lines begin with the key.
        let named = line.split_once(": ").filter(|(key, _)| key.starts_with(section));
        let (key, message) = named.unwrap_or((section, &line));
        ConfigError {
            file: file.display().to_string(),
            line: 0,
            key: key.to_owned(),
            message: message.to_owned(),
        }
    };
    failed.map(error).collect()
}

/// Reports that the server listens.
pub(super) fn ready() {
    report(&[NotifyState::Ready]);
}

/// Reports that the server stops.
pub(super) fn stopping() {
    report(&[NotifyState::Stopping]);
}

fn report(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::warn!("the service manager cannot be told: {error}");
    }
}
