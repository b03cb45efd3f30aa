//! A worker thread: receives messages, passes them to their shards, and sends the resulting packets.
//!
//! A turn: wait for events; read the sockets, with a limit per socket; process the inbox; run timers; deliver the
//! transport's reports to the shards. Actions of a node are passed to the sink before the node is unlocked; the packets
//! of one batch are sent at its end.

mod attached;
mod filters;
mod transports;

use crate::associations::AssociationTable;
use crate::config::Direction;
use crate::counters::Counters;
use crate::held::{Held, MarkedPackets};
use crate::inbox::{Command, Commands, Inbox, ListenSocket};
use crate::listeners::WORKERS_MAX;
use crate::shard::{ActionSink, Batch, Nodes, Shards, shard_of_token};
use crate::shared::{Common, Phase, connections};
use crate::sys::{Epoll, Interest, Ready, ReadyList, ReceiveBatch, SendBatch, Wait};
use crate::tcp::stream::{Filled, More};
use crate::tcp::{Frames, Report, Streams, header_of};
use attached::Clients;
use filters::Filters;
use ringway_sansio::{
    ConnectionId, Event, Flow, Instant, ListenerId, Node, Outbox, Packet, Queue, Received, Transport,
};
use std::io::{self, ErrorKind};
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;
use transports::{Connected, IcmpErrors, is_icmp, owner_of, send_connected};

/// Components of a worker that are created before its thread.
pub(crate) struct Parts<N: Node> {
    index: usize,
    common: Arc<Common>,
    counters: Arc<Counters>,
    shards: Shards<N>,
    sink: Arc<dyn ActionSink<N::Action>>,
    epoll: Epoll,
    sockets: Vec<ListenSocket>,
}

impl<N: Node> Parts<N> {
    /// Creates the components and adds the sockets to epoll.
    pub(crate) fn new(
        index: usize,
        common: Arc<Common>,
        counters: Arc<Counters>,
        shards: Shards<N>,
        sink: Arc<dyn ActionSink<N::Action>>,
        sockets: Vec<ListenSocket>,
    ) -> io::Result<Self> {
        let epoll = Epoll::new()?;
        for (listener, socket) in sockets.iter().enumerate() {
            let fd = match socket {
                ListenSocket::Datagram(socket, _) => socket.as_fd(),
                ListenSocket::Stream(socket, _) => socket.as_fd(),
            };
            epoll.add(fd, OTHER | listener as u64, Interest::Read)?;
        }
        if let Some(inbox) = common.inboxes.of(index) {
            epoll.add(inbox.event().as_fd(), INBOX, Interest::Read)?;
        }
        Ok(Self { index, common, counters, shards, sink, epoll, sockets })
    }
}

pub(crate) struct Worker<N: Node> {
    index: usize,
    common: Arc<Common>,
    counters: Arc<Counters>,
    nodes: Nodes<N>,
    epoll: Arc<Epoll>,
    /// By listener; `None` for stream listeners.
    udp: Vec<Option<UdpSocket>>,
    /// By listener: of its socket, or of its connections.
    queues: Vec<Queue>,
    filters: Filters,
    receive: ReceiveBatch,
    icmp: IcmpErrors,
    send: SendBatch,
    streams: Streams<N::Framer>,
    associations: AssociationTable,
    clients: Clients,
    batch: Batch<N::Action>,
    held: Held,
    commands: Commands,
    now: Instant,
    /// End of the last wait in which this worker slept: no socket had anything to read then.
    slept_at: Instant,
    /// Time at which the turn began, if there is something to handle in it.
    turn: Option<Instant>,
}

