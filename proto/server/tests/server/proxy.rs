//! Tests of stateful forwarding (RFC 3261 §16.3 to §16.6): validation, changed and unchanged parts, and destinations.

use crate::harness::{
    ALICE, BOB, CAROL, EDGE, Request, STRANGER, Sent, Wire, World, forwarded, invite, only, register,
    request, requests, statuses,
};
use crate::torture_valid::is_the_same;
use ringway_sansio::{Event, Flow, HostNameId, ListenerId, Target, Transport};
use std::time::Duration;

/// Server with bob registered by UDP.
fn with_bob() -> World {
    let mut world = World::open();
    world.register("bob", BOB, "<sip:bob@192.0.2.20>");
    world
}

#[test]
fn an_invite_is_answered_100_at_once_and_forwarded_with_few_changes() {
    let mut world = with_bob();
    let call = invite("sip:bob@example.org").line("Timestamp: 54").line("x-Unknown :  a\t b");
    let sent = world.udp(ALICE, &call);
    assert_eq!((sent[0].status(), sent[0].to().as_str()), (100, ALICE));
    assert_eq!(
        (sent[0].header("To").as_str(), sent[0].header("Timestamp").as_str()),
        ("<sip:bob@example.org>", "54")
    );
    let forwarded = forwarded(sent);
    is_the_same(&call.wire(), &forwarded);
    assert_eq!((forwarded.uri().as_str(), forwarded.to().as_str()), ("sip:bob@192.0.2.20", BOB));
    assert_eq!(seen_from(&forwarded.headers("Via")[1]), (Some("192.0.2.10".into()), Some(5060)));
    assert!(forwarded.text().contains("x-Unknown :  a\t b\r\n"));
}

#[test]
fn unknown_methods_headers_and_bodies_pass_byte_for_byte() {
    let mut world = with_bob();
    let text = "Zw*!f%61 sip:bob@example.org SIP/2.0\r\nv:SIP/2.0/UDP 192.0.2.10;branch=z9hG4bK1\r\nX-a:\r\nf: <sip:alice@example.org>;tag=1\r\n\
                t  :\t<sip:bob@example.org> ; x = \"y\"\r\ni: 1\r\nCSeq: 0007   Zw*!f%61\r\nX-b: a,\r\n  b\r\nX-a: 2\r\nl: 5\r\n\r\n\0\r\n";
    let bytes = [text.as_bytes(), b"\xff\xfe"].concat();
    let sent = forwarded(world.udp(ALICE, &bytes));
    is_the_same(&bytes, &sent);
    let end = b"\r\nX-b: a,\r\n  b\r\nX-a: 2\r\nl: 5\r\n\r\n\0\r\n\xff\xfe";
    assert!(sent.bytes.ends_with(end));
}

#[test]
fn the_top_via_says_where_the_request_came_from() {
    let branch = "branch=z9hG4bK";
    for (via, from, stamped, answered_at) in [
        ("SIP/2.0/UDP 192.0.2.10:5070;", "192.0.2.10:40000", (None, None), "192.0.2.10:5070"),
        ("SIP/2.0/UDP 10.0.0.1:5070;", "192.0.2.10:40000", (Some("192.0.2.10"), None), "192.0.2.10:5070"),
        ("SIP/2.0/UDP phone.example.net;", "192.0.2.10:40000", (Some("192.0.2.10"), None), "192.0.2.10:5060"),
        (
            "SIP/2.0/UDP 192.0.2.10;rport;",
            "192.0.2.10:4000",
            (Some("192.0.2.10"), Some(4000)),
            "192.0.2.10:4000",
        ),
        (
            "SIP/2.0/UDP 10.0.0.1;received=1.2.3.4;",
            "192.0.2.10:4000",
            (Some("192.0.2.10"), None),
            "192.0.2.10:5060",
        ),
        (
            "SIP/2.0/UDP 10.0.0.1;maddr=203.0.113.1;",
            "192.0.2.10:4000",
            (Some("192.0.2.10"), None),
            "192.0.2.10:5060",
        ),
        (
            "SIP/2.0/UDP [2001:db8::9];",
            "[2001:db8::7]:4000",
            (Some("2001:db8::7"), None),
            "[2001:db8::7]:5060",
        ),
    ] {
        let mut world = with_bob();
        let call = invite("sip:bob@example.org").via(&format!("{via}{branch}"));
        let sent = world.udp(from, &call);
        assert_eq!(sent[0].to(), answered_at, "{via}");
        let stamp = sent[0].header("Via");
        assert_eq!(seen_from(&stamp), (stamped.0.map(String::from), stamped.1), "{stamp}");
        assert!(stamp.matches("received").count() <= 1 && stamp.matches("rport").count() <= 1, "{stamp}");
        assert_eq!(forwarded(sent).headers("Via")[1], stamp);
    }
}

