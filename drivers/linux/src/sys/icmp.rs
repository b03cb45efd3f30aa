//! ICMP errors of a datagram socket: `IP_RECVERR` and its error queue.

use super::control::ControlBatch;
use std::io;
use std::mem::size_of;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd};

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
pub struct IcmpBatch(ControlBatch<ROOM_BYTES, CONTROL_WORDS>);

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
const ROOM_BYTES: usize = 1280;
/// 88 bytes: a header of 16, an extended error of 16, the address of its sender of 28, and a reserve.
const CONTROL_WORDS: usize = 11;

/// Types and codes of RFC 792 and RFC 4443.
const DESTINATION_UNREACHABLE: u8 = 3;
const FRAGMENTATION_NEEDED: u8 = 4;
const PARAMETER_PROBLEM: u8 = 12;
const DESTINATION_UNREACHABLE_V6: u8 = 1;
const PARAMETER_PROBLEM_V6: u8 = 4;
