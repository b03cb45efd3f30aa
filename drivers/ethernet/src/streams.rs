//! TCP connections of a station, over smoltcp's sockets.
//!
//! A listener keeps [`BACKLOG`] listening sockets; a socket whose handshake completes becomes a connection and is
//! replaced. A [`ConnectionId`] is never used twice.

use crate::StationCounters;
use crate::stack::{Stack, socket_address};
use alloc::vec;
use alloc::vec::Vec;
use core::net::{SocketAddr, SocketAddrV4};
use core::time::Duration;
use ringway_sansio::{ConnectionId, Event, Flow, Framer, Instant, ListenerId, Token, Transport};
use ringway_stream::{CloseReason, Connection, Layer, Origin, StreamLayers, StreamLimits, WriteFailed};
use smoltcp::iface::SocketHandle;
use smoltcp::socket::tcp;
use smoltcp::wire::{IpAddress, IpEndpoint};

pub(crate) struct Streams<F, L: StreamLayers> {
    pub(crate) layers: L,
    listeners: Vec<StreamListener>,
    /// Listening sockets.
    waiting: Vec<(StreamListener, SocketHandle)>,
    open: Vec<Stream<F, L::Layer>>,
    /// Closing sockets, with the time at which they are removed.
    ending: Vec<(SocketHandle, Instant)>,
    /// Sockets of connections that were refused in this turn; the stack has not sent their resets yet.
    refused: Vec<SocketHandle>,
    limits: StreamLimits,
    message_bytes_max: usize,
    next_id: u64,
    /// Incremented, so that a new connection does not have the port of the previous one.
    next_port: u16,
    /// Events for the node.
    pub(crate) reports: Vec<Event>,
}

/// A port that accepts connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StreamListener {
    pub(crate) id: ListenerId,
    pub(crate) transport: Transport,
    pub(crate) port: u16,
}

struct Stream<F, L> {
    id: ConnectionId,
    handle: SocketHandle,
    flow: Flow,
    connection: Connection<F, L>,
}

impl<F: Framer, L: StreamLayers> Streams<F, L> {
    /// `random` selects the first port of dialled connections, and the first number: that of a connection from before a restart, which
    /// tokens and marks in dialogs keep, is never that of a stranger's.
    pub(crate) fn new(layers: L, random: u64) -> Self {
        Self {
            layers,
            listeners: Vec::new(),
            waiting: Vec::new(),
            open: Vec::new(),
            ending: Vec::new(),
            refused: Vec::new(),
            limits: StreamLimits {
                write_queue_bytes_max: QUEUE_BYTES_MAX,
                write_queue_messages_max: QUEUE_MESSAGES_MAX,
                handshake: LAYER_HANDSHAKE_TIMEOUT,
                ..StreamLimits::default()
            },
            message_bytes_max: 65_535,
            next_id: 1 + (random >> 16),
            next_port: DYNAMIC_PORT_MIN + random as u16 % (u16::MAX - DYNAMIC_PORT_MIN),
            reports: Vec::new(),
        }
    }

    /// Listens on these ports, for messages of at most `message_bytes_max` bytes.
    pub(crate) fn listen(&mut self, listeners: Vec<StreamListener>, message_bytes_max: usize) {
        self.listeners = listeners;
        self.message_bytes_max = message_bytes_max;
    }

    pub(crate) fn len(&self) -> usize {
        self.open.len()
    }

    /// Accepts connections, reads, passes each complete message to `each`, and ends connections whose deadline has
    /// passed.
    pub(crate) fn run(
        &mut self,
        stack: &mut Stack,
        counters: &mut StationCounters,
        now: Instant,
        mut each: impl FnMut(Flow, &[u8]),
    ) {
        self.layers.begin_turn(now);
        self.accept(stack, counters, now);
        let (limits, resumes) = (self.limits, self.layers.resumes());
        for stream in &mut self.open {
            stream.read(stack, counters, now, resumes, &mut each);
            let (at, why) = stream.connection.deadline(&limits);
            if at <= now {
                stream.connection.fail(why);
            }
        }
    }

