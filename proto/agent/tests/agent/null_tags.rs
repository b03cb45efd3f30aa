//! Tests of peers of RFC 2543, which may have no tag (RFC 3261 §12.1.1, §12.1.2).

use crate::harness::{PEER, Sent, Table, answer, in_dialog, invite, invite_with, media, sdp};
use ringway_agent::{AgentEvent, CallId, CallState};

fn bob() -> String {
    format!("sip:bob@{PEER}")
}

fn contact() -> String {
    format!("Contact: <sip:bob@{PEER}>\r\n")
}

fn offer() -> String {
    sdp("10.0.0.2", 7000)
}

/// In-dialog request of a peer without a tag.
fn untagged(method: &str, cseq: u32, of: &Sent, body: Option<&str>) -> String {
    let text = in_dialog(method, cseq, of, "", body).replace(";tag=bob", "");
    assert_eq!(text.matches("tag=").count(), 1, "{text}");
    text
}

/// Establishes a call of a caller without a tag.
fn called(table: &mut Table) -> (CallId, Sent) {
    let call = table.ringing(&invite("c", 1, Some(&offer())).replace(";tag=b\r\n", "\r\n"));
    table.ask(|agent, cx| agent.answer(cx, call, media())).unwrap();
    let ok = table.only();
    assert_eq!(ok.field("From"), Some("\"Bob\" <sip:bob@example.net>"));
    table.receive(PEER, &untagged("ACK", 1, &ok, None));
    assert_eq!(table.agent.call_state(call), Some(CallState::Established));
    assert!(matches!(table.events().as_slice(), [AgentEvent::Answered { .. }]));
    (call, ok)
}

/// Establishes a call to a phone without a tag.
fn calling(table: &mut Table) -> (CallId, Sent) {
    let (call, invite) = table.call(&bob());
    table.receive(PEER, &answer(&invite, 200, "", &contact(), Some(&offer())));
    let ack = table.only();
    assert_eq!((ack.line(), ack.field("To")), ("ACK sip:bob@10.0.0.2:5060 SIP/2.0", invite.field("To")));
    assert!(matches!(table.events().as_slice(), [AgentEvent::Answered { .. }]));
    table.receive(PEER, &answer(&invite, 200, "", &contact(), Some(&offer())));
    assert_eq!(table.only().text, ack.text, "the ACK of a retransmitted 200");
    (call, invite)
}

#[test]
fn a_caller_without_a_tag_is_taken_and_our_requests_have_none() {
    let mut table = Table::direct();
    let (call, ok) = called(&mut table);
    table.ask(|agent, cx| agent.hang_up(cx, call)).unwrap();
    let bye = table.only();
    assert_eq!((bye.field("To"), bye.field("From")), (ok.field("From"), ok.field("To")));
    table.receive(PEER, &answer(&bye, 200, "", "", None));
    assert_eq!(table.agent.call_state(call), None);
}

#[test]
fn requests_of_a_caller_without_a_tag_belong_to_its_call() {
    let mut table = Table::direct();
    let (call, ok) = called(&mut table);
    table.receive(PEER, &untagged("INVITE", 2, &ok, Some(&sdp("10.0.0.2", 7100))));
    let changed = table.only();
    assert_eq!(changed.line(), "SIP/2.0 200 OK");
    table.receive(PEER, &untagged("ACK", 2, &changed, None));
    // Another phone's tag is another dialog.
    table.receive(
        PEER,
        &untagged("OPTIONS", 3, &ok, None).replace("example.net>\r\n", "example.net>;tag=x\r\n"),
    );
    assert_eq!(table.only().line(), "SIP/2.0 481 Call/Transaction Does Not Exist");
    table.receive(PEER, &untagged("BYE", 4, &ok, None));
    assert_eq!(table.only().line(), "SIP/2.0 200 OK");
    assert_eq!(table.agent.call_state(call), None);
}

#[test]
fn a_merged_invite_without_a_tag_rings_once() {
    let mut table = Table::direct();
    let text = invite("c", 1, Some(&offer())).replace(";tag=b\r\n", "\r\n");
    table.ringing(&text);
    table.receive(PEER, &text.replace("branch=z9hG4bK", "branch=z9hG4bKother"));
    assert_eq!(table.only().line(), "SIP/2.0 482 Loop Detected");
}

#[test]
fn a_called_phone_without_a_tag_is_acknowledged_held_and_hung_up() {
    let mut table = Table::direct();
    let (call, invite) = calling(&mut table);
    table.ask(|agent, cx| agent.hold(cx, call)).unwrap();
    let hold = table.only();
    assert_eq!(hold.field("To"), invite.field("To"));
    let held = sdp("10.0.0.2", 7000).replace("sendrecv", "recvonly");
    table.receive(PEER, &answer(&hold, 200, "", &contact(), Some(&held)));
    assert!(table.only().line().starts_with("ACK "));
    assert!(matches!(table.events().as_slice(), [AgentEvent::MediaChanged { .. }]));
    table.ask(|agent, cx| agent.hang_up(cx, call)).unwrap();
    let bye = table.only();
    assert_eq!((bye.line(), bye.field("To")), ("BYE sip:bob@10.0.0.2:5060 SIP/2.0", invite.field("To")));
}

#[test]
fn a_called_phone_without_a_tag_hangs_up() {
    let mut table = Table::direct();
    let (call, invite) = calling(&mut table);
    table.receive(PEER, &untagged("BYE", 1, &invite, None));
    assert_eq!(table.only().line(), "SIP/2.0 200 OK");
    assert_eq!(table.agent.call_state(call), None);
}

#[test]
fn early_media_without_a_tag_is_its_own_dialog() {
    let mut table = Table::direct();
    let (_, invite) = table.call(&bob());
    table.receive(PEER, &answer(&invite, 183, "", &contact(), Some(&offer())));
    let events = table.events();
    assert!(matches!(events.as_slice(), [AgentEvent::Progress { .. }, AgentEvent::EarlyMedia { .. }]));
    table.receive(PEER, &answer(&invite, 200, "bob", &contact(), Some(&sdp("10.0.0.2", 8000))));
    assert!(table.only().field("To").unwrap().ends_with(";tag=bob"));
    let events = table.events();
    let [AgentEvent::Answered { params, .. }] = events.as_slice() else { panic!("{events:?}") };
    assert_eq!(params.remote, "10.0.0.2:8000".parse().unwrap());
    // The 200 without a description and without a tag is the answer of the early dialog.
    let mut table = Table::direct();
    let (_, invite) = table.call(&bob());
    table.receive(PEER, &answer(&invite, 183, "", &contact(), Some(&offer())));
    table.receive(PEER, &answer(&invite, 200, "", &contact(), None));
    assert!(matches!(table.events().last(), Some(AgentEvent::Answered { .. })));
}

/// RFC 3891 §6.1.
#[test]
fn the_tag_zero_of_replaces_is_the_null_tag() {
    for (from_tag, status) in [("0", "100"), ("b", "481")] {
        let mut table = Table::direct();
        let (old, ok) = called(&mut table);
        let ours = ok.field("To").unwrap().split("tag=").nth(1).unwrap().to_string();
        let replaces = format!("Replaces: c;to-tag={ours};from-tag={from_tag}\r\n");
        table.receive(PEER, &invite_with("new", 1, &replaces, Some(&offer())));
        assert!(table.only().line().starts_with(&format!("SIP/2.0 {status} ")));
        let is_replaced = |event: &AgentEvent| matches!(event, AgentEvent::Incoming { replaces, .. } if *replaces == Some(old));
        assert_eq!(table.events().iter().any(is_replaced), status == "100");
    }
}
