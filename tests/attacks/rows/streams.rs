//! To keep connections, their memory, or what they carry.

use crate::row::{Door, Row, Seen, Thesis};
use ringway_sansio::{Defence, Framer, Instant, Token};
use ringway_server::SipFramer;
use ringway_stream::{
    Connection, Decoded, Layer, Origin, PassThrough, StreamLimits, WebSocket, WebSocketServer,
};
use std::sync::Arc;
use std::time::Duration;

pub(super) const ROWS: &[Row] = &[
    Row {
        name: "a message comes byte by byte, one in five seconds",
        door: Door::Tcp,
        thesis: Thesis::TcpFlood,
        defence: Defence::MessageTime,
        attack: trickles,
    },
    Row {
        name: "connections are opened and nothing is sent",
        door: Door::Tcp,
        thesis: Thesis::TcpFlood,
        defence: Defence::FirstMessage,
        attack: opens,
    },
    Row {
        name: "a message is announced with two gigabytes, and its bytes are sent",
        door: Door::Tcp,
        thesis: Thesis::BufferOverflow,
        defence: Defence::MessageSize,
        attack: announces,
    },
    Row {
        name: "responses are caused and never read",
        door: Door::Tcp,
        thesis: Thesis::TcpFlood,
        defence: Defence::WriteQueue,
        attack: never_reads,
    },
    Row {
        name: "keep-alives are sent as fast as the link permits",
        door: Door::Tcp,
        thesis: Thesis::TcpFlood,
        defence: Defence::KeepAlives,
        attack: pings,
    },
    Row {
        name: "the handshake of WebSocket is begun and not completed",
        door: Door::WebSocket,
        thesis: Thesis::TcpFlood,
        defence: Defence::HandshakeTime,
        attack: half_a_handshake,
    },
    Row {
        name: "a page of another site connects",
        door: Door::WebSocket,
        thesis: Thesis::Impersonation,
        defence: Defence::WebSocketOrigin,
        attack: foreign_page,
    },
    Row {
        name: "a frame of an exabyte is begun",
        door: Door::WebSocket,
        thesis: Thesis::BufferOverflow,
        defence: Defence::WebSocketSize,
        attack: endless_frame,
    },
];

const OPTIONS: &str = "OPTIONS sip:192.0.2.1 SIP/2.0\r\nVia: SIP/2.0/TCP 203.0.113.66;branch=z9hG4bK1\r\n\
    From: <sip:eve@example.net>;tag=1\r\nTo: <sip:192.0.2.1>\r\nCall-ID: 1\r\nCSeq: 1 OPTIONS\r\n";
/// Maximum length of a message.
const MAX: usize = 65_535;

/// Peer of an accepted connection, on virtual time.
struct Peer<L: Layer> {
    connection: Connection<SipFramer, L>,
    now: Instant,
    received: u64,
    sent: u64,
}

impl<L: Layer> Peer<L> {
    fn accepted(layer: L) -> Self {
        let now = Instant::from_secs(1000);
        let connection = Connection::new(Origin::Accepted, SipFramer::new(MAX), layer, now);
        Self { connection, now, received: 0, sent: 0 }
    }

    /// Sends bytes; the answers of the connection are read if `reads`. Returns the number of messages.
    fn send(&mut self, bytes: &[u8], reads: bool) -> usize {
        self.received += bytes.len() as u64;
        self.connection.receive(bytes, self.now);
        let mut messages = 0;
        while self.connection.messages(32, self.now, |_| messages += 1).has_more {}
        let sent = self.connection.respond(&StreamLimits::default(), self.now, |bytes| match reads {
            true => Ok(bytes.len()),
            false => Ok(0),
        });
        self.sent += sent as u64;
        messages
    }

    /// Waits; true if the connection is still open.
    fn wait(&mut self, time: Duration) -> bool {
        self.now = self.now + time;
        let (due, _) = self.connection.deadline(&StreamLimits::default());
        due > self.now && self.is_open()
    }

    fn is_open(&self) -> bool {
        self.connection.end_reason().is_none() && self.connection.close_reason().is_none()
    }

    const fn seen(&self, succeeded: bool) -> Seen {
        Seen { succeeded, received_bytes: self.received, sent_bytes: self.sent }
    }
}

