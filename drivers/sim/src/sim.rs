//! Simulation: hosts, links, and the queue of events.

mod streams;

pub use streams::Reading;

use crate::faults::Faults;
use crate::host::{Effects, HostId, SimNode};
use crate::stream::Connections;
use crate::trace::{Fate, Trace, TracedPacket};
use ringway_sansio::{
    ConnectionId, Event, Flow, IcmpError, Instant, ListenerId, Packet, Received, Rng, Seed, Transport,
};
use ringway_stream::{CloseReason, StreamLimits};
use std::any::Any;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;
use streams::HostLayers;

/// Network of hosts whose clock advances from one event to the next.
pub struct Sim {
    now: Instant,
    rng: Rng,
    queue: BinaryHeap<Reverse<Scheduled>>,
    sequence: u64,
    hosts: Vec<Host>,
    addresses: BTreeMap<(Transport, SocketAddr), (HostId, ListenerId)>,
    faults: Faults,
    links: BTreeMap<(HostId, HostId), Faults>,
    /// Arrival time of the last datagram between two addresses.
    last_arrivals: BTreeMap<(SocketAddr, SocketAddr), Instant>,
    connections: Connections,
    stream_limits: StreamLimits,
    closed_ports: ClosedPorts,
    /// Number of [`SimEvent::Alarm`]s in `queue`.
    alarms: usize,
    trace: Trace,
}

/// Error of adding a second host with the same address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressInUse(pub SocketAddr);

impl fmt::Display for AddressInUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "another host listens at {}", self.0)
    }
}

impl std::error::Error for AddressInUse {}

/// Fate of datagrams for addresses that no host has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClosedPorts {
    /// They are lost, as behind a firewall.
    Silent,
    /// The sender gets an ICMP error, as from Linux.
    IcmpError,
}

struct Host {
    name: String,
    /// `None` after it was removed.
    node: Option<Box<dyn SimNode>>,
    listeners: Vec<(Transport, SocketAddr)>,
    /// Time of each shard's next wake.
    wakes: Vec<Option<Instant>>,
    reading: Reading,
    layers: HostLayers,
}

struct Scheduled {
    at: Instant,
    /// Events of the same time occur in the order of scheduling.
    sequence: u64,
    event: SimEvent,
}

enum SimEvent {
    Datagram {
        host: HostId,
        flow: Flow,
        bytes: Vec<u8>,
    },
    /// The handshake of a dialled connection is complete.
    Connected {
        end: ConnectionId,
    },
    IcmpError {
        host: HostId,
        flow: Flow,
        quoted: Vec<u8>,
    },
    Refused {
        end: ConnectionId,
    },
    Bytes {
        end: ConnectionId,
        bytes: Vec<u8>,
    },
    /// The socket accepts bytes again.
    Writable {
        end: ConnectionId,
    },
    Closed {
        end: ConnectionId,
    },
    /// Next turn of a host's layers.
    Turn {
        host: HostId,
    },
    /// Deadline of a connection.
    Alarm {
        end: ConnectionId,
    },
    Report {
        host: HostId,
        shard: u16,
        event: Event,
    },
    Wake {
        host: HostId,
        shard: u16,
    },
}

impl Sim {
    /// Creates an empty network. All its randomness comes from `seed`; its clock starts at `now`.
    pub fn new(seed: &Seed, now: Instant) -> Self {
        Self {
            now,
            rng: Rng::new(seed),
            queue: BinaryHeap::new(),
            sequence: 0,
            hosts: Vec::new(),
            addresses: BTreeMap::new(),
            faults: Faults::default(),
            links: BTreeMap::new(),
            last_arrivals: BTreeMap::new(),
            connections: Connections::default(),
            stream_limits: StreamLimits::default(),
            closed_ports: ClosedPorts::Silent,
            alarms: 0,
            trace: Trace::new(now),
        }
    }

    /// Adds a host with `listeners`, whose [`ListenerId`]s are numbered from 0. The name is for the trace.
    pub fn add(
        &mut self,
        name: &str,
        listeners: &[(Transport, SocketAddr)],
        node: Box<dyn SimNode>,
    ) -> Result<HostId, AddressInUse> {
        let is_taken = |&&(transport, address): &&(Transport, SocketAddr)| match transport.is_stream() {
            true => self.acceptor(address).is_some(),
            false => self.addresses.contains_key(&(transport, address)),
        };
        if let Some(&(_, taken)) = listeners.iter().find(is_taken) {
            return Err(AddressInUse(taken));
        }
        let id = HostId(self.hosts.len());
        for (index, &listener) in (0..=u8::MAX).zip(listeners) {
            self.addresses.insert(listener, (id, ListenerId(index)));
        }
        let wakes = vec![None; usize::from(node.shards())];
        self.hosts.push(Host {
            name: name.to_string(),
            node: Some(node),
            listeners: listeners.to_vec(),
            wakes,
            reading: Reading::AtOnce,
            layers: HostLayers::default(),
        });
        for shard in self.shards_of(id) {
            self.schedule_wake(id, shard);
        }
        Ok(id)
    }

