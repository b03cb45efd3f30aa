//! Tests of outgoing calls.

use crate::harness::{
    ALICE, PEER, Sent, Table, account_at_server, answer, in_dialog, media, media_with, sdp, sdp_with,
};
use ringway_agent::{AgentEvent, By, CallError, CallId, CallState, Ended, RouteError};
use ringway_sdp::{CryptoSuite, Direction, Protection, SecurityPolicy};
use std::time::Duration;

fn bob() -> String {
    format!("sip:bob@{PEER}")
}

fn contact(of: &str) -> String {
    format!("Contact: <sip:bob@{of}>\r\n")
}

#[test]
fn a_call_from_the_invite_to_the_bye() {
    let mut table = Table::direct();
    let (call, invite) = table.call(&bob());
    assert_eq!((invite.line(), invite.to().as_str()), ("INVITE sip:bob@10.0.0.2:5060 SIP/2.0", PEER));
    assert_eq!(invite.field("Contact"), Some("<sip:alice@10.0.0.1:5060>"));
    assert_eq!(invite.field("Supported"), Some("replaces"));
    assert!(!invite.text.contains("100rel"));
    assert!(invite.body().contains("m=audio 4000 RTP/AVP"));
    table.receive(PEER, &answer(&invite, 100, "", "", None));
    table.receive(PEER, &answer(&invite, 180, "bob", &contact(PEER), None));
    table.receive(PEER, &answer(&invite, 180, "bob", &contact(PEER), None));
    assert_eq!(table.events(), [AgentEvent::Progress { call, status: 180 }]);
    table
        .receive(PEER, &answer(&invite, 200, "bob", &contact("10.0.0.3:5070"), Some(&sdp("10.0.0.2", 7000))));
    let ack = table.only();
    assert_eq!((ack.line(), ack.to().as_str()), ("ACK sip:bob@10.0.0.3:5070 SIP/2.0", "10.0.0.3:5070"));
    assert_eq!(ack.field("CSeq"), Some("1 ACK"));
    assert!(ack.field("To").unwrap().ends_with(";tag=bob"));
    let events = table.events();
    let [AgentEvent::Answered { params, .. }] = events.as_slice() else { panic!("{events:?}") };
    assert_eq!(params.remote, "10.0.0.2:7000".parse().unwrap());
    assert_eq!(params.direction, Direction::SendRecv);
    assert_eq!(table.agent.call_state(call), Some(CallState::Established));

    table.ask(|agent, cx| agent.hang_up(cx, call)).unwrap();
    let bye = table.only();
    assert_eq!((bye.line(), bye.field("CSeq")), ("BYE sip:bob@10.0.0.3:5070 SIP/2.0", Some("2 BYE")));
    let cause = Ended { status: 200, reason: "hung up".into(), by: By::Local };
    assert_eq!(table.events(), [AgentEvent::Ended { call, cause }]);
    table.receive("10.0.0.3:5070", &answer(&bye, 200, "bob", "", None));
    assert_eq!(table.agent.call_state(call), None);
    table.pass_s(100);
    assert!(table.agent.is_empty() && table.agent.is_idle());
}

#[test]
fn the_other_side_hangs_up() {
    let mut table = Table::direct();
    let (call, invite) = table.established(&bob());
    table.receive(PEER, &in_dialog("BYE", 1, &invite, "", None));
    assert_eq!(table.only().line(), "SIP/2.0 200 OK");
    let events = table.events();
    let [AgentEvent::Ended { cause, .. }] = events.as_slice() else { panic!("{events:?}") };
    assert_eq!((cause.status, cause.by), (200, By::Remote));
    assert_eq!(table.agent.call_state(call), None);
    table.receive(PEER, &in_dialog("BYE", 1, &invite, "", None));
    assert_eq!(table.only().line(), "SIP/2.0 200 OK", "a retransmission gets the same response");
    table.receive(PEER, &in_dialog("OPTIONS", 2, &invite, "", None));
    assert_eq!(table.only().line(), "SIP/2.0 481 Call/Transaction Does Not Exist");
}

