//! Tests of the layer, in `connections` of connections with it, and in `tungstenite` of an independent
//! implementation as its peer.
//!
//! Tested: the examples of RFC 6455 and RFC 7118; any segmentation gives the same messages and the same end, over TCP and
//! over a layer with a handshake; each violation by its status code; sizes and numbers at their limits; Ping, Pong and
//! CRLF keep-alives; both directions of the close handshake; the memory that is held.

mod connections;
mod tungstenite;

use super::frame::write;
use super::receiver::FRAGMENTS_MAX;
use super::*;
use crate::PassThrough;
use crate::test_layers::{LengthPrefix, Xor};
use alloc::vec;
use ringway_sansio::Rng;

const REQUEST: &[u8] =
    b"GET / HTTP/1.1\r\nHost: proxy.example.com\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
    Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nOrigin: https://proxy.example.com\r\n\
    Sec-WebSocket-Protocol: sip\r\nSec-WebSocket-Version: 13\r\n\r\n";

const RESPONSE: &[u8] = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
    Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\nSec-WebSocket-Protocol: sip\r\n\r\n";

/// REGISTER of RFC 7118 §8.1, which has no Content-Length.
const REGISTER: &[u8] = b"REGISTER sip:proxy.example.com SIP/2.0\r\n\
    Via: SIP/2.0/WSS df7jal23ls0d.invalid;branch=z9hG4bKasudf\r\n\
    From: sip:alice@example.com;tag=65bnmj.34asd\r\nTo: sip:alice@example.com\r\nCall-ID: aiuy7k9njasd\r\n\
    CSeq: 1 REGISTER\r\nMax-Forwards: 70\r\nSupported: path, outbound, gruu\r\n\
    Contact: <sip:alice@df7jal23ls0d.invalid;transport=ws>;reg-id=1\r\n\r\n";

const MASK: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];

const MAX: usize = 1000;

fn server() -> WebSocket<PassThrough> {
    server_over(PassThrough)
}

fn server_over<L: Layer>(lower: L) -> WebSocket<L> {
    let server = WebSocketServer { message_bytes_max: MAX, ..WebSocketServer::default() };
    WebSocket::accepted(lower, Arc::new(server))
}

fn client() -> WebSocket<PassThrough> {
    client_over(PassThrough)
}

fn client_over<L: Layer>(lower: L) -> WebSocket<L> {
    let target = WebSocketTarget::new("proxy.example.com", "/", None).unwrap();
    WebSocket::dialled(lower, &target, MAX, &Seed::from_number(1))
}

/// Frame of a client with the bits of its first byte given.
fn raw(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    write(Opcode::Text, payload, Some(MASK), &mut frame);
    frame[0] = first;
    frame
}

const FIN: u8 = 0x80;
const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CLOSE: u8 = FIN | 8;
const PING: u8 = FIN | 9;
const PONG: u8 = FIN | 10;

/// Observed result of received bytes.
#[derive(Debug, Default, PartialEq, Eq)]
struct Seen {
    messages: Vec<Vec<u8>>,
    partial: Vec<u8>,
    pings: usize,
    is_ended: bool,
    error: Option<LayerError>,
    wire: Vec<u8>,
}

impl Seen {
    fn receive(&mut self, layer: &mut impl Layer, bytes: &[u8]) {
        let Self { messages, partial, pings, is_ended, error, wire } = self;
        let mut decoded = |part: Decoded<'_>| match part {
            Decoded::MessageStart => assert!(partial.is_empty()),
            Decoded::Bytes(bytes) => partial.extend_from_slice(bytes),
            Decoded::MessageEnd => messages.push(core::mem::take(partial)),
            Decoded::Ping => *pings += 1,
            Decoded::StreamEnd => *is_ended = true,
        };
        if let Err(found) = layer.decode(bytes, &mut decoded, wire) {
            *error = error.or(Some(found));
        }
    }

    /// The last frame that was sent, if it is a Close: its status code, 0 for none.
    fn close_code(&self) -> Option<u16> {
        match self.wire.as_slice() {
            [.., 0x88, 2, high, low] => Some(u16::from_be_bytes([*high, *low])),
            [.., 0x88, 0] => Some(0),
            _ => None,
        }
    }
}

