//! Conversion between SRTP and RTP by a scripted relay: after which answers, once, and never silently.

use crate::dialog::{from_callee, from_caller, with_bob};
use crate::harness::{ALICE, BOB, CAROL, Request, Sent, Wire, World, invite, only, requests, statuses};
use crate::media::{RELAY, body, sdp, with_sdp};
use crate::sips;
use ringway_sansio::{Event, RelayKind, RelayMedia, RelayResult};
use ringway_server::{Config, RelayFailure, RelayRule, SrtpRule};
use std::time::Duration;

/// SDP of a phone with SRTP.
fn srtp_sdp(address: &str) -> String {
    let key = "a=crypto:1 AES_CM_128_HMAC_SHA1_80 inline:WVNfX19zZW1jdGwgKCkgewkyMjA7fQp9CnVubGVz\r\n";
    sdp(address).replace("RTP/AVP", "RTP/SAVP") + key
}

fn bridge(config: &mut Config) {
    config.media.srtp = SrtpRule::Bridge;
}

fn world() -> World {
    with_bob(World::with(bridge))
}

/// Call of alice to bob with this offer, and bob's INVITE.
fn call(world: &mut World, call: &Request, offer: &str) -> Sent {
    only(requests(world.udp(ALICE, &with_sdp(call.wire(), offer))))
}

/// Bob refuses the media; the relay has the offer.
fn refuse(world: &mut World, got: &Sent, status: u16) {
    let sent = world.udp(&got.to(), &got.answer(status, &[]));
    assert_eq!(requests(sent).len(), 1, "the ACK; alice gets nothing");
    assert_eq!(world.relays.len(), 1);
}

fn memory(world: &World) -> usize {
    world.memory.tables().reserved_bytes()
}

#[test]
fn a_refused_srtp_offer_is_sent_again_as_rtp_and_the_caller_warned() {
    let mut world = world();
    let first = call(&mut world, &invite("sip:bob@example.org"), &srtp_sdp("192.0.2.10"));
    assert_eq!(body(&first), srtp_sdp("192.0.2.10"));
    assert!(world.relays.is_empty() && !first.header("Record-Route").contains(";rm="));
    refuse(&mut world, &first, 488);
    let (offer, sent) = world.relay(RelayKind::Offer, &sdp("198.51.100.1"));
    assert_eq!((&*offer.sdp, offer.to), (srtp_sdp("192.0.2.10").as_bytes(), RelayMedia::Plain));
    let got = only(sent);
    assert_eq!((got.to().as_str(), body(&got)), (BOB, sdp("198.51.100.1")));
    for name in ["Call-ID", "CSeq", "From"] {
        assert_eq!(got.header(name), first.header(name));
    }
    assert_ne!(got.headers("Via")[0], first.headers("Via")[0], "a transaction of its own");
    assert!(got.header("Record-Route").contains(";rm="), "{}", got.text());
    let contact = format!("Contact: <sip:bob@{BOB}>");
    world.udp(BOB, &with_sdp(got.answer(200, &[&contact]), &sdp("192.0.2.20")));
    let (answer, sent) = world.relay(RelayKind::Answer, &srtp_sdp("198.51.100.2"));
    assert_eq!((answer.call, answer.to), (offer.call, RelayMedia::Srtp));
    let answer = only(sent);
    assert_eq!((answer.status(), body(&answer)), (200, srtp_sdp("198.51.100.2")));
    assert_eq!(answer.header("Warning"), "399 192.0.2.1:5060 \"Media Not Encrypted End To End\"");
    // Each side keeps its media in later requests.
    let hold = with_sdp(from_callee("INVITE", 2, &got, &answer).wire(), &sdp("192.0.2.20"));
    world.udp(BOB, &hold);
    assert_eq!(world.relay(RelayKind::Offer, &srtp_sdp("198.51.100.3")).0.to, RelayMedia::Srtp);
    let change = with_sdp(from_caller("INVITE", 3, &answer).wire(), &srtp_sdp("192.0.2.10"));
    world.udp(ALICE, &change);
    let (offer, sent) = world.relay(RelayKind::Offer, &sdp("198.51.100.3"));
    assert_eq!(offer.to, RelayMedia::Plain);
    // A change that is refused is not converted again.
    let refused = world.udp(BOB, &only(requests(sent)).answer(488, &[]));
    assert!(statuses(&refused).contains(&488) && world.relays.is_empty());
    let bye = only(requests(world.udp(ALICE, &from_caller("BYE", 4, &answer))));
    world.udp(BOB, &bye.answer(200, &[]));
    assert_eq!(world.deleted().len(), 1);
    let counters = world.server.counters();
    assert_eq!((counters.media_converted, counters.media_failed), (1, 0));
    world.pass(Duration::from_secs(200));
    assert_eq!(memory(&world), 0);
}

