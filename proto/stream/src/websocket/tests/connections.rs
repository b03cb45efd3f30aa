//! Stories of connections with the layer: refused handshakes, time limits, keep-alives, the end, hostile bytes.

use super::*;
use crate::{CloseReason, Connection, Origin, StreamLimits};
use ringway_sansio::{Framer, FramingError, Instant, Token};

#[test]
fn a_request_that_is_no_handshake_gets_an_http_response() {
    let requests: [(&[u8], &str); 5] = [
        (b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP/1.1 426 "),
        (b"GET / HTTP/1.1\r\n\r\n", "HTTP/1.1 400 "),
        (b"REGISTER sip:a SIP/2.0\r\n", "HTTP/1.1 400 "),
        (b"\x16\x03\x01\x02\x00", "HTTP/1.1 400 "),
        (&[b"GET /", &[b'x'; 9000][..]].concat(), "HTTP/1.1 431 "),
    ];
    for (request, status) in requests {
        for size in [1, 100, usize::MAX] {
            let mut connection = accepted(server());
            for piece in request.chunks(size) {
                connection.receive(piece, at(0));
                assert!(connection.held_bytes() <= 24 << 10);
            }
            let mut wire = Vec::new();
            connection.respond(&StreamLimits::default(), at(0), take(&mut wire));
            assert!(wire.starts_with(status.as_bytes()), "{}", wire.escape_ascii());
            assert_eq!(wire.windows(4).filter(|end| end == b"\r\n\r\n").count(), 1, "one response");
            assert_eq!(connection.end_reason(), Some(CloseReason::Handshake));
        }
    }
}

#[test]
fn the_handshake_has_the_connections_time_limits() {
    let limits = StreamLimits::default();
    let mut waiting = accepted(server());
    waiting.receive(&REQUEST[..50], at(50));
    assert_eq!(waiting.deadline(&limits), (at(0) + limits.handshake, CloseReason::Handshake));
    let mut dialled = Connection::new(Origin::Dialled, Messages::new(MAX), client(), at(0));
    dialled.connected(at(1));
    dialled.receive(&RESPONSE[..50], at(2));
    assert_eq!(dialled.deadline(&limits), (at(1) + limits.connect, CloseReason::NotConnected));
}

/// Layer whose bytes are decoded later, as by another thread.
#[derive(Default)]
struct Later(Vec<u8>);

impl Layer for Later {
    fn decode(
        &mut self,
        bytes: &[u8],
        _: &mut dyn FnMut(Decoded<'_>),
        _: &mut Vec<u8>,
    ) -> Result<(), LayerError> {
        self.0.extend_from_slice(bytes);
        Ok(())
    }

    fn resume(&mut self, decoded: &mut dyn FnMut(Decoded<'_>), _: &mut Vec<u8>) -> Result<(), LayerError> {
        decoded(Decoded::Bytes(&core::mem::take(&mut self.0)));
        Ok(())
    }

    fn encode(&mut self, _: &[u8], _: &mut Vec<u8>) -> Result<Encoded, LayerError> {
        Ok(Encoded::Unchanged)
    }

    fn is_handshaking(&self) -> bool {
        !self.0.is_empty()
    }

    fn held_bytes(&self) -> usize {
        self.0.capacity()
    }
}

#[test]
fn a_lower_layer_that_continues_later_is_resumed() {
    let (mut connection, mut wire) = (accepted(server_over(Later::default())), Vec::new());
    connection.receive(&[REQUEST, &raw(FIN | TEXT, b"one")].concat(), at(0));
    assert_eq!(connection.messages(9, at(0), |_| {}).messages, 0);
    connection.resume(at(0));
    assert_eq!(connection.messages(9, at(0), |message| assert_eq!(message, b"one")).messages, 1);
    connection.respond(&StreamLimits::default(), at(0), take(&mut wire));
    assert_eq!(wire, RESPONSE);
}

#[test]
fn a_flood_of_pings_closes_the_connection() {
    let (mut connection, mut wire) = (accepted(server()), Vec::new());
    let limits = StreamLimits::default();
    connection.receive(REQUEST, at(0));
    connection.respond(&limits, at(0), take(&mut wire));
    wire.clear();
    for second in 0..100 {
        connection.receive(&raw(PING, b"x"), at(second));
        connection.respond(&limits, at(second), take(&mut wire));
    }
    assert_eq!((wire.len(), connection.end_reason()), (100 * 3, None), "one each second is fine");
    for _ in 0..100 {
        connection.receive(&raw(PING, &[b'x'; 125]), at(100));
        if connection.end_reason().is_some() || !connection.is_receiving() {
            break;
        }
    }
    assert!(connection.unwritten_bytes() <= 17 * 127, "{}", connection.unwritten_bytes());
    connection.respond(&limits, at(100), take(&mut wire));
    assert_eq!(connection.end_reason(), Some(CloseReason::KeepAlives));
    let mut burst = accepted(server());
    burst.receive(&[REQUEST, &raw(PING, b"x").repeat(17)].concat(), at(0));
    assert!(!burst.is_open() && burst.unwritten_bytes() <= RESPONSE.len() + 3);
}

#[test]
fn a_crlf_keep_alive_is_a_message_and_gets_one() {
    let (mut connection, mut wire) = (accepted(server()), Vec::new());
    connection.receive(&[REQUEST, &raw(FIN | TEXT, b"\r\n\r\n"), &raw(FIN | TEXT, b"one")].concat(), at(0));
    let mut messages = Vec::new();
    let batch = connection.messages(9, at(0), |message| messages.push(message.to_vec()));
    assert_eq!((batch.keep_alives, &messages[..]), (1, &[b"one".to_vec()][..]));
    connection.respond(&StreamLimits::default(), at(0), take(&mut wire));
    assert_eq!(wire, [RESPONSE, b"\x81\x02\r\n"].concat(), "in a frame");
}

#[test]
fn what_is_queued_is_written_after_the_peers_close() {
    let (mut connection, mut wire) = (accepted(server()), Vec::new());
    let limits = StreamLimits::default();
    connection.receive(REQUEST, at(0));
    connection.send(b"one", Token(1), &limits, at(0), |_| Ok(0));
    connection.receive(&[raw(FIN | TEXT, b"bye"), raw(CLOSE, &[0x03, 0xe8])].concat(), at(0));
    assert_eq!(connection.messages(9, at(0), |message| assert_eq!(message, b"bye")).messages, 1);
    connection.send(b"two", Token(2), &limits, at(0), |_| Ok(0));
    assert_eq!((connection.is_receiving(), connection.close_reason()), (false, None));
    connection.flush(at(0), take(&mut wire));
    assert_eq!(wire, [RESPONSE, b"\x81\x03one\x88\x02\x03\xe8"].concat(), "nothing after the Close");
    assert_eq!(connection.end_reason(), Some(CloseReason::Ended));
    assert_eq!(connection.undelivered().collect::<Vec<_>>(), [Token(2)]);
}

#[test]
fn hostile_bytes_close_the_connection_or_wait_within_the_limit() {
    for seed in 0..500 {
        let mut rng = Rng::new(&Seed::from_number(seed));
        let mut connection = accepted(server());
        connection.receive(REQUEST, at(0));
        for _ in 0..30 {
            let bytes: Vec<u8> = match rng.below(3) {
                0 => (0..rng.below(300)).map(|_| rng.below(256) as u8).collect(),
                1 => raw((rng.below(2) * 0x80 + rng.below(3)) as u8, &vec![b'x'; rng.below(500) as usize]),
                _ => raw(PING, b"ping"),
            };
            connection.receive(&bytes, at(0));
            while connection.messages(8, at(0), |message| assert!(message.len() <= MAX)).has_more {}
            connection.respond(&StreamLimits::default(), at(0), |bytes| Ok(bytes.len()));
            assert!(connection.held_bytes() < 10_000, "seed {seed}");
        }
    }
}

/// Framer that returns the layer's messages; CRLF CRLF is a keep-alive.
struct Messages {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    message: Vec<u8>,
    pongs: usize,
}

impl Framer for Messages {
    fn new(_: usize) -> Self {
        Self { bytes: Vec::new(), ends: Vec::new(), message: Vec::new(), pongs: 0 }
    }

    fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    fn message_end(&mut self) {
        self.ends.push(self.bytes.len());
    }

    fn next_frame(&mut self) -> Result<Option<&[u8]>, FramingError> {
        loop {
            if self.ends.is_empty() {
                return Ok(None);
            }
            let end = self.ends.remove(0);
            self.ends.iter_mut().for_each(|later| *later -= end);
            self.message = self.bytes.drain(..end).collect();
            if self.message != b"\r\n\r\n" {
                return Ok(Some(&self.message));
            }
            self.pongs += 1;
        }
    }

    fn pongs(&mut self) -> usize {
        core::mem::take(&mut self.pongs)
    }

    const PONG: &'static [u8] = b"\r\n";

    fn is_partial(&self) -> bool {
        !self.bytes.is_empty()
    }

    fn held_bytes(&self) -> usize {
        self.bytes.capacity()
    }
}

fn accepted<L: Layer>(layer: L) -> Connection<Messages, L> {
    Connection::new(Origin::Accepted, Messages::new(MAX), layer, at(0))
}

fn take(wire: &mut Vec<u8>) -> impl FnMut(&[u8]) -> Result<usize, crate::WriteFailed> + '_ {
    |bytes| {
        wire.extend_from_slice(bytes);
        Ok(bytes.len())
    }
}

const fn at(seconds: u64) -> Instant {
    Instant::from_secs(seconds)
}