/// Result of frames behind the handshake, in pieces of `size` bytes.
fn received(frames: &[u8], size: usize) -> Seen {
    let (mut layer, mut seen) = (server(), Seen::default());
    for piece in [REQUEST, frames].concat().chunks(size) {
        seen.receive(&mut layer, piece);
        assert!(layer.held_bytes() <= 16 << 10);
    }
    assert!(seen.wire.starts_with(RESPONSE));
    seen
}

/// The same result for all sizes of the pieces; Pongs are left out, because the answered Pings depend on the pieces.
#[track_caller]
fn received_in_any_pieces(frames: &[u8]) -> Seen {
    let whole = received(frames, usize::MAX);
    for size in 1..(REQUEST.len() + frames.len()).min(400) {
        let mut seen = received(frames, size);
        assert_eq!(seen.close_code(), whole.close_code(), "in pieces of {size}");
        seen.wire.clone_from(&whole.wire);
        assert_eq!(seen, whole, "in pieces of {size}");
    }
    whole
}

#[test]
fn the_example_of_rfc_7118_is_exchanged() {
    let seen = received_in_any_pieces(&raw(FIN | TEXT, REGISTER));
    assert_eq!((&seen.messages[..], &seen.wire[..]), (&[REGISTER.to_vec()][..], RESPONSE));
    let (mut layer, mut wire) = (server(), Vec::new());
    layer.decode(REQUEST, &mut |_| {}, &mut wire).unwrap();
    wire.clear();
    assert_eq!(layer.encode(b"SIP/2.0 200 OK\r\n\r\n", &mut wire), Ok(Encoded::Appended));
    assert_eq!(wire, [&[0x81, 18][..], b"SIP/2.0 200 OK\r\n\r\n"].concat(), "unmasked text");
    wire.clear();
    layer.encode(b"MESSAGE \xff", &mut wire).unwrap();
    assert_eq!(wire[..2], [0x82, 9], "binary, because it is not valid UTF-8");
}

#[test]
fn messages_in_any_segments_are_the_same_over_every_layer() {
    for seed in 0..150 {
        let mut rng = Rng::new(&Seed::from_number(seed));
        let (mut wire, mut expected) = (REQUEST.to_vec(), Vec::new());
        for _ in 0..rng.below(8) {
            let is_text = rng.below(2) == 0;
            let text: Vec<u8> = match is_text {
                true => "añ€🎵".repeat(rng.below(60) as usize).into_bytes(),
                false => (0..rng.below(300)).map(|_| rng.below(256) as u8).collect(),
            };
            let mut opcode = if is_text { TEXT } else { BINARY };
            let mut rest = &text[..];
            while rng.below(3) == 0 {
                let (fragment, behind) = rest.split_at(rng.below(1 + rest.len() as u64) as usize);
                wire.extend(raw(opcode, fragment));
                if rng.below(2) == 0 {
                    wire.extend(raw([PING, PONG][rng.below(2) as usize], b"between"));
                }
                (opcode, rest) = (0, behind);
            }
            wire.extend(raw(FIN | opcode, rest));
            expected.push(text);
        }
        let end = rng.below(3);
        match end {
            0 => wire.extend([&raw(CLOSE, &[0x03, 0xe8])[..], b"ignored"].concat()),
            1 => wire.extend([0xff; 9]),
            _ => {}
        }
        let mut plain = server();
        let seen = segments(&mut plain, &wire, &mut rng);
        assert_eq!((&seen.messages, seen.is_ended, seen.error.is_some()), (&expected, end == 0, end == 1));
        assert_eq!(seen.close_code(), [Some(1000), Some(1002), None][end as usize], "seed {seed}");

        let (mut secured, mut encryptor, mut encrypted) =
            (server_over(Xor::server()), Xor::client(), Vec::new());
        encryptor.start(&mut encrypted);
        encryptor.decode(crate::test_layers::KEY, &mut |_| {}, &mut encrypted).unwrap();
        encryptor.encode(&wire, &mut encrypted).unwrap();
        let over = segments(&mut secured, &encrypted, &mut rng);
        assert_eq!((over.messages, over.is_ended, over.error), (seen.messages, seen.is_ended, seen.error));
        let mut decrypted = Vec::new();
        let mut decryptor = Xor::client();
        let mut decoded = |part: Decoded<'_>| {
            if let Decoded::Bytes(bytes) = part {
                decrypted.extend_from_slice(bytes);
            }
        };
        decryptor.decode(&over.wire, &mut decoded, &mut Vec::new()).unwrap();
        assert!(decrypted.starts_with(RESPONSE), "all bytes go through the lower layer");
    }
}

