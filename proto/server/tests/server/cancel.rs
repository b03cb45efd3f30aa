//! Tests of cancelled calls (RFC 3261 §9, §16.8, §16.10): by the caller, and by the server after timer C.

use crate::harness::{
    ALICE, BOB, CAROL, Request, Sent, World, forwarded, invite, only, request, requests, statuses,
};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

fn called() -> (World, Request, Sent) {
    let mut world = World::open();
    world.register("bob", BOB, "<sip:bob@192.0.2.20>");
    let call = invite("sip:bob@example.org");
    let got = forwarded(world.udp(ALICE, &call));
    (world, call, got)
}

#[test]
fn a_call_that_rings_is_cancelled() {
    let (mut world, call, got) = called();
    world.udp(BOB, &got.answer(180, &[]));
    let sent = world.udp(ALICE, &call.cancel());
    assert_eq!((sent[0].status(), sent[0].header("CSeq").as_str()), (200, "1 CANCEL"));
    assert!(sent[0].header("To").contains(";tag="));
    let cancel = forwarded(sent);
    assert_eq!((cancel.method().as_str(), cancel.to().as_str(), cancel.uri()), ("CANCEL", BOB, got.uri()));
    assert_eq!((cancel.header("CSeq").as_str(), cancel.header("From")), ("1 CANCEL", got.header("From")));
    assert_eq!((cancel.header("To"), cancel.header("Max-Forwards").as_str()), (got.header("To"), "70"));
    assert_eq!(
        statuses(&world.udp(ALICE, &call.cancel())),
        [200],
        "a retransmitted CANCEL is answered and sends nothing"
    );
    assert!(world.udp(BOB, &cancel.answer(200, &[])).is_empty());
    let sent = world.udp(BOB, &got.answer(487, &[]));
    assert_eq!(statuses(&sent), [487]);
    assert!(world.udp(ALICE, &call.ack_of(&sent[1])).is_empty());
    world.pass(64 * SECOND);
    assert_eq!((world.server.transactions_len(), world.server.contexts_len()), ((0, 0), 0));
}

#[test]
fn a_cancel_waits_until_the_phone_said_something() {
    let (mut world, call, got) = called();
    assert_eq!(only(world.udp(ALICE, &call.cancel())).status(), 200);
    let cancel = only(world.udp(BOB, &got.answer(100, &[])));
    assert_eq!(cancel.method(), "CANCEL");
    let again = world.pass(2 * SECOND);
    assert!(again.iter().all(|again| again.bytes == cancel.bytes) && again.len() == 2, "500 ms and 1.5 s");
    world.udp(BOB, &cancel.answer(200, &[]));
    assert!(world.pass(10 * SECOND).is_empty());
    assert_eq!(statuses(&world.udp(BOB, &got.answer(487, &[]))), [487]);
}

#[test]
fn a_cancelled_call_ends_also_when_the_phone_never_speaks_again() {
    let (mut world, call, got) = called();
    world.udp(BOB, &got.answer(180, &[]));
    world.udp(ALICE, &call.cancel());
    let sent = world.pass(33 * SECOND);
    assert_eq!(statuses(&sent)[0], 487, "RFC 3261 §9.1: 64·T1 after the CANCEL it counts as cancelled");
    let (mut world, call, _) = called();
    world.udp(ALICE, &call.cancel());
    assert_eq!(statuses(&world.pass(33 * SECOND))[0], 487);
}

#[test]
fn an_answer_that_crosses_the_cancel_wins() {
    let (mut world, call, got) = called();
    world.udp(BOB, &got.answer(180, &[]));
    world.udp(ALICE, &call.cancel());
    assert_eq!(statuses(&world.udp(BOB, &got.answer(200, &[]))), [200]);
    let late = only(world.udp(ALICE, &call.cancel()));
    assert_eq!(late.status(), 200, "a CANCEL after the answer is answered and has no effect");
}

#[test]
fn only_the_hop_that_called_may_cancel() {
    let (mut world, call, got) = called();
    world.udp(BOB, &got.answer(180, &[]));
    for from in ["203.0.113.66:5060", BOB] {
        assert_eq!(only(world.udp(from, &call.cancel())).status(), 481, "{from}");
    }
    assert_eq!(only(world.tcp(3, ALICE, &call.cancel())).status(), 481, "over another flow");
    assert_eq!(
        statuses(&world.udp("192.0.2.10:9999", &call.cancel())),
        [200],
        "a NAT may give it another port"
    );
}

/// RFC 3261 §17.2.3 matches by the branch: a connection may be lost, and some programs open one for each transaction.
#[test]
fn a_cancel_over_another_connection_of_the_same_address_is_one() {
    let mut world = World::open();
    world.register("bob", BOB, "<sip:bob@192.0.2.20>");
    let call = invite("sip:bob@example.org").tcp();
    let got = forwarded(world.tcp(3, "192.0.2.10:40000", &call));
    world.udp(BOB, &got.answer(180, &[]));
    assert_eq!(only(world.tcp(4, "192.0.2.77:40001", &call.cancel())).status(), 481, "another address");
    let sent = world.tcp(5, "192.0.2.10:40002", &call.cancel());
    assert_eq!(statuses(&sent), [200]);
    assert_eq!(forwarded(sent).method(), "CANCEL");
}

