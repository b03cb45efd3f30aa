//! Drain: phones leave for another server, spread over a time.

use crate::harness::{
    ALICE, BOB, CAROL, World, forwarded, invite, only, register, request, statuses, tcp_flow,
};
use ringway_sansio::{ConnectionId, Event};
use std::collections::BTreeSet;
use std::time::Duration;

const OVER: Duration = Duration::from_secs(600);
const PHONES: u64 = 400;

fn address(phone: u64) -> String {
    format!("10.0.{}.{}:5060", phone / 200, 1 + phone % 200)
}

fn of(phone: u64, cseq: u32) -> crate::harness::Request {
    register(&format!("user{phone}"), &format!("<sip:user{phone}@10.9.9.9:5060;transport=tcp>")).cseq(cseq)
}

/// Server with phones on connections.
fn with_phones() -> World {
    let mut world = World::open();
    for phone in 0..PHONES {
        assert_eq!(statuses(&world.tcp(phone, &address(phone), &of(phone, 1).tcp())), [200]);
    }
    world
}

#[test]
fn connections_of_phones_are_closed_evenly_over_the_time() {
    let mut world = with_phones();
    world.server.drain(world.now, OVER);
    let mut closed = BTreeSet::new();
    for minute in 1..=10 {
        world.pass(Duration::from_secs(60));
        let flows = std::mem::take(&mut world.disconnected);
        for flow in &flows {
            let connection = flow.connection.unwrap();
            if closed.insert(connection.0) {
                world.event(Event::Closed(connection));
            }
        }
        let expected = PHONES as usize * minute / 10;
        assert!(closed.len().abs_diff(expected) < 50, "{} after {minute} minutes", closed.len());
        assert_eq!(world.server.location().bindings_len(), PHONES as usize - closed.len());
    }
    assert_eq!(closed.len() as u64, PHONES);
    world.pass(OVER);
    assert!(world.disconnected.is_empty());
}

#[test]
fn a_phone_registers_until_its_time_has_come_and_not_from_a_new_connection_after_it() {
    let mut world = with_phones();
    world.server.drain(world.now, OVER);
    world.pass(OVER / 2);
    let closed: BTreeSet<u64> =
        world.disconnected.iter().filter_map(|flow| flow.connection).map(|id| id.0).collect();
    for phone in 0..PHONES {
        let is_closed = closed.contains(&phone);
        let (connection, from) = if is_closed { (1000 + phone, CAROL) } else { (phone, &*address(phone)) };
        let answer = only(world.tcp(connection, from, &of(phone, 2).tcp()));
        assert_eq!(answer.status(), if is_closed { 503 } else { 200 }, "{phone}");
        if is_closed {
            let after: u64 = answer.header("Retry-After").parse().unwrap();
            assert!((1..=5).contains(&after));
        }
    }
    assert!(!closed.is_empty() && (closed.len() as u64) < PHONES);
    assert_eq!(world.server.counters().drained_registers, closed.len() as u64);
    world.server.end_drain();
    world.disconnected.clear();
    for phone in 0..PHONES {
        assert_eq!(statuses(&world.tcp(phone, &address(phone), &of(phone, 3).tcp())), [200]);
    }
    world.pass(OVER);
    assert!(world.disconnected.is_empty());
}

#[test]
fn the_time_of_a_user_does_not_say_who_is_registered() {
    let (mut with, mut without) = (with_phones(), World::open());
    for world in [&mut with, &mut without] {
        world.server.drain(world.now, OVER);
        world.pass(OVER / 2);
    }
    for phone in 0..PHONES {
        let register = of(phone, 2);
        assert_eq!(
            statuses(&with.udp(ALICE, &register)),
            statuses(&without.udp(ALICE, &register)),
            "{phone}"
        );
    }
}

#[test]
fn calls_go_on_and_new_requests_are_refused() {
    let mut world = World::open();
    world.register_tcp(5, "bob", BOB, "<sip:bob@10.0.0.5;transport=tcp>");
    let got =
        forwarded(world.udp(ALICE, &invite("sip:bob@example.org").line("Contact: <sip:alice@192.0.2.10>")));
    let pending = invite("sip:bob@example.org").call_id("pending").cseq(7);
    let waiting = forwarded(world.udp(ALICE, &pending));
    world.server.drain(world.now, Duration::ZERO);
    world.pass(Duration::from_millis(1));
    assert_eq!(world.disconnected, [tcp_flow(5, BOB)]);
    let answer = only(world.tcp(5, BOB, &got.answer(200, &["Contact: <sip:bob@10.0.0.5>"])));
    assert_eq!(answer.status(), 200);
    let lines = answer.headers("Record-Route").iter().rev().map(|route| format!("Route: {route}")).collect();
    let bye = request("BYE", "sip:bob@10.0.0.5").cseq(2).to(&answer.header("To"));
    assert_eq!(forwarded(world.udp(ALICE, &crate::harness::Request { lines, ..bye })).method(), "BYE");
    let cancelled = world.udp(ALICE, &pending.cancel());
    assert!(cancelled.iter().any(|sent| sent.start().starts_with("SIP/2.0 200 ")), "{waiting:?}");
    for method in ["INVITE", "MESSAGE", "OPTIONS", "SUBSCRIBE"] {
        let refused = only(world.udp(CAROL, &request(method, "sip:bob@example.org").call_id(method)));
        assert_eq!((refused.status(), refused.header("Retry-After").as_str()), (503, "5"), "{method}");
    }
    world.event(Event::Closed(ConnectionId(5)));
    assert_eq!(statuses(&world.udp(CAROL, &register("carol", "<sip:carol@192.0.2.30>"))), [503]);
    world.server.end_drain();
    assert_eq!(statuses(&world.udp(CAROL, &register("carol", "<sip:carol@192.0.2.30>").cseq(2))), [200]);
}