#[test]
fn a_phone_that_demands_srtp_gets_it() {
    for status in [415, 488, 606] {
        let mut world = world();
        let first = call(&mut world, &invite("sip:bob@example.org"), &sdp("192.0.2.10"));
        refuse(&mut world, &first, status);
        let (offer, sent) = world.relay(RelayKind::Offer, &srtp_sdp("198.51.100.1"));
        assert_eq!(offer.to, RelayMedia::Srtp);
        let got = only(sent);
        world.udp(BOB, &with_sdp(got.answer(200, &[]), &srtp_sdp("192.0.2.20")));
        let (answer, sent) = world.relay(RelayKind::Answer, &sdp("198.51.100.2"));
        assert_eq!(answer.to, RelayMedia::Plain);
        let answer = only(sent);
        assert_eq!((answer.status(), body(&answer)), (200, sdp("198.51.100.2")));
        assert!(answer.headers("Warning").is_empty(), "{}", answer.text());
    }
}

#[test]
fn an_offer_is_converted_once() {
    for (second, passed) in [(488, 488), (606, 606), (486, 486), (415, 415)] {
        let mut world = world();
        let first = call(&mut world, &invite("sip:bob@example.org"), &srtp_sdp("192.0.2.10"));
        refuse(&mut world, &first, 488);
        let (offer, sent) = world.relay(RelayKind::Offer, &sdp("198.51.100.1"));
        let got = only(sent);
        let sent = world.udp(BOB, &got.answer(second, &[]));
        assert!(statuses(&sent).contains(&passed), "{second}: {:?}", statuses(&sent));
        let deleted = world.deleted();
        assert_eq!((deleted.len(), deleted[0].call), (1, offer.call));
        // A late retransmission of the first refusal changes nothing.
        world.udp(BOB, &first.answer(488, &[]));
        assert!(world.relays.is_empty());
        assert_eq!(world.server.counters().media_converted, 1);
        world.pass(Duration::from_secs(200));
        assert_eq!((memory(&world), world.relays.len()), (0, 0));
    }
}

#[test]
fn a_phone_that_remembers_the_refused_request_gets_the_converted_one_after_a_pause() {
    for answered in [true, false] {
        let mut world = world();
        let first = call(&mut world, &invite("sip:bob@example.org"), &sdp("192.0.2.10"));
        refuse(&mut world, &first, 488);
        let (offer, sent) = world.relay(RelayKind::Offer, &srtp_sdp("198.51.100.1"));
        let second = only(sent);
        let sent = world.udp(BOB, &second.answer(482, &[]));
        assert_eq!(only(sent).method(), "ACK");
        assert!(world.pass(Duration::from_secs(5)).is_empty());
        let third = only(requests(world.pass(Duration::from_millis(600))));
        assert_eq!((body(&third), third.header("CSeq")), (srtp_sdp("198.51.100.1"), first.header("CSeq")));
        match answered {
            true => {
                world.udp(BOB, &with_sdp(third.answer(200, &[]), &srtp_sdp("192.0.2.20")));
                let (answer, sent) = world.relay(RelayKind::Answer, &sdp("198.51.100.2"));
                assert_eq!((answer.call, statuses(&sent)), (offer.call, vec![200]));
            }
            false => {
                assert!(statuses(&world.udp(BOB, &third.answer(482, &[]))).contains(&488));
                assert_eq!(world.deleted().len(), 1);
            }
        }
        world.pass(Duration::from_secs(200));
        assert_eq!((memory(&world), world.relays.len()), (0, 0));
    }
    // A CANCEL, and an answer of another phone, end the pause.
    let mut world = world();
    let request = invite("sip:bob@example.org");
    let first = call(&mut world, &request, &sdp("192.0.2.10"));
    refuse(&mut world, &first, 488);
    let second = only(world.relay(RelayKind::Offer, &srtp_sdp("198.51.100.1")).1);
    world.udp(BOB, &second.answer(482, &[]));
    assert_eq!(statuses(&world.udp(ALICE, &request.cancel())), [200, 487]);
    assert_eq!(world.deleted().len(), 1);
    assert!(requests(world.pass(Duration::from_secs(200))).is_empty());
    assert_eq!(memory(&world), 0);
}

