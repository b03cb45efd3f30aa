//! Tests of kept messages whose user has several phones, or one that does not take them.

use crate::harness::{ALICE, BOB, Sent, World, forwarded, only, register, requests, statuses, tcp_flow};
use crate::messages::{bob_comes, is_over, message, on, say, via_of, world};
use crate::neighbours::{GATE, neighbour};
use crate::presence::{body, with_body};
use ringway_server::BlockPattern;
use std::sync::atomic::Ordering;
use std::time::Duration;

const DESK: &str = "192.0.2.20:5062";
const SOFT: &str = "192.0.2.21:5062";

/// Registers a contact of bob for `seconds`, and returns the requests that follow the 200.
#[track_caller]
fn registers(world: &mut World, contact: &str, seconds: u32, cseq: u32) -> Vec<Sent> {
    let request = register("bob", &format!("<sip:bob@{contact}>;expires={seconds}"))
        .call_id(contact)
        .via(&via_of(contact))
        .cseq(cseq);
    let mut sent = world.udp(contact, &request);
    assert_eq!(sent.remove(0).status(), 200);
    requests(sent)
}

/// Texts that reach phones within `time`, each with its phone, which answers `answer(phone, text)`; 0: nothing.
fn play(
    world: &mut World,
    mut sent: Vec<Sent>,
    time: Duration,
    answer: impl Fn(&str, &str) -> u16,
) -> Vec<(String, String)> {
    let end = world.now + time;
    let mut seen = Vec::new();
    let mut last = String::new();
    while world.now < end {
        let mut next = Vec::new();
        for one in sent {
            let (to, text) = (one.to(), body(&one));
            if one.header("Via") != last {
                last = one.header("Via");
                seen.push((to.clone(), text.clone()));
            }
            match answer(&to, &text) {
                0 => {}
                status => next.extend(world.udp(&to, &one.answer(status, &[]))),
            }
        }
        next.extend(world.pass(Duration::from_millis(100)));
        sent = requests(next);
    }
    seen
}

#[test]
fn a_message_that_a_phone_fails_at_does_not_block_the_others() {
    for status in [500, 415, 400, 486] {
        let mut world = world();
        for number in 0..3 {
            assert_eq!(say(&mut world, "bob", number), 202);
            world.pass(Duration::from_millis(3));
        }
        let sent = bob_comes(&mut world, BOB, 1);
        let seen =
            play(
                &mut world,
                sent,
                Duration::from_secs(300),
                |_, text| {
                    if text == "text 0" { status } else { 200 }
                },
            );
        assert_eq!(world.server.counters().messages_delivered, 2, "{status}: {seen:?}");
        let first = |text| seen.iter().position(|(_, seen)| seen == text).unwrap();
        assert!(first("text 0") < first("text 1") && first("text 1") < first("text 2"), "{status}");
    }
}

#[test]
fn a_silent_phone_gets_the_oldest_message_again() {
    let mut world = world();
    for number in 0..2 {
        assert_eq!(say(&mut world, "bob", number), 202);
        world.pass(Duration::from_millis(3));
    }
    let sent = bob_comes(&mut world, BOB, 1);
    let seen = play(&mut world, sent, Duration::from_secs(400), |_, _| 0);
    assert!(seen.len() >= 3 && seen.iter().all(|(_, text)| text == "text 0"), "{seen:?}");
}

#[test]
fn a_message_goes_to_the_phone_that_registered_last() {
    let mut world = world();
    // A phone that is gone, registered for an hour.
    registers(&mut world, DESK, 3600, 1);
    let phone = forwarded(world.udp(ALICE, &with_body(&message("bob", 1), "text/plain", "text")));
    assert_eq!(only(world.udp(DESK, &phone.answer(480, &[]))).status(), 202);
    world.pass(Duration::from_secs(5));
    assert_eq!(only(registers(&mut world, SOFT, 300, 1)).to(), SOFT);
}

#[test]
fn a_phone_without_messages_leaves_them_to_the_other_phones() {
    for status in [405, 501, 415, 406, 488, 489, 404, 500] {
        let mut world = world();
        for number in 0..3 {
            assert_eq!(say(&mut world, "bob", number), 202);
            world.pass(Duration::from_millis(3));
        }
        let sent = registers(&mut world, DESK, 3600, 1);
        assert_eq!(sent[0].to(), DESK);
        let refuses = |phone: &str, _: &str| if phone == DESK { status } else { 200 };
        let seen = play(&mut world, sent, Duration::from_secs(5), refuses);
        assert_eq!((seen.len(), world.server.messages_len()), (3, 3), "{status}: one attempt for each");
        // Its next REGISTER does not make it try again at once.
        let sent = registers(&mut world, DESK, 3600, 2);
        assert!(sent.is_empty(), "{status}");
        let sent = registers(&mut world, SOFT, 300, 1);
        let seen = play(&mut world, sent, Duration::from_secs(5), refuses);
        let texts: Vec<_> = seen.iter().map(|(to, text)| (to.as_str(), text.as_str())).collect();
        assert_eq!(texts, [(SOFT, "text 0"), (SOFT, "text 1"), (SOFT, "text 2")], "{status}");
        is_over(&mut world);
    }
}

#[test]
fn a_phone_that_is_silent_is_followed_by_the_next_one() {
    let mut world = world();
    for number in 0..3 {
        assert_eq!(say(&mut world, "bob", number), 202);
        world.pass(Duration::from_millis(3));
    }
    world.pass(Duration::from_secs(1));
    registers(&mut world, SOFT, 3600, 1);
    // The delivery to it is under way when the second phone comes.
    let sent = registers(&mut world, DESK, 3600, 1);
    let seen =
        play(&mut world, sent, Duration::from_secs(40), |phone, _| if phone == DESK { 200 } else { 0 });
    assert_eq!(world.server.counters().messages_delivered, 3, "{seen:?}");
}

