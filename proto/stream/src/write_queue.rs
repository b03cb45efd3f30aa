//! Queue of bytes that the socket has not accepted, and the messages whose delivery is uncertain.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use ringway_sansio::Token;

/// Queued bytes, and the end of each message in them.
#[derive(Debug, Default)]
pub(crate) struct WriteQueue {
    bytes: Vec<u8>,
    /// Number of `bytes` that are written.
    head: usize,
    /// Number of bytes that left the queue before the first of `bytes`.
    base: u64,
    ends: VecDeque<(u64, Token)>,
    /// Tokens of messages that were written before the peer sent any message.
    unanswered: Vec<Token>,
    /// Number of messages for which `unanswered` was full.
    unreported: u64,
    is_answered: bool,
}

impl WriteQueue {
    /// Adds bytes of one message.
    pub(crate) fn push(&mut self, bytes: &[u8], token: Token) {
        self.bytes.extend_from_slice(bytes);
        self.ends.push_back((self.base + self.bytes.len() as u64, token));
    }

    /// Notes that a message cannot be written.
    pub(crate) fn refused(&mut self, token: Token) {
        // Behind all bytes that can be.
        self.ends.push_back((u64::MAX, token));
    }

    /// True if a message with that token is queued.
    pub(crate) fn has(&self, token: Token) -> bool {
        self.ends.iter().any(|(_, of)| *of == token)
    }

    /// Removes a message of which nothing was written, and before which no layer appended bytes. False: there is none with that token.
    pub(crate) fn take_back(&mut self, token: Token) -> bool {
        let is_it = |&(end, of): &(u64, Token)| of == token && end != u64::MAX;
        let Some(at) = self.ends.iter().position(is_it).filter(|_| self.head == 0) else { return false };
        let start =
            at.checked_sub(1).and_then(|before| self.ends.get(before)).map_or(self.base, |(end, _)| *end);
        let Some((end, _)) = self.ends.remove(at) else { return false };
        self.bytes.drain((start - self.base) as usize..(end - self.base) as usize);
        for (behind, _) in self.ends.range_mut(at..).filter(|(behind, _)| *behind != u64::MAX) {
            *behind -= end - start;
        }
        true
    }

    /// Buffer that a layer appends to.
    pub(crate) const fn wire(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Bytes to write next.
    pub(crate) fn waiting(&self) -> &[u8] {
        self.bytes.get(self.head..).unwrap_or_default()
    }

    /// Number of queued messages.
    pub(crate) fn messages(&self) -> usize {
        self.ends.len()
    }

    /// True if no bytes are queued.
    pub(crate) const fn is_empty(&self) -> bool {
        self.head >= self.bytes.len()
    }

    /// Memory in use in bytes, unused capacity included.
    pub(crate) fn held_bytes(&self) -> usize {
        self.bytes.capacity()
            + self.ends.capacity() * size_of::<(u64, Token)>()
            + self.unanswered.capacity() * size_of::<Token>()
    }

    /// Removes the first `count` bytes of [`WriteQueue::waiting`], which are written.
    pub(crate) fn advance(&mut self, count: usize) {
        self.head += count;
        let written = self.base + self.head as u64;
        while let Some(&(_, token)) = self.ends.front().filter(|(end, _)| *end <= written) {
            self.ends.pop_front();
            self.wrote(token);
        }
        if self.is_empty() {
            self.forget_written();
            // Releases the memory that a slow period needed.
            if self.bytes.capacity() > KEPT_BYTES {
                self.bytes = Vec::new();
            }
            if self.ends.is_empty() && self.ends.capacity() > KEPT_ENDS {
                self.ends = VecDeque::new();
            }
        } else if self.head > KEPT_BYTES && self.head > self.bytes.len() / 2 {
            self.forget_written();
        }
    }

    /// Notes that a message was written completely, without queueing.
    pub(crate) fn wrote(&mut self, token: Token) {
        if self.is_answered || token == Token::NONE {
            return;
        }
        if self.unanswered.len() < UNANSWERED_MAX {
            self.unanswered.push(token);
        } else {
            self.unreported += 1;
        }
    }

    /// Notes that the peer sent a message: from now on the end of the connection reports failures to the senders.
    pub(crate) fn answered(&mut self) {
        self.is_answered = true;
        self.unanswered = Vec::new();
        self.unreported = 0;
    }

    /// Number of messages missing in [`WriteQueue::undelivered`], because more were written than tokens are kept.
    pub(crate) const fn unreported(&self) -> u64 {
        self.unreported
    }

    /// Tokens of messages that were not written completely, and of those that were written and never followed by a
    /// message of the peer.
    pub(crate) fn undelivered(&mut self) -> impl Iterator<Item = Token> + '_ {
        self.unanswered
            .drain(..)
            .chain(self.ends.drain(..).map(|(_, token)| token).filter(|token| *token != Token::NONE))
    }

