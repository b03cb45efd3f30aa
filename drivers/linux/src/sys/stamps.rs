//! Arrival times of what sockets receive (`SO_TIMESTAMPNS`), and the time for which it waited.

use super::socket::empty_header;
use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Makes the kernel record the arrival time of what `socket` receives, for [`StampedBatch`](super::StampedBatch), [`read_stamped`] and
/// [`ReceiveBatch::waited`](super::ReceiveBatch::waited).
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

/// Time from the arrival of the bytes that a header was filled with until now; zero without a time stamp.
pub(super) fn waited_of(header: &libc::msghdr) -> Duration {
    let waited = stamp_of(header).and_then(|arrived| arrived.elapsed().ok()).unwrap_or_default();
    // The wall clock was set in between.
    if waited > WAITED_MAX { Duration::ZERO } else { waited }
}

/// Maximum of a waiting time: more bytes than arrive in it do not fit into a socket.
const WAITED_MAX: Duration = Duration::from_secs(60);

/// Reads from a stream socket without blocking; returns the number of bytes, and the time for which the last of them waited in the socket:
/// zero without [`stamp_arrivals`].
pub fn read_stamped(socket: BorrowedFd<'_>, room: &mut [u8]) -> io::Result<(usize, Duration)> {
    let mut control = [0_u64; STAMP_WORDS];
    let mut part = libc::iovec { iov_base: room.as_mut_ptr().cast(), iov_len: room.len() };
    let mut header = empty_header().msg_hdr;
    header.msg_iov = &mut part;
    header.msg_iovlen = 1;
    header.msg_control = std::ptr::from_mut(&mut control).cast();
    header.msg_controllen = size_of::<[u64; STAMP_WORDS]>() as _;
    // SAFETY: the header points to a part and a control buffer that live through the call, and the part to the caller's bytes; all lengths
    // are those of the memory.
    let count = unsafe { libc::recvmsg(socket.as_raw_fd(), &mut header, libc::MSG_DONTWAIT) };
    let count = usize::try_from(count).map_err(|_| io::Error::last_os_error())?;
    Ok((count, waited_of(&header)))
}

/// Returns the time stamp in the control messages of a header that the kernel has filled.
pub(super) fn stamp_of(header: &libc::msghdr) -> Option<SystemTime> {
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
pub(super) const STAMP_WORDS: usize = 8;
