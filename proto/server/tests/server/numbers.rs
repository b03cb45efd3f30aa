//! Tests of ENUM: who looks numbers up, what a record leads to, and what follows without one.

use crate::challenge::proven;
use crate::ends::nothing_is_left;
use crate::harness::{
    ALICE, BOB, Request, STRANGER, Sent, World, forwarded, invite, only, request, requests, statuses,
};
use crate::routes::{CARRIER_A, CARRIER_B, carriers};
use crate::trunks::probed;
use ringway_server::{Config, Destination, DestinationRule, DestinationRules};
use std::time::Duration;

const NUMBER: &str = "sip:+441632960083@example.org";
const DIGITS: &str = "441632960083";
const OUTSIDE: &str = "203.0.113.5:5060";

fn zones(config: &mut Config) {
    config.trunking.enum_zones = ["e164.arpa".into()].into();
}

/// Numbers are looked up, and have routes to two carriers.
fn with_carriers(config: &mut Config) {
    carriers(config);
    zones(config);
}

fn with_rules(rules: Vec<(&str, DestinationRule)>) -> World {
    World::with(|config| {
        with_carriers(config);
        let rules = rules.into_iter().map(|(prefix, rule)| Destination { prefix: prefix.into(), rule });
        config.trunking.destinations = DestinationRules::new(rules.collect()).unwrap();
    })
}

/// Sends an INVITE whose number is looked up.
#[track_caller]
fn call(world: &mut World, uri: &str) {
    assert_eq!(statuses(&world.udp(ALICE, &invite(uri))), [100], "{uri}");
    assert_eq!(world.numbers.len(), 1, "{uri}");
}

fn invites(sent: Vec<Sent>) -> Vec<Sent> {
    requests(sent).into_iter().filter(|sent| sent.method() == "INVITE").collect()
}

#[test]
fn a_number_leads_to_the_uri_of_its_record() {
    for uri in [NUMBER, "tel:+44-1632-960083", "sip:+44-1632-960083@example.org;user=phone"] {
        let mut world = World::with(with_carriers);
        call(&mut world, uri);
        let (_, asked) = &world.numbers[0];
        assert_eq!((&*asked.zones[0], asked.source), ("e164.arpa", Some("192.0.2.10".parse().unwrap())));
        let sent = world.resolve_number(DIGITS, &["sip:info@203.0.113.5;method=BYE?Subject=x"]);
        let outside = only(sent);
        assert_eq!((outside.to(), outside.uri()), (OUTSIDE.into(), "sip:info@203.0.113.5".into()), "{uri}");
        assert_eq!(statuses(&world.udp(OUTSIDE, &outside.answer(200, &[]))), [200]);
        let counters = world.server.counters();
        assert_eq!((counters.number_lookups, counters.numbers_found, counters.trunk_requests), (1, 1, 0));
        nothing_is_left(&mut world, "a call by ENUM");
    }
}

#[test]
fn the_host_of_a_record_is_looked_up_and_has_failover() {
    let mut world = World::with(zones);
    call(&mut world, NUMBER);
    assert!(world.resolve_number(DIGITS, &["sip:info@gate.example"]).is_empty());
    let first = only(world.resolve_to("gate.example", &["203.0.113.5:5060", "203.0.113.6:5060"]));
    assert_eq!(first.to(), OUTSIDE);
    let second = only(invites(world.udp(OUTSIDE, &first.answer(503, &[]))));
    assert_eq!(second.to(), "203.0.113.6:5060");
    assert_eq!(statuses(&world.udp("203.0.113.6:5060", &second.answer(486, &[]))), [486]);
    nothing_is_left(&mut world, "failover of a record's host");
}

#[test]
fn without_a_record_the_routes_are_used() {
    let mut world = World::with(with_carriers);
    call(&mut world, NUMBER);
    let first = only(world.resolve_number(DIGITS, &[]));
    assert_eq!(
        (first.to(), first.uri()),
        (CARRIER_A.into(), format!("sip:+{DIGITS}@{CARRIER_A};user=phone"))
    );
    let second = only(invites(world.udp(CARRIER_A, &first.answer(503, &[]))));
    assert_eq!(second.to(), CARRIER_B);
    assert_eq!(statuses(&world.udp(CARRIER_B, &second.answer(200, &[]))), [200]);
    nothing_is_left(&mut world, "a route after a lookup");
    let mut world = World::with(with_carriers);
    call(&mut world, NUMBER);
    assert!(requests(world.pass(Duration::from_secs(9))).is_empty());
    let late = invites(world.pass(Duration::from_secs(2)));
    assert_eq!(late.first().map(Sent::to).as_deref(), Some(CARRIER_A), "the answer was lost");
    assert_eq!(world.numbers.len(), 1);
    assert!(world.resolve_number(DIGITS, &["sip:info@203.0.113.5"]).is_empty(), "it comes too late");
    nothing_is_left(&mut world, "a lost answer");
    let mut world = World::with(zones);
    call(&mut world, NUMBER);
    assert_eq!(statuses(&world.resolve_number(DIGITS, &[])), [404]);
    assert_eq!(world.server.counters().not_found, 1);
    nothing_is_left(&mut world, "a number without a record and a route");
}

