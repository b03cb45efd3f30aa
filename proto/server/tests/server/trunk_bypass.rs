//! Tests of a user who calls a trunk without its routes, past the destination rules.

use crate::challenge::proven;
use crate::harness::{ALICE, BOB, World, forwarded, invite, only, register, request, requests};
use crate::routes::{CARRIER_A, CARRIER_B, carriers, trunk};
use ringway_sansio::Dialler;
use ringway_server::{Config, Destination, DestinationRule, DestinationRules};
use std::time::Duration;

/// Premium numbers are forbidden; the second carrier has a name, and the first one's address in its networks.
fn guarded(config: &mut Config) {
    carriers(config);
    config.auth.enabled = true;
    let mut named = trunk("carrier-b", CARRIER_B);
    named.uri = "sip:trunk.example.net;transport=udp".into();
    config.trunking.trunks.edit()[1] = named;
    let rule = Destination { prefix: "+881".into(), rule: DestinationRule::Deny };
    config.trunking.destinations = DestinationRules::new(vec![rule]).unwrap();
}

fn assert_refused(world: &mut World, sent: Vec<crate::harness::Sent>, what: &str) {
    assert!(requests(sent.clone()).is_empty(), "{what}");
    assert!(sent.last().is_some_and(|sent| sent.start() == "SIP/2.0 403 Trunks Have Routes"), "{what}");
    assert!(requests(world.pass(Duration::from_secs(40))).is_empty(), "{what}");
    assert_eq!(world.server.counters().trunk_bypasses, 1, "{what}");
    assert_eq!(world.server.counters().trunk_requests, 0, "{what}");
    let events = world.memory.events.lock().unwrap();
    let is_named =
        |event: &String| event.starts_with("sip:alice@example.org may not reach the trunk of sip:");
    assert_eq!(events.iter().filter(|event| is_named(event)).count(), 1, "{what}: {events:?}");
}

#[test]
fn a_request_for_the_host_or_the_network_of_a_trunk_is_refused() {
    for uri in ["sip:+8812@198.51.100.1", "sip:+8812@198.51.100.1:5070", "sip:+441@198.51.100.2;user=phone"] {
        for method in ["INVITE", "MESSAGE", "REFER", "OPTIONS"] {
            let mut world = World::with(guarded);
            let sent = proven(&mut world, ALICE, &request(method, uri), "alice");
            assert_refused(&mut world, sent, &format!("{method} {uri}"));
        }
    }
    for uri in ["sip:+8812@trunk.example.net", "sip:+8812@TRUNK.example.net:5060"] {
        let mut world = World::with(guarded);
        proven(&mut world, ALICE, &invite(uri), "alice");
        let host = uri.split(['@', ':']).nth(2).unwrap();
        let sent = world.resolve(host, Some("203.0.113.9"));
        assert_refused(&mut world, sent, uri);
    }
}

#[test]
fn a_route_header_and_a_name_of_the_callers_lead_to_no_trunk() {
    let mut world = World::with(guarded);
    let by_route = invite("sip:+8812@elsewhere.example").line("Route: <sip:198.51.100.1;lr>");
    let sent = proven(&mut world, ALICE, &by_route, "alice");
    assert_refused(&mut world, sent, "Route");

    let mut world = World::with(guarded);
    proven(&mut world, ALICE, &invite("sip:+8812@evil.example"), "alice");
    let sent = world.resolve_to("evil.example", &["198.51.100.2:5060"]);
    assert_refused(&mut world, sent, "a name with a trunk's address");
}

#[test]
fn a_redirection_of_a_phone_leads_to_no_trunk() {
    let mut world = World::with(|config| {
        guarded(config);
        config.auth.enabled = false;
        config.recurse = true;
    });
    world.register("bob", BOB, "<sip:bob@192.0.2.20>");
    let sent = forwarded(world.udp(ALICE, &invite("sip:bob@example.org")));
    let moved = sent.answer(302, &["Contact: <sip:+8812@198.51.100.1>"]);
    let after = world.udp(BOB, &moved);
    assert!(requests(after).iter().all(|sent| sent.to() != CARRIER_A));
    assert_eq!(world.server.counters().recursions_refused, 1);
}

#[test]
fn other_hosts_and_the_routes_are_reached_as_before() {
    let mut world = World::with(guarded);
    let sent = proven(&mut world, ALICE, &invite("sip:carol@203.0.113.9"), "alice");
    assert_eq!(forwarded(sent).to(), "203.0.113.9:5060");
    let mut world = World::with(guarded);
    let sent = proven(&mut world, ALICE, &invite("sip:+441234@example.org"), "alice");
    assert_eq!(forwarded(sent).to(), CARRIER_A);
    let mut world = World::with(guarded);
    let sent = proven(&mut world, ALICE, &invite("sip:+8812@example.org"), "alice");
    assert_eq!(only(sent).status(), 403);
    assert_eq!(world.server.counters().destination_refusals, 1);
}

#[test]
fn a_dot_at_the_end_of_its_name_makes_no_other_trunk() {
    let mut world = World::with(guarded);
    proven(&mut world, ALICE, &invite("sip:+8812@Trunk.example.net."), "alice");
    let sent = world.resolve("Trunk.example.net.", Some("203.0.113.9"));
    assert_refused(&mut world, sent, "a dot");
}