fn segments(layer: &mut impl Layer, wire: &[u8], rng: &mut Rng) -> Seen {
    let (mut seen, mut rest) = (Seen::default(), wire);
    while !rest.is_empty() {
        let longest = [1, 3, 50, rest.len() as u64][rng.below(4) as usize];
        let (segment, behind) = rest.split_at((1 + rng.below(longest) as usize).min(rest.len()));
        rest = behind;
        seen.receive(layer, segment);
    }
    seen
}

#[test]
fn each_violation_closes_with_its_status_code() {
    let euro = "€".as_bytes();
    let violations: Vec<(&str, Vec<u8>, u16)> = vec![
        ("unmasked", vec![0x81, 1, b'x'], 1002),
        ("RSV1", raw(FIN | 0x40 | TEXT, b"x"), 1002),
        ("RSV2", raw(FIN | 0x20 | TEXT, b"x"), 1002),
        ("RSV3 of a control frame", raw(PING | 0x10, b"x"), 1002),
        ("opcode 3", raw(FIN | 3, b"x"), 1002),
        ("opcode 7", raw(FIN | 7, b"x"), 1002),
        ("opcode 11", raw(FIN | 11, b"x"), 1002),
        ("opcode 15", raw(FIN | 15, b"x"), 1002),
        ("fragmented Ping", raw(9, b"x"), 1002),
        ("fragmented Close", raw(8, &[0x03, 0xe8]), 1002),
        ("Ping of 126 bytes", raw(PING, &[b'x'; 126]), 1002),
        ("Close of 65536 bytes", raw(CLOSE, &[0; 1 << 16]), 1002),
        ("continuation first", raw(FIN, b"x"), 1002),
        ("continuation after a message", [raw(FIN | TEXT, b"x"), raw(FIN, b"x")].concat(), 1002),
        ("text in a message", [raw(TEXT, b"x"), raw(FIN | TEXT, b"x")].concat(), 1002),
        ("binary in a message", [raw(BINARY, b"x"), raw(BINARY, b"x")].concat(), 1002),
        ("two bytes of length for 125", vec![0x82, 0xfe, 0, 125, 0, 0, 0, 0], 1002),
        (
            "eight bytes of length for 65535",
            [&[0x82, 0xff][..], &65535_u64.to_be_bytes(), &MASK].concat(),
            1002,
        ),
        ("the top bit of a length", [&[0x82, 0xff, 0x80][..], &[0; 11]].concat(), 1002),
        ("Close of one byte", raw(CLOSE, &[3]), 1002),
        ("Close 999", raw(CLOSE, &999_u16.to_be_bytes()), 1002),
        ("Close 1005", raw(CLOSE, &1005_u16.to_be_bytes()), 1002),
        ("Close 1006", raw(CLOSE, &1006_u16.to_be_bytes()), 1002),
        ("Close 5000", raw(CLOSE, &5000_u16.to_be_bytes()), 1002),
        ("Close with a bad reason", raw(CLOSE, &[3, 0xe8, 0xff]), 1007),
        ("text with 0xff", raw(FIN | TEXT, b"a\xff"), 1007),
        ("text with a surrogate", raw(FIN | TEXT, b"\xed\xa0\x80"), 1007),
        ("text ends in a character", raw(FIN | TEXT, &euro[..2]), 1007),
        ("text breaks off in the next fragment", [raw(TEXT, &euro[..1]), raw(FIN, b"x")].concat(), 1007),
        ("a message over the limit", raw(FIN | BINARY, &[0; MAX + 1]), 1009),
        ("fragments over the limit", [raw(BINARY, &[0; MAX]), raw(0, b"x")].concat(), 1009),
        ("a length that is never sent", [&[0x82, 0xff, 0x7f][..], &[0xff; 7], &MASK].concat(), 1009),
        ("empty fragments", [raw(TEXT, b""), raw(0, b"").repeat(FRAGMENTS_MAX as usize)].concat(), 1008),
    ];
    for (name, bytes, code) in violations {
        let frames = [&raw(FIN | TEXT, b"before")[..], &bytes].concat();
        let sizes = [1, 2, 7, 100, usize::MAX];
        for size in sizes {
            let seen = received(&[&frames[..], &raw(FIN | TEXT, b"behind")].concat(), size);
            assert_eq!((seen.close_code(), seen.error.is_some()), (Some(code), true), "{name}, {size}");
            assert_eq!(seen.messages[0], b"before", "{name}, {size}");
            assert!(!seen.messages.contains(&b"behind".to_vec()), "{name}, {size}");
            let closes = seen.wire.windows(2).filter(|pair| *pair == [0x88, 2]).count();
            assert_eq!(closes, 1, "{name}, {size}");
        }
    }
}

