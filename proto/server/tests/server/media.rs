//! Relayed media, with a scripted relay: which calls, the way of offer and answer, requests inside the dialog, the end of
//! the call at the relay.

use crate::dialog::{from_callee, from_caller, with_bob};
use crate::harness::{
    ALICE, BOB, CAROL, EDGE, Request, Sent, Wire, World, config, invite, only, requests, statuses,
};
use ringway_sansio::{
    Event, Flow, ListenerId, RelayId, RelayKind, RelayMedia, RelayRequest, RelayResult, RelaySide, Transport,
};
use ringway_server::{Config, Listener, MediaConfig, MediaInterface, RelayFailure, RelayRule};
use std::time::Duration;

/// SDP of a phone at `address`.
pub(crate) fn sdp(address: &str) -> String {
    format!(
        "v=0\r\no=- 1 1 IN IP4 {address}\r\ns=-\r\nc=IN IP4 {address}\r\nt=0 0\r\nm=audio 4000 RTP/AVP 0\r\n"
    )
}

/// SDP of a browser.
fn browser_sdp() -> String {
    "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=-\r\nt=0 0\r\nm=audio 9 UDP/TLS/RTP/SAVPF 111\r\nc=IN IP4 0.0.0.0\r\n\
     a=ice-ufrag:x\r\na=ice-pwd:y\r\n"
        .into()
}

/// Message with an SDP.
pub(crate) fn with_sdp(bytes: Vec<u8>, sdp: &str) -> Vec<u8> {
    let text = String::from_utf8(bytes).unwrap();
    let end = format!("Content-Type: application/sdp\r\nContent-Length: {}\r\n\r\n{sdp}", sdp.len());
    text.replace("Content-Length: 0\r\n\r\n", &end).into_bytes()
}

pub(crate) fn body(sent: &Sent) -> String {
    sent.text().split_once("\r\n\r\n").unwrap().1.into()
}

pub(crate) fn always(config: &mut Config) {
    config.media.rule = RelayRule::Always;
}

pub(crate) const RELAY: RelayId = RelayId(7);

impl World {
    /// Answers the oldest request to the relay, which must be of this kind.
    #[track_caller]
    pub(crate) fn relay(&mut self, kind: RelayKind, sdp: &str) -> (RelayRequest, Vec<Sent>) {
        self.relay_at(kind, RELAY, sdp)
    }

    #[track_caller]
    fn relay_at(&mut self, kind: RelayKind, relay: RelayId, sdp: &str) -> (RelayRequest, Vec<Sent>) {
        let (query, request) = self.relays.remove(0);
        assert_eq!(request.kind, kind);
        let result = Some(RelayResult { relay, sdp: sdp.as_bytes().into() });
        (request, self.event(Event::Relayed { query, result }))
    }

    /// Calls deleted at the relay since the last call of this function.
    pub(crate) fn deleted(&mut self) -> Vec<RelayRequest> {
        self.relays
            .extract_if(.., |(_, request)| request.kind == RelayKind::Delete)
            .map(|(_, one)| one)
            .collect()
    }
}

/// A call of alice to bob through the relay: bob's INVITE, alice's 200, the offer.
fn relayed_call(world: &mut World) -> (Sent, Sent, RelayRequest) {
    let first = world.udp(ALICE, &with_sdp(invite("sip:bob@example.org").wire(), &sdp("192.0.2.10")));
    assert_eq!(statuses(&first), [100]);
    assert_eq!(first.len(), 1, "the INVITE waits for the relay");
    let (offer, sent) = world.relay(RelayKind::Offer, &sdp("198.51.100.1"));
    let got = only(sent);
    let contact = format!("Contact: <sip:bob@{BOB}>");
    let answer = with_sdp(got.answer(200, &[&contact]), &sdp("192.0.2.20"));
    assert!(world.udp(BOB, &answer).is_empty(), "the 200 waits for the relay");
    let (_, sent) = world.relay(RelayKind::Answer, &sdp("198.51.100.2"));
    let answer = only(sent);
    (got, answer, offer)
}

