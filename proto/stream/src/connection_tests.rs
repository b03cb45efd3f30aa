//! Tests of a connection on virtual time.
//!
//! Tested: any segmentation gives the same messages, through every layer; each limit by its name; keep-alives; partial
//! writes; the peer's end; messages whose delivery is uncertain; hostile bytes; layers with a handshake, with message
//! boundaries, and stacked.

use super::*;
use crate::test_layers::{KEY, LengthPrefix, Over, Xor, length_prefixed, xor};
use alloc::vec;
use core::time::Duration;
use ringway_sansio::{FramingError, Rng, Seed};

/// Framer with one message a line; `#` ends the stream; `?` is a keep-alive, `!` its answer. A message's end counts as a
/// line's end.
#[derive(Default)]
pub(crate) struct Lines {
    bytes: Vec<u8>,
    line: Vec<u8>,
    pongs: usize,
    max: usize,
}

impl Framer for Lines {
    fn new(max: usize) -> Self {
        Self { max, ..Self::default() }
    }

    fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    fn message_end(&mut self) {
        self.bytes.push(b'\n');
    }

    fn next_frame(&mut self) -> Result<Option<&[u8]>, FramingError> {
        while let Some(at) = self.bytes.iter().position(|&byte| byte == b'\n') {
            self.line = self.bytes.drain(..=at).take(at).collect();
            match self.line.as_slice() {
                [b'#', ..] => return Err(FramingError("bad")),
                b"?" => self.pongs += 1,
                b"!" => {}
                _ => return Ok(Some(&self.line)),
            }
        }
        if self.bytes.len() > self.max { Err(FramingError("too large")) } else { Ok(None) }
    }

    fn pongs(&mut self) -> usize {
        core::mem::take(&mut self.pongs)
    }

    const PONG: &'static [u8] = b"!\n";

    fn is_partial(&self) -> bool {
        !self.bytes.is_empty()
    }

    fn held_bytes(&self) -> usize {
        self.bytes.capacity()
    }
}

/// Socket of a peer that accepts `room` bytes.
#[derive(Default)]
struct Socket {
    taken: Vec<u8>,
    room: usize,
    is_broken: bool,
}

impl Socket {
    fn new(room: usize) -> Self {
        Self { room, ..Self::default() }
    }

    fn write(&mut self) -> impl FnMut(&[u8]) -> Result<usize, WriteFailed> + '_ {
        |bytes| {
            if self.is_broken {
                return Err(WriteFailed);
            }
            let count = bytes.len().min(self.room);
            self.room -= count;
            self.taken.extend_from_slice(&bytes[..count]);
            Ok(count)
        }
    }
}

fn accepted() -> Connection<Lines> {
    Connection::new(Origin::Accepted, Lines::new(1000), PassThrough, at(0))
}

fn dialled() -> Connection<Lines> {
    Connection::new(Origin::Dialled, Lines::new(1000), PassThrough, at(0))
}

/// Messages received from `wire` in random segments, and the reason of the end.
fn received<L: Layer>(layer: L, wire: &[u8], rng: &mut Rng) -> (Vec<Vec<u8>>, Option<CloseReason>) {
    let mut connection = Connection::new(Origin::Accepted, Lines::new(1000), layer, at(0));
    let (mut messages, mut rest) = (Vec::new(), wire);
    while !rest.is_empty() {
        let longest = [1, 3, 50, rest.len() as u64][rng.below(4) as usize];
        let (segment, behind) = rest.split_at((1 + rng.below(longest) as usize).min(rest.len()));
        rest = behind;
        connection.receive(segment, at(0));
        while connection.messages(2, at(0), |message| messages.push(message.to_vec())).has_more {}
        connection.respond(&LIMITS, at(0), |bytes| Ok(bytes.len()));
    }
    (messages, connection.end_reason())
}

