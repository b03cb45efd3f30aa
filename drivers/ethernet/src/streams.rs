//! The TCP connections of a station, over smoltcp's sockets.
//!
//! A listener keeps a few sockets that wait; each becomes a connection when a peer is through with its handshake, and
//! another takes its place. A [`ConnectionId`] is counted up and never used twice.

use crate::StationCounters;
use crate::stack::{Stack, socket_address};
use alloc::vec;
use alloc::vec::Vec;
use core::net::{SocketAddr, SocketAddrV4};
use core::time::Duration;
use ringway_sansio::{ConnectionId, Event, Flow, Framer, Instant, ListenerId, Token, Transport};
use ringway_stream::{Broken, CloseReason, Connection, Origin, PassThrough, StreamLimits};
use smoltcp::iface::SocketHandle;
use smoltcp::socket::tcp;
use smoltcp::wire::{IpAddress, IpEndpoint};

pub(crate) struct Streams<F> {
    listeners: Vec<(ListenerId, u16)>,
    /// Sockets that wait for a peer.
    waiting: Vec<(ListenerId, SocketHandle)>,
    open: Vec<Stream<F>>,
    /// Sockets whose end is under way, and when that is given up.
    ending: Vec<(SocketHandle, Instant)>,
    limits: StreamLimits,
    message_bytes_max: usize,
    next_id: u64,
    /// Counted on, so that no dialled connection has the ends of the one before.
    next_port: u16,
    /// What the node must be told.
    pub(crate) reports: Vec<Event>,
}

struct Stream<F> {
    id: ConnectionId,
    handle: SocketHandle,
    flow: Flow,
    connection: Connection<F>,
}

impl<F: Framer> Streams<F> {
    /// `chance` chooses the first port of dialled connections.
    pub(crate) fn new(chance: u16) -> Self {
        Self {
            listeners: Vec::new(),
            waiting: Vec::new(),
            open: Vec::new(),
            ending: Vec::new(),
            limits: StreamLimits {
                write_queue_bytes_max: QUEUE_BYTES_MAX,
                write_queue_messages_max: QUEUE_MESSAGES_MAX,
                ..StreamLimits::default()
            },
            message_bytes_max: 65_535,
            next_id: 1,
            next_port: DIALLING_PORT_MIN + chance % (u16::MAX - DIALLING_PORT_MIN),
            reports: Vec::new(),
        }
    }

    /// Takes connections to these ports, with messages of at most so many bytes.
    pub(crate) fn listen(&mut self, listeners: Vec<(ListenerId, u16)>, message_bytes_max: usize) {
        self.listeners = listeners;
        self.message_bytes_max = message_bytes_max;
    }

    pub(crate) fn len(&self) -> usize {
        self.open.len()
    }

    /// Takes the connections that were made, reads what came and gives each whole message to `each`; then closes what is
    /// at its end.
    pub(crate) fn run(
        &mut self,
        stack: &mut Stack,
        counters: &mut StationCounters,
        now: Instant,
        mut each: impl FnMut(Flow, &[u8]),
    ) {
        self.accept(stack, counters, now);
        let limits = self.limits;
        for stream in &mut self.open {
            stream.read(stack, counters, now, &mut each);
            let (at, why) = stream.connection.deadline(&limits);
            if at <= now {
                stream.connection.fail(why);
            }
        }
    }

