//! Tests of the table of calls and its records: each way to end, what may not end a call, and the limits.

use crate::challenge::proven;
use crate::dialog::{from_callee, from_caller, with_bob};
use crate::forwards::udp;
use crate::harness::{
    ALICE, BOB, CAROL, Request, STRANGER, Sent, Wire, World, forwarded, invite, only, request, requests,
};
use ringway_sansio::{Flow, Instant, ListenerId, Seed};
use ringway_server::{
    CallEnd, CallEvent, CallLimits, CallNames, CallRecord, CallSender, CallStep, CallTable, Mode,
};
use ringway_sip::{Limits, Message};
use std::time::Duration;

fn records(world: &World) -> Vec<CallRecord> {
    std::mem::take(&mut world.memory.ended_calls.lock().unwrap())
}

#[track_caller]
fn one(world: &World) -> CallRecord {
    let mut records = records(world);
    assert_eq!(records.len(), 1, "{records:#?}");
    assert_eq!(world.memory.calls.lock().unwrap().len(), 0);
    records.remove(0)
}

fn open(world: &World) -> usize {
    world.memory.calls.lock().unwrap().len()
}

/// Answers of this phone to the INVITE that it got.
fn answer(world: &mut World, got: &Sent, status: u16) -> Sent {
    only(world.udp(&got.to(), &got.answer(status, &[&format!("Contact: <sip:bob@{}>", got.to())])))
}

/// Has one side send a BYE, and the other one answer it.
#[track_caller]
fn hang_up(world: &mut World, from: &str, bye: &Request, status: u16) {
    let got = forwarded(world.udp(from, bye));
    assert_eq!(records(world).len(), 0, "it is not answered yet");
    world.udp(&got.to(), &got.answer(status, &[]));
}

#[test]
fn a_call_has_its_times_its_sides_and_the_contact_that_answered() {
    let mut world = with_bob(World::closed());
    let begun = world.now;
    let got = forwarded(proven(&mut world, ALICE, &invite("sip:bob@example.org"), "alice"));
    world.pass(Duration::from_millis(250));
    answer(&mut world, &got, 180);
    world.pass(Duration::from_millis(250));
    answer(&mut world, &got, 183);
    world.pass(Duration::from_secs(2));
    let answered = answer(&mut world, &got, 200);
    assert_eq!((open(&world), records(&world).len()), (1, 0));
    world.pass(Duration::from_secs(61));
    hang_up(&mut world, BOB, &from_callee("BYE", 1, &got, &answered), 200);
    let record = one(&world);
    assert_eq!((record.begun, record.ringing), (begun, Some(begun + Duration::from_millis(250))));
    assert_eq!(record.answered, Some(begun + Duration::from_millis(2500)));
    assert_eq!(record.ended, begun + Duration::from_millis(63_500));
    assert_eq!((record.status, record.end, record.sender), (200, CallEnd::Bye, CallSender::Proven));
    assert_eq!((record.source.to_string().as_str(), record.diverted), (ALICE, None));
    let texts = &record.texts;
    assert_eq!((texts.call_id(), texts.callee()), (b"call".as_slice(), None));
    assert_eq!(texts.from(), b"sip:alice@example.org");
    assert_eq!(texts.to(), b"sip:bob@example.org");
    assert_eq!(record.target.as_deref(), Some(format!("sip:bob@{BOB}").as_bytes()));
}

/// Whatever else the From has: the user whose password was proven is the caller, and the owner of its share.
#[test]
fn the_caller_of_a_record_is_the_proven_user() {
    let long = format!("sip:%61lice:{}@example.org", "p".repeat(300));
    for from in [
        "sip:alice@example.org",
        &long,
        "sip:alice@EXAMPLE.org",
        "sip:alice@127.9.8.7",
        "sip:alice@192.0.2.1",
    ] {
        let mut world = with_bob(World::with(|config| {
            config.auth.enabled = true;
            for listener in &mut config.listeners {
                listener.bound.set_ip("0.0.0.0".parse().unwrap());
            }
        }));
        let call = invite("sip:bob@example.org").from(from);
        let got = forwarded(proven(&mut world, ALICE, &call, "alice"));
        world.udp(BOB, &got.answer(486, &[]));
        let record = one(&world);
        assert_eq!(
            (record.sender, record.texts.caller()),
            (CallSender::Proven, Some(&b"alice@example.org"[..]))
        );
    }
    let mut world = with_bob(World::open());
    let got = forwarded(world.udp(ALICE, &invite("sip:bob@example.org")));
    world.udp(BOB, &got.answer(486, &[]));
    assert_eq!(one(&world).texts.caller(), None, "nothing was proven");
}

