//! One association of the table: its times, and the messages that wait for its handshake.

use ringway_datagram::{Association, ContentType, Records};
use ringway_sansio::{Flow, Instant, TimerKey, Token};
use ringway_stream::{CloseReason, Origin, StreamLimits};
use std::hash::{BuildHasher, RandomState};

/// An association, and the times that its limits are compared with.
pub(super) struct Entry {
    /// Flow with the association's number.
    pub(super) flow: Flow,
    pub(super) origin: Origin,
    pub(super) association: Box<dyn Association>,
    /// Accounted memory.
    pub(super) accounted: usize,
    pub(super) timer: TimerKey,
    pub(super) timer_at: Instant,
    /// Keyed hash of the ClientHello that an accepted association began with.
    pub(super) hello: u64,
    /// Messages before the end of the handshake.
    waiting: Vec<(Token, Vec<u8>)>,
    is_established: bool,
    /// Time of its begin, or, once it is established, of that event.
    since: Instant,
    last_record: Instant,
    last_message: Instant,
    kept_until: Instant,
    has_received_message: bool,
}

impl Entry {
    pub(super) fn new(
        flow: Flow,
        origin: Origin,
        association: Box<dyn Association>,
        accounted: usize,
        hello: u64,
        now: Instant,
    ) -> Self {
        Self {
            flow,
            origin,
            association,
            accounted,
            timer: TimerKey::NONE,
            timer_at: Instant::FAR,
            hello,
            waiting: Vec::new(),
            is_established: false,
            since: now,
            last_record: now,
            last_message: now,
            kept_until: now,
            has_received_message: false,
        }
    }

    /// Keeps a message for the end of the handshake. False: too many wait.
    pub(super) fn wait(&mut self, token: Token, message: &[u8]) -> bool {
        let bytes: usize = self.waiting.iter().map(|(_, message)| message.len()).sum();
        let has_room = self.waiting.len() < WAITING_MAX && bytes + message.len() <= WAITING_BYTES_MAX;
        if has_room {
            self.waiting.push((token, message.to_vec()));
        }
        has_room
    }

    /// Takes the messages that wait.
    pub(super) fn take_waiting(&mut self) -> Vec<(Token, Vec<u8>)> {
        std::mem::take(&mut self.waiting)
    }

    pub(super) const fn is_established(&self) -> bool {
        self.is_established
    }

    pub(super) const fn since(&self) -> Instant {
        self.since
    }

    pub(super) const fn established(&mut self, now: Instant) {
        self.is_established = true;
        self.since = now;
        self.last_record = now;
        self.last_message = now;
    }

    /// Notes bytes that the peer encrypted: what anybody can send with its address keeps nothing. A keep-alive (RFC 5626 §3.5.1) is no message.
    pub(super) fn received(&mut self, now: Instant, bytes: &[u8]) {
        self.last_record = now;
        if bytes.iter().any(|byte| !matches!(byte, b'\r' | b'\n')) {
            self.has_received_message = true;
            self.last_message = now;
        }
    }

    pub(super) const fn sent_message(&mut self, now: Instant) {
        self.last_message = now;
    }

    pub(super) fn keep(&mut self, until: Instant) {
        self.kept_until = self.kept_until.max(until);
    }

    /// Time at which the association ends if nothing happens, and the reason: the same limits as those of connections.
    pub(super) fn deadline(&self, limits: &StreamLimits) -> (Instant, CloseReason) {
        let is_accepted = self.origin == Origin::Accepted;
        if !self.is_established {
            return match self.origin {
                Origin::Accepted => (self.since + limits.handshake, CloseReason::Handshake),
                Origin::Dialled => (self.since + limits.connect, CloseReason::NotConnected),
            };
        }
        let idle = (self.last_record + limits.idle, CloseReason::Idle);
        let unused = (self.kept_until.max(self.last_message + limits.unused), CloseReason::Unused);
        let first = (self.since + limits.first_message, CloseReason::Slow);
        let mut soonest = idle;
        for (limit, applies) in [(unused, is_accepted), (first, is_accepted && !self.has_received_message)] {
            if applies && limit.0 < soonest.0 {
                soonest = limit;
            }
        }
        soonest
    }
}

/// Keyed hash of an unencrypted ClientHello without its record's header, which a retransmission changes. `None`: the datagram
/// begins with something else.
pub(super) fn hello_hash(key: &RandomState, datagram: &[u8]) -> Option<u64> {
    let record = Records::of(datagram).next()?;
    let is_hello = record.content_type == ContentType::Handshake
        && record.epoch == 0
        && record.payload.first() == Some(&CLIENT_HELLO);
    is_hello.then(|| key.hash_one(record.payload))
}

