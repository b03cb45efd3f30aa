//! WebSocket against an independent implementation: tungstenite as client and as server, over a pipe in memory.

use crate::{Decoded, Layer, PassThrough, WebSocket, WebSocketServer, WebSocketTarget};
use alloc::vec;
use alloc::vec::Vec;
use ringway_sansio::Seed;
use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::sync::Arc;
use tungstenite::client::IntoClientRequest as _;
use tungstenite::error::Error;
use tungstenite::handshake::server::{ErrorResponse, Request, Response};
use tungstenite::handshake::{HandshakeError, MidHandshake};
use tungstenite::http::HeaderValue;
use tungstenite::protocol::frame::coding::CloseCode;
use tungstenite::protocol::{CloseFrame, Message};

/// Our side as tungstenite's stream: each written byte is decoded at once.
struct Peer {
    layer: WebSocket<PassThrough>,
    to_them: VecDeque<u8>,
    received: Received,
}

#[derive(Default)]
struct Received {
    partial: Vec<u8>,
    messages: Vec<Vec<u8>>,
    is_ended: bool,
}

impl Peer {
    fn new(layer: WebSocket<PassThrough>) -> Self {
        let mut peer = Self { layer, to_them: VecDeque::new(), received: Received::default() };
        let mut wire = Vec::new();
        peer.layer.start(&mut wire);
        peer.to_them.extend(wire);
        peer
    }

    fn send(&mut self, message: &[u8]) {
        let mut wire = Vec::new();
        self.layer.encode(message, &mut wire).unwrap();
        self.to_them.extend(wire);
    }
}

impl Read for Peer {
    fn read(&mut self, room: &mut [u8]) -> std::io::Result<usize> {
        // Few bytes at a time: frames arrive in pieces.
        let length = room.len().min(5);
        match self.to_them.read(&mut room[..length])? {
            0 => Err(ErrorKind::WouldBlock.into()),
            count => Ok(count),
        }
    }
}

impl Write for Peer {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let Received { partial, messages, is_ended } = &mut self.received;
        let mut wire = Vec::new();
        for piece in bytes.chunks(7) {
            let mut decoded = |part: Decoded<'_>| match part {
                Decoded::Bytes(bytes) => partial.extend_from_slice(bytes),
                Decoded::MessageEnd => messages.push(std::mem::take(partial)),
                Decoded::StreamEnd => *is_ended = true,
                Decoded::MessageStart | Decoded::Ping => {}
            };
            self.layer.decode(piece, &mut decoded, &mut wire).expect("their frames are valid");
        }
        self.to_them.extend(wire);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

type Theirs = tungstenite::WebSocket<Peer>;

fn exchange(mut theirs: Theirs) {
    let large = "SIP/2.0 200 OK é ".repeat(5000);
    theirs.send(Message::text("OPTIONS sip:a SIP/2.0\r\n\r\n")).unwrap();
    theirs.send(Message::binary(vec![0xff; 300])).unwrap();
    theirs.send(Message::text(large.clone())).unwrap();
    assert_eq!(
        theirs.get_ref().received.messages,
        [b"OPTIONS sip:a SIP/2.0\r\n\r\n".to_vec(), vec![0xff; 300], large.clone().into_bytes()]
    );
    for message in [&b"BYE sip:a SIP/2.0\r\n\r\n"[..], &[0xfe; 200], large.as_bytes()] {
        theirs.get_mut().send(message);
    }
    assert_eq!(theirs.read().unwrap(), Message::text("BYE sip:a SIP/2.0\r\n\r\n"));
    assert_eq!(theirs.read().unwrap(), Message::binary(vec![0xfe; 200]));
    assert_eq!(theirs.read().unwrap(), Message::text(large));
    theirs.send(Message::Ping(b"alive?".to_vec().into())).unwrap();
    assert_eq!(theirs.read().unwrap(), Message::Pong(b"alive?".to_vec().into()));
    let close = CloseFrame { code: CloseCode::Normal, reason: "done".into() };
    theirs.close(Some(close)).unwrap();
    assert!(theirs.get_ref().received.is_ended);
    let Message::Close(Some(echo)) = theirs.read().unwrap() else { panic!("not a Close") };
    assert_eq!(echo.code, CloseCode::Normal);
}

/// Continues a handshake until it is over.
fn complete<R: tungstenite::handshake::HandshakeRole>(
    mut result: Result<R::FinalResult, HandshakeError<R>>,
) -> R::FinalResult {
    for _ in 0..1000 {
        match result {
            Ok(done) => return done,
            Err(HandshakeError::Interrupted(waiting)) => result = MidHandshake::handshake(waiting),
            Err(HandshakeError::Failure(error)) => panic!("{error}"),
        }
    }
    panic!("the handshake does not end");
}

fn request() -> Request {
    let mut request = "ws://proxy.example.com/".into_client_request().unwrap();
    request.headers_mut().insert("Sec-WebSocket-Protocol", HeaderValue::from_static("sip"));
    request.headers_mut().insert("Origin", HeaderValue::from_static("https://www.example.com"));
    request
}

#[test]
fn their_client_talks_to_our_server() {
    let origins = vec!["https://www.example.com".into()];
    let server = Arc::new(WebSocketServer { origins, message_bytes_max: 1 << 20 });
    let peer = Peer::new(WebSocket::accepted(PassThrough, server));
    let (theirs, response) = complete(tungstenite::client(request(), peer));
    assert_eq!(response.headers().get("Sec-WebSocket-Protocol").unwrap(), "sip");
    exchange(theirs);
}

#[test]
#[expect(clippy::result_large_err, reason = "the type is tungstenite's")]
fn our_client_talks_to_their_server() {
    let target = WebSocketTarget::new("proxy.example.com", "/", None).unwrap();
    let peer = Peer::new(WebSocket::dialled(PassThrough, &target, 1 << 20, &Seed::from_number(1)));
    let select = |request: &Request, mut response: Response| -> Result<Response, ErrorResponse> {
        assert_eq!(request.headers().get("Sec-WebSocket-Protocol").unwrap(), "sip");
        response.headers_mut().insert("Sec-WebSocket-Protocol", HeaderValue::from_static("sip"));
        Ok(response)
    };
    exchange(complete(tungstenite::accept_hdr(peer, select)));
}

#[test]
fn their_client_reads_our_close() {
    let origins = vec!["https://www.example.com".into()];
    let server = WebSocketServer { origins, ..WebSocketServer::default() };
    let peer = Peer::new(WebSocket::accepted(PassThrough, Arc::new(server)));
    let (mut theirs, _) = complete(tungstenite::client(request(), peer));
    let mut wire = Vec::new();
    theirs.get_mut().layer.finish(&mut wire);
    theirs.get_mut().to_them.extend(wire);
    let Message::Close(Some(close)) = theirs.read().unwrap() else { panic!("not a Close") };
    assert_eq!(close.code, CloseCode::Away);
    assert!(matches!(theirs.read(), Err(Error::ConnectionClosed | Error::Io(_))));
}