    /// Writes queued bytes and closes connections that have ended.
    pub(crate) fn settle(&mut self, stack: &mut Stack, counters: &mut StationCounters, now: Instant) {
        // The stack has been polled since these sockets were closed, so the peer has received the FIN or RST.
        self.ending.retain(|(handle, until)| {
            let is_going_on = stack.sockets.get::<tcp::Socket<'_>>(*handle).is_active() && now < *until;
            if !is_going_on {
                stack.sockets.remove(*handle);
            }
            is_going_on
        });
        let Self { open, reports, ending, refused, .. } = self;
        ending.extend(refused.drain(..).map(|handle| (handle, now + CLOSE_TIMEOUT)));
        open.retain_mut(|stream| {
            stream.write(stack, now);
            let Some(why) = stream.connection.end_reason() else { return true };
            let socket = stack.sockets.get_mut::<tcp::Socket<'_>>(stream.handle);
            if why == CloseReason::Ended {
                socket.close();
            } else {
                socket.abort();
            }
            counters.note_closing(why);
            ending.push((stream.handle, now + CLOSE_TIMEOUT));
            reports.push(Event::Closed(stream.id));
            counters.unreported += stream.connection.unreported();
            reports.extend(stream.connection.undelivered().map(Event::Unreachable));
            false
        });
    }

    /// Sends on the connection of the flow. A flow without one uses a dialled connection to its remote address, or
    /// dials.
    pub(crate) fn send(
        &mut self,
        stack: &mut Stack,
        counters: &mut StationCounters,
        (flow, token): (Flow, Token),
        bytes: &[u8],
        now: Instant,
    ) {
        let index = self.open.iter().position(|stream| match flow.connection {
            Some(id) => stream.id == id,
            None => stream.is_dialled_for(&flow),
        });
        let index = index.or_else(|| match flow.connection {
            Some(_) => None,
            None => self.dial(stack, counters, flow, now),
        });
        let Some(stream) = index.and_then(|index| self.open.get_mut(index)) else {
            counters.unreachable += 1;
            if token != Token::NONE {
                self.reports.push(Event::Unreachable(token));
            }
            return;
        };
        stream.connection.queue(bytes, token, &self.limits, now);
        counters.stream_messages_out += 1;
    }

    /// Ends the connection of a flow, or the one that was dialled for it, after its queued bytes.
    pub(crate) fn disconnect(&mut self, flow: &Flow, now: Instant) {
        let is_this = |stream: &&mut Stream<F, L::Layer>| match flow.connection {
            Some(id) => stream.id == id,
            None => stream.is_dialled_for(flow),
        };
        if let Some(stream) = self.open.iter_mut().find(is_this) {
            stream.connection.peer_ended(now);
        }
    }

    /// Takes back a packet that waits for the connection that is being dialled for a flow.
    pub(crate) fn give_up_dial(&mut self, flow: &Flow, token: Token) {
        let dialled = self.open.iter_mut().find(|stream| stream.is_dialled_for(flow));
        if dialled.is_some_and(|stream| stream.connection.give_up(token)) {
            self.reports.push(Event::Unreachable(token));
        }
    }

    /// Aborts all connections, because their local address is gone.
    pub(crate) fn cut(&mut self, stack: &mut Stack) {
        for (_, handle) in self.waiting.drain(..) {
            stack.sockets.remove(handle);
        }
        for handle in self.ending.drain(..).map(|(handle, _)| handle).chain(self.refused.drain(..)) {
            stack.sockets.remove(handle);
        }
        for mut stream in self.open.drain(..) {
            stack.sockets.remove(stream.handle);
            self.reports.push(Event::Closed(stream.id));
            self.reports.extend(stream.connection.undelivered().map(Event::Unreachable));
        }
    }

