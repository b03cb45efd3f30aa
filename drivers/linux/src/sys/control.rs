//! Batches of datagrams with control messages: `recvmmsg` with room for what the kernel adds to each datagram: arrival times, and ICMP
//! errors (`IP_RECVERR` and its error queue).

use super::socket::{Name, empty_header};
use super::stamps::{STAMP_WORDS, stamp_of};
use std::io;
use std::mem::size_of;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::SystemTime;

/// Buffers for a batch of datagrams of `ROOM_BYTES` bytes with `CONTROL_WORDS` × 8 bytes of control messages each, and the
/// last received batch.
struct ControlBatch<const ROOM_BYTES: usize, const CONTROL_WORDS: usize> {
    bytes: Vec<u8>,
    names: Vec<Name>,
    /// Not read directly, but `headers` point into it; the same holds for `_parts`. Words have the alignment of a control
    /// message.
    _controls: Vec<[u64; CONTROL_WORDS]>,
    _parts: Vec<libc::iovec>,
    headers: Vec<libc::mmsghdr>,
    filled: usize,
}

impl<const ROOM_BYTES: usize, const CONTROL_WORDS: usize> ControlBatch<ROOM_BYTES, CONTROL_WORDS> {
    /// Creates buffers for `datagrams` datagrams, 1 to [`BATCH_MAX`](super::BATCH_MAX).
    pub(super) fn new(datagrams: usize) -> Self {
        let datagrams = datagrams.clamp(1, super::BATCH_MAX);
        let mut bytes = vec![0_u8; datagrams * ROOM_BYTES];
        let mut names = vec![Name::empty(); datagrams];
        let mut controls = vec![[0; CONTROL_WORDS]; datagrams];
        let mut parts: Vec<libc::iovec> = bytes
            .chunks_exact_mut(ROOM_BYTES)
            .map(|room| libc::iovec { iov_base: room.as_mut_ptr().cast(), iov_len: room.len() })
            .collect();
        let headers = names
            .iter_mut()
            .zip(parts.iter_mut())
            .zip(controls.iter_mut())
            .map(|((name, part), control)| {
                let mut header = empty_header();
                header.msg_hdr.msg_name = std::ptr::from_mut(name).cast();
                header.msg_hdr.msg_iov = part;
                header.msg_hdr.msg_iovlen = 1;
                header.msg_hdr.msg_control = std::ptr::from_mut(control).cast();
                header
            })
            .collect();
        Self { bytes, names, _controls: controls, _parts: parts, headers, filled: 0 }
    }

    /// Receives a batch without blocking, replacing the last one; returns the number of datagrams. `flags` are those of
    /// `recvmmsg`.
    pub(super) fn receive(&mut self, socket: BorrowedFd<'_>, flags: libc::c_int) -> io::Result<usize> {
        self.filled = 0;
        // The kernel has overwritten the buffers' lengths with the actual ones.
        for header in &mut self.headers {
            header.msg_hdr.msg_namelen = size_of::<Name>() as libc::socklen_t;
            header.msg_hdr.msg_controllen = size_of::<[u64; CONTROL_WORDS]>() as _;
        }
        // SAFETY: the headers point to names, controls, parts and bytes in vectors that live as long as `self`, are
        // never grown, and are not borrowed now because `self` is borrowed mutably. The count is that of the headers.
        let received = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                self.headers.as_mut_ptr(),
                self.headers.len() as libc::c_uint,
                flags | libc::MSG_DONTWAIT,
                std::ptr::null_mut(),
            )
        };
        self.filled = usize::try_from(received).map_err(|_| io::Error::last_os_error())?;
        Ok(self.filled)
    }

    /// Header of a datagram of the last batch; its control messages are whole.
    pub(super) fn header(&self, index: usize) -> Option<&libc::msghdr> {
        self.headers.get(..self.filled)?.get(index).map(|header| &header.msg_hdr)
    }

    /// Address of a datagram.
    pub(super) fn address(&self, index: usize) -> Option<SocketAddr> {
        self.names.get(index)?.address()
    }

    /// Bytes of a datagram, truncated to the buffer.
    pub(super) fn bytes(&self, index: usize) -> Option<&[u8]> {
        self.bytes.get(self.range(index)?)
    }

    /// Mutable bytes of a datagram, truncated to the buffer.
    fn bytes_mut(&mut self, index: usize) -> Option<&mut [u8]> {
        let range = self.range(index)?;
        self.bytes.get_mut(range)
    }

    fn range(&self, index: usize) -> Option<std::ops::Range<usize>> {
        let header = self.headers.get(..self.filled)?.get(index)?;
        let start = index * ROOM_BYTES;
        Some(start..start + (header.msg_len as usize).min(ROOM_BYTES))
    }
}

/// A received datagram.
#[derive(Debug)]
pub struct Stamped<'a> {
    /// Address of the sender.
    pub from: SocketAddr,
    /// Arrival time by the wall clock. `None`: [`stamp_arrivals`](super::stamp_arrivals) was not called for the socket.
    pub arrived: Option<SystemTime>,
    /// Bytes of the datagram, truncated to the buffer.
    pub bytes: &'a mut [u8],
    /// False: the datagram was truncated.
    pub is_whole: bool,
}

/// Buffers for a batch of short datagrams with time stamps, and the last received batch.
pub struct StampedBatch(ControlBatch<{ StampedBatch::ROOM_BYTES }, STAMP_WORDS>);

