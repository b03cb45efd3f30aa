//! State of a stream connection that every driver keeps: bytes that wait to be written, and timeouts.

use crate::{Instant, Token};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::time::Duration;

/// Limits of a stream connection in time and bytes. Reaching one closes the connection and is counted.
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
    /// For an accepted connection that nothing keeps ([`StreamTimes::keep`]): without a whole message in either direction.
    /// Keep-alives do not count.
    pub unused: Duration,
    /// For the peer to take some of the bytes that wait for it.
    pub write_stall: Duration,
    /// Bytes that wait for the peer to read, beyond what the kernel or the network stack holds.
    pub write_queue_bytes_max: usize,
}

impl Default for StreamLimits {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(4),
            message: Duration::from_secs(10),
            first_message: Duration::from_secs(60),
            idle: Duration::from_secs(7500),
            unused: Duration::MAX,
            write_stall: Duration::from_secs(30),
            write_queue_bytes_max: 1 << 20,
        }
    }
}

/// The reason for closing a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closing {
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
    /// Nothing keeps it, and no message was exchanged for too long.
    Unused,
    /// The peer does not read.
    Unread,
    /// Its source's connections together hold as many bytes as they may.
    SourceMemory,
    /// All connections, and whatever else shares the [`MemoryBound`](crate::MemoryBound), hold as many bytes as they may.
    Memory,
}

/// The side that began a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The peer.
    Accepted,
    /// We.
    Dialled,
}

/// The times of one connection, which [`StreamLimits`] limits.
#[derive(Clone, Copy, Debug)]
pub struct StreamTimes {
    origin: Origin,
    is_open: bool,
    /// Time of dialling, or of opening once it is open.
    since: Instant,
    last_bytes: Instant,
    last_message: Instant,
    kept_until: Instant,
    partial_since: Option<Instant>,
    waiting_since: Option<Instant>,
    has_spoken: bool,
}

impl StreamTimes {
    /// Of a connection that begins now. One that was accepted is open.
    pub const fn new(origin: Origin, now: Instant) -> Self {
        Self {
            origin,
            is_open: matches!(origin, Origin::Accepted),
            since: now,
            last_bytes: now,
            last_message: now,
            kept_until: now,
            partial_since: None,
            waiting_since: None,
            has_spoken: false,
        }
    }

    /// The side that began it.
    pub const fn origin(&self) -> Origin {
        self.origin
    }

    /// False while it is being dialled.
    pub const fn is_open(&self) -> bool {
        self.is_open
    }

    /// Time of dialling, or of opening once it is open.
    pub const fn since(&self) -> Instant {
        self.since
    }

    /// A dialled connection is made.
    pub fn opened(&mut self, now: Instant) {
        self.is_open = true;
        self.since = now;
        self.last_bytes = now;
        // The peer's time to read begins now.
        self.waiting_since = self.waiting_since.map(|_| now);
    }

    /// Bytes came.
    pub const fn heard(&mut self, now: Instant) {
        self.last_bytes = now;
    }

    /// Notes whether a message is now half there; `whole`: at least one has just become whole.
    pub fn note_frames(&mut self, is_partial: bool, whole: bool, now: Instant) {
        self.has_spoken |= whole;
        if whole {
            self.last_message = now;
        }
        self.partial_since = match is_partial {
            false => None,
            true if whole => Some(now),
            true => self.partial_since.or(Some(now)),
        };
    }

    /// A message was sent.
    pub const fn sent(&mut self, now: Instant) {
        self.last_message = now;
    }

    /// The connection is in use until `until` at least: [`StreamLimits::unused`] does not apply before.
    pub fn keep(&mut self, until: Instant) {
        self.kept_until = self.kept_until.max(until);
    }

    /// Bytes wait for the peer to read.
    pub fn queued(&mut self, now: Instant) {
        self.waiting_since = self.waiting_since.or(Some(now));
    }

    /// The peer took some of them.
    pub const fn took(&mut self, now: Instant) {
        self.waiting_since = Some(now);
    }

