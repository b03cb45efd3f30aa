//! Tests of incoming calls.

use crate::harness::{
    ALICE, OWN, PEER, SERVER, Sent, Table, in_dialog, invite, invite_with, media, media_with, sdp, sdp_with,
};
use ringway_agent::{Account, AgentEvent, By, CallError, CallId, CallState, Ended, Listener};
use ringway_sansio::{ConnectionId, Flow, ListenerId, Transport};
use ringway_sdp::{CryptoSuite, SecurityPolicy};

fn offer() -> String {
    sdp("10.0.0.2", 7000)
}

fn accept(table: &mut Table, call: CallId) -> Sent {
    table.ask(|agent, cx| agent.answer(cx, call, media())).unwrap();
    table.only()
}

#[test]
fn a_call_from_ringing_to_the_end() {
    let mut table = Table::direct();
    table.receive(PEER, &invite_with("c", 1, "Record-Route: <sip:10.0.0.9;lr>\r\n", Some(&offer())));
    let trying = table.only();
    assert_eq!(trying.line(), "SIP/2.0 100 Trying");
    assert_eq!(trying.field("To"), Some("<sip:alice@example.org>"), "100 makes no dialog");
    let events = table.events();
    let [AgentEvent::Incoming { call, account, from, display_name, has_offer: true, replaces: None, .. }] =
        events.as_slice()
    else {
        panic!("{events:?}")
    };
    assert_eq!((*account, from.as_str(), display_name.as_str()), (ALICE, "sip:bob@example.net", "Bob"));
    table.ask(|agent, cx| agent.ring(cx, *call, 180)).unwrap();
    let ringing = table.only();
    assert_eq!(ringing.line(), "SIP/2.0 180 Ringing");
    assert!(ringing.field("To").unwrap().contains(";tag="));
    assert_eq!(ringing.field("Record-Route"), Some("<sip:10.0.0.9;lr>"));
    assert_eq!(ringing.field("Contact"), Some("<sip:alice@10.0.0.1:5060>"));
    let ok = accept(&mut table, *call);
    assert_eq!(ok.line(), "SIP/2.0 200 OK");
    assert_eq!(
        (ok.field("To"), ok.field("Record-Route")),
        (ringing.field("To"), ringing.field("Record-Route"))
    );
    assert!(ok.body().contains("m=audio 4000 RTP/AVP 0"));
    let events = table.events();
    let [AgentEvent::Answered { params, .. }] = events.as_slice() else { panic!("{events:?}") };
    assert_eq!(params.remote, "10.0.0.2:7000".parse().unwrap());
    assert_eq!(table.agent.call_state(*call), Some(CallState::Accepted));
    table.receive(PEER, &in_dialog("ACK", 1, &ok, "", None));
    assert_eq!(table.agent.call_state(*call), Some(CallState::Established));
    table.ask(|agent, cx| agent.hang_up(cx, *call)).unwrap();
    let bye = table.only();
    assert_eq!((bye.line(), bye.to().as_str()), ("BYE sip:bob@10.0.0.2:5060 SIP/2.0", "10.0.0.9:5060"));
    assert_eq!(bye.field("From"), ok.field("To"));
}

#[test]
fn the_200_is_retransmitted_until_the_ack_and_then_never() {
    let mut table = Table::direct();
    let call = table.ringing(&invite("c", 1, Some(&offer())));
    let ok = accept(&mut table, call);
    table.pass_s(8);
    let again = table.sent();
    // After 0.5, 1.5, 3.5, 7.5 s.
    assert_eq!(again.len(), 4);
    assert!(again.iter().all(|sent| sent.text == ok.text));
    table.receive(PEER, &in_dialog("ACK", 1, &ok, "", None));
    table.pass_s(100);
    assert!(table.sent().is_empty());
    assert_eq!(table.agent.call_state(call), Some(CallState::Established));
}

#[test]
fn without_an_ack_the_call_is_ended_by_bye() {
    let mut table = Table::direct();
    let call = table.ringing(&invite("c", 1, Some(&offer())));
    accept(&mut table, call);
    table.events();
    table.pass_s(33);
    let sent = table.sent();
    assert!(sent.iter().any(|sent| sent.line().starts_with("BYE ")));
    assert!(matches!(
        table.events().as_slice(),
        [AgentEvent::Ended { cause: Ended { status: 408, .. }, .. }]
    ));
    assert_eq!(table.agent.counters().acks_missed, 1);
}

