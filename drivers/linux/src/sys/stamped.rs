//! Datagrams with their arrival time: `recvmmsg` with `SO_TIMESTAMPNS`.

use super::name::{Name, empty_header};
use std::io;
use std::mem::size_of;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Makes the kernel record the arrival time of each datagram at `socket`, for [`StampedBatch`].
///
/// The kernel needs some milliseconds to start time stamping for the first such socket of the system; until then the
/// time is that of receiving.
pub fn stamp_arrivals(socket: BorrowedFd<'_>) -> io::Result<()> {
    let on: libc::c_int = 1;
    // SAFETY: the value is an int that lives through the call, its length is given.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_TIMESTAMPNS,
            std::ptr::from_ref(&on).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// A received datagram.
#[derive(Debug)]
pub struct Stamped<'a> {
    /// Address of the sender.
    pub from: SocketAddr,
    /// Arrival time by the wall clock. `None`: [`stamp_arrivals`] was not called for the socket.
    pub arrived: Option<SystemTime>,
    /// Bytes of the datagram, truncated to the buffer.
    pub bytes: &'a mut [u8],
    /// False: the datagram was truncated.
    pub is_whole: bool,
}

/// Buffers for a batch of short datagrams with time stamps, and the last received batch.
pub struct StampedBatch {
    bytes: Vec<u8>,
    names: Vec<Name>,
    /// Not read, but `headers` point into it; the same holds for `_parts`.
    _controls: Vec<Control>,
    _parts: Vec<libc::iovec>,
    headers: Vec<libc::mmsghdr>,
    filled: usize,
}

/// Buffer for the requested control message, with its alignment.
type Control = [u64; CONTROL_WORDS];

impl StampedBatch {
    /// Size of the buffer of one datagram in bytes: more than an Ethernet frame.
    pub const ROOM_BYTES: usize = 2048;

    /// Creates buffers for `datagrams` datagrams, 1 to [`BATCH_MAX`](super::BATCH_MAX).
    pub fn new(datagrams: usize) -> Self {
        let datagrams = datagrams.clamp(1, super::BATCH_MAX);
        let mut bytes = vec![0_u8; datagrams * Self::ROOM_BYTES];
        let mut names = vec![Name::empty(); datagrams];
        let mut controls = vec![[0; CONTROL_WORDS]; datagrams];
        let mut parts: Vec<libc::iovec> = bytes
            .chunks_exact_mut(Self::ROOM_BYTES)
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

    /// Receives a batch without blocking, replacing the last one; returns the number of datagrams. `WouldBlock`: none.
    pub fn receive(&mut self, socket: BorrowedFd<'_>) -> io::Result<usize> {
        self.filled = 0;
        // The kernel has overwritten the buffers' lengths with the actual ones.
        for header in &mut self.headers {
            header.msg_hdr.msg_namelen = size_of::<Name>() as libc::socklen_t;
            header.msg_hdr.msg_controllen = size_of::<Control>() as _;
        }
        // SAFETY: the headers point to names, controls, parts and bytes in vectors that live as long as `self`, are
        // never grown, and are not borrowed now because `self` is borrowed mutably. The count is that of the headers.
        let received = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                self.headers.as_mut_ptr(),
                self.headers.len() as libc::c_uint,
                libc::MSG_DONTWAIT,
                std::ptr::null_mut(),
            )
        };
        self.filled = usize::try_from(received).map_err(|_| io::Error::last_os_error())?;
        Ok(self.filled)
    }

    /// A datagram of the last batch.
    pub fn datagram(&mut self, index: usize) -> Option<Stamped<'_>> {
        let header = self.headers.get(..self.filled)?.get(index)?;
        let length = (header.msg_len as usize).min(Self::ROOM_BYTES);
        let start = index * Self::ROOM_BYTES;
        Some(Stamped {
            from: self.names.get(index)?.address()?,
            arrived: stamp_of(&header.msg_hdr),
            bytes: self.bytes.get_mut(start..start + length)?,
            is_whole: header.msg_hdr.msg_flags & libc::MSG_TRUNC == 0,
        })
    }
}

/// Returns the time stamp in the control messages of a header that `recvmmsg` has filled.
fn stamp_of(header: &libc::msghdr) -> Option<SystemTime> {
    // SAFETY: the header's control pointer and length describe memory of the batch that the kernel wrote whole control
    // messages into; these macros walk no further than that length.
    let time = unsafe {
        let mut message = libc::CMSG_FIRSTHDR(header);
        loop {
            let current = message.as_ref()?;
            if current.cmsg_level == libc::SOL_SOCKET && current.cmsg_type == libc::SCM_TIMESTAMPNS {
                break libc::CMSG_DATA(message).cast::<libc::timespec>().read_unaligned();
            }
            message = libc::CMSG_NXTHDR(header, message);
        }
    };
    let since = Duration::new(u64::try_from(time.tv_sec).ok()?, u32::try_from(time.tv_nsec).ok()?);
    UNIX_EPOCH.checked_add(since)
}

/// 64 bytes: a header of 16, a time stamp of 16, and a reserve.
const CONTROL_WORDS: usize = 8;
