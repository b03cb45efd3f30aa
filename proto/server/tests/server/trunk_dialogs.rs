//! Tests of what reaches a trunk inside a dialog, and of what counts for its destination rules: a stranger whose call a user forwards, a
//! user with the mark of a call that the trunk refused, numbers that only a trunk reads as such.

use crate::challenge::proven;
use crate::forwards::always;
use crate::harness::{
    ALICE, Request, STRANGER, Sent, World, forwarded, invite, only, register, request, requests, statuses,
};
use crate::routes::{CARRIER_A, carriers};
use ringway_server::{
    Config, Destination, DestinationRule, DestinationRules, NumberChange, Route, RouteTable, RouteTo,
    TrunkLogin, WeightedTrunk,
};

const CHALLENGE: &str = "Proxy-Authenticate: Digest realm=\"carrier\", nonce=\"n1\", qop=\"auth\"";
/// Contact of the trunk in its responses.
const TARGET: &str = "sip:+441234@198.51.100.1:5060";
const EVE: &str = "sip:eve@example.net";

/// Premium numbers are forbidden, and any others may be called twice an hour; the first carrier has an account.
fn ruled(config: &mut Config) {
    carriers(config);
    config.auth.enabled = true;
    config.auth.trusted.clear();
    let (username, password) = ("acct".to_owned(), "secret".to_owned());
    config.trunking.trunks.edit()[0].login = Some(TrunkLogin { username, password, realm: None });
    let rules = [("+881", DestinationRule::Deny), ("", DestinationRule::PerHour(2))];
    let rules = rules.map(|(prefix, rule)| Destination { prefix: prefix.into(), rule });
    config.trunking.destinations = DestinationRules::new(rules.into()).unwrap();
}

/// The same; bob forwards all calls to a number.
fn world() -> World {
    let mut world = World::with(ruled);
    world.server.set_forwards(b"bob@example.org", always("sip:+441234@example.org"));
    world
}

/// INVITE of a stranger to bob.
fn strangers_call(call_id: &str) -> Request {
    let call = invite("sip:bob@example.org").from(EVE).call_id(call_id);
    Request {
        lines: vec![format!("Contact: <sip:eve@{STRANGER}>")],
        via: format!("SIP/2.0/UDP {STRANGER};rport;branch=z9hG4bK"),
        ..call
    }
}

/// The trunk's response to an INVITE of eve, as she gets it; it challenges first.
fn answered_by_trunk(world: &mut World, status: u16) -> Sent {
    let first = forwarded(world.udp(STRANGER, &strangers_call("call")));
    assert_eq!(first.to(), CARRIER_A);
    let sent = requests(world.udp(CARRIER_A, &first.answer(407, &[CHALLENGE])));
    let again = only(sent.into_iter().filter(|sent| sent.method() == "INVITE").collect());
    assert_eq!(again.headers("Proxy-Authorization").len(), 1, "bob's forward has the account");
    let answer = again.answer_tagged(status, "trunks", &[&format!("Contact: <{TARGET}>")]);
    only(world.udp(CARRIER_A, &answer))
}

/// Request of the caller in the dialog of `answer` with this To tag.
fn in_dialog(answer: &Sent, method: &str, uri: &str, cseq: u32, tag: &str) -> Request {
    let to = answer.header("To").replace("trunks", tag);
    let mut request = request(method, uri).cseq(cseq).to(&to);
    request.from = answer.header("From");
    request.via = format!("SIP/2.0/UDP {STRANGER};rport;branch=z9hG4bK");
    request.lines = vec![format!("Route: {}", answer.header("Record-Route"))];
    request.line("Contact: <sip:eve@203.0.113.66:5060>")
}

