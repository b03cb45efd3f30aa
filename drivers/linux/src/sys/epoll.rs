//! Epoll, eventfd, and timers with absolute deadlines.

use super::owned;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// Events that are watched on a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// Errors only.
    Nothing,
    /// Readable: bytes, or a pending connection.
    Read,
    /// Writable, or connected.
    Write,
    /// Both.
    ReadWrite,
}

/// Events of a descriptor.
#[derive(Clone, Copy, Debug)]
pub struct Ready {
    /// Token with which it was added.
    pub token: u64,
    /// Readable, at its end, or with an error that reading returns.
    pub read: bool,
    /// Writable, or with an error that writing returns.
    pub write: bool,
    /// With an error. Of a datagram socket: ICMP errors are queued.
    pub error: bool,
}

/// A level-triggered epoll: events are reported until they are handled.
pub struct Epoll(OwnedFd);

impl Epoll {
    /// Creates an epoll.
    pub fn new() -> io::Result<Self> {
        // SAFETY: no pointers; a non-negative result is a new descriptor.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        owned(fd).map(Self)
    }

    /// Watches a descriptor until it is closed.
    pub fn add(&self, fd: BorrowedFd<'_>, token: u64, interest: Interest) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd, token, interest)
    }

    /// Changes the watched events of a descriptor.
    pub fn modify(&self, fd: BorrowedFd<'_>, token: u64, interest: Interest) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, fd, token, interest)
    }

    /// Stops watching a descriptor that stays open.
    pub fn remove(&self, fd: BorrowedFd<'_>) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_DEL, fd, 0, Interest::Nothing)
    }

    /// Waits without a limit; stores the events in `ready`.
    pub fn wait_long(&self, ready: &mut ReadyList) -> io::Result<()> {
        self.wait_ms(ready, -1)
    }

    /// Waits up to `timeout`, rounded up to milliseconds; stores the events in `ready`.
    pub fn wait(&self, ready: &mut ReadyList, timeout: Duration) -> io::Result<()> {
        let nanos = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
        let timeout_ms = libc::c_int::try_from(nanos.div_ceil(1_000_000)).unwrap_or(libc::c_int::MAX);
        self.wait_ms(ready, timeout_ms)
    }

