//! Stream connections of a simulation: handshakes, bytes in transit, deadlines, ends; layers of a host's connections,
//! and their turns.
//!
//! Computation takes no virtual time. A host has a turn [`TURN`] after each step of a handshake, and others while a layer waits
//! for its turn, like a driver that polls.

use super::{Host, Sim, SimEvent};
use crate::connection::{SimConnection, Socket};
use crate::host::HostId;
use crate::stream::End;
use crate::trace::Fate;
use ringway_sansio::{ConnectionId, Event, Flow, Instant, Packet, Received, Token};
use ringway_stream::{CloseReason, Layer, Origin, PlainLayers, StreamLayers, StreamLimits};
use std::net::SocketAddr;
use std::time::Duration;

/// Reading of the bytes that a host's connections deliver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// At once.
    AtOnce,
    /// Not at all. Its peers can send as much as the buffers hold.
    Paused,
}

impl Sim {
    /// Stops or continues the reading of a host's connections.
    pub fn set_reading(&mut self, host: HostId, reading: Reading) {
        let Some(entry) = self.hosts.get_mut(host.0) else { return };
        entry.reading = reading;
        if reading == Reading::Paused {
            return;
        }
        for id in self.connections.of_host(host) {
            let Some(end) = self.connections.end_mut(id) else { continue };
            let (unread, is_closed) = (std::mem::take(&mut end.unread), end.is_peer_closed);
            self.read(id, &unread);
            if is_closed {
                self.peer_closed(id);
            }
        }
    }

    pub(super) fn send_bytes(&mut self, sender: HostId, shard: u16, packet: &Packet, bytes: &[u8]) {
        let id = match packet.flow.connection {
            Some(id) => Some(id).filter(|&id| self.connections.end(id).is_some_and(|end| end.host == sender)),
            None => self.connections.dialled(sender, &packet.flow).or_else(|| self.dial(sender, packet.flow)),
        };
        let Some((id, end)) = id.and_then(|id| Some((id, self.connections.end_mut(id)?))) else {
            return self.report_unreachable(sender, shard, packet, bytes);
        };
        let token = end.token_for(shard, packet.token);
        end.note_message(token, bytes);
        self.step_connection(id, |now, limits, connection, socket| {
            connection.send(bytes, token, limits, now, socket);
        });
    }

    /// Takes back a packet that waits for the connection that is being dialled for a flow.
    pub(super) fn give_up_dial(&mut self, sender: HostId, shard: u16, (flow, token): (&Flow, Token)) {
        let Some(id) = self.connections.dialled(sender, flow) else { return };
        let Some(end) = self.connections.end_mut(id) else { return };
        let way = (end.local, end.flow.remote);
        if let Some(message) = end.give_up(shard, token) {
            self.record(sender, way, flow.transport, Fate::NoListener, &message);
            let delay = self.faults.draw_delay(&mut self.rng);
            let event = Event::Unreachable(token);
            self.schedule(self.now + delay, SimEvent::Report { host: sender, shard, event });
        }
        self.end_if_answered(id);
    }

    /// Reports that a packet's connection is closed, a little later.
    fn report_unreachable(&mut self, sender: HostId, shard: u16, packet: &Packet, bytes: &[u8]) {
        let Flow { transport, listener, remote, .. } = packet.flow;
        let from = self.listener(sender, listener, transport).unwrap_or(remote);
        self.record(sender, (from, remote), transport, Fate::Closed, bytes);
        if packet.token != Token::NONE {
            let delay = self.faults.draw_delay(&mut self.rng);
            let event = Event::Unreachable(packet.token);
            self.schedule(self.now + delay, SimEvent::Report { host: sender, shard, event });
        }
    }

    /// Dials a connection for messages of `flow`. It is refused if there is no listener or the link is cut.
    fn dial(&mut self, dialler: HostId, flow: Flow) -> Option<ConnectionId> {
        let (near, far) = (self.connections.next_id(), self.connections.next_id());
        let port = self.connections.ephemeral_port();
        let host = self.hosts.get_mut(dialler.0)?;
        let own = host.listeners.get(usize::from(flow.listener.0))?.1;
        let flow = Flow { connection: Some(near), ..flow };
        let layer = host.layers.layer(Origin::Dialled, &flow, self.now)?;
        let connection = host.node.as_ref()?.connection(Origin::Dialled, layer, self.now);
        let local = SocketAddr::new(own.ip(), port);
        self.connections.insert_dialled(near, End::new(dialler, local, flow, far, connection, self.now));
        let target = self.acceptor(flow.remote).map(|(host, ..)| host);
        match target.filter(|&host| !self.link(dialler, host).is_cut() && !self.link(host, dialler).is_cut())
        {
            Some(host) => {
                let faults = self.link(dialler, host).clone();
                let handshake = faults.draw_delay(&mut self.rng) + faults.draw_delay(&mut self.rng);
                self.schedule(self.now + handshake, SimEvent::Connected { end: near });
            }
            None => {
                let delay = self.faults.draw_delay(&mut self.rng);
                self.schedule(self.now + delay, SimEvent::Refused { end: near });
            }
        }
        self.watch(near);
        Some(near)
    }

