//! TCP connections of one side of the load.
//!
//! A generator numbers the connections that it opens: one for a local address, a user or an attempt
//! ([`ConnectionUse`](ringway_load::ConnectionUse)). The number is the [`ConnectionId`]; the connection is opened by its first
//! packet, and opened again if it was closed. An accepted connection has an ID with [`ACCEPTED`].

use super::locals::Locals;
use super::{Input, Place, WireCounters, token};
use anyhow::{Context as _, Result};
use ringway_linux::sys::{Epoll, Interest, accept};
use ringway_linux::{Filled, More, Stream, StreamLimits, Written, connect};
use ringway_sansio::{
    ConnectionId, Event, Flow, Framer, Instant, ListenerId, Outbox, Received, TimerKey, Token, Transport,
    Wheel,
};
use ringway_stream::{CloseReason, Layer, Origin};
use ringway_transaction::{SipFramer, Slab, SlabKey};
use rustix::net::sockopt::set_tcp_nodelay;
use std::collections::HashMap;
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;

/// Listening sockets and connections. `L` is the layer of opened and accepted connections.
pub(crate) struct Streams<L> {
    transport: Transport,
    player: u8,
    epoll: Arc<Epoll>,
    listening: Vec<(TcpListener, SocketAddr)>,
    connections: Slab<Opened<L>>,
    /// Opened connections by the generator's number.
    numbered: HashMap<ConnectionId, SlabKey>,
    /// Opened connections by local listener and remote address, for packets without a number.
    addressed: HashMap<(ListenerId, SocketAddr), SlabKey>,
    /// Creates the layer of a new connection.
    layer: NewLayer<L>,
    limits: StreamLimits,
    /// True while nothing is accepted because no file descriptor is left.
    is_paused: bool,
    alarms: Wheel<SlabKey>,
    room: Box<[u8]>,
    /// Events for the generator.
    events: Vec<Event>,
}

/// Creates the layer of a connection with a remote address.
type NewLayer<L> = Box<dyn FnMut(Origin, SocketAddr) -> L + Send>;

struct Opened<L> {
    stream: Stream<SipFramer, L>,
    /// Number by which the generator uses it.
    id: ConnectionId,
    is_numbered: bool,
    /// True if the generator does not use it any more.
    is_released: bool,
}

impl<L: Layer> Streams<L> {
    /// Listens at `locals` on free ports, watched by `epoll` with tokens of `player`. `layer` creates the layer of each
    /// connection.
    pub(crate) fn open(
        transport: Transport,
        locals: &Locals,
        (epoll, player): (&Arc<Epoll>, u8),
        layer: NewLayer<L>,
        now: Instant,
    ) -> Result<Self> {
        let mut listening = Vec::new();
        for (index, local) in locals.addresses().enumerate() {
            let socket = listen(local).with_context(|| locals.advice(local))?;
            let address = socket.local_addr().context("read a socket's address")?;
            epoll
                .add(socket.as_fd(), token(player, Place::Socket(index)), Interest::Read)
                .context("watch a socket")?;
            listening.push((socket, address));
        }
        Ok(Self {
            transport,
            player,
            epoll: Arc::clone(epoll),
            listening,
            connections: Slab::default(),
            numbered: HashMap::new(),
            addressed: HashMap::new(),
            layer,
            limits: StreamLimits {
                write_queue_bytes_max: WRITE_QUEUE_BYTES_MAX,
                write_queue_messages_max: WRITE_QUEUE_MESSAGES_MAX,
                ..StreamLimits::default()
            },
            is_paused: false,
            alarms: Wheel::new(now),
            room: vec![0; READ_BYTES].into_boxed_slice(),
            events: Vec::new(),
        })
    }

    /// Addresses of the listening sockets.
    pub(crate) fn locals(&self) -> Vec<SocketAddr> {
        self.listening.iter().map(|&(_, address)| address).collect()
    }