#[test]
fn other_numbers_and_requests_are_not_looked_up() {
    for uri in [
        "sip:00441632@example.org",
        "sip:0301234@example.org",
        "sip:+4930123456@example.org",
        "sip:+44*21@example.org",
        "sip:+1234567890123456@example.org",
        "sip:carol@example.org",
        "sip:+441632960083@elsewhere.example",
    ] {
        let mut world = World::with(with_carriers);
        world.udp(ALICE, &invite(uri));
        assert!(world.numbers.is_empty(), "{uri}");
    }
    let mut world = World::with(with_carriers);
    world.register("+441632960083", BOB, "<sip:+441632960083@192.0.2.20>");
    assert_eq!(forwarded(world.udp(ALICE, &invite(NUMBER))).to(), BOB, "a user's number");
    for method in ["MESSAGE", "OPTIONS", "SUBSCRIBE"] {
        let mut world = World::with(with_carriers);
        assert_eq!(only(requests(world.udp(ALICE, &request(method, NUMBER)))).to(), CARRIER_A);
        assert!(world.numbers.is_empty(), "{method}");
    }
    let mut world = World::with(with_carriers);
    let within = invite(NUMBER).to("<sip:+441632960083@example.org>;tag=1");
    world.udp(ALICE, &within);
    assert!(world.numbers.is_empty(), "inside a dialog");
    let mut world = World::with(carriers);
    assert_eq!(forwarded(world.udp(ALICE, &invite(NUMBER))).to(), CARRIER_A);
    assert!(world.numbers.is_empty(), "without zones");
    let mut world = World::with(|config| (with_carriers(config), config.stateful = false).1);
    world.udp(ALICE, &invite(NUMBER));
    assert!(world.numbers.is_empty(), "without state");
}

#[test]
fn only_users_with_a_password_cause_lookups() {
    let closed = || World::with(|config| (with_carriers(config), config.auth.enabled = true).1);
    let strangers = |from: &str| {
        let via = format!("SIP/2.0/UDP {from};rport;branch=z9hG4bK");
        invite(NUMBER).from("sip:eve@example.net").via(&via)
    };
    let mut world = closed();
    assert_eq!(statuses(&world.udp(STRANGER, &strangers(STRANGER))), [404]);
    assert_eq!(statuses(&world.udp(CARRIER_A, &strangers(CARRIER_A).call_id("2"))), [404], "a trunk");
    assert_eq!(statuses(&world.udp(ALICE, &invite(NUMBER).call_id("3"))), [407], "no password yet");
    assert!(world.numbers.is_empty());
    proven(&mut world, ALICE, &invite(NUMBER).call_id("4"), "alice");
    assert_eq!(world.numbers.len(), 1);
}

#[test]
fn destination_rules_apply_before_a_lookup() {
    let mut world = with_rules(vec![("+881", DestinationRule::Deny), ("+", DestinationRule::PerHour(2))]);
    assert_eq!(statuses(&world.udp(ALICE, &invite("sip:+8812@example.org"))), [403]);
    assert!(world.numbers.is_empty());
    assert_eq!(world.server.counters().destination_refusals, 1);
    for number in 0..2 {
        assert_eq!(statuses(&world.udp(ALICE, &invite(NUMBER).call_id(&format!("c{number}")))), [100]);
        let sent = world.resolve_number(DIGITS, &[]);
        assert_eq!(only(sent).to(), CARRIER_A, "the route does not count it again");
    }
    assert_eq!(statuses(&world.udp(ALICE, &invite(NUMBER).call_id("third"))), [403]);
    assert!(world.numbers.is_empty());
    assert_eq!(world.server.counters().destination_rates, 1);
}

