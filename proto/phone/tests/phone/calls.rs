//! Calls from the first command to the history.

use crate::world::{ALICE, BOB, CAROL, World};
use ringway_agent::Role;
use ringway_phone::{
    Digit, Hold, IncomingPolicy, MediaCommand, Phase, PhoneCommand, PhoneEvent, Side, TransferPolicy,
    TransferStep,
};
use std::time::Duration;

fn plain() -> World {
    World::new(|_, _| {})
}

fn ended(event: &PhoneEvent) -> Option<(Side, u16)> {
    match event {
        PhoneEvent::Ended { by, status, .. } => Some((*by, *status)),
        _ => None,
    }
}

#[test]
fn a_call_rings_is_answered_held_and_ended() {
    let mut world = plain();
    world.events(ALICE);
    let call = world.call(ALICE, BOB);
    let called = world.incoming(BOB);
    let to = world.uri(BOB);
    let begun =
        [PhoneEvent::Calling { call, to }, PhoneEvent::Inviting { call }, PhoneEvent::Ringing { call }];
    assert_eq!(world.events(ALICE), begun);
    assert!(world.stations[BOB].is_ringing);
    world.pass(Duration::from_secs(5));
    world.command(BOB, PhoneCommand::Answer { call: called });
    assert!(!world.stations[BOB].is_ringing);
    assert_eq!(world.events(ALICE)[0], PhoneEvent::Answered { call, codec: "PCMU".to_owned() });
    assert!(matches!(world.stations[BOB].phone.call(called).unwrap().phase(), Phase::Talking(_)));
    world.events(BOB);
    world.command(ALICE, PhoneCommand::Hold { call });
    assert_eq!(world.events(ALICE), [PhoneEvent::Held { call, hold: Hold::Ours }]);
    assert_eq!(world.events(BOB), [PhoneEvent::Held { call: called, hold: Hold::Theirs }]);
    world.command(BOB, PhoneCommand::Hold { call: called });
    assert_eq!(world.stations[BOB].phone.call(called).unwrap().hold(), Hold::Both);
    world.command(ALICE, PhoneCommand::Resume { call });
    world.command(BOB, PhoneCommand::Resume { call: called });
    assert_eq!(world.stations[ALICE].phone.call(call).unwrap().hold(), Hold::None);
    world.pass(Duration::from_secs(60));
    world.command(BOB, PhoneCommand::HangUp { call: called });
    assert_eq!(world.events(ALICE).iter().find_map(ended), Some((Side::Peer, 200)));
    assert_eq!(world.events(BOB).iter().find_map(ended), Some((Side::Us, 200)));
    let past = world.stations[ALICE].phone.history().next().unwrap();
    assert_eq!((past.number, past.role, past.talked), (call, Role::Caller, Some(Duration::from_secs(60))));
    assert_eq!((world.stations[ALICE].phone.calls().count(), world.stations[ALICE].sessions.len()), (0, 0));
}

#[test]
fn media_are_closed_by_our_hang_up_before_the_peer_responds() {
    let mut world = plain();
    let call = world.call(ALICE, BOB);
    world.stations[BOB].address.set_port(1);
    world.command(ALICE, PhoneCommand::HangUp { call });
    assert!(world.stations[ALICE].sessions.is_empty());
    assert_eq!(world.stations[ALICE].phone.call(call).unwrap().phase(), Phase::Ending);
    world.levels(ALICE, call);
}

