//! Tests of the limits of kept messages, and of the pace of their delivery.

use crate::harness::{ALICE, BOB, World, only, register, request, requests};
use crate::messages::{bob_comes, is_over, message, on, say, world};
use crate::presence::with_body;
use std::time::Duration;

/// MESSAGE of a user.
fn say_as(world: &mut World, sender: &str, to: &str, number: usize) -> u16 {
    let mut request = message(to, number);
    request.from = format!("<sip:{sender}@example.org>;tag={sender}");
    only(world.udp(ALICE, &with_body(&request, "text/plain", "text"))).status()
}

fn users(world: &mut World, count: usize) {
    for number in 0..count {
        world.add_user(&format!("u{number}"), "example.org", "password");
    }
}

#[test]
fn a_sender_leaves_twenty_messages_for_a_user_and_fifty_in_a_shard() {
    let mut world = world();
    world.memory.is_tracing.store(true, std::sync::atomic::Ordering::Relaxed);
    users(&mut world, 10);
    let kept = (0..30).filter(|&number| say(&mut world, "bob", number) == 202).count();
    assert_eq!((kept, world.server.counters().messages_refused), (20, 10));
    let decisions = world.memory.decisions.lock().unwrap().join("\n");
    assert!(decisions.contains("too many messages of the sender to the recipient"), "{decisions}");
    assert!(!decisions.contains("text 1"), "no body");
    let events = world.memory.events.lock().unwrap().join("\n");
    assert!(
        events.contains("alice@example.org for bob@example.org: too many messages of the sender to"),
        "{events}"
    );
    assert!(!events.contains("text 1"), "no body");
    let kept =
        (0..40).filter(|&n| say_as(&mut world, "alice", &format!("u{}", n % 10), 100 + n) == 202).count();
    assert_eq!((kept, world.server.messages_len()), (30, 50));
    assert_eq!(say_as(&mut world, "carol", "bob", 500), 202, "others are not affected");
}

#[test]
fn a_user_has_a_hundred_messages_and_256_kibibytes() {
    let mut world = world();
    users(&mut world, 10);
    let kept = (0..200).filter(|&n| say_as(&mut world, &format!("u{}", n % 10), "bob", n) == 202).count();
    assert_eq!((kept, world.server.messages_len()), (100, 100));
    let large = "x".repeat(8192);
    let kept = (0..100).filter(|&number| {
        let mut request = message("carol", 1000 + number);
        request.from = format!("<sip:u{}@example.org>;tag=1", number % 10);
        only(world.udp(ALICE, &with_body(&request, "text/plain", &large))).status() == 202
    });
    let kept = kept.count();
    assert!((28..=32).contains(&kept), "{kept}");
}

#[test]
fn a_body_and_a_head_have_limits() {
    let mut world = world();
    let say = |world: &mut World, request, body: usize| {
        only(world.udp(ALICE, &with_body(&request, "text/plain", &"x".repeat(body)))).status()
    };
    assert_eq!(say(&mut world, message("bob", 1), 8192), 202);
    assert_eq!(say(&mut world, message("bob", 2), 8193), 413);
    assert_eq!(say(&mut world, message("bob", 3).line(&format!("Subject: {}", "s".repeat(2048))), 1), 480);
    assert_eq!(say(&mut world, message("bob", 4).line("Subject: one\r\n two"), 1), 480, "folded");
    assert_eq!((world.server.messages_len(), world.server.counters().messages_refused), (1, 3));
}

#[test]
fn a_sender_cannot_fill_more_than_the_memory_of_messages() {
    let mut world = world();
    users(&mut world, 900);
    let large = "x".repeat(8192);
    let mut statuses = std::collections::BTreeMap::<u16, usize>::new();
    for sender in 0..45 {
        for number in 0..50 {
            let mut request = message(&format!("u{}", 45 + sender * 4 + number % 4), sender * 100 + number);
            request.from = format!("<sip:u{sender}@example.org>;tag=1");
            let answer = only(world.udp(ALICE, &with_body(&request, "text/plain", &large)));
            *statuses.entry(answer.status()).or_default() += 1;
        }
    }
    let used = world.memory.tables().reserved_bytes();
    assert!(used <= 16 << 20, "a quarter of 64 MiB: {used}");
    assert!(statuses[&480] > 0 && world.server.counters().over_memory > 0, "{statuses:?}");
    // Calls of the same address have their own memory.
    world.register("bob", BOB, &format!("<sip:bob@{BOB}>"));
    assert_eq!(requests(world.udp(ALICE, &crate::harness::invite("sip:bob@example.org"))).len(), 1);
}

