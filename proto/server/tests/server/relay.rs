//! Tests of relaying: every method, from our users and from strangers, to our users and to others, against one table.
//! Nothing is relayed from strangers to strangers.

use crate::challenge::{Login, answered};
use crate::harness::{ALICE, BOB, EDGE, STRANGER, Sent, Wire, World, forwarded, only, request};
use ringway_sansio::{ConnectionId, Flow, ListenerId, Transport};
use ringway_server::{Listener, Strangers};
use std::fmt::Write;

const METHODS: [&str; 14] = [
    "INVITE",
    "ACK",
    "CANCEL",
    "BYE",
    "REGISTER",
    "OPTIONS",
    "PRACK",
    "UPDATE",
    "INFO",
    "MESSAGE",
    "SUBSCRIBE",
    "NOTIFY",
    "REFER",
    "PUBLISH",
];

/// Outcome of a request: `>` forwarded, `.` dropped, else the status code.
fn fate(sent: &[Sent]) -> String {
    if sent.iter().any(|sent| sent.status() == 0) {
        return ">".into();
    }
    sent.iter()
        .map(Sent::status)
        .find(|&status| status != 100)
        .map_or(".".into(), |status| status.to_string())
}

/// Outcomes of each method: out of a dialog, in an unknown dialog, and with alice's password.
fn table(from: &str, to: &str, change: fn(&mut ringway_server::Config)) -> String {
    let mut rows = String::new();
    for method in METHODS {
        let mut world = World::with(change);
        world.server.set_permanent_contacts(b"bob@example.org", &[b"sip:bob@192.0.2.20"]);
        let source = if from.ends_with("example.org") { ALICE } else { STRANGER };
        let plain = request(method, to).from(from).call_id(&format!("{method}-plain"));
        let tagged = plain.clone().to(&format!("<{to}>;tag=there")).call_id(&format!("{method}-tagged"));
        let first = world.udp(source, &plain);
        let proven = match first.iter().find(|sent| matches!(sent.status(), 401 | 407)) {
            Some(challenge) => {
                let login = Login::to(challenge, "alice");
                fate(
                    &world
                        .udp(source, &answered(&plain.clone().call_id(&format!("{method}-proven")), &login)),
                )
            }
            None => "-".into(),
        };
        let in_dialog = fate(&world.udp(source, &tagged));
        write!(rows, "{method} {} {in_dialog} {proven}, ", fate(&first)).unwrap();
    }
    rows.trim_end_matches(", ").into()
}

const OURS: &str = "sip:alice@example.org";
const THEIRS: &str = "sip:eve@example.net";
const TO_US: &str = "sip:bob@example.org";
const TO_OTHERS: &str = "sip:x@192.0.2.88";

fn closed(config: &mut ringway_server::Config) {
    config.auth.enabled = true;
}

fn open(_: &mut ringway_server::Config) {}

#[track_caller]
fn is(from: &str, to: &str, change: fn(&mut ringway_server::Config), golden: &str) {
    let golden = golden.split(',').map(str::trim).collect::<Vec<_>>().join(", ");
    assert_eq!(table(from, to, change), golden);
}

#[test]
fn with_passwords_our_users_prove_who_they_are_to_call_each_other() {
    is(
        OURS,
        TO_US,
        closed,
        "INVITE 407 407 >, ACK > > -, CANCEL 481 481 -, BYE 407 407 >, REGISTER 401 401 403, \
         OPTIONS 407 407 >, PRACK 407 407 >, UPDATE 407 407 >, INFO 407 407 >, MESSAGE 407 407 >, \
         SUBSCRIBE 407 407 >, NOTIFY 407 407 >, REFER 407 407 >, PUBLISH 407 407 >",
    );
}

#[test]
fn with_passwords_our_users_prove_who_they_are_to_call_others() {
    is(
        OURS,
        TO_OTHERS,
        closed,
        "INVITE 407 407 >, ACK . . -, CANCEL 481 481 -, BYE 407 407 >, REGISTER 407 407 >, \
         OPTIONS 407 407 >, PRACK 407 407 >, UPDATE 407 407 >, INFO 407 407 >, MESSAGE 407 407 >, \
         SUBSCRIBE 407 407 >, NOTIFY 407 407 >, REFER 407 407 >, PUBLISH 407 407 >",
    );
}

