//! The simulation: hosts, links, and what happens next.

use crate::faults::Faults;
use crate::host::{Effects, SimNode};
use crate::stream::{Connections, End};
use crate::trace::{Fate, Seen, Trace};
use ringway_sansio::{
    ConnectionId, Event, Flow, Instant, ListenerId, Packet, Received, Rng, Seed, Token, Transport,
};
use std::any::Any;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

/// A network of hosts whose clock moves from one happening to the next.
pub struct Sim {
    now: Instant,
    rng: Rng,
    queue: BinaryHeap<Reverse<Scheduled>>,
    sequence: u64,
    hosts: Vec<Host>,
    addresses: BTreeMap<(Transport, SocketAddr), (HostId, ListenerId)>,
    faults: Faults,
    links: BTreeMap<(HostId, HostId), Faults>,
    /// When the last datagram between two addresses arrives.
    last_arrivals: BTreeMap<(SocketAddr, SocketAddr), Instant>,
    connections: Connections,
    trace: Trace,
}

/// Names a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostId(usize);

/// Two hosts cannot listen at one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressInUse(pub SocketAddr);

impl fmt::Display for AddressInUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "another host listens at {}", self.0)
    }
}

impl std::error::Error for AddressInUse {}

struct Host {
    name: String,
    /// `None` once it was removed.
    node: Option<Box<dyn SimNode>>,
    listeners: Vec<(Transport, SocketAddr)>,
    /// For each shard, when it will be woken.
    wakes: Vec<Option<Instant>>,
}

struct Scheduled {
    at: Instant,
    /// What was scheduled first happens first.
    sequence: u64,
    happening: Happening,
}

enum Happening {
    Datagram { host: HostId, flow: Flow, bytes: Vec<u8> },
    Bytes { end: ConnectionId, bytes: Vec<u8> },
    Closed { end: ConnectionId },
    Report { host: HostId, shard: u16, event: Event },
    Wake { host: HostId, shard: u16 },
}

