//! One stream connection.
//!
//! ```text
//! dialled --> connecting --connected--> open --> ending --> closed
//!                 |                      ^ |        (nothing more is received, what waits is written)
//!                 +-------> closed       | +--> closed: a limit, a broken socket
//!                              accepted -+
//! ```

use crate::times::{KeepAlives, Times};
use crate::write_queue::WriteQueue;
use crate::{CloseReason, Decoded, Encoded, Layer, LayerError, Origin, PassThrough, StreamLimits};
use alloc::sync::Arc;
use alloc::vec::Vec;
use ringway_sansio::{Defence, Framer, Instant, PeerNames, Token};

/// Stream connection: converts received bytes to messages, and messages to bytes for the socket.
///
/// The driver owns the socket. It passes received bytes to [`Connection::receive`], takes the messages with
/// [`Connection::messages`], sends with [`Connection::send`], and calls [`Connection::flush`] when the socket accepts
/// bytes again; each writes through a closure that returns the number of accepted bytes. After each step
/// [`Connection::close_reason`] is the reason to close at once, [`Connection::end_reason`] the reason to close after all
/// messages are answered, and [`Connection::deadline`] the time to close if nothing happens.
///
/// ```
/// use ringway_sansio::{Framer, FramingError, Instant, Token};
/// use ringway_stream::{Connection, Origin, PassThrough, StreamLimits};
///
/// # #[derive(Default)] struct Lines(Vec<u8>, Vec<u8>);
/// # impl Framer for Lines {
/// #     fn new(_: usize) -> Self { Self::default() }
/// #     fn push(&mut self, bytes: &[u8]) { self.0.extend_from_slice(bytes) }
/// #     fn next_frame(&mut self) -> Result<Option<&[u8]>, FramingError> {
/// #         let Some(end) = self.0.iter().position(|byte| *byte == b'\n') else { return Ok(None) };
/// #         self.1 = self.0.drain(..=end).take(end).collect();
/// #         Ok(Some(&self.1))
/// #     }
/// #     fn pongs(&mut self) -> usize { 0 }
/// #     const PONG: &'static [u8] = b"";
/// #     fn is_partial(&self) -> bool { !self.0.is_empty() }
/// #     fn held_bytes(&self) -> usize { self.0.capacity() }
/// # }
/// let (limits, now) = (StreamLimits::default(), Instant::from_secs(1));
/// let mut connection = Connection::new(Origin::Accepted, Lines::new(100), PassThrough, now);
/// connection.receive(b"one\ntwo\nth", now);
/// let mut messages = Vec::new();
/// connection.messages(32, now, |message| messages.push(message.to_vec()));
/// assert_eq!(messages, [b"one", b"two"]);
///
/// // A socket that accepts four bytes.
/// let mut room = 4;
/// let mut socket = |bytes: &[u8]| {
///     let count = bytes.len().min(room);
///     room -= count;
///     Ok(count)
/// };
/// assert_eq!(connection.send(b"answer", Token::NONE, &limits, now, &mut socket), 4);
/// assert_eq!(connection.unwritten_bytes(), 2);
/// assert_eq!(connection.close_reason(), None);
/// ```
#[derive(Debug)]
pub struct Connection<F, L = PassThrough> {
    framer: F,
    layer: L,
    queue: WriteQueue,
    times: Times,
    keep_alives: KeepAlives,
    state: State,
    is_framer_broken: bool,
    /// True if the queue has bytes that belong to no sent message: keep-alive answers, the layer's own bytes.
    has_own_bytes: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Open,
    /// Nothing more is received; queued bytes are still written.
    Ending(CloseReason),
    Closed(CloseReason),
}

/// Error of a socket that accepts no more bytes, for example after a reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteFailed;

/// Result of [`Connection::messages`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// Number of complete messages.
    pub messages: usize,
    /// Number of received keep-alives.
    pub keep_alives: usize,
    /// True if there may be more messages.
    pub has_more: bool,
}

