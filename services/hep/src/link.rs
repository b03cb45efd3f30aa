//! Connection to a collector, and the bounded buffer of written packets between many threads and the one that sends.

use crate::packet::{self, Packet, PacketWriter};
use ringway_linux::sys::{BATCH_MAX, SendBatch, wait_writable};
use std::io::{self, ErrorKind, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Transport of the packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CollectorTransport {
    /// TCP: many packets a segment.
    Tcp,
    /// UDP: a datagram for each packet.
    Udp,
}

/// Open connection, or socket.
pub(crate) enum Link {
    Tcp(TcpStream),
    Udp { socket: UdpSocket, batch: SendBatch },
}

impl Link {
    /// Looks up the host and connects. May take long.
    pub(crate) fn connect(transport: CollectorTransport, host: &str, port: u16) -> io::Result<Self> {
        let mut error = io::Error::new(ErrorKind::NotFound, "the host has no address");
        for to in (host, port).to_socket_addrs()? {
            match Self::connect_to(transport, to) {
                Ok(link) => return Ok(link),
                Err(failed) => error = failed,
            }
        }
        Err(error)
    }

    fn connect_to(transport: CollectorTransport, to: SocketAddr) -> io::Result<Self> {
        match transport {
            CollectorTransport::Tcp => {
                let stream = TcpStream::connect_timeout(&to, TIME_MAX)?;
                stream.set_nonblocking(true)?;
                Ok(Self::Tcp(stream))
            }
            CollectorTransport::Udp => {
                let from: SocketAddr = match to {
                    SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
                    SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
                };
                let socket = UdpSocket::bind(from)?;
                // Connected, so that an ICMP error is reported.
                socket.connect(to)?;
                Ok(Self::Udp { socket, batch: SendBatch::new(BATCH_MAX) })
            }
        }
    }

    /// Error if the peer has closed the connection.
    pub(crate) fn check(&self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => match stream.peek(&mut [0]) {
                Ok(0) => Err(ErrorKind::ConnectionReset.into()),
                // A collector sends nothing; if one does, its bytes stay where they are.
                Ok(_) => Ok(()),
                Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(()),
                Err(error) => Err(error),
            },
            Self::Udp { socket, .. } => socket.take_error()?.map_or(Ok(()), Err),
        }
    }

    /// Sends packets, whole ones.
    pub(crate) fn send(&mut self, packets: &Packets) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => write_all(stream, &packets.bytes),
            Self::Udp { socket, batch } => {
                let mut rest = packets.bytes.as_slice();
                let mut sending = batch.begin();
                while !rest.is_empty() {
                    sending.clear();
                    while let Some((packet, after)) =
                        packet::length(rest).and_then(|len| rest.split_at_checked(len))
                        && sending.push_to_peer(packet, 0)
                    {
                        rest = after;
                    }
                    if sending.left() == 0 {
                        return Err(ErrorKind::InvalidData.into());
                    }
                    while sending.left() > 0 {
                        match sending.send(socket.as_fd()) {
                            Ok(_) => {}
                            Err(error) => wait_after(error, socket.as_fd())?,
                        }
                    }
                }
                Ok(())
            }
        }
    }
}

/// Writes all bytes to a stream that does not block.
fn write_all(stream: &mut TcpStream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match stream.write(bytes) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(count) => bytes = bytes.get(count..).unwrap_or_default(),
            Err(error) => wait_after(error, stream.as_fd())?,
        }
    }
    Ok(())
}

/// Waits until a full socket has room; returns every other error.
fn wait_after(error: io::Error, socket: BorrowedFd<'_>) -> io::Result<()> {
    match error.kind() {
        ErrorKind::WouldBlock if wait_writable(socket, TIME_MAX) => Ok(()),
        ErrorKind::WouldBlock => Err(ErrorKind::TimedOut.into()),
        ErrorKind::Interrupted => Ok(()),
        _ => Err(error),
    }
}

