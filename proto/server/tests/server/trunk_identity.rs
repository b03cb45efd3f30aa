//! Tests of the caller's identity at trunks (decision 0061): another From there, which nobody but the trunk sees, and the forms of numbers.

use crate::ends::nothing_is_left;
use crate::forwards::always;
use crate::harness::{
    ALICE, BOB, Request, STRANGER, Sent, Wire, World, forwarded, invite, only, request, requests, statuses,
};
use crate::routes::{CARRIER_A, CARRIER_B, carriers, prefix};
use ringway_server::{
    CallerPrivacy, Config, Dialing, IdentityTemplate, NumberChange, NumberForm, Route, RouteTable, RouteTo,
    TrunkIdentity, TrunkLogin, WeightedTrunk,
};
use std::time::Duration;

const CHALLENGE: &str = "Proxy-Authenticate: Digest realm=\"carrier\", nonce=\"n1\", qop=\"auth\"";
/// Contact of the trunk.
const TARGET: &str = "sip:+441234@198.51.100.1:5060";
const SHOWN: &str = "sip:+4930123401@carrier.example";

fn template(text: &str) -> Option<IdentityTemplate> {
    Some(IdentityTemplate::parse(text).unwrap())
}

fn national() -> NumberForm {
    NumberForm::National { country: "44".into(), prefix: "0".into(), international: "00".into() }
}

/// Two carriers, of which the first reads From, and alice has a number there.
pub(crate) fn reading_from(config: &mut Config) {
    carriers(config);
    let trunk = &mut config.trunking.trunks.edit()[0];
    trunk.identity = TrunkIdentity { from: template("{number}@{domain}"), ..TrunkIdentity::default() };
    trunk.callers = vec![("alice".into(), "+4930123401".into())];
    trunk.domain = Some("carrier.example".into());
}

fn call(world: &mut World) -> Sent {
    only(requests(world.udp(ALICE, &invite("sip:+441234@example.org"))))
}

/// A call that the carrier answered: its INVITE, and the answer that alice got.
fn answered(world: &mut World) -> (Sent, Sent) {
    let sent = call(world);
    let answer = sent.answer_tagged(200, "theirs", &[&format!("Contact: <{TARGET}>")]);
    let answer = only(world.udp(CARRIER_A, &answer));
    (sent, answer)
}

/// Request of alice in the dialog of `answer`.
fn of_alice(answer: &Sent, method: &str, cseq: u32) -> Request {
    let mut request = request(method, TARGET).cseq(cseq).to(&answer.header("To"));
    request.from = answer.header("From");
    request.lines = vec![format!("Route: {}", answer.header("Record-Route"))];
    request.line(&format!("Contact: <sip:alice@{ALICE}>"))
}

/// Request of the carrier in the dialog that `sent` began.
pub(crate) fn of_carrier(sent: &Sent, method: &str, cseq: u32) -> Request {
    let contact = sent.header("Contact");
    let mut request = request(method, contact.trim_matches(['<', '>'])).cseq(cseq).to(&sent.header("From"));
    request.from = format!("{};tag=theirs", sent.header("To"));
    request.via = format!("SIP/2.0/UDP {CARRIER_A};rport;branch=z9hG4bKcarrier{cseq}");
    request.lines = vec![format!("Route: {}", sent.header("Record-Route"))];
    request.call_id(&sent.header("Call-ID")).line(&format!("Contact: <{TARGET}>"))
}

#[test]
fn a_trunk_has_its_own_from_and_the_caller_gets_back_what_it_wrote() {
    for status in [180, 183, 200, 404, 486, 503] {
        let mut world = World::with(reading_from);
        let sent = call(&mut world);
        let (tag, own) = ("tag=from-alice", "<sip:alice@example.org>;tag=from-alice");
        assert!(sent.header("From").starts_with(&format!("<{SHOWN}>;")), "{}", sent.text());
        assert!(sent.header("From").ends_with(tag), "{}", sent.text());
        assert!(!sent.text().contains("alice@example.org"), "{}", sent.text());
        assert_eq!(sent.header("P-Asserted-Identity"), "<sip:+4930123401@carrier.example;user=phone>");
        let answers = world.udp(CARRIER_A, &sent.answer(status, &[&format!("Contact: <{TARGET}>")]));
        let answer = answers.into_iter().find(|sent| sent.text().starts_with("SIP/2.0"));
        if let Some(answer) = answer {
            assert_eq!(answer.header("From"), own, "{status}");
        }
    }
}

