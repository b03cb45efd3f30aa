//! Tests of the overload control: what is refused in which order.

use crate::emergency::rescue;
use crate::harness::{
    ALICE, BOB, EDGE, Request, STRANGER, Wire, World, invite, only, register, request, statuses, tcp_flow,
    udp_flow,
};
use crate::neighbours::neighbour;
use crate::routes::{CARRIER_A, CARRIER_B, carriers};
use crate::trunk_registration::{first, incoming, registering};
use ringway_sansio::{Flow, Instant, PeerNames};
use ringway_server::{Config, Neighbour};
use std::time::Duration;

pub(crate) const TARGET: Duration = Duration::from_millis(20);
pub(crate) const MAX: Duration = Duration::from_millis(200);
pub(crate) const BOB_ADDRESS: &str = "192.0.2.20:5060";

/// Server with bindings of bob whose messages have waited for too long all the time.
fn overloaded() -> World {
    overloaded_with(|_| {})
}

pub(crate) fn overloaded_with(change: impl FnOnce(&mut Config)) -> World {
    let mut world = World::with(|config| {
        change(config);
        config.auth.enabled = false;
        under_overload(config);
    });
    world.register("bob", BOB, "<sip:bob@192.0.2.20>");
    fill(&mut world, udp_flow(STRANGER), |_| {});
    world
}

/// Switches the control on.
pub(crate) fn under_overload(config: &mut Config) {
    config.overload.enabled = true;
    (config.overload.target_delay, config.overload.max_delay) = (TARGET, MAX);
}

/// Lets each message of a flow wait for too long, for a time; with what comes meanwhile.
pub(crate) fn fill(world: &mut World, flow: Flow, mut meanwhile: impl FnMut(&mut World)) {
    for _ in 0..6 {
        world.pass(TARGET);
        let options = request("OPTIONS", "sip:example.org").from("sip:nobody@example.com");
        world.late_on(flow, &options.call_id("first"), TARGET * 3 / 2);
        meanwhile(world);
    }
}

fn late_statuses(world: &mut World, from: &str, message: &Request, targets: u32) -> Vec<u16> {
    statuses(&world.late(from, message, TARGET * targets + TARGET / 1000))
}

#[test]
fn what_is_worth_least_is_refused_first() {
    let mut world = overloaded();
    let options = request("OPTIONS", "sip:example.org").from("sip:nobody@example.com");
    let new = register("carol", "<sip:carol@192.0.2.30>");
    let call = invite("sip:bob@example.org").from("sip:alice@example.org");
    let refresh = register("bob", "<sip:bob@192.0.2.20>").cseq(9);
    let credentials =
        "Authorization: Digest username=\"x\", realm=\"y\", nonce=\"z\", uri=\"sip:x\", response=\"0\"";
    let by_worth = [
        options,
        new,
        call.clone(),
        refresh.clone(),
        call.clone().line(credentials),
        refresh.cseq(10).line(credentials),
    ];
    for (class, request) in by_worth.iter().enumerate() {
        let begins_at = class as u32 + 1;
        // Each class has sources of its own, because one that sends much is refused earlier.
        for (delay, is_refused) in [(begins_at + 1, true), (begins_at, false)] {
            let from = format!("198.51.{class}.{delay}:5060");
            let request = request.clone().call_id(&format!("{class}-{delay}"));
            let got = late_statuses(&mut world, &from, &request, delay);
            assert_eq!(got.contains(&503), is_refused, "class {class} after {delay} targets: {got:?}");
        }
    }
    assert_eq!(world.server.counters().overload_refused, 6);
}

#[test]
fn overload_is_of_a_queue() {
    let mut world = World::with(under_overload);
    let options = |id: &str| request("OPTIONS", "sip:example.org").from("sip:nobody@example.com").call_id(id);
    // Messages of a queue that is short do not end the overload of the long one.
    fill(&mut world, udp_flow(STRANGER), |world| {
        assert_eq!(statuses(&world.late_tcp(3, ALICE, &options("short").tcp(), Duration::ZERO)), [200]);
    });
    assert_eq!(late_statuses(&mut world, STRANGER, &options("long"), 3), [503]);
    // Nor does it begin one there.
    assert_eq!(statuses(&world.late_tcp(3, ALICE, &options("other").tcp(), TARGET * 3)), [200]);
    assert_eq!(statuses(&world.late(STRANGER, &options("again"), TARGET * 3)), [503]);
}

