//! Datagrams with their arrival time: `recvmmsg` with `SO_TIMESTAMPNS`.

use super::control::ControlBatch;
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
pub struct StampedBatch(ControlBatch<{ StampedBatch::ROOM_BYTES }, CONTROL_WORDS>);

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