#[test]
fn a_callee_hangs_up_only_after_the_ack() {
    let mut table = Table::direct();
    let call = table.ringing(&invite("c", 1, Some(&offer())));
    let ok = accept(&mut table, call);
    table.ask(|agent, cx| agent.hang_up(cx, call)).unwrap();
    assert!(table.sent().is_empty());
    table.receive(PEER, &in_dialog("ACK", 1, &ok, "", None));
    assert_eq!(table.only().line(), "BYE sip:bob@10.0.0.2:5060 SIP/2.0");
}

#[test]
fn an_offer_in_the_200_is_answered_in_the_ack() {
    let mut table = Table::direct();
    let call = table.ringing(&invite("c", 1, None));
    let ok = accept(&mut table, call);
    assert!(ok.body().contains("m=audio 4000 RTP/AVP"));
    assert!(table.events().is_empty());
    table.receive(PEER, &in_dialog("ACK", 1, &ok, "", Some(&sdp("10.0.0.2", 7000))));
    let events = table.events();
    let [AgentEvent::Answered { params, .. }] = events.as_slice() else { panic!("{events:?}") };
    assert_eq!(params.remote, "10.0.0.2:7000".parse().unwrap());
    for body in [None, Some("v=0\r\nnonsense")] {
        let mut table = Table::direct();
        let call = table.ringing(&invite("c", 1, None));
        let ok = accept(&mut table, call);
        table.receive(PEER, &in_dialog("ACK", 1, &ok, "", body));
        assert!(table.only().line().starts_with("BYE "));
        assert!(matches!(table.events().as_slice(), [AgentEvent::Ended { .. }]));
    }
}

#[test]
fn a_call_can_be_refused_with_any_failure_and_no_other_status() {
    let mut table = Table::direct();
    for (status, line) in [
        (486, "SIP/2.0 486 Busy Here"),
        (603, "SIP/2.0 603 Decline"),
        (480, "SIP/2.0 480 Temporarily Unavailable"),
    ] {
        let call = table.ringing(&invite(&format!("c{status}"), 1, Some(&offer())));
        for bad in [200, 302, 700, 100] {
            let result = table.ask(|agent, cx| agent.reject(cx, call, bad));
            assert_eq!(result, Err(CallError::BadStatus));
        }
        table.ask(|agent, cx| agent.reject(cx, call, status)).unwrap();
        assert_eq!(table.only().line(), line);
        let events = table.events();
        let [AgentEvent::Ended { cause, .. }] = events.as_slice() else { panic!("{events:?}") };
        assert_eq!((cause.status, cause.by), (status, By::Local));
    }
    let result = table.ask(|agent, cx| agent.reject(cx, CallId(99), 486));
    assert_eq!(result, Err(CallError::NoCall));
}

#[test]
fn a_caller_who_cancels_gets_two_responses() {
    let mut table = Table::direct();
    let text = invite("c", 1, Some(&offer()));
    let call = table.ringing(&text);
    table.receive(PEER, &cancel(&text));
    assert_eq!(table.lines(), ["SIP/2.0 200 OK", "SIP/2.0 487 Request Terminated"]);
    assert!(matches!(
        table.events().as_slice(),
        [AgentEvent::Ended { cause: Ended { status: 487, by: By::Remote, .. }, .. }]
    ));
    assert_eq!(table.agent.call_state(call), None);
    table.receive(PEER, &text.replacen("INVITE sip", "ACK sip", 1).replace("CSeq: 1 INVITE", "CSeq: 1 ACK"));
    assert!(table.sent().is_empty(), "the ACK of the failure");
}

