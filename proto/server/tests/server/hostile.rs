//! Tests with malformed bytes: every message truncated and changed at every byte, and noise. The server does not panic,
//! its state is bounded and removed, and it still works.

use crate::challenge::{Login, answered};
use crate::harness::{
    ALICE, BOB, EDGE, STRANGER, Wire, World, forwarded, invite, only, query, register, request, tcp_flow,
};
use crate::torture_valid::TESTER;
use ringway_sansio::{ConnectionId, Event, Flow, Framer, ListenerId, LocatedServers, Node, Rng, Seed, Token};
use ringway_server::{Mode, Server, SipFramer};
use std::time::Duration;

/// Messages for every part of the server, in an order in which each is valid.
fn good_messages(world: &mut World) -> Vec<Vec<u8>> {
    let mut messages: Vec<Vec<u8>> = Vec::new();
    let registration =
        register("bob", "<sip:bob@192.0.2.20>;q=0.5;x=\"y\", <sip:bob@name.example.net>;q=0.5")
            .line("Expires: 90");
    messages.push(registration.wire());
    messages.push(query("bob").line("Contact: *").line("Expires: 0").call_id("star").wire());
    world.udp(EDGE, &registration);
    let call = invite("sip:bob@example.org")
        .line("Route: <sip:192.0.2.1;lr>, \"x\" <sip:192.0.2.1>")
        .line("Record-Route: <sip:192.0.2.3;lr>")
        .line("Proxy-Authorization: Digest username=\"a\", realm=\"b\", nonce=\"c\", uri=\"d\", response=\"e\", qop=auth")
        .line("Timestamp: 5");
    messages.push(call.wire());
    messages.push(invite("sip:bob@example.org").call_id("r").line("Proxy-Require: a, b").wire());
    messages.push(request("OPTIONS", "sip:example.org").line("Require: x").wire());
    messages.push(request("MESSAGE", "sip:x@[2001:db8::5]:5061;transport=tcp;maddr=1.2.3.4").wire());
    let got = forwarded(world.udp(ALICE, &call));
    for status in [100, 183, 200, 302, 401, 486, 503, 603] {
        let lines = ["Contact: <sip:bob@192.0.2.20>", "WWW-Authenticate: Digest realm=\"x\", nonce=\"y\""];
        messages.push(got.answer(status, &lines));
    }
    messages.push(call.cancel().wire());
    let bye = request("BYE", "sip:192.0.2.1;lr;rw=0123456789abcdef.1.2").to("<sip:bob@example.org>;tag=1");
    messages
        .push(bye.line(&format!("Route: {}, <sip:bob@192.0.2.20>", got.headers("Record-Route")[0])).wire());
    messages.push(request("ACK", "sip:bob@name.example.net").to("<sip:bob@example.org>;tag=1").wire());
    messages
}

/// Servers in every mode.
fn worlds() -> Vec<World> {
    vec![
        World::open(),
        World::closed(),
        World::with(|config| config.stateful = false),
        World::with(|config| {
            config.mode = Mode::Redirect;
            config.auth.enabled = true;
        }),
    ]
}

/// All state ends: a peer cannot make the server keep anything for ever.
#[track_caller]
fn calms_down(world: &mut World) {
    world.pass(Duration::from_secs(2 * 7200));
    for (query, _) in std::mem::take(&mut world.lookups) {
        world.event(Event::Resolved { query, servers: LocatedServers::NONE });
    }
    world.pass(Duration::from_secs(600));
    let server = &world.server;
    assert_eq!((server.transactions_len(), server.contexts_len()), ((0, 0), 0));
    assert_eq!((server.location().users_len(), server.location().bindings_len()), (0, 0));
    assert_eq!(server.next_deadline(), None, "no timer is left");
    world.still_answers();
}

#[test]
fn every_good_message_is_truncated_at_every_byte() {
    for mut world in worlds() {
        for message in good_messages(&mut World::open()) {
            for len in 0..=message.len() {
                world.udp(ALICE, &message[..len].as_ref());
                world.tcp(9, STRANGER, &message[..len].as_ref());
            }
        }
        calms_down(&mut world);
    }
}

