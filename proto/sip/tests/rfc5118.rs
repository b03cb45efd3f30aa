//! The torture messages of RFC 5118: IPv6 addresses where SIP lets them stand.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use ringway_sip::{Contact, HeaderName, Limits, Message, Method, Reason, Start, Uri, Via};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

fn with_crlf(text: &str) -> Vec<u8> {
    text.replace('\n', "\r\n").into_bytes()
}

/// A message of RFC 5118 §4 with its own lines between those that most of them share.
fn message(start: &str, via: &str, rest: &str) -> Vec<u8> {
    let method = start.split(' ').next().unwrap();
    with_crlf(&format!(
        "{start} SIP/2.0\nTo: sip:user@example.com\nFrom: sip:user@example.com;tag=81x2\nVia: {via}\n\
         Call-ID: SSG9559905523997077@hlau_4100\nMax-Forwards: 70\nCSeq: 98176 {method}\n{rest}Content-Length: 0\n\n"
    ))
}

const VIA: &str = "SIP/2.0/UDP [2001:db8::9:1];branch=z9hG4bKas3-111";
const CONTACT: &str = "Contact: \"Caller\" <sip:caller@[2001:db8::1]>\n";

#[track_caller]
fn accepted(bytes: &[u8]) -> Message<'_> {
    Message::parse(bytes, &Limits::default())
        .unwrap_or_else(|rejected| panic!("rejected: {}", rejected.reason))
}

fn request_uri<'a>(message: &Message<'a>) -> Uri<'a> {
    match message.start() {
        Start::Request { uri, .. } => *uri,
        Start::Response { status, .. } => panic!("a response: {status}"),
    }
}

fn ip(text: &str) -> Option<IpAddr> {
    Some(text.parse().unwrap())
}

#[test]
fn ipv6_good() {
    let bytes = message("REGISTER sip:[2001:db8::10]", VIA, CONTACT);
    let message = accepted(&bytes);
    assert_eq!(request_uri(&message).host().ip(), ip("2001:db8::10"));
    assert_eq!(request_uri(&message).user(), None);
    assert_eq!(message.via().host.ip(), ip("2001:db8::9:1"));
    assert_eq!(message.via().port, None);
    let contact = Contact::parse(message.first(HeaderName::Contact).unwrap()).unwrap();
    assert_eq!(contact.address.uri.host().ip(), ip("2001:db8::1"));
}

#[test]
fn ipv6_bad() {
    let bytes = message("REGISTER sip:2001:db8::10", VIA, CONTACT);
    let rejected = Message::parse(&bytes, &Limits::default()).unwrap_err();
    assert_eq!((rejected.reason, rejected.reason.status()), (Reason::RequestUri, 400));
}

#[test]
fn port_ambiguous() {
    let bytes = message("REGISTER sip:[2001:db8::10:5070]", VIA, CONTACT);
    let uri = request_uri(&accepted(&bytes));
    assert_eq!((uri.host().ip(), uri.port()), (ip("2001:db8::10:5070"), None));
}

#[test]
fn port_unambiguous() {
    let bytes = message("REGISTER sip:[2001:db8::10]:5070", VIA, CONTACT);
    let uri = request_uri(&accepted(&bytes));
    assert_eq!((uri.host().ip(), uri.port()), (ip("2001:db8::10"), Some(5070)));
}

#[test]
fn via_received_param_with_delim() {
    let via = "SIP/2.0/UDP [2001:db8::9:1];received=[2001:db8::9:255];branch=z9hG4bKas3-111";
    let bytes = message("BYE sip:[2001:db8::10]", via, "");
    let message = accepted(&bytes);
    assert_eq!(message.via().received(), Some(&b"[2001:db8::9:255]"[..]));
    assert_eq!(message.via().branch, Some(&b"z9hG4bKas3-111"[..]));
}

#[test]
fn via_received_param_no_delim() {
    let via = "SIP/2.0/UDP [2001:db8::9:1];received=2001:db8::9:255;branch=z9hG4bKas3";
    let bytes = message("OPTIONS sip:[2001:db8::10]", via, CONTACT);
    let message = accepted(&bytes);
    assert_eq!(message.via().received(), Some(&b"2001:db8::9:255"[..]));
    assert_eq!(message.via().branch, Some(&b"z9hG4bKas3"[..]));
}

/// RFC 5118 §4.5: when sending, no brackets in `received`.
#[test]
fn received_is_written_without_brackets() {
    let via = "SIP/2.0/UDP [2001:db8::9:1];rport;branch=z9hG4bKas3-111";
    let bytes = message("OPTIONS sip:[2001:db8::10]", via, "");
    let message = accepted(&bytes);
    let mut space = ringway_sip::EditSpace::default();
    let mut edit = ringway_sip::Edit::new(&message, &mut space);
    edit.stamp_via(SocketAddr::new(ip("2001:db8::9:255").unwrap(), 5070));
    assert_eq!(
        edit.first(HeaderName::Via),
        Some(&b"SIP/2.0/UDP [2001:db8::9:1];rport=5070;branch=z9hG4bKas3-111;received=2001:db8::9:255"[..])
    );
}

