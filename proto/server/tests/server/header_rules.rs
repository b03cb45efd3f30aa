//! Tests of rules for header fields of trunks (decision 0062): what a carrier gets, what it sends, and what no rule touches.

use crate::harness::{ALICE, BOB, Request, Sent, World, forwarded, invite, only, request, requests};
use crate::routes::{CARRIER_A, CARRIER_B, carriers};
use ringway_server::{Config, FieldName, HeaderRule, Pattern, RuleAction, RuleDirection, RuleMessages};

const TARGET: &str = "sip:+441234@198.51.100.1:5060";

fn rule(direction: RuleDirection, messages: RuleMessages, name: &str, action: RuleAction) -> HeaderRule {
    HeaderRule { name: FieldName::parse(name).unwrap(), direction, messages, methods: Vec::new(), action }
}

fn add(value: &str) -> RuleAction {
    RuleAction::Add(value.as_bytes().into())
}

fn replace(pattern: &str, text: &str) -> RuleAction {
    RuleAction::Replace(Pattern::parse(pattern).unwrap(), text.as_bytes().into())
}

/// Two carriers, the first of them with rules.
fn ruled(config: &mut Config) {
    use {RuleDirection::*, RuleMessages::*};
    carriers(config);
    let account =
        HeaderRule { methods: vec!["INVITE".into()], ..rule(Out, Requests, "X-Account", add("4711")) };
    config.trunking.trunks.edit()[0].headers = vec![
        account,
        rule(Out, All, "User-Agent", RuleAction::Remove(None)),
        rule(Out, Responses, "Server", replace("^.*$", "office")),
        rule(In, Requests, "P-Asserted-Identity", replace("sip:00([0-9]+)@", "sip:+$1@")),
        rule(In, All, "X-Billing", RuleAction::Remove(None)),
        rule(In, Responses, "s", replace("world", "office")),
    ];
}

fn call(world: &mut World) -> Sent {
    let call = invite("sip:+441234@example.org").line("User-Agent: phone 1").line("X-Billing: mine");
    only(requests(world.udp(ALICE, &call)))
}

#[test]
fn a_carrier_gets_what_its_rules_make_in_every_request() {
    let mut world = World::with(ruled);
    let sent = call(&mut world);
    assert_eq!((sent.to().as_str(), sent.header("X-Account").as_str()), (CARRIER_A, "4711"));
    assert!(sent.headers("User-Agent").is_empty(), "{}", sent.text());
    assert_eq!(sent.header("X-Billing"), "mine", "the rule for what comes in");
    // The answer has what the carrier sends, by its rules.
    let lines = ["X-Billing: 3", "Subject: hello world", "Server: carrier", &format!("Contact: <{TARGET}>")];
    let answer = only(world.udp(CARRIER_A, &sent.answer_tagged(200, "theirs", &lines)));
    assert!(answer.headers("X-Billing").is_empty(), "{}", answer.text());
    assert_eq!(
        (answer.header("Subject"), answer.header("Server")),
        ("hello office".into(), "carrier".into())
    );
    // Later requests are recognised by the address.
    for (cseq, method) in (2..).zip(["INVITE", "INFO", "BYE"]) {
        let mut request = request(method, TARGET).cseq(cseq).to(&answer.header("To"));
        request.from = answer.header("From");
        request.lines =
            vec![format!("Route: {}", answer.header("Record-Route")), "User-Agent: phone 1".into()];
        let passed =
            only(requests(world.udp(ALICE, &request.line(&format!("Contact: <sip:alice@{ALICE}>")))));
        assert_eq!(passed.headers("X-Account").len(), usize::from(method == "INVITE"), "{method}");
        assert!(passed.headers("User-Agent").is_empty(), "{}", passed.text());
        world.udp(CARRIER_A, &passed.answer(200, &[&format!("Contact: <{TARGET}>")]));
    }
    assert_eq!(world.server.counters().header_changes_skipped, 0);
}