/// `received` and `rport` of a Via.
fn seen_from(via: &str) -> (Option<String>, Option<u16>) {
    let via = ringway_sip::Via::parse(via.as_bytes()).unwrap();
    (via.received().map(|text| String::from_utf8(text.to_vec()).unwrap()), via.rport())
}

#[test]
fn hops_are_counted_down() {
    for (hops, expected) in [(Some(70), "69"), (Some(1), "0"), (Some(255), "254"), (None, "70")] {
        let call = Request { max_forwards: hops, ..invite("sip:bob@example.org") };
        let sent = forwarded(with_bob().udp(ALICE, &call));
        assert_eq!(sent.header("Max-Forwards"), expected);
    }
    for hops in [Some(256), Some(4_294_967_295)] {
        let call = Request { max_forwards: hops, ..invite("sip:bob@example.org") };
        assert_eq!(only(with_bob().udp(ALICE, &call)).status(), 400);
    }
}

#[test]
fn no_hops_left_is_483_but_for_what_is_for_the_server_itself() {
    let mut world = with_bob();
    let none =
        |method: &str, uri: &str| Request { max_forwards: Some(0), ..request(method, uri).call_id(method) };
    for method in ["INVITE", "MESSAGE", "OPTIONS"] {
        assert_eq!(only(world.udp(ALICE, &none(method, "sip:bob@example.org"))).status(), 483);
    }
    assert_eq!(world.server.counters().too_many_hops, 3);
    let ours = only(world.udp(ALICE, &none("OPTIONS", "sip:example.org").call_id("ours")));
    assert_eq!(ours.status(), 200, "it goes nowhere, so it needs no hop");
    let register = Request { max_forwards: Some(0), ..register("bob", "<sip:bob@192.0.2.20>") };
    assert_eq!(only(world.udp(BOB, &register)).status(), 200);
}

#[test]
fn options_to_the_server_reports_what_it_supports() {
    let mut world = World::closed();
    for uri in
        ["sip:example.org", "sip:192.0.2.1:5060", "sip:192.0.2.1", "sip:EXAMPLE.ORG:5060;transport=tcp"]
    {
        let answer = only(world.udp(STRANGER, &request("OPTIONS", uri).from("sip:x@example.net")));
        assert_eq!(answer.status(), 200, "{uri}");
        assert!(answer.header("Allow").contains("INVITE, ACK, CANCEL, BYE, REGISTER, OPTIONS"));
        assert_eq!(answer.header("Accept"), "application/sdp");
    }
    let answer = only(world.udp(ALICE, &request("OPTIONS", "sip:example.org").line("Require: 100rel")));
    assert_eq!((answer.status(), answer.header("Unsupported").as_str()), (420, "100rel"));
}

#[test]
fn a_proxy_must_understand_proxy_require_and_not_require() {
    let mut world = with_bob();
    let call = invite("sip:bob@example.org").line("Proxy-Require: a, b").line("Proxy-Require: c");
    let answer = only(world.udp(ALICE, &call));
    assert_eq!(answer.status(), 420);
    assert_eq!(answer.headers("Unsupported"), ["a", "b", "c"]);
    assert!(world.udp(ALICE, &call.ack_of(&answer)).is_empty());
    let call = invite("sip:bob@example.org").call_id("2").line("Require: 100rel");
    assert_eq!(forwarded(world.udp(ALICE, &call)).header("Require"), "100rel");
}