impl Sim {
    /// An empty network. All chance in it follows from `seed`; its clock starts at `now`.
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
            trace: Trace::new(now),
        }
    }

    /// Adds a host that listens at `listeners`, numbered from 0 as its [`ListenerId`]s. The name is for the trace.
    pub fn add(
        &mut self,
        name: &str,
        listeners: &[(Transport, SocketAddr)],
        node: Box<dyn SimNode>,
    ) -> Result<HostId, AddressInUse> {
        if let Some(&(_, taken)) = listeners.iter().find(|listener| self.addresses.contains_key(listener)) {
            return Err(AddressInUse(taken));
        }
        let id = HostId(self.hosts.len());
        for (place, &listener) in (0..=u8::MAX).zip(listeners) {
            self.addresses.insert(listener, (id, ListenerId(place)));
        }
        let wakes = vec![None; usize::from(node.shards())];
        self.hosts.push(Host {
            name: name.to_string(),
            node: Some(node),
            listeners: listeners.to_vec(),
            wakes,
        });
        for shard in self.shards_of(id) {
            self.arrange_wake(id, shard);
        }
        Ok(id)
    }

    /// Takes a host off the network at once, as a crash would: its connections break, its addresses are free.
    pub fn remove(&mut self, host: HostId) -> Option<Box<dyn SimNode>> {
        for end in self.connections.of_host(host) {
            self.close_end(end);
        }
        self.addresses.retain(|_, (owner, _)| *owner != host);
        self.hosts.get_mut(host.0)?.node.take()
    }

    /// The faults of all links that have none of their own.
    pub fn set_faults(&mut self, faults: Faults) {
        self.faults = faults;
    }

    /// The faults of the link from one host to another, from now on.
    pub fn set_link(&mut self, from: HostId, to: HostId, faults: Faults) {
        self.links.insert((from, to), faults);
    }

    /// Closes a connection, given either of its ends.
    pub fn close(&mut self, connection: ConnectionId) {
        self.close_end(connection);
    }

    /// The connections a host has now.
    pub fn connections(&self, host: HostId) -> Vec<ConnectionId> {
        self.connections.of_host(host)
    }

    /// Calls a host from outside, as its program would; what it sends is sent by `shard`. `None`: it is no `T`.
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

    /// A host, to look inside. `None`: it is gone, or no `T`.
    pub fn node<T: SimNode>(&self, host: HostId) -> Option<&T> {
        let node: &dyn Any = self.hosts.get(host.0)?.node.as_deref()?;
        node.downcast_ref()
    }

    /// What was on the wire.
    pub const fn trace(&self) -> &Trace {
        &self.trace
    }

    /// The time.
    pub const fn now(&self) -> Instant {
        self.now
    }

    /// Lets everything happen that happens up to `until`, and moves the clock there.
    pub fn run_until(&mut self, until: Instant) {
        while self.step(until) {}
        self.now = self.now.max(until);
    }

    /// The same for a span of time.
    pub fn run_for(&mut self, span: Duration) {
        self.run_until(self.now + span);
    }

    /// Runs until nothing is under way and nobody waits for anything, at most for `max`. True when it is so; the clock
    /// then stands at what happened last.
    pub fn run_until_idle(&mut self, max: Duration) -> bool {
        let until = self.now + max;
        while self.step(until) {}
        self.queue.is_empty()
    }

    /// Runs until `holds` does, at most for `max`; true when it does. It is asked after everything that happens.
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

    /// Lets the next thing happen, unless it is later than `until`.
    fn step(&mut self, until: Instant) -> bool {
        if self.queue.peek().is_none_or(|Reverse(next)| next.at > until) {
            return false;
        }
        let Some(Reverse(Scheduled { at, happening, .. })) = self.queue.pop() else { return false };
        self.now = self.now.max(at);
        match happening {
            Happening::Datagram { host, flow, bytes } => self.deliver(host, flow, &bytes),
            Happening::Bytes { end, bytes } => self.deliver_bytes(end, &bytes),
            Happening::Closed { end } => self.close_end(end),
            Happening::Report { host, shard, event } => {
                let now = self.now;
                self.run(host, shard, |node, effects| node.on_event(shard, now, event, effects));
            }
            Happening::Wake { host, shard } => self.wake(host, shard, at),
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

    /// Makes sure that a shard is woken at its deadline. A wake that was arranged for an earlier time stays: it finds
    /// nothing due and arranges the next.
    fn arrange_wake(&mut self, host: HostId, shard: u16) {
        let now = self.now;
        let Some(host_entry) = self.hosts.get_mut(host.0) else { return };
        let Some(deadline) = host_entry.node.as_ref().and_then(|node| node.next_deadline(shard)) else {
            return;
        };
        let Some(wake) = host_entry.wakes.get_mut(usize::from(shard)) else { return };
        // A machine that leaves its deadline in the past must not stop the clock.
        let at = if deadline.at > now { deadline.at } else { now + WAKE_AGAIN_MIN };
        if wake.is_none_or(|wake| at < wake) {
            *wake = Some(at);
            self.schedule(at, Happening::Wake { host, shard });
        }
    }

    fn schedule(&mut self, at: Instant, happening: Happening) {
        self.sequence += 1;
        self.queue.push(Reverse(Scheduled { at, sequence: self.sequence, happening }));
    }

    /// Calls into a host and does what comes of it.
    fn run(&mut self, id: HostId, shard: u16, call: impl FnOnce(&mut dyn SimNode, &mut Effects)) {
        let Some(node) = self.hosts.get_mut(id.0).and_then(|host| host.node.as_deref_mut()) else { return };
        let mut effects = Effects::default();
        call(node, &mut effects);
        for (packet, bytes) in effects.out.packets() {
            match packet.flow.transport {
                Transport::Udp => self.send_datagram(id, packet, bytes),
                Transport::Tcp => self.send_bytes(id, shard, packet, bytes),
            }
        }
        for (after, event) in effects.events {
            self.schedule(self.now + after, Happening::Report { host: id, shard, event });
        }
        for end in effects.closes {
            if self.connections.end(end).is_some_and(|end| end.host == id) {
                self.close_end(end);
            }
        }
        self.arrange_wake(id, shard);
    }

    fn deliver(&mut self, host: HostId, flow: Flow, bytes: &[u8]) {
        let now = self.now;
        let Some(node) = self.hosts.get(host.0).and_then(|host| host.node.as_ref()) else { return };
        let shard = node.shard_of(bytes);
        self.run(host, shard, |node, effects| {
            node.on_message(shard, now, Received { flow, bytes }, effects);
        });
    }

    fn send_datagram(&mut self, sender: HostId, packet: &Packet, bytes: &[u8]) {
        let to = packet.flow.remote;
        let Some(from) = self.listener(sender, packet.flow.listener, Transport::Udp) else { return };
        let Some(&(host, listener)) = self.addresses.get(&(Transport::Udp, to)) else {
            self.record(sender, (from, to), Transport::Udp, Fate::Nobody, bytes);
            return;
        };
        let faults = self.link(sender, host).clone();
        let last = self.last_arrivals.entry((from, to)).or_default();
        let arrivals = faults.arrivals(self.now, last, &mut self.rng);
        if arrivals.is_empty() {
            self.record(sender, (from, to), Transport::Udp, Fate::Lost, bytes);
        }
        for (copy, &at) in arrivals.iter().enumerate() {
            let fate = if copy == 0 { Fate::Arrives(at) } else { Fate::Doubled(at) };
            self.record(sender, (from, to), Transport::Udp, fate, bytes);
            let flow = Flow::udp(listener, from);
            self.schedule(at, Happening::Datagram { host, flow, bytes: bytes.to_vec() });
        }
    }

    fn send_bytes(&mut self, sender: HostId, shard: u16, packet: &Packet, bytes: &[u8]) {
        let end = match packet.flow.connection {
            Some(end) => {
                Some(end).filter(|&end| self.connections.end(end).is_some_and(|end| end.host == sender))
            }
            None => self
                .connections
                .dialled(sender, packet.flow.remote)
                .or_else(|| self.dial(sender, packet.flow.listener, packet.flow.remote)),
        };
        let Some(end) = end else {
            let fate = if packet.flow.connection.is_some() { Fate::Closed } else { Fate::Nobody };
            self.fail(sender, shard, packet, fate, bytes);
            return;
        };
        self.write(sender, end, bytes);
        if let Some(End { unanswered: Some(unanswered), .. }) = self.connections.end_mut(end)
            && packet.token != Token::NONE
        {
            unanswered.push((shard, packet.token));
        }
    }

    /// The packet cannot be sent; its shard is told a little later, as a refused connection would be.
    fn fail(&mut self, sender: HostId, shard: u16, packet: &Packet, fate: Fate, bytes: &[u8]) {
        let remote = packet.flow.remote;
        let from = self.listener(sender, packet.flow.listener, Transport::Tcp).unwrap_or(remote);
        self.record(sender, (from, remote), Transport::Tcp, fate, bytes);
        if packet.token != Token::NONE {
            let delay = self.faults.draw_delay(&mut self.rng);
            let event = Event::Unreachable(packet.token);
            self.schedule(self.now + delay, Happening::Report { host: sender, shard, event });
        }
    }

    /// A connection to `remote`, if somebody listens there and the link is not cut.
    fn dial(&mut self, dialler: HostId, listener: ListenerId, remote: SocketAddr) -> Option<ConnectionId> {
        let &(host, accepting) = self.addresses.get(&(Transport::Tcp, remote))?;
        let own = self.hosts.get(dialler.0)?.listeners.get(usize::from(listener.0))?.1;
        let faults = self.link(dialler, host).clone();
        if faults.is_cut() || self.link(host, dialler).is_cut() {
            return None;
        }
        let local = SocketAddr::new(own.ip(), self.connections.ephemeral_port());
        let (near, far) = (self.connections.next_id(), self.connections.next_id());
        // The handshake: nothing arrives at the far end before its two packets have passed.
        let handshake = faults.draw_delay(&mut self.rng) + faults.draw_delay(&mut self.rng);
        let end = |host, listener, local, remote, peer, framer, last_arrival| End {
            host,
            listener,
            local,
            remote,
            peer,
            framer,
            last_arrival,
            unanswered: Some(Vec::new()),
        };
        let near_framer = self.hosts.get(dialler.0)?.node.as_ref()?.framer();
        let far_framer = self.hosts.get(host.0)?.node.as_ref()?.framer();
        let near_end = end(dialler, listener, local, remote, far, near_framer, self.now);
        let far_end = end(host, accepting, remote, local, near, far_framer, self.now + handshake);
        self.connections.insert_dialled(near, near_end);
        self.connections.insert_accepted(far, far_end);
        Some(near)
    }

    /// Puts bytes on their way from `end` to its peer, in one piece or two.
    fn write(&mut self, sender: HostId, end: ConnectionId, bytes: &[u8]) {
        let Some((from, to, peer)) = self.connections.end(end).map(|end| (end.local, end.remote, end.peer))
        else {
            return;
        };
        let receiver = self.connections.end(peer).map(|end| end.host);
        let faults = receiver.map_or_else(|| self.faults.clone(), |host| self.link(sender, host).clone());
        let cut = self.rng.below(2 * bytes.len() as u64) as usize;
        let (one, two) = bytes.split_at(cut.min(bytes.len()));
        let mut fate = Fate::Closed;
        for piece in [one, two].into_iter().filter(|piece| !piece.is_empty()) {
            let Some(peer_end) = self.connections.end_mut(peer) else { break };
            fate = match faults.stream_arrival(self.now, &mut peer_end.last_arrival, &mut self.rng) {
                Some(at) => {
                    self.schedule(at, Happening::Bytes { end: peer, bytes: piece.to_vec() });
                    Fate::Arrives(at)
                }
                None => Fate::Lost,
            };
        }
        self.record(sender, (from, to), Transport::Tcp, fate, bytes);
    }

    fn deliver_bytes(&mut self, id: ConnectionId, bytes: &[u8]) {
        let Some(end) = self.connections.end_mut(id) else { return };
        let host = end.host;
        let (listener, remote) = (end.listener, end.remote);
        let flow = Flow { transport: Transport::Tcp, listener, remote, connection: Some(id) };
        end.framer.push(bytes);
        loop {
            let Some(end) = self.connections.end_mut(id) else { return };
            let frame = end.framer.next_frame();
            let pongs = end.framer.pongs();
            if !pongs.is_empty() {
                self.write(host, id, &pongs);
            }
            match frame {
                Ok(Some(frame)) => {
                    if let Some(end) = self.connections.end_mut(id) {
                        end.unanswered = None;
                    }
                    self.deliver(host, flow, &frame);
                }
                Ok(None) => return,
                Err(_) => {
                    self.close_end(id);
                    return;
                }
            }
        }
    }

    /// Closes one end: its host is told now, the peer's when what is under way has arrived.
    fn close_end(&mut self, id: ConnectionId) {
        let Some(end) = self.connections.remove(id) else { return };
        if let Some(peer) = self.connections.end_mut(end.peer) {
            let at = peer.last_arrival.max(self.now) + CLOSE_DELAY;
            peer.last_arrival = at;
            self.schedule(at, Happening::Closed { end: end.peer });
        }
        let now = self.now;
        for shard in self.shards_of(end.host) {
            self.run(end.host, shard, |node, effects| {
                node.on_event(shard, now, Event::Closed(id), effects);
            });
        }
        for (shard, token) in end.unanswered.into_iter().flatten() {
            self.run(end.host, shard, |node, effects| {
                node.on_event(shard, now, Event::Unreachable(token), effects);
            });
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
        self.trace.push(Seen { at: self.now, sender, from, to, transport, fate, bytes });
    }

    fn link(&self, from: HostId, to: HostId) -> &Faults {
        self.links.get(&(from, to)).unwrap_or(&self.faults)
    }

    fn listener(&self, host: HostId, listener: ListenerId, transport: Transport) -> Option<SocketAddr> {
        let listeners = &self.hosts.get(host.0)?.listeners;
        listeners.get(usize::from(listener.0)).filter(|(of, _)| *of == transport).map(|&(_, address)| address)
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

/// A machine that asks to be woken at once, over and over, is woken once a millisecond.
const WAKE_AGAIN_MIN: Duration = Duration::from_millis(1);

/// A close is not faster than the wire.
const CLOSE_DELAY: Duration = Duration::from_millis(1);
