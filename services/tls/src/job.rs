//! A handshake that a thread has for its next step.
//!
//! A layer passes its handshake with the received bytes to a [`Job`]. A thread runs the step, and makes the worker continue the
//! connection, which takes the handshake back.

use crate::handshake::{HandOver, Handshake};
use crate::limits::{Task, lock};
use crate::report::{FAILED, Peer};
use ringway_linux::Resume;
use ringway_stream::{Decoded, LayerError};
use std::sync::{Arc, Mutex};

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
    /// A failure has one report: that of the thread, or that of too many bytes.
    is_reported: bool,
}

impl JobState {
    /// Counts and reports the first failure; returns the error of the layer.
    fn fail(&mut self, peer: &Peer, error: &rustls::Error) -> LayerError {
        if std::mem::replace(&mut self.is_reported, true) { FAILED } else { peer.failed(error) }
    }
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
        let state =
            JobState { handshake: Some(handshake), input: bytes.to_vec(), outcome: None, is_reported: false };
        let job = Arc::new(Self { state: Mutex::new(state), resume, peer });
        threads.submit(Arc::clone(&job) as Arc<dyn Task>);
        Some(job)
    }

    /// Adds received bytes. `held` is the number of all bytes that were passed to the job.
    ///
    /// # Errors
    /// There are too many bytes, which is counted and reported.
    pub(crate) fn push(&self, bytes: &[u8], held: usize) -> Result<(), LayerError> {
        let mut state = lock(&self.state);
        if held > HANDSHAKE_BYTES_MAX {
            state.input = Vec::new();
            let error = rustls::Error::General("the handshake has too many bytes".to_owned());
            return Err(state.fail(&self.peer, &error));
        }
        state.input.extend_from_slice(bytes);
        Ok(())
    }

    /// Takes the handshake back; `None` if the thread is not done.
    pub(crate) fn take(&self) -> Option<Outcome> {
        lock(&self.state).outcome.take()
    }
}

impl Task for Job {
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
            let result = handshake.advance(&input, &mut decoded, &mut wire);
            state = lock(&self.state);
            if result.is_err() || handshake.is_over() || state.input.is_empty() {
                break result;
            }
        };
        let result = result.map_err(|error| state.fail(&self.peer, &error));
        let rest = std::mem::take(&mut state.input);
        state.outcome = Some(Outcome { handshake, result, wire, plain, is_end, rest });
        drop(state);
        self.resume.resume();
    }
}

/// Maximum number of bytes that one job is given: some certificate chains.
const HANDSHAKE_BYTES_MAX: usize = 64 << 10;

#[cfg(test)]
#[path = "job_tests.rs"]
mod tests;