#[test]
fn both_sides_of_a_dialog_see_the_from_that_they_know() {
    let mut world = World::with(reading_from);
    let (sent, answer) = answered(&mut world);
    let own = answer.header("From");
    assert_eq!(own, "<sip:alice@example.org>;tag=from-alice");
    let ack = only(requests(world.udp(ALICE, &of_alice(&answer, "ACK", 1))));
    assert_eq!(ack.header("From"), sent.header("From"), "the ACK too");
    for (cseq, method) in (2..).zip(["INVITE", "INFO", "UPDATE"]) {
        let passed = forwarded(world.udp(ALICE, &of_alice(&answer, method, cseq)));
        assert_eq!(
            (passed.header("From"), passed.to().as_str()),
            (sent.header("From"), CARRIER_A),
            "{method}"
        );
        let back = world.udp(CARRIER_A, &passed.answer(200, &[&format!("Contact: <{TARGET}>")]));
        assert_eq!(only(back).header("From"), own, "{method}");
    }
    for (cseq, method) in (20..).zip(["INVITE", "INFO", "UPDATE"]) {
        let all = world.udp(CARRIER_A, &of_carrier(&sent, method, cseq));
        for local in all.iter().filter(|sent| sent.text().starts_with("SIP/2.0 100")) {
            assert_eq!(local.header("To"), sent.header("From"), "the 100 too");
        }
        let passed = forwarded(all);
        assert_eq!((passed.header("To"), passed.to().as_str()), (own.clone(), ALICE), "{method}");
        let back = world.udp(ALICE, &passed.answer(200, &[&format!("Contact: <sip:alice@{ALICE}>")]));
        assert_eq!(only(back).header("To"), sent.header("From"), "{method}");
    }
    // A failure, and one of this server.
    let passed = forwarded(world.udp(CARRIER_A, &of_carrier(&sent, "INFO", 30)));
    let back = only(world.udp(ALICE, &passed.answer(481, &[])));
    assert_eq!((back.status(), back.header("To")), (481, sent.header("From")));
    let mut refused = of_carrier(&sent, "INFO", 31);
    refused.max_forwards = Some(0);
    let back = only(world.udp(CARRIER_A, &refused));
    assert_eq!((back.status(), back.header("To")), (483, sent.header("From")));
    let passed = forwarded(world.udp(CARRIER_A, &of_carrier(&sent, "BYE", 40)));
    assert_eq!((passed.header("To"), passed.method().as_str()), (own, "BYE"));
    assert_eq!(statuses(&world.udp(ALICE, &passed.answer(200, &[]))), [200]);
    nothing_is_left(&mut world, "after a call with another From");
}

/// The sides are proven by the mark as in any call: a made-up value, or that of another call, changes nothing and admits nobody.
#[test]
fn the_parameter_of_another_call_or_a_changed_one_is_worth_nothing() {
    let mut world = World::with(|config| {
        reading_from(config);
        config.auth.enabled = true;
        config.auth.trusted = vec!["192.0.2.10".parse().unwrap()];
    });
    let (sent, _) = answered(&mut world);
    let good = of_carrier(&sent, "BYE", 20);
    let route = sent.header("Record-Route");
    let (before, value) = route.split_once(";ri=").expect("the parameter");
    let (value, behind) = value.split_at(value.find([';', '>']).unwrap());
    let middle = value.len() / 2;
    let flipped = if value.as_bytes()[middle] == b'A' { "B" } else { "A" };
    for bad in ["", "AAAA", &value[1..], &format!("{}{flipped}{}", &value[..middle], &value[middle + 1..])] {
        let mut forged = good.clone();
        forged.lines[0] = format!("Route: {before};ri={bad}{behind}");
        let answers = world.udp(CARRIER_A, &forged);
        assert!(requests(answers).iter().all(|sent| sent.to() != ALICE), "{bad}");
    }
    let other = Request { call_id: "another".into(), ..good.clone() };
    assert!(requests(world.udp(CARRIER_A, &other)).iter().all(|sent| sent.to() != ALICE));
    let from_elsewhere = world.udp(STRANGER, &Request { cseq: 21, ..good.clone() });
    assert!(
        requests(from_elsewhere).iter().all(|sent| sent.to() != ALICE),
        "a stranger with the whole Route"
    );
    let passed = forwarded(world.udp(CARRIER_A, &good));
    assert_eq!(passed.to(), ALICE);
}

