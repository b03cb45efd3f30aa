//! Tests of trunks that must not see the inside (decision 0063): no address, no host name and no Call-ID of it, in any message of a call in
//! either direction, and nothing that somebody else can do with what the trunk got.

use crate::ends::nothing_is_left;
use crate::harness::{
    ALICE, BOB, EDGE, Request, STRANGER, Sent, Wire, World, config, forwarded, invite, only, request,
    requests, statuses, tcp_flow,
};
use crate::media::{always, body, sdp, with_sdp};
use crate::overload::overloaded_with;
use crate::routes::{CARRIER_A, carriers};
use crate::trunk_identity::{of_carrier, reading_from};
use ringway_sansio::{RelayKind, Transport};
use ringway_server::{Config, FieldName, HeaderRule, RuleAction, RuleDirection, RuleMessages};
use std::time::Duration;

/// Contact of the trunk.
const TARGET: &str = "sip:+441234@198.51.100.1:5060";
/// Call-ID of alice, with what a phone writes there.
const CALL: &str = "7f3a9b@192.0.2.10";

fn hidden(config: &mut Config) {
    carriers(config);
    config.trunking.trunks.edit()[0].hides_topology = true;
}

/// The carrier sees nothing of the inside in a message: addresses of phones and proxies, and Call-IDs of phones.
#[track_caller]
fn sees_nothing(sent: &Sent) {
    let text = sent.text();
    for inside in ["192.0.2.10", "192.0.2.20", "192.0.2.99", "10.0.0.", "7f3a9b", "inner.example"] {
        assert!(!text.contains(inside), "{inside} in\n{text}");
    }
    let longest = sent.headers("Via").iter().map(String::len).max().unwrap_or(0);
    assert!(longest < 255, "{text}");
}

fn call(world: &mut World) -> Sent {
    let sent = only(requests(world.udp(ALICE, &invite("sip:+441234@example.org").call_id(CALL))));
    assert_eq!(sent.to(), CARRIER_A);
    sees_nothing(&sent);
    sent
}

/// A call that the carrier answered: its INVITE, and the answer that alice got.
fn answered(world: &mut World) -> (Sent, Sent) {
    let sent = call(world);
    let answer =
        only(world.udp(CARRIER_A, &sent.answer_tagged(200, "theirs", &[&format!("Contact: <{TARGET}>")])));
    assert_eq!(answer.to(), ALICE);
    (sent, answer)
}

/// Request of alice in the dialog of `answer`.
fn of_alice(answer: &Sent, method: &str, cseq: u32) -> Request {
    let mut request = request(method, TARGET).cseq(cseq).call_id(CALL).to(&answer.header("To"));
    request.from = answer.header("From");
    request.lines =
        answer.headers("Record-Route").iter().rev().map(|route| format!("Route: {route}")).collect();
    request.line(&format!("Contact: <sip:alice@{ALICE}>"))
}

#[test]
fn a_call_to_the_trunk_shows_nothing_and_the_caller_gets_everything_back() {
    let mut world = World::with(hidden);
    let first = call(&mut world);
    assert_eq!((first.headers("Via").len(), first.headers("Record-Route").len()), (1, 1));
    let (via, lines) = ("Via".to_owned(), [&*format!("Contact: <{TARGET}>")]);
    for status in [180, 183, 200] {
        let answer = only(world.udp(CARRIER_A, &first.answer_tagged(status, "theirs", &lines)));
        assert_eq!((answer.to().as_str(), answer.header("Call-ID").as_str()), (ALICE, CALL), "{status}");
        assert!(
            answer.header(&via).contains("192.0.2.10:5060;rport=5060;branch=z9hG4bK7f3a9b"),
            "{}",
            answer.text()
        );
        assert_eq!(answer.headers(&via).len(), 1);
        assert_eq!(answer.header("Contact"), format!("<{TARGET}>"));
    }
    for status in [302, 404, 486, 503, 603] {
        let mut world = World::with(hidden);
        let sent = call(&mut world);
        let answers = world.udp(CARRIER_A, &sent.answer(status, &[]));
        let ack = answers.iter().find(|sent| sent.text().starts_with("ACK ")).expect("an ACK");
        assert_eq!(ack.header("Call-ID"), sent.header("Call-ID"));
        if let Some(answer) = answers.iter().find(|sent| sent.to() == ALICE) {
            assert_eq!(answer.header("Call-ID"), CALL, "{status}");
            assert_eq!(answer.headers("Via").len(), 1, "{}", answer.text());
        }
    }
}