impl<N: Node> Worker<N> {
    pub(crate) fn new(parts: Parts<N>) -> Self {
        let Parts { index, common, counters, shards, sink, epoll, sockets } = parts;
        let now = common.clock.now();
        let is_strict = common.marked_packets == MarkedPackets::HoldUntilStored;
        let epoll = Arc::new(epoll);
        let (mut udp, mut listening, mut transports) = (Vec::new(), Vec::new(), Vec::new());
        for (listener, socket) in sockets.into_iter().enumerate() {
            let (datagram, stream, transport) = match socket {
                ListenSocket::Datagram(socket, transport) => (Some(socket), None, transport),
                ListenSocket::Stream(socket, transport) => {
                    (None, Some((socket, OTHER | listener as u64)), transport)
                }
            };
            udp.push(datagram);
            listening.push(stream);
            transports.push(transport);
        }
        let associations = AssociationTable::new(index, Arc::clone(&common), Arc::clone(&counters), now);
        let streams = Streams::new(
            index,
            Arc::clone(&common),
            Arc::clone(&counters),
            Arc::clone(&epoll),
            listening,
            transports,
            now,
        );
        Self {
            index,
            receive: ReceiveBatch::new(common.datagram_batch),
            icmp: IcmpErrors::new(&udp, now),
            queues: udp.iter().map(|_| Queue::default()).collect(),
            filters: Filters::default(),
            send: SendBatch::new(common.datagram_batch),
            common,
            counters,
            nodes: Nodes { worker: index, shards, sink, is_strict },
            epoll,
            udp,
            streams,
            associations,
            clients: Clients::new(),
            batch: Batch { out: Outbox::new(), actions: Vec::new(), stored_at: 0 },
            held: Held::default(),
            commands: Commands::default(),
            now,
            slept_at: now,
            turn: None,
        }
    }

    /// Runs until the runtime stops. An error is one of epoll, after which the worker cannot continue.
    pub(crate) fn run(mut self) -> io::Result<()> {
        let mut ready = ReadyList::new(READY_MAX);
        loop {
            let phase = self.common.phase();
            if phase != Phase::Running {
                self.streams.stop_listening();
                self.associations.stop_listening();
            }
            let timeout = self.begin_sleep();
            self.epoll.wait(&mut ready, timeout)?;
            if let (false, Some(inbox)) = (timeout.is_zero(), self.inbox()) {
                inbox.awake();
            }
            let began = std::mem::replace(&mut self.now, self.common.clock.now());
            if self.now.since(began) >= SLEEP_MIN {
                self.slept_at = self.now;
            }
            self.turn = (!ready.is_empty()).then_some(self.now);
            self.icmp.refill(&self.udp, self.now);
            for index in 0..ready.len() {
                if let Some(ready) = ready.at(index) {
                    self.on_ready(ready);
                }
            }
            self.take_inbox();
            self.run_timers();
            self.release_held();
            self.flush();
            self.counters.held.set(self.held.len() as u64);
            self.counters.unwritten_bytes.set(self.streams.unwritten() as u64);
            if phase == Phase::Ending {
                // The end of a stream closes its socket; that of an association has to be said.
                self.associations.close_all(&self.udp, self.now);
                return Ok(());
            }
        }
    }

    fn on_ready(&mut self, ready: Ready) {
        if ready.token & OTHER != OTHER {
            let id = ConnectionId(ready.token);
            if ready.write {
                self.streams.writable(id, self.now);
            }
            if ready.read {
                self.read_stream(id);
            }
            return self.flush();
        }
        if ready.token == INBOX {
            if let Some(inbox) = self.inbox() {
                inbox.event().reset();
            }
            return;
        }
        if let Some(index) = header_of(ready.token) {
            return self.streams.read_header(index, self.now);
        }
        let listener = (ready.token & !OTHER) as usize;
        match self.udp.get(listener) {
            Some(Some(_)) => {
                if ready.error {
                    self.take_icmp_errors(listener);
                }
                self.read_datagrams(listener);
            }
            Some(None) => self.streams.accept(listener, self.now),
            None => self.read_client(ready.token),
        }
    }

