//! Sockets between the generator and the server: four UDP sockets, or 200 TCP connections.

use crate::sys::{BATCH, Inbound, Outbound, Wait};
use anyhow::{Context, Result, anyhow};
use rustix::event::{Timespec, epoll};
use rustix::net::sockopt;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};

/// The UDP sockets of all phones: phone `n` uses socket `n % PHONE_SOCKETS`.
pub const PHONE_SOCKETS: usize = 4;

/// Number of TCP connections in the rows over TCP.
pub const CONNECTIONS: usize = 200;

/// Called with the socket on which a message arrived, its bytes, and the queues for responses.
pub type OnMessage<'a> = &'a mut dyn FnMut(usize, &[u8], &mut [Outbound]) -> Result<()>;

/// Sockets of either kind.
pub trait Wire {
    /// Messages to send, by socket.
    fn outbound(&mut self) -> &mut [Outbound];

    /// Sends all queued messages.
    fn flush(&mut self) -> Result<()>;

    /// Passes on the queued messages and returns their number. It never blocks: waking a generator that
    /// sleeps on its sockets would be charged to the server, and more often to a slower one.
    fn receive(&mut self, on_message: OnMessage<'_>) -> Result<usize>;
}

/// The phones' UDP sockets.
pub struct Phones {
    sockets: Vec<UdpSocket>,
    outbound: Vec<Outbound>,
    inbound: Inbound,
}

impl Phones {
    /// Binds the sockets to free ports.
    pub fn bind() -> Result<Self> {
        let mut sockets = Vec::with_capacity(PHONE_SOCKETS);
        for _ in 0..PHONE_SOCKETS {
            let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).context("bind a phone's socket")?;
            socket.set_nonblocking(true).context("set a phone's socket")?;
            large_buffers(&socket)?;
            sockets.push(socket);
        }
        let outbound = sockets.iter().map(|_| Outbound::new()).collect();
        Ok(Self { sockets, outbound, inbound: Inbound::new() })
    }

    /// Connects the phones to `server`.
    pub fn connect(&self, server: SocketAddrV4) -> Result<()> {
        self.sockets
            .iter()
            .try_for_each(|socket| socket.connect(server).context("connect a phone's socket to the server"))
    }

    /// The ports, by socket.
    pub fn ports(&self) -> Result<[u16; PHONE_SOCKETS]> {
        let mut ports = [0; PHONE_SOCKETS];
        for (port, socket) in ports.iter_mut().zip(&self.sockets) {
            *port = socket.local_addr().context("read a phone's port")?.port();
        }
        Ok(ports)
    }
}

impl Wire for Phones {
    fn outbound(&mut self) -> &mut [Outbound] {
        &mut self.outbound
    }

    fn flush(&mut self) -> Result<()> {
        for (socket, outbound) in self.sockets.iter().zip(&mut self.outbound) {
            outbound.flush(socket.as_fd()).context("send to the server")?;
        }
        Ok(())
    }

    fn receive(&mut self, on_message: OnMessage<'_>) -> Result<usize> {
        let mut total = 0;
        for (number, socket) in self.sockets.iter().enumerate() {
            let count = self
                .inbound
                .receive(socket.as_fd(), BATCH, Wait::Never)
                .context("receive from the server (is it still running?)")?;
            for index in 0..count {
                on_message(number, self.inbound.bytes(index), &mut self.outbound)?;
            }
            total += count;
        }
        Ok(total)
    }
}

/// Sets the socket's buffers to the size of a whole window, above the system's limit if permitted.
pub fn large_buffers(socket: &UdpSocket) -> Result<()> {
    const ROOM_BYTES: usize = 4 << 20;
    if sockopt::set_socket_recv_buffer_size_force(socket, ROOM_BYTES).is_err() {
        sockopt::set_socket_recv_buffer_size(socket, ROOM_BYTES).context("enlarge a socket's buffer")?;
    }
    sockopt::set_socket_send_buffer_size(socket, ROOM_BYTES).context("enlarge a socket's buffer")
}

/// TCP connections with one message in transit on each.
pub struct Connections {
    epoll: OwnedFd,
    streams: Vec<Stream>,
    outbound: Vec<Outbound>,
    events: Vec<epoll::Event>,
}

struct Stream {
    socket: TcpStream,
    pending: Vec<u8>,
}

impl Connections {
    /// Opens [`CONNECTIONS`] connections.
    pub fn open(server: SocketAddrV4) -> Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).context("create an epoll")?;
        let mut streams = Vec::with_capacity(CONNECTIONS);
        for number in 0..CONNECTIONS {
            let socket = TcpStream::connect(server).context("connect to the server")?;
            socket.set_nodelay(true).context("set a connection")?;
            socket.set_nonblocking(true).context("set a connection")?;
            epoll::add(&epoll, &socket, epoll::EventData::new_u64(number as u64), epoll::EventFlags::IN)
                .context("watch a connection")?;
            streams.push(Stream { socket, pending: Vec::new() });
        }
        Ok(Self {
            epoll,
            streams,
            outbound: (0..CONNECTIONS).map(|_| Outbound::new()).collect(),
            events: Vec::with_capacity(CONNECTIONS),
        })
    }
}

impl Wire for Connections {
    fn outbound(&mut self) -> &mut [Outbound] {
        &mut self.outbound
    }

    fn flush(&mut self) -> Result<()> {
        for (stream, outbound) in self.streams.iter_mut().zip(&mut self.outbound) {
            if !outbound.is_empty() {
                outbound.take_bytes(|bytes| stream.socket.write_all(bytes)).context("send to the server")?;
            }
        }
        Ok(())
    }

    fn receive(&mut self, on_message: OnMessage<'_>) -> Result<usize> {
        self.events.clear();
        let room = rustix::buffer::spare_capacity(&mut self.events);
        match epoll::wait(&self.epoll, room, Some(&NO_TIME)) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => return Ok(0),
            Err(error) => return Err(error).context("ask for what the server sent"),
        }
        let mut total = 0;
        for event in &self.events {
            let number = event.data.u64() as usize;
            let Some(stream) = self.streams.get_mut(number) else { continue };
            stream.read()?;
            while let Some(end) = memchr::memmem::find(&stream.pending, b"\r\n\r\n") {
                // The received messages have no body: responses to REGISTER, or the REGISTER itself from the
                // floor.
                let (message, _) = stream.pending.split_at(end + 4);
                on_message(number, message, &mut self.outbound)?;
                stream.pending.drain(..end + 4);
                total += 1;
            }
        }
        Ok(total)
    }
}

const NO_TIME: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

impl Stream {
    fn read(&mut self) -> Result<()> {
        let mut room = [0; 4096];
        match self.socket.read(&mut room) {
            Ok(0) => Err(anyhow!("the server closed a connection")),
            Ok(count) => {
                self.pending.extend_from_slice(room.get(..count).unwrap_or_default());
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            Err(error) => Err(error).context("receive from the server"),
        }
    }
}
