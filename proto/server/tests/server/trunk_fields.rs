//! Tests of what a trunk gets of strangers: header fields and methods of a call.

use crate::challenge::proven;
use crate::forwards::{always, settle};
use crate::harness::{
    ALICE, EDGE, Request, STRANGER, Sent, World, forwarded, invite, only, request, statuses,
};
use crate::routes::{CARRIER_A, carriers};
use ringway_server::{Config, Strangers};

const EVE: &str = "sip:eve@example.net";

/// Fields that a call does not need; some change what a carrier bills, whom it puts through, or how a phone rings.
const FOREIGN: [&str; 16] = [
    "P-Charge-Info: <sip:ceo@example.org>;npi=ISDN",
    "Resource-Priority: ets.0",
    "Answer-Mode: Auto;require",
    "Priv-Answer-Mode: Auto",
    "P-Preferred-Identity: <sip:ceo@example.org>",
    "P-Asserted-Identity: <sip:ceo@example.org>",
    "p-charging-vector: icid-value=1",
    "X-Account: 1",
    "Geolocation: <cid:x>",
    "Priority: emergency",
    "Replaces: x;to-tag=1;from-tag=2",
    "r: <sip:+881@x>",
    "b: <sip:boss@example.org>",
    "Authorization: Digest username=\"x\", realm=\"carrier\", nonce=\"n\", uri=\"sip:x\", response=\"00112233445566778899aabbccddeeff\"",
    "Subject: hello",
    "Accept-Contact: *;automata",
];

const OF_A_CALL: [&str; 6] = [
    "k: timer, 100rel",
    "x: 1800",
    "min-se: 90",
    "Identity: abc;info=<https://example.net/c>;alg=ES256",
    "Privacy: id",
    "Content-Disposition: session",
];

fn open(config: &mut Config) {
    carriers(config);
    config.auth.enabled = true;
    config.auth.trusted.clear();
}

/// Bob forwards all calls to a number.
fn world(change: impl FnOnce(&mut Config)) -> World {
    let mut world = World::with(|config| {
        open(config);
        change(config);
    });
    world.server.set_forwards(b"bob@example.org", always("sip:+441234@example.org"));
    world
}

fn with_fields(call: Request) -> Request {
    FOREIGN.iter().chain(&OF_A_CALL).fold(call, |call, line| call.line(line))
}

fn strangers_call() -> Request {
    let call = invite("sip:bob@example.org").from(EVE);
    Request {
        lines: vec![format!("Contact: <sip:eve@{STRANGER}>")],
        via: format!("SIP/2.0/UDP {STRANGER};rport;branch=z9hG4bK"),
        ..call
    }
}

/// The names of fields in `lines` that `sent` has, with the value of the line.
fn found<'l>(sent: &Sent, lines: &[&'l str]) -> Vec<&'l str> {
    let text = sent.text();
    let has = |line: &&&str| text.lines().any(|sent| sent.eq_ignore_ascii_case(line));
    lines.iter().filter(has).copied().collect()
}

#[test]
fn a_trunk_gets_only_fields_of_a_call_from_a_stranger() {
    let mut world = world(|_| {});
    let sent = forwarded(world.udp(STRANGER, &with_fields(strangers_call())));
    assert_eq!(sent.to(), CARRIER_A);
    assert_eq!(found(&sent, &FOREIGN), [""; 0], "{}", sent.text());
    assert_eq!(found(&sent, &OF_A_CALL), OF_A_CALL, "{}", sent.text());
    for name in ["P-Asserted-Identity", "Diversion", "History-Info", "Record-Route", "Max-Forwards"] {
        assert!(!sent.headers(name).is_empty(), "{name} of ours stays: {}", sent.text());
    }
    // The same in the dialog.
    let answer = sent.answer_tagged(200, "trunks", &["Contact: <sip:+441234@198.51.100.1:5060>"]);
    let ok = only(world.udp(CARRIER_A, &answer));
    for (cseq, method) in [(1, "ACK"), (2, "INVITE"), (3, "UPDATE"), (4, "INFO"), (5, "BYE")] {
        let mut again = request(method, "sip:+441234@198.51.100.1:5060").cseq(cseq).to(&ok.header("To"));
        again.from = ok.header("From");
        again.via = format!("SIP/2.0/UDP {STRANGER};rport;branch=z9hG4bK");
        again.lines = vec![format!("Route: {}", ok.header("Record-Route"))];
        let again = again.line(&format!("Contact: <sip:eve@{STRANGER}>"));
        let sent = forwarded(world.udp(STRANGER, &with_fields(again)));
        assert_eq!(sent.to(), CARRIER_A, "{method}");
        assert_eq!(found(&sent, &FOREIGN), [""; 0], "{method} {}", sent.text());
        assert_eq!(found(&sent, &OF_A_CALL), OF_A_CALL, "{method} {}", sent.text());
    }
}