/// A stranger at the address of a trusted server displaces no call of that.
#[test]
fn a_stranger_shares_nothing_with_a_believed_caller_at_its_address() {
    let mut steps = Steps::new(32, 8 << 20);
    let call = |number: u32| invite("sip:bob@example.org").call_id(&format!("{number}"));
    steps.step(&call(0), CallStep::Begun, CallSender::Believed);
    steps.step(&call(1), CallStep::Begun, CallSender::Believed);
    (2..40).for_each(|number| steps.step(&call(number), CallStep::Begun, CallSender::Stranger));
    let ended = steps.ended.iter().filter(|record| record.sender == CallSender::Believed);
    assert_eq!(ended.count(), 0);
}

#[test]
fn failures_have_their_status_and_their_word() {
    let mut world = with_bob(World::open());
    for (status, end) in [
        (486, CallEnd::Busy),
        (600, CallEnd::Busy),
        (302, CallEnd::Redirected),
        (403, CallEnd::Failed),
        (480, CallEnd::Failed),
        (408, CallEnd::NoAnswer),
    ] {
        let call = invite("sip:bob@example.org").call_id(&format!("{status}"));
        let got = forwarded(world.udp(ALICE, &call));
        world.udp(BOB, &got.answer(status, &[]));
        let record = one(&world);
        assert_eq!((record.status, record.end, record.answered), (status, end, None));
    }
    let got = forwarded(world.udp(ALICE, &invite("sip:bob@example.org").call_id("rang")));
    world.udp(BOB, &got.answer(180, &[]));
    world.udp(BOB, &got.answer(480, &[]));
    assert_eq!(one(&world).end, CallEnd::NoAnswer);
    world.udp(ALICE, &invite("sip:nobody@example.org").call_id("absent"));
    assert_eq!(one(&world).status, 404);
}

#[test]
fn a_cancelled_call_ends_with_its_final_response_and_an_answer_that_crosses_it_counts() {
    let mut world = with_bob(World::open());
    let call = invite("sip:bob@example.org").call_id("cancelled");
    let got = forwarded(world.udp(ALICE, &call));
    world.udp(BOB, &got.answer(180, &[]));
    world.udp(ALICE, &call.cancel());
    assert_eq!(open(&world), 1);
    world.udp(BOB, &got.answer(487, &[]));
    assert_eq!(one(&world).end, CallEnd::Cancelled);
    let call = invite("sip:bob@example.org").call_id("crossed");
    let got = forwarded(world.udp(ALICE, &call));
    world.udp(BOB, &got.answer(180, &[]));
    world.udp(ALICE, &call.cancel());
    let answered = answer(&mut world, &got, 200);
    hang_up(&mut world, ALICE, &from_caller("BYE", 2, &answered).call_id("crossed"), 200);
    let record = one(&world);
    assert_eq!((record.end, record.status), (CallEnd::Bye, 200));
    let silent = invite("sip:bob@example.org").call_id("silent");
    let got = forwarded(world.udp(ALICE, &silent));
    world.udp(BOB, &got.answer(180, &[]));
    world.udp(ALICE, &silent.cancel());
    world.pass(Duration::from_secs(100));
    assert_eq!(one(&world).end, CallEnd::Cancelled, "the phone never answers");
}