const CLIENT_HELLO: u8 = 1;

/// Maximum number and bytes of the messages that wait for the end of a dialled handshake.
const WAITING_MAX: usize = 32;
const WAITING_BYTES_MAX: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use ringway_datagram::{Output, SendError};
    use ringway_sansio::{ListenerId, PeerNames};
    use std::sync::Arc;
    use std::time::Duration;

    struct Silent;

    impl Association for Silent {
        fn on_datagram(&mut self, _: Instant, _: &[u8]) {}
        fn on_timeout(&mut self, _: Instant) {}
        fn send(&mut self, _: Instant, _: &[u8]) -> Result<(), SendError> {
            Err(SendError::NotEstablished)
        }
        fn close(&mut self, _: Instant) {}
        fn poll(&mut self) -> Option<Output> {
            None
        }
        fn next_deadline(&self) -> Option<Instant> {
            None
        }
        fn is_established(&self) -> bool {
            false
        }
        fn peer_names(&self) -> Option<Arc<PeerNames>> {
            None
        }
        fn is_also(&self, _: &Flow) -> bool {
            false
        }
        fn held_bytes(&self) -> usize {
            0
        }
    }

    fn entry(origin: Origin) -> Entry {
        let flow = Flow::udp(ListenerId(0), "192.0.2.1:5061".parse().unwrap());
        Entry::new(flow, origin, Box::new(Silent), 0, 0, at(100))
    }

    fn at(seconds: u64) -> Instant {
        Instant::from_secs(seconds)
    }

    #[test]
    fn each_time_of_an_association_has_its_limit() {
        let limits = StreamLimits { unused: Duration::from_secs(100), ..StreamLimits::default() };
        let mut accepted = entry(Origin::Accepted);
        assert_eq!(accepted.deadline(&limits), (at(110), CloseReason::Handshake));
        accepted.established(at(101));
        assert_eq!(accepted.deadline(&limits), (at(161), CloseReason::Slow), "no first message");
        accepted.received(at(140), b"\r\n\r\n");
        assert_eq!(accepted.deadline(&limits), (at(161), CloseReason::Slow), "a keep-alive is no message");
        accepted.received(at(150), b"OPTIONS");
        assert_eq!(accepted.deadline(&limits), (at(250), CloseReason::Unused));
        accepted.received(at(160), b"\r\n\r\n");
        assert_eq!(accepted.deadline(&limits), (at(250), CloseReason::Unused));
        accepted.sent_message(at(170));
        assert_eq!(accepted.deadline(&limits), (at(270), CloseReason::Unused));
        accepted.keep(Instant::FAR);
        assert_eq!(accepted.deadline(&limits), (at(160 + 7500), CloseReason::Idle));
        let mut dialled = entry(Origin::Dialled);
        assert_eq!(dialled.deadline(&limits), (at(104), CloseReason::NotConnected));
        dialled.established(at(101));
        assert_eq!(dialled.deadline(&limits), (at(101 + 7500), CloseReason::Idle));
    }

    #[test]
    fn messages_that_wait_are_limited_by_number_and_bytes() {
        let mut many = entry(Origin::Dialled);
        assert!((0..32).all(|number| many.wait(Token(number), b"message")));
        assert!(!many.wait(Token(32), b"message"));
        let mut long = entry(Origin::Dialled);
        assert!(long.wait(Token(1), &[0; 40_000]) && !long.wait(Token(2), &[0; 40_000]));
        assert_eq!(long.take_waiting().len(), 1);
        assert!(long.wait(Token(2), &[0; 40_000]), "they are gone");
    }

    #[test]
    fn a_retransmitted_hello_has_the_same_hash() {
        let key = RandomState::new();
        let record = |number: u8, message: u8, random: u8| {
            [22, 254, 253, 0, 0, 0, 0, 0, 0, 0, number, 0, 3, message, 0, random]
        };
        let hash = |datagram: [u8; 16]| hello_hash(&key, &datagram);
        assert!(hash(record(1, 1, 7)).is_some());
        assert_eq!(hash(record(1, 1, 7)), hash(record(2, 1, 7)));
        assert_ne!(hash(record(1, 1, 7)), hash(record(1, 1, 8)));
        assert_eq!(hash(record(1, 11, 7)), None, "a certificate");
    }
}
