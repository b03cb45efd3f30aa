//! A TLS connection as a layer of a stream connection, with the received bytes that it keeps because they are incomplete.
//!
//! ```text
//! handshake --ended--> open --close_notify, error--> closed
//!     |  (step by step, here or on the threads of `limits.rs`)
//!     +--> failed: alert sent, reported, counted
//! ```

use crate::connection::Connection;
use crate::handshake::{Handshake, is_tls};
use crate::identity::{Verification, VerifiedPeer};
use crate::job::{Job, Outcome};
use crate::report::{FAILED, Peer, add};
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

/// Bytes of the peer that the TLS library holds: those of the handshake, and then those of a record whose end is missing.
#[derive(Debug, Default)]
struct UnreadBytes {
    /// Number of all bytes so far.
    received: usize,
    header: [u8; HEADER_BYTES],
    /// Number of bytes of the current record, its header included.
    of_record: usize,
}

impl UnreadBytes {
    /// Notes received bytes: any part of a record, or several records.
    fn note(&mut self, mut bytes: &[u8]) {
        self.received = self.received.saturating_add(bytes.len());
        while let Some(next) = bytes.first() {
            if let Some(byte) = self.header.get_mut(self.of_record) {
                *byte = *next;
                self.of_record += 1;
                bytes = bytes.get(1..).unwrap_or_default();
            }
            let [.., high, low] = self.header;
            let record = HEADER_BYTES + usize::from(u16::from_be_bytes([high, low]));
            if self.of_record < HEADER_BYTES {
                continue;
            }
            let taken = bytes.len().min(record.saturating_sub(self.of_record));
            self.of_record += taken;
            bytes = bytes.get(taken..).unwrap_or_default();
            if self.of_record >= record {
                self.of_record = 0;
            }
        }
    }

    /// Bytes of the handshake, whose messages may be spread over several records.
    const fn of_handshake(&self) -> usize {
        self.received
    }

    /// Bytes of the record whose end is missing.
    const fn of_record(&self) -> usize {
        self.of_record
    }
}

/// Type, version and length (RFC 8446 §5.1).
const HEADER_BYTES: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_of_the_last_record_count_until_its_end_in_any_pieces() {
        let records =
            [&[22, 3, 3, 0, 3, 1, 2, 3][..], &[23, 3, 3, 0, 0], &[23, 3, 3, 1, 0], &[7; 256]].concat();
        let ends = [8, 13, 13 + 5 + 256];
        for piece in [1, 2, 3, 7, 100, 1000] {
            let (mut unread, mut position) = (UnreadBytes::default(), 0);
            for part in records.chunks(piece) {
                unread.note(part);
                position += part.len();
                let begun = ends.iter().rev().find(|end| **end <= position).copied().unwrap_or(0);
                assert_eq!((unread.of_record(), unread.of_handshake()), (position - begun, position));
            }
        }
    }
}
