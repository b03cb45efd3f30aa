//! Targets called one group after another by falling q-value (RFC 3261 §16.5, §16.6), with a time limit.

use crate::ends::nothing_is_left;
use crate::harness::{ALICE, Request, Sent, World, invite, only, register, request, requests, statuses};
use ringway_sansio::Event;
use std::time::Duration;

const ONE: &str = "192.0.2.41:5060";
const TWO: &str = "192.0.2.42:5060";
const THREE: &str = "192.0.2.43:5060";
const SECOND: Duration = Duration::from_secs(1);

/// Server at which bob has the contacts with these q-values, at 192.0.2.41 and up.
fn world(qs: &[&str]) -> World {
    world_with(qs, Duration::from_secs(20))
}

fn world_with(qs: &[&str], serial_fork: Duration) -> World {
    let mut world = World::with(|config| {
        config.registrar.max_contacts = 10;
        config.serial_fork = serial_fork;
    });
    let contacts = qs.iter().enumerate().map(|(at, q)| format!("<sip:bob@192.0.2.{}>;q={q}", 41 + at));
    let contacts: Vec<_> = contacts.collect();
    let through = "Via: SIP/2.0/UDP 192.0.2.99;branch=z9hG4bKx";
    let registration = register("bob", &contacts.join(", ")).line(through).line("Expires: 7200");
    assert_eq!(only(world.udp("192.0.2.99:5060", &registration)).status(), 200);
    world
}

/// Requests that begin at alice's call.
fn call(world: &mut World) -> (Request, Vec<Sent>) {
    let call = invite("sip:bob@example.org");
    let called = requests(world.udp(ALICE, &call));
    (call, called)
}

fn invites(sent: &[Sent]) -> Vec<Sent> {
    sent.iter().filter(|sent| sent.method() == "INVITE").cloned().collect()
}

fn targets(sent: &[Sent]) -> Vec<String> {
    sent.iter().map(Sent::to).collect()
}

fn cancels(sent: &[Sent]) -> usize {
    sent.iter().filter(|sent| sent.method() == "CANCEL").count()
}

#[test]
fn groups_are_called_by_falling_q_when_all_of_a_group_have_failed() {
    let mut world = world(&["0.2", "0.8", "0.8"]);
    let (_, first) = call(&mut world);
    assert_eq!(targets(&first), [TWO, THREE]);
    let sent = world.udp(TWO, &first[0].answer(486, &[]));
    assert!(invites(&sent).is_empty() && statuses(&sent).is_empty(), "the other one still runs");
    let sent = world.udp(THREE, &first[1].answer(480, &[]));
    let second = invites(&sent);
    assert_eq!(targets(&second), [ONE]);
    assert_eq!(second[0].uri(), "sip:bob@192.0.2.41");
    let sent = world.udp(ONE, &second[0].answer(200, &[]));
    assert_eq!(statuses(&sent), [200]);
    assert_eq!(world.server.counters().serial_forks, 0);
    nothing_is_left(&mut world, "after the second group's 200");
}

#[test]
fn a_group_that_does_not_answer_in_time_is_cancelled_and_the_next_is_called() {
    let mut world = world(&["1", "0.5"]);
    let (_, first) = call(&mut world);
    world.udp(ONE, &first[0].answer(180, &[]));
    let sent = world.pass(19 * SECOND);
    assert!(requests(sent).is_empty());
    let sent = world.pass(SECOND + SECOND / 10);
    assert_eq!((cancels(&sent), targets(&invites(&sent))), (1, vec![TWO.to_owned()]));
    assert_eq!(world.server.counters().serial_forks, 1);
    // Of the first one nothing but a final response counts.
    assert!(statuses(&world.udp(ONE, &first[0].answer(180, &[]))).is_empty());
    let second = invites(&sent).remove(0);
    assert_eq!(statuses(&world.udp(TWO, &second.answer(180, &[]))), [180]);
    assert!(statuses(&world.udp(ONE, &first[0].answer(487, &[]))).is_empty());
    let sent = world.udp(TWO, &second.answer(486, &[]));
    assert_eq!(statuses(&sent), [486], "a response of a target is better than none");
    nothing_is_left(&mut world, "after the last group's 486");
}

#[test]
fn a_cancelled_target_that_answers_nevertheless_has_the_call() {
    let mut world = world(&["1", "0.5"]);
    let (_, first) = call(&mut world);
    world.udp(ONE, &first[0].answer(180, &[]));
    let sent = world.pass(21 * SECOND);
    let second = invites(&sent).remove(0);
    world.udp(TWO, &second.answer(180, &[]));
    let sent = world.udp(ONE, &first[0].answer(200, &[]));
    assert_eq!(statuses(&sent), [200]);
    assert_eq!(cancels(&sent), 1, "the second one is cancelled");
    nothing_is_left(&mut world, "after the first group's late 200");
}

#[test]
fn the_response_of_the_last_target_counts_more_than_the_silence_of_the_first() {
    let mut world = world(&["1", "0.5"]);
    let (_, first) = call(&mut world);
    world.udp(ONE, &first[0].answer(180, &[]));
    let second = invites(&world.pass(21 * SECOND)).remove(0);
    world.udp(ONE, &first[0].answer(487, &[]));
    world.udp(TWO, &second.answer(180, &[]));
    // Timer C of the last target cancels it.
    assert!(cancels(&world.pass(182 * SECOND)) > 0);
    let sent = world.udp(TWO, &second.answer(487, &[]));
    assert_eq!(statuses(&sent), [487]);
    nothing_is_left(&mut world, "after timer C");
}