#[test]
fn messages_at_the_limits_are_taken() {
    let euro = "€".as_bytes();
    let frames = [
        raw(FIN | BINARY, &[b'x'; MAX]),
        raw(FIN | TEXT, &[b'x'; 125]),
        raw(FIN | TEXT, &[b'x'; 126]),
        raw(FIN | TEXT, b""),
        [raw(TEXT, &euro[..1]), raw(PING, &[0xff; 125]), raw(0, &euro[1..2]), raw(FIN, &euro[2..])].concat(),
        [raw(BINARY, b""), raw(0, b"").repeat(FRAGMENTS_MAX as usize - 2), raw(FIN, b"end")].concat(),
        [raw(BINARY, &[b'x'; MAX - 1]), raw(FIN, b"x")].concat(),
    ];
    let seen = received(&frames.concat(), usize::MAX);
    let lengths: Vec<_> = seen.messages.iter().map(Vec::len).collect();
    assert_eq!((&lengths[..], seen.error), (&[MAX, 125, 126, 0, 3, 3, MAX][..], None));
}

#[test]
fn fragments_are_passed_on_as_they_come() {
    let (mut layer, mut seen) = (server(), Seen::default());
    seen.receive(&mut layer, REQUEST);
    let frame = raw(TEXT, b"hello");
    seen.receive(&mut layer, &frame[..frame.len() - 2]);
    assert_eq!((&seen.partial[..], layer.held_bytes()), (&b"hel"[..], 0), "nothing is kept");
    seen.receive(&mut layer, &frame[frame.len() - 2..]);
    assert_eq!((&seen.partial[..], seen.messages.len()), (&b"hello"[..], 0));
    seen.receive(&mut layer, &raw(FIN, b""));
    assert_eq!(seen.messages, [b"hello"]);
}

#[test]
fn a_ping_gets_a_pong_and_several_at_once_get_one() {
    let (mut layer, mut seen) = (server(), Seen::default());
    seen.receive(&mut layer, REQUEST);
    seen.wire.clear();
    seen.receive(&mut layer, &raw(PING, b"Hello"));
    assert_eq!(seen.wire, b"\x8a\x05Hello");
    seen.wire.clear();
    seen.receive(&mut layer, &[raw(PING, b"1").repeat(9), raw(PING, b"2")].concat());
    assert_eq!((seen.wire.as_slice(), seen.pings, layer.held_bytes()), (&b"\x8a\x012"[..], 11, 0));
    seen.wire.clear();
    seen.receive(&mut layer, &raw(PONG, b"unasked"));
    assert_eq!((seen.wire.len(), seen.error), (0, None));
    seen.receive(&mut layer, &[raw(PING, b"3"), raw(CLOSE, b"")].concat());
    assert_eq!(seen.wire, b"\x8a\x013\x88\x00", "the Close is the last frame");
}

