//! Read-through: a request for a user without bindings, at a node that has not read all of the store that nodes share.

use crate::ends::nothing_is_left;
use crate::harness::{
    ALICE, BOB, Request, World, invite, only, register, request, requests, statuses, udp_flow,
};
use crate::overload::{fill, under_overload};
use ringway_location::{NodeName, Registrations, Update, UpdateId};
use ringway_sansio::{Event, Transport};
use ringway_server::{Cluster, Config, Hold, LocateLimits};
use std::sync::atomic::Ordering;
use std::time::Duration;

const STORE_MS: u64 = 5_000_000;

fn node(number: u8) -> World {
    node_that_holds(number, Hold::All)
}

fn node_that_holds(number: u8, hold: Hold) -> World {
    node_with(number, hold, |_| {})
}

fn node_with(number: u8, hold: Hold, change: impl FnOnce(&mut Config)) -> World {
    let world = World::with(|config| {
        change(config);
        let node = NodeName::read(format!("n{number}").as_bytes()).unwrap();
        let link = format!("192.0.2.{number}:5060").parse().unwrap();
        config.cluster = Some(Cluster { node, incarnation: 1, transport: Transport::Udp, link, hold });
    });
    world.memory.is_cold.store(hold == Hold::All, Ordering::Relaxed);
    world
}

/// Record with bob's binding, of another node, as it is looked up.
fn record() -> Vec<u8> {
    numbered_record("<sip:bob@192.0.2.20>", 0)
}