#[test]
fn a_proxy_require_that_cannot_be_echoed_is_still_refused() {
    let mut world = with_bob();
    let call = invite("sip:bob@example.org").line("Proxy-Require: a\r\n b, c");
    let answer = only(world.udp(ALICE, &call));
    assert_eq!(answer.status(), 420);
    assert!(world.udp(ALICE, &call.ack_of(&answer)).is_empty());
    world.pass(Duration::from_secs(64));
    assert_eq!(world.server.transactions_len(), (0, 0), "nothing is kept for ever");
    let options = request("OPTIONS", "sip:example.org").line("Require: \"\r\n \"").call_id("o");
    assert_eq!(only(world.udp(ALICE, &options)).status(), 420);
}

#[test]
fn uris_that_are_not_sip_are_416() {
    let mut world = with_bob();
    for uri in ["tel:+1-201-555-0123", "sips:bob@example.org", "mailto:bob@example.org", "isbn:2983792873"] {
        let call = invite(uri).to("<sip:bob@example.org>").call_id(uri);
        let answer = only(world.udp(ALICE, &call));
        assert_eq!(answer.status(), 416, "{uri}");
        assert!(world.udp(ALICE, &call.ack_of(&answer)).is_empty());
        assert!(world.udp(ALICE, &Request { method: "ACK".into(), ..call.call_id("stray") }).is_empty());
    }
}

#[test]
fn headers_in_a_request_uri_are_400() {
    let mut world = with_bob();
    for uri in ["sip:bob@example.org?Route=%3Csip:x%3E", "sip:bob@example.org;x?a=b&c=d"] {
        let answer = only(world.udp(ALICE, &invite(uri).to("<sip:bob@example.org>").call_id(uri)));
        assert_eq!(answer.status(), 400, "{uri}");
    }
}

#[test]
fn nobody_there_is_480_and_nobody_at_all_404() {
    let mut world = World::open();
    for (user, status) in [("bob@", 480), ("%62ob@", 480), ("ghost@", 404), ("", 404), ("Bob@", 404)] {
        for method in ["INVITE", "MESSAGE"] {
            let request =
                request(method, &format!("sip:{user}example.org")).call_id(&format!("{user}{method}"));
            assert_eq!(only(world.udp(ALICE, &request)).status(), status, "{user}");
        }
    }
    assert_eq!((world.server.counters().not_registered, world.server.counters().not_found), (4, 6));
}

#[test]
fn a_request_that_comes_back_unchanged_is_482() {
    let mut world = with_bob();
    let sent = forwarded(world.udp(ALICE, &invite("sip:bob@example.org")));
    let back = sent.text().replace("INVITE sip:bob@192.0.2.20", "INVITE sip:bob@example.org");
    let answer = only(world.udp(BOB, &back.clone().into_bytes()));
    assert_eq!((answer.status(), answer.to().as_str()), (482, BOB));
    assert_eq!(world.server.counters().loops, 1);
    world.register("carol", CAROL, "<sip:carol@192.0.2.30>");
    let spiral = back
        .replace("INVITE sip:bob@example.org", "INVITE sip:carol@example.org")
        .replace("z9hG4bKcall", "z9hG4bKnew");
    let via = format!("Via: SIP/2.0/UDP {BOB};branch=z9hG4bKhop\r\nVia: SIP/2.0/UDP 192.0.2.1");
    let spiral = spiral.replacen("Via: SIP/2.0/UDP 192.0.2.1", &via, 1);
    assert_eq!(
        forwarded(world.udp(BOB, &spiral.into_bytes())).to(),
        CAROL,
        "with another target it is a spiral"
    );
}

