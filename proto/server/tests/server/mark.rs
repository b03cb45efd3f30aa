//! Tests of Record-Route marks of strangers: a mark reaches the two sides of its dialog during its lifetime, and nothing
//! else.

use crate::challenge::proven;
use crate::harness::{
    ALICE, BOB, CAROL, Request, STRANGER, Sent, World, forwarded, invite, only, request, requests, statuses,
};
use ringway_server::Config;
use std::time::Duration;

const EVE: &str = "sip:eve@example.net";

/// Server with passwords, with bob at 192.0.2.20.
fn world(change: impl FnOnce(&mut Config)) -> World {
    let mut world = World::with(|config| {
        config.auth.enabled = true;
        config.auth.trusted.clear();
        change(config);
    });
    world.server.set_permanent_contacts(b"bob@example.org", &[b"sip:bob@192.0.2.20"]);
    world
}

/// Call of a stranger to bob, who rings: bob's INVITE and the stranger's 180.
fn rings(world: &mut World) -> (Sent, Sent) {
    let call = invite("sip:bob@example.org").from(EVE);
    let call = Request { lines: vec![format!("Contact: <sip:eve@{STRANGER}>")], ..call };
    let got = forwarded(world.udp(STRANGER, &call));
    let ringing = got.answer(180, &["Contact: <sip:bob@192.0.2.20>"]);
    let ringing = only(world.udp(BOB, &ringing));
    (got, ringing)
}

/// Request of the stranger with the mark of its dialog.
fn with_mark(method: &str, target: &str, cseq: u32, ringing: &Sent) -> Request {
    let mut request = request(method, target).from(EVE).to(&ringing.header("To")).cseq(cseq);
    request.lines = vec![format!("Route: {}", ringing.header("Record-Route"))];
    request
}

#[test]
fn a_mark_is_no_relay() {
    let methods =
        ["ACK", "BYE", "INFO", "UPDATE", "PRACK", "INVITE", "MESSAGE", "REFER", "NOTIFY", "OPTIONS"];
    let targets = [
        "sip:127.0.0.1:8060;transport=tcp",
        "sip:127.0.0.1:22",
        "sip:10.0.0.1",
        "sip:192.0.2.77",
        "sip:192.0.2.20:5061",
        "sip:192.0.2.20:5060;transport=tcp",
        "sip:x@203.0.113.66:80;transport=tcp",
    ];
    for in_dialog in [false, true] {
        let mut world = world(|config| config.auth.in_dialog = in_dialog);
        let (_, ringing) = rings(&mut world);
        let mut cseq = 1;
        for method in methods {
            for target in targets {
                cseq += 1;
                let sent = world.udp(STRANGER, &with_mark(method, target, cseq, &ringing));
                assert!(requests(sent).is_empty(), "{method} to {target}, in_dialog = {in_dialog}");
                assert!(world.lookups.is_empty());
                // A further Route does not change the next hop either.
                cseq += 1;
                let mut routed = with_mark(method, "sip:bob@192.0.2.20", cseq, &ringing);
                routed.lines.push(format!("Route: <{target};lr>"));
                assert!(requests(world.udp(STRANGER, &routed)).is_empty(), "{method} by Route to {target}");
            }
        }
    }
}

#[test]
fn a_mark_reaches_the_other_side_with_the_methods_of_a_call() {
    for in_dialog in [false, true] {
        let mut world = world(|config| config.auth.in_dialog = in_dialog);
        let (_, ringing) = rings(&mut world);
        for (cseq, method) in (2..).zip(["PRACK", "UPDATE", "INFO", "INVITE", "OPTIONS", "BYE", "ACK"]) {
            let sent = world.udp(STRANGER, &with_mark(method, "sip:bob@192.0.2.20", cseq, &ringing));
            let sent = forwarded(sent);
            assert_eq!(sent.to(), BOB, "{method}");
            world.udp(BOB, &sent.answer(200, &[]));
        }
    }
}

