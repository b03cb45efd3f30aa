//! Tests of requests that are too long for a datagram (RFC 3261 §18.1.1).

use crate::ends::nothing_is_left;
use crate::harness::{ALICE, BOB, Request, Sent, World, invite, only, request, requests, statuses, tcp_flow};
use ringway_sansio::{Event, Transport};
use ringway_server::Config;
use std::time::Duration;

/// Server with bob's phone at an address.
fn world(change: impl FnOnce(&mut Config)) -> World {
    let mut world = World::with(change);
    world.server.set_permanent_contacts(b"bob@example.org", &[b"sip:bob@192.0.2.20"]);
    world
}

/// Header field of so many bytes.
fn padding(bytes: usize) -> String {
    format!("Subject: {}", "x".repeat(bytes))
}

fn long() -> Request {
    invite("sip:bob@example.org").line(&padding(1100))
}

/// The only request among what was sent.
#[track_caller]
fn the_request(sent: Vec<Sent>) -> Sent {
    only(requests(sent))
}

/// Answers a request over a connection of the next hop.
fn answered_over(world: &mut World, sent: &Sent, status: u16) -> Vec<Sent> {
    let answer = sent.answer(status, &["Contact: <sip:bob@192.0.2.20>"]);
    world.message(tcp_flow(7, BOB), &answer)
}

#[test]
fn a_request_over_1300_bytes_goes_over_tcp_and_its_dialog_does_not() {
    let mut world = world(|_| {});
    let sent = the_request(world.udp(ALICE, &long()));
    assert!(sent.bytes.len() > 1300, "{}", sent.bytes.len());
    assert_eq!((sent.flow.transport, sent.to().as_str()), (Transport::Tcp, BOB));
    assert!(sent.headers("Via")[0].starts_with("SIP/2.0/TCP 192.0.2.1:5060"), "{}", sent.text());
    let routes = sent.headers("Record-Route");
    assert!(routes.iter().all(|route| !route.contains("transport=tcp")), "{routes:?}");
    let answer = only(answered_over(&mut world, &sent, 200));
    assert_eq!((answer.status(), answer.flow.transport), (200, Transport::Udp));
    let ack = Request { uri: "sip:bob@192.0.2.20".into(), ..request("ACK", "sip:bob@192.0.2.20") };
    let route = answer.headers("Record-Route").into_iter().next().unwrap();
    let in_dialog = |request: Request| {
        let to = answer.header("To");
        request.to(&to).line(&format!("Route: {route}"))
    };
    let passed = the_request(world.udp(ALICE, &in_dialog(ack)));
    assert_eq!((passed.flow.transport, passed.to().as_str()), (Transport::Udp, BOB));
    let bye = in_dialog(Request { cseq: 2, ..request("BYE", "sip:bob@192.0.2.20") });
    let passed = the_request(world.udp(ALICE, &bye));
    assert_eq!((passed.flow.transport, passed.method().as_str()), (Transport::Udp, "BYE"));
    assert_eq!(statuses(&world.udp(BOB, &passed.answer(200, &[]))), [200]);
    assert_eq!(world.server.counters().long_over_tcp, 1);
    nothing_is_left(&mut world, "after a long request");
    assert!(world.given_up.is_empty(), "an answered request gives up no connection");
}

#[test]
fn the_length_as_it_is_sent_decides() {
    let mut world = world(|_| {});
    let lengths = (700..1200).map(|bytes| {
        let request = invite("sip:bob@example.org").line(&padding(bytes)).call_id(&bytes.to_string());
        let sent = the_request(world.udp(ALICE, &request));
        (sent.bytes.len(), sent.flow.transport)
    });
    let lengths: Vec<_> = lengths.collect();
    let longest = lengths.iter().filter(|(_, transport)| *transport == Transport::Udp).max();
    let shortest = lengths.iter().filter(|(_, transport)| *transport == Transport::Tcp).min();
    assert_eq!((longest.unwrap().0, shortest.unwrap().0), (1300, 1301));
}