#[test]
fn a_call_is_refused_cancelled_or_too_much() {
    let mut world = World::new(|place, config| {
        config.limits.calls_max = if place == BOB { 1 } else { 8 };
        config.incoming = if place == CAROL { IncomingPolicy::Reject(603) } else { IncomingPolicy::Ask };
    });
    world.call(ALICE, CAROL);
    assert_eq!(world.events(ALICE).iter().find_map(ended), Some((Side::Peer, 603)));
    assert_eq!(world.events(CAROL).iter().find_map(ended), Some((Side::Us, 603)));
    let call = world.call(ALICE, BOB);
    world.call(CAROL, BOB);
    assert_eq!(world.events(CAROL).iter().find_map(ended), Some((Side::Peer, 486)));
    assert!(matches!(world.stations[BOB].events.last(), Some(PhoneEvent::Busy { .. })));
    assert_eq!(world.stations[BOB].phone.counters().busy, 1);
    let to = world.uri(CAROL);
    world.command(BOB, PhoneCommand::Call { to });
    assert!(matches!(world.stations[BOB].events.last(), Some(PhoneEvent::Refused { .. })));
    world.command(ALICE, PhoneCommand::HangUp { call });
    assert_eq!(world.events(ALICE).iter().find_map(ended), Some((Side::Us, 487)));
    assert_eq!(world.events(BOB).iter().find_map(ended), Some((Side::Peer, 487)));
    let call = world.call(ALICE, BOB);
    let called = world.incoming(BOB);
    world.command(BOB, PhoneCommand::Reject { call: called });
    assert_eq!(world.events(ALICE).iter().find_map(ended), Some((Side::Peer, 486)));
    // The call is over: no command finds it.
    world.command(ALICE, PhoneCommand::Hold { call });
    assert_eq!(world.events(ALICE), []);
}

/// Bob has room for one call, which has ended, and its media are not closed yet.
fn closing() -> World {
    let mut world = World::new(|place, config| {
        config.limits.calls_max = if place == BOB { 1 } else { 8 };
        config.limits.waiting_max = 2;
    });
    let (call, _) = world.talking(ALICE, BOB);
    world.stations[BOB].closing = Some(Vec::new());
    world.command(ALICE, PhoneCommand::HangUp { call });
    world.events(BOB);
    world
}

fn is_incoming(event: &PhoneEvent) -> bool {
    matches!(event, PhoneEvent::Incoming { .. })
}

#[test]
fn a_call_is_taken_while_the_media_of_the_one_before_are_closed() {
    let mut world = closing();
    let call = world.call(CAROL, BOB);
    world.pass(Duration::from_millis(60));
    assert!(world.events(BOB).is_empty(), "the front end has the events of one call at a time");
    assert_eq!(world.events(CAROL).iter().find_map(ended), None);
    // There is room for one call.
    world.call(ALICE, BOB);
    assert_eq!(world.events(ALICE).iter().filter_map(ended).next_back(), Some((Side::Peer, 486)));
    assert_eq!(world.stations[BOB].phone.counters().busy, 1);
    world.events(BOB);
    world.close_media(BOB);
    let events = world.events(BOB);
    assert!(ended(&events[0]).is_some() && is_incoming(&events[1]), "{events:?}");
    assert!(world.stations[BOB].is_ringing);
    assert!(world.events(CAROL).contains(&PhoneEvent::Ringing { call }));
    let PhoneEvent::Incoming { call: called, .. } = events[1] else { panic!() };
    world.command(BOB, PhoneCommand::Answer { call: called });
    assert!(matches!(world.stations[CAROL].phone.call(call).unwrap().phase(), Phase::Talking(_)));
}

#[test]
fn callers_who_give_up_while_they_wait_are_missed_calls_in_a_bounded_number() {
    let mut world = closing();
    for end in [(Side::Us, 487), (Side::Us, 487), (Side::Peer, 486)] {
        let call = world.call(CAROL, BOB);
        world.command(CAROL, PhoneCommand::HangUp { call });
        assert_eq!(world.events(CAROL).iter().find_map(ended), Some(end));
    }
    assert_eq!(world.stations[BOB].phone.counters().busy, 1);
    world.events(BOB);
    world.close_media(BOB);
    let events = world.events(BOB);
    let ends: Vec<_> = events.iter().filter_map(ended).collect();
    assert_eq!(ends, [(Side::Peer, 200), (Side::Peer, 487), (Side::Peer, 487)], "{events:?}");
    assert_eq!(events.iter().filter(|event| is_incoming(event)).count(), 2);
    assert!(world.stations[BOB].phone.calls().next().is_none() && !world.stations[BOB].is_ringing);
}

