//! Registrar and proxy of flows: instance and reg-id (RFC 5626).

use crate::ends::nothing_is_left;
use crate::harness::{
    ALICE, BOB, CAROL, Request, Sent, World, forwarded, invite, only, query, register, requests, statuses,
};
use ringway_sansio::{ConnectionId, Event};
use std::time::Duration;

/// NAT's addresses of bob's phone, one after another.
const FIRST: &str = "198.51.100.7:31337";
const SECOND: &str = "198.51.100.7:40001";
const INSTANCE: &str = "<urn:uuid:00000000-0000-1000-8000-AABBCCDDEEFF>";

/// REGISTER of a flow of bob's phone.
fn flow(contact: &str, reg_id: u32) -> Request {
    let contact = format!("<{contact}>;+sip.instance=\"{INSTANCE}\";reg-id={reg_id}");
    register("bob", &contact).line("Supported: path, outbound")
}

#[track_caller]
fn registers(world: &mut World, from: &str, request: &Request) -> Sent {
    let answer = only(world.udp(from, request));
    assert_eq!(answer.status(), 200, "{}", answer.text());
    answer
}

fn called(world: &mut World) -> Vec<Sent> {
    requests(world.udp(ALICE, &invite("sip:bob@example.org")))
}

#[test]
fn a_flow_from_a_new_address_replaces_the_old_one() {
    let mut world = World::open();
    let answer = registers(&mut world, FIRST, &flow("sip:bob@10.0.0.5:5060", 1).call_id("one"));
    assert_eq!(answer.header("Require"), "outbound");
    assert!(answer.header("Contact").contains(";reg-id=1"), "{}", answer.text());
    // The phone restarted: another Call-ID, another port of the NAT, another contact.
    registers(&mut world, SECOND, &flow("sip:bob@10.0.0.5:5099", 1).call_id("two"));
    assert_eq!(world.bindings("bob").len(), 1);
    let call = only(called(&mut world));
    assert_eq!((call.to().as_str(), call.uri().as_str()), (SECOND, "sip:bob@10.0.0.5:5099"));
}

#[test]
fn without_outbound_in_supported_a_reg_id_says_nothing() {
    let mut world = World::open();
    for (number, port) in [(1, 5060), (2, 5099)] {
        let mut request = flow(&format!("sip:bob@10.0.0.5:{port}"), 1).call_id(&format!("{number}"));
        request.lines.pop();
        assert!(registers(&mut world, FIRST, &request).headers("Require").is_empty());
    }
    assert_eq!(called(&mut world).len(), 2, "two contacts");
}

#[test]
fn a_reg_id_without_instance_is_ignored() {
    let mut world = World::open();
    for contact in [
        "<sip:bob@10.0.0.5>;reg-id=1",
        "<sip:bob@10.0.0.6>;reg-id=0;+sip.instance=\"<urn:x>\"",
        "<sip:bob@10.0.0.7>;reg-id=x;+sip.instance=\"<urn:x>\"",
    ] {
        let request = register("bob", contact).line("Supported: outbound").call_id(contact);
        assert!(registers(&mut world, FIRST, &request).headers("Require").is_empty(), "{contact}");
    }
    let long = format!("<sip:bob@10.0.0.7>;reg-id=1;+sip.instance=\"<urn:{}>\"", "x".repeat(128));
    let request = register("bob", &long).line("Supported: outbound").call_id("x").cseq(2);
    assert!(registers(&mut world, FIRST, &request).headers("Require").is_empty());
}

#[test]
fn with_outbound_off_a_phone_registers_its_contact() {
    let mut world = World::with(|config| config.registrar.outbound = false);
    assert!(registers(&mut world, FIRST, &flow("sip:bob@10.0.0.5", 1)).headers("Require").is_empty());
    let required = flow("sip:bob@10.0.0.5", 1).line("Require: outbound, path, gruu").call_id("two");
    let answer = only(world.udp(FIRST, &required));
    assert_eq!((answer.status(), answer.headers("Unsupported").join(",")), (420, "outbound,gruu".into()));
}

#[test]
fn a_phone_may_require_what_this_server_supports() {
    let mut world = World::open();
    registers(&mut world, FIRST, &flow("sip:bob@10.0.0.5", 1).line("Require: outbound, path"));
}

#[test]
fn the_contact_of_an_earlier_registration_without_outbound_becomes_the_flow() {
    let mut world = World::open();
    world.register("bob", FIRST, "<sip:bob@10.0.0.5>");
    registers(&mut world, FIRST, &flow("sip:bob@10.0.0.5", 1).call_id("new"));
    assert_eq!(world.bindings("bob").len(), 1);
    let gone = register("bob", "<sip:bob@10.0.0.5>;expires=0").call_id("plain");
    assert!(registers(&mut world, FIRST, &gone).headers("Contact").is_empty());
}

