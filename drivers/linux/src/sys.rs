//! The system calls that neither std nor `socket2` offers: batches of datagrams, epoll, eventfd.
//!
//! Every function here is safe to call; what has to be true for the kernel is kept true inside. This is the one file
//! of the crate with `unsafe` in it.
#![allow(unsafe_code)]

use std::io;
use std::marker::PhantomData;
use std::mem::{size_of, zeroed};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// The most datagrams one call receives or sends.
pub const BATCH_MAX: usize = 64;

/// The room for one datagram, bytes: UDP's length field allows no more.
pub const DATAGRAM_BYTES_MAX: usize = 65_535;

/// How far the rooms of a batch are apart: enough for the longest datagram, and no multiple of a power of two, for then
/// the beginnings of all of them, which is what short datagrams fill, would compete for the same few lines of the cache.
const ROOM_BYTES: usize = 65_536 + 11 * 64;

/// Whether receiving waits when nothing is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Returns `WouldBlock`.
    Never,
    /// Waits for one datagram and takes with it what else is there.
    ForOne,
}

/// Room for a batch of datagrams, and the last batch that came in.
///
/// The bytes are never cleared: the kernel says how many of them are a datagram. Pages that no datagram has reached
/// cost address space only.
pub struct ReceiveBatch {
    bytes: Vec<u8>,
    names: Vec<Name>,
    /// Not read by us, but `headers` point into it.
    _parts: Vec<libc::iovec>,
    headers: Vec<libc::mmsghdr>,
    filled: usize,
}

impl ReceiveBatch {
    /// Room for `datagrams`, 1 to [`BATCH_MAX`].
    pub fn new(datagrams: usize) -> Self {
        let datagrams = datagrams.clamp(1, BATCH_MAX);
        let mut bytes = vec![0_u8; datagrams * ROOM_BYTES];
        let mut names = vec![Name::empty(); datagrams];
        let mut parts: Vec<libc::iovec> = bytes
            .chunks_exact_mut(ROOM_BYTES)
            .map(|room| libc::iovec { iov_base: room.as_mut_ptr().cast(), iov_len: room.len() })
            .collect();
        let headers = names
            .iter_mut()
            .zip(parts.iter_mut())
            .map(|(name, part)| {
                let mut header = empty_header();
                header.msg_hdr.msg_name = std::ptr::from_mut(name).cast();
                header.msg_hdr.msg_namelen = size_of::<Name>() as libc::socklen_t;
                header.msg_hdr.msg_iov = part;
                header.msg_hdr.msg_iovlen = 1;
                header
            })
            .collect();
        Self { bytes, names, _parts: parts, headers, filled: 0 }
    }

    /// Receives up to a batch, forgetting the last one, and says how many came.
    pub fn receive(&mut self, socket: BorrowedFd<'_>, wait: Wait) -> io::Result<usize> {
        // The kernel wrote the real length over the room's.
        for header in self.headers.iter_mut().take(self.filled) {
            header.msg_hdr.msg_namelen = size_of::<Name>() as libc::socklen_t;
        }
        self.filled = 0;
        let flags = match wait {
            Wait::Never => libc::MSG_DONTWAIT,
            Wait::ForOne => libc::MSG_WAITFORONE,
        };
        // SAFETY: the headers point to names, parts and bytes in vectors that live as long as `self`, are never
        // grown, and are not borrowed now because `self` is borrowed mutably. The count is that of the headers.
        let received = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                self.headers.as_mut_ptr(),
                self.headers.len() as libc::c_uint,
                flags,
                std::ptr::null_mut(),
            )
        };
        self.filled = usize::try_from(received).map_err(|_| io::Error::last_os_error())?;
        Ok(self.filled)
    }

    /// One datagram of the last batch and who sent it.
    pub fn datagram(&self, index: usize) -> Option<(SocketAddr, &[u8])> {
        let header = self.headers.get(..self.filled)?.get(index)?;
        let start = index * ROOM_BYTES;
        let bytes = self.bytes.get(start..start + header.msg_len as usize)?;
        Some((self.names.get(index)?.address()?, bytes))
    }

    /// How many datagrams one call can bring.
    pub fn capacity(&self) -> usize {
        self.headers.len()
    }
}