#[test]
fn each_request_of_both_sides_finds_the_other_one() {
    let mut world = World::with(hidden);
    let (sent, answer) = answered(&mut world);
    let ack = only(requests(world.udp(ALICE, &of_alice(&answer, "ACK", 1))));
    sees_nothing(&ack);
    assert_eq!((ack.to().as_str(), ack.header("Call-ID")), (CARRIER_A, sent.header("Call-ID")));
    for (cseq, method) in (2..).zip(["PRACK", "UPDATE", "INVITE", "INFO", "REFER"]) {
        let passed = forwarded(world.udp(ALICE, &of_alice(&answer, method, cseq)));
        sees_nothing(&passed);
        assert_eq!(
            (passed.to().as_str(), passed.header("Call-ID")),
            (CARRIER_A, sent.header("Call-ID")),
            "{method}"
        );
        assert_eq!(passed.uri(), TARGET);
        let back = only(world.udp(CARRIER_A, &passed.answer(200, &[&format!("Contact: <{TARGET}>")])));
        assert_eq!((back.to().as_str(), back.header("Call-ID").as_str()), (ALICE, CALL), "{method}");
    }
    for (cseq, method) in (20..).zip(["PRACK", "UPDATE", "INVITE", "INFO"]) {
        let all = world.udp(CARRIER_A, &of_carrier(&sent, method, cseq));
        for local in all.iter().filter(|local| local.text().starts_with("SIP/2.0 100")) {
            sees_nothing(local);
            assert_eq!(local.header("Call-ID"), sent.header("Call-ID"), "the 100 too");
        }
        let passed = forwarded(all);
        assert_eq!((passed.to().as_str(), passed.header("Call-ID").as_str()), (ALICE, CALL), "{method}");
        assert_eq!(passed.uri(), format!("sip:alice@{ALICE}"));
        let contact = format!("Contact: <sip:alice@{ALICE}>");
        let back = only(world.udp(ALICE, &passed.answer(200, &[&contact, "Server: phone"])));
        sees_nothing(&back);
        assert_eq!(
            (back.to().as_str(), back.header("Call-ID")),
            (CARRIER_A, sent.header("Call-ID")),
            "{method}"
        );
        assert_eq!(back.headers("Via").len(), 1);
    }
    // A failure of the phone, and one of this server.
    let passed = forwarded(world.udp(CARRIER_A, &of_carrier(&sent, "INFO", 30)));
    let back = only(world.udp(ALICE, &passed.answer(481, &[])));
    sees_nothing(&back);
    assert_eq!((back.status(), back.header("Call-ID")), (481, sent.header("Call-ID")));
    let mut refused = of_carrier(&sent, "INFO", 31);
    refused.max_forwards = Some(0);
    let back = only(world.udp(CARRIER_A, &refused));
    assert_eq!((back.status(), back.header("Call-ID")), (483, sent.header("Call-ID")));
    let passed = forwarded(world.udp(CARRIER_A, &of_carrier(&sent, "BYE", 40)));
    assert_eq!(
        (passed.to().as_str(), passed.method().as_str(), passed.header("Call-ID").as_str()),
        (ALICE, "BYE", CALL)
    );
    assert_eq!(statuses(&world.udp(ALICE, &passed.answer(200, &[]))), [200]);
    nothing_is_left(&mut world, "after a call with a hidden inside");
}

#[test]
fn a_cancelled_call_ends_at_the_trunk() {
    let mut world = World::with(hidden);
    let call = invite("sip:+441234@example.org").call_id(CALL);
    let sent = only(requests(world.udp(ALICE, &call)));
    world.udp(CARRIER_A, &sent.answer(180, &[]));
    let all = world.udp(ALICE, &call.cancel());
    let cancel = all.iter().find(|sent| sent.text().starts_with("CANCEL ")).expect("a CANCEL");
    sees_nothing(cancel);
    assert_eq!(cancel.header("Call-ID"), sent.header("Call-ID"));
    let ended = world.udp(CARRIER_A, &sent.answer(487, &[]));
    let answer = ended.iter().find(|sent| sent.to() == ALICE).expect("the 487");
    assert_eq!((answer.status(), answer.header("Call-ID").as_str()), (487, CALL));
}