#[test]
fn with_passwords_strangers_call_our_users_and_do_nothing_else() {
    is(
        THEIRS,
        TO_US,
        closed,
        "INVITE > > -, ACK > > -, CANCEL 481 481 -, BYE 407 407 >, REGISTER 401 401 403, OPTIONS > > -, \
         PRACK 407 407 >, UPDATE 407 407 >, INFO 407 407 >, MESSAGE 407 407 >, SUBSCRIBE 407 407 >, \
         NOTIFY 407 407 >, REFER 407 407 >, PUBLISH 407 407 >",
    );
}

#[test]
fn strangers_reach_our_users_by_every_method_where_that_is_configured() {
    is(
        THEIRS,
        TO_US,
        |config| (config.auth.enabled, config.auth.strangers) = (true, Strangers::All),
        "INVITE > > -, ACK > > -, CANCEL 481 481 -, BYE > > -, REGISTER 401 401 403, OPTIONS > > -, \
         PRACK > > -, UPDATE > > -, INFO > > -, MESSAGE > > -, SUBSCRIBE > > -, NOTIFY > > -, \
         REFER > > -, PUBLISH > > -",
    );
}

#[test]
fn strangers_reach_nobody_where_that_is_configured() {
    is(
        THEIRS,
        TO_US,
        |config| (config.auth.enabled, config.auth.strangers) = (true, Strangers::None),
        "INVITE 407 407 >, ACK . . -, CANCEL 481 481 -, BYE 407 407 >, REGISTER 401 401 403, \
         OPTIONS 407 407 >, PRACK 407 407 >, UPDATE 407 407 >, INFO 407 407 >, MESSAGE 407 407 >, \
         SUBSCRIBE 407 407 >, NOTIFY 407 407 >, REFER 407 407 >, PUBLISH 407 407 >",
    );
}

#[test]
fn with_passwords_strangers_reach_no_strangers() {
    is(
        THEIRS,
        TO_OTHERS,
        closed,
        "INVITE 403 403 -, ACK . . -, CANCEL 481 481 -, BYE 403 403 -, REGISTER 403 403 -, \
         OPTIONS 403 403 -, PRACK 403 403 -, UPDATE 403 403 -, INFO 403 403 -, MESSAGE 403 403 -, \
         SUBSCRIBE 403 403 -, NOTIFY 403 403 -, REFER 403 403 -, PUBLISH 403 403 -",
    );
}

#[test]
fn without_passwords_our_users_call_each_other() {
    is(
        OURS,
        TO_US,
        open,
        "INVITE > > -, ACK > > -, CANCEL 481 481 -, BYE > > -, REGISTER 200 200 -, OPTIONS > > -, \
         PRACK > > -, UPDATE > > -, INFO > > -, MESSAGE > > -, SUBSCRIBE > > -, NOTIFY > > -, \
         REFER > > -, PUBLISH > > -",
    );
}

#[test]
fn without_passwords_our_users_call_others() {
    is(
        OURS,
        TO_OTHERS,
        open,
        "INVITE > > -, ACK > > -, CANCEL 481 481 -, BYE > > -, REGISTER > > -, OPTIONS > > -, \
         PRACK > > -, UPDATE > > -, INFO > > -, MESSAGE > > -, SUBSCRIBE > > -, NOTIFY > > -, \
         REFER > > -, PUBLISH > > -",
    );
}

#[test]
fn without_passwords_strangers_reach_our_users() {
    is(
        THEIRS,
        TO_US,
        open,
        "INVITE > > -, ACK > > -, CANCEL 481 481 -, BYE > > -, REGISTER 200 200 -, OPTIONS > > -, \
         PRACK > > -, UPDATE > > -, INFO > > -, MESSAGE > > -, SUBSCRIBE > > -, NOTIFY > > -, \
         REFER > > -, PUBLISH > > -",
    );
}