/// The lists that a batch to be sent is written into, kept from batch to batch.
pub struct SendBatch {
    names: Vec<Name>,
    parts: Vec<libc::iovec>,
    headers: Vec<libc::mmsghdr>,
    tags: Vec<u64>,
}

impl SendBatch {
    /// Room for batches of `datagrams`, 1 to [`BATCH_MAX`].
    pub fn new(datagrams: usize) -> Self {
        let datagrams = datagrams.clamp(1, BATCH_MAX);
        let mut names = vec![Name::empty(); datagrams];
        let mut parts = vec![libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; datagrams];
        let headers = names
            .iter_mut()
            .zip(parts.iter_mut())
            .map(|(name, part)| {
                let mut header = empty_header();
                header.msg_hdr.msg_name = std::ptr::from_mut(name).cast();
                header.msg_hdr.msg_iov = part;
                header.msg_hdr.msg_iovlen = 1;
                header
            })
            .collect();
        Self { names, parts, headers, tags: vec![0; datagrams] }
    }

    /// Begins a batch of datagrams whose bytes live for `'b`.
    pub fn begin<'s, 'b>(&'s mut self) -> Sending<'s, 'b> {
        Sending { batch: self, next: 0, end: 0, bytes: PhantomData }
    }
}

/// A batch being filled and sent. What was not sent when it is dropped is not sent.
pub struct Sending<'s, 'b> {
    batch: &'s mut SendBatch,
    next: usize,
    end: usize,
    bytes: PhantomData<&'b [u8]>,
}

impl<'b> Sending<'_, 'b> {
    /// Adds a datagram; `tag` is given back by [`Sending::skip`]. False: the batch is full, send first.
    pub fn push(&mut self, to: SocketAddr, bytes: &'b [u8], tag: u64) -> bool {
        let index = self.end;
        let (Some(header), Some(name), Some(part), Some(kept)) = (
            self.batch.headers.get_mut(index),
            self.batch.names.get_mut(index),
            self.batch.parts.get_mut(index),
            self.batch.tags.get_mut(index),
        ) else {
            return false;
        };
        header.msg_hdr.msg_namelen = name.set(to);
        // The kernel only reads what is sent; the interface has one type for both directions.
        part.iov_base = bytes.as_ptr().cast_mut().cast();
        part.iov_len = bytes.len();
        *kept = tag;
        self.end += 1;
        true
    }

    /// Sends as many as the socket takes, in order, without waiting; says how many. An error speaks of the first one
    /// that is left: wait and call again, or [`Sending::skip`] it.
    pub fn send(&mut self, socket: BorrowedFd<'_>) -> io::Result<usize> {
        let Some(left) = self.batch.headers.get_mut(self.next..self.end) else { return Ok(0) };
        if left.is_empty() {
            return Ok(0);
        }
        // SAFETY: the headers point to names and parts in vectors that live as long as the batch and are never
        // grown; the parts of `next..end` were set by `push` to bytes that outlive `self`.
        let sent = unsafe {
            libc::sendmmsg(
                socket.as_raw_fd(),
                left.as_mut_ptr(),
                left.len() as libc::c_uint,
                libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL,
            )
        };
        let sent = usize::try_from(sent).map_err(|_| io::Error::last_os_error())?;
        self.next += sent;
        Ok(sent)
    }

    /// Leaves out the first one that is not sent yet and gives back its tag.
    pub fn skip(&mut self) -> Option<u64> {
        let tag = self.batch.tags.get(self.next..self.end)?.first().copied()?;
        self.next += 1;
        Some(tag)
    }

    /// How many are not sent yet.
    pub fn left(&self) -> usize {
        self.end - self.next
    }

    /// Begins again with an empty batch.
    pub fn clear(&mut self) {
        self.next = 0;
        self.end = 0;
    }
}

/// What is waited for on a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// Nothing but errors.
    Nothing,
    /// Bytes or a connection to take.
    Read,
    /// Room to write, or a connection made.
    Write,
    /// Both.
    ReadWrite,
}

/// What epoll says of a descriptor.
#[derive(Clone, Copy, Debug)]
pub struct Ready {
    /// The number it was added with.
    pub token: u64,
    /// There is something to read, or the end, or an error that reading will name.
    pub read: bool,
    /// There is room to write, or an error that writing will name.
    pub write: bool,
}