/// The Contact of a caller without a password is not a destination.
#[test]
fn a_strangers_contact_is_not_dialled() {
    for contact in ["sip:eve@127.0.0.1:8060;transport=tcp", "sip:eve@10.0.0.1", "sip:eve@203.0.113.66:22"] {
        let mut world = world(|_| {});
        let call = Request {
            lines: vec![format!("Contact: <{contact}>")],
            ..invite("sip:bob@example.org").from(EVE)
        };
        let got = forwarded(world.udp(STRANGER, &call));
        let answer = got.answer(200, &["Contact: <sip:bob@192.0.2.20>"]);
        let ringing = only(world.udp(BOB, &answer));
        let mut bye = request("BYE", contact).to(&got.header("From")).cseq(2);
        bye.from = ringing.header("To");
        bye.via = format!("SIP/2.0/UDP {BOB};rport;branch=z9hG4bK");
        bye.lines = vec![format!("Route: {}", got.header("Record-Route"))];
        // It goes to the destination of the responses to the caller.
        assert_eq!(forwarded(world.udp(BOB, &bye)).to(), STRANGER, "{contact}");
    }
}

#[test]
fn a_mark_expires_unless_the_dialog_is_refreshed() {
    let mut world = world(|config| config.dialog_lifetime = Duration::from_secs(1000));
    let (_, ringing) = rings(&mut world);
    let update = |cseq| with_mark("UPDATE", "sip:bob@192.0.2.20", cseq, &ringing);
    let info = |cseq| with_mark("INFO", "sip:bob@192.0.2.20", cseq, &ringing);
    world.pass(Duration::from_secs(900));
    assert_eq!(forwarded(world.udp(STRANGER, &update(2))).to(), BOB, "a target refresh");
    world.pass(Duration::from_secs(900));
    assert_eq!(forwarded(world.udp(STRANGER, &info(3))).to(), BOB, "it was refreshed");
    world.pass(Duration::from_secs(200));
    for (cseq, method) in (4..).zip(["INFO", "BYE", "INVITE", "ACK"]) {
        let late = with_mark(method, "sip:bob@192.0.2.20", cseq, &ringing);
        assert!(requests(world.udp(STRANGER, &late)).is_empty(), "{method} after the end");
    }
}

#[test]
fn a_user_of_ours_reaches_a_moved_remote_target_with_its_password() {
    let mut world = world(|_| {});
    let call = invite("sip:bob@example.org");
    let got = forwarded(proven(&mut world, ALICE, &call, "alice"));
    let ringing = only(world.udp(BOB, &got.answer(200, &["Contact: <sip:bob@192.0.2.20>"])));
    let mut bye = request("BYE", "sip:bob@192.0.2.77").to(&ringing.header("To")).cseq(9);
    bye.lines = vec![format!("Route: {}", ringing.header("Record-Route"))];
    assert_eq!(statuses(&world.udp(ALICE, &bye)), [407]);
    assert_eq!(forwarded(proven(&mut world, ALICE, &bye.cseq(10), "alice")).to(), "192.0.2.77:5060");
}

/// A trunk responds from one address and has another as its contact: the caller's mark reaches that.
#[test]
fn the_remote_target_of_a_trunk_may_be_another_public_address() {
    for (contact, reached) in [
        ("sip:gw@192.0.2.78:5062", true),
        ("sip:gw@192.0.2.77:5099", true),
        ("sip:gw@127.0.0.1:8060;transport=tcp", false),
        ("sip:gw@10.0.0.7", false),
    ] {
        for stateful in [true, false] {
            let mut world = world(|config| config.stateful = stateful);
            let call = invite("sip:gw@192.0.2.77");
            let got = forwarded(proven(&mut world, ALICE, &call, "alice"));
            let answer = got.answer(200, &[&format!("Contact: <{contact}>")]);
            let ringing = only(world.udp("192.0.2.77:5060", &answer));
            let mut ack = request("ACK", contact).to(&ringing.header("To")).cseq(got_cseq(&got));
            ack.lines = vec![format!("Route: {}", ringing.header("Record-Route"))];
            let sent = world.udp(ALICE, &ack);
            assert_eq!(!requests(sent).is_empty(), reached, "{contact}, stateful = {stateful}");
            // The trunk still has its first mark.
            let mut bye = request("BYE", &format!("sip:alice@{ALICE}")).to(&got.header("From")).cseq(3);
            bye.from = ringing.header("To");
            bye.lines = vec![format!("Route: {}", got.header("Record-Route"))];
            assert_eq!(forwarded(world.udp("192.0.2.77:5060", &bye)).to(), ALICE);
        }
    }
}

