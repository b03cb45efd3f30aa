//! Tests of blind transfer, on both sides.

use crate::harness::{PEER, Sent, Table, answer, in_dialog, media, sdp};
use ringway_agent::{Account, AgentEvent, CallError, CallId, CallState};

fn report(of: &Sent, cseq: u32, state: &str, line: &str) -> String {
    let fields = format!(
        "Event: refer\r\nSubscription-State: {state}\r\nContent-Type: message/sipfrag;version=2.0\r\n"
    );
    in_dialog("NOTIFY", cseq, of, &fields, Some(line))
}

fn transfer(table: &mut Table) -> (CallId, Sent, Sent) {
    let (call, invite) = table.established(&format!("sip:bob@{PEER}"));
    table.ask(|agent, cx| agent.transfer(cx, call, "sip:carol@10.0.0.7")).unwrap();
    let refer = table.only();
    (call, invite, refer)
}

#[test]
fn a_transfer_that_succeeds_ends_our_call() {
    let mut table = Table::direct();
    let (call, invite, refer) = transfer(&mut table);
    assert!(refer.line().starts_with("REFER sip:bob@"));
    assert_eq!(refer.field("Refer-To"), Some("<sip:carol@10.0.0.7>"));
    assert_eq!(refer.field("Referred-By"), Some("<sip:alice@example.org>"));
    let twice = table.ask(|agent, cx| agent.transfer(cx, call, "sip:d@10.0.0.7"));
    assert_eq!(twice, Err(CallError::WrongState));
    table.receive(PEER, &answer(&refer, 202, "bob", "", None));
    table.receive(PEER, &report(&invite, 1, "active;expires=60", "SIP/2.0 180 Ringing\r\n"));
    assert_eq!(table.only().line(), "SIP/2.0 200 OK");
    assert_eq!(table.events(), [AgentEvent::TransferProgress { call, status: 180 }]);
    table.receive(PEER, &report(&invite, 2, "terminated;reason=noresource", "SIP/2.0 200 OK\r\n"));
    let sent = table.lines();
    assert_eq!(sent[0], "SIP/2.0 200 OK");
    assert!(sent[1].starts_with("BYE "));
    let events = table.events();
    assert!(
        matches!(events.as_slice(), [AgentEvent::TransferDone { status: 200, .. }, AgentEvent::Ended { .. }]),
        "{events:?}"
    );
}

#[test]
fn a_transfer_that_fails_leaves_our_call() {
    for how in 0..4 {
        let mut table = Table::direct();
        let (call, invite, refer) = transfer(&mut table);
        if how == 0 {
            table.receive(PEER, &answer(&refer, 603, "bob", "", None));
        } else {
            table.receive(PEER, &answer(&refer, 202, "bob", "", None));
        }
        match how {
            1 => table.receive(PEER, &report(&invite, 1, "terminated", "SIP/2.0 486 Busy Here\r\n")),
            2 => {
                table.receive(PEER, &report(&invite, 1, "terminated;reason=giveup", "SIP/2.0 100 Trying\r\n"))
            }
            3 => table.pass_s(250),
            _ => {}
        }
        let events = table.events();
        let [AgentEvent::TransferDone { status, .. }] = events.as_slice() else {
            panic!("{how}: {events:?}")
        };
        assert!(*status >= 400);
        assert_eq!(table.agent.call_state(call), Some(CallState::Established));
    }
}

#[test]
fn unexpected_reports_are_refused() {
    let mut table = Table::direct();
    let (_, invite) = table.established(&format!("sip:bob@{PEER}"));
    table.receive(PEER, &report(&invite, 1, "active", "SIP/2.0 200 OK\r\n"));
    assert_eq!(table.only().line(), "SIP/2.0 481 Subscription Does Not Exist");
    table.receive(PEER, &in_dialog("NOTIFY", 2, &invite, "Event: presence\r\n", None));
    assert_eq!(table.only().line(), "SIP/2.0 489 Bad Event");
    assert!(table.events().is_empty());
}

fn asked(table: &mut Table, refer_to: &str) -> (CallId, Sent) {
    let (call, invite) = table.established(&format!("sip:bob@{PEER}"));
    let fields = format!("Refer-To: {refer_to}\r\nReferred-By: <sip:bob@example.net>\r\n");
    table.receive(PEER, &in_dialog("REFER", 1, &invite, &fields, None));
    (call, invite)
}