/// Proxies inside record their routes: the trunk does not see them, its requests pass them, and the caller gets them back.
#[test]
fn routes_of_the_inside_are_passed_and_not_shown() {
    let mut world = World::with(hidden);
    let mut through = invite("sip:+441234@example.org").call_id(CALL);
    through.via =
        format!("SIP/2.0/UDP {EDGE};branch=z9hG4bKedge\r\nVia: SIP/2.0/UDP {ALICE};branch=z9hG4bKalice");
    let route = format!("<sip:{EDGE};lr>");
    let through =
        through.line(&format!("Record-Route: {route}")).line("Record-Route: <sip:inner.example;lr>");
    let sent = only(requests(world.udp(EDGE, &through)));
    sees_nothing(&sent);
    assert_eq!((sent.headers("Via").len(), sent.headers("Record-Route").len()), (1, 1));
    let answer =
        only(world.udp(CARRIER_A, &sent.answer_tagged(200, "theirs", &[&format!("Contact: <{TARGET}>")])));
    let recorded = answer.headers("Record-Route").join(", ");
    let (own, rest) = recorded.split_once(">, ").unwrap();
    assert_eq!(rest, format!("{route}, <sip:inner.example;lr>"));
    assert!(own.len() < 200, "the parameter for the sides inside has no routes: {own}");
    assert_eq!(answer.headers("Via").join(", ").matches("SIP/2.0/UDP").count(), 2, "{}", answer.text());
    assert_eq!(answer.to(), EDGE);
    let passed = forwarded(world.udp(CARRIER_A, &of_carrier(&sent, "BYE", 20)));
    assert_eq!((passed.to().as_str(), passed.header("Call-ID").as_str()), (EDGE, CALL));
    assert_eq!(passed.headers("Route").join(", "), format!("{route}, <sip:inner.example;lr>"));
    assert_eq!(passed.uri(), format!("sip:alice@{ALICE}"));
}

fn incoming(cseq: u32) -> Request {
    let mut incoming = invite("sip:bob@example.org").from("sip:0044201@carrier.example").cseq(cseq);
    incoming.via = format!("SIP/2.0/UDP {CARRIER_A};rport;branch=z9hG4bKin{cseq}");
    incoming.lines = vec![format!("Contact: <{TARGET}>")];
    incoming.call_id("theirs-1@carrier.example")
}

#[test]
fn a_refusal_under_overload_has_what_the_trunk_wrote() {
    let mut world = overloaded_with(hidden);
    let refused = only(world.late(CARRIER_A, &incoming(1), Duration::from_millis(190)));
    assert_eq!((refused.status(), refused.header("Call-ID").as_str()), (503, "theirs-1@carrier.example"));
    sees_nothing(&refused);
}

