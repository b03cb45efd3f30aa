//! Tests of hold, resume, and changes by the peer.

use crate::harness::{ALICE, PEER, Sent, Table, answer, in_dialog, invite, media, media_with, sdp, sdp_with};
use ringway_agent::{Account, Action, AgentEvent, CallId, CallState, Ended};
use ringway_sansio::{Event, LocatedServers};
use ringway_sdp::{CryptoSuite, Direction, Protection, SecurityPolicy};

fn hold(table: &mut Table, call: CallId) {
    table.ask(|agent, cx| agent.hold(cx, call)).unwrap();
}

fn resume(table: &mut Table, call: CallId) {
    table.ask(|agent, cx| agent.resume(cx, call)).unwrap();
}

fn contact() -> String {
    format!("Contact: <sip:bob@{PEER}>\r\n")
}

fn accept(table: &mut Table, request: &Sent, attributes: &str) {
    let body = sdp_with("10.0.0.2", 7000, attributes);
    table.receive(PEER, &answer(request, 200, "bob", &contact(), Some(&body)));
}

fn changed_to(table: &mut Table) -> Direction {
    let events = table.events();
    let [AgentEvent::MediaChanged { params, .. }] = events.as_slice() else { panic!("{events:?}") };
    params.direction
}

#[test]
fn hold_and_resume() {
    let mut table = Table::direct();
    let (call, invite) = table.established(&format!("sip:bob@{PEER}"));
    hold(&mut table, call);
    let change = table.only();
    assert_eq!(change.field("CSeq"), Some("2 INVITE"));
    assert!(change.field("To").unwrap().ends_with(";tag=bob"));
    assert!(change.body().contains("a=sendonly"));
    let version = |body: &str| body.lines().find(|line| line.starts_with("o=")).unwrap().to_string();
    assert_ne!(version(change.body()), version(invite.body()));
    accept(&mut table, &change, "a=recvonly\r\n");
    assert_eq!(table.only().field("CSeq"), Some("2 ACK"));
    assert_eq!(changed_to(&mut table), Direction::SendOnly);
    hold(&mut table, call);
    assert!(table.sent().is_empty(), "it is on hold already");
    resume(&mut table, call);
    let change = table.only();
    assert!(!change.body().contains("a=sendonly"));
    accept(&mut table, &change, "a=sendrecv\r\n");
    assert_eq!(changed_to(&mut table), Direction::SendRecv);
}

#[test]
fn a_change_of_mind_is_sent_when_the_first_is_through() {
    let mut table = Table::direct();
    let (call, _) = table.established(&format!("sip:bob@{PEER}"));
    hold(&mut table, call);
    let change = table.only();
    resume(&mut table, call);
    assert!(table.sent().is_empty());
    accept(&mut table, &change, "a=recvonly\r\n");
    let sent = table.sent();
    assert!(sent[0].line().starts_with("ACK ") && sent[1].line().starts_with("INVITE "));
    assert!(!sent[1].body().contains("a=sendonly"));
}

#[test]
fn a_refused_change_leaves_everything_as_it_was() {
    let mut table = Table::direct();
    let (call, _) = table.established(&format!("sip:bob@{PEER}"));
    hold(&mut table, call);
    let change = table.only();
    table.receive(PEER, &answer(&change, 488, "bob", "", None));
    assert!(matches!(table.events().as_slice(), [AgentEvent::ChangeRefused { status: 488, .. }]));
    assert_eq!(table.agent.call_state(call), Some(CallState::Established));
    table.sent();
    hold(&mut table, call);
    accept(&mut table, &change.clone(), "a=recvonly\r\n");
    assert_eq!(
        table.lines().iter().filter(|line| line.starts_with("ACK ")).count(),
        0,
        "an answer to the old one"
    );
}