/// A trunk has a host name as its contact: the mark reaches that name, at any public address of it.
#[test]
fn the_remote_target_of_a_trunk_may_be_a_host_name() {
    for (address, reached) in [
        ("192.0.2.78", true),
        ("192.0.2.77", true),
        ("127.0.0.1", false),
        ("10.0.0.7", false),
        ("169.254.169.254", false),
        ("::1", false),
        ("::ffff:127.0.0.1", false),
        ("192.0.2.1", false),
    ] {
        for (stateful, method) in [(true, "ACK"), (false, "ACK"), (true, "BYE"), (false, "BYE")] {
            let mut world = world(|config| config.stateful = stateful);
            let (got, ringing) = call_to_name(&mut world);
            let to_name = |uri: &str, cseq| Request {
                lines: vec![format!("Route: {}", ringing.header("Record-Route"))],
                ..request(method, uri).to(&ringing.header("To")).cseq(cseq)
            };
            for (cseq, other) in
                (7..).zip(["sip:gw@other.example.net:5062", "sip:gw@a.example.net", "sip:gw@192.0.2.78:5062"])
            {
                assert!(requests(world.udp(ALICE, &to_name(other, cseq))).is_empty(), "{method} to {other}");
                assert!(world.lookups.is_empty(), "{method} to {other}");
            }
            let tcp = to_name("sip:gw@a.example.net:5062;transport=tcp", 10);
            assert!(requests(world.udp(ALICE, &tcp)).is_empty() && world.lookups.is_empty());
            let cseq = if method == "ACK" { got_cseq(&got) } else { 11 };
            assert!(requests(world.udp(ALICE, &to_name("sip:gw@A.example.net:5062", cseq))).is_empty());
            let sent = requests(world.resolve("A.example.net", Some(address)));
            let to: Vec<String> = sent.iter().map(Sent::to).collect();
            let expected = if reached { vec![format!("{address}:5062")] } else { vec![] };
            assert_eq!(to, expected, "{method}, stateful = {stateful}");
        }
    }
}

/// Call of alice to a trunk whose contact is a host name: the trunk's INVITE and alice's 200.
fn call_to_name(world: &mut World) -> (Sent, Sent) {
    let got = forwarded(proven(world, ALICE, &invite("sip:gw@192.0.2.77"), "alice"));
    let answer = got.answer(200, &["Contact: <sip:gw@a.example.net:5062>"]);
    let ringing = only(world.udp("192.0.2.77:5060", &answer));
    (got, ringing)
}

/// In a private network a name reaches the private address at which the callee was called, and no other.
#[test]
fn the_name_of_a_private_host_leads_to_where_it_was_called() {
    for (address, reached) in [("10.0.0.5", true), ("10.0.0.6", false)] {
        let mut world = world(|_| {});
        world.server.set_permanent_contacts(b"bob@example.org", &[b"sip:bob@10.0.0.5"]);
        let got = forwarded(world.udp(STRANGER, &invite("sip:bob@example.org").from(EVE)));
        let ringing = only(world.udp("10.0.0.5:5060", &got.answer(200, &["Contact: <sip:bob@pbx.lan>"])));
        assert!(world.udp(STRANGER, &with_mark("ACK", "sip:bob@pbx.lan", 1, &ringing)).is_empty());
        assert_eq!(!requests(world.resolve("pbx.lan", Some(address))).is_empty(), reached, "{address}");
    }
}

fn got_cseq(got: &Sent) -> u32 {
    got.header("CSeq").split(' ').next().unwrap().parse().unwrap()
}

