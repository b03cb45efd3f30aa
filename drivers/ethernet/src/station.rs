//! A station on an Ethernet: one card, one IP address, one protocol machine.
//!
//! There are two tasks, which never interrupt each other. [`Station::receive`] processes one frame from the card up to
//! the reply; [`Station::run`] does all other work. The program calls `receive` as long as there are frames, and `run`
//! when `receive` returned [`Worked::Begun`], and at least every millisecond.

use crate::frame::{self, FrameKind};
use crate::stack::{Change, Stack, socket_address};
use crate::streams::{StreamListener, Streams};
use crate::tftp::{Download, DownloadError, Fetch};
use crate::wire::Wire;
use crate::{Card, Lease, StationCounters};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::net::{SocketAddr, SocketAddrV4};
use ringway_sansio::{
    Context, Event, Flow, Instant, ListenerId, LocatedServers, Node, Outbox, Received, Rng, Seed, Target,
    Token, Transport,
};
use ringway_stream::{PlainLayers, StreamLayers};
use smoltcp::iface::SocketHandle;

/// One card, one IP address, and a [`Node`] that serves ports; `L` provides the layers of its stream connections.
pub struct Station<C, N: Node, L: StreamLayers = PlainLayers> {
    wire: Wire<C>,
    /// Boxed: tens of kilobytes would be moved on the machine's stack.
    stack: Box<Stack>,
    streams: Streams<N::Framer, L>,
    served: Option<Served<N>>,
    fetch: Option<Fetch>,
    /// Result of the last fetch.
    fetched: Option<Result<Vec<u8>, DownloadError>>,
    /// Random numbers for the ports of downloads (RFC 1350 §4).
    rng: Rng,
}

/// A served port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Port {
    /// Transport of the port.
    pub transport: Transport,
    /// Port number.
    pub number: u16,
}

/// The node with its ports and buffers.
struct Served<N: Node> {
    node: N,
    /// By [`ListenerId`].
    ports: Vec<Port>,
    /// Sockets that receive the reassembled datagrams of a port.
    reassembly: Vec<(ListenerId, SocketHandle)>,
    out: Outbox,
    actions: Vec<N::Action>,
}

/// Outcome of [`Station::receive`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Worked {
    /// One frame was processed completely.
    Done,
    /// One frame was processed, and [`Station::run`] must continue, as for TCP.
    Begun,
    /// No frame was received.
    Nothing,
}

impl<C: Card, N: Node> Station<C, N> {
    /// Creates a station without an address; [`Station::set_lease`] or [`Station::start_dhcp`] configures one. Its stream
    /// connections are TCP.
    pub fn new(card: C, seed: &Seed, now: Instant) -> Self {
        Self::with_layers(card, PlainLayers, seed, now)
    }
}

impl<C: Card, N: Node, L: StreamLayers> Station<C, N, L> {
    /// Creates a station like [`Station::new`] whose stream connections have the layers of `layers`.
    pub fn with_layers(mut card: C, layers: L, seed: &Seed, now: Instant) -> Self {
        let mut rng = Rng::new(seed);
        let stack = Box::new(Stack::new(&mut card, rng.next_u64(), now));
        Self {
            wire: Wire::new(card, rng.next_u64() as u16),
            stack,
            streams: Streams::new(layers, rng.next_u64()),
            served: None,
            fetch: None,
            fetched: None,
            rng,
        }
    }

    /// Starts the DHCP client. [`Station::take_change`] returns its leases.
    pub fn start_dhcp(&mut self) {
        self.stack.start_dhcp();
    }

    /// Applies a lease from [`Station::take_change`] or a fixed configuration. `None`: no address. If the address
    /// changes, all TCP connections and a running download are aborted.
    pub fn set_lease(&mut self, lease: Option<Lease>) {
        let is_same = |own: &Lease| lease.as_ref().is_some_and(|lease| lease.address == own.address);
        if !self.wire.lease().is_some_and(is_same) {
            self.end_fetch();
            self.streams.cut(&mut self.stack);
        }
        self.stack.apply(lease.as_ref());
        self.wire.set_lease(lease);
    }

    /// Current IP configuration.
    pub fn lease(&self) -> Option<&Lease> {
        self.wire.lease()
    }

    /// Next change of the DHCP lease.
    pub fn take_change(&mut self) -> Option<Change> {
        self.stack.take_change()
    }

