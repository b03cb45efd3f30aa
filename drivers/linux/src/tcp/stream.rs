//! A stream connection with its socket.

use crate::dscp::Dscp;
use crate::listeners::set_stream_options;
use crate::sys::{Interest, defer_port, read_stamped};
use ringway_sansio::{Flow, Framer, Instant, TimerKey, Token};
use ringway_stream::{CloseReason, Connection, Layer, Origin, PassThrough, StreamLimits, WriteFailed};
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{self, ErrorKind, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;

/// Tells if more bytes for the same connection follow at once, so that one write can take all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum More {
    /// The bytes are queued only.
    Follows,
    /// The bytes are written.
    None,
}

/// Result of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filled {
    /// No bytes are available.
    Nothing,
    /// Number of bytes.
    Bytes(usize),
    /// The peer sends nothing more, or the socket failed.
    Ended,
}

/// Result of a write.
#[derive(Clone, Copy, Debug)]
pub struct Written {
    /// Bytes that the kernel accepted.
    pub bytes: usize,
    /// Bytes in the write queue before.
    pub waited: usize,
    /// Bytes in the write queue now.
    pub waits: usize,
    /// Reason for which the connection must be closed, if it must.
    pub close: Option<CloseReason>,
}

/// Stream connection with its socket and the protocol layer between both.
#[derive(Debug)]
pub struct Stream<F, L = PassThrough> {
    /// The socket, non-blocking.
    pub socket: TcpStream,
    /// Flow with the connection's number.
    pub flow: Flow,
    /// State of the connection.
    pub connection: Connection<F, L>,
    /// Events for which epoll watches the socket.
    pub interest: Interest,
    /// Accounted value of [`Connection::unwritten_bytes`].
    pub unwritten: usize,
    /// Accounted value of [`Connection::held_bytes`].
    pub accounted: usize,
    /// The connection's timer, and its time: at a deadline, or earlier.
    pub timer: TimerKey,
    /// Time of `timer`.
    pub timer_at: Instant,
    /// Arrival of the bytes that were read last.
    pub arrived_at: Instant,
}

impl<F: Framer, L: Layer> Stream<F, L> {
    /// Creates a connection that begins now.
    pub fn new(socket: TcpStream, flow: Flow, origin: Origin, framer: F, layer: L, now: Instant) -> Self {
        let interest = match origin {
            Origin::Accepted => Interest::Read,
            Origin::Dialled => Interest::Write,
        };
        Self {
            socket,
            flow,
            connection: Connection::new(origin, framer, layer, now),
            interest,
            unwritten: 0,
            accounted: 0,
            timer: TimerKey::NONE,
            timer_at: Instant::FAR,
            arrived_at: now,
        }
    }

