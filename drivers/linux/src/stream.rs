//! A stream connection with its socket.

use crate::sys::Interest;
use ringway_sansio::{Flow, Framer, Instant, TimerKey, Token};
use ringway_stream::{CloseReason, Connection, Origin, PassThrough, StreamLimits, WriteFailed};
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;

/// Tells if more bytes for the same connection follow at once, so that one write can take all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum More {
    Follows,
    None,
}

/// Result of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Filled {
    Nothing,
    Bytes(usize),
    Ended,
}

/// Result of a write.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Written {
    /// Bytes that the kernel accepted.
    pub(crate) bytes: usize,
    /// Bytes in the write queue before.
    pub(crate) waited: usize,
    /// Bytes in the write queue now.
    pub(crate) waits: usize,
    /// Reason for which the connection must be closed, if it must.
    pub(crate) close: Option<CloseReason>,
}

pub(crate) struct Stream<F> {
    pub(crate) socket: TcpStream,
    /// Flow with the connection's number.
    pub(crate) flow: Flow,
    pub(crate) connection: Connection<F>,
    pub(crate) interest: Interest,
    /// Accounted value of [`Connection::unwritten_bytes`].
    pub(crate) unwritten: usize,
    /// Accounted value of [`Connection::held_bytes`].
    pub(crate) accounted: usize,
    /// The connection's timer, and its time: at a deadline, or earlier.
    pub(crate) timer: TimerKey,
    pub(crate) timer_at: Instant,
}

impl<F: Framer> Stream<F> {
    pub(crate) fn new(socket: TcpStream, flow: Flow, origin: Origin, framer: F, now: Instant) -> Self {
        let interest = match origin {
            Origin::Accepted => Interest::Read,
            Origin::Dialled => Interest::Write,
        };
        Self {
            socket,
            flow,
            connection: Connection::new(origin, framer, PassThrough, now),
            interest,
            unwritten: 0,
            accounted: 0,
            timer: TimerKey::NONE,
            timer_at: Instant::FAR,
        }
    }

    /// Reads once from the socket into the connection.
    pub(crate) fn fill(&mut self, room: &mut [u8], now: Instant) -> Filled {
        match self.socket.read(room) {
            Ok(0) => {
                self.connection.peer_ended(now);
                Filled::Ended
            }
            Ok(count) => {
                self.connection.receive(room.get(..count).unwrap_or_default(), now);
                Filled::Bytes(count)
            }
            Err(error) if is_transient(&error) => Filled::Nothing,
            Err(_) => {
                self.connection.fail(CloseReason::Ended);
                Filled::Ended
            }
        }
    }

    pub(crate) fn send(
        &mut self,
        bytes: &[u8],
        token: Token,
        more: More,
        limits: &StreamLimits,
        now: Instant,
    ) -> Written {
        self.write(|socket, connection| match more {
            More::None => connection.send(bytes, token, limits, now, |bytes| write_some(socket, bytes)),
            More::Follows => {
                connection.queue(bytes, token, limits, now);
                0
            }
        })
    }

    /// Writes responses of the connection itself, such as pongs.
    pub(crate) fn respond(&mut self, limits: &StreamLimits, now: Instant) -> Written {
        self.write(|socket, connection| connection.respond(limits, now, |bytes| write_some(socket, bytes)))
    }

    /// Writes the write queue.
    pub(crate) fn flush(&mut self, now: Instant) -> Written {
        self.write(|socket, connection| connection.flush(now, |bytes| write_some(socket, bytes)))
    }

    fn write(&mut self, write: impl FnOnce(&mut TcpStream, &mut Connection<F>) -> usize) -> Written {
        let bytes = write(&mut self.socket, &mut self.connection);
        let waits = self.connection.unwritten_bytes();
        let waited = std::mem::replace(&mut self.unwritten, waits);
        Written { bytes, waited, waits, close: self.connection.close_reason() }
    }

    /// Events for which epoll must watch the socket.
    pub(crate) fn wanted(&self) -> Interest {
        match (self.connection.is_receiving(), self.connection.unwritten_bytes() == 0) {
            (false, _) => Interest::Write,
            (true, true) => Interest::Read,
            (true, false) => Interest::ReadWrite,
        }
    }
}

/// Writes to the socket; returns the number of accepted bytes, 0 if the buffer is full.
fn write_some(socket: &mut TcpStream, bytes: &[u8]) -> Result<usize, WriteFailed> {
    match socket.write(bytes) {
        Ok(count) => Ok(count),
        Err(error) if is_transient(&error) => Ok(0),
        Err(_) => Err(WriteFailed),
    }
}

fn is_transient(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}