#[test]
fn a_refused_connection_is_followed_by_a_datagram_and_not_tried_for_an_hour() {
    for method in ["INVITE", "MESSAGE", "OPTIONS"] {
        let mut world = world(|_| {});
        let long = |id: &str| request(method, "sip:bob@example.org").line(&padding(1100)).call_id(id);
        let first = the_request(world.udp(ALICE, &long("1")));
        assert_eq!(first.flow.transport, Transport::Tcp, "{method}");
        let second = the_request(world.event(Event::Unreachable(first.token)));
        assert_eq!((second.flow.transport, second.to().as_str()), (Transport::Udp, BOB), "{method}");
        assert!(second.headers("Via")[0].starts_with("SIP/2.0/UDP"), "{}", second.text());
        let branch = |sent: &Sent| sent.headers("Via")[0].split_once("branch=").unwrap().1.to_owned();
        assert_ne!(branch(&first), branch(&second), "another transaction");
        assert_eq!(statuses(&world.udp(BOB, &second.answer(200, &[]))), [200], "{method}");
        let again = the_request(world.udp(ALICE, &long("2")));
        assert_eq!(again.flow.transport, Transport::Udp, "{method}");
        world.pass(Duration::from_secs(3601));
        let later = the_request(world.udp(ALICE, &long("3")));
        assert_eq!(later.flow.transport, Transport::Tcp, "{method}");
        let counted = (world.server.counters().long_over_tcp, world.server.counters().long_in_datagrams);
        assert_eq!(counted, (2, 2), "{method}");
        nothing_is_left(&mut world, method);
    }
}

#[test]
fn a_call_of_a_trunk_that_falls_back_to_a_datagram_is_one_call() {
    let mut world = World::with(|config| {
        crate::routes::carriers(config);
        let lines = ringway_server::TrunkLimits { under_way: Some(1), per_second: Some(1) };
        config.trunking.trunks.edit()[0].call_limits = Some(lines);
    });
    let long = invite("sip:+441234@example.org").line(&padding(1100));
    let first = the_request(world.udp(ALICE, &long));
    assert_eq!(first.flow.transport, Transport::Tcp);
    let second = the_request(world.event(Event::Unreachable(first.token)));
    assert_eq!((second.flow.transport, second.to()), (Transport::Udp, first.to()));
    assert_eq!(world.server.counters().trunk_requests, 1);
    assert_eq!(world.memory.tables().trunk_calls("carrier-a"), (1, 0));
}

#[test]
fn a_connection_that_is_not_established_within_a_second_is_given_up() {
    let mut world = world(|_| {});
    let first = the_request(world.udp(ALICE, &long()));
    assert!(requests(world.pass(Duration::from_millis(999))).is_empty() && world.given_up.is_empty());
    world.pass(Duration::from_millis(1));
    assert_eq!(world.given_up, [(first.flow, first.token)], "the driver keeps one that is established");
    // It was established: the request goes on.
    assert!(requests(world.pass(Duration::from_secs(5))).is_empty());
    assert_eq!(statuses(&answered_over(&mut world, &first, 200)), [200]);
    nothing_is_left(&mut world, "after a slow answer");
}

#[test]
fn a_cancelled_request_is_not_sent_again() {
    let mut world = world(|_| {});
    let first = the_request(world.udp(ALICE, &long()));
    let cancelled = world.udp(ALICE, &long().cancel());
    assert!(statuses(&cancelled).contains(&200));
    let sent = world.event(Event::Unreachable(first.token));
    assert!(requests(sent).is_empty(), "no INVITE that nobody waits for");
    nothing_is_left(&mut world, "after a CANCEL");
}

#[test]
fn long_requests_stay_datagrams_on_a_flow_and_without_tcp() {
    // The phone registered over a flow: only that reaches it.
    let mut world = World::with(|_| {});
    world.register("bob", BOB, "<sip:bob@192.168.1.20:5062>");
    let sent = the_request(world.udp(ALICE, &long()));
    assert_eq!((sent.flow.transport, sent.to().as_str()), (Transport::Udp, BOB));
    let without_listener = |config: &mut Config| {
        config.listeners.retain(|listener| listener.transport == Transport::Udp);
    };
    for change in [without_listener, |config: &mut Config| config.datagram_bytes_max = 65_535] {
        let mut world = self::world(change);
        assert_eq!(the_request(world.udp(ALICE, &long())).flow.transport, Transport::Udp);
    }
}

/// A sender pays for the connections that its requests need, as for others.
#[test]
fn the_connection_is_charged_to_the_sender() {
    let mut world = world(|_| {});
    let sent = the_request(world.udp(ALICE, &long()));
    assert_ne!(sent.dialler, ringway_sansio::Dialler::OWN);
}

/// A peer that establishes a connection and sends nothing costs one call its time, and not each.
#[test]
fn a_next_hop_that_is_silent_over_tcp_gets_the_next_one_in_a_datagram() {
    let mut world = world(|_| {});
    let first = the_request(world.udp(ALICE, &long()));
    assert_eq!(first.flow.transport, Transport::Tcp);
    let sent = world.pass(Duration::from_secs(200));
    assert!(statuses(&sent).contains(&408), "{:?}", statuses(&sent));
    let next = the_request(world.udp(ALICE, &long().call_id("next")));
    assert_eq!(next.flow.transport, Transport::Udp);
}
