//! Writing: what comes out is a message that reads back, and no value becomes a line of its own.

use super::*;
use crate::{CSeq, Limits, Message, NameAddr, Start};
use alloc::format;
use alloc::string::String;

const REQUEST: &str = "INVITE sip:bob@example.com SIP/2.0
Via: SIP/2.0/UDP host.example.com:5062;branch=z9hG4bKa;rport,
 SIP/2.0/TCP [::1];branch=z9hG4bKb
Via: SIP/2.0/UDP third.example.com
From: \"Alice\" <sip:alice@example.com>;tag=1
To: <sip:bob@example.com>
Call-ID: one@host.example.com
CSeq: 7 INVITE
Timestamp: 54.3 0.1
Record-Route: <sip:p1;lr>
Record-Route: <sip:p2;lr>, <sip:p3;lr>
X-Own: not copied
Content-Length: 0

";

/// Texts that must not get into a line.
const BREAKS: [&str; 6] =
    ["a\r\nInjected: 1", "a\nInjected: 1", "a\rInjected: 1", "a\0b", "a\r\n Folded: 1", "\r\n\r\nbody"];

fn request(text: &str) -> Vec<u8> {
    text.replace('\n', "\r\n").into_bytes()
}

#[track_caller]
fn read(bytes: &[u8]) -> Message<'_> {
    Message::parse(bytes, &Limits::default())
        .unwrap_or_else(|rejected| panic!("rejected: {}", rejected.reason))
}

fn source() -> SocketAddr {
    "192.0.2.7:40000".parse().unwrap()
}

/// A response to `REQUEST`, or to `REQUEST` with `old` replaced.
fn respond(old: &str, new: &str, to_tag: Option<&[u8]>) -> String {
    let bytes = request(&REQUEST.replacen(old, new, 1));
    let mut out = Vec::new();
    let message = read(&bytes);
    assert_eq!(
        MessageWriter::response(&mut out, &message, 180, "Ringing", Some(source()), to_tag).finish(),
        Ok(())
    );
    assert_eq!(read(&out).start(), &Start::Response { status: 180, reason: b"Ringing" });
    String::from_utf8(out).unwrap()
}

#[test]
fn a_response_copies_what_it_must() {
    let text = respond("", "", Some(b"9"));
    assert_eq!(
        text.replace("\r\n", "\n"),
        "SIP/2.0 180 Ringing
Via: SIP/2.0/UDP host.example.com:5062;branch=z9hG4bKa;rport=40000;received=192.0.2.7,
 SIP/2.0/TCP [::1];branch=z9hG4bKb
Via: SIP/2.0/UDP third.example.com
From: \"Alice\" <sip:alice@example.com>;tag=1
To: <sip:bob@example.com>;tag=9
Call-ID: one@host.example.com
CSeq: 7 INVITE
Timestamp: 54.3 0.1
Content-Length: 0

"
    );
    let message = read(text.as_bytes());
    assert_eq!(message.values(HeaderName::Via).count(), 3);
    assert_eq!(message.cseq(), CSeq { number: 7, method: Method::Invite });
}

#[test]
fn the_to_tag_is_added_once() {
    let to = "To: <sip:bob@example.com>";
    for (old, expected) in [
        ("To: <sip:bob@example.com>", "To: <sip:bob@example.com>;tag=9"),
        ("To: <sip:bob@example.com>;tag=8", "To: <sip:bob@example.com>;tag=8"),
        ("To: <sip:bob@example.com>;TAG=8", "To: <sip:bob@example.com>;TAG=8"),
        (
            "T: \"tag=x\" <sip:bob@example.com;tag=8>;a=b",
            "To: \"tag=x\" <sip:bob@example.com;tag=8>;a=b;tag=9",
        ),
        ("To: sip:bob@example.com;a", "To: sip:bob@example.com;a;tag=9"),
    ] {
        let text = respond(to, old, Some(b"9"));
        assert!(text.contains(&format!("\r\n{expected}\r\n")), "{text}");
    }
    assert!(respond(to, to, None).contains("\r\nTo: <sip:bob@example.com>\r\n"));
}

#[test]
fn the_top_via_says_where_it_came_from() {
    let via =
        "Via: SIP/2.0/UDP host.example.com:5062;branch=z9hG4bKa;rport,\n SIP/2.0/TCP [::1];branch=z9hG4bKb";
    for (value, expected) in [
        // RFC 3581 §4: with rport always both.
        ("192.0.2.7:40000;rport;branch=z", "192.0.2.7:40000;rport=40000;branch=z;received=192.0.2.7"),
        ("192.0.2.7;RPORT", "192.0.2.7;RPORT=40000;received=192.0.2.7"),
        // RFC 3261 §18.2.1: received only where sent-by says something else.
        ("192.0.2.7:5070;branch=z", "192.0.2.7:5070;branch=z"),
        ("192.0.2.7", "192.0.2.7"),
        ("192.0.2.8;branch=z", "192.0.2.8;branch=z;received=192.0.2.7"),
        ("host.example.com", "host.example.com;received=192.0.2.7"),
        ("[::ffff:192.0.2.7];branch=z", "[::ffff:192.0.2.7];branch=z;received=192.0.2.7"),
        // What the sender claims about itself is replaced.
        ("192.0.2.8;received=10.0.0.1;branch=z", "192.0.2.8;branch=z;received=192.0.2.7"),
        ("192.0.2.7;received=10.0.0.1", "192.0.2.7;received=192.0.2.7"),
        ("192.0.2.7;rport=1;branch=z", "192.0.2.7;branch=z;received=192.0.2.7"),
        ("host;Received=a;rport=1;RECEIVED=b;rport", "host;received=192.0.2.7"),
        ("host ; a = \"x;received=1\" ; ttl = 4", "host ; a = \"x;received=1\" ; ttl = 4;received=192.0.2.7"),
    ] {
        let text = respond(via, &format!("v: SIP/2.0/UDP {value}"), None);
        assert!(text.contains(&format!("\r\nVia: SIP/2.0/UDP {expected}\r\n")), "{value}: {text}");
    }
}

