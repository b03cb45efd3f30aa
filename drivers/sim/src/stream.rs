//! Stream connections: two ends, each with its own number.

use crate::connection::{SimConnection, Socket};
use crate::host::HostId;
use ringway_sansio::{ConnectionId, DialledId, Flow, HostNameId, Instant, Token, Transport};
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

/// End of a connection.
pub(crate) struct End {
    pub(crate) host: HostId,
    pub(crate) local: SocketAddr,
    /// Flow of its messages.
    pub(crate) flow: Flow,
    /// The other end; it exists after the handshake.
    pub(crate) peer: ConnectionId,
    pub(crate) connection: Box<dyn SimConnection>,
    /// Arrival time of the last bytes in transit to this end.
    pub(crate) last_arrival: Instant,
    /// Bytes for this end that a cut link holds back.
    pub(crate) lost: Vec<u8>,
    /// Received bytes that the host has not read.
    pub(crate) unread: Vec<u8>,
    /// True if the peer ended the stream while the host does not read.
    pub(crate) is_peer_closed: bool,
    /// Time of the next check of [`SimConnection::deadline`].
    pub(crate) alarm: Option<Instant>,
    /// Number of sent bytes that the peer has not read.
    in_flight: usize,
    /// Shards and tokens of messages; the connection's tokens are positions in it.
    senders: Vec<(u16, Token)>,
    /// Number of bytes written since the start.
    written: usize,
    /// Messages for the trace that the connection was given since the last step, or before the end of its handshake.
    given: Vec<(Token, Vec<u8>)>,
    /// Queued messages for the trace, each with its end in the stream at most, and its token for the connection.
    waiting: VecDeque<(usize, Token, Vec<u8>)>,
}

impl End {
    pub(crate) fn new(
        host: HostId,
        local: SocketAddr,
        flow: Flow,
        peer: ConnectionId,
        connection: Box<dyn SimConnection>,
        now: Instant,
    ) -> Self {
        Self {
            host,
            local,
            flow,
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
            given: Vec::new(),
            waiting: VecDeque::new(),
        }
    }

    /// Token of a message for the connection.
    pub(crate) fn token_for(&mut self, shard: u16, token: Token) -> Token {
        if token == Token::NONE {
            return token;
        }
        self.senders.push((shard, token));
        Token(self.senders.len() as u64)
    }

    /// Shards and tokens of the messages that the connection did not deliver.
    pub(crate) fn undelivered(&mut self) -> Vec<(u16, Token)> {
        let tokens = self.connection.undelivered().into_iter();
        tokens.filter_map(|token| self.senders.get(token.0 as usize - 1).copied()).collect()
    }

    /// Socket that accepts as many bytes as the window has left.
    pub(crate) fn socket(&self) -> Socket {
        Socket { room: Some(WINDOW_BYTES.saturating_sub(self.in_flight)), taken: Vec::new() }
    }

    /// Records a message that the connection is about to send.
    pub(crate) fn note_message(&mut self, token: Token, message: &[u8]) {
        self.given.push((token, message.to_vec()));
    }

    /// Takes a message back that waits for the handshake of TCP, if another one waits too.
    pub(crate) fn give_up(&mut self, shard: u16, token: Token) -> Option<Vec<u8>> {
        let sender = self.senders.iter().position(|sender| *sender == (shard, token))?;
        let token = Token(sender as u64 + 1);
        if !self.connection.give_up(token) {
            return None;
        }
        let at = self.waiting.iter().position(|(_, of, _)| *of == token)?;
        let (_, _, message) = self.waiting.remove(at)?;
        self.waiting.range_mut(at..).for_each(|(end, ..)| *end -= message.len());
        Some(message)
    }

    /// Records answers to keep-alives that the connection is about to write.
    pub(crate) fn note_pongs(&mut self, count: usize) {
        if count > 0 {
            self.given.push((Token::NONE, self.connection.pong().repeat(count)));
        }
    }