    fn read_datagrams(&mut self, listener: usize) {
        let id = ListenerId(u8::try_from(listener).unwrap_or(u8::MAX));
        let transport = self.streams.transport_of(listener);
        for _ in 0..BATCHES_PER_TURN {
            let Some(Some(socket)) = self.udp.get(listener) else { return };
            let count = match self.receive.receive(socket.as_fd(), Wait::Never) {
                Ok(count) => count,
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                    return;
                }
                Err(error) => {
                    // An ICMP error makes one call fail, even if it was taken from the queue a moment before.
                    if self.take_icmp_errors(listener) == 0 && !is_icmp(&error) {
                        self.counters.receive_errors.increment();
                    }
                    return;
                }
            };
            self.now = self.common.clock.now();
            let waited = self.receive.waited();
            let mut bytes_in = 0;
            for index in 0..count {
                let Some((remote, bytes)) = self.receive.datagram(index) else { continue };
                bytes_in += bytes.len() as u64;
                let Self { common, nodes, batch, now, associations, udp, queues, .. } = self;
                let mut pass = |received: Received<'_>| {
                    common.trace(Direction::Received, &received.flow, received.bytes);
                    nodes.on_message(batch, *now, received);
                };
                match transport {
                    Transport::Dtls => associations.receive(udp, (id, remote), bytes, *now, &mut pass),
                    _ => {
                        let received = Received::new(Flow::udp(id, Flow::canonical(remote)), bytes);
                        pass(queues.get(listener).map_or(received, |queue| received.after(waited, queue)));
                    }
                }
            }
            self.counters.datagrams_in.add(count as u64);
            self.counters.datagram_bytes_in.add(bytes_in);
            self.filters.set(listener, &self.queues, &self.udp, &self.counters);
            self.flush();
            // After a small batch more datagrams are unlikely, and a further call costs as much as epoll.
            if count * 4 < self.receive.capacity() {
                return;
            }
        }
    }

    /// Passes ICMP errors of a datagram socket to their shards; returns their number.
    fn take_icmp_errors(&mut self, listener: usize) -> usize {
        let id = ListenerId(u8::try_from(listener).unwrap_or(u8::MAX));
        let Self { icmp, udp, nodes, batch, now, counters, .. } = self;
        let shards = nodes.shards.len() as u16;
        let count = icmp.take(udp, id, counters, |error| {
            if let Some(shard) = N::shard_of_quoted(error.quoted, shards) {
                nodes.call(batch, *now, shard, |node, cx| node.on_icmp_error(cx, error));
            }
        });
        self.flush();
        count
    }

    fn read_stream(&mut self, id: ConnectionId) {
        let filled = self.streams.fill(id, self.now, self.slept_at);
        if filled != Filled::Nothing {
            self.take_frames(id);
        }
    }

    /// Passes the messages of a connection to their shards.
    fn take_frames(&mut self, id: ConnectionId) {
        let is_last = loop {
            let Self { streams, nodes, batch, now, common, queues, .. } = self;
            let frames = streams.frames(id, *now, queues, |received| {
                common.trace(Direction::Received, &received.flow, received.bytes);
                nodes.on_message(batch, *now, received);
            });
            match frames {
                Frames::More => self.flush(),
                Frames::All => break false,
                Frames::Last => break true,
            }
        };
        let has_own_bytes = self.streams.has_own_bytes(id);
        if has_own_bytes || is_last {
            // Responses to the last messages are sent before the connection is closed.
            self.flush();
        }
        if has_own_bytes {
            self.streams.respond(id, self.now);
        }
        if is_last {
            self.streams.finish(id);
        }
    }

    fn take_inbox(&mut self) {
        let mut commands = std::mem::take(&mut self.commands);
        if self.inbox().is_some_and(|inbox| inbox.take(&mut commands)) {
            self.run_calls();
            self.change_sockets();
        }
        for command in commands.list.drain(..) {
            match command {
                Command::Stream { flow, token, dialler, bytes } => {
                    let bytes = commands.bytes.get(bytes).unwrap_or_default();
                    self.connected().send(flow, (token, dialler), bytes, More::None);
                }
                Command::Keep(id, until) => self.connected().keep(id, until),
                Command::Disconnect(flow) => self.connected().disconnect(&flow),
                Command::GiveUpDial(flow, token) => self.streams.give_up_dial(&flow, token),
                Command::Resume(id) => {
                    if self.streams.resume(id, self.now) {
                        self.take_frames(id);
                    }
                }
                Command::Event(shard, event) => self.nodes.on_event(&mut self.batch, self.now, shard, event),
            }
        }
        commands.clear();
        self.commands = commands;
    }

    /// Runs the calls of other threads for the shards that this worker owns.
    fn run_calls(&mut self) {
        for shard in self.nodes.shards.owned_by(self.index) {
            while let Some(call) = self.nodes.shards.take_call(shard) {
                self.nodes.call(&mut self.batch, self.now, shard, |node, cx| call(node, cx));
            }
        }
    }

    fn run_timers(&mut self) {
        self.streams.expire(self.now);
        self.filters.end(self.now, &self.udp);
        self.expire_clients();
        let Self { associations, udp, nodes, batch, now, .. } = self;
        associations.expire(udp, *now, &mut |received| nodes.on_message(batch, *now, received));
        for shard in self.nodes.shards.owned_by(self.index) {
            if self.nodes.shards.deadline(shard) <= self.now {
                self.nodes.on_timeout(&mut self.batch, self.now, shard);
                self.flush();
            }
        }
    }

    fn release_held(&mut self) {
        if !self.held.is_empty() {
            let sink = &self.nodes.sink;
            let refusal = |change, packet: &[u8]| sink.refuses(change).then(|| sink.refusal(packet));
            let stored = sink.stored_through();
            let dropped = self.held.release(stored, self.now, refusal, &mut self.batch.out);
            self.counters.held_drops.add(dropped);
        }
    }

    /// Sends packets and delivers the resulting reports, which may cause further packets. After [`FLUSH_ROUNDS`] the
    /// rest remains for the next turn, so that a node that always retries does not block the others.
    fn flush(&mut self) {
        for _ in 0..FLUSH_ROUNDS {
            self.send_packets();
            self.streams.reports.append(&mut self.associations.reports);
            if self.streams.reports.is_empty() {
                return;
            }
            self.deliver_reports();
        }
    }

    fn send_packets(&mut self) {
        if self.batch.out.is_empty() {
            self.change_connections();
            return self.batch.out.clear();
        }
        let Self {
            index, common, counters, nodes, udp, send, streams, associations, batch, held, now, ..
        } = self;
        let required = batch.stored_at;
        let stored = match common.marked_packets {
            MarkedPackets::SendAtOnce => u64::MAX,
            MarkedPackets::HoldUntilStored => nodes.sink.stored_through(),
        };
        let is_strict = common.marked_packets == MarkedPackets::HoldUntilStored;
        let is_refused = |packet: &Packet| packet.change() != 0 && nodes.sink.refuses(packet.change());
        let must_wait = |packet: &Packet| {
            is_strict && packet.is_after_store() && (stored < required || is_refused(packet))
        };
        let mut sending = send.begin();
        let mut via = None;
        let mut total = 0;
        let mut datagram_bytes = 0;
        let mut packets = batch.out.packets().peekable();
        while let Some((packet, bytes)) = packets.next() {
            total += bytes.len();
            if must_wait(packet) {
                if !held.keep(required, *now, packet, bytes) {
                    counters.held_drops.increment();
                }
                continue;
            }
            common.trace(Direction::Sent, &packet.flow, bytes);
            match packet.flow.transport.has_connections() {
                false => {
                    let listener = usize::from(packet.flow.listener.0);
                    let Some(Some(socket)) = udp.get(listener) else {
                        counters.send_errors.increment();
                        streams.unreachable(packet.token);
                        continue;
                    };
                    datagram_bytes += bytes.len();
                    let (to, tag) = (packet.flow.remote, packet.token.0);
                    if via == Some(listener) && sending.push(to, bytes, tag) {
                        continue;
                    }
                    // The batch is full, or has packets of another socket.
                    send_datagrams(&mut sending, udp, via, counters, streams);
                    via = Some(listener);
                    if !sending.push(to, bytes, tag) {
                        debug_assert!(false, "an empty batch of socket {socket:?} has room");
                    }
                }
                true => {
                    let more = match packets.peek() {
                        Some((next, _)) if next.flow == packet.flow && !must_wait(next) => More::Follows,
                        Some(_) | None => More::None,
                    };
                    let mut connections = Connected { streams, associations, udp, now: *now };
                    send_connected(
                        common,
                        *index,
                        &mut connections,
                        (packet.flow, packet.token, packet.dialler()),
                        bytes,
                        more,
                    );
                }
            }
        }
        send_datagrams(&mut sending, udp, via, counters, streams);
        counters.datagram_bytes_out.add(datagram_bytes as u64);
        drop(packets);
        self.change_connections();
        if total > KEPT_ARENA_BYTES {
            self.batch.out = Outbox::new();
        } else {
            self.batch.out.clear();
        }
    }

    /// Passes requests to keep connections open, and to close them, to their owners. The packets of the same batch are sent
    /// before: the ACK of a refused INVITE is the last message of its connection.
    fn change_connections(&mut self) {
        let Self { index, common, streams, associations, udp, batch, now, .. } = self;
        let mut connections = Connected { streams, associations, udp, now: *now };
        for flow in batch.out.disconnected() {
            match owner_of(common, flow) {
                owner if owner == *index => connections.disconnect(flow),
                owner => {
                    if let Some(inbox) = common.inboxes.of(owner) {
                        inbox.push_disconnect(*flow);
                    }
                }
            }
        }
        for (flow, token) in batch.out.given_up() {
            match owner_of(common, flow) {
                owner if owner == *index => connections.streams.give_up_dial(flow, *token),
                owner => {
                    if let Some(inbox) = common.inboxes.of(owner) {
                        inbox.push_give_up_dial(*flow, *token);
                    }
                }
            }
        }
        for &(id, until) in batch.out.kept() {
            match connections::owner_of(id) {
                owner if owner == *index => connections.keep(id, until),
                owner => {
                    if let Some(inbox) = common.inboxes.of(owner) {
                        inbox.push_keep(id, until);
                    }
                }
            }
        }
    }

    fn deliver_reports(&mut self) {
        let mut reports = std::mem::take(&mut self.streams.reports);
        for report in reports.drain(..) {
            match report {
                Report::Closed(id) => {
                    for shard in 0..self.nodes.shards.len() as u16 {
                        self.nodes.on_event(&mut self.batch, self.now, shard, Event::Closed(id));
                    }
                }
                Report::Unreachable(token) => {
                    let shard = shard_of_token(token);
                    self.nodes.on_event(&mut self.batch, self.now, shard, Event::Unreachable(token));
                }
            }
        }
        self.streams.reports = reports;
    }

    /// Timeout of the next wait; the sleep is announced if it is not zero.
    fn begin_sleep(&mut self) -> Duration {
        let now = self.common.clock.now();
        self.now = now;
        if let Some(began) = self.turn {
            self.counters.turns.note(now.since(began));
        }
        let deadline = self.next_deadline();
        // Held packets are checked for their time limit; all else that ends a sleep has a deadline or an event.
        let until = if self.held.is_empty() { deadline } else { deadline.min(now + HELD_CHECK_INTERVAL) };
        if until <= now || !self.streams.reports.is_empty() || self.common.phase() == Phase::Ending {
            return Duration::ZERO;
        }
        let Some(inbox) = self.inbox() else { return until.since(now) };
        inbox.fall_asleep(until);
        // A command that was queued before the announcement did not wake this worker.
        if inbox.is_pending() || self.next_deadline() < until {
            inbox.awake();
            return Duration::ZERO;
        }
        until.since(now)
    }

    fn next_deadline(&self) -> Instant {
        let shards = &self.nodes.shards;
        let shards = shards.owned_by(self.index).map(|shard| shards.deadline(shard)).min();
        let filters = self.filters.next_due();
        let due = [self.streams.next_due(), self.associations.next_due(), self.clients_due(), filters];
        shards.into_iter().chain(due.into_iter().flatten()).min().unwrap_or(Instant::FAR)
    }

    fn connected(&mut self) -> Connected<'_, N::Framer> {
        let Self { streams, associations, udp, now, .. } = self;
        Connected { streams, associations, udp, now: *now }
    }

    fn inbox(&self) -> Option<&Inbox> {
        self.common.inboxes.of(self.index)
    }
}