#[test]
fn a_stranger_continues_a_forwarded_call_and_begins_nothing() {
    for status in [200, 180] {
        let mut world = world();
        let answer = answered_by_trunk(&mut world, status);
        let mut cseq = 10;
        for method in ["INVITE", "UPDATE", "INFO", "OPTIONS", "MESSAGE", "SUBSCRIBE", "REFER"] {
            for (uri, tag, refusal) in [
                ("sip:+8815550001@198.51.100.1:5060", "trunks", 403),
                ("sip:+442222@198.51.100.1:5060;x=y", "trunks", 403),
                ("sip:+441234@198.51.100.1", "trunks", 403),
                (TARGET, "made-up", 481),
                ("sip:+8815550001@198.51.100.1:5060", "made-up", 481),
            ] {
                cseq += 1;
                let sent = world.udp(STRANGER, &in_dialog(&answer, method, uri, cseq, tag));
                assert_eq!(statuses(&sent), [refusal], "{method} {uri} {tag}");
                assert!(requests(sent).is_empty());
            }
        }
        assert_eq!(world.server.counters().trunk_targets_refused, 35);
        for method in ["MESSAGE", "SUBSCRIBE", "REFER"] {
            cseq += 1;
            let sent = world.udp(STRANGER, &in_dialog(&answer, method, TARGET, cseq, "trunks"));
            assert_eq!(statuses(&sent), [403], "{method}");
        }
        // Requests of the call pass, and are paid for as the call is.
        for method in ["INVITE", "UPDATE", "BYE"] {
            cseq += 1;
            let sent = forwarded(world.udp(STRANGER, &in_dialog(&answer, method, TARGET, cseq, "trunks")));
            assert_eq!(sent.to(), CARRIER_A, "{method}");
            let sent = requests(world.udp(CARRIER_A, &sent.answer(407, &[&CHALLENGE.replace("n1", "n2")])));
            let again = sent.iter().find(|sent| sent.method() == method).expect("it is sent again");
            assert_eq!(again.headers("Proxy-Authorization").len(), 1, "{method}");
            world.udp(CARRIER_A, &again.answer(200, &[&format!("Contact: <{TARGET}>")]));
        }
    }
}

/// RFC 3261 §16.6 step 6: a Route without `lr` becomes the Request-URI, here or at the trunk.
#[test]
fn a_strict_route_is_what_the_trunk_dials() {
    let mut world = world();
    let answer = answered_by_trunk(&mut world, 200);
    let premium = "<sip:+8815550001@198.51.100.1:5060>";
    let loose = "<sip:198.51.100.1:5060;lr>";
    for (cseq, routes) in (11..).zip([premium.to_owned(), format!("{loose}, {premium}")]) {
        let again = in_dialog(&answer, "INVITE", TARGET, cseq, "trunks").line(&format!("Route: {routes}"));
        let sent = world.udp(STRANGER, &again);
        assert_eq!(statuses(&sent), [403], "{routes}");
        assert!(requests(sent).is_empty());
    }
    // As a strict router in front sends it (RFC 3261 §16.4): our URI first, the target last.
    let own = answer.header("Record-Route");
    let mut again = in_dialog(&answer, "INVITE", own.trim_matches(['<', '>']), 13, "trunks");
    again.lines = vec![format!("Route: {premium}, <{TARGET}>")];
    assert_eq!(statuses(&world.udp(STRANGER, &again)), [403]);
    again.lines = vec![format!("Route: <{TARGET}>")];
    assert_eq!(forwarded(world.udp(STRANGER, &again.cseq(14))).uri(), TARGET);
    let mut world = World::with(ruled);
    let rings = refused_call(&mut world);
    let route = |request: Request, route: &str| request.line(&format!("Route: {route}"));
    for request in [
        route(of_alice(&rings, "INVITE", TARGET, 11, "trunks"), premium),
        route(of_alice(&rings, "INVITE", "tel:+8815550001", 12, "trunks"), loose),
    ] {
        let sent = world.udp(ALICE, &request);
        assert_eq!(statuses(&sent), [403], "{}", request.uri);
        assert!(requests(sent).is_empty());
    }
}

#[test]
fn a_made_up_tag_counts_as_a_call() {
    let mut world = World::with(ruled);
    let mut called = |number: u32| {
        let call = invite("sip:+441234@example.org").to("<sip:+441234@example.org>;tag=made-up");
        let sent = proven(&mut world, ALICE, &call.call_id(&format!("call-{number}")), "alice");
        requests(sent).len()
    };
    assert_eq!([1, 2, 3].map(&mut called), [1, 1, 0]);
}