#[test]
fn timer_c_and_a_phone_that_says_nothing_are_no_answer() {
    let mut world = with_bob(World::open());
    let got = forwarded(world.udp(ALICE, &invite("sip:bob@example.org").call_id("rings")));
    world.udp(BOB, &got.answer(180, &[]));
    world.pass(Duration::from_secs(400));
    assert_eq!(one(&world).end, CallEnd::NoAnswer);
    forwarded(world.udp(ALICE, &invite("sip:bob@example.org").call_id("dead")));
    world.pass(Duration::from_secs(100));
    assert_eq!(one(&world).end, CallEnd::NoAnswer);
}

#[test]
fn what_is_open_when_the_server_gives_up_has_an_end() {
    let mut world = with_bob(World::open());
    let got = forwarded(world.udp(ALICE, &invite("sip:bob@example.org").call_id("rings")));
    world.udp(BOB, &got.answer(180, &[]));
    let call = invite("sip:bob@example.org").call_id("talks");
    let got = forwarded(world.udp(ALICE, &call));
    answer(&mut world, &got, 200);
    let mut ended = Vec::new();
    world.memory.calls.lock().unwrap().stop(world.now, 1000, |record| ended.push(record));
    assert_eq!(ended.iter().map(|record| record.end).collect::<Vec<_>>(), [CallEnd::Stopped; 2]);
    assert_eq!(open(&world), 0);
}

/// A BYE with a guessed Call-ID, or with one tag only, or of a stranger, ends nothing.
#[test]
fn a_forged_bye_ends_nobodys_call() {
    let mut world = with_bob(World::closed());
    let got = forwarded(proven(&mut world, ALICE, &invite("sip:bob@example.org"), "alice"));
    let answered = answer(&mut world, &got, 200);
    let forged = |from: &str, to: &str| {
        let mut bye = request("BYE", "sip:bob@example.org").cseq(9).to(to);
        bye.from = from.into();
        bye
    };
    let (alice, bob) = (got.header("From"), answered.header("To"));
    world.udp(STRANGER, &forged("<sip:eve@example.net>;tag=eve", &bob));
    world.udp(STRANGER, &forged(&alice, &bob).via("SIP/2.0/UDP 203.0.113.66;branch=z9hG4bKeve"));
    world.udp(STRANGER, &forged(&bob, &alice).via("SIP/2.0/UDP 203.0.113.66;branch=z9hG4bKeve2"));
    world.udp(CAROL, &forged("<sip:carol@example.org>;tag=carol", "<sip:bob@example.org>;tag=other"));
    let with_password =
        request("BYE", "sip:bob@example.org").to("<sip:bob@example.org>;tag=guessed").cseq(30);
    proven(
        &mut world,
        CAROL,
        &Request { from: "<sip:carol@example.org>;tag=x".into(), ..with_password },
        "carol",
    );
    assert_eq!((open(&world), records(&world).len()), (1, 0));
    hang_up(&mut world, ALICE, &from_caller("BYE", 2, &answered), 200);
    assert_eq!(one(&world).end, CallEnd::Bye);
}

/// RFC 3261 §15.1.1: a session ends with a BYE that is answered with 2xx, 481 or 408, or not at all.
#[test]
fn a_bye_ends_a_call_when_it_is_answered() {
    for (status, ends) in [(200, true), (481, true), (408, true), (403, false), (500, false), (491, false)] {
        let mut world = with_bob(World::open());
        let got = forwarded(world.udp(ALICE, &invite("sip:bob@example.org")));
        let answered = answer(&mut world, &got, 200);
        hang_up(&mut world, ALICE, &from_caller("BYE", 2, &answered), status);
        assert_eq!((open(&world), records(&world).len()), if ends { (0, 1) } else { (1, 0) }, "{status}");
    }
    let mut world = with_bob(World::open());
    let got = forwarded(world.udp(ALICE, &invite("sip:bob@example.org")));
    let answered = answer(&mut world, &got, 200);
    forwarded(world.udp(ALICE, &from_caller("BYE", 2, &answered)));
    world.pass(Duration::from_secs(31));
    assert_eq!(open(&world), 1);
    world.pass(Duration::from_secs(2));
    assert_eq!(one(&world).end, CallEnd::Bye, "nobody answers");
}

