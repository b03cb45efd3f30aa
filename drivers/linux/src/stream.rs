//! A stream connection with its socket.

use crate::sys::Interest;
use ringway_sansio::{Flow, Framer, Instant, TimerKey, Token};
use ringway_stream::{Broken, CloseReason, Connection, Origin, PassThrough, StreamLimits};
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;

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

/// What came of writing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Written {
    /// Bytes that the kernel took.
    pub(crate) bytes: usize,
    /// Bytes that waited before.
    pub(crate) waited: usize,
    /// Bytes that wait now.
    pub(crate) waits: usize,
    /// Why the connection must be closed, if it must.
    pub(crate) close: Option<CloseReason>,
}

pub(crate) struct Stream<F> {
    pub(crate) socket: TcpStream,
    /// With its own number in it.
    pub(crate) flow: Flow,
    pub(crate) connection: Connection<F>,
    pub(crate) interest: Interest,
    /// Bytes of [`Connection::unwritten_bytes`] that are accounted.
    pub(crate) unwritten: usize,
    /// Bytes of [`Connection::held_bytes`] that are accounted.
    pub(crate) accounted: usize,
    /// The one timer it has, and when that fires: at a deadline it had, or before.
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

    /// Reads once, into the connection.
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

    /// Sends a message.
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

    /// Writes what the connection owes the peer by itself.
    pub(crate) fn respond(&mut self, limits: &StreamLimits, now: Instant) -> Written {
        self.write(|socket, connection| connection.respond(limits, now, |bytes| write_some(socket, bytes)))
    }

    /// Writes what waits.
    pub(crate) fn flush(&mut self, now: Instant) -> Written {
        self.write(|socket, connection| connection.flush(now, |bytes| write_some(socket, bytes)))
    }

    fn write(&mut self, write: impl FnOnce(&mut TcpStream, &mut Connection<F>) -> usize) -> Written {
        let bytes = write(&mut self.socket, &mut self.connection);
        let waits = self.connection.unwritten_bytes();
        let waited = std::mem::replace(&mut self.unwritten, waits);
        Written { bytes, waited, waits, close: self.connection.close_reason() }
    }

    /// What to watch it for.
    pub(crate) fn wanted(&self) -> Interest {
        match (self.connection.is_receiving(), self.connection.unwritten_bytes() == 0) {
            (false, _) => Interest::Write,
            (true, true) => Interest::Read,
            (true, false) => Interest::ReadWrite,
        }
    }
}

/// How many bytes the kernel took; none when there is no room.
fn write_some(socket: &mut TcpStream, bytes: &[u8]) -> Result<usize, Broken> {
    match socket.write(bytes) {
        Ok(count) => Ok(count),
        Err(error) if is_transient(&error) => Ok(0),
        Err(_) => Err(Broken),
    }
}

fn is_transient(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}
