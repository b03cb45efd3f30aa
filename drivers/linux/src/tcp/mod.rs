//! Streams of a worker: its listening sockets, and the connections that it accepted or dialled.
//!
//! A slot whose generations are used up is not used again, so a [`ConnectionId`] is never reused.

mod proxied;
mod room;
pub(crate) mod stream;

use crate::config::{BoxedLayer, Resume};
use crate::counters::Counters;
use crate::shared::Common;
use crate::shared::connections::{Kind, OpenConnection, SLOTS_MAX, USES_MAX, id_of, parts_of};
use crate::sys::{self, Epoll, Interest};
use proxied::AwaitedHeaders;
pub(crate) use proxied::header_of;
use ringway_sansio::{
    ConnectionId, DialledId, Flow, Framer, HostNameId, Instant, ListenerId, Queue, Received, TimerKey, Token,
    Transport, Waited, Wheel,
};
use ringway_stream::{CloseReason, Origin};
use room::{Crowded, Dials};
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use stream::{Filled, More, Stream, Written};

pub(crate) struct Streams<F> {
    worker: usize,
    epoll: Arc<Epoll>,
    common: Arc<Common>,
    counters: Arc<Counters>,
    /// By listener; `None` for datagram listeners, and for all after the worker stopped listening.
    listening: Vec<Option<(TcpListener, u64)>>,
    /// By listener.
    transports: Vec<Transport>,
    slots: Vec<Slot<F>>,
    free: Vec<u32>,
    /// Connections that this worker dialled, by transport, address, host and number. Accepted ones are not used for other destinations: the
    /// peer that now has the address may not be the one for which the message is meant
    /// (docs/decisions/0010-connections-and-the-log.md).
    dialled: HashMap<Destination, ConnectionId>,
    headers: AwaitedHeaders,
    open: usize,
    dials: Dials,
    unwritten: usize,
    alarms: Wheel<Alarm>,
    crowded: Crowded,
    room: Box<[u8]>,
    /// Open file that is closed temporarily to refuse a connection if no file descriptor is left.
    spare: Option<File>,
    /// Reports for the shards.
    pub(crate) reports: Vec<Report>,
}

/// Report for the shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Report {
    /// For all shards.
    Closed(ConnectionId),
    /// For the shard that created the token.
    Unreachable(Token),
}

/// State of a connection's framer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Frames {
    /// No complete message is left.
    All,
    /// More messages may be left.
    More,
    /// No message is left, and none will follow: the peer has ended, or its bytes are not valid messages. Answer the
    /// earlier messages, then call [`Streams::finish`].
    Last,
}

struct Slot<F> {
    uses: u64,
    stream: Option<Box<Stream<F, BoxedLayer>>>,
}

/// Destination of dialled connections.
type Destination = (Transport, SocketAddr, HostNameId, DialledId);

const fn destination(flow: &Flow) -> Destination {
    (flow.transport, flow.remote, flow.host, flow.dialled)
}

#[derive(Clone, Copy, Debug)]
enum Alarm {
    Connection(ConnectionId),
    /// End of the time for a proxy's header.
    Header(usize),
    /// Resume accepting after a pause.
    Accept(usize),
}

impl<F: Framer> Streams<F> {
    /// `listening` has the listening sockets with their epoll tokens, `transports` the transports of all listeners.
    pub(crate) fn new(
        worker: usize,
        common: Arc<Common>,
        counters: Arc<Counters>,
        epoll: Arc<Epoll>,
        listening: Vec<Option<(TcpListener, u64)>>,
        transports: Vec<Transport>,
        now: Instant,
    ) -> Self {
        Self {
            worker,
            epoll,
            common,
            counters,
            listening,
            transports,
            slots: Vec::new(),
            free: Vec::new(),
            dialled: HashMap::new(),
            headers: AwaitedHeaders::default(),
            open: 0,
            dials: Dials::default(),
            unwritten: 0,
            alarms: Wheel::new(now),
            crowded: Crowded::default(),
            room: vec![0; READ_BYTES].into_boxed_slice(),
            spare: File::open("/dev/null").ok(),
            reports: Vec::new(),
        }
    }

