//! Tests of Content-Length from datagrams to streams (RFC 3261 §18.3, §20.14).

use crate::harness::{ALICE, BOB, Sent, Wire, World, forwarded, invite, only, request};
use ringway_sansio::Transport;
use ringway_sip::StreamFramer;

const BOBS_CONNECTION: u64 = 5;

/// Text that a receiver would parse as a second message if the body had no length.
const INJECTED: &str = "BYE sip:bob@192.0.2.20 SIP/2.0\r\nContent-Length: 0\r\n\r\n";

fn world(stateful: bool) -> World {
    let mut world = World::with(|config| config.stateful = stateful);
    world.register_tcp(BOBS_CONNECTION, "bob", BOB, "<sip:bob@192.0.2.20;transport=tcp>");
    world
}

/// Datagram with `body` and without Content-Length.
fn without_length(message: &[u8], body: &str) -> Vec<u8> {
    let text = String::from_utf8(message.to_vec()).unwrap();
    let (head, _) = text.split_once("Content-Length: 0\r\n").unwrap();
    format!("{head}\r\n{body}").into_bytes()
}

/// Asserts that the receiver of a stream cuts exactly this message out of it.
#[track_caller]
fn is_one_message(sent: &Sent, body: &str) {
    assert_eq!(sent.flow.transport, Transport::Tcp);
    let mut framer = StreamFramer::new(65_535);
    framer.push(&sent.bytes);
    assert_eq!(framer.next_message(), Ok(Some(&sent.bytes[..])), "{}", sent.text());
    assert_eq!(framer.next_message(), Ok(None));
    assert_eq!(sent.header("Content-Length"), body.len().to_string());
    assert!(sent.text().ends_with(&format!("\r\n\r\n{body}")));
}

#[test]
fn a_request_from_a_datagram_has_a_content_length_on_a_stream() {
    for stateful in [true, false] {
        for (method, body) in
            [("INVITE", INJECTED), ("MESSAGE", INJECTED), ("OPTIONS", ""), ("ACK", INJECTED)]
        {
            let mut world = world(stateful);
            let call = request(method, "sip:bob@example.org");
            let got = forwarded(world.udp(ALICE, &without_length(&call.wire(), body)));
            is_one_message(&got, body);
        }
    }
}

#[test]
fn a_response_from_a_datagram_has_a_content_length_on_a_stream() {
    for stateful in [true, false] {
        for status in [180, 200, 486, 603] {
            let mut world = World::with(|config| config.stateful = stateful);
            world.register("bob", BOB, "<sip:bob@192.0.2.20>");
            let call = invite("sip:bob@example.org").tcp();
            let got = forwarded(world.tcp(77, "192.0.2.10:40000", &call));
            let answer = without_length(&got.answer(status, &[]), INJECTED);
            let back: Vec<Sent> =
                world.udp(BOB, &answer).into_iter().filter(|sent| sent.status() == status).collect();
            is_one_message(&only(back), INJECTED);
        }
    }
}

#[test]
fn the_ack_and_the_cancel_of_a_branch_have_a_content_length() {
    let mut world = world(true);
    let call = invite("sip:bob@example.org");
    let got = forwarded(world.udp(ALICE, &without_length(&call.wire(), INJECTED)));
    let bob = |world: &mut World, bytes: Vec<u8>| world.tcp(BOBS_CONNECTION, BOB, &bytes);
    bob(&mut world, got.answer(180, &[]));
    let cancel = forwarded(world.udp(ALICE, &call.cancel()));
    assert_eq!(cancel.method(), "CANCEL");
    is_one_message(&cancel, "");
    let ack = forwarded(bob(&mut world, got.answer(487, &[])));
    assert_eq!(ack.method(), "ACK");
    is_one_message(&ack, "");
}

#[test]
fn bytes_after_the_body_of_a_datagram_are_not_forwarded() {
    for stateful in [true, false] {
        let mut world = world(stateful);
        let mut bytes = request("MESSAGE", "sip:bob@example.org").wire();
        bytes.extend_from_slice(INJECTED.as_bytes());
        is_one_message(&forwarded(world.udp(ALICE, &bytes)), "");
    }
}