#[test]
fn copies_keep_their_lines() {
    let bytes = request(REQUEST);
    let message = read(&bytes);
    let mut out = Vec::new();
    let mut response = MessageWriter::response(&mut out, &message, 200, "OK", None, Some(b"9"));
    response.copy(&message, HeaderName::RecordRoute).copy(&message, HeaderName::Route);
    response.header(HeaderName::Contact, b"<sip:bob@192.0.2.1>").header_number(HeaderName::Expires, u64::MAX);
    response.header_with(HeaderName::Allow, |out| out.extend_from_slice(b"INVITE"));
    assert_eq!(response.finish_with_body("application/sdp", b"v=0\r\n\r\n"), Ok(()));
    let answer = read(&out);
    let routes: Vec<_> = answer.lines_of(HeaderName::RecordRoute).collect();
    assert_eq!(routes, [&b"<sip:p1;lr>"[..], b"<sip:p2;lr>, <sip:p3;lr>"]);
    assert_eq!(answer.first(HeaderName::Expires), Some(&b"18446744073709551615"[..]));
    assert_eq!(answer.first(HeaderName::Allow), Some(&b"INVITE"[..]));
    assert_eq!(answer.first(HeaderName::ContentType), Some(&b"application/sdp"[..]));
    assert_eq!(answer.body(), b"v=0\r\n\r\n");
    assert!(!answer.has(HeaderName::Route));
}

#[test]
fn a_rejected_message_can_be_answered() {
    let bytes =
        request("INVITE sip:bob@example.com SIP/2.0\nVia: SIP/2.0/UDP h;branch=z9hG4bKa\nTo: \"x\n\n");
    let rejected = Message::parse(&bytes, &Limits::default()).unwrap_err();
    let mut out = Vec::new();
    let writer = MessageWriter::response(&mut out, &rejected.fields, 400, "Bad", Some(source()), None);
    assert_eq!(writer.finish(), Ok(()));
    assert_eq!(
        out,
        b"SIP/2.0 400 Bad\r\nVia: SIP/2.0/UDP h;branch=z9hG4bKa;received=192.0.2.7\r\nTo: \"x\r\nContent-Length: 0\r\n\r\n"
    );
}

#[test]
fn a_request_reads_back() {
    let mut out = b"before".to_vec();
    let mut writer = MessageWriter::request(&mut out, Method::Other(b"PING"), b"sip:bob@[::1]:5070;lr");
    writer.header(HeaderName::Via, b"SIP/2.0/UDP a;branch=z9hG4bKb").header(HeaderName::CallId, b"x");
    writer.header(HeaderName::From, b"<sip:a@b>;tag=1").header(HeaderName::To, b"<sip:c@d>");
    writer.header_with(HeaderName::CSeq, |out| {
        write_number(out, 4_294_967_295);
        out.extend_from_slice(b" PING");
    });
    writer.header_number(HeaderName::MaxForwards, 0).header_named("X-Own", b"value");
    assert_eq!(writer.finish_with_body("text/plain", b"\0\r\n"), Ok(()));
    assert!(out.starts_with(b"before"));
    let message = read(&out[6..]);
    assert_eq!(message.method(), Method::Other(b"PING"));
    assert_eq!((message.cseq().number, message.max_forwards()), (u32::MAX, Some(0)));
    assert_eq!(message.named(b"x-own"), Some(&b"value"[..]));
    assert_eq!(message.body(), b"\0\r\n");
    assert_eq!(NameAddr::parse(message.first(HeaderName::To).unwrap()).unwrap().uri.as_bytes(), b"sip:c@d");
}