    /// Completes the TCP handshake of a dialled connection, if its address still has a listener.
    pub(super) fn connected(&mut self, near: ConnectionId) {
        let Some(end) = self.connections.end(near) else { return };
        let (dialler, far, local, remote) = (end.host, end.peer, end.local, end.flow.remote);
        let Some((host, listener, transport)) = self.acceptor(remote) else {
            return self.fail(near, CloseReason::NotConnected);
        };
        if self.link(dialler, host).is_cut() || self.link(host, dialler).is_cut() {
            // The handshake is lost; the dialler's deadline ends it.
            return;
        }
        let flow = Flow { transport, connection: Some(far), ..Flow::dial(listener, local) };
        if self.accept(host, remote, flow, near) {
            self.step_connection(far, |now, limits, connection, socket| {
                connection.respond(limits, now, socket);
            });
        } else {
            // The host resets it.
            self.schedule(self.now + CLOSE_DELAY, SimEvent::Closed { end: near });
        }
        self.step_connection(near, |now, _, connection, socket| {
            connection.connected(now);
            connection.flush(now, socket);
        });
    }

    /// Adds the accepting end of a connection. False: the host's layers refuse it.
    fn accept(&mut self, id: HostId, local: SocketAddr, flow: Flow, peer: ConnectionId) -> bool {
        let Some(host) = self.hosts.get_mut(id.0) else { return false };
        let Some(layer) = host.layers.layer(Origin::Accepted, &flow, self.now) else { return false };
        let Some(node) = &host.node else { return false };
        let connection = node.connection(Origin::Accepted, layer, self.now);
        let end = End::new(id, local, flow, peer, connection, self.now);
        self.connections.insert_accepted(flow.connection.unwrap_or(peer), end);
        true
    }

    /// Lets a connection write, carries the bytes, and closes it if necessary.
    pub(super) fn step_connection(
        &mut self,
        id: ConnectionId,
        step: impl FnOnce(Instant, &StreamLimits, &mut dyn SimConnection, &mut Socket),
    ) {
        let Some(end) = self.connections.end(id) else { return };
        let is_broken = end.connection.is_connected() && self.connections.end(end.peer).is_none();
        let Some(end) = self.connections.end_mut(id) else { return };
        let mut socket = end.socket();
        if is_broken {
            socket.room = None;
        }
        step(self.now, &self.stream_limits, end.connection.as_mut(), &mut socket);
        let (host, way, transport) = (end.host, (end.local, end.flow.remote), end.flow.transport);
        let (peer, whole, close) = (end.peer, end.wrote(socket.taken.len()), end.connection.close_reason());
        let fate = self.carry(host, peer, &socket.taken);
        for message in whole {
            self.record(host, way, transport, fate, &message);
        }
        match close {
            Some(_) => self.close_end(id),
            None => self.watch(id),
        }
    }

    /// Sends bytes to `id`, in segments. Bytes that a cut link loses are sent again after it is restored.
    fn carry(&mut self, sender: HostId, id: ConnectionId, mut bytes: &[u8]) -> Fate {
        let Some(host) = self.connections.end(id).map(|end| end.host) else { return Fate::Closed };
        let faults = self.link(sender, host).clone();
        let Some(end) = self.connections.end_mut(id) else { return Fate::Closed };
        if faults.is_cut() || !end.lost.is_empty() {
            end.lost.extend_from_slice(bytes);
            return Fate::Lost;
        }
        let mut last = end.last_arrival;
        while !bytes.is_empty() {
            let cut = 1 + self.rng.below(2 * bytes.len() as u64) as usize;
            let (piece, rest) = bytes.split_at(cut.min(bytes.len()));
            bytes = rest;
            if let Some(at) = faults.stream_arrival(self.now, &mut last, &mut self.rng) {
                self.schedule(at, SimEvent::Bytes { end: id, bytes: piece.to_vec() });
            }
        }
        if let Some(end) = self.connections.end_mut(id) {
            end.last_arrival = last;
        }
        Fate::Arrives(last)
    }

    pub(super) fn send_lost_again(&mut self) {
        for id in self.connections.with_lost_bytes() {
            let Some(end) = self.connections.end_mut(id) else { continue };
            let (lost, peer) = (std::mem::take(&mut end.lost), end.peer);
            if let Some(sender) = self.connections.end(peer).map(|end| end.host) {
                self.carry(sender, id, &lost);
            }
        }
    }

    pub(super) fn deliver_bytes(&mut self, id: ConnectionId, bytes: &[u8]) {
        let Some(end) = self.connections.end_mut(id) else { return };
        match self.hosts.get(end.host.0) {
            Some(Host { node: Some(_), reading: Reading::AtOnce, .. }) => self.read(id, bytes),
            Some(Host { node: Some(_), reading: Reading::Paused, .. }) => end.unread.extend_from_slice(bytes),
            // The host was removed: nothing acknowledges the bytes.
            Some(Host { node: None, .. }) | None => {}
        }
    }