#[test]
fn an_accomplice_names_no_trunk_as_its_remote_target() {
    for method in ["INVITE", "MESSAGE", "REFER"] {
        let mut world = World::with(guarded);
        let got = forwarded(proven(&mut world, ALICE, &invite("sip:x@203.0.113.66"), "alice"));
        let answer = got.answer(200, &["Contact: <sip:+8812@198.51.100.1>"]);
        let answer = only(world.udp("203.0.113.66:5060", &answer));
        let mut again = request(method, "sip:+8812@198.51.100.1").cseq(9).to(&answer.header("To"));
        for route in answer.headers("Record-Route") {
            again = again.line(&format!("Route: {route}"));
        }
        let sent = proven(&mut world, ALICE, &again.line(&format!("Contact: <sip:alice@{ALICE}>")), "alice");
        assert_refused(&mut world, sent, method);
    }
}

/// Call of alice whose responder has this name as its Contact; returns the caller's next request for it.
fn to_named(world: &mut World, callee: &str, responder: &str, host: &str) -> crate::harness::Request {
    let got = forwarded(proven(world, ALICE, &invite(callee), "alice"));
    let answer = got.answer(200, &[&format!("Contact: <sip:+8812@{host}>")]);
    let answer = only(world.udp(responder, &answer));
    let mut again = request("BYE", &format!("sip:+8812@{host}")).cseq(9).to(&answer.header("To"));
    for route in answer.headers("Record-Route") {
        again = again.line(&format!("Route: {route}"));
    }
    again
}

#[test]
fn the_name_of_an_accomplice_leads_to_no_trunk() {
    for (address, is_reached) in [("203.0.113.67:5060", true), (CARRIER_A, false)] {
        let mut world = World::with(guarded);
        let responder = "203.0.113.66:5060";
        let again = to_named(&mut world, "sip:x@203.0.113.66", responder, "evil.example");
        let sent = world.udp(ALICE, &again);
        let sent = if world.lookups.is_empty() { sent } else { world.resolve_to("evil.example", &[address]) };
        assert_eq!(requests(sent).iter().any(|sent| sent.to() == address), is_reached, "{address}");
        assert!(requests(world.pass(Duration::from_secs(40))).iter().all(|sent| sent.to() != CARRIER_A));
    }
}

#[test]
fn a_trunk_may_name_another_address_of_its_own() {
    let mut world = World::with(guarded);
    let again = to_named(&mut world, "sip:+441@example.org", CARRIER_A, "gateway.example");
    world.udp(ALICE, &again);
    let sent = world.resolve_to("gateway.example", &["198.51.100.2:5060"]);
    assert_eq!(only(requests(sent)).to(), CARRIER_B);
}

#[test]
fn a_contact_at_the_address_of_a_trunk_is_reached_over_its_flow_only() {
    let from = "198.51.100.1:6000";
    let mut world = World::with(guarded);
    proven(&mut world, from, &register("alice", "<sip:+8812@198.51.100.1:5060>"), "alice");
    let call = invite("sip:alice@example.org").from("sip:bob@example.org").call_id("2");
    assert_eq!(forwarded(proven(&mut world, BOB, &call, "bob")).to(), from);
}

#[test]
fn a_contact_of_the_administrator_may_be_a_trunk() {
    let mut world = World::with(guarded);
    world.server.set_permanent_contacts(b"bob@example.org", &[b"sip:+441@198.51.100.1"]);
    let sent = proven(&mut world, ALICE, &invite("sip:bob@example.org"), "alice");
    assert_eq!(forwarded(sent).to(), CARRIER_A);
    assert_eq!(world.server.counters().trunk_bypasses, 0);
}

/// Connections that requests need are charged to their senders, and not those to trunks.
#[test]
fn a_dialled_connection_is_charged_to_its_sender_unless_it_is_a_trunks() {
    let to = |world: &mut World, from: &str, user: &str, uri: &str, id: &str| {
        let call = invite(uri).from(&format!("sip:{user}@example.org")).call_id(id);
        forwarded(proven(world, from, &call, user)).dialler
    };
    let mut world = World::with(|config| {
        guarded(config);
        config.trunking.trunks.edit()[0].uri = "sip:198.51.100.1:5060;transport=tcp".into();
    });
    let uris = ["sip:x@203.0.113.5;transport=tcp", "sip:x@203.0.113.6;transport=tcp"];
    let alices = to(&mut world, ALICE, "alice", uris[0], "1");
    assert_ne!(alices, Dialler::OWN);
    assert_eq!(to(&mut world, BOB, "alice", uris[1], "2"), alices, "of one account, from any address");
    assert_ne!(to(&mut world, ALICE, "bob", uris[0], "3"), alices);
    assert_eq!(to(&mut world, ALICE, "alice", "sip:+441@example.org", "4"), Dialler::OWN, "to a trunk");
    assert_eq!(
        to(&mut world, ALICE, "alice", "sip:x@203.0.113.5", "5"),
        Dialler::OWN,
        "by UDP nothing is dialled"
    );
}
