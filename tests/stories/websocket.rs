//! SIP over WebSocket connections: the layer with the framer of SIP.

use ringway_sansio::{Framer as _, Instant, Rng, Seed, Token};
use ringway_sip::{Limits, Message};
use ringway_stream::{
    CloseReason, Connection, Origin, PassThrough, StreamLimits, WebSocket, WebSocketServer, WebSocketTarget,
};
use ringway_transaction::SipFramer;
use std::sync::Arc;

type Side = Connection<SipFramer, WebSocket<PassThrough>>;

/// Passes bytes to the other side in random pieces, and returns the messages that it received.
fn carry(wire: &[u8], to: &mut Side, rng: &mut Rng, answer: &mut Vec<u8>) -> Vec<Vec<u8>> {
    let (mut messages, mut rest) = (Vec::new(), wire);
    while !rest.is_empty() {
        let (piece, behind) = rest.split_at((1 + rng.below(100) as usize).min(rest.len()));
        rest = behind;
        to.receive(piece, NOW);
        while to.messages(32, NOW, |message| messages.push(message.to_vec())).has_more {}
        to.respond(&StreamLimits::default(), NOW, |bytes| {
            answer.extend_from_slice(bytes);
            Ok(bytes.len())
        });
    }
    messages
}

#[test]
fn messages_without_content_length_are_whole_in_any_pieces() {
    for seed in 0..100 {
        let mut rng = Rng::new(&Seed::from_number(seed));
        let target = WebSocketTarget::new("proxy.example.com", "/", None).unwrap();
        let layer = WebSocket::dialled(PassThrough, &target, 65_535, &Seed::from_number(seed));
        let mut client = Connection::new(Origin::Dialled, SipFramer::new(65_535), layer, NOW);
        let layer = WebSocket::accepted(PassThrough, Arc::new(WebSocketServer::default()));
        let mut server = Connection::new(Origin::Accepted, SipFramer::new(65_535), layer, NOW);
        let limits = StreamLimits::default();
        let (mut to_server, mut to_client) = (Vec::new(), Vec::new());
        let write = |wire: &mut Vec<u8>, bytes: &[u8]| {
            wire.extend_from_slice(bytes);
            Ok(bytes.len())
        };
        client.connected(NOW);
        for message in [REGISTER, b"\r\n\r\n", MESSAGE] {
            client.send(message, Token::NONE, &limits, NOW, |bytes| write(&mut to_server, bytes));
        }
        assert!(carry(&to_server, &mut server, &mut rng, &mut to_client).is_empty(), "only the handshake");
        to_server.clear();
        assert!(carry(&to_client, &mut client, &mut rng, &mut to_server).is_empty());
        to_client.clear();
        let received = carry(&to_server, &mut server, &mut rng, &mut to_client);
        assert_eq!(received, [REGISTER, MESSAGE], "seed {seed}");
        for message in &received {
            assert!(Message::parse(message, &Limits::default()).is_ok());
        }
        assert_eq!(to_client, b"\x81\x02\r\n", "the keep-alive's answer is a message");
        assert!(carry(&to_client, &mut client, &mut rng, &mut Vec::new()).is_empty());
        assert_eq!((client.end_reason(), server.end_reason()), (None, None));

        to_server.clear();
        client.fail(CloseReason::Idle);
        client.flush(NOW, |bytes| write(&mut to_server, bytes));
        carry(&to_server, &mut server, &mut rng, &mut to_client);
        assert_eq!(server.end_reason(), Some(CloseReason::Ended), "the client's Close ends the connection");
    }
}

const NOW: Instant = Instant::from_secs(1);

const REGISTER: &[u8] = b"REGISTER sip:proxy.example.com SIP/2.0\r\n\
    Via: SIP/2.0/WS df7jal23ls0d.invalid;branch=z9hG4bKasudf\r\nFrom: <sip:alice@example.com>;tag=65bnmj\r\n\
    To: <sip:alice@example.com>\r\nCall-ID: aiuy7k9njasd\r\nCSeq: 1 REGISTER\r\nMax-Forwards: 70\r\n\
    Contact: <sip:alice@df7jal23ls0d.invalid;transport=ws>\r\n\r\n";

/// With a body that looks like the end of a header, and no Content-Length.
const MESSAGE: &[u8] = b"MESSAGE sip:bob@example.com SIP/2.0\r\n\
    Via: SIP/2.0/WS df7jal23ls0d.invalid;branch=z9hG4bKother\r\nFrom: <sip:alice@example.com>;tag=65bnmj\r\n\
    To: <sip:bob@example.com>\r\nCall-ID: other\r\nCSeq: 1 MESSAGE\r\nMax-Forwards: 70\r\n\
    Content-Type: text/plain\r\n\r\nOne\r\n\r\nTwo\r\n\r\n";