/// A request that ends or completes something passes whatever it names, without the account.
#[test]
fn the_account_proves_nothing_else_of_a_stranger() {
    let mut world = world();
    let answer = answered_by_trunk(&mut world, 200);
    let bye = in_dialog(&answer, "BYE", "sip:+442222@198.51.100.1:5060", 11, "trunks");
    let sent = forwarded(world.udp(STRANGER, &bye));
    let sent = world.udp(CARRIER_A, &sent.answer(407, &[&CHALLENGE.replace("n1", "n2")]));
    assert!(requests(sent.clone()).iter().all(|sent| sent.headers("Proxy-Authorization").is_empty()));
    assert_eq!(statuses(&sent), [407]);
}

#[test]
fn the_trunk_moves_its_target() {
    let mut world = world();
    let answer = answered_by_trunk(&mut world, 200);
    let moved = "sip:+441234@198.51.100.1:5070";
    let again = in_dialog(&answer, "INVITE", TARGET, 11, "trunks");
    let sent = forwarded(world.udp(STRANGER, &again));
    world.udp(CARRIER_A, &sent.answer(200, &[&format!("Contact: <{moved}>")]));
    for (cseq, method) in (12..).zip(["UPDATE", "BYE"]) {
        let sent = forwarded(world.udp(STRANGER, &in_dialog(&answer, method, moved, cseq, "trunks")));
        assert_eq!(sent.to(), "198.51.100.1:5070", "{method}");
    }
}

/// Call of alice to the trunk, which rings and is refused; her 180.
fn refused_call(world: &mut World) -> Sent {
    let got = forwarded(proven(world, ALICE, &invite("sip:+441234@example.org"), "alice"));
    let rings = got.answer_tagged(180, "trunks", &[&format!("Contact: <{TARGET}>")]);
    let rings = only(world.udp(CARRIER_A, &rings));
    world.udp(CARRIER_A, &got.answer_tagged(486, "trunks", &[]));
    rings
}

fn of_alice(rings: &Sent, method: &str, uri: &str, cseq: u32, tag: &str) -> Request {
    let request = in_dialog(rings, method, uri, cseq, tag);
    Request { via: format!("SIP/2.0/UDP {ALICE};rport;branch=z9hG4bK"), ..request }
}

#[test]
fn a_users_requests_in_a_dialog_obey_the_destination_rules() {
    let mut world = World::with(ruled);
    let rings = refused_call(&mut world);
    for (cseq, uri, tag, status) in [
        (20, "sip:+8815550001@198.51.100.1:5060", "trunks", 403),
        (21, "sip:+8815550001@198.51.100.1:5060", "other", 481),
        (22, "sip:0-0%20881@198.51.100.1:5060", "trunks", 403),
        (23, TARGET, "other", 481),
    ] {
        let sent = world.udp(ALICE, &of_alice(&rings, "INVITE", uri, cseq, tag));
        assert_eq!(statuses(&sent), [status], "{uri} {tag}");
        assert!(requests(sent).is_empty());
    }
    assert_eq!(world.server.counters().destination_refusals, 2);
    let again = of_alice(&rings, "INVITE", TARGET, 30, "trunks");
    assert_eq!(forwarded(world.udp(ALICE, &again)).to(), CARRIER_A);
}