impl<F: Framer, L: Layer> Connection<F, L> {
    /// Creates a connection that begins now. An accepted one is connected.
    pub fn new(origin: Origin, framer: F, layer: L, now: Instant) -> Self {
        let mut connection = Self {
            framer,
            layer,
            queue: WriteQueue::default(),
            times: Times::new(origin, now),
            keep_alives: KeepAlives::new(now),
            state: State::Open,
            is_framer_broken: false,
            has_own_bytes: false,
        };
        if connection.is_connected() {
            connection.append(now, |layer, _, wire| layer.start(wire));
        }
        connection
    }

    /// Notes that the socket of a dialled connection is connected.
    pub fn connected(&mut self, now: Instant) {
        self.times.connected(now);
        self.append(now, |layer, _, wire| layer.start(wire));
    }

    /// Handles received bytes.
    pub fn receive(&mut self, bytes: &[u8], now: Instant) {
        self.times.received_bytes(now);
        self.run_layer(now, |layer, decoded, wire| layer.decode(bytes, decoded, wire));
    }

    /// Continues after work of the layer that was done elsewhere ([`Layer::resume`]).
    pub fn resume(&mut self, now: Instant) {
        if self.is_receiving() {
            self.run_layer(now, |layer, decoded, wire| layer.resume(decoded, wire));
        }
    }

