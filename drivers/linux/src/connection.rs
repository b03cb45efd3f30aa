//! One stream connection: its framer, what waits to be written, and the times it must keep.
//!
//! ```text
//! dialled --> Connecting --connected--> Open --> closed
//!                 |                      ^
//!                 +--failed--> closed    +-- accepted
//! ```

use ringway_sansio::{Flow, Framer, Instant, TimerKey, Token};
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::sys::Interest;

/// What a stream connection may take, in time and room. Reaching one closes the connection and is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamLimits {
    /// For a dialled connection to be made.
    pub connect: Duration,
    /// For a message to become whole once its first byte is there.
    pub message: Duration,
    /// For an accepted connection to bring its first whole message.
    pub first_message: Duration,
    /// Without a byte from the peer. Longer than any registration lasts, so that a phone that refreshes in time
    /// keeps its connection.
    pub idle: Duration,
    /// For the peer to take some of the bytes that wait for it.
    pub write_stall: Duration,
    /// Bytes that wait for the peer to read, beyond what the kernel holds.
    pub write_queue_bytes_max: usize,
}

impl Default for StreamLimits {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(4),
            message: Duration::from_secs(10),
            first_message: Duration::from_secs(60),
            idle: Duration::from_secs(7500),
            write_stall: Duration::from_secs(30),
            write_queue_bytes_max: 1 << 20,
        }
    }
}

/// Why a connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Closing {
    /// The peer closed it, or it broke.
    Ended,
    /// It could not be made.
    NotConnected,
    /// Its bytes are not messages.
    Framing,
    /// A message did not become whole in time.
    Slow,
    /// Nothing came for too long.
    Idle,
    /// The peer does not read.
    Unread,
}

/// Who began it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Accepted,
    Dialled,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Connecting,
    Open,
}

/// Whether more bytes for the same connection come at once, and one write can take all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum More {
    Follows,
    None,
}

/// What a read brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Filled {
    Nothing,
    Bytes(usize),
    Ended,
}

pub(crate) struct Connection<F> {
    pub(crate) stream: TcpStream,
    /// With its own number in it.
    pub(crate) flow: Flow,
    pub(crate) origin: Origin,
    pub(crate) state: State,
    pub(crate) framer: F,
    queue: WriteQueue,
    /// When it was dialled; once it is open, since when it is.
    pub(crate) since: Instant,
    last_bytes: Instant,
    partial_since: Option<Instant>,
    waiting_since: Option<Instant>,
    has_spoken: bool,
    pub(crate) interest: Interest,
    /// The one timer it has, and when that fires: at a deadline it had, or before.
    pub(crate) timer: TimerKey,
    pub(crate) timer_at: Instant,
}

impl<F: Framer> Connection<F> {
    pub(crate) fn new(stream: TcpStream, flow: Flow, origin: Origin, framer: F, now: Instant) -> Self {
        let (state, interest) = match origin {
            Origin::Accepted => (State::Open, Interest::Read),
            Origin::Dialled => (State::Connecting, Interest::Write),
        };
        Self {
            stream,
            flow,
            origin,
            state,
            framer,
            queue: WriteQueue::default(),
            since: now,
            last_bytes: now,
            partial_since: None,
            waiting_since: None,
            has_spoken: false,
            interest,
            timer: TimerKey::NONE,
            timer_at: Instant::FAR,
        }
    }

    /// A dialled connection is made.
    pub(crate) fn opened(&mut self, now: Instant) {
        self.state = State::Open;
        self.since = now;
        self.last_bytes = now;
        // The peer's time to read begins now.
        self.waiting_since = self.waiting_since.map(|_| now);
    }

    /// Reads once, into the framer.
    pub(crate) fn fill(&mut self, room: &mut [u8], now: Instant) -> Filled {
        match self.stream.read(room) {
            Ok(0) => Filled::Ended,
            Ok(count) => {
                self.last_bytes = now;
                self.framer.push(room.get(..count).unwrap_or_default());
                Filled::Bytes(count)
            }
            Err(error) if is_transient(&error) => Filled::Nothing,
            Err(_) => Filled::Ended,
        }
    }

    /// Notes whether a message is now half there; `whole`: at least one has just become whole.
    pub(crate) fn note_frames(&mut self, whole: bool, now: Instant) {
        self.has_spoken |= whole;
        self.partial_since = match self.framer.is_partial() {
            false => None,
            true if whole => Some(now),
            true => self.partial_since.or(Some(now)),
        };
    }

    /// Writes bytes, or queues what the kernel does not take. After an error the connection is of no use; the token is
    /// among [`Connection::unwritten`] then.
    pub(crate) fn send(&mut self, bytes: &[u8], token: Token, more: More, now: Instant) -> io::Result<usize> {
        let mut written = 0;
        let result = if self.state == State::Open && more == More::None && self.queue.is_empty() {
            write_some(&mut self.stream, bytes).map(|count| written = count)
        } else {
            Ok(())
        };
        if written < bytes.len() {
            let queued_before = !self.queue.is_empty();
            self.queue.push(bytes.get(written..).unwrap_or_default(), token);
            self.waiting_since = self.waiting_since.or(Some(now));
            result?;
            if queued_before && more == More::None {
                written += self.drain(now)?;
            }
        }
        Ok(written)
    }