#[test]
fn a_pause_of_the_machine_refuses_nothing() {
    let mut world = World::with(|config| {
        config.overload.enabled = true;
        config.overload.target_delay = TARGET;
    });
    for pause in 0..20 {
        world.pass(Duration::from_secs(1));
        // All that came meanwhile is handled within a part of the pause.
        for number in 0..10_u32 {
            let options = request("OPTIONS", "sip:example.org").from("sip:nobody@example.com");
            let options = options.call_id(&format!("{pause}-{number}"));
            assert_eq!(late_statuses(&mut world, ALICE, &options, 30 - 2 * number), [200]);
            world.pass(Duration::from_millis(5));
        }
    }
    // Nor do single messages that waited, at any distance.
    for number in 0..20 {
        world.pass(TARGET * 2);
        let options = request("OPTIONS", "sip:example.org").call_id(&format!("single-{number}"));
        assert_eq!(statuses(&world.late(ALICE, &options, TARGET * 3 / 2)), [200]);
    }
}

#[test]
fn a_call_that_was_admitted_goes_on_and_ends() {
    let mut world = overloaded();
    let call = invite("sip:bob@example.org").from("sip:alice@example.org").call_id("admitted");
    let sent = world.udp(ALICE, &call);
    let forwarded = sent.iter().find(|sent| sent.to() == BOB_ADDRESS).expect("it is forwarded").clone();
    // A retransmission gets the response of its transaction, not another one.
    assert_eq!(late_statuses(&mut world, ALICE, &call, 50), [100]);
    let answer = forwarded.answer(200, &["Contact: <sip:bob@192.0.2.20>"]);
    let answered = only(world.late(BOB_ADDRESS, &answer, MAX * 2));
    for method in ["ACK", "INVITE", "BYE"] {
        let mut request = request(method, "sip:bob@192.0.2.20").cseq(7).call_id("admitted");
        request.from = answered.header("From");
        let request =
            request.to(&answered.header("To")).line(&format!("Route: {}", answered.header("Record-Route")));
        let sent = world.late(ALICE, &request, MAX * 2);
        assert!(sent.iter().any(|sent| sent.to() == BOB_ADDRESS), "{method}");
    }
    let second = invite("sip:bob@example.org").from("sip:alice@example.org").call_id("cancelled");
    world.udp(ALICE, &second);
    assert_eq!(statuses(&world.late(ALICE, &second.cancel(), MAX * 2))[0], 200);
    assert_eq!(world.server.counters().overload_dropped, 0);
}

#[test]
fn a_made_up_dialog_is_worth_nothing() {
    let mut world = overloaded();
    let made_up =
        request("BYE", "sip:bob@192.0.2.20").to("<sip:bob@example.org>;tag=made-up").call_id("made up");
    assert_eq!(late_statuses(&mut world, STRANGER, &made_up, 9), [503]);
    let ack = Request { method: "ACK".into(), ..made_up };
    assert!(world.late(STRANGER, &ack, TARGET * 9).is_empty());
    assert_eq!(world.server.counters().overload_dropped, 1);
}

#[test]
fn an_emergency_call_is_not_refused() {
    let mut world = overloaded_with(rescue);
    for (uri, is_refused) in
        [("sip:112@example.org", false), ("urn:service:SOS.fire", false), ("urn:service:sosx", true)]
    {
        let call = invite(uri).from("sip:alice@example.org").call_id(uri);
        assert_eq!(late_statuses(&mut world, ALICE, &call, 9).contains(&503), is_refused, "{uri}");
    }
    // More of them than one source may begin are requests as others.
    let flood = |number: u32| {
        invite("sip:112@example.org").from("sip:nobody@example.com").call_id(&format!("sos-{number}"))
    };
    let refused =
        (0..500).filter(|&number| late_statuses(&mut world, STRANGER, &flood(number), 9).contains(&503));
    assert!(refused.count() > 400);
    let options = request("OPTIONS", "sip:112@example.org").call_id("other method");
    assert_eq!(late_statuses(&mut world, BOB, &options, 9), [503], "only an INVITE begins a call");
}