#[test]
fn a_hold_that_no_request_can_be_made_for_is_reported_and_the_call_stays() {
    let unusable = [
        ("sips:bob@10.0.0.2", "transport"),
        ("sip:bob@10.0.0.2;transport=sctp", "transport"),
        ("sip:bob@0.0.0.0", "address"),
    ];
    for (contact, why) in unusable {
        for hold_is_early in [true, false] {
            let mut table = Table::direct();
            let offer = invite("c", 1, Some(&sdp("10.0.0.2", 7000)))
                .replace("<sip:bob@10.0.0.2:5060>", &format!("<{contact}>"));
            let call = table.ringing(&offer);
            table.ask(|agent, cx| agent.answer(cx, call, media())).unwrap();
            let ok = table.only();
            table.events();
            if hold_is_early {
                hold(&mut table, call);
                assert!(table.events().is_empty(), "it waits for the ACK");
            }
            table.receive(PEER, &in_dialog("ACK", 1, &ok, "", None));
            if !hold_is_early {
                hold(&mut table, call);
            }
            assert!(table.sent().is_empty());
            let events = table.events();
            let [AgentEvent::ChangeRefused { call: of, status: 503, reason }] = events.as_slice() else {
                panic!("{contact}: {events:?}")
            };
            assert!(*of == call && reason.contains(why), "{contact}: {reason}");
            assert_eq!(table.agent.call_state(call), Some(CallState::Established));
            // After a target refresh by the peer the request can be sent.
            table.receive(PEER, &in_dialog("UPDATE", 2, &ok, "", None));
            table.sent();
            assert!(table.events().is_empty());
            hold(&mut table, call);
            assert!(table.only().body().contains("a=sendonly"));
        }
    }
}

fn version(message: &Sent) -> u64 {
    let origin = message.body().lines().find(|line| line.starts_with("o=")).unwrap();
    origin.split(' ').nth(2).unwrap().parse().unwrap()
}

#[test]
fn a_hold_that_finds_no_room_leaves_the_session_as_it_was() {
    for (requests_max, clients_max) in [(2, 512), (128, 2)] {
        let mut table = Table::with(Account::direct("sip:alice@example.org"), |config| {
            config.limits.requests_max = requests_max;
            config.limits.transactions.clients_max = clients_max;
        });
        let (call, first) = table.established(&format!("sip:bob@{PEER}"));
        let target = format!("sip:carol@{PEER}");
        table.ask(|agent, cx| agent.query(cx, ALICE, &target)).unwrap();
        let query = table.only();
        hold(&mut table, call);
        assert!(table.sent().is_empty());
        assert!(matches!(table.events().as_slice(), [AgentEvent::ChangeRefused { status: 503, .. }]));
        table.receive(PEER, &answer(&query, 200, "carol", "", None));
        table.events();
        // The next description that the peer receives has the next version (RFC 3264 §8).
        table.receive(PEER, &in_dialog("INVITE", 1, &first, "", Some(&sdp("10.0.0.2", 7000))));
        let ok = table.only();
        assert_eq!((ok.line(), version(&ok)), ("SIP/2.0 200 OK", version(&first) + 1));
        table.receive(PEER, &in_dialog("ACK", 1, &first, "", None));
        assert_eq!(changed_to(&mut table), Direction::SendRecv);
        table.pass_s(33);
        hold(&mut table, call);
        let change = table.only();
        assert_eq!(version(&change), version(&ok) + 1);
        accept(&mut table, &change, "a=recvonly\r\n");
        assert_eq!(changed_to(&mut table), Direction::SendOnly);
    }
}

#[test]
fn a_hold_whose_host_name_is_unknown_leaves_the_session_as_it_was() {
    let mut table = Table::direct();
    let (call, first) = table.established(&format!("sip:bob@{PEER}"));
    let named =
        in_dialog("UPDATE", 1, &first, "", None).replace("<sip:bob@10.0.0.2:5060>", "<sip:bob@b.example>");
    table.receive(PEER, &named);
    table.sent();
    hold(&mut table, call);
    let [Action::Resolve { query, .. }] = *table.actions.as_slice() else { panic!("{:?}", table.actions) };
    table.event(Event::Resolved { query, servers: LocatedServers::NONE });
    assert!(table.sent().is_empty());
    assert!(matches!(table.events().as_slice(), [AgentEvent::ChangeRefused { status: 503, .. }]));
    table.receive(PEER, &in_dialog("INVITE", 2, &first, "", Some(&sdp("10.0.0.2", 7000))));
    assert_eq!(version(&table.only()), version(&first) + 1);
}