#[test]
fn byes_that_cross_are_both_answered() {
    let mut table = Table::direct();
    let (call, invite) = table.established(&bob());
    table.ask(|agent, cx| agent.hang_up(cx, call)).unwrap();
    let bye = table.only();
    table.receive(PEER, &in_dialog("BYE", 1, &invite, "", None));
    assert_eq!(table.only().line(), "SIP/2.0 200 OK");
    assert_eq!(table.events().len(), 1, "it ends once");
    table.receive(PEER, &answer(&bye, 481, "bob", "", None));
    assert_eq!(table.agent.call_state(call), None);
    assert!(table.events().is_empty());
}

#[test]
fn early_media_is_reported_and_the_answer_decides() {
    let mut table = Table::direct();
    let (_, invite) = table.call(&bob());
    table.receive(PEER, &answer(&invite, 183, "bob", &contact(PEER), Some(&sdp("10.0.0.2", 7000))));
    table.receive(PEER, &answer(&invite, 183, "bob", &contact(PEER), Some(&sdp("10.0.0.2", 7000))));
    let events = table.events();
    let [AgentEvent::Progress { status: 183, .. }, AgentEvent::EarlyMedia { params, .. }] = events.as_slice()
    else {
        panic!("{events:?}")
    };
    assert_eq!(params.remote, "10.0.0.2:7000".parse().unwrap());
    table.receive(PEER, &answer(&invite, 200, "bob", &contact(PEER), Some(&sdp("10.0.0.2", 8000))));
    let events = table.events();
    let [AgentEvent::Answered { params, .. }] = events.as_slice() else { panic!("{events:?}") };
    assert_eq!(params.remote, "10.0.0.2:8000".parse().unwrap());
}

#[test]
fn an_answer_without_a_description_is_the_early_one_or_ends_the_call() {
    let mut table = Table::direct();
    let (_, invite) = table.call(&bob());
    table.receive(PEER, &answer(&invite, 183, "bob", &contact(PEER), Some(&sdp("10.0.0.2", 7000))));
    table.receive(PEER, &answer(&invite, 200, "bob", &contact(PEER), None));
    assert!(matches!(table.events().last(), Some(AgentEvent::Answered { .. })));

    let mut table = Table::direct();
    let (_, invite) = table.call(&bob());
    table.receive(PEER, &answer(&invite, 200, "bob", &contact(PEER), None));
    assert_eq!(table.lines(), ["ACK sip:bob@10.0.0.2:5060 SIP/2.0", "BYE sip:bob@10.0.0.2:5060 SIP/2.0"]);
    assert!(matches!(
        table.events().as_slice(),
        [AgentEvent::Ended { cause: Ended { status: 488, .. }, .. }]
    ));
}

#[test]
fn a_description_that_cannot_be_taken_is_acknowledged_and_the_call_ended() {
    for body in
        ["v=0\r\ngarbage", "v=0\r\no=- 1 1 IN IP4 10.0.0.2\r\ns=-\r\nt=0 0\r\nm=audio 0 RTP/AVP 0\r\n"]
    {
        let mut table = Table::direct();
        let (_, invite) = table.call(&bob());
        table.receive(PEER, &answer(&invite, 200, "bob", &contact(PEER), Some(body)));
        assert_eq!(table.lines(), ["ACK sip:bob@10.0.0.2:5060 SIP/2.0", "BYE sip:bob@10.0.0.2:5060 SIP/2.0"]);
        assert!(matches!(table.events().as_slice(), [AgentEvent::Ended { .. }]));
    }
}

#[test]
fn every_2xx_is_acknowledged_again_with_the_same_ack() {
    let mut table = Table::direct();
    let (_, invite) = table.call(&bob());
    let ok = answer(&invite, 200, "bob", &contact(PEER), Some(&sdp("10.0.0.2", 7000)));
    table.receive(PEER, &ok);
    let ack = table.only();
    for _ in 0..3 {
        table.receive(PEER, &ok);
        assert_eq!(table.only().text, ack.text);
    }
    assert_eq!(table.events().len(), 1);
}