#[test]
fn offer_and_answer_go_through_the_relay() {
    let mut world = with_bob(World::with(always));
    let (got, answer, offer) = relayed_call(&mut world);
    assert_eq!(&*offer.sdp, sdp("192.0.2.10").as_bytes());
    assert_eq!((offer.offerer, offer.to, offer.relay), (RelaySide::Caller, RelayMedia::Same, None));
    assert_eq!(body(&got), sdp("198.51.100.1"));
    assert_eq!(got.header("Content-Length"), sdp("198.51.100.1").len().to_string());
    assert_eq!(body(&answer), sdp("198.51.100.2"));
    assert!(got.header("Record-Route").contains(";rm="), "{}", got.text());
    let ack = from_caller("ACK", 1, &answer);
    assert_eq!(requests(world.udp(ALICE, &ack)).len(), 1);
    let bye = requests(world.udp(ALICE, &from_caller("BYE", 2, &answer)));
    assert!(world.deleted().is_empty());
    assert_eq!(only(world.udp(BOB, &bye[0].answer(200, &[]))).status(), 200);
    let deleted = world.deleted();
    assert_eq!((deleted.len(), deleted[0].call, deleted[0].relay), (1, offer.call, Some(RELAY)));
    assert_eq!(world.server.counters().media_relayed, 1);
    world.pass(Duration::from_secs(200));
    assert!(world.deleted().is_empty() && world.relays.is_empty());
    assert_eq!(world.memory.tables().reserved_bytes(), 0);
}

/// Interfaces for a network and for all others.
fn interfaces(config: &mut Config, rule: RelayRule) {
    let networks = vec![BOB.split(':').next().unwrap().parse().unwrap()];
    config.media.rule = rule;
    config.media.interfaces = vec![
        MediaInterface { name: "inside".into(), networks },
        MediaInterface { name: "outside".into(), networks: Vec::new() },
    ];
}

/// Names of the interfaces for the sender of an SDP, and for who gets it.
fn sides(request: &RelayRequest) -> (&str, &str) {
    let sides = request.interfaces.as_ref().unwrap();
    (&sides.from, &sides.to)
}

#[test]
fn each_side_of_a_call_has_the_interface_of_its_network() {
    for rule in [RelayRule::Always, RelayRule::Nat] {
        let mut world = with_bob(World::with(|config| interfaces(config, rule)));
        // Its SDP has the address that the packet comes from: no NAT.
        let own = ALICE.split(':').next().unwrap();
        world.udp(ALICE, &with_sdp(invite("sip:bob@example.org").wire(), &sdp(own)));
        let (offer, sent) = world.relay(RelayKind::Offer, &sdp("198.51.100.1"));
        assert_eq!(sides(&offer), ("outside", "inside"), "{rule:?}");
        let got = only(sent);
        let contact = format!("Contact: <sip:bob@{BOB}>");
        world.udp(BOB, &with_sdp(got.answer(200, &[&contact]), &sdp("192.0.2.20")));
        let (answer, sent) = world.relay(RelayKind::Answer, &sdp("198.51.100.2"));
        assert_eq!(sides(&answer), ("inside", "outside"));
        let answer = only(sent);
        // A change of the callee, which another relay may get: both names again, from its side.
        let change = with_sdp(from_callee("INVITE", 2, &got, &answer).wire(), &sdp("192.0.2.20"));
        world.udp(BOB, &change);
        let (offer, sent) = world.relay(RelayKind::Offer, &sdp("198.51.100.3"));
        assert_eq!((offer.offerer, sides(&offer)), (RelaySide::Callee, ("inside", "outside")));
        let change = only(requests(sent));
        world.udp(ALICE, &with_sdp(change.answer(200, &[]), &sdp(own)));
        let (answer, _) = world.relay(RelayKind::Answer, &sdp("198.51.100.4"));
        assert_eq!(sides(&answer), ("outside", "inside"));
    }
}