#[test]
fn each_trunk_of_a_route_and_each_attempt_has_its_from() {
    let mut world = World::with(|config| {
        reading_from(config);
        let (username, password) = ("acct".to_owned(), "secret".to_owned());
        config.trunking.trunks.edit()[0].login = Some(TrunkLogin { username, password, realm: None });
        config.trunking.trunks.edit()[1].identity.from = template("{user}@b.example");
    });
    let first = call(&mut world);
    let sent = requests(world.udp(CARRIER_A, &first.answer(407, &[CHALLENGE])));
    let again = only(sent.into_iter().filter(|sent| sent.method() == "INVITE").collect());
    assert_eq!(again.header("From"), first.header("From"));
    let sent = requests(world.udp(CARRIER_A, &again.answer(500, &[])));
    let next = only(sent.into_iter().filter(|sent| sent.to() == CARRIER_B).collect());
    assert!(next.header("From").starts_with("<sip:alice@b.example>;tag=from-alice"), "{}", next.text());
    let answer = only(world.udp(CARRIER_B, &next.answer(200, &[])));
    assert_eq!(answer.header("From"), "<sip:alice@example.org>;tag=from-alice");
}

#[test]
fn an_anonymous_from_and_one_without_a_number_stay() {
    for from in [
        "\"Anonymous\" <sip:anonymous@anonymous.invalid>",
        "<sip:Anonymous@example.org>",
        "<sip:carol@example.org>",
    ] {
        let mut world = World::with(reading_from);
        let mut request = invite("sip:+441234@example.org");
        request.from = format!("{from};tag=from-alice");
        let sent = requests(world.udp(ALICE, &request));
        for sent in sent.iter().filter(|sent| sent.to() == CARRIER_A) {
            assert_eq!(sent.header("From"), format!("{from};tag=from-alice"));
            assert!(!sent.header("Record-Route").contains(";ri="));
        }
    }
}

#[test]
fn the_other_fields_follow_their_templates() {
    let mut world = World::with(|config| {
        carriers(config);
        let trunk = &mut config.trunking.trunks.edit()[0];
        trunk.caller = ringway_server::CallerNumber::Number("+44301234".into());
        trunk.numbers_out = national();
        trunk.privacy = CallerPrivacy::Id;
        trunk.identity = TrunkIdentity {
            from: None,
            asserted: template("{number}@{domain}"),
            remote_party: template("{user}@{domain}"),
            diversion: None,
        };
    });
    let spoofed = invite("sip:+441234567@example.org").line("P-Asserted-Identity: <sip:boss@example.org>");
    let sent = only(requests(world.udp(ALICE, &spoofed.line("Remote-Party-ID: <sip:boss@example.org>"))));
    assert_eq!(sent.header("P-Asserted-Identity"), "<sip:0301234@198.51.100.1>");
    assert_eq!(sent.header("Remote-Party-ID"), "<sip:alice@198.51.100.1>");
    assert_eq!(sent.header("Privacy"), "id");
    assert!(sent.header("From").starts_with("<sip:alice@example.org>"));
    assert_eq!(sent.uri(), "sip:01234567@198.51.100.1:5060;user=phone", "the called number too");
}

