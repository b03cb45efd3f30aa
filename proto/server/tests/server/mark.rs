//! A Record-Route mark in the hands of a stranger: it leads to the two sides of its dialog, for as long as it is good, and
//! nowhere else.

use crate::challenge::proven;
use crate::harness::{
    ALICE, BOB, CAROL, Request, STRANGER, Sent, World, forwarded, invite, only, request, requests, statuses,
};
use ringway_server::Config;
use std::time::Duration;

const EVE: &str = "sip:eve@example.net";

/// A server that asks for passwords, with bob at 192.0.2.20.
fn world(change: impl FnOnce(&mut Config)) -> World {
    let mut world = World::with(|config| {
        config.auth.enabled = true;
        config.auth.trusted.clear();
        change(config);
    });
    world.server.set_permanent_contacts(b"bob@example.org", &[b"sip:bob@192.0.2.20"]);
    world
}

/// A stranger calls bob, who rings: the INVITE as bob got it, and the 180 as the stranger got it.
fn rings(world: &mut World) -> (Sent, Sent) {
    let call = invite("sip:bob@example.org").from(EVE);
    let call = Request { lines: vec![format!("Contact: <sip:eve@{STRANGER}>")], ..call };
    let got = forwarded(world.udp(STRANGER, &call));
    let ringing = got.answer(180, &["Contact: <sip:bob@192.0.2.20>"]);
    let heard = only(world.udp(BOB, &ringing));
    (got, heard)
}

/// A request of the stranger's with the mark of its dialog.
fn with_mark(method: &str, target: &str, cseq: u32, heard: &Sent) -> Request {
    let mut request = request(method, target).from(EVE).to(&heard.header("To")).cseq(cseq);
    request.lines = vec![format!("Route: {}", heard.header("Record-Route"))];
    request
}

#[test]
fn a_mark_is_no_relay() {
    let methods =
        ["ACK", "BYE", "INFO", "UPDATE", "PRACK", "INVITE", "MESSAGE", "REFER", "NOTIFY", "OPTIONS"];
    let targets = [
        "sip:127.0.0.1:8060;transport=tcp",
        "sip:127.0.0.1:22",
        "sip:10.0.0.1",
        "sip:192.0.2.77",
        "sip:192.0.2.20:5061",
        "sip:192.0.2.20:5060;transport=tcp",
        "sip:x@203.0.113.66:80;transport=tcp",
    ];
    for in_dialog in [false, true] {
        let mut world = world(|config| config.auth.in_dialog = in_dialog);
        let (_, heard) = rings(&mut world);
        let mut cseq = 1;
        for method in methods {
            for target in targets {
                cseq += 1;
                let sent = world.udp(STRANGER, &with_mark(method, target, cseq, &heard));
                assert!(requests(sent).is_empty(), "{method} to {target}, in_dialog = {in_dialog}");
                assert!(world.lookups.is_empty());
                // A Route behind ours does not lead elsewhere either.
                cseq += 1;
                let mut routed = with_mark(method, "sip:bob@192.0.2.20", cseq, &heard);
                routed.lines.push(format!("Route: <{target};lr>"));
                assert!(requests(world.udp(STRANGER, &routed)).is_empty(), "{method} by Route to {target}");
            }
        }
    }
}

#[test]
fn a_mark_leads_to_the_other_side_by_every_method() {
    for in_dialog in [false, true] {
        let mut world = world(|config| config.auth.in_dialog = in_dialog);
        let (_, heard) = rings(&mut world);
        for (cseq, method) in
            (2..).zip(["PRACK", "UPDATE", "INFO", "INVITE", "REFER", "NOTIFY", "BYE", "ACK"])
        {
            let sent = world.udp(STRANGER, &with_mark(method, "sip:bob@192.0.2.20", cseq, &heard));
            assert_eq!(forwarded(sent).to(), BOB, "{method}");
        }
    }
}

/// What a caller without a password says of its contact is no reason to send there.
#[test]
fn a_strangers_contact_is_not_dialled() {
    for contact in ["sip:eve@127.0.0.1:8060;transport=tcp", "sip:eve@10.0.0.1", "sip:eve@203.0.113.66:22"] {
        let mut world = world(|_| {});
        let call = Request {
            lines: vec![format!("Contact: <{contact}>")],
            ..invite("sip:bob@example.org").from(EVE)
        };
        let got = forwarded(world.udp(STRANGER, &call));
        let answer = got.answer(200, &["Contact: <sip:bob@192.0.2.20>"]);
        let heard = only(world.udp(BOB, &answer));
        let mut bye = request("BYE", contact).to(&got.header("From")).cseq(2);
        bye.from = heard.header("To");
        bye.via = format!("SIP/2.0/UDP {BOB};rport;branch=z9hG4bK");
        bye.lines = vec![format!("Route: {}", got.header("Record-Route"))];
        // It goes to where the caller's responses go.
        assert_eq!(forwarded(world.udp(BOB, &bye)).to(), STRANGER, "{contact}");
    }
}