#[test]
fn a_request_that_comes_back_by_its_route_is_no_loop() {
    let mut world = with_bob();
    let call = invite("sip:bob@example.org").line("Route: <sip:192.0.2.88;lr>, <sip:192.0.2.1;lr>");
    let sent = forwarded(world.udp(ALICE, &call));
    assert_eq!((sent.to().as_str(), sent.uri().as_str()), ("192.0.2.88:5060", "sip:bob@example.org"));
    // The service in the Route removes its value and sends the request on to us.
    let via = "Via: SIP/2.0/UDP 192.0.2.88;branch=z9hG4bKservice\r\nVia: SIP/2.0/UDP 192.0.2.1";
    let on = sent.text().replacen("Via: SIP/2.0/UDP 192.0.2.1", via, 1).replace("<sip:192.0.2.88;lr>, ", "");
    let sent = world.udp("192.0.2.88:5060", &on.into_bytes());
    assert_eq!(statuses(&sent), [100], "RFC 5393 §4.2.1: the Route is part of the loop hash");
    assert_eq!(forwarded(sent).to(), BOB);
}

#[test]
fn a_user_who_is_forwarded_to_another_one_is_found_there() {
    let mut world = with_bob();
    world.server.set_permanent_contacts(b"carol@example.org", &[b"sip:bob@example.org"]);
    let sent = forwarded(world.udp(ALICE, &invite("sip:carol@example.org")));
    assert_eq!((sent.uri().as_str(), sent.to().as_str()), ("sip:bob@example.org", "192.0.2.1:5060"));
    let sent = world.udp("192.0.2.1:5060", &sent.bytes);
    assert_eq!(forwarded(sent).to(), BOB);
}

#[test]
fn two_users_who_are_forwarded_to_each_other_are_a_loop() {
    let mut world = World::open();
    world.server.set_permanent_contacts(b"carol@example.org", &[b"sip:bob@example.org"]);
    world.server.set_permanent_contacts(b"bob@example.org", &[b"sip:carol@example.org"]);
    let mut at = world.udp(ALICE, &invite("sip:carol@example.org"));
    let mut turns = 0;
    while let Some(next) = requests(at).pop() {
        turns += 1;
        assert!(turns < 5, "it goes round");
        at = world.udp("192.0.2.1:5060", &next.bytes);
        if statuses(&at).contains(&482) {
            assert_eq!(turns, 2);
            return;
        }
    }
    panic!("the request was lost");
}

/// RFC 5393: contacts that lead back to their own user must not multiply a request.
#[test]
fn contacts_that_lead_back_do_not_multiply() {
    let mut world = World::open();
    let contacts: Vec<String> = (0..10).map(|n| format!("sip:carol@example.org;p={n}")).collect();
    let contacts: Vec<&[u8]> = contacts.iter().map(|contact| contact.as_bytes()).collect();
    world.server.set_permanent_contacts(b"carol@example.org", &contacts);
    let mut waiting = world.udp(ALICE, &request("MESSAGE", "sip:carol@example.org"));
    let mut taken = 0;
    while let Some(next) = waiting.pop() {
        if next.to() == "192.0.2.1:5060" {
            taken += 1;
            assert!(taken < 100, "a storm");
            waiting.extend(world.udp("192.0.2.1:5060", &next.bytes));
        }
    }
    assert!(taken >= 10);
}

#[test]
fn maddr_is_not_followed() {
    let mut world = with_bob();
    let ours = forwarded(world.udp(ALICE, &invite("sip:bob@example.org;maddr=203.0.113.1").call_id("1")));
    assert_eq!(ours.to(), BOB);
    let other = forwarded(world.udp(ALICE, &invite("sip:x@192.0.2.88;maddr=203.0.113.1").call_id("2")));
    assert_eq!(other.to(), "192.0.2.88:5060");
}