#[test]
fn the_reason_of_a_cancel_is_copied() {
    let (mut world, call, got) = called();
    let mut cancel = call.cancel();
    cancel.lines.push("Reason: SIP;cause=600;text=\"Busy, everywhere\"".to_owned());
    cancel.lines.push("Reason: Q.850;cause=26".to_owned());
    cancel.lines.push(format!("Reason: SIP;text=\"{}\"", "x".repeat(600)));
    assert_eq!(only(world.udp(ALICE, &cancel)).status(), 200);
    let sent = &requests(world.udp(BOB, &got.answer(180, &[])))[0];
    assert_eq!(sent.method(), "CANCEL");
    assert_eq!(
        sent.headers("Reason"),
        ["SIP;cause=600;text=\"Busy, everywhere\"", "Q.850;cause=26"],
        "what is longer than 512 bytes is left out"
    );
}

#[test]
fn phones_that_did_not_answer_learn_that_another_one_did() {
    let mut world = World::open();
    world.register("bob", BOB, "<sip:bob@192.0.2.20>");
    world.register("bob", "192.0.2.21:5060", "<sip:bob@192.0.2.21>");
    let got = requests(world.udp(ALICE, &invite("sip:bob@example.org")));
    assert_eq!(got.len(), 2);
    for got in &got {
        world.udp(&got.to(), &got.answer(180, &[]));
    }
    let sent = world.udp(&got[0].to(), &got[0].answer(200, &[]));
    let cancel = &requests(sent)[0];
    assert_eq!((cancel.method().as_str(), cancel.to()), ("CANCEL", got[1].to()));
    assert_eq!(cancel.header("Reason"), "SIP;cause=200;text=\"Call completed elsewhere\"");
}

#[test]
fn a_cancel_of_nothing_is_481() {
    let (mut world, call, _) = called();
    assert_eq!(only(world.udp(ALICE, &call.clone().call_id("other").cancel())).status(), 481);
    let message = request("MESSAGE", "sip:bob@example.org").call_id("m");
    assert_eq!(requests(world.udp(ALICE, &message)).len(), 1);
    assert_eq!(only(world.udp(ALICE, &message.cancel())).status(), 481, "only INVITE is cancelled");
}

#[test]
fn a_refused_call_that_is_cancelled_is_not_answered_twice() {
    let mut world = World::open();
    let call = invite("sip:ghost@example.org");
    assert_eq!(only(world.udp(ALICE, &call)).status(), 404);
    assert_eq!(statuses(&world.udp(ALICE, &call.cancel())), [481], "a refusal keeps nothing to cancel");
    assert_eq!(only(world.udp(ALICE, &call)).status(), 404, "still the same");
}

#[test]
fn a_phone_that_rings_for_ever_is_given_up_by_timer_c() {
    let (mut world, _, got) = called();
    world.udp(BOB, &got.answer(180, &[]));
    assert!(world.pass(180 * SECOND).is_empty());
    // RFC 3261 §16.7 step 2: it restarts with each provisional response but 100.
    world.udp(BOB, &got.answer(183, &[]));
    assert!(world.pass(180 * SECOND).is_empty());
    world.udp(BOB, &got.answer(100, &[]));
    let sent = world.pass(2 * SECOND);
    assert_eq!(sent[0].method(), "CANCEL");
    assert_eq!(world.server.counters().timer_c, 1);
    assert_eq!(statuses(&world.udp(BOB, &got.answer(487, &[]))), [487]);
}

#[test]
fn timer_c_of_a_phone_that_then_says_nothing_is_408() {
    let (mut world, _, got) = called();
    world.udp(BOB, &got.answer(180, &[]));
    world.pass(181 * SECOND);
    assert_eq!(statuses(&world.pass(32 * SECOND))[0], 408);
    world.pass(64 * SECOND);
    assert_eq!((world.server.transactions_len(), world.server.contexts_len()), ((0, 0), 0));
}

#[test]
fn timer_c_without_any_answer_is_408_at_once() {
    let mut world = World::with(|config| config.timer_c = 10 * SECOND);
    world.register("bob", BOB, "<sip:bob@192.0.2.20>");
    let got = forwarded(world.udp(ALICE, &invite("sip:bob@example.org")));
    assert_eq!(statuses(&world.pass(10 * SECOND)), [408]);
    let cancel = world.udp(BOB, &got.answer(180, &[]));
    assert_eq!(requests(cancel)[0].method(), "CANCEL", "a phone that responds late gets a CANCEL");
}

/// A server that stops cancels all pending INVITEs and answers their callers.
#[test]
fn what_is_under_way_when_the_server_ends_is_cancelled_and_answered() {
    let mut world = World::open();
    world.server.set_permanent_contacts(b"bob@example.org", &[b"sip:bob@192.0.2.20"]);
    let got = forwarded(world.udp(ALICE, &invite("sip:bob@example.org")));
    world.udp(BOB, &got.answer(180, &[]));
    let until = world.now + Duration::from_secs(4);
    world.server.stop_new_work(until);
    let late = world.udp(CAROL, &invite("sip:bob@example.org").call_id("late").from("sip:carol@example.org"));
    assert_eq!(statuses(&late), [503]);
    let sent = world.pass(Duration::from_secs(4));
    let ladder: Vec<_> = sent.iter().map(|sent| (sent.to(), sent.start())).collect();
    assert!(sent.iter().any(|sent| sent.to() == BOB && sent.start().starts_with("CANCEL ")), "{ladder:?}");
    assert!(
        sent.iter().any(|sent| sent.to() == ALICE && sent.start().starts_with("SIP/2.0 503 ")),
        "{ladder:?}"
    );
    assert!(world.server.is_idle());
}