#[test]
fn ipv6_in_sdp() {
    let bytes = with_crlf(
        "INVITE sip:user@[2001:db8::10] SIP/2.0\nTo: sip:user@[2001:db8::10]\nFrom: sip:user@example.com;tag=81x2\n\
         Via: SIP/2.0/UDP [2001:db8::20];branch=z9hG4bKas3-111\nCall-ID: SSG9559905523997077@hlau_4100\n\
         Contact: \"Caller\" <sip:caller@[2001:db8::20]>\nCSeq: 8612 INVITE\nMax-Forwards: 70\n\
         Content-Type: application/sdp\nContent-Length: 20\n\nc=IN IP6 2001:db8::20",
    );
    let message = accepted(&bytes[..bytes.len() - 1]);
    assert_eq!(message.to().uri.host().ip(), ip("2001:db8::10"));
    assert_eq!(message.body(), b"c=IN IP6 2001:db8::2");
}

#[test]
fn mult_ip_in_header() {
    let bytes = with_crlf(
        "BYE sip:user@host.example.net SIP/2.0\nVia: SIP/2.0/UDP [2001:db8::9:1]:6050;branch=z9hG4bKas3-111\n\
         Via: SIP/2.0/UDP 192.0.2.1;branch=z9hG4bKjhja8781hjuaij65144\n\
         Via: SIP/2.0/TCP [2001:db8::9:255];branch=z9hG4bK451jj;received=192.0.2.200\n\
         Call-ID: 997077@lau_4100\nMax-Forwards: 70\nCSeq: 89187 BYE\nTo: sip:user@example.net;tag=9817--94\n\
         From: sip:user@example.com;tag=81x2\nContent-Length: 0\n\n",
    );
    let message = accepted(&bytes);
    assert_eq!(message.method(), Method::Bye);
    let vias: Vec<_> = message.values(HeaderName::Via).map(|value| Via::parse(value).unwrap()).collect();
    let read: Vec<_> = vias.iter().map(|via| (via.host.ip(), via.port)).collect();
    assert_eq!(
        read,
        [(ip("2001:db8::9:1"), Some(6050)), (ip("192.0.2.1"), None), (ip("2001:db8::9:255"), None)]
    );
    assert_eq!(vias[2].received(), Some(&b"192.0.2.200"[..]));
    assert_eq!(message.to().tag(), Some(&b"9817--94"[..]));
}

#[test]
fn ipv4_mapped_ipv6() {
    let bytes = with_crlf(
        "INVITE sip:user@example.com SIP/2.0\nTo: sip:user@example.com\nFrom: sip:user@east.example.com;tag=81x2\n\
         Via: SIP/2.0/UDP [::ffff:192.0.2.10]:19823;branch=z9hG4bKbh19\n\
         Via: SIP/2.0/UDP [::ffff:192.0.2.2];branch=z9hG4bKas3-111\nCall-ID: SSG9559905523997077@hlau_4100\n\
         Contact: \"T. desk phone\" <sip:ted@[::ffff:192.0.2.2]>\nCSeq: 612 INVITE\nMax-Forwards: 70\n\
         Content-Length: 0\n\n",
    );
    let message = accepted(&bytes);
    assert_eq!((message.via().host.ip(), message.via().port), (ip("::ffff:192.0.2.10"), Some(19823)));
    let contact = Contact::parse(message.first(HeaderName::Contact).unwrap()).unwrap();
    assert_eq!(contact.address.uri.host().ip(), ip("::ffff:192.0.2.2"));
}

/// RFC 5118 §4.10: the extra colon that RFC 3261's grammar lets stand is tolerated, and means what was meant.
#[test]
fn ipv6_bug_abnf_3_colons() {
    let bytes = message("OPTIONS sip:user@[2001:db8:::192.0.2.1]", VIA, "");
    let uri = request_uri(&accepted(&bytes));
    assert_eq!(uri.host().ip(), ip("2001:db8::192.0.2.1"));
    assert!(uri.equals(&Uri::parse(b"sip:user@[2001:db8::192.0.2.1]").unwrap()));
}

#[test]
fn ipv6_correct_abnf_2_colons() {
    let bytes = message("OPTIONS sip:user@[2001:db8::192.0.2.1]", VIA, "");
    assert_eq!(request_uri(&accepted(&bytes)).host().ip(), ip("2001:db8::192.0.2.1"));
}

#[test]
fn what_is_no_ipv6_reference() {
    for host in [
        "[]",
        "[:]",
        "[:::]",
        "[1::2::3]",
        "[2001:db8:::1]",
        "[2001:db8::::192.0.2.1]",
        "[1:::2:::192.0.2.1]",
        "[::1%25eth0]",
        "[::1",
        "::1",
        "[::1]]",
        "[[::1]]",
        "[12345::]",
        "[1:2:3:4:5:6:7]",
        "[1:2:3:4:5:6:7:8:9]",
        "[::192.0.2.256]",
        "[192.0.2.1]",
    ] {
        let uri = format!("sip:user@{host}");
        assert!(Uri::parse(uri.as_bytes()).is_err(), "{uri}");
        let via = format!("SIP/2.0/UDP {host};branch=z9hG4bKx");
        assert!(Via::parse(via.as_bytes()).is_err(), "{via}");
    }
    assert_eq!(Uri::parse(b"sip:[::]").unwrap().host().ip(), Some(Ipv6Addr::UNSPECIFIED.into()));
}