    /// Writes what waits, as far as the kernel takes it.
    pub(crate) fn drain(&mut self, now: Instant) -> io::Result<usize> {
        let mut total = 0;
        while self.state == State::Open && !self.queue.is_empty() {
            let count = write_some(&mut self.stream, self.queue.waiting())?;
            if count == 0 {
                break;
            }
            self.queue.advance(count);
            self.waiting_since = Some(now);
            total += count;
        }
        if self.queue.is_empty() {
            self.waiting_since = None;
        }
        Ok(total)
    }

    /// Bytes that wait to be written.
    pub(crate) fn queued(&self) -> usize {
        self.queue.waiting().len()
    }

    /// The tokens of messages that were not written whole.
    pub(crate) fn unwritten(&mut self) -> impl Iterator<Item = Token> + '_ {
        self.queue.tokens.drain(..).map(|(_, token)| token)
    }

    /// What to watch it for.
    pub(crate) fn wanted(&self) -> Interest {
        match (self.state, self.queue.is_empty()) {
            (State::Connecting, _) => Interest::Write,
            (State::Open, true) => Interest::Read,
            (State::Open, false) => Interest::ReadWrite,
        }
    }

    /// When it must be closed if nothing happens, and why.
    pub(crate) fn deadline(&self, limits: &StreamLimits) -> (Instant, Closing) {
        if self.state == State::Connecting {
            return (self.since + limits.connect, Closing::NotConnected);
        }
        let mut first = (self.last_bytes + limits.idle, Closing::Idle);
        let mut sooner = |at: Instant, why| {
            if at < first.0 {
                first = (at, why);
            }
        };
        if let Some(since) = self.partial_since {
            sooner(since + limits.message, Closing::Slow);
        }
        if self.origin == Origin::Accepted && !self.has_spoken {
            sooner(self.since + limits.first_message, Closing::Slow);
        }
        if let Some(since) = self.waiting_since {
            sooner(since + limits.write_stall, Closing::Unread);
        }
        first
    }
}

/// Bytes that wait, and where in the stream each message that somebody asks about ends.
#[derive(Default)]
struct WriteQueue {
    bytes: Vec<u8>,
    /// How many of `bytes` are written.
    head: usize,
    /// How many bytes went through the queue before `bytes`' first.
    base: u64,
    tokens: VecDeque<(u64, Token)>,
}

impl WriteQueue {
    fn push(&mut self, bytes: &[u8], token: Token) {
        self.bytes.extend_from_slice(bytes);
        if token != Token::NONE {
            self.tokens.push_back((self.base + self.bytes.len() as u64, token));
        }
    }

    fn waiting(&self) -> &[u8] {
        self.bytes.get(self.head..).unwrap_or_default()
    }

    fn is_empty(&self) -> bool {
        self.head >= self.bytes.len()
    }

    fn advance(&mut self, count: usize) {
        self.head += count;
        let written = self.base + self.head as u64;
        while self.tokens.front().is_some_and(|&(end, _)| end <= written) {
            self.tokens.pop_front();
        }
        if self.is_empty() {
            self.forget_written();
            // A connection that was slow once does not keep the room for it.
            if self.bytes.capacity() > KEPT_BYTES {
                self.bytes = Vec::new();
            }
        } else if self.head > KEPT_BYTES && self.head > self.bytes.len() / 2 {
            self.forget_written();
        }
    }

    fn forget_written(&mut self) {
        self.base += self.head as u64;
        self.bytes.drain(..self.head);
        self.head = 0;
    }
}

/// The room an empty queue keeps for the next time.
const KEPT_BYTES: usize = 16 << 10;

/// How many bytes the kernel took; none when there is no room.
fn write_some(stream: &mut TcpStream, bytes: &[u8]) -> io::Result<usize> {
    match stream.write(bytes) {
        Ok(count) => Ok(count),
        Err(error) if is_transient(&error) => Ok(0),
        Err(error) => Err(error),
    }
}

fn is_transient(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_kept_until_its_last_byte_is_written() {
        let mut queue = WriteQueue::default();
        queue.push(b"12345", Token(1));
        queue.push(b"678", Token::NONE);
        queue.push(b"9", Token(2));
        let left = |queue: &WriteQueue| queue.tokens.iter().map(|&(_, token)| token.0).collect::<Vec<_>>();
        queue.advance(4);
        assert_eq!((queue.waiting(), left(&queue)), (&b"56789"[..], vec![1, 2]));
        queue.advance(1);
        assert_eq!(left(&queue), [2]);
        queue.advance(4);
        assert!(queue.is_empty() && left(&queue).is_empty());
        queue.push(b"ab", Token(3));
        queue.advance(1);
        assert_eq!((queue.waiting(), left(&queue)), (&b"b"[..], vec![3]));
    }

    #[test]
    fn the_written_part_of_a_long_queue_is_given_back() {
        let mut queue = WriteQueue::default();
        for round in 1..200_u64 {
            queue.push(&[b'x'; 1000], Token(round));
            queue.push(&[b'x'; 1000], Token::NONE);
            queue.advance(if round < 50 { 1000 } else { 2000 });
        }
        assert_eq!(queue.waiting().len(), 49_000);
        assert!(queue.bytes.len() < 49_000 * 2 + KEPT_BYTES);
    }
}