#[test]
fn numbers_of_a_trunk_have_one_form_inside() {
    let mut world = World::with(|config| {
        carriers(config);
        config.trunking.trunks.edit()[0].numbers_in = national();
        let route = Route { matches: prefix("+4430777"), to: RouteTo::User("bob".into()) };
        config.trunking.routes = RouteTable::new(vec![route]).unwrap();
    });
    world.register("bob", BOB, &format!("<sip:bob@{BOB}>"));
    let mut incoming = invite("sip:030777001@example.org").from("sip:0201234567@carrier.example");
    incoming.via = format!("SIP/2.0/UDP {CARRIER_A};rport;branch=z9hG4bKin");
    incoming.lines = vec![format!("Contact: <{TARGET}>")];
    let mut sent = world.udp(CARRIER_A, &incoming);
    while let Some(own) = requests(sent.clone()).into_iter().find(|sent| sent.to() == "192.0.2.1:5060") {
        sent = world.udp("192.0.2.1:5060", &own.bytes);
    }
    let rings = only(requests(sent));
    assert_eq!(rings.to(), BOB);
    assert!(rings.header("From").starts_with("<sip:+44201234567@carrier.example>;tag="), "{}", rings.text());
    // Bob's own requests name the number that his phone shows.
    let answer = rings.answer_tagged(200, "bobs", &[&format!("Contact: <sip:bob@{BOB}>")]);
    let mut answers = world.udp(BOB, &answer);
    while let Some(own) = answers.iter().find(|sent| sent.to() == "192.0.2.1:5060").cloned() {
        answers = world.udp("192.0.2.1:5060", &own.bytes);
    }
    let answer = only(answers);
    assert_eq!((answer.to().as_str(), answer.status()), (CARRIER_A, 200));
    assert!(answer.header("From").starts_with("<sip:0201234567@carrier.example>"), "{}", answer.text());
    world.pass(Duration::from_millis(1));
}

/// Users of example.org write numbers as in Britain, in both directions; numbers go to the first carrier, and +4430777… is bob.
fn dialling(config: &mut Config) {
    carriers(config);
    let trunks = [WeightedTrunk { trunk: 0, weight: 0 }].as_slice().into();
    let to = RouteTo::Trunks { trunks, change: NumberChange::default() };
    let bob = Route { matches: prefix("+4430777"), to: RouteTo::User("bob".into()) };
    config.trunking.routes = RouteTable::new(vec![Route { matches: prefix("+"), to }, bob]).unwrap();
    let domain = Some("example.org".into());
    config.trunking.dialing = vec![Dialing { domain, called: national(), callers: national() }];
}

#[test]
fn a_forwarded_call_names_who_forwarded_it_by_the_template_of_the_trunk() {
    for (number, named) in [("+4930123402", "sip:+4930123402@carrier.example"), ("", "sip:bob@example.org")] {
        let mut world = World::with(|config| {
            reading_from(config);
            config.auth.enabled = true;
            let trunk = &mut config.trunking.trunks.edit()[0];
            trunk.identity.diversion = template("{number}@{domain}");
            if !number.is_empty() {
                trunk.callers.push(("bob".into(), number.into()));
            }
        });
        world.add_user("bob", "example.org", "x");
        world.server.set_forwards(b"bob@example.org", always("sip:+441234@example.org"));
        // What a stranger says of earlier diversions does not reach the trunk, and is counted.
        let call = invite("sip:bob@example.org")
            .from("sip:x@elsewhere.example")
            .line("Diversion: <sip:+4930123499@carrier.example>;reason=user-busy");
        let sent = forwarded(world.udp(STRANGER, &call));
        let diversion = format!("<{named}>;reason=unconditional;counter=2");
        assert_eq!(sent.headers("Diversion"), [diversion]);
        let history = sent.headers("History-Info").join(", ");
        assert!(history.starts_with(&format!("<{named}>;index=1, ")), "{history}");
    }
}