/// A level-triggered epoll: what is not finished is told again.
pub struct Epoll(OwnedFd);

impl Epoll {
    /// A new one.
    pub fn new() -> io::Result<Self> {
        // SAFETY: no pointers; a non-negative result is a descriptor that nobody else owns.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        owned(fd).map(Self)
    }

    /// Watches a descriptor until it is closed.
    pub fn add(&self, fd: BorrowedFd<'_>, token: u64, interest: Interest) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd, token, interest)
    }

    /// Changes what a watched descriptor is watched for.
    pub fn modify(&self, fd: BorrowedFd<'_>, token: u64, interest: Interest) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, fd, token, interest)
    }

    /// Waits up to `timeout`, rounded up to milliseconds, and puts what is ready into `ready`.
    pub fn wait(&self, ready: &mut ReadyList, timeout: Duration) -> io::Result<()> {
        ready.filled = 0;
        let timeout_ms =
            libc::c_int::try_from(timeout.as_nanos().div_ceil(1_000_000)).unwrap_or(libc::c_int::MAX);
        // SAFETY: the list has room for the number of events that is given with it.
        let count = unsafe {
            libc::epoll_wait(
                self.0.as_raw_fd(),
                ready.list.as_mut_ptr(),
                ready.list.len() as libc::c_int,
                timeout_ms,
            )
        };
        ready.filled = match usize::try_from(count) {
            Ok(count) => count,
            Err(_) => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => 0,
                error => return Err(error),
            },
        };
        Ok(())
    }

    fn control(
        &self,
        operation: libc::c_int,
        fd: BorrowedFd<'_>,
        token: u64,
        interest: Interest,
    ) -> io::Result<()> {
        let events = match interest {
            Interest::Nothing => 0,
            Interest::Read => libc::EPOLLIN | libc::EPOLLRDHUP,
            Interest::Write => libc::EPOLLOUT,
            Interest::ReadWrite => libc::EPOLLIN | libc::EPOLLRDHUP | libc::EPOLLOUT,
        };
        let mut event = libc::epoll_event { events: events as u32, u64: token };
        // SAFETY: both descriptors are open because they are borrowed; the event outlives the call.
        let result = unsafe { libc::epoll_ctl(self.0.as_raw_fd(), operation, fd.as_raw_fd(), &mut event) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

/// Room for what [`Epoll::wait`] finds.
pub struct ReadyList {
    list: Vec<libc::epoll_event>,
    filled: usize,
}

impl ReadyList {
    /// Room for `events` descriptors, at least one; the others are told the next time.
    pub fn new(events: usize) -> Self {
        Self { list: vec![libc::epoll_event { events: 0, u64: 0 }; events.max(1)], filled: 0 }
    }

    /// How many were found.
    pub fn len(&self) -> usize {
        self.filled
    }

    /// True when the time ran out before anything was ready.
    pub fn is_empty(&self) -> bool {
        self.filled == 0
    }

    /// One of those found.
    pub fn at(&self, index: usize) -> Option<Ready> {
        let event = self.list.get(..self.filled)?.get(index)?;
        let broken = libc::EPOLLERR | libc::EPOLLHUP;
        let flags = event.events as libc::c_int;
        Some(Ready {
            token: event.u64,
            read: flags & (libc::EPOLLIN | libc::EPOLLRDHUP | broken) != 0,
            write: flags & (libc::EPOLLOUT | broken) != 0,
        })
    }
}

/// A descriptor that another thread makes readable, to end a wait.
pub struct EventFd(OwnedFd);

impl EventFd {
    /// A new one, not readable yet.
    pub fn new() -> io::Result<Self> {
        // SAFETY: no pointers; a non-negative result is a descriptor that nobody else owns.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        owned(fd).map(Self)
    }

    /// Makes it readable. Fails only when it has been so 2^64-2 times already, which serves the same end.
    pub fn signal(&self) {
        let one = 1_u64.to_ne_bytes();
        // SAFETY: the eight bytes live through the call.
        let _ = unsafe { libc::write(self.0.as_raw_fd(), one.as_ptr().cast(), one.len()) };
    }

    /// Makes it unreadable again.
    pub fn reset(&self) {
        let mut count = [0_u8; 8];
        // SAFETY: the eight bytes live through the call. Not being readable is no failure here.
        let _ = unsafe { libc::read(self.0.as_raw_fd(), count.as_mut_ptr().cast(), count.len()) };
    }
}

impl AsFd for EventFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Takes one connection off a listening socket, non-blocking and closed on exec, with the peer's address.
pub fn accept(listener: BorrowedFd<'_>) -> io::Result<(OwnedFd, SocketAddr)> {
    let mut name = Name::empty();
    let mut length = size_of::<Name>() as libc::socklen_t;
    // SAFETY: name and length live through the call and the length is the name's room.
    let fd = unsafe {
        libc::accept4(
            listener.as_raw_fd(),
            std::ptr::from_mut(&mut name).cast(),
            &mut length,
            libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC,
        )
    };
    let fd = owned(fd)?;
    let peer = name.address().ok_or(io::ErrorKind::AddrNotAvailable)?;
    Ok((fd, peer))
}

/// Waits until `socket` has room to write; false when the time ran out first.
pub fn wait_writable(socket: BorrowedFd<'_>, timeout: Duration) -> bool {
    let mut wanted = libc::pollfd { fd: socket.as_raw_fd(), events: libc::POLLOUT, revents: 0 };
    let timeout_ms =
        libc::c_int::try_from(timeout.as_nanos().div_ceil(1_000_000)).unwrap_or(libc::c_int::MAX);
    // SAFETY: one pollfd, which lives through the call.
    unsafe { libc::poll(&mut wanted, 1, timeout_ms) > 0 }
}

/// Asks for kernel buffers of `bytes` in both directions: beyond the system's limit if the process may do that, else
/// up to it. Getting less is no error.
pub fn set_buffers(socket: BorrowedFd<'_>, bytes: usize) {
    let size = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
    let set = |option: libc::c_int| {
        // SAFETY: the value is an int that lives through the call, its length is given.
        unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                option,
                std::ptr::from_ref(&size).cast(),
                size_of::<libc::c_int>() as libc::socklen_t,
            )
        }
    };
    if set(libc::SO_RCVBUFFORCE) < 0 {
        set(libc::SO_RCVBUF);
    }
    if set(libc::SO_SNDBUFFORCE) < 0 {
        set(libc::SO_SNDBUF);
    }
}

