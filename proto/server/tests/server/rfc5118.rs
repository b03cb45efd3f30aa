//! Tests with the messages of RFC 5118: IPv6 addresses where SIP and SDP let them stand. Valid ones are processed, and
//! forwarded unchanged; the one that is not is refused.
//!
//! The Content-Lengths of the RFC's three messages with a body are not those of their bodies. Each is tested as it is and
//! with the right length.

use crate::harness::{BOB, Sent, World, forwarded, only};
use crate::torture_valid::is_the_same;
use ringway_sansio::{Flow, ListenerId, Transport};
use ringway_server::Listener;

/// Message of `testdata/rfc5118` by the RFC's name for it.
macro_rules! message {
    ($file:literal) => {
        &include_bytes!(concat!("../../../../testdata/rfc5118/", $file, ".dat"))[..]
    };
}

/// Sender of most messages, by their Via.
const SENDER: &str = "[2001:db8::9:1]:5060";

/// Server for `example.com` at this address, without passwords.
fn world(address: &str) -> World {
    World::with(|config| {
        config.domains = vec!["example.com".into()];
        let address = address.parse().unwrap();
        config.listeners[2] = Listener { transport: Transport::Udp, bound: address, advertised: address };
    })
}

/// Receives a message on the listener for IPv6.
fn receive(world: &mut World, from: &str, message: &[u8]) -> Vec<Sent> {
    world.message(Flow::udp(ListenerId(2), from.parse().unwrap()), message)
}

fn text(message: &[u8]) -> &str {
    core::str::from_utf8(message).unwrap()
}

/// The message with the length of its body.
fn with_right_length(message: &[u8]) -> Vec<u8> {
    let (head, body) = text(message).split_once("\r\n\r\n").unwrap();
    let lines = head.split("\r\n").filter(|line| !line.starts_with("Content-Length:"));
    let head: Vec<&str> = lines.collect();
    format!("{}\r\nContent-Length: {}\r\n\r\n{body}", head.join("\r\n"), body.len()).into()
}

/// Forwards a request for `user@example.com` to bob, unchanged, and its 200 back to the sender.
#[track_caller]
fn is_forwarded(world: &mut World, from: &str, message: &[u8]) -> Sent {
    world.server.set_permanent_contacts(b"user@example.com", &[b"sip:bob@192.0.2.20"]);
    let request = forwarded(receive(world, from, message));
    assert_eq!(request.to(), BOB);
    is_the_same(message, &request);
    let answer = only(world.udp(BOB, &request.answer(200, &[])));
    assert_eq!((answer.status(), answer.to().as_str()), (200, from));
    world.still_answers();
    request
}

#[test]
fn ipv6_good() {
    let mut world = world("[2001:db8::10]:5060");
    let answer = only(receive(&mut world, SENDER, message!("ipv6-good")));
    assert_eq!((answer.status(), answer.to().as_str()), (200, SENDER));
    let contact = answer.header("Contact");
    assert!(contact.starts_with("<sip:caller@[2001:db8::1]>"), "{contact}");
    assert!(answer.header("Via").starts_with("SIP/2.0/UDP [2001:db8::9:1];"));
    let call = text(message!("mult-ip-in-sdp")).replace("user@[2001:db8::10]", "user@example.com");
    let request = forwarded(receive(&mut world, SENDER, &with_right_length(call.as_bytes())));
    assert_eq!(request.uri(), "sip:caller@[2001:db8::1]", "its callers find it");
    world.still_answers();
}

#[test]
fn ipv6_bad() {
    let mut world = world("[2001:db8::10]:5060");
    let answer = only(receive(&mut world, SENDER, message!("ipv6-bad")));
    assert_eq!((answer.status(), answer.to().as_str()), (400, SENDER));
    assert_eq!(world.server.location().bindings_len(), 0);
    world.still_answers();
}

/// The port that was meant is the end of the address: the request is for another host.
#[test]
fn port_ambiguous() {
    let mut world = world("[2001:db8::10]:5060");
    let sent = forwarded(receive(&mut world, SENDER, message!("port-ambiguous")));
    assert_eq!(sent.to(), "[2001:db8::10:5070]:5060");
    assert_eq!(world.server.location().bindings_len(), 0);
    world.still_answers();
}

#[test]
fn port_unambiguous() {
    let mut world = world("[2001:db8::10]:5070");
    let answer = only(receive(&mut world, SENDER, message!("port-unambiguous")));
    assert_eq!((answer.status(), world.server.location().bindings_len()), (200, 1));
    world.still_answers();
}

/// A `received` with brackets is parsed, and replaced by the real source without brackets (RFC 5118 §4.5).
#[test]
fn via_received_param_with_delim() {
    let mut world = world("[2001:db8::10]:5060");
    let answer =
        only(receive(&mut world, "[2001:db8::9:255]:5060", message!("via-received-param-with-delim")));
    assert_eq!((answer.status(), answer.to().as_str()), (404, "[2001:db8::9:255]:5060"));
    let via = answer.header("Via");
    assert!(via.contains("received=2001:db8::9:255") && !via.contains("received=["), "{via}");
    assert!(via.contains("branch=z9hG4bKas3-111"), "{via}");
    world.still_answers();
}

