//! Stream connections: two ends, each with a number of its own.

use crate::connection::{SimConnection, Socket};
use crate::host::HostId;
use ringway_sansio::{ConnectionId, Instant, ListenerId, Token};
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

/// One end of a connection.
pub(crate) struct End {
    pub(crate) host: HostId,
    pub(crate) listener: ListenerId,
    pub(crate) local: SocketAddr,
    pub(crate) remote: SocketAddr,
    /// The other end. It exists from the end of the handshake on.
    pub(crate) peer: ConnectionId,
    pub(crate) connection: Box<dyn SimConnection>,
    /// When the last bytes that are on their way to this end arrive.
    pub(crate) last_arrival: Instant,
    /// Bytes that a cut link keeps from this end.
    pub(crate) lost: Vec<u8>,
    /// Bytes that arrived while the host does not read.
    pub(crate) unread: Vec<u8>,
    /// True when the peer's end came while the host does not read.
    pub(crate) is_peer_closed: bool,
    /// When [`SimConnection::deadline`] is looked at.
    pub(crate) alarm: Option<Instant>,
    /// Bytes that it sent and the peer has not read.
    in_flight: usize,
    /// Shards and tokens of messages; the connection has their places.
    senders: Vec<(u16, Token)>,
    /// Bytes written in all.
    written: usize,
    /// What waits to be written, for the trace: each with its end in the stream.
    waiting: VecDeque<(usize, Vec<u8>)>,
    /// The end of the last of them.
    waiting_end: usize,
}

impl End {
    pub(crate) fn new(
        (host, listener): (HostId, ListenerId),
        (local, remote): (SocketAddr, SocketAddr),
        peer: ConnectionId,
        connection: Box<dyn SimConnection>,
        now: Instant,
    ) -> Self {
        Self {
            host,
            listener,
            local,
            remote,
            peer,
            connection,
            last_arrival: now,
            lost: Vec::new(),
            unread: Vec::new(),
            is_peer_closed: false,
            alarm: None,
            in_flight: 0,
            senders: Vec::new(),
            written: 0,
            waiting: VecDeque::new(),
            waiting_end: 0,
        }
    }

    /// The token under which the connection keeps the sender of a message.
    pub(crate) fn token_for(&mut self, shard: u16, token: Token) -> Token {
        if token == Token::NONE {
            return token;
        }
        self.senders.push((shard, token));
        Token(self.senders.len() as u64)
    }

    /// Shards and tokens of the messages that the connection did not deliver.
    pub(crate) fn undelivered(&mut self) -> Vec<(u16, Token)> {
        let places = self.connection.undelivered().into_iter();
        places.filter_map(|place| self.senders.get(place.0 as usize - 1).copied()).collect()
    }

    /// A socket with the room that the window leaves.
    pub(crate) fn socket(&self) -> Socket {
        Socket { room: Some(WINDOW_BYTES.saturating_sub(self.in_flight)), taken: Vec::new() }
    }

    /// Notes a message that the connection is about to send.
    pub(crate) fn note_message(&mut self, message: &[u8]) {
        self.waiting_end += message.len();
        self.waiting.push_back((self.waiting_end, message.to_vec()));
    }

    /// Notes keep-alive answers that the connection is about to write.
    pub(crate) fn note_pongs(&mut self) {
        let pong = self.connection.pong();
        let end = self.written + self.connection.unwritten_bytes();
        let count = end.saturating_sub(self.waiting_end).checked_div(pong.len()).unwrap_or(0);
        if count > 0 {
            self.waiting_end = end;
            self.waiting.push_back((end, pong.repeat(count)));
        }
    }

    /// Notes that the socket took `count` bytes; what has thereby been written whole.
    pub(crate) fn wrote(&mut self, count: usize) -> Vec<Vec<u8>> {
        self.written += count;
        self.in_flight += count;
        let whole = self.waiting.iter().take_while(|(end, _)| *end <= self.written).count();
        self.waiting.drain(..whole).map(|(_, bytes)| bytes).collect()
    }

    /// What was not written whole.
    pub(crate) fn unwritten(&mut self) -> impl Iterator<Item = Vec<u8>> + use<> {
        std::mem::take(&mut self.waiting).into_iter().map(|(_, bytes)| bytes)
    }

    /// Notes that the peer has read `count` bytes. True when this end has more to write.
    pub(crate) fn acknowledged(&mut self, count: usize) -> bool {
        self.in_flight -= count;
        self.connection.unwritten_bytes() > 0
    }
}

/// All connections. A number is never used twice.
#[derive(Default)]
pub(crate) struct Connections {
    ends: BTreeMap<ConnectionId, End>,
    /// Which connection a host dialled to an address.
    dialled: BTreeMap<(HostId, SocketAddr), ConnectionId>,
    next_id: u64,
    next_port: u16,
}

impl Connections {
    pub(crate) fn next_id(&mut self) -> ConnectionId {
        self.next_id += 1;
        ConnectionId(self.next_id)
    }

    /// A port nobody listens at.
    pub(crate) fn ephemeral_port(&mut self) -> u16 {
        self.next_port = self.next_port.wrapping_add(1) % (u16::MAX - EPHEMERAL_FIRST);
        EPHEMERAL_FIRST + self.next_port
    }

    pub(crate) fn insert_dialled(&mut self, id: ConnectionId, end: End) {
        self.dialled.insert((end.host, end.remote), id);
        self.ends.insert(id, end);
    }

    pub(crate) fn insert_accepted(&mut self, id: ConnectionId, end: End) {
        self.ends.insert(id, end);
    }

    pub(crate) fn dialled(&self, host: HostId, remote: SocketAddr) -> Option<ConnectionId> {
        self.dialled.get(&(host, remote)).copied()
    }

    pub(crate) fn end(&self, id: ConnectionId) -> Option<&End> {
        self.ends.get(&id)
    }

    pub(crate) fn end_mut(&mut self, id: ConnectionId) -> Option<&mut End> {
        self.ends.get_mut(&id)
    }

    pub(crate) fn remove(&mut self, id: ConnectionId) -> Option<End> {
        let end = self.ends.remove(&id)?;
        if self.dialled(end.host, end.remote) == Some(id) {
            self.dialled.remove(&(end.host, end.remote));
        }
        Some(end)
    }

    /// The ends of a host.
    pub(crate) fn of_host(&self, host: HostId) -> Vec<ConnectionId> {
        self.ends.iter().filter(|(_, end)| end.host == host).map(|(&id, _)| id).collect()
    }

    /// The ends that a cut link keeps bytes from.
    pub(crate) fn with_lost_bytes(&self) -> Vec<ConnectionId> {
        self.ends.iter().filter(|(_, end)| !end.lost.is_empty()).map(|(&id, _)| id).collect()
    }
}

/// Bytes that an end can send before the peer has read some: the buffers of both sockets.
pub(crate) const WINDOW_BYTES: usize = 64 << 10;

const EPHEMERAL_FIRST: u16 = 49_152;
