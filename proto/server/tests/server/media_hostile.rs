//! Attacks on relayed media: foreign marks, responses that fill memory, false SDP, SDP over the limits, ports that
//! nobody gives back.

use crate::challenge::{Login, answered};
use crate::dialog::{from_caller, with_bob};
use crate::harness::{ALICE, BOB, EDGE, STRANGER, Wire, World, invite, only, requests, statuses};
use crate::media::{RELAY, always, body, sdp, with_sdp};
use ringway_sansio::{Event, RelayHolder, RelayKind, RelayRequest, RelayResult};
use std::net::IpAddr;
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
    assert_eq!(world.memory.tables().reserved_bytes(), 0);
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

/// Server with passwords that relays all calls, and bob.
fn closed() -> World {
    with_bob(World::with(|config| {
        always(config);
        config.auth.enabled = true;
    }))
}

/// The only offer to the relay.
fn offer(world: &mut World) -> RelayRequest {
    assert_eq!(world.relays.len(), 1);
    world.relays.remove(0).1
}

#[test]
fn an_offer_names_who_holds_it_and_where_it_came_from() {
    let call = |from: &str, id: &str| {
        with_sdp(invite("sip:bob@example.org").from(from).call_id(id).wire(), &sdp("127.0.0.1"))
    };
    let mut world = closed();
    world.udp(STRANGER, &call("sip:x@elsewhere.example", "a"));
    let stranger: IpAddr = "203.0.113.66".parse().unwrap();
    let asked = offer(&mut world);
    assert_eq!((asked.holder, asked.source), (RelayHolder::Stranger(stranger), Some(stranger)));
    world.udp(EDGE, &call("sip:x@elsewhere.example", "b"));
    let asked = offer(&mut world);
    assert_eq!((asked.holder, asked.source), (RelayHolder::Trusted, None), "it may name a gateway");
    let alice = invite("sip:bob@example.org").call_id("c");
    let challenge = only(world.udp(ALICE, &alice));
    let alice = answered(&alice, &Login::to(&challenge, "alice"));
    world.udp(ALICE, &with_sdp(alice.wire(), &sdp("127.0.0.1")));
    let asked = offer(&mut world);
    assert!(matches!(asked.holder, RelayHolder::User(_)), "{asked:?}");
    assert_eq!(asked.source, Some("192.0.2.10".parse().unwrap()));
}

#[test]
fn the_answer_of_a_callee_is_not_believed_either() {
    let mut world = closed();
    let call = invite("sip:bob@example.org").from("sip:x@elsewhere.example");
    world.udp(STRANGER, &with_sdp(call.wire(), &sdp("203.0.113.66")));
    let got = only(world.relay(RelayKind::Offer, &sdp("198.51.100.1")).1);
    world.udp(BOB, &with_sdp(got.answer(200, &[]), &sdp("127.0.0.1")));
    let (answer, _) = world.relay(RelayKind::Answer, &sdp("198.51.100.2"));
    assert_eq!(answer.source, Some("192.0.2.20".parse().unwrap()));
}

#[test]
fn a_request_that_the_server_sends_to_itself_keeps_its_origin() {
    let mut world = closed();
    world.server.set_permanent_contacts(b"carol@example.org", &[b"sip:bob@example.org"]);
    let call = invite("sip:carol@example.org").from("sip:x@elsewhere.example");
    let call = call.via("SIP/2.0/UDP 10.0.0.1;branch=z9hG4bK");
    let first = only(requests(world.udp(STRANGER, &with_sdp(call.wire(), &sdp("127.0.0.1")))));
    assert!(world.relays.is_empty(), "by its last pass only");
    world.udp("192.0.2.1:5060", &first.bytes);
    let asked = offer(&mut world);
    let stranger: IpAddr = "203.0.113.66".parse().unwrap();
    assert_eq!((asked.holder, asked.source), (RelayHolder::Stranger(stranger), Some(stranger)));
}

#[test]
fn a_mark_that_outlives_its_call_leaves_nothing_at_the_relay() {
    for status in [481, 408] {
        let mut world = with_bob(World::with(always));
        let call = invite("sip:bob@example.org");
        world.udp(ALICE, &with_sdp(call.wire(), &sdp("192.0.2.10")));
        let (begun, sent) = world.relay(RelayKind::Offer, &sdp("198.51.100.1"));
        let rings = only(world.udp(BOB, &only(sent).answer(180, &[])));
        world.udp(ALICE, &call.cancel());
        world.pass(Duration::from_secs(100));
        assert_eq!(world.deleted().len(), 1);
        let again = with_sdp(from_caller("INVITE", 9, &rings).wire(), &sdp("192.0.2.10"));
        world.udp(ALICE, &again);
        let (asked, sent) = world.relay(RelayKind::Offer, &sdp("198.51.100.1"));
        assert_eq!(asked.call, begun.call);
        let got = only(requests(sent));
        match status {
            481 => drop(world.udp(BOB, &got.answer(481, &[]))),
            _ => drop(world.pass(Duration::from_secs(40))),
        }
        let deleted: Vec<_> = world.deleted().iter().map(|request| request.call).collect();
        assert_eq!(deleted, [begun.call], "{status}");
    }
}

#[test]
fn an_offer_in_vain_is_deleted() {
    let mut world = with_bob(World::with(always));
    let call = |id: &str| invite("sip:bob@example.org").call_id(id);
    world.udp(ALICE, &with_sdp(call("a").wire(), &sdp("192.0.2.10")));
    world.relay(RelayKind::Offer, "garbage");
    assert_eq!(world.deleted().len(), 1, "its answer is not credible");
    world.udp(ALICE, &with_sdp(call("b").wire(), &sdp("192.0.2.10")));
    world.udp(ALICE, &call("b").cancel());
    assert_eq!(world.deleted().len(), 1, "at once, not after the transaction");
    world.udp(ALICE, &with_sdp(call("c").wire(), &sdp("192.0.2.10")));
    world.pass(Duration::from_secs(3));
    assert_eq!(world.deleted().len(), 1, "no answer");
}