    /// Accepts pending connections of a listener.
    pub(crate) fn accept(&mut self, listener: usize, now: Instant) {
        for _ in 0..ACCEPTS_PER_TURN {
            let Some(Some((socket, _))) = self.listening.get(listener) else { return };
            match sys::accept(socket.as_fd()) {
                Ok((fd, peer)) => self.arrived(TcpStream::from(fd), listener, peer, now),
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock => return,
                    // The peer closed the connection before it was accepted.
                    ErrorKind::ConnectionAborted | ErrorKind::Interrupted => {}
                    _ => return self.refuse_one(listener, now),
                },
            }
        }
    }

    /// Sends on a connection, or reports that it is closed.
    pub(crate) fn send(&mut self, id: ConnectionId, token: Token, bytes: &[u8], more: More, now: Instant) {
        let Some(stream) = find(&mut self.slots, id) else { return self.unreachable(token) };
        let written = stream.send(bytes, token, more, &self.common.streams, now);
        self.counters.stream_messages_out.increment();
        self.wrote(id, written);
        if more == More::None && (written.waits > 0 || written.waited > 0) {
            self.settle(id);
        }
    }

    /// Accounts for written bytes, and closes the connection if it must be.
    fn wrote(&mut self, id: ConnectionId, written: Written) {
        self.counters.stream_bytes_out.add(written.bytes as u64);
        self.unwritten = self.unwritten + written.waits - written.waited;
        match written.close {
            Some(why) => self.close(id, why),
            None if self.unwritten > UNWRITTEN_BYTES_MAX => self.close(id, CloseReason::Unread),
            None => {}
        }
    }

    /// Handles a connection that is writable, or whose dialling has ended.
    pub(crate) fn writable(&mut self, id: ConnectionId, now: Instant) {
        let Some(stream) = find(&mut self.slots, id) else { return };
        if !stream.connection.is_connected() {
            match stream.socket.take_error() {
                Ok(None) => stream.connection.connected(now),
                Ok(Some(_)) | Err(_) => return self.close(id, CloseReason::NotConnected),
            }
            self.dials.end(id);
            list(&self.common, self.worker, stream);
        }
        let written = stream.flush(now);
        self.wrote(id, written);
        self.finish(id);
    }

    /// Reads once from a connection; at `slept_at` no connection had bytes to read. Call [`Streams::frames`] afterwards as long as it returns [`Frames::More`].
    pub(crate) fn fill(&mut self, id: ConnectionId, now: Instant, slept_at: Instant) -> Filled {
        let Some(stream) = find(&mut self.slots, id) else { return Filled::Nothing };
        if !stream.connection.is_receiving() {
            return Filled::Nothing;
        }
        let filled = stream.fill(&mut self.room, now, slept_at);
        if let Filled::Bytes(count) = filled {
            self.counters.stream_bytes_in.add(count as u64);
        }
        filled
    }

    /// Continues a connection after work of its layer on another thread. Call [`Streams::frames`] afterwards as after
    /// [`Streams::fill`].
    pub(crate) fn resume(&mut self, id: ConnectionId, now: Instant) -> bool {
        let Some(stream) = find(&mut self.slots, id) else { return false };
        stream.connection.resume(now);
        true
    }

    /// Passes a batch of messages to `each`, with the queue of their listener. Afterwards call [`Streams::respond`] if [`Streams::has_own_bytes`], and
    /// [`Streams::finish`] after [`Frames::Last`].
    pub(crate) fn frames(
        &mut self,
        id: ConnectionId,
        now: Instant,
        queues: &[Queue],
        mut each: impl FnMut(Received<'_>),
    ) -> Frames {
        let Some(stream) = find(&mut self.slots, id) else { return Frames::All };
        let (flow, names) = (stream.flow, stream.connection.peer_names());
        let (peer, time) = (names.as_deref(), now.since(stream.arrived_at));
        let queue = queues.get(usize::from(flow.listener.0));
        let waited = queue.map(|queue| Waited { time, queue });
        let batch = stream
            .connection
            .messages(FRAMES_PER_BATCH, now, |bytes| each(Received { flow, bytes, peer, waited }));
        self.counters.stream_messages_in.add(batch.messages as u64);
        let frames = match (batch.has_more, stream.connection.is_receiving()) {
            (true, _) => Frames::More,
            (false, true) => Frames::All,
            (false, false) => Frames::Last,
        };
        if batch.keep_alives > 0 {
            self.counters.keep_alives.add(batch.keep_alives as u64);
            self.counters.stream_messages_out.increment();
        }
        // Otherwise the caller calls `respond` or `finish` next: what is written until then needs no interest in writing.
        if frames != Frames::Last && !self.has_own_bytes(id) {
            self.settle(id);
        }
        frames
    }

    /// Writes bytes of the connection itself. Call it after the messages of [`Streams::frames`] are answered, so that the end
    /// of a handshake and the response to the first request leave together.
    pub(crate) fn respond(&mut self, id: ConnectionId, now: Instant) {
        let Some(stream) = find(&mut self.slots, id) else { return };
        let written = stream.respond(&self.common.streams, now);
        let is_receiving = stream.connection.is_receiving();
        self.wrote(id, written);
        // Otherwise the caller calls `finish` next.
        if is_receiving {
            self.settle(id);
        }
    }

    /// True if [`Streams::respond`] may have something to write.
    pub(crate) fn has_own_bytes(&mut self, id: ConnectionId) -> bool {
        find(&mut self.slots, id).is_some_and(|stream| stream.connection.has_own_bytes())
    }

    /// Closes a connection that no longer receives, when everything is written. Call it after its messages are
    /// answered.
    pub(crate) fn finish(&mut self, id: ConnectionId) {
        let Some(stream) = find(&mut self.slots, id) else { return };
        let (flow, is_open) = (stream.flow, stream.connection.is_open());
        if let Some(why) = stream.connection.end_reason() {
            return self.close(id, why);
        }
        if !is_open {
            self.forget_dialled(&flow, id);
        }
        self.settle(id);
    }

    /// Makes the next message to the connection's destination dial again.
    fn forget_dialled(&mut self, flow: &Flow, id: ConnectionId) {
        let destination = destination(flow);
        if self.dialled.get(&destination) == Some(&id) {
            self.dialled.remove(&destination);
        }
    }

    /// Closes a connection and queues the reports.
    fn close(&mut self, id: ConnectionId, why: CloseReason) {
        let (index, _) = parts_of(id);
        if find(&mut self.slots, id).is_none() {
            return;
        }
        let Some(slot) = self.slots.get_mut(index as usize) else { return };
        let Some(mut stream) = slot.stream.take() else { return };
        // The end of the layer's protocol, such as close_notify, as far as the socket takes it at once.
        stream.connection.fail(why);
        let written = stream.flush(stream.connection.since());
        self.counters.stream_bytes_out.add(written.bytes as u64);
        self.unwritten = self.unwritten + written.waits - written.waited;
        slot.uses += 1;
        if slot.uses <= USES_MAX {
            self.free.push(index);
        }
        let Stream { flow, mut connection, unwritten, accounted, timer, .. } = *stream;
        self.alarms.cancel(timer);
        self.open -= 1;
        self.common.open.fetch_sub(1, Ordering::Relaxed);
        self.unwritten -= unwritten;
        if !connection.is_connected() {
            self.dials.end(id);
        } else {
            self.reports.push(Report::Closed(id));
            self.common.connections.closed(self.worker, id);
        }
        let remote = flow.remote;
        self.common.sources.release(remote.ip(), accounted);
        match connection.origin() {
            Origin::Accepted => self.common.sources.closed(remote.ip()),
            Origin::Dialled => self.forget_dialled(&flow, id),
        }
        self.counters.closed(why);
        self.counters.connections_open.set(self.open as u64);
        self.counters.unreachable_unreported.add(connection.unreported());
        for token in connection.undelivered() {
            self.counters.unreachable.increment();
            self.reports.push(Report::Unreachable(token));
        }
    }

    /// Keeps a connection open until `until` at least.
    pub(crate) fn keep(&mut self, id: ConnectionId, until: Instant) {
        if let Some(stream) = find(&mut self.slots, id) {
            stream.connection.keep(until);
        }
    }

    /// Closes the connection of a flow, or the one that was dialled for it.
    pub(crate) fn disconnect(&mut self, flow: &Flow) {
        if let Some(id) = flow.connection.or_else(|| self.dialled.get(&destination(flow)).copied()) {
            self.close(id, CloseReason::Ended);
        }
    }

    /// Takes back a packet that waits for the connection that is being dialled for a flow.
    pub(crate) fn give_up_dial(&mut self, flow: &Flow, token: Token) {
        let Some(&id) = self.dialled.get(&destination(flow)) else { return };
        let Some(stream) = find(&mut self.slots, id) else { return };
        let is_back = stream.connection.give_up(token);
        let written = stream.flush(stream.connection.since());
        if is_back {
            self.unreachable(token);
        }
        self.wrote(id, written);
        self.settle(id);
    }

    /// Queues a report that a packet could not be sent.
    pub(crate) fn unreachable(&mut self, token: Token) {
        if token != Token::NONE {
            self.counters.unreachable.increment();
            self.reports.push(Report::Unreachable(token));
        }
    }

    /// Counts and reports a packet that did not fit into another worker's inbox.
    pub(crate) fn inbox_full(&mut self, token: Token) {
        self.counters.inbox_drops.increment();
        self.unreachable(token);
    }

    /// Runs due timers.
    pub(crate) fn expire(&mut self, now: Instant) {
        while let Some(alarm) = self.alarms.expire(now) {
            match alarm {
                Alarm::Accept(listener) => self.watch_listener(listener, Interest::Read),
                Alarm::Header(index) => self.header_late(index),
                Alarm::Connection(id) => {
                    let Some(stream) = find(&mut self.slots, id) else { continue };
                    stream.timer = TimerKey::NONE;
                    stream.timer_at = Instant::FAR;
                    let (at, why) = stream.connection.deadline(&self.common.streams);
                    if at <= now { self.close(id, why) } else { self.settle(id) }
                }
            }
        }
    }

    /// Time of the next [`Streams::expire`].
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.alarms.next_due()
    }

    /// Closes the listening sockets.
    pub(crate) fn stop_listening(&mut self) {
        for socket in &mut self.listening {
            *socket = None;
        }
        self.drop_headers_of(None);
    }

    /// Adds a listener; `None` for one of datagrams. The socket is in epoll.
    pub(crate) fn add_listener(
        &mut self,
        listener: usize,
        socket: Option<(TcpListener, u64)>,
        transport: Transport,
    ) {
        if self.listening.len() <= listener {
            self.listening.resize_with(listener + 1, || None);
            self.transports.resize(listener + 1, Transport::Tcp);
        }
        if let (Some(place), Some(of)) = (self.listening.get_mut(listener), self.transports.get_mut(listener))
        {
            (*place, *of) = (socket, transport);
        }
    }

    /// Closes the listening socket of one listener. Its connections stay.
    pub(crate) fn close_listener(&mut self, listener: usize) {
        if let Some(socket) = self.listening.get_mut(listener) {
            *socket = None;
        }
        self.drop_headers_of(Some(listener));
    }

    /// Transport of a listener.
    pub(crate) fn transport_of(&self, listener: usize) -> Transport {
        self.transports.get(listener).copied().unwrap_or(Transport::Tcp)
    }

    /// Bytes in all write queues.
    pub(crate) fn unwritten(&self) -> usize {
        self.unwritten
    }

    /// Opens an accepted connection of `peer`.
    fn accepted(&mut self, socket: TcpStream, listener: usize, peer: SocketAddr, now: Instant) {
        // Dropping the socket closes it.
        if !self.admit(Some(peer.ip()), now) {
            return self.counters.connections_refused.increment();
        }
        if !self.common.sources.admit(peer.ip()) {
            self.common.open.fetch_sub(1, Ordering::Relaxed);
            return self.counters.connections_over_source.increment();
        }
        let transport = self.transport_of(listener);
        let listener = ListenerId(u8::try_from(listener).unwrap_or(u8::MAX));
        let remote = Flow::canonical(peer);
        let flow = Flow::new(transport, listener, remote);
        match self.insert(socket, flow, Origin::Accepted, now) {
            Ok(_) => self.counters.connections_accepted.increment(),
            Err(why) => {
                self.common.sources.closed(peer.ip());
                self.common.open.fetch_sub(1, Ordering::Relaxed);
                match why.kind() {
                    NO_LAYER => self.counters.handshakes_refused.increment(),
                    _ => self.counters.connections_refused.increment(),
                }
            }
        }
    }

    /// Refuses a connection if no file descriptor is left: closing the spare file permits accepting and closing it, so
    /// that the peer is notified and epoll stops reporting the listener. If that fails too, accepting is paused.
    fn refuse_one(&mut self, listener: usize, now: Instant) {
        self.counters.connections_refused.increment();
        self.spare = None;
        let taken = match self.listening.get(listener) {
            Some(Some((socket, _))) => sys::accept(socket.as_fd()).is_ok(),
            _ => return,
        };
        self.spare = File::open("/dev/null").ok();
        if !taken || self.spare.is_none() {
            self.watch_listener(listener, Interest::Nothing);
            self.alarms.arm(now + ACCEPT_PAUSE, Alarm::Accept(listener));
        }
    }

    /// Changes the watched events of a listening socket.
    pub(crate) fn watch_listener(&self, listener: usize, interest: Interest) {
        if let Some(Some((socket, token))) = self.listening.get(listener) {
            // It fails only for an unwatched descriptor, and this one is always watched.
            let _ = self.epoll.modify(socket.as_fd(), *token, interest);
        }
    }

    fn insert(
        &mut self,
        socket: TcpStream,
        flow: Flow,
        origin: Origin,
        now: Instant,
    ) -> io::Result<ConnectionId> {
        let index = match self.free.pop() {
            Some(index) => index,
            None if self.slots.len() < SLOTS_MAX => {
                let index = self.slots.len() as u32;
                let uses = self.common.first_use(self.worker, Kind::Stream, index);
                self.slots.push(Slot { uses, stream: None });
                index
            }
            None => return Err(ErrorKind::OutOfMemory.into()),
        };
        let uses = self.slots.get(index as usize).map_or(0, |slot| slot.uses);
        let id = id_of(self.worker, Kind::Stream, index, uses);
        let flow = Flow { connection: Some(id), ..flow };
        let resume = Resume::new(self.common.inboxes.clone(), self.worker, id);
        let Some(layer) = self.common.layers.layer(origin, &flow, resume) else {
            self.free.push(index);
            return Err(NO_LAYER.into());
        };
        let framer = F::new(self.common.message_bytes_max(&flow));
        let stream = Box::new(Stream::new(socket, flow, origin, framer, layer, now));
        if let Err(error) = self.epoll.add(stream.socket.as_fd(), id.0, stream.interest) {
            self.free.push(index);
            return Err(error);
        }
        if stream.connection.is_connected() {
            list(&self.common, self.worker, &stream);
        }
        if let Some(slot) = self.slots.get_mut(index as usize) {
            slot.stream = Some(stream);
        }
        self.open += 1;
        self.counters.connections_open.set(self.open as u64);
        self.settle(id);
        Ok(id)
    }

    /// Updates the accounted memory, the epoll interest and the timer of a connection. A timer that is too early is
    /// kept: it is set again when it fires.
    fn settle(&mut self, id: ConnectionId) {
        let Some(stream) = find(&mut self.slots, id) else { return };
        let held = stream.connection.held_bytes();
        if held != stream.accounted {
            let address = stream.flow.remote.ip();
            if let Err(why) = self.common.sources.account(address, stream.accounted, held) {
                return self.close(id, why);
            }
            stream.accounted = held;
        }
        let wanted = stream.wanted();
        if wanted != stream.interest {
            stream.interest = wanted;
            if self.epoll.modify(stream.socket.as_fd(), id.0, wanted).is_err() {
                return self.close(id, CloseReason::Ended);
            }
        }
        let (at, _) = stream.connection.deadline(&self.common.streams);
        if at < stream.timer_at {
            self.alarms.cancel(stream.timer);
            stream.timer = self.alarms.arm(at, Alarm::Connection(id));
            stream.timer_at = at;
        }
    }
}