#[test]
fn a_strangers_claims_of_identity_are_removed() {
    let claims = [
        "P-Asserted-Identity: <sip:ceo@example.org>",
        "Remote-Party-ID: <sip:ceo@example.org>;party=calling",
        "Alert-Info: <http://example.net/ring>",
        "Call-Info: <http://example.net/photo>;purpose=icon",
    ];
    let mut world = world(|_| {});
    let call = claims.iter().fold(invite("sip:bob@example.org").from(EVE), |call, line| call.line(line));
    let names = ["P-Asserted-Identity", "Remote-Party-ID", "Alert-Info", "Call-Info"];
    let got = forwarded(world.udp(STRANGER, &call));
    assert!(names.iter().all(|name| got.headers(name).is_empty()), "{}", got.text());
    let call = claims.iter().fold(invite("sip:bob@example.org").call_id("own"), |call, line| call.line(line));
    let got = forwarded(proven(&mut world, ALICE, &call, "alice"));
    let kept = names.map(|name| got.headers(name).len());
    assert_eq!(kept, [0, 0, 1, 1], "a phone with a password asserts no identity (RFC 3325 §5)");
}

/// A response is only accepted from the next hop of its request.
#[test]
fn a_response_from_elsewhere_is_dropped() {
    for stateful in [true, false] {
        let mut world = world(|config| config.stateful = stateful);
        let got = forwarded(world.udp(STRANGER, &invite("sip:bob@example.org").from(EVE)));
        for from in [CAROL, STRANGER, ALICE] {
            assert!(world.udp(from, &got.answer(200, &[])).is_empty(), "from {from}");
        }
        assert_eq!(world.server.counters().responses_from_elsewhere, 3);
        assert_eq!(only(world.udp(BOB, &got.answer(180, &[]))).status(), 180);
    }
    let mut world = world(|_| {});
    let got = forwarded(world.udp(STRANGER, &invite("sip:bob@example.org").from(EVE)));
    let answer = String::from_utf8(got.answer(200, &[])).unwrap();
    let filled = answer.replacen(";rport;", ";rport=5060;received=192.0.2.1;", 1).into_bytes();
    assert!(
        world.udp("192.0.2.20:6000", &filled).is_empty(),
        "a peer that fills in rport answers from its port"
    );
    assert_eq!(
        only(world.udp("192.0.2.20:6000", &answer.into_bytes())).status(),
        200,
        "another one need not"
    );
}

/// A mark does not open a transaction: a request that does not reach its side is refused without one.
#[test]
fn refusals_of_a_mark_holder_keep_nothing() {
    let mut world = world(|_| {});
    let (_, ringing) = rings(&mut world);
    let before = world.server.transactions_len();
    for cseq in 2..2000 {
        let sent = world.udp(STRANGER, &with_mark("INVITE", "sip:x@192.0.2.77", cseq, &ringing));
        assert_eq!(only(sent).status(), 403);
        let broad = with_mark("INVITE", "sip:bob@192.0.2.20", cseq + 5000, &ringing).line("Max-Breadth: 0");
        assert_eq!(only(world.udp(STRANGER, &broad)).status(), 440);
    }
    assert_eq!(world.server.transactions_len(), before);
}

/// The mark of a request that the server sends to itself is valid for users only: it does not relay the Request-URI of a
/// strict router, or a name that resolves to this server.
#[test]
fn a_mark_that_leads_to_this_server_is_no_relay_by_name() {
    let mut world = world(|_| {});
    world.server.set_permanent_contacts(b"sales@example.org", &[b"sip:bob@example.org"]);
    let call = invite("sip:sales@example.org").from(EVE);
    let to_itself = forwarded(world.udp(STRANGER, &call));
    assert_eq!(to_itself.to(), "192.0.2.1:5060");
    let mark = to_itself.headers("Record-Route")[0].clone();
    for cseq in 2..6 {
        let mut message = request("MESSAGE", mark.trim_matches(['<', '>'])).from(EVE).cseq(cseq);
        message.to = "<sip:sales@example.org>;tag=any".into();
        message.lines = vec!["Route: <sip:x@evil.example.net>".into()];
        let mut sent = world.udp(STRANGER, &message);
        if !world.lookups.is_empty() {
            sent = world.resolve("evil.example.net", Some("192.0.2.1"));
        }
        for one in requests(sent) {
            assert_eq!(one.to(), "192.0.2.1:5060");
            let again = world.udp("192.0.2.1:5060", &one.bytes);
            assert!(
                world.lookups.is_empty() && requests(again).is_empty(),
                "the second pass is a stranger's"
            );
        }
    }
}