#[test]
fn the_transferee_calls_and_reports() {
    let mut table = Table::direct();
    let (call, _) =
        asked(&mut table, "<sip:carol@10.0.0.7?Replaces=x%40y%3Bto-tag%3D1%3Bfrom-tag%3D2&Evil=1>");
    let sent = table.sent();
    assert_eq!(sent[0].line(), "SIP/2.0 202 Accepted");
    assert_eq!((sent[1].field("Event"), sent[1].body()), (Some("refer"), "SIP/2.0 100 Trying\r\n"));
    assert!(sent[1].field("Subscription-State").unwrap().starts_with("active"));
    let events = table.events();
    let [AgentEvent::TransferRequested { target, referred_by, .. }] = events.as_slice() else {
        panic!("{events:?}")
    };
    assert_eq!((target.as_str(), referred_by.as_str()), ("sip:carol@10.0.0.7", "<sip:bob@example.net>"));
    let new = table.ask(|agent, cx| agent.accept_transfer(cx, call, media())).unwrap();
    let invite = table.only();
    assert_eq!(invite.line(), "INVITE sip:carol@10.0.0.7 SIP/2.0");
    assert_eq!(invite.field("Replaces"), Some("x@y;to-tag=1;from-tag=2"));
    assert_eq!(invite.field("Referred-By"), Some("<sip:bob@example.net>"));
    assert!(!invite.text.contains("Evil"));
    table.receive("10.0.0.7:5060", &answer(&invite, 180, "carol", "", None));
    assert_eq!(table.only().body(), "SIP/2.0 180 Ringing\r\n");
    let contact = "Contact: <sip:carol@10.0.0.7>\r\n";
    table.receive("10.0.0.7:5060", &answer(&invite, 200, "carol", contact, Some(&sdp("10.0.0.7", 7000))));
    let sent = table.sent();
    assert!(sent[0].line().starts_with("ACK "));
    assert_eq!(sent[1].body(), "SIP/2.0 200 OK\r\n");
    assert!(sent[1].field("Subscription-State").unwrap().starts_with("terminated"));
    assert_eq!(table.agent.call_state(new), Some(CallState::Established));
    assert_eq!(table.agent.call_state(call), Some(CallState::Established), "the other side ends it");
}

#[test]
fn a_transfer_that_is_rejected_or_not_decided_is_reported() {
    for decides in [true, false] {
        let mut table = Table::direct();
        let (call, _) = asked(&mut table, "<sip:carol@10.0.0.7>");
        for sent in table.sent().iter().filter(|sent| sent.line().starts_with("NOTIFY ")) {
            table.receive(PEER, &answer(sent, 200, "bob", "", None));
        }
        if decides {
            table.ask(|agent, cx| agent.reject_transfer(cx, call)).unwrap();
        } else {
            table.pass_s(61);
        }
        let last = table.sent().remove(0);
        assert_eq!(last.body(), "SIP/2.0 603 Decline\r\n");
        let late = table.ask(|agent, cx| agent.accept_transfer(cx, call, media()));
        assert_eq!(late, Err(CallError::WrongState));
    }
}

#[test]
fn a_transfer_without_a_free_transaction_is_not_reported() {
    let mut table = Table::with(Account::direct("sip:alice@example.org"), |config| {
        config.limits.transactions.servers_max = 0;
    });
    asked(&mut table, "<sip:carol@10.0.0.7>");
    assert_eq!(table.only().line(), "SIP/2.0 503 Too Busy");
    assert!(table.events().is_empty());
}

#[test]
fn invalid_targets_and_refers_of_strangers_are_refused() {
    for (refer_to, status) in [
        ("<tel:+1>", "416"),
        ("<sips:c@x>", "416"),
        ("<sip:c@x;method=BYE>", "501"),
        ("nonsense", "400"),
        ("<sip:c@x>\r\nRefer-To: <sip:d@x>", "400"),
    ] {
        let mut table = Table::direct();
        asked(&mut table, refer_to);
        assert!(table.only().line().starts_with(&format!("SIP/2.0 {status}")), "{refer_to}");
        assert!(table.events().is_empty());
    }
    let mut table = Table::direct();
    let text = crate::harness::invite("c", 1, None).replace("INVITE", "REFER");
    table.receive(PEER, &text.replace("Contact", "Refer-To: <sip:premium@10.0.0.7>\r\nContact"));
    assert_eq!(table.only().line(), "SIP/2.0 403 Refer Only Inside A Call");
}