    /// None wait any more.
    pub const fn drained(&mut self) {
        self.waiting_since = None;
    }

    /// The time at which it must be closed if nothing happens, and the reason.
    pub fn deadline(&self, limits: &StreamLimits) -> (Instant, Closing) {
        if !self.is_open {
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
        if self.origin == Origin::Accepted {
            sooner(self.kept_until.max(self.last_message + limits.unused), Closing::Unused);
        }
        if let Some(since) = self.waiting_since {
            sooner(since + limits.write_stall, Closing::Unread);
        }
        first
    }
}

/// Bytes that wait, and where in the stream each message that somebody asks about ends.
#[derive(Debug, Default)]
pub struct WriteQueue {
    bytes: Vec<u8>,
    /// Number of `bytes` that are written.
    head: usize,
    /// Position in the stream of the first of `bytes`.
    base: u64,
    tokens: VecDeque<(u64, Token)>,
    /// The tokens of messages that were written while the peer had sent none.
    unanswered: Vec<Token>,
    /// Messages that found no room in `unanswered`.
    unreported: u64,
    is_answered: bool,
}

impl WriteQueue {
    /// Adds bytes of one message.
    pub fn push(&mut self, bytes: &[u8], token: Token) {
        self.bytes.extend_from_slice(bytes);
        if token != Token::NONE {
            self.tokens.push_back((self.base + self.bytes.len() as u64, token));
        }
    }

    /// The bytes to write next.
    pub fn waiting(&self) -> &[u8] {
        self.bytes.get(self.head..).unwrap_or_default()
    }

    /// True when nothing waits.
    pub const fn is_empty(&self) -> bool {
        self.head >= self.bytes.len()
    }

    /// Bytes of memory that it holds, unused capacity included.
    pub fn held_bytes(&self) -> usize {
        self.bytes.capacity()
            + self.tokens.capacity() * size_of::<(u64, Token)>()
            + self.unanswered.capacity() * size_of::<Token>()
    }

    /// So many of [`WriteQueue::waiting`] are written.
    pub fn advance(&mut self, count: usize) {
        self.head += count;
        let written = self.base + self.head as u64;
        while let Some(&(_, token)) = self.tokens.front().filter(|(end, _)| *end <= written) {
            self.tokens.pop_front();
            self.wrote(token);
        }
        if self.is_empty() {
            self.forget_written();
            // A connection that was slow once does not keep the room for it.
            if self.bytes.capacity() > KEPT_BYTES {
                self.bytes = Vec::new();
            }
            if self.tokens.capacity() > KEPT_TOKENS {
                self.tokens = VecDeque::new();
            }
        } else if self.head > KEPT_BYTES && self.head > self.bytes.len() / 2 {
            self.forget_written();
        }
    }

    /// A message was written whole, without waiting here.
    pub fn wrote(&mut self, token: Token) {
        if self.is_answered || token == Token::NONE {
            return;
        }
        if self.unanswered.len() < UNANSWERED_MAX {
            self.unanswered.push(token);
        } else {
            self.unreported += 1;
        }
    }

    /// The peer has sent a message: whoever sends from now on can tell by the connection's end.
    pub fn answered(&mut self) {
        self.is_answered = true;
        self.unanswered = Vec::new();
        self.unreported = 0;
    }

    /// Messages that [`WriteQueue::undelivered`] leaves out because more were written than it keeps tokens of.
    pub const fn unreported(&self) -> u64 {
        self.unreported
    }

    /// The tokens of messages that were not written whole, and of those that were written and never followed by a message of
    /// the peer.
    pub fn undelivered(&mut self) -> impl Iterator<Item = Token> + '_ {
        self.unanswered.drain(..).chain(self.tokens.drain(..).map(|(_, token)| token))
    }

    fn forget_written(&mut self) {
        self.base += self.head as u64;
        self.bytes.drain(..self.head);
        self.head = 0;
    }
}

