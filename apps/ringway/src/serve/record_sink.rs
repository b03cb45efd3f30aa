//! Receiver of what the store of registrations reports.

use super::Node;
use super::control::Input;
use super::host::ServerHost;
use super::sharing::{LINK_VERSION, Peers, SharedLocation, wall_ms};
use crate::config::Config;
use crate::failure::Failure;
use ringway_linux::{Clock, Inboxes, Shards};
use ringway_location::Record;
use ringway_redis::{Event, NodeInfo, Settings, Sink};
use ringway_sansio::ShardKey;
use ringway_server::{Hold, shard_of_aor};
use std::sync::mpsc::Sender;
use std::sync::{Arc, OnceLock};

/// Ways from the threads of the store to the rest of the server.
pub(super) struct ClusterEvents {
    pub(super) inputs: Sender<Input>,
    pub(super) inboxes: Inboxes,
    pub(super) shards: Arc<OnceLock<Shards<Node>>>,
    pub(super) clock: Clock,
}

/// Passes records to their shards, and the rest to the main thread.
struct Reader {
    events: ClusterEvents,
    peers: Arc<Peers>,
    shard_key: ShardKey,
    node: ringway_location::NodeName,
    is_strict: bool,
    holds_all: bool,
}

/// Starts to share registrations, if the configuration has a store for them.
pub(super) fn start(
    config: &Config,
    settings: &ringway_server::Config,
    host: &ServerHost,
    events: ClusterEvents,
) -> Result<(), Failure> {
    let (Some(location), Some(cluster)) = (&config.location, &settings.cluster) else { return Ok(()) };
    let is_strict = config.store.durability == ringway_store::Durability::Strict;
    let holds_all = cluster.hold == Hold::All;
    let seed = crate::password::seed()?;
    let settings = Settings {
        url: location.url.clone(),
        node: cluster.node,
        incarnation: cluster.incarnation,
        link: cluster.link,
        link_version: LINK_VERSION,
        is_strict,
        holds_all,
        seed: u64::from_le_bytes(*seed.bytes().first_chunk().unwrap_or(&[0; 8])),
    };
    let peers = Arc::new(Peers::default());
    let peers_of_reader = Arc::clone(&peers);
    let (node, shard_key) = (cluster.node, host.shard_key());
    let reader = Reader { events, peers: peers_of_reader, shard_key, node, is_strict, holds_all };
    host.set_location(SharedLocation::open(settings, peers, Arc::new(reader))?);
    Ok(())
}

impl Reader {
    fn shard_of(&self, aor: &[u8], shards: &Shards<Node>) -> u16 {
        shard_of_aor(&self.shard_key, aor, shards.len() as u16)
    }

    fn note_lag(&self, record: &[u8], store_now_ms: u64) {
        let Ok(record) = Record::read(record) else { return };
        if record.by == self.node || record.number == 0 {
            return;
        }
        // The update of the newest binding is the one that led to the record, unless it removed bindings only.
        if let Some(newest) = record.entries().map(|entry| entry.registered_at_ms).max() {
            let lag_ms = store_now_ms.saturating_sub(newest);
            // A longer one is a registration that its node wrote once more.
            if lag_ms <= LAG_MAX_MS {
                self.peers.note_lag(lag_ms);
            }
        }
    }

    /// Fails only while the server stops.
    fn input(&self, input: Input) {
        let _ = self.events.inputs.send(input);
    }
}

impl Sink for Reader {
    fn on_record(&self, aor: &[u8], record: &[u8], store_now_ms: u64) {
        let shards = self.events.shards.wait();
        let now = self.events.clock.now();
        self.peers.note_store_clock(store_now_ms, wall_ms());
        self.note_lag(record, store_now_ms);
        let result = shards
            .with_shard(self.shard_of(aor, shards), |node| node.on_record(now, aor, record, store_now_ms));
        if let Some(Err(error)) = result {
            tracing::debug!("a record of the store of registrations is not valid: {error:?}");
        }
    }

