//! Tests of requests that grow when they are forwarded: their CANCEL and ACK are sent, or they are refused on arrival.

use crate::harness::{
    ALICE, BOB, Request, Wire, World, forwarded, invite, only, register, requests, statuses,
};
use ringway_sip::{Limits, Message};

/// Outcome of an INVITE: refused at once with this status, or forwarded, cancelled and acknowledged.
#[track_caller]
fn outcome(call: &Request, body_bytes: usize) -> Option<u16> {
    let mut world = World::open();
    // Two Record-Routes and a long Request-URI: the maximum that forwarding adds.
    let contact = format!("sip:{}@192.0.2.20;transport=tcp", "b".repeat(1900));
    let registered = world.tcp(5, BOB, &register("bob", &format!("<{contact}>")).tcp());
    assert_eq!(only(registered).status(), 200);
    let text = String::from_utf8(call.wire()).unwrap();
    let bytes = match body_bytes {
        // A Content-Length is added too.
        0 => text.replace("Content-Length: 0\r\n", ""),
        _ => {
            text.replace("Content-Length: 0", &format!("Content-Length: {body_bytes}"))
                + &"x".repeat(body_bytes)
        }
    };
    let sent = world.udp(ALICE, &bytes.into_bytes());
    if let [refused] = &sent[..] {
        return Some(refused.status());
    }
    assert_eq!(statuses(&sent), [100]);
    let got = forwarded(sent);
    assert_eq!(got.method(), "INVITE");
    let parsed = Message::parse(&got.bytes, &Limits::STORED);
    let count = parsed.unwrap().iter().count();
    assert!(count <= Limits::HEADERS_CEILING + Limits::HEADERS_ADDED_MAX, "{count} header fields");
    let bare = Request { lines: Vec::new(), ..call.clone() };
    let answer = |status| {
        let text = String::from_utf8(got.bytes.clone()).unwrap();
        let via: Vec<&str> = text.split("\r\n").filter(|line| line.starts_with("Via: ")).collect();
        let Request { from, to, call_id, cseq, .. } = &bare;
        let head = format!("SIP/2.0 {status} X\r\n{}\r\n", via.join("\r\n"));
        let rest = format!("From: {from}\r\nTo: {to};tag=b\r\nCall-ID: {call_id}\r\nCSeq: {cseq} INVITE\r\n");
        format!("{head}{rest}Content-Length: 0\r\n\r\n").into_bytes()
    };
    world.tcp(5, BOB, &answer(180));
    let cancel = forwarded(world.udp(ALICE, &bare.cancel()));
    assert_eq!((cancel.method().as_str(), cancel.uri()), ("CANCEL", got.uri()));
    let ack = only(requests(world.tcp(5, BOB, &answer(487))));
    assert_eq!((ack.method().as_str(), ack.uri()), ("ACK", got.uri()));
    None
}

#[test]
fn an_invite_with_many_header_fields_is_cancelled_and_acknowledged() {
    // Via, From, To, Call-ID, CSeq and Contact are present; Max-Forwards and Content-Length are added.
    for count in 100..=Limits::HEADERS_CEILING {
        let mut call = invite("sip:bob@example.org");
        call.max_forwards = None;
        call.lines.extend((6..count).map(|number| format!("X-{number}: y")));
        assert_eq!(outcome(&call, 0), None, "{count} header fields");
    }
    let mut call = invite("sip:bob@example.org");
    call.max_forwards = None;
    call.lines.extend((6..=Limits::HEADERS_CEILING).map(|number| format!("X-{number}: y")));
    assert_eq!(outcome(&call, 0), Some(400), "one more than the limit");
}

#[test]
fn a_large_invite_is_cancelled_and_acknowledged_or_refused() {
    let call = invite("sip:bob@example.org");
    let head = call.wire().len() + 4;
    let most = Limits::MESSAGE_BYTES_CEILING - Limits::BYTES_ADDED_MAX;
    for (bytes, expected) in
        [(most - 100, None), (most, None), (most + 1, Some(513)), (Limits::MESSAGE_BYTES_CEILING, Some(513))]
    {
        assert_eq!(outcome(&call, bytes - head), expected, "{bytes} bytes");
    }
}