/// The record of a refused BYE ends at that, with a reason of its own, unless the call goes on to a BYE that ends it.
#[test]
fn a_refused_bye_is_in_the_record_when_the_lifetime_ends() {
    for is_ended in [false, true] {
        let mut world = with_bob(World::open());
        let got = forwarded(world.udp(ALICE, &invite("sip:bob@example.org")));
        let answered = answer(&mut world, &got, 200);
        world.pass(Duration::from_secs(10));
        hang_up(&mut world, ALICE, &from_caller("BYE", 60, &answered), 500);
        let refused = world.now;
        assert_eq!((open(&world), records(&world).len()), (1, 0), "the caller may talk on");
        world.pass(Duration::from_secs(10));
        if is_ended {
            hang_up(&mut world, ALICE, &from_caller("BYE", 61, &answered), 200);
        } else {
            let mut ended = Vec::new();
            let end = world.now + Duration::from_secs(86_401);
            world.memory.calls.lock().unwrap().expire(end, |record| ended.push(record));
            *world.memory.ended_calls.lock().unwrap() = ended;
        }
        let record = one(&world);
        let expected = if is_ended { (CallEnd::Bye, world.now) } else { (CallEnd::ByeRefused, refused) };
        assert_eq!((record.end, record.ended), expected);
    }
}

/// A user with a password cannot end the record of its own call with a BYE that goes elsewhere, whatever answers it.
#[test]
fn a_bye_that_leaves_the_dialog_ends_no_record() {
    let mut world = with_bob(World::closed());
    world.server.set_permanent_contacts(b"carol@example.org", &[b"sip:carol@192.0.2.30"]);
    let got = forwarded(proven(&mut world, ALICE, &invite("sip:bob@example.org"), "alice"));
    let answered = answer(&mut world, &got, 200);
    let mut cseq = 20;
    for uri in ["sip:carol@example.org", "sip:accomplice@203.0.113.7"] {
        for status in [200, 481, 0] {
            cseq += 2;
            let mut bye = request("BYE", uri).cseq(cseq).to(&answered.header("To"));
            (bye.from, bye.call_id) = (got.header("From"), got.header("Call-ID"));
            let sent = forwarded(proven(&mut world, ALICE, &bye, "alice"));
            match status {
                0 => drop(world.pass(Duration::from_secs(40))),
                status => drop(world.udp(&sent.to(), &sent.answer(status, &[]))),
            }
            assert_eq!((open(&world), records(&world).len()), (1, 0), "{uri} {status}");
        }
    }
    hang_up(&mut world, ALICE, &from_caller("BYE", 90, &answered), 200);
    assert_eq!(one(&world).end, CallEnd::Bye);
}

#[test]
fn requests_in_the_dialog_begin_and_end_nothing() {
    let mut world = with_bob(World::open());
    let got = forwarded(world.udp(ALICE, &invite("sip:bob@example.org")));
    let answered = answer(&mut world, &got, 200);
    let again = forwarded(world.udp(ALICE, &from_caller("INVITE", 2, &answered)));
    world.udp(BOB, &again.answer(488, &[]));
    let again = forwarded(world.udp(BOB, &from_callee("INVITE", 1, &got, &answered)));
    world.udp(ALICE, &again.answer(200, &[]));
    assert_eq!((open(&world), records(&world).len()), (1, 0));
    world.memory.calls.lock().unwrap().expire(world.now + Duration::from_secs(86_399), |_| panic!("early"));
    let mut ended = Vec::new();
    let end = world.now + Duration::from_secs(86_401);
    world.memory.calls.lock().unwrap().expire(end, |record| ended.push(record.end));
    assert_eq!(ended, [CallEnd::Unknown]);
}

