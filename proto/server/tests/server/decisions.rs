//! Tests of decisions: what the server decides about a request, each with its reason.

use crate::challenge::{Login, answered};
use crate::harness::{
    ALICE, BOB, CAROL, STRANGER, Sent, World, forwarded, invite, only, query, register, request, requests,
};
use crate::routes::{CARRIER_A, carriers};
use ringway_server::{
    BlockPattern, Condition, Config, Destination, DestinationRule, DestinationRules, ForwardUri, Forwards,
    Mode,
};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// World whose decisions are wanted.
fn traced(change: impl FnOnce(&mut Config)) -> World {
    let world = World::with(change);
    world.memory.is_tracing.store(true, Ordering::Relaxed);
    world
}

/// Decisions since the last call.
fn decisions(world: &World) -> Vec<String> {
    std::mem::take(&mut world.memory.decisions.lock().unwrap())
}

#[track_caller]
fn decided(world: &World, expected: &[&str]) {
    assert_eq!(decisions(world), expected);
}

/// World with bob registered at two phones, and no decisions.
fn with_phones(change: impl FnOnce(&mut Config)) -> World {
    let mut world = traced(change);
    world.register("bob", BOB, "<sip:bob@192.0.2.20>");
    world.register("bob", CAROL, "<sip:bob@192.0.2.30>;q=0.5");
    decisions(&world);
    world
}

#[test]
fn nothing_is_decided_aloud_without_a_trace() {
    let mut world = World::open();
    world.register("bob", BOB, "<sip:bob@192.0.2.20>");
    world.udp(ALICE, &invite("sip:bob@example.org"));
    decided(&world, &[]);
}

#[test]
fn a_login_says_why_it_is_challenged_and_how_it_is_accepted() {
    let mut world = traced(|config| config.auth.enabled = true);
    let own = register("bob", "<sip:bob@192.0.2.20>").call_id("own");
    let login = Login::to(&only(world.udp(BOB, &own)), "bob");
    decided(&world, &["challenged: no credentials (realm: example.org)"]);
    let wrong = Login { password: "wrong".into(), ..login.clone() };
    world.udp(BOB, &answered(&own, &wrong));
    decided(&world, &["challenged again: the password of the user is wrong (bob)"]);
    let unknown = Login { user: "böb".into(), ..login.clone() };
    world.udp(BOB, &answered(&own, &unknown));
    decided(&world, &["challenged again: there is no such user (b\\xc3\\xb6b)"]);
    world.udp(BOB, &answered(&own, &login));
    decided(&world, &["login accepted (MD5)", "binding added (sip:bob@192.0.2.20, expires in 3600 s)"]);
    let others = register("alice", "<sip:alice@192.0.2.20>").call_id("others");
    world.udp(BOB, &answered(&others, &login.clone().nc(2)));
    decided(&world, &["login accepted (MD5)", "refused: the password is that of another user (bob)"]);
    world.pass(Duration::from_secs(301));
    world.udp(BOB, &answered(&query("bob").call_id("later"), &login.nc(3)));
    decided(&world, &["challenged: its nonce is too old or was used before (realm: example.org)"]);
}

#[test]
fn a_register_says_what_it_changes() {
    let mut world = traced(|_| {});
    let at = |cseq, contact: &str| register("bob", contact).call_id("one").cseq(cseq);
    for (request, said) in [
        (at(1, "<sip:bob@192.0.2.20>"), "binding added (sip:bob@192.0.2.20, expires in 3600 s)"),
        (
            at(2, "<sip:bob@192.0.2.20>;expires=600"),
            "binding refreshed (sip:bob@192.0.2.20, expires in 600 s)",
        ),
        (
            at(3, "<sip:bob@192.0.2.20>;expires=5"),
            "refused: it asks for less than [registrar] min_expires_s (60 s)",
        ),
        (at(4, "<tel:+44123>"), "refused (400 Contact Is No SIP URI)"),
        (at(5, "<sip:bob@192.0.2.20>;expires=0"), "binding removed (<sip:bob@192.0.2.20>;expires=0)"),
        (query("bob").call_id("one").cseq(6), "bindings listed: it has no Contact"),
    ] {
        world.udp(BOB, &request);
        decided(&world, &[said]);
    }
}