#[test]
fn any_segmentation_gives_the_same_messages_through_every_layer() {
    for seed in 0..200 {
        let mut rng = Rng::new(&Seed::from_number(seed));
        let mut text = Vec::new();
        for _ in 0..rng.below(20) {
            match rng.below(4) {
                0 => text.extend_from_slice(b"?\n"),
                _ => {
                    let message = vec![b'a' + rng.below(26) as u8; 1 + rng.below(40) as usize];
                    text.extend_from_slice(&[&message[..], b"\n"].concat());
                }
            }
        }
        if rng.below(3) == 0 {
            text.extend_from_slice(b"#\nnever seen\n");
        }
        let is_message = |line: &&[u8]| !line.is_empty() && *line != b"?";
        let lines = text.split(|&byte| byte == b'\n').take_while(|line| *line != b"#").filter(is_message);
        let expected: Vec<Vec<u8>> = lines.map(<[u8]>::to_vec).collect();
        let reason = text.contains(&b'#').then_some(CloseReason::Framing);
        let encrypted = xor(&text);
        let records: Vec<u8> =
            text.split_inclusive(|&byte| byte == b'\n').flat_map(length_prefixed).collect();
        assert_eq!(received(PassThrough, &text, &mut rng), (expected.clone(), reason), "seed {seed}");
        assert_eq!(
            received(Xor::server(), &[KEY, &encrypted].concat(), &mut rng),
            (expected.clone(), reason)
        );
        assert_eq!(
            received(LengthPrefix::new(), &records, &mut rng),
            (expected.clone(), reason),
            "seed {seed}"
        );
        let stacked = [KEY, &xor(&records)].concat();
        assert_eq!(
            received(Over(Xor::server(), LengthPrefix::new()), &stacked, &mut rng),
            (expected, reason)
        );
    }
}

#[test]
fn hostile_bytes_close_the_connection_or_wait_within_the_limit() {
    for seed in 0..300 {
        let mut rng = Rng::new(&Seed::from_number(seed));
        let mut connection = Connection::new(
            Origin::Accepted,
            Lines::new(1000),
            Over(Xor::server(), LengthPrefix::new()),
            at(0),
        );
        for _ in 0..50 {
            let bytes: Vec<u8> = (0..rng.below(300)).map(|_| rng.below(256) as u8).collect();
            connection.receive(&bytes, at(0));
            while connection.messages(8, at(0), |_| {}).has_more {}
            connection.respond(&LIMITS, at(0), |bytes| Ok(bytes.len()));
            if connection.end_reason().is_some() {
                break;
            }
            assert!(connection.held_bytes() < 10_000, "seed {seed}");
        }
        assert_eq!(connection.messages(8, at(0), |_| {}), Batch::default(), "nothing after the end");
    }
}

#[test]
fn a_message_goes_to_the_socket_without_queueing() {
    let (mut connection, mut socket) = (accepted(), Socket::new(100));
    assert_eq!(connection.send(b"one\n", Token::NONE, &LIMITS, at(0), socket.write()), 4);
    assert_eq!((&socket.taken[..], connection.held_bytes()), (&b"one\n"[..], 0), "and nothing is copied");
}

#[test]
fn bytes_that_the_socket_does_not_accept_are_written_in_order() {
    let (mut connection, mut socket) = (accepted(), Socket::new(6));
    assert_eq!(connection.send(b"one\n", Token(1), &LIMITS, at(0), socket.write()), 4);
    assert_eq!(connection.send(b"two\n", Token(2), &LIMITS, at(0), socket.write()), 2);
    assert_eq!(connection.send(b"three\n", Token(3), &LIMITS, at(0), socket.write()), 0);
    connection.queue(b"four\n", Token(4), &LIMITS, at(0));
    assert_eq!(connection.unwritten_bytes(), 13);
    socket.room = 4;
    assert_eq!(connection.flush(at(1), socket.write()), 4);
    socket.room = 100;
    assert_eq!(connection.send(b"five\n", Token(5), &LIMITS, at(1), socket.write()), 14);
    assert_eq!((&socket.taken[..], connection.unwritten_bytes()), (&b"one\ntwo\nthree\nfour\nfive\n"[..], 0));
}