#[test]
fn a_call_of_the_trunk_shows_nothing_of_the_called_phone() {
    let mut world = World::with(hidden);
    world.register("bob", EDGE, &format!("<sip:bob@{EDGE}>"));
    let all = world.udp(CARRIER_A, &incoming(1));
    let trying = all.iter().find(|sent| sent.text().starts_with("SIP/2.0 100")).expect("a 100");
    assert_eq!(trying.header("Call-ID"), "theirs-1@carrier.example");
    let rings = forwarded(all);
    let inside = rings.header("Call-ID");
    assert!(!inside.contains("theirs"), "{}", rings.text());
    assert!(requests(world.udp(CARRIER_A, &incoming(1))).is_empty(), "a retransmission");
    // The proxy of the phone records its route.
    let answer = rings.answer_tagged(200, "bobs", &[&format!("Contact: <sip:bob@{BOB}>")]);
    let answer = String::from_utf8(answer).unwrap();
    let answer = answer.replacen("Record-Route: ", "Record-Route: <sip:192.0.2.99:5060;lr>, ", 1);
    let answer = only(world.udp(EDGE, &answer.into_bytes()));
    assert_eq!(
        (answer.to().as_str(), answer.header("Call-ID").as_str()),
        (CARRIER_A, "theirs-1@carrier.example")
    );
    sees_nothing(&answer);
    // The trunk ends it, through the proxy of the inside.
    let contact = answer.header("Contact");
    let mut bye = request("BYE", contact.trim_matches(['<', '>'])).cseq(2).to(&answer.header("To"));
    bye.from = answer.header("From");
    bye.via = format!("SIP/2.0/UDP {CARRIER_A};rport;branch=z9hG4bKbye");
    bye.lines = vec![format!("Route: {}", answer.header("Record-Route"))];
    let bye = bye.call_id("theirs-1@carrier.example");
    let passed = world.udp(CARRIER_A, &bye);
    let passed = only(passed);
    assert_eq!((passed.header("Call-ID"), passed.uri()), (inside.clone(), format!("sip:bob@{BOB}")));
    assert_eq!((passed.header("Route").as_str(), passed.to().as_str()), ("<sip:192.0.2.99:5060;lr>", EDGE));
    // Bob's own requests have the Call-ID of the trunk there.
    let mut info = request("INFO", TARGET).cseq(7).call_id(&inside).to(&rings.header("From"));
    info.from = format!("{};tag=bobs", rings.header("To"));
    info.via = format!("SIP/2.0/UDP {EDGE};rport;branch=z9hG4bKbob");
    info.lines =
        vec![format!("Route: {}", rings.header("Record-Route")), format!("Contact: <sip:bob@{BOB}>")];
    let passed = only(requests(world.udp(EDGE, &info)));
    sees_nothing(&passed);
    assert_eq!(
        (passed.to().as_str(), passed.header("Call-ID").as_str()),
        (CARRIER_A, "theirs-1@carrier.example")
    );
}

/// A phone diverts a call of the trunk, which calls what the 302 names without this server.
#[test]
fn a_redirection_names_its_targets_and_hides_phones() {
    let mut world = World::with(hidden);
    world.register("bob", BOB, &format!("<sip:bob@{BOB}>"));
    let rings = forwarded(world.udp(CARRIER_A, &incoming(1)));
    let kept = [
        "<sip:+49171999@pstn.example>;q=0.7",
        "<sip:carol@example.org>;q=0.4",
        "<tel:+49171999>",
        "<sip:+49171999@198.51.100.9>",
    ];
    let hides = [format!("<sip:desk@{BOB}>;q=0.3"), "<sip:desk@10.0.0.7>;q=0.2".to_owned()];
    let all: Vec<&str> = kept.into_iter().chain(hides.iter().map(String::as_str)).collect();
    let lines = [&*format!("Contact: {}", all.join(", "))];
    let answer = forwarded_answer(world.udp(BOB, &rings.answer_tagged(302, "bobs", &lines)));
    assert_eq!((answer.status(), answer.to().as_str()), (302, CARRIER_A));
    sees_nothing(&answer);
    let contacts = answer.headers("Contact");
    assert_eq!(contacts[..4], kept);
    for (contact, q) in contacts[4..].iter().zip(["0.3", "0.2"]) {
        assert!(contact.starts_with("<sip:192.0.2.1:5060;rt=") && contact.ends_with(&format!(">;q={q}")));
    }
    assert_eq!(contacts.len(), 6);
}

/// The response of `sent`, without the ACK of this server.
fn forwarded_answer(sent: Vec<Sent>) -> Sent {
    only(sent.into_iter().filter(|sent| sent.text().starts_with("SIP/2.0")).collect())
}

