//! Socket calls that `socket2` does not offer.

use super::name::Name;
use super::owned;
use std::io;
use std::mem::size_of;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// Accepts a connection, non-blocking and close-on-exec; returns it with the peer's address.
pub fn accept(listener: BorrowedFd<'_>) -> io::Result<(OwnedFd, SocketAddr)> {
    let mut name = Name::empty();
    let mut length = size_of::<Name>() as libc::socklen_t;
    // SAFETY: name and length live through the call and the length is that of the name.
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

/// Makes a later `bind` to port 0 leave the choice of the port to `connect`, so that connections to different peers can share
/// a port (ip(7), `IP_BIND_ADDRESS_NO_PORT`). It works for both address families.
pub fn defer_port(socket: BorrowedFd<'_>) -> io::Result<()> {
    let on: libc::c_int = 1;
    // SAFETY: the value is an int that lives through the call, its length is given.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_IP,
            libc::IP_BIND_ADDRESS_NO_PORT,
            std::ptr::from_ref(&on).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Waits until `socket` is writable; false if the time limit has passed.
pub fn wait_writable(socket: BorrowedFd<'_>, timeout: Duration) -> bool {
    let mut wanted = libc::pollfd { fd: socket.as_raw_fd(), events: libc::POLLOUT, revents: 0 };
    let timeout_ms =
        libc::c_int::try_from(timeout.as_nanos().div_ceil(1_000_000)).unwrap_or(libc::c_int::MAX);
    // SAFETY: one pollfd, which lives through the call.
    unsafe { libc::poll(&mut wanted, 1, timeout_ms) > 0 }
}

/// Requests kernel buffers of `bytes` in both directions: above the system's limit if the process has the privilege,
/// otherwise up to it. Smaller buffers are not an error.
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