/// Time limit of connecting and of writing.
const TIME_MAX: Duration = Duration::from_secs(5);

#[derive(Default)]
pub(crate) struct Buffer {
    packets: Mutex<Packets>,
}

/// Written packets.
#[derive(Default)]
pub(crate) struct Packets {
    pub(crate) bytes: Vec<u8>,
    pub(crate) count: u64,
}

/// Result of [`Buffer::push`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pushed {
    Kept,
    /// It is kept, and the sending thread should not wait any longer.
    HalfFull,
    /// There is no room, or it is too long.
    Lost,
}

impl Buffer {
    pub(crate) fn push(&self, writer: &PacketWriter, packet: &Packet<'_>) -> Pushed {
        let mut packets = self.lock();
        let before = packets.bytes.len();
        if before + packet.payload.len() > WAITING_BYTES_MAX
            || writer.write(packet, &mut packets.bytes).is_err()
        {
            return Pushed::Lost;
        }
        packets.count += 1;
        let is_half = before < WAITING_BYTES_MAX / 2 && packets.bytes.len() >= WAITING_BYTES_MAX / 2;
        if is_half { Pushed::HalfFull } else { Pushed::Kept }
    }

    /// Exchanges the packets for `empty`, whose memory is used next.
    pub(crate) fn take(&self, empty: &mut Packets) {
        empty.bytes.clear();
        empty.count = 0;
        std::mem::swap(&mut *self.lock(), empty);
    }

    fn lock(&self) -> MutexGuard<'_, Packets> {
        self.packets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Maximum number of bytes of messages that wait, without the chunks of the last packet.
pub const WAITING_BYTES_MAX: usize = 4 << 20;

/// Bytes of memory of them, and of those that are being sent: a list is twice as long when it was full.
pub const MEMORY_BYTES_MAX: usize = 2 * (2 * WAITING_BYTES_MAX);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::TransportProtocol;
    use std::time::Duration;

    #[test]
    fn the_buffer_is_bounded_and_says_when_it_is_half_full() {
        let payload = vec![b'x'; 65_000];
        let packet = Packet {
            source: "192.0.2.1:1".parse().unwrap(),
            destination: "192.0.2.2:2".parse().unwrap(),
            protocol: TransportProtocol::Udp,
            time: Duration::ZERO,
            payload: &payload,
        };
        let (buffer, writer) = (Buffer::default(), PacketWriter::new(0, b"").unwrap());
        let pushed: Vec<_> = (0..100).map(|_| buffer.push(&writer, &packet)).collect();
        let count = |of| pushed.iter().filter(|pushed| **pushed == of).count();
        assert_eq!((count(Pushed::HalfFull), count(Pushed::Lost)), (1, 36));
        let mut packets = Packets::default();
        buffer.take(&mut packets);
        assert_eq!(packets.count, 64);
        assert!(packets.bytes.len() <= WAITING_BYTES_MAX + 200);
        assert_eq!(buffer.push(&writer, &packet), Pushed::Kept);
    }

    #[test]
    fn the_memory_of_full_buffers_is_the_published_one_at_most() {
        let payload = vec![b'x'; 500];
        let packet = Packet {
            source: "192.0.2.1:1".parse().unwrap(),
            destination: "192.0.2.2:2".parse().unwrap(),
            protocol: TransportProtocol::Udp,
            time: Duration::ZERO,
            payload: &payload,
        };
        let (buffer, writer) = (Buffer::default(), PacketWriter::new(0, b"").unwrap());
        let mut sent = Packets::default();
        let taken = allocation_counter::measure(|| {
            let fill = || while buffer.push(&writer, &packet) != Pushed::Lost {};
            fill();
            buffer.take(&mut sent);
            fill();
        });
        let taken = taken.bytes_current as usize;
        assert!((MEMORY_BYTES_MAX / 2..=MEMORY_BYTES_MAX).contains(&taken), "{taken} of {MEMORY_BYTES_MAX}");
    }
}