#[test]
fn sides_with_one_interface_need_no_relay() {
    let mut world = with_bob(World::with(|config| {
        interfaces(config, RelayRule::Nat);
        config.media.interfaces.remove(0);
    }));
    let own = ALICE.split(':').next().unwrap();
    let sent = world.udp(ALICE, &with_sdp(invite("sip:bob@example.org").wire(), &sdp(own)));
    assert_eq!(requests(sent).len(), 1);
    assert!(world.relays.is_empty());
}

#[test]
fn a_retransmitted_answer_is_not_given_to_the_relay_again() {
    let mut world = with_bob(World::with(always));
    world.udp(ALICE, &with_sdp(invite("sip:bob@example.org").wire(), &sdp("192.0.2.10")));
    let got = only(world.relay(RelayKind::Offer, &sdp("198.51.100.1")).1);
    let early = with_sdp(got.answer(183, &[]), &sdp("192.0.2.20"));
    let last = with_sdp(got.answer(200, &[]), &sdp("192.0.2.20"));
    assert!(world.udp(BOB, &early).is_empty());
    assert!(world.udp(BOB, &early).is_empty());
    assert_eq!(world.relays.len(), 1, "one is stored");
    assert_eq!(world.udp(BOB, &got.answer(180, &[])).len(), 1, "without SDP it does not wait");
    let sent = only(world.relay(RelayKind::Answer, &sdp("198.51.100.2")).1);
    assert_eq!((sent.status(), body(&sent)), (183, sdp("198.51.100.2")));
    for _ in 0..3 {
        let sent = only(world.udp(BOB, &last));
        assert_eq!((sent.status(), body(&sent)), (200, sdp("198.51.100.2")));
    }
    assert!(world.relays.is_empty());
}

#[test]
fn changes_of_a_relayed_call_go_to_its_relay() {
    let mut world = with_bob(World::with(always));
    let (got, answer, offer) = relayed_call(&mut world);
    let other = RelayId(8);
    for (cseq, method) in [(2, "INVITE"), (3, "UPDATE")] {
        let change = with_sdp(from_callee(method, cseq, &got, &answer).wire(), &sdp("192.0.2.20"));
        world.udp(BOB, &change);
        // The first relay is down: the call moves.
        let (second, sent) = world.relay_at(RelayKind::Offer, other, &sdp("198.51.100.3"));
        assert_eq!((second.call, second.relay, second.offerer), (offer.call, Some(RELAY), RelaySide::Callee));
        let change = only(requests(sent));
        assert_eq!((change.to().as_str(), body(&change)), (ALICE, sdp("198.51.100.3")));
        world.udp(ALICE, &with_sdp(change.answer(200, &[]), &sdp("192.0.2.10")));
        let (second, sent) = world.relay_at(RelayKind::Answer, other, &sdp("198.51.100.4"));
        assert_eq!((second.call, second.relay, second.offerer), (offer.call, Some(other), RelaySide::Callee));
        assert_eq!(body(&only(sent)), sdp("198.51.100.4"));
    }
    // A change that fails does not end the call.
    world.udp(ALICE, &with_sdp(from_caller("INVITE", 9, &answer).wire(), &sdp("192.0.2.10")));
    let change = only(requests(world.relay(RelayKind::Offer, &sdp("198.51.100.5")).1));
    assert!(statuses(&world.udp(BOB, &change.answer(488, &[]))).contains(&488));
    world.pass(Duration::from_secs(100));
    assert!(world.deleted().is_empty());
}

#[test]
fn a_bye_that_is_challenged_does_not_end_the_call() {
    let mut world = with_bob(World::with(always));
    let (_, answer, _) = relayed_call(&mut world);
    for (cseq, status, ended) in [(2, 401, 0), (3, 481, 1)] {
        let bye = only(requests(world.udp(ALICE, &from_caller("BYE", cseq, &answer))));
        world.udp(BOB, &bye.answer(status, &[]));
        assert_eq!(world.deleted().len(), ended, "{status}");
    }
    requests(world.udp(ALICE, &from_caller("BYE", 4, &answer)));
    world.pass(Duration::from_secs(100));
    assert_eq!(world.deleted().len(), 1, "nobody answers");
}

