//! Connection of any protocol, as a trait object.

use ringway_sansio::{Framer, Instant, PeerNames, Token};
use ringway_stream::{CloseReason, Connection, Layer, StreamLimits, WriteFailed};
use std::sync::Arc;

/// [`Connection`] with any framer and layer.
pub trait SimConnection {
    /// [`Connection::connected`].
    fn connected(&mut self, now: Instant);

    /// [`Connection::receive`].
    fn receive(&mut self, bytes: &[u8], now: Instant);

    /// [`Connection::resume`].
    fn resume(&mut self, now: Instant);

    /// Next message of [`Connection::messages`], and the number of keep-alives before it.
    fn next_message(&mut self, now: Instant) -> (Option<Vec<u8>>, usize);

    /// [`Connection::send`].
    fn send(
        &mut self,
        message: &[u8],
        token: Token,
        limits: &StreamLimits,
        now: Instant,
        socket: &mut Socket,
    );

    /// [`Connection::respond`].
    fn respond(&mut self, limits: &StreamLimits, now: Instant, socket: &mut Socket);

    /// [`Connection::flush`].
    fn flush(&mut self, now: Instant, socket: &mut Socket);

    /// [`Connection::peer_ended`].
    fn peer_ended(&mut self, now: Instant);

    /// [`Connection::fail`].
    fn fail(&mut self, why: CloseReason);

    /// [`Connection::give_up`].
    fn give_up(&mut self, token: Token) -> bool;

    /// [`Connection::undelivered`].
    fn undelivered(&mut self) -> Vec<Token>;

    /// [`Connection::close_reason`].
    fn close_reason(&self) -> Option<CloseReason>;

    /// [`Connection::end_reason`].
    fn end_reason(&self) -> Option<CloseReason>;

    /// [`Connection::deadline`].
    fn deadline(&self, limits: &StreamLimits) -> (Instant, CloseReason);

    /// [`Connection::is_connected`].
    fn is_connected(&self) -> bool;

    /// [`Connection::is_handshaking`].
    fn is_handshaking(&self) -> bool;

    /// [`Connection::unwritten_bytes`].
    fn unwritten_bytes(&self) -> usize;

    /// [`Connection::peer_names`].
    fn peer_names(&self) -> Option<Arc<PeerNames>>;

    /// Answer to a keep-alive.
    fn pong(&self) -> &'static [u8];
}

/// Socket of a connection for one step.
pub struct Socket {
    /// Number of bytes that it still accepts. `None`: it is broken.
    pub(crate) room: Option<usize>,
    /// Accepted bytes.
    pub(crate) taken: Vec<u8>,
}

impl Socket {
    fn write(&mut self, bytes: &[u8]) -> Result<usize, WriteFailed> {
        let room = self.room.ok_or(WriteFailed)?;
        let (taken, _) = bytes.split_at(bytes.len().min(room));
        self.taken.extend_from_slice(taken);
        self.room = Some(room - taken.len());
        Ok(taken.len())
    }
}

impl<F: Framer, L: Layer> SimConnection for Connection<F, L> {
    fn connected(&mut self, now: Instant) {
        self.connected(now);
    }

    fn receive(&mut self, bytes: &[u8], now: Instant) {
        self.receive(bytes, now);
    }

    fn resume(&mut self, now: Instant) {
        self.resume(now);
    }

    fn next_message(&mut self, now: Instant) -> (Option<Vec<u8>>, usize) {
        let mut taken = None;
        let batch = self.messages(1, now, |message| taken = Some(message.to_vec()));
        (taken, batch.keep_alives)
    }

    fn send(
        &mut self,
        message: &[u8],
        token: Token,
        limits: &StreamLimits,
        now: Instant,
        socket: &mut Socket,
    ) {
        self.send(message, token, limits, now, |bytes| socket.write(bytes));
    }

    fn respond(&mut self, limits: &StreamLimits, now: Instant, socket: &mut Socket) {
        self.respond(limits, now, |bytes| socket.write(bytes));
    }

    fn flush(&mut self, now: Instant, socket: &mut Socket) {
        self.flush(now, |bytes| socket.write(bytes));
    }

    fn peer_ended(&mut self, now: Instant) {
        self.peer_ended(now);
    }

    fn fail(&mut self, why: CloseReason) {
        self.fail(why);
    }

    fn give_up(&mut self, token: Token) -> bool {
        self.give_up(token)
    }

    fn undelivered(&mut self) -> Vec<Token> {
        self.undelivered().collect()
    }

    fn close_reason(&self) -> Option<CloseReason> {
        self.close_reason()
    }

    fn end_reason(&self) -> Option<CloseReason> {
        self.end_reason()
    }

    fn deadline(&self, limits: &StreamLimits) -> (Instant, CloseReason) {
        self.deadline(limits)
    }

    fn is_connected(&self) -> bool {
        self.is_connected()
    }

    fn is_handshaking(&self) -> bool {
        self.is_handshaking()
    }

    fn unwritten_bytes(&self) -> usize {
        self.unwritten_bytes()
    }

    fn peer_names(&self) -> Option<Arc<PeerNames>> {
        self.peer_names()
    }

    fn pong(&self) -> &'static [u8] {
        F::PONG
    }
}