#[test]
fn a_cancel_that_comes_too_late_or_from_elsewhere_ends_nothing() {
    let mut table = Table::direct();
    let text = invite("c", 1, Some(&offer()));
    let call = table.ringing(&text);
    table.receive("10.6.6.6:5060", &cancel(&text));
    assert_eq!(table.lines(), ["SIP/2.0 481 Call/Transaction Does Not Exist"]);
    let ok = accept(&mut table, call);
    table.receive(PEER, &cancel(&text).replace("CSeq: 1 CANCEL\r\n", "CSeq: 1 CANCEL\r\nX: y\r\n"));
    assert!(table.sent().iter().all(|sent| !sent.line().contains("487")));
    table.receive(PEER, &in_dialog("ACK", 1, &ok, "", None));
    assert_eq!(table.agent.call_state(call), Some(CallState::Established));
}

fn cancel(invite: &str) -> String {
    let head = invite.split("Content-Type").next().unwrap();
    let head = head.replacen("INVITE sip", "CANCEL sip", 1).replace("1 INVITE", "1 CANCEL");
    format!("{head}Content-Length: 0\r\n\r\n")
}

#[test]
fn a_second_call_waits_and_one_too_many_is_busy() {
    let mut table = Table::direct();
    table.answered();
    let max = table.agent.config().limits.calls_max;
    for number in 1..max {
        let from = format!("10.0.1.{number}:5060");
        table.receive(&from, &invite(&format!("w{number}"), 1, Some(&offer())));
        assert_eq!(table.only().line(), "SIP/2.0 100 Trying");
    }
    table.events();
    table.receive(PEER, &invite("last", 1, Some(&offer())));
    assert_eq!(table.only().line(), "SIP/2.0 486 Busy Here");
    assert!(table.events().is_empty());
    assert_eq!(table.agent.counters().too_many_calls, 1);
}

/// RFC 5630 §5.1.2: the caller's Contact must be a `sips:` URI as well.
#[test]
fn a_sips_call_comes_by_tls_and_has_a_sips_contact() {
    let tls = Listener { transport: Transport::Tls, address: OWN.parse().unwrap() };
    let mut table =
        Table::with(Account::direct("sips:alice@example.org"), |config| config.listeners.push(tls));
    let flow = Flow {
        transport: Transport::Tls,
        connection: Some(ConnectionId(4)),
        ..Flow::dial(ListenerId(2), PEER.parse().unwrap())
    };
    let call = |id: &str| {
        let text = invite(id, 1, Some(&offer())).replacen("INVITE sip:", "INVITE sips:", 1);
        text.replace("SIP/2.0/UDP", "SIP/2.0/TLS")
    };
    table.receive_bytes(flow, call("a").as_bytes());
    assert!(table.only().line().starts_with("SIP/2.0 400"));
    table.receive_bytes(flow, call("b").replace("<sip:bob@10.0.0.2", "<sips:bob@10.0.0.2").as_bytes());
    let events = table.events();
    let [AgentEvent::Incoming { call, is_sips: true, .. }] = *events.as_slice() else { panic!("{events:?}") };
    table.sent();
    let ok = accept(&mut table, call);
    assert_eq!(ok.field("Contact"), Some("<sips:alice@10.0.0.1:5060>"));
}

#[test]
fn a_merged_invite_rings_once() {
    let mut table = Table::direct();
    let text = invite("c", 1, Some(&offer()));
    table.ringing(&text);
    table.receive(PEER, &text);
    assert_eq!(table.only().line(), "SIP/2.0 100 Trying", "a retransmission");
    table.receive(PEER, &text.replace("branch=z9hG4bK", "branch=z9hG4bKother"));
    assert_eq!(table.only().line(), "SIP/2.0 482 Loop Detected");
    assert!(table.events().is_empty());
}