#[test]
fn a_phone_that_answers_at_once_does_not_ring() {
    let mut world = World::new(|_, config| config.incoming = IncomingPolicy::Answer);
    let call = world.call(ALICE, BOB);
    assert!(!world.stations[BOB].is_ringing);
    let events = world.events(ALICE);
    assert!(!events.contains(&PhoneEvent::Ringing { call }), "{events:?}");
    assert!(matches!(world.stations[ALICE].phone.call(call).unwrap().phase(), Phase::Talking(_)));
}

#[test]
fn the_user_decides_on_a_transfer_and_the_transferred_call_is_new() {
    let mut world = World::new(|_, config| config.transfers = TransferPolicy::Ask);
    let (call, called) = world.talking(ALICE, BOB);
    let to = world.uri(CAROL);
    world.command(ALICE, PhoneCommand::Transfer { call, to: to.clone() });
    assert!(world.stations[BOB].events.contains(&PhoneEvent::TransferAsked { call: called, to }));
    world.command(BOB, PhoneCommand::AcceptTransfer { call: called });
    let carols = world.incoming(CAROL);
    world.command(CAROL, PhoneCommand::Answer { call: carols });
    let done = PhoneEvent::Transfer { call, step: TransferStep::Done };
    let events = world.events(ALICE);
    assert!(events.contains(&done) && events.iter().find_map(ended) == Some((Side::Us, 200)), "{events:?}");
    assert_eq!(world.stations[BOB].phone.calls().count(), 1, "with carol");
}

#[test]
fn a_phone_without_a_user_rejects_transfers() {
    let mut world = plain();
    let (call, called) = world.talking(ALICE, BOB);
    let to = world.uri(CAROL);
    world.command(ALICE, PhoneCommand::Transfer { call, to });
    assert!(world.stations[BOB].events.iter().any(|event| matches!(event, PhoneEvent::TransferAsked { .. })));
    let failed =
        |event: &PhoneEvent| matches!(event, PhoneEvent::Transfer { step: TransferStep::Failed { .. }, .. });
    assert!(world.stations[ALICE].events.iter().any(failed), "{:?}", world.stations[ALICE].events);
    assert!(world.stations[BOB].phone.call(called).is_some());
    assert!(world.stations[CAROL].events.iter().all(|event| !matches!(event, PhoneEvent::Incoming { .. })));
}

#[test]
fn digits_and_history_are_bounded_and_counted() {
    let mut world = World::new(|_, config| (config.limits.digits_max, config.limits.history_max) = (3, 2));
    let (call, _) = world.talking(ALICE, BOB);
    for face in ['1', '2', '3', '4'] {
        world.command(ALICE, PhoneCommand::Dtmf { call, digit: Digit::new(face).unwrap() });
    }
    assert_eq!(world.stations[ALICE].phone.call(call).unwrap().digits_sent(), "234");
    let sent = world.stations[ALICE].commands.iter().filter(|(_, c)| matches!(c, MediaCommand::Digit(_)));
    assert_eq!(sent.count(), 4);
    world.command(ALICE, PhoneCommand::HangUp { call });
    for _ in 0..2 {
        let (call, _) = world.talking(ALICE, BOB);
        world.command(ALICE, PhoneCommand::HangUp { call });
    }
    let phone = &world.stations[ALICE].phone;
    assert_eq!((phone.history().count(), phone.counters().history_dropped), (2, 1));
    assert_eq!(phone.counters().digits_dropped, 1);
}

#[test]
fn quitting_ends_all_calls() {
    let mut world = plain();
    let (call, _) = world.talking(ALICE, BOB);
    world.command(ALICE, PhoneCommand::Quit);
    assert!(world.stations[ALICE].phone.is_done() && world.stations[ALICE].phone.call(call).is_none());
    assert_eq!(world.events(BOB).iter().find_map(ended), Some((Side::Peer, 200)));
}