#[test]
fn a_fork_that_answers_second_is_acknowledged_and_ended() {
    let mut table = Table::direct();
    let (call, invite) = table.call(&bob());
    table.receive(PEER, &answer(&invite, 180, "one", &contact("10.0.0.3:5060"), None));
    table.receive(PEER, &answer(&invite, 180, "two", &contact("10.0.0.4:5060"), None));
    let body = sdp("10.0.0.4", 7000);
    table.receive(PEER, &answer(&invite, 200, "two", &contact("10.0.0.4:5060"), Some(&body)));
    assert_eq!(table.only().to(), "10.0.0.4:5060");
    let late = answer(&invite, 200, "one", &contact("10.0.0.3:5060"), Some(&body));
    table.receive(PEER, &late);
    let sent = table.sent();
    assert_eq!(sent.len(), 2);
    assert!(
        sent.iter().all(|sent| sent.to() == "10.0.0.3:5060" && sent.field("To").unwrap().contains("tag=one"))
    );
    assert!(sent[0].line().starts_with("ACK ") && sent[1].line().starts_with("BYE "));
    assert_eq!(sent[1].field("CSeq"), Some("2 BYE"));
    table.receive(PEER, &late);
    assert_eq!(table.only().text, sent[0].text, "only the ACK again");
    assert_eq!(table.agent.call_state(call), Some(CallState::Established));
    assert_eq!(table.agent.counters().forks_ended, 1);
    table.receive("10.0.0.3:5060", &answer(&sent[1], 200, "one", "", None));
    assert_eq!(table.agent.call_state(call), Some(CallState::Established));
}

#[test]
fn forks_without_end_are_counted_and_ignored() {
    let mut table = Table::direct();
    let (_, invite) = table.call(&bob());
    let max = table.agent.config().limits.early_dialogs_max;
    for fork in 0..max + 5 {
        let body = sdp("10.0.0.4", 7000);
        table.receive(PEER, &answer(&invite, 183, &format!("f{fork}"), &contact(PEER), Some(&body)));
    }
    assert_eq!(table.agent.counters().too_many_early_dialogs, 5);
    for fork in 0..max + 5 {
        let body = sdp("10.0.0.4", 7000);
        table.receive(PEER, &answer(&invite, 200, &format!("g{fork}"), &contact(PEER), Some(&body)));
    }
    assert_eq!(table.agent.counters().too_many_early_dialogs, 10);
}

#[test]
fn cancel_waits_for_a_provisional_answer() {
    let mut table = Table::direct();
    let (call, invite) = table.call(&bob());
    table.ask(|agent, cx| agent.hang_up(cx, call)).unwrap();
    assert!(table.sent().is_empty());
    table.receive(PEER, &answer(&invite, 100, "", "", None));
    let cancel = table.only();
    assert_eq!(
        (cancel.line(), cancel.field("Via")),
        ("CANCEL sip:bob@10.0.0.2:5060 SIP/2.0", invite.field("Via"))
    );
    table.receive(PEER, &answer(&cancel, 200, "bob", "", None));
    table.receive(PEER, &answer(&invite, 487, "bob", "", None));
    assert!(table.only().line().starts_with("ACK "));
    let cause = Ended { status: 487, reason: "cancelled".into(), by: By::Local };
    assert_eq!(table.events(), [AgentEvent::Ended { call, cause }]);
    assert!(table.agent.is_empty());
}

#[test]
fn an_answer_that_crosses_our_cancel_is_acknowledged_and_ended() {
    let mut table = Table::direct();
    let (call, invite) = table.call(&bob());
    table.receive(PEER, &answer(&invite, 180, "bob", &contact(PEER), None));
    table.events();
    table.ask(|agent, cx| agent.hang_up(cx, call)).unwrap();
    assert!(table.only().line().starts_with("CANCEL "));
    table.receive(PEER, &answer(&invite, 200, "bob", &contact(PEER), Some(&sdp("10.0.0.2", 7000))));
    assert_eq!(table.lines(), ["ACK sip:bob@10.0.0.2:5060 SIP/2.0", "BYE sip:bob@10.0.0.2:5060 SIP/2.0"]);
    assert!(matches!(
        table.events().as_slice(),
        [AgentEvent::Ended { cause: Ended { status: 487, .. }, .. }]
    ));
    assert_eq!(table.agent.call_state(call), None);
}

#[test]
fn refusals_and_silence_end_the_call() {
    let mut table = Table::direct();
    for status in [404, 486, 488, 503, 603] {
        let (call, invite) = table.call(&bob());
        table.receive(PEER, &answer(&invite, status, "bob", "", None));
        assert!(table.only().line().starts_with("ACK "));
        let cause = Ended { status, reason: format!("Reason {status}"), by: By::Remote };
        assert_eq!(table.events(), [AgentEvent::Ended { call, cause }]);
    }
    let (call, _) = table.call(&bob());
    table.pass_s(33);
    let cause = Ended { status: 408, reason: "nobody answered".into(), by: By::Local };
    assert_eq!(table.events(), [AgentEvent::Ended { call, cause }]);
    table.pass_s(100);
    assert!(table.agent.is_empty());
}

