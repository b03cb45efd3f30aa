//! One handshake in progress, and its steps.

use crate::budget::Budget;
use crate::connection::Connection;
use crate::counters::add;
use crate::flight::{RECORD_HANDSHAKE, has_few_certificates, is_client_hello};
use crate::handshakes::Permit;
use crate::report::{Peer, Role};
use crate::threads::HandshakeThreads;
use ringway_linux::Resume;
use ringway_stream::{Decoded, LayerError};
use rustls::HandshakeKind;
use std::sync::Arc;

/// Handshake in progress. Each step processes received bytes; a step that fails counts and reports the failure.
pub(crate) struct Handshake {
    connection: Box<Connection>,
    peer: Peer,
    /// Verification of the peer's certificate, which can cost far more than an own signature.
    verifies_peer: bool,
    has_begun: bool,
    /// True if the processed bytes are one ClientHello, so that the next ones begin with the next flight.
    is_after_hello: bool,
    /// `None`: all steps run on the connection's own thread.
    hand_over: Option<HandOver>,
    was_handed_over: bool,
    /// Share of the limits, on an accepted connection.
    _permit: Option<Permit>,
}

/// Threads that take over steps for which the connection's worker has no time.
#[derive(Clone)]
pub(crate) struct HandOver {
    pub(crate) threads: Arc<HandshakeThreads>,
    /// Of the worker.
    pub(crate) budget: Arc<Budget>,
    pub(crate) resume: Resume,
}

impl Handshake {
    /// Creates a handshake whose steps run on the thread that calls them.
    pub(crate) fn new(connection: Connection, peer: Peer) -> Self {
        Self {
            connection: Box::new(connection),
            verifies_peer: peer.role == Role::Client,
            peer,
            has_begun: false,
            is_after_hello: false,
            hand_over: None,
            was_handed_over: false,
            _permit: None,
        }
    }

    /// Lets threads run the steps that are too much for the worker.
    pub(crate) fn with_threads(self, hand_over: HandOver) -> Self {
        Self { hand_over: Some(hand_over), ..self }
    }

    /// Makes it count as an accepted handshake until its end. `has_client_auth`: a certificate is requested of the client.
    pub(crate) fn accepted(self, permit: Permit, has_client_auth: bool) -> Self {
        Self { verifies_peer: has_client_auth, _permit: Some(permit), ..self }
    }

    /// Appends the first flight of a client.
    pub(crate) fn start(&mut self, wire: &mut Vec<u8>) {
        self.connection.write_records(wire);
    }

    /// The peer, if it was dialled.
    pub(crate) fn server(&self) -> Option<&Peer> {
        Some(&self.peer).filter(|peer| peer.role == Role::Client)
    }

    /// Checks that the first bytes of a client are TLS.
    ///
    /// # Errors
    /// They are not; it is counted and reported.
    pub(crate) fn expect_tls(&mut self, bytes: &[u8]) -> Result<(), LayerError> {
        if self.has_begun || self.peer.role == Role::Client {
            return Ok(());
        }
        match bytes.first() {
            None | Some(&RECORD_HANDSHAKE) => Ok(()),
            Some(_) => {
                add(&self.peer.reports.counters.tls_not_tls);
                let seen: String = bytes.iter().take(SEEN_BYTES).map(|&byte| printable(byte)).collect();
                self.peer.report(&format!("the peer does not speak TLS; it began with `{seen}`"));
                Err(LayerError("no TLS on a TLS port"))
            }
        }
    }

    /// Runs a step on the connection's own thread. `None`: it must run on one of the threads.
    pub(crate) fn step_here(
        &mut self,
        bytes: &[u8],
        decoded: &mut dyn FnMut(Decoded<'_>),
        wire: &mut Vec<u8>,
    ) -> Option<Result<(), LayerError>> {
        let Some(HandOver { budget, .. }) = &self.hand_over else {
            return Some(self.step(bytes, decoded, wire));
        };
        if self.may_verify(bytes) {
            return None;
        }
        let budget = Arc::clone(budget);
        let begun = budget.begin()?;
        let result = self.step(bytes, decoded, wire);
        budget.end(begun);
        Some(result)
    }

    /// Processes received bytes.
    ///
    /// # Errors
    /// The handshake failed, which is counted and reported.
    pub(crate) fn step(
        &mut self,
        bytes: &[u8],
        decoded: &mut dyn FnMut(Decoded<'_>),
        wire: &mut Vec<u8>,
    ) -> Result<(), LayerError> {
        self.advance(bytes, decoded, wire).map_err(|error| self.peer.failed(&error))
    }

    /// Processes received bytes, and leaves the report of a failure to the caller.
    pub(crate) fn advance(
        &mut self,
        bytes: &[u8],
        decoded: &mut dyn FnMut(Decoded<'_>),
        wire: &mut Vec<u8>,
    ) -> Result<(), rustls::Error> {
        self.is_after_hello = !self.has_begun && is_client_hello(bytes);
        self.has_begun = true;
        let result = self.connection.receive(bytes, decoded);
        self.connection.write_records(wire);
        result
    }

    pub(crate) fn is_over(&self) -> bool {
        !self.connection.is_handshaking()
    }

    /// Ends the handshake.
    pub(crate) fn finish(self) -> Box<Connection> {
        let Self { mut connection, peer, was_handed_over, .. } = self;
        peer.reports.counters.completed(
            peer.role == Role::Server,
            connection.handshake_kind(),
            was_handed_over,
        );
        connection.allow_any_size();
        connection
    }

    /// Notes that threads run the next steps; returns what they need. `None`: there are no threads.
    pub(crate) fn hand_over(&mut self) -> Option<(HandOver, Peer)> {
        let hand_over = self.hand_over.clone()?;
        self.was_handed_over = true;
        Some((hand_over, self.peer.clone()))
    }

    /// True if the bytes may make this side verify a chain of certificates without a bound. One can be made such that a hundred
    /// signatures are verified.
    fn may_verify(&self, bytes: &[u8]) -> bool {
        let is_resumed = self.connection.handshake_kind() == Some(HandshakeKind::Resumed);
        let is_bounded = match self.has_begun {
            false => is_client_hello(bytes),
            true => self.is_after_hello && has_few_certificates(bytes),
        };
        self.verifies_peer && !is_resumed && !is_bounded
    }
}

const fn printable(byte: u8) -> char {
    if byte.is_ascii_graphic() || byte == b' ' { byte as char } else { '.' }
}

/// Number of bytes of another protocol that a report quotes.
const SEEN_BYTES: usize = 16;