#[test]
fn a_message_that_nobody_takes_ends_after_a_hundred_attempts() {
    let mut world = world();
    assert_eq!(say(&mut world, "bob", 1), 202);
    let mut sent = bob_comes(&mut world, BOB, 1);
    let mut vias = std::collections::BTreeSet::new();
    // The phone registers each half an hour, and refuses it.
    for step in 1..60_000 {
        for one in core::mem::take(&mut sent) {
            if vias.insert(one.header("Via")) {
                sent.extend(requests(world.udp(BOB, &one.answer(415, &[]))));
            }
        }
        sent.extend(requests(world.pass(Duration::from_secs(10))));
        if step % 180 == 0 {
            sent.extend(bob_comes(&mut world, BOB, step));
        }
    }
    let count = vias.len();
    assert_eq!((count, world.server.counters().messages_rejected), (100, 1));
    let events = world.memory.events.lock().unwrap().join("\n");
    assert!(events.contains("for bob@example.org: too many attempts, the last one with 415"), "{events}");
    is_over(&mut world);
}

#[test]
fn a_user_that_is_removed_while_its_phone_is_silent_leaves_no_message_to_its_successor() {
    let mut world = world();
    world.register("bob", BOB, &format!("<sip:bob@{BOB}>"));
    forwarded(world.udp(ALICE, &with_body(&message("bob", 1), "text/plain", "text")));
    world.memory.unsubscribe("bob", "example.org");
    world.server.remove_user(b"bob@example.org");
    let sent = world.pass(Duration::from_secs(25));
    assert_eq!(statuses(&sent), [404]);
    world.add_user("bob", "example.org", "password");
    assert!(bob_comes(&mut world, BOB, 9).is_empty());
    is_over(&mut world);
}

#[test]
fn a_sender_that_was_blocked_since_is_not_delivered() {
    let patterns = || [BlockPattern::caller("alice@example.org").unwrap()];
    for of_user in [true, false] {
        let mut world = world();
        assert_eq!(say(&mut world, "bob", 1), 202);
        let from_carol = message("bob", 2).from("sip:carol@example.org");
        assert_eq!(only(world.udp(ALICE, &with_body(&from_carol, "text/plain", "of carol"))).status(), 202);
        match of_user {
            true => {
                world.memory.tables().change_blocks(|list| list.set_of_user(b"bob@example.org", patterns()))
            }
            false => world.memory.tables().change_blocks(|list| list.set_all(patterns())),
        }
        let mut sent = bob_comes(&mut world, BOB, 1);
        sent.extend(world.pass(Duration::from_millis(1)));
        let one = only(sent);
        assert_eq!(body(&one), "of carol");
        world.udp(BOB, &one.answer(200, &[]));
        assert_eq!(world.server.counters().messages_rejected, 1);
        let events = world.memory.events.lock().unwrap().join("\n");
        assert!(events.contains("dropped alice@example.org for bob@example.org: its sender is blocked"));
        is_over(&mut world);
    }
}

#[test]
fn a_trace_shows_the_delivery() {
    let mut world = world();
    assert_eq!(say(&mut world, "bob", 1), 202);
    world.memory.is_tracing.store(true, Ordering::Relaxed);
    let one = only(bob_comes(&mut world, BOB, 1));
    world.udp(BOB, &one.answer(405, &[]));
    let one = only(registers(&mut world, SOFT, 300, 1));
    world.udp(SOFT, &one.answer(200, &[]));
    let decisions = world.memory.decisions.lock().unwrap().join("\n");
    for reason in ["message is sent", "did not take the kept message (405)", "took the kept message (200)"] {
        assert!(decisions.contains(reason), "{reason}: {decisions}");
    }
    assert!(!decisions.contains("text 1"), "no body");
}

#[test]
fn requests_that_are_not_sent_are_no_attempts() {
    let mut world = World::with(|config| {
        on(config);
        config.transaction_limits.clients_max = 0;
    });
    assert_eq!(say(&mut world, "bob", 1), 202);
    for cseq in 1..200 {
        assert!(bob_comes(&mut world, BOB, cseq).is_empty());
        world.pass(Duration::from_secs(60));
    }
    let counters = world.server.counters();
    assert!(counters.overflow >= 150, "{}", counters.overflow);
    assert_eq!((world.server.messages_len(), counters.messages_rejected), (1, 0));
}

#[test]
fn a_contact_at_a_neighbour_is_reached_over_its_connection() {
    let mut world = World::with(|config| {
        on(config);
        config.neighbours.push(neighbour("sip:198.51.100.5;transport=tcp"));
    });
    let probe = only(world.due());
    assert_eq!(say(&mut world, "bob", 1), 202);
    let contact = format!("<sip:bob@{GATE};transport=tcp>");
    let sent = requests(world.udp(GATE, &register("bob", &contact).via(&via_of(GATE))));
    assert!(sent.is_empty(), "nothing is dialled for it: {sent:?}");
    assert_eq!(world.server.counters().message_failures, 1);
    world.message(tcp_flow(7, GATE), &probe.answer(200, &[]));
    let mut sent = Vec::new();
    for _ in 0..62 {
        for one in requests(world.pass(Duration::from_secs(1))) {
            match one.method().as_str() {
                "OPTIONS" => drop(world.message(tcp_flow(7, GATE), &one.answer(200, &[]))),
                _ => sent.push(one),
            }
        }
    }
    let one = only(sent);
    assert_eq!(one.flow.connection, Some(ringway_sansio::ConnectionId(7)));
    world.message(tcp_flow(7, GATE), &one.answer(200, &[]));
    assert_eq!(world.server.messages_len(), 0);
}