#[test]
fn a_busy_server_is_called_again_when_its_time_has_passed() {
    let mut table = Table::direct();
    let (call, mut invite) = table.call(&bob());
    let first = invite.clone();
    for (round, seconds) in [2, 0, 8].into_iter().enumerate() {
        let later = format!("Retry-After: {seconds} (busy)\r\n");
        table.receive(PEER, &answer(&invite, 503, "bob", &later, None));
        assert!(table.only().line().starts_with("ACK "));
        let wait = Duration::from_millis(if seconds == 0 { 500 } else { seconds * 1000 });
        assert_eq!(table.events(), [AgentEvent::Postponed { call, wait }]);
        table.pass(wait - Duration::from_millis(20));
        assert!(table.sent().is_empty());
        table.pass(Duration::from_millis(40));
        invite = table.only();
        assert_eq!(invite.field("CSeq"), Some(&*format!("{} INVITE", round + 2)));
        for field in ["Call-ID", "From", "To", "Contact"] {
            assert_eq!(first.field(field), invite.field(field));
        }
        assert_eq!(first.body(), invite.body());
    }
    table.receive(PEER, &answer(&invite, 503, "bob", "Retry-After: 2\r\n", None));
    let cause = Ended { status: 503, reason: "Reason 503".to_owned(), by: By::Remote };
    assert_eq!(table.events(), [AgentEvent::Ended { call, cause }]);
    assert_eq!(table.agent.counters().calls_postponed, 3);
    table.pass_s(100);
    assert!(table.agent.is_empty());
}

#[test]
fn a_call_that_waits_for_a_busy_server_can_be_given_up() {
    let mut table = Table::direct();
    let (call, invite) = table.call(&bob());
    table.receive(PEER, &answer(&invite, 503, "bob", "Retry-After: 5\r\n", None));
    table.events();
    table.sent();
    table.ask(|agent, cx| agent.hang_up(cx, call)).unwrap();
    let cause = Ended { status: 487, reason: "cancelled".to_owned(), by: By::Local };
    assert_eq!(table.events(), [AgentEvent::Ended { call, cause }]);
    table.pass_s(100);
    assert!(table.sent().is_empty() && table.agent.is_empty());
}

#[test]
fn a_call_does_not_wait_long_nor_after_it_has_rung() {
    for (rings, later) in [(false, "Retry-After: 9\r\n"), (true, "Retry-After: 1\r\n"), (false, "")] {
        let mut table = Table::direct();
        let (call, invite) = table.call(&bob());
        if rings {
            table.receive(PEER, &answer(&invite, 180, "bob", &contact(PEER), None));
            table.events();
        }
        table.receive(PEER, &answer(&invite, 503, "bob", later, None));
        let cause = Ended { status: 503, reason: "Reason 503".to_owned(), by: By::Remote };
        assert_eq!(table.events(), [AgentEvent::Ended { call, cause }]);
        table.pass_s(100);
        assert!(table.agent.is_empty());
    }
}

fn optional_srtp() -> SecurityPolicy {
    SecurityPolicy::Opportunistic {
        suites: vec![CryptoSuite::AesCm128HmacSha1_80],
        hello_hash: None,
        fingerprint: None,
    }
}

/// A call with this protection that is refused once: the INVITE, and the next one if there is one.
fn refused_once(table: &mut Table, policy: SecurityPolicy, status: u16) -> (CallId, Sent, Option<Sent>) {
    let target = format!("sip:bob@{PEER}");
    let media = media_with(policy);
    let call = table.ask(|agent, cx| agent.call(cx, ALICE, &target, media)).unwrap();
    let first = table.only();
    table.receive(PEER, &answer(&first, 180, "bob1", &contact(PEER), None));
    table.receive(PEER, &answer(&first, status, "bob1", "", None));
    let mut sent = table.sent();
    assert!(sent.remove(0).line().starts_with("ACK "));
    (call, first, sent.pop())
}