#[test]
fn the_number_that_a_trunk_gets_has_its_own_rule() {
    let mut world = World::with(|config| {
        with_carriers(config);
        let change = ringway_server::NumberChange { strip: 1, add: "00".into() };
        let trunks = [ringway_server::WeightedTrunk { trunk: 0, weight: 0 }].as_slice().into();
        let to = ringway_server::RouteTo::Trunks { trunks, change };
        let route = ringway_server::Route { matches: crate::routes::prefix("+"), to };
        config.trunking.routes = ringway_server::RouteTable::new(vec![route]).unwrap();
        let rule = Destination { prefix: "0044".into(), rule: DestinationRule::Deny };
        config.trunking.destinations = DestinationRules::new(vec![rule]).unwrap();
    });
    call(&mut world, NUMBER);
    assert_eq!(statuses(&world.resolve_number(DIGITS, &[])), [403]);
    assert_eq!(world.server.counters().trunk_requests, 0);
    nothing_is_left(&mut world, "a refused route after a lookup");
}

#[test]
fn a_record_leads_to_no_trunk_and_past_no_rule() {
    for uri in [
        "sip:+8812@198.51.100.1",
        "sip:+8812@198.51.100.2:5070;transport=udp",
        "sip:+8812@other.example",
        "sip:+8812@example.org",
        "sip:+8812@192.0.2.1:5060",
        "tel:+8812",
        "http://203.0.113.5",
        "sip:",
        "not a URI",
    ] {
        let mut world = World::with(with_carriers);
        call(&mut world, NUMBER);
        let sent = only(world.resolve_number(DIGITS, &[uri]));
        assert_eq!(
            sent.uri(),
            format!("sip:+{DIGITS}@{CARRIER_A};user=phone"),
            "{uri}: the number's own route"
        );
        assert_eq!(world.server.counters().number_uris_refused, 1, "{uri}");
    }
    // A name with a trunk's address.
    let mut world = World::with(with_carriers);
    call(&mut world, NUMBER);
    world.resolve_number(DIGITS, &["sip:+8812@evil.example"]);
    let sent = world.resolve_to("evil.example", &["198.51.100.2:5060"]);
    assert!(requests(sent.clone()).is_empty());
    assert_eq!(statuses(&sent), [403]);
    assert_eq!(world.server.counters().trunk_bypasses, 1);
    nothing_is_left(&mut world, "a record with a trunk's address");
}

#[test]
fn a_record_leads_to_no_private_address() {
    let private =
        ["10.0.0.5", "127.0.0.1", "169.254.1.1", "100.64.0.1", "[::ffff:10.0.0.5]", "[fd00::1]", "192.0.2.2"];
    for host in private {
        let mut world = World::with(|config| {
            zones(config);
            config.machine_addresses = vec!["192.0.2.2".parse().unwrap()];
        });
        call(&mut world, NUMBER);
        let sent = world.resolve_number(DIGITS, &[&format!("sip:x@{host}")]);
        assert_eq!(statuses(&sent), [404], "{host}");
        assert!(requests(sent).is_empty(), "{host}");
    }
    for address in ["10.0.0.5:5060", "127.0.0.1:5060", "192.0.2.1:5060"] {
        let mut world = World::with(zones);
        call(&mut world, NUMBER);
        world.resolve_number(DIGITS, &["sip:x@rebound.example"]);
        let sent = world.resolve_to("rebound.example", &[address, "203.0.113.5:5060"]);
        assert_eq!(only(sent).to(), OUTSIDE, "{address} is passed over");
    }
    let mut world = World::with(|config| {
        zones(config);
        config.trunking.enum_networks = vec!["10.0.0.0/8".parse().unwrap()];
    });
    call(&mut world, NUMBER);
    let sent = world.resolve_number(DIGITS, &["sip:x@10.0.0.5"]);
    assert_eq!(only(sent).to(), "10.0.0.5:5060", "the administrator named it");
    for trusted in ["10.0.0.5", "203.0.113.9"] {
        let mut world = World::with(|config| {
            zones(config);
            config.auth.trusted = vec![trusted.parse().unwrap()];
        });
        call(&mut world, NUMBER);
        let sent = world.resolve_number(DIGITS, &[&format!("sip:+8812@{trusted}")]);
        assert_eq!(statuses(&sent), [404], "{trusted}: a trusted proxy may call anywhere for this server");
    }
}