    /// Removes a host at once, like a crash: its connections break, its addresses are free.
    pub fn remove(&mut self, host: HostId) -> Option<Box<dyn SimNode>> {
        for end in self.connections.of_host(host) {
            self.close_end(end);
        }
        self.vanish(host)
    }

    /// Removes a host at once, like a power failure: its connections stay half-open, its addresses are free.
    pub fn vanish(&mut self, host: HostId) -> Option<Box<dyn SimNode>> {
        self.addresses.retain(|_, (owner, _)| *owner != host);
        self.hosts.get_mut(host.0)?.node.take()
    }

    /// Sets the faults of all links without faults of their own.
    pub fn set_faults(&mut self, faults: Faults) {
        self.faults = faults;
        self.send_lost_again();
    }

    /// Sets the faults of the link from one host to another, from now on.
    pub fn set_link(&mut self, from: HostId, to: HostId, faults: Faults) {
        self.links.insert((from, to), faults);
        self.send_lost_again();
    }

    /// Sets what happens to datagrams for addresses that no host has.
    pub fn set_closed_ports(&mut self, closed_ports: ClosedPorts) {
        self.closed_ports = closed_ports;
    }

    /// Delivers an ICMP error to `host` at once, as a stranger may forge it: for a datagram of `flow` that began with `quoted`.
    pub fn send_icmp_error(&mut self, host: HostId, flow: Flow, quoted: &[u8]) {
        self.schedule(self.now, SimEvent::IcmpError { host, flow, quoted: quoted.to_vec() });
    }

    /// Closes a connection, given either of its ends.
    pub fn close(&mut self, connection: ConnectionId) {
        self.close_end(connection);
    }

    /// Current connections of a host.
    pub fn connections(&self, host: HostId) -> Vec<ConnectionId> {
        self.connections.of_host(host)
    }

    /// Flow of the messages of one end of a connection.
    pub fn flow(&self, connection: ConnectionId) -> Option<Flow> {
        self.connections.end(connection).map(|end| end.flow)
    }

    /// Calls a host as its program would; `shard` sends the packets. `None` if it is not a `T`.
    pub fn call<T: SimNode, R>(
        &mut self,
        host: HostId,
        shard: u16,
        run: impl FnOnce(&mut T, Instant, &mut Effects) -> R,
    ) -> Option<R> {
        let now = self.now;
        let mut result = None;
        self.run(host, shard, |node, effects| {
            let any: &mut dyn Any = node;
            result = any.downcast_mut::<T>().map(|node| run(node, now, effects));
        });
        result
    }

    /// Node of a host. `None` if it was removed or is not a `T`.
    pub fn node<T: SimNode>(&self, host: HostId) -> Option<&T> {
        let node: &dyn Any = self.hosts.get(host.0)?.node.as_deref()?;
        node.downcast_ref()
    }

    /// Sent packets.
    pub const fn trace(&self) -> &Trace {
        &self.trace
    }

    /// Current time.
    pub const fn now(&self) -> Instant {
        self.now
    }

    /// Executes all events up to `until`, and advances the clock to it.
    pub fn run_until(&mut self, until: Instant) {
        while self.step(until) {}
        self.now = self.now.max(until);
    }

    /// Like [`Sim::run_until`], for a duration.
    pub fn run_for(&mut self, span: Duration) {
        self.run_until(self.now + span);
    }

    /// Runs until no event is pending, at most for `max`. True if that is reached; the clock is then at the last event.
    pub fn run_until_idle(&mut self, max: Duration) -> bool {
        let until = self.now + max;
        // Deadlines of idle connections do not count.
        while self.queue.len() > self.alarms {
            if !self.step(until) {
                return false;
            }
        }
        true
    }

    /// Runs until `holds` returns true, at most for `max`; returns its last result. `holds` is called after each event.
    pub fn run_until_holds(&mut self, max: Duration, mut holds: impl FnMut(&Self) -> bool) -> bool {
        let until = self.now + max;
        loop {
            if holds(self) {
                return true;
            }
            if !self.step(until) {
                self.now = self.now.max(until);
                return holds(self);
            }
        }
    }

