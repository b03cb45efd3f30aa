//! Tests of the memory that strangers can occupy: bytes and pending requests, of one source, of many, and for one user.

use crate::front::{FRONT, passed_on, set_front};
use crate::harness::{ALICE, Request, STRANGER, Sent, Wire, World, invite, only, requests};
use ringway_sansio::Node;
use ringway_server::{Config, MemoryBudget};
use std::sync::Arc;
use std::time::Duration;

const EVE: &str = "sip:eve@example.net";

/// Server with passwords, with bob at ten silent contacts.
fn world() -> World {
    world_with(|_| {})
}

fn world_with(change: impl FnOnce(&mut Config)) -> World {
    let mut world = World::with(|config| {
        config.auth.enabled = true;
        config.registrar.max_contacts = 10;
        change(config);
    });
    let contacts: Vec<String> = (0..10).map(|number| format!("sip:bob@192.0.2.{}", 20 + number)).collect();
    let contacts: Vec<&[u8]> = contacts.iter().map(|contact| contact.as_bytes()).collect();
    for user in ["bob@example.org", "carol@example.org"] {
        world.server.set_permanent_contacts(user.as_bytes(), &contacts);
    }
    world
}

fn call(user: &str, number: usize) -> Request {
    invite(&format!("sip:{user}@example.org")).from(EVE).call_id(&format!("{user}-{number}"))
}

/// INVITE with a body of 60 kB.
fn large(user: &str, number: usize) -> Vec<u8> {
    with_body(&call(user, number))
}

fn with_body(call: &Request) -> Vec<u8> {
    let text = String::from_utf8(call.wire()).unwrap();
    let body = "x".repeat(58_000);
    text.replace("Content-Length: 0\r\n\r\n", &format!("Content-Length: {}\r\n\r\n{body}", body.len()))
        .into_bytes()
}

fn was_refused(sent: &[Sent]) -> bool {
    sent.iter().any(|one| one.status() == 503)
}

/// A request that a contact leads back to this server is the stranger's at its second pass too.
#[test]
fn requests_that_return_count_for_their_sender_and_user() {
    let mut world = world();
    for alias in ["carol", "alice"] {
        world
            .server
            .set_permanent_contacts(format!("{alias}@example.org").as_bytes(), &[b"sip:bob@example.org"]);
    }
    let mut refused = 0;
    for number in 0..260 {
        let at = format!("203.0.113.{}:5060", number % 250 + 1);
        let sent = world.udp(&at, &call(["carol", "alice"][number % 2], number));
        let returning = requests(sent).remove(0);
        assert_eq!(returning.to(), "192.0.2.1:5060");
        refused += usize::from(was_refused(&world.udp("192.0.2.1:5060", &returning.bytes)));
    }
    assert_eq!((refused, world.server.counters().over_user_requests), (4, 4), "256 of strangers for bob");
    // Those of users are not counted among them.
    let own =
        crate::challenge::proven(&mut world, ALICE, &invite("sip:carol@example.org").call_id("own"), "alice");
    let returning = requests(own).remove(0);
    assert!(!was_refused(&world.udp("192.0.2.1:5060", &returning.bytes)));
}

/// A request from this server's own address without its mark is somebody else's.
#[test]
fn the_servers_own_address_is_not_trusted() {
    for (at, status) in [("192.0.2.1:5060", 407), ("192.0.2.9:5060", 100)] {
        let mut world = world_with(|config| config.auth.trusted = vec!["192.0.2.0/24".parse().unwrap()]);
        let sent = world.udp(at, &invite("sip:eve@198.51.100.9"));
        assert_eq!(sent.first().map(Sent::status), Some(status), "{at}");
    }
}

#[test]
fn large_invites_of_one_stranger_keep_eight_mebibytes_and_no_more() {
    let mut world = world();
    let taken = (0..120).filter(|&number| !was_refused(&world.udp(STRANGER, &large("bob", number)))).count();
    let used = world.memory.tables().reserved_bytes();
    assert!(taken > 20 && used <= MemoryBudget::STRANGER_BYTES_MAX, "{taken} calls keep {used} bytes");
    assert_eq!(world.server.counters().over_memory, 120 - taken as u64);
    assert!(!was_refused(&world.udp("203.0.113.77:5060", &call("carol", 1))), "another source has its own");
    let own =
        crate::challenge::proven(&mut world, ALICE, &invite("sip:carol@example.org").call_id("own"), "alice");
    assert!(!requests(own).is_empty(), "and so has a user of ours");
    world.pass(Duration::from_secs(400));
    assert_eq!(world.memory.tables().reserved_bytes(), 0);
    assert_eq!((world.server.contexts_len(), world.server.transactions_len()), (0, (0, 0)));
}

#[test]
fn strangers_behind_a_front_have_a_share_each_and_the_bound_of_all_together() {
    let mut world = world_with(set_front);
    let mut calls = |client: &str, source: &str, count: usize| {
        let large =
            |number| with_body(&passed_on(call("bob", number), client).call_id(&format!("{client}{number}")));
        let taken = (0..count).filter(|&number| !was_refused(&world.udp(source, &large(number)))).count();
        (taken, world.memory.tables().reserved_bytes())
    };
    let (taken, used) = calls("198.51.100.66", FRONT, 120);
    assert!((21..120).contains(&taken) && used <= MemoryBudget::STRANGER_BYTES_MAX, "{taken}: {used} bytes");
    assert_eq!(calls("198.51.100.7", FRONT, 1).0, 1, "another phone has its own share");
    // A Via of no front counts for nobody.
    let (taken, _) = calls("198.51.100.8", STRANGER, 120);
    assert_eq!((taken < 120, calls("198.51.100.9", STRANGER, 1).0), (true, 0));
    let most = (0..20).map(|number| calls(&format!("203.0.113.{number}"), FRONT, 70).1).max();
    assert!(most.is_some_and(|most| most <= 48 << 20), "{most:?}");
    world.pass(Duration::from_secs(400));
    assert_eq!(world.memory.tables().reserved_bytes(), 0);
}