#[test]
fn emergency_calls_from_forged_addresses_have_a_rate_in_common() {
    let mut world = overloaded_with(rescue);
    let call = |id: &str| invite("sip:112@example.org").from("sip:nobody@example.com").call_id(id);
    let mut refused = 0;
    for number in 0..600 {
        let from = format!("203.0.113.{}:{}", number % 250, 5060 + number / 250);
        let late = late_statuses(&mut world, &from, &call(&format!("forged {number}")), 9);
        refused += u32::from(late.contains(&503));
    }
    assert_eq!(refused, 400);
    assert_eq!(world.server.counters().emergencies_over_rate, 400);
    // The address of a connection is not forged.
    fill(&mut world, tcp_flow(3, ALICE), |_| {});
    let sent = world.late_tcp(3, ALICE, &call("connected").tcp(), TARGET * 9);
    assert!(!statuses(&sent).contains(&503), "{:?}", statuses(&sent));
    world.pass(Duration::from_secs(1));
    fill(&mut world, udp_flow(BOB), |_| {});
    assert!(!late_statuses(&mut world, ALICE, &call("a second later"), 9).contains(&503));
}

#[test]
fn the_ack_of_a_refusal_goes_nowhere_and_a_refusal_is_no_longer_than_its_request() {
    let mut world = overloaded();
    let call = invite("sip:bob@example.org").from("sip:nobody@example.com");
    let refused = only(world.late(STRANGER, &call, TARGET * 5));
    assert!(refused.bytes.len() <= call.wire().len() + 100, "{}", refused.text());
    assert!(world.udp(STRANGER, &call.ack_of(&refused)).is_empty());
    let times: std::collections::BTreeSet<_> = (0..100)
        .map(|number| {
            let call = call.clone().call_id(&format!("spread-{number}"));
            only(world.late(STRANGER, &call, TARGET * 5)).header("Retry-After")
        })
        .collect();
    assert!(times.len() > 4, "clients that are refused together do not return together: {times:?}");
}

#[test]
fn what_waited_much_too_long_is_dropped_when_refusing_takes_too_much() {
    let mut world = overloaded();
    fill(&mut world, tcp_flow(3, BOB), |_| {});
    let options = request("OPTIONS", "sip:example.org").from("sip:nobody@example.com");
    for number in 0..1_000 {
        let options = options.clone().call_id(&format!("one-of-many-{number}"));
        let sent = world.late(STRANGER, &options, MAX + TARGET);
        assert!(number > 0 || statuses(&sent) == [503], "few are answered");
    }
    let dropped = world.server.counters().overload_dropped;
    assert!(dropped > 500, "refusing so many takes too much: {dropped}");
    world.pass(Duration::from_millis(100));
    let over_tcp = |number: u32| options.clone().tcp().call_id(&format!("over-tcp-{number}"));
    let answered =
        (0..100).filter(|number| !world.late_tcp(3, STRANGER, &over_tcp(*number), MAX + TARGET).is_empty());
    assert!(answered.count() < 50, "over a stream, too");
    let register = register("bob", "<sip:bob@192.0.2.20>").tcp();
    assert_eq!(statuses(&world.late_tcp(3, BOB, &register, MAX + TARGET)), [503], "of others later");
}

#[test]
fn a_source_that_sends_much_is_refused_before_others_of_its_class() {
    let mut world = overloaded();
    let call = |number: u32| {
        invite("sip:bob@example.org").from("sip:alice@example.org").call_id(&format!("call-{number}"))
    };
    let mut refused = [0, 0];
    for number in 0..1_000 {
        world.pass(Duration::from_millis(1));
        let flooder = late_statuses(&mut world, STRANGER, &call(number), 3);
        refused[0] += u32::from(flooder.is_empty() || flooder.contains(&503));
        if number % 50 == 0 {
            let other = format!("198.18.7.{}:5060", number / 50);
            refused[1] +=
                u32::from(late_statuses(&mut world, &other, &call(10_000 + number), 3).contains(&503));
        }
    }
    assert!(refused[0] > 900 && refused[1] == 0, "{refused:?}");
}

