//! Stories of presence: a watcher on a network that loses, repeats and reorders packets, one that vanishes, a restart.

use ringway_server::{Config, PresenceConfig};
use ringway_sim::{Faults, HostId};
use ringway_tests::{PhoneEvent, Story, World};
use std::collections::BTreeMap;
use std::time::Duration;

fn on(config: &mut Config) {
    config.presence = PresenceConfig { enabled: true, ..PresenceConfig::default() };
}

/// Subscribes a phone to the presence of bob.
fn subscribe(world: &mut World, phone: HostId, seconds: u32) {
    let contact = format!("Contact: <sip:watcher@{}>", world.address(phone));
    let lines = format!("{contact}\r\nEvent: presence\r\nExpires: {seconds}\r\n");
    world.phone_do(phone, |phone, now, effects| {
        phone.request_outside(now, "SUBSCRIBE", "sip:bob@example.org", &lines, effects);
    });
}

/// Documents that were sent to a phone, by the CSeq of their NOTIFY.
fn documents(world: &World, phone: HostId) -> BTreeMap<u32, String> {
    let address = world.address(phone);
    let texts = world.sim.trace().packets().filter(|seen| seen.to == address);
    let texts = texts.map(|seen| String::from_utf8_lossy(&seen.bytes).into_owned());
    let cseq = |text: &str| {
        let (_, after) = text.split_once("CSeq: ").expect("a NOTIFY has a CSeq");
        after.split(' ').next().and_then(|number| number.parse().ok()).expect("it is a number")
    };
    texts.filter(|text| text.starts_with("NOTIFY ")).map(|text| (cseq(&text), text)).collect()
}

fn subscriptions(world: &World) -> usize {
    world.shards().iter().map(|shard| shard.subscriptions_len()).sum()
}

#[test]
fn the_last_state_arrives_over_a_bad_network() {
    let faults = Faults {
        loss_per_mille: 150,
        duplicate_per_mille: 150,
        reorder_per_mille: 150,
        delay: Duration::from_millis(5)..Duration::from_millis(100),
    };
    Story::new("presence on a bad network").faults(faults).configure(on).run(|world| {
        let (alice, bob) = (world.registered("alice"), world.phone("bob"));
        subscribe(world, alice, 150);
        world.wait(30);
        assert_eq!(world.count(alice, &PhoneEvent::Accepted("SUBSCRIBE")), 1);
        assert_eq!(subscriptions(world), 1, "whatever was repeated");
        world.register(bob);
        world.wait(40);
        let all = documents(world, alice);
        assert!(all.values().next().expect("there is a first").contains(">closed<"));
        assert!(all.values().next_back().expect("there is a last").contains(">open<"));
        world.phone_do(bob, |phone, now, effects| phone.register(now, 0, effects));
        world.wait(40);
        assert!(documents(world, alice).values().next_back().is_some_and(|text| text.contains(">closed<")));
        world.wait(60);
        let last = documents(world, alice).into_values().next_back();
        assert!(last.is_some_and(|text| text.contains("terminated;reason=timeout")));
        assert_eq!(subscriptions(world), 0);
    });
}

#[test]
fn a_watcher_that_vanishes_is_forgotten() {
    Story::new("a watcher vanishes").configure(on).run(|world| {
        let (alice, bob) = (world.registered("alice"), world.phone("bob"));
        subscribe(world, alice, 3600);
        world.wait(10);
        assert_eq!(subscriptions(world), 1);
        world.crash(alice);
        world.register(bob);
        world.wait(40);
        assert_eq!(subscriptions(world), 0, "its NOTIFY had no answer");
    });
}

#[test]
fn a_restart_loses_subscriptions_and_a_new_one_has_the_stored_state() {
    Story::new("presence after a restart").configure(on).run(|world| {
        let (alice, bob) = (world.registered("alice"), world.registered("bob"));
        subscribe(world, alice, 60);
        world.wait(10);
        world.restart_server();
        assert_eq!(subscriptions(world), 0);
        world.phone_do(bob, |phone, now, effects| phone.register(now, 0, effects));
        world.wait(10);
        assert_eq!(documents(world, alice).len(), 1, "no NOTIFY of a subscription that is lost");
        world.register(bob);
        subscribe(world, alice, 60);
        world.wait(10);
        assert!(documents(world, alice).values().next_back().is_some_and(|text| text.contains(">open<")));
        assert_eq!(subscriptions(world), 1);
    });
}