#[test]
fn a_change_of_the_other_side_that_finds_no_room_leaves_the_session_as_it_was() {
    let holds = sdp_with("10.0.0.6", 7008, "a=sendonly\r\n");
    for (method, body) in [("INVITE", Some(&*holds)), ("INVITE", None), ("UPDATE", Some(&*holds))] {
        let mut table = Table::with(Account::direct("sip:alice@example.org"), |config| {
            config.limits.transactions.servers_max = 1;
        });
        let (call, first) = table.established(&format!("sip:bob@{PEER}"));
        table.receive(PEER, &in_dialog("OPTIONS", 1, &first, "", None));
        assert_eq!(table.only().line(), "SIP/2.0 200 OK");
        let theirs = in_dialog(method, 2, &first, "", body)
            .replace("Contact: <sip:bob@10.0.0.2:5060>", "Contact: <sip:bob@10.0.0.6>");
        table.receive(PEER, &theirs);
        assert_eq!(table.only().line(), "SIP/2.0 503 Too Busy");
        assert_eq!(table.events(), [], "{method} {body:?}");
        assert_eq!(table.agent.counters().overflow, 1);
        table.pass_s(33);
        // Our request has the next CSeq, and goes to the target of the last accepted request.
        hold(&mut table, call);
        let change = table.only();
        assert_eq!((version(&change), change.to().as_str()), (version(&first) + 1, PEER));
        accept(&mut table, &change, "a=recvonly\r\n");
        assert_eq!(changed_to(&mut table), Direction::SendOnly);
        table.sent();
        // So does the peer's.
        table.receive(PEER, &in_dialog("INVITE", 3, &first, "", Some(&sdp("10.0.0.2", 7000))));
        let ok = table.only();
        assert_eq!((ok.line(), version(&ok)), ("SIP/2.0 200 OK", version(&change) + 1));
    }
}

#[test]
fn changes_that_meet_are_tried_again_at_different_times() {
    for we_called in [true, false] {
        let mut table = Table::direct();
        let (call, first) =
            if we_called { table.established(&format!("sip:bob@{PEER}")) } else { table.answered() };
        hold(&mut table, call);
        let change = table.only();
        let theirs = in_dialog("INVITE", 5, &first, "", Some(&sdp("10.0.0.2", 7000)));
        table.receive(PEER, &theirs);
        assert_eq!(table.only().line(), "SIP/2.0 491 Request Pending");
        table.receive(PEER, &theirs.replacen("INVITE sip", "ACK sip", 1).replace("5 INVITE", "5 ACK"));
        table.receive(PEER, &answer(&change, 491, "bob", "", None));
        assert!(table.only().line().starts_with("ACK "));
        let begin = table.now;
        while !table.sent().iter().any(|sent| sent.line().starts_with("INVITE ")) {
            table.pass(std::time::Duration::from_millis(10));
            assert!(table.now.since(begin).as_secs() < 10);
        }
        let waited_ms = table.now.since(begin).as_millis();
        let expected = if we_called { 2090..=4020 } else { 0..=2020 };
        assert!(expected.contains(&waited_ms), "{waited_ms} ms, called {we_called}");
    }
}

#[test]
fn glare_without_end_is_given_up() {
    let mut table = Table::direct();
    let (call, _) = table.established(&format!("sip:bob@{PEER}"));
    hold(&mut table, call);
    let mut rounds = 0;
    for _ in 0..20 {
        let Some(change) = table.sent().into_iter().find(|sent| sent.line().starts_with("INVITE ")) else {
            break;
        };
        rounds += 1;
        table.receive(PEER, &answer(&change, 491, "bob", "", None));
        table.sent();
        table.pass_s(5);
    }
    assert_eq!(rounds, 6);
    assert!(matches!(table.events().as_slice(), [AgentEvent::ChangeRefused { status: 491, .. }]));
}

#[test]
fn the_other_side_holds_and_resumes() {
    let mut table = Table::direct();
    let (call, first) = table.established(&format!("sip:bob@{PEER}"));
    let theirs = sdp_with("10.0.0.2", 7000, "a=sendonly\r\n");
    table.receive(PEER, &in_dialog("INVITE", 1, &first, "", Some(&theirs)));
    let ok = table.only();
    assert_eq!(ok.line(), "SIP/2.0 200 OK");
    assert!(ok.body().contains("a=recvonly"));
    let events = table.events();
    let [AgentEvent::MediaChanged { params, .. }, AgentEvent::HeldByPeer { call: held }] = events.as_slice()
    else {
        panic!("{events:?}")
    };
    assert_eq!((params.direction, *held), (Direction::RecvOnly, call));
    table.receive(PEER, &in_dialog("ACK", 1, &first, "", None));
    table.receive(PEER, &in_dialog("INVITE", 2, &first, "", Some(&sdp("10.0.0.2", 7000))));
    let events = table.events();
    assert!(matches!(events.as_slice(), [AgentEvent::MediaChanged { .. }, AgentEvent::ResumedByPeer { .. }]));
    table.sent();
    // Its ACK is lost, and the next change arrives nevertheless.
    table.receive(PEER, &in_dialog("INVITE", 3, &first, "", Some(&sdp("10.0.0.2", 7002))));
    assert_eq!(table.only().line(), "SIP/2.0 200 OK");
}

