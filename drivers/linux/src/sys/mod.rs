//! System calls that neither std nor `socket2` offers: batches of datagrams, ICMP errors, time stamps, epoll, eventfd, timers,
//! real-time priority.
//!
//! All functions are safe; the kernel's requirements are guaranteed inside. Only this folder of the crate contains
//! `unsafe`.
#![allow(unsafe_code)]

mod control;
mod datagrams;
mod epoll;
mod process;
mod socket;

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

pub use control::{IcmpBatch, QueuedIcmp, Stamped, StampedBatch, queue_icmp_errors, stamp_arrivals};
pub use datagrams::{BATCH_MAX, DATAGRAM_BYTES_MAX, ReceiveBatch, SendBatch, Sending, Wait};
pub use epoll::{Epoll, EventFd, Interest, Ready, ReadyList, Timer};
pub use process::{
    limit_free_heap, lock_memory, monotonic, raise_open_files, set_nice, set_real_time, set_timer_slack,
    thread_cpu_time, trim_heap,
};
pub use socket::{accept, defer_port, set_buffers, wait_writable};

fn owned(fd: libc::c_int) -> io::Result<OwnedFd> {
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a system call has just created the descriptor, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

#[cfg(test)]
pub(crate) mod tests;
