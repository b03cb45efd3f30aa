//! One handshake in progress, and its steps; contents of a client's plaintext flights, before they are processed.

use crate::connection::Connection;
use crate::limits::{Budget, HandshakeThreads, Permit};
use crate::report::{Peer, Role, add};
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

/// True for one record with one ClientHello, and nothing after it (RFC 8446 §5.1, §4).
fn is_client_hello(bytes: &[u8]) -> bool {
    let [RECORD_HANDSHAKE, 3, _, high, low, CLIENT_HELLO, a, b, c, ..] = *bytes else { return false };
    let record = usize::from(u16::from_be_bytes([high, low]));
    let message = u32::from_be_bytes([0, a, b, c]) as usize;
    bytes.len() == record + 5 && record == message + 4
}

/// True if the bytes begin with a Certificate message of TLS 1.2 (RFC 5246 §7.4.2) with at most [`CERTIFICATES_MAX`]
/// certificates. A path of so few has some signatures at most, while a longer chain can have a hundred paths. A handshake has one
/// Certificate message, so it does not matter what follows.
fn has_few_certificates(bytes: &[u8]) -> bool {
    let [RECORD_HANDSHAKE, 3, _, high, low, ref record @ ..] = *bytes else { return false };
    let record = record.get(..usize::from(u16::from_be_bytes([high, low])));
    let message = record.and_then(|record| record.strip_prefix(&[CERTIFICATE])).and_then(prefixed);
    let Some((mut list, [])) = message.and_then(|(message, _)| prefixed(message)) else { return false };
    for _ in 0..CERTIFICATES_MAX {
        let Some((_, rest)) = prefixed(list) else { break };
        list = rest;
    }
    list.is_empty()
}

/// Splits off a vector with a length of 24 bits (RFC 8446 §3.4).
fn prefixed(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let ([a, b, c], rest) = bytes.split_first_chunk()?;
    rest.split_at_checked(u32::from_be_bytes([0, *a, *b, *c]) as usize)
}

/// True for the beginning of a TLS handshake record (RFC 8446 §5.1).
pub(crate) fn is_tls(bytes: &[u8]) -> bool {
    matches!(bytes, [RECORD_HANDSHAKE, 3, ..] | [RECORD_HANDSHAKE])
}

/// Record type (RFC 8446 §5.1), and message types (§4).
const RECORD_HANDSHAKE: u8 = 22;
const CLIENT_HELLO: u8 = 1;
const CERTIFICATE: u8 = 11;
/// Number of certificates for which a worker has time: the client's, and one of an authority between.
const CERTIFICATES_MAX: usize = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_hello_is_alone_in_its_record() {
        let hello = [22, 3, 1, 0, 6, 1, 0, 0, 2, 9, 9];
        assert!(is_client_hello(&hello));
        assert!(!is_client_hello(&hello[..10]), "incomplete");
        assert!(!is_client_hello(&[&hello[..], &[22]].concat()), "something after it");
        let two = [22, 3, 1, 0, 8, 1, 0, 0, 2, 9, 9, 11, 0];
        assert!(!is_client_hello(&two), "another message in the record");
        assert!(!is_client_hello(&[22, 3, 1, 0, 6, 11, 0, 0, 2, 9, 9]), "a certificate");
    }

    /// A Certificate message with `count` certificates in a record of its own.
    fn certificates(count: u8) -> Vec<u8> {
        let list = [0, 0, 2, 9, 9].repeat(usize::from(count));
        let length = list.len() as u8;
        [&[22, 3, 3, 0, length + 7, 11, 0, 0, length + 3, 0, 0, length], list.as_slice()].concat()
    }

    #[test]
    fn few_certificates_are_counted_in_a_complete_message() {
        for (count, is_few) in [(0, true), (1, true), (2, true), (3, false), (9, false)] {
            assert_eq!(has_few_certificates(&certificates(count)), is_few, "{count}");
        }
        let two = certificates(2);
        assert!((0..two.len()).all(|end| !has_few_certificates(&two[..end])), "incomplete");
        assert!(has_few_certificates(&[two.as_slice(), &[22, 3, 3, 0, 9, 16]].concat()), "ClientKeyExchange");
        let mut one_record = [certificates(1), vec![16, 0, 0, 0]].concat();
        one_record[4] += 4;
        assert!(has_few_certificates(&one_record), "with the next message in its record");
        let mut other = certificates(1);
        other[5] = 16;
        assert!(!has_few_certificates(&other), "another message");
        let mut long = certificates(1);
        long[11] += 1;
        assert!(!has_few_certificates(&long), "a list that is longer than its message");
        let mut short = certificates(1);
        short[11] -= 1;
        assert!(!has_few_certificates(&short), "a list that is shorter than its message");
        assert!(!has_few_certificates(&[23, 3, 3, 0, 9, 11]), "an encrypted record");
    }
}