#[test]
fn keys_do_not_come_from_the_generator_that_tags_come_from() {
    let key_after = |queries: u32| {
        let mut table = Table::direct();
        let target = format!("sip:bob@{PEER}");
        for _ in 0..queries {
            table.ask(|agent, cx| agent.query(cx, ALICE, &target)).unwrap();
        }
        table.sent();
        let media = media_with(optional_srtp());
        table.ask(|agent, cx| agent.call(cx, ALICE, &target, media)).unwrap();
        let invite = table.only();
        let key = invite.body().lines().find(|line| line.starts_with("a=crypto:")).unwrap().to_owned();
        (key, invite.field("Call-ID").unwrap().to_owned())
    };
    let ((key, call_id), (same_key, other_call_id)) = (key_after(0), key_after(3));
    assert_eq!(key, same_key);
    assert_ne!(call_id, other_call_id);
}

#[test]
fn a_phone_that_insists_on_srtp_is_called_again_with_savp() {
    for status in [406, 488, 606] {
        let mut table = Table::direct();
        let (call, first, second) = refused_once(&mut table, optional_srtp(), status);
        let second = second.unwrap();
        assert!(first.body().contains(" RTP/AVP ") && second.body().contains(" RTP/SAVP "), "{second:?}");
        assert!(second.body().contains("a=crypto:1 AES_CM_128_HMAC_SHA1_80 "));
        // RFC 3261 §8.1.3.5: equal except for CSeq and branch.
        for field in ["Call-ID", "From", "To", "Contact"] {
            assert_eq!(first.field(field), second.field(field));
        }
        assert_eq!(second.field("CSeq"), Some("2 INVITE"));
        assert_ne!(first.field("Via"), second.field("Via"));
        assert_eq!(table.events(), [AgentEvent::Progress { call, status: 180 }]);
        assert_eq!(table.agent.counters().srtp_insisted, 1);
        let key = "a=crypto:1 AES_CM_128_HMAC_SHA1_80 inline:WVNfX19zZW1jdGwgKCkgewkyMjA7fQp9CnVubGVz\r\n";
        let body = sdp_with("10.0.0.2", 7000, key).replace("RTP/AVP", "RTP/SAVP");
        table.receive(PEER, &answer(&second, 200, "bob2", &contact(PEER), Some(&body)));
        assert_eq!(table.only().field("CSeq"), Some("2 ACK"));
        let events = table.events();
        let [AgentEvent::Answered { call: answered, params }] = events.as_slice() else {
            panic!("{events:?}")
        };
        assert!(*answered == call && matches!(params.protection, Protection::Sdes { .. }));
    }
}

#[test]
fn a_call_is_made_again_with_savp_once_and_only_where_srtp_is_optional() {
    let mut table = Table::direct();
    let (_, _, second) = refused_once(&mut table, optional_srtp(), 488);
    table.events();
    table.receive(PEER, &answer(&second.unwrap(), 488, "bob2", "", None));
    assert!(table.only().line().starts_with("ACK "));
    assert!(matches!(table.events().as_slice(), [AgentEvent::Ended { cause, .. }] if cause.status == 488));
    assert!(table.agent.is_empty());

    let sdes = SecurityPolicy::Sdes { suites: vec![CryptoSuite::AesCm128HmacSha1_80] };
    for (policy, status) in [
        (SecurityPolicy::None, 488),
        (SecurityPolicy::Zrtp { hello_hash: [1; 32] }, 488),
        (sdes, 488),
        (optional_srtp(), 486),
        (optional_srtp(), 603),
    ] {
        let mut table = Table::direct();
        let (_, _, second) = refused_once(&mut table, policy, status);
        assert!(second.is_none(), "{second:?}");
        assert!(
            matches!(table.events().as_slice(), [_, AgentEvent::Ended { cause, .. }] if cause.status == status)
        );
    }
}

#[test]
fn a_call_that_was_given_up_is_not_made_again_with_savp() {
    let mut table = Table::direct();
    let target = format!("sip:bob@{PEER}");
    let media = media_with(optional_srtp());
    let call = table.ask(|agent, cx| agent.call(cx, ALICE, &target, media)).unwrap();
    let first = table.only();
    table.ask(|agent, cx| agent.hang_up(cx, call)).unwrap();
    table.receive(PEER, &answer(&first, 488, "bob1", "", None));
    assert!(table.only().line().starts_with("ACK "));
    assert!(table.agent.is_empty());
}