#[test]
fn nothing_is_sent_to_broadcast_or_unspecified_addresses() {
    for contact in [
        "255.255.255.255",
        "224.0.1.75",
        "0.0.0.0",
        "[ff02::1]",
        "[::]",
        "192.0.2.77:0",
        "[::ffff:224.0.0.1]",
    ] {
        let mut world = World::open();
        world.server.set_permanent_contacts(b"bob@example.org", &[format!("sip:bob@{contact}").as_bytes()]);
        let sent = world.udp(ALICE, &invite("sip:bob@example.org"));
        assert_eq!(statuses(&sent), [100, 480], "{contact}");
        assert!(requests(sent).is_empty());
        let sent = world.udp(ALICE, &invite(&format!("sip:x@{contact}")).call_id("direct"));
        assert!(requests(sent).is_empty(), "{contact}");
    }
}

#[test]
fn an_unsupported_transport_is_480() {
    for contact in ["sip:bob@192.0.2.20;transport=tls", "sip:bob@192.0.2.20;transport=sctp"] {
        let mut world = World::open();
        world.server.set_permanent_contacts(b"bob@example.org", &[contact.as_bytes()]);
        assert_eq!(statuses(&world.udp(ALICE, &invite("sip:bob@example.org"))), [100, 480], "{contact}");
    }
}

#[test]
fn a_contact_with_a_name_is_looked_up_first() {
    let mut world = World::open();
    world.register("bob", EDGE, "<sip:bob@phone.example.net:5070;transport=tcp>");
    assert_eq!(statuses(&world.udp(ALICE, &invite("sip:bob@example.org"))), [100]);
    let sent = only(world.resolve("phone.example.net", Some("192.0.2.20")));
    assert_eq!((sent.flow.transport, sent.flow.connection), (Transport::Tcp, None));
    assert_eq!(
        (sent.to().as_str(), sent.uri().as_str()),
        ("192.0.2.20:5070", "sip:bob@phone.example.net:5070;transport=tcp")
    );
    for nowhere in [None, Some("224.0.0.1"), Some("255.255.255.255")] {
        let mut world = World::open();
        world.register("bob", EDGE, "<sip:bob@phone.example.net>");
        world.udp(ALICE, &invite("sip:bob@example.org"));
        assert_eq!(statuses(&world.resolve("phone.example.net", nowhere)), [480]);
    }
}

#[test]
fn the_result_of_an_unknown_lookup_is_ignored() {
    let mut world = World::open();
    world.register("bob", EDGE, "<sip:bob@phone.example.net>");
    let call = invite("sip:bob@example.org");
    world.udp(ALICE, &call);
    assert_eq!(statuses(&world.udp(ALICE, &call.cancel())), [200, 487]);
    assert!(world.resolve("phone.example.net", Some("192.0.2.20")).is_empty());
    let target = Target::of_address("phone.example.net", 5060, Transport::Udp);
    let servers = target.server_at([192, 0, 2, 20].into(), HostNameId::NONE).into();
    let answer = Event::Resolved { query: 99, servers };
    assert!(world.event(answer).is_empty());
}

#[test]
fn a_lookup_without_a_result_times_out() {
    let mut world = World::open();
    world.register("bob", EDGE, "<sip:bob@phone.example.net>");
    assert_eq!(statuses(&world.udp(ALICE, &invite("sip:bob@example.org"))), [100]);
    assert!(world.pass(Duration::from_millis(9_999)).is_empty());
    assert_eq!(statuses(&world.pass(Duration::from_millis(2))), [480]);
    assert!(world.resolve("phone.example.net", Some("192.0.2.20")).is_empty(), "too late");
}