/// A transfer names the Call-ID of another call: each side has its own of that.
#[test]
fn a_transfer_names_the_calls_that_each_side_has() {
    let mut world = World::with(hidden);
    let (sent, answer) = answered(&mut world);
    let outside = sent.header("Call-ID");
    // alice refers the trunk to bob's phone, with whom she has another call.
    let replaces = format!("Replaces={CALL}%3Bto-tag%3D1%3Bfrom-tag%3D2").replace('@', "%40");
    let refer = of_alice(&answer, "REFER", 5).line(&format!("Refer-To: <sip:bob@{BOB}?{replaces}>"));
    let refer = refer.line(&format!("Target-Dialog: {CALL};local-tag=1;remote-tag=2"));
    let passed = forwarded(world.udp(ALICE, &refer));
    sees_nothing(&passed);
    assert_eq!(passed.header("Target-Dialog"), format!("{outside};local-tag=1;remote-tag=2"));
    let refer_to = passed.header("Refer-To");
    assert!(refer_to.contains(&format!("?Replaces={outside}%3Bto-tag%3D1")), "{refer_to}");
    let target = refer_to.trim_matches(['<', '>']).split('?').next().unwrap().to_owned();
    // The trunk calls it: bob's phone, if the trunk may reach that, with the Call-ID of inside in Replaces.
    let mut invited = incoming(1);
    invited.uri = target;
    let invited = invited.line(&format!("Replaces: {outside};to-tag=1;from-tag=2"));
    let all = world.udp(CARRIER_A, &invited);
    assert!(all.iter().all(|sent| !sent.text().contains("192.0.2.20")), "a trunk reaches users only");
    // With the name of a user it does.
    world.register("bob", BOB, &format!("<sip:bob@{BOB}>"));
    let named = incoming(2).line(&format!("Replaces: {outside};to-tag=1;from-tag=2"));
    let rings = forwarded(world.udp(CARRIER_A, &named));
    assert_eq!(rings.header("Replaces"), format!("{CALL};to-tag=1;from-tag=2"));
    // A transfer by the trunk.
    let mut of_trunk = of_carrier(&sent, "REFER", 9);
    of_trunk = of_trunk
        .line(&format!("Refer-To: <sip:+4477@198.51.100.1?Replaces={outside}%3Bto-tag%3D5%3Bfrom-tag%3D6>"));
    let passed = forwarded(world.udp(CARRIER_A, &of_trunk));
    assert!(
        passed.header("Refer-To").contains("?Replaces=7f3a9b%40192.0.2.10%3Bto-tag"),
        "{}",
        passed.text()
    );
}

/// The escapes of a URI's headers (RFC 3261 §19.1.1) are those of the Call-ID in it, in both directions.
#[test]
fn the_call_id_in_refer_to_is_escaped() {
    let mut world = World::with(hidden);
    world.register("bob", BOB, &format!("<sip:bob@{BOB}>"));
    let rings = forwarded(world.udp(CARRIER_A, &incoming(1)));
    let inside = rings.header("Call-ID");
    let (sent, answer) = answered(&mut world);
    for (cseq, (headers, expected)) in (50..).zip([
        (
            format!("Replaces={inside}%3Bto-tag%3D1"),
            "?Replaces=theirs-1%40carrier.example%3Bto-tag%3D1>".to_owned(),
        ),
        (
            format!("replaces={inside}%3bto-tag%3d1&X=1"),
            "?replaces=theirs-1%40carrier.example%3bto-tag%3d1&X=1>".to_owned(),
        ),
        ("X-Replaces=1%3B2".to_owned(), "?X-Replaces=1%3B2>".to_owned()),
    ]) {
        let refer = of_alice(&answer, "REFER", cseq).line(&format!("Refer-To: <{TARGET}?{headers}>"));
        let passed = forwarded(world.udp(ALICE, &refer));
        assert_eq!(passed.header("Refer-To"), format!("<{TARGET}{expected}"));
    }
    // A Call-ID of its own with escapes, as the trunk writes it.
    let theirs = "Replaces=theirs-1%40carrier.example%3Bto-tag%3D1";
    let refer = of_carrier(&sent, "REFER", 60).line(&format!("Refer-To: <sip:+4477@198.51.100.1?{theirs}>"));
    let passed = forwarded(world.udp(CARRIER_A, &refer));
    assert!(
        passed.header("Refer-To").contains(&format!("?Replaces={inside}%3Bto-tag%3D1>")),
        "{}",
        passed.text()
    );
}

