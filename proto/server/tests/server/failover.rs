//! Failover to the next server of a host name (RFC 3263 §4.3): after a timeout, 503 and an error of the transport; not after
//! a provisional response, a CANCEL, or the end of a non-INVITE request's own time.

use crate::ends::nothing_is_left;
use crate::harness::{ALICE, BOB, Sent, World, invite, only, request, requests, statuses};
use ringway_sansio::Event;
use std::time::Duration;

const ONE: &str = "192.0.2.41:5060";
const TWO: &str = "192.0.2.42:5060";
const THREE: &str = "192.0.2.43:5060";

/// Server with a callee in another domain.
fn world() -> World {
    let mut world = World::open();
    world.server.set_permanent_contacts(b"bob@example.org", &[b"sip:bob@gate.example.net"]);
    world
}

fn call(world: &mut World, call_id: &str) -> Sent {
    world.udp(ALICE, &invite("sip:bob@example.org").call_id(call_id));
    only(world.resolve_to("gate.example.net", &[ONE, TWO, THREE]))
}

fn branch_of(sent: &Sent) -> String {
    let text = String::from_utf8_lossy(&sent.bytes).into_owned();
    text.split("branch=").nth(1).unwrap().split([';', '\r']).next().unwrap().to_owned()
}

#[test]
fn a_silent_server_is_followed_by_the_next_one() {
    let mut world = world();
    let first = call(&mut world, "one");
    assert_eq!(first.to(), ONE);
    let later = world.pass(Duration::from_secs(40));
    let second = later.iter().find(|sent| sent.to() == TWO).expect("the second server is tried").clone();
    assert_ne!(branch_of(&first), branch_of(&second), "a new transaction");
    assert_eq!(second.uri(), first.uri());
    assert_eq!(world.server.counters().failovers, 1);
    let answered = world.udp(TWO, &second.answer(200, &[]));
    assert_eq!(statuses(&answered), [200]);
    nothing_is_left(&mut world, "after the second server's 200");
    // The next request asks for the servers again, and tries the failed one last.
    let mut failed_lately = self::world();
    call(&mut failed_lately, "one");
    failed_lately.pass(Duration::from_secs(40));
    assert_eq!(call(&mut failed_lately, "two").to(), TWO);
    failed_lately.pass(Duration::from_secs(300));
    assert_eq!(call(&mut failed_lately, "three").to(), ONE, "after a while it is tried again");
}

#[test]
fn a_503_and_an_unreachable_server_are_followed_by_the_next_one() {
    let mut world = world();
    let first = call(&mut world, "one");
    let sent = world.udp(ONE, &first.answer(503, &[]));
    let second = requests(sent).into_iter().find(|sent| sent.to() == TWO).expect("a second server");
    let sent = world.event(Event::Unreachable(second.token));
    let third = requests(sent).into_iter().find(|sent| sent.to() == THREE).expect("a third server");
    let sent = world.udp(THREE, &third.answer(503, &[]));
    assert_eq!(sent.last().map(Sent::status), Some(500), "none is left");
    assert_eq!(world.server.counters().failovers, 2);
    nothing_is_left(&mut world, "after all servers failed");
}

/// RFC 3261 §21.5.4: a 503 asks for a pause by Retry-After, and counts as a 500 without it.
#[test]
fn a_server_that_asks_for_a_pause_is_tried_last_for_that_time() {
    for (line, pause_s) in [
        ("Retry-After: 120", 120),
        ("Retry-After: 20 (maintenance);duration=3600", 20),
        ("Retry-After: 4294967295", 3600),
        ("Retry-After: 0", 0),
        ("Retry-After: soon", 0),
        ("X-Other: 60", 0),
    ] {
        let mut world = world();
        let first = call(&mut world, "one");
        let sent = world.udp(ONE, &first.answer(503, &[line]));
        let second = only(requests(sent).into_iter().filter(|sent| sent.to() == TWO).collect());
        world.udp(TWO, &second.answer(486, &[]));
        if pause_s > 0 {
            for (id, pass_s) in [("two", pause_s - 1), ("three", 1)] {
                let sent = call(&mut world, id);
                assert_eq!(sent.to(), TWO, "{line}");
                world.udp(TWO, &sent.answer(486, &[]));
                world.pass(Duration::from_secs(pass_s));
            }
        }
        assert_eq!(call(&mut world, "four").to(), ONE, "{line}: the pause is over");
    }
    let mut world = world();
    let first = call(&mut world, "one");
    world.udp(ONE, &first.answer(500, &["Retry-After: 120"]));
    assert_eq!(call(&mut world, "two").to(), ONE, "a 500 is of the request");
}

/// Failure of one server of a call.
type Failure = fn(&mut World, &Sent) -> Vec<Sent>;