/// Refused ones of a hundred calls that come at once over a flow under overload, from a caller that is no user.
fn refused_of_a_hundred(world: &mut World, flow: Flow, call: &Request, peer: Option<&PeerNames>) -> usize {
    fill(world, flow, |_| {});
    let call = call.clone().from("sip:+4912@carrier.example");
    let is_refused = |number: &u32| {
        let call = call.clone().call_id(&format!("{flow:?} {number}"));
        statuses(&world.late_of(flow, &call, TARGET * 3, peer)).contains(&503)
    };
    (0..100).filter(is_refused).count()
}

#[test]
fn a_server_that_the_configuration_names_has_no_share() {
    let mut world = overloaded_with(|config| {
        carriers(config);
        let mut trunks = config.trunking.trunks.edit();
        // One by its networks, the other by the address in its URI.
        trunks[0].networks = vec!["198.51.100.1".parse().unwrap()];
        trunks[1].networks.clear();
    });
    let call = invite("sip:bob@example.org");
    for (from, refused) in [(CARRIER_A, 0), (CARRIER_B, 0), (EDGE, 0), (STRANGER, 100)] {
        assert_eq!(refused_of_a_hundred(&mut world, udp_flow(from), &call, None), refused, "{from}");
    }
}

#[test]
fn a_carrier_that_calls_the_contact_of_its_trunk_has_no_share() {
    let mut world = overloaded_with(registering);
    let register = first(&mut world);
    // It calls from another address than that in its URI.
    let call = incoming(&register, "<sip:bob@example.org>", "call");
    assert_eq!(refused_of_a_hundred(&mut world, udp_flow("198.51.100.98:5060"), &call, None), 0);
    let guessed = invite("sip:acct@192.0.2.1;line=0123456789abcdef");
    assert_eq!(refused_of_a_hundred(&mut world, udp_flow("198.51.100.99:5060"), &guessed, None), 100);
}

#[test]
fn a_neighbour_has_no_share_by_its_connection_or_certificate() {
    let gate = "gate.example.net";
    let mut world = overloaded_with(|config| {
        let certificate = Some(gate.to_owned());
        config.neighbours.push(Neighbour { certificate, ..neighbour("sip:gate.example.net;transport=tcp") });
    });
    let probe = {
        let sent = world.due();
        assert!(sent.is_empty(), "its address is looked up first");
        only(world.resolve(gate, Some("198.51.100.5")))
    };
    world.message(tcp_flow(7, "198.51.100.5:5060"), &probe.answer(200, &[]));
    let call = invite("sip:bob@example.org").tcp();
    // The address is not in the configuration.
    let other = "198.51.100.5:40000";
    let names = |name: &str| PeerNames::new(vec![name.into()], Vec::new(), Instant::FAR).unwrap();
    for (connection, peer, refused) in
        [(7, None, 0), (8, None, 100), (9, Some(names(gate)), 0), (10, Some(names("other.example.net")), 100)]
    {
        let flow = tcp_flow(connection, other);
        let count = refused_of_a_hundred(&mut world, flow, &call, peer.as_ref());
        assert_eq!(count, refused, "connection {connection}");
    }
}

#[test]
fn overload_ends_a_second_after_the_last_refusal() {
    let mut world = overloaded();
    let options = |id: &str| request("OPTIONS", "sip:example.org").from("sip:nobody@example.com").call_id(id);
    assert_eq!(late_statuses(&mut world, STRANGER, &options("1"), 3), [503]);
    world.udp(STRANGER, &options("at once"));
    world.pass(Duration::from_millis(500));
    assert_eq!(late_statuses(&mut world, STRANGER, &options("2"), 3), [503], "shortly afterwards, at once");
    world.udp(STRANGER, &options("at once again"));
    world.pass(Duration::from_millis(1_500));
    assert_eq!(late_statuses(&mut world, STRANGER, &options("3"), 3), [200], "later, only if it lasts");
}
