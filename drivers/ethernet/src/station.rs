//! A station of an Ethernet: one card, one address, one protocol machine.
//!
//! Two tasks that never interrupt each other. [`Station::receive`] takes one frame from the card to the reply;
//! [`Station::run`] does everything that is not about one frame. The program calls the first while there is work, and the
//! second when the first has begun something, and at least every millisecond.

use crate::fetch::Fetch;
use crate::frame::{self, Arrived};
use crate::stack::{Change, Stack, socket_address};
use crate::streams::Streams;
use crate::tftp::{Download, DownloadError};
use crate::wire::Wire;
use crate::{Card, Lease, StationCounters};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::net::{SocketAddr, SocketAddrV4};
use ringway_sansio::{
    Context, Event, Flow, Instant, ListenerId, Node, Outbox, Received, Rng, Seed, Token, Transport,
};
use smoltcp::iface::SocketHandle;

/// One card, one address, and a [`Node`] that takes what comes to its ports.
pub struct Station<C, N: Node> {
    wire: Wire<C>,
    /// Tens of kilobytes, which nobody wants moved about on a stack.
    stack: Box<Stack>,
    streams: Streams<N::Framer>,
    served: Option<Served<N>>,
    fetch: Option<Fetch>,
    /// What came of it.
    fetched: Option<Result<Vec<u8>, DownloadError>>,
    /// Chance for the ports of downloads (RFC 1350 §4).
    rng: Rng,
}

/// A port that is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Port {
    /// How messages come to it.
    pub transport: Transport,
    /// Its number.
    pub number: u16,
}

/// What a node is given, and where what it wants goes.
struct Served<N: Node> {
    node: N,
    /// By [`ListenerId`].
    ports: Vec<Port>,
    /// Where fragments of datagrams to a port are put together.
    reassembly: Vec<(ListenerId, SocketHandle)>,
    out: Outbox,
    actions: Vec<N::Action>,
}

/// What came of looking for a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Worked {
    /// One was taken, and all is done about it.
    Done,
    /// One was taken that [`Station::run`] goes on with, as with all of TCP.
    Begun,
    /// The ring is empty.
    Nothing,
}

impl<C: Card, N: Node> Station<C, N> {
    /// A station without an address: give it one by [`Station::set_lease`], or let it ask by [`Station::start_dhcp`].
    pub fn new(mut card: C, seed: &Seed, now: Instant) -> Self {
        let mut rng = Rng::new(seed);
        let stack = Box::new(Stack::new(&mut card, rng.next_u64(), now));
        Self {
            wire: Wire::new(card, rng.next_u64() as u16),
            stack,
            streams: Streams::new(rng.next_u64() as u16),
            served: None,
            fetch: None,
            fetched: None,
            rng,
        }
    }

    /// Asks for an address by DHCP from now on, and keeps it. It is told by [`Station::take_change`].
    pub fn start_dhcp(&mut self) {
        self.stack.start_dhcp();
    }

    /// Uses a lease: one that [`Station::take_change`] told, or a fixed one. `None`: no address. Connections of the
    /// address before are cut.
    pub fn set_lease(&mut self, lease: Option<Lease>) {
        let is_same = |own: &Lease| lease.as_ref().is_some_and(|lease| lease.address == own.address);
        if !self.wire.lease().is_some_and(is_same) {
            self.end_fetch();
            self.streams.cut(&mut self.stack);
        }
        self.stack.apply(lease.as_ref());
        self.wire.set_lease(lease);
    }

    /// The address in use.
    pub fn lease(&self) -> Option<&Lease> {
        self.wire.lease()
    }

    /// What happened to the lease since the last call.
    pub fn take_change(&mut self) -> Option<Change> {
        self.stack.take_change()
    }