    fn run_layer(
        &mut self,
        now: Instant,
        run: impl FnOnce(&mut L, &mut dyn FnMut(Decoded<'_>), &mut Vec<u8>) -> Result<(), LayerError>,
    ) {
        let (mut is_end, mut pings) = (false, 0);
        let was_handshaking = self.layer.is_handshaking();
        let result = self.append(now, |layer, framer, wire| {
            let mut decoded = |part: Decoded<'_>| match part {
                Decoded::MessageStart => framer.message_start(),
                Decoded::Bytes(bytes) => framer.push(bytes),
                Decoded::MessageEnd => framer.message_end(),
                Decoded::Ping => pings += 1,
                Decoded::StreamEnd => is_end = true,
            };
            run(layer, &mut decoded, wire)
        });
        if is_end {
            self.peer_ended(now);
        }
        if result.is_err() {
            let why = if was_handshaking { CloseReason::Handshake } else { CloseReason::Framing };
            self.end(why, now);
        }
        if pings > 0 && self.keep_alives.take(pings, now) < pings {
            self.end(CloseReason::KeepAlives, now);
        }
    }

    /// Notes that the peer sends nothing more. Queued bytes are still written.
    pub fn peer_ended(&mut self, now: Instant) {
        self.end(CloseReason::Ended, now);
    }

    /// Passes at most `max` complete messages to `each`, and queues answers to keep-alives. Call it until
    /// [`Batch::has_more`] is false, then [`Connection::respond`].
    pub fn messages(&mut self, max: usize, now: Instant, mut each: impl FnMut(&[u8])) -> Batch {
        let mut batch = Batch::default();
        if self.is_framer_broken || self.close_reason().is_some() {
            return batch;
        }
        batch.has_more = loop {
            match self.framer.next_frame() {
                Ok(Some(message)) => each(message),
                Ok(None) => break false,
                Err(_) => {
                    self.is_framer_broken = true;
                    self.end(CloseReason::Framing, now);
                    break false;
                }
            }
            batch.messages += 1;
            if batch.messages >= max {
                break true;
            }
        };
        self.times.framed(self.framer.is_partial(), batch.messages > 0, now);
        if batch.messages > 0 {
            self.queue.answered();
        }
        batch.keep_alives = self.framer.pongs();
        if batch.keep_alives > 0 {
            self.answer_keep_alives(batch.keep_alives, now);
        }
        batch
    }

    fn answer_keep_alives(&mut self, wanted: usize, now: Instant) {
        let answered = self.keep_alives.take(wanted, now);
        for _ in 0..answered {
            match self.encode(F::PONG) {
                Ok(Encoded::Unchanged) => self.queue.push(F::PONG, Token::NONE),
                Ok(Encoded::Appended) if !self.queue.is_empty() => self.queue.push(&[], Token::NONE),
                Ok(Encoded::Appended) | Err(_) => {}
            }
            self.has_own_bytes = true;
            self.times.queued(now);
        }
        if answered < wanted {
            self.end(CloseReason::KeepAlives, now);
        }
    }

    /// True if [`Connection::respond`] may have something to write.
    pub const fn has_own_bytes(&self) -> bool {
        self.has_own_bytes
    }

    /// Writes bytes that belong to no sent message: keep-alive answers, bytes of the layer. Returns the number of bytes
    /// written.
    pub fn respond(
        &mut self,
        limits: &StreamLimits,
        now: Instant,
        write: impl FnMut(&[u8]) -> Result<usize, WriteFailed>,
    ) -> usize {
        if !core::mem::take(&mut self.has_own_bytes) {
            return 0;
        }
        let count = self.flush(now, write);
        self.check_queue(limits);
        count
    }

    /// Sends a message; bytes that the socket does not accept are queued. Returns the number of bytes written, of this
    /// message and of those before it.
    pub fn send(
        &mut self,
        message: &[u8],
        token: Token,
        limits: &StreamLimits,
        now: Instant,
        mut write: impl FnMut(&[u8]) -> Result<usize, WriteFailed>,
    ) -> usize {
        let is_next = self.is_connected() && self.queue.is_empty();
        let encoded = self.encode(message);
        let count = if is_next && encoded == Ok(Encoded::Unchanged) {
            // Without a copy.
            let count = write(message).unwrap_or_else(|WriteFailed| {
                self.broken();
                0
            });
            self.put(message.get(count..).unwrap_or_default(), encoded, token, now);
            count
        } else {
            self.put(message, encoded, token, now);
            self.flush(now, write)
        };
        self.check_queue(limits);
        count
    }

    /// Queues a message that [`Connection::flush`] or the next [`Connection::send`] writes.
    pub fn queue(&mut self, message: &[u8], token: Token, limits: &StreamLimits, now: Instant) {
        let encoded = self.encode(message);
        self.put(message, encoded, token, now);
        self.check_queue(limits);
    }

    /// Writes queued bytes until the socket accepts no more. Returns the number of bytes written.
    pub fn flush(
        &mut self,
        now: Instant,
        mut write: impl FnMut(&[u8]) -> Result<usize, WriteFailed>,
    ) -> usize {
        let mut total = 0;
        while self.times.is_connected() && !self.queue.is_empty() {
            match write(self.queue.waiting()) {
                Ok(0) => break,
                Ok(count) => {
                    self.queue.advance(count);
                    self.times.written(now);
                    total += count;
                }
                Err(WriteFailed) => {
                    self.broken();
                    break;
                }
            }
        }
        if self.queue.is_empty() {
            self.times.drained();
        }
        total
    }

    /// Closes the connection at once. The first reason is kept.
    pub fn fail(&mut self, why: CloseReason) {
        match self.state {
            State::Open | State::Ending(_) => {
                self.state = State::Closed(why);
                self.layer.finish(self.queue.wire());
            }
            State::Closed(_) => {}
        }
    }

    /// Takes a message back that waits for the connection to be established: true, and the message is undelivered. If no other message
    /// waits, the connection is closed instead, with all that is undelivered. A layer with a handshake gives nothing back.
    pub fn give_up(&mut self, token: Token) -> bool {
        if self.is_connected() || self.layer.is_handshaking() || !self.queue.has(token) {
            return false;
        }
        if self.queue.messages() > 1 {
            return self.queue.take_back(token);
        }
        self.fail(CloseReason::NotConnected);
        false
    }

    /// Marks the connection as in use until `until` at least: [`StreamLimits::unused`] does not apply before.
    pub fn keep(&mut self, until: Instant) {
        self.times.keep(until);
    }

    /// True if it is marked as in use at `now`.
    pub fn is_kept(&self, now: Instant) -> bool {
        self.times.is_kept(now)
    }

    /// Tokens of messages that were not written completely, and of those that were written and never followed by a
    /// message of the peer.
    pub fn undelivered(&mut self) -> impl Iterator<Item = Token> + '_ {
        self.queue.undelivered()
    }

    /// Number of messages missing in [`Connection::undelivered`], because there were too many.
    pub const fn unreported(&self) -> u64 {
        self.queue.unreported()
    }

    /// Reason to close the connection at once, if there is one.
    pub const fn close_reason(&self) -> Option<CloseReason> {
        match self.state {
            State::Open | State::Ending(_) => None,
            State::Closed(why) => Some(why),
        }
    }

