//! STUN: every part of an accepted message can be read and has a valid length, and the client accepts only
//! responses that match its request.

use ringway_media::stun::{
    Class, METHOD_BINDING, Message, MessageWriter, StunClient, StunEvent, write_answer,
};
use ringway_sansio::{Instant, Seed};
use std::net::SocketAddr;

/// Parses `data` as a datagram, and as the server's response to our request.
pub(crate) fn run(data: &[u8]) {
    if let Ok(message) = Message::parse(data) {
        reads(&message, data);
    }
    answered_with(data);
    answered(data);
}

/// The answer of a server to `data` is a message, and at most 24 bytes longer.
fn answered(data: &[u8]) {
    let mut out = Vec::new();
    if write_answer(data, SocketAddr::from(([192, 0, 2, 7], 5060)), &mut out).is_ok() {
        assert!(out.len() <= data.len() + 24);
        assert!(Message::parse(&out).is_ok());
    }
    assert!(write_answer(&out, SocketAddr::from(([192, 0, 2, 7], 5060)), &mut Vec::new()).is_err());
}

fn reads(message: &Message<'_>, data: &[u8]) {
    assert!(data.len() >= 20 && data.len().is_multiple_of(4));
    for (kind, value) in message.attributes() {
        assert!(value.len() <= data.len() - 24);
        assert!(message.attribute(kind).is_some());
    }
    if let Some((code, _)) = message.error_code() {
        assert!((300..700).contains(&code));
    }
    assert!(message.unknown_required().all(|kind| kind < 0x8000));
    if let Some(address) = message.xor_mapped_address() {
        let again = MessageWriter::new(Class::Success, METHOD_BINDING, message.id())
            .xor_mapped_address(address)
            .mapped_address(address)
            .finish_with_fingerprint();
        let again = Message::parse(&again).expect("a written message is valid");
        assert_eq!(again.xor_mapped_address(), Some(address));
        assert_eq!(again.mapped_address(), Some(address));
    }
}

fn answered_with(data: &[u8]) {
    let server = SocketAddr::from(([192, 0, 2, 1], 3478));
    let now = Instant::from_secs(1);
    let mut client = StunClient::new(server, &Seed::from_number(1));
    let mut request = Vec::new();
    client.start(now, &mut |bytes| request = bytes.to_vec());
    assert!(client.on_datagram(now, server, data).is_none(), "the transaction was guessed");
    let mut answer = data.to_vec();
    if let (Some(id), Some(ours)) = (answer.get_mut(8..20), request.get(8..20)) {
        id.copy_from_slice(ours);
    }
    let Some(event) = client.on_datagram(now, server, &answer) else { return };
    let message = Message::parse(&answer).expect("only a message has an effect");
    match event {
        StunEvent::Mapped(address) => {
            assert_eq!(message.class(), Class::Success);
            assert!(
                message.xor_mapped_address() == Some(address) || message.mapped_address() == Some(address)
            );
            assert_eq!(client.mapped(), Some(address));
        }
        StunEvent::Failed(_) => assert!(client.mapped().is_none()),
    }
    assert_eq!(client.next_deadline().map(|deadline| deadline.reason), Some("STUN keep-alive"));
}