#[test]
fn numbers_that_users_dial_are_read_before_routes() {
    let mut world = World::with(dialling);
    world.add_user("02099999", "example.org", "x");
    world.server.set_permanent_contacts(b"02099999@example.org", &[b"sip:bob@192.0.2.20"]);
    for (dialled, at_trunk) in [
        ("sip:0201234567@example.org", "sip:+44201234567@"),
        ("tel:020-123-4567", "sip:+44201234567@"),
        ("sip:0049301234567@example.org", "sip:+49301234567@"),
        ("sip:+49301234567@example.org", "sip:+49301234567@"),
    ] {
        let sent = forwarded(world.udp(ALICE, &invite(dialled).call_id(dialled)));
        assert!(sent.uri().starts_with(at_trunk), "{dialled}: {}", sent.text());
        assert_eq!(sent.header("To"), format!("<{dialled}>"));
    }
    // A user of that name comes first, a short number is none of E.164.
    assert_eq!(forwarded(world.udp(ALICE, &invite("sip:02099999@example.org").call_id("u"))).to(), BOB);
    assert!(statuses(&world.udp(ALICE, &invite("sip:0112@example.org").call_id("s"))).contains(&404));
}

#[test]
fn a_number_that_a_user_forwards_to_is_read_like_a_dialled_one() {
    let mut world = World::with(dialling);
    world.add_user("bob", "example.org", "x");
    world.server.set_forwards(b"bob@example.org", always("sip:0201234567@example.org"));
    let sent = forwarded(world.udp(ALICE, &invite("sip:bob@example.org")));
    assert!(sent.uri().starts_with("sip:+44201234567@"), "{}", sent.text());
}

#[test]
fn users_get_the_callers_number_as_they_dial_it() {
    let mut world = World::with(dialling);
    world.register("bob", BOB, &format!("<sip:bob@{BOB}>"));
    let mut incoming = invite("sip:+4430777001@example.org").from("sip:+44201234567@carrier.example");
    incoming.via = format!("SIP/2.0/UDP {CARRIER_A};rport;branch=z9hG4bKin");
    incoming.lines = vec![
        format!("Contact: <{TARGET}>"),
        "P-Asserted-Identity: \"A\" <sip:+49301234567@carrier.example;user=phone>".into(),
    ];
    let rings = only(requests(passed(&mut world, CARRIER_A, &incoming)));
    assert_eq!(rings.to(), BOB);
    assert!(rings.header("From").starts_with("<sip:0201234567@carrier.example>;tag="), "{}", rings.text());
    assert_eq!(rings.header("P-Asserted-Identity"), "\"A\" <sip:0049301234567@carrier.example;user=phone>");
    let answer = rings.answer_tagged(200, "bobs", &[&format!("Contact: <sip:bob@{BOB}>")]);
    let answer = only(passed(&mut world, BOB, &answer));
    assert!(answer.header("From").starts_with("<sip:+44201234567@carrier.example>"), "{}", answer.text());
}

/// Messages that the server sends last, after each pass to itself.
pub(crate) fn passed(world: &mut World, from: &str, message: &impl Wire) -> Vec<Sent> {
    let mut sent = world.udp(from, message);
    loop {
        // The 100 of a pass is to itself too.
        let has_requests = !requests(sent.clone()).is_empty();
        let is_next =
            |one: &&Sent| one.to() == "192.0.2.1:5060" && has_requests != one.text().starts_with("SIP/2.0");
        let Some(own) = sent.iter().find(is_next).cloned() else { return sent };
        sent = world.udp("192.0.2.1:5060", &own.bytes);
    }
}

/// A template that makes the caller's own URI changes nothing, and what was sealed so by an earlier server does no harm.
#[test]
fn a_from_that_is_the_same_already_stays() {
    let mut world = World::with(|config| {
        reading_from(config);
        config.trunking.trunks.edit()[0].domain = Some("example.org".into());
        config.trunking.trunks.edit()[0].identity.from = template("{user}@{domain}");
    });
    let (sent, _) = answered(&mut world);
    assert!(!sent.header("Record-Route").contains(";ri="), "{}", sent.text());
    let passed = forwarded(world.udp(CARRIER_A, &of_carrier(&sent, "BYE", 20)));
    assert_eq!(passed.to(), ALICE);
}