#[test]
fn a_server_that_stops_refuses_new_requests_and_completes_pending_ones() {
    let mut world = with_bob();
    let call = invite("sip:bob@example.org");
    let got = forwarded(world.udp(ALICE, &call));
    assert!(!world.server.is_idle());
    world.server.stop_new_work(world.now + std::time::Duration::from_secs(4));
    for method in ["INVITE", "MESSAGE", "OPTIONS", "REGISTER"] {
        let new = request(method, "sip:example.org").call_id(method);
        let refused = only(world.udp(ALICE, &new));
        assert_eq!((refused.status(), refused.header("Retry-After").as_str()), (503, "5"), "{method}");
        assert!(world.udp(ALICE, &new.ack_of(&refused)).is_empty());
    }
    assert_eq!(statuses(&world.udp(ALICE, &call)), [100], "retransmissions still match");
    assert_eq!(only(world.udp(BOB, &got.answer(180, &[]))).status(), 180);
    let bye = request("BYE", "sip:bob@192.0.2.20").to("<sip:bob@example.org>;tag=1").call_id("older");
    assert_eq!(forwarded(world.udp(ALICE, &bye)).to(), BOB, "calls can still be ended");
    assert_eq!(statuses(&world.udp(ALICE, &call.cancel())), [200]);
    assert_eq!(statuses(&world.udp(BOB, &got.answer(487, &[]))), [487]);
    world.pass(Duration::from_secs(33));
    assert!(world.server.is_idle());
}

#[test]
fn calls_that_ring_are_listed() {
    let mut world = with_bob();
    let listed = |world: &World| {
        let mut calls = Vec::new();
        world.server.ringing_calls(0, 10, |call| {
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
            calls.push((text(call.call_id), text(call.from), text(call.to), call.rings));
        });
        calls
    };
    let got = forwarded(world.udp(ALICE, &invite("sip:bob@example.org")));
    let call = |rings| ("call".into(), "sip:alice@example.org".into(), "sip:bob@example.org".into(), rings);
    assert_eq!(listed(&world), [call(false)]);
    world.udp(BOB, &got.answer(180, &[]));
    assert_eq!((listed(&world), world.server.ringing_calls_len()), (vec![call(true)], 1));
    world.udp(BOB, &got.answer(200, &[]));
    assert!(listed(&world).is_empty());
    assert_eq!(world.server.ringing_calls_len(), 0, "answered, though 200 may still be sent again");
}

#[test]
fn a_page_of_calls_examines_no_more_slots_than_its_count() {
    const AT_ONCE: u32 = 7;
    let mut world = with_bob();
    let call = |n: u32| invite("sip:bob@example.org").call_id(&format!("call{n}"));
    let got: Vec<_> = (0..50).map(|n| forwarded(world.udp(ALICE, &call(n)))).collect();
    for answered in got.iter().step_by(3) {
        world.udp(BOB, &answered.answer(200, &[]));
    }
    let (mut from, mut listed, mut pages) = (Some(0), Vec::new(), 0);
    while let Some(slot) = from {
        let before = listed.len();
        from = world.server.ringing_calls(slot, AT_ONCE, |call| listed.push(call.call_id.to_vec()));
        assert!(from.is_none_or(|next| next == slot + AT_ONCE));
        assert!(listed.len() - before <= AT_ONCE as usize);
        pages += 1;
    }
    let expected: Vec<_> = (0..50).filter(|n| n % 3 != 0).map(|n| format!("call{n}").into_bytes()).collect();
    assert_eq!((pages, world.server.ringing_calls_len()), (8, expected.len()));
    assert_eq!(listed, expected);
    for pending in got.iter().filter(|got| !got.bytes.is_empty()) {
        world.udp(BOB, &pending.answer(486, &[]));
    }
    assert_eq!(world.server.ringing_calls_len(), 0);
    world.pass(Duration::from_secs(64));
    assert_eq!((world.server.ringing_calls_len(), world.server.contexts_len()), (0, 0));
}

#[test]
fn a_reload_changes_what_comes_next_and_not_what_is_under_way() {
    let mut world = with_bob();
    let got = forwarded(world.udp(ALICE, &invite("sip:bob@example.org")));
    let mut config = crate::harness::config();
    config.auth.enabled = true;
    config.message_limits.message_bytes_max = 200;
    world.server.reconfigure(std::sync::Arc::new(config));
    let timed_out = statuses(&world.pass(Duration::from_secs(33)));
    assert!(timed_out.contains(&408), "the stored request is answered: {timed_out:?}");
    assert_eq!(only(world.udp(ALICE, &got.bytes)).status(), 513);
    let mut config = crate::harness::config();
    config.auth.enabled = true;
    world.server.reconfigure(std::sync::Arc::new(config));
    assert_eq!(only(world.udp(ALICE, &invite("sip:bob@example.org").call_id("2"))).status(), 407);
}

