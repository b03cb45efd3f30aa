//! Threads for the steps of handshakes for which the workers have no time, so that a flood of handshakes leaves the
//! workers' other users alone.
//!
//! A layer passes its handshake with the received bytes to a [`Job`]. A thread runs the step with a lower priority than the
//! workers, and makes the worker continue the connection, which takes the handshake back.

use crate::handshake::{HandOver, Handshake};
use crate::handshakes::lock;
use crate::report::Peer;
use ringway_linux::{Resume, sys};
use ringway_stream::{Decoded, LayerError};
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// Handshake that a thread has for its next step.
pub(crate) struct Job {
    state: Mutex<JobState>,
    resume: Resume,
    peer: Peer,
}

struct JobState {
    /// `None` once a thread works on it.
    handshake: Option<Box<Handshake>>,
    /// Received bytes that the thread has not taken.
    input: Vec<u8>,
    outcome: Option<Outcome>,
}

/// Result of the steps of a [`Job`].
pub(crate) struct Outcome {
    pub(crate) handshake: Box<Handshake>,
    pub(crate) result: Result<(), LayerError>,
    /// Bytes for the peer.
    pub(crate) wire: Vec<u8>,
    /// Decoded bytes.
    pub(crate) plain: Vec<u8>,
    /// The peer sends nothing more.
    pub(crate) is_end: bool,
    /// Received bytes after the handshake.
    pub(crate) rest: Vec<u8>,
}

impl Job {
    /// Queues the step of a handshake that processes `bytes`. `None`: it has no threads.
    ///
    /// The number of queued jobs is at most that of handshakes in progress. A job remains queued after its connection is
    /// closed: the bytes may be the alert by which the peer refuses the handshake.
    pub(crate) fn start(mut handshake: Box<Handshake>, bytes: &[u8]) -> Option<Arc<Self>> {
        let (HandOver { threads, resume, .. }, peer) = handshake.hand_over()?;
        let state = JobState { handshake: Some(handshake), input: bytes.to_vec(), outcome: None };
        let job = Arc::new(Self { state: Mutex::new(state), resume, peer });
        threads.submit(Arc::clone(&job));
        Some(job)
    }

    /// Adds received bytes. `held` is the number of all bytes that were passed to the job.
    ///
    /// # Errors
    /// There are too many bytes, which is counted and reported.
    pub(crate) fn push(&self, bytes: &[u8], held: usize) -> Result<(), LayerError> {
        if held > HANDSHAKE_BYTES_MAX {
            lock(&self.state).input = Vec::new();
            let error = rustls::Error::General("the handshake has too many bytes".to_owned());
            return Err(self.peer.failed(&error));
        }
        lock(&self.state).input.extend_from_slice(bytes);
        Ok(())
    }

    /// Takes the handshake back; `None` if the thread is not done.
    pub(crate) fn take(&self) -> Option<Outcome> {
        lock(&self.state).outcome.take()
    }

    fn run(&self) {
        let mut state = lock(&self.state);
        let Some(mut handshake) = state.handshake.take() else { return };
        let (mut wire, mut plain, mut is_end) = (Vec::new(), Vec::new(), false);
        let result = loop {
            let input = std::mem::take(&mut state.input);
            drop(state);
            let mut decoded = |part: Decoded<'_>| match part {
                Decoded::Bytes(bytes) => plain.extend_from_slice(bytes),
                Decoded::StreamEnd => is_end = true,
                Decoded::MessageStart | Decoded::MessageEnd | Decoded::Ping => {}
            };
            let result = handshake.step(&input, &mut decoded, &mut wire);
            state = lock(&self.state);
            if result.is_err() || handshake.is_over() || state.input.is_empty() {
                break result;
            }
        };
        let rest = std::mem::take(&mut state.input);
        state.outcome = Some(Outcome { handshake, result, wire, plain, is_end, rest });
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

    fn submit(&self, job: Arc<Job>) {
        lock(&self.shared.queue).jobs.push_back(job);
        self.shared.work.notify_one();
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
                    drop(job);
                    queue = lock(&self.queue);
                }
                None => queue = self.work.wait(queue).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}

/// Nice value of the threads: a ninth of the share of a worker.
const NICE: i8 = 10;
/// Maximum number of bytes that one job is given: some certificate chains.
const HANDSHAKE_BYTES_MAX: usize = 64 << 10;

#[cfg(test)]
#[path = "threads_tests.rs"]
mod tests;
