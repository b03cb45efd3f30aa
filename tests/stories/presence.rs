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

/// Subscribes a phone to the dialogs of a user.
fn watch(world: &mut World, phone: HostId, user: &str) {
    let contact = format!("Contact: <sip:watcher@{}>", world.address(phone));
    let lines = format!("{contact}\r\nEvent: dialog\r\nExpires: 3600\r\n");
    let target = format!("sip:{user}@example.org");
    world.phone_do(phone, |phone, now, effects| {
        phone.request_outside(now, "SUBSCRIBE", &target, &lines, effects);
    });
}

/// States of the last document about a user: the one with the highest CSeq.
fn dialog_state(world: &World, phone: HostId, user: &str) -> Vec<String> {
    let address = world.address(phone);
    let entity = format!("entity=\"sip:{user}@");
    let texts = world.sim.trace().packets().filter(|seen| seen.to == address);
    let texts = texts.map(|seen| String::from_utf8_lossy(&seen.bytes).into_owned());
    let texts = texts.filter(|text| text.starts_with("NOTIFY ") && text.contains(&entity));
    let version = |text: &String| -> u32 {
        let root = text.split("<dialog-info ").nth(1).expect("it is a dialog document");
        let (_, after) = root.split_once("version=\"").expect("a document has a version");
        after.split('"').next().and_then(|number| number.parse().ok()).expect("it is a number")
    };
    let last = texts.max_by_key(version).unwrap_or_default();
    let states =
        last.split("<state>").skip(1).map(|rest| rest.split('<').next().unwrap_or_default().to_owned());
    states.collect()
}

/// Ends all subscriptions, so that no memory is reserved at the end of the story.
fn switch_off(world: &mut World) {
    world.reload(|config| config.presence.enabled = false);
    world.wait(1);
    assert_eq!(subscriptions(world), 0);
    assert!(!world.services.tables().dialog_state_filter().is_watching());
}

/// Everything that is lit ends, whatever the network loses: the users and the watcher are in different shards for most seeds.
#[test]
fn dialog_states_follow_calls_between_shards_and_all_of_them_end() {
    let bad = Faults {
        loss_per_mille: 100,
        duplicate_per_mille: 150,
        reorder_per_mille: 150,
        delay: Duration::from_millis(5)..Duration::from_millis(100),
    };
    for faults in [Faults::default(), bad] {
        let is_good = faults.loss_per_mille == 0;
        Story::new("lamps").faults(faults).configure(on).run(|world| {
            let [alice, bob, carol] = ["alice", "bob", "carol"].map(|user| world.registered(user));
            watch(world, carol, "bob");
            world.wait(4);
            watch(world, carol, "alice");
            world.wait(40);
            assert_eq!(subscriptions(world), 2);
            for number in 0..3 {
                world.call(alice, "bob");
                world.wait(8);
                if is_good {
                    assert_eq!(dialog_state(world, carol, "bob"), ["confirmed"], "call {number}");
                    assert_eq!(dialog_state(world, carol, "alice"), ["confirmed"], "call {number}");
                }
                world.hang_up(if number % 2 == 0 { alice } else { bob });
                world.wait(4);
                if !is_good {
                    // It may have been answered later than the first attempt to end it.
                    for phone in [alice, bob] {
                        world.wait(75);
                        world.hang_up(phone);
                    }
                    world.wait(75);
                }
                assert_eq!(
                    world.services.tables().change_dialog_states((0, 0), |states| states.open()),
                    (0, 0),
                    "call {number}"
                );
                for user in ["alice", "bob"] {
                    let last = dialog_state(world, carol, user);
                    assert!(last.iter().all(|state| state == "terminated"), "{user}: {last:?}");
                }
            }
            switch_off(world);
        });
    }
}

#[test]
fn dialog_states_are_empty_after_a_restart_and_follow_the_next_call() {
    Story::new("lamps after a restart").configure(on).run(|world| {
        let [alice, bob, carol] = ["alice", "bob", "carol"].map(|user| world.registered(user));
        watch(world, carol, "bob");
        world.wait(5);
        world.call(alice, "bob");
        world.wait(8);
        assert_eq!(dialog_state(world, carol, "bob"), ["confirmed"]);
        world.restart_server();
        assert_eq!(world.services.tables().change_dialog_states((0, 0), |states| states.open()), (0, 0));
        let before = world.sim.trace().packets().count();
        watch(world, carol, "bob");
        world.wait(5);
        let address = world.address(carol);
        let fresh = world.sim.trace().packets().skip(before).filter(|seen| seen.to == address);
        let notify = fresh.map(|seen| String::from_utf8_lossy(&seen.bytes).into_owned());
        let notify =
            notify.filter(|text| text.starts_with("NOTIFY ")).last().expect("there is a first document");
        assert!(notify.contains("state=\"full\"") && notify.matches("<dialog ").count() == 1, "{notify}");
        assert!(notify.contains("<dialog id=\"idle\"><state>terminated</state></dialog>"), "{notify}");
        world.hang_up(alice);
        world.wait(5);
        world.call(alice, "bob");
        world.wait(8);
        assert_eq!(world.services.tables().change_dialog_states((0, 0), |states| states.open()), (1, 0));
        world.hang_up(bob);
        world.wait(5);
        assert_eq!(world.services.tables().change_dialog_states((0, 0), |states| states.open()), (0, 0));
        switch_off(world);
    });
}
