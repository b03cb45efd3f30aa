//! Tests of the limits of subscriptions and publications, and of the NOTIFYs that one request causes.

use crate::harness::{BOB, World, only, request, requests, statuses};
use crate::presence::{accepted, on, publish, subscribe, with_body, world};
use ringway_server::Payer;
use std::time::Duration;

const PIDF: &str = "application/pidf+xml";

#[test]
fn a_watcher_has_a_hundred_subscriptions_in_a_shard() {
    let mut world = world();
    let from = "192.0.2.10:5060";
    let begin = |world: &mut World, number: usize| {
        let request = subscribe("alice", from, &format!("u{number}"), "presence");
        let sent = world.udp(from, &request);
        sent.iter()
            .filter(|one| one.status() == 0)
            .for_each(|notify| drop(world.udp(from, &notify.answer(200, &[]))));
        statuses(&sent)[0]
    };
    let accepted = (0..120).filter(|&number| begin(&mut world, number) == 200).count();
    assert_eq!((accepted, world.server.subscriptions_len()), (100, 100));
    assert_eq!(begin(&mut world, 200), 403);
    assert_eq!(world.server.counters().subscriptions_refused, 21);
    let other = subscribe("bob", BOB, "u1", "presence");
    assert_eq!(statuses(&world.udp(BOB, &other)), [200], "others are not affected");
    assert!(world.memory.tables().reserved_bytes() > 100 * 3000);
    // Nobody answers the last NOTIFYs, and everything ends.
    world.pass(Duration::from_secs(700));
    assert_eq!((world.server.subscriptions_len(), world.server.transactions_len()), (0, (0, 0)));
    assert_eq!(world.memory.tables().reserved_bytes(), 0);
}

#[test]
fn one_publication_causes_250_notifies_and_they_are_paced() {
    let mut world = world();
    let mut taken = 0;
    for number in 0..260 {
        let from = format!("192.0.3.{}:5060", number % 250);
        let request = subscribe(&format!("w{number}"), &from, "bob", "presence");
        let sent = world.udp(&from, &request);
        taken += usize::from(sent[0].status() == 200);
        requests(sent).iter().for_each(|notify| drop(world.udp(&from, &notify.answer(200, &[]))));
    }
    assert_eq!((taken, world.server.counters().subscriptions_refused), (250, 10));
    world.pass(Duration::from_secs(6));
    let sent = world.udp(BOB, &with_body(&publish("bob", "presence", None), PIDF, "<presence/>"));
    assert_eq!(requests(sent).len(), 250, "as many as watchers");
    let before = world.server.counters().notifies;
    for number in 1..20 {
        let request = publish("bob", "presence", None).call_id(&format!("p{number}"));
        world.udp(BOB, &with_body(&request, PIDF, "<presence/>"));
    }
    assert_eq!(world.server.counters().notifies, before, "one under way for each watcher");
    let refused = world.server.counters().publications_refused;
    assert_eq!((world.server.publications_len(), refused), (8, 12));
}

#[test]
fn the_notifies_of_a_shard_have_a_rate() {
    let mut world = world();
    for user in 0..4 {
        for number in 0..200 {
            let from = format!("192.0.{}.{number}:5060", 10 + user);
            let request = subscribe(&format!("w{user}-{number}"), &from, &format!("u{user}"), "presence");
            let (_, notify) = accepted(world.udp(&from, &request));
            world.udp(&from, &notify.answer(200, &[]));
        }
    }
    world.pass(Duration::from_secs(10));
    let begun = world.server.counters().notifies;
    for user in 0..4 {
        let document = with_body(&publish(&format!("u{user}"), "presence", None), PIDF, "<presence/>");
        world.udp(&format!("192.0.2.{user}:5060"), &document);
    }
    world.pass(Duration::from_millis(1));
    let sent = world.server.counters().notifies - begun;
    assert!((249..=251).contains(&sent), "{sent} at once");
    assert!(world.server.counters().notifies_delayed >= 549);
    let first_second = world.server.counters().notifies;
    world.pass(Duration::from_millis(1000));
    let paced = world.server.counters().notifies - first_second;
    assert!((450..=550).contains(&paced), "{paced}");
}

/// Server whose memory is not what ends.
fn large_world() -> World {
    let world = world();
    world.memory.tables().memory().set_max(1 << 30);
    world
}

#[test]
fn a_shard_has_20_000_subscriptions() {
    let mut world = large_world();
    let from = |watcher: usize| format!("10.0.{}.{}:5060", watcher / 250, watcher % 250);
    let begin = |world: &mut World, watcher: usize, user: usize| {
        let from = from(watcher);
        let request = subscribe(&format!("w{watcher}"), &from, &format!("u{user}"), "dialog");
        let sent = world.udp(&from, &request);
        sent.iter()
            .filter(|one| one.status() == 0)
            .for_each(|notify| drop(world.udp(&from, &notify.answer(200, &[]))));
        sent
    };
    // 250 watchers of each of 80 users.
    for number in 0..20_000 {
        let sent = begin(&mut world, number % 250, number / 250);
        assert_eq!(sent[0].status(), 200, "{number}");
    }
    assert_eq!(world.server.subscriptions_len(), 20_000);
    for (watcher, user) in [(0, 90), (251, 91)] {
        let refused = only(begin(&mut world, watcher, user));
        assert_eq!((refused.status(), refused.header("Retry-After")), (503, "60".into()));
    }
    assert_eq!(world.server.counters().subscriptions_refused, 2);
    // Nobody refreshes: all of them end, and their memory is free.
    world.pass(Duration::from_secs(1200));
    assert_eq!(world.server.subscriptions_len(), 0);
    assert_eq!(world.memory.tables().reserved_bytes(), 0);
    assert_eq!(begin(&mut world, 0, 90)[0].status(), 200);
}