#[test]
fn a_call_says_why_it_may_pass_and_where_it_goes() {
    let mut world = with_phones(|config| config.serial_fork = Duration::from_secs(20));
    let call = invite("sip:bob@example.org").call_id("call");
    let first = forwarded(world.udp(ALICE, &call));
    decided(
        &world,
        &[
            "admitted: [auth] enabled is false",
            "calls the phones of the user (2)",
            "sent to a next hop (udp:192.0.2.20:5060)",
        ],
    );
    world.udp(ALICE, &call);
    decided(&world, &["absorbed: it is a retransmission"]);
    world.udp(BOB, &first.answer(180, &[]));
    world.pass(Duration::from_secs(20));
    decided(
        &world,
        &[
            "gives up these phones or this trunk: no answer in time",
            "tries the next phones or trunk (1)",
            "sent to a next hop (udp:192.0.2.30:5060)",
        ],
    );
    world.udp(ALICE, &call.cancel());
    decided(&world, &["ended: the caller cancelled it"]);
    world.udp(ALICE, &invite("sip:bob@example.org").call_id("other").cancel());
    decided(&world, &["refused: it cancels no request that waits for an answer"]);
}

#[test]
fn the_best_response_timer_c_and_a_silent_phone_are_decisions() {
    let mut world = with_phones(|_| {});
    let sent = requests(world.udp(ALICE, &invite("sip:bob@example.org").call_id("busy")));
    decisions(&world);
    for sent in &sent {
        world.udp(&sent.to(), &sent.answer(486, &[]));
    }
    decided(&world, &["tries the next phones or trunk (1)", "sent to a next hop (udp:192.0.2.30:5060)"]);
    let mut world = traced(|_| {});
    world.register("bob", BOB, "<sip:bob@192.0.2.20>");
    world.udp(ALICE, &invite("sip:bob@example.org").call_id("silent"));
    decisions(&world);
    world.pass(Duration::from_secs(40));
    decided(
        &world,
        &[
            "the next hop did not answer in time",
            "answered with the best response of all targets (408 Request Timeout)",
        ],
    );
    let ringing = forwarded(world.udp(ALICE, &invite("sip:bob@example.org").call_id("rings")));
    world.udp(BOB, &ringing.answer(180, &[]));
    decisions(&world);
    world.pass(Duration::from_secs(182));
    assert_eq!(decisions(&world).first().unwrap(), "ended: no final response in time (timer C)");
}

#[test]
fn each_refusal_has_its_reason() {
    let mut world = with_phones(|_| {});
    let request = |call_id: &str| request("MESSAGE", "sip:bob@example.org").call_id(call_id);
    let mut hops = request("hops");
    hops.max_forwards = Some(0);
    let mut relayed = request("relayed").from("sip:mallory@evil.example");
    relayed.uri = "sip:victim@elsewhere.example".into();
    for (request, said) in [
        (hops, "refused: it has passed too many hops (483 Too Many Hops)"),
        (
            request("ext").line("Proxy-Require: x-new"),
            "refused: it requires an extension that is not supported (x-new)",
        ),
        (relayed, "refused: it is not permitted (403 Relaying Denied)"),
    ] {
        world.udp(STRANGER, &request);
        decided(&world, &[said]);
    }
    for (user, said) in [
        ("nobody", "refused: there is no such user, number or route (404 Not Found)"),
        ("carol", "refused: the user has no phone that can be reached (480 Temporarily Unavailable)"),
    ] {
        world.udp(ALICE, &invite(&format!("sip:{user}@example.org")).call_id(user));
        decided(&world, &["admitted: [auth] enabled is false", said]);
    }
    world.udp(ALICE, &b"INVITE sip:bob@example.org SIP/2.0\r\nFrom: x\r\n\r\n".to_vec());
    let malformed = decisions(&world);
    assert!(
        malformed.len() == 1 && malformed[0].starts_with("refused: it is malformed (400 "),
        "{malformed:?}"
    );
}

#[test]
fn a_blocked_caller_and_a_source_over_its_rate_are_decisions() {
    let mut world = with_phones(|_| {});
    let pattern = BlockPattern::caller("mallory@evil.example").unwrap();
    world.memory.tables().change_blocks(|list| list.set_all([pattern]));
    world.udp(STRANGER, &invite("sip:bob@example.org").from("sip:mallory@evil.example"));
    decided(&world, &["refused: the block list has its caller (sip:mallory@evil.example)"]);
    let mut world = World::limited(1);
    world.memory.is_tracing.store(true, Ordering::Relaxed);
    for call_id in ["1", "2"] {
        world.udp(STRANGER, &invite("sip:nobody@example.org").call_id(call_id));
    }
    let last = decisions(&world).pop();
    assert_eq!(last.as_deref(), Some("refused: its source sends more than [limits] per_source_rate"));
}

