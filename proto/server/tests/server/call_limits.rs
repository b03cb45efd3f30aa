//! Tests of the limits of calls to a trunk: what is refused, what never is, and that each count ends.

use crate::ends::nothing_is_left;
use crate::harness::{ALICE, BOB, Request, Sent, World, invite, only, request, requests, statuses};
use crate::routes::{CARRIER_A, CARRIER_B, carriers, only_first};
use ringway_sansio::Event;
use ringway_server::{CallerLimits, Config, TrunkLimits, TrunkLogin};
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
    ["carrier-a", "carrier-b"].map(|name| world.memory.tables().trunk_calls(name).0)
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

fn lines(most: u32) -> TrunkLimits {
    TrunkLimits { under_way: Some(most), per_second: None }
}

/// Calls to bob's phone, of whom it is.
fn call_of(world: &mut World, user: &str, id: &str) -> Vec<Sent> {
    let mut call = invite("sip:bob@example.org").call_id(id);
    call.from = call.from.replace("alice", user);
    world.udp(ALICE, &call)
}

fn with_bob(limits: CallerLimits) -> World {
    let mut world = World::with(|config| config.caller_limits = limits);
    world.register("bob", BOB, &format!("sip:bob@{BOB}"));
    world
}

#[test]
fn a_user_and_a_domain_begin_as_many_calls_as_they_may() {
    let mut world = with_bob(CallerLimits {
        of_user: lines(1),
        of_domain: lines(3),
        users: vec![("carol@example.org".into(), Some(2))],
        ..CallerLimits::default()
    });
    let first = only(requests(call_of(&mut world, "alice", "1")));
    let refused = only(call_of(&mut world, "alice", "2"));
    assert_eq!((refused.status(), refused.headers("Retry-After")), (403, vec![]));
    for id in ["3", "4"] {
        assert_eq!(only(requests(call_of(&mut world, "carol", id))).to(), BOB, "carol has two");
    }
    assert_eq!(only(call_of(&mut world, "dave", "5")).status(), 403, "the domain has three");
    let counters = world.server.counters();
    assert_eq!((counters.user_calls_refused, counters.domain_calls_refused), (1, 1));
    // A refused call makes room at once, while its transaction is still there.
    world.udp(BOB, &first.answer(486, &[]));
    let again = only(requests(call_of(&mut world, "alice", "6")));
    let cancels = requests(world.udp(ALICE, &invite("sip:bob@example.org").call_id("6").cancel()));
    assert!(cancels.is_empty(), "nothing was answered");
    world.udp(BOB, &again.answer(180, &[]));
    world.udp(BOB, &again.answer(487, &[]));
    assert_eq!(only(requests(call_of(&mut world, "alice", "7"))).to(), BOB, "so does a cancelled one");
    nothing_is_left(&mut world, "after calls of users");
}

#[test]
fn an_answered_call_of_a_user_ends_with_a_bye_or_with_its_session() {
    for ends_by_bye in [true, false] {
        let mut world = with_bob(CallerLimits { of_user: lines(1), ..CallerLimits::default() });
        let sent = only(requests(call_of(&mut world, "alice", "1")));
        let lines = [format!("Contact: <sip:bob@{BOB}>"), "Session-Expires: 300;refresher=uac".to_owned()];
        let answer = sent.answer_tagged(200, "theirs", &lines.each_ref().map(String::as_str));
        let answer = only(world.udp(BOB, &answer));
        world.pass(Duration::from_secs(300));
        assert_eq!(only(call_of(&mut world, "alice", "2")).status(), 403, "it goes on");
        // A request in the call is never refused; a refresh extends it.
        let mut update = request("UPDATE", &format!("sip:bob@{BOB}")).cseq(2).to(&answer.header("To"));
        update.from = answer.header("From");
        update.lines = vec![format!("Route: {}", answer.header("Record-Route"))];
        let update = update.call_id("1").line(&format!("Contact: <sip:alice@{ALICE}>"));
        let passed = only(requests(world.udp(ALICE, &update)));
        world.udp(BOB, &passed.answer(200, &["Session-Expires: 300;refresher=uac"]));
        world.pass(Duration::from_secs(300));
        assert_eq!(only(call_of(&mut world, "alice", "3")).status(), 403, "it was refreshed");
        if ends_by_bye {
            let bye = Request { method: "BYE".into(), cseq: 3, ..update };
            let bye = only(requests(world.udp(ALICE, &bye)));
            world.udp(BOB, &bye.answer(200, &[]));
        } else {
            world.pass(Duration::from_secs(40));
        }
        assert_eq!(only(requests(call_of(&mut world, "alice", "4"))).to(), BOB, "{ends_by_bye}");
    }
}

