//! System calls without a safe wrapper: many datagrams in one call, and real-time priority.
#![allow(unsafe_code)]

use std::io;
use std::mem;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

/// Maximum number of datagrams in one system call.
pub const BATCH: usize = 64;

/// Buffer size of one datagram; longer ones, which do not occur, are truncated.
const DATAGRAM_BYTES_MAX: usize = 2048;

/// Size of large socket buffers.
const BUFFER_BYTES: usize = 4 << 20;

/// Default priority of `ringway`'s media thread.
pub const REAL_TIME_PRIORITY: u8 = 20;

/// Sets this thread's real-time priority (`SCHED_FIFO`), 1 to 99.
///
/// # Errors
/// No permission: it needs `CAP_SYS_NICE` or a limit on real-time priority.
pub fn set_real_time(priority: u8) -> io::Result<()> {
    let parameter = libc::sched_param { sched_priority: libc::c_int::from(priority) };
    // SAFETY: `parameter` is valid during the call; 0 is the calling thread.
    match unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &parameter) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Sets the buffers of a socket for the messages of thousands of users, above the system's limit if permitted.
pub fn large_buffers(socket: &UdpSocket) {
    ringway_linux::sys::set_buffers(socket.as_fd(), BUFFER_BYTES);
}

/// Behaviour of a receiver without a queued datagram.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// Waits for the first datagram.
    ForOne,
    /// Returns at once without a datagram.
    Never,
}

/// A batch of received datagrams.
pub struct Inbound {
    room: Vec<[u8; DATAGRAM_BYTES_MAX]>,
    addresses: Vec<libc::sockaddr_in>,
    lengths: [usize; BATCH],
}

impl Default for Inbound {
    fn default() -> Self {
        Self::new()
    }
}

impl Inbound {
    /// Creates an empty batch.
    pub fn new() -> Self {
        // SAFETY: sockaddr_in consists of integers, for which zero is valid.
        let address: libc::sockaddr_in = unsafe { mem::zeroed() };
        Self {
            room: vec![[0; DATAGRAM_BYTES_MAX]; BATCH],
            addresses: vec![address; BATCH],
            lengths: [0; BATCH],
        }
    }

    /// Receives up to `limit` (at most [`BATCH`]) queued datagrams from an IPv4 `socket`; returns their
    /// number.
    ///
    /// # Errors
    /// The error of the socket, e.g. "connection refused" on a connected socket whose peer is gone.
    pub fn receive(&mut self, socket: BorrowedFd<'_>, limit: usize, wait: Wait) -> io::Result<usize> {
        // SAFETY: mmsghdr and iovec consist of integers and pointers, for which zero is valid.
        let mut headers: [libc::mmsghdr; BATCH] = unsafe { mem::zeroed() };
        // SAFETY: as above.
        let mut pieces: [libc::iovec; BATCH] = unsafe { mem::zeroed() };
        for (((header, piece), room), address) in
            headers.iter_mut().zip(&mut pieces).zip(&mut self.room).zip(&mut self.addresses)
        {
            piece.iov_base = room.as_mut_ptr().cast();
            piece.iov_len = DATAGRAM_BYTES_MAX;
            header.msg_hdr.msg_iov = piece;
            header.msg_hdr.msg_iovlen = 1;
            header.msg_hdr.msg_name = (&raw mut *address).cast();
            header.msg_hdr.msg_namelen = mem::size_of::<libc::sockaddr_in>() as libc::socklen_t;
        }
        let flags = match wait {
            Wait::ForOne => libc::MSG_WAITFORONE,
            Wait::Never => libc::MSG_DONTWAIT,
        };
        let count = limit.min(BATCH) as libc::c_uint;
        // SAFETY: the headers point to `count` live buffers of the lengths given, all of them borrowed by `self` or
        // on this stack until the call returns.
        let taken = unsafe {
            libc::recvmmsg(socket.as_raw_fd(), headers.as_mut_ptr(), count, flags, std::ptr::null_mut())
        };
        if taken < 0 {
            let error = io::Error::last_os_error();
            return match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(0),
                _ => Err(error),
            };
        }
        for (length, header) in self.lengths.iter_mut().zip(&headers) {
            *length = (header.msg_len as usize).min(DATAGRAM_BYTES_MAX);
        }
        Ok(taken as usize)
    }

    /// Bytes of datagram `index` of the last batch.
    pub fn bytes(&self, index: usize) -> &[u8] {
        match (self.room.get(index), self.lengths.get(index)) {
            (Some(room), Some(&length)) => room.get(..length).unwrap_or_default(),
            _ => &[],
        }
    }

    /// Sender of datagram `index` of the last batch.
    pub fn sender(&self, index: usize) -> SocketAddrV4 {
        self.addresses.get(index).map_or(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0), |address| {
            SocketAddrV4::new(
                Ipv4Addr::from(u32::from_be(address.sin_addr.s_addr)),
                u16::from_be(address.sin_port),
            )
        })
    }
}