/// A call that no server took says of the next call only in which order the servers are tried, whichever name leads to them.
#[test]
fn a_call_that_failed_at_all_servers_of_a_name_does_not_fail_later_ones() {
    let failures: [(&str, Failure); 4] = [
        ("unreachable", |world, sent| world.event(Event::Unreachable(sent.token))),
        ("503", |world, sent| world.udp(&sent.to(), &sent.answer(503, &[]))),
        ("503 with a pause", |world, sent| world.udp(&sent.to(), &sent.answer(503, &["Retry-After: 600"]))),
        ("silent", |world, _| world.pass(Duration::from_secs(33))),
    ];
    for (failure, fail) in failures {
        let mut world = world();
        world.server.set_permanent_contacts(b"carol@example.org", &[b"sip:carol@other.example.net"]);
        let running = call(&mut world, "running");
        world.udp(ONE, &running.answer(180, &[]));
        let mut sent = call(&mut world, "one");
        for server in [ONE, TWO, THREE] {
            assert_eq!(sent.to(), server, "{failure}");
            let next = fail(&mut world, &sent);
            let mut invites =
                requests(next).into_iter().filter(|one| one.method() == "INVITE" && one.to() != server);
            sent = invites.next_back().unwrap_or(sent);
        }
        assert_eq!(sent.to(), THREE, "{failure}: none is left");
        assert_eq!(
            statuses(&world.udp(ONE, &running.answer(200, &[]))),
            [200],
            "{failure}: a call that rings"
        );
        let next = call(&mut world, "two");
        assert_eq!(statuses(&world.udp(&next.to(), &next.answer(200, &[]))), [200], "{failure}");
        world.udp(ALICE, &invite("sip:carol@example.org").call_id("three"));
        let other = only(world.resolve_to("other.example.net", &[TWO, ONE]));
        assert_eq!(
            statuses(&world.udp(&other.to(), &other.answer(200, &[]))),
            [200],
            "{failure}: another name"
        );
        nothing_is_left(&mut world, failure);
    }
}

#[test]
fn a_server_that_rings_is_not_followed() {
    let mut world = world();
    let first = call(&mut world, "one");
    world.udp(ONE, &first.answer(180, &[]));
    let sent = world.udp(ONE, &first.answer(503, &[]));
    assert_eq!(sent.last().map(Sent::status), Some(500));
    assert_eq!(world.server.counters().failovers, 0);
    nothing_is_left(&mut world, "after a 503 of a server that rang");
}

#[test]
fn a_cancelled_request_goes_to_no_other_server() {
    let mut world = world();
    let invite = invite("sip:bob@example.org");
    world.udp(ALICE, &invite);
    let first = only(world.resolve_to("gate.example.net", &[ONE, TWO]));
    world.udp(ALICE, &invite.cancel());
    let sent = world.udp(ONE, &first.answer(503, &[]));
    assert!(requests(sent).iter().all(|sent| sent.to() != TWO));
    let later = world.pass(Duration::from_secs(200));
    assert!(requests(later).iter().all(|sent| sent.to() != TWO));
    nothing_is_left(&mut world, "after a CANCEL");
}

#[test]
fn a_non_invite_request_that_has_timed_out_is_over() {
    let mut world = world();
    world.udp(ALICE, &request("MESSAGE", "sip:bob@example.org"));
    let first = only(world.resolve_to("gate.example.net", &[ONE, TWO]));
    let later = world.pass(Duration::from_secs(60));
    assert!(requests(later).iter().all(|sent| sent.to() == ONE));
    nothing_is_left(&mut world, "after a timeout of MESSAGE");
    let mut world = self::world();
    world.udp(ALICE, &request("MESSAGE", "sip:bob@example.org"));
    let sent = only(world.resolve_to("gate.example.net", &[ONE, TWO]));
    assert_eq!(sent.uri(), first.uri());
    let sent = requests(world.udp(ONE, &sent.answer(503, &[])));
    assert_eq!(only(sent).to(), TWO, "a 503 comes in time");
}

/// Other branches of a non-INVITE request are not cancelled when one is answered.
#[test]
fn a_request_that_has_its_answer_goes_to_no_other_server() {
    let mut world = World::open();
    let contacts: [&[u8]; 2] = [b"sip:bob@192.0.2.20", b"sip:bob@gate.example.net"];
    world.server.set_permanent_contacts(b"bob@example.org", &contacts);
    let phone = only(requests(world.udp(ALICE, &request("MESSAGE", "sip:bob@example.org"))));
    let first = only(world.resolve_to("gate.example.net", &[ONE, TWO]));
    assert_eq!(statuses(&world.udp(BOB, &phone.answer(200, &[]))), [200]);
    assert!(world.udp(ONE, &first.answer(503, &[])).is_empty());
    assert_eq!(world.server.counters().failovers, 0);
    nothing_is_left(&mut world, "after an answer and a 503");
}

/// The transaction of a server that answered 503 lasts 32 s by UDP, and its packets can still be reported as undelivered.
#[test]
fn a_late_error_of_an_earlier_server_does_not_end_the_present_one() {
    let mut world = world();
    let first = call(&mut world, "one");
    let sent = world.udp(ONE, &first.answer(503, &[]));
    let second = requests(sent).into_iter().find(|sent| sent.to() == TWO).expect("a second server");
    let sent = world.event(Event::Unreachable(first.token));
    assert!(sent.is_empty(), "a third server: {}", sent[0].text());
    assert_eq!(statuses(&world.udp(TWO, &second.answer(200, &[]))), [200]);
    nothing_is_left(&mut world, "after a late error");
}

/// An ACK has no transaction, so that nothing would send it to another server.
#[test]
fn an_ack_goes_to_no_server_that_failed_a_short_time_ago() {
    let mut world = world();
    call(&mut world, "one");
    world.pass(Duration::from_secs(40));
    world.udp(ALICE, &request("ACK", "sip:bob@example.org"));
    assert_eq!(only(world.resolve_to("gate.example.net", &[ONE, TWO])).to(), TWO);
}

#[test]
fn servers_that_must_not_be_sent_to_are_passed_over() {
    let mut world = world();
    world.udp(ALICE, &invite("sip:bob@example.org"));
    let sent = world.resolve_to("gate.example.net", &["224.0.0.1:5060", "192.0.2.9:0", TWO]);
    assert_eq!(only(sent).to(), TWO);
}
