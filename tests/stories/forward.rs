//! Stories of users who forward their calls.

use ringway_server::{ForwardUri, Forwards, NoAnswer};
use ringway_sim::{Faults, HostId};
use ringway_tests::{Behaviour, PhoneEvent, Story, World};
use std::time::Duration;

fn target(user: &str) -> ForwardUri {
    ForwardUri::new(&format!("sip:{user}@example.org")).expect("a valid URI")
}

fn busy(user: &str) -> Forwards {
    Forwards { busy: Some(target(user)), ..Forwards::default() }
}

fn no_answer(after_s: u64, user: &str) -> Forwards {
    let no_answer = NoAnswer::new(after_s, target(user)).expect("a valid time");
    Forwards { no_answer: Some(no_answer), ..Forwards::default() }
}

fn bad_network() -> Faults {
    Faults {
        loss_per_mille: 100,
        duplicate_per_mille: 50,
        reorder_per_mille: 100,
        delay: Duration::from_millis(1)..Duration::from_millis(60),
    }
}

/// Alice, bob and carol with a phone each.
fn three(world: &mut World) -> (HostId, HostId, HostId) {
    (world.registered("alice"), world.registered("bob"), world.registered("carol"))
}

#[test]
fn a_busy_users_call_is_answered_by_another() {
    Story::new("forward: busy").run(|world| {
        let (alice, bob, carol) = three(world);
        world.set_forwards("bob", &busy("carol"));
        world.behave(bob, Behaviour::Refuse(486));
        world.call(alice, "bob");
        world.wait(5);
        assert_eq!(world.calls_up(&[alice, bob, carol]), [1, 0, 1]);
        world.hang_up(alice);
        world.wait(5);
        assert_eq!(world.calls_up(&[alice, bob, carol]), [0, 0, 0]);
    });
}

#[test]
fn a_phone_that_rings_too_long_is_cancelled_and_another_user_answers() {
    Story::new("forward: no answer").run(|world| {
        let (alice, bob, carol) = three(world);
        world.set_forwards("bob", &no_answer(4, "carol"));
        world.behave(bob, Behaviour::Ring);
        world.call(alice, "bob");
        world.wait(12);
        assert_eq!(world.calls_up(&[alice, bob, carol]), [1, 0, 1]);
        assert_eq!(world.call_events(bob), [PhoneEvent::Called, PhoneEvent::Cancelled]);
        world.hang_up(carol);
        world.wait(5);
        assert_eq!(world.calls_up(&[alice, bob, carol]), [0, 0, 0]);
    });
}

/// Whatever is lost, the call reaches carol or ends, and the server keeps nothing.
#[test]
fn forwarded_calls_end_on_a_bad_network() {
    for behaviour in [Behaviour::Refuse(486), Behaviour::Ring, Behaviour::Silent] {
        Story::new("forward: loss").run(|world| {
            let (alice, bob, carol) = three(world);
            world.set_forwards("bob", &Forwards { busy: Some(target("carol")), ..no_answer(3, "carol") });
            world.behave(bob, behaviour);
            world.sim.set_faults(bad_network());
            world.call(alice, "bob");
            world.wait(60);
            let up = world.calls_up(&[alice, bob, carol]);
            assert_eq!((up[0], up[1]), (up[2], 0), "both or none have the call");
            world.sim.set_faults(Faults::default());
            world.hang_up(alice);
            world.wait(250);
            assert_eq!(world.pending(), (0, 0, 0));
        });
    }
}

/// The caller gives up at any time: before, between and after the targets.
#[test]
fn a_caller_that_gives_up_ends_every_target() {
    Story::new("forward: cancel").run(|world| {
        let (alice, bob, carol) = three(world);
        world.set_forwards("bob", &no_answer(2, "carol"));
        world.behave(bob, Behaviour::Ring);
        world.behave(carol, Behaviour::Ring);
        world.sim.set_faults(bad_network());
        world.call(alice, "bob");
        world.wait_ms(world.seed() * 397 % 4000);
        world.cancel(alice);
        world.wait(60);
        world.sim.set_faults(Faults::default());
        world.wait(250);
        assert_eq!(world.calls_up(&[alice, bob, carol]), [0, 0, 0]);
        assert_eq!(world.pending(), (0, 0, 0));
    });
}

#[test]
fn users_that_forward_to_each_other_keep_nothing_running() {
    Story::new("forward: ring").run(|world| {
        let (alice, bob, carol) = three(world);
        world.behave(bob, Behaviour::Refuse(486));
        world.behave(carol, Behaviour::Refuse(486));
        world.set_forwards("bob", &busy("carol"));
        world.set_forwards("carol", &busy("bob"));
        world.sim.set_faults(bad_network());
        world.call(alice, "bob");
        world.wait(100);
        let last = world.events(alice).pop();
        assert_eq!(last, Some(PhoneEvent::Refused("INVITE", 486)));
        assert!(world.count(bob, &PhoneEvent::Called) <= 1, "bob is called once");
        world.sim.set_faults(Faults::default());
        world.wait(100);
        assert_eq!(world.pending(), (0, 0, 0));
    });
}
