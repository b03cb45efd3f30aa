//! Stories of calls during which the configuration or a block list changes.

use ringway_sansio::ListenerId;
use ringway_server::{BlockPattern, Strangers};
use ringway_sim::Faults;
use ringway_tests::{PhoneEvent, Story, World};
use std::time::Duration;

fn block(world: &World, callers: &[&str]) {
    let patterns = callers.iter().map(|caller| BlockPattern::caller(caller).expect("a caller"));
    world.services.tables().change_blocks(|list| list.set_all(patterns));
}

#[test]
fn a_call_outlives_a_reload_and_the_next_one_has_the_new_settings() {
    Story::new("reload in mid-call").run(|world| {
        let (alice, bob) = (world.registered("alice"), world.registered("bob"));
        world.call(alice, "bob");
        world.wait(5);
        world.reload(|config| {
            config.stateful = false;
            config.auth.strangers = Strangers::None;
            config.registrar.max_contacts = 1;
            config.auth.nonce_lifetime = Duration::from_secs(5);
        });
        world.hang_up(bob);
        world.wait(5);
        assert_eq!(
            world.call_events(alice),
            [PhoneEvent::Progress(180), PhoneEvent::Answered, PhoneEvent::HungUp]
        );
        world.reload(|config| config.stateful = true);
        world.call(alice, "bob");
        world.wait(5);
        world.hang_up(alice);
        world.wait(5);
        assert_eq!(world.count(alice, &PhoneEvent::Answered), 2);
    });
}

#[test]
fn a_call_rings_while_its_listener_is_removed() {
    let lossy = Faults { loss_per_mille: 100, ..Faults::default() };
    Story::new("removed listener").faults(lossy).run(|world| {
        let (alice, bob) = (world.registered("alice"), world.registered("bob"));
        world.call(alice, "bob");
        // At any moment of the call.
        world.wait_ms(world.seed() % 4000);
        world.reload(|config| config.removed_listeners = vec![ListenerId(0)]);
        world.wait(30);
        world.hang_up(alice);
        world.wait(30);
        let events = world.call_events(bob);
        let is_over =
            events.is_empty() || events.contains(&PhoneEvent::HungUp) || world.calls_up(&[bob]) == [0];
        assert!(is_over, "{events:?}");
    });
}

#[test]
fn a_caller_who_is_blocked_in_mid_call_ends_it_and_begins_no_other() {
    Story::new("blocked in mid-call").run(|world| {
        let (alice, bob) = (world.registered("alice"), world.registered("bob"));
        world.call(alice, "bob");
        world.wait(5);
        block(world, &["alice@example.org"]);
        world.hang_up(alice);
        world.wait(5);
        assert_eq!(world.call_events(bob), [PhoneEvent::Called, PhoneEvent::Confirmed, PhoneEvent::HungUp]);
        world.call(alice, "bob");
        world.wait(5);
        assert_eq!(world.statuses(alice).last(), Some(&403));
        assert_eq!(world.count(bob, &PhoneEvent::Called), 1);
        // She is still called, and calls again after the entry was removed.
        world.call(bob, "alice");
        world.wait(5);
        assert_eq!(world.count(alice, &PhoneEvent::Called), 1);
        world.hang_up(bob);
        world.wait(5);
        block(world, &[]);
        world.call(alice, "bob");
        world.wait(5);
        world.hang_up(alice);
        assert_eq!(world.count(bob, &PhoneEvent::Called), 2);
    });
}
