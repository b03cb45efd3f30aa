//! WebSocket: any bytes, split anywhere, give the same messages and the same end; little memory is held; what one side
//! sends is what the other side receives.

use ringway_sansio::Seed;
use ringway_stream::{Decoded, Layer, PassThrough, WebSocket, WebSocketServer, WebSocketTarget};
use std::sync::Arc;
use std::vec;
use std::vec::Vec;

/// The first byte says which side receives the others, and from where; the second one in which pieces.
pub(crate) fn run(data: &[u8]) {
    let [mode, pieces, bytes @ ..] = data else { return };
    let whole = received(*mode, bytes, usize::MAX);
    assert_eq!(received(*mode, bytes, 1 + usize::from(*pieces % 64)), whole, "in pieces");
    if bytes.len() < 2000 {
        assert_eq!(received(*mode, bytes, 1), whole, "byte by byte");
    }
    exchanged(bytes);
}

#[derive(Debug, Default, PartialEq)]
struct Seen {
    messages: Vec<Vec<u8>>,
    /// Beginning of a message whose end was not received.
    partial: Vec<u8>,
    pings: usize,
    is_ended: bool,
    error: Option<&'static str>,
    /// The last frame that was sent, if it is a Close.
    close: Option<u16>,
}

impl Seen {
    fn receive(&mut self, layer: &mut impl Layer, bytes: &[u8], wire: &mut Vec<u8>) {
        let Self { messages, partial, pings, is_ended, error, .. } = self;
        let mut decoded = |part: Decoded<'_>| {
            assert!(!*is_ended, "nothing follows the end");
            match part {
                Decoded::MessageStart => assert!(partial.is_empty()),
                Decoded::Bytes(bytes) => partial.extend_from_slice(bytes),
                Decoded::MessageEnd => messages.push(std::mem::take(partial)),
                Decoded::Ping => *pings += 1,
                Decoded::StreamEnd => *is_ended = true,
            }
            assert!(partial.len() <= MESSAGE_BYTES_MAX);
        };
        let result = layer.decode(bytes, &mut decoded, wire);
        *error = error.or(result.err().map(|error| error.0));
        assert!(layer.held_bytes() <= HELD_BYTES_MAX, "{}", layer.held_bytes());
    }
}

fn received(mode: u8, bytes: &[u8], piece: usize) -> Seen {
    let (mut seen, mut wire) = (Seen::default(), Vec::new());
    match mode % 4 {
        // A server before, and after the handshake.
        0 => feed(&mut server(), bytes, piece, &mut seen, &mut wire),
        1 => {
            let mut layer = server();
            seen.receive(&mut layer, REQUEST, &mut wire);
            assert!(!layer.is_handshaking());
            feed(&mut layer, bytes, piece, &mut seen, &mut wire);
        }
        // A client before, and after.
        2 => feed(&mut client(), bytes, piece, &mut seen, &mut wire),
        _ => {
            let mut layer = opened();
            feed(&mut layer, bytes, piece, &mut seen, &mut wire);
        }
    }
    if let ([.., 0x88, 2, high, low], 0..2) = (wire.as_slice(), mode % 4) {
        seen.close = Some(u16::from_be_bytes([*high, *low]));
        assert!(seen.is_ended || seen.error.is_some());
    }
    if seen.error.is_some() {
        // The bytes of the message before the error depend on the pieces.
        seen.partial.clear();
    }
    for message in &seen.messages {
        assert!(message.len() <= MESSAGE_BYTES_MAX);
    }
    seen
}

fn feed(layer: &mut impl Layer, bytes: &[u8], piece: usize, seen: &mut Seen, wire: &mut Vec<u8>) {
    for part in bytes.chunks(piece) {
        let before = wire.len();
        seen.receive(layer, part, wire);
        assert!(wire.len() - before <= ANSWER_BYTES_MAX, "a short input has a short answer");
    }
}

/// Exchanges `bytes` as a message in each direction.
fn exchanged(bytes: &[u8]) {
    let message = bytes.get(..MESSAGE_BYTES_MAX).unwrap_or(bytes);
    let (mut ours, mut theirs) = (opened(), server());
    let (mut seen, mut wire) = (Seen::default(), Vec::new());
    seen.receive(&mut theirs, REQUEST, &mut wire);
    wire.clear();
    ours.encode(message, &mut wire).expect("it is open");
    seen.receive(&mut theirs, &wire, &mut Vec::new());
    wire.clear();
    theirs.encode(message, &mut wire).expect("it is open");
    seen.receive(&mut ours, &wire, &mut Vec::new());
    assert_eq!((seen.messages, seen.error), (vec![message.to_vec(), message.to_vec()], None));
}

fn server() -> WebSocket<PassThrough> {
    let server = WebSocketServer { message_bytes_max: MESSAGE_BYTES_MAX, ..WebSocketServer::default() };
    WebSocket::accepted(PassThrough, Arc::new(server))
}

fn client() -> WebSocket<PassThrough> {
    let target = WebSocketTarget::new("proxy.example.com", "/", None).expect("it is valid");
    WebSocket::dialled(PassThrough, &target, MESSAGE_BYTES_MAX, &Seed::from_number(1))
}

fn opened() -> WebSocket<PassThrough> {
    let (mut layer, mut request, mut response) = (client(), Vec::new(), Vec::new());
    layer.start(&mut request);
    server().decode(&request, &mut |_| {}, &mut response).expect("the request is valid");
    layer.decode(&response, &mut |_| {}, &mut Vec::new()).expect("the response is valid");
    layer
}

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
    Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: sip\r\n\
    Sec-WebSocket-Version: 13\r\n\r\n";

const MESSAGE_BYTES_MAX: usize = 1000;

/// Head of the handshake with the unused capacity of its buffer, and a Ping.
const HELD_BYTES_MAX: usize = (16 << 10) + 125;

/// Response of the handshake or its refusal, a Pong and a Close.
const ANSWER_BYTES_MAX: usize = 600;
