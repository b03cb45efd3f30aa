//! A TLS connection as a layer of a stream connection.
//!
//! ```text
//! handshake --ended--> open --close_notify, error--> closed
//!     |  (step by step, here or on the threads of `threads.rs`)
//!     +--> failed: alert sent, reported, counted
//! ```

use crate::connection::Connection;
use crate::counters::add;
use crate::flight::is_tls;
use crate::handshake::Handshake;
use crate::job::{Job, Outcome};
use crate::report::{FAILED, Peer};
use crate::unread::UnreadBytes;
use crate::verified::{Verification, VerifiedPeer};
use ringway_sansio::PeerNames;
use ringway_stream::{Decoded, Encoded, Layer, LayerError};
use std::sync::Arc;

/// TLS as a layer.
pub struct TlsLayer {
    state: State,
    unread: UnreadBytes,
    /// `None`: an end before the handshake is not reported.
    unfinished: Option<Unfinished>,
    /// Messages to send after the handshake.
    kept: Vec<u8>,
    /// Rules by which the names of the peer's certificate count; `None`: they do not.
    verification: Option<Verification>,
    /// Peer with a certificate, after the handshake.
    verified: Option<Arc<VerifiedPeer>>,
}

enum State {
    /// The next step of the handshake begins with received bytes.
    Handshake(Box<Handshake>),
    /// A thread has the handshake for its next step.
    Elsewhere {
        job: Arc<Job>,
        /// Number of bytes that the job was given.
        given: usize,
    },
    Open(Box<Connection>),
    Closed,
}

impl TlsLayer {
    pub(crate) fn new(handshake: Handshake) -> Self {
        let state = State::Handshake(Box::new(handshake));
        Self {
            state,
            unread: UnreadBytes::default(),
            unfinished: None,
            kept: Vec::new(),
            verification: None,
            verified: None,
        }
    }

    /// Reports a dialled connection that ends before the server answers.
    pub(crate) fn reporting_end(self) -> Self {
        Self { unfinished: Some(Unfinished::default()), ..self }
    }

    /// Lets the names of the peer's certificate count.
    pub(crate) fn verified_by(self, verification: Verification) -> Self {
        Self { verification: Some(verification), ..self }
    }