#[test]
fn a_forward_says_its_condition_and_its_target() {
    let forwards = |uri: &str| Some(ForwardUri::new(uri).unwrap());
    for (forwards, condition) in [
        (Forwards { always: forwards("sip:carol@example.org"), ..Forwards::default() }, Condition::Always),
        (Forwards { busy: forwards("sip:carol@example.org"), ..Forwards::default() }, Condition::Busy),
        (
            Forwards { unregistered: forwards("sip:carol@example.org"), ..Forwards::default() },
            Condition::Unregistered,
        ),
    ] {
        let mut world = traced(|_| {});
        if condition == Condition::Busy {
            world.register("bob", BOB, "<sip:bob@192.0.2.20>");
        }
        world.server.set_forwards(b"bob@example.org", forwards);
        let sent: Vec<Sent> = requests(world.udp(ALICE, &invite("sip:bob@example.org")));
        if condition == Condition::Busy {
            world.udp(BOB, &sent[0].answer(486, &[]));
        }
        let said = match condition {
            Condition::Always => "forwarded: the user forwards all calls (sip:carol@example.org",
            Condition::Busy => "forwarded: the user is busy (sip:carol@example.org",
            Condition::NoAnswer | Condition::Unregistered => {
                "forwarded: the user has no phone that can be reached (sip:carol@example.org"
            }
        };
        let all = decisions(&world);
        assert_eq!(all.iter().filter(|one| one.starts_with(said)).count(), 1, "{all:?}");
    }
}

#[test]
fn a_route_names_its_trunks_and_a_destination_rule_its_prefix() {
    let mut world = traced(carriers);
    let first = forwarded(world.udp(ALICE, &invite("sip:+441234@example.org").call_id("1")));
    assert_eq!(first.to(), CARRIER_A);
    decided(
        &world,
        &[
            "admitted: [auth] enabled is false",
            "has a route to a trunk (carrier-a)",
            "has a route to a trunk (carrier-b)",
            "sent to a next hop (udp:198.51.100.1:5060)",
        ],
    );
    let mut world = traced(|config| {
        carriers(config);
        let rule = Destination { prefix: "+44".into(), rule: DestinationRule::Deny };
        config.trunking.destinations = DestinationRules::new(vec![rule]).unwrap();
    });
    world.udp(ALICE, &invite("sip:+441234@example.org").call_id("1"));
    decided(
        &world,
        &[
            "admitted: [auth] enabled is false",
            "refused: a destination rule forbids the number (+441234: +44)",
        ],
    );
}

#[test]
fn a_lookup_says_what_it_asks_and_finds() {
    let mut world = traced(|_| {});
    world.server.set_permanent_contacts(b"bob@example.org", &[b"sip:bob@gate.example.net"]);
    world.udp(ALICE, &invite("sip:bob@example.org").call_id("1"));
    assert_eq!(decisions(&world).last().unwrap(), "looks up the servers of a host (gate.example.net)");
    let first = only(world.resolve_to("gate.example.net", &["192.0.2.41:5060", "192.0.2.42:5060"]));
    decided(&world, &["found servers (2)", "sent to a next hop (udp:192.0.2.41:5060)"]);
    world.udp("192.0.2.41:5060", &first.answer(503, &[]));
    decided(&world, &["tries the next server of the host", "sent to a next hop (udp:192.0.2.42:5060)"]);
    world.udp(ALICE, &invite("sip:bob@example.org").call_id("2"));
    decisions(&world);
    world.resolve("gate.example.net", None);
    decided(
        &world,
        &[
            "found no server that can be reached",
            "answered with the best response of all targets (480 Temporarily Unavailable)",
        ],
    );
}

#[test]
fn a_redirect_server_says_that_it_redirects() {
    let mut world = with_phones(|config| config.mode = Mode::Redirect);
    world.udp(ALICE, &invite("sip:bob@example.org"));
    decided(
        &world,
        &[
            "admitted: [auth] enabled is false",
            "answered with the addresses of the user: [routing] mode is redirect (2)",
        ],
    );
}