    fn forget_written(&mut self) {
        self.base += self.head as u64;
        self.bytes.drain(..self.head);
        self.head = 0;
    }
}

/// Maximum number of tokens for a connection without a received message. The senders of further messages rely on their
/// timers.
const UNANSWERED_MAX: usize = 64;

/// Capacity that an empty queue keeps.
const KEPT_BYTES: usize = 4 << 10;

const KEPT_ENDS: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_kept_until_its_last_byte_is_written() {
        let mut queue = WriteQueue::default();
        queue.push(b"12345", Token(1));
        queue.push(b"678", Token::NONE);
        queue.push(b"9", Token(2));
        let left = |queue: &WriteQueue| {
            queue.ends.iter().map(|&(_, token)| token.0).filter(|token| *token != 0).collect::<Vec<_>>()
        };
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
    fn a_message_is_taken_back_and_the_others_stay() {
        let mut queue = WriteQueue::default();
        for (bytes, token) in [(&b"ab"[..], 1), (b"cde", 2), (b"f", 3)] {
            queue.push(bytes, Token(token));
        }
        queue.refused(Token(4));
        assert!(queue.take_back(Token(2)) && !queue.take_back(Token(2)) && !queue.take_back(Token(4)));
        assert_eq!(queue.waiting(), b"abf");
        queue.push(b"g", Token(5));
        queue.advance(3);
        assert_eq!(queue.waiting(), b"g");
        assert!(!queue.take_back(Token(5)), "it may be written in part");
        assert_eq!(queue.undelivered().collect::<Vec<_>>(), [1, 3, 4, 5].map(Token));
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
    fn a_refused_message_is_undelivered_after_all_bytes_are_written() {
        let mut queue = WriteQueue::default();
        queue.answered();
        for token in 1..100 {
            queue.push(&[b'x'; 1000], Token(token));
        }
        queue.refused(Token(100));
        queue.refused(Token::NONE);
        queue.advance(99 * 1000);
        assert!(queue.is_empty());
        assert_eq!(queue.undelivered().collect::<Vec<_>>(), [Token(100)]);
    }

    #[test]
    fn an_empty_queue_releases_its_memory() {
        let mut queue = WriteQueue::default();
        queue.answered();
        for token in 1..1000 {
            queue.push(&[b'x'; 1000], Token(token));
        }
        assert!(queue.held_bytes() >= 999 * 1000 + 999 * 16);
        queue.advance(999 * 1000);
        assert!(queue.held_bytes() <= KEPT_BYTES + KEPT_ENDS * 16, "{}", queue.held_bytes());
        queue.push(&[b'x'; 1000], Token(1000));
        queue.advance(1000);
        let kept = queue.held_bytes();
        queue.push(&[b'x'; 1000], Token(1001));
        assert_eq!(queue.held_bytes(), kept, "a message of usual size needs no allocation");
    }

    #[test]
    fn the_written_part_of_a_long_queue_is_released() {
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