impl<F> Drop for Streams<F> {
    /// Releases the memory of open connections: the limit may outlive the worker.
    fn drop(&mut self) {
        for stream in self.slots.iter().filter_map(|slot| slot.stream.as_deref()) {
            self.common.sources.release(stream.flow.remote.ip(), stream.accounted);
        }
    }
}

fn find<F>(slots: &mut [Slot<F>], id: ConnectionId) -> Option<&mut Stream<F, BoxedLayer>> {
    let (index, uses) = parts_of(id);
    let slot = slots.get_mut(index as usize)?;
    if slot.uses == uses { slot.stream.as_deref_mut() } else { None }
}

/// Adds a connection to the list of open connections.
fn list<F: Framer>(common: &Common, worker: usize, stream: &Stream<F, BoxedLayer>) {
    let Flow { transport, listener, remote, connection: id, dialled, .. } = stream.flow;
    // A socket without a local address has just been closed by the peer.
    if let (Some(id), Ok(local)) = (id, stream.socket.local_addr()) {
        let since = stream.connection.since();
        common
            .connections
            .opened(worker, OpenConnection { id, transport, listener, local, remote, dialled, since });
    }
}

/// Error of a connection without a layer.
const NO_LAYER: ErrorKind = ErrorKind::Unsupported;

/// Maximum number of bytes of one read: some tens of messages, so that a peer that floods does not delay the others.
const READ_BYTES: usize = 16 << 10;

/// Maximum number of messages of one connection before their packets are sent and other connections are served.
const FRAMES_PER_BATCH: usize = 32;

const ACCEPTS_PER_TURN: usize = 32;

/// Maximum number of bytes in all write queues of a worker.
const UNWRITTEN_BYTES_MAX: usize = 256 << 20;

const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