/// The refusal is sent without a transaction, again for each copy of the INVITE.
#[test]
fn a_retransmitted_invite_is_one_call() {
    let mut world = World::open();
    let call = invite("sip:nobody@example.org");
    for _ in 0..5 {
        assert_eq!(only(world.udp(ALICE, &call)).status(), 404);
    }
    assert_eq!(one(&world).status, 404);
    assert_eq!(world.memory.calls.lock().unwrap().counters().records_repeated, 4);
    world.udp(ALICE, &call.clone().cseq(2));
    assert_eq!(one(&world).status, 404, "another attempt");
    let mut world = World::with(|config| config.mode = Mode::Redirect);
    world.register("bob", BOB, "<sip:bob@192.0.2.20>");
    for _ in 0..3 {
        assert_eq!(only(world.udp(ALICE, &invite("sip:bob@example.org"))).status(), 302);
    }
    let record = one(&world);
    assert_eq!((record.end, record.status, record.begun), (CallEnd::Redirected, 302, record.ended));
}

/// A copy of the INVITE with another branch.
fn copy(uri: &str, branch: &str) -> Request {
    invite(uri).via(&format!("SIP/2.0/UDP {ALICE};rport;branch=z9hG4bK{branch}"))
}

/// An upstream proxy sends one INVITE twice.
#[test]
fn an_invite_that_was_forked_before_is_one_call() {
    let mut world = with_bob(World::open());
    let first = forwarded(world.udp(ALICE, &copy("sip:bob@example.org", "1")));
    let second = forwarded(world.udp(ALICE, &copy("sip:bob@example.org", "2")));
    world.udp(BOB, &first.answer(486, &[]));
    assert_eq!((open(&world), records(&world).len()), (1, 0), "the other one still rings");
    let answered = answer(&mut world, &second, 200);
    hang_up(&mut world, ALICE, &from_caller("BYE", 2, &answered), 200);
    assert_eq!(one(&world).status, 200);
}

/// A caller cannot hide a call in another one by giving it the same Call-ID, From tag and CSeq number.
#[test]
fn a_call_with_the_names_of_another_one_has_a_record_of_its_own() {
    // Before its answer or after it; to another target, or to the same one.
    for (is_answered, uri) in
        [(true, "sip:x@203.0.113.66"), (false, "sip:x@203.0.113.66"), (true, "sip:bob@example.org")]
    {
        let mut world = with_bob(World::open());
        let first = forwarded(world.udp(ALICE, &copy("sip:bob@example.org", "1")));
        let mut answered = is_answered.then(|| answer(&mut world, &first, 200));
        let second = forwarded(world.udp(ALICE, &copy(uri, "2")));
        let target = format!("sip:x@{}", second.to());
        let ok = second.answer_tagged(200, "other", &[&format!("Contact: <{target}>")]);
        let ok = only(world.udp(&second.to(), &ok));
        let answered = answered.take().unwrap_or_else(|| answer(&mut world, &first, 200));
        assert_eq!(open(&world), 2, "{is_answered} {uri}");
        hang_up(&mut world, ALICE, &from_caller("BYE", 60, &answered), 200);
        assert_eq!((open(&world), records(&world).len()), (1, 1), "{is_answered} {uri}");
        let bye = Request { uri: target, ..from_caller("BYE", 61, &ok) };
        hang_up(&mut world, ALICE, &bye, 200);
        assert_eq!(one(&world).status, 200);
    }
    // More copies than are followed as one call.
    let mut world = with_bob(World::open());
    let copies: Vec<_> = (0..5)
        .map(|number| forwarded(world.udp(ALICE, &copy("sip:bob@example.org", &number.to_string()))))
        .collect();
    answer(&mut world, &copies[4], 200);
    copies[..4].iter().for_each(|copy| drop(world.udp(BOB, &copy.answer(486, &[]))));
    assert_eq!((open(&world), records(&world).len()), (1, 1));
}

/// Branches of old clients name no transaction alone.
#[test]
fn two_calls_with_one_via_have_a_record_each() {
    let mut world = with_bob(World::open());
    let call = |uri: &str| invite(uri).via(&format!("SIP/2.0/UDP {ALICE};rport;branch=1"));
    let first = forwarded(world.udp(ALICE, &call("sip:bob@example.org")));
    let second = forwarded(world.udp(ALICE, &call("sip:x@203.0.113.66")));
    assert_eq!(open(&world), 2);
    world.udp(&second.to(), &second.answer(486, &[]));
    assert_eq!((open(&world), records(&world).len()), (1, 1));
    let answered = answer(&mut world, &first, 200);
    hang_up(&mut world, ALICE, &from_caller("BYE", 60, &answered), 200);
    assert_eq!(one(&world).status, 200);
}