    /// Serves `ports` with `node`. The index of a port is its [`ListenerId`]. Messages on streams have at most
    /// `message_bytes_max` bytes. Returns the previous node.
    pub fn serve(&mut self, node: N, ports: Vec<Port>, message_bytes_max: usize) -> Option<N> {
        let before = self.stop_serving();
        let numbered = ports
            .iter()
            .enumerate()
            .filter_map(|(index, port)| Some((ListenerId(u8::try_from(index).ok()?), *port)));
        let mut reassembly = Vec::new();
        let mut listening = Vec::new();
        for (listener, port) in numbered {
            match port.transport.is_stream() {
                false => {
                    let handle = self.stack.open_datagrams(port.number, REASSEMBLED_BYTES);
                    reassembly.extend(handle.map(|handle| (listener, handle)));
                }
                true => listening.push(StreamListener {
                    id: listener,
                    transport: port.transport,
                    port: port.number,
                }),
            }
        }
        self.streams.listen(listening, message_bytes_max);
        let out = Outbox::with_capacity(64, 64 << 10);
        self.served = Some(Served { node, ports, reassembly, out, actions: Vec::new() });
        before
    }

    /// Stops serving and returns the node.
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

    /// Task Receive: processes one frame from the card up to the reply.
    pub fn receive(&mut self, now: Instant) -> Worked {
        self.receive_with(now, &mut NoSink)
    }

    /// Like [`Station::receive`], with the datagrams of some ports going to `sink`.
    pub(crate) fn receive_with(&mut self, now: Instant, sink: &mut impl DatagramSink) -> Worked {
        let Self { wire, stack, served, .. } = self;
        let own = wire.own();
        let counters = &mut wire.counters;
        let mut learnt = None;
        let mut is_for_stack = false;
        let received = wire.card.receive(|frame| {
            let is_served = |port| served.as_ref().is_some_and(|served| served.listener(port).is_some());
            match frame::classify(frame, own, |port| sink.takes(port) || is_served(port)) {
                FrameKind::Datagram { from, port, bytes } => {
                    counters.datagrams_in += 1;
                    if sink.takes(port) {
                        sink.take(now, from, port, bytes);
                    } else if let Some(served) = served {
                        served.on_datagram(now, from, port, bytes);
                    }
                }
                FrameKind::Neighbour { address, hardware } => {
                    learnt = Some((address, hardware));
                    is_for_stack = true;
                }
                FrameKind::Other => is_for_stack = true,
                FrameKind::Dhcp => {
                    is_for_stack = stack.awaits_dhcp();
                    counters.frames_foreign += u64::from(!is_for_stack);
                }
                FrameKind::Foreign => counters.frames_foreign += 1,
                FrameKind::Damaged => counters.frames_damaged += 1,
            }
            if is_for_stack {
                counters.frames_other += 1;
                stack.store(frame);
            }
        });
        if received.is_none() {
            return Worked::Nothing;
        }
        if let Some((address, hardware)) = learnt {
            wire.learn(now, address, hardware);
        }
        if is_for_stack {
            stack.ingest(&mut wire.card, now);
            return Worked::Begun;
        }
        self.send_packets(now);
        Worked::Done
    }