#[test]
fn the_first_uri_that_may_be_called_is_called_and_no_other() {
    let mut world = World::with(zones);
    call(&mut world, NUMBER);
    let uris = ["sip:x@10.0.0.5", "sip:a@203.0.113.5", "sip:b@203.0.113.6"];
    let sent = only(world.resolve_number(DIGITS, &uris));
    assert_eq!(sent.uri(), "sip:a@203.0.113.5");
    assert_eq!(statuses(&world.udp(OUTSIDE, &sent.answer(480, &[]))), [480]);
    nothing_is_left(&mut world, "several URIs");
}

#[test]
fn a_redirection_of_a_records_host_is_passed_on() {
    let mut world = World::with(|config| (zones(config), config.recurse = true).1);
    call(&mut world, NUMBER);
    let sent = only(world.resolve_number(DIGITS, &["sip:a@203.0.113.5"]));
    let contact = "Contact: <sip:x@10.0.0.5>";
    let sent = world.udp(OUTSIDE, &sent.answer(302, &[contact]));
    assert_eq!(statuses(&sent), [302]);
    assert!(invites(sent).is_empty());
}

#[test]
fn a_record_of_our_domain_is_one_pass_and_asks_nothing_again() {
    for (user, status) in [("bob", None), ("+441632960083", Some(482)), ("+4499", Some(404))] {
        let mut world = World::with(zones);
        world.register("bob", BOB, "<sip:bob@192.0.2.20>");
        call(&mut world, NUMBER);
        let sent = only(world.resolve_number(DIGITS, &[&format!("sip:{user}@example.org")]));
        assert_eq!(sent.to(), "192.0.2.1:5060", "{user}: to this server");
        let sent = world.udp("192.0.2.1:5060", &sent.bytes);
        assert!(world.numbers.is_empty(), "{user}");
        match status {
            None => assert_eq!(forwarded(sent).to(), BOB),
            Some(status) => assert!(statuses(&sent).contains(&status), "{user} {:?}", statuses(&sent)),
        }
    }
}

#[test]
fn retransmissions_ask_once_and_a_cancel_ends_the_lookup() {
    let mut world = World::with(with_carriers);
    let first = invite(NUMBER);
    call(&mut world, NUMBER);
    for _ in 0..5 {
        assert_eq!(statuses(&world.udp(ALICE, &first)), [100]);
    }
    assert_eq!(world.numbers.len(), 1);
    let sent = world.udp(ALICE, &first.cancel());
    assert_eq!(statuses(&sent), [200, 487]);
    assert!(requests(world.resolve_number(DIGITS, &["sip:info@203.0.113.5"])).is_empty());
    nothing_is_left(&mut world, "a cancelled lookup");
}

#[test]
fn a_flood_of_lookups_is_bounded_by_memory_and_ends() {
    let mut world = World::with(with_carriers);
    let call = |number: u32| -> Request {
        invite(&format!("sip:+44{number:010}@example.org")).call_id(&format!("flood-{number}"))
    };
    let mut refused = 0;
    for number in 0..3000 {
        refused += usize::from(statuses(&world.udp(ALICE, &call(number))).contains(&503));
    }
    assert_eq!(world.numbers.len() + refused, 3000);
    nothing_is_left(&mut world, "lookups without answers");
}

#[test]
fn sips_stays_sips() {
    let mut world = World::with(|config| {
        zones(config);
        config.listeners[1].transport = ringway_sansio::Transport::Tls;
    });
    let flow = crate::harness::tcp_flow(7, ALICE);
    let flow = ringway_sansio::Flow { transport: ringway_sansio::Transport::Tls, ..flow };
    let request = Request { uri: NUMBER.replace("sip:", "sips:"), ..invite(NUMBER) };
    let via = format!("SIP/2.0/TLS {ALICE};branch=z9hG4bK");
    world.message(flow, &crate::harness::Wire::wire(&request.via(&via)));
    assert_eq!(world.numbers.len(), 1);
    let sent = world.resolve_number(DIGITS, &["sip:a@203.0.113.5"]);
    assert_eq!(statuses(&sent), [404]);
}

#[test]
fn a_number_without_a_record_whose_trunks_are_down_may_be_called_again_later() {
    let mut world = World::with(|config| {
        probed(config);
        zones(config);
    });
    // No trunk has answered an OPTIONS.
    call(&mut world, NUMBER);
    let refused = only(world.resolve_number(DIGITS, &[]));
    assert_eq!((refused.status(), refused.header("Retry-After").as_str()), (503, "30"));
    assert_eq!(world.server.counters().trunks_down, 1);
}