#[test]
fn every_good_message_is_changed_at_every_byte() {
    for mut world in worlds() {
        for message in good_messages(&mut World::open()) {
            for at in 0..message.len() {
                for bend in
                    [message[at] ^ 1, message[at] ^ 0x20, 0, b'\r', b'\n', b'"', b'<', b'%', b';', b'@', 0xff]
                {
                    let mut bent = message.clone();
                    bent[at] = bend;
                    let from = if at % 2 == 0 { ALICE } else { BOB };
                    world.udp(from, &bent);
                }
            }
            world.pass(Duration::from_secs(1));
        }
        calms_down(&mut world);
    }
}

#[test]
fn a_password_that_was_proven_is_invalid_for_others_with_any_byte_changed() {
    let mut world = World::closed();
    let request = register("bob", "<sip:bob@192.0.2.20>");
    let challenge = only(world.udp(BOB, &request));
    let good = answered(&request, &Login::to(&challenge, "bob")).wire();
    for at in 0..good.len() {
        for bit in 0..8 {
            let mut bent = good.clone();
            bent[at] ^= 1 << bit;
            world.udp(BOB, &bent);
        }
    }
    let whose: Vec<_> = world.server.location().iter().map(|found| found.to_owned().aor).collect();
    assert!(whose.iter().all(|aor| aor == b"bob@example.org"), "{whose:?}");
    calms_down(&mut world);
}

#[test]
fn noise_is_counted_and_answered_little() {
    let mut rng = Rng::new(&Seed::from_number(4475));
    let words: Vec<&[u8]> = vec![
        b"INVITE ",
        b"REGISTER ",
        b"sip:",
        b"bob@example.org",
        b" SIP/2.0\r\n",
        b"SIP/2.0 200 OK\r\n",
        b"Via: ",
        b"SIP/2.0/UDP ",
        b"192.0.2.9",
        b";branch=z9hG4bK",
        b"\r\n",
        b"From: ",
        b"To: ",
        b"<",
        b">",
        b";tag=",
        b"Call-ID: ",
        b"CSeq: 1 INVITE\r\n",
        b"Content-Length: ",
        b"99",
        b"-1",
        b",",
        b"\"",
        b"\\",
        b"%",
        b"%00",
        b"\0",
        b"\r\n\r\n",
        b"Contact: *",
        b"Expires: 0",
        b"Route: ",
        b"?",
        b";lr",
        b"[::1]",
        b":",
        b"Authorization: Digest ",
        b"=",
        b" ",
        b"\t",
        b"\r",
        b"\n",
        b"Max-Forwards: ",
    ];
    let mut world = World::open();
    let mut bytes = Vec::new();
    for round in 0..100_000_u32 {
        bytes.clear();
        for _ in 0..rng.below(40) {
            match rng.below(4) {
                0 => bytes.push(rng.below(256) as u8),
                _ => bytes.extend_from_slice(words[rng.below(words.len() as u64) as usize]),
            }
        }
        let sent = world.udp(TESTER, &bytes);
        assert!(sent.len() <= 2, "round {round}: {sent:?}");
        let key = ringway_sansio::ShardKey::new(&Seed::from_number(1));
        assert!(Server::shard_of(&key, &bytes, 7) < 7);
    }
    let counters = world.server.counters();
    let rejected: u64 = counters.rejected.iter().sum();
    assert!(rejected > 90_000, "{counters:?}");
    calms_down(&mut world);
}

#[test]
fn each_reason_is_counted_by_its_own_name() {
    let mut world = World::with(|config| {
        config.message_limits.message_bytes_max = 2000;
        config.message_limits.headers_max = 20;
        config.message_limits.request_uri_bytes_max = 100;
    });
    let good = String::from_utf8(request("OPTIONS", "sip:example.org").wire()).unwrap();
    let many = "X: y\r\n".repeat(20);
    for (status, bad) in [
        (400, good.replace(" SIP/2.0\r\nVia", "\r\nVia")),
        (505, good.replace("SIP/2.0\r\nVia", "SIP/3.0\r\nVia")),
        (400, good.replace("CSeq:", "CSeq")),
        (400, good.replace("CSeq: 1 OPTIONS\r\n", "")),
        (400, good.replace("Call-ID: call\r\n", "Call-ID: call\r\nCall-ID: call\r\n")),
        (400, good.replace("tag=from", "tag==from")),
        (400, good.replace("OPTIONS sip:example.org", "OPTIONS sip:")),
        (400, good.replace("1 OPTIONS", "1 INVITE")),
        (400, good.replace("Content-Length: 0", "Content-Length: 5")),
        (513, format!("{good}{}", "x".repeat(2000))),
        (400, good.replace("Content-Length", &format!("{many}Content-Length"))),
        (414, good.replace("sip:example.org SIP", &format!("sip:{}@example.org SIP", "x".repeat(100)))),
    ] {
        let before = world.server.counters().rejected;
        assert_eq!(only(world.udp(TESTER, &bad.clone().into_bytes())).status(), status, "{bad}");
        let after = world.server.counters().rejected;
        let counted: Vec<_> = (0..before.len()).filter(|&index| after[index] > before[index]).collect();
        assert_eq!(counted.len(), 1);
    }
    assert_eq!(world.server.counters().rejected, [1; 12], "each of them once");
    let mut names = Vec::new();
    world.server.counters().for_each(|name, meaning, _| {
        assert!(!meaning.is_empty());
        names.push(name);
    });
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count, "each counter has its own name");
}