fn numbered_record(contact: &str, number: u64) -> Vec<u8> {
    let mut other = node(2);
    let mine = register("bob", contact);
    assert_eq!(only(other.udp(BOB, &mine)).status(), 200);
    let (_, update) = other.memory.shared.lock().unwrap().pop().unwrap();
    let (update, mut registrations) = (Update::read(&update).unwrap(), Registrations::default());
    registrations.apply(&update, STORE_MS);
    let mut record = Vec::new();
    registrations.write_record(
        &UpdateId { node: update.node, incarnation: 1, number },
        STORE_MS,
        &mut record,
    );
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
fn a_retransmission_causes_no_second_lookup_and_does_not_call_twice() {
    let record = record();
    let mut world = node(1);
    assert!(world.udp(ALICE, &call(1)).is_empty());
    assert!(world.udp(ALICE, &call(1)).is_empty());
    assert_eq!(world.locates.len(), 1);
    world.server.on_record(world.now, b"bob@example.org", &record, STORE_MS).unwrap();
    let query = query_of(&mut world);
    assert_eq!(requests(world.event(Event::Located { query })).len(), 1);
    nothing_is_left(&mut world, "after two");
}

/// The call has no transaction while it waits, and is under way all the same.
#[test]
fn a_call_that_waits_is_not_refused_under_overload() {
    let mut world = node_with(1, Hold::All, under_overload);
    fill(&mut world, udp_flow(BOB), |_| {});
    assert!(world.udp(ALICE, &call(1)).is_empty());
    let late = Duration::from_millis(180);
    assert_eq!(statuses(&world.late(ALICE, &call(2), late)), [503], "another call is refused");
    assert!(world.late(ALICE, &call(1), late).is_empty(), "its retransmission waits");
    assert_eq!(statuses(&world.late(ALICE, &call(1).cancel(), late)), [200, 487]);
    assert_eq!(
        statuses(&world.late(ALICE, &call(1), late)),
        [487],
        "a retransmission that came after the CANCEL"
    );
    assert_eq!(world.server.counters().overload_refused, 1);
}

#[test]
fn requests_for_a_user_wait_for_one_lookup() {
    let record = record();
    let mut world = node(1);
    for number in 0..100 {
        assert!(world.udp(ALICE, &call(number)).is_empty());
    }
    let query = query_of(&mut world);
    assert!(world.locates.is_empty());
    world.server.on_record(world.now, b"bob@example.org", &record, STORE_MS).unwrap();
    assert_eq!(requests(world.event(Event::Located { query })).len(), 100);
    nothing_is_left(&mut world, "after a hundred");
}

#[test]
fn a_cancel_ends_the_call_that_waits() {
    let record = record();
    let (mut world, invite) = (node(1), call(1));
    assert!(world.udp(ALICE, &invite).is_empty());
    let cancel = invite.cancel();
    assert_eq!(statuses(&world.udp("198.51.100.66:5060", &cancel)), [481], "from elsewhere");
    assert_eq!(statuses(&world.udp(ALICE, &cancel)), [200, 487]);
    assert_eq!(world.memory.tables().reserved_bytes(), 0);
    // The 487 was lost.
    assert_eq!(statuses(&world.udp(ALICE, &invite)), [487]);
    world.server.on_record(world.now, b"bob@example.org", &record, STORE_MS).unwrap();
    let query = query_of(&mut world);
    assert!(world.event(Event::Located { query }).is_empty());
    nothing_is_left(&mut world, "after a CANCEL");
}

#[test]
fn a_user_without_bindings_is_looked_up_once_a_second() {
    let mut world = node_that_holds(1, Hold::Served);
    for second in 1..=3 {
        assert!(world.udp(ALICE, &call(10_000 * second)).is_empty());
        let query = query_of(&mut world);
        assert_eq!(statuses(&world.event(Event::Located { query })), [480]);
        for number in 1..1_000 {
            assert_eq!(statuses(&world.udp(ALICE, &call(10_000 * second + number))), [480]);
        }
        assert!(world.locates.is_empty());
        world.pass(Duration::from_millis(1_001));
    }
    assert_eq!((world.server.counters().locates, world.server.counters().locates_remembered), (3, 2_997));
    // News of the user ends the memory.
    assert!(world.udp(ALICE, &call(1)).is_empty());
    let query = query_of(&mut world);
    world.event(Event::Located { query });
    let news = numbered_record("<sip:bob@192.0.2.20>", 7);
    world.server.on_record(world.now, b"bob@example.org", &news, STORE_MS).unwrap();
    assert_eq!(world.server.location().bindings_len(), 0, "nobody looked for it yet");
    assert!(world.udp(ALICE, &call(2)).is_empty());
    let query = query_of(&mut world);
    world.server.on_record(world.now, b"bob@example.org", &record(), STORE_MS).unwrap();
    assert_eq!(requests(world.event(Event::Located { query })).len(), 1);
    // From now on news is applied.
    let news = numbered_record("<sip:bob@192.0.2.21>", 8);
    world.server.on_record(world.now, b"bob@example.org", &news, STORE_MS).unwrap();
    let call = only(requests(world.udp(ALICE, &call(3))));
    assert!(call.start().contains("bob@192.0.2.21"), "{}", call.start());
}

#[test]
fn an_administrators_contact_does_not_hide_the_phones() {
    let mut world = node_that_holds(1, Hold::Served);
    world.server.set_permanent_contacts(b"bob@example.org", &[b"sip:desk@192.0.2.30"]);
    assert!(world.udp(ALICE, &call(1)).is_empty());
    let query = query_of(&mut world);
    world.server.on_record(world.now, b"bob@example.org", &record(), STORE_MS).unwrap();
    assert_eq!(requests(world.event(Event::Located { query })).len(), 2);
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
    for user in 0..600 {
        world.memory.subscribe(&format!("u{user}"), "example.org", "example.org", "secret");
    }
    let call = |user: usize| invite(&format!("sip:u{user}@example.org")).call_id(&format!("call {user}"));
    for user in 0..30 {
        world.udp(ALICE, &call(user));
    }
    assert_eq!(world.locates.len(), LocateLimits::PER_SECOND as usize);
    assert_eq!(world.server.counters().locates_too_often, 10);
    for source in 0..30 {
        for number in 0..15 {
            let from = format!("198.51.100.{source}:5060");
            world.udp(&from, &call(100 + 15 * source + number));
        }
    }
    assert_eq!(world.locates.len(), LocateLimits::UNDER_WAY_MAX);
    assert!(world.server.counters().locates_too_many > 0);
    assert!(world.memory.tables().reserved_bytes() > 0);
    world.pass(Duration::from_secs(1));
    assert_eq!(world.server.counters().locates_unanswered, LocateLimits::UNDER_WAY_MAX as u64);
    assert!(world.udp(ALICE, &call(599)).is_empty(), "there is room again");
    nothing_is_left(&mut world, "after many");
}