#[test]
fn memory_is_given_back_to_its_client_after_a_reload_without_the_front() {
    let mut world = world_with(set_front);
    let before = world.udp(FRONT, &with_body(&passed_on(call("bob", 1), "198.51.100.7")));
    assert!(!was_refused(&before) && world.memory.tables().reserved_bytes() > 0);
    let mut config = crate::harness::config();
    config.auth.enabled = true;
    world.server.reconfigure(Arc::new(config));
    world.pass(Duration::from_secs(400));
    assert_eq!(world.memory.tables().reserved_bytes(), 0);
}

#[test]
fn all_sources_together_keep_the_budget() {
    let mut world = world();
    let mut most = 0;
    for source in 0..20 {
        for number in 0..70 {
            let user = if number % 2 == 0 { "bob" } else { "carol" };
            world.udp(&format!("203.0.113.{source}:5060"), &large(user, source * 1000 + number));
            most = most.max(world.memory.tables().reserved_bytes());
        }
    }
    assert!(most > 32 << 20 && most <= 64 << 20, "{most}");
    world.pass(Duration::from_secs(400));
    assert_eq!(world.memory.tables().reserved_bytes(), 0);
}

#[test]
fn one_user_has_256_calls_of_strangers_waiting_and_others_are_untouched() {
    let mut world = world();
    let sources = (0..600).map(|number| format!("203.0.{}.{}:5060", number / 200, 1 + number % 200));
    let taken = sources
        .enumerate()
        .filter(|(number, source)| !was_refused(&world.udp(source, &call("bob", *number))));
    assert_eq!(taken.count(), 256);
    assert_eq!(world.server.counters().over_user_requests, 600 - 256);
    assert!(!was_refused(&world.udp(STRANGER, &call("carol", 1))));
    let own =
        crate::challenge::proven(&mut world, ALICE, &invite("sip:bob@example.org").call_id("own"), "alice");
    assert!(!requests(own).is_empty(), "our own users still reach bob");
    world.pass(Duration::from_secs(400));
    assert!(!was_refused(&world.udp(STRANGER, &call("bob", 9999))));
}

#[test]
fn refused_strangers_occupy_no_memory() {
    let mut world = world();
    for number in 0..5000 {
        let uri = ["sip:ghost@example.org", "sip:alice@example.org", "sip:x@192.0.2.77"][number % 3];
        let refused = invite(uri).from(EVE).call_id(&format!("refused-{number}")).to("<sip:x@example.org>");
        assert!(only(world.udp(STRANGER, &refused)).status() >= 400);
    }
    assert_eq!(world.server.transactions_len(), (0, 0));
}

/// Retransmissions of many large requests are sent in batches of bounded size.
#[test]
fn a_batch_of_retransmissions_is_bounded() {
    // Only datagrams are retransmitted.
    let mut world = world_with(|config| config.datagram_bytes_max = 65_535);
    for number in 0..100 {
        world.udp(STRANGER, &large("bob", number));
    }
    world.now = world.now + Duration::from_secs(1);
    let (mut rounds, mut most) = (0, 0);
    while world.server.next_deadline().is_some_and(|due| due.at <= world.now) {
        let sent = world.due();
        most = most.max(sent.iter().map(|one| one.bytes.len()).sum());
        rounds += 1;
    }
    assert!(rounds > 10 && most <= (1 << 20) + 65_536, "{rounds} rounds of up to {most} bytes");
}

/// The memory of a silent branch is reserved until the branch or its context ends.
#[test]
fn an_answer_of_one_branch_frees_nothing_that_another_keeps() {
    let mut world = world();
    for number in 0..40 {
        let padding = format!("X-Padding: {}", "x".repeat(50_000));
        let options = Request { method: "OPTIONS".into(), ..call("bob", number) }.line(&padding).tcp();
        let sent = requests(world.tcp(7, STRANGER, &options));
        if let Some(first) = sent.first() {
            world.udp(&first.to(), &first.answer(200, &[]));
        }
        let (_, clients) = world.server.transactions_len();
        let used = world.memory.tables().reserved_bytes();
        // The answered branches stay for timer K, without their request.
        let silent = clients.saturating_sub(number + 1);
        assert!(silent * 2048 <= used, "{silent} silent branches with {used} bytes reserved");
    }
    for number in 0..80 {
        let sent = requests(world.udp(STRANGER, &large("carol", number)));
        if let Some(first) = sent.first() {
            world.udp(&first.to(), &first.answer(200, &[]));
        }
    }
    let used = world.memory.tables().reserved_bytes();
    assert!(used <= MemoryBudget::STRANGER_BYTES_MAX && world.server.counters().over_memory > 0, "{used}");
    world.pass(Duration::from_secs(400));
    assert_eq!(world.memory.tables().reserved_bytes(), 0);
}