#[test]
fn the_ack_and_the_cancel_of_a_ruled_invite_are_its_own() {
    let mut world = World::with(ruled);
    let call = invite("sip:+441234@example.org").line("User-Agent: phone 1");
    let sent = only(requests(world.udp(ALICE, &call)));
    world.udp(CARRIER_A, &sent.answer(180, &[]));
    let cancelled = requests(world.udp(ALICE, &call.cancel()));
    let cancel = cancelled.iter().find(|sent| sent.method() == "CANCEL").expect("a CANCEL");
    assert_eq!(vec![cancel.header("Via")], sent.headers("Via")[..1]);
    let ended = world.udp(CARRIER_A, &sent.answer(487, &[]));
    let ack = requests(ended).into_iter().find(|sent| sent.method() == "ACK").expect("an ACK");
    assert_eq!((ack.to().as_str(), vec![ack.header("Via")]), (CARRIER_A, sent.headers("Via")[..1].to_vec()));
}

#[test]
fn another_trunk_and_the_users_have_no_rules() {
    let mut world = World::with(ruled);
    let sent = call(&mut world);
    let next = requests(world.udp(CARRIER_A, &sent.answer(503, &[])));
    let next = only(next.into_iter().filter(|sent| sent.to() == CARRIER_B).collect());
    assert!(next.headers("X-Account").is_empty(), "{}", next.text());
    assert_eq!(next.header("User-Agent"), "phone 1");
    world.register("bob", BOB, &format!("<sip:bob@{BOB}>"));
    let inner =
        forwarded(world.udp(ALICE, &invite("sip:bob@example.org").call_id("2").line("User-Agent: phone 1")));
    assert_eq!((inner.header("User-Agent").as_str(), inner.headers("X-Account").len()), ("phone 1", 0));
}

fn incoming() -> Request {
    let mut incoming = invite("sip:bob@example.org").from("sip:0044201234567@carrier.example");
    incoming.via = format!("SIP/2.0/UDP {CARRIER_A};rport;branch=z9hG4bKin");
    incoming.lines = vec![format!("Contact: <{TARGET}>")];
    incoming.line("P-Asserted-Identity: <sip:0044201@carrier.example>").line("x-billing: 3")
}

#[test]
fn what_a_carrier_sends_is_changed_before_the_server_reads_it() {
    let mut world = World::with(|config| {
        ruled(config);
        config.auth.trusted = vec!["198.51.100.1".parse().unwrap()];
    });
    world.register("bob", BOB, &format!("<sip:bob@{BOB}>"));
    let rings = forwarded(world.udp(CARRIER_A, &incoming()));
    assert_eq!((rings.to().as_str(), rings.headers("X-Billing").len()), (BOB, 0));
    assert_eq!(rings.header("P-Asserted-Identity"), "<sip:+44201@carrier.example>");
    // A retransmission is the same request.
    assert!(requests(world.udp(CARRIER_A, &incoming())).is_empty());
    for status in [180, 486] {
        let answer = rings.answer_tagged(status, "bobs", &["Server: phone 1", "User-Agent: phone 1"]);
        let answer = world.udp(BOB, &answer).into_iter().find(|sent| sent.to() == CARRIER_A).unwrap();
        assert_eq!(
            (answer.header("Server").as_str(), answer.headers("User-Agent").len()),
            ("office", 0),
            "{status}"
        );
    }
}

/// The memory of a call and the bytes of a response are bounded, whatever the rules add.
#[test]
fn rules_add_their_bytes_to_a_message_and_no_more() {
    let mut world = World::with(|config| {
        ruled(config);
        let long = rule(RuleDirection::Out, RuleMessages::All, "X-Long", add(&"x".repeat(1000)));
        config.trunking.trunks.edit()[0].headers = vec![long.clone(), long.clone(), long];
    });
    world.register("bob", BOB, &format!("<sip:bob@{BOB}>"));
    let rings = forwarded(world.udp(CARRIER_A, &incoming()));
    for (number, status) in (1..).zip([180, 183, 486]) {
        let answer = world.udp(BOB, &rings.answer_tagged(status, "bobs", &[]));
        let answer = answer.into_iter().find(|sent| sent.to() == CARRIER_A).unwrap();
        assert_eq!(answer.headers("X-Long").len(), 2, "{status}");
        assert_eq!(world.server.counters().header_changes_skipped, number, "the third line of each");
    }
}
