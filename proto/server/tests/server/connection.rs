//! Tests of stream connections: a flow is its connection and not its address; connections in use.

use crate::dialog::{from_caller, with_bob};
use crate::harness::{ALICE, BOB, World, forwarded, invite, only, query, register, request, statuses};
use ringway_sansio::{ConnectionId, Event, Instant};
use std::time::Duration;

/// Source address of bob's connection.
const FROM: &str = "192.0.2.20:40000";

#[test]
fn the_address_of_a_connection_that_is_gone_gets_nothing() {
    for contact in [
        "<sip:bob@192.0.2.20:40000;transport=tcp>",
        "<sip:bob@192.0.2.20:40000>",
        "<sip:bob@phone.example.net;transport=tcp>",
        "<sip:bob@10.0.0.5;transport=tcp>",
    ] {
        let mut world = World::open();
        world.register_tcp(5, "bob", FROM, contact);
        let first = forwarded(world.udp(ALICE, &invite("sip:bob@example.org")));
        assert_eq!(first.flow.connection, Some(ConnectionId(5)), "{contact}");
        let answer = only(world.event(Event::Unreachable(first.token)));
        assert_eq!((answer.status(), answer.to().as_str()), (480, ALICE), "{contact}: nothing is dialled");
        assert!(world.event(Event::Unreachable(first.token)).is_empty(), "told twice");

        assert!(world.event(Event::Closed(ConnectionId(5))).is_empty());
        // Another client has the address and the port now.
        assert_eq!(only(world.tcp(6, FROM, &request("OPTIONS", "sip:192.0.2.1").tcp())).status(), 200);
        let again = world.udp(ALICE, &invite("sip:bob@example.org").call_id("again"));
        assert_eq!((only(again).status(), world.lookups.len()), (480, 0), "{contact}");
        assert!(world.bindings("bob").is_empty(), "{contact}");
    }
}

#[test]
fn a_contact_that_names_a_listener_where_it_registered_from_is_dialled_once_its_connection_is_gone() {
    for (contact, to) in [
        ("<sip:bob@192.0.2.20:5062;transport=tcp>", "192.0.2.20:5062"),
        ("<sip:bob@192.0.2.20;transport=tcp>", "192.0.2.20:5060"),
    ] {
        let mut world = World::open();
        world.register_tcp(5, "bob", FROM, contact);
        let first = forwarded(world.udp(ALICE, &invite("sip:bob@example.org")));
        assert_eq!(first.flow.connection, Some(ConnectionId(5)), "{contact}");
        assert_eq!(only(world.event(Event::Unreachable(first.token))).status(), 480, "not this call");
        world.event(Event::Closed(ConnectionId(5)));
        let called = forwarded(world.udp(ALICE, &invite("sip:bob@example.org").call_id("again")));
        assert_eq!((called.flow.connection, called.to().as_str()), (None, to), "{contact}");
    }
}

#[test]
fn a_contact_that_names_another_transport_is_reached_by_that() {
    let mut world = World::open();
    world.register_tcp(5, "bob", FROM, "<sip:bob@192.0.2.20:5062;transport=udp>");
    world.event(Event::Closed(ConnectionId(5)));
    let called = forwarded(world.udp(ALICE, &invite("sip:bob@example.org")));
    assert_eq!((called.flow.connection, called.to().as_str()), (None, "192.0.2.20:5062"));
}

#[test]
fn a_request_in_a_dialog_is_not_sent_to_the_address_of_a_connection_that_is_gone() {
    let mut world = World::open();
    world.register_tcp(5, "bob", FROM, "<sip:bob@192.0.2.20:5060;transport=tcp>");
    let got = forwarded(world.udp(ALICE, &invite("sip:bob@example.org")));
    let answer = only(world.tcp(5, FROM, &got.answer(200, &[])));
    world.event(Event::Closed(ConnectionId(5)));
    let mut bye = from_caller("BYE", 2, &answer);
    bye.uri = "sip:bob@192.0.2.20:5060;transport=tcp".into();
    let sent = forwarded(world.udp(ALICE, &bye));
    assert_eq!(sent.flow.connection, Some(ConnectionId(5)));
    // Bob's binding is looked up: its contact, where he listens, is dialled as for a new call.
    let to_itself = forwarded(world.event(Event::Unreachable(sent.token)));
    assert_eq!(to_itself.to(), "192.0.2.1:5060");
    let sent = forwarded(world.udp("192.0.2.1:5060", &to_itself.bytes));
    assert_eq!((sent.flow.connection, sent.to().as_str()), (None, "192.0.2.20:5060"));
    let refused = only(world.event(Event::Unreachable(sent.token)));
    assert_eq!(refused.status(), 480);
    assert_eq!(only(world.udp("192.0.2.1:5060", &refused.bytes)).status(), 480);
}

#[test]
fn a_datagram_with_tcp_in_its_via_opens_no_connection() {
    let mut world = World::with(|config| config.stateful = false);
    world.register("bob", BOB, "<sip:bob@192.0.2.20>");
    let got = only(world.udp(ALICE, &invite("sip:bob@example.org").tcp()));
    assert!(world.udp(BOB, &got.answer(200, &[])).is_empty());
    assert_eq!(world.server.counters().stray, 1);
}

#[test]
fn a_registration_keeps_its_connection_as_long_as_it_lasts() {
    let mut world = World::open();
    world.tcp(4, FROM, &query("bob").tcp());
    world.tcp(4, FROM, &register("bob", "<sip:bob@192.0.2.20>;expires=10").tcp().call_id("too brief"));
    world.tcp(4, FROM, &request("OPTIONS", "sip:192.0.2.1").tcp());
    assert_eq!(world.kept, [], "the connection is not needed");
    world.register_tcp(5, "bob", FROM, "<sip:bob@192.0.2.20;transport=tcp>;expires=600");
    assert_eq!(world.kept, [(ConnectionId(5), world.now + Duration::from_secs(600))]);
}

#[test]
fn a_call_keeps_the_connection_of_its_caller() {
    let mut world = with_bob(World::open());
    let refused = world.tcp(4, FROM, &invite("sip:nobody@example.org").tcp());
    assert_eq!((statuses(&refused), world.kept.len()), (vec![404], 0));
    let got = forwarded(world.tcp(5, FROM, &invite("sip:bob@example.org").tcp().call_id("2")));
    let ringing = world.now + Duration::from_secs(181);
    assert_eq!(world.kept, [(ConnectionId(5), ringing)]);
    world.udp(BOB, &got.answer(180, &[]));
    world.udp(BOB, &got.answer(200, &[]));
    assert_eq!(world.kept, [(ConnectionId(5), ringing), (ConnectionId(5), Instant::FAR)]);
}

#[test]
fn a_call_without_state_keeps_the_connection_of_its_caller() {
    let mut world = World::with(|config| config.stateful = false);
    world.register("bob", BOB, "<sip:bob@192.0.2.20>");
    let got = only(world.tcp(5, FROM, &invite("sip:bob@example.org").tcp()));
    assert_eq!(world.kept, []);
    world.udp(BOB, &got.answer(200, &[]));
    assert_eq!(world.kept, [(ConnectionId(5), Instant::FAR)]);
}
