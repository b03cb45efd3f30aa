//! The system calls that neither std nor `socket2` offers: batches of datagrams, time stamps, epoll, eventfd, timers,
//! real-time priority.
//!
//! Every function here is safe to call; what has to be true for the kernel is kept true inside. This folder is the one
//! place of the crate with `unsafe` in it.
#![allow(unsafe_code)]

mod datagrams;
mod epoll;
mod name;
mod process;
mod socket;
mod stamped;

pub use datagrams::{BATCH_MAX, DATAGRAM_BYTES_MAX, ReceiveBatch, SendBatch, Sending, Wait};
pub use epoll::{Epoll, EventFd, Interest, Ready, ReadyList, Timer};
pub use process::{
    bound_free_heap, lock_memory, monotonic, raise_open_files, set_nice, set_real_time, set_timer_slack,
    trim_heap,
};
pub use socket::{accept, set_buffers, wait_writable};
pub use stamped::{Stamped, StampedBatch, stamp_arrivals};

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

fn owned(fd: libc::c_int) -> io::Result<OwnedFd> {
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a descriptor that a system call has just made and nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

#[cfg(test)]
mod tests;