#[test]
fn a_contact_that_only_its_connection_reaches_is_not_dialled() {
    let mut world = World::open();
    world.register_tcp(5, "bob", "198.51.100.7:40000", "<sip:bob@10.0.0.5;transport=tcp>");
    let first = forwarded(world.udp(ALICE, &invite("sip:bob@example.org")));
    assert_eq!(only(world.event(Event::Unreachable(first.token))).status(), 480);
}

#[test]
fn too_many_transactions_are_503() {
    let mut world = World::with(|config| config.transaction_limits.servers_max = 2);
    world.register("bob", BOB, "<sip:bob@192.0.2.20>");
    for number in 0..2 {
        assert_eq!(
            statuses(&world.udp(ALICE, &invite("sip:bob@example.org").call_id(&number.to_string()))),
            [100]
        );
    }
    let call = invite("sip:bob@example.org").call_id("one too many");
    let full = only(world.udp(ALICE, &call));
    assert_eq!((full.status(), full.header("Retry-After").as_str()), (503, "5"));
    assert!(world.udp(ALICE, &call.ack_of(&full)).is_empty());
    assert_eq!(only(world.udp(ALICE, &invite("sip:ghost@example.org").call_id("x"))).status(), 404);
    assert_eq!(world.server.counters().overflow, 1);
    let mut world = World::with(|config| config.transaction_limits.clients_max = 0);
    world.register("bob", BOB, "<sip:bob@192.0.2.20>");
    assert_eq!(statuses(&world.udp(ALICE, &invite("sip:bob@example.org"))), [100, 500]);
}

#[test]
fn a_source_over_its_rate_is_dropped_or_slowed() {
    let mut world = World::limited(5);
    let options = |number: u32| request("OPTIONS", "sip:example.org").cseq(number);
    let answered = (0..20).filter(|&number| !world.udp(ALICE, &options(number)).is_empty()).count();
    assert_eq!((answered, world.server.counters().over_rate), (5, 15));
    let slowed = only(world.tcp(1, ALICE, &options(30)));
    assert_eq!((slowed.status(), slowed.header("Retry-After").as_str()), (503, "1"));
    assert!(world.tcp(1, ALICE, &Request { method: "ACK".into(), ..options(31) }).is_empty());
    assert_eq!(only(world.udp(BOB, &options(1))).status(), 200, "others are not");
    world.pass(Duration::from_secs(1));
    assert_eq!(only(world.udp(ALICE, &options(40))).status(), 200);
}

#[test]
fn datagrams_that_are_no_requests_take_nothing_from_the_rate_of_their_source() {
    let mut world = World::limited(5);
    let options = |number: u32| request("OPTIONS", "sip:example.org").cseq(number);
    let garbage: [&[u8]; 7] = [
        b"X",
        b"\0",
        b"\x01\0\0\0",
        b"\r\n\r\n",
        b"INVITE sip:bob@example.org",
        b"a b c\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
    ];
    for bytes in garbage {
        for _ in 0..1000 {
            assert!(world.udp(ALICE, &bytes.to_vec()).is_empty(), "{bytes:?}");
        }
        assert_eq!(only(world.udp(ALICE, &options(1))).status(), 200, "{bytes:?}");
        world.pass(Duration::from_secs(1));
    }
    assert_eq!(world.server.counters().over_rate, 0);
    assert_eq!(world.server.counters().rejected.iter().sum::<u64>(), 5000);
    // STUN has a rate of its own.
    let stun = [&[0, 1, 0, 0, 0x21, 0x12, 0xa4, 0x42][..], &[7; 12]].concat();
    assert_eq!((0..100).filter(|_| !world.udp(ALICE, &stun).is_empty()).count(), 5);
    assert_eq!(only(world.udp(ALICE, &options(2))).status(), 200);
    // A request that cannot be read counts: it is answered.
    let unreadable = String::from_utf8(options(3).wire()).unwrap().replace("CSeq: 3 OPTIONS", "CSeq: x");
    let answered =
        (0..100).filter(|_| !world.udp(ALICE, &unreadable.clone().into_bytes()).is_empty()).count();
    assert!(answered <= 5, "{answered}");
}