#[test]
fn a_mark_expires_unless_the_dialog_is_refreshed() {
    let mut world = world(|config| config.dialog_lifetime = Duration::from_secs(1000));
    let (_, heard) = rings(&mut world);
    let update = |cseq| with_mark("UPDATE", "sip:bob@192.0.2.20", cseq, &heard);
    let info = |cseq| with_mark("INFO", "sip:bob@192.0.2.20", cseq, &heard);
    world.pass(Duration::from_secs(900));
    assert_eq!(forwarded(world.udp(STRANGER, &update(2))).to(), BOB, "a target refresh");
    world.pass(Duration::from_secs(900));
    assert_eq!(forwarded(world.udp(STRANGER, &info(3))).to(), BOB, "it was refreshed");
    world.pass(Duration::from_secs(200));
    for (cseq, method) in (4..).zip(["INFO", "BYE", "INVITE", "ACK"]) {
        let late = with_mark(method, "sip:bob@192.0.2.20", cseq, &heard);
        assert!(requests(world.udp(STRANGER, &late)).is_empty(), "{method} after the end");
    }
}

#[test]
fn a_user_of_ours_reaches_a_moved_remote_target_with_its_password() {
    let mut world = world(|_| {});
    let call = invite("sip:bob@example.org");
    let got = forwarded(proven(&mut world, ALICE, &call, "alice"));
    let heard = only(world.udp(BOB, &got.answer(200, &["Contact: <sip:bob@192.0.2.20>"])));
    let mut bye = request("BYE", "sip:bob@192.0.2.77").to(&heard.header("To")).cseq(9);
    bye.lines = vec![format!("Route: {}", heard.header("Record-Route"))];
    assert_eq!(statuses(&world.udp(ALICE, &bye)), [407]);
    assert_eq!(forwarded(proven(&mut world, ALICE, &bye.cseq(10), "alice")).to(), "192.0.2.77:5060");
}

/// A trunk answers from one address and names another as its contact: the caller's mark leads there.
#[test]
fn the_remote_target_of_a_trunk_may_be_another_public_address() {
    for (contact, reached) in [
        ("sip:gw@192.0.2.78:5062", true),
        ("sip:gw@192.0.2.77:5099", true),
        ("sip:gw@127.0.0.1:8060;transport=tcp", false),
        ("sip:gw@10.0.0.7", false),
    ] {
        for stateful in [true, false] {
            let mut world = world(|config| config.stateful = stateful);
            let call = invite("sip:gw@192.0.2.77");
            let got = forwarded(proven(&mut world, ALICE, &call, "alice"));
            let answer = got.answer(200, &[&format!("Contact: <{contact}>")]);
            let heard = only(world.udp("192.0.2.77:5060", &answer));
            let mut ack = request("ACK", contact).to(&heard.header("To")).cseq(got_cseq(&got));
            ack.lines = vec![format!("Route: {}", heard.header("Record-Route"))];
            let sent = world.udp(ALICE, &ack);
            assert_eq!(!requests(sent).is_empty(), reached, "{contact}, stateful = {stateful}");
            // The trunk still has the mark that it got.
            let mut bye = request("BYE", &format!("sip:alice@{ALICE}")).to(&got.header("From")).cseq(3);
            bye.from = heard.header("To");
            bye.lines = vec![format!("Route: {}", got.header("Record-Route"))];
            assert_eq!(forwarded(world.udp("192.0.2.77:5060", &bye)).to(), ALICE);
        }
    }
}

fn got_cseq(got: &Sent) -> u32 {
    got.header("CSeq").split(' ').next().unwrap().parse().unwrap()
}

#[test]
fn a_strangers_claims_of_identity_are_removed() {
    let claims = [
        "P-Asserted-Identity: <sip:ceo@example.org>",
        "Remote-Party-ID: <sip:ceo@example.org>;party=calling",
        "Alert-Info: <http://example.net/ring>",
        "Call-Info: <http://example.net/photo>;purpose=icon",
    ];
    let mut world = world(|_| {});
    let call = claims.iter().fold(invite("sip:bob@example.org").from(EVE), |call, line| call.line(line));
    let names = ["P-Asserted-Identity", "Remote-Party-ID", "Alert-Info", "Call-Info"];
    let got = forwarded(world.udp(STRANGER, &call));
    assert!(names.iter().all(|name| got.headers(name).is_empty()), "{}", got.text());
    let call = claims.iter().fold(invite("sip:bob@example.org").call_id("own"), |call, line| call.line(line));
    let got = forwarded(proven(&mut world, ALICE, &call, "alice"));
    assert!(names.iter().all(|name| got.headers(name).len() == 1), "an authenticated caller keeps them");
}

/// A response counts only if it comes from where its request went.
#[test]
fn a_response_from_elsewhere_is_dropped() {
    for stateful in [true, false] {
        let mut world = world(|config| config.stateful = stateful);
        let got = forwarded(world.udp(STRANGER, &invite("sip:bob@example.org").from(EVE)));
        for from in [CAROL, STRANGER, ALICE] {
            assert!(world.udp(from, &got.answer(200, &[])).is_empty(), "from {from}");
        }
        assert_eq!(world.server.counters().responses_from_elsewhere, 3);
        assert_eq!(only(world.udp(BOB, &got.answer(180, &[]))).status(), 180);
    }
    let mut world = world(|_| {});
    let got = forwarded(world.udp(STRANGER, &invite("sip:bob@example.org").from(EVE)));
    let answer = String::from_utf8(got.answer(200, &[])).unwrap();
    let filled = answer.replacen(";rport;", ";rport=5060;received=192.0.2.1;", 1).into_bytes();
    assert!(
        world.udp("192.0.2.20:6000", &filled).is_empty(),
        "a peer that fills in rport answers from its port"
    );
    assert_eq!(
        only(world.udp("192.0.2.20:6000", &answer.into_bytes())).status(),
        200,
        "another one need not"
    );
}