#[test]
fn silent_targets_end_by_their_timers() {
    let mut world = world(&["1", "0.7", "0.5"]);
    let (_, first) = call(&mut world);
    assert_eq!(targets(&first), [ONE]);
    let sent = world.pass(300 * SECOND);
    let mut called = targets(&invites(&sent));
    called.dedup();
    assert!(called.contains(&TWO.to_owned()) && called.contains(&THREE.to_owned()));
    let mut response = statuses(&sent);
    response.dedup();
    assert_eq!(response, [408]);
    nothing_is_left(&mut world, "after silence");
}

#[test]
fn a_cancel_and_a_6xx_end_all_groups() {
    for ends in ["CANCEL", "603"] {
        let mut world = world(&["1", "0.5"]);
        let (call, first) = call(&mut world);
        world.udp(ONE, &first[0].answer(180, &[]));
        let sent = match ends {
            "CANCEL" => {
                world.udp(ALICE, &call.cancel());
                world.udp(ONE, &first[0].answer(487, &[]))
            }
            _ => world.udp(ONE, &first[0].answer(603, &[])),
        };
        assert!(invites(&sent).is_empty(), "{ends}");
        assert_eq!(statuses(&sent), [if ends == "CANCEL" { 487 } else { 603 }]);
        assert!(invites(&world.pass(60 * SECOND)).is_empty(), "{ends}");
        nothing_is_left(&mut world, ends);
    }
}

#[test]
fn the_challenges_of_all_groups_reach_the_caller() {
    let mut world = world(&["1", "0.5"]);
    let (_, first) = call(&mut world);
    let line = "Proxy-Authenticate: Digest realm=\"a\", nonce=\"n\"";
    let second = invites(&world.udp(ONE, &first[0].answer(407, &[line]))).remove(0);
    let sent = world.udp(TWO, &second.answer(401, &["WWW-Authenticate: Digest realm=\"b\", nonce=\"n\""]));
    let response = sent.iter().find(|sent| sent.status() != 0).unwrap();
    assert_eq!(response.headers("Proxy-Authenticate").len() + response.headers("WWW-Authenticate").len(), 2);
}

#[test]
fn the_groups_of_another_request_share_its_time() {
    let mut world = world(&["1", "0.5"]);
    let first = requests(world.udp(ALICE, &request("MESSAGE", "sip:bob@example.org")));
    assert_eq!(targets(&first), [ONE]);
    let sent = world.pass(17 * SECOND);
    let second = sent.iter().find(|sent| sent.to() == TWO).expect("the second group after half of 64·T1");
    assert_eq!(cancels(&sent), 0, "only an INVITE can be cancelled");
    assert_eq!(statuses(&world.udp(TWO, &second.answer(200, &[]))), [200]);
    nothing_is_left(&mut world, "after the second group's 200");
}

#[test]
fn unreachable_targets_are_followed_at_once() {
    let mut world = world(&["1", "0.8", "0.5"]);
    let (_, first) = call(&mut world);
    let second = invites(&world.event(Event::Unreachable(first[0].token))).remove(0);
    assert_eq!(second.to(), TWO);
    let third = invites(&world.event(Event::Unreachable(second.token))).remove(0);
    let sent = world.event(Event::Unreachable(third.token));
    assert_eq!(statuses(&sent), [480]);
    nothing_is_left(&mut world, "after three failures");
}

#[test]
fn a_group_whose_host_is_not_found_in_time_is_followed() {
    let mut world = World::with(|config| config.serial_fork = 5 * SECOND);
    world.udp(
        "192.0.2.99:5060",
        &register("bob", "<sip:bob@name.example.net>, <sip:bob@192.0.2.42>;q=0.5")
            .line("Via: SIP/2.0/UDP 192.0.2.99;branch=z9hG4bKx"),
    );
    assert!(call(&mut world).1.is_empty(), "the host name is looked up");
    assert_eq!(targets(&invites(&world.pass(6 * SECOND)))[..1], [TWO]);
    // The answer comes too late.
    assert!(requests(world.resolve_to("name.example.net", &[ONE])).is_empty());
    nothing_is_left(&mut world, "after a late lookup");
}

#[test]
fn without_a_time_all_are_called_at_once_the_preferred_first() {
    let mut world = world_with(&["0.1", "1", "0.5"], Duration::ZERO);
    assert_eq!(targets(&call(&mut world).1), [TWO, THREE, ONE]);
}

#[test]
fn the_limits_of_a_fork_count_the_targets_of_all_groups() {
    let mut world = world(&["1", "0.5", "0.2"]);
    let call = invite("sip:bob@example.org").line("Max-Breadth: 2");
    assert_eq!(only(world.udp(ALICE, &call)).status(), 440);
    let call = invite("sip:bob@example.org").call_id("enough").line("Max-Breadth: 7");
    let first = requests(world.udp(ALICE, &call));
    assert_eq!(first[0].header("Max-Breadth"), "2");
    let second = invites(&world.udp(ONE, &first[0].answer(486, &[])));
    assert_eq!(second[0].header("Max-Breadth"), "2", "the share does not change");
}