    /// Reads once from the socket into the connection. The bytes came not earlier than `empty_at`, whatever their time stamp is: those that
    /// came out of order have that of their arrival, and could not be read before the missing ones had come.
    pub fn fill(&mut self, room: &mut [u8], now: Instant, empty_at: Instant) -> Filled {
        match read_stamped(self.socket.as_fd(), room) {
            Ok((0, _)) => {
                self.connection.peer_ended(now);
                Filled::Ended
            }
            Ok((count, waited)) => {
                self.arrived_at = (now - waited).max(empty_at);
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

    /// Sends a message, or queues it if more follow.
    pub fn send(
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
    pub fn respond(&mut self, limits: &StreamLimits, now: Instant) -> Written {
        self.write(|socket, connection| connection.respond(limits, now, |bytes| write_some(socket, bytes)))
    }

    /// Writes the write queue.
    pub fn flush(&mut self, now: Instant) -> Written {
        self.write(|socket, connection| connection.flush(now, |bytes| write_some(socket, bytes)))
    }

    fn write(&mut self, write: impl FnOnce(&mut TcpStream, &mut Connection<F, L>) -> usize) -> Written {
        let bytes = write(&mut self.socket, &mut self.connection);
        let waits = self.connection.unwritten_bytes();
        let waited = std::mem::replace(&mut self.unwritten, waits);
        Written { bytes, waited, waits, close: self.connection.close_reason() }
    }

    /// Events for which epoll must watch the socket.
    pub fn wanted(&self) -> Interest {
        match (self.connection.is_receiving(), self.connection.unwritten_bytes() == 0) {
            (false, _) => Interest::Write,
            (true, true) => Interest::Read,
            (true, false) => Interest::ReadWrite,
        }
    }
}

/// Starts a non-blocking connect, from `local` if given.
pub fn connect(remote: SocketAddr, local: Option<IpAddr>) -> io::Result<TcpStream> {
    connect_marked(remote, local, Dscp::NONE)
}

fn connect_marked(remote: SocketAddr, local: Option<IpAddr>, dscp: Dscp) -> io::Result<TcpStream> {
    let socket = unconnected(remote, dscp)?;
    if let Some(local) = local {
        defer_port(socket.as_fd())?;
        socket.bind(&SocketAddr::new(local, 0).into())?;
    }
    begin_connect(socket, remote)
}

/// Socket for a connection to `remote`, whose packets have the mark.
fn unconnected(remote: SocketAddr, dscp: Dscp) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(remote), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    set_stream_options(&socket)?;
    dscp.mark(&socket, remote.is_ipv6())?;
    Ok(socket)
}

fn begin_connect(socket: Socket, remote: SocketAddr) -> io::Result<TcpStream> {
    match socket.connect(&remote.into()) {
        Ok(()) => {}
        Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => {}
        Err(error) => return Err(error),
    }
    Ok(socket.into())
}

/// Starts a non-blocking connect, from the address of `listener` where that is possible: an earlier connection to the peer
/// may still have it.
pub(crate) fn connect_from(
    listener: Option<&TcpListener>,
    remote: SocketAddr,
    dscp: Dscp,
) -> io::Result<TcpStream> {
    let from = listener.and_then(|listener| listener.local_addr().ok());
    match from.map(|from| connect_at(from, remote, dscp)) {
        Some(Ok(socket)) => Ok(socket),
        Some(Err(_)) | None => connect_marked(remote, None, dscp),
    }
}

fn connect_at(local: SocketAddr, remote: SocketAddr, dscp: Dscp) -> io::Result<TcpStream> {
    let socket = unconnected(remote, dscp)?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(true)?;
    socket.bind(&local.into())?;
    begin_connect(socket, remote)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shard::tests::Never;
    use ringway_sansio::{ConnectionId, ListenerId};
    use socket2::SockRef;
    use std::time::Duration;

    #[test]
    fn bytes_did_not_come_before_the_socket_was_empty() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        crate::sys::stamp_arrivals(listener.as_fd()).unwrap();
        // The kernel needs a moment to start time stamping for the first socket that requests it.
        std::thread::sleep(Duration::from_millis(100));
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (accepted, remote) = listener.accept().unwrap();
        let flow = Flow { connection: Some(ConnectionId(1)), ..Flow::dial(ListenerId(0), remote) };
        let now = Instant::from_secs(100);
        let mut stream = Stream::new(accepted, flow, Origin::Accepted, Never, PassThrough, now);
        let waited = Duration::from_millis(60);
        for (empty_ms, is_stamp) in [(0, false), (20, false), (60_000, true)] {
            client.write_all(b"z").unwrap();
            std::thread::sleep(waited);
            let empty_at = now - Duration::from_millis(empty_ms);
            assert_eq!(stream.fill(&mut [0; 8], now, empty_at), Filled::Bytes(1));
            match is_stamp {
                true => assert!(stream.arrived_at <= now - waited * 3 / 4 && stream.arrived_at > empty_at),
                false => assert_eq!(stream.arrived_at, empty_at, "{empty_ms} ms"),
            }
        }
    }

    #[test]
    fn a_dialled_connection_has_the_mark() {
        let field = |listener: &TcpListener, from: Option<&TcpListener>, dscp| {
            let at = listener.local_addr().unwrap();
            let socket = connect_from(from, at, dscp).unwrap();
            match at.is_ipv6() {
                true => SockRef::from(&socket).tclass_v6().unwrap(),
                false => SockRef::from(&socket).tos_v4().unwrap(),
            }
        };
        for ip in ["127.0.0.1:0", "[::1]:0"] {
            let listener = TcpListener::bind(ip).unwrap();
            assert_eq!(field(&listener, None, Dscp::EF), 46 << 2, "{ip}");
            assert_eq!(field(&listener, None, Dscp::NONE), 0, "{ip}");
            let own = TcpListener::bind(ip).unwrap();
            assert_eq!(field(&listener, Some(&own), Dscp::EF), 46 << 2, "{ip} from a listener");
        }
    }
}
