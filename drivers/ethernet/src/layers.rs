//! Interface between the connections of a station and the protocols above TCP.

use ringway_sansio::{Flow, Instant, Transport};
use ringway_stream::{Layer, PassThrough};

/// Provides the layers of a station's stream connections.
pub trait StreamLayers {
    /// Layer of one connection.
    type Layer: Layer;

    /// True if a layer continues in a later turn without a byte of its peer ([`Layer::resume`]).
    const RESUMES: bool;

    /// Begins a turn of the task Main at `now`, before any layer runs.
    fn begin_turn(&mut self, now: Instant);

    /// Creates the layer of an accepted connection; `None` refuses it.
    fn accept(&mut self, flow: &Flow) -> Option<Self::Layer>;

    /// Creates the layer of a connection that is to be dialled; `None`: its transport cannot be dialled.
    fn dial(&mut self, flow: &Flow) -> Option<Self::Layer>;
}

/// Layers of a station without other transports than TCP.
#[derive(Clone, Copy, Debug, Default)]
pub struct PlainLayers;

impl StreamLayers for PlainLayers {
    type Layer = PassThrough;

    const RESUMES: bool = false;

    fn begin_turn(&mut self, _now: Instant) {}

    fn accept(&mut self, flow: &Flow) -> Option<PassThrough> {
        (flow.transport == Transport::Tcp).then_some(PassThrough)
    }

    fn dial(&mut self, flow: &Flow) -> Option<PassThrough> {
        (flow.transport == Transport::Tcp).then_some(PassThrough)
    }
}
