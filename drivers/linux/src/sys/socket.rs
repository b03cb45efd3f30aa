//! Socket calls that `socket2` does not offer; socket addresses and message headers in the kernel's format.

use super::owned;
use std::io;
use std::mem::{size_of, zeroed};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
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

/// Socket address in the kernel's format: `sockaddr_in` or `sockaddr_in6`, distinguished by the family.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) union Name {
    family: libc::sa_family_t,
    v4: libc::sockaddr_in,
    v6: libc::sockaddr_in6,
}

impl Name {
    pub(super) fn empty() -> Self {
        // SAFETY: all-zero is a valid value of each member.
        unsafe { zeroed() }
    }

    pub(super) fn set(&mut self, address: SocketAddr) -> libc::socklen_t {
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

    /// The address; `None` for a family other than IP.
    pub(super) fn address(&self) -> Option<SocketAddr> {
        // SAFETY: every member begins with the family, and all bytes are initialised: zero, or written by the kernel or
        // `set`. The family tells which of the two was written.
        unsafe {
            match libc::c_int::from(self.family) {
                libc::AF_INET => {
                    let ip = Ipv4Addr::from(self.v4.sin_addr.s_addr.to_ne_bytes());
                    Some(SocketAddr::V4(SocketAddrV4::new(ip, u16::from_be(self.v4.sin_port))))
                }
                libc::AF_INET6 => {
                    let ip = Ipv6Addr::from(self.v6.sin6_addr.s6_addr);
                    let port = u16::from_be(self.v6.sin6_port);
                    // The flow label belongs to the sender and does not identify a peer.
                    Some(SocketAddr::V6(SocketAddrV6::new(ip, port, 0, self.v6.sin6_scope_id)))
                }
                _ => None,
            }
        }
    }
}

pub(super) fn empty_header() -> libc::mmsghdr {
    // SAFETY: all-zero is a valid header: no name, no parts, no control data.
    unsafe { zeroed() }
}