/// A client of TCP may use the branch again once its transaction is over.
#[test]
fn a_call_with_the_branch_of_one_that_has_failed_has_a_record() {
    let mut world = with_bob(World::open());
    let call = invite("sip:bob@example.org").tcp();
    let got = forwarded(world.tcp(7, ALICE, &call));
    let failed = world.udp(BOB, &got.answer(486, &[]));
    let failed = failed.iter().find(|sent| sent.to() == ALICE && sent.status() == 486).unwrap();
    let text = String::from_utf8(call.wire()).unwrap();
    let ack = text
        .replacen("INVITE sip", "ACK sip", 1)
        .replace("1 INVITE", "1 ACK")
        .replace(&format!("To: {}", call.to), &format!("To: {}", failed.header("To")));
    world.tcp(7, ALICE, &ack.into_bytes());
    assert_eq!(one(&world).status, 486);
    world.pass(Duration::from_secs(1));
    let again = text.replacen("sip:bob@example.org", "sip:x@203.0.113.66", 1);
    let got = forwarded(world.tcp(7, ALICE, &again.into_bytes()));
    world.udp(&got.to(), &got.answer(200, &["Contact: <sip:x@203.0.113.66>"]));
    assert_eq!(open(&world), 1);
}

/// The server finds the transaction of a response by its branch, whatever else the callee changes.
#[test]
fn an_answer_with_other_names_is_the_answer() {
    for (from, to) in
        [("CSeq: 1 INVITE", "CSeq: 77 INVITE"), ("Call-ID: call", "Call-ID: other"), (";tag=", ";tag=x")]
    {
        let mut world = with_bob(World::open());
        let got = forwarded(world.udp(ALICE, &invite("sip:bob@example.org")));
        for status in [180, 200] {
            let line = format!("Contact: <sip:bob@{BOB}>");
            let text = String::from_utf8(got.answer(status, &[&line]).wire()).unwrap();
            assert!(text.contains(from));
            world.udp(BOB, &text.replacen(from, to, 1).into_bytes());
        }
        let mut answered = 0;
        world.memory.calls.lock().unwrap().calls(0, 100, |call| {
            answered += usize::from(call.ringing.is_some() && call.answered.is_some());
        });
        assert_eq!(answered, 1, "{to}");
    }
}

/// The callee has Call-ID and From tag of the call; an INVITE with them takes nothing from its record.
#[test]
fn an_invite_with_the_names_of_another_call_changes_nothing() {
    let mut world = with_bob(World::open());
    let got = forwarded(world.udp(ALICE, &invite("sip:bob@example.org")));
    let answered = answer(&mut world, &got, 200);
    let mut forged = invite("sip:nobody@example.org");
    forged.via = format!("SIP/2.0/UDP {BOB};rport;branch=z9hG4bKforged");
    assert_eq!(only(world.udp(BOB, &forged)).status(), 404);
    let mut later = invite("sip:nobody@example.org").cseq(77);
    later.via = format!("SIP/2.0/UDP {BOB};rport;branch=z9hG4bKforged2");
    world.udp(BOB, &later);
    // Each is a call of its own, which cannot hide in this one.
    assert_eq!((open(&world), records(&world).len()), (1, 2));
    hang_up(&mut world, ALICE, &from_caller("BYE", 2, &answered), 200);
    assert_eq!(one(&world).status, 200);
}

#[test]
fn calls_with_one_call_id_are_distinguished_by_their_tags() {
    let mut world = with_bob(World::open());
    let mut other = invite("sip:bob@example.org").via(&format!("SIP/2.0/UDP {CAROL};branch=z9hG4bKother"));
    other.from = "<sip:carol@example.org>;tag=from-carol".into();
    let first = forwarded(world.udp(ALICE, &invite("sip:bob@example.org")));
    let second = forwarded(world.udp(CAROL, &other));
    assert_eq!(open(&world), 2);
    world.udp(BOB, &second.answer(486, &[]));
    let ended = records(&world);
    assert_eq!(ended.len(), 1);
    assert_eq!(ended[0].texts.from(), b"sip:carol@example.org");
    world.udp(BOB, &first.answer(603, &[]));
    assert_eq!(one(&world).status, 603);
}