    /// Reason to close the connection after all received messages are answered: it is closed already, or it receives
    /// nothing more and its queue is empty.
    pub const fn end_reason(&self) -> Option<CloseReason> {
        match self.state {
            State::Open => None,
            State::Ending(_) if !self.queue.is_empty() => None,
            State::Ending(why) | State::Closed(why) => Some(why),
        }
    }

    /// False once it is ending or closed. It may still be connecting.
    pub const fn is_open(&self) -> bool {
        matches!(self.state, State::Open)
    }

    /// True while the driver must read bytes of the peer.
    pub const fn is_receiving(&self) -> bool {
        self.times.is_connected() && self.is_open()
    }

    /// Time at which it must be closed if nothing happens, and the reason.
    pub fn deadline(&self, limits: &StreamLimits) -> (Instant, CloseReason) {
        self.times.deadline(limits, self.layer.is_handshaking())
    }

    /// Names in the verified certificate of the peer ([`Layer::peer_names`]).
    pub fn peer_names(&self) -> Option<Arc<PeerNames>> {
        self.layer.peer_names()
    }

    /// Side that opened it.
    pub const fn origin(&self) -> Origin {
        self.times.origin()
    }

    /// False while its socket is being connected.
    pub const fn is_connected(&self) -> bool {
        self.times.is_connected()
    }

    /// True until its layer can exchange messages.
    pub fn is_handshaking(&self) -> bool {
        self.layer.is_handshaking()
    }

    /// Time of dialling, or, once it is connected, of that event.
    pub const fn since(&self) -> Instant {
        self.times.since()
    }

    /// Number of queued bytes.
    pub fn unwritten_bytes(&self) -> usize {
        self.queue.waiting().len()
    }

    /// Memory in use by framer, layer and write queue in bytes, unused capacity included.
    pub fn held_bytes(&self) -> usize {
        self.framer.held_bytes() + self.layer.held_bytes() + self.queue.held_bytes()
    }

    /// Handles a socket that accepts no more bytes.
    fn broken(&mut self) {
        match self.state {
            State::Open => self.fail(CloseReason::Ended),
            State::Ending(why) => self.fail(why),
            State::Closed(_) => {}
        }
    }

    fn end(&mut self, why: CloseReason, now: Instant) {
        if self.state == State::Open {
            self.times.ending(now);
            self.state = State::Ending(why);
        }
    }

    fn encode(&mut self, message: &[u8]) -> Result<Encoded, LayerError> {
        let encoded = self.layer.encode(message, self.queue.wire());
        // A layer that has ended sends nothing more, but the bytes before its end are still written.
        if encoded.is_err() && self.is_open() {
            self.broken();
        }
        encoded
    }

    /// Queues the unwritten rest of a message.
    fn put(&mut self, rest: &[u8], encoded: Result<Encoded, LayerError>, token: Token, now: Instant) {
        self.times.sent_message(now);
        match encoded {
            Ok(Encoded::Unchanged) if rest.is_empty() => self.queue.wrote(token),
            Ok(Encoded::Unchanged) => self.queue.push(rest, token),
            Ok(Encoded::Appended) if self.queue.is_empty() => self.queue.wrote(token),
            // The message is delivered after the bytes that the layer appended before.
            Ok(Encoded::Appended) => self.queue.push(&[], token),
            Err(_) => self.queue.refused(token),
        }
        if !self.queue.is_empty() {
            self.times.queued(now);
        }
    }

    /// Calls the layer for bytes that belong to no sent message.
    fn append<T>(&mut self, now: Instant, append: impl FnOnce(&mut L, &mut F, &mut Vec<u8>) -> T) -> T {
        let before = self.queue.waiting().len();
        let result = append(&mut self.layer, &mut self.framer, self.queue.wire());
        if self.queue.waiting().len() > before {
            self.has_own_bytes = true;
            self.times.queued(now);
        }
        result
    }

    fn check_queue(&mut self, limits: &StreamLimits) {
        let is_over = self.unwritten_bytes() + self.layer.held_bytes() > limits.write_queue_bytes_max;
        if (is_over || self.queue.messages() > limits.write_queue_messages_max) && Defence::WriteQueue.is_on()
        {
            self.fail(CloseReason::Unread);
        }
    }
}

#[cfg(test)]
#[path = "connection_tests.rs"]
mod tests;