#[test]
fn a_proxy_without_outbound_gets_439() {
    let mut world = World::open();
    let behind = |path: &str| {
        let request = flow("sip:bob@10.0.0.5", 1).line("Via: SIP/2.0/UDP 10.0.0.5;branch=z9hG4bKphone");
        if path.is_empty() { request } else { request.line(&format!("Path: {path}")) }
    };
    for path in ["", "<sip:192.0.2.99;lr>", "<sip:192.0.2.99;lr>, <sip:10.0.0.9;lr;ob>"] {
        let answer = only(world.udp("192.0.2.98:5060", &behind(path)));
        assert_eq!(answer.start(), "SIP/2.0 439 First Hop Lacks Outbound Support", "{path}");
    }
    assert_eq!(world.server.counters().first_hop_lacks_outbound, 3);
    let answer = only(world.udp("192.0.2.98:5060", &behind("<sip:t@192.0.2.98;lr;ob>")));
    assert_eq!((answer.status(), answer.header("Require").as_str()), (200, "outbound"));
}

#[test]
fn a_request_with_two_contacts_and_a_reg_id_is_refused() {
    let mut world = World::open();
    let mut request = flow("sip:bob@10.0.0.5", 1);
    request.lines[0].push_str(", <sip:bob@10.0.0.6>");
    assert_eq!(only(world.udp(FIRST, &request)).status(), 400);
    // Removing others is allowed.
    request.lines[0].push_str(";expires=0");
    registers(&mut world, FIRST, &request);
}

#[test]
fn an_instance_has_at_most_four_flows() {
    let mut world = World::with(|config| config.registrar.max_contacts = 10);
    for number in 1..=1000 {
        let request = flow(&format!("sip:bob@10.0.0.5:{}", 5000 + number), number);
        let answer = only(world.udp(FIRST, &request.call_id(&format!("{number}"))));
        assert_eq!(answer.status(), if number <= 4 { 200 } else { 403 }, "{number}");
    }
    assert_eq!((world.bindings("bob").len(), world.server.counters().too_many_flows), (4, 996));
    // The fifth may replace one of them.
    registers(&mut world, FIRST, &flow("sip:bob@10.0.0.5:6000", 4).call_id("again"));
}

#[test]
fn contacts_that_become_flows_count() {
    let mut world = World::with(|config| config.registrar.max_contacts = 10);
    for number in 1..=6 {
        let contact = format!("sip:bob@10.0.0.5:{}", 5000 + number);
        world.register("bob", FIRST, &format!("<{contact}>"));
        let answer = only(world.udp(FIRST, &flow(&contact, number).call_id(&format!("flow {number}"))));
        assert_eq!(answer.status(), if number <= 4 { 200 } else { 403 }, "{number}");
    }
}

/// Bob's phone with two flows, of which the second is fresher.
fn two_flows(world: &mut World) {
    registers(world, FIRST, &flow("sip:bob@10.0.0.5:1", 1).call_id("one"));
    world.pass(Duration::from_secs(10));
    registers(world, SECOND, &flow("sip:bob@10.0.0.5:2", 2).call_id("two"));
}

#[test]
fn the_flows_of_a_phone_are_called_one_at_a_time() {
    for status in [408, 430] {
        let mut world = World::open();
        two_flows(&mut world);
        let first = only(called(&mut world));
        assert_eq!(first.to(), SECOND, "the fresher one");
        world.udp(SECOND, &first.answer(100, &[]));
        let second = only(requests(world.udp(SECOND, &first.answer(status, &[]))).split_off(1));
        assert_eq!((second.to().as_str(), second.method().as_str()), (FIRST, "INVITE"));
        assert_eq!(second.header("Max-Breadth"), first.header("Max-Breadth"));
        assert_eq!(statuses(&world.udp(FIRST, &second.answer(200, &[]))), [200]);
        assert_eq!(world.server.counters().flow_failovers, 1);
        nothing_is_left(&mut world, "after the second flow's 200");
    }
}

#[test]
fn a_phone_that_answers_is_not_called_over_its_other_flow() {
    for status in [486, 500, 603] {
        let mut world = World::open();
        two_flows(&mut world);
        let first = only(called(&mut world));
        let sent = world.udp(SECOND, &first.answer(status, &[]));
        assert_eq!((requests(sent.clone()).len(), statuses(&sent)), (1, vec![status]), "the ACK");
        nothing_is_left(&mut world, "after a refusal");
    }
}

#[test]
fn a_silent_flow_is_followed_by_the_next_one() {
    let mut world = World::open();
    two_flows(&mut world);
    let first = only(called(&mut world));
    let sent = world.pass(Duration::from_secs(33));
    let second = requests(sent).into_iter().rfind(|sent| sent.to() == FIRST).unwrap();
    assert_ne!(first.to(), second.to());
    assert_eq!(statuses(&world.udp(FIRST, &second.answer(200, &[]))), [200]);
    nothing_is_left(&mut world, "after a silent flow");
}

