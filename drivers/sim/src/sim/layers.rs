//! Layers of a host's stream connections, and their turns.
//!
//! Computation takes no virtual time. A host has a turn [`TURN`] after each step of a handshake, and others while a layer waits
//! for its turn, like a driver that polls.

use super::{Sim, SimEvent};
use crate::host::HostId;
use ringway_sansio::{Flow, Instant};
use ringway_stream::{Layer, Origin, PlainLayers, StreamLayers};
use std::time::Duration;

/// Source of a host's layers.
pub(super) struct HostLayers {
    source: Box<dyn StreamLayers<Layer = Box<dyn Layer>>>,
    /// True if a [`SimEvent::Turn`] is in the queue.
    has_turn: bool,
}

impl HostLayers {
    /// Creates the layer of a connection that begins at `now`.
    pub(super) fn layer(&mut self, origin: Origin, flow: &Flow, now: Instant) -> Option<Box<dyn Layer>> {
        self.source.begin_turn(now);
        match origin {
            Origin::Accepted => self.source.accept(flow),
            Origin::Dialled => self.source.dial(flow),
        }
    }

    /// Begins a turn.
    pub(super) fn begin_turn(&mut self, now: Instant) {
        self.source.begin_turn(now);
    }
}

impl Default for HostLayers {
    fn default() -> Self {
        Self { source: Box::new(Boxed(PlainLayers)), has_turn: false }
    }
}

/// Source whose layers are boxed, so that sources of all types are one.
struct Boxed<S>(S);

impl<S: StreamLayers<Layer: 'static>> StreamLayers for Boxed<S> {
    type Layer = Box<dyn Layer>;

    fn resumes(&self) -> bool {
        self.0.resumes()
    }

    fn begin_turn(&mut self, now: Instant) {
        self.0.begin_turn(now);
    }

    fn accept(&mut self, flow: &Flow) -> Option<Box<dyn Layer>> {
        self.0.accept(flow).map(|layer| Box::new(layer) as Box<dyn Layer>)
    }

    fn dial(&mut self, flow: &Flow) -> Option<Box<dyn Layer>> {
        self.0.dial(flow).map(|layer| Box::new(layer) as Box<dyn Layer>)
    }
}

impl Sim {
    /// Sets the layers of a host's connections from now on; without a call they are those of TCP.
    pub fn set_layers<S: StreamLayers<Layer: 'static> + 'static>(&mut self, host: HostId, source: S) {
        if let Some(host) = self.hosts.get_mut(host.0) {
            host.layers.source = Box::new(Boxed(source));
        }
    }

    /// Schedules the next turn of a host after a step of a handshake.
    pub(super) fn schedule_turn(&mut self, id: HostId) {
        let Some(host) = self.hosts.get_mut(id.0) else { return };
        if !std::mem::replace(&mut host.layers.has_turn, true) {
            self.schedule(self.now + TURN, SimEvent::Turn { host: id });
        }
    }

    /// Lets the connections of a host that are in their handshake continue.
    pub(super) fn turn(&mut self, id: HostId) {
        let Some(host) = self.hosts.get_mut(id.0).filter(|host| host.node.is_some()) else { return };
        host.layers.has_turn = false;
        host.layers.begin_turn(self.now);
        if !host.layers.source.resumes() {
            return;
        }
        for connection in self.connections.of_host(id) {
            let Some(end) = self.connections.end_mut(connection) else { continue };
            if end.connection.is_handshaking() {
                end.connection.resume(self.now);
                self.schedule_turn(id);
                self.pass_messages(connection);
            }
        }
    }
}

/// Time between two turns.
const TURN: Duration = Duration::from_millis(1);