#[test]
fn tokens_of_messages_that_may_be_lost_are_reported() {
    let (mut connection, mut socket) = (accepted(), Socket::new(6));
    for (token, message) in [(1, b"one\n"), (2, b"two\n")] {
        connection.send(message, Token(token), &LIMITS, at(0), socket.write());
    }
    assert_eq!(connection.undelivered().collect::<Vec<_>>(), [Token(1), Token(2)]);

    let (mut connection, mut socket) = (accepted(), Socket::new(6));
    connection.receive(b"hello\n", at(0));
    connection.messages(9, at(0), |_| {});
    for (token, message) in [(1, b"one\n"), (2, b"two\n")] {
        connection.send(message, Token(token), &LIMITS, at(0), socket.write());
    }
    assert_eq!(connection.undelivered().collect::<Vec<_>>(), [Token(2)], "the first was written completely");

    let (mut connection, mut socket) = (accepted(), Socket { is_broken: true, ..Socket::default() });
    connection.send(b"one\n", Token(1), &LIMITS, at(0), socket.write());
    assert_eq!(connection.close_reason(), Some(CloseReason::Ended));
    assert_eq!(connection.undelivered().collect::<Vec<_>>(), [Token(1)]);
}

#[test]
fn keep_alives_are_answered_up_to_sixteen_at_once_and_one_more_each_second() {
    let (mut connection, mut socket) = (accepted(), Socket::new(1000));
    connection.receive(b"?\none\n?\n", at(0));
    let batch = connection.messages(9, at(0), |_| {});
    assert_eq!(batch, Batch { messages: 1, keep_alives: 2, has_more: false });
    assert_eq!(connection.respond(&LIMITS, at(0), socket.write()), 4);
    connection.receive(&b"?\n".repeat(14), at(0));
    assert_eq!(connection.messages(9, at(0), |_| {}).keep_alives, 14);
    assert_eq!(connection.respond(&LIMITS, at(0), socket.write()), 2 * 14);
    connection.receive(&b"?\n".repeat(3), at(3));
    connection.messages(9, at(3), |_| {});
    assert_eq!(connection.respond(&LIMITS, at(3), socket.write()), 2 * 3);
    assert_eq!(connection.close_reason(), None);

    connection.receive(&b"?\n".repeat(100), at(5));
    assert_eq!(connection.messages(9, at(5), |_| {}).keep_alives, 100);
    assert_eq!(connection.respond(&LIMITS, at(5), socket.write()), 2 * 2);
    assert_eq!(connection.end_reason(), Some(CloseReason::KeepAlives));
    assert_eq!(connection.undelivered().count(), 0);
}

#[test]
fn keep_alive_answers_pass_through_the_layer() {
    let mut connection = Connection::new(Origin::Accepted, Lines::new(1000), Xor::server(), at(0));
    let mut socket = Socket::new(1000);
    connection.receive(&[KEY, &xor(b"?\n?\n")].concat(), at(0));
    assert_eq!(connection.messages(9, at(0), |_| {}).keep_alives, 2);
    connection.respond(&LIMITS, at(0), socket.write());
    assert_eq!(socket.taken, [KEY, &xor(b"!\n!\n")].concat());
}

#[test]
fn a_batch_of_messages_is_bounded() {
    let mut connection = accepted();
    connection.receive(b"1\n2\n3\n", at(0));
    assert_eq!(connection.messages(2, at(0), |_| {}), Batch { messages: 2, keep_alives: 0, has_more: true });
    assert_eq!(connection.messages(2, at(0), |_| {}), Batch { messages: 1, keep_alives: 0, has_more: false });
}

#[test]
fn a_framing_error_closes_the_connection() {
    let mut connection = accepted();
    connection.receive(b"1\n#\n2\n", at(0));
    assert_eq!(connection.messages(9, at(0), |message| assert_eq!(message, b"1")).messages, 1);
    assert_eq!((connection.close_reason(), connection.end_reason()), (None, Some(CloseReason::Framing)));
    assert_eq!(connection.messages(9, at(0), |_| {}), Batch::default(), "bytes after the error are ignored");
}

#[test]
fn queued_bytes_are_written_after_the_peers_end() {
    let (mut connection, mut socket) = (accepted(), Socket::new(2));
    connection.receive(b"1\n", at(0));
    connection.peer_ended(at(0));
    assert_eq!(connection.messages(9, at(0), |_| {}).messages, 1, "messages before the end");
    connection.send(b"answer\n", Token::NONE, &LIMITS, at(0), socket.write());
    assert_eq!((connection.end_reason(), connection.is_receiving()), (None, false));
    assert_eq!(connection.deadline(&LIMITS), (at(10), CloseReason::Unread));
    socket.room = 100;
    connection.flush(at(1), socket.write());
    assert_eq!((connection.end_reason(), &socket.taken[..]), (Some(CloseReason::Ended), &b"answer\n"[..]));
}