#[test]
fn without_a_relay_the_call_is_direct_or_refused() {
    let offer = with_sdp(invite("sip:bob@example.org").wire(), &sdp("192.0.2.10"));
    for (on_failure, garbage) in [
        (RelayFailure::Direct, None),
        (RelayFailure::Direct, Some("garbage".to_owned())),
        (RelayFailure::Direct, Some(format!("v=0{}", " ".repeat(4000)))),
        (RelayFailure::Refuse, None),
        (RelayFailure::Refuse, Some(String::new())),
    ] {
        let mut world = with_bob(World::with(|config| {
            config.media = MediaConfig { rule: RelayRule::Always, on_failure, ..MediaConfig::default() };
        }));
        assert_eq!(statuses(&world.udp(ALICE, &offer)), [100]);
        let sent = match &garbage {
            Some(text) => world.relay(RelayKind::Offer, text).1,
            None => world.pass(Duration::from_millis(2600)),
        };
        match on_failure {
            RelayFailure::Direct => {
                let got = only(requests(sent));
                assert_eq!(body(&got), sdp("192.0.2.10"));
                assert!(!got.header("Record-Route").contains(";rm="));
                let answer = with_sdp(got.answer(200, &[]), &sdp("192.0.2.20"));
                assert_eq!(body(&only(world.udp(BOB, &answer))), sdp("192.0.2.20"));
            }
            RelayFailure::Refuse => assert_eq!(statuses(&sent), [500]),
        }
        assert_eq!(world.server.counters().media_failed, 1);
        if garbage.is_none() {
            let late = world.relays.remove(0).0;
            let result = Some(RelayResult { relay: RELAY, sdp: sdp("198.51.100.1").as_bytes().into() });
            assert!(world.event(Event::Relayed { query: late, result }).is_empty(), "a late answer");
        }
        world.pass(Duration::from_secs(200));
        assert_eq!(world.memory.tables().reserved_bytes(), 0);
    }
}

#[test]
fn an_answer_without_a_relay_is_forwarded() {
    let mut world = with_bob(World::with(always));
    world.udp(ALICE, &with_sdp(invite("sip:bob@example.org").wire(), &sdp("192.0.2.10")));
    let got = only(world.relay(RelayKind::Offer, &sdp("198.51.100.1")).1);
    world.udp(BOB, &with_sdp(got.answer(200, &[]), &sdp("192.0.2.20")));
    let sent = only(world.pass(Duration::from_millis(2600)));
    assert_eq!((sent.status(), body(&sent)), (200, sdp("192.0.2.20")));
    assert_eq!(world.server.counters().media_failed, 1);
}

#[test]
fn a_cancelled_call_is_deleted() {
    let mut world = with_bob(World::with(always));
    let call = invite("sip:bob@example.org");
    world.udp(ALICE, &with_sdp(call.wire(), &sdp("192.0.2.10")));
    let (query, offer) = world.relays.remove(0);
    assert_eq!(statuses(&world.udp(ALICE, &call.cancel())), [200, 487]);
    let result = Some(RelayResult { relay: RELAY, sdp: sdp("198.51.100.1").as_bytes().into() });
    assert!(world.event(Event::Relayed { query, result }).is_empty());
    world.pass(Duration::from_secs(100));
    assert_eq!(world.deleted().iter().map(|request| request.call).collect::<Vec<_>>(), [offer.call]);
}

