//! Tests of the limits of calls to a trunk: what is refused, what never is, and that each count ends.

use crate::ends::nothing_is_left;
use crate::harness::{ALICE, Request, Sent, World, invite, only, request, requests, statuses};
use crate::routes::{CARRIER_A, CARRIER_B, carriers, only_first};
use ringway_sansio::Event;
use ringway_server::{Config, TrunkLimits, TrunkLogin};
use std::time::Duration;

const CHALLENGE: &str = "Proxy-Authenticate: Digest realm=\"carrier\", nonce=\"n1\", qop=\"auth\"";
const TARGET: &str = "sip:+441234@198.51.100.1:5060";

/// Two carriers; the first has two lines, and the second as many as `second`.
fn limited(second: u32) -> impl FnOnce(&mut Config) {
    move |config| {
        carriers(config);
        let lines = |most| Some(TrunkLimits { under_way: Some(most), per_second: None });
        config.trunking.trunks.edit()[0].call_limits = lines(2);
        config.trunking.trunks.edit()[1].call_limits = lines(second);
    }
}

fn call(world: &mut World, id: &str) -> Vec<Sent> {
    world.udp(ALICE, &invite("sip:+441234@example.org").call_id(id))
}

/// A call that a carrier answered, as alice got its answer.
fn answered(world: &mut World, id: &str) -> Sent {
    let sent = only(requests(call(world, id)));
    let answer = sent.answer_tagged(200, "theirs", &[&format!("Contact: <{TARGET}>")]);
    only(world.udp(&sent.to(), &answer))
}

fn of_alice(answer: &Sent, method: &str, cseq: u32) -> Request {
    let mut request = request(method, TARGET).cseq(cseq).to(&answer.header("To"));
    request.from = answer.header("From");
    request.lines = vec![format!("Route: {}", answer.header("Record-Route"))];
    request.call_id(&answer.header("Call-ID")).line(&format!("Contact: <sip:alice@{ALICE}>"))
}

fn under_way(world: &World) -> [u32; 2] {
    ["carrier-a", "carrier-b"].map(|name| world.memory.tables().trunk_calls(name))
}

#[test]
fn a_call_too_many_goes_to_the_next_trunk_or_gets_503() {
    let mut world = World::with(limited(1));
    let first = answered(&mut world, "1");
    answered(&mut world, "2");
    assert_eq!(under_way(&world), [2, 0]);
    let third = only(requests(call(&mut world, "3")));
    assert_eq!(third.to(), CARRIER_B);
    let refused = only(call(&mut world, "4"));
    assert_eq!(
        (refused.status(), refused.header("Retry-After").is_empty()),
        (503, false),
        "{}",
        refused.text()
    );
    assert_eq!(world.server.counters().trunk_calls_refused, 1);
    // Requests inside a call pass, and a BYE makes room.
    for (cseq, method) in (2..).zip(["INVITE", "INFO", "UPDATE"]) {
        let passed = only(requests(world.udp(ALICE, &of_alice(&first, method, cseq))));
        assert_eq!(passed.to(), CARRIER_A, "{method}");
        world.udp(CARRIER_A, &passed.answer(200, &[&format!("Contact: <{TARGET}>")]));
    }
    assert_eq!(under_way(&world), [2, 1], "a re-INVITE is no call");
    let bye = only(requests(world.udp(ALICE, &of_alice(&first, "BYE", 9))));
    assert_eq!(statuses(&world.udp(CARRIER_A, &bye.answer(200, &[]))), [200]);
    assert_eq!(under_way(&world), [1, 1]);
    assert_eq!(only(requests(call(&mut world, "5"))).to(), CARRIER_A);
    nothing_is_left(&mut world, "after limited calls");
}

#[test]
fn each_end_of_a_call_makes_room() {
    type End = fn(&mut World, Sent);
    let ends: [(&str, End); 6] = [
        ("busy", |world, sent| drop(world.udp(&sent.to(), &sent.answer(486, &[])))),
        ("moved", |world, sent| drop(world.udp(&sent.to(), &sent.answer(302, &["Contact: <sip:x@h>"])))),
        ("unreachable", |world, sent| drop(world.event(Event::Unreachable(sent.token)))),
        ("silent", |world, _| drop(world.pass(Duration::from_secs(60)))),
        ("cancelled while it rings", |world, sent| {
            world.udp(&sent.to(), &sent.answer(180, &[]));
            let cancels = world.udp(ALICE, &invite("sip:+441234@example.org").call_id("1").cancel());
            let cancel = requests(cancels).remove(0);
            world.udp(&cancel.to(), &cancel.answer(200, &[]));
            world.udp(&sent.to(), &sent.answer(487, &[]));
        }),
        ("cancelled at once, and never answered", |world, _| {
            world.udp(ALICE, &invite("sip:+441234@example.org").call_id("1").cancel());
            world.pass(Duration::from_secs(200));
        }),
    ];
    for (what, end) in ends {
        let mut world = World::with(|config| {
            limited(1)(config);
            only_first(config);
        });
        let sent = only(requests(call(&mut world, "1")));
        assert_eq!(under_way(&world)[0], 1, "{what}");
        end(&mut world, sent);
        nothing_is_left(&mut world, what);
        assert_eq!(under_way(&world)[0], 0, "{what}");
    }
}