#[test]
fn a_connection_is_dialled_as_long_as_a_message_waits_for_it() {
    let (mut connection, mut socket) = (dialled(), Socket::new(100));
    for (message, token) in [(b"one\n", 1), (b"two\n", 2)] {
        connection.send(message, Token(token), &LIMITS, at(1), socket.write());
    }
    assert!(connection.give_up(Token(1)) && !connection.give_up(Token(1)));
    assert_eq!((connection.unwritten_bytes(), connection.close_reason()), (4, None));
    assert!(!connection.give_up(Token(2)));
    assert_eq!(connection.close_reason(), Some(CloseReason::NotConnected));
    assert_eq!(connection.undelivered().collect::<Vec<_>>(), [Token(2)]);
    let mut connection = dialled();
    connection.queue(b"one\n", Token(1), &LIMITS, at(1));
    connection.connected(at(2));
    assert!(!connection.give_up(Token(1)));
    assert_eq!(connection.close_reason(), None, "it is established");
}

#[test]
fn the_first_reason_is_kept() {
    let mut connection = accepted();
    connection.fail(CloseReason::Slow);
    connection.fail(CloseReason::Memory);
    connection.peer_ended(at(0));
    assert_eq!(connection.close_reason(), Some(CloseReason::Slow));
}

#[test]
fn a_dialled_connection_must_be_connected_in_time_and_writes_nothing_before() {
    let (mut connection, mut socket) = (dialled(), Socket::new(100));
    assert_eq!(connection.send(b"one\n", Token(1), &LIMITS, at(1), socket.write()), 0);
    assert_eq!(connection.flush(at(1), socket.write()), 0);
    assert_eq!((connection.is_connected(), connection.is_receiving()), (false, false));
    assert_eq!(connection.deadline(&LIMITS), (at(4), CloseReason::NotConnected));
    connection.connected(at(3));
    assert_eq!(
        connection.deadline(&LIMITS),
        (at(33), CloseReason::Unread),
        "the peer can read only from now on"
    );
    assert_eq!(connection.flush(at(3), socket.write()), 4);
    assert_eq!(connection.deadline(&LIMITS), (at(7503), CloseReason::Idle));
}

#[test]
fn limit_first_message() {
    let mut connection = accepted();
    assert_eq!(connection.deadline(&LIMITS), (at(60), CloseReason::Slow));
    connection.receive(b"?\n", at(50));
    connection.messages(9, at(50), |_| {});
    assert_eq!(connection.deadline(&LIMITS).0, at(60), "a keep-alive does not count");
    connection.receive(b"1\n", at(59));
    connection.messages(9, at(59), |_| {});
    connection.respond(&LIMITS, at(59), |bytes| Ok(bytes.len()));
    assert_eq!(connection.deadline(&LIMITS), (at(59 + 7500), CloseReason::Idle));
}

#[test]
fn limit_message() {
    let mut connection = accepted();
    for second in 1..8 {
        connection.receive(b"x", at(second));
        connection.messages(9, at(second), |_| {});
    }
    assert_eq!(connection.deadline(&LIMITS), (at(11), CloseReason::Slow), "further bytes do not extend it");
    connection.receive(b"\nx", at(9));
    connection.messages(9, at(9), |_| {});
    assert_eq!(connection.deadline(&LIMITS), (at(19), CloseReason::Slow), "another message has begun");
}

#[test]
fn limit_idle() {
    let mut connection = dialled();
    connection.connected(at(0));
    connection.receive(b"1\n", at(100));
    connection.messages(9, at(100), |_| {});
    connection.send(b"one\n", Token::NONE, &LIMITS, at(200), |bytes| Ok(bytes.len()));
    assert_eq!(connection.deadline(&LIMITS), (at(100 + 7500), CloseReason::Idle), "the peer's bytes count");
}