/// The server sends the forwarded call to itself: two transactions, one call.
#[test]
fn a_forwarded_call_is_one_call_and_says_why() {
    let mut world = with_bob(World::open());
    world.server.set_permanent_contacts(b"carol@example.org", &[b"sip:carol@192.0.2.30"]);
    world.server.set_forwards(b"bob@example.org", crate::forwards::always("sip:carol@example.org"));
    let sent = udp(&mut world, ALICE, &invite("sip:bob@example.org"));
    let got = only(requests(sent));
    assert_eq!(got.to(), CAROL);
    udp(&mut world, CAROL, &got.answer(180, &[]));
    let sent = udp(&mut world, CAROL, &got.answer(200, &["Contact: <sip:carol@192.0.2.30>"]));
    let mut bye = from_caller("BYE", 2, sent.last().unwrap());
    bye.uri = "sip:carol@192.0.2.30".into();
    let got = only(requests(udp(&mut world, ALICE, &bye)));
    udp(&mut world, CAROL, &got.answer(200, &[]));
    let record = one(&world);
    assert_eq!((record.end, record.diverted.unwrap().name()), (CallEnd::Bye, "unconditional"));
    assert!(record.ringing.is_some());
    assert_eq!(record.target.as_deref(), Some(b"sip:carol@192.0.2.30".as_slice()));
    let got = only(requests(udp(&mut world, ALICE, &invite("sip:bob@example.org").call_id("busy"))));
    udp(&mut world, CAROL, &got.answer(486, &[]));
    assert_eq!(one(&world).end, CallEnd::Busy);
}

/// Step of a call, as a table gets it.
struct Steps {
    names: CallNames,
    table: CallTable,
    ended: Vec<CallRecord>,
    now: Instant,
}

impl Steps {
    fn new(calls_max: usize, bytes_max: usize) -> Self {
        let (seed, now) = (Seed::from_number(1), Instant::from_secs(1_800_000_000));
        let limits = CallLimits { calls_max, bytes_max, dialog_lifetime: Duration::from_secs(3600) };
        Self { names: CallNames::new(&seed), table: CallTable::new(limits, now), ended: Vec::new(), now }
    }

    fn step(&mut self, request: &Request, step: CallStep, sender: CallSender) {
        self.step_from(request, step, sender, ALICE);
    }

    fn step_from(&mut self, request: &Request, step: CallStep, sender: CallSender, from: &str) {
        let bytes = request.wire();
        let message = Message::parse(&bytes, &Limits::default()).unwrap();
        let flow = Some(Flow::udp(ListenerId(0), from.parse().unwrap()));
        let (message, parsed) = (&bytes[..], Some(&message));
        let mut user = Vec::new();
        let from = &parsed.unwrap().from().uri;
        from.unescaped_user_into(&mut user);
        user.extend([b"@", from.host().as_bytes()].concat());
        let user = (sender == CallSender::Proven).then_some(&user[..]);
        let event = CallEvent { parsed, flow, user, ..CallEvent::stored(step, message, sender) };
        let name = self.names.of(&event).unwrap();
        let Self { table, ended, now, .. } = self;
        table.on_step(*now, &name, &event, |record| ended.push(record));
    }
}