    /// Accepts pending connections of a listening socket.
    pub(crate) fn accept(
        &mut self,
        index: usize,
        now: Instant,
        is_permitted: impl Fn(SocketAddr) -> bool,
        counters: &mut WireCounters,
    ) {
        for _ in 0..ACCEPTS_PER_TURN {
            let Some((socket, _)) = self.listening.get(index) else { return };
            match accept(socket.as_fd()) {
                Ok((_, peer)) if !is_permitted(peer) => counters.not_permitted += 1,
                Ok((fd, peer)) => {
                    let flow = flow(self.transport, ListenerId(index as u8), Flow::canonical(peer));
                    match self.insert(TcpStream::from(fd), flow, None, Origin::Accepted, now, counters) {
                        Some(_) => counters.accepted += 1,
                        None => counters.over_limit += 1,
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error)
                    if matches!(error.kind(), ErrorKind::ConnectionAborted | ErrorKind::Interrupted) => {}
                Err(_) => {
                    // No descriptor is left: the peer waits until a connection is closed.
                    counters.over_limit += 1;
                    return self.watch_listening(Interest::Nothing);
                }
            }
        }
    }

    /// Reads once from a connection and passes complete messages to `each`. True: call [`Streams::finish`] after the
    /// responses to them are sent.
    pub(crate) fn read(
        &mut self,
        key: SlabKey,
        now: Instant,
        counters: &mut WireCounters,
        each: &mut dyn FnMut(Input<'_>),
    ) -> bool {
        let Some(Opened { stream, .. }) = self.connections.get_mut(key) else { return false };
        if !stream.connection.is_receiving()
            || stream.fill(&mut self.room, now, Instant::default()) == Filled::Nothing
        {
            return false;
        }
        let flow = stream.flow;
        while stream
            .connection
            .messages(FRAMES_PER_BATCH, now, |bytes| each(Input::Message(Received::new(flow, bytes))))
            .has_more
        {}
        let is_last = !stream.connection.is_receiving();
        let written = stream.respond(&self.limits, now);
        self.wrote(key, written, counters);
        self.settle(key, counters);
        is_last
    }

    /// Handles a connection that is writable, or whose opening has ended.
    pub(crate) fn writable(&mut self, key: SlabKey, now: Instant, counters: &mut WireCounters) {
        let Some(Opened { stream, .. }) = self.connections.get_mut(key) else { return };
        if !stream.connection.is_connected() {
            match stream.socket.take_error() {
                Ok(None) => stream.connection.connected(now),
                Ok(Some(error)) => {
                    counters.refused += u64::from(error.kind() == ErrorKind::ConnectionRefused);
                    counters.no_port += u64::from(error.kind() == ErrorKind::AddrNotAvailable);
                    return self.close(key, CloseReason::NotConnected, counters);
                }
                Err(_) => return self.close(key, CloseReason::NotConnected, counters),
            }
        }
        let written = stream.flush(now);
        self.wrote(key, written, counters);
        self.finish(key, counters);
    }

    /// Closes a connection that receives nothing more, once everything is written.
    pub(crate) fn finish(&mut self, key: SlabKey, counters: &mut WireCounters) {
        let Some(Opened { stream, .. }) = self.connections.get(key) else { return };
        if let Some(why) = stream.connection.end_reason() {
            return self.close(key, why, counters);
        }
        if !stream.connection.is_open() {
            self.forget(key);
        }
        self.settle(key, counters);
    }

    /// Sends the packets of `out` whose destination is permitted.
    pub(crate) fn send(
        &mut self,
        out: &Outbox,
        is_permitted: impl Fn(SocketAddr) -> bool,
        now: Instant,
        counters: &mut WireCounters,
    ) {
        let mut packets = out.packets().peekable();
        while let Some((packet, bytes)) = packets.next() {
            let key = match self.find(&packet.flow) {
                Some(key) => Some(key),
                None if is_permitted(packet.flow.remote) => self.open_for(&packet.flow, now, counters),
                None => {
                    counters.not_permitted += 1;
                    None
                }
            };
            let more = match packets.peek() {
                Some((next, _)) if next.flow == packet.flow => More::Follows,
                Some(_) | None => More::None,
            };
            let Some((key, opened)) = key.and_then(|key| Some((key, self.connections.get_mut(key)?))) else {
                self.unreachable(packet.token, counters);
                continue;
            };
            let written = opened.stream.send(bytes, packet.token, more, &self.limits, now);
            self.wrote(key, written, counters);
            if more == More::None && (written.waits > 0 || written.waited > 0) {
                self.settle(key, counters);
            }
        }
    }

    /// Closes a connection that the generator does not use any more, once everything is written.
    pub(crate) fn release(&mut self, id: ConnectionId, now: Instant, counters: &mut WireCounters) {
        let Some(key) = self.numbered.remove(&id) else { return };
        let Some(opened) = self.connections.get_mut(key) else { return };
        (opened.is_numbered, opened.is_released) = (false, true);
        // Nothing more is read.
        opened.stream.connection.peer_ended(now);
        self.finish(key, counters);
    }

    /// Takes an event for the generator.
    pub(crate) fn take_event(&mut self) -> Option<Event> {
        self.events.pop()
    }

    /// Closes the connections whose time limit has passed.
    pub(crate) fn expire(&mut self, now: Instant, counters: &mut WireCounters) {
        while let Some(key) = self.alarms.expire(now) {
            let Some(Opened { stream, .. }) = self.connections.get_mut(key) else { continue };
            stream.timer = TimerKey::NONE;
            stream.timer_at = Instant::FAR;
            let (at, why) = stream.connection.deadline(&self.limits);
            if at <= now { self.close(key, why, counters) } else { self.settle(key, counters) }
        }
    }

    /// Time of the next [`Streams::expire`].
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.alarms.next_due()
    }

    fn find(&self, flow: &Flow) -> Option<SlabKey> {
        match flow.connection {
            Some(id) if id.0 & ACCEPTED != 0 => Some(accepted_key(id)),
            Some(id) => self.numbered.get(&id).copied(),
            None => self.addressed.get(&(flow.listener, flow.remote)).copied(),
        }
    }

    /// Opens a connection from the address of the flow's listener.
    fn open_for(&mut self, to: &Flow, now: Instant, counters: &mut WireCounters) -> Option<SlabKey> {
        let local = self.listening.get(usize::from(to.listener.0)).map(|(_, address)| address.ip());
        if self.connections.len() >= CONNECTIONS_MAX {
            counters.over_limit += 1;
            return None;
        }
        let socket = match connect(to.remote, local) {
            Ok(socket) => socket,
            Err(error) => {
                let is_limit = matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE));
                counters.over_limit += u64::from(is_limit);
                counters.no_port += u64::from(error.kind() == ErrorKind::AddrNotAvailable);
                counters.refused += u64::from(error.kind() == ErrorKind::ConnectionRefused);
                counters.not_opened += 1;
                return None;
            }
        };
        let key = self.insert(socket, *to, to.connection, Origin::Dialled, now, counters)?;
        counters.opened += 1;
        Some(key)
    }

    fn insert(
        &mut self,
        socket: TcpStream,
        to: Flow,
        number: Option<ConnectionId>,
        origin: Origin,
        now: Instant,
        counters: &mut WireCounters,
    ) -> Option<SlabKey> {
        if self.connections.len() >= CONNECTIONS_MAX {
            return None;
        }
        let key = self.connections.next_key();
        // A connection without a number of the generator gets the ID of its slot.
        let id = number.unwrap_or_else(|| slot_id(key));
        let flow = Flow { connection: Some(id), ..flow(self.transport, to.listener, to.remote) };
        let framer = SipFramer::new(MESSAGE_BYTES_MAX);
        let stream = Stream::new(socket, flow, origin, framer, (self.layer)(origin, to.remote), now);
        let watched = token(self.player, Place::Connection(key));
        self.epoll.add(stream.socket.as_fd(), watched, stream.interest).ok()?;
        self.connections.insert(Opened { stream, id, is_numbered: number.is_some(), is_released: false });
        match (number, origin) {
            (Some(number), _) => {
                self.numbered.insert(number, key);
            }
            (None, Origin::Dialled) => {
                self.addressed.insert((to.listener, to.remote), key);
            }
            (None, Origin::Accepted) => {}
        }
        counters.connections = self.connections.len() as u64;
        self.settle(key, counters);
        Some(key)
    }

    /// Makes the next packet for the same number or address open a connection again.
    fn forget(&mut self, key: SlabKey) {
        let Some(opened) = self.connections.get(key) else { return };
        let Flow { listener, remote, .. } = opened.stream.flow;
        if opened.is_numbered && self.numbered.get(&opened.id) == Some(&key) {
            self.numbered.remove(&opened.id);
        }
        if self.addressed.get(&(listener, remote)) == Some(&key) {
            self.addressed.remove(&(listener, remote));
        }
    }

    fn close(&mut self, key: SlabKey, why: CloseReason, counters: &mut WireCounters) {
        self.forget(key);
        let Some(opened) = self.connections.remove(key) else { return };
        let Opened { mut stream, id, is_released, .. } = opened;
        self.alarms.cancel(stream.timer);
        counters.connections = self.connections.len() as u64;
        if self.is_paused {
            self.watch_listening(Interest::Read);
        }
        if is_released {
            return;
        }
        match why {
            CloseReason::Ended => counters.closed_by_peer += 1,
            CloseReason::NotConnected => counters.not_opened += 1,
            CloseReason::Framing
            | CloseReason::Handshake
            | CloseReason::Slow
            | CloseReason::Idle
            | CloseReason::Unused
            | CloseReason::Unread
            | CloseReason::KeepAlives
            | CloseReason::SourceMemory
            | CloseReason::Memory
            | CloseReason::Crowded => counters.broken += 1,
        }
        self.events.push(Event::Closed(id));
        let unreachable = stream.connection.undelivered().map(Event::Unreachable);
        self.events.extend(unreachable);
    }

    fn watch_listening(&mut self, interest: Interest) {
        self.is_paused = interest == Interest::Nothing;
        for (index, (socket, _)) in self.listening.iter().enumerate() {
            // It fails only for an unwatched descriptor, and this one is always watched.
            let _ = self.epoll.modify(socket.as_fd(), token(self.player, Place::Socket(index)), interest);
        }
    }

    fn unreachable(&mut self, token: Token, counters: &mut WireCounters) {
        counters.unsent += 1;
        if token != Token::NONE {
            self.events.push(Event::Unreachable(token));
        }
    }

    fn wrote(&mut self, key: SlabKey, written: Written, counters: &mut WireCounters) {
        if let Some(why) = written.close {
            self.close(key, why, counters);
        }
    }

    /// Updates the epoll interest and the timer of a connection. A timer that is too early is kept: it is set again when it
    /// fires.
    fn settle(&mut self, key: SlabKey, counters: &mut WireCounters) {
        let Some(Opened { stream, .. }) = self.connections.get_mut(key) else { return };
        let wanted = stream.wanted();
        if wanted != stream.interest {
            stream.interest = wanted;
            let watched = token(self.player, Place::Connection(key));
            if self.epoll.modify(stream.socket.as_fd(), watched, wanted).is_err() {
                return self.close(key, CloseReason::Ended, counters);
            }
        }
        let (at, _) = stream.connection.deadline(&self.limits);
        if at < stream.timer_at {
            self.alarms.cancel(stream.timer);
            stream.timer = self.alarms.arm(at, key);
            stream.timer_at = at;
        }
    }
}

