//! System calls that neither std nor `socket2` offers: batches of datagrams, ICMP errors, time stamps, epoll, eventfd,
//! timers, and settings of the process and its threads: open files, real-time priority, locked memory.
//!
//! All functions are safe; the kernel's requirements are guaranteed inside. Only this folder of the crate contains
//! `unsafe`.
#![allow(unsafe_code)]

mod control;
mod datagrams;
mod epoll;
mod filter;
mod socket;
mod stamps;

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::time::Duration;

pub use control::{IcmpBatch, QueuedIcmp, Stamped, StampedBatch, queue_icmp_errors};
pub use datagrams::{BATCH_MAX, DATAGRAM_BYTES_MAX, ROOM_BYTES, ReceiveBatch, SendBatch, Sending, Wait};
pub use epoll::{Epoll, EventFd, Interest, Ready, ReadyList, Timer};
pub use filter::{attach_filter, detach_filter};
pub use socket::{accept, defer_port, set_buffers, wait_writable};
pub use stamps::{read_stamped, stamp_arrivals};

fn owned(fd: libc::c_int) -> io::Result<OwnedFd> {
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a system call has just created the descriptor, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Raises the soft limit of open files to the hard limit; returns the new limit.
pub fn raise_open_files() -> io::Result<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` lives through the call.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) } < 0 {
        return Err(io::Error::last_os_error());
    }
    limit.rlim_cur = limit.rlim_max;
    // SAFETY: `limit` lives through the call.
    if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(limit.rlim_cur)
}

/// Current time of the monotonic clock, which [`Timer`] uses.
pub fn monotonic() -> Duration {
    clock(libc::CLOCK_MONOTONIC)
}

/// CPU time of the calling thread.
pub fn thread_cpu_time() -> Duration {
    clock(libc::CLOCK_THREAD_CPUTIME_ID)
}

fn clock(clock: libc::clockid_t) -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` lives through the call. Both clocks exist on every Linux, so the call does not fail.
    let _ = unsafe { libc::clock_gettime(clock, &mut time) };
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Makes the calling thread run before all threads that are not real-time (`SCHED_FIFO`), with `priority` 1 to 99.
/// Threads that it starts do not inherit this.
pub fn set_real_time(priority: u8) -> io::Result<()> {
    let parameter = libc::sched_param { sched_priority: libc::c_int::from(priority) };
    let policy = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
    // SAFETY: `parameter` lives through the call; 0 is the calling thread.
    done(unsafe { libc::sched_setscheduler(0, policy, &parameter) })
}

/// Sets the nice value of the calling thread: -20 is the largest share of the processor, 19 the smallest.
pub fn set_nice(nice: i8) -> io::Result<()> {
    // SAFETY: no pointers; 0 is the calling thread.
    done(unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, libc::c_int::from(nice)) })
}

/// Sets the time by which the kernel may delay the calling thread's waits to join them with others.
pub fn set_timer_slack(slack: Duration) -> io::Result<()> {
    let nanos = libc::c_ulong::try_from(slack.as_nanos()).unwrap_or(libc::c_ulong::MAX).max(1);
    // SAFETY: no pointers.
    done(unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, nanos) })
}

/// Locks the currently mapped memory of the process, each page when it is touched. Memory mapped later is not locked:
/// with a small limit (`ulimit -l`) mapping it would fail.
pub fn lock_memory() -> io::Result<()> {
    // SAFETY: no pointers.
    done(unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_ONFAULT) })
}

/// Makes glibc's allocator return free memory at the end of a heap from 1 MiB on, and map blocks from 128 KiB on
/// separately (mallopt(3)). Otherwise both thresholds grow with the largest freed block, and memory of a flood is not
/// returned.
pub fn limit_free_heap() {
    #[cfg(target_env = "gnu")]
    // SAFETY: no pointers; the values are in the documented ranges.
    unsafe {
        libc::mallopt(libc::M_TRIM_THRESHOLD, 1 << 20);
        libc::mallopt(libc::M_MMAP_THRESHOLD, 128 << 10);
    }
}

/// Returns free pages of the heap to the system, if the allocator is glibc's.
pub fn trim_heap() {
    #[cfg(target_env = "gnu")]
    // SAFETY: no pointers; it may be called at any time from any thread.
    let _ = unsafe { libc::malloc_trim(0) };
}

fn done(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
pub(crate) mod tests;