/// Raises the number of files this process may have open as far as it may raise it itself, and says what it is now.
pub fn raise_open_files() -> io::Result<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` lives through the call.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) } < 0 {
        return Err(io::Error::last_os_error());
    }
    limit.rlim_cur = limit.rlim_max;
    // SAFETY: `limit` lives through the call.
    if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(limit.rlim_cur)
}

/// An address as the kernel writes it: `sockaddr_in` or `sockaddr_in6`, told apart by the family both begin with.
#[derive(Clone, Copy)]
#[repr(C)]
union Name {
    family: libc::sa_family_t,
    v4: libc::sockaddr_in,
    v6: libc::sockaddr_in6,
}

impl Name {
    fn empty() -> Self {
        // SAFETY: all-zero is a valid value of each member.
        unsafe { zeroed() }
    }

    fn set(&mut self, address: SocketAddr) -> libc::socklen_t {
        match address {
            SocketAddr::V4(v4) => {
                self.v4 = libc::sockaddr_in {
                    sin_family: libc::AF_INET as libc::sa_family_t,
                    sin_port: v4.port().to_be(),
                    sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(v4.ip().octets()) },
                    sin_zero: [0; 8],
                };
                size_of::<libc::sockaddr_in>() as libc::socklen_t
            }
            SocketAddr::V6(v6) => {
                self.v6 = libc::sockaddr_in6 {
                    sin6_family: libc::AF_INET6 as libc::sa_family_t,
                    sin6_port: v6.port().to_be(),
                    sin6_flowinfo: v6.flowinfo(),
                    sin6_addr: libc::in6_addr { s6_addr: v6.ip().octets() },
                    sin6_scope_id: v6.scope_id(),
                };
                size_of::<libc::sockaddr_in6>() as libc::socklen_t
            }
        }
    }

    /// `None` for a family that is not IP.
    fn address(&self) -> Option<SocketAddr> {
        // SAFETY: every member begins with the family, and all bytes are initialised: zero, or as the kernel or
        // `set` wrote them. The family says which of the two was written.
        unsafe {
            match libc::c_int::from(self.family) {
                libc::AF_INET => {
                    let ip = Ipv4Addr::from(self.v4.sin_addr.s_addr.to_ne_bytes());
                    Some(SocketAddr::V4(SocketAddrV4::new(ip, u16::from_be(self.v4.sin_port))))
                }
                libc::AF_INET6 => {
                    let ip = Ipv6Addr::from(self.v6.sin6_addr.s6_addr);
                    let port = u16::from_be(self.v6.sin6_port);
                    // A flow label is the sender's; it names no peer.
                    Some(SocketAddr::V6(SocketAddrV6::new(ip, port, 0, self.v6.sin6_scope_id)))
                }
                _ => None,
            }
        }
    }
}

fn empty_header() -> libc::mmsghdr {
    // SAFETY: all-zero is a valid header: no name, no parts, no control data.
    unsafe { zeroed() }
}

fn owned(fd: libc::c_int) -> io::Result<OwnedFd> {
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a descriptor that a system call has just made and nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_survive_the_way_to_the_kernel_and_back() {
        for text in ["127.0.0.1:5060", "255.1.2.3:1", "[::1]:65535", "[2001:db8::5]:5060", "[fe80::1%3]:5060"]
        {
            let address: SocketAddr = text.parse().unwrap();
            let mut name = Name::empty();
            name.set(address);
            assert_eq!(name.address(), Some(address));
        }
        assert_eq!(Name::empty().address(), None);
    }

    #[test]
    fn an_eventfd_ends_a_wait_until_it_is_reset() {
        let (epoll, event) = (Epoll::new().unwrap(), EventFd::new().unwrap());
        epoll.add(event.as_fd(), 7, Interest::Read).unwrap();
        let mut ready = ReadyList::new(4);
        event.signal();
        epoll.wait(&mut ready, Duration::from_secs(5)).unwrap();
        assert!(ready.at(0).is_some_and(|ready| ready.token == 7 && ready.read && !ready.write));
        event.reset();
        epoll.wait(&mut ready, Duration::ZERO).unwrap();
        assert!(ready.is_empty());
    }

    #[test]
    fn a_batch_goes_out_and_comes_in_whole() {
        let (a, b) = (
            std::net::UdpSocket::bind("127.0.0.1:0").unwrap(),
            std::net::UdpSocket::bind("127.0.0.1:0").unwrap(),
        );
        let payloads: Vec<Vec<u8>> = (0..5_u8).map(|n| vec![n; usize::from(n) + 1]).collect();
        let mut send = SendBatch::new(4);
        let mut sending = send.begin();
        let taken = payloads.iter().filter(|p| sending.push(b.local_addr().unwrap(), p, 0)).count();
        assert_eq!(taken, 4, "the fifth has no room");
        assert_eq!(sending.send(a.as_fd()).unwrap(), 4);
        let mut receive = ReceiveBatch::new(8);
        assert_eq!(receive.receive(b.as_fd(), Wait::ForOne).unwrap(), 4);
        for (index, payload) in payloads.iter().take(4).enumerate() {
            assert_eq!(receive.datagram(index), Some((a.local_addr().unwrap(), &payload[..])));
        }
        assert_eq!(receive.datagram(4), None);
        let nothing = receive.receive(b.as_fd(), Wait::Never).unwrap_err();
        assert_eq!(nothing.kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn a_packet_that_cannot_be_sent_is_named_and_the_others_go() {
        let (a, b) = (
            std::net::UdpSocket::bind("127.0.0.1:0").unwrap(),
            std::net::UdpSocket::bind("127.0.0.1:0").unwrap(),
        );
        let to = b.local_addr().unwrap();
        let huge = vec![0; 70_000];
        let mut send = SendBatch::new(8);
        let mut sending = send.begin();
        sending.push(to, b"one", 1);
        sending.push(to, &huge, 2);
        sending.push(to, b"three", 3);
        assert_eq!(sending.send(a.as_fd()).unwrap(), 1);
        assert!(sending.send(a.as_fd()).is_err());
        assert_eq!(sending.skip(), Some(2));
        assert_eq!(sending.send(a.as_fd()).unwrap(), 1);
        assert_eq!((sending.left(), sending.skip()), (0, None));
    }
}