#[test]
fn when_all_flows_fail_the_caller_gets_480_not_430() {
    let mut world = World::open();
    two_flows(&mut world);
    let first = only(called(&mut world));
    let second = requests(world.udp(SECOND, &first.answer(430, &[]))).remove(1);
    assert_eq!(statuses(&world.udp(FIRST, &second.answer(430, &[]))), [480]);
    nothing_is_left(&mut world, "after both failed");
}

#[test]
fn a_cancelled_call_does_not_go_on_to_the_next_flow() {
    let mut world = World::open();
    two_flows(&mut world);
    let call = invite("sip:bob@example.org");
    let first = only(requests(world.udp(ALICE, &call)));
    world.udp(SECOND, &first.answer(180, &[]));
    world.udp(ALICE, &call.cancel());
    let sent = world.udp(SECOND, &first.answer(430, &[]));
    assert!(requests(sent).iter().all(|sent| sent.method() == "ACK"));
    nothing_is_left(&mut world, "after CANCEL");
}

#[test]
fn a_flow_ends_with_its_connection_and_the_other_one_is_called() {
    let mut world = World::open();
    for (connection, reg_id) in [(5, 1), (6, 2)] {
        let contact = format!("sip:bob@10.0.0.5:{connection};transport=tcp");
        let request = flow(&contact, reg_id).tcp().call_id(&format!("{reg_id}"));
        assert_eq!(only(world.tcp(connection, FIRST, &request)).status(), 200);
        world.pass(Duration::from_secs(1));
    }
    let call = only(called(&mut world));
    assert_eq!(call.flow.connection, Some(ConnectionId(6)));
    // It breaks while the call waits: the transport says so.
    let again = only(requests(world.event(Event::Unreachable(call.token))));
    assert_eq!(again.flow.connection, Some(ConnectionId(5)));
    world.tcp(5, FIRST, &again.answer(486, &[]));
    world.event(Event::Closed(ConnectionId(6)));
    assert_eq!(world.bindings("bob").len(), 1);
    nothing_is_left(&mut world, "after the end of a connection");
}

#[test]
fn two_phones_ring_at_once_each_over_one_flow() {
    let mut world = World::open();
    two_flows(&mut world);
    let other = "<sip:bob@192.0.2.20>;+sip.instance=\"<urn:other>\";reg-id=1";
    registers(&mut world, BOB, &register("bob", other).line("Supported: outbound").call_id("other"));
    let mut to: Vec<_> = called(&mut world).iter().map(Sent::to).collect();
    to.sort();
    assert_eq!(to, [BOB, SECOND]);
}

#[test]
fn flows_of_lower_preference_have_their_other_flows_too() {
    let mut world = World::open();
    two_flows(&mut world);
    for number in [1, 2] {
        let mut lower = flow(&format!("sip:bob@10.0.0.5:{number}"), number).cseq(2);
        lower = lower.call_id(if number == 1 { "one" } else { "two" });
        lower.lines[0].push_str(";q=0.5");
        registers(&mut world, if number == 1 { FIRST } else { SECOND }, &lower);
    }
    world.register("bob", CAROL, "<sip:bob@192.0.2.30>");
    let desk = only(called(&mut world));
    let first = requests(world.udp(CAROL, &desk.answer(486, &[]))).remove(1);
    let next = requests(world.message(first.flow, &first.answer(430, &[]))).remove(1);
    assert!(first.to() != next.to() && next.to().starts_with("198.51.100.7"));
    world.message(next.flow, &next.answer(486, &[]));
    nothing_is_left(&mut world, "after all groups");
}

#[test]
fn a_flow_timer_and_a_service_route_are_sent_where_they_are_configured() {
    let mut world = World::with(|config| {
        config.registrar.flow_timer_s = 25;
        config.registrar.service_route = vec!["<sip:edge.example.org;lr>".into()];
    });
    let answer = registers(&mut world, FIRST, &flow("sip:bob@10.0.0.5", 1));
    assert_eq!(answer.header("Flow-Timer"), "25");
    assert_eq!(answer.header("Service-Route"), "<sip:edge.example.org;lr>");
    let answer = registers(&mut world, BOB, &query("alice"));
    assert!(answer.headers("Flow-Timer").is_empty(), "it is for phones with outbound");
}

#[test]
fn flows_survive_a_restart() {
    let mut world = World::open();
    two_flows(&mut world);
    let records = world.memory.records.lock().unwrap().clone();
    let mut restarted = World::restarted();
    for (aor, record) in &records {
        restarted.server.restore(aor, record, restarted.now).unwrap();
    }
    let call = only(called(&mut restarted));
    assert_eq!(call.to(), SECOND);
    registers(&mut restarted, FIRST, &flow("sip:bob@10.0.0.5:3", 2).call_id("three"));
    assert_eq!(restarted.bindings("bob").len(), 2, "it replaces its flow");
    assert_eq!(forwarded(restarted.udp(ALICE, &invite("sip:bob@example.org").call_id("x"))).to(), FIRST);
}