fn trickles() -> Seen {
    let mut peer = Peer::accepted(PassThrough);
    // It has had a message: the time for the first one is over.
    peer.send(format!("{OPTIONS}Content-Length: 0\r\n\r\n").as_bytes(), true);
    let is_held = OPTIONS.bytes().all(|byte| {
        peer.send(&[byte], true);
        peer.wait(Duration::from_secs(5))
    });
    peer.seen(is_held)
}

fn opens() -> Seen {
    let mut peer = Peer::accepted(PassThrough);
    let is_held = peer.wait(Duration::from_secs(3600));
    peer.seen(is_held)
}

fn announces() -> Seen {
    let mut peer = Peer::accepted(PassThrough);
    peer.send(format!("{OPTIONS}Content-Length: 2147483648\r\n\r\n").as_bytes(), true);
    for _ in 0..100 {
        if peer.is_open() {
            peer.send(&[b'x'; MAX], true);
        }
    }
    let succeeded = peer.is_open() && peer.connection.held_bytes() > 10 * MAX;
    peer.seen(succeeded)
}

fn never_reads() -> Seen {
    let mut peer = Peer::accepted(PassThrough);
    let limits = StreamLimits::default();
    for _ in 0..4000 {
        if peer.is_open() {
            peer.send(format!("{OPTIONS}Content-Length: 0\r\n\r\n").as_bytes(), false);
            peer.connection.send(&[b'x'; 500], Token::NONE, &limits, peer.now, |_| Ok(0));
        }
    }
    let succeeded = peer.is_open() && peer.connection.unwritten_bytes() >= 4000 * 500;
    peer.seen(succeeded)
}

fn pings() -> Seen {
    let mut peer = Peer::accepted(PassThrough);
    peer.send(format!("{OPTIONS}Content-Length: 0\r\n\r\n").as_bytes(), true);
    for _ in 0..1000 {
        if peer.is_open() {
            peer.send(b"\r\n\r\n", true);
        }
    }
    let succeeded = peer.is_open() && peer.sent >= 2 * 1000;
    peer.seen(succeeded)
}

/// Server's side of WebSocket.
fn web_socket() -> WebSocket<PassThrough> {
    WebSocket::accepted(PassThrough, Arc::new(WebSocketServer::default()))
}

fn request_of(origin: &str) -> String {
    format!(
        "GET / HTTP/1.1\r\nHost: sip.example.org\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nOrigin: {origin}\r\n\
         Sec-WebSocket-Protocol: sip\r\nSec-WebSocket-Version: 13\r\n\r\n"
    )
}

fn half_a_handshake() -> Seen {
    let mut peer = Peer::accepted(web_socket());
    // A connection that waits for its first message has a minute; this one is to be closed before.
    peer.send(&request_of("https://sip.example.org").as_bytes()[..40], true);
    let is_held = peer.wait(Duration::from_secs(30));
    peer.seen(is_held)
}

fn foreign_page() -> Seen {
    let mut layer = web_socket();
    let request = request_of("https://evil.example");
    let mut answer = Vec::new();
    let accepted = layer.decode(request.as_bytes(), &mut |_| {}, &mut answer).is_ok();
    let succeeded = accepted && answer.starts_with(b"HTTP/1.1 101");
    Seen { succeeded, received_bytes: request.len() as u64, sent_bytes: answer.len() as u64 }
}

fn endless_frame() -> Seen {
    let mut layer = web_socket();
    let mut answer = Vec::new();
    let request = request_of("https://sip.example.org");
    layer.decode(request.as_bytes(), &mut |_| {}, &mut answer).unwrap();
    let head = [0x82, 0xff, 0x0f, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4];
    let mut passed = 0;
    let mut decoded = |part: Decoded<'_>| {
        if let Decoded::Bytes(bytes) = part {
            passed += bytes.len();
        }
    };
    let frame = [head.as_slice(), &[0; 2 * MAX]].concat();
    let is_taken = layer.decode(&frame, &mut decoded, &mut answer).is_ok();
    Seen {
        succeeded: is_taken && passed > MAX,
        received_bytes: (request.len() + frame.len()) as u64,
        sent_bytes: answer.len() as u64,
    }
}