    fn read(&mut self, id: ConnectionId, bytes: &[u8]) {
        let Some(end) = self.connections.end_mut(id) else { return };
        let (host, peer) = (end.host, end.peer);
        if let Some(host) = self.hosts.get_mut(host.0) {
            host.layers.begin_turn(self.now);
        }
        let was_handshaking = end.connection.is_handshaking();
        end.connection.receive(bytes, self.now);
        if was_handshaking {
            self.schedule_turn(host);
        }
        if self.connections.end_mut(peer).is_some_and(|peer| peer.acknowledged(bytes.len())) {
            let delay = self.faults.draw_delay(&mut self.rng);
            self.schedule(self.now + delay, SimEvent::Writable { end: peer });
        }
        self.pass_messages(id);
    }

    /// Passes the complete messages of a connection to its host, and writes what the connection itself answers.
    fn pass_messages(&mut self, id: ConnectionId) {
        loop {
            let Some(end) = self.connections.end_mut(id) else { return };
            let (host, flow) = (end.host, end.flow);
            let (message, keep_alives) = end.connection.next_message(self.now);
            let peer = end.connection.peer_names();
            end.note_pongs(keep_alives);
            self.step_connection(id, |now, limits, connection, socket| {
                connection.respond(limits, now, socket);
            });
            match message {
                Some(message) => {
                    self.deliver(host, Received { peer: peer.as_deref(), ..Received::new(flow, &message) });
                }
                None => break,
            }
        }
        self.end_if_answered(id);
    }

    pub(super) fn peer_closed(&mut self, id: ConnectionId) {
        let Some(end) = self.connections.end_mut(id) else { return };
        if self.hosts.get(end.host.0).is_some_and(|host| host.reading == Reading::Paused) {
            end.is_peer_closed = true;
            return;
        }
        end.connection.peer_ended(self.now);
        // Queued bytes find a closed socket.
        self.step_connection(id, |now, _, connection, socket| connection.flush(now, socket));
        self.end_if_answered(id);
    }

    pub(super) fn end_if_answered(&mut self, id: ConnectionId) {
        if self.connections.end(id).is_some_and(|end| end.connection.end_reason().is_some()) {
            self.close_end(id);
        }
    }

    /// Closes a connection, after the end of its layer's protocol.
    pub(super) fn fail(&mut self, id: ConnectionId, why: CloseReason) {
        self.step_connection(id, |now, _, connection, socket| {
            connection.fail(why);
            connection.flush(now, socket);
        });
    }

    /// Schedules the deadline of a connection.
    fn watch(&mut self, id: ConnectionId) {
        let Some(end) = self.connections.end_mut(id) else { return };
        let (at, _) = end.connection.deadline(&self.stream_limits);
        if end.alarm.is_none_or(|alarm| at < alarm) {
            end.alarm = Some(at);
            self.alarms += 1;
            self.schedule(at, SimEvent::Alarm { end: id });
        }
    }

    pub(super) fn alarm(&mut self, id: ConnectionId) {
        self.alarms -= 1;
        let Some(end) = self.connections.end_mut(id) else { return };
        if self.hosts.get(end.host.0).is_none_or(|host| host.node.is_none()) {
            return;
        }
        // A later alarm finds nothing due.
        let (at, why) = end.connection.deadline(&self.stream_limits);
        if at <= self.now {
            self.fail(id, why);
        } else if end.alarm.is_none_or(|alarm| alarm <= self.now) {
            end.alarm = None;
            self.watch(id);
        }
    }

    /// Closes one end: its host gets the event now, the peer's after the bytes in transit have arrived.
    pub(super) fn close_end(&mut self, id: ConnectionId) {
        let Some(mut end) = self.connections.remove(id) else { return };
        if let Some(peer) = self.connections.end_mut(end.peer) {
            let at = peer.last_arrival.max(self.now) + CLOSE_DELAY;
            peer.last_arrival = at;
            self.schedule(at, SimEvent::Closed { end: end.peer });
        }
        let (now, is_connected) = (self.now, end.connection.is_connected());
        let fate = if is_connected { Fate::Closed } else { Fate::NoListener };
        for message in end.unwritten() {
            self.record(end.host, (end.local, end.flow.remote), end.flow.transport, fate, &message);
        }
        for shard in self.shards_of(end.host).filter(|_| is_connected) {
            self.run(end.host, shard, |node, effects| {
                node.on_event(shard, now, Event::Closed(id), effects);
            });
        }
        for (shard, token) in end.undelivered() {
            self.run(end.host, shard, |node, effects| {
                node.on_event(shard, now, Event::Unreachable(token), effects);
            });
        }
    }
}

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
    fn begin_turn(&mut self, now: Instant) {
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
    fn schedule_turn(&mut self, id: HostId) {
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

/// Delay of a close, at least that of the bytes before it.
const CLOSE_DELAY: Duration = Duration::from_millis(1);
/// Time between two turns.
const TURN: Duration = Duration::from_millis(1);