#[test]
fn addresses_of_the_configuration_have_a_larger_rate() {
    let mut config = crate::harness::config();
    crate::routes::carriers(&mut config);
    config.neighbours.push(crate::neighbours::neighbour("sip:198.51.100.5;transport=tcp"));
    let mut world = World::at(config, 5);
    let mut admitted = |source: &str| {
        let options = |number: u32| request("OPTIONS", "sip:example.org").cseq(number);
        (0..200).filter(|&number| !world.udp(source, &options(number)).is_empty()).count()
    };
    assert_eq!(admitted(ALICE), 5);
    for named in [crate::routes::CARRIER_A, "192.0.2.99:5060", "198.51.100.5:5060"] {
        assert_eq!(admitted(named), 5 + 5 * 20, "{named}");
    }
}

#[test]
fn ipv6_is_supported_like_ipv4() {
    let mut world = World::open();
    let request =
        register("bob", "<sip:bob@[2001:db8::20]>").via("SIP/2.0/UDP [2001:db8::20];branch=z9hG4bK");
    let flow = Flow::udp(ListenerId(2), "[2001:db8::20]:5060".parse().unwrap());
    assert_eq!(only(world.message(flow, &request.wire())).status(), 200);
    let sent = forwarded(world.udp(ALICE, &invite("sip:bob@example.org")));
    assert_eq!((sent.to().as_str(), sent.flow.listener), ("[2001:db8::20]:5060", ListenerId(2)));
    assert!(sent.headers("Via")[0].starts_with("SIP/2.0/UDP [2001:db8::1]:5060;"));
    assert_eq!(sent.headers("Record-Route").len(), 2, "each side reaches us by its own address");
}

/// Fields of the responses that alice receives.
#[test]
fn only_our_via_is_removed_from_responses() {
    let mut world = with_bob();
    let sent = forwarded(world.udp(ALICE, &invite("sip:bob@example.org")));
    assert!(world.udp(BOB, &sent.answer(100, &[])).is_empty(), "100 is hop by hop");
    let ringing = sent.answer(183, &["X-Mine:  a ,\tb"]);
    let passed: Sent = only(world.udp(BOB, &ringing));
    let ours = format!("Via: {}\r\n", sent.headers("Via")[0]);
    assert_eq!(passed.text(), String::from_utf8(ringing).unwrap().replace(&ours, ""));
    assert_eq!(passed.to(), ALICE);
    assert_eq!(world.server.counters().stray, 0);
}

#[test]
fn responses_with_other_vias_are_dropped() {
    let mut world = with_bob();
    let sent = forwarded(world.udp(ALICE, &invite("sip:bob@example.org")));
    let answer = String::from_utf8(sent.answer(200, &[])).unwrap();
    let vias = sent.headers("Via");
    for bad in [
        answer.replace(&format!("Via: {}\r\n", vias[0]), ""),
        answer.replace("branch=z9hG4bK.t0000", "branch=z9hG4bK.t0001"),
        answer.replace("branch=z9hG4bK.t", "branch=z9hG4bK.s"),
        answer.replace("CSeq: 1 INVITE", "CSeq: 1 MESSAGE"),
    ] {
        assert_ne!(bad, answer);
        assert!(world.udp(BOB, &bad.into_bytes()).is_empty());
    }
    assert!(world.server.counters().stray >= 3);
    assert_eq!(only(world.udp(BOB, &answer.into_bytes())).status(), 200, "the valid one is still forwarded");
}