#[test]
fn an_invalid_invite_is_refused_without_an_event() {
    let ok = offer();
    let cases: Vec<(String, &str)> = vec![
        (invite("c", 1, Some(&ok)).replacen("sip:alice@", "sip:nobody@", 1), "404"),
        (invite("c", 1, Some(&ok)).replacen("INVITE sip:", "INVITE sips:", 1), "416"),
        (invite("c", 1, Some("nonsense")), "400"),
        (invite("c", 1, Some(&ok.replace("v=0", "v=9"))), "400"),
        (invite_with("c", 1, "Require: 100rel\r\n", Some(&ok)), "420"),
        (invite_with("c", 1, "Require: timer, replaces\r\n", Some(&ok)), "420"),
        (invite_with("c", 1, "Content-Type: text/plain\r\n", Some(&ok)), "415"),
        (invite_with("c", 1, "Content-Encoding: gzip\r\n", Some(&ok)), "415"),
        (invite("c", 1, Some(&ok)).replace("Contact: <sip:bob@10.0.0.2:5060>\r\n", ""), "400"),
        (invite("c", 1, Some(&ok)).replace("<sip:bob@10.0.0.2:5060>", "<tel:+1>"), "400"),
        (invite("c", 1, Some(&"a".repeat(17_000))), "513"),
        (invite_with("c", 1, &"Record-Route: <sip:x;lr>\r\n".repeat(17), Some(&ok)), "400"),
        (invite_with("c", 1, "Replaces: x;to-tag=1;from-tag=2\r\n", Some(&ok)), "481"),
        (invite_with("c", 1, "Replaces: x\r\n", Some(&ok)), "400"),
    ];
    for (text, status) in cases {
        let mut table = Table::direct();
        table.receive(PEER, &text);
        let sent = table.only();
        assert!(sent.line().starts_with(&format!("SIP/2.0 {status} ")), "{} for {text}", sent.line());
        assert!(table.events().is_empty() && table.agent.calls().next().is_none());
        match status {
            "420" => assert!(sent.field("Unsupported").is_some_and(|option| option != "replaces")),
            "415" => assert!(sent.field("Accept").or(sent.field("Accept-Encoding")).is_some()),
            _ => {}
        }
    }
}

#[test]
fn an_unacceptable_offer_is_refused_at_the_answer() {
    let mut table = Table::direct();
    let policy = SecurityPolicy::Sdes { suites: vec![CryptoSuite::AesCm128HmacSha1_80] };
    let call = table.ringing(&invite("c", 1, Some(&offer())));
    let result = table.ask(|agent, cx| agent.answer(cx, call, media_with(policy)));
    assert!(matches!(result, Err(CallError::Refused { status: 488, .. })), "{result:?}");
    let refused = table.only();
    assert_eq!(refused.line(), "SIP/2.0 488 Not Acceptable Here");
    assert!(refused.field("Warning").unwrap().starts_with("399 10.0.0.1:5060 \""));
    assert!(matches!(
        table.events().as_slice(),
        [AgentEvent::Ended { cause: Ended { status: 488, .. }, .. }]
    ));
    assert_eq!(table.agent.call_state(call), None);
}

#[test]
fn it_does_not_ring_here_for_ever_either() {
    for (fields, seconds) in [("", 181), ("Expires: 20\r\n", 21)] {
        let mut table = Table::direct();
        table.ringing(&invite_with("c", 1, fields, Some(&offer())));
        table.pass_s(seconds - 2);
        assert!(table.events().is_empty());
        table.pass_s(2);
        assert!(table.lines().contains(&"SIP/2.0 480 Temporarily Unavailable".to_string()));
        assert_eq!(table.events().len(), 1);
    }
}

#[test]
fn a_call_that_replaces_another_ends_it_when_it_is_answered() {
    let mut table = Table::direct();
    let (old, ok) = table.answered();
    let ours = ok.field("To").unwrap().split("tag=").nth(1).unwrap().to_string();
    let replaces = format!("Replaces: in1;to-tag={ours};from-tag=b\r\nRequire: replaces\r\n");
    table.receive("10.0.0.3:5060", &invite_with("new", 1, &replaces, Some(&offer())));
    table.sent();
    let events = table.events();
    let [AgentEvent::Incoming { call, replaces: Some(replaced), .. }] = events.as_slice() else {
        panic!("{events:?}")
    };
    assert_eq!(*replaced, old);
    table.ask(|agent, cx| agent.answer(cx, *call, media())).unwrap();
    let sent = table.sent();
    assert!(sent[0].line().contains("200") && sent[1].line().starts_with("BYE "));
    assert_eq!(sent[1].field("Call-ID"), Some("in1"));
    assert!(
        table.events().iter().any(|event| matches!(event, AgentEvent::Ended { call, .. } if *call == old))
    );

    let mut table = Table::direct();
    let (_, ok) = table.answered();
    let ours = ok.field("To").unwrap().split("tag=").nth(1).unwrap().to_string();
    let early = format!("Replaces: in1;to-tag={ours};from-tag=b;early-only\r\n");
    table.receive(PEER, &invite_with("new", 1, &early, Some(&offer())));
    assert_eq!(table.only().line(), "SIP/2.0 486 Busy Here");
}