#[test]
fn a_second_has_as_many_calls_of_a_user_as_permitted() {
    let per_second = TrunkLimits { under_way: None, per_second: Some(2) };
    let mut world = with_bob(CallerLimits { of_user: per_second, ..CallerLimits::default() });
    for second in 0..2 {
        let sent: Vec<_> =
            (0..4).map(|number| call_of(&mut world, "alice", &format!("{second}-{number}"))).collect();
        assert_eq!(sent.iter().filter(|sent| !requests((*sent).clone()).is_empty()).count(), 2);
        let refused = &sent[3][0];
        assert_eq!((refused.status(), refused.header("Retry-After").as_str()), (503, "1"));
        world.pass(Duration::from_secs(1));
    }
}

#[test]
fn calls_from_a_trunk_have_their_limit_and_one_together_with_those_to_it() {
    let calls = |world: &mut World, id: &str| {
        let mut call = invite("sip:bob@example.org").call_id(id);
        call.from = "<sip:+441234@carrier.example>;tag=t".into();
        world.udp(CARRIER_A, &call)
    };
    let mut world = World::with(|config| {
        carriers(config);
        config.trunking.trunks.edit()[0].calls_in = Some(lines(2));
        config.trunking.trunks.edit()[0].calls_both = Some(3);
    });
    world.register("bob", BOB, &format!("sip:bob@{BOB}"));
    let first = only(requests(calls(&mut world, "1")));
    only(requests(calls(&mut world, "2")));
    let refused = only(calls(&mut world, "3"));
    assert_eq!((refused.status(), refused.headers("Retry-After")), (503, vec![]), "it may try another way");
    assert_eq!(world.memory.tables().trunk_calls("carrier-a"), (0, 2));
    assert_eq!(only(requests(call(&mut world, "4"))).to(), CARRIER_A);
    assert_eq!(only(requests(call(&mut world, "5"))).to(), CARRIER_B, "three in both directions");
    world.udp(BOB, &first.answer(486, &[]));
    assert_eq!(only(requests(call(&mut world, "6"))).to(), CARRIER_A);
    assert_eq!(only(calls(&mut world, "7")).status(), 503);
    assert_eq!(world.memory.tables().trunk_calls("carrier-a"), (2, 1));
    assert_eq!(world.server.counters().trunk_calls_in_refused, 2);
}

/// The carrier hangs up while this server has no room: its line is free, and that of a caller whose own BYE gets no room is not.
#[test]
fn a_bye_that_finds_no_room_ends_the_call_for_its_sender() {
    let mut world = World::with(|config| {
        limited(1)(config);
        only_first(config);
        config.trunking.trunks.edit()[0].networks = vec!["198.51.100.1".parse().unwrap()];
        config.transaction_limits.servers_max = 4;
    });
    world.register("bob", BOB, &format!("sip:bob@{BOB}"));
    let answer = answered(&mut world, "1");
    // The others ring, and take what is left of the transactions.
    for number in 0..4 {
        world.udp(ALICE, &invite("sip:bob@example.org").call_id(&format!("ring-{number}")));
    }
    assert_eq!(only(world.udp(ALICE, &of_alice(&answer, "BYE", 9))).status(), 503);
    assert_eq!(under_way(&world)[0], 1, "its carrier has no word of it");
    let mut bye = request("BYE", &format!("sip:alice@{ALICE}")).call_id("1").cseq(1);
    (bye.from, bye.to) = (answer.header("To"), answer.header("From"));
    let bye = bye.via(&format!("SIP/2.0/UDP {CARRIER_A};branch=z9hG4bKbye"));
    let refused = only(world.udp(CARRIER_A, &bye.line(&format!("Route: {}", answer.header("Record-Route")))));
    assert_eq!((refused.status(), under_way(&world)[0]), (503, 0));
}