/// The server sends a request to itself for the second user, and has accepted it then.
#[test]
fn a_trunk_gets_no_others_after_the_forward_to_another_user() {
    let mut world = world(|_| {});
    world.server.set_forwards(b"alice@example.org", always("sip:bob@example.org"));
    let to_alice = |mut call: Request| {
        call.uri = "sip:alice@example.org".into();
        with_fields(call)
    };
    let sent = world.udp(STRANGER, &to_alice(strangers_call()));
    let sent = forwarded(settle(&mut world, sent));
    assert_eq!(sent.to(), CARRIER_A);
    assert_eq!(found(&sent, &FOREIGN), [""; 0], "{}", sent.text());
    assert_eq!(found(&sent, &OF_A_CALL), OF_A_CALL, "{}", sent.text());
    let sent =
        proven(&mut world, ALICE, &to_alice(invite("sip:alice@example.org").call_id("of a user")), "alice");
    let sent = forwarded(settle(&mut world, sent));
    assert!(found(&sent, &[FOREIGN[0], FOREIGN[4], FOREIGN[6]]).is_empty(), "{}", sent.text());
}

#[test]
fn users_name_no_other_payer_and_trusted_proxies_may() {
    let mut world = world(|config| config.auth.trusted = vec!["192.0.2.99".parse().unwrap()]);
    let call = || with_fields(invite("sip:+441234@example.org"));
    let sent = forwarded(proven(&mut world, ALICE, &call(), "alice"));
    let removed: Vec<_> = FOREIGN.iter().filter(|line| !found(&sent, &FOREIGN).contains(line)).collect();
    let names: Vec<_> = removed.iter().map(|line| line.split(':').next().unwrap()).collect();
    assert_eq!(names, ["P-Charge-Info", "P-Preferred-Identity", "P-Asserted-Identity", "p-charging-vector"]);
    // The same in the dialog.
    let ok =
        only(world.udp(
            CARRIER_A,
            &sent.answer_tagged(200, "trunks", &["Contact: <sip:+441234@198.51.100.1:5060>"]),
        ));
    let mut again = request("INVITE", "sip:+441234@198.51.100.1:5060").cseq(9).to(&ok.header("To"));
    (again.from, again.via) = (ok.header("From"), format!("SIP/2.0/UDP {ALICE};rport;branch=z9hG4bK"));
    again.lines = vec![format!("Route: {}", ok.header("Record-Route"))];
    let again = forwarded(world.udp(ALICE, &with_fields(again)));
    assert!(names.iter().all(|name| again.headers(name).is_empty()), "{}", again.text());
    let sent = forwarded(world.udp(EDGE, &call().call_id("trusted")));
    assert!(found(&sent, &FOREIGN).len() > removed.len(), "{}", sent.text());
    assert_eq!(found(&sent, &[FOREIGN[0], FOREIGN[4]]).len(), 2);
}

#[test]
fn phones_of_users_get_other_fields_of_a_stranger() {
    let mut world = world(|_| {});
    world.server.set_forwards(b"bob@example.org", Default::default());
    world.server.set_permanent_contacts(b"bob@example.org", &[b"sip:bob@192.0.2.20:5060"]);
    let sent = forwarded(world.udp(STRANGER, &with_fields(strangers_call())));
    assert!(found(&sent, &FOREIGN).contains(&"X-Account: 1"), "{}", sent.text());
}

#[test]
fn a_trunk_gets_only_methods_of_a_call_from_a_stranger() {
    let mut world = world(|config| {
        config.auth.strangers = Strangers::All;
        config.auth.stranger_refer = true;
    });
    let sent = forwarded(world.udp(STRANGER, &strangers_call()));
    let answer = sent.answer_tagged(200, "trunks", &["Contact: <sip:+441234@198.51.100.1:5060>"]);
    let ok = only(world.udp(CARRIER_A, &answer));
    for (cseq, method) in (10..).zip(["REFER", "MESSAGE", "SUBSCRIBE", "PUBLISH", "REGISTER", "XYZ"]) {
        let mut again = request(method, "sip:+441234@198.51.100.1:5060").cseq(cseq).to(&ok.header("To"));
        again.from = ok.header("From");
        again.via = format!("SIP/2.0/UDP {STRANGER};rport;branch=z9hG4bK");
        again.lines = vec![format!("Route: {}", ok.header("Record-Route"))];
        let again =
            again.line(&format!("Contact: <sip:eve@{STRANGER}>")).line("Refer-To: <sip:+441234@example.org>");
        assert_eq!(statuses(&world.udp(STRANGER, &again)), [403], "{method}");
    }
    assert_eq!(world.server.counters().strangers_methods_refused, 6);
}