/// A phone of the caller's own answers with the mark that the trunk got, and with a target of its own choice.
#[test]
fn only_the_trunk_answers_for_the_mark_that_it_got() {
    const PHONE: &str = "192.0.2.11:5060";
    const PREMIUM: &str = "sip:+8815550001@203.0.113.9:5060";
    let mut world = World::with(ruled);
    let binding = register("alice", &format!("<sip:alice@{PHONE}>"));
    let sent = proven(&mut world, PHONE, &binding.call_id("binding"), "alice");
    assert_eq!(only(sent).status(), 200);
    let at_trunk = forwarded(proven(&mut world, ALICE, &invite("sip:+441234@example.org"), "alice"));
    let mark = at_trunk.header("Record-Route");
    // A proxy of the trunk's in front of it hides its mark from nobody.
    let behind = format!("Record-Route: <sip:198.51.100.1;lr>\r\nRecord-Route: {mark}");
    let with = |answer: Vec<u8>, own: &str, routes: &str| {
        let text = String::from_utf8(answer).unwrap();
        text.replace(&format!("Record-Route: {own}"), routes).into_bytes()
    };
    let rings = at_trunk.answer_tagged(180, "trunks", &[&format!("Contact: <{TARGET}>")]);
    let rings = only(world.udp(CARRIER_A, &with(rings, &mark, &behind)));
    assert_ne!(rings.headers("Record-Route")[1], mark, "the trunk's answer is in it");

    let own = invite("sip:alice@example.org").to("<sip:+441234@example.org>").cseq(7);
    let at_phone = forwarded(proven(&mut world, ALICE, &own, "alice"));
    let rings = at_phone.answer_tagged(180, "made-up", &[&format!("Contact: <{PREMIUM}>")]);
    let rings = with(rings, &at_phone.header("Record-Route"), &format!("Record-Route: {mark}"));
    let rings = only(world.udp(PHONE, &rings));
    let mut again = of_alice(&rings, "INVITE", PREMIUM, 20, "made-up");
    again.lines.push("Route: <sip:198.51.100.1;lr>".into());
    let sent = world.udp(ALICE, &again);
    assert!(requests(sent.clone()).is_empty(), "{}", requests(sent)[0].text());
    assert_eq!(statuses(&sent), [481]);
}

#[test]
fn a_trunk_is_not_made_to_dial_a_forbidden_number() {
    let refer = |request: Request, target: &str| request.line(&format!("Refer-To: {target}"));
    for (target, passes) in [
        ("<sip:+8815559999@198.51.100.1>", false),
        ("<sip:%2B8815559999@elsewhere.example>", false),
        ("<tel:+881-5559999>", false),
        ("<sip:x+8815559999@198.51.100.1>", false),
        ("<cid:list@example.org>", false),
        ("<sip:+442222@198.51.100.1>", true),
        ("<sip:carol@example.org>", true),
    ] {
        let mut world = World::with(ruled);
        let rings = refused_call(&mut world);
        let inside = refer(of_alice(&rings, "REFER", TARGET, 40, "trunks"), target);
        let sent = world.udp(ALICE, &inside);
        assert_eq!(requests(sent.clone()).len(), usize::from(passes), "{target} in a dialog");
        assert_eq!(statuses(&sent).contains(&403), !passes, "{target}");

        let mut world = World::with(ruled);
        let outside = refer(request("REFER", "sip:+441234@example.org").call_id("r"), target);
        let sent = proven(&mut world, ALICE, &outside, "alice");
        // The target of the REFER is one of the two numbers of the hour, that of Refer-To may be the other.
        assert_eq!(requests(sent).len(), usize::from(passes), "{target} outside");
    }
}

#[test]
fn all_but_options_count_for_the_hour() {
    for (method, counts) in
        [("INVITE", true), ("MESSAGE", true), ("SUBSCRIBE", true), ("REFER", true), ("OPTIONS", false)]
    {
        let mut world = World::with(ruled);
        let reached = (0..4).filter(|number| {
            let request = request(method, "sip:+441234@example.org").call_id(&format!("{method}{number}"));
            !requests(proven(&mut world, ALICE, &request, "alice")).is_empty()
        });
        assert_eq!(reached.count(), if counts { 2 } else { 4 }, "{method}");
    }
}

#[test]
fn the_forwards_of_a_user_have_a_count_of_their_own() {
    let mut world = world();
    let mut reached = 0;
    for number in 0..5 {
        let sent = world.udp(STRANGER, &strangers_call(&format!("s{number}")));
        reached += requests(sent).len();
    }
    assert_eq!(reached, 2);
    for (number, reaches) in [(0, true), (1, true), (2, false)] {
        let mut call = invite("sip:+445555@example.org").from("sip:bob@example.org");
        call.call_id = format!("bob{number}");
        let sent = proven(&mut world, "192.0.2.20:5060", &call, "bob");
        assert_eq!(!requests(sent).is_empty(), reaches, "bob's own call {number}");
    }
}

