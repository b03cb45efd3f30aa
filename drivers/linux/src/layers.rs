//! Protocols between sockets and messages: the interface through which a program adds TLS and WebSocket.

use crate::inbox::Inboxes;
use crate::listen::WORKERS_MAX;
use ringway_sansio::{ConnectionId, Flow, Transport};
use ringway_stream::{Layer, Origin, PassThrough};

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