#[test]
fn a_storm_of_registers_is_answered_at_once_and_messages_follow_at_a_pace() {
    let mut world = world();
    users(&mut world, 400);
    for number in 0..400 {
        assert_eq!(say_as(&mut world, &format!("u{}", number / 40), &format!("u{number}"), number), 202);
    }
    let mut at_once = 0;
    for number in 0..400 {
        let from = format!("198.51.{}.{}:5060", 100 + number / 200, 1 + number % 200);
        let name = format!("u{number}");
        let sent = world.udp(&from, &register(&name, &format!("<sip:{name}@{from}>")).call_id(&name));
        assert_eq!(sent[0].status(), 200);
        at_once += sent.len() - 1;
    }
    assert_eq!((at_once, world.server.counters().messages_delayed), (100, 300));
    let mut first = std::collections::BTreeSet::new();
    let mut in_first_second = 0;
    for step in 0..40 {
        for one in requests(world.pass(Duration::from_millis(100))) {
            if first.insert(one.header("Call-ID")) && step < 10 {
                in_first_second += 1;
            }
            world.udp(&one.to(), &one.answer(200, &[]));
        }
    }
    assert!((90..=200).contains(&in_first_second), "{in_first_second}");
    let delivered = world.server.counters().messages_delivered;
    assert_eq!(delivered as usize, first.len());
    assert!(delivered >= 300, "{delivered}");
}

#[test]
fn one_message_causes_a_bounded_number_of_packets() {
    let mut world = world();
    let bytes = with_body(&message("bob", 1), "text/plain", "text");
    assert_eq!(only(world.udp(ALICE, &bytes)).status(), 202);
    let mut packets = 0;
    // Bob's phone registers each minute for a week, and never answers.
    for cseq in 1..10_081 {
        packets += bob_comes(&mut world, BOB, cseq).len();
        packets += requests(world.pass(Duration::from_secs(60))).len();
    }
    assert!(packets <= 1100, "{packets}");
    assert_eq!(world.server.counters().messages_rejected, 1, "after a hundred attempts");
    is_over(&mut world);
}

#[test]
fn a_message_is_never_sent_to_this_server_or_a_contact_of_the_administrator() {
    let mut world = World::with(on);
    world.register("bob", BOB, "<sip:carol@example.org>");
    let sent = world.udp(ALICE, &with_body(&message("bob", 1), "text/plain", "text"));
    assert_eq!(requests(sent).len(), 1, "it goes to carol, by this server");
    assert_eq!(world.server.messages_len(), 0);
    world.server.set_permanent_contacts(b"alice@example.org", &[b"sip:alice@203.0.113.5"]);
    let sent = world.udp(ALICE, &with_body(&message("alice", 2), "text/plain", "text"));
    let phone = only(requests(sent));
    assert_eq!(only(world.udp("203.0.113.5:5060", &phone.answer(480, &[]))).status(), 480);
    assert_eq!(world.server.messages_len(), 0);
    let other = request("MESSAGE", "sip:x@203.0.113.5").call_id("elsewhere");
    world.udp(ALICE, &with_body(&other, "text/plain", "text"));
    assert_eq!(world.server.messages_len(), 0);
}

#[test]
fn two_users_together_do_not_keep_others_from_leaving_messages() {
    let mut world = world();
    let mut kept = 0;
    for number in 0..100 {
        let status = say(&mut world, "bob", number);
        kept += usize::from(status == 202);
        if status == 202 {
            let phone = only(bob_comes(&mut world, BOB, 2 * number as u32 + 1));
            world.udp(BOB, &phone.answer(200, &[]));
            let away = register("bob", "*").line("Expires: 0").call_id(&format!("{BOB}-registers"));
            world.udp(BOB, &away.cseq(2 * number as u32 + 2));
        }
    }
    assert_eq!((kept, world.server.messages_len()), (50, 0), "in a minute");
    world.pass(Duration::from_secs(70));
    assert_eq!(say(&mut world, "bob", 200), 202);
}

#[test]
fn a_sender_fills_a_fifth_of_a_mailbox_also_with_large_messages() {
    let mut world = world();
    users(&mut world, 5);
    let large = "x".repeat(8000);
    let subject = format!("Subject: {}", "s".repeat(1900));
    for sender in 0..5 {
        let kept = (0..20).filter(|number| {
            let mut request = message("bob", sender * 100 + number).line(&subject);
            request.from = format!("<sip:u{sender}@example.org>;tag=1");
            only(world.udp(ALICE, &with_body(&request, "text/plain", &large))).status() == 202
        });
        assert_eq!(kept.count(), 5, "{sender}");
    }
}

#[test]
fn many_senders_do_not_fill_a_shard() {
    let mut world = world();
    world.memory.tables().memory().set_max(512 << 20);
    users(&mut world, 1200);
    let large = "x".repeat(8192);
    let send = |world: &mut World, sender: usize, to: usize, number: usize, text: &str| {
        let mut request = message(&format!("u{to}"), sender * 100 + number);
        request.from = format!("<sip:u{sender}@example.org>;tag=1");
        only(world.udp(ALICE, &with_body(&request, "text/plain", text))).status()
    };
    let mut kept = 0;
    for sender in 0..60 {
        for number in 0..50 {
            let to = 100 + sender * 10 + number / 5;
            kept += usize::from(send(&mut world, sender, to, number, &large) == 202);
        }
    }
    assert!((1200..2000).contains(&kept), "{kept}");
    // Somebody else still leaves twenty texts of two lines.
    for number in 0..20 {
        assert_eq!(send(&mut world, 80, 1000, number, &"y".repeat(160)), 202, "{number}");
    }
}
