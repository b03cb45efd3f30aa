//! Tests of REGISTER and time: order by Call-ID and CSeq (RFC 3261 §10.3 steps 6 and 7), retransmissions, the store, and
//! restarts.

use crate::harness::{ALICE, BOB, World, forwarded, invite, only, query, register};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// REGISTER of bob at 192.0.2.20 with this Call-ID and CSeq.
fn at(call_id: &str, cseq: u32, params: &str) -> crate::harness::Request {
    register("bob", &format!("<sip:bob@192.0.2.20>{params}")).call_id(call_id).cseq(cseq)
}

fn star(call_id: &str, cseq: u32) -> crate::harness::Request {
    query("bob").line("Contact: *").line("Expires: 0").call_id(call_id).cseq(cseq)
}

#[test]
fn an_older_register_of_the_same_phone_is_refused() {
    let mut world = World::open();
    assert_eq!(only(world.udp(BOB, &at("phone", 7, ""))).status(), 200);
    assert_eq!(only(world.udp(BOB, &at("phone", 6, ";expires=90"))).status(), 500);
    assert_eq!(only(world.udp(BOB, &at("phone", 6, ";expires=0"))).status(), 500);
    assert_eq!(world.bindings("bob"), ["<sip:bob@192.0.2.20>;expires=3600"]);
    assert_eq!(
        only(world.udp(BOB, &at("another", 1, ";expires=90"))).status(),
        200,
        "another Call-ID is newer"
    );
    assert_eq!(world.bindings("bob"), ["<sip:bob@192.0.2.20>;expires=90"]);
}

#[test]
fn a_repeated_register_is_answered_and_changes_nothing() {
    let mut world = World::open();
    let first = only(world.udp(BOB, &at("phone", 7, ";expires=600")));
    world.pass(Duration::from_secs(10));
    let again = only(world.udp(BOB, &at("phone", 7, ";expires=600")));
    assert_eq!((first.status(), again.status()), (200, 200));
    assert_eq!(again.header("Contact"), "<sip:bob@192.0.2.20>;expires=590");
    assert_eq!(first.header("To"), again.header("To"), "with the same tag");
    assert_eq!(world.server.counters().registered, 1);
}

#[test]
fn one_contact_out_of_order_refuses_all_of_them() {
    let mut world = World::open();
    assert_eq!(only(world.udp(BOB, &at("phone", 7, ""))).status(), 200);
    let mixed = register("bob", "<sip:bob@192.0.2.21>, <sip:bob@192.0.2.20>").call_id("phone").cseq(6);
    assert_eq!(only(world.udp(BOB, &mixed)).status(), 500);
    assert_eq!(world.bindings("bob").len(), 1);
}

#[test]
fn an_older_star_of_the_same_phone_is_refused() {
    let mut world = World::open();
    assert_eq!(only(world.udp(BOB, &at("phone", 7, ""))).status(), 200);
    assert_eq!(only(world.udp(BOB, &star("phone", 6))).status(), 500, "RFC 3261 §10.3 step 6");
    assert_eq!(world.bindings("bob").len(), 1, "it was overtaken by the newer one");
    assert_eq!(only(world.udp(BOB, &star("phone", 8))).status(), 200);
    assert!(world.bindings("bob").is_empty());
}

#[test]
fn a_star_of_another_phone_removes_whatever_its_number_is() {
    let mut world = World::open();
    assert_eq!(only(world.udp(BOB, &at("phone", 7, ""))).status(), 200);
    assert_eq!(only(world.udp(BOB, &star("another", 1))).status(), 200);
    assert!(world.bindings("bob").is_empty());
}

#[test]
fn a_store_that_fails_is_503_and_the_promise_is_not_made_later_either() {
    let mut world = World::open();
    world.memory.store_fails.store(true, Ordering::Relaxed);
    let answer = only(world.udp(BOB, &at("phone", 1, "")));
    assert_eq!((answer.status(), answer.header("Retry-After").as_str()), (503, "5"));
    assert_eq!(world.server.counters().store_refusals, 1);
    assert!(world.bindings("bob").is_empty(), "refused, and yet it could be called");
    // The 503 was lost and the phone retransmits: nothing is stored, so there is no 200.
    assert_eq!(only(world.udp(BOB, &at("phone", 1, ""))).status(), 503);
    world.memory.store_fails.store(false, Ordering::Relaxed);
    assert_eq!(only(world.udp(BOB, &at("phone", 1, ""))).status(), 200);
    assert!(!world.memory.records.lock().unwrap()[b"bob@example.org".as_slice()].is_empty());
}