    /// Waits up to `timeout`, as exactly as the thread's timer slack permits; stores the events in `ready`. Before Linux 5.11 the
    /// time is rounded up to milliseconds.
    pub fn wait_exact(&self, ready: &mut ReadyList, timeout: Duration) -> io::Result<()> {
        ready.filled = 0;
        let time = libc::timespec {
            tv_sec: libc::time_t::try_from(timeout.as_secs()).unwrap_or(libc::time_t::MAX),
            tv_nsec: timeout.subsec_nanos() as libc::c_long,
        };
        // SAFETY: the list has the given number of elements, the time lives through the call, and no signal mask is given.
        let count = unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait2,
                self.0.as_raw_fd(),
                ready.list.as_mut_ptr(),
                ready.list.len() as libc::c_int,
                &raw const time,
                std::ptr::null::<libc::sigset_t>(),
                0,
            )
        };
        match usize::try_from(count) {
            Ok(count) => ready.filled = count,
            Err(_) => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => {}
                error if error.raw_os_error() == Some(libc::ENOSYS) => return self.wait(ready, timeout),
                error => return Err(error),
            },
        }
        Ok(())
    }

    fn wait_ms(&self, ready: &mut ReadyList, timeout_ms: libc::c_int) -> io::Result<()> {
        ready.filled = 0;
        // SAFETY: the list has the given number of elements.
        let count = unsafe {
            libc::epoll_wait(
                self.0.as_raw_fd(),
                ready.list.as_mut_ptr(),
                ready.list.len() as libc::c_int,
                timeout_ms,
            )
        };
        ready.filled = match usize::try_from(count) {
            Ok(count) => count,
            Err(_) => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => 0,
                error => return Err(error),
            },
        };
        Ok(())
    }

    fn control(
        &self,
        operation: libc::c_int,
        fd: BorrowedFd<'_>,
        token: u64,
        interest: Interest,
    ) -> io::Result<()> {
        let events = match interest {
            Interest::Nothing => 0,
            Interest::Read => libc::EPOLLIN | libc::EPOLLRDHUP,
            Interest::Write => libc::EPOLLOUT,
            Interest::ReadWrite => libc::EPOLLIN | libc::EPOLLRDHUP | libc::EPOLLOUT,
        };
        let mut event = libc::epoll_event { events: events as u32, u64: token };
        // SAFETY: both descriptors are open because they are borrowed; the event outlives the call.
        let result = unsafe { libc::epoll_ctl(self.0.as_raw_fd(), operation, fd.as_raw_fd(), &mut event) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

/// Events of the last [`Epoll::wait`].
pub struct ReadyList {
    list: Vec<libc::epoll_event>,
    filled: usize,
}

impl ReadyList {
    /// Creates a list for `events` events, at least one; further ones are reported next time.
    pub fn new(events: usize) -> Self {
        Self { list: vec![libc::epoll_event { events: 0, u64: 0 }; events.max(1)], filled: 0 }
    }

    /// Number of events.
    pub fn len(&self) -> usize {
        self.filled
    }

    /// True if the wait timed out.
    pub fn is_empty(&self) -> bool {
        self.filled == 0
    }

    /// The event at `index`.
    pub fn at(&self, index: usize) -> Option<Ready> {
        let event = self.list.get(..self.filled)?.get(index)?;
        let broken = libc::EPOLLERR | libc::EPOLLHUP;
        let flags = event.events as libc::c_int;
        Some(Ready {
            token: event.u64,
            read: flags & (libc::EPOLLIN | libc::EPOLLRDHUP | broken) != 0,
            write: flags & (libc::EPOLLOUT | broken) != 0,
            error: flags & libc::EPOLLERR != 0,
        })
    }
}

/// A descriptor that another thread makes readable, to end a wait.
pub struct EventFd(OwnedFd);

impl EventFd {
    /// Creates an unreadable eventfd.
    pub fn new() -> io::Result<Self> {
        // SAFETY: no pointers; a non-negative result is a new descriptor.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        owned(fd).map(Self)
    }

    /// Makes it readable. It fails only after 2^64-2 calls, when it is readable anyway.
    pub fn signal(&self) {
        let one = 1_u64.to_ne_bytes();
        // SAFETY: the eight bytes live through the call.
        let _ = unsafe { libc::write(self.0.as_raw_fd(), one.as_ptr().cast(), one.len()) };
    }

    /// Makes it unreadable.
    pub fn reset(&self) {
        let mut count = [0_u8; 8];
        // SAFETY: the eight bytes live through the call. An error means that it was not readable.
        let _ = unsafe { libc::read(self.0.as_raw_fd(), count.as_mut_ptr().cast(), count.len()) };
    }
}

impl AsFd for EventFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// A descriptor that becomes readable at a time of the monotonic clock.
pub struct Timer(OwnedFd);

impl Timer {
    /// Creates a timer that is not set.
    pub fn new() -> io::Result<Self> {
        // SAFETY: no pointers; a non-negative result is a new descriptor.
        let fd =
            unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_CLOEXEC | libc::TFD_NONBLOCK) };
        owned(fd).map(Self)
    }

    /// Makes it unreadable until `due`, a time of [`monotonic`](super::monotonic). It becomes readable at once if the
    /// time has passed.
    pub fn set(&self, due: Duration) {
        // Zero would disarm the timer.
        let due = due.max(Duration::from_nanos(1));
        let times = libc::itimerspec {
            it_interval: libc::timespec { tv_sec: 0, tv_nsec: 0 },
            it_value: libc::timespec {
                tv_sec: libc::time_t::try_from(due.as_secs()).unwrap_or(libc::time_t::MAX),
                tv_nsec: due.subsec_nanos() as libc::c_long,
            },
        };
        // SAFETY: `times` lives through the call, and nothing is written back. It fails only for invalid times.
        let _ = unsafe {
            libc::timerfd_settime(self.0.as_raw_fd(), libc::TFD_TIMER_ABSTIME, &times, std::ptr::null_mut())
        };
    }
}

impl AsFd for Timer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