#[test]
fn by_default_the_refusal_is_passed_on() {
    let mut world = with_bob(World::with(|config| config.media.rule = RelayRule::Nat));
    let got = call(&mut world, &invite("sip:bob@example.org"), &srtp_sdp("192.0.2.10"));
    assert!(statuses(&world.udp(BOB, &got.answer(488, &[]))).contains(&488));
    assert!(world.relays.is_empty());
    assert_eq!(world.server.counters().media_converted, 0);
}

#[test]
fn what_cannot_be_converted_is_not_sent_again() {
    let dtls = srtp_sdp("192.0.2.10").replace("RTP/SAVP", "UDP/TLS/RTP/SAVP");
    let browser = format!("{dtls}a=ice-ufrag:x\r\n");
    for offer in [dtls, browser] {
        let mut world = world();
        let got = call(&mut world, &invite("sip:bob@example.org"), &offer);
        assert!(statuses(&world.udp(BOB, &got.answer(488, &[]))).contains(&488));
        assert!(world.relays.is_empty());
    }
    for status in [404, 480, 486, 482, 500, 600] {
        let mut world = world();
        let got = call(&mut world, &invite("sip:bob@example.org"), &srtp_sdp("192.0.2.10"));
        assert!(statuses(&world.udp(BOB, &got.answer(status, &[]))).contains(&status));
        assert!(world.relays.is_empty(), "{status}");
    }
    let mut world = world();
    let got = only(requests(world.udp(ALICE, &invite("sip:bob@example.org"))));
    assert!(statuses(&world.udp(BOB, &got.answer(488, &[]))).contains(&488), "no offer");
    assert!(world.relays.is_empty());
}

#[test]
fn a_sips_call_does_not_become_rtp() {
    for (offer, asked) in [(srtp_sdp("192.0.2.10"), 0), (sdp("192.0.2.10"), 1)] {
        let mut world = sips::world_with(bridge);
        sips::register_sips(&mut world, 7, BOB, "<sips:bob@192.0.2.20>");
        let call = with_sdp(sips::secured(&invite("sip:bob@example.org")), &offer);
        let got = only(requests(sips::by_tls(&mut world, 8, ALICE, &call)));
        sips::by_tls(&mut world, 7, BOB, &got.answer(488, &[]));
        assert_eq!(world.relays.len(), asked);
    }
}

#[test]
fn without_a_relay_the_call_is_refused() {
    for on_failure in [RelayFailure::Direct, RelayFailure::Refuse] {
        let mut world = with_bob(World::with(|config| {
            bridge(config);
            config.media.on_failure = on_failure;
        }));
        let first = call(&mut world, &invite("sip:bob@example.org"), &srtp_sdp("192.0.2.10"));
        refuse(&mut world, &first, 488);
        let sent = world.pass(Duration::from_millis(2600));
        assert_eq!(statuses(&sent), [488]);
        assert_eq!(world.server.counters().media_failed, 1);
        let query = world.relays[0].0;
        let result = Some(RelayResult { relay: RELAY, sdp: sdp("198.51.100.1").as_bytes().into() });
        assert!(world.event(Event::Relayed { query, result }).is_empty(), "a late answer");
        world.pass(Duration::from_secs(200));
        assert_eq!(memory(&world), 0);
    }
}