    /// Task Main: timers, TCP, DHCP, DNS, fragments, and notifying the card.
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
            if !self.report_failures(now) {
                break;
            }
        }
        self.streams.settle(&mut self.stack, &mut self.wire.counters, now);
        self.stack.poll(&mut self.wire.card, now);
        self.wire.card.flush();
    }

    /// Notifies the card of the frames that [`Station::receive`] wrote.
    pub fn flush(&mut self) {
        self.wire.card.flush();
    }

    /// Actions requested by the node since the last call.
    pub fn take_actions(&mut self) -> impl Iterator<Item = N::Action> + '_ {
        self.served.iter_mut().flat_map(|served| served.actions.drain(..))
    }

    /// Looks up the IPv4 address of the host, without SRV and NAPTR records; the node gets the result as
    /// [`Event::Resolved`].
    pub fn resolve(&mut self, now: Instant, query: u64, target: Target) {
        if !self.stack.resolve(query, target) {
            self.wire.counters.lookups_refused += 1;
            self.deliver_event(now, Event::Resolved { query, servers: LocatedServers::NONE });
        }
    }

    /// Starts a download and aborts a running one.
    pub fn fetch(&mut self, download: Download) {
        self.end_fetch();
        // A port in use fails; then another one is tried.
        for _ in 0..2 {
            let port = DYNAMIC_PORT_MIN + self.rng.below(u64::from(u16::MAX - DYNAMIC_PORT_MIN)) as u16;
            if let Some(handle) = self.stack.open_datagrams(port, FETCH_BYTES) {
                self.fetch = Some(Fetch::new(download, handle));
                return;
            }
        }
    }

    /// Result of the last download, once.
    pub fn take_fetched(&mut self) -> Option<Result<Vec<u8>, DownloadError>> {
        self.fetched.take()
    }

    /// Bytes received by the running download, and the file's size if the server announced it.
    pub fn fetching(&self) -> Option<(usize, Option<usize>)> {
        self.fetch.as_ref().map(Fetch::received)
    }

    /// Calls the node and sends its packets.
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

    /// Current counters.
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

    /// Number of stations in the table of neighbours.
    pub fn neighbours_len(&self) -> usize {
        self.wire.neighbours.len()
    }

    /// Number of open TCP connections.
    pub fn connections_len(&self) -> usize {
        self.streams.len()
    }

    /// The layers of stream connections.
    pub const fn layers(&self) -> &L {
        &self.streams.layers
    }

    /// The layers of stream connections, to change their settings.
    pub const fn layers_mut(&mut self) -> &mut L {
        &mut self.streams.layers
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
            served.on_message(now, Received::new(flow, bytes));
        });
    }

    fn take_reassembled(&mut self, now: Instant) {
        let Self { wire, stack, served: Some(served), .. } = self else { return };
        for index in 0..served.reassembly.len() {
            let Some(&(listener, handle)) = served.reassembly.get(index) else { return };
            while let Ok((bytes, from)) = stack.datagrams(handle).recv() {
                wire.counters.datagrams_in += 1;
                wire.counters.datagrams_reassembled += 1;
                let flow = Flow::udp(listener, SocketAddr::V4(socket_address(from.endpoint)));
                served.on_message(now, Received::new(flow, bytes));
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
        while let Some((query, servers)) = self.stack.take_resolved() {
            self.deliver_event(now, Event::Resolved { query, servers });
        }
    }

    fn run_timers(&mut self, now: Instant) {
        let Some(served) = &mut self.served else { return };
        if served.node.next_deadline().is_some_and(|deadline| deadline.at <= now) {
            served.node.on_timeout(&mut Context::new(now, &mut served.out, &mut served.actions));
        }
    }

    fn deliver_event(&mut self, now: Instant, event: Event) {
        if let Some(served) = &mut self.served {
            served.node.on_event(&mut Context::new(now, &mut served.out, &mut served.actions), event);
        }
    }

    /// Reports failed packets and closed connections to the node. False: there were none.
    fn report_failures(&mut self, now: Instant) -> bool {
        let unreachable = core::mem::take(&mut self.wire.unreachable);
        let reports = core::mem::take(&mut self.streams.reports);
        let has_reports = !(unreachable.is_empty() && reports.is_empty());
        for event in unreachable.into_iter().map(Event::Unreachable).chain(reports) {
            self.deliver_event(now, event);
        }
        has_reports
    }

    fn send_packets(&mut self, now: Instant) {
        let Self { wire, stack, streams, served: Some(served), .. } = self else { return };
        let is_quiet = served.out.disconnected().is_empty() && served.out.given_up().is_empty();
        if served.out.is_empty() && is_quiet {
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
                // IPv6 is not supported, and the listener must exist.
                (_, None, _) | (_, _, SocketAddr::V6(_)) => {
                    wire.counters.no_route += 1;
                    wire.counters.unreachable += 1;
                    if token != Token::NONE {
                        wire.unreachable.push(token);
                    }
                }
            }
        }
        for flow in served.out.disconnected() {
            streams.disconnect(flow, now);
        }
        for (flow, token) in served.out.given_up() {
            streams.give_up_dial(flow, *token);
        }
        served.out.clear();
    }
}

/// Receiver of datagrams beside the node. With [`NoSink`] the compiler removes the calls.
pub(crate) trait DatagramSink {
    /// True for its ports.
    fn takes(&self, port: u16) -> bool;

    /// Processes a datagram to one of its ports.
    fn take(&mut self, now: Instant, from: SocketAddrV4, port: u16, bytes: &[u8]);
}

struct NoSink;

impl DatagramSink for NoSink {
    fn takes(&self, _port: u16) -> bool {
        false
    }

    fn take(&mut self, _now: Instant, _from: SocketAddrV4, _port: u16, _bytes: &[u8]) {}
}

impl<N: Node> Served<N> {
    fn on_datagram(&mut self, now: Instant, from: SocketAddrV4, port: u16, bytes: &[u8]) {
        let Some(listener) = self.listener(port) else { return };
        let flow = Flow::udp(listener, SocketAddr::V4(from));
        self.on_message(now, Received::new(flow, bytes));
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
            .and_then(|index| u8::try_from(index).ok())
            .map(ListenerId)
    }
}

/// Size of the buffer for reassembled datagrams of a port.
const REASSEMBLED_BYTES: usize = 128 << 10;

/// Maximum number of rounds in one call; the rest remains for the next call, so that a node that always retries does not
/// block the other tasks.
const REPORT_ROUNDS: usize = 8;

/// Size of the receive buffer: one block, and packets of other senders.
const FETCH_BYTES: usize = 16 << 10;

/// First dynamic port (RFC 6335 §6).
const DYNAMIC_PORT_MIN: u16 = 49_152;