    fn on_taken(&self, aor: &[u8], number: u64) {
        let shards = self.events.shards.wait();
        shards.with_shard(self.shard_of(aor, shards), |node| node.on_taken(aor, number));
    }

    fn on_walk(&self, walk: u32) {
        self.events.shards.wait().with_each(|node| node.begin_walk(walk));
    }

    fn on_located(&self, number: u64) {
        if let Some((shard, query)) = self.peers.end_lookup(number) {
            // If the inbox is full the result is lost; the shard's query then times out.
            self.events.inboxes.deliver(shard, ringway_sansio::Event::Located { query });
        }
    }

    fn on_nodes(&self, nodes: &[NodeInfo]) {
        if self.peers.set(nodes) {
            self.input(Input::NodesChanged);
        }
    }

    fn on_durable(&self, _number: u64) {
        if self.is_strict {
            self.events.inboxes.wake();
        }
    }

    fn on_event(&self, event: Event) {
        write_to_log(&event, self.holds_all);
        match event {
            Event::Walked { walks, is_loss } => self.input(Input::Walked(walks, is_loss)),
            Event::Warm { .. } => self.peers.set_warm(true),
            Event::Behind { .. } => self.peers.set_warm(false),
            Event::Rewrite | Event::Unanswered => self.input(Input::ShareAgain),
            _ => {}
        }
    }
}

fn write_to_log(event: &Event, holds_all: bool) {
    match event {
        Event::Down { reason } => tracing::error!(
            "the store of registrations cannot be used: {reason}; this node serves what it has until it is back"
        ),
        Event::Up { after } => {
            tracing::info!("the store of registrations is used, after {} s", after.as_secs())
        }
        Event::Warm { records, took } => {
            tracing::info!(
                "registrations of all nodes were read: {records} users in {} ms",
                took.as_millis()
            );
        }
        Event::Behind { tags } if !holds_all => tracing::warn!(
            "changes of the store of registrations were lost before they were read, of {tags} of 64 parts"
        ),
        Event::Behind { tags } => tracing::warn!(
            "changes of the store of registrations were lost before they were read: {tags} of 64 parts are read again"
        ),
        Event::Rewrite => {
            tracing::warn!(
                "the store of registrations may have lost data: this node writes its registrations again"
            );
        }
        Event::Walked { .. } => {}
        Event::Unanswered => {
            tracing::debug!("this node writes its registrations again: answers were not read")
        }
        Event::NodeUp(name) => tracing::info!(node = %name, "node is up"),
        Event::NodeGone(name) => tracing::warn!(
            node = %name, "node is gone: it sends no heartbeats; phones that only it reaches are not called"
        ),
        Event::NameTaken { incarnation } => tracing::error!(
            "another server has the name of this node and runs, started at {incarnation} ms since the epoch: REGISTER gets 503 here; \
             stop one of them, or give each its own [cluster] node"
        ),
        Event::NameFree => {
            tracing::info!(
                "the other server with the name of this node has ended: phones register here again"
            );
        }
        Event::Full => tracing::error!(
            "too many registrations wait for their store: the oldest are dropped and written again when it is back"
        ),
        Event::Refused { reason } => tracing::error!("the store of registrations refuses a change: {reason}"),
        Event::Damaged { reason } => {
            tracing::warn!("invalid data in the store of registrations is passed over: {reason}");
        }
        Event::NoReplica => tracing::error!(
            "no replica of the store confirms registrations: with [store] durability = \"strict\" REGISTER gets 503 until one does"
        ),
        Event::Panicked => tracing::error!(
            "the thread for the store of registrations panicked: they are kept in memory only; restart the server"
        ),
    }
}

/// Maximum age of a registration that counts as news, in milliseconds.
const LAG_MAX_MS: u64 = 10_000;