    /// Runs the next step of the handshake, or passes it to a thread.
    fn step(
        &mut self,
        bytes: &[u8],
        decoded: &mut dyn FnMut(Decoded<'_>),
        wire: &mut Vec<u8>,
    ) -> Result<(), LayerError> {
        let State::Handshake(mut handshake) = std::mem::replace(&mut self.state, State::Closed) else {
            return Ok(());
        };
        handshake.expect_tls(bytes)?;
        match handshake.step_here(bytes, decoded, wire) {
            Some(result) => {
                result?;
                self.stepped(handshake, wire);
            }
            None => {
                let job = Job::start(handshake, bytes).ok_or(FAILED)?;
                self.state = State::Elsewhere { job, given: bytes.len() };
            }
        }
        Ok(())
    }

    /// Takes the handshake back from a thread.
    fn collect(
        &mut self,
        decoded: &mut dyn FnMut(Decoded<'_>),
        wire: &mut Vec<u8>,
    ) -> Result<(), LayerError> {
        let State::Elsewhere { job, .. } = &self.state else { return Ok(()) };
        let Some(outcome) = job.take() else { return Ok(()) };
        self.state = State::Closed;
        let Outcome { handshake, result, wire: sent, plain, is_end, rest } = outcome;
        wire.extend_from_slice(&sent);
        result?;
        self.stepped(handshake, wire);
        if !plain.is_empty() {
            decoded(Decoded::Bytes(&plain));
        }
        if is_end {
            decoded(Decoded::StreamEnd);
        }
        if rest.is_empty() { Ok(()) } else { self.process(&rest, decoded, wire) }
    }

    /// Processes received bytes.
    fn process(
        &mut self,
        bytes: &[u8],
        decoded: &mut dyn FnMut(Decoded<'_>),
        wire: &mut Vec<u8>,
    ) -> Result<(), LayerError> {
        let result = match &mut self.state {
            State::Handshake(_) => return self.step(bytes, decoded, wire),
            State::Elsewhere { job, given } => {
                *given += bytes.len();
                job.push(bytes, *given)
            }
            State::Open(connection) => {
                let result = connection.receive(bytes, decoded);
                connection.write_records(wire);
                result.map_err(|_| FAILED)
            }
            State::Closed => Err(CLOSED),
        };
        if result.is_err() {
            self.state = State::Closed;
        }
        result
    }

    fn follow_handshake(&mut self) {
        let Some(unfinished) = &mut self.unfinished else { return };
        unfinished.follow(match &self.state {
            State::Handshake(handshake) => Some(&**handshake),
            State::Elsewhere { .. } | State::Open(_) | State::Closed => None,
        });
    }

    /// Continues after a step: at the end of the handshake, sends the messages that were kept.
    fn stepped(&mut self, handshake: Box<Handshake>, wire: &mut Vec<u8>) {
        if !handshake.is_over() {
            self.state = State::Handshake(handshake);
            return;
        }
        let mut connection = handshake.finish();
        if let Some((rules, chain)) = self.verification.take().zip(connection.peer_certificates()) {
            self.verified = rules.accept(chain);
        }
        if !self.kept.is_empty() {
            // Writing into a connection's memory does not fail.
            let _ = connection.send(&std::mem::take(&mut self.kept));
            connection.write_records(wire);
        }
        self.state = State::Open(connection);
    }
}

impl Layer for TlsLayer {
    fn start(&mut self, wire: &mut Vec<u8>) {
        if let State::Handshake(handshake) = &mut self.state {
            handshake.start(wire);
        }
        self.follow_handshake();
    }

    fn decode(
        &mut self,
        bytes: &[u8],
        decoded: &mut dyn FnMut(Decoded<'_>),
        wire: &mut Vec<u8>,
    ) -> Result<(), LayerError> {
        self.unread.note(bytes);
        let result = self.collect(decoded, wire).and_then(|()| self.process(bytes, decoded, wire));
        self.follow_handshake();
        result
    }

    fn resume(&mut self, decoded: &mut dyn FnMut(Decoded<'_>), wire: &mut Vec<u8>) -> Result<(), LayerError> {
        let result = self.collect(decoded, wire);
        self.follow_handshake();
        result
    }

    fn encode(&mut self, message: &[u8], wire: &mut Vec<u8>) -> Result<Encoded, LayerError> {
        match &mut self.state {
            State::Open(connection) => {
                connection.send(message)?;
                connection.write_records(wire);
            }
            State::Handshake(_) | State::Elsewhere { .. } => self.kept.extend_from_slice(message),
            State::Closed => return Err(CLOSED),
        }
        Ok(Encoded::Appended)
    }

    fn finish(&mut self, wire: &mut Vec<u8>) {
        if let State::Open(connection) = &mut self.state {
            connection.send_close_notify();
            connection.write_records(wire);
        }
    }

    fn peer_names(&self) -> Option<Arc<PeerNames>> {
        self.verified.as_ref()?.names()
    }

    fn is_handshaking(&self) -> bool {
        matches!(self.state, State::Handshake(_) | State::Elsewhere { .. })
    }

    fn held_bytes(&self) -> usize {
        let state = match &self.state {
            State::Handshake(_) | State::Elsewhere { .. } => HANDSHAKE_BYTES + self.unread.of_handshake(),
            State::Open(_) => OPEN_BYTES + self.unread.of_record(),
            State::Closed => 0,
        };
        state + self.kept.capacity() + self.verified.as_ref().map_or(0, |peer| peer.held_bytes())
    }
}

/// Server of a dialled connection whose handshake waits for it. If the connection ends before it answers, which is what a
/// port without TLS does, the end is reported.
#[derive(Default)]
struct Unfinished(Option<Peer>);

impl Unfinished {
    /// Notes the handshake that waits for bytes; `None`: there is none.
    fn follow(&mut self, handshake: Option<&Handshake>) {
        match handshake {
            Some(handshake) if self.0.is_none() => self.0 = handshake.server().cloned(),
            Some(_) => {}
            None => self.0 = None,
        }
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if let Some(peer) = &self.0 {
            peer.report("the connection ended before its TLS handshake; check that the port is one with TLS");
        }
    }
}

/// Layer of a TCP connection that notices a peer which speaks TLS.
pub(crate) struct PlainLayer {
    peer: Peer,
    has_begun: bool,
}

impl PlainLayer {
    pub(crate) const fn new(peer: Peer) -> Self {
        Self { peer, has_begun: false }
    }
}

impl Layer for PlainLayer {
    fn decode(
        &mut self,
        bytes: &[u8],
        decoded: &mut dyn FnMut(Decoded<'_>),
        _wire: &mut Vec<u8>,
    ) -> Result<(), LayerError> {
        if !std::mem::replace(&mut self.has_begun, true) && is_tls(bytes) {
            add(&self.peer.reports.counters.tls_on_plain_port);
            self.peer
                .report("the peer speaks TLS, but this port is without TLS: use the port of a tls: listener");
            return Err(LayerError("TLS on a port without TLS"));
        }
        decoded(Decoded::Bytes(bytes));
        Ok(())
    }

    fn encode(&mut self, _message: &[u8], _wire: &mut Vec<u8>) -> Result<Encoded, LayerError> {
        Ok(Encoded::Unchanged)
    }

    fn is_handshaking(&self) -> bool {
        false
    }

    fn held_bytes(&self) -> usize {
        0
    }
}

const CLOSED: LayerError = LayerError("the TLS connection is closed");
/// Approximate memory of a connection during its handshake, and after it, in bytes, without what it received.
const HANDSHAKE_BYTES: usize = 16 << 10;
const OPEN_BYTES: usize = 8 << 10;
