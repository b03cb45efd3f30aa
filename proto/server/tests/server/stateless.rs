//! Tests of stateless forwarding (RFC 3261 §16.11): nothing is stored, and the branch has all that is needed.

use crate::challenge::proven;
use crate::harness::{
    ALICE, BOB, EDGE, Request, STRANGER, Sent, Wire, World, forwarded, invite, only, request, statuses,
};
use ringway_sansio::ConnectionId;
use std::time::Duration;

fn world() -> World {
    let mut world = World::with(|config| config.stateful = false);
    world.register("bob", BOB, "<sip:bob@192.0.2.20>");
    world
}

fn our_branch(sent: &Sent) -> String {
    let via = sent.headers("Via")[0].clone();
    via.split("branch=").nth(1).unwrap().into()
}

#[test]
fn an_invite_its_retransmission_its_ack_and_its_cancel_have_one_branch() {
    for lines in [
        &[][..],
        &["Route: <sip:192.0.2.1;lr>"],
        &["Proxy-Authorization: Digest username=\"a\", realm=\"x\", nonce=\"n\", uri=\"u\", response=\"r\""],
        &["Proxy-Authenticate: x"],
    ] {
        let mut world = world();
        let mut call = invite("sip:bob@example.org");
        call.lines.extend(lines.iter().map(|&line| line.to_owned()));
        let got = only(world.udp(ALICE, &call));
        assert_eq!(
            (got.method().as_str(), got.to().as_str(), got.uri().as_str()),
            ("INVITE", BOB, "sip:bob@192.0.2.20")
        );
        assert_eq!(only(world.udp(ALICE, &call)).bytes, got.bytes, "no 100, and nothing is stored");
        let refused = only(world.udp(BOB, &got.answer(486, &[])));
        assert_eq!((refused.status(), refused.to().as_str()), (486, ALICE));
        let ack = only(world.udp(ALICE, &call.ack_of(&refused)));
        assert_eq!(
            (ack.method().as_str(), ack.uri(), our_branch(&ack)),
            ("ACK", got.uri(), our_branch(&got))
        );
        let cancel = only(world.udp(ALICE, &call.cancel()));
        assert_eq!(
            (cancel.method().as_str(), cancel.uri(), our_branch(&cancel)),
            ("CANCEL", got.uri(), our_branch(&got))
        );
        assert_eq!(
            only(world.udp(BOB, &cancel.answer(200, &[]))).to(),
            ALICE,
            "the response to CANCEL is forwarded too"
        );
        assert_eq!((world.server.transactions_len(), world.server.contexts_len()), ((0, 0), 0));
    }
}

#[test]
fn other_requests_have_other_branches() {
    let mut world = world();
    let call = invite("sip:bob@example.org");
    let first = our_branch(&only(world.udp(ALICE, &call)));
    for other in [
        call.clone().cseq(2),
        call.clone().call_id("2"),
        call.clone().via(&format!("SIP/2.0/UDP {ALICE};branch=z9hG4bKx")),
    ] {
        assert_ne!(our_branch(&only(world.udp(ALICE, &other))), first);
    }
    assert_ne!(
        our_branch(&only(world.udp("192.0.2.10:7777", &call))),
        first,
        "it has the destination of the response"
    );
}

#[test]
fn answers_go_where_the_via_says_and_we_were_asked_from() {
    for (via, from, to) in [
        ("SIP/2.0/UDP 192.0.2.10:5070;branch=z9hG4bK", "192.0.2.10:40000", "192.0.2.10:5070"),
        ("SIP/2.0/UDP 10.0.0.1:5070;branch=z9hG4bK", "192.0.2.10:40000", "192.0.2.10:5070"),
        ("SIP/2.0/UDP 10.0.0.1:5070;rport;branch=z9hG4bK", "192.0.2.10:40000", "192.0.2.10:40000"),
        ("SIP/2.0/UDP phone.example.net;branch=z9hG4bK", "192.0.2.10:40000", "192.0.2.10:5060"),
    ] {
        let mut world = world();
        let got = only(world.udp(from, &invite("sip:bob@example.org").via(via)));
        for status in [100, 180, 200, 200, 486] {
            let back = only(world.udp(BOB, &got.answer(status, &[])));
            assert_eq!((back.status(), back.to().as_str(), back.headers("Via").len()), (status, to, 1));
        }
    }
}

#[test]
fn an_answer_finds_the_connection_of_its_request() {
    let mut world = world();
    let got = only(world.tcp(77, "192.0.2.10:40000", &invite("sip:bob@example.org").tcp()));
    let back = only(world.udp(BOB, &got.answer(200, &[])));
    assert_eq!((back.status(), back.flow.connection), (200, Some(ConnectionId(77))));
}

#[test]
fn a_response_with_a_forged_via_is_dropped() {
    let mut world = world();
    let got = only(world.udp(ALICE, &invite("sip:bob@example.org")));
    let answer = String::from_utf8(got.answer(200, &[])).unwrap();
    for bad in [
        answer.replace("received=192.0.2.10", "received=203.0.113.1"),
        answer.replace("rport=5060", "rport=25"),
        answer.replace("Call-ID: call", "Call-ID: other"),
        answer.replace("tag=from-alice", "tag=x"),
        answer.replace("CSeq: 1 ", "CSeq: 2 "),
        answer.replace("branch=z9hG4bK.s0", "branch=z9hG4bK.s1"),
        answer
            .replacen("Via: SIP/2.0/UDP 192.0.2.10", "Via: SIP/2.0/UDP 255.255.255.255;x=192.0.2.10", 1)
            .replace("received=192.0.2.10;", "")
            .replace(";received=192.0.2.10", ""),
    ] {
        assert_ne!(bad, answer);
        assert!(world.udp(BOB, &bad.clone().into_bytes()).is_empty(), "{bad}");
    }
    assert_eq!(world.server.counters().stray, 7);
}