    fn sockets(&self) -> usize {
        self.open.len() + self.waiting.len() + self.ending.len() + self.refused.len()
    }

    fn accept(&mut self, stack: &mut Stack, counters: &mut StationCounters, now: Instant) {
        let mut index = 0;
        while let Some(&(listener, handle)) = self.waiting.get(index) {
            let socket = stack.sockets.get_mut::<tcp::Socket<'_>>(handle);
            match (socket.state(), socket.remote_endpoint()) {
                (tcp::State::Listen | tcp::State::SynReceived, _) => index += 1,
                (tcp::State::Closed | tcp::State::TimeWait, _) | (_, None) => {
                    self.waiting.swap_remove(index);
                    stack.sockets.remove(handle);
                }
                (_, Some(remote)) => {
                    self.waiting.swap_remove(index);
                    socket.set_timeout(Some(ACK_TIMEOUT));
                    let flow = self.next_flow(listener, socket_address(remote));
                    match self.layers.accept(&flow) {
                        Some(layer) => {
                            counters.connections_accepted += 1;
                            self.add(handle, flow, layer, Origin::Accepted, now);
                        }
                        None => {
                            socket.abort();
                            self.refused.push(handle);
                        }
                    }
                }
            }
        }
        self.listen_again(stack);
    }

    /// Replaces listening sockets that became connections.
    fn listen_again(&mut self, stack: &mut Stack) {
        for index in 0..self.listeners.len() {
            let Some(&listener) = self.listeners.get(index) else { return };
            let waiting = self.waiting.iter().filter(|(of, _)| *of == listener).count();
            for _ in waiting..listener.backlog() {
                if self.sockets() >= CONNECTIONS_MAX {
                    // Without a listening socket the stack answers a SYN with a reset.
                    return;
                }
                let mut socket = new_socket();
                socket.set_timeout(Some(HANDSHAKE_TIMEOUT));
                if socket.listen(listener.port).is_ok() {
                    self.waiting.push((listener, stack.sockets.add(socket)));
                }
            }
        }
    }

    /// Dials; `None`: too many connections, or no route to the peer.
    fn dial(
        &mut self,
        stack: &mut Stack,
        counters: &mut StationCounters,
        flow: Flow,
        now: Instant,
    ) -> Option<usize> {
        let SocketAddr::V4(remote) = flow.remote else { return None };
        if self.sockets() >= CONNECTIONS_MAX {
            counters.connections_refused += 1;
            return None;
        }
        let listener = StreamListener { id: flow.listener, transport: flow.transport, port: remote.port() };
        let flow = Flow { dialled: flow.dialled, ..self.next_flow(listener, remote) };
        let layer = self.layers.dial(&flow)?;
        self.next_port = self.next_port.checked_add(1).unwrap_or(DYNAMIC_PORT_MIN);
        let mut socket = new_socket();
        socket.set_timeout(Some(ACK_TIMEOUT));
        let end = IpEndpoint::new(IpAddress::Ipv4(*remote.ip()), remote.port());
        socket.connect(stack.interface.context(), end, self.next_port).ok()?;
        let handle = stack.sockets.add(socket);
        counters.connections_dialled += 1;
        self.add(handle, flow, layer, Origin::Dialled, now);
        self.open.len().checked_sub(1)
    }

    /// Flow of a new connection.
    fn next_flow(&mut self, listener: StreamListener, remote: SocketAddrV4) -> Flow {
        let id = ConnectionId(self.next_id);
        self.next_id += 1;
        Flow { connection: Some(id), ..Flow::new(listener.transport, listener.id, SocketAddr::V4(remote)) }
    }

    fn add(&mut self, handle: SocketHandle, flow: Flow, layer: L::Layer, origin: Origin, now: Instant) {
        let Some(id) = flow.connection else { return };
        let connection = Connection::new(origin, F::new(self.message_bytes_max), layer, now);
        self.open.push(Stream { id, handle, flow, connection });
    }
}

