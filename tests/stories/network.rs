//! Stories of calls over bad networks.

use ringway_sim::{Faults, HostId};
use ringway_tests::{Behaviour, PhoneEvent, Story, World};
use std::cell::Cell;
use std::time::Duration;

#[test]
fn calls_succeed_although_a_fifth_of_all_packets_is_lost() {
    let lossy = Faults { loss_per_mille: 200, delay: ms(5)..ms(40), ..Faults::default() };
    nearly_all_calls_succeed("20 % loss", lossy);
}

#[test]
fn calls_succeed_although_packets_are_duplicated_and_reordered() {
    let faults = Faults {
        duplicate_per_mille: 300,
        reorder_per_mille: 300,
        delay: ms(1)..ms(30),
        ..Faults::default()
    };
    nearly_all_calls_succeed("duplicated and reordered", faults);
}

#[test]
fn calls_succeed_although_all_faults_occur() {
    let faults = Faults {
        loss_per_mille: 150,
        duplicate_per_mille: 100,
        reorder_per_mille: 100,
        delay: ms(20)..ms(300),
    };
    nearly_all_calls_succeed("everything", faults);
}

#[test]
fn a_stateless_proxy_is_no_worse_on_a_lossy_network() {
    let lossy = Faults { loss_per_mille: 200, delay: ms(5)..ms(40), ..Faults::default() };
    let good = Cell::new((0, 0));
    Story::new("stateless, 20 % loss").faults(lossy).configure(|config| config.stateful = false).run(
        |world| {
            let up = call_and_hang_up(world);
            good.set((good.get().0 + u32::from(up), good.get().1 + 1));
        },
    );
    assert_mostly(good.get());
}

#[test]
fn a_duplicated_invite_makes_one_call() {
    let duplicated = Faults { duplicate_per_mille: 1000, ..Faults::default() };
    Story::new("duplicated").faults(duplicated).run(|world| {
        let (alice, bob) = (world.registered("alice"), world.registered("bob"));
        world.call(alice, "bob");
        world.wait(5);
        assert_eq!(world.count(bob, &PhoneEvent::Called), 1);
        assert_eq!(world.forwarded("INVITE"), 1);
        assert_eq!(world.calls_up(&[alice, bob]), [1, 1]);
        world.hang_up(bob);
        world.wait(5);
        assert_eq!(world.calls_up(&[alice, bob]), [0, 0]);
    });
}

/// The server's 100 and 180 never arrive at the caller, who retransmits the INVITE all the time.
#[test]
fn a_retransmitted_invite_makes_one_call() {
    Story::new("repeated").run(|world| {
        let (alice, bob) = (world.registered("alice"), world.registered("bob"));
        world.behave(bob, Behaviour::Answer { ring_ms: 50, answer_ms: 6000 });
        world.call(alice, "bob");
        world.wait_ms(20);
        world.sim.set_link(world.server, alice, Faults::cut());
        world.wait(5);
        world.sim.set_link(world.server, alice, Faults::default());
        world.wait(5);
        let invites = world
            .sim
            .trace()
            .packets()
            .filter(|seen| seen.sender.starts_with("alice") && seen.first_line().starts_with("INVITE"));
        assert!(invites.count() >= 2);
        assert_eq!((world.count(bob, &PhoneEvent::Called), world.forwarded("INVITE")), (1, 1));
        assert_eq!(world.calls_up(&[alice, bob]), [1, 1]);
    });
}

/// The server has no dialog state: all it needs is in the Record-Route, under a secret that survives.
#[test]
fn a_call_outlives_a_crash_of_the_server() {
    Story::new("crash in a call").run(|world| {
        let (alice, bob) = (world.registered("alice"), world.registered("bob"));
        world.call(alice, "bob");
        world.wait(5);
        world.restart_server();
        world.wait(5);
        let (one, other) = if world.seed() % 2 == 0 { (alice, bob) } else { (bob, alice) };
        world.hang_up(one);
        world.wait(5);
        assert_eq!(world.events(one).last(), Some(&PhoneEvent::Accepted("BYE")));
        assert_eq!(world.events(other).last(), Some(&PhoneEvent::HungUp));
    });
}

/// The callee's responses are lost: its 200 is retransmitted until it times out, and the callee reports that.
#[test]
fn a_call_whose_ack_never_comes_is_given_up() {
    Story::new("no ACK").run(|world| {
        let (alice, bob) = (world.registered("alice"), world.registered("bob"));
        world.call(alice, "bob");
        world.wait_ms(500);
        world.sim.set_link(world.server, bob, Faults::cut());
        world.wait(20);
        assert_eq!(world.count(alice, &PhoneEvent::Answered), 1);
        world.wait(20);
        assert_eq!(world.count(bob, &PhoneEvent::NeverConfirmed), 1);
        assert_eq!(world.events(alice).last(), Some(&PhoneEvent::HungUp));
        world.wait(40);
        assert_eq!(world.calls_up(&[alice, bob]), [0, 0]);
    });
}

fn nearly_all_calls_succeed(name: &'static str, faults: Faults) {
    let good = Cell::new((0, 0));
    Story::new(name).faults(faults).run(|world| {
        let up = call_and_hang_up(world);
        good.set((good.get().0 + u32::from(up), good.get().1 + 1));
    });
    assert_mostly(good.get());
}

/// True if the call succeeded. In any case both sides must agree in the end.
fn call_and_hang_up(world: &mut World) -> bool {
    let (alice, bob) = (world.registered("alice"), world.registered("bob"));
    world.call(alice, "bob");
    world.wait(45);
    let up = world.calls_up(&[alice, bob]) == [1, 1];
    assert!(world.count(bob, &PhoneEvent::Called) <= 1, "one call rings once");
    assert!(
        world.count(alice, &PhoneEvent::Answered) <= 1 && world.count(alice, &PhoneEvent::AnsweredTwice) == 0
    );
    world.hang_up(alice);
    world.wait(70);
    if !has_silent_end(world, alice) && !has_silent_end(world, bob) {
        assert_eq!(world.calls_up(&[alice, bob]), [0, 0]);
    }
    up
}

/// True if a request timed out, so that the phones may disagree.
fn has_silent_end(world: &World, phone: HostId) -> bool {
    world.events(phone).iter().any(|events| matches!(events, PhoneEvent::Unanswered(_)))
}

fn assert_mostly((good, all): (u32, u32)) {
    assert!(good * 10 >= all * 9, "only {good} of {all} calls succeeded");
}

const fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}
