//! Settings of a runtime: its clock, the trace of messages, and the protocols between sockets and messages
//! ([`Layers`]), through which a program adds TLS and WebSocket; the clock, and the locks of what its shards share.

use crate::held::MarkedPackets;
use crate::inbox::Inboxes;
use crate::listeners::WORKERS_MAX;
use ringway_datagram::Associations;
use ringway_sansio::{
    ConnectionId, Flow, Instant, ListenerId, Locked, Locks, MemoryBound, Seed, ShardKey, Transport,
};
use ringway_stream::{Layer, Origin, PassThrough, StreamLimits};
use std::net::IpAddr;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Maximum length in bytes of a message on a stream with this flow; called once for each stream.
pub type MessageBytesMax = Arc<dyn Fn(&Flow) -> usize + Send + Sync>;

/// Rule for new connections, by listener and source; called once for each connection.
pub type AcceptanceRule = Arc<dyn Fn(ListenerId, IpAddr) -> Acceptance + Send + Sync>;

/// Treatment of a new connection at a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acceptance {
    /// The source is the peer.
    Direct,
    /// The source is a proxy, and the connection begins with a header of the PROXY protocol, which names the peer.
    Proxied,
    /// The connection is closed: the listener is for proxies, and the source is none of them.
    Refused,
}

/// Settings of a [`Runtime`](crate::Runtime).
#[derive(Clone)]
pub struct Config {
    /// Clock of the runtime; must be the one with which the nodes were created.
    pub clock: Clock,
    /// Treatment of packets that confirm that something is stored.
    pub marked_packets: MarkedPackets,
    /// Maximum length of a message on a stream.
    pub message_bytes_max: MessageBytesMax,
    /// Maximum number of open connections, accepted and dialled; more are refused.
    pub max_connections: usize,
    /// Maximum number of accepted connections of one source; 0: no limit, also not on the memory of a source's
    /// connections. An IPv6 source is a /64 network.
    pub max_connections_per_source: usize,
    /// Maximum number of datagrams per system call, 1 to 64.
    pub datagram_batch: usize,
    /// Rule for new stream connections. `None`: all are direct.
    pub acceptance: Option<AcceptanceRule>,
    /// Limits of one stream connection. A proxy's header has the time of a handshake.
    pub streams: StreamLimits,
    /// Limit of the bytes that stream connections hold: incomplete messages and unread output. `None`: no common limit.
    pub memory: Option<Arc<MemoryBound>>,
    /// Secret key that assigns messages to shards; must be the one with which the nodes were filled.
    pub shard_key: ShardKey,
    /// Layers of stream connections.
    pub layers: Arc<dyn Layers>,
    /// Transport whose connections are dialled from the port of their listener where that is possible: for a listener whose
    /// accepted connections fail.
    pub dials_from_listener: Option<Transport>,
    /// Associations of DTLS listeners. `None`: their datagrams are dropped.
    pub associations: Option<Arc<dyn Associations>>,
    /// Called with every message, if set.
    pub trace: Option<MessageTrace>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            clock: Clock::new(),
            marked_packets: MarkedPackets::SendAtOnce,
            message_bytes_max: Arc::new(|_| 65_535),
            max_connections: 20_000,
            max_connections_per_source: 0,
            datagram_batch: 32,
            acceptance: None,
            streams: StreamLimits::default(),
            memory: None,
            shard_key: ShardKey::new(&Seed::from_bytes([0; 32])),
            layers: Arc::new(PlainTcp),
            dials_from_listener: None,
            associations: None,
            trace: None,
        }
    }
}

/// Layer of a connection.
pub type BoxedLayer = Box<dyn Layer + Send>;

/// Source of the layers of stream connections. It is called on the workers' threads and must not block.
pub trait Layers: Send + Sync {
    /// Layer of a connection; `None` if there can be none. An accepted connection is then closed at once, which is counted as
    /// `handshakes_refused`; a dialled one is counted as `dial_failures`.
    fn layer(&self, origin: Origin, flow: &Flow, resume: Resume) -> Option<BoxedLayer>;
}

/// TCP alone.
#[derive(Clone, Copy, Debug, Default)]
pub struct PlainTcp;

impl Layers for PlainTcp {
    fn layer(&self, _origin: Origin, flow: &Flow, _resume: Resume) -> Option<BoxedLayer> {
        (flow.transport == Transport::Tcp).then(|| Box::new(PassThrough) as BoxedLayer)
    }
}

/// Handle with which a layer's work on another thread continues its connection.
#[derive(Clone)]
pub struct Resume {
    inboxes: Inboxes,
    /// Owner of the connection.
    worker: usize,
    connection: ConnectionId,
}

impl Resume {
    /// Upper limit of [`Resume::worker`].
    pub const WORKERS_MAX: usize = WORKERS_MAX;

    /// Creates a handle that continues nothing: for a layer without a runtime.
    pub fn none() -> Self {
        Self { inboxes: Inboxes::none(), worker: 0, connection: ConnectionId(0) }
    }

    /// Number of the connection's worker.
    pub const fn worker(&self) -> usize {
        self.worker
    }

    pub(crate) const fn new(inboxes: Inboxes, worker: usize, connection: ConnectionId) -> Self {
        Self { inboxes, worker, connection }
    }

    /// Makes the connection's worker call [`Layer::resume`]. If the worker's inbox is full, the connection continues with
    /// the next bytes of its peer, or ends by a limit.
    pub fn resume(&self) {
        if let Some(inbox) = self.inboxes.of(self.worker) {
            inbox.push_resume(self.connection);
        }
    }
}

/// Direction of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From a peer to a node.
    Received,
    /// From a node to a peer.
    Sent,
}

/// Function that gets every received and sent message. It runs on the worker's thread and must not block.
pub type MessageTrace = Arc<dyn Fn(Direction, &Flow, &[u8]) + Send + Sync>;

/// Wall clock that is read once and continued by the monotonic clock: stored times remain valid after a restart, and
/// timers do not jump when the wall clock is set.
///
/// A step of the wall clock takes effect only at the next start of the program.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    epoch: Duration,
    start: std::time::Instant,
}

impl Clock {
    /// Creates a clock that starts at the wall clock's time.
    pub fn new() -> Self {
        let epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { epoch, start: std::time::Instant::now() }
    }

    /// Current time.
    pub fn now(&self) -> Instant {
        Instant::default() + (self.epoch + self.start.elapsed())
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::new()
    }
}

/// Locks of the system, with any number of readers at a time. The value stays usable after a panic of its holder.
#[derive(Clone, Copy, Debug)]
pub struct SystemLocks;

struct SystemLock<T>(RwLock<T>);

impl Locks for SystemLocks {
    fn lock<T: Send + Sync + 'static>(value: T) -> Box<dyn Locked<T> + Send + Sync> {
        Box::new(SystemLock(RwLock::new(value)))
    }
}

impl<T> Locked<T> for SystemLock<T> {
    fn read(&self, read: &mut dyn FnMut(&T)) {
        read(&self.0.read().unwrap_or_else(PoisonError::into_inner));
    }

    fn change(&self, change: &mut dyn FnMut(&mut T)) {
        change(&mut self.0.write().unwrap_or_else(PoisonError::into_inner));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_starts_at_the_wall_clock_and_is_monotonic() {
        let clock = Clock::new();
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        assert!(clock.now().as_secs().abs_diff(wall.as_secs()) <= 1);
        let mut last = clock.now();
        for _ in 0..1000 {
            let now = clock.now();
            assert!(now >= last);
            last = now;
        }
    }
}
