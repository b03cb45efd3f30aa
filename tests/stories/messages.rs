//! Stories of messages for absent users: restarts, lost answers, phones that refuse, many users that come at once.

use ringway_server::{Config, PresenceConfig};
use ringway_sim::{Fate, Faults, HostId};
use ringway_tests::{PhoneEvent, Story, World};
use std::collections::BTreeMap;
use std::time::Duration;

fn on(config: &mut Config) {
    config.presence = PresenceConfig { messages: true, ..PresenceConfig::default() };
}

/// Sends a text of a phone to a user.
fn say(world: &mut World, phone: HostId, user: &str, text: &str) {
    let uri = format!("sip:{user}@example.org");
    world.phone_do(phone, |phone, now, effects| phone.send_text(now, &uri, text, effects));
}

/// Sets the status of a phone's answers to MESSAGE; `None`: it does not answer.
fn answer(world: &mut World, phone: HostId, status: Option<u16>) {
    world.phone_do(phone, |phone, _, _| phone.answer_messages(status));
}

/// Texts that arrived at a phone, in their order, by the Call-ID of their MESSAGE. A text may arrive again with its Call-ID only:
/// then the phone can tell.
fn texts(world: &World, phone: HostId) -> Vec<String> {
    let address = world.address(phone);
    let mut calls = BTreeMap::new();
    let mut texts = Vec::new();
    let sent = world.sim.trace().packets();
    let arrived = sent.filter(|seen| seen.to == address && !matches!(seen.fate, Fate::Lost));
    let arrived = arrived.map(|seen| String::from_utf8_lossy(&seen.bytes).into_owned());
    for message in arrived.filter(|message| message.starts_with("MESSAGE ")) {
        let (head, body) = message.split_once("\r\n\r\n").expect("a message has a body");
        let call = head.lines().find(|line| line.starts_with("Call-ID")).expect("it has a Call-ID");
        if calls.insert(call.to_owned(), body.to_owned()).is_none() {
            texts.push(body.to_owned());
        }
    }
    texts
}

fn kept(world: &World) -> usize {
    world.shards().iter().map(|shard| shard.messages_len()).sum()
}

fn bad_network() -> Faults {
    Faults {
        loss_per_mille: 150,
        duplicate_per_mille: 150,
        reorder_per_mille: 150,
        delay: Duration::from_millis(5)..Duration::from_millis(100),
    }
}

#[test]
fn what_was_accepted_arrives_once_over_a_bad_network() {
    Story::new("messages on a bad network").faults(bad_network()).configure(on).run(|world| {
        let (alice, bob) = (world.registered("alice"), world.phone("bob"));
        for number in 0..5 {
            say(world, alice, "bob", &format!("text {number}"));
            world.wait(20);
        }
        world.wait(20);
        let accepted = world.count(alice, &PhoneEvent::Accepted("MESSAGE"));
        assert!(kept(world) >= accepted, "{} of {accepted}", kept(world));
        let kept_texts = kept(world);
        world.register(bob);
        world.wait(300);
        let expected: Vec<_> = (0..5).map(|number| format!("text {number}")).collect();
        assert_eq!(texts(world, bob).len(), kept_texts);
        assert!(kept_texts < 5 || texts(world, bob) == expected, "in order");
        assert_eq!(kept(world), 0);
    });
}

#[test]
fn a_restart_between_the_202_and_the_delivery_loses_nothing() {
    Story::new("messages and a restart").configure(on).run(|world| {
        let (alice, bob) = (world.registered("alice"), world.phone("bob"));
        for number in 0..4 {
            say(world, alice, "bob", &format!("text {number}"));
            world.wait_ms(100);
        }
        world.wait(5);
        assert_eq!(world.count(alice, &PhoneEvent::Accepted("MESSAGE")), 4);
        world.restart_server();
        assert_eq!(kept(world), 4);
        world.register(bob);
        world.wait_ms(35);
        // Again in the middle of the delivery.
        world.restart_server();
        world.wait(100);
        let arrived = texts(world, bob);
        assert_eq!(arrived, (0..4).map(|number| format!("text {number}")).collect::<Vec<_>>());
        assert_eq!(kept(world), 0);
        assert!(world.services.stored().keys().all(|key| !key.contains(&0)), "nothing is left in the store");
    });
}

#[test]
fn a_phone_that_refuses_for_now_gets_it_later_and_one_that_cannot_take_it_never() {
    Story::new("phones that refuse messages").configure(on).run(|world| {
        let alice = world.registered("alice");
        let (busy, old) = (world.phone("bob"), world.phone("carol"));
        answer(world, busy, Some(486));
        answer(world, old, Some(403));
        say(world, alice, "bob", "for bob");
        say(world, alice, "carol", "for carol");
        world.wait(5);
        assert_eq!(kept(world), 2);
        world.register(busy);
        world.register(old);
        world.wait(5);
        assert_eq!(kept(world), 1, "403 is for good");
        answer(world, busy, Some(200));
        world.wait(60);
        assert_eq!((kept(world), texts(world, busy)), (0, vec!["for bob".to_owned()]));
    });
}

#[test]
fn a_phone_that_was_switched_off_gets_it_after_it_is_back() {
    Story::new("a phone without battery").configure(on).run(|world| {
        let (alice, bob) = (world.registered("alice"), world.registered("bob"));
        answer(world, bob, None);
        say(world, alice, "bob", "are you there?");
        world.wait(30);
        assert_eq!(world.count(alice, &PhoneEvent::Accepted("MESSAGE")), 1, "before its time is up");
        assert_eq!(kept(world), 1);
        answer(world, bob, Some(200));
        world.phone_do(bob, |phone, now, effects| phone.register(now, 3600, effects));
        world.wait(120);
        assert_eq!(kept(world), 0);
        assert!(texts(world, bob).iter().all(|text| text == "are you there?"));
    });
}

#[test]
fn many_users_that_come_at_once_all_get_theirs() {
    Story::new("a storm after a restart").configure(on).run(|world| {
        let alice = world.registered("alice");
        let names: Vec<_> = (0..40).map(|number| format!("user{number}")).collect();
        let phones: Vec<_> = names.iter().map(|name| world.phone(name)).collect();
        for name in &names {
            say(world, alice, name, &format!("for {name}"));
        }
        world.wait(10);
        let accepted = world.count(alice, &PhoneEvent::Accepted("MESSAGE"));
        assert_eq!((accepted, kept(world)), (40, 40));
        world.restart_server();
        for &phone in &phones {
            world.phone_do(phone, |phone, now, effects| phone.register(now, 3600, effects));
        }
        world.wait(10);
        for (name, &phone) in names.iter().zip(&phones) {
            assert_eq!(texts(world, phone), [format!("for {name}")]);
        }
        assert_eq!(kept(world), 0);
    });
}