#[test]
fn it_does_not_ring_for_ever() {
    let mut table = Table::direct();
    let (call, invite) = table.call(&bob());
    table.receive(PEER, &answer(&invite, 180, "bob", &contact(PEER), None));
    table.events();
    table.pass_s(181);
    assert!(table.lines().iter().any(|line| line.starts_with("CANCEL ")));
    assert_eq!(table.agent.call_state(call), Some(CallState::Cancelling));
    table.pass_s(40);
    assert!(
        matches!(table.events().as_slice(), [AgentEvent::Ended { .. }]),
        "even if nobody agrees to the CANCEL"
    );
}

#[test]
fn a_redirection_is_followed_to_the_best_contact_but_not_in_circles() {
    let mut table = Table::direct();
    let (call, first) = table.call(&bob());
    let fields = "Contact: <sip:bob@10.0.0.7>;q=0.5, <sips:bob@10.0.0.8>, <mailto:x@y>\r\nContact: <sip:b@10.0.0.6:99>;q=0.9\r\n";
    table.receive(PEER, &answer(&first, 302, "r", fields, None));
    let second = table.sent().pop().unwrap();
    assert_eq!((second.line(), second.to().as_str()), ("INVITE sip:b@10.0.0.6:99 SIP/2.0", "10.0.0.6:99"));
    assert_eq!((second.field("CSeq"), second.field("Call-ID")), (Some("2 INVITE"), first.field("Call-ID")));
    assert_eq!(table.agent.call_state(call), Some(CallState::Calling));
    let mut last = second;
    for hop in 0..10 {
        let fields = format!("Contact: <sip:b@10.0.1.{hop}>\r\n");
        table.receive(&last.to(), &answer(&last, 302, "r", &fields, None));
        match table.sent().pop().filter(|sent| sent.line().starts_with("INVITE ")) {
            Some(next) => last = next,
            None => break,
        }
    }
    assert!(matches!(
        table.events().as_slice(),
        [AgentEvent::Ended { cause: Ended { status: 302, .. }, .. }]
    ));
}

#[test]
fn a_redirection_to_more_contacts_than_are_read_is_counted() {
    for (contacts, counted) in [(16, 0), (17, 1)] {
        let mut table = Table::direct();
        let (_, first) = table.call(&bob());
        let fields: String =
            (0..contacts).map(|n| format!("Contact: <sip:b@10.0.1.{n}>;q=0.{}\r\n", 10 + n)).collect();
        table.receive(PEER, &answer(&first, 302, "r", &fields, None));
        assert_eq!(table.sent().pop().unwrap().to(), "10.0.1.15:5060", "the best of the first 16");
        assert_eq!(table.agent.counters().too_many_contacts, counted);
    }
}

#[test]
fn record_routes_are_followed_loosely_and_strictly() {
    for (route, uri, routes) in [
        (
            "<sip:10.0.0.9;lr>,<sip:10.0.0.8;lr>",
            "sip:bob@10.0.0.2:5060",
            vec!["<sip:10.0.0.8;lr>", "<sip:10.0.0.9;lr>"],
        ),
        (
            "<sip:10.0.0.9;lr>, <sip:10.0.0.8>",
            "sip:10.0.0.8",
            vec!["<sip:10.0.0.9;lr>", "<sip:bob@10.0.0.2:5060>"],
        ),
    ] {
        let mut table = Table::direct();
        let (call, invite) = table.call(&bob());
        let fields = format!("{}Record-Route: {route}\r\n", contact(PEER));
        table.receive(PEER, &answer(&invite, 200, "bob", &fields, Some(&sdp("10.0.0.2", 7000))));
        let ack = table.only();
        table.ask(|agent, cx| agent.hang_up(cx, call)).unwrap();
        let bye = table.only();
        for sent in [&ack, &bye] {
            assert_eq!(sent.to(), "10.0.0.8:5060");
            assert_eq!(sent.line().split(' ').nth(1), Some(uri));
            let found: Vec<_> = sent.text.lines().filter_map(|line| line.strip_prefix("Route: ")).collect();
            assert_eq!(found, routes);
        }
    }
}