#[test]
fn a_cancelled_call_is_not_sent_again() {
    let mut world = world();
    let request = invite("sip:bob@example.org");
    let first = call(&mut world, &request, &srtp_sdp("192.0.2.10"));
    refuse(&mut world, &first, 488);
    let (query, offer) = world.relays.remove(0);
    assert_eq!(statuses(&world.udp(ALICE, &request.cancel())), [200, 487]);
    let result = Some(RelayResult { relay: RELAY, sdp: sdp("198.51.100.1").as_bytes().into() });
    assert!(world.event(Event::Relayed { query, result }).is_empty());
    assert_eq!(world.deleted().iter().map(|request| request.call).collect::<Vec<_>>(), [offer.call]);
    // Cancelled first, refused later.
    let request = invite("sip:bob@example.org").call_id("later");
    let first = call(&mut world, &request, &srtp_sdp("192.0.2.10"));
    world.udp(BOB, &first.answer(180, &[]));
    world.udp(ALICE, &request.cancel());
    world.udp(BOB, &first.answer(488, &[]));
    assert!(world.relays.is_empty());
    world.pass(Duration::from_secs(200));
    assert_eq!(memory(&world), 0);
}

#[test]
fn one_phone_of_two_is_converted() {
    let mut world = World::with(bridge);
    for address in [BOB, CAROL] {
        world.register("bob", address, &format!("<sip:bob@{address}>"));
    }
    let call = with_sdp(invite("sip:bob@example.org").wire(), &srtp_sdp("192.0.2.10"));
    let sent = requests(world.udp(ALICE, &call));
    let (one, two) = (&sent[0], &sent[1]);
    refuse(&mut world, one, 606);
    let (offer, sent) = world.relay(RelayKind::Offer, &sdp("198.51.100.1"));
    let again = only(sent);
    assert_eq!((again.to(), body(&again)), (one.to(), sdp("198.51.100.1")));
    world.udp(&again.to(), &again.answer(180, &[]));
    // The other phone has SRTP: the call is its own, and the relay's ends.
    let answer = with_sdp(two.answer(200, &[]), &srtp_sdp("192.0.2.30"));
    let sent = world.udp(&two.to(), &answer);
    let passed = sent.iter().find(|sent| sent.start().contains(" 200 ")).unwrap();
    assert_eq!((body(passed), passed.headers("Warning").len()), (srtp_sdp("192.0.2.30"), 0));
    world.udp(&again.to(), &again.answer(487, &[]));
    assert_eq!(world.deleted().iter().map(|request| request.call).collect::<Vec<_>>(), [offer.call]);
}

#[test]
fn a_call_that_is_relayed_anyway_gets_another_call_at_the_relay() {
    let mut world = with_bob(World::with(|config| {
        bridge(config);
        config.media.rule = RelayRule::Always;
    }));
    world.udp(ALICE, &with_sdp(invite("sip:bob@example.org").wire(), &srtp_sdp("192.0.2.10")));
    let (first, sent) = world.relay(RelayKind::Offer, &srtp_sdp("198.51.100.1"));
    assert_eq!(first.to, RelayMedia::Same);
    world.udp(BOB, &only(sent).answer(488, &[]));
    assert_eq!(world.deleted().iter().map(|request| request.call).collect::<Vec<_>>(), [first.call]);
    let (second, sent) = world.relay(RelayKind::Offer, &sdp("198.51.100.2"));
    assert_eq!((second.to, second.call == first.call), (RelayMedia::Plain, false));
    assert_eq!(&*second.sdp, srtp_sdp("192.0.2.10").as_bytes(), "the caller's, not the relay's");
    assert_eq!(body(&only(sent)), sdp("198.51.100.2"));
}