#[test]
fn a_shard_has_20_000_publications() {
    let mut world = large_world();
    let begin = |world: &mut World, user: usize| {
        let from = format!("10.0.{}.{}:5060", user / 250, user % 250);
        let request = publish(&format!("u{user}"), "presence", None).line("Expires: 600");
        only(world.udp(&from, &with_body(&request, PIDF, "<presence/>")))
    };
    let first = begin(&mut world, 0);
    for user in 1..20_000 {
        assert_eq!(begin(&mut world, user).status(), 200, "{user}");
    }
    assert_eq!(world.server.publications_len(), 20_000);
    let refused = begin(&mut world, 20_000);
    assert_eq!((refused.status(), refused.header("Retry-After")), (503, "60".into()));
    assert_eq!(world.server.counters().publications_refused, 1);
    let etag = first.header("SIP-ETag");
    let refresh = publish("u0", "presence", Some(&etag)).cseq(2).line("Expires: 600");
    assert_eq!(only(world.udp("10.0.0.0:5060", &refresh)).status(), 200, "it is not a new one");
    world.pass(Duration::from_secs(601));
    assert_eq!(world.server.publications_len(), 0);
    assert_eq!(world.memory.tables().reserved_bytes(), 0);
}

#[test]
fn long_headers_are_refused() {
    let mut world = world();
    let long = format!("Record-Route: <sip:192.0.2.7;lr;x={}>", "x".repeat(2100));
    let request = subscribe("alice", BOB, "bob", "presence").line(&long);
    assert_eq!(only(world.udp(BOB, &request)).status(), 513);
    assert_eq!((world.server.subscriptions_len(), world.server.counters().subscriptions_refused), (0, 1));
}

#[test]
fn the_memory_of_all_bounds_subscriptions_and_publications() {
    let mut world = world();
    let ip: core::net::IpAddr = "192.0.2.20".parse().unwrap();
    let mut left = 0;
    while world.memory.tables().reserve(Payer::Known(ip), 1 << 10) {
        left += 1;
    }
    assert!(left > 0);
    assert_eq!(only(world.udp(BOB, &subscribe("bob", BOB, "alice", "presence"))).status(), 503);
    let large = "x".repeat(4000);
    let sent = world.udp(BOB, &with_body(&publish("bob", "presence", None), PIDF, &large));
    assert_eq!((statuses(&sent), sent[0].header("Retry-After")), (vec![503], "60".into()));
    assert_eq!((world.server.subscriptions_len(), world.server.publications_len()), (0, 0));
    assert_eq!(world.server.counters().over_memory, 2);
}

#[test]
fn hostile_values_of_the_new_fields_begin_nothing_and_end_nothing() {
    let mut world = World::with(on);
    for (number, line) in [
        "Event: ",
        "Event: ;id=1",
        "Event: presence;id",
        "Event: presence;;",
        "Event: presence;id=\"",
        "Event: pre sence",
        "Event: presence;id=1;id=2",
        "Event: \u{0}presence",
        "Event: presence, dialog",
        "Expires: -1",
        "Expires: 99999999999999999999",
        "Accept: ;;;,,",
        "Contact: *",
        "Contact: <tel:+1>",
        "Contact: <sip:a@b>, <sip:c@d>",
        "Record-Route: <<<",
        "SIP-If-Match: \u{e9}\u{e9}",
    ]
    .iter()
    .enumerate()
    {
        for method in ["SUBSCRIBE", "PUBLISH", "NOTIFY"] {
            let mut request = request(method, "sip:bob@example.org").call_id(&format!("{method}{number}"));
            if !line.starts_with("Event") {
                request = request.line("Event: presence");
            }
            if !line.starts_with("Contact") {
                request = request.line("Contact: <sip:alice@192.0.2.10>");
            }
            world.udp("192.0.2.10:5060", &request.line(line));
        }
    }
    world.pass(Duration::from_secs(7300));
    assert_eq!((world.server.subscriptions_len(), world.server.publications_len()), (0, 0));
    assert_eq!(world.server.transactions_len(), (0, 0));
    world.still_answers();
}

#[test]
fn one_user_cannot_keep_others_from_watching_a_user() {
    let mut world = world();
    let from = "192.0.2.10:5060";
    let mut taken = 0;
    for number in 0..12 {
        let mut request = subscribe("alice", from, "bob", "presence");
        request.call_id = format!("again-{number}");
        let sent = world.udp(from, &request);
        taken += usize::from(sent[0].status() == 200);
        requests(sent).iter().for_each(|notify| drop(world.udp(from, &notify.answer(200, &[]))));
    }
    assert_eq!((taken, world.server.counters().subscriptions_refused), (10, 2));
    let own = subscribe("bob", BOB, "bob", "presence");
    assert_eq!(world.udp(BOB, &own)[0].status(), 200);
}