#[test]
fn a_removal_that_was_not_stored_is_not_confirmed() {
    let mut world = World::open();
    assert_eq!(only(world.udp(BOB, &at("phone", 1, ""))).status(), 200);
    world.memory.store_fails.store(true, Ordering::Relaxed);
    assert_eq!(only(world.udp(BOB, &at("phone", 2, ";expires=0"))).status(), 503);
    assert_eq!(
        only(world.udp(BOB, &at("phone", 2, ";expires=0"))).status(),
        503,
        "a restart would bring it back"
    );
    assert_eq!(only(world.udp(BOB, &star("phone", 2))).status(), 503);
    assert_eq!(world.bindings("bob").len(), 1, "it is in the store, and so it can be called");
    world.memory.store_fails.store(false, Ordering::Relaxed);
    assert_eq!(only(world.udp(BOB, &at("phone", 3, ";expires=0"))).status(), 200);
    assert!(world.memory.records.lock().unwrap()[b"bob@example.org".as_slice()].is_empty());
}

#[test]
fn a_store_that_fails_does_not_stop_what_changes_nothing() {
    let mut world = World::open();
    assert_eq!(only(world.udp(BOB, &at("phone", 1, ""))).status(), 200);
    world.memory.store_fails.store(true, Ordering::Relaxed);
    assert_eq!(only(world.udp(ALICE, &register("carol", "*").line("Expires: 0"))).status(), 200);
    assert_eq!(world.server.counters().store_refusals, 0);
    let again = only(world.udp(BOB, &at("phone", 1, "")));
    assert_eq!(again.status(), 503, "the first one may not be durable");
    assert_eq!((world.server.counters().store_refusals, world.bindings("bob").len()), (1, 1));
    world.memory.store_fails.store(false, Ordering::Relaxed);
    assert_eq!(only(world.udp(BOB, &at("phone", 1, ""))).status(), 200, "the same REGISTER again");
}

/// A record that is too long for the store is refused before the 200, however it grows.
#[test]
fn a_registration_that_the_store_cannot_hold_is_refused_and_changes_nothing() {
    let mut world = World::open();
    world.memory.record_bytes_max.store(500, Ordering::Relaxed);
    let long = |n: u32, cseq| {
        let contact = format!("<sip:bob@192.0.2.20:{n};x={}>", "y".repeat(100));
        register("bob", &contact).call_id("phone").cseq(cseq)
    };
    for n in 1..=2 {
        assert_eq!(only(world.udp(BOB, &long(n, n))).status(), 200);
    }
    let before = world.bindings("bob");
    let answer = only(world.udp(BOB, &long(3, 3)));
    assert_eq!(answer.start(), "SIP/2.0 403 Registration Too Large");
    assert_eq!((world.bindings("bob"), world.server.counters().registration_too_large), (before, 1));
    let kept = world.memory.records.lock().unwrap()[b"bob@example.org".as_slice()].clone();
    assert!(kept.len() <= 500, "{}", kept.len());
    let mut after = World::open();
    after.server.restore(b"bob@example.org", &kept, after.now).unwrap();
    assert_eq!(after.bindings("bob"), world.bindings("bob"));
    // A refresh does not lengthen it.
    assert_eq!(only(world.udp(BOB, &long(2, 4))).status(), 200);
    // Exactly the maximum is stored; one byte more is not.
    world.memory.record_bytes_max.store(kept.len(), Ordering::Relaxed);
    assert_eq!(only(world.udp(BOB, &long(1, 5))).status(), 200);
    world.memory.record_bytes_max.store(kept.len() - 1, Ordering::Relaxed);
    assert_eq!(only(world.udp(BOB, &long(1, 6))).status(), 403);
}

/// The clock was set back, or `max_expires_s` lowered: no binding ends later than a new one.
#[test]
fn a_restored_binding_ends_no_later_than_a_new_one_could() {
    let mut before = World::open();
    before.pass(Duration::from_secs(10_000_000));
    before.register("bob", BOB, "<sip:bob@192.0.2.20>;expires=600");
    let record = before.memory.records.lock().unwrap()[b"bob@example.org".as_slice()].clone();
    let mut after = World::open();
    after.server.restore(b"bob@example.org", &record, after.now).unwrap();
    let max = crate::harness::config().registrar.max_expires_s;
    assert_eq!(after.bindings("bob"), [format!("<sip:bob@192.0.2.20>;expires={max}")]);
    after.pass(Duration::from_secs(u64::from(max) + 1));
    assert!(after.bindings("bob").is_empty());
}