#[test]
fn a_challenge_and_a_failover_count_once() {
    let mut world = World::with(|config| {
        limited(2)(config);
        let (username, password) = ("acct".to_owned(), "secret".to_owned());
        config.trunking.trunks.edit()[0].login = Some(TrunkLogin { username, password, realm: None });
    });
    let first = only(requests(call(&mut world, "1")));
    let sent = requests(world.udp(CARRIER_A, &first.answer(407, &[CHALLENGE])));
    let again = only(sent.into_iter().filter(|sent| sent.method() == "INVITE").collect());
    assert_eq!(under_way(&world), [1, 0]);
    let sent = requests(world.udp(CARRIER_A, &again.answer(500, &[])));
    let next = only(sent.into_iter().filter(|sent| sent.to() == CARRIER_B).collect());
    assert_eq!(under_way(&world), [0, 1], "the call moved to the other trunk");
    world.udp(CARRIER_B, &next.answer(404, &[]));
    assert_eq!(under_way(&world), [0, 0]);
}

/// A caller who repeats the identifiers of a call has each counted, and one BYE ends one.
#[test]
fn the_same_identifiers_do_not_make_calls_free() {
    let mut world = World::with(|config| {
        limited(1)(config);
        only_first(config);
    });
    let mut numbers = (1..=5).map(|cseq| invite("sip:+441234@example.org").call_id("same").cseq(cseq));
    let admitted = numbers.by_ref().filter(|call| {
        let request =
            Request { via: format!("SIP/2.0/UDP {ALICE};branch=z9hG4bK{}", call.cseq), ..call.clone() };
        !requests(world.udp(ALICE, &request)).is_empty()
    });
    assert_eq!(admitted.count(), 2);
}

#[test]
fn a_second_has_as_many_calls_as_permitted() {
    let mut world = World::with(|config| {
        carriers(config);
        config.trunking.trunks.edit()[0].call_limits =
            Some(TrunkLimits { under_way: None, per_second: Some(3) });
        only_first(config);
    });
    for second in 0..3 {
        let admitted = (0..10).filter(|number| {
            let sent = call(&mut world, &format!("{second}-{number}"));
            let is_refused = requests(sent.clone()).is_empty();
            assert!(!is_refused || only(sent).status() == 503);
            !is_refused
        });
        assert_eq!(admitted.count(), 3);
        world.pass(Duration::from_secs(1));
    }
    assert!(world.server.counters().trunk_calls_refused >= 21);
}

/// Calls whose BYE is lost end with the lifetime of their dialog.
#[test]
fn a_full_trunk_has_room_again_when_its_calls_are_too_old() {
    let mut world = World::with(|config| {
        limited(1)(config);
        only_first(config);
        config.dialog_lifetime = Duration::from_secs(600);
    });
    answered(&mut world, "1");
    answered(&mut world, "2");
    assert_eq!(only(call(&mut world, "3")).status(), 503);
    world.pass(Duration::from_secs(601));
    assert_eq!(only(requests(call(&mut world, "4"))).to(), CARRIER_A);
}

/// A BYE that the carrier refuses, with an old number or a made-up tag, leaves the call counted; the carrier's own BYE ends it.
#[test]
fn a_bye_that_does_not_end_the_call_makes_no_room() {
    let mut world = World::with(|config| {
        limited(1)(config);
        only_first(config);
    });
    let answer = answered(&mut world, "1");
    let refused = only(requests(world.udp(ALICE, &of_alice(&answer, "BYE", 9))));
    world.udp(CARRIER_A, &refused.answer(500, &[]));
    let made_up = of_alice(&answer, "BYE", 10).to(&answer.header("To").replace("theirs", "made-up"));
    for sent in requests(world.udp(ALICE, &made_up)) {
        world.udp(CARRIER_A, &sent.answer(481, &[]));
    }
    assert_eq!(under_way(&world)[0], 1);
    let bye = only(requests(world.udp(ALICE, &of_alice(&answer, "BYE", 11))));
    world.udp(CARRIER_A, &bye.answer(200, &[]));
    assert_eq!(under_way(&world)[0], 0);
}