    /// Serves `ports` with `node` from now on; a port's place in the list is its [`ListenerId`]. Messages are at most
    /// `message_bytes_max` long. A node that was there before is given back.
    pub fn serve(&mut self, node: N, ports: Vec<Port>, message_bytes_max: usize) -> Option<N> {
        let before = self.stop_serving();
        let numbered = ports
            .iter()
            .enumerate()
            .filter_map(|(place, port)| Some((ListenerId(u8::try_from(place).ok()?), *port)));
        let mut reassembly = Vec::new();
        let mut listening = Vec::new();
        for (listener, port) in numbered {
            match port.transport.is_stream() {
                false => {
                    let handle = self.stack.open_datagrams(port.number, REASSEMBLED_BYTES);
                    reassembly.extend(handle.map(|handle| (listener, handle)));
                }
                true => listening.push((listener, port.number)),
            }
        }
        self.streams.listen(listening, message_bytes_max);
        let out = Outbox::with_capacity(64, 64 << 10);
        self.served = Some(Served { node, ports, reassembly, out, actions: Vec::new() });
        before
    }

    /// Ends serving, and gives the node back.
    pub fn stop_serving(&mut self) -> Option<N> {
        let served = self.served.take()?;
        for (_, handle) in served.reassembly {
            self.stack.close_datagrams(handle);
        }
        self.streams.cut(&mut self.stack);
        self.streams.listen(Vec::new(), 0);
        self.streams.reports.clear();
        Some(served.node)
    }

    /// The task Receive: takes one frame from the card to the reply.
    pub fn receive(&mut self, now: Instant) -> Worked {
        self.receive_beside(now, &mut Nobody)
    }

    /// The same, with datagrams to some ports going to somebody beside the node.
    pub(crate) fn receive_beside(&mut self, now: Instant, beside: &mut impl Beside) -> Worked {
        let Self { wire, stack, served, .. } = self;
        let own = wire.own();
        let counters = &mut wire.counters;
        let mut learnt = None;
        let mut is_offered = false;
        let received = wire.card.receive(|frame| {
            let is_served = |port| served.as_ref().is_some_and(|served| served.listener(port).is_some());
            match frame::look(frame, own, |port| beside.takes(port) || is_served(port)) {
                Arrived::Datagram { from, port, bytes } => {
                    counters.datagrams_in += 1;
                    if beside.takes(port) {
                        beside.take(now, from, port, bytes);
                    } else if let Some(served) = served {
                        served.on_datagram(now, from, port, bytes);
                    }
                }
                Arrived::Neighbour { address, hardware } => {
                    learnt = Some((address, hardware));
                    is_offered = true;
                }
                Arrived::Other => is_offered = true,
                Arrived::Dhcp => {
                    is_offered = stack.awaits_dhcp();
                    counters.frames_foreign += u64::from(!is_offered);
                }
                Arrived::Foreign => counters.frames_foreign += 1,
                Arrived::Damaged => counters.frames_damaged += 1,
            }
            if is_offered {
                counters.frames_other += 1;
                stack.offer(frame);
            }
        });
        if received.is_none() {
            return Worked::Nothing;
        }
        if let Some((address, hardware)) = learnt {
            wire.learn(now, address, hardware);
        }
        if is_offered {
            stack.ingest(&mut wire.card, now);
            return Worked::Begun;
        }
        self.send_packets(now);
        Worked::Done
    }

    /// The task Main, as far as the network goes: timers, TCP, DHCP, DNS, fragments, and the card's bell.
    pub fn run(&mut self, now: Instant) {
        self.wire.expire(now);
        self.stack.poll(&mut self.wire.card, now);
        self.run_streams(now);
        self.take_reassembled(now);
        self.take_resolved(now);
        self.run_fetch(now);
        self.run_timers(now);
        for _ in 0..REPORT_ROUNDS {
            self.send_packets(now);
            if !self.tell_reports(now) {
                break;
            }
        }
        self.streams.settle(&mut self.stack, &mut self.wire.counters, now);
        self.stack.poll(&mut self.wire.card, now);
        self.wire.card.flush();
    }

    /// Rings the card's bell, so that what [`Station::receive`] wrote goes out.
    pub fn flush(&mut self) {
        self.wire.card.flush();
    }