/// Runs `set` on a writer for each text that would break out; nothing may be written.
#[track_caller]
fn responses_refuse(set: impl Fn(&mut MessageWriter<'_>, &str)) {
    let bytes = request(REQUEST);
    for text in BREAKS {
        let mut out = b"kept".to_vec();
        let mut writer = MessageWriter::response(&mut out, &read(&bytes), 200, "OK", None, None);
        set(&mut writer, text);
        assert_eq!(writer.finish(), Err(UnsafeText), "{text:?}");
        assert_eq!(out, b"kept");
    }
}

#[track_caller]
fn requests_refuse(set: impl Fn(&mut MessageWriter<'_>, &str)) {
    for text in BREAKS {
        let mut out = b"kept".to_vec();
        let mut writer = MessageWriter::request(&mut out, Method::Options, b"sip:a");
        set(&mut writer, text);
        assert_eq!(writer.finish(), Err(UnsafeText), "{text:?}");
        assert_eq!(out, b"kept");
    }
}

#[test]
fn no_setter_of_a_response_can_be_broken_out_of() {
    responses_refuse(|writer, text| {
        writer.header(HeaderName::Server, text.as_bytes());
    });
    responses_refuse(|writer, text| {
        writer.header_with(HeaderName::Server, |out| out.extend_from_slice(text.as_bytes()));
    });
    let bytes = request(REQUEST);
    for text in BREAKS {
        let mut out = Vec::new();
        let writer = MessageWriter::response(&mut out, &read(&bytes), 200, text, None, None);
        assert_eq!(writer.finish(), Err(UnsafeText), "phrase {text:?}");
        let writer = MessageWriter::response(&mut out, &read(&bytes), 200, "OK", None, Some(text.as_bytes()));
        assert_eq!(writer.finish(), Err(UnsafeText), "tag {text:?}");
        let writer = MessageWriter::response(&mut out, &read(&bytes), 200, "OK", None, None);
        assert_eq!(writer.finish_with_body(text, b"x"), Err(UnsafeText), "content type {text:?}");
        assert!(out.is_empty());
    }
}

#[test]
fn no_setter_of_a_request_can_be_broken_out_of() {
    requests_refuse(|writer, text| {
        writer.header(HeaderName::Server, text.as_bytes());
    });
    requests_refuse(|writer, text| {
        writer.header_with(HeaderName::Server, |out| out.extend_from_slice(text.as_bytes()));
    });
    requests_refuse(|writer, text| {
        writer.header_named("X", text.as_bytes());
    });
    requests_refuse(|writer, text| {
        writer.header_named(text, b"x");
    });
    let mut out = Vec::new();
    for text in BREAKS.into_iter().chain(["", "a b", " a", "a\t", "a\x7f"]) {
        let writer = MessageWriter::request(&mut out, Method::Options, text.as_bytes());
        assert_eq!(writer.finish(), Err(UnsafeText), "uri {text:?}");
        let writer = MessageWriter::request(&mut out, Method::Other(text.as_bytes()), b"sip:a");
        assert_eq!(writer.finish(), Err(UnsafeText), "method {text:?}");
        let mut writer = MessageWriter::request(&mut out, Method::Options, b"sip:a");
        writer.header_named(text, b"x");
        assert_eq!(writer.finish(), Err(UnsafeText), "name {text:?}");
        assert!(out.is_empty());
    }
}

#[test]
fn a_name_without_spelling_is_refused() {
    let bytes = request(REQUEST);
    type Set = fn(&mut MessageWriter<'_>, &Fields<'_>);
    let all: [(&str, Set); 4] = [
        ("header", |writer, _| _ = writer.header(HeaderName::Other, b"x")),
        ("header_number", |writer, _| _ = writer.header_number(HeaderName::Other, 1)),
        ("header_with", |writer, _| _ = writer.header_with(HeaderName::Other, |_| ())),
        ("copy", |writer, fields| _ = writer.copy(fields, HeaderName::Other)),
    ];
    for (what, set) in all {
        let mut out = Vec::new();
        let message = read(&bytes);
        let mut writer = MessageWriter::response(&mut out, &message, 200, "OK", None, None);
        set(&mut writer, &message);
        assert_eq!(writer.finish(), Err(UnsafeText), "{what}");
        assert!(out.is_empty());
    }
}

#[test]
fn numbers_are_decimal() {
    for number in [0, 1, 9, 10, 99, 100, 65_535, u64::from(u32::MAX), u64::MAX] {
        let mut out = Vec::new();
        write_number(&mut out, number);
        assert_eq!(out, format!("{number}").into_bytes());
    }
}

#[test]
fn addresses_are_as_sip_writes_them() {
    for address in ["192.0.2.255", "0.0.0.0", "2001:db8::1", "::"] {
        let mut out = Vec::new();
        write_ip(&mut out, address.parse().unwrap());
        assert_eq!(out, address.as_bytes());
    }
}

#[test]
fn hosts_have_their_port_and_ipv6_its_brackets() {
    for address in ["192.0.2.255:5060", "0.0.0.0:0", "[2001:db8::1]:65535", "[::]:5060"] {
        let mut out = b"<sip:".to_vec();
        write_host(&mut out, address.parse().unwrap());
        assert_eq!(out, format!("<sip:{address}").into_bytes());
    }
}

#[test]
fn an_ipv4_address_is_written_as_everybody_writes_it() {
    for octet in 0..=u8::MAX {
        let address = core::net::Ipv4Addr::new(octet, 255, octet, 255 - octet);
        let mut out = Vec::new();
        write_ip(&mut out, address.into());
        assert_eq!(out, alloc::format!("{address}").as_bytes());
    }
}