#[test]
fn limit_unused() {
    let limits = StreamLimits { unused: Duration::from_secs(60), ..LIMITS };
    let mut connection = accepted();
    connection.receive(b"1\n", at(0));
    connection.messages(9, at(0), |_| {});
    connection.receive(b"?\n", at(50));
    connection.messages(9, at(50), |_| {});
    connection.respond(&limits, at(50), |bytes| Ok(bytes.len()));
    assert_eq!(
        connection.deadline(&limits),
        (at(60), CloseReason::Unused),
        "neither ping nor pong is a message"
    );
    connection.send(b"one\n", Token::NONE, &limits, at(55), |bytes| Ok(bytes.len()));
    assert_eq!(connection.deadline(&limits), (at(115), CloseReason::Unused));
    connection.keep(at(1000));
    assert_eq!(connection.deadline(&limits), (at(1000), CloseReason::Unused));
}

#[test]
fn limit_write_stall() {
    let (mut connection, mut socket) = (accepted(), Socket::new(2));
    connection.send(b"one\n", Token::NONE, &LIMITS, at(5), socket.write());
    connection.send(b"two\n", Token::NONE, &LIMITS, at(20), socket.write());
    assert_eq!(connection.deadline(&LIMITS), (at(35), CloseReason::Unread));
    socket.room = 1;
    connection.flush(at(29), socket.write());
    assert_eq!(connection.deadline(&LIMITS), (at(59), CloseReason::Unread), "it took some");
    socket.room = 100;
    connection.flush(at(31), socket.write());
    assert_eq!(connection.deadline(&LIMITS), (at(60), CloseReason::Slow), "nothing waits");
}

#[test]
fn limit_linger() {
    let (mut connection, mut socket) = (accepted(), Socket::new(2));
    connection.send(b"answer\n", Token::NONE, &LIMITS, at(0), socket.write());
    connection.peer_ended(at(1));
    for second in 2..9 {
        socket.room = usize::from(second == 2);
        connection.flush(at(second), socket.write());
    }
    assert_eq!(
        connection.deadline(&LIMITS),
        (at(11), CloseReason::Unread),
        "accepting some does not extend it"
    );
    let stalled = StreamLimits { write_stall: Duration::from_secs(3), ..LIMITS };
    assert_eq!(connection.deadline(&stalled), (at(5), CloseReason::Unread));
}

#[test]
fn limit_write_queue_bytes() {
    let limits = StreamLimits { write_queue_bytes_max: 10, ..LIMITS };
    let (mut connection, mut socket) = (accepted(), Socket::new(4));
    connection.send(b"123456789012\n", Token::NONE, &limits, at(0), socket.write());
    assert_eq!((connection.unwritten_bytes(), connection.close_reason()), (9, None));
    connection.queue(b"3\n", Token(1), &limits, at(0));
    assert_eq!(connection.close_reason(), Some(CloseReason::Unread));
    assert_eq!(connection.undelivered().collect::<Vec<_>>(), [Token(1)]);

    let mut connection = accepted();
    connection.receive(&b"?\n".repeat(6), at(0));
    connection.messages(9, at(0), |_| {});
    connection.respond(&limits, at(0), |_| Ok(0));
    assert_eq!(connection.close_reason(), Some(CloseReason::Unread), "keep-alive answers count");
}

#[test]
fn limit_write_queue_messages() {
    let limits = StreamLimits { write_queue_messages_max: 3, ..LIMITS };
    let mut connection = accepted();
    connection.queue(b"1\n", Token::NONE, &limits, at(0));
    connection.queue(b"2\n", Token(2), &limits, at(0));
    connection.receive(b"?\n", at(0));
    connection.messages(9, at(0), |_| {});
    connection.respond(&limits, at(0), |_| Ok(0));
    assert_eq!(connection.close_reason(), None);
    connection.queue(b"4\n", Token::NONE, &limits, at(0));
    assert_eq!(connection.close_reason(), Some(CloseReason::Unread));
    assert_eq!(connection.undelivered().collect::<Vec<_>>(), [Token(2)]);
}