#[test]
fn a_typed_target_becomes_a_uri_or_a_clear_error() {
    let mut table = Table::with(account_at_server(), |_| {});
    let invited = |table: &mut Table, target: &str| -> Sent { table.call(target).1 };
    assert_eq!(invited(&mut table, "bob").line(), "INVITE sip:bob@example.org SIP/2.0");
    assert_eq!(invited(&mut table, " bob@example.net ").line(), "INVITE sip:bob@example.net SIP/2.0");
    assert_eq!(invited(&mut table, "10.0.0.7:99").line(), "INVITE sip:10.0.0.7:99 SIP/2.0");
    for (target, why) in [
        ("sips:bob@example.org;transport=udp", RouteError::Transport),
        ("sips:bob@example.org", RouteError::Tls),
        ("sip:bob@x?Route=%3Csip:y%3E", RouteError::Header("Route")),
        ("sip:bob@x?Subject=a%0d%0aEvil:%20y", RouteError::Headers),
        ("sip:bob@x;method=BYE", RouteError::Method),
        ("bo b", RouteError::Malformed),
        ("sip:bob@x\r\nEvil: y", RouteError::Malformed),
        ("", RouteError::Malformed),
    ] {
        let result = table.ask(|agent, cx| agent.call(cx, ALICE, target, media()));
        assert_eq!(result, Err(CallError::Route(why)), "{target}");
    }
    assert!(table.sent().is_empty());
}

/// RFC 3261 §19.1.5.
#[test]
fn the_headers_of_a_target_become_header_fields() {
    let mut table = Table::with(account_at_server(), |_| {});
    for (target, line) in [
        ("sip:bob@example.net?Subject=Lunch%20today&Priority=urgent", "INVITE sip:bob@example.net SIP/2.0"),
        ("bob?Subject=Lunch%20today&Priority=urgent", "INVITE sip:bob@example.org SIP/2.0"),
    ] {
        let (call, invite) = table.call(target);
        assert_eq!((invite.line(), invite.field("Subject")), (line, Some("Lunch today")));
        assert_eq!(invite.field("Priority"), Some("urgent"));
        assert!(!invite.field("To").unwrap().contains('?'));
        table.ask(|agent, cx| agent.hang_up(cx, call)).unwrap();
    }
    let mut table = Table::direct();
    let (call, _) = table.established(&bob());
    let result = table.ask(|agent, cx| agent.transfer(cx, call, "sip:carol@10.0.0.3?Subject=x"));
    assert_eq!(result, Err(CallError::Route(RouteError::TransferHeaders)));
    // A redirection may set them too; one that sets others is passed over.
    let mut table = Table::direct();
    let (_, invite) = table.call(&bob());
    let contacts =
        "Contact: <sip:a@10.0.0.4?Route=%3Csip:x%3E>\r\nContact: <sip:carol@10.0.0.3?Subject=new>;q=0.5\r\n";
    table.receive(PEER, &answer(&invite, 302, "b", contacts, None));
    let again = table.sent().pop().unwrap();
    assert_eq!((again.line(), again.field("Subject")), ("INVITE sip:carol@10.0.0.3 SIP/2.0", Some("new")));
}

#[test]
fn calls_have_a_limit_and_none_begins_while_shutting_down() {
    let mut table = Table::direct();
    let max = table.agent.config().limits.calls_max;
    for _ in 0..max {
        table.call(&bob());
    }
    let target = bob();
    let more = table.ask(|agent, cx| agent.call(cx, ALICE, &target, media()));
    assert_eq!(more, Err(CallError::TooManyCalls));
    table.ask(|agent, cx| agent.shut_down(cx));
    let more = table.ask(|agent, cx| agent.call(cx, ALICE, &target, media()));
    assert_eq!(more, Err(CallError::Stopping));
    table.pass(Duration::from_secs(120));
    assert!(table.agent.is_idle());
}

#[test]
fn forks_count_their_requests_each_for_itself() {
    let mut table = Table::direct();
    let (call, invite) = table.call(&bob());
    for (tag, status) in [("one", 180), ("two", 180)] {
        table.receive(PEER, &answer(&invite, status, tag, &contact(PEER), None));
    }
    let from = |tag: &str, method: &str, cseq| {
        in_dialog(method, cseq, &invite, "", None)
            .replace(";tag=bob", &format!(";tag={tag}"))
            .replace("branch=z9hG4bK", &format!("branch=z9hG4bK{tag}"))
    };
    for (tag, cseq, line) in
        [("one", 9, "SIP/2.0 200 OK"), ("two", 1, "SIP/2.0 200 OK"), ("two", 1, "SIP/2.0 200 OK")]
    {
        table.receive(PEER, &from(tag, "OPTIONS", cseq));
        assert_eq!(table.only().line(), line, "{tag} {cseq}");
    }
    // A callee must not send BYE now; another fork may still answer.
    table.receive(PEER, &from("one", "BYE", 10));
    table.sent();
    assert_eq!(table.agent.call_state(call), Some(CallState::Calling));
    table.receive(PEER, &answer(&invite, 200, "two", &contact(PEER), Some(&sdp("10.0.0.2", 7000))));
    table.sent();
    table.receive(PEER, &from("two", "OPTIONS", 2));
    assert_eq!(table.only().line(), "SIP/2.0 200 OK");
}

