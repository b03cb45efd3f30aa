//! Tests of the timing points: which steps each kind of message has, by a clock that moves one unit at each reading.

use crate::challenge::{Login, answered};
use crate::harness::{ALICE, BOB, World, invite, only, query, register};
use ringway_server::{Mode, Step, StepClass};
use std::cell::Cell;

thread_local! {
    static NOW: Cell<u64> = const { Cell::new(0) };
}

/// Clock of which one thread, that of the test, has the time.
fn clock() -> u64 {
    NOW.with(|now| {
        now.set(now.get() + 1);
        now.get()
    })
}

fn measured(mut world: World) -> World {
    world.server.measure_steps(Some(clock));
    world
}

/// Messages of the class that had each step, in the order of [`Step::ALL`].
fn had(world: &World, class: StepClass) -> [u64; 6] {
    let table = world.server.steps().unwrap();
    // Each reading is a mark, which is taken off.
    assert!(Step::ALL.iter().all(|step| table.sum(class, *step).net(table.mark()) == 0));
    Step::ALL.map(|step| table.sum(class, step).messages)
}

#[test]
fn a_registration_with_digest_has_all_steps() {
    let mut world = measured(World::closed());
    let request = register("bob", "<sip:bob@192.0.2.20>").call_id("phone");
    let challenge = only(world.udp(BOB, &request));
    // Parse, find user, authenticate, add user, format, rest.
    assert_eq!((challenge.status(), had(&world, StepClass::Register)), (401, [1, 0, 1, 0, 1, 1]));
    let accepted = only(world.udp(BOB, &answered(&request, &Login::to(&challenge, "bob"))));
    assert_eq!((accepted.status(), had(&world, StepClass::Register)), (200, [2, 1, 2, 1, 2, 2]));
}

#[test]
fn a_question_for_bindings_finds_the_user_and_adds_nothing_new() {
    let mut world = measured(World::open());
    only(world.udp(BOB, &query("bob")));
    let [parse, find, authenticate, _, format, _] = had(&world, StepClass::Register);
    assert_eq!([parse, find, authenticate, format], [1, 1, 0, 1]);
}

#[test]
fn a_call_finds_the_user_and_its_responses_are_formatted() {
    let mut world = World::open();
    world.register("bob", BOB, "<sip:bob@192.0.2.20>");
    let mut world = measured(world);
    let called = world.udp(ALICE, &invite("sip:bob@example.org"));
    assert_eq!(had(&world, StepClass::Invite), [1, 1, 0, 0, 1, 1]);
    let at_bob = called.iter().find(|sent| sent.method() == "INVITE").unwrap();
    world.udp(BOB, &at_bob.answer(200, &["Contact: <sip:bob@192.0.2.20>"]));
    assert_eq!(had(&world, StepClass::Response), [1, 0, 0, 0, 1, 1]);
}

#[test]
fn a_redirected_call_and_one_without_a_transaction_have_the_same_steps() {
    for change in [
        |config: &mut ringway_server::Config| config.mode = Mode::Redirect,
        |config: &mut ringway_server::Config| config.stateful = false,
    ] {
        let mut world = World::with(change);
        world.register("bob", BOB, "<sip:bob@192.0.2.20>");
        let mut world = measured(world);
        assert!(!world.udp(ALICE, &invite("sip:bob@example.org")).is_empty());
        assert_eq!(had(&world, StepClass::Invite), [1, 1, 0, 0, 1, 1]);
    }
}

#[test]
fn what_the_parser_rejects_is_a_class_and_off_is_the_default() {
    let mut world = World::open();
    world.register("bob", BOB, "<sip:bob@192.0.2.20>");
    assert!(world.server.steps().is_none());
    let mut world = measured(world);
    world.message(crate::harness::udp_flow(BOB), b"INVITE sip:bob@example.org SIP/2.0\r\nno header\r\n\r\n");
    assert_eq!(had(&world, StepClass::Rejected)[0], 1);
    world.server.measure_steps(None);
    assert!(world.server.steps().is_none());
}
