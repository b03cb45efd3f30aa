//! Tests of the redirect server (RFC 3261 §8.3).

use crate::challenge::proven;
use crate::harness::{
    ALICE, BOB, STRANGER, Wire, World, invite, only, register, request, requests, statuses,
};
use ringway_server::Mode;
use std::time::Duration;

fn world() -> World {
    let mut world = World::with(|config| config.mode = Mode::Redirect);
    let through = "Via: SIP/2.0/UDP 192.0.2.99;branch=z9hG4bKx";
    let contacts =
        "<sip:bob@192.0.2.20>;q=0.2, <sip:bob@192.0.2.21;transport=tcp>, <sip:bob@10.0.0.1>;q=0.75";
    assert_eq!(only(world.udp("192.0.2.99:5060", &register("bob", contacts).line(through))).status(), 200);
    world
}

#[test]
fn the_caller_gets_the_contacts_the_preferred_first() {
    let mut world = world();
    let response = only(world.udp(ALICE, &invite("sip:bob@example.org")));
    assert_eq!(response.start(), "SIP/2.0 302 Moved Temporarily");
    assert_eq!(
        response.headers("Contact"),
        [
            "<sip:bob@192.0.2.21;transport=tcp>;expires=3600",
            "<sip:bob@10.0.0.1>;q=0.750;expires=3600",
            "<sip:bob@192.0.2.20>;q=0.200;expires=3600"
        ]
    );
    world.server.set_permanent_contacts(b"carol@example.org", &[b"sip:carol@192.0.2.30"]);
    let response = only(world.udp(ALICE, &invite("sip:carol@example.org").call_id("permanent")));
    assert_eq!(response.headers("Contact"), ["<sip:carol@192.0.2.30>"], "a permanent contact does not end");
    assert!(response.header("To").contains(";tag="));
    assert_eq!((world.server.counters().redirected, world.server.counters().forwarded), (2, 0));
}

#[test]
fn a_redirected_invite_keeps_no_state_and_its_ack_is_ours() {
    let mut world = world();
    let call = invite("sip:bob@example.org");
    let response = only(world.udp(ALICE, &call));
    assert_eq!(
        only(world.udp(ALICE, &call)).bytes,
        response.bytes,
        "a retransmission gets the same response"
    );
    assert_eq!(world.server.transactions_len(), (0, 0));
    assert!(world.udp(ALICE, &call.ack_of(&response)).is_empty());
    assert!(world.pass(Duration::from_secs(64)).is_empty(), "nothing is retransmitted");
    assert_eq!(world.server.counters().stray, 0);
}

/// Ten contacts of 200 bytes exceed the allowance of a datagram of 300 bytes from an unverified address.
#[test]
fn a_stranger_gets_no_more_contacts_than_its_allowance_has_room_for() {
    let mut world = World::with(|config| {
        (config.mode, config.auth.enabled) = (Mode::Redirect, true);
        config.registrar.max_contacts = 10;
    });
    let contacts: Vec<String> =
        (0..10).map(|number| format!("sip:bob@192.0.2.20:{};x={}", 6000 + number, "y".repeat(180))).collect();
    let bytes: Vec<&[u8]> = contacts.iter().map(|contact| contact.as_bytes()).collect();
    world.server.set_permanent_contacts(b"bob@example.org", &bytes);
    let call = invite("sip:bob@example.org").from("sip:eve@example.net");
    let sent = call.wire().len();
    let response = only(world.udp(STRANGER, &call));
    assert!(
        response.status() == 302 && response.bytes.len() <= (3 * sent).max(800),
        "{} for {sent}",
        response.bytes.len()
    );
    assert!(!response.headers("Contact").is_empty());
    assert_eq!(world.server.counters().unverified_limited, 1);
    let own = only(crate::challenge::proven(
        &mut world,
        ALICE,
        &invite("sip:bob@example.org").call_id("own"),
        "alice",
    ));
    assert_eq!(own.headers("Contact").len(), 10, "an authenticated caller gets all");
}

#[test]
fn a_user_without_contacts_is_404_or_480_and_nothing_is_forwarded() {
    let mut world = world();
    for (uri, status) in [
        ("sip:ghost@example.org", 404),
        ("sip:alice@example.org", 480),
        ("sip:x@192.0.2.88", 404),
        ("sip:example.org", 404),
        ("tel:+1", 416),
    ] {
        for method in ["INVITE", "MESSAGE"] {
            let asked = request(method, uri).call_id(&format!("{method}{uri}")).to("<sip:x@example.org>");
            assert_eq!(only(world.udp(ALICE, &asked)).status(), status, "{uri}");
        }
    }
    let routed = invite("sip:bob@example.org").call_id("r").line("Route: <sip:192.0.2.77;lr>");
    assert_eq!(only(world.udp(ALICE, &routed)).status(), 404);
    assert_eq!(world.server.counters().forwarded, 0);
}

#[test]
fn a_302_never_has_the_request_uri() {
    let mut world = world();
    world.server.set_permanent_contacts(b"carol@example.org", &[b"sip:carol@example.org"]);
    assert_eq!(only(world.udp(ALICE, &invite("sip:carol@example.org"))).status(), 480);
    let spelled = invite("sip:%63arol@EXAMPLE.org").call_id("2");
    assert_eq!(only(world.udp(ALICE, &spelled)).status(), 480, "in any spelling");
}

#[test]
fn other_requests_are_redirected_and_a_cancel_answered() {
    let mut world = world();
    let response = only(world.udp(ALICE, &request("MESSAGE", "sip:bob@example.org")));
    assert_eq!((response.status(), response.headers("Contact").len()), (302, 3));
    let call = invite("sip:bob@example.org").call_id("c");
    let response = only(world.udp(ALICE, &call));
    assert_eq!(statuses(&world.udp(ALICE, &call.cancel())), [481], "nothing is pending");
    assert_eq!(statuses(&world.udp(ALICE, &call.clone().call_id("none").cancel())), [481]);
    assert!(world.udp(ALICE, &call.ack_of(&response)).is_empty());
    assert_eq!(only(world.udp(ALICE, &request("OPTIONS", "sip:example.org"))).status(), 200);
}

#[test]
fn our_users_prove_who_they_are_and_strangers_need_not() {
    let mut world = World::with(|config| {
        config.mode = Mode::Redirect;
        config.auth.enabled = true;
    });
    world.server.set_permanent_contacts(b"bob@example.org", &[b"sip:bob@192.0.2.20"]);
    let response = proven(&mut world, ALICE, &invite("sip:bob@example.org"), "alice");
    assert_eq!(statuses(&response), [302]);
    let stranger = invite("sip:bob@example.org").from("sip:eve@example.net").call_id("s");
    let response = world.udp(STRANGER, &stranger);
    assert_eq!(only(response).header("Contact"), "<sip:bob@192.0.2.20>");
    assert!(requests(world.udp(BOB, &invite("sip:x@192.0.2.88").from("sip:eve@example.net"))).is_empty());
}