    /// Writes what waits, and ends what is to be ended.
    pub(crate) fn settle(&mut self, stack: &mut Stack, counters: &mut StationCounters, now: Instant) {
        // Since it was ended the stack has had its turn to say so to the peer.
        self.ending.retain(|(handle, until)| {
            let is_going_on = stack.sockets.get::<tcp::Socket<'_>>(*handle).is_active() && now < *until;
            if !is_going_on {
                stack.sockets.remove(*handle);
            }
            is_going_on
        });
        let Self { open, reports, ending, .. } = self;
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
            ending.push((stream.handle, now + ENDING));
            reports.push(Event::Closed(stream.id));
            counters.unreported += stream.connection.unreported();
            reports.extend(stream.connection.undelivered().map(Event::Unreachable));
            false
        });
    }

    /// Sends over the connection the flow names; without one over one that was dialled to its peer, or a new one.
    pub(crate) fn send(
        &mut self,
        stack: &mut Stack,
        counters: &mut StationCounters,
        (flow, token): (Flow, Token),
        bytes: &[u8],
        now: Instant,
    ) {
        let place = self.open.iter().position(|stream| match flow.connection {
            Some(id) => stream.id == id,
            None => {
                stream.connection.origin() == Origin::Dialled
                    && stream.flow.remote == flow.remote
                    && stream.connection.is_open()
            }
        });
        let place = place.or_else(|| match flow.connection {
            Some(_) => None,
            None => self.dial(stack, counters, flow, now),
        });
        let Some(stream) = place.and_then(|place| self.open.get_mut(place)) else {
            counters.unreachable += 1;
            if token != Token::NONE {
                self.reports.push(Event::Unreachable(token));
            }
            return;
        };
        stream.connection.queue(bytes, token, &self.limits, now);
        counters.stream_messages_out += 1;
    }

    /// Cuts all connections: the address they are bound to is gone.
    pub(crate) fn cut(&mut self, stack: &mut Stack) {
        for (_, handle) in self.waiting.drain(..) {
            stack.sockets.remove(handle);
        }
        for (handle, _) in self.ending.drain(..) {
            stack.sockets.remove(handle);
        }
        for mut stream in self.open.drain(..) {
            stack.sockets.remove(stream.handle);
            self.reports.push(Event::Closed(stream.id));
            self.reports.extend(stream.connection.undelivered().map(Event::Unreachable));
        }
    }

    fn sockets(&self) -> usize {
        self.open.len() + self.waiting.len() + self.ending.len()
    }

    fn accept(&mut self, stack: &mut Stack, counters: &mut StationCounters, now: Instant) {
        let mut place = 0;
        while let Some(&(listener, handle)) = self.waiting.get(place) {
            let socket = stack.sockets.get_mut::<tcp::Socket<'_>>(handle);
            match (socket.state(), socket.remote_endpoint()) {
                (tcp::State::Listen | tcp::State::SynReceived, _) => place += 1,
                (tcp::State::Closed | tcp::State::TimeWait, _) | (_, None) => {
                    self.waiting.swap_remove(place);
                    stack.sockets.remove(handle);
                }
                (_, Some(remote)) => {
                    self.waiting.swap_remove(place);
                    socket.set_timeout(Some(SILENCE));
                    counters.connections_accepted += 1;
                    self.add(handle, listener, socket_address(remote), Origin::Accepted, now);
                }
            }
        }
        for place in 0..self.listeners.len() {
            let Some(&(listener, port)) = self.listeners.get(place) else { return };
            let waiting = self.waiting.iter().filter(|(of, _)| *of == listener).count();
            for _ in waiting..BACKLOG {
                if self.sockets() >= CONNECTIONS_MAX {
                    // The next peer is refused by a reset, since nobody listens.
                    return;
                }
                let mut socket = new_socket();
                socket.set_timeout(Some(HANDSHAKE));
                if socket.listen(port).is_ok() {
                    self.waiting.push((listener, stack.sockets.add(socket)));
                }
            }
        }
    }

    /// Begins a connection; `None`: there are too many, or there is no way to the peer.
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
        self.next_port = self.next_port.checked_add(1).unwrap_or(DIALLING_PORT_MIN);
        let mut socket = new_socket();
        socket.set_timeout(Some(SILENCE));
        let end = IpEndpoint::new(IpAddress::Ipv4(*remote.ip()), remote.port());
        socket.connect(stack.interface.context(), end, self.next_port).ok()?;
        let handle = stack.sockets.add(socket);
        counters.connections_dialled += 1;
        self.add(handle, flow.listener, remote, Origin::Dialled, now);
        self.open.len().checked_sub(1)
    }

    fn add(
        &mut self,
        handle: SocketHandle,
        listener: ListenerId,
        remote: SocketAddrV4,
        origin: Origin,
        now: Instant,
    ) {
        let id = ConnectionId(self.next_id);
        self.next_id += 1;
        let flow = Flow {
            transport: Transport::Tcp,
            listener,
            remote: SocketAddr::V4(remote),
            connection: Some(id),
        };
        self.open.push(Stream {
            id,
            handle,
            flow,
            connection: Connection::new(origin, F::new(self.message_bytes_max), PassThrough, now),
        });
    }
}

impl<F: Framer> Stream<F> {
    fn read(
        &mut self,
        stack: &mut Stack,
        counters: &mut StationCounters,
        now: Instant,
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
            false => Err(Broken),
        });
    }
}

fn new_socket() -> tcp::Socket<'static> {
    let buffer = |bytes| tcp::SocketBuffer::new(vec![0; bytes]);
    let mut socket = tcp::Socket::new(buffer(READ_BYTES), buffer(WRITE_BYTES));
    // A SIP message is not held back to be joined with the next one.
    socket.set_nagle_enabled(false);
    socket
}

/// Sockets of a listener that wait for a peer: so many handshakes can be under way, and who comes then is refused. Many phones
/// come at once when the power comes back.
const BACKLOG: usize = 64;

/// For the rest of a peer's handshake, so that those who never finish one do not keep others out for long.
const HANDSHAKE: smoltcp::time::Duration = smoltcp::time::Duration::from_secs(3);

/// For a peer to acknowledge anything that was sent to it.
const SILENCE: smoltcp::time::Duration = smoltcp::time::Duration::from_secs(30);

/// For an orderly end.
const ENDING: Duration = Duration::from_secs(10);

/// TCP connections at once, those that wait for a peer included.
pub const CONNECTIONS_MAX: usize = 256;

/// Bytes that arrived and were not read; also the window.
const READ_BYTES: usize = 8 << 10;

const WRITE_BYTES: usize = 8 << 10;

/// Bytes that wait behind them.
const QUEUE_BYTES_MAX: usize = 256 << 10;

const QUEUE_MESSAGES_MAX: usize = 2500;

/// RFC 6335 §6: ports for connections of our own.
const DIALLING_PORT_MIN: u16 = 49_152;