impl StampedBatch {
    /// Size of the buffer of one datagram in bytes: more than an Ethernet frame.
    pub const ROOM_BYTES: usize = 2048;

    /// Creates buffers for `datagrams` datagrams, 1 to [`BATCH_MAX`](super::BATCH_MAX).
    pub fn new(datagrams: usize) -> Self {
        Self(ControlBatch::new(datagrams))
    }

    /// Receives a batch without blocking, replacing the last one; returns the number of datagrams. `WouldBlock`: none.
    pub fn receive(&mut self, socket: BorrowedFd<'_>) -> io::Result<usize> {
        self.0.receive(socket, 0)
    }

    /// A datagram of the last batch.
    pub fn datagram(&mut self, index: usize) -> Option<Stamped<'_>> {
        let header = self.0.header(index)?;
        let (arrived, is_whole) = (stamp_of(header), header.msg_flags & libc::MSG_TRUNC == 0);
        Some(Stamped { from: self.0.address(index)?, arrived, bytes: self.0.bytes_mut(index)?, is_whole })
    }
}

/// Makes the kernel queue the ICMP errors for datagrams of `socket`, for [`IcmpBatch`]; `false` stops that and empties the
/// queue.
///
/// While it is on, each error also makes the next system call on the socket fail once.
pub fn queue_icmp_errors(socket: BorrowedFd<'_>, is_ipv6: bool, is_on: bool) -> io::Result<()> {
    let value = libc::c_int::from(is_on);
    let (level, option) = match is_ipv6 {
        true => (libc::IPPROTO_IPV6, libc::IPV6_RECVERR),
        false => (libc::IPPROTO_IP, libc::IP_RECVERR),
    };
    // SAFETY: the value is an int that lives through the call, its length is given.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            std::ptr::from_ref(&value).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Buffers for a batch of ICMP errors, and the last received batch.
pub struct IcmpBatch(ControlBatch<ICMP_BYTES, ICMP_WORDS>);

/// Error of the last batch.
#[derive(Debug)]
pub struct QueuedIcmp<'a> {
    /// Address that the datagram was sent to.
    pub to: SocketAddr,
    /// First bytes of the datagram.
    pub quoted: &'a [u8],
    /// True for destination unreachable and parameter problem, except for what Path MTU Discovery uses: RFC 3261 §18.4 has
    /// these reported and the others ignored.
    pub is_unreachable: bool,
}

impl IcmpBatch {
    /// Creates buffers for `errors` errors, 1 to [`BATCH_MAX`](super::BATCH_MAX).
    pub fn new(errors: usize) -> Self {
        Self(ControlBatch::new(errors))
    }

    /// Takes a batch from the error queue without blocking, replacing the last one; returns the number of errors, 0 if the
    /// queue is empty.
    pub fn receive(&mut self, socket: BorrowedFd<'_>) -> usize {
        self.0.receive(socket, libc::MSG_ERRQUEUE).unwrap_or(0)
    }

    /// An error of the last batch. `None` for one of this machine or without an address.
    pub fn error(&self, index: usize) -> Option<QueuedIcmp<'_>> {
        let is_unreachable = is_unreachable(self.0.header(index)?)?;
        Some(QueuedIcmp { to: self.0.address(index)?, quoted: self.0.bytes(index)?, is_unreachable })
    }
}

/// Evaluates the control message of an error. `None`: it is not from ICMP.
fn is_unreachable(header: &libc::msghdr) -> Option<bool> {
    // SAFETY: the header's control pointer and length describe memory of the batch that the kernel wrote whole control
    // messages into; these macros walk no further than that length.
    let error = unsafe {
        let mut message = libc::CMSG_FIRSTHDR(header);
        loop {
            let current = message.as_ref()?;
            if matches!(
                (current.cmsg_level, current.cmsg_type),
                (libc::IPPROTO_IP, libc::IP_RECVERR) | (libc::IPPROTO_IPV6, libc::IPV6_RECVERR)
            ) {
                break libc::CMSG_DATA(message).cast::<libc::sock_extended_err>().read_unaligned();
            }
            message = libc::CMSG_NXTHDR(header, message);
        }
    };
    match (error.ee_origin, error.ee_type, error.ee_code) {
        (libc::SO_EE_ORIGIN_ICMP, DESTINATION_UNREACHABLE, code) => Some(code != FRAGMENTATION_NEEDED),
        (libc::SO_EE_ORIGIN_ICMP, PARAMETER_PROBLEM, _) => Some(true),
        (libc::SO_EE_ORIGIN_ICMP6, DESTINATION_UNREACHABLE_V6 | PARAMETER_PROBLEM_V6, _) => Some(true),
        (libc::SO_EE_ORIGIN_ICMP | libc::SO_EE_ORIGIN_ICMP6, _, _) => Some(false),
        _ => None,
    }
}

/// Size of the buffer of one error in bytes: more than any quotation with our branch needs.
const ICMP_BYTES: usize = 1280;
/// 88 bytes: a header of 16, an extended error of 16, the address of its sender of 28, and a reserve.
const ICMP_WORDS: usize = 11;

/// Types and codes of RFC 792 and RFC 4443.
const DESTINATION_UNREACHABLE: u8 = 3;
const FRAGMENTATION_NEEDED: u8 = 4;
const PARAMETER_PROBLEM: u8 = 12;
const DESTINATION_UNREACHABLE_V6: u8 = 1;
const PARAMETER_PROBLEM_V6: u8 = 4;