#[test]
fn a_cancel_does_not_overtake_a_stored_success() {
    let mut world = with_bob(World::with(always));
    let call = invite("sip:bob@example.org");
    world.udp(ALICE, &with_sdp(call.wire(), &sdp("192.0.2.10")));
    let got = only(world.relay(RelayKind::Offer, &sdp("198.51.100.1")).1);
    world.udp(BOB, &with_sdp(got.answer(200, &[]), &sdp("192.0.2.20")));
    assert_eq!(statuses(&world.udp(ALICE, &call.cancel())), [200], "of the CANCEL");
    let sent = only(world.relay(RelayKind::Answer, &sdp("198.51.100.2")).1);
    assert_eq!((sent.status(), body(&sent)), (200, sdp("198.51.100.2")));
    world.pass(Duration::from_secs(100));
    assert!(world.deleted().is_empty());
}

#[test]
fn a_late_answer_of_a_branch_that_has_ended_is_not_forwarded() {
    let mut world = World::with(always);
    for address in [BOB, CAROL] {
        world.register("bob", address, &format!("<sip:bob@{address}>"));
    }
    world.udp(ALICE, &with_sdp(invite("sip:bob@example.org").wire(), &sdp("192.0.2.10")));
    let first = only(world.relay(RelayKind::Offer, &sdp("198.51.100.1")).1);
    let second = only(world.relay(RelayKind::Offer, &sdp("198.51.100.2")).1);
    world.udp(&first.to(), &with_sdp(first.answer(183, &[]), &sdp("192.0.2.20")));
    let (query, asked) = world.relays.remove(0);
    assert_eq!(asked.kind, RelayKind::Answer);
    world.udp(&first.to(), &first.answer(486, &[]));
    assert_eq!(world.deleted().len(), 1);
    assert!(world.event(Event::Relayed { query, result: None }).is_empty(), "its phone is busy");
    assert_eq!(statuses(&world.udp(&second.to(), &second.answer(180, &[]))), [180]);
    assert_eq!(world.server.counters().media_failed, 0);
}

#[test]
fn calls_at_a_relay_end_there_also_after_a_reload_without_relays() {
    let mut world = with_bob(World::with(always));
    world.udp(ALICE, &with_sdp(invite("sip:bob@example.org").wire(), &sdp("192.0.2.10")));
    let (offer, sent) = world.relay(RelayKind::Offer, &sdp("198.51.100.1"));
    let got = only(sent);
    world.server.reconfigure(std::sync::Arc::new(config()));
    world.udp(BOB, &got.answer(486, &[]));
    assert_eq!(world.deleted().iter().map(|request| request.call).collect::<Vec<_>>(), [offer.call]);

    let mut world = with_bob(World::with(always));
    world.udp(ALICE, &with_sdp(invite("sip:bob@example.org").wire(), &sdp("192.0.2.10")));
    world.server.reconfigure(std::sync::Arc::new(config()));
    let got = only(world.relay(RelayKind::Offer, &sdp("198.51.100.1")).1);
    assert_eq!(body(&got), sdp("198.51.100.1"), "the relay has the call");
    assert!(got.header("Record-Route").contains(";rm="), "{}", got.text());
}

#[test]
fn each_branch_is_a_call_of_its_own_at_the_relay() {
    let mut world = World::with(always);
    for address in [BOB, CAROL] {
        world.register("bob", address, &format!("<sip:bob@{address}>"));
    }
    world.udp(ALICE, &with_sdp(invite("sip:bob@example.org").wire(), &sdp("192.0.2.10")));
    let (one, sent) = world.relay(RelayKind::Offer, &sdp("198.51.100.1"));
    let first = only(sent);
    let (two, sent) = world.relay(RelayKind::Offer, &sdp("198.51.100.2"));
    let second = only(sent);
    assert_ne!(one.call, two.call);
    assert_eq!((body(&first), body(&second)), (sdp("198.51.100.1"), sdp("198.51.100.2")));
    world.udp(&first.to(), &with_sdp(first.answer(200, &[]), &sdp("192.0.2.20")));
    let sent = world.relay(RelayKind::Answer, &sdp("198.51.100.3")).1;
    assert!(statuses(&sent).contains(&200));
    world.udp(&second.to(), &second.answer(180, &[]));
    world.udp(&second.to(), &second.answer(487, &[]));
    let deleted = world.deleted();
    assert_eq!(deleted.iter().map(|request| request.call).collect::<Vec<_>>(), [two.call]);
    world.pass(Duration::from_secs(100));
    assert!(world.deleted().is_empty());
}

