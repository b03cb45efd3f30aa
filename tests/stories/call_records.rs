//! Stories of call records: each way for a call to end, once each, on a good and on a bad network.
//!
//! Every story checks at its end that no call without an answer is left and that no call has two records.

use ringway_server::{CallEnd, CallRecord};
use ringway_sim::Faults;
use ringway_tests::{Behaviour, Story, World};
use std::time::Duration;

fn records(world: &World) -> Vec<CallRecord> {
    world.services.ended_calls.lock().expect("no test panicked").clone()
}

fn ends(world: &World) -> Vec<(CallEnd, u16)> {
    records(world).iter().map(|record| (record.end, record.status)).collect()
}

fn every_end(world: &mut World) {
    let (alice, bob) = (world.registered("alice"), world.registered("bob"));
    let carol = world.registered("carol");
    world.call(alice, "bob");
    world.wait(10);
    world.hang_up(alice);
    world.wait(40);
    world.call(alice, "bob");
    world.wait(10);
    world.hang_up(bob);
    world.wait(40);
    world.behave(bob, Behaviour::Refuse(486));
    world.call(alice, "bob");
    world.wait(40);
    world.call(alice, "nobody");
    world.wait(40);
    world.behave(carol, Behaviour::Ring);
    world.call(alice, "carol");
    world.wait(5);
    world.cancel(alice);
    world.wait(40);
    world.call(alice, "carol");
    world.wait(400);
}

const EVERY_END: [(CallEnd, u16); 6] = [
    (CallEnd::Bye, 200),
    (CallEnd::Bye, 200),
    (CallEnd::Busy, 486),
    (CallEnd::Failed, 404),
    (CallEnd::Cancelled, 487),
    (CallEnd::NoAnswer, 487),
];

#[test]
fn every_way_to_end_has_one_record() {
    Story::new("call records").run(|world| {
        every_end(world);
        assert_eq!(ends(world), EVERY_END);
        let answered = &records(world)[0];
        let ringing = answered.ringing.expect("it rang");
        assert!(answered.begun <= ringing && Some(ringing) <= answered.answered);
    });
}

/// Retransmissions and duplicates of every message change no record.
#[test]
fn copies_of_messages_make_no_further_records() {
    let delay = Duration::from_millis(1)..Duration::from_millis(90);
    let faults = Faults { loss_per_mille: 50, duplicate_per_mille: 500, reorder_per_mille: 100, delay };
    Story::new("call records, duplicates").faults(faults).run(|world| {
        every_end(world);
        let records = records(world);
        assert!(records.len() <= EVERY_END.len(), "{records:?}");
    });
}

#[test]
fn a_call_that_lasts_when_the_server_ends_is_stopped() {
    Story::new("call records, restart").run(|world| {
        let (alice, _) = (world.registered("alice"), world.registered("bob"));
        world.call(alice, "bob");
        world.wait(10);
        world.restart_server();
        world.wait(1);
        assert_eq!(ends(world), [(CallEnd::Stopped, 200)]);
        world.hang_up(alice);
        world.wait(5);
        assert_eq!(ends(world).len(), 1, "a BYE without an open call makes no record");
    });
}