#[test]
fn a_call_answered_on_hold_is_held_from_the_start() {
    let unspecified = sdp("10.0.0.2", 7000).replace("c=IN IP4 10.0.0.2", "c=IN IP4 0.0.0.0");
    let with = |attribute: &str| sdp_with("10.0.0.2", 7000, attribute);
    for (theirs, is_held) in [
        (with("a=inactive\r\n"), true),
        (with("a=sendonly\r\n"), true),
        (unspecified, true),
        (with("a=recvonly\r\n"), false),
        (with(""), false),
    ] {
        let mut table = Table::direct();
        let (call, first) = table.call(&format!("sip:bob@{PEER}"));
        let contact = format!("Contact: <sip:bob@{PEER}>\r\n");
        table.receive(PEER, &answer(&first, 200, "bob", &contact, Some(&theirs)));
        table.sent();
        let events = table.events();
        let held = matches!(events.as_slice(), [AgentEvent::Answered { .. }, AgentEvent::HeldByPeer { call: of }] if *of == call);
        assert_eq!((held, events.len()), (is_held, 1 + usize::from(is_held)), "{theirs}: {events:?}");
        table.receive(PEER, &in_dialog("INVITE", 1, &first, "", Some(&sdp("10.0.0.2", 7000))));
        let is_back = |event: &AgentEvent| matches!(event, AgentEvent::ResumedByPeer { .. });
        assert_eq!(table.events().iter().any(is_back), is_held, "{theirs}");
    }
}

#[test]
fn a_change_without_an_offer_is_answered_with_ours() {
    let mut table = Table::direct();
    let (call, first) = table.established(&format!("sip:bob@{PEER}"));
    table.receive(PEER, &in_dialog("INVITE", 1, &first, "", None));
    let ok = table.only();
    assert!(ok.body().contains("m=audio 4000"));
    table.receive(PEER, &in_dialog("INVITE", 2, &first, "", Some(&sdp("10.0.0.2", 7000))));
    assert!(table.only().line().starts_with("SIP/2.0 500 "), "the answer is still missing");
    hold(&mut table, call);
    assert!(table.sent().is_empty());
    table.receive(PEER, &in_dialog("ACK", 1, &first, "", Some(&sdp("10.0.0.2", 7010))));
    assert!(matches!(table.events().as_slice(), [AgentEvent::MediaChanged { .. }]));
    assert!(table.only().body().contains("a=sendonly"), "now it may be put on hold");
}

#[test]
fn a_peer_that_takes_srtp_away_is_refused_and_the_call_goes_on() {
    let policy = || SecurityPolicy::Opportunistic {
        suites: vec![CryptoSuite::AesCm128HmacSha1_80],
        hello_hash: None,
        fingerprint: None,
    };
    let crypto = "a=crypto:1 AES_CM_128_HMAC_SHA1_80 inline:WVNfX19zZW1jdGwgKCkgewkyMjA7fQp9CnVubGVz\r\n";
    let mut table = Table::direct();
    let call = table.ringing(&invite("c", 1, Some(&sdp_with("10.0.0.2", 7000, crypto))));
    table.ask(|agent, cx| agent.answer(cx, call, media_with(policy()))).unwrap();
    let ok = table.only();
    let events = table.events();
    let [AgentEvent::Answered { params, .. }] = events.as_slice() else { panic!("{events:?}") };
    assert!(matches!(params.protection, Protection::Sdes { .. }));
    table.receive(PEER, &in_dialog("ACK", 1, &ok, "", None));
    let bare = sdp("10.0.0.2", 7000);
    table.receive(PEER, &in_dialog("INVITE", 2, &ok, "", Some(&bare)));
    assert_eq!(table.only().line(), "SIP/2.0 488 Not Acceptable Here");
    assert!(matches!(table.events().as_slice(), [AgentEvent::OfferRefused { status: 488, .. }]));
    assert_eq!(table.agent.call_state(call), Some(CallState::Established));
    table.receive(PEER, &in_dialog("UPDATE", 3, &ok, "", Some(&bare)));
    assert_eq!(table.only().line(), "SIP/2.0 488 Not Acceptable Here");
    table.events();
    // The user may allow it.
    table.agent.allow_unprotected(call, true).unwrap();
    table.receive(PEER, &in_dialog("INVITE", 4, &ok, "", Some(&bare)));
    assert_eq!(table.only().line(), "SIP/2.0 200 OK");
}