/// UPDATE of the fork `tag`, with `contact` as its new target.
fn moved(invite: &Sent, tag: &str, cseq: u32, contact: &str) -> String {
    in_dialog("UPDATE", cseq, invite, "", None)
        .replace(";tag=bob", tag)
        .replace("branch=z9hG4bK", &format!("branch=z9hG4bK{contact}"))
        .replace(&format!("Contact: <sip:bob@{PEER}>"), &format!("Contact: <sip:bob@{contact}>"))
}

#[test]
fn an_update_before_the_answer_moves_the_target_of_its_own_dialog_alone() {
    // The fork that answers, its Contact, and its last target.
    for (tag, said, place) in [
        ("one", None, "10.0.0.7:5060"),
        ("two", None, "10.0.0.4:5060"),
        ("three", None, PEER),
        ("one", Some("10.0.0.8:5060"), "10.0.0.8:5060"),
        ("two", Some("10.0.0.8:5060"), "10.0.0.8:5060"),
    ] {
        let mut table = Table::direct();
        let (call, invite) = table.call(&bob());
        table.receive(PEER, &answer(&invite, 180, "one", &contact("10.0.0.3:5060"), None));
        table.receive(PEER, &answer(&invite, 180, "two", &contact("10.0.0.4:5060"), None));
        table.receive(PEER, &moved(&invite, ";tag=one", 1, "10.0.0.7:5060"));
        assert_eq!(table.only().line(), "SIP/2.0 200 OK");
        let fields = said.map(contact).unwrap_or_default();
        table.receive(PEER, &answer(&invite, 200, tag, &fields, Some(&sdp("10.0.0.2", 7000))));
        let ack = table.only();
        assert_eq!((ack.line().split(' ').next(), ack.to().as_str()), (Some("ACK"), place), "{tag} {said:?}");
        table.ask(|agent, cx| agent.hang_up(cx, call)).unwrap();
        let bye = table.only();
        assert_eq!((bye.field("CSeq"), bye.to().as_str()), (Some("2 BYE"), place), "{tag} {said:?}");
    }
}

#[test]
fn a_request_without_a_tag_belongs_to_no_dialog_of_an_unanswered_call() {
    let mut table = Table::direct();
    let (_, invite) = table.call(&bob());
    table.receive(PEER, &moved(&invite, "", 1, "10.0.0.7:5060"));
    assert_eq!(table.only().line(), "SIP/2.0 481 Call/Transaction Does Not Exist");
    table.receive(PEER, &answer(&invite, 200, "bob", "", Some(&sdp("10.0.0.2", 7000))));
    assert_eq!(table.only().to(), PEER);
}

#[test]
fn a_lost_dialog_ends_the_call() {
    let mut table = Table::direct();
    let (call, _) = table.established(&bob());
    table.ask(|agent, cx| agent.hold(cx, call)).unwrap();
    let reinvite = table.only();
    table.receive(PEER, &answer(&reinvite, 481, "bob", "", None));
    assert_eq!(table.agent.call_state(call), None);
    assert!(matches!(
        table.events().as_slice(),
        [AgentEvent::Ended { cause: Ended { status: 481, .. }, .. }]
    ));
}

#[test]
fn the_warning_of_a_refusal_is_part_of_its_reason() {
    let mut table = Table::direct();
    let (_, invite) = table.call(&format!("sip:bob@{PEER}"));
    let warning = "Warning: 304 10.0.0.2:5060 \"SRTP is \\\"required\\\"\"\r\n";
    table.receive(PEER, &answer(&invite, 486, "b", warning, None));
    let events = table.events();
    let [AgentEvent::Ended { cause, .. }] = events.as_slice() else { panic!("{events:?}") };
    assert_eq!(cause.reason, "Reason 486: SRTP is \"required\"");
}
