//! Attacks on relayed media: foreign marks, responses that fill memory, SDP over the limits.

use crate::dialog::{from_caller, with_bob};
use crate::harness::{ALICE, BOB, Wire, World, invite, only, requests, statuses};
use crate::media::{RELAY, always, body, sdp, with_sdp};
use ringway_sansio::{Event, RelayKind, RelayResult};
use std::time::Duration;

#[test]
fn a_mark_of_another_call_has_no_effect() {
    let mut world = with_bob(World::with(always));
    let mut marks = Vec::new();
    for id in ["one", "two"] {
        let call = invite("sip:bob@example.org").call_id(id);
        world.udp(ALICE, &with_sdp(call.wire(), &sdp("192.0.2.10")));
        let got = only(world.relay(RelayKind::Offer, &sdp("198.51.100.1")).1);
        world.udp(BOB, &with_sdp(got.answer(200, &[]), &sdp("192.0.2.20")));
        marks.push(only(world.relay(RelayKind::Answer, &sdp("198.51.100.2")).1));
    }
    let mark_of = |at: usize| {
        let route = marks[at].header("Record-Route");
        route.split(";rm=").nth(1).unwrap().to_owned()
    };
    let (own, other) = (mark_of(0), mark_of(1));
    for (cseq, mark, deleted) in [(2, other.as_str(), 0), (3, "0>", 0), (4, own.as_str(), 1)] {
        let mut bye = from_caller("BYE", cseq, &marks[0]).call_id("one");
        for line in &mut bye.lines {
            *line = line.replace(&own, mark);
        }
        let bye = only(requests(world.udp(ALICE, &bye)));
        world.udp(BOB, &bye.answer(200, &[]));
        assert_eq!(world.deleted().len(), deleted, "{mark}");
    }
}

#[test]
fn stored_responses_are_bounded() {
    let mut world = with_bob(World::with(always));
    let mut overflowed = 0;
    for id in 0..100 {
        let call = invite("sip:bob@example.org").call_id(&format!("call-{id}"));
        world.udp(ALICE, &with_sdp(call.wire(), &sdp("192.0.2.10")));
        let (query, _) = world.relays.pop().unwrap();
        let result = Some(RelayResult { relay: RELAY, sdp: sdp("198.51.100.1").as_bytes().into() });
        let got = only(world.event(Event::Relayed { query, result }));
        let padding = format!("X-Padding: {}", "x".repeat(50_000));
        for status in [183, 182, 181, 180, 184] {
            let sent = world.udp(BOB, &with_sdp(got.answer(status, &[&padding]), &sdp("192.0.2.20")));
            overflowed += sent.len();
        }
    }
    let stored = world.relays.len();
    assert!(stored < 100 && stored * 50_000 <= 4 << 20, "{stored}");
    assert_eq!(overflowed as u64, world.server.counters().media_overflow);
    let sent = world.pass(Duration::from_secs(3));
    assert_eq!(sent.iter().filter(|sent| sent.status() > 100).count(), stored, "each is forwarded");
    world.pass(Duration::from_secs(400));
    assert_eq!(world.deleted().len(), 100);
    assert_eq!(world.memory.budget.lock().unwrap().used(), 0);
}

#[test]
fn a_long_sdp_is_not_given_to_the_relay() {
    let mut world = with_bob(World::with(always));
    let long = format!("{}a=x:{}\r\n", sdp("192.0.2.10"), "x".repeat(8192));
    let sent = world.udp(ALICE, &with_sdp(invite("sip:bob@example.org").wire(), &long));
    assert_eq!(statuses(&sent), [100]);
    assert_eq!(body(&only(requests(sent))), long);
    assert!(world.relays.is_empty());
    assert_eq!(world.server.counters().media_failed, 1);
}

#[test]
fn retransmissions_and_restarts_do_not_multiply_requests() {
    let mut world = with_bob(World::with(always));
    let call = with_sdp(invite("sip:bob@example.org").wire(), &sdp("192.0.2.10"));
    for _ in 0..10 {
        world.udp(ALICE, &call);
    }
    assert_eq!(world.relays.len(), 1);
    assert!(requests(world.pass(Duration::from_millis(2400))).is_empty());
    assert_eq!(world.relays.len(), 1);
}

#[test]
fn a_server_without_relays_asks_none() {
    let mut world = with_bob(World::open());
    let sent = world.udp(ALICE, &with_sdp(invite("sip:bob@example.org").wire(), &sdp("10.0.0.1")));
    let got = only(requests(sent));
    let sent = only(world.udp(BOB, &with_sdp(got.answer(200, &[]), &sdp("10.0.0.2"))));
    assert_eq!(body(&sent), sdp("10.0.0.2"));
    assert!(world.relays.is_empty());
}