    /// What the node wished since the last call.
    pub fn take_actions(&mut self) -> impl Iterator<Item = N::Action> + '_ {
        self.served.iter_mut().flat_map(|served| served.actions.drain(..))
    }

    /// Looks up an IPv4 address for `host`; the node is told by [`Event::Resolved`].
    pub fn resolve(&mut self, now: Instant, query: u64, host: &str) {
        if !self.stack.resolve(query, host) {
            self.wire.counters.lookups_refused += 1;
            self.tell(now, Event::Resolved { query, address: None });
        }
    }

    /// Begins to fetch a file; one that is being fetched is given up.
    pub fn fetch(&mut self, download: Download) {
        self.end_fetch();
        // A port that is served, or that the download before still had, is not to be had: then the next try takes another.
        for _ in 0..2 {
            let port = FETCH_PORT_MIN + self.rng.below(u64::from(u16::MAX - FETCH_PORT_MIN)) as u16;
            if let Some(handle) = self.stack.open_datagrams(port, FETCH_BYTES) {
                self.fetch = Some(Fetch::new(download, handle));
                return;
            }
        }
    }

    /// What came of fetching, once.
    pub fn take_fetched(&mut self) -> Option<Result<Vec<u8>, DownloadError>> {
        self.fetched.take()
    }

    /// How many bytes of a file are here, and how many there will be, where the server said it.
    pub fn fetching(&self) -> Option<(usize, Option<usize>)> {
        self.fetch.as_ref().map(Fetch::received)
    }

    /// Calls the node; what it sends goes out.
    pub fn call<R>(
        &mut self,
        now: Instant,
        f: impl FnOnce(&mut N, &mut Context<'_, N::Action>) -> R,
    ) -> Option<R> {
        let served = self.served.as_mut()?;
        let result = f(&mut served.node, &mut Context::new(now, &mut served.out, &mut served.actions));
        self.send_packets(now);
        Some(result)
    }

    /// The node.
    pub fn node(&self) -> Option<&N> {
        self.served.as_ref().map(|served| &served.node)
    }

    /// What was counted.
    pub fn counters(&self) -> StationCounters {
        let mut counters = self.wire.counters;
        counters.waiting_full = self.wire.neighbours.dropped;
        counters.neighbours_full = self.wire.neighbours.refused;
        counters
    }

    /// The card.
    pub fn card(&self) -> &C {
        &self.wire.card
    }

    /// The card, to change its settings.
    pub fn card_mut(&mut self) -> &mut C {
        &mut self.wire.card
    }

    /// True while the card has a link.
    pub fn is_up(&mut self) -> bool {
        self.wire.card.is_up()
    }

    /// Stations of this link that are known.
    pub fn neighbours_len(&self) -> usize {
        self.wire.neighbours.len()
    }

    /// TCP connections that are open.
    pub fn connections_len(&self) -> usize {
        self.streams.len()
    }

    pub(crate) const fn wire_mut(&mut self) -> &mut Wire<C> {
        &mut self.wire
    }

    fn run_streams(&mut self, now: Instant) {
        let Self { wire, stack, streams, served: Some(served), .. } = self else { return };
        if wire.lease().is_none() {
            return;
        }
        streams.run(stack, &mut wire.counters, now, |flow, bytes| {
            served.on_message(now, Received { flow, bytes });
        });
    }

    fn take_reassembled(&mut self, now: Instant) {
        let Self { wire, stack, served: Some(served), .. } = self else { return };
        for place in 0..served.reassembly.len() {
            let Some(&(listener, handle)) = served.reassembly.get(place) else { return };
            while let Ok((bytes, from)) = stack.datagrams(handle).recv() {
                wire.counters.datagrams_in += 1;
                wire.counters.datagrams_reassembled += 1;
                let flow = Flow::udp(listener, SocketAddr::V4(socket_address(from.endpoint)));
                served.on_message(now, Received { flow, bytes });
            }
        }
    }

    fn run_fetch(&mut self, now: Instant) {
        let Some(fetch) = &mut self.fetch else { return };
        if let Some(end) = fetch.run(&mut self.stack, now) {
            self.fetched = Some(end);
        }
        if fetch.is_over() {
            self.end_fetch();
        }
    }

    fn end_fetch(&mut self) {
        if let Some(fetch) = self.fetch.take() {
            fetch.close(&mut self.stack);
        }
    }

    fn take_resolved(&mut self, now: Instant) {
        while let Some((query, address)) = self.stack.take_resolved() {
            self.tell(now, Event::Resolved { query, address });
        }
    }

    fn run_timers(&mut self, now: Instant) {
        let Some(served) = &mut self.served else { return };
        if served.node.next_deadline().is_some_and(|deadline| deadline.at <= now) {
            served.node.on_timeout(&mut Context::new(now, &mut served.out, &mut served.actions));
        }
    }

    fn tell(&mut self, now: Instant, event: Event) {
        if let Some(served) = &mut self.served {
            served.node.on_event(&mut Context::new(now, &mut served.out, &mut served.actions), event);
        }
    }

    /// Tells the node what could not be sent and what is closed. False: there was nothing to tell.
    fn tell_reports(&mut self, now: Instant) -> bool {
        let unreachable = core::mem::take(&mut self.wire.unreachable);
        let reports = core::mem::take(&mut self.streams.reports);
        let has_reports = !(unreachable.is_empty() && reports.is_empty());
        for event in unreachable.into_iter().map(Event::Unreachable).chain(reports) {
            self.tell(now, event);
        }
        has_reports
    }

    fn send_packets(&mut self, now: Instant) {
        let Self { wire, stack, streams, served: Some(served), .. } = self else { return };
        if served.out.is_empty() {
            return;
        }
        for (packet, bytes) in served.out.packets() {
            let listener = usize::from(packet.flow.listener.0);
            let (flow, token) = (packet.flow, packet.token);
            match (flow.transport.is_stream(), served.ports.get(listener), flow.remote) {
                (false, Some(port), SocketAddr::V4(remote)) => {
                    wire.send(now, port.number, remote, token, bytes);
                }
                (true, Some(_), SocketAddr::V4(_)) => {
                    streams.send(stack, &mut wire.counters, (flow, token), bytes, now);
                }
                // There is no IPv6 here, and no such listener.
                (_, None, _) | (_, _, SocketAddr::V6(_)) => {
                    wire.counters.no_route += 1;
                    wire.counters.unreachable += 1;
                    if token != Token::NONE {
                        wire.unreachable.push(token);
                    }
                }
            }
        }
        served.out.clear();
    }
}