/// Calls that are up when the setting is turned on: both sides go on with what they have, and end them.
#[test]
fn a_call_that_began_without_the_setting_goes_on() {
    for began in [carriers, reading_from] {
        let mut world = World::with(began);
        let sent = only(requests(world.udp(ALICE, &invite("sip:+441234@example.org").call_id(CALL))));
        let answer = sent.answer_tagged(200, "theirs", &[&format!("Contact: <{TARGET}>")]);
        let answer = only(world.udp(CARRIER_A, &answer));
        let mut config = crate::harness::config();
        began(&mut config);
        config.trunking.trunks.edit()[0].hides_topology = true;
        world.server.reconfigure(std::sync::Arc::new(config));
        world.pass(Duration::from_millis(1));
        for (cseq, method) in [(1, "ACK"), (2, "INFO"), (3, "BYE")] {
            let passed = requests(world.udp(ALICE, &of_alice(&answer, method, cseq)));
            let passed = passed.iter().find(|sent| sent.to() == CARRIER_A).expect(method);
            assert_eq!(
                (passed.header("Call-ID"), passed.uri().as_str()),
                (CALL.to_owned(), TARGET),
                "{method}"
            );
            if method != "ACK" {
                let back = only(world.udp(CARRIER_A, &passed.answer(200, &[])));
                assert_eq!((back.to().as_str(), back.header("Call-ID").as_str()), (ALICE, CALL));
            }
        }
        for (cseq, method) in [(20, "INFO"), (21, "INVITE"), (22, "BYE")] {
            let passed = forwarded(world.udp(CARRIER_A, &of_carrier(&sent, method, cseq)));
            assert_eq!((passed.to().as_str(), passed.header("Call-ID").as_str()), (ALICE, CALL), "{method}");
            let back =
                only(world.udp(ALICE, &passed.answer(200, &[&format!("Contact: <sip:alice@{ALICE}>")])));
            assert_eq!((back.to().as_str(), back.header("Call-ID").as_str()), (CARRIER_A, CALL), "{method}");
        }
        // The next call is hidden.
        let next =
            only(requests(world.udp(ALICE, &invite("sip:+441234@example.org").call_id("2@192.0.2.10"))));
        sees_nothing(&next);
    }
}

/// A call of the trunk that rings when the setting is turned on: the trunk can end it.
#[test]
fn a_call_that_rings_when_the_setting_is_turned_on_can_be_cancelled() {
    let mut world = World::with(carriers);
    world.register("bob", BOB, &format!("<sip:bob@{BOB}>"));
    let rings = forwarded(world.udp(CARRIER_A, &incoming(1)));
    world.udp(BOB, &rings.answer_tagged(180, "bobs", &[]));
    let mut config = crate::harness::config();
    hidden(&mut config);
    world.server.reconfigure(std::sync::Arc::new(config));
    world.pass(Duration::from_millis(1));
    let all = world.udp(CARRIER_A, &incoming(1).cancel());
    let of = |to: &str| all.iter().find(|sent| sent.to() == to).expect("both sides get something");
    assert_eq!((of(CARRIER_A).status(), of(CARRIER_A).header("Call-ID")), (200, rings.header("Call-ID")));
    assert_eq!((of(BOB).method().as_str(), of(BOB).header("Call-ID")), ("CANCEL", rings.header("Call-ID")));
    let ended = world.udp(BOB, &rings.answer_tagged(487, "bobs", &[]));
    let ended = ended.iter().find(|sent| sent.to() == CARRIER_A).expect("the 487");
    assert_eq!((ended.status(), ended.header("Call-ID").as_str()), (487, "theirs-1@carrier.example"));
}

/// A response that waits for a relay, or that a rule changes, has what the sides inside have.
#[test]
fn a_response_that_stages_replace_shows_everything_to_the_caller() {
    let ruled = |config: &mut Config| {
        hidden(config);
        always(config);
        config.trunking.trunks.edit()[0].headers = vec![HeaderRule {
            name: FieldName::parse("X-Billing").unwrap(),
            direction: RuleDirection::In,
            messages: RuleMessages::Responses,
            methods: Vec::new(),
            action: RuleAction::Remove(None),
        }];
    };
    let mut world = World::with(ruled);
    let call = invite("sip:+441234@example.org").call_id(CALL);
    let waits = world.udp(ALICE, &with_sdp(call.wire(), &sdp("198.51.100.77")));
    assert_eq!(statuses(&waits), [100]);
    let sent = only(world.relay(RelayKind::Offer, &sdp("198.51.100.78")).1);
    sees_nothing(&sent);
    for status in [183, 200] {
        let answer = sent.answer_tagged(status, "theirs", &[&format!("Contact: <{TARGET}>"), "X-Billing: 3"]);
        let mut all = world.udp(CARRIER_A, &with_sdp(answer, &sdp("198.51.100.1")));
        // The 200 has the same SDP as the 183.
        if status == 183 {
            assert!(all.is_empty(), "it waits for the relay");
            all = world.relay(RelayKind::Answer, &sdp("198.51.100.79")).1;
        }
        let answer = only(all);
        assert_eq!((answer.to().as_str(), answer.header("Call-ID").as_str()), (ALICE, CALL), "{status}");
        assert_eq!(answer.headers("Via").len(), 1, "{}", answer.text());
        assert!(answer.header("Via").contains("192.0.2.10:5060"), "{}", answer.text());
        assert!(answer.headers("X-Billing").is_empty(), "{}", answer.text());
        assert_eq!(body(&answer), sdp("198.51.100.79"));
    }
}

