//! Receiver of records and events.

use ringway_location::NodeName;
use std::net::SocketAddr;
use std::time::Duration;

/// Receiver of what a store reports. The store's threads call it; it must not block.
pub trait Sink: Send + Sync {
    /// An encoded [`ringway_location::Record`] of an address-of-record, which is not older than the one before. `store_now_ms` is the
    /// time of the store's clock in milliseconds since the epoch. The record is valid; without entries the user has no bindings. Its
    /// number is 0 if it was read, not followed, and another node's.
    fn on_record(&self, aor: &[u8], record: &[u8], store_now_ms: u64);

    /// A lookup ended. If the store has bindings, [`Sink::on_record`] had them before.
    fn on_located(&self, query: u64);

    /// The nodes of the store without this one, sorted by name: after a change of one of them, and every 5 s with their times alone.
    fn on_nodes(&self, nodes: &[NodeInfo]);

    /// All updates up to this number are durable.
    fn on_durable(&self, number: u64);

    /// Something to log, or to do.
    fn on_event(&self, event: Event);
}

/// Another node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeInfo {
    /// Name.
    pub name: NodeName,
    /// Address for links.
    pub link: SocketAddr,
    /// Start of its process, in milliseconds since the epoch.
    pub incarnation: u64,
    /// Version of its link protocol.
    pub version: u16,
    /// State.
    pub state: NodeState,
    /// Time of its last heartbeat by the clock of the store, in milliseconds since the epoch.
    pub last_seen_ms: u64,
}

/// State of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeState {
    /// It sends heartbeats.
    Up,
    /// It sends heartbeats and takes no new connections.
    Draining,
    /// It has sent no heartbeat for 5 s while the store took those of this node.
    Gone,
}

/// Event of a store. Each is reported once until it ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The store cannot be used; attempts go on.
    Down {
        /// First error.
        reason: String,
    },
    /// The store works; also after the first connection.
    Up {
        /// Time without it.
        after: Duration,
    },
    /// All records were read; from now on a user without bindings has none. Also after [`Event::Behind`]. Never without
    /// [`crate::Settings::holds_all`].
    Warm {
        /// Number of records read.
        records: u64,
        /// Time that it took.
        took: Duration,
    },
    /// Changes were lost before they were read, or the store lost its data: the records of these tags are read again, if all
    /// are held.
    Behind {
        /// Number of tags, of 64.
        tags: usize,
    },
    /// Changes are read from now on: the first time, or anew because the positions were given up. The record that answers an update of this
    /// node may have been written before: its bindings must be appended again.
    Begun,
    /// The store lost updates that it had confirmed, or it may have. All bindings of this node must be appended again.
    Rewrite,
    /// A node appeared or came back.
    NodeUp(NodeName),
    /// A node stopped sending heartbeats.
    NodeGone(NodeName),
    /// Another process that runs has the name of this node. This one, the later one, is not listed as a node.
    NameTaken {
        /// Start of the other process.
        incarnation: u64,
    },
    /// More updates wait than the limit, and the oldest are dropped. [`Event::Rewrite`] follows when the store works.
    Full,
    /// The store refuses an update, which is passed over. It counts as durable, in strict mode too: numbers are settled in order, and
    /// one that is never settled would hold the answers of all users behind it.
    Refused {
        /// Its address-of-record and error.
        reason: String,
    },
    /// Something in the store is not valid and was passed over.
    Damaged {
        /// Kind of it.
        reason: String,
    },
    /// No replica confirms updates, in strict mode.
    NoReplica,
    /// A thread panicked; the store does nothing any more.
    Panicked,
}