/// A tag in To is no dialog: the request is a new one for the trunk.
#[test]
fn a_made_up_tag_does_not_show_the_callers_own_from() {
    let mut world = World::with(reading_from);
    let request = invite("sip:+441234@example.org").to("<sip:+441234@example.org>;tag=made-up");
    let sent = only(requests(world.udp(ALICE, &request)));
    assert!(sent.header("From").starts_with(&format!("<{SHOWN}>;")), "{}", sent.text());
}

/// The sealed URIs are worth something together with the mark of their dialog only: nobody gets another From by them, or reads them.
#[test]
fn the_parameter_without_its_dialog_says_nothing() {
    let mut world = World::with(reading_from);
    let (sent, answer) = answered(&mut world);
    world.register("bob", BOB, &format!("<sip:bob@{BOB}>"));
    // To a user of ours, with the parameter and a made-up tag.
    let mut elsewhere = of_alice(&answer, "INVITE", 30);
    elsewhere.uri = "sip:bob@example.org".into();
    let elsewhere = elsewhere.to("<sip:bob@example.org>;tag=made-up");
    for sent in requests(world.udp(ALICE, &elsewhere)) {
        assert!(!sent.header("From").contains("carrier.example"), "{}", sent.text());
    }
    // As a stranger who asks what is in it.
    for to in [SHOWN, "sip:alice@example.org"] {
        let mut asks = of_carrier(&sent, "INFO", 31).to(&format!("<{to}>;tag=made-up"));
        asks.from = "<sip:eve@example.net>;tag=e".into();
        asks.max_forwards = Some(0);
        for answer in world.udp(STRANGER, &asks).iter().filter(|sent| sent.text().starts_with("SIP/2.0")) {
            assert!(answer.header("To").contains(to), "{}", answer.text());
        }
    }
}

/// Failures of this server to requests of the carrier too have the To that it sent.
#[test]
fn answers_of_this_server_to_the_carrier_have_its_to() {
    let mut world = World::with(reading_from);
    let (sent, _) = answered(&mut world);
    forwarded(world.udp(CARRIER_A, &of_carrier(&sent, "INFO", 20)));
    let cancelled = of_carrier(&sent, "INVITE", 21);
    forwarded(world.udp(CARRIER_A, &cancelled));
    let mut answers = world.udp(CARRIER_A, &cancelled.cancel());
    answers.extend(world.pass(Duration::from_secs(60)));
    let answers = answers.iter().filter(|sent| sent.to() == CARRIER_A && sent.text().starts_with("SIP/2.0"));
    let tos: Vec<String> = answers.map(|answer| answer.header("To")).collect();
    assert!(!tos.is_empty() && tos.iter().all(|to| *to == sent.header("From")), "{tos:?}");
}

/// A long call to a carrier that answers over TCP goes on as any other.
#[test]
fn a_long_call_to_a_trunk_is_a_call_with_that_trunk() {
    let mut world = World::with(reading_from);
    let long = invite("sip:+441234@example.org").line(&format!("Subject: {}", "x".repeat(1200)));
    let sent = only(requests(world.udp(ALICE, &long)));
    assert_eq!(sent.flow.transport, ringway_sansio::Transport::Tcp);
    let answer = sent.answer_tagged(200, "theirs", &[&format!("Contact: <{TARGET}>")]);
    let answer = only(world.message(crate::harness::tcp_flow(9, CARRIER_A), &answer));
    for (cseq, method) in (2..).zip(["INVITE", "UPDATE", "INFO"]) {
        let passed = only(requests(world.udp(ALICE, &of_alice(&answer, method, cseq))));
        assert_eq!(passed.to(), CARRIER_A, "{method}");
        world.udp(CARRIER_A, &passed.answer(200, &[&format!("Contact: <{TARGET}>")]));
    }
}