#[test]
fn update_changes_the_session_and_the_target() {
    let mut table = Table::direct();
    let (call, first) = table.established(&format!("sip:bob@{PEER}"));
    let text = in_dialog("UPDATE", 1, &first, "", None)
        .replace("<sip:bob@10.0.0.2:5060>\r\n", "<sip:bob@10.0.0.7>\r\n");
    table.receive(PEER, &text);
    let ok = table.only();
    assert_eq!((ok.line(), ok.body()), ("SIP/2.0 200 OK", ""));
    table.receive(PEER, &in_dialog("UPDATE", 2, &first, "", Some("v=0\r\nnonsense")));
    assert_eq!(table.only().line(), "SIP/2.0 400 Bad Request");
    table.events();
    hold(&mut table, call);
    assert_eq!(table.only().to(), "10.0.0.7:5060", "the refused one changes nothing");
}

#[test]
fn requests_out_of_order_are_refused() {
    let mut table = Table::direct();
    let (_, first) = table.established(&format!("sip:bob@{PEER}"));
    table.receive(PEER, &in_dialog("OPTIONS", 9, &first, "", None));
    assert_eq!(table.only().line(), "SIP/2.0 200 OK");
    table.receive(PEER, &in_dialog("INVITE", 8, &first, "", Some(&sdp("10.0.0.2", 7000))));
    assert_eq!(table.only().line(), "SIP/2.0 500 Out Of Order");
    assert_eq!(table.agent.counters().out_of_order, 1);
}

#[test]
fn silence_after_a_change_ends_the_call_with_a_bye() {
    let mut table = Table::direct();
    let (call, _) = table.established(&format!("sip:bob@{PEER}"));
    hold(&mut table, call);
    table.sent();
    table.pass_s(33);
    assert!(table.lines().iter().any(|line| line.starts_with("BYE ")));
    assert!(matches!(
        table.events().as_slice(),
        [AgentEvent::Ended { cause: Ended { status: 408, .. }, .. }]
    ));
}

#[test]
fn an_answer_to_our_change_that_drops_srtp_ends_the_call() {
    let policy = SecurityPolicy::Sdes { suites: vec![CryptoSuite::AesCm128HmacSha1_80] };
    let mut table = Table::direct();
    let target = format!("sip:bob@{PEER}");
    let call =
        table.ask(|agent, cx| agent.call(cx, crate::harness::ALICE, &target, media_with(policy))).unwrap();
    let first = table.only();
    let crypto = "a=crypto:1 AES_CM_128_HMAC_SHA1_80 inline:WVNfX19zZW1jdGwgKCkgewkyMjA7fQp9CnVubGVz\r\n";
    let secure = sdp_with("10.0.0.2", 7000, crypto).replace("RTP/AVP", "RTP/SAVP");
    table.receive(PEER, &answer(&first, 200, "bob", &contact(), Some(&secure)));
    assert!(matches!(table.events().as_slice(), [AgentEvent::Answered { .. }]));
    table.sent();
    hold(&mut table, call);
    let change = table.only();
    let bare = sdp("10.0.0.2", 7000).replace("RTP/AVP", "RTP/SAVP");
    table.receive(PEER, &answer(&change, 200, "bob", &contact(), Some(&bare)));
    assert!(
        table.lines().iter().any(|line| line.starts_with("BYE ")),
        "no word of SRTP is left out in silence"
    );
    assert!(matches!(table.events().as_slice(), [AgentEvent::Ended { .. }]));
}

#[test]
fn a_change_that_is_never_answered_ends_with_its_call() {
    for does_ring_on in [false, true] {
        let mut table = Table::direct();
        let (call, _) = table.established(&format!("sip:bob@{PEER}"));
        table.ask(|agent, cx| agent.hold(cx, call)).unwrap();
        let change = table.only();
        table.receive(PEER, &answer(&change, 180, "bob", "", None));
        if does_ring_on {
            // The change is given up, so that another one is possible.
            table.pass_s(190);
            let cancel = table.sent().remove(0);
            assert!(cancel.line().starts_with("CANCEL "), "{cancel:?}");
            table.receive(PEER, &answer(&change, 487, "bob", "", None));
            assert!(matches!(table.events().as_slice(), [AgentEvent::ChangeRefused { status: 487, .. }]));
            table.sent();
            table.ask(|agent, cx| agent.hold(cx, call)).unwrap();
            let change = table.only();
            table.receive(PEER, &answer(&change, 180, "bob", "", None));
        }
        table.ask(|agent, cx| agent.hang_up(cx, call)).unwrap();
        table.pass_s(100);
        assert_eq!(table.agent.len(), (0, 0), "{does_ring_on}");
        assert_eq!(table.agent.transactions().len(), (0, 0), "{does_ring_on}");
    }
}
