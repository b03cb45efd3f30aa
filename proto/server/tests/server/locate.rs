//! Read-through: a request for a user without bindings, at a node that has not read all of the store that nodes share.

use crate::ends::nothing_is_left;
use crate::harness::{ALICE, BOB, Request, Sent, World, invite, only, register, request, requests, statuses};
use ringway_location::{NodeName, Registrations, Update};
use ringway_sansio::{Event, Transport};
use ringway_server::{Cluster, LocateLimits};
use std::sync::atomic::Ordering;
use std::time::Duration;

const STORE_MS: u64 = 5_000_000;

fn node(number: u8) -> World {
    let world = World::with(|config| {
        let node = NodeName::read(format!("n{number}").as_bytes()).unwrap();
        let link = format!("192.0.2.{number}:5060").parse().unwrap();
        config.cluster = Some(Cluster { node, incarnation: 1, transport: Transport::Udp, link });
    });
    world.memory.is_cold.store(true, Ordering::Relaxed);
    world
}

/// Record with bob's binding, of another node.
fn record() -> Vec<u8> {
    let mut other = node(2);
    let mine = register("bob", "<sip:bob@192.0.2.20>");
    assert_eq!(only(other.udp(BOB, &mine)).status(), 200);
    let (_, update) = other.memory.shared.lock().unwrap().pop().unwrap();
    let (update, mut registrations) = (Update::read(&update).unwrap(), Registrations::default());
    registrations.apply(&update, STORE_MS);
    let mut record = Vec::new();
    registrations.write_record((&update.node, 1, 0), STORE_MS, &mut record);
    record
}

fn call(number: usize) -> Request {
    invite("sip:bob@example.org").call_id(&format!("call {number}"))
}

#[track_caller]
fn query_of(world: &mut World) -> u64 {
    let (query, aor) = world.locates.pop().unwrap();
    assert_eq!(aor.as_bytes(), b"bob@example.org");
    query
}

#[test]
fn a_call_waits_for_the_bindings_of_its_user() {
    let record = record();
    for method in ["INVITE", "MESSAGE"] {
        let mut world = node(1);
        assert!(world.udp(ALICE, &Request { method: method.into(), ..call(1) }).is_empty());
        let query = query_of(&mut world);
        world.server.on_record(world.now, b"bob@example.org", &record, STORE_MS).unwrap();
        let sent = only(requests(world.event(Event::Located { query })));
        assert_eq!((sent.to().as_str(), sent.method().as_str()), (BOB, method));
        assert!(world.event(Event::Located { query }).is_empty(), "an answer counts once");
        // Now they are here.
        assert_eq!(requests(world.udp(ALICE, &call(2))).len(), 1);
        assert_eq!(world.server.counters().locates, 1);
        nothing_is_left(&mut world, method);
    }
}

#[test]
fn without_an_answer_in_time_the_user_has_none() {
    let mut world = node(1);
    assert!(world.udp(ALICE, &call(1)).is_empty());
    assert!(world.pass(Duration::from_millis(49)).is_empty());
    assert_eq!(statuses(&world.pass(Duration::from_millis(2))), [480]);
    assert_eq!(world.server.counters().locates_unanswered, 1);
    let query = query_of(&mut world);
    assert!(world.event(Event::Located { query }).is_empty(), "it is late");
    nothing_is_left(&mut world, "after a late answer");
}

#[test]
fn a_retransmission_does_not_call_twice() {
    let record = record();
    let mut world = node(1);
    assert!(world.udp(ALICE, &call(1)).is_empty());
    assert!(world.udp(ALICE, &call(1)).is_empty());
    world.server.on_record(world.now, b"bob@example.org", &record, STORE_MS).unwrap();
    let queries: Vec<u64> = world.locates.drain(..).map(|(query, _)| query).collect();
    let sent: Vec<Sent> =
        queries.into_iter().flat_map(|query| world.event(Event::Located { query })).collect();
    assert_eq!(requests(sent).len(), 1);
    nothing_is_left(&mut world, "after two");
}

#[test]
fn only_calls_of_users_that_exist_cause_it() {
    let mut world = node(1);
    assert_eq!(statuses(&world.udp(ALICE, &invite("sip:nobody@example.org"))), [404]);
    world.udp(ALICE, &request("OPTIONS", "sip:bob@example.org"));
    let within = call(3).to("<sip:bob@example.org>;tag=x");
    world.udp(ALICE, &within);
    world.memory.is_cold.store(false, Ordering::Relaxed);
    assert_eq!(statuses(&world.udp(ALICE, &call(4))), [480], "this node has read all");
    assert!(world.locates.is_empty());
    let mut world = World::open();
    world.memory.is_cold.store(true, Ordering::Relaxed);
    assert_eq!(statuses(&world.udp(ALICE, &call(1))), [480], "there is no store");
}

#[test]
fn a_source_causes_twenty_in_a_second_and_all_together_256_at_once() {
    let mut world = node(1);
    for number in 0..30 {
        world.udp(ALICE, &call(number));
    }
    assert_eq!(world.locates.len(), LocateLimits::PER_SECOND as usize);
    assert_eq!(world.server.counters().locates_too_often, 10);
    for source in 0..30 {
        for number in 0..15 {
            let from = format!("198.51.100.{source}:5060");
            world.udp(&from, &call(1000 + 100 * source + number));
        }
    }
    assert_eq!(world.locates.len(), LocateLimits::UNDER_WAY_MAX);
    assert!(world.server.counters().locates_too_many > 0);
    assert!(world.memory.reserved_bytes() > 0);
    world.pass(Duration::from_secs(1));
    assert_eq!(world.server.counters().locates_unanswered, LocateLimits::UNDER_WAY_MAX as u64);
    assert!(world.udp(ALICE, &call(5000)).is_empty(), "there is room again");
    nothing_is_left(&mut world, "after many");
}
