//! Connection to a collector.

use crate::buffer::Packets;
use crate::packet;
use ringway_linux::sys::{BATCH_MAX, SendBatch, wait_writable};
use std::io::{self, ErrorKind, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs, UdpSocket};
use std::os::fd::AsFd;
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
    Udp { socket: UdpSocket, to: SocketAddr, batch: SendBatch },
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
                stream.set_write_timeout(Some(TIME_MAX))?;
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
                Ok(Self::Udp { socket, to, batch: SendBatch::new(BATCH_MAX) })
            }
        }
    }

    /// Error if the peer has closed the connection.
    pub(crate) fn check(&self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => {
                stream.set_nonblocking(true)?;
                let peeked = stream.peek(&mut [0]);
                stream.set_nonblocking(false)?;
                match peeked {
                    Ok(0) => Err(ErrorKind::ConnectionReset.into()),
                    // A collector sends nothing; if one does, its bytes stay where they are.
                    Ok(_) => Ok(()),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(()),
                    Err(error) => Err(error),
                }
            }
            Self::Udp { socket, .. } => socket.take_error()?.map_or(Ok(()), Err),
        }
    }

    /// Sends packets, whole ones.
    pub(crate) fn send(&mut self, packets: &Packets) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.write_all(&packets.bytes),
            Self::Udp { socket, to, batch } => {
                let mut rest = packets.bytes.as_slice();
                let mut sending = batch.begin();
                while !rest.is_empty() {
                    sending.clear();
                    while let Some((packet, after)) =
                        packet::length(rest).and_then(|len| rest.split_at_checked(len))
                        && sending.push(*to, packet, 0)
                    {
                        rest = after;
                    }
                    if sending.left() == 0 {
                        return Err(ErrorKind::InvalidData.into());
                    }
                    while sending.left() > 0 {
                        match sending.send(socket.as_fd()) {
                            Ok(_) => {}
                            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                                if !wait_writable(socket.as_fd(), TIME_MAX) {
                                    return Err(ErrorKind::TimedOut.into());
                                }
                            }
                            Err(error) if error.kind() == ErrorKind::Interrupted => {}
                            Err(error) => return Err(error),
                        }
                    }
                }
                Ok(())
            }
        }
    }
}

/// Time limit of connecting and of writing.
const TIME_MAX: Duration = Duration::from_secs(5);
