//! Threads for handshakes, so that a flood of them leaves the workers' other users alone.
//!
//! A layer passes the bytes of its handshake to a [`Job`]. A thread processes them with a lower priority than the workers,
//! and makes the worker continue the connection. At most one thread works for a connection at a time.

use crate::connection::Connection;
use crate::records::{Progress, process};
use crate::report::Peer;
use ringway_linux::{Resume, sys};
use ringway_sansio::source_of;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Limits of handshakes in progress, on accepted connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandshakeLimits {
    /// Maximum number of all sources.
    pub total: usize,
    /// Maximum number of one source (an IPv4 address, an IPv6 /64 network).
    pub per_source: usize,
}

impl Default for HandshakeLimits {
    fn default() -> Self {
        Self { total: 2048, per_source: 256 }
    }
}

/// Numbers of handshakes in progress.
#[derive(Debug, Default)]
pub(crate) struct Permits {
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    total: usize,
    by_source: HashMap<IpAddr, usize>,
}

/// Reason why a handshake does not begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    Total,
    Source,
}

impl Permits {
    /// Counts a handshake until the permit is dropped.
    pub(crate) fn take(
        self: &Arc<Self>,
        address: IpAddr,
        limits: HandshakeLimits,
    ) -> Result<Permit, Refused> {
        let source = source_of(address);
        let mut open = lock(&self.open);
        if open.total >= limits.total {
            return Err(Refused::Total);
        }
        let of_source = open.by_source.entry(source).or_default();
        if *of_source >= limits.per_source {
            return Err(Refused::Source);
        }
        *of_source += 1;
        open.total += 1;
        Ok(Permit { permits: Arc::clone(self), source })
    }
}

/// One handshake in progress.
#[derive(Debug)]
pub(crate) struct Permit {
    permits: Arc<Permits>,
    source: IpAddr,
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut open = lock(&self.permits.open);
        open.total -= 1;
        if let Some(of_source) = open.by_source.get_mut(&self.source) {
            *of_source -= 1;
            if *of_source == 0 {
                open.by_source.remove(&self.source);
            }
        }
    }
}

/// Handshake of one connection on the threads.
pub(crate) struct Job {
    state: Mutex<JobState>,
    resume: Resume,
    peer: Peer,
}

/// Content of a [`Job`].
pub(crate) struct JobState {
    /// `None` while a thread works on it.
    pub(crate) connection: Option<Box<Connection>>,
    pub(crate) progress: Progress,
    /// Received bytes that no thread has taken.
    pub(crate) input: Vec<u8>,
    is_queued: bool,
    is_cancelled: bool,
    /// Share of the limits of handshakes, while it is not over.
    permit: Option<Permit>,
}

impl Job {
    pub(crate) fn new(
        connection: Box<Connection>,
        resume: Resume,
        peer: Peer,
        permit: Option<Permit>,
    ) -> Arc<Self> {
        let state = JobState {
            connection: Some(connection),
            progress: Progress::default(),
            input: Vec::new(),
            is_queued: false,
            is_cancelled: false,
            permit,
        };
        Arc::new(Self { state: Mutex::new(state), resume, peer })
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, JobState> {
        lock(&self.state)
    }

    /// Notes that the connection is closed. Received bytes are processed nevertheless: they may contain the alert with which
    /// the peer refused the handshake.
    pub(crate) fn cancel(&self) {
        let mut state = self.lock();
        state.is_cancelled = true;
        if !state.is_queued {
            state.permit = None;
        }
    }

    fn run(&self) {
        let mut state = self.lock();
        loop {
            let Some(mut connection) = state.connection.take() else { return };
            let input = std::mem::take(&mut state.input);
            drop(state);
            let mut progress = Progress::default();
            process(&mut connection, &input, &mut progress);
            if let Some(error) = &progress.error {
                self.peer.failed(error);
            }
            state = self.lock();
            if progress.is_over || state.is_cancelled {
                state.permit = None;
            }
            state.connection = Some(connection);
            state.progress.add(progress);
            if state.input.is_empty() || state.progress.is_over {
                state.is_queued = false;
                break;
            }
        }
        drop(state);
        self.resume.resume();
    }
}

/// Threads that run jobs in the order of their arrival.
pub(crate) struct HandshakeThreads {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    work: Condvar,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Arc<Job>>,
    is_ended: bool,
}

impl HandshakeThreads {
    pub(crate) fn start() -> io::Result<Self> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = Self { shared: Arc::default() };
        for number in 0..cores.div_ceil(2) {
            let shared = Arc::clone(&threads.shared);
            std::thread::Builder::new().name(format!("handshake-{number}")).spawn(move || {
                // Without the permission they compete with the workers.
                let _ = sys::set_nice(NICE);
                shared.run();
            })?;
        }
        Ok(threads)
    }

    /// Queues a job, unless it is queued already. The number of queued jobs is that of handshakes in progress at most.
    pub(crate) fn submit(&self, job: &Arc<Job>, state: &mut JobState) {
        if !std::mem::replace(&mut state.is_queued, true) {
            lock(&self.shared.queue).jobs.push_back(Arc::clone(job));
            self.shared.work.notify_one();
        }
    }
}

impl Drop for HandshakeThreads {
    fn drop(&mut self) {
        lock(&self.shared.queue).is_ended = true;
        self.shared.work.notify_all();
    }
}

impl Shared {
    fn run(&self) {
        let mut queue = lock(&self.queue);
        while !queue.is_ended {
            match queue.jobs.pop_front() {
                Some(job) => {
                    drop(queue);
                    job.run();
                    queue = lock(&self.queue);
                }
                None => queue = self.work.wait(queue).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Nice value of the threads: a ninth of the share of a worker.
const NICE: i8 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handshakes_are_limited_by_source_and_together() {
        let permits = Arc::new(Permits::default());
        let limits = HandshakeLimits { total: 3, per_source: 2 };
        let address = |text: &str| text.parse::<IpAddr>().unwrap();
        let first = permits.take(address("2001:db8::1"), limits).unwrap();
        let _second = permits.take(address("2001:db8::2"), limits).unwrap();
        assert_eq!(
            permits.take(address("2001:db8::3"), limits).unwrap_err(),
            Refused::Source,
            "one /64 network"
        );
        let _third = permits.take(address("192.0.2.1"), limits).unwrap();
        assert_eq!(permits.take(address("192.0.2.2"), limits).unwrap_err(), Refused::Total);
        drop(first);
        let fourth = permits.take(address("192.0.2.2"), limits).unwrap();
        drop(fourth);
        assert_eq!(lock(&permits.open).by_source.len(), 2, "a source without a handshake is forgotten");
    }
}