impl StreamListener {
    /// Number of listening sockets.
    const fn backlog(self) -> usize {
        match self.transport {
            Transport::Tcp => BACKLOG,
            _ => LAYER_BACKLOG,
        }
    }
}

impl<F: Framer, L: Layer> Stream<F, L> {
    /// True for an open connection that was dialled to the destination of `flow`.
    fn is_dialled_for(&self, flow: &Flow) -> bool {
        self.connection.origin() == Origin::Dialled
            && self.flow.transport == flow.transport
            && self.flow.remote == flow.remote
            && self.flow.dialled == flow.dialled
            && self.connection.is_open()
    }

    fn read(
        &mut self,
        stack: &mut Stack,
        counters: &mut StationCounters,
        now: Instant,
        resumes: bool,
        each: &mut impl FnMut(Flow, &[u8]),
    ) {
        let Self { handle, flow, connection, .. } = self;
        let socket = stack.sockets.get_mut::<tcp::Socket<'_>>(*handle);
        if !connection.is_connected() {
            match socket.state() {
                tcp::State::SynSent | tcp::State::SynReceived => return,
                tcp::State::Closed => return connection.fail(CloseReason::NotConnected),
                _ => connection.connected(now),
            }
        }
        if !connection.is_receiving() {
            return;
        }
        while socket.can_recv() {
            let read = socket.recv(|bytes| {
                connection.receive(bytes, now);
                (bytes.len(), bytes.len())
            });
            match read {
                Ok(1..) => {}
                Ok(0) | Err(_) => break,
            }
        }
        if resumes {
            connection.resume(now);
        }
        let batch = connection.messages(usize::MAX, now, |message| each(*flow, message));
        counters.stream_messages_in += batch.messages as u64;
        if !socket.may_recv() && !socket.can_recv() {
            connection.peer_ended(now);
        }
    }

    fn write(&mut self, stack: &mut Stack, now: Instant) {
        let socket = stack.sockets.get_mut::<tcp::Socket<'_>>(self.handle);
        self.connection.flush(now, |bytes| match socket.may_send() {
            true => Ok(socket.send_slice(bytes).unwrap_or(0)),
            false => Err(WriteFailed),
        });
    }
}

fn new_socket() -> tcp::Socket<'static> {
    let buffer = |bytes| tcp::SocketBuffer::new(vec![0; bytes]);
    let mut socket = tcp::Socket::new(buffer(READ_BYTES), buffer(WRITE_BYTES));
    // Messages are not delayed to be sent together (Nagle).
    socket.set_nagle_enabled(false);
    socket
}

/// Listening sockets of a listener. This is the number of concurrent handshakes; further peers get a reset. Many phones
/// connect at once after a power failure.
const BACKLOG: usize = 64;

/// The same for a listener of another protocol over TCP, whose handshakes are limited besides.
const LAYER_BACKLOG: usize = 16;

/// Time limit of the handshake of such a protocol.
const LAYER_HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

/// Time limit of a handshake, so that incomplete handshakes do not block others for long.
const HANDSHAKE_TIMEOUT: smoltcp::time::Duration = smoltcp::time::Duration::from_secs(3);

/// Time limit for a peer's acknowledgement.
const ACK_TIMEOUT: smoltcp::time::Duration = smoltcp::time::Duration::from_secs(30);

/// Time limit of an orderly close.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum number of TCP connections, including listening and closing sockets.
pub const CONNECTIONS_MAX: usize = 256;

/// Receive buffer; also the maximum window.
const READ_BYTES: usize = 8 << 10;

const WRITE_BYTES: usize = 8 << 10;

/// Maximum number of bytes queued behind the send buffer.
const QUEUE_BYTES_MAX: usize = 256 << 10;

const QUEUE_MESSAGES_MAX: usize = 2500;

/// First dynamic port (RFC 6335 §6), for dialled connections.
const DYNAMIC_PORT_MIN: u16 = 49_152;