/// A callee that is called through this server cannot name a port of this machine as its remote target.
#[test]
fn a_response_that_comes_from_this_server_moves_no_side() {
    let mut world = world(|_| {});
    world.server.set_permanent_contacts(b"sales@example.org", &[b"sip:bob@example.org"]);
    let first = forwarded(world.udp(STRANGER, &invite("sip:sales@example.org").from(EVE)));
    let second = forwarded(world.udp("192.0.2.1:5060", &first.bytes));
    let answer = second.answer(200, &["Contact: <sip:bob@192.0.2.1:6379;transport=tcp>"]);
    let inner = only(world.udp(BOB, &answer));
    let outer = only(world.udp("192.0.2.1:5060", &inner.bytes));
    let mut info = request("INFO", "sip:bob@192.0.2.1:6379;transport=tcp").from(EVE).cseq(2);
    info.to = outer.header("To");
    info.lines = outer.headers("Record-Route").iter().rev().map(|route| format!("Route: {route}")).collect();
    for lines in [info.lines.clone(), info.lines[..1].to_vec()] {
        let info = Request { lines, ..info.clone() };
        assert!(requests(world.udp(STRANGER, &info)).is_empty());
    }
}

/// Connections are numbered from the start of the server: a number in an old mark is another connection's now.
#[test]
fn a_connection_of_before_a_restart_is_not_one_of_now() {
    let mut world = world(|config| config.auth.enabled = false);
    world.register_tcp(5, "carol", "192.0.2.30:40000", "<sip:carol@10.0.0.30;transport=tcp>");
    let call = Request {
        lines: vec![format!("Contact: <sip:eve@{STRANGER}>")],
        ..invite("sip:carol@example.org").from(EVE)
    };
    let got = forwarded(world.udp(STRANGER, &call));
    let ringing = only(world.tcp(
        5,
        "192.0.2.30:40000",
        &got.answer(200, &["Contact: <sip:carol@10.0.0.30;transport=tcp>"]),
    ));
    let mut bye = request("BYE", "sip:carol@10.0.0.30;transport=tcp").from(EVE).to(&ringing.header("To"));
    bye.lines = ringing.headers("Record-Route").iter().rev().map(|route| format!("Route: {route}")).collect();
    let mut later = World::closed_restarted(world.now + Duration::from_secs(5));
    // After it a binding of carol is looked up, and she has none.
    let to_itself = forwarded(later.udp(STRANGER, &bye.clone().cseq(2)));
    assert_eq!((to_itself.to().as_str(), to_itself.flow.connection), ("192.0.2.1:5060", None));
    assert_eq!(only(later.udp("192.0.2.1:5060", &to_itself.bytes)).status(), 480, "after the restart");
    let sent = forwarded(world.udp(STRANGER, &bye.cseq(3)));
    assert_eq!(sent.flow.connection.map(|connection| connection.0), Some(5), "before it");
}

/// More than a thousand calls of one trunk end within half a minute.
#[test]
fn requests_in_dialogs_of_a_trusted_proxy_are_not_counted_as_a_strangers() {
    let mut world = world(|config| config.auth.trusted = vec!["203.0.113.0/24".parse().unwrap()]);
    let (_, ringing) = rings(&mut world);
    for cseq in 2..6000 {
        let bye = with_mark("BYE", "sip:bob@192.0.2.20", cseq, &ringing);
        let bye = bye.line("P-Asserted-Identity: <sip:x@example.net>");
        let sent = forwarded(world.udp(STRANGER, &bye));
        assert_eq!((sent.to().as_str(), sent.headers("P-Asserted-Identity").len()), (BOB, 1));
        world.udp(BOB, &sent.answer(200, &[]));
    }
}