/// Sends a batch of datagrams through its socket.
fn send_datagrams<F: ringway_sansio::Framer>(
    sending: &mut crate::sys::Sending<'_, '_>,
    udp: &[Option<UdpSocket>],
    via: Option<usize>,
    counters: &Counters,
    streams: &mut Streams<F>,
) {
    if let Some(Some(socket)) = via.and_then(|listener| udp.get(listener)) {
        transports::send_all(sending, socket.as_fd(), counters, |token| streams.unreachable(token));
    }
}

/// Epoll tokens that are not connections have an owner that is not a worker.
const OTHER: u64 = (WORKERS_MAX as u64) << 56;
const INBOX: u64 = OTHER | 1 << 32;
/// Sockets of clients, with a number below 2^32.
const CLIENT: u64 = OTHER | 1 << 33;

/// Minimum duration of a wait in which the thread slept: more than that of a call that returns at once.
const SLEEP_MIN: Duration = Duration::from_micros(20);

/// Maximum number of events in one turn; the kernel returns the others first next time.
const READY_MAX: usize = 64;

/// Maximum number of datagram batches before streams and timers are served: about 2 ms of work.
const BATCHES_PER_TURN: usize = 8;

const FLUSH_ROUNDS: usize = 8;

/// Interval at which packets that wait for the store are checked.
const HELD_CHECK_INTERVAL: Duration = Duration::from_millis(250);

/// Capacity above which an outbox is freed.
const KEPT_ARENA_BYTES: usize = 8 << 20;