#[test]
fn a_full_table_displaces_the_calls_of_strangers_then_the_oldest() {
    let mut steps = Steps::new(4, 1 << 20);
    let call =
        |name: &str| invite("sip:bob@example.org").call_id(name).from(&format!("sip:{name}@example.org"));
    for (name, sender) in [
        ("own-1", CallSender::Proven),
        ("own-2", CallSender::Proven),
        ("strange-1", CallSender::Stranger),
        ("strange-2", CallSender::Stranger),
        ("strange-3", CallSender::Stranger),
        ("own-3", CallSender::Proven),
        ("own-4", CallSender::Proven),
        ("strange-4", CallSender::Stranger),
        ("own-5", CallSender::Proven),
    ] {
        steps.step(&call(name), CallStep::Begun, sender);
    }
    let dropped: Vec<_> = steps
        .ended
        .iter()
        .map(|record| String::from_utf8_lossy(record.texts.call_id()).into_owned())
        .collect();
    assert_eq!(dropped, ["strange-1", "strange-2", "strange-3", "own-1"]);
    assert!(steps.ended.iter().all(|record| record.end == CallEnd::Dropped));
    assert_eq!(steps.table.counters().records_dropped, 5, "strange-4 was never in");
    assert_eq!(steps.table.len(), 4);
}

/// One user, or one address, that opens more calls than the table has displaces its own, also when others begin new ones.
#[test]
fn a_full_table_of_one_user_displaces_its_calls_and_nobody_elses() {
    for sender in [CallSender::Proven, CallSender::Believed] {
        let mut steps = Steps::new(160, 8 << 20);
        let call = |user: &str, number: usize| {
            let name = format!("{user}-{number}");
            invite("sip:bob@example.org").call_id(&name).from(&format!("sip:{user}@example.org"))
        };
        let others: Vec<_> = (0..50).map(|number| call(&format!("other{number}"), 0)).collect();
        for (number, other) in others.iter().take(30).enumerate() {
            steps.step_from(other, CallStep::Begun, sender, &format!("192.0.9.{number}:5060"));
        }
        for number in 0..1000 {
            // Another spelling of the same user is the same user.
            let user = if number % 2 == 0 { "mallory" } else { "%6dallory" };
            steps.step(&call(user, number), CallStep::Begun, sender);
        }
        for (number, other) in others.iter().enumerate().skip(30) {
            steps.step_from(other, CallStep::Begun, sender, &format!("192.0.9.{number}:5060"));
        }
        let of_others = steps.ended.iter().filter(|record| record.texts.call_id().starts_with(b"other"));
        assert_eq!(of_others.count(), 0, "{sender:?}");
        let counters = steps.table.counters().clone();
        assert_eq!((steps.table.len(), steps.ended.len()), (160, 50 + 1000 - 160));
        assert_eq!((counters.records_dropped, counters.records_over_share), (890, 890));
        let oldest = steps.ended.iter().map(|record| record.texts.call_id().to_vec()).next();
        assert!(oldest.is_some_and(|call_id| call_id == b"mallory-0"));
        let mut ends = 0;
        steps.table.stop(steps.now, usize::MAX, |_| ends += 1);
        assert_eq!((ends, steps.table.len(), steps.table.bytes()), (160, 0, 0));
    }
}

#[test]
fn memory_is_bounded_and_long_fields_are_cut() {
    let mut steps = Steps::new(100_000, 64 << 10);
    for number in 0..5000 {
        let mut call = invite(&format!("sip:{}@example.org", "u".repeat(700)));
        call.call_id = format!("{number}-{}", "c".repeat(700));
        call.from = format!("<sip:{}@example.org>;tag={}", "f".repeat(700), "t".repeat(500));
        steps.step(&call, CallStep::Begun, CallSender::Stranger);
        assert!(steps.table.bytes() <= 64 << 10);
    }
    let counters = steps.table.counters().clone();
    assert_eq!(counters.records_begun, 5000);
    assert_eq!(counters.records_ended as usize + steps.table.len(), 5000);
    assert!(steps.ended.iter().all(|record| record.texts.len() <= 3 * 255));
    let (mut slot, mut listed) = (Some(0), 0);
    while let Some(first) = slot {
        slot = steps.table.calls(first, 7, |call| {
            assert!(call.texts.call_id().len() == 255 && call.answered.is_none());
            listed += 1;
        });
    }
    assert_eq!(listed, steps.table.len());
    steps
        .table
        .expire(steps.now + Duration::from_secs(5000), |record| assert_eq!(record.end, CallEnd::Unknown));
    assert_eq!((steps.table.len(), steps.table.bytes()), (0, 0));
}
