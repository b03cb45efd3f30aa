//! Stories of calls through a media relay that is slow, silent or refuses: every call that was begun there is deleted.
//!
//! [`Story`] asserts that at the end of each.

use ringway_sansio::Transport;
use ringway_server::{Config, RelayRule};
use ringway_sim::{Faults, HostId};
use ringway_tests::{Behaviour, Story, World};
use std::cell::Cell;
use std::time::Duration;

fn always(config: &mut Config) {
    config.media.rule = RelayRule::Always;
}

/// Network that loses every tenth datagram.
fn lossy() -> Faults {
    Faults {
        loss_per_mille: 100,
        duplicate_per_mille: 50,
        reorder_per_mille: 50,
        delay: Duration::from_millis(1)..Duration::from_millis(60),
    }
}

/// Ends whatever call a softphone has.
fn hang_up_all(world: &mut World, hosts: &[HostId]) {
    for &host in hosts {
        world.agent_do(host, |agent, cx| {
            let calls: Vec<_> = agent.calls().map(|(call, _)| call).collect();
            for call in calls {
                // One that has ended already is none of ours.
                let _ = agent.hang_up(cx, call);
            }
        });
    }
}

#[test]
fn calls_with_changes_end_at_the_relay() {
    let begun = Cell::new(0);
    Story::new("relayed calls").configure(always).faults(lossy()).run(|world| {
        let (alice, bob) = (world.registered_softphone("alice"), world.registered_softphone("bob"));
        let out = world.dial(alice, "bob");
        world.wait(8);
        if world.pick_up(bob).is_ok() {
            world.wait(8);
            // Each fails where the call did.
            let _ = world.agent_do(alice, |agent, cx| agent.hold(cx, out));
            world.wait(8);
            let _ = world.agent_do(alice, |agent, cx| agent.resume(cx, out));
            world.wait(8);
        }
        hang_up_all(world, &[bob]);
        world.wait(40);
        hang_up_all(world, &[alice, bob]);
        world.wait(40);
        begun.set(begun.get() + world.relayed());
    });
    assert!(begun.get() > 0);
}

#[test]
fn calls_that_are_given_up_at_any_time_end_at_the_relay() {
    let begun = Cell::new(0);
    Story::new("relayed calls given up").configure(always).run(|world| {
        let alice = world.registered_softphone("alice");
        let bobs = [world.registered_softphone("bob"), world.softphone_with("bob", Transport::Tcp, |_| {})];
        world.start(bobs[1]);
        world.dial(alice, "bob");
        world.wait_ms(world.seed() * 37 % 4000);
        match world.seed() % 3 {
            0 => {}
            1 => drop(world.pick_up(bobs[0])),
            _ => bobs.into_iter().for_each(|bob| drop(world.pick_up(bob))),
        }
        world.wait_ms(world.seed() * 11 % 50);
        hang_up_all(world, &[alice]);
        world.wait(40);
        hang_up_all(world, &[alice, bobs[0], bobs[1]]);
        world.wait(40);
        begun.set(begun.get() + world.relayed());
    });
    assert!(begun.get() > 0);
}

#[test]
fn a_call_to_a_phone_that_is_gone_ends_at_the_relay() {
    Story::new("relayed call to nobody").configure(always).run(|world| {
        let alice = world.registered_softphone("alice");
        let bob = world.registered("bob");
        world.behave(bob, Behaviour::Silent);
        world.dial(alice, "bob");
        world.wait(60);
        hang_up_all(world, &[alice]);
    });
}