/// Tokens kept of a connection that nothing came by yet. The senders of further messages wait for their own timers.
const UNANSWERED_MAX: usize = 64;

/// The room an empty queue keeps for the next time.
const KEPT_BYTES: usize = 4 << 10;

const KEPT_TOKENS: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_messages_and_what_keeps_it_hold_an_accepted_connection() {
        let limits = StreamLimits { unused: Duration::from_secs(60), ..StreamLimits::default() };
        let at = Instant::from_secs;
        let mut times = StreamTimes::new(Origin::Accepted, at(0));
        times.note_frames(false, true, at(10));
        times.heard(at(50));
        times.note_frames(false, false, at(50));
        assert_eq!(times.deadline(&limits), (at(70), Closing::Unused), "a keep-alive is no message");
        times.sent(at(65));
        assert_eq!(times.deadline(&limits), (at(125), Closing::Unused));
        times.keep(at(3600));
        times.keep(at(100));
        assert_eq!(times.deadline(&limits), (at(3600), Closing::Unused));
        times.keep(Instant::FAR);
        assert_eq!(times.deadline(&limits), (at(7550), Closing::Idle));
        let dialled = StreamTimes { is_open: true, ..StreamTimes::new(Origin::Dialled, at(0)) };
        assert_eq!(dialled.deadline(&limits), (at(7500), Closing::Idle));
    }

    #[test]
    fn a_token_is_kept_until_its_last_byte_is_written() {
        let mut queue = WriteQueue::default();
        queue.push(b"12345", Token(1));
        queue.push(b"678", Token::NONE);
        queue.push(b"9", Token(2));
        let left = |queue: &WriteQueue| queue.tokens.iter().map(|&(_, token)| token.0).collect::<Vec<_>>();
        queue.advance(4);
        assert_eq!((queue.waiting(), left(&queue)), (&b"56789"[..], alloc::vec![1, 2]));
        queue.advance(1);
        assert_eq!(left(&queue), [2]);
        queue.advance(4);
        assert!(queue.is_empty() && left(&queue).is_empty());
        queue.push(b"ab", Token(3));
        queue.advance(1);
        assert_eq!((queue.waiting(), left(&queue)), (&b"b"[..], alloc::vec![3]));
    }

    #[test]
    fn what_was_written_is_undelivered_until_the_peer_sends_a_message() {
        let mut queue = WriteQueue::default();
        queue.wrote(Token(1));
        queue.wrote(Token::NONE);
        queue.push(b"ab", Token(2));
        queue.push(b"cd", Token(3));
        queue.advance(3);
        assert_eq!(queue.undelivered().collect::<Vec<_>>(), [1, 2, 3].map(Token));

        let mut queue = WriteQueue::default();
        (1..1000).for_each(|token| queue.wrote(Token(token)));
        assert_eq!(
            (queue.unanswered.len(), queue.unreported()),
            (UNANSWERED_MAX, 999 - UNANSWERED_MAX as u64)
        );
        queue.answered();
        assert_eq!(queue.unreported(), 0);
        queue.wrote(Token(1000));
        queue.push(b"ab", Token(1001));
        assert_eq!(queue.undelivered().collect::<Vec<_>>(), [Token(1001)]);
    }

    #[test]
    fn an_empty_queue_keeps_little_of_what_it_held() {
        let mut queue = WriteQueue::default();
        queue.answered();
        for token in 1..1000 {
            queue.push(&[b'x'; 1000], Token(token));
        }
        assert!(queue.held_bytes() >= 999 * 1000 + 999 * 16);
        queue.advance(999 * 1000);
        assert!(queue.held_bytes() <= KEPT_BYTES + KEPT_TOKENS * 16, "{}", queue.held_bytes());
        queue.push(&[b'x'; 1000], Token(1000));
        queue.advance(1000);
        let kept = queue.held_bytes();
        queue.push(&[b'x'; 1000], Token(1001));
        assert_eq!(queue.held_bytes(), kept, "a message of usual size needs no other room");
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