/// Requests to the relay for an INVITE with this SDP.
fn asked(world: &mut World, from: &str, request: &Request, sdp: &str) -> usize {
    let before = world.relays.len();
    world.udp(from, &with_sdp(request.wire(), sdp));
    world.relays.len() - before
}

#[test]
fn a_side_behind_a_nat_is_relayed() {
    let mut world = World::with(|config| config.media.rule = RelayRule::Nat);
    world.register("bob", BOB, &format!("<sip:bob@{BOB}>"));
    world.register("carol", CAROL, "<sip:carol@10.0.0.3>");
    let call = |user: &str, id: &str| invite(&format!("sip:{user}@example.org")).call_id(id);
    assert_eq!(asked(&mut world, ALICE, &call("bob", "a"), &sdp("192.0.2.10")), 0);
    assert_eq!(asked(&mut world, ALICE, &call("bob", "b"), &sdp("10.0.0.1")), 1, "the caller");
    assert_eq!(asked(&mut world, ALICE, &call("carol", "c"), &sdp("192.0.2.10")), 1, "the callee");
    let trunk = call("bob", "d").from("sip:x@elsewhere.example");
    assert_eq!(asked(&mut world, EDGE, &trunk, &sdp("192.0.2.100")), 0, "a trusted proxy with a gateway");
    let without = call("bob", "e");
    assert_eq!(world.udp(ALICE, &without).len(), 2);
    assert_eq!(world.server.counters().media_without_offer, 1);
}

#[test]
fn browsers_and_phones_are_bridged() {
    let mut world = World::with(|config| {
        config.media.bridge = true;
        let address = "192.0.2.1:5062".parse().unwrap();
        config.listeners.push(Listener { transport: Transport::Ws, bound: address, advertised: address });
    });
    let websocket = |number: u64, from: &str| Flow {
        connection: Some(ringway_sansio::ConnectionId(number)),
        ..Flow::new(Transport::Ws, ListenerId(3), from.parse().unwrap())
    };
    world.register("bob", BOB, &format!("<sip:bob@{BOB}>"));
    let page = crate::harness::register("carol", "<sip:carol@x.invalid;transport=ws>").call_id("page");
    let page = page.via("SIP/2.0/WS x.invalid;branch=z9hG4bK");
    assert_eq!(only(world.message(websocket(9, CAROL), &page.wire())).status(), 200);
    let call = |user: &str, id: &str| invite(&format!("sip:{user}@example.org")).call_id(id);
    assert_eq!(asked(&mut world, ALICE, &call("bob", "a"), &sdp("10.0.0.1")), 0);
    assert_eq!(asked(&mut world, ALICE, &call("carol", "b"), &sdp("192.0.2.10")), 1);
    let (offer, sent) = world.relay(RelayKind::Offer, &browser_sdp());
    assert_eq!(offer.to, RelayMedia::Browser);
    let got = only(sent);
    assert_eq!(got.flow.transport, Transport::Ws);
    let answer = with_sdp(got.answer(200, &[]), &browser_sdp());
    world.message(websocket(9, CAROL), &answer);
    assert_eq!(world.relay(RelayKind::Answer, &sdp("198.51.100.1")).0.to, RelayMedia::Plain);
    let from_page = call("bob", "c").via("SIP/2.0/WS x.invalid;branch=z9hG4bK");
    world.message(websocket(9, CAROL), &with_sdp(from_page.wire(), &browser_sdp()));
    let (offer, sent) = world.relay(RelayKind::Offer, &sdp("198.51.100.1"));
    assert_eq!(offer.to, RelayMedia::Plain);
    world.udp(BOB, &with_sdp(only(sent).answer(200, &[]), &sdp("192.0.2.20")));
    assert_eq!(world.relay(RelayKind::Answer, &browser_sdp()).0.to, RelayMedia::Browser);
}