    /// Executes the next event, unless it is later than `until`.
    fn step(&mut self, until: Instant) -> bool {
        if self.queue.peek().is_none_or(|Reverse(next)| next.at > until) {
            return false;
        }
        let Some(Reverse(Scheduled { at, event, .. })) = self.queue.pop() else { return false };
        self.now = self.now.max(at);
        match event {
            SimEvent::Datagram { host, flow, bytes } => self.deliver(host, Received::new(flow, &bytes)),
            SimEvent::IcmpError { host, flow, quoted } => self.deliver_icmp_error(host, flow, &quoted),
            SimEvent::Connected { end } => self.connected(end),
            SimEvent::Refused { end } => self.fail(end, CloseReason::NotConnected),
            SimEvent::Bytes { end, bytes } => self.deliver_bytes(end, &bytes),
            SimEvent::Writable { end } => {
                self.step_connection(end, |now, _, connection, socket| connection.flush(now, socket));
                self.end_if_answered(end);
            }
            SimEvent::Closed { end } => self.peer_closed(end),
            SimEvent::Turn { host } => self.turn(host),
            SimEvent::Alarm { end } => self.alarm(end),
            SimEvent::Report { host, shard, event } => {
                let now = self.now;
                self.run(host, shard, |node, effects| node.on_event(shard, now, event, effects));
            }
            SimEvent::Wake { host, shard } => self.wake(host, shard, at),
        }
        true
    }

    fn wake(&mut self, host: HostId, shard: u16, at: Instant) {
        let Some(wake) = self.hosts.get_mut(host.0).and_then(|host| host.wakes.get_mut(usize::from(shard)))
        else {
            return;
        };
        if *wake != Some(at) {
            return;
        }
        *wake = None;
        let now = self.now;
        self.run(host, shard, |node, effects| {
            if node.next_deadline(shard).is_some_and(|deadline| deadline.at <= now) {
                node.on_timeout(shard, now, effects);
            }
        });
    }

    /// Schedules a wake of a shard at its deadline. An earlier wake stays: it finds nothing due and schedules the next.
    fn schedule_wake(&mut self, host: HostId, shard: u16) {
        let now = self.now;
        let Some(host_entry) = self.hosts.get_mut(host.0) else { return };
        let Some(deadline) = host_entry.node.as_ref().and_then(|node| node.next_deadline(shard)) else {
            return;
        };
        let Some(wake) = host_entry.wakes.get_mut(usize::from(shard)) else { return };
        // A machine with a deadline in the past must not stop the clock.
        let at = if deadline.at > now { deadline.at } else { now + WAKE_AGAIN_MIN };
        if wake.is_none_or(|wake| at < wake) {
            *wake = Some(at);
            self.schedule(at, SimEvent::Wake { host, shard });
        }
    }

    fn schedule(&mut self, at: Instant, event: SimEvent) {
        self.sequence += 1;
        self.queue.push(Reverse(Scheduled { at, sequence: self.sequence, event }));
    }

    /// Calls a host and executes the effects.
    fn run(&mut self, id: HostId, shard: u16, call: impl FnOnce(&mut dyn SimNode, &mut Effects)) {
        let Some(node) = self.hosts.get_mut(id.0).and_then(|host| host.node.as_deref_mut()) else { return };
        let mut effects = Effects::default();
        call(node, &mut effects);
        for (packet, bytes) in effects.out.packets() {
            match packet.flow.transport.is_stream() {
                false => self.send_datagram(id, packet, bytes),
                true => self.send_bytes(id, shard, packet, bytes),
            }
        }
        for flow in effects.out.disconnected() {
            let end = flow.connection.or_else(|| self.connections.dialled(id, flow));
            effects.closes.extend(end);
        }
        for (flow, token) in effects.out.given_up() {
            self.give_up_dial(id, shard, (flow, *token));
        }
        for (after, event) in effects.events {
            self.schedule(self.now + after, SimEvent::Report { host: id, shard, event });
        }
        for (shard, after, event) in effects.events_elsewhere {
            self.schedule(self.now + after, SimEvent::Report { host: id, shard, event });
        }
        for end in effects.closes {
            if self.connections.end(end).is_some_and(|end| end.host == id) {
                self.close_end(end);
            }
        }
        self.schedule_wake(id, shard);
    }