#[test]
fn only_a_call_by_the_server_replaces_one_by_the_server() {
    let mut table = Table::at_server();
    let (old, invite) = table.established("sip:bob@example.org");
    let tag = |line: &str| line.split("tag=").nth(1).unwrap().to_owned();
    let (ours, call_id) = (tag(invite.field("From").unwrap()), invite.field("Call-ID").unwrap());
    let replaces = format!("Replaces: {call_id};to-tag={ours};from-tag=bob\r\n");
    // A stranger who has the identifiers, and one who has none, get the same.
    for (name, fields) in [("s1", replaces.as_str()), ("s2", "Replaces: x;to-tag=1;from-tag=2\r\n")] {
        table.receive(PEER, &invite_with(name, 1, fields, Some(&offer())));
        assert_eq!(table.only().line(), "SIP/2.0 403 Forbidden");
        assert!(table.events().is_empty());
    }
    table.receive(SERVER, &invite_with("s3", 1, &replaces, Some(&offer())));
    table.sent();
    let events = table.events();
    let [AgentEvent::Incoming { replaces: Some(replaced), .. }] = events.as_slice() else {
        panic!("{events:?}")
    };
    assert_eq!(*replaced, old);
    // A call past the server is not replaced by one through it.
    let mut table = Table::at_server();
    let (_, ok) = table.answered();
    let replaces = format!("Replaces: in1;to-tag={};from-tag=b\r\n", tag(ok.field("To").unwrap()));
    table.receive(SERVER, &invite_with("s4", 1, &replaces, Some(&offer())));
    assert_eq!(table.only().line(), "SIP/2.0 481 Call/Transaction Does Not Exist");
}

#[test]
fn replaces_is_neither_announced_nor_taken_where_it_is_switched_off() {
    let mut table =
        Table::with(Account::direct("sip:alice@example.org"), |config| config.takes_replaces = false);
    let (_, ok) = table.answered();
    assert_eq!(ok.field("Supported"), None);
    let ours = ok.field("To").unwrap().split("tag=").nth(1).unwrap().to_string();
    let replaces = format!("Replaces: in1;to-tag={ours};from-tag=b\r\n");
    let required = format!("{replaces}Require: replaces\r\n");
    table.receive(PEER, &invite_with("new", 1, &required, Some(&offer())));
    let refused = table.only();
    assert_eq!(
        (refused.line(), refused.field("Unsupported")),
        ("SIP/2.0 420 Bad Extension", Some("replaces"))
    );
    // Without Require the field is an unknown one: another call.
    table.receive(PEER, &invite_with("new2", 1, &replaces, Some(&offer())));
    let events = table.events();
    assert!(matches!(events.as_slice(), [AgentEvent::Incoming { replaces: None, .. }]), "{events:?}");
}

#[test]
fn a_held_call_is_reported_from_the_start() {
    let mut table = Table::direct();
    let call = table.ringing(&invite("c", 1, Some(&sdp_with("10.0.0.2", 7000, "a=sendonly\r\n"))));
    accept(&mut table, call);
    assert!(matches!(
        table.events().as_slice(),
        [AgentEvent::Answered { .. }, AgentEvent::HeldByPeer { .. }]
    ));
}

#[test]
fn a_bye_before_the_answer_ends_both() {
    let mut table = Table::direct();
    let call = table.ringing(&invite("c", 1, Some(&offer())));
    table.ask(|agent, cx| agent.ring(cx, call, 180)).unwrap();
    let ringing = table.only();
    table.receive(PEER, &in_dialog("BYE", 2, &ringing, "", None));
    assert_eq!(table.lines(), ["SIP/2.0 200 OK", "SIP/2.0 487 Request Terminated"]);
    assert_eq!(table.agent.call_state(call), None);
}
