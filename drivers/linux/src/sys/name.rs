//! Socket addresses and message headers in the kernel's format.

use std::mem::{size_of, zeroed};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

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