#[test]
fn both_sides_close() {
    let mut closed =
        received_in_any_pieces(&[raw(CLOSE, &[0x0f, 0xa0, b'b', b'y', b'e']), raw(CLOSE, b"")].concat());
    assert_eq!((closed.close_code(), closed.is_ended, closed.error), (Some(4000), true, None));
    closed = received_in_any_pieces(&raw(CLOSE, b""));
    assert_eq!((closed.close_code(), closed.is_ended), (Some(0), true));

    let (mut layer, mut seen) = (server(), Seen::default());
    seen.receive(&mut layer, REQUEST);
    layer.finish(&mut seen.wire);
    assert_eq!(seen.close_code(), Some(1001));
    let sent = seen.wire.len();
    layer.finish(&mut seen.wire);
    seen.receive(&mut layer, &[raw(FIN | TEXT, b"late"), raw(CLOSE, &[0x03, 0xe9])].concat());
    assert_eq!((seen.wire.len(), seen.messages.len()), (sent, 0), "one Close, and nothing behind it");
    assert!(layer.encode(b"late", &mut seen.wire).is_err());

    let mut wire = Vec::new();
    server().finish(&mut wire);
    assert_eq!(wire, [], "before the handshake there are no frames");
    server_over(LengthPrefix::new()).finish(&mut wire);
    assert_eq!(wire, [0, 0], "the lower layer ends, too");
    let (mut layer, mut seen) = (client(), Seen::default());
    open(&mut layer, &mut seen);
    seen.wire.clear();
    layer.finish(&mut seen.wire);
    let [0x88, 0x82, a, b, c, d, high, low] = seen.wire[..] else { panic!("{:?}", seen.wire) };
    assert_eq!((high ^ a, low ^ b), (0x03, 0xe8), "1000, masked by {a} {b} {c} {d}");
}

/// Ends the handshake of a client with the response to its key.
fn open(layer: &mut WebSocket<PassThrough>, seen: &mut Seen) {
    let mut request = Vec::new();
    layer.start(&mut request);
    let mut accepted = server();
    let mut response = Vec::new();
    accepted.decode(&request, &mut |_| {}, &mut response).unwrap();
    seen.receive(layer, &response);
    assert!(!layer.is_handshaking());
}

#[test]
fn a_client_takes_unmasked_frames_only() {
    let (mut layer, mut seen) = (client(), Seen::default());
    open(&mut layer, &mut seen);
    seen.receive(&mut layer, b"\x81\x05hello");
    assert_eq!(seen.messages, [b"hello"]);
    seen.receive(&mut layer, &raw(FIN | TEXT, b"masked"));
    assert!(seen.error.is_some() && seen.messages.len() == 1);
    for size in 1..20 {
        let (mut layer, mut seen) = (client(), Seen::default());
        open(&mut layer, &mut seen);
        for piece in b"\x01\x02\xe2\x82\x89\x00\x00\x01\xac\x80\x03abc\x81\x01\xff\x81\x01x".chunks(size) {
            seen.receive(&mut layer, piece);
        }
        assert_eq!((&seen.messages[..], seen.error.is_some()), (&["€abc".as_bytes().to_vec()][..], true));
    }
}

#[test]
fn masks_differ_from_frame_to_frame_and_from_seed_to_seed() {
    let mut masks = Vec::new();
    for seed in 0..4 {
        let target = WebSocketTarget::new("a", "/", None).unwrap();
        let mut layer = WebSocket::dialled(PassThrough, &target, MAX, &Seed::from_number(seed));
        open(&mut layer, &mut Seen::default());
        for _ in 0..20 {
            let mut wire = Vec::new();
            layer.encode(b"message", &mut wire).unwrap();
            masks.push(wire[2..6].to_vec());
        }
    }
    let all = masks.len();
    masks.sort();
    masks.dedup();
    assert_eq!(masks.len(), all);
}

#[test]
fn messages_before_the_end_of_the_handshake_are_kept() {
    let (mut layer, mut request) = (client(), Vec::new());
    let requested = layer.held_bytes();
    layer.start(&mut request);
    assert!(requested >= request.len() && layer.held_bytes() == 0, "the request is sent");
    let before = request.len();
    layer.encode(b"one", &mut request).unwrap();
    layer.encode(b"two", &mut request).unwrap();
    assert_eq!(request.len(), before, "nothing is sent");
    assert!(layer.held_bytes() >= 2 * (6 + 3) && layer.is_handshaking());
    let (mut accepted, mut seen) = (server(), Seen::default());
    accepted.encode(b"early", &mut seen.wire).unwrap();
    seen.receive(&mut accepted, &request);
    let mut sent = Seen::default();
    sent.receive(&mut layer, &seen.wire);
    assert_eq!(
        (&sent.messages[..], layer.held_bytes(), accepted.held_bytes()),
        (&[b"early".to_vec()][..], 0, 0)
    );
    seen.receive(&mut accepted, &sent.wire);
    assert_eq!(seen.messages, [b"one", b"two"], "in their order");
}