#[test]
fn without_passwords_strangers_reach_no_strangers() {
    is(
        THEIRS,
        TO_OTHERS,
        open,
        "INVITE 403 403 -, ACK . . -, CANCEL 481 481 -, BYE 403 403 -, REGISTER 403 403 -, \
         OPTIONS 403 403 -, PRACK 403 403 -, UPDATE 403 403 -, INFO 403 403 -, MESSAGE 403 403 -, \
         SUBSCRIBE 403 403 -, NOTIFY 403 403 -, REFER 403 403 -, PUBLISH 403 403 -",
    );
}

/// A Route to a third host would be relaying too.
#[test]
fn a_route_to_a_third_host_is_for_our_users() {
    for route in ["<sip:192.0.2.77;lr>", "<sip:example.org;lr>, <sip:192.0.2.77;lr>", "<sip:192.0.2.77>"] {
        for (change, from, expected) in [
            (closed as fn(&mut _), THEIRS, "403"),
            (open, THEIRS, "403"),
            (closed, OURS, "407"),
            (open, OURS, ">"),
        ] {
            for method in ["INVITE", "MESSAGE", "BYE", "OPTIONS", "REGISTER"] {
                let mut world = World::with(change);
                let request = request(method, TO_US).from(from).line(&format!("Route: {route}"));
                assert_eq!(fate(&world.udp(STRANGER, &request)), expected, "{method} {route} {from}");
            }
            let ack = request("ACK", TO_US).from(from).line(&format!("Route: {route}"));
            let expected = if expected == ">" { ">" } else { "." };
            assert_eq!(fate(&World::with(change).udp(STRANGER, &ack)), expected);
        }
    }
}

/// A From with a port, or a dot at its end, looks like a user of ours.
#[test]
fn a_from_of_ours_is_challenged_in_every_spelling() {
    for from in ["sip:alice@example.org:7777", "sip:alice@example.org.", "sip:alice@EXAMPLE.org"] {
        for target in [TO_US, TO_OTHERS] {
            let mut world = World::with(closed);
            assert_ne!(fate(&world.udp(STRANGER, &request("INVITE", target).from(from))), ">", "{from}");
        }
    }
}

/// Similar names are not domains of ours.
#[test]
fn a_similar_domain_is_a_stranger() {
    for from in [
        "sip:alice@example.org.example.net",
        "sip:alice@notexample.org",
        "sip:example.org@example.net",
        "tel:+123",
        "http://example.org",
    ] {
        let mut world = World::with(open);
        assert_eq!(fate(&world.udp(STRANGER, &request("INVITE", TO_OTHERS).from(from))), "403", "{from}");
    }
    for to in
        ["sip:bob@EXAMPLE.ORG", "sip:bob@example.org:5060", "sip:bob@192.0.2.1", "sip:bob@192.0.2.1:5060"]
    {
        let mut world = World::with(open);
        world.server.set_permanent_contacts(b"bob@example.org", &[b"sip:bob@192.0.2.20"]);
        assert_eq!(fate(&world.udp(STRANGER, &request("INVITE", to).from(THEIRS))), ">", "{to}");
    }
}

/// A browser at a trusted address runs pages of any site.
#[test]
fn the_address_of_a_page_proves_nothing() {
    let mut world = World::with(|config| {
        config.auth.enabled = true;
        let address = "192.0.2.1:5062".parse().unwrap();
        config.listeners.push(Listener { transport: Transport::Ws, bound: address, advertised: address });
    });
    world.server.set_permanent_contacts(b"bob@example.org", &[b"sip:bob@192.0.2.20"]);
    let message = request("MESSAGE", "sip:bob@example.org").from("sip:alice@example.org");
    assert_eq!(forwarded(world.udp(EDGE, &message)).to(), BOB, "a trusted proxy");
    let page = Flow {
        connection: Some(ConnectionId(9)),
        ..Flow::new(Transport::Ws, ListenerId(3), EDGE.parse().unwrap())
    };
    let from_page = message.call_id("page").via("SIP/2.0/WS x.invalid;branch=z9hG4bK");
    assert_eq!(only(world.message(page, &from_page.wire())).status(), 407);
}
