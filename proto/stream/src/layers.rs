//! Interface between a driver's connections and the protocols above TCP, for drivers with one thread for all connections.

use crate::{Layer, PassThrough};
use ringway_sansio::{Flow, Instant, Transport};

/// Source of the layers of a driver's stream connections.
///
/// The driver has one thread, and handles its connections in turns. (A driver whose connections have several threads needs a
/// source that they share: `Layers` of `drivers/linux`.)
pub trait StreamLayers {
    /// Layer of one connection.
    type Layer: Layer;

    /// True if a layer continues in a later turn without a byte of its peer ([`Layer::resume`]): the driver then calls all of
    /// them in its next turn.
    fn resumes(&self) -> bool;

    /// Begins a turn of the driver at `now`, before any layer runs.
    fn begin_turn(&mut self, now: Instant);

    /// Creates the layer of an accepted connection; `None` refuses it.
    fn accept(&mut self, flow: &Flow) -> Option<Self::Layer>;

    /// Creates the layer of a connection that is to be dialled; `None`: it cannot be dialled.
    fn dial(&mut self, flow: &Flow) -> Option<Self::Layer>;
}

/// Layers of a driver whose stream connections are all TCP.
#[derive(Clone, Copy, Debug, Default)]
pub struct PlainLayers;

impl StreamLayers for PlainLayers {
    type Layer = PassThrough;

    fn resumes(&self) -> bool {
        false
    }

    fn begin_turn(&mut self, _now: Instant) {}

    fn accept(&mut self, flow: &Flow) -> Option<PassThrough> {
        (flow.transport == Transport::Tcp).then_some(PassThrough)
    }

    fn dial(&mut self, flow: &Flow) -> Option<PassThrough> {
        (flow.transport == Transport::Tcp).then_some(PassThrough)
    }
}