/// A domain that is a trunk's gets the user part as it was dialled.
#[test]
fn what_only_the_trunk_reads_as_a_number_is_refused() {
    for (user, passes) in [
        ("+442222", true),
        ("sales", true),
        ("j.doe-x_y", true),
        ("+88111", false),
        ("88111", false),
        ("0088111", false),
        ("8+81", false),
        ("%20+88111", false),
        ("x+88111", false),
        ("+88111%20", false),
        ("%2588111", false),
        ("+88111%00", false),
        ("%EF%BC%98881", false),
    ] {
        let mut world = World::with(ruled);
        let call = invite(&format!("sip:{user}@other.example"));
        let sent = proven(&mut world, ALICE, &call, "alice");
        assert_eq!(requests(sent.clone()).len(), usize::from(passes), "{user}");
        assert_eq!(statuses(&sent).contains(&403), !passes, "{user}");
        // Without rules the trunk decides.
        let mut world = World::with(|config| {
            ruled(config);
            config.trunking.destinations = DestinationRules::default();
        });
        assert_eq!(requests(proven(&mut world, ALICE, &call, "alice")).len(), 1, "{user}");
    }
}

/// A carrier elsewhere has other digits before a country code, and dials what follows a service code.
#[test]
fn a_number_is_compared_as_the_carrier_may_dial_it() {
    let australia: &[&str] = &["0011", "0018"];
    for (prefixes, user, passes) in [
        (&[][..], "001188111", true),
        (australia, "001188111", false),
        (australia, "001888111", false),
        (australia, "001144111", true),
        (australia, "0088111", true),
        (&["010", "00"], "01088111", false),
        (&["119"], "11988111", false),
        (&[], "*31%2388111", false),
        (&[], "*310088111", false),
        (&[], "*670088111", false),
        (&[], "*21*0088111%23", false),
        (&[], "%2331%230088111", false),
        (&[], "*31%230301111", true),
        (&[], "*98", true),
        (&[], "*881", true),
        (australia, "*31%23001188111", false),
        (&[], "44;phone-context=+49;phone-context=+88", false),
    ] {
        let mut world = World::with(|config| {
            ruled(config);
            for trunk in config.trunking.trunks.edit().iter_mut() {
                trunk.international = prefixes.iter().map(|&prefix| prefix.into()).collect();
            }
        });
        let call = invite(&format!("sip:{user}@other.example"));
        let sent = proven(&mut world, ALICE, &call, "alice");
        assert_eq!(requests(sent.clone()).len(), usize::from(passes), "{user} {prefixes:?}");
        assert_eq!(statuses(&sent).contains(&403), !passes, "{user} {prefixes:?}");
    }
}

/// By a route for numbers the rules see what the trunk gets, and the international prefixes that its section names.
#[test]
fn a_number_of_a_route_is_compared_with_the_prefixes_of_its_trunk() {
    let first: &[&str] = &["0011"];
    for (prefixes, number, passes) in [
        (&[][..], "001188111", true),
        (first, "001188111", false),
        (first, "001144111", true),
        (first, "0088111", true),
    ] {
        let mut world = World::with(|config| {
            ruled(config);
            config.trunking.trunks.edit()[0].international =
                prefixes.iter().map(|&prefix| prefix.into()).collect();
            let trunks = [WeightedTrunk { trunk: 0, weight: 0 }].as_slice().into();
            let to = RouteTo::Trunks { trunks, change: NumberChange::default() };
            let route = Route { matches: crate::routes::prefix("0"), to };
            config.trunking.routes = RouteTable::new(vec![route]).unwrap();
        });
        let sent = proven(&mut world, ALICE, &invite(&format!("sip:{number}@example.org")), "alice");
        assert_eq!(requests(sent.clone()).len(), usize::from(passes), "{number} {prefixes:?}");
        assert_eq!(statuses(&sent).contains(&403), !passes, "{number} {prefixes:?}");
    }
}

#[test]
fn a_number_is_compared_as_its_route_would_change_it() {
    let mut world = World::with(|config| {
        ruled(config);
        let rules = vec![Destination { prefix: "+4930".into(), rule: DestinationRule::Deny }];
        config.trunking.destinations = DestinationRules::new(rules).unwrap();
    });
    let sent = proven(&mut world, ALICE, &invite("sip:030111@other.example"), "alice");
    assert_eq!((requests(sent.clone()).len(), statuses(&sent).contains(&403)), (0, true));
}
