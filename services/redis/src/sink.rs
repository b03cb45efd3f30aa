//! Receiver of records and events.

use crate::Walks;
use ringway_location::NodeName;
use std::net::SocketAddr;
use std::time::Duration;

/// Receiver of what a store reports. The store's threads call it; it must not block.
pub trait Sink: Send + Sync {
    /// An encoded [`ringway_location::Record`] of an address-of-record, which is not older than the one before. `store_now_ms` is the
    /// time of the store's clock in milliseconds since the epoch. The record is valid; without entries the user has no bindings. Its
    /// number is 0 if it was read, not followed, and another node's.
    fn on_record(&self, aor: &[u8], record: &[u8], store_now_ms: u64);

    /// The update of this node with this number is in the store as it is: no record follows for it.
    fn on_taken(&self, aor: &[u8], number: u64);

    /// A read of all records of some tags begins, with a number that is higher than the one before. Also where not all are held and
    /// nothing is read: what is held may be old from then on.
    fn on_walk(&self, walk: u32);

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
    /// True while it writes its registrations again, after the store lost data: not all are there yet. Nodes of earlier versions do not
    /// say so.
    pub writes_again: bool,
    /// Hash of its trunks that register; 0: it has none, or is of an earlier version.
    pub trunks: u64,
    /// True if it has sent no heartbeat for 3 s while the store took those of this node.
    pub is_silent: bool,
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
    /// The reads with these numbers are complete: bindings of other nodes that have had no record since are not in the store.
    Walked {
        /// Numbers of the newest reads.
        walks: Box<Walks>,
        /// The store may have lost data, or not all is held: other nodes may have to write theirs again first.
        is_loss: bool,
    },
    /// The store lost updates that it had confirmed, or it may have. All bindings of this node must be appended again.
    Rewrite,
    /// News were passed over that may have answered updates of this node, at the start too. All bindings of this node must be appended
    /// again.
    Unanswered,
    /// A node appeared or came back.
    NodeUp(NodeName),
    /// A node stopped sending heartbeats.
    NodeGone(NodeName),
    /// Another process that runs has the name of this node. This one, the later one, is not listed as a node, and its phones are not
    /// reached from elsewhere ([`crate::LocationStore::is_name_taken`]).
    NameTaken {
        /// Start of the other process.
        incarnation: u64,
    },
    /// That process sends no heartbeats any more: this one is the node now.
    NameFree,
    /// More updates wait than the limit, and the oldest are dropped. [`Event::Rewrite`] follows when the store works.
    Full,
    /// The store refuses an update, which is passed over. Its number is settled, as numbers are settled in order, and one that is never
    /// settled would hold the answers of all users behind it: [`crate::LocationStore::refuses`] tells it from the others.
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