    /// Records that the socket accepted `count` bytes; returns the messages that are now completely written.
    pub(crate) fn wrote(&mut self, count: usize) -> Vec<Vec<u8>> {
        self.written += count;
        self.in_flight += count;
        // During a handshake the layer keeps them.
        if !self.connection.is_handshaking() {
            let end = self.written + self.connection.unwritten_bytes();
            self.waiting.extend(self.given.drain(..).map(|(token, message)| (end, token, message)));
        }
        let whole = self.waiting.iter().take_while(|(end, ..)| *end <= self.written).count();
        self.waiting.drain(..whole).map(|(.., bytes)| bytes).collect()
    }

    /// Messages that were not completely written.
    pub(crate) fn unwritten(&mut self) -> impl Iterator<Item = Vec<u8>> + use<> {
        let waiting = std::mem::take(&mut self.waiting).into_iter().map(|(.., bytes)| bytes);
        waiting.chain(std::mem::take(&mut self.given).into_iter().map(|(_, bytes)| bytes))
    }

    /// Records that the peer has read `count` bytes. True if this end has more to write.
    pub(crate) fn acknowledged(&mut self, count: usize) -> bool {
        self.in_flight -= count;
        self.connection.unwritten_bytes() > 0
    }
}

/// Host that dialled; transport, address and name of the peer; number of the connection.
type Destination = (HostId, Transport, SocketAddr, HostNameId, DialledId);

const fn destination(host: HostId, flow: &Flow) -> Destination {
    (host, flow.transport, flow.remote, flow.host, flow.dialled)
}

/// All connections. A number is never used twice.
#[derive(Default)]
pub(crate) struct Connections {
    ends: BTreeMap<ConnectionId, End>,
    dialled: BTreeMap<Destination, ConnectionId>,
    next_id: u64,
    next_port: u16,
}

impl Connections {
    pub(crate) fn next_id(&mut self) -> ConnectionId {
        self.next_id += 1;
        ConnectionId(self.next_id)
    }

    /// Port without a listener.
    pub(crate) fn ephemeral_port(&mut self) -> u16 {
        self.next_port = self.next_port.wrapping_add(1) % (u16::MAX - EPHEMERAL_FIRST);
        EPHEMERAL_FIRST + self.next_port
    }

    pub(crate) fn insert_dialled(&mut self, id: ConnectionId, end: End) {
        self.dialled.insert(destination(end.host, &end.flow), id);
        self.ends.insert(id, end);
    }

    pub(crate) fn insert_accepted(&mut self, id: ConnectionId, end: End) {
        self.ends.insert(id, end);
    }

    /// Connection that a host dialled for messages of `flow`.
    pub(crate) fn dialled(&self, host: HostId, flow: &Flow) -> Option<ConnectionId> {
        self.dialled.get(&destination(host, flow)).copied()
    }

    pub(crate) fn end(&self, id: ConnectionId) -> Option<&End> {
        self.ends.get(&id)
    }

    pub(crate) fn end_mut(&mut self, id: ConnectionId) -> Option<&mut End> {
        self.ends.get_mut(&id)
    }

    pub(crate) fn remove(&mut self, id: ConnectionId) -> Option<End> {
        let end = self.ends.remove(&id)?;
        if self.dialled(end.host, &end.flow) == Some(id) {
            self.dialled.remove(&destination(end.host, &end.flow));
        }
        Some(end)
    }

    /// Ends of a host.
    pub(crate) fn of_host(&self, host: HostId) -> Vec<ConnectionId> {
        self.ends.iter().filter(|(_, end)| end.host == host).map(|(&id, _)| id).collect()
    }

    /// Ends for which a cut link holds bytes back.
    pub(crate) fn with_lost_bytes(&self) -> Vec<ConnectionId> {
        self.ends.iter().filter(|(_, end)| !end.lost.is_empty()).map(|(&id, _)| id).collect()
    }
}

/// Bytes that an end can send before the peer has read some: the buffers of both sockets.
pub(crate) const WINDOW_BYTES: usize = 64 << 10;

const EPHEMERAL_FIRST: u16 = 49_152;
