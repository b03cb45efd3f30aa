//! Stories of registration.

use ringway_tests::{PhoneEvent, Story, World};
use std::sync::atomic::Ordering;

#[test]
fn a_phone_registers_refreshes_and_leaves() {
    Story::new("register").run(|world| {
        let alice = world.phone("alice");
        register(world, alice, 600);
        let contact = |seconds| format!("<sip:alice@10.0.1.1:5060>;expires={seconds}");
        assert_eq!(world.events(alice), [registered(&[&contact(600)])]);
        assert_eq!(world.statuses(alice), [401, 200], "one challenge");
        assert_eq!(users(world), 1);

        world.wait(300);
        register(world, alice, 900);
        assert_eq!(world.events(alice).last(), Some(&registered(&[&contact(900)])));

        register(world, alice, 0);
        assert_eq!(world.events(alice).last(), Some(&registered(&[])));
        assert!(world.services.stored().is_empty());
    });
}

#[test]
fn a_binding_ends_when_it_is_not_refreshed() {
    Story::new("binding ends").run(|world| {
        let (alice, bob) = (world.registered("alice"), world.phone("bob"));
        register(world, bob, 60);
        world.wait(58);
        world.call(alice, "bob");
        world.wait(1);
        assert_eq!(world.count(bob, &PhoneEvent::Called), 1);
        world.cancel(alice);
        world.wait(2);
        world.call(alice, "bob");
        world.wait(1);
        assert_eq!(world.events(alice).last(), Some(&PhoneEvent::Refused("INVITE", 480)));
        assert!(world.services.stored().keys().all(|aor| aor.starts_with(b"alice")), "nor is it stored");
    });
}

#[test]
fn a_wrong_password_is_challenged_again_and_registers_no_contact() {
    Story::new("wrong password").run(|world| {
        let alice = world.phone("alice");
        world.phone_do(alice, |phone, _, _| phone.set_password("guessed"));
        register(world, alice, 600);
        assert_eq!(world.events(alice), [PhoneEvent::Refused("REGISTER", 401)]);
        assert_eq!(users(world), 0);
    });
}

#[test]
fn a_user_cannot_register_another_user() {
    Story::new("another's address").run(|world| {
        let (mallory, _) = (world.phone("mallory"), world.phone("bob"));
        world.phone_do(mallory, |phone, now, effects| {
            let contact = "Contact: <sip:bob@10.0.1.1>\r\n";
            phone.request_outside(now, "REGISTER", "sip:bob@example.org", contact, effects);
        });
        world.wait(1);
        assert_eq!(world.events(mallory), [PhoneEvent::Refused("REGISTER", 403)]);
        assert_eq!(users(world), 0);
    });
}

#[test]
fn all_contacts_are_removed_at_once() {
    Story::new("star").run(|world| {
        let (one, two) = (world.registered("bob"), world.registered("bob"));
        let Some(PhoneEvent::Registered { contacts }) = world.events(two).pop() else {
            panic!("no registration")
        };
        assert_eq!(contacts.len(), 2, "{contacts:?}");
        world.phone_do(one, |phone, now, effects| {
            phone.register_with(now, "Contact: *\r\nExpires: 0\r\n", effects);
        });
        world.wait(1);
        assert_eq!(world.events(one).last(), Some(&registered(&[])));
        assert_eq!(users(world), 0);
    });
}

#[test]
fn a_store_that_fails_is_no_success() {
    Story::new("store fails").run(|world| {
        let alice = world.phone("alice");
        world.services.store_fails.store(true, Ordering::Relaxed);
        register(world, alice, 600);
        assert_eq!(world.events(alice), [PhoneEvent::Refused("REGISTER", 503)]);
        world.services.store_fails.store(false, Ordering::Relaxed);
        register(world, alice, 600);
        assert!(matches!(world.events(alice).last(), Some(PhoneEvent::Registered { .. })));
    });
}

#[test]
fn registrations_survive_a_crash_of_the_server() {
    Story::new("crash").run(|world| {
        let (alice, bob) = (world.registered("alice"), world.registered("bob"));
        world.wait(10);
        world.restart_server();
        assert_eq!(users(world), 2);
        world.call(alice, "bob");
        world.wait(5);
        assert_eq!(world.calls_up(&[alice, bob]), [1, 1]);
        world.hang_up(bob);
        world.wait(1);
        assert_eq!(world.calls_up(&[alice, bob]), [0, 0]);
    });
}

fn register(world: &mut World, phone: ringway_sim::HostId, seconds: u32) {
    world.phone_do(phone, |phone, now, effects| phone.register(now, seconds, effects));
    world.wait(1);
}

fn registered(contacts: &[&str]) -> PhoneEvent {
    PhoneEvent::Registered { contacts: contacts.iter().map(ToString::to_string).collect() }
}

fn users(world: &World) -> usize {
    world.shards().iter().map(|shard| shard.location().users_len()).sum()
}