    fn deliver(&mut self, host: HostId, received: Received<'_>) {
        let now = self.now;
        let Some(node) = self.hosts.get(host.0).and_then(|host| host.node.as_ref()) else { return };
        let shard = node.shard_of(received.bytes);
        self.run(host, shard, |node, effects| {
            node.on_message(shard, now, received, effects);
        });
    }

    fn deliver_icmp_error(&mut self, host: HostId, flow: Flow, quoted: &[u8]) {
        let now = self.now;
        let Some(node) = self.hosts.get(host.0).and_then(|host| host.node.as_ref()) else { return };
        let Some(shard) = node.shard_of_quoted(quoted) else { return };
        self.run(host, shard, |node, effects| {
            node.on_icmp_error(shard, now, IcmpError { flow, quoted }, effects);
        });
    }

    fn send_datagram(&mut self, sender: HostId, packet: &Packet, bytes: &[u8]) {
        let to = packet.flow.remote;
        let Some(from) = self.listener(sender, packet.flow.listener, Transport::Udp) else { return };
        let Some(&(host, listener)) = self.addresses.get(&(Transport::Udp, to)) else {
            self.record(sender, (from, to), Transport::Udp, Fate::NoListener, bytes);
            return self.answer_closed_port(sender, packet.flow, bytes);
        };
        let faults = self.link(sender, host).clone();
        let last = self.last_arrivals.entry((from, to)).or_default();
        let arrivals = faults.arrivals(self.now, last, &mut self.rng);
        if arrivals.is_empty() {
            self.record(sender, (from, to), Transport::Udp, Fate::Lost, bytes);
        }
        for (copy, &at) in arrivals.iter().enumerate() {
            let fate = if copy == 0 { Fate::Arrives(at) } else { Fate::Duplicated(at) };
            self.record(sender, (from, to), Transport::Udp, fate, bytes);
            let flow = Flow::udp(listener, from);
            self.schedule(at, SimEvent::Datagram { host, flow, bytes: bytes.to_vec() });
        }
    }

    fn answer_closed_port(&mut self, sender: HostId, flow: Flow, bytes: &[u8]) {
        if self.closed_ports == ClosedPorts::Silent {
            return;
        }
        // As lossy as the other links: the error travels like a datagram.
        let mut last = Instant::default();
        let faults = self.faults.clone();
        for at in faults.arrivals(self.now, &mut last, &mut self.rng) {
            let quoted = bytes.get(..QUOTED_BYTES).unwrap_or(bytes).to_vec();
            self.schedule(at, SimEvent::IcmpError { host: sender, flow, quoted });
        }
    }

    fn record(
        &mut self,
        sender: HostId,
        (from, to): (SocketAddr, SocketAddr),
        transport: Transport,
        fate: Fate,
        bytes: &[u8],
    ) {
        let sender = self.hosts.get(sender.0).map(|host| host.name.clone()).unwrap_or_default();
        let bytes = bytes.to_vec();
        self.trace.push(TracedPacket { at: self.now, sender, from, to, transport, fate, bytes });
    }

    fn link(&self, from: HostId, to: HostId) -> &Faults {
        self.links.get(&(from, to)).unwrap_or(&self.faults)
    }

    fn listener(&self, host: HostId, listener: ListenerId, transport: Transport) -> Option<SocketAddr> {
        let listeners = &self.hosts.get(host.0)?.listeners;
        listeners.get(usize::from(listener.0)).filter(|(of, _)| *of == transport).map(|&(_, address)| address)
    }

    /// Owner of a TCP port, and its listener: a port has one, of whichever transport.
    fn acceptor(&self, address: SocketAddr) -> Option<(HostId, ListenerId, Transport)> {
        let streams = Transport::ALL.into_iter().filter(|transport| transport.is_stream());
        streams.into_iter().find_map(|transport| {
            let &(host, listener) = self.addresses.get(&(transport, address))?;
            Some((host, listener, transport))
        })
    }

    fn shards_of(&self, host: HostId) -> std::ops::Range<u16> {
        0..self.hosts.get(host.0).and_then(|host| host.node.as_ref()).map_or(0, |node| node.shards())
    }
}

impl PartialEq for Scheduled {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Scheduled {}

impl PartialOrd for Scheduled {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Scheduled {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.sequence).cmp(&(other.at, other.sequence))
    }
}

/// Bytes of a datagram that an ICMP error of Linux quotes: 576 without two IP headers and those of ICMP and UDP (RFC 1812
/// §4.3.2.3).
const QUOTED_BYTES: usize = 520;

/// Minimum time between two wakes of a shard with a deadline in the past.
const WAKE_AGAIN_MIN: Duration = Duration::from_millis(1);