#[test]
fn the_preferred_target_alone_is_called() {
    let mut world = world();
    let through = "Via: SIP/2.0/UDP 192.0.2.99;branch=z9hG4bKx";
    let contacts = "<sip:c@192.0.2.31>;q=0.3, <sip:c@192.0.2.32>;q=0.9";
    let request = crate::harness::register("carol", contacts).line(through);
    assert_eq!(only(world.udp("192.0.2.99:5060", &request)).status(), 200);
    assert_eq!(only(world.udp(ALICE, &invite("sip:carol@example.org"))).to(), "192.0.2.32:5060");
}

#[test]
fn requests_without_a_target_are_refused_statelessly() {
    let mut world = world();
    for (uri, status) in [
        ("sip:ghost@example.org", 404),
        ("sip:carol@example.org", 480),
        ("tel:+1", 416),
        ("sip:x@192.0.2.9;transport=sctp", 480),
    ] {
        let call = invite(uri).call_id(uri).to("<sip:x@example.org>");
        let refused = only(world.udp(ALICE, &call));
        assert_eq!(refused.status(), status);
        assert_eq!(only(world.udp(ALICE, &call)).bytes, refused.bytes, "the same again");
        assert!(world.udp(ALICE, &call.ack_of(&refused)).is_empty(), "the ACK matches by its tag");
    }
    assert_eq!(world.server.transactions_len(), (0, 0));
    assert!(world.pass(Duration::from_secs(120)).is_empty());
}

#[test]
fn a_target_with_a_name_is_looked_up_and_little_is_kept_meanwhile() {
    let mut world = world();
    world.register("carol", EDGE, "<sip:carol@phone.example.net:5070>");
    let call = invite("sip:carol@example.org");
    assert!(world.udp(ALICE, &call).is_empty());
    let got = only(world.resolve("phone.example.net", Some("192.0.2.30")));
    assert_eq!(
        (got.to().as_str(), got.uri().as_str()),
        ("192.0.2.30:5070", "sip:carol@phone.example.net:5070")
    );
    assert_eq!(only(world.udp("192.0.2.30:5070", &got.answer(200, &[]))).to(), ALICE);
    assert!(world.udp(ALICE, &call).is_empty());
    assert_eq!(only(world.resolve("phone.example.net", None)).status(), 480);
    assert!(world.udp(ALICE, &call).is_empty());
    assert_eq!(only(world.resolve("phone.example.net", Some("224.0.0.1"))).status(), 480);
    for number in 0..1024 {
        assert!(world.udp(ALICE, &call.clone().call_id(&number.to_string())).is_empty());
    }
    assert_eq!(only(world.udp(ALICE, &call.clone().call_id("one more"))).status(), 503);
    assert_eq!((world.lookups.len(), world.server.counters().overflow), (1024, 1));
    assert_eq!(only(world.resolve("phone.example.net", Some("192.0.2.30"))).method(), "INVITE");
    assert!(world.udp(ALICE, &call.call_id("yet another")).is_empty(), "there is room again");
}

#[test]
fn a_dialog_stays_on_our_path_without_state_too() {
    let mut world = world();
    let got = only(world.udp(ALICE, &invite("sip:bob@example.org")));
    let answer = only(world.udp(BOB, &got.answer(200, &[])));
    let route = format!("Route: {}", answer.header("Record-Route"));
    for method in ["ACK", "INVITE", "BYE"] {
        let request = request(method, "sip:bob@192.0.2.20").to(&answer.header("To")).cseq(2).line(&route);
        let sent = only(world.udp(ALICE, &request));
        assert_eq!((sent.to().as_str(), sent.headers("Route").len()), (BOB, 0));
    }
}

#[test]
fn a_loop_is_found_without_state_too() {
    let mut world = world();
    let got = only(world.udp(ALICE, &invite("sip:bob@example.org")));
    let back = got.text().replace("INVITE sip:bob@192.0.2.20", "INVITE sip:bob@example.org");
    assert_eq!(only(world.udp(BOB, &back.into_bytes())).status(), 482);
}

#[test]
fn requests_are_challenged_and_those_that_cannot_be_are_not_relayed() {
    let mut world = World::with(|config| {
        config.stateful = false;
        config.auth.enabled = true;
    });
    let call = invite("sip:x@192.0.2.88");
    let got = forwarded(proven(&mut world, ALICE, &call, "alice"));
    assert_eq!(got.to(), "192.0.2.88:5060");
    let answered = call.cseq(2);
    let refused = only(world.udp("192.0.2.88:5060", &got.answer(486, &[])));
    assert_eq!(statuses(std::slice::from_ref(&refused)), [486]);
    // Any client can write a user of ours into an ACK or a CANCEL.
    assert!(world.udp(ALICE, &answered.ack_of(&refused)).is_empty());
    assert_eq!(statuses(&world.udp(ALICE, &answered.cancel())), [403]);
    for method in ["ACK", "CANCEL"] {
        let strange =
            Request { method: method.into(), ..invite("sip:x@192.0.2.88").from("sip:eve@example.net") };
        assert!(
            world.udp(STRANGER, &strange).iter().all(|sent| sent.status() == 403),
            "{}",
            strange.wire().len()
        );
    }
}