#[test]
fn a_layer_with_a_handshake_keeps_messages_until_it_is_over() {
    let mut client = Connection::new(Origin::Dialled, Lines::new(1000), Xor::client(), at(0));
    let mut server = Connection::new(Origin::Accepted, Lines::new(1000), Xor::server(), at(0));
    let (mut to_server, mut to_client) = (Socket::new(1000), Socket::new(1000));
    client.send(b"hello\n", Token(1), &LIMITS, at(0), to_server.write());
    client.connected(at(1));
    client.respond(&LIMITS, at(1), to_server.write());
    assert_eq!(to_server.taken, KEY, "the client speaks first");
    assert_eq!(
        client.deadline(&LIMITS),
        (at(5), CloseReason::NotConnected),
        "the handshake is part of connecting"
    );
    server.receive(&to_server.taken, at(1));
    server.respond(&LIMITS, at(1), to_client.write());
    assert_eq!(to_client.taken, KEY);
    to_server.taken.clear();
    client.receive(&to_client.taken, at(2));
    client.respond(&LIMITS, at(2), to_server.write());
    assert_eq!(to_server.taken, xor(b"hello\n"));
    assert_eq!(client.deadline(&LIMITS), (at(7502), CloseReason::Idle));
    server.receive(&to_server.taken, at(3));
    assert_eq!(server.messages(9, at(3), |message| assert_eq!(message, b"hello")).messages, 1);
    client.fail(CloseReason::Idle);
    assert_eq!(client.undelivered().collect::<Vec<_>>(), [Token(1)], "the peer sent no message");
}

#[test]
fn messages_that_a_layer_holds_count_as_queued() {
    let limits = StreamLimits { write_queue_bytes_max: 10, ..LIMITS };
    let mut client = Connection::new(Origin::Dialled, Lines::new(1000), Xor::client(), at(0));
    client.send(b"123456\n", Token(1), &limits, at(0), |_| Ok(0));
    assert_eq!(client.close_reason(), None);
    client.send(b"123456\n", Token(2), &limits, at(0), |_| Ok(0));
    assert_eq!(client.close_reason(), Some(CloseReason::Unread));
    assert_eq!(client.undelivered().collect::<Vec<_>>(), [Token(1), Token(2)]);
}

#[test]
fn a_violation_of_a_layers_protocol_is_a_framing_error() {
    let mut connection = Connection::new(Origin::Accepted, Lines::new(1000), Xor::server(), at(0));
    connection.receive(b"not the key", at(0));
    assert_eq!(connection.end_reason(), Some(CloseReason::Handshake));
    let mut connection = Connection::new(Origin::Accepted, Lines::new(1000), LengthPrefix::new(), at(0));
    connection.receive(&[&length_prefixed(b"1\n")[..], &[255, 255]].concat(), at(0));
    assert_eq!(connection.messages(9, at(0), |_| {}).messages, 1, "the message before it is delivered");
    assert_eq!(connection.end_reason(), Some(CloseReason::Framing));
}

#[test]
fn a_layer_ends_the_stream_and_sends_its_own_end() {
    let mut socket = Socket::new(1000);
    let mut connection = Connection::new(Origin::Accepted, Lines::new(1000), LengthPrefix::new(), at(0));
    connection.receive(&[&length_prefixed(b"1\n")[..], &[0, 0]].concat(), at(0));
    assert!(!connection.is_receiving());
    assert_eq!(connection.messages(9, at(0), |_| {}).messages, 1);
    connection.send(b"answer\n", Token::NONE, &LIMITS, at(0), socket.write());
    assert_eq!(connection.end_reason(), Some(CloseReason::Ended));
    connection.fail(CloseReason::Ended);
    connection.flush(at(0), socket.write());
    assert_eq!(socket.taken, [&length_prefixed(b"answer\n")[..], &[0, 0]].concat());
}

const LIMITS: StreamLimits = StreamLimits {
    handshake: Duration::from_secs(5),
    connect: Duration::from_secs(4),
    message: Duration::from_secs(10),
    first_message: Duration::from_secs(60),
    idle: Duration::from_secs(7500),
    unused: Duration::MAX,
    write_stall: Duration::from_secs(30),
    linger: Duration::from_secs(10),
    write_queue_bytes_max: 1 << 20,
    write_queue_messages_max: 10_000,
};

const fn at(seconds: u64) -> Instant {
    Instant::from_secs(seconds)
}