#[test]
fn bindings_come_back_after_a_restart() {
    let mut before = World::open();
    let contacts = "<sip:bob@192.0.2.20;x=1>;expires=600;q=0.5;+a=\"b\", <sip:bob@10.0.0.5>";
    assert_eq!(only(before.udp(BOB, &register("bob", contacts).call_id("phone").cseq(7))).status(), 200);
    before.register_tcp(9, "carol", "192.0.2.30:4000", "<sip:carol@192.0.2.30;transport=tcp>");
    before.register_tcp(9, "carol", "192.0.2.30:4000", "<sip:carol@10.0.0.9;transport=tcp>");
    let records = before.memory.records.lock().unwrap().clone();
    let listed = before.bindings("bob");

    let mut after = World::open();
    after.now = before.now;
    for (aor, record) in &records {
        after.server.restore(aor, record, after.now).unwrap();
    }
    assert_eq!(after.bindings("bob"), listed);
    let carol = after.bindings("carol");
    assert_eq!(carol, ["<sip:carol@192.0.2.30;transport=tcp>;expires=3600"], "connections are gone");
    let called = after.udp(ALICE, &invite("sip:bob@example.org"));
    let behind_nat = called.iter().find(|sent| sent.start().contains("10.0.0.5")).unwrap();
    assert_eq!(behind_nat.to(), BOB, "the flow behind a NAT is restored");
    assert_eq!(only(after.udp(BOB, &at("phone", 6, ""))).status(), 500, "and so is the order");
    after.pass(Duration::from_secs(601));
    assert_eq!(after.bindings("bob").len(), 1, "the one for 600 s has ended");
}

#[test]
fn what_expired_while_the_server_was_down_does_not_come_back() {
    let mut before = World::open();
    before.register("bob", BOB, "<sip:bob@192.0.2.20>;expires=60");
    let record = before.memory.records.lock().unwrap()[b"bob@example.org".as_slice()].clone();
    let mut after = World::open();
    after.pass(Duration::from_secs(61));
    after.server.restore(b"bob@example.org", &record, after.now).unwrap();
    assert_eq!((after.server.location().users_len(), after.bindings("bob").len()), (0, 0));
}

#[test]
fn a_record_that_is_damaged_is_refused_whole() {
    let mut before = World::open();
    before.register("bob", BOB, "<sip:bob@192.0.2.20>, <sip:bob@192.0.2.21>");
    let record = before.memory.records.lock().unwrap()[b"bob@example.org".as_slice()].clone();
    let mut after = World::open();
    for len in 1..record.len() {
        let _ = after.server.restore(b"bob@example.org", &record[..len], after.now);
        assert!(after.server.location().bindings_len() < 2);
    }
    let mut newer = record.clone();
    newer[0] += 1;
    after.server.remove_user(b"bob@example.org");
    assert!(after.server.restore(b"bob@example.org", &newer, after.now).is_err());
    assert_eq!(after.server.location().bindings_len(), 0);
    assert!(after.server.restore(b"bob@example.org", b"", after.now).is_ok());
}

#[test]
fn a_permanent_contact_is_called_without_a_register_and_only_once() {
    let mut world = World::open();
    world.server.set_permanent_contacts(b"bob@example.org", &[b"sip:bob@192.0.2.20", b"sip:desk@192.0.2.99"]);
    world.register("bob", BOB, "<sip:bob@192.0.2.20>;expires=90");
    let sent = world.udp(ALICE, &invite("sip:bob@example.org"));
    let mut called: Vec<_> = crate::harness::requests(sent).iter().map(crate::harness::Sent::uri).collect();
    called.sort();
    assert_eq!(called, ["sip:bob@192.0.2.20", "sip:desk@192.0.2.99"], "RFC 3261 §16.5: no target twice");
    // A duplicated target uses the better flow and the higher preference.
    world
        .server
        .set_permanent_contacts(b"carol@example.org", &[b"sip:carol@10.0.0.5", b"sip:desk@192.0.2.99"]);
    world.register("carol", "198.51.100.7:31337", "<sip:carol@10.0.0.5>;q=0.5");
    let called = crate::harness::requests(world.udp(ALICE, &invite("sip:carol@example.org").call_id("c")));
    let ways: Vec<_> = called.iter().map(crate::harness::Sent::to).collect();
    assert_eq!(ways, ["198.51.100.7:31337", "192.0.2.99:5060"]);
    world.server.set_permanent_contacts(b"bob@example.org", &[]);
    world.pass(Duration::from_secs(91));
    assert!(world.bindings("bob").is_empty());
    world.server.set_permanent_contacts(b"bob@example.org", &[b"no URI"]);
    assert!(world.bindings("bob").is_empty());
    world.server.set_permanent_contacts(b"bob@example.org", &[b"sip:bob@192.0.2.20"]);
    let called = forwarded(world.udp(ALICE, &invite("sip:bob@example.org").call_id("2")));
    assert_eq!(called.to(), BOB);
}