#[test]
fn via_received_param_no_delim() {
    let mut world = world("[2001:db8::10]:5060");
    let answer = only(receive(&mut world, "[2001:db8::9:255]:5060", message!("via-received-param-no-delim")));
    assert_eq!((answer.status(), answer.to().as_str()), (200, "[2001:db8::9:255]:5060"));
    let via = answer.header("Via");
    assert!(via.contains("received=2001:db8::9:255") && via.contains("branch=z9hG4bKas3"), "{via}");
    world.still_answers();
}

#[test]
fn ipv6_in_sdp() {
    let mut world = world("[2001:db8::10]:5060");
    let answer = only(receive(&mut world, "[2001:db8::20]:5060", message!("ipv6-in-sdp")));
    assert_eq!(answer.status(), 400, "the datagram ends before its declared length (RFC 3261 §18.3)");
    let message = with_right_length(message!("ipv6-in-sdp"));
    let request = is_forwarded(&mut world, "[2001:db8::20]:5060", &message);
    assert!(request.text().contains("\r\nc=IN IP6 2001:db8::20\r\n"));
}

/// A response goes back over the Vias of both versions of IP.
#[test]
fn mult_ip_in_header() {
    let mut world = world("[2001:db8::10]:5060");
    assert!(receive(&mut world, "[2001:db8::9:1]:6050", message!("mult-ip-in-header")).is_empty());
    let request = only(world.resolve("host.example.net", Some("192.0.2.77")));
    assert_eq!(request.to(), "192.0.2.77:5060");
    is_the_same(message!("mult-ip-in-header"), &request);
    let answer = only(world.udp("192.0.2.77:5060", &request.answer(200, &[])));
    assert_eq!((answer.status(), answer.to().as_str()), (200, "[2001:db8::9:1]:6050"));
    let vias = answer.headers("Via");
    assert!(vias[0].starts_with("SIP/2.0/UDP [2001:db8::9:1]:6050;"), "{vias:?}");
    assert_eq!(
        vias[1..],
        [
            "SIP/2.0/UDP 192.0.2.1;branch=z9hG4bKjhja8781hjuaij65144",
            "SIP/2.0/TCP [2001:db8::9:255];branch=z9hG4bK451jj;received=192.0.2.200"
        ]
    );
    world.still_answers();
}

#[test]
fn mult_ip_in_sdp() {
    let mut world = world("[2001:db8::10]:5060");
    world.server.set_permanent_contacts(b"user@example.com", &[b"sip:bob@192.0.2.20"]);
    let request = forwarded(receive(&mut world, SENDER, message!("mult-ip-in-sdp")));
    let body = request.text().split_once("\r\n\r\n").unwrap().1.to_owned();
    assert_eq!(body.len(), 181, "bytes behind the declared length are discarded (RFC 3261 §18.3)");
    let message = text(message!("mult-ip-in-sdp")).replace("z9hG4bKas3-111", "z9hG4bKas3-112");
    let message = with_right_length(message.replace("SSG95", "SSG96").as_bytes());
    let request = is_forwarded(&mut world, SENDER, &message);
    for line in ["c=IN IP4 192.0.2.1", "c=IN IP6 2001:db8::1"] {
        assert!(request.text().contains(line));
    }
}

/// The address means the IPv4 address: the response goes there by IPv4.
#[test]
fn ipv4_mapped_ipv6() {
    let mut world = world("[2001:db8::10]:5060");
    let message = with_right_length(message!("ipv4-mapped-ipv6"));
    world.server.set_permanent_contacts(b"user@example.com", &[b"sip:bob@192.0.2.20"]);
    let request = forwarded(world.udp("192.0.2.10:19823", &message));
    assert_eq!(request.to(), BOB);
    is_the_same(&message, &request);
    let mut sent = world.udp(BOB, &request.answer(486, &[]));
    sent.retain(|sent| sent.method() != "ACK");
    let answer = only(sent);
    assert_eq!((answer.status(), answer.to().as_str()), (486, "192.0.2.10:19823"));
    let vias = answer.headers("Via");
    assert!(vias[0].starts_with("SIP/2.0/UDP [::ffff:192.0.2.10]:19823;branch=z9hG4bKbh19"), "{vias:?}");
    assert_eq!(vias[1], "SIP/2.0/UDP [::ffff:192.0.2.2];branch=z9hG4bKas3-111");
    let as_it_is = message!("ipv4-mapped-ipv6");
    let other = text(as_it_is).replace("bKbh19", "bKbh20").replace("CSeq: 612", "CSeq: 613");
    let request = forwarded(world.udp("192.0.2.10:19823", &other.into_bytes()));
    assert_eq!(request.header("Content-Length"), "236");
    world.still_answers();
}

/// The extra colon of RFC 3261's grammar is tolerated: the address is that of this server.
#[test]
fn ipv6_bug_abnf_3_colons() {
    let mut world = world("[2001:db8::192.0.2.1]:5060");
    let request = is_forwarded(&mut world, SENDER, message!("ipv6-bug-abnf-3-colons"));
    assert_eq!(request.header("To"), "sip:user@[2001:db8:::192.0.2.1]", "To is the sender's");
}

#[test]
fn ipv6_correct_abnf_2_colons() {
    let mut world = world("[2001:db8::192.0.2.1]:5060");
    is_forwarded(&mut world, SENDER, message!("ipv6-correct-abnf-2-colons"));
}