/// A domain that a route sends to the trunk has its setting.
#[test]
fn a_request_for_a_domain_behind_the_trunk_shows_nothing() {
    let mut world = World::with(hidden);
    let sent = only(requests(world.udp(ALICE, &invite("sip:carol@other.example").call_id(CALL))));
    assert_eq!((sent.to().as_str(), sent.uri().as_str()), (CARRIER_A, "sip:carol@other.example"));
    sees_nothing(&sent);
}

/// Over a connection nothing bounds the length of a message: one of 20 kB is hidden as any other.
#[test]
fn a_long_message_over_tcp_shows_nothing() {
    let mut world = World::with(|config: &mut Config| {
        hidden(config);
        config.trunking.trunks.edit()[0].uri = "sip:198.51.100.1:5060;transport=tcp".into();
    });
    let long =
        invite("sip:+441234@example.org").call_id(CALL).line(&format!("Subject: {}", "x".repeat(20_000)));
    let sent = only(requests(world.message(tcp_flow(3, ALICE), &long.wire())));
    assert_eq!((sent.to().as_str(), sent.flow.transport), (CARRIER_A, Transport::Tcp));
    assert!(sent.bytes.len() > 20_000);
    sees_nothing(&sent);
    let answer = sent.answer_tagged(
        200,
        "theirs",
        &[&format!("Contact: <{TARGET};transport=tcp>"), &format!("Server: {}", "y".repeat(20_000))],
    );
    let answer = only(world.message(tcp_flow(4, CARRIER_A), &answer));
    assert_eq!(
        (answer.flow.connection, answer.header("Call-ID").as_str()),
        (tcp_flow(3, ALICE).connection, CALL)
    );
    let passed = forwarded(world.message(tcp_flow(4, CARRIER_A), &of_carrier(&sent, "INFO", 20).wire()));
    assert_eq!(passed.header("Call-ID"), CALL);
}

/// Values that are made up, or were sealed for another call, open nothing and lead nowhere.
#[test]
fn what_is_sealed_for_another_call_is_worth_nothing() {
    let mut world = World::with(hidden);
    let (sent, _) = answered(&mut world);
    let good = of_carrier(&sent, "INFO", 20);
    let another =
        only(requests(world.udp(ALICE, &invite("sip:+441234@example.org").call_id("2@192.0.2.10"))));
    let reaches = |world: &mut World, from: &str, request: &Request| {
        requests(world.udp(from, request)).iter().any(|sent| [ALICE, BOB].contains(&sent.to().as_str()))
    };
    let contact = another.header("Contact");
    let mut replayed = good.clone();
    replayed.uri = contact.trim_matches(['<', '>']).to_owned();
    assert!(!reaches(&mut world, CARRIER_A, &replayed), "the Contact of another call");
    replayed = Request { cseq: 21, ..good.clone() };
    replayed.lines[0] = format!("Route: {}", another.header("Record-Route"));
    assert!(!reaches(&mut world, CARRIER_A, &replayed), "the Route of another call");
    replayed = Request { cseq: 22, call_id: another.header("Call-ID"), ..good.clone() };
    assert!(!reaches(&mut world, CARRIER_A, &replayed), "the Call-ID of another call");
    for (cseq, made_up) in (30..).zip(["A", "AAAAAAAAAAAAAAAA", &"A".repeat(20_000)]) {
        let mut forged = Request { cseq, uri: format!("sip:192.0.2.1:5060;rt={made_up}"), ..good.clone() };
        forged.lines[0] = format!("Route: <sip:192.0.2.1:5060;lr;rw=1;rh={made_up}>");
        for from in [CARRIER_A, STRANGER] {
            let bytes: usize = world.udp(from, &forged).iter().map(|sent| sent.bytes.len()).sum();
            assert!(bytes < 1500, "{bytes} bytes for a made-up value");
        }
    }
    assert!(reaches(&mut world, CARRIER_A, &Request { cseq: 90, ..good }), "the test of the test");
}