/// Who takes datagrams besides the node. Of [`Nobody`] nothing is left in the program.
pub(crate) trait Beside {
    /// True for its ports.
    fn takes(&self, port: u16) -> bool;

    /// Takes a datagram to one of them.
    fn take(&mut self, now: Instant, from: SocketAddrV4, port: u16, bytes: &[u8]);
}

struct Nobody;

impl Beside for Nobody {
    fn takes(&self, _port: u16) -> bool {
        false
    }

    fn take(&mut self, _now: Instant, _from: SocketAddrV4, _port: u16, _bytes: &[u8]) {}
}

impl<N: Node> Served<N> {
    fn on_datagram(&mut self, now: Instant, from: SocketAddrV4, port: u16, bytes: &[u8]) {
        let Some(listener) = self.listener(port) else { return };
        let flow = Flow::udp(listener, SocketAddr::V4(from));
        self.on_message(now, Received { flow, bytes });
    }

    fn on_message(&mut self, now: Instant, received: Received<'_>) {
        self.node.on_message(&mut Context::new(now, &mut self.out, &mut self.actions), received);
    }

    /// The listener of datagrams to a port.
    fn listener(&self, number: u16) -> Option<ListenerId> {
        let wanted = Port { transport: Transport::Udp, number };
        self.ports
            .iter()
            .position(|port| *port == wanted)
            .and_then(|place| u8::try_from(place).ok())
            .map(ListenerId)
    }
}

/// Room for datagrams that came in fragments and were not read yet.
const REASSEMBLED_BYTES: usize = 128 << 10;

/// What is left after so many rounds waits for the next call, so that a node that never gives up cannot stop the rest.
const REPORT_ROUNDS: usize = 8;

/// A window of one block, and what strangers send meanwhile.
const FETCH_BYTES: usize = 16 << 10;

/// RFC 6335 §6: ports for one use.
const FETCH_PORT_MIN: u16 = 49_152;
