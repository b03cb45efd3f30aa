//! One stream connection: its framer, what waits to be written, and the times it must keep.
//!
//! ```text
//! dialled --> Connecting --connected--> Open --> closed
//!                 |                      ^
//!                 +--failed--> closed    +-- accepted
//! ```

use ringway_sansio::{
    Closing, Flow, Framer, Instant, Origin, StreamLimits, StreamTimes, TimerKey, Token, WriteQueue,
};
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;

use crate::sys::Interest;

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
    pub(crate) framer: F,
    queue: WriteQueue,
    pub(crate) times: StreamTimes,
    pub(crate) interest: Interest,
    /// Bytes of [`Connection::held_bytes`] that are accounted.
    pub(crate) accounted: usize,
    /// The one timer it has, and when that fires: at a deadline it had, or before.
    pub(crate) timer: TimerKey,
    pub(crate) timer_at: Instant,
}

impl<F: Framer> Connection<F> {
    pub(crate) fn new(stream: TcpStream, flow: Flow, origin: Origin, framer: F, now: Instant) -> Self {
        let interest = match origin {
            Origin::Accepted => Interest::Read,
            Origin::Dialled => Interest::Write,
        };
        Self {
            stream,
            flow,
            framer,
            queue: WriteQueue::default(),
            times: StreamTimes::new(origin, now),
            interest,
            accounted: 0,
            timer: TimerKey::NONE,
            timer_at: Instant::FAR,
        }
    }

    /// Reads once, into the framer.
    pub(crate) fn fill(&mut self, room: &mut [u8], now: Instant) -> Filled {
        match self.stream.read(room) {
            Ok(0) => Filled::Ended,
            Ok(count) => {
                self.times.heard(now);
                self.framer.push(room.get(..count).unwrap_or_default());
                Filled::Bytes(count)
            }
            Err(error) if is_transient(&error) => Filled::Nothing,
            Err(_) => Filled::Ended,
        }
    }

    /// Notes whether a message is now half there; `whole`: at least one has just become whole.
    pub(crate) fn note_frames(&mut self, whole: bool, now: Instant) {
        self.times.note_frames(self.framer.is_partial(), whole, now);
        if whole {
            self.queue.answered();
        }
    }

    /// Writes bytes, or queues what the kernel does not take. After an error the connection is of no use; the token is
    /// among [`Connection::undelivered`] then.
    pub(crate) fn send(&mut self, bytes: &[u8], token: Token, more: More, now: Instant) -> io::Result<usize> {
        let mut written = 0;
        let result = if self.times.is_open() && more == More::None && self.queue.is_empty() {
            write_some(&mut self.stream, bytes).map(|count| written = count)
        } else {
            Ok(())
        };
        if written < bytes.len() {
            let queued_before = !self.queue.is_empty();
            self.queue.push(bytes.get(written..).unwrap_or_default(), token);
            self.times.queued(now);
            result?;
            if queued_before && more == More::None {
                written += self.drain(now)?;
            }
        } else {
            self.queue.wrote(token);
        }
        Ok(written)
    }

    /// Writes what waits, as far as the kernel takes it.
    pub(crate) fn drain(&mut self, now: Instant) -> io::Result<usize> {
        let mut total = 0;
        while self.times.is_open() && !self.queue.is_empty() {
            let count = write_some(&mut self.stream, self.queue.waiting())?;
            if count == 0 {
                break;
            }
            self.queue.advance(count);
            self.times.took(now);
            total += count;
        }
        if self.queue.is_empty() {
            self.times.drained();
        }
        Ok(total)
    }

    /// Bytes that wait to be written.
    pub(crate) fn queued(&self) -> usize {
        self.queue.waiting().len()
    }

    /// Bytes of memory that its framer and its write queue hold.
    pub(crate) fn held_bytes(&self) -> usize {
        self.framer.held_bytes() + self.queue.held_bytes()
    }

    /// The tokens of messages that were not written whole, or that nothing came back for.
    pub(crate) fn undelivered(&mut self) -> impl Iterator<Item = Token> + '_ {
        self.queue.undelivered()
    }

    /// Messages that [`Connection::undelivered`] leaves out because there were too many.
    pub(crate) const fn unreported(&self) -> u64 {
        self.queue.unreported()
    }

    /// What to watch it for.
    pub(crate) fn wanted(&self) -> Interest {
        match (self.times.is_open(), self.queue.is_empty()) {
            (false, _) => Interest::Write,
            (true, true) => Interest::Read,
            (true, false) => Interest::ReadWrite,
        }
    }

    /// When it must be closed if nothing happens, and why.
    pub(crate) fn deadline(&self, limits: &StreamLimits) -> (Instant, Closing) {
        self.times.deadline(limits)
    }
}

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