/// Opens a non-blocking listening socket at a free port. Accepted connections inherit its options.
fn listen(local: IpAddr) -> std::io::Result<TcpListener> {
    let socket = TcpListener::bind((local, 0))?;
    socket.set_nonblocking(true)?;
    set_tcp_nodelay(&socket, true)?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket)
}

const fn flow(transport: Transport, listener: ListenerId, remote: SocketAddr) -> Flow {
    Flow::new(transport, listener, remote)
}

/// ID of a connection that the generator has no number for.
fn slot_id(key: SlabKey) -> ConnectionId {
    ConnectionId(ACCEPTED | u64::from(key.generation) << 32 | u64::from(key.index))
}

fn accepted_key(id: ConnectionId) -> SlabKey {
    SlabKey { index: id.0 as u32, generation: ((id.0 & !ACCEPTED) >> 32) as u32 }
}

/// Bit of the ID of a connection that has no number of the generator.
const ACCEPTED: u64 = 1 << 63;

/// Maximum number of connections of a thread and side.
pub(crate) const CONNECTIONS_MAX: usize = 500_000;
/// Maximum length of a received message.
const MESSAGE_BYTES_MAX: usize = 65_535;
/// Maximum number of bytes of one read.
const READ_BYTES: usize = 64 << 10;
const FRAMES_PER_BATCH: usize = 32;
const BACKLOG: i32 = 4096;
const ACCEPTS_PER_TURN: usize = 32;
/// Maximum number of bytes in the write queue of a connection; a shared one has more than a phone's.
const WRITE_QUEUE_BYTES_MAX: usize = 8 << 20;
const WRITE_QUEUE_MESSAGES_MAX: usize = 50_000;

#[cfg(test)]
#[path = "streams_tests.rs"]
mod tests;