/// The ACK of a refusal without a transaction ends here.
#[test]
fn the_ack_of_a_refusal_is_recognised() {
    let mut world = World::with(hidden);
    let mut nobody = incoming(1);
    nobody.uri = "sip:nobody@example.org".into();
    let refused = only(world.udp(CARRIER_A, &nobody));
    assert_eq!((refused.status(), refused.header("Call-ID").as_str()), (404, "theirs-1@carrier.example"));
    assert!(world.udp(CARRIER_A, &nobody.ack_of(&refused)).is_empty());
    assert_eq!(world.server.counters().stray, 0);
}

/// A carrier over a connection that is over its rate gets a 503, whose ACK is for this server.
#[test]
fn the_ack_of_a_503_for_its_rate_is_recognised() {
    let mut config = config();
    hidden(&mut config);
    let mut world = World::at(config, 2);
    world.register("bob", BOB, &format!("<sip:bob@{BOB}>"));
    let calls = (1..50).map(|cseq| {
        let call = incoming(cseq).tcp();
        Request { via: format!("SIP/2.0/TCP {CARRIER_A};rport;branch=z9hG4bKin{cseq}"), ..call }
    });
    let refused = calls.into_iter().find_map(|call| {
        let sent = world.tcp(7, CARRIER_A, &call);
        let slowed = sent.into_iter().find(|sent| sent.text().starts_with("SIP/2.0 503 Slow Down"));
        Some((call, slowed?))
    });
    let (call, refused) = refused.expect("the rate is reached");
    assert_eq!(refused.header("Call-ID"), "theirs-1@carrier.example");
    world.pass(Duration::from_secs(2));
    assert!(world.tcp(7, CARRIER_A, &call.ack_of(&refused)).is_empty());
    assert_eq!(world.server.counters().stray, 0);
}

/// The trunk sends a call back again and again: its messages do not grow without end, and it ends.
#[test]
fn a_call_that_returns_from_the_trunk_does_not_grow_without_end() {
    let mut world = World::with(hidden);
    let mut sent = call(&mut world);
    let mut longest = sent.bytes.len();
    for pass in 0..60 {
        let text = sent.text();
        let via = format!("Via: SIP/2.0/UDP {CARRIER_A};branch=z9hG4bKback{pass}\r\nVia: ");
        let back = text.replacen("Via: ", &via, 1).replacen(
            "sip:+441234@198.51.100.1:5060",
            "sip:+441234@example.org",
            1,
        );
        let Some(next) = requests(world.udp(CARRIER_A, &back.into_bytes()))
            .into_iter()
            .find(|sent| sent.method() == "INVITE")
        else {
            assert!(longest < 8000, "{longest}");
            return;
        };
        longest = longest.max(next.bytes.len());
        sent = next;
    }
    panic!("no end: {}", sent.text());
}

#[test]
fn a_call_with_too_much_to_hide_is_refused() {
    let mut world = World::with(|config| {
        hidden(config);
        crate::routes::only_first(config);
    });
    let routes = (0..40).map(|number| format!("<sip:10.0.0.{number};lr;token={}>", "x".repeat(30)));
    let long = format!("Record-Route: {}", routes.collect::<Vec<_>>().join(", "));
    let refused = world.udp(ALICE, &invite("sip:+441234@example.org").call_id("long").line(&long));
    assert!(requests(refused.clone()).iter().all(|sent| sent.to() != CARRIER_A));
    assert!(statuses(&refused).contains(&513), "{:?}", statuses(&refused));
    assert!(world.server.counters().topology_too_long > 0);
    world.pass(Duration::from_secs(40));
}

/// A trunk without the setting, and phones, have what they had.
#[test]
fn another_trunk_sees_what_it_saw() {
    let mut world = World::with(hidden);
    let sent = call(&mut world);
    let next = requests(world.udp(CARRIER_A, &sent.answer(503, &[])));
    let next = only(next.into_iter().filter(|sent| sent.to() == crate::routes::CARRIER_B).collect());
    assert_eq!((next.header("Call-ID").as_str(), next.headers("Via").len()), (CALL, 2));
    assert!(!next.text().contains(";rh="), "{}", next.text());
}