/// Queue of datagrams to send, in one arena.
#[derive(Default)]
pub struct Outbound {
    arena: Vec<u8>,
    packets: Vec<Waiting>,
}

struct Waiting {
    start: usize,
    end: usize,
    to: Option<SocketAddrV4>,
}

impl Outbound {
    /// Creates an empty queue.
    pub fn new() -> Self {
        Self { arena: Vec::new(), packets: Vec::new() }
    }

    /// Adds a datagram; without `to` it is sent to the connected address.
    pub fn push(&mut self, to: Option<SocketAddrV4>, bytes: &[u8]) {
        self.push_with(to, |arena| arena.extend_from_slice(bytes));
    }

    /// Adds a datagram that `write` appends to the arena.
    pub fn push_with(&mut self, to: Option<SocketAddrV4>, write: impl FnOnce(&mut Vec<u8>)) {
        let start = self.arena.len();
        write(&mut self.arena);
        self.packets.push(Waiting { start, end: self.arena.len(), to });
    }

    /// True if the queue is empty.
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Sends everything in order; waits while the socket's buffer is full.
    ///
    /// # Errors
    /// The error of the socket; unsent datagrams are dropped.
    pub fn flush(&mut self, socket: BorrowedFd<'_>) -> io::Result<()> {
        let mut done = 0;
        let mut result = Ok(());
        while let Some(rest) = self.packets.get(done..).filter(|rest| !rest.is_empty()) {
            match send_some(socket, &self.arena, rest) {
                Ok(sent) => done += sent,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => std::thread::yield_now(),
                Err(error) => {
                    result = Err(error);
                    break;
                }
            }
        }
        self.arena.clear();
        self.packets.clear();
        result
    }
}

fn send_some(socket: BorrowedFd<'_>, arena: &[u8], packets: &[Waiting]) -> io::Result<usize> {
    // SAFETY: these consist of integers and pointers, for which zero is valid.
    let mut headers: [libc::mmsghdr; BATCH] = unsafe { mem::zeroed() };
    // SAFETY: as above.
    let mut pieces: [libc::iovec; BATCH] = unsafe { mem::zeroed() };
    // SAFETY: as above.
    let mut addresses: [libc::sockaddr_in; BATCH] = unsafe { mem::zeroed() };
    let mut count: libc::c_uint = 0;
    for (((header, piece), address), packet) in
        headers.iter_mut().zip(&mut pieces).zip(&mut addresses).zip(packets)
    {
        let bytes = arena.get(packet.start..packet.end).unwrap_or_default();
        piece.iov_base = bytes.as_ptr().cast_mut().cast();
        piece.iov_len = bytes.len();
        header.msg_hdr.msg_iov = piece;
        header.msg_hdr.msg_iovlen = 1;
        if let Some(to) = packet.to {
            address.sin_family = libc::AF_INET as libc::sa_family_t;
            address.sin_port = to.port().to_be();
            address.sin_addr.s_addr = u32::from(*to.ip()).to_be();
            header.msg_hdr.msg_name = (&raw mut *address).cast();
            header.msg_hdr.msg_namelen = mem::size_of::<libc::sockaddr_in>() as libc::socklen_t;
        }
        count += 1;
    }
    // SAFETY: `count` headers point to live bytes of the arena and to addresses on this stack; the kernel only reads.
    let sent = unsafe { libc::sendmmsg(socket.as_raw_fd(), headers.as_mut_ptr(), count, 0) };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(sent as usize) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_arrives_in_order_with_its_sender() {
        let here = UdpSocket::bind("127.0.0.1:0").unwrap();
        let there = UdpSocket::bind("127.0.0.1:0").unwrap();
        let std::net::SocketAddr::V4(to) = there.local_addr().unwrap() else { panic!("not IPv4") };
        let mut out = Outbound::new();
        for number in 0..BATCH + 3 {
            out.push(Some(to), number.to_string().as_bytes());
        }
        out.flush(here.as_fd()).unwrap();
        let mut inbound = Inbound::new();
        let first = inbound.receive(there.as_fd(), BATCH, Wait::ForOne).unwrap();
        assert_eq!(first, BATCH);
        assert_eq!(inbound.bytes(9), b"9");
        assert_eq!(std::net::SocketAddr::V4(inbound.sender(9)), here.local_addr().unwrap());
        assert_eq!(inbound.receive(there.as_fd(), BATCH, Wait::Never).unwrap(), 3);
        assert_eq!(inbound.bytes(2), (BATCH + 2).to_string().as_bytes());
        assert_eq!(inbound.receive(there.as_fd(), BATCH, Wait::Never).unwrap(), 0);
    }
}
