//! The torture messages of RFC 5118: IPv6 addresses where SIP lets them stand.

use ringway_sip::{Contact, HeaderName, Limits, Message, Method, Reason, Start, Uri, Via};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// Message of `testdata/rfc5118` by the RFC's name for it.
macro_rules! message {
    ($file:literal) => {
        &include_bytes!(concat!("../../../../testdata/rfc5118/", $file, ".dat"))[..]
    };
}

/// The message with another Content-Length.
fn with_length(message: &[u8], old: usize, new: usize) -> Vec<u8> {
    let text = core::str::from_utf8(message).unwrap();
    text.replace(&format!("Content-Length: {old}\r"), &format!("Content-Length: {new}\r")).into_bytes()
}

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
    let message = accepted(message!("ipv6-good"));
    assert_eq!(request_uri(&message).host().ip(), ip("2001:db8::10"));
    assert_eq!(request_uri(&message).user(), None);
    assert_eq!(message.via().host.ip(), ip("2001:db8::9:1"));
    assert_eq!(message.via().port, None);
    let contact = Contact::parse(message.first(HeaderName::Contact).unwrap()).unwrap();
    assert_eq!(contact.address.uri.host().ip(), ip("2001:db8::1"));
}

#[test]
fn ipv6_bad() {
    let rejected = Message::parse(message!("ipv6-bad"), &Limits::default()).unwrap_err();
    assert_eq!((rejected.reason, rejected.reason.status()), (Reason::RequestUri, 400));
}

#[test]
fn port_ambiguous() {
    let uri = request_uri(&accepted(message!("port-ambiguous")));
    assert_eq!((uri.host().ip(), uri.port()), (ip("2001:db8::10:5070"), None));
}

#[test]
fn port_unambiguous() {
    let uri = request_uri(&accepted(message!("port-unambiguous")));
    assert_eq!((uri.host().ip(), uri.port()), (ip("2001:db8::10"), Some(5070)));
}

#[test]
fn via_received_param_with_delim() {
    let message = accepted(message!("via-received-param-with-delim"));
    assert_eq!(message.via().received(), Some(&b"[2001:db8::9:255]"[..]));
    assert_eq!(message.via().branch, Some(&b"z9hG4bKas3-111"[..]));
}

#[test]
fn via_received_param_no_delim() {
    let message = accepted(message!("via-received-param-no-delim"));
    assert_eq!(message.via().received(), Some(&b"2001:db8::9:255"[..]));
    assert_eq!(message.via().branch, Some(&b"z9hG4bKas3"[..]));
}

/// RFC 5118 §4.5: when sending, no brackets in `received`.
#[test]
fn received_is_written_without_brackets() {
    let text = core::str::from_utf8(message!("ipv6-correct-abnf-2-colons")).unwrap();
    let bytes = text.replace("lab1.east.example.com;", "[2001:db8::9:1];rport;").into_bytes();
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
    let rejected = Message::parse(message!("ipv6-in-sdp"), &Limits::default()).unwrap_err();
    assert_eq!(rejected.reason, Reason::ContentLength, "the RFC declares more than there is");
    let bytes = with_length(message!("ipv6-in-sdp"), 268, 251);
    let message = accepted(&bytes);
    assert_eq!(message.to().uri.host().ip(), ip("2001:db8::10"));
    assert!(memchr::memmem::find(message.body(), b"\r\nc=IN IP6 2001:db8::20\r\n").is_some());
}

#[test]
fn mult_ip_in_sdp() {
    let bytes = with_length(message!("mult-ip-in-sdp"), 181, 189);
    let message = accepted(&bytes);
    for line in [&b"c=IN IP4 192.0.2.1\r\n"[..], b"c=IN IP6 2001:db8::1\r\n"] {
        assert!(memchr::memmem::find(message.body(), line).is_some());
    }
}

#[test]
fn mult_ip_in_header() {
    let message = accepted(message!("mult-ip-in-header"));
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
    let bytes = with_length(message!("ipv4-mapped-ipv6"), 236, 245);
    let message = accepted(&bytes);
    assert_eq!((message.via().host.ip(), message.via().port), (ip("::ffff:192.0.2.10"), Some(19823)));
    let contact = Contact::parse(message.first(HeaderName::Contact).unwrap()).unwrap();
    assert_eq!(contact.address.uri.host().ip(), ip("::ffff:192.0.2.2"));
}

/// RFC 5118 §4.10: the extra colon that RFC 3261's grammar lets stand is tolerated, and means what was meant.
#[test]
fn ipv6_bug_abnf_3_colons() {
    let uri = request_uri(&accepted(message!("ipv6-bug-abnf-3-colons")));
    assert_eq!(uri.host().ip(), ip("2001:db8::192.0.2.1"));
    assert!(uri.equals(&Uri::parse(b"sip:user@[2001:db8::192.0.2.1]").unwrap()));
}

#[test]
fn ipv6_correct_abnf_2_colons() {
    let message = accepted(message!("ipv6-correct-abnf-2-colons"));
    assert_eq!(request_uri(&message).host().ip(), ip("2001:db8::192.0.2.1"));
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