#[test]
fn what_cannot_be_answered_is_dropped() {
    let mut world = World::open();
    let good = String::from_utf8(request("ACK", "sip:example.org").wire()).unwrap();
    for bad in [
        good.replace("CSeq: 1 ACK", "CSeq: x ACK"),
        good.replace("ACK sip", "SIP/2.0 200 OK\r\nsip"),
        good.replace("ACK ", "OPTIONS ").lines().filter(|line| !line.starts_with("Via")).collect(),
        "\r\n\r\n".into(),
        "\0".into(),
        String::new(),
    ] {
        assert!(world.udp(TESTER, &bad.into_bytes()).is_empty());
    }
}

#[test]
fn reports_of_the_transport_about_nothing_of_ours_do_nothing() {
    let mut world = World::open();
    let mut rng = Rng::new(&Seed::from_number(7));
    world.register("bob", BOB, "<sip:bob@192.0.2.20>");
    let got = forwarded(world.udp(ALICE, &invite("sip:bob@example.org")));
    for _ in 0..1000 {
        let token = Token(rng.next_u64());
        assert!(token == got.token || world.event(Event::Unreachable(token)).is_empty());
        assert!(world.event(Event::Closed(ConnectionId(rng.next_u64()))).is_empty());
        assert!(
            world.event(Event::Resolved { query: rng.next_u64(), servers: LocatedServers::NONE }).is_empty()
        );
    }
    assert!(world.event(Event::Unreachable(Token::NONE)).is_empty());
    assert_eq!(only(world.udp(BOB, &got.answer(180, &[]))).status(), 180);
}

#[test]
fn a_flow_of_a_listener_that_is_not_there_does_no_harm() {
    let mut world = World::open();
    for message in good_messages(&mut World::open()) {
        world.message(Flow::udp(ListenerId(200), ALICE.parse().unwrap()), &message);
        world.message(Flow { listener: ListenerId(200), ..tcp_flow(4, STRANGER) }, &message);
    }
    calms_down(&mut world);
}

#[test]
fn a_stream_of_good_messages_is_cut_anywhere() {
    let messages: Vec<_> = good_messages(&mut World::open()).concat();
    let mut rng = Rng::new(&Seed::from_number(3));
    let mut world = World::open();
    for _ in 0..50 {
        let mut framer = SipFramer::new(65_535);
        let mut rest = messages.as_slice();
        while !rest.is_empty() {
            let (now, later) = rest.split_at(rest.len().min(1 + rng.below(700) as usize));
            framer.push(now);
            rest = later;
            while let Some(frame) = framer.next_frame().unwrap() {
                let frame = frame.to_vec();
                world.tcp(5, ALICE, &frame);
            }
        }
        assert!(!framer.is_partial());
    }
    world.event(Event::Closed(ConnectionId(5)));
    calms_down(&mut world);
}

/// Each Route value is compared with all domains.
#[test]
fn a_request_has_thirty_two_routes() {
    let mut world = World::open();
    world.register("bob", BOB, "<sip:bob@192.0.2.20>");
    let routed = |count: usize, call: &str| {
        let routes = vec!["<sip:192.0.2.1;lr>"; count].join(",");
        invite("sip:bob@example.org").call_id(call).line(&format!("Route: {routes}"))
    };
    assert_eq!(forwarded(world.udp(ALICE, &routed(32, "a"))).to(), BOB);
    assert_eq!(only(world.udp(ALICE, &routed(33, "b"))).start(), "SIP/2.0 400 Bad Route");
}
