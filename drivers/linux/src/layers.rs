//! Protocols between sockets and messages: the interface through which a program adds TLS and WebSocket.

use crate::inbox::Inboxes;
use ringway_sansio::{ConnectionId, Flow, Transport};
use ringway_stream::{Layer, PassThrough};

/// Layer of a connection.
pub type BoxedLayer = Box<dyn Layer + Send>;

/// Source of the layers of stream connections. It is called on the workers' threads and must not block.
pub trait Layers: Send + Sync {
    /// Layer of an accepted connection; `None` to close it at once, which is counted as `handshakes_refused`.
    fn accepted(&self, flow: &Flow, resume: Resume) -> Option<BoxedLayer>;

    /// Layer of a connection that is being dialled; `None` if there can be none.
    fn dialled(&self, flow: &Flow, resume: Resume) -> Option<BoxedLayer>;
}

/// TCP alone.
#[derive(Clone, Copy, Debug, Default)]
pub struct PlainTcp;

impl Layers for PlainTcp {
    fn accepted(&self, flow: &Flow, _resume: Resume) -> Option<BoxedLayer> {
        (flow.transport == Transport::Tcp).then(|| Box::new(PassThrough) as BoxedLayer)
    }

    fn dialled(&self, flow: &Flow, resume: Resume) -> Option<BoxedLayer> {
        self.accepted(flow, resume)
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
